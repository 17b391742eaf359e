//! What a run can reach, what it cannot, and what it is told.

use std::net::{IpAddr, Ipv4Addr};

use ringfence_testing::Json;

use crate::published;
use crate::servers::{COUNTING, GREETING, LOCAL, SINK, STREAM, STREAM_BYTES, Servers};
use crate::support::World;

pub(crate) type Row = fn(&Servers);

/// The name server that rows name by `net_resolver`.
pub(crate) const RESOLVER: &str = "127.0.0.1:5300";

/// Where the web servers listen: `HOST@127.0.0.2/32` grants it.
pub(crate) const WEB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The rule that most rows use: the name may resolve to the servers' address.
pub(crate) const ALLOWED: &str = "allow:allowed.test@127.0.0.2/32";

/// A client for protocols that no tool speaks the way a row needs.
pub(crate) const PRELUDE: &str = r#"
import socket, ssl, sys, threading, time
def tcp(host, port, timeout=10):
    s = socket.create_connection((host, port), timeout)
    return s
def tls(host, port=443, sni=None):
    c = ssl.create_default_context(cafile="ca.pem")
    c.check_hostname = False
    s = c.wrap_socket(tcp(host, port), server_hostname=host if sni is None else sni or None)
    return s
def talk(s, text):
    s.sendall(text.replace("\n", "\r\n").encode())
    return s.recv(65536).decode()
def tried(work):
    try:
        return work()
    except Exception as e:
        return type(e).__name__ + ": " + str(e)
"#;

pub(crate) const ROWS: &[(&str, Row)] = &[
    ("no network names the host that was looked up", no_network_names_the_host),
    ("no network refuses an address with its grant", no_network_refuses_an_address),
    ("no network: curl, git and pip fail within three seconds", no_network_fails_fast),
    ("curl reaches an allowed host by TLS and by plain HTTP", curl_reaches_an_allowed_host),
    ("a host without a rule does not exist, and is named", another_host_is_refused),
    ("a denial names the program and not its thread", program_of_a_thread),
    ("nothing is asked on the host for a name without a rule", no_query_leaves),
    ("a port without a rule is refused with its grant", another_port_is_refused),
    ("a name that resolves to a private address needs a range", private_needs_a_range),
    ("an answer that changes is checked again", rebinding),
    ("mixed answers are dialled only where allowed", mixed_answers),
    ("the TLS handshake must name the host", sni_must_match),
    ("TLS on any port must name the host", sni_must_match_on_any_port),
    ("a raw address is refused", raw_address),
    ("an address by rule is reached", address_by_rule),
    ("plain HTTP must name the host in every request", every_request_is_judged),
    ("two Host headers, two lengths and lone returns are refused", malformed_http),
    ("HTTP by the proxy: allowed, refused with the grant, no other host inside", http_proxy),
    ("a tunnel of the proxy is judged like any other connection", proxy_tunnel_is_judged),
    ("SOCKS by name", socks),
    ("deny wins whatever the order", deny_wins),
    ("wildcards", wildcards),
    ("the host's own loopback by rule only", host_loopback),
    ("a held port on the run's own loopback is refused", own_loopback_is_not_captured),
    ("the run's own servers work", own_servers),
    ("server-first protocols and half-closed connections", server_first_and_half_close),
    ("64 MiB arrive whole and are counted", bytes_are_counted),
    ("500 connects at once", many_connects),
    ("a connection that the server keeps open is listed", kept_open),
    ("refused lookups do not push connections out of the list", lookups_do_not_hide_connections),
    ("any public host is none of the host's own addresses", own_public_address),
    ("descriptors of the caller do not reach the helper", no_descriptors_for_the_helper),
    ("an agent has its key's placeholder, its own directory and its project", agent),
    ("codex is told to use the key in the environment", codex_uses_a_key),
    ("UDP goes nowhere", udp_goes_nowhere),
    ("IPv6 is captured too", ipv6_is_captured),
    ("connections are rows of the ledger", ledger_rows),
    ("a dead or stopped helper means refusal within a second", dead_helper),
    ("a program in the background loses its connections with the run", ends_with_the_run),
    ("a published port leads to a server of the run", published::published_port),
    ("a published port is no way out of the run", published::publishing_opens_one_way),
    ("a port that cannot be published is a clear error", published::publishing_fails_clearly),
    ("bad rules are errors that name the rule", bad_rules),
    ("a resolver that is down is an error in time", resolver_down),
];

/// Forgets everything of the row before.
pub(crate) fn reset(servers: &Servers) {
    servers.clear();
    for name in ["allowed.test", "www.allowed.test", "other.test", "plain.test"] {
        servers.name(name, &[[WEB.into()]]);
    }
}

/// A world whose runs resolve names here and find the authority's certificate in their workspace.
pub(crate) fn world_of(servers: &Servers) -> World {
    let world = World::new().var("RINGFENCE_NET_RESOLVER", RESOLVER);
    world.write("work/ca.pem", &servers.ca_pem);
    let ca = world.write("ca.pem", &servers.ca_pem);
    world.var("RINGFENCE_NET_CA", ca.to_str().unwrap())
}

/// An address.
fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) struct Outcome(pub(crate) i32, pub(crate) Json);

impl Outcome {
    pub(crate) fn stdout(&self) -> &str {
        self.1["stdout"].as_str().unwrap()
    }

    /// `rule subject hint` of each denial.
    pub(crate) fn denials(&self) -> Vec<String> {
        let denials = self.1["denials"].as_array().unwrap().iter();
        let text = |denial: &Json, key: &str| denial[key].as_str().unwrap_or_default().to_owned();
        denials
            .map(|d| format!("{} {} | {}", text(d, "rule"), text(d, "subject"), text(d, "hint")))
            .collect()
    }

    pub(crate) fn denied(&self, words: &[&str]) {
        let denials = self.denials();
        let fits = |denial: &&String| words.iter().all(|word| denial.contains(word));
        assert!(
            denials.iter().any(|d| fits(&d)),
            "{words:?} in {denials:#?}\n{}",
            self.1["stderr"]
        );
    }

    pub(crate) fn connections(&self, verdict: &str) -> Vec<&Json> {
        let all = self.1["connections"].as_array().unwrap().iter();
        all.filter(|connection| connection["verdict"] == verdict).collect()
    }

    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.stdout().contains(words), "{words:?} in {}\n{}", self.stdout(), self.1);
        self
    }
}

pub(crate) fn sh(world: &World, net: &str, script: &str) -> Outcome {
    let (code, json) = world.sh_json(&["--net", net], script);
    Outcome(code, json)
}

fn python(world: &World, net: &str, program: &str) -> Outcome {
    let (code, json) = world.python(&["--net", net], &format!("{PRELUDE}\n{program}"));
    Outcome(code, json)
}

fn no_network_names_the_host(servers: &Servers) {
    let ran = sh(&world_of(servers), "none", "getent hosts allowed.test || echo none");
    ran.says("none").denied(&[
        "lookup(allowed.test)",
        "this run has no network",
        "--net allow:allowed.test",
    ]);
    let denial = &ran.1["denials"][0];
    assert_eq!(denial["program"], "getent");
    assert_eq!(ran.1["enforcement"]["network"], "none");
    assert!(servers.queries().is_empty());
}

fn no_network_refuses_an_address(servers: &Servers) {
    let ran = python(
        &world_of(servers),
        "none",
        "print(tried(lambda: tcp('192.0.2.7', 443)), tried(lambda: tcp('192.0.2.7', 8443)))",
    );
    ran.says("Network is unreachable")
        .denied(&["connect(192.0.2.7:443)", "--net allow:192.0.2.7`"]);
    ran.denied(&["connect(192.0.2.7:8443)", "--net allow:192.0.2.7:8443`"]);
}

fn no_network_fails_fast(servers: &Servers) {
    let world = world_of(servers);
    for (program, host) in [
        ("curl -sS https://registry.test/x", "registry.test"),
        ("git clone -q https://git.test/x", "git.test"),
        (
            "/usr/bin/python3 -m pip download --no-input --index-url https://pypi.test/simple six",
            "pypi.test",
        ),
    ] {
        let tool = program.split(' ').next().unwrap();
        let there = sh(&world, "none", &format!("command -v {tool}")).0 == 0;
        let pip =
            !tool.contains("python3") || sh(&world, "none", "/usr/bin/python3 -m pip -V").0 == 0;
        if !(there && pip) {
            ringfence_testing::missing("tools", &format!("`{program}` is not installed"));
            continue;
        }
        let ran = sh(&world, "none", program);
        assert_ne!(ran.0, 0, "{program}");
        ran.denied(&[&format!("lookup({host})"), "this run has no network"]);
        // Other work on the machine slows programs down. One that tries again takes much longer.
        let quiet = std::env::var_os("RINGFENCE_TEST_QUIET").is_some();
        let wall = ran.1["usage"]["wall_ms"].as_f64().unwrap();
        assert!(wall < if quiet { 3000.0 } else { 12_000.0 }, "{program} took {wall} ms");
    }
}

fn curl_reaches_an_allowed_host(servers: &Servers) {
    let world = world_of(servers);
    let ran = sh(
        &world,
        ALLOWED,
        "curl -sS --cacert ca.pem https://allowed.test/secure && curl -sS http://allowed.test/plain",
    );
    assert_eq!(ran.0, 0, "{}", ran.1);
    ran.says("GET /secure HTTP/1.1 for allowed.test").says("GET /plain HTTP/1.1 for allowed.test");
    let allowed = ran.connections("allowed");
    let ports: Vec<u64> = allowed.iter().map(|c| c["port"].as_u64().unwrap()).collect();
    assert_eq!(ports, [443, 80], "{allowed:#?}");
    for connection in allowed {
        assert_eq!(connection["host"], "allowed.test");
        assert_eq!(connection["address"], "127.0.0.2");
        assert_eq!(connection["rule"], "allowed.test@127.0.0.2/32");
        assert_eq!(connection["program"], "curl");
        assert!(connection["received_bytes"].as_u64().unwrap() > 50);
    }
    assert_eq!(ran.1["enforcement"]["network"], "allowlist");
    assert!(ran.denials().is_empty(), "{:?}", ran.denials());
}

fn another_host_is_refused(servers: &Servers) {
    let ran = sh(&world_of(servers), ALLOWED, "curl -sS https://other.test/ || echo failed");
    ran.says("failed").denied(&["lookup(other.test)", "`--net allow:other.test` does"]);
}

fn program_of_a_thread(servers: &Servers) {
    let program = "import ctypes
def work():
    # PR_SET_NAME
    ctypes.CDLL(None).prctl(15, b'worker')
    print(tried(lambda: tcp('other.test', 443)), tried(lambda: tcp('192.0.2.7', 8443)))
t = threading.Thread(target=work); t.start(); t.join()";
    // As Node 24 does: the file's name is left, such as python3.11.
    let first = "import ctypes; ctypes.CDLL(None).prctl(15, b'MainThread')
tried(lambda: tcp('other.test', 443)); tried(lambda: tcp('192.0.2.7', 8443))";
    for (net, program) in [("none", program), (ALLOWED, program), (ALLOWED, first)] {
        let ran = python(&world_of(servers), net, program);
        let denials = ran.1["denials"].as_array().unwrap();
        assert_eq!(denials.len(), 2, "{}", ran.1);
        for denial in denials {
            let name = denial["program"].as_str().unwrap();
            assert!(name == "python3" || program == first && name.starts_with("python3"), "{name}");
        }
    }
}

fn no_query_leaves(servers: &Servers) {
    let script =
        "for n in a b c; do getent hosts $n.secret.other.test; done; getent hosts allowed.test";
    let ran = sh(&world_of(servers), ALLOWED, script);
    assert_eq!(ran.0, 0, "{}", ran.1);
    // A lookup alone is answered inside, even for an allowed name.
    assert!(servers.queries().is_empty(), "{:?}", servers.queries());
    assert_eq!(ran.connections("denied").len(), 3, "{:?}", ran.denials());
}

fn another_port_is_refused(servers: &Servers) {
    let ran =
        python(&world_of(servers), ALLOWED, "print(tried(lambda: tcp('allowed.test', 8443)))");
    ran.says("refused").denied(&["connect(allowed.test:8443)", "--net allow:allowed.test:8443`"]);
}

fn private_needs_a_range(servers: &Servers) {
    let world = world_of(servers);
    let ran = python(&world, "allow:allowed.test", "print(tried(lambda: tls('allowed.test')))");
    ran.denied(&["connect(allowed.test:443)", "--net allow:allowed.test@127.0.0.2/32`"]);
    assert!(ran.stdout().contains("reset") || ran.stdout().contains("EOF"), "{}", ran.stdout());
    for private in ["10.1.2.3", "169.254.169.254", "192.168.0.1", "100.64.0.1", "0.0.0.0"] {
        servers.name("allowed.test", &[[ip(private)]]);
        let ran = python(&world, "allow:allowed.test", "print(tried(lambda: tls('allowed.test')))");
        ran.denied(&["connect(allowed.test:443)"]);
        assert!(ran.connections("allowed").is_empty(), "{private}");
    }
    // Forms of IPv6 that hold a private IPv4 address.
    for hidden in
        ["::ffff:10.1.2.3", "64:ff9b::a01:203", "2002:a01:203::1", "::1", "fd00::1", "fe80::1"]
    {
        servers.name("allowed.test", &[[ip(hidden)]]);
        let ran = python(&world, "allow:allowed.test", "print(tried(lambda: tls('allowed.test')))");
        ran.denied(&["connect(allowed.test:443)"]);
    }
}

fn rebinding(servers: &Servers) {
    // Allowed at first, the host's own loopback the second time.
    servers.name("allowed.test", &[[ip("127.0.0.2")], [ip("127.0.0.1")]]);
    let ran = python(
        &world_of(servers),
        "allow:allowed.test:7022@127.0.0.2/32",
        "for _ in range(2): print(tried(lambda: tcp('allowed.test', 7022).recv(4))); time.sleep(0.5)",
    );
    ran.says("SSH-").denied(&["connect(allowed.test:7022)"]);
    assert_eq!(ran.connections("allowed").len(), 1);
    assert_eq!(servers.queries().len(), 2);
}

fn mixed_answers(servers: &Servers) {
    servers.name("allowed.test", &[[ip("10.9.8.7"), ip("127.0.0.2")]]);
    let ran = python(
        &world_of(servers),
        "allow:allowed.test:7022@127.0.0.2/32",
        "print(tried(lambda: tcp('allowed.test', 7022).recv(4)))",
    );
    ran.says("SSH-");
    assert_eq!(ran.connections("allowed")[0]["address"], "127.0.0.2");
}

fn sni_must_match(servers: &Servers) {
    let program = "print(tried(lambda: tls('allowed.test', sni='other.test')))
print(tried(lambda: tls('allowed.test', sni='')))
s = tcp('allowed.test', 443); print('plain', repr(tried(lambda: talk(s, 'GET / HTTP/1.1\\nHost: other.test\\n\\n'))))
print(tried(lambda: talk(tls('allowed.test', sni='ALLOWED.test'), 'GET /upper HTTP/1.1\\nHost: allowed.test\\n\\n')))";
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.denied(&["connect(allowed.test:443)", "names other.test"]);
    ran.denied(&["connect(allowed.test:443)", "no SNI"]);
    ran.denied(&["connect(allowed.test:443)", "carries TLS"]);
    ran.says("GET /upper");
    assert_eq!(servers.requests().len(), 1, "{:?}", servers.requests());
}

fn sni_must_match_on_any_port(servers: &Servers) {
    let program = "print(tried(lambda: tls('allowed.test', 8443, sni='other.test')))
print(tried(lambda: talk(tls('allowed.test', 8443), 'GET /ok HTTP/1.1\\nHost: x\\n\\n')))";
    let ran = python(&world_of(servers), "allow:allowed.test:8443@127.0.0.2/32", program);
    ran.denied(&["connect(allowed.test:8443)", "names other.test"]);
    ran.says("GET /ok");
    assert_eq!(servers.requests().len(), 1);
}

fn raw_address(servers: &Servers) {
    let ran = python(
        &world_of(servers),
        ALLOWED,
        "print(tried(lambda: tls('127.0.0.2', sni='allowed.test')), tried(lambda: tls('192.0.2.9', sni='allowed.test')))",
    );
    ran.denied(&["connect(192.0.2.9:443)", "--net allow:192.0.2.9`"]);
    assert!(ran.connections("allowed").is_empty() && servers.requests().is_empty());
}

fn address_by_rule(servers: &Servers) {
    // The address is the run's own loopback; another one stands for a server elsewhere.
    let ran = python(
        &world_of(servers),
        "allow:192.0.2.9:7022",
        "print(tried(lambda: tcp('192.0.2.9', 7022).recv(4)))",
    );
    // There is no such host here: allowed, and not reachable.
    assert!(ran.denials().is_empty(), "{:?}", ran.denials());
    assert_eq!(ran.connections("failed").len(), 1, "{}", ran.1["connections"]);
}

fn every_request_is_judged(servers: &Servers) {
    let program = "s = tcp('allowed.test', 80)
print(talk(s, 'GET /one HTTP/1.1\\nHost: allowed.test\\n\\n'))
print(talk(s, 'GET /two HTTP/1.1\\nHost: other.test\\n\\n'))
s = tcp('allowed.test', 80)
s.sendall(b'GET /three HTTP/1.1\\r\\nHost: ALLOWED.TEST:80\\r\\n\\r\\nGET /four HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n')
time.sleep(0.5); print(s.recv(65536).decode())
print(talk(tcp('allowed.test', 80), 'GET http://other.test/five HTTP/1.1\\nHost: allowed.test\\n\\n'))
print(talk(tcp('allowed.test', 80), 'GET /six HTTP/1.0\\n\\n'))";
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.says("GET /one").says("GET /three").says("403 Forbidden").says("no Host header");
    ran.denied(&["connect(allowed.test:80)", "names other.test"]);
    let requests = servers.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
}

fn malformed_http(servers: &Servers) {
    let program = r"for head in [
    'Host: allowed.test\r\nHost: other.test\r\n',
    'Host: allowed.test\r\nContent-Length: 0\r\nContent-Length: 9\r\n',
    'Host: allowed.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n',
    'Host: allowed.test\r\nX: a\rHost: other.test\r\n',
    'Host: allowed.test@other.test\r\n',
    'Host: allowed.test:99999\r\n',
    'Host: allowed.test.\x00.other.test\r\n',
    'Host : other.test\r\nHost: allowed.test\r\n',
]:
    s = tcp('allowed.test', 80)
    s.sendall(('POST /bad HTTP/1.1\r\n' + head + '\r\n').encode())
    s.settimeout(3)
    print(repr(tried(lambda: s.recv(65536).decode()[:40])))
s = tcp('allowed.test', 80); print(talk(s, 'PRI * HTTP/2.0\n\nSM\n\n')[:40])";
    let ran = python(&world_of(servers), ALLOWED, program);
    let requests = servers.requests();
    for request in &requests {
        // hyper prefers the encoding over a length, and drops the length: one unambiguous request arrives.
        assert!(!request.contains("other.test"), "{request}");
        assert!(
            !(request.contains("content-length") && request.contains("transfer-encoding")),
            "{request}"
        );
    }
    assert!(requests.len() <= 1, "{requests:#?}\n{}", ran.stdout());
}

fn http_proxy(servers: &Servers) {
    let world = world_of(servers);
    let script = "P='--proxy http://127.0.0.1:3128'
curl -sS $P http://allowed.test/plain
curl -sS $P --proxytunnel --cacert ca.pem https://allowed.test/secure
curl -sS $P http://other.test/; curl -sS $P https://other.test/ 2>&1
curl -sS $P -H 'Host: other.test' http://allowed.test/x
curl -sS $P http://127.0.0.1:8123/ ; curl -sS $P http://[::1]:8123/ ; curl -sS $P http://allowed.test:8080/";
    let ran = sh(&world, ALLOWED, script);
    ran.says("GET /plain HTTP/1.1 for allowed.test").says("GET /secure");
    ran.says("no rule allows other.test:80; the rule `other.test` would").says("different hosts");
    ran.denied(&["connect(other.test:80)", "--net allow:other.test`"]);
    ran.denied(&["connect(other.test:443)"]);
    ran.denied(&["connect(allowed.test:8080)"]);
    ran.denied(&["connect(127.0.0.1:8123)"]);
    let doors: Vec<_> = ran.connections("allowed").iter().map(|c| c["door"].clone()).collect();
    assert_eq!(doors, ["http_proxy", "http_proxy"]);
    assert_eq!(servers.requests().len(), 2, "{:?}", servers.requests());
    // No header of the proxy reaches the server.
    assert!(!servers.requests().iter().any(|r| r.to_lowercase().contains("proxy-")));
}

fn proxy_tunnel_is_judged(servers: &Servers) {
    let program = "def tunnel(to, sni):
    s = tcp('127.0.0.1', 3128)
    head = talk(s, 'CONNECT ' + to + ' HTTP/1.1\\nHost: ' + to + '\\n\\n')
    if ' 200 ' not in head: return head.split()[1]
    c = ssl.create_default_context(cafile='ca.pem'); c.check_hostname = False
    return c.wrap_socket(s, server_hostname=sni).version()
print(1, tried(lambda: tunnel('allowed.test:443', 'allowed.test')))
print(2, tried(lambda: tunnel('allowed.test:443', 'other.test')))
print(3, tried(lambda: tunnel('127.0.0.2:443', 'allowed.test')))
print(4, tried(lambda: tunnel('allowed.test:22', 'allowed.test')))
print(5, tried(lambda: tunnel('allowed.test.:443', 'allowed.test')))
s = tcp('127.0.0.1', 3128); talk(s, 'CONNECT allowed.test:80 HTTP/1.1\\nHost: allowed.test\\n\\n')
print(6, talk(s, 'GET /t HTTP/1.1\\nHost: other.test\\n\\n'))";
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.says("1 TLSv1.3").says("3 403").says("4 403").says("5 TLSv1.3").says("6 HTTP/1.1 403");
    ran.denied(&["connect(allowed.test:443)", "names other.test"]);
    assert!(servers.requests().is_empty(), "{:?}", servers.requests());
}

fn socks(servers: &Servers) {
    let program = r"def socks(name, port):
    s = tcp('127.0.0.1', 3128)
    s.sendall(b'\x05\x01\x00'); assert s.recv(2) == b'\x05\x00'
    s.sendall(b'\x05\x01\x00\x03' + bytes([len(name)]) + name + port.to_bytes(2, 'big'))
    return s, s.recv(10)[1]
s, code = socks(b'allowed.test', 7022); print('first', code, s.recv(4))
for name, port in [(b'other.test', 443), (b'allowed.test\x00.other.test', 7022), (b'other.test\x00.allowed.test', 7022), (b'127.0.0.1', 8123), (b'allowed.test', 22)]:
    print(name, port, tried(lambda: socks(name, port)[1]))
print(tried(lambda: socks(b'ALLOWED.TEST.', 7022)[0].recv(4)))";
    let ran = python(&world_of(servers), "allow:allowed.test:7022@127.0.0.2/32", program);
    ran.says("first 0 b'SSH-'")
        .says("b'other.test' 443 2")
        .says("b'allowed.test' 22 2")
        .says("\nb'SSH-'");
    ran.denied(&["connect(other.test:443)"]);
    let hosts: Vec<_> = ran.connections("allowed").iter().map(|c| c["host"].clone()).collect();
    assert_eq!(hosts, ["allowed.test", "allowed.test"]);
}

fn deny_wins(servers: &Servers) {
    for rules in [
        "allow:**.allowed.test@127.0.0.2/32,deny:www.allowed.test",
        "allow:deny:www.allowed.test,**.allowed.test@127.0.0.2/32",
    ] {
        let script = "curl -sS --cacert ca.pem https://allowed.test/; curl -sS --cacert ca.pem https://www.allowed.test/";
        let ran = sh(&world_of(servers), rules, script);
        ran.says("for allowed.test").denied(&["lookup(www.allowed.test)", "deny:www.allowed.test"]);
    }
}

fn wildcards(servers: &Servers) {
    let script = "curl -sS --cacert ca.pem https://allowed.test/; curl -sS --cacert ca.pem https://www.allowed.test/";
    let ran = sh(&world_of(servers), "allow:*.allowed.test@127.0.0.2/32", script);
    ran.says("for www.allowed.test").denied(&["lookup(allowed.test)"]);
}

fn host_loopback(servers: &Servers) {
    let world = world_of(servers);
    let script =
        format!("curl -sS http://localhost:{LOCAL}/a; curl -sS http://127.0.0.1:{LOCAL}/b");
    let ran = sh(&world, &format!("allow:localhost:{LOCAL}"), &script);
    ran.says("GET /a").says("GET /b");
    let ran = sh(&world, ALLOWED, &format!("{script} || echo failed"));
    ran.says("failed");
    assert!(!ran.stdout().contains("GET"));
}

fn own_loopback_is_not_captured(servers: &Servers) {
    let program = "for host in ['127.0.0.1', '::1', '127.9.9.9', '0.0.0.0', '::ffff:127.0.0.1']:
    s = tried(lambda: tcp(host, 443))
    print(host, s if isinstance(s, str) else tried(lambda: s.recv(1)))";
    let ran = python(&world_of(servers), ALLOWED, program);
    assert!(ran.connections("allowed").is_empty(), "{}", ran.1);
    assert_eq!(ran.stdout().matches("reset").count(), 5, "{}", ran.stdout());
}

fn own_servers(servers: &Servers) {
    let program = "def serve(port, host='127.0.0.1'):
    l = socket.create_server((host, port)); threading.Thread(target=lambda: l.accept()[0].sendall(b'own'), daemon=True).start()
    return tcp('127.0.0.1', port).recv(3)
for port in [8080, 5432, 53, 80, 443]: print(port, tried(lambda: serve(port)))";
    let ran = python(&world_of(servers), "none", program);
    ran.says("8080 b'own'").says("5432 b'own'");
    let low = ran
        .stdout()
        .lines()
        .filter(|line| line.contains("Permission") || line.contains("in use"))
        .count();
    assert_eq!(low, 3, "{}", ran.stdout());
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.says("8080 b'own'");
}

fn server_first_and_half_close(servers: &Servers) {
    let program = format!(
        "s = tcp('allowed.test', {GREETING}); print(s.recv(64)); s.sendall(b'echo'); print(s.recv(4))
s = tcp('allowed.test', {COUNTING}); s.sendall(b'x' * 300000); s.shutdown(socket.SHUT_WR); print(s.makefile('rb').read())"
    );
    let rules =
        format!("allow:allowed.test:{GREETING}@127.0.0.2/32,allowed.test:{COUNTING}@127.0.0.2/32");
    let ran = python(&world_of(servers), &rules, &program);
    ran.says("SSH-2.0-test").says("b'echo'").says("300000 bytes");
    let allowed = ran.connections("allowed");
    let counting = allowed.iter().find(|c| c["port"] == COUNTING).unwrap();
    assert_eq!(counting["sent_bytes"], 300_000u64);
}

fn bytes_are_counted(servers: &Servers) {
    let program = format!(
        "s = tcp('allowed.test', {STREAM}); n = 0
while True:
    b = s.recv(1 << 20)
    if not b: break
    n += len(b)
print(n)"
    );
    let ran =
        python(&world_of(servers), &format!("allow:allowed.test:{STREAM}@127.0.0.2/32"), &program);
    assert_eq!(ran.stdout().trim(), STREAM_BYTES.to_string());
    assert_eq!(ran.connections("allowed")[0]["received_bytes"], STREAM_BYTES);
}

fn many_connects(servers: &Servers) {
    let program = format!(
        "ok = []; bad = []
def one():
    r = tried(lambda: tcp('allowed.test', {GREETING}, 30).recv(4))
    (ok if r == b'SSH-' else bad).append(r)
ts = [threading.Thread(target=one) for _ in range(500)]
[t.start() for t in ts]; [t.join() for t in ts]
print(len(ok), len(bad), bad[:3])"
    );
    let world = world_of(servers);
    let rules = format!("allow:allowed.test:{GREETING}@127.0.0.2/32");
    let (_, json) = world.python(
        &["--net", &rules, "--pids", "1000", "--fds", "2000"],
        &format!("{PRELUDE}\n{program}"),
    );
    assert_eq!(json["stdout"].as_str().unwrap().trim(), "500 0 []", "{}", json["stderr"]);
    let allowed = json["connections"].as_array().unwrap().len();
    assert_eq!(allowed, 500);
}

fn kept_open(servers: &Servers) {
    let rules = format!("allow:allowed.test:{SINK}@127.0.0.2/32");
    let program = format!("s = tcp('allowed.test', {SINK}); s.sendall(b'x' * 1000000); s.close()");
    let ran = python(&world_of(servers), &rules, &program);
    assert_eq!(ran.connections("allowed").len(), 1, "{}", ran.1);
    assert_eq!(ran.connections("allowed")[0]["sent_bytes"], 1_000_000u64);
}

fn lookups_do_not_hide_connections(servers: &Servers) {
    let rules = format!("allow:allowed.test:{GREETING}@127.0.0.2/32");
    let program = format!(
        "for i in range(400): tried(lambda: socket.getaddrinfo('n%d.evil.test' % i, 80))
print(tcp('allowed.test', {GREETING}).recv(4))"
    );
    let ran = python(&world_of(servers), &rules, &program);
    ran.says("SSH-");
    assert_eq!(ran.connections("allowed").len(), 1);
    assert_eq!(ran.connections("denied").len(), 256);
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("further connections are not listed"), "{gaps}");
}

fn own_public_address(servers: &Servers) {
    servers.name("own.test", &[[ip("93.184.216.34")]]);
    servers.name("mapped.test", &[[ip("::ffff:93.184.216.37")]]);
    let script = "curl -sS -m 5 http://93.184.216.34/; curl -sS -m 5 --proxy http://127.0.0.1:3128 http://93.184.216.35/
curl -sS -m 5 --socks5-hostname 127.0.0.1:3128 http://93.184.216.36/; curl -sS -m 5 http://own.test/; curl -sS -m 5 http://mapped.test/";
    let ran = sh(&world_of(servers), "allow:*", script);
    for host in [
        "93.184.216.34:80",
        "93.184.216.35:80",
        "93.184.216.36:80",
        "own.test:80",
        "mapped.test:80",
    ] {
        let denied = ran.1["denials"].as_array().unwrap().iter().any(|denial| {
            denial["subject"] == format!("connect({host})").as_str()
                && denial["argument"]
                    .as_str()
                    .is_some_and(|why| why.contains("the host's own address"))
        });
        assert!(denied, "{host}: {}", ran.1["connections"]);
    }
    assert!(servers.requests().is_empty());
}

fn no_descriptors_for_the_helper(servers: &Servers) {
    let world = world_of(servers);
    let rules = format!("allow:allowed.test:{GREETING}@127.0.0.2/32");
    let program = format!(
        "{PRELUDE}\ns = tcp('allowed.test', {GREETING}); s.recv(64); print('up', flush=True); sys.stdin.readline()"
    );
    // Inherited by every process that this one starts.
    let secret = std::fs::File::open(world.write("secret", "x")).unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let live = world.live(&["run", "--net", &rules, "--", "/usr/bin/python3", "-c", &program]);
    drop(secret);
    let helper = helper_of(&live);
    let fds = std::fs::read_dir(format!("/proc/{helper}/fd"));
    // Of a helper that is not dumpable only root sees them.
    for fd in fds.into_iter().flatten().flatten() {
        let target = std::fs::read_link(fd.path()).unwrap_or_default();
        assert!(!target.ends_with("secret"), "{}", target.display());
    }
    drop(live.end());
}

/// Writes a stand-in for an agent's program, where its installer puts it.
fn install(world: &World, name: &str, script: &str) {
    let program = world.write(&format!("home/.local/bin/{name}"), script);
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(program, mode).unwrap();
}

fn with_local_programs(world: World) -> World {
    let path = format!("{}/.local/bin:/usr/bin:/bin", world.home().display());
    world.var("PATH", &path)
}

fn codex_uses_a_key(servers: &Servers) {
    let run = |world: World| {
        install(&world, "codex", "#!/bin/sh\necho \"args=$*\"\n");
        let ran = with_local_programs(world).ringfence(&["agent", "codex", "exec", "hello"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran
    };
    let ran = run(world_of(servers).var("OPENAI_API_KEY", ""));
    assert_eq!(ran.stdout, "args=-c sandbox_mode=danger-full-access exec hello\n");
    assert!(ran.stderr.contains("codex has to log in inside"), "{}", ran.stderr);
    let ran =
        run(world_of(servers).var("OPENAI_API_KEY", concat!("sk-pr", "oj-C4n4ryCODEX1234567890")));
    let first = "args=-c sandbox_mode=danger-full-access -c model_provider=openai-key -c ";
    assert!(ran.stdout.starts_with(first), "{}", ran.stdout);
    assert!(ran.stdout.contains(r#"env_key="OPENAI_API_KEY""#), "{}", ran.stdout);
    assert!(ran.stdout.ends_with(" exec hello\n"), "{}", ran.stdout);
}

fn agent(servers: &Servers) {
    let key = concat!("sk-an", "t-api03-C4n4ryAGENT-1234567890");
    servers.name("api.anthropic.com", &[[ip("127.0.0.2")]]);
    let world = world_of(servers).var("ANTHROPIC_API_KEY", key);
    let script = r#"#!/bin/sh
echo "dir=$CLAUDE_CONFIG_DIR key=$ANTHROPIC_API_KEY args=$*"
cat "$CLAUDE_CONFIG_DIR/settings.json" 2>/dev/null; ls -A "$HOME"
echo state >> "$CLAUDE_CONFIG_DIR/state"; wc -l < "$CLAUDE_CONFIG_DIR/state"
echo made > made.txt
curl -sS -H "x-api-key: $ANTHROPIC_API_KEY" -H "Authorization: Bearer $ANTHROPIC_API_KEY" https://api.anthropic.com/v1/messages
curl -sS -m 5 https://other.test/ || true
getent hosts platform.claude.com
"#;
    install(&world, "claude", script);
    world.write("home/.claude/settings.json", r#"{"hooks": "the host's own"}"#);
    world.write("home/.aws/credentials", "secret");
    let world = with_local_programs(world);
    let rules = "allow:api.anthropic.com@127.0.0.2/32";
    for n in 1..=2 {
        let ran = world.ringfence(&["agent", "--net", rules, "claude", "-p", "hello", "--verbose"]);
        assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("args=-p hello --verbose"), "{}", ran.stdout);
        // Asked at the first start in a terminal.
        assert!(ran.stdout.contains(" platform.claude.com\n"), "{}", ran.stdout);
        assert!(ran.stdout.contains(&format!("\n{n}\n")), "{}", ran.stdout);
        assert!(
            !ran.stdout.contains("the host's own") && !ran.stdout.contains(".aws"),
            "{}",
            ran.stdout
        );
        assert!(
            !ran.stdout.contains("C4n4ry") && ran.stdout.contains(concat!("sk-an", "t-api03-")),
            "{}",
            ran.stdout
        );
    }
    assert!(servers.requests().iter().all(|r| r.contains(key)) && servers.requests().len() == 2);
    assert!(world.work().join("made.txt").exists());
    assert!(!world.home().join(".claude/state").exists());
    let listed = world.ringfence(&["audit", "ls", "--tool", "agent", "--json"]);
    assert!(listed.stdout.contains("\"agent\""), "{}", listed.stdout);
    let unknown = world.ringfence(&["agent", "cluade"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("claude"), "{}", unknown.stderr);
}

fn udp_goes_nowhere(servers: &Servers) {
    let program = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3)
s.sendto(b'x', ('192.0.2.1', 443)); print(tried(lambda: s.recv(1)))
s.sendto(b'x', ('127.0.0.1', 5300)); print(tried(lambda: s.recv(1)))";
    let ran = python(&world_of(servers), ALLOWED, program);
    assert!(servers.queries().is_empty());
    assert!(!ran.stdout().contains("b'"), "{}", ran.stdout());
}

fn ipv6_is_captured(servers: &Servers) {
    let ran = python(
        &world_of(servers),
        ALLOWED,
        "print(tried(lambda: tcp('2001:db8::7', 443).recv(1)), tried(lambda: tcp('2001:db8::7', 8443)))",
    );
    ran.denied(&["connect(2001:db8::7:443)", "--net allow:[2001:db8::7]`"]);
    ran.denied(&["connect(2001:db8::7:8443)", "--net allow:[2001:db8::7]:8443`"]);
}

fn ledger_rows(servers: &Servers) {
    let world = world_of(servers);
    let ran = sh(&world, ALLOWED, "curl -sS http://allowed.test/; curl -sS http://other.test/");
    let run_id = ran.1["run_id"].as_str().unwrap();
    let listed = world.ringfence(&["audit", "ls", "--tool", "network", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let rows = Json::parse(&listed.stdout)["records"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 2, "{}", listed.stdout);
    assert!(rows.iter().all(|row| row["run_id"] == run_id), "{}", listed.stdout);
    assert!(listed.stdout.contains("allowed.test:80") && listed.stdout.contains("other.test"));
    let verified = world.ringfence(&["audit", "verify"]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
}

/// The network helper of a run that goes on.
fn helper_of(live: &crate::support::Live) -> i32 {
    let processes = ringfence_sys::list_kernel_directory("/proc").unwrap().into_iter();
    let helper = processes.filter_map(|name| name.to_str()?.parse::<i32>().ok()).find(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        cmdline.starts_with(b"ringfence-network")
            && parent == Some(live.pid().as_raw_nonzero().get())
    });
    helper.expect("a helper")
}

fn dead_helper(servers: &Servers) {
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::STOP] {
        ended_helper(servers, signal);
    }
}

fn ended_helper(servers: &Servers, signal: rustix::process::Signal) {
    let world = world_of(servers);
    let program = format!(
        "{PRELUDE}
s = tcp('allowed.test', {GREETING}); s.recv(64); print('up', flush=True)
sys.stdin.readline()
began = time.time()
print(tried(lambda: s.recv(1)))
in_time = time.time() - began < 1
# A lookup that is sent while the helper's sockets close one after the other is lost.
time.sleep(0.2); began = time.time()
print(tried(lambda: tcp('allowed.test', {GREETING}).recv(1)))
print(tried(lambda: tcp('198.18.0.9', {GREETING}).recv(1)), in_time and time.time() - began < 1.5)"
    );
    let rules = format!("allow:allowed.test:{GREETING}@127.0.0.2/32");
    let args = ["run", "--net", &rules, "--", "/usr/bin/python3", "-c", &program];
    let live = world.live(&args);
    let helper = rustix::process::Pid::from_raw(helper_of(&live)).unwrap();
    rustix::process::kill_process(helper, signal).unwrap();
    let (code, rest) = live.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("refused") && rest.ends_with("True\n"), "{rest}");
}

fn ends_with_the_run(servers: &Servers) {
    let program = format!(
        "ss = [tcp('allowed.test', {GREETING}) for _ in range(300)]; print(len(ss), flush=True); time.sleep(60)"
    );
    let world = world_of(servers);
    let rules = format!("allow:allowed.test:{GREETING}@127.0.0.2/32");
    let flags = ["--net", &rules, "--timeout", "10s", "--fds", "2000"];
    let (_, json) = world.python(&flags, &format!("{PRELUDE}\n{program}"));
    assert_eq!(json["status"], "timeout");
    assert_eq!(json["stdout"].as_str().unwrap().trim(), "300");
    assert_eq!(json["connections"].as_array().unwrap().len(), 300, "{}", json["enforcement"]);
    // Of this test's own network namespace: other programs of the host may have helpers too.
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let left = ringfence_sys::list_kernel_directory("/proc").unwrap().into_iter().filter(|name| {
        let at = std::path::Path::new("/proc").join(name);
        std::fs::read_link(at.join("ns/net")).is_ok_and(|namespace| namespace == own)
            && std::fs::read(at.join("cmdline"))
                .is_ok_and(|line| line.starts_with(b"ringfence-network"))
    });
    assert_eq!(left.count(), 0, "a helper is left");
}

/// A value that is found nowhere but where it belongs.
pub(crate) const CANARY: &str = concat!("sk-an", "t-api03-C4n4ryVALUE-9f8e7d6c5b");

fn bad_rules(servers: &Servers) {
    let world = world_of(servers);
    for (rules, words) in [
        ("allow:", "names no host"),
        ("allow:exa mple.com", "exa mple.com"),
        ("allow:*.com", "!"),
        ("allow:a.test,deny:a.test", "contradict"),
        ("allow:localhost", "localhost:5432"),
        ("allow:pipy", "pipy"),
        ("allow:a.test:99999", "99999"),
        ("all:x", "none, allow:HOST, or allow:*"),
    ] {
        let ran = world.ringfence(&["run", "--net", rules, "--", "true"]);
        assert_eq!(ran.code, 2, "{rules}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{rules}: {}", ran.stderr);
    }
}

fn resolver_down(servers: &Servers) {
    let world = world_of(servers).var("RINGFENCE_NET_RESOLVER", "127.0.0.1:5399");
    let ran = sh(
        &world,
        ALLOWED,
        "curl -sS -m 20 http://allowed.test/; echo; curl -sS -m 20 --cacert ca.pem https://allowed.test/ || true",
    );
    assert_eq!(ran.connections("failed").len(), 2, "{}", ran.1["connections"]);
    ran.says("cannot resolve allowed.test");
}

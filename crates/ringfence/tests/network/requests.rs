//! Rules about single requests, limits of a run's network, and the operator's upstream proxy.

use crate::rows::{ALLOWED, Outcome, PRELUDE, Row, WEB, reset, sh, world_of};
use crate::servers::{STREAM, STREAM_BYTES, Servers};

pub(crate) const ROWS: &[(&str, Row)] = &[
    ("requests are judged by method and path, also under TLS", requests_by_method_and_path),
    ("a limit of bytes, connections or requests ends what passes it", limits),
    ("public hosts are reached through the operator's proxy", upstream_proxy),
];

fn requests_by_method_and_path(servers: &Servers) {
    let world = world_of(servers);
    let rules =
        "allow:allowed.test@127.0.0.2/32,other.test@127.0.0.2/32,allowed.test:8443@127.0.0.2/32";
    let script = "say() { curl -sS -o out -w '%{http_code} ' \"$@\" || echo failed; head -c 200 out; echo; }
        say https://allowed.test/v1/ok; say http://allowed.test/v1/plain
        say -X POST -d x https://allowed.test/v1/posted; say --path-as-is https://allowed.test/v1/../v2
        say https://allowed.test/v2; say http://allowed.test/v10; say -I https://allowed.test/v1/head
        say -x http://127.0.0.1:3128 https://allowed.test/v2/tunnel; say -X POST -d x https://allowed.test/hook
        say --cacert ca.pem https://other.test/anything
        say -H 'X-HTTP-Method-Override: DELETE' https://allowed.test/v1/ok; say https://allowed.test/v1/%25%32%65%25%32%65/v2";
    let flags = [
        "--net",
        rules,
        "--net-request",
        "GET,HEAD allowed.test/v1",
        "--net-request",
        "POST allowed.test/hook",
    ];
    let (code, json) = world.sh_json(&flags, script);
    let ran = Outcome(code, json);
    let codes: Vec<&str> = ran
        .stdout()
        .lines()
        .filter_map(|l| l.get(..3).filter(|c| c.parse::<u16>().is_ok()))
        .collect();
    assert_eq!(
        codes,
        ["200", "200", "403", "403", "403", "403", "200", "403", "200", "200", "403", "403"],
        "{}",
        ran.1
    );
    ran.says("no rule about requests to allowed.test allows `POST /v1/posted`");
    ran.denied(&["connect(allowed.test:443)", "`GET /v2`"]);
    // The certificate of the host itself is checked, and TLS to a host without such a rule is end to end.
    assert!(servers.requests().iter().all(|r| !r.contains("/v2") && !r.contains("/v10")));
    // Nor is TLS on the port of plain HTTP a way around it.
    let (code, json) = world.sh_json(&flags, "curl -sS -k https://allowed.test:80/v2");
    assert_ne!(code, 0, "{json}");
    Outcome(code, json).denied(&["connect(allowed.test:80)", "judged one by one"]);
    // A port that no rule about requests names carries nothing.
    let (code, json) =
        world.sh_json(&flags, "curl -sS --cacert ca.pem https://allowed.test:8443/v1/x");
    assert_ne!(code, 0, "{json}");
    Outcome(code, json).denied(&["connect(allowed.test:8443)", "names port 8443"]);
    let ran = world.ringfence(&[
        "run",
        "--net",
        "allow:other.test",
        "--net-request",
        "GET x.test",
        "--",
        "true",
    ]);
    assert!(ran.code != 0 && ran.stderr.contains("--net allow:x.test"), "{}", ran.stderr);
}

fn limits(servers: &Servers) {
    let world = world_of(servers);
    let stream = format!("allow:allowed.test:{STREAM}@127.0.0.2/32,allowed.test@127.0.0.2/32");
    let program = format!(
        "{PRELUDE}\ns = tcp('allowed.test', {STREAM}); n = 0\nwhile True:\n  try:\n    got = s.recv(65536)\n  except OSError:\n    break\n  if not got: break\n  n += len(got)\nprint(n)"
    );
    let (_, json) = world.python(&["--net", &stream, "--net-limit", "bytes=1M"], &program);
    let n: u64 = json["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!((1 << 19..=(1 << 20) + (1 << 16)).contains(&n), "{n} bytes arrived of {STREAM_BYTES}");
    Outcome(0, json).denied(&["connect(allowed.test:", "`bytes=1M`", "used up"]);
    let three = "for i in 1 2 3; do curl -s -o /dev/null -w '%{http_code} ' http://allowed.test/$i || echo no; done";
    let (_, json) = world.sh_json(&["--net", ALLOWED, "--net-limit", "connections=2"], three);
    let ran = Outcome(0, json);
    assert!(
        ran.stdout().starts_with("200 200 ") && !ran.stdout().contains("200 200 200"),
        "{}",
        ran.1
    );
    ran.denied(&["`connections=2`"]);
    let (_, json) = world.sh_json(
        &["--net", ALLOWED, "--net-limit", "requests=1@*.test", "--net-limit", "requests=1@x.test"],
        three,
    );
    let ran = Outcome(0, json);
    assert!(ran.stdout().starts_with("200 403 403"), "{}", ran.1);
    // A workspace can lower its run's limits.
    world.write("work/ringfence.toml", "net_limit = [\"connections=1\"]");
    let (_, json) = world.sh_json(&["--net", ALLOWED, "--net-limit", "connections=9"], three);
    Outcome(0, json).denied(&["`connections=1`"]);
}

/// Serves CONNECT on a port of its own: tells who asked for which host, and connects to the web servers or refuses.
fn connect_proxy(status: &'static str) -> (u16, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(client.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let _ = tell.send(head);
            let mut client = client;
            if status != "200 OK" {
                let _ = write!(client, "HTTP/1.1 {status}\r\n\r\n");
                continue;
            }
            let port = target.rsplit(':').next().unwrap().parse::<u16>().unwrap();
            let mut server = std::net::TcpStream::connect((WEB, port)).unwrap();
            write!(client, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut server));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut down, &mut client);
                let _ = client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    (port, told)
}

fn upstream_proxy(servers: &Servers) {
    // Only the proxy knows the name.
    servers.clear();
    let script = "curl -sS --cacert ca.pem https://allowed.test/secure && curl -sS http://allowed.test/plain";
    let (port, told) = connect_proxy("200 OK");
    let proxy = format!("http://user:{}@127.0.0.1:{port}", "pa55");
    let world = world_of(servers).var("RINGFENCE_NET_PROXY", &proxy);
    let ran = sh(&world, "allow:allowed.test", script);
    assert_eq!(ran.0, 0, "{}", ran.1);
    ran.says("GET /secure HTTP/1.1 for allowed.test").says("GET /plain HTTP/1.1 for allowed.test");
    let asked: Vec<String> = told.try_iter().collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for head in &asked {
        assert!(
            head.starts_with("CONNECT allowed.test:") && head.contains("Basic dXNlcjpwYTU1"),
            "{head}"
        );
    }
    assert!(servers.queries().is_empty(), "a name was looked up here");
    // Rules decide before the proxy is asked.
    let ran = sh(
        &world,
        "allow:allowed.test",
        "curl -sS https://other.test/ || curl -sS http://192.0.2.1/",
    );
    ran.denied(&["lookup(other.test)"]);
    ran.denied(&["connect(192.0.2.1:80)"]);
    assert!(told.try_iter().next().is_none());
    // A host in a private range is reached directly.
    reset(servers);
    let ran = sh(&world, ALLOWED, "curl -sS http://allowed.test/direct");
    ran.says("GET /direct");
    assert!(told.try_iter().next().is_none());
    let shown = world.ringfence(&["policy", "show"]);
    assert!(
        shown.stdout.contains("127.0.0.1") && !shown.stdout.contains("pa55"),
        "{}",
        shown.stdout
    );
    for (proxy, words) in [
        (
            format!("http://127.0.0.1:{}", connect_proxy("407 Proxy Authentication Required").0),
            "407",
        ),
        ("http://127.0.0.1:9".to_owned(), "refused"),
    ] {
        let world = world_of(servers).var("RINGFENCE_NET_PROXY", &proxy);
        let ran = sh(&world, "allow:allowed.test", "curl -sS http://allowed.test/x");
        let failed = ran.connections("failed");
        let reason = failed.first().and_then(|c| c["reason"].as_str()).unwrap_or_default();
        assert!(reason.contains("upstream proxy") && reason.contains(words), "{}", ran.1);
    }
}

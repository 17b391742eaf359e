//! The network of a run without namespaces: the proxy's address leads to the network helper, everything else nowhere.

use std::collections::BTreeSet;

use ringfence_testing::{BoundedCommand as _, Json};

use crate::rows::{ALLOWED, Outcome, PRELUDE, Row, world_of};
use crate::servers::{GREETING, LOCAL, STREAM, STREAM_BYTES, Servers};
use crate::support::World;

pub(crate) const ROWS: &[(&str, Row)] = &[
    ("without namespaces: allowed hosts by the proxy variables", reaches_by_variables),
    ("without namespaces: every other connect is refused and named", refuses_other_connects),
    ("without namespaces: no UDP, no servers, no other socket", refuses_other_sockets),
    ("without namespaces: an address that changes during the call", address_changes),
    ("without namespaces: a connect that fails leaves nothing half made", no_parked_connects),
    ("without namespaces: options that change the way of a connection", socket_options),
    ("without namespaces: no port stays open on the host", no_port_stays_open),
    ("without namespaces: 300 connects at once, 64 MiB whole", many_and_much),
    (
        "without namespaces: more tunnels than descriptors are closed, and the helper lives",
        many_tunnels,
    ),
    ("without namespaces: a dead or stopped helper means refusal", dead_helper),
    ("without namespaces: what needs a namespace is a clear error", needs_namespaces),
];

fn run(world: &World, net: &str, argv: &[&str]) -> Outcome {
    let ran = world.without_namespaces(&[&["run", "--json", "--net", net, "--"], argv].concat());
    let outcome = Outcome(ran.code, Json::parse(&ran.stdout));
    assert_eq!(outcome.1["enforcement"]["tier"], "landlock", "{}", outcome.1);
    outcome
}

fn sh(world: &World, net: &str, script: &str) -> Outcome {
    run(world, net, &["sh", "-c", script])
}

fn python(world: &World, net: &str, program: &str) -> Outcome {
    run(world, net, &["/usr/bin/python3", "-c", &format!("{PRELUDE}\n{program}")])
}

fn reaches_by_variables(servers: &Servers) {
    let world = world_of(servers);
    let script = "curl -sS http://allowed.test/plain
curl -sS --cacert ca.pem https://allowed.test/secure
wget -q -O - http://allowed.test/wget
/usr/bin/python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://allowed.test/urllib\").read().decode())'
curl -sS https://other.test/ 2>&1 || true
curl -sS http://other.test/";
    let ran = sh(&world, ALLOWED, script);
    for path in ["/plain", "/secure", "/wget", "/urllib"] {
        ran.says(&format!("GET {path} HTTP/1.1 for allowed.test"));
    }
    ran.says("no rule allows other.test:80; the rule `other.test` would");
    ran.denied(&["connect(other.test:443)", "--net allow:other.test`"]);
    assert_eq!(ran.1["enforcement"]["network"], "allowlist");
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("proxy variables"), "{gaps}");
    let programs: BTreeSet<&str> =
        ran.connections("allowed").iter().map(|c| c["program"].as_str().unwrap()).collect();
    assert_eq!(programs, BTreeSet::from(["curl", "python3", "wget"]), "{}", ran.1);
}

fn refuses_other_connects(servers: &Servers) {
    let program = format!(
        "import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
proxy = struct.pack('=H', 2) + struct.pack('!H', 3128) + bytes([127, 0, 0, 1]) + bytes(8)
def at(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(5); s.connect(address); return 'connected'
for family, address in [
    (socket.AF_INET, ('127.0.0.2', 443)), (socket.AF_INET, ('127.0.0.2', 3128)), (socket.AF_INET, ('127.0.0.1', {LOCAL})),
    (socket.AF_INET, ('127.0.0.1', 53)), (socket.AF_INET, ('0.0.0.0', 3128)), (socket.AF_INET6, ('::1', 3128)),
    (socket.AF_INET6, ('::ffff:127.0.0.2', 3128)), (socket.AF_INET6, ('::', 3128)), (socket.AF_INET, ('192.0.2.7', 443)),
]:
    print(address, tried(lambda: at(family, address)))
s = socket.socket(); print('option', tried(lambda: s.setsockopt(socket.IPPROTO_TCP, 30, 1)))  # TCP_FASTOPEN_CONNECT
print('fast open', tried(lambda: (s.connect(('127.0.0.2', 443)), s.send(b'x'))))
s = socket.socket()
print('send', tried(lambda: s.sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.2', 443))))
a, b = socket.socketpair()
print('pair', libc.connect(a.fileno(), proxy, 16), ctypes.get_errno())
print('mapped', tried(lambda: at(socket.AF_INET6, ('::ffff:127.0.0.1', 3128))))"
    );
    let ran = python(&world_of(servers), ALLOWED, &program);
    assert_eq!(ran.stdout().matches("connected").count(), 1, "{}", ran.stdout());
    assert_eq!(ran.stdout().matches("Connection refused").count(), 10, "{}", ran.stdout());
    ran.says("mapped connected").says("pair -1 97");
    ran.denied(&["connect(192.0.2.7:443)", "only through the proxy of `HTTPS_PROXY`"]);
    ran.denied(&["connect(127.0.0.2:443)"]);
    assert!(servers.requests().is_empty(), "{:?}", servers.requests());
}

fn refuses_other_sockets(servers: &Servers) {
    let program = "import os
for what, work in {
    'udp': lambda: socket.socket(type=socket.SOCK_DGRAM), 'udp6': lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    'raw': lambda: socket.socket(type=socket.SOCK_RAW), 'mptcp': lambda: socket.socket(proto=262),
    'unix': lambda: socket.socket(socket.AF_UNIX), 'netlink': lambda: socket.socket(16, 3),
    'bind': lambda: socket.socket().bind(('127.0.0.1', 0)), 'listen': lambda: socket.socket().listen(),
}.items():
    print(what, tried(work))
a, b = socket.socketpair(); a.send(b'x'); print('pair', b.recv(1))";
    let ran = python(&world_of(servers), ALLOWED, program);
    for what in ["udp", "udp6", "raw", "mptcp", "unix", "netlink", "bind", "listen"] {
        let line = ran.stdout().lines().find(|line| line.starts_with(&format!("{what} "))).unwrap();
        assert!(line.contains("Error"), "{}", ran.stdout());
    }
    ran.says("pair b'x'");
    ran.denied(&["udp_socket", "HTTPS_PROXY"]);
    ran.denied(&["server_socket bind"]);
}

/// A second thread exchanges the address between the supervisor's read and its use.
fn address_changes(servers: &Servers) {
    let program = "import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
proxy = struct.pack('=H', 2) + struct.pack('!H', 3128) + bytes([127, 0, 0, 1]) + bytes(8)
web = struct.pack('=H', 2) + struct.pack('!H', 80) + bytes([127, 0, 0, 2]) + bytes(8)
address = ctypes.create_string_buffer(proxy, 16)
def flip():
    while True:
        ctypes.memmove(address, web, 16); ctypes.memmove(address, proxy, 16)
threading.Thread(target=flip, daemon=True).start()
n = 0
for _ in range(400):
    s = socket.socket()
    if libc.connect(s.fileno(), address, 16) == 0:
        n += 1
        assert s.getpeername()[0] == '127.0.0.1', s.getpeername()
        s.sendall(b'GET http://other.test/stolen HTTP/1.0\\r\\nHost: other.test\\r\\n\\r\\n')
        assert b' 403 ' in s.recv(4096)
    s.close()
print('connected', n > 0)";
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.says("connected True");
    assert!(servers.requests().is_empty(), "{:?}", servers.requests());
}

/// A socket that went on connecting to the supervisor's port would reach the next program that listens there.
fn no_parked_connects(servers: &Servers) {
    let program = "def parked(level, name, value):
    s = socket.socket()
    try: s.setsockopt(level, name, value)
    except OSError as e: return 'refused ' + str(e.errno)
    s.setblocking(False)
    return tried(lambda: s.connect(('127.0.0.1', 3128))), tried(s.getpeername), tried(lambda: s.send(b'x'))
print('minttl', parked(0, 21, 255))
print('fast open', parked(6, 30, 1), parked(6, 34, 1))
# Sockets whose connect cannot succeed are disconnected again: the second connect is a new one.
s = socket.socket(); s.connect(('127.0.0.1', 3128)); print('plain', s.getpeername()[0])";
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.says("minttl refused 92").says("fast open refused 92 refused 92").says("plain 127.0.0.1");
}

fn socket_options(servers: &Servers) {
    let program = "def tried_option(level, name, value):
    s = socket.socket(socket.AF_INET6 if level == 41 else socket.AF_INET)
    try: s.setsockopt(level, name, value)
    except OSError as e: return e.errno
    return 0
refused = [(1, 25, b'lo'), (1, 62, 1), (0, 4, bytes(4)), (0, 21, 1), (6, 30, 1), (6, 31, b'tls'), (41, 57, bytes(8))]
allowed = [(1, 9, 1), (1, 2, 1), (1, 7, 65536), (6, 1, 1), (6, 4, 60), (0, 1, 0), (41, 26, 1)]
print([tried_option(*o) for o in refused], [tried_option(*o) for o in allowed])
a, b = socket.socketpair()
print('peer', tried(lambda: a.getsockopt(1, 77)))";
    let ran = python(&world_of(servers), ALLOWED, program);
    ran.says("[92, 92, 92, 92, 92, 92, 92] [0, 0, 0, 0, 0, 0, 0]").says("Protocol not available");
}

/// Listening TCP sockets of this network namespace.
fn listening() -> BTreeSet<String> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|file| {
            std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next()?.to_owned(), fields.nth(1)?);
            (state == "0A").then_some(local)
        })
        .collect()
}

/// Waits for the file `up` of a program.
fn wait_until_up(world: &World) {
    let up = world.work().join("up");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(15);
    while !up.exists() {
        assert!(std::time::Instant::now() < until, "the program does not get ready");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn no_port_stays_open(servers: &Servers) {
    let before = listening();
    let world = world_of(servers);
    let program = format!(
        "{PRELUDE}
s = tcp('127.0.0.1', 3128); print(talk(s, 'GET http://allowed.test/ HTTP/1.1\\nHost: allowed.test\\n\\n').split()[1])
open('up', 'w').close()
while True: time.sleep(0.05)"
    );
    let args =
        ["run", "--timeout", "20s", "--net", ALLOWED, "--", "/usr/bin/python3", "-c", &program];
    let mut run = world.command_without_namespaces(&args).bounded_spawn().unwrap();
    wait_until_up(&world);
    assert_eq!(listening(), before);
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_child(&run),
        rustix::process::Signal::TERM,
    );
    run.wait().unwrap();
}

fn many_and_much(servers: &Servers) {
    let rules = format!(
        "allow:allowed.test@127.0.0.2/32,allowed.test:{GREETING}@127.0.0.2/32,allowed.test:{STREAM}@127.0.0.2/32"
    );
    let program = format!(
        "def tunnel(port):
    s = tcp('127.0.0.1', 3128, 30)
    s.sendall(b'CONNECT allowed.test:%d HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n' % port)
    f = s.makefile('rb')
    assert b' 200 ' in f.readline()
    while f.readline().strip(): pass
    return s, f
all, lock = [], threading.Lock()
def greeted():
    s, f = tunnel({GREETING}); line = f.readline()
    with lock: all.append((s, f, line))
threads = [threading.Thread(target=greeted) for _ in range(300)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(all), len({{line for _, _, line in all}}))
s, f = tunnel({STREAM})
n = 0
while n < {STREAM_BYTES}:
    part = f.read(1 << 16)
    if not part: break
    n += len(part)
print(n == {STREAM_BYTES})"
    );
    let world = world_of(servers);
    let text = format!("{PRELUDE}\n{program}");
    let args =
        ["run", "--json", "--fds", "2000", "--net", &rules, "--", "/usr/bin/python3", "-c", &text];
    let ran = world.without_namespaces(&args);
    let outcome = Outcome(ran.code, Json::parse(&ran.stdout));
    outcome.says("300 1\nTrue");
    assert_eq!(outcome.connections("allowed").len(), 301, "{}", outcome.1);
}

fn many_tunnels(servers: &Servers) {
    let rules = format!("allow:allowed.test:{GREETING}@127.0.0.2/32");
    let program = format!(
        "{PRELUDE}
def tunnel():
    s = tcp('127.0.0.1', 3128)
    s.sendall(b'CONNECT allowed.test:{GREETING} HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n')
    got = b''
    while b'\\r\\n\\r\\n' not in got or got.endswith(b'\\r\\n\\r\\n'):
        part = s.recv(999)
        if not part: return None
        got += part
    return s
for _ in range(2):
    all = [s for s in (tried(tunnel) for _ in range(140)) if isinstance(s, socket.socket)]
    print('open', 20 < len(all) < 140)
    [s.close() for s in all]; time.sleep(0.5)
print('again', isinstance(tried(tunnel), socket.socket))"
    );
    let world = world_of(servers);
    let args = ["run", "--json", "--net", &rules, "--", "/usr/bin/python3", "-c", &program];
    let mut limited = std::process::Command::new("prlimit");
    let whole = world.command_without_namespaces(&args);
    limited.arg("--nofile=256:256").arg(whole.get_program()).args(whole.get_args());
    let output = world.here(limited).bounded_output().unwrap();
    let outcome = Outcome(0, Json::parse(&output.stdout));
    outcome.says("open True\nopen True\nagain True");
    let gaps = outcome.1["enforcement"]["gaps"].to_string();
    assert!(!gaps.contains("network helper"), "{gaps}");
}

fn dead_helper(servers: &Servers) {
    for signal in ["KILL", "STOP"] {
        let world = world_of(servers);
        let program = format!(
            "{PRELUDE}
import os
s = tcp('127.0.0.1', 3128); s.sendall(b'G')
open('up', 'w').close()
while not os.path.exists('go'): time.sleep(0.02)
began = time.time(); print(tried(lambda: s.recv(1)), time.time() - began < 1)
time.sleep(0.2); began = time.time()
print(tried(lambda: tcp('127.0.0.1', 3128).recv(1)), time.time() - began < 1)"
        );
        let args = [
            "run",
            "--json",
            "--timeout",
            "20s",
            "--net",
            ALLOWED,
            "--",
            "/usr/bin/python3",
            "-c",
            &program,
        ];
        let mut command = world.command_without_namespaces(&args);
        command.stdout(std::process::Stdio::piped());
        let run = command.bounded_spawn().unwrap();
        wait_until_up(&world);
        // The chain from the wrapper to the supervisor and its helper is one of children.
        let script = format!(
            "p={}; while :; do h=$(pgrep -P $p -f ringfence-network) && exec kill -{signal} $h; p=$(pgrep -P $p | head -n 1) || exit 1; done",
            run.id()
        );
        let killed =
            std::process::Command::new("sh").args(["-c", &script]).bounded_status().unwrap();
        assert!(killed.success(), "no helper found");
        std::fs::write(world.work().join("go"), "").unwrap();
        let output = run.wait_with_output().unwrap();
        let outcome = Outcome(0, Json::parse(&output.stdout));
        assert_eq!(outcome.stdout().matches("True").count(), 2, "{}", outcome.1);
        outcome.says("refused");
        let gaps = outcome.1["enforcement"]["gaps"].to_string();
        assert!(gaps.contains("network helper ended"), "{gaps}");
    }
}

fn needs_namespaces(servers: &Servers) {
    let world = world_of(servers).var("VALUE", &"any-".repeat(4));
    for (flags, words) in [
        (&["--net", ALLOWED, "--publish", "3000"][..], "no ports of its own"),
        (&["--net", ALLOWED, "--secret", "T=env:VALUE@allowed.test"], "certificates"),
        (&["--net", ALLOWED, "--net-request", "GET allowed.test/x"], "certificates"),
    ] {
        let ran = world.without_namespaces(&[&["run"], flags, &["--", "true"]].concat());
        assert_eq!(ran.code, 125, "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("ringfence doctor"), "{flags:?}: {}", ran.stderr);
    }
}

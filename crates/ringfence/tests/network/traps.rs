//! Situations in which other proxies and sandboxes fail.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::rows::{ALLOWED, CANARY, Outcome, PRELUDE, Row, world_of};
use crate::servers::{SINK, Servers};

pub(crate) const ROWS: &[(&str, Row)] = &[
    ("a thousand open connections end with the deadline", deadline_with_a_thousand_connections),
    ("a virtual environment is made and made anew beside a secret", venv_beside_a_secret),
    ("a proxy variable and a search list of the host do not matter", settings_of_the_host),
];

fn deadline_with_a_thousand_connections(servers: &Servers) {
    let world = world_of(servers);
    let rule = format!("allow:allowed.test:{SINK}@127.0.0.2/32");
    let program = format!(
        "{PRELUDE}
kept = []
for n in range(1000):
    kept.append(tcp('allowed.test', {SINK}, 60))
    kept[-1].sendall(b'x')
    if (n + 1) % 50 == 0: print(n + 1, flush=True)
time.sleep(600)"
    );
    let flags = ["--net", &rule, "--fds", "1200", "--timeout", "12s"];
    let began = Instant::now();
    let (code, json) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while n_helpers() == 0 {
                assert!(began.elapsed() < Duration::from_mins(1), "no helper is seen");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        world.python(&flags, &program)
    });
    let ran = Outcome(code, json);
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    assert_eq!(ran.1["status"], "timeout", "{}", ran.1["stderr"]);
    // A thousand, unless the machine is busy.
    let n_open: usize = ran.stdout().lines().last().unwrap().parse().unwrap();
    assert!(n_open >= 100, "{}", ran.stdout());
    // Every one is listed, with the byte that it carried.
    let made = ran.connections("allowed");
    assert!(made.len() >= n_open, "{} of {n_open}: {}", made.len(), ran.1["enforcement"]["gaps"]);
    assert!(made.iter().take(n_open).all(|connection| connection["sent_bytes"] == 1u64));
    assert_eq!(n_helpers(), 0, "a helper is left");
}

/// Network helpers of this part's runs: the other parts are sessions of their own.
fn n_helpers() -> usize {
    let session = rustix::process::getsid(None).unwrap();
    let is_helper = |name: &OsString| {
        let pid = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        let cmdline = std::fs::read(Path::new("/proc").join(name).join("cmdline"));
        cmdline.is_ok_and(|line| line.starts_with(b"ringfence-network"))
            && rustix::process::getsid(pid) == Ok(session)
    };
    ringfence_sys::list_kernel_directory("/proc")
        .unwrap()
        .iter()
        .filter(|name| is_helper(name))
        .count()
}

/// Certificates are shown over the system's files and named by variables, and never below a directory that the run
/// writes: a mount there would make `--clear` fail.
fn venv_beside_a_secret(servers: &Servers) {
    let world = world_of(servers).var("CANARY", CANARY);
    let flags = ["--net", ALLOWED, "--secret", "TOKEN=env:CANARY@allowed.test"];
    let script = r#"set -e
for i in 1 2; do /usr/bin/python3 -m venv --clear --without-pip v; done
v/bin/python -c 'import urllib.request as u; print(u.urlopen("https://allowed.test/").read())'
mv v w; rm -rf w; echo removed"#;
    let (code, json) = world.sh_json(&flags, script);
    Outcome(code, json).says("GET / HTTP/1.1 for allowed.test").says("removed");
    assert_eq!(servers.requests().len(), 1);
}

/// A cluster's search list would make eight lookups of one name, and a proxy of the caller's is not the run's.
fn settings_of_the_host(servers: &Servers) {
    let world = world_of(servers)
        .var("https_proxy", "http://192.0.2.1:1")
        .var("LOCALDOMAIN", "default.svc.cluster.test svc.cluster.test");
    let script = "curl -sS --cacert ca.pem https://allowed.test/; getent hosts other.test; cat /etc/resolv.conf";
    let (code, json) = world.sh_json(&["--net", ALLOWED], script);
    let ran = Outcome(code, json);
    ran.says("GET / HTTP/1.1 for allowed.test").says("ndots:1");
    assert!(!ran.stdout().contains("search"), "{}", ran.stdout());
    let lookups: Vec<_> = ran.denials();
    assert_eq!(lookups.len(), 1, "{lookups:?}");
    assert!(lookups[0].contains("lookup(other.test)"), "{lookups:?}");
}

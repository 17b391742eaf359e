//! What is refused is reported: the call, the argument that mattered, the program, a hint.

use crate::living::soon;
use crate::support::{World, have, rules};

#[test]
fn a_refused_call_is_reported_with_its_program_and_a_hint() {
    if !have("notify") {
        return;
    }
    let (_, outcome) = World::new().sh_json(&[], "unshare -r true; echo $?");
    let denial = &outcome["denials"][0];
    assert_eq!(denial["layer"], "syscalls");
    assert_eq!(denial["rule"], "namespaces");
    assert_eq!(denial["syscall"], "unshare");
    assert_eq!(denial["argument"], "0x10000000");
    assert_eq!(denial["program"], "unshare");
    assert_eq!(denial["by"], "host");
    assert!(denial["pid"].as_u64().unwrap() > 1);
    assert!(denial["hint"].as_str().unwrap().len() > 10);
    assert_eq!(outcome["stdout"], "1\n");
}

#[test]
fn a_person_reads_that_there_is_no_network_and_is_not_told_what_works_without() {
    if !have("notify") {
        return;
    }
    let world = World::new();
    let lookup = "import socket\nsocket.getaddrinfo('registry.test', 443)";
    let ran = world.ringfence(&["run", "--", "python3", "-c", lookup]);
    let line = "ringfence: refused lookup(registry.test) by python3";
    assert_eq!(ran.stderr.matches(line).count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("this run has no network; `--net allow:registry.test`"),
        "{}",
        ran.stderr
    );
    // Node lists interfaces when it starts, and goes on without.
    let netlink = "import socket\ntry: socket.socket(16, 3, 0)\nexcept OSError: pass\n";
    let ran = world.ringfence(&["run", "--", "python3", "-c", netlink]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let failed = format!("{netlink}raise SystemExit(1)");
    let ran = world.ringfence(&["run", "--", "python3", "-c", &failed]);
    assert!(ran.stderr.contains("netlink sockets are not available"), "{}", ran.stderr);
    // A limit that ended the run is told once.
    let ran = world.ringfence(&["run", "--timeout", "300ms", "--", "sleep", "60"]);
    assert_eq!(ran.stderr.matches("300ms").count(), 1, "{}", ran.stderr);
}

#[test]
fn what_a_denial_costs_can_be_measured() {
    if !have("notify") {
        return;
    }
    let report = World::new().ringfence(&["bench", "--only", "denial", "--rounds", "5", "--json"]);
    let comparison = &report.json()["comparisons"][0];
    assert_eq!((&comparison["name"], &comparison["unit"]), (&"denial".into(), &"call".into()));
    assert_eq!(comparison["contenders"][0]["name"], "ringfence");
    assert_eq!(comparison["contenders"][1]["name"], "plain");
    // A process of ours is asked each time: were it not, nothing would have been reported.
    assert!(comparison["contenders"][0]["ratio"].as_f64().unwrap() > 2.0, "{comparison}");
}

#[test]
fn the_hosts_pool_of_huge_pages_is_as_if_empty_and_the_refusal_says_why() {
    if !have("notify") {
        return;
    }
    // Asked of the system call itself: the mmap module has no flags of its own for it in every Python.
    let program = "
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
PRIVATE_ANONYMOUS, HUGETLB = 0x22, 0x40000
for flags in PRIVATE_ANONYMOUS | HUGETLB, PRIVATE_ANONYMOUS:
    at = libc.mmap(None, 2 << 20, 3, flags, -1, 0)
    print(errno.errorcode[ctypes.get_errno()] if at == ctypes.c_void_p(-1).value else 'mapped')";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "ENOMEM\nmapped\n", "{outcome}");
    assert_eq!(rules(&outcome), ["huge_pages"], "{outcome}");
    assert_eq!(outcome["denials"][0]["argument"], "0x40022");
}

/// A lease on a file holds up each process of the host that opens it, for 45 seconds each time.
#[test]
fn no_run_takes_a_lease_on_a_file() {
    if !have("notify") {
        return;
    }
    let program = "
import fcntl, os
open('own', 'w').close()
for kind in fcntl.F_RDLCK, fcntl.F_WRLCK:
    try: fcntl.fcntl(os.open('own', os.O_RDONLY), fcntl.F_SETLEASE, kind)
    except OSError as e: print(e.errno)
    else: print('leased')";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "1\n1\n", "{outcome}");
    assert_eq!(rules(&outcome), ["leases"], "{outcome}");
}

#[test]
fn the_same_denial_is_counted_not_repeated() {
    if !have("notify") {
        return;
    }
    let program = "
import socket
for i in range(50):
    try: socket.socket(16, 3, 0)
    except OSError as e: last = e.errno
print(last)";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(rules(&outcome), ["netlink"], "{outcome}");
    assert_eq!(outcome["denials"][0]["count"], 50);
    assert_eq!(outcome["stdout"], "97\n");
}

#[test]
fn a_storm_of_refusals_is_bounded_and_does_not_starve_the_deadline() {
    if !have("notify") {
        return;
    }
    let program = "
import ctypes
libc = ctypes.CDLL(None)
while True: libc.ptrace(0, 0, 0, 0)";
    let (code, outcome) = World::new().python(&["--timeout", "1s"], program);
    assert_eq!(code, 124, "{outcome}");
    assert!(outcome["denials"].as_array().unwrap().len() < 10);
}

#[test]
fn a_host_socket_is_refused_unless_granted() {
    if !have("notify") {
        return;
    }
    let world = World::new();
    let path = world.work().join("host.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let program = format!(
        "
import socket
s = socket.socket(socket.AF_UNIX)
try: s.connect({:?}); print('connected')
except OSError as e: print(e.errno)",
        path.to_str().unwrap()
    );
    let (_, outcome) = world.python(&[], &program);
    assert_eq!(outcome["stdout"], "13\n", "{outcome}");
    assert_eq!(rules(&outcome), ["unix_socket"]);
    // The hint is followed, and it helps.
    let hint = outcome["denials"][0]["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("--socket {}", path.display())), "{hint}");
    let (_, outcome) = world.python(&["--socket", path.to_str().unwrap()], &program);
    assert_eq!(outcome["stdout"], "connected\n", "{outcome}");
    drop(listener);
}

#[test]
fn sockets_of_the_runs_own_work_blocking_or_not() {
    let program = "
import socket, threading
for family, address in ((socket.AF_UNIX, '/tmp/own'), (socket.AF_UNIX, '\\0abstract'), (socket.AF_INET, ('127.0.0.1', 0)), (socket.AF_INET6, ('::1', 0))):
    s = socket.socket(family); s.bind(address); s.listen()
    c = socket.socket(family); c.connect(s.getsockname()); c.send(b'x')
    assert s.accept()[0].recv(1) == b'x'
    n = socket.socket(family); n.setblocking(False)
    try: n.connect(s.getsockname())
    except BlockingIOError: pass
print('ok')";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "ok\n", "{outcome}");
}

#[test]
fn a_program_whose_name_is_no_text_connects_like_any_other() {
    // The kernel cuts names at fifteen bytes, in the middle of a letter here.
    let program = "
import ctypes, socket
ctypes.CDLL(None).prctl(15, ('é' * 8).encode(), 0, 0, 0)
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
socket.create_connection(s.getsockname()); print('ok')";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "ok\n", "{outcome}");
}

#[test]
fn a_relative_socket_name_is_resolved_where_the_program_is() {
    let program = "
import socket, os
os.chdir('/tmp')
s = socket.socket(socket.AF_UNIX); s.bind('rel'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('rel')
print('ok')";
    let (_, outcome) = World::new().python(&[], program);
    assert_eq!(outcome["stdout"], "ok\n", "{outcome}");
}

#[test]
fn a_relative_socket_name_that_climbs_out_is_a_denial_whose_hint_helps() {
    if !have("notify") {
        return;
    }
    let program = "
import os, socket
os.mkdir('/tmp/below'); os.chdir('/tmp/below'); os.symlink('/tmp', 'link')
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/own'); s.listen()
for name in '../own', 'link/own', '../below/../own', '/tmp/own', '/tmp/below/../own':
    try: socket.socket(socket.AF_UNIX).connect(name); print('connected')
    except OSError as e: print(e.errno)";
    let (_, outcome) = World::new().python(&[], program);
    // The last two are what the hint says.
    assert_eq!(outcome["stdout"], "13\n13\n13\nconnected\nconnected\n", "{outcome}");
    assert_eq!(rules(&outcome), ["unix_socket"; 3], "{outcome}");
    let denial = &outcome["denials"][0];
    assert_eq!(denial["subject"], "connect(../own)");
    assert_eq!(denial["argument"], "../own");
    let hint = denial["hint"].as_str().unwrap();
    assert!(hint.contains("connect to the socket's absolute path"), "{hint}");
}

#[test]
fn what_cannot_be_observed_is_listed() {
    let (_, outcome) = World::new().sh_json(&[], "true");
    let unobserved: Vec<&str> =
        outcome["unobserved"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
    assert!(unobserved.contains(&"mounts") && unobserved.contains(&"landlock"));
}

#[test]
fn a_granted_socket_is_shown_and_the_other_side_sees_the_runs_own_user() {
    if !have("notify") {
        return;
    }
    let world = World::new();
    std::fs::create_dir(world.root().join("elsewhere")).unwrap();
    let path = world.root().join("elsewhere/s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let program = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect({:?}); s.recv(1)",
        path.to_str().unwrap()
    );
    let (tell, peer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        tell.send(rustix::net::sockopt::socket_peercred(&stream).unwrap().uid.as_raw())
    });
    let (code, outcome) = world.python(&["--socket", path.to_str().unwrap()], &program);
    assert_eq!(code, 0, "{outcome}");
    assert_ne!(peer.recv_timeout(soon()).unwrap(), 0);
}

#[test]
fn a_socket_that_would_undo_the_fence_must_be_insisted_on() {
    if !have("notify") {
        return;
    }
    let world = World::new();
    let dir = world.root().join("elsewhere");
    std::fs::create_dir(&dir).unwrap();
    let docker = dir.join("docker.sock");
    let _docker = std::os::unix::net::UnixListener::bind(&docker).unwrap();
    let link = dir.join("harmless");
    std::os::unix::fs::symlink(&docker, &link).unwrap();
    let agent = dir.join("mine");
    let _agent = std::os::unix::net::UnixListener::bind(&agent).unwrap();
    let world = world.var("SSH_AUTH_SOCK", agent.to_str().unwrap());
    let program = |path: &std::path::Path| {
        format!("import socket; socket.socket(socket.AF_UNIX).connect({path:?}); print('in')")
    };
    for (path, power) in [(&docker, "containers"), (&link, "containers"), (&agent, "SSH key")] {
        let text = path.to_str().unwrap();
        let refused = world.ringfence(&["run", "--socket", text, "--", "true"]);
        assert_ne!(refused.code, 0);
        for word in [power, "would undo the fence", &format!("{text}!")] {
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
        // Inside it has its real path.
        let real = if path == &link { &docker } else { path };
        let (code, outcome) = world.python(&["--socket", &format!("{text}!")], &program(real));
        assert_eq!(code, 0, "{outcome}");
    }
}

#[test]
fn a_socket_made_to_wait_at_the_wrong_moment_does_not_hold_the_deadline() {
    if !have("notify") {
        return;
    }
    let program = "
import fcntl, os, socket, threading
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen(0)
def knock():
    while True:
        c = socket.socket(socket.AF_UNIX)
        t = threading.Thread(target=lambda: [fcntl.fcntl(c, fcntl.F_SETFL, os.O_NONBLOCK * (i % 2)) for i in range(200)])
        t.start()
        try: c.connect('/tmp/s')
        except OSError: pass
for i in range(70): threading.Thread(target=knock, daemon=True).start()
import time; time.sleep(600)";
    let (code, outcome) = World::new().python(&["--timeout", "2s"], program);
    assert_eq!(code, 124, "{outcome}");
}

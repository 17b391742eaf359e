//! A terminal of the run's own: a shell works in it, its size follows, and nothing typed there reaches ours.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringfence_testing::{BoundedCommand as _, Running};

use crate::support::{World, pty};

struct Session {
    master: std::fs::File,
    child: Running,
    seen: String,
    slave: OwnedFd,
}

/// Runs `ringfence run -- PROGRAM` on a terminal made here.
fn on_a_terminal(world: &World, args: &[&str]) -> Session {
    let (master, slave) = pty(33, 101);
    let dup = || Stdio::from(slave.try_clone().unwrap());
    let child = world
        .command(
            &[if args[0].starts_with("--") { &["run"][..] } else { &["run", "--"] }, args].concat(),
        )
        .env("TERM", "dumb")
        .stdin(dup())
        .stdout(dup())
        .stderr(dup())
        .bounded_spawn()
        .unwrap();
    let flags = rustix::fs::fcntl_getfl(&master).unwrap();
    rustix::fs::fcntl_setfl(&master, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    Session { master, child, seen: String::new(), slave }
}

impl Session {
    fn expect(&mut self, needle: &str) {
        let started = Instant::now();
        let mut buffer = [0u8; 4096];
        loop {
            if let Some(at) = self.seen.find(needle) {
                self.seen.drain(..at + needle.len());
                return;
            }
            assert!(started.elapsed() < Duration::from_mins(1), "no {needle:?} in {:?}", self.seen);
            match self.master.read(&mut buffer) {
                Ok(n) => self.seen.push_str(&String::from_utf8_lossy(&buffer[..n])),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }
}

#[test]
fn a_shell_works_resizes_takes_ctrl_c_and_returns_its_code() {
    let world = World::new();
    let mut session = on_a_terminal(&world, &["bash", "--norc", "-i"]);
    session.type_in("tty; stty size; echo ready-$((40+2))\n");
    session.expect("33 101");
    session.expect("ready-42");
    let size = rustix::termios::Winsize { ws_row: 20, ws_col: 70, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&session.slave, size).unwrap();
    let pid = rustix::process::Pid::from_child(&session.child);
    rustix::process::kill_process(pid, rustix::process::Signal::WINCH).unwrap();
    session.type_in("sleep 0.2; stty size\n");
    session.expect("20 70");
    session.type_in("sleep 1000\n");
    session.expect("sleep 1000");
    std::thread::sleep(Duration::from_millis(300));
    session.type_in("\u{3}");
    session.type_in("echo after-$((1+1))\n");
    session.expect("after-2");
    session.type_in("exit 7\n");
    assert_eq!(session.child.wait().unwrap().code(), Some(7));
    // The terminal is as it was: canonical mode is back.
    let modes = rustix::termios::tcgetattr(session.slave.as_fd()).unwrap();
    assert!(modes.local_modes.contains(rustix::termios::LocalModes::ICANON));
}

#[test]
fn what_is_pushed_into_the_runs_terminal_does_not_reach_ours() {
    let world = World::new();
    let program = "
import fcntl, sys
try:
    for c in b'echo PWNED\\n': fcntl.ioctl(0, 0x5412, bytes([c]))
    print('pushed')
except OSError as e: print('refused', e.errno)";
    let mut session = on_a_terminal(&world, &["/usr/bin/python3", "-c", program]);
    session.expect("refused 1");
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_pipe_into_a_terminal_run_works() {
    let world = World::new();
    let mut session =
        on_a_terminal(&world, &["sh", "-c", "seq 3 | cat; test -t 1 && echo is-a-tty"]);
    session.expect("is-a-tty");
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_terminal_nobody_reads_does_not_hold_the_deadline() {
    let world = World::new();
    let mut session = on_a_terminal(&world, &["--timeout", "1s", "--", "yes"]);
    let started = Instant::now();
    while session.child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_mins(1), "the deadline waits for a reader");
        std::thread::sleep(Duration::from_millis(20));
    }
}

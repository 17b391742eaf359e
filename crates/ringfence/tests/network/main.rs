//! The network of runs, against servers on the loopback of a network namespace that this test makes: name server, HTTP,
//! TLS, a protocol in which the server speaks first. Nothing outside is contacted. Without arguments all rows; with words
//! those whose name contains one. Started by root it runs everything twice, the second time as an ordinary user.

#![allow(clippy::disallowed_methods)]

mod credentials;
mod landlock;
mod published;
mod requests;
mod rows;
#[allow(dead_code, reason = "the attack documents use more of it")]
mod servers;
mod ssh;

#[allow(dead_code, reason = "the tests of `it` use more of it")]
#[path = "../it/support.rs"]
mod support;
mod tools;
mod traps;

use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};

use ringfence_sys::{Ended, Forked, Namespaces};
use ringfence_testing::{BoundedCommand as _, limit, test_threads};
use rustix::process::{getegid, geteuid};

use rows::{RESOLVER, WEB};
use servers::{Places, Servers};

/// First argument of the process in the namespace. A part of the rows follows, as in `1/4`.
const INSIDE: &str = "--inside";

/// First argument of a process for a part of the rows, which follows.
const PART: &str = "--part";

/// The most parts, each with a namespace and servers of its own.
const PARTS_MAX: usize = 4;

/// The rows of every module.
fn all_rows() -> impl Iterator<Item = &'static (&'static str, rows::Row)> {
    let tables = [
        rows::ROWS,
        requests::ROWS,
        credentials::ROWS,
        traps::ROWS,
        landlock::ROWS,
        ssh::ROWS,
        tools::ROWS,
    ];
    tables.into_iter().flatten()
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == INSIDE) {
        return inside(&args.split_off(1));
    }
    if args.first().is_some_and(|arg| arg == PART) {
        return part(&args.split_off(1));
    }
    if args.iter().any(|arg| arg == "--list") {
        for (name, _) in all_rows() {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    if !support::have("namespaces") {
        return ExitCode::SUCCESS;
    }
    args.retain(|arg| !arg.starts_with('-'));
    if !all_parts(&args) {
        return ExitCode::FAILURE;
    }
    if args.is_empty() {
        support::again_as_an_ordinary_user();
    }
    ExitCode::SUCCESS
}

/// Runs the rows in several processes at once: in most rows a program waits for another. Returns true if all passed.
fn all_parts(words: &[String]) -> bool {
    let n_processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let n_threads = || test_threads().unwrap_or_else(n_processors);
    let n = if words.is_empty() { n_threads().min(PARTS_MAX) } else { 1 };
    let exe = std::env::current_exe().unwrap();
    let start = |at| {
        let mut part = Command::new(&exe);
        part.arg(PART).arg(format!("{at}/{n}")).args(words);
        part.bounded_spawn_within(15 * limit()).unwrap()
    };
    let parts: Vec<_> = (0..n).map(start).collect();
    let ended = parts.into_iter().map(|mut part| part.wait().unwrap().success());
    // All are waited for.
    ended.filter(|passed| !passed).count() == 0
}

fn part(args: &[String]) -> ExitCode {
    match in_namespace(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot make a network namespace: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a part of the rows in a network namespace with a loopback and every port free. Returns true if all passed.
fn in_namespace(args: &[String]) -> Result<bool, String> {
    let text = |e: std::io::Error| e.to_string();
    let (mut go_read, mut go_write) = std::io::pipe().map_err(text)?;
    let is_root = geteuid().is_root();
    let kinds =
        if is_root { Namespaces::NETWORK } else { Namespaces::USER.and(Namespaces::NETWORK) };
    // The thread that bounded the last command is about to end.
    for _ in 0..200 {
        if ringfence_sys::is_single_threaded() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    match ringfence_sys::fork_into(kinds, None).map_err(|e| e.to_string())? {
        Forked::Child => {
            drop(go_write);
            let result = go_read.read_exact(&mut [0]).map_err(text).and_then(|()| {
                ringfence_sys::loopback_up().map_err(|e| e.to_string())?;
                // Every address is this host's own, as a public one of a server is.
                ringfence_sys::route_everything_to_loopback().map_err(|e| e.to_string())?;
                let ports = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
                std::fs::write(ports, "0").map_err(|e| format!("{ports}: {e}"))?;
                let exe = std::env::current_exe().map_err(text)?;
                let status = Command::new(exe).arg(INSIDE).args(args).status().map_err(text)?;
                Ok(status.success())
            });
            if let Err(error) = &result {
                eprintln!("{error}");
            }
            ringfence_sys::exit_now(i32::from(result != Ok(true)))
        }
        Forked::Parent { pid, .. } => {
            drop(go_read);
            if !is_root {
                let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
                for (file, map) in [
                    ("setgroups", "deny".to_owned()),
                    ("uid_map", format!("{uid} {uid} 1")),
                    ("gid_map", format!("{gid} {gid} 1")),
                ] {
                    std::fs::write(format!("/proc/{pid}/{file}"), map).map_err(text)?;
                }
            }
            go_write.write_all(&[0]).map_err(text)?;
            let reaped = ringfence_sys::reap_pid(pid).map_err(|e| e.to_string())?;
            Ok(reaped.ended == Ended::Exited(0))
        }
    }
}

fn inside(args: &[String]) -> ExitCode {
    let (part, words) = args.split_first().unwrap();
    let (at, n_parts) = part.split_once('/').unwrap();
    let (at, n_parts): (usize, usize) = (at.parse().unwrap(), n_parts.parse().unwrap());
    let rows = all_rows().skip(at).step_by(n_parts).filter(|(name, _)| {
        words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
    });
    // By its session it tells its own processes from those of the other parts.
    rustix::process::setsid().unwrap();
    // The servers of this process have a thousand connections at once; an ordinary user's limit is often 1,024.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    let resolver = RESOLVER.parse().unwrap();
    let servers = Servers::start(Places { resolver, web: WEB.into(), log: None });
    let mut n_failed = 0;
    let mut n = 0;
    for (name, row) in rows {
        rows::reset(&servers);
        let began = std::time::Instant::now();
        // A panic has told what is wrong.
        let ok = catch_unwind(AssertUnwindSafe(|| row(&servers))).is_ok();
        let result = if ok { "ok" } else { "FAILED" };
        println!("row {name} ... {result} ({:.1} s)", began.elapsed().as_secs_f64());
        n += 1;
        n_failed += usize::from(!ok);
    }
    println!("\n{n} rows, {n_failed} failed");
    if n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

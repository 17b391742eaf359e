//! Every hostile program in turn, two at a time, each with the same deadline: killed, and how late.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Seek as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use serde_json::{Value, json};

use crate::percentiles::Percentiles;
use crate::soak::Findings;
use crate::soak::hostile::{self, Hostile};
use crate::soak::leftovers::{self, cgroup_parents};
use crate::soak::world::World;
use crate::{CannotTry, millis};

/// Long enough that every program is past its setup, short enough for a thousand runs.
const DEADLINE: Duration = Duration::from_millis(300);

/// A supervisor that takes longer has failed, and is killed itself.
const PATIENCE_SECS: i64 = 20;

/// Runs side by side: the machine the promise is made for has two cores.
const N_WORKERS: usize = 2;

/// One run, as seen from outside.
struct Death {
    name: &'static str,
    /// By its own account: from the program's start to the death of its last process, beyond the deadline.
    told_ms: f64,
    /// By our clock: from before ringfence starts to after its exit, beyond the deadline. Includes building the fence.
    seen_ms: f64,
    complaint: Option<String>,
}

/// Runs them all.
pub(crate) fn soak(
    world: &World,
    n_runs: u32,
    overshoot_p99_ms_max: f64,
) -> Result<Findings, CannotTry> {
    let next = AtomicU32::new(0);
    let parents = cgroup_parents();
    let worker = || -> Result<Vec<Death>, CannotTry> {
        let mut deaths = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n_runs {
                return Ok(deaths);
            }
            let hostile = hostile::ALL[i as usize % hostile::ALL.len()];
            deaths.push(kill_one(world, hostile, &parents)?);
            if (i + 1).is_multiple_of(100) {
                eprintln!("soak: {} of {n_runs}", i + 1);
            }
        }
    };
    let deaths: Result<Vec<Vec<Death>>, CannotTry> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..N_WORKERS).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|d| d.unwrap_or_else(|_| Err("a worker of the soak panicked".into()))).collect()
    });
    let deaths: Vec<Death> = deaths?.into_iter().flatten().collect();
    // Ringfence answers after the last process is dead and reaped, so nothing may ever be handed to us.
    let n_orphans = leftovers::reap();
    Ok(judge(&deaths, n_orphans, overshoot_p99_ms_max))
}

fn kill_one(
    world: &World,
    hostile: Hostile,
    parents: &[std::path::PathBuf],
) -> Result<Death, CannotTry> {
    let cannot = |what: &str, e: &dyn std::fmt::Display| format!("cannot {what}: {e}");
    let mut stdout = tempfile::tempfile().map_err(|e| cannot("make a file", &e))?;
    let stderr = tempfile::tempfile().map_err(|e| cannot("make a file", &e))?;
    let deadline = format!("{}ms", DEADLINE.as_millis());
    let share = |file: &std::fs::File| file.try_clone().map_err(|e| cannot("share a file", &e));
    let started = Instant::now();
    let mut child = world
        .run(&["--json", "--timeout", &deadline], &hostile.argv(world.mark()))
        .stdin(Stdio::piped())
        .stdout(share(&stdout)?)
        .stderr(share(&stderr)?)
        .spawn()
        .map_err(|e| cannot("start ringfence", &e))?;
    // Open until the end: a program that reads waits for ever.
    let stdin = child.stdin.take();
    let pidfd = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .map_err(|e| cannot("watch ringfence", &e))?;
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let patience = Timespec { tv_sec: PATIENCE_SECS, tv_nsec: 0 };
    let ended = rustix::event::poll(&mut fds, Some(&patience)).is_ok_and(|n| n > 0);
    let seen = started.elapsed();
    if !ended {
        child.kill().map_err(|e| cannot("kill ringfence", &e))?;
    }
    let status = child.wait().map_err(|e| cannot("wait for ringfence", &e))?;
    drop(stdin);
    let mut text = String::new();
    let read = stdout.rewind().and_then(|()| stdout.read_to_string(&mut text));
    let outcome: Value =
        read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default();
    let told_ms = outcome["usage"]["wall_ms"].as_f64();
    let complaint = if !ended {
        Some(format!("alive {PATIENCE_SECS} s after its start"))
    } else if status.code() != Some(124) || outcome["status"] != "timeout" || told_ms.is_none() {
        let mut said = String::new();
        let _ = (&stderr).rewind().and_then(|()| (&stderr).read_to_string(&mut said));
        Some(format!("{status}, status {}, {} {said}", outcome["status"], outcome["error"]))
    } else {
        leaf_left(&outcome, parents)
    };
    Ok(Death {
        name: hostile.name,
        told_ms: told_ms.unwrap_or_default() - millis(DEADLINE),
        seen_ms: millis(seen) - millis(DEADLINE),
        complaint,
    })
}

/// The cgroup of a run is gone when its answer is there, not some time later.
fn leaf_left(outcome: &Value, parents: &[std::path::PathBuf]) -> Option<String> {
    let name = format!("ringfence-{}", outcome["run_id"].as_str()?.get(..8)?);
    let left = parents.iter().map(|dir| dir.join(&name)).find(|leaf| leaf.exists())?;
    Some(format!("`{}` is still there", left.display()))
}

fn judge(deaths: &[Death], n_orphans: usize, overshoot_p99_ms_max: f64) -> Findings {
    let killed = deaths.iter().filter(|d| d.complaint.is_none()).count();
    let told = Percentiles::of(deaths.iter().map(|d| d.told_ms));
    let seen = Percentiles::of(deaths.iter().map(|d| d.seen_ms));
    let mut complaints: Vec<String> = deaths
        .iter()
        .filter_map(|d| d.complaint.as_ref().map(|c| format!("`{}`: {c}", d.name)))
        .take(20)
        .collect();
    if n_orphans > 0 {
        complaints.push(format!(
            "{n_orphans} processes outlived their supervisor, or it did not reap them"
        ));
    }
    for (which, spread) in [("told by ringfence", &told), ("seen from outside", &seen)] {
        if spread.p99.is_nan() || spread.p99 > overshoot_p99_ms_max {
            complaints.push(format!(
                "p99 overshoot {which} is {:.1} ms, more than {overshoot_p99_ms_max} ms",
                spread.p99
            ));
        }
    }
    let mut table = format!("runs    {}\nkilled  {killed}\norphans {n_orphans}\n\n", deaths.len());
    let _ = writeln!(
        table,
        "{:<24} {:>6} {:>8} {:>8} {:>8}",
        "overshoot, ms", "runs", "p50", "p99", "max"
    );
    let mut row = |name: &str, n: usize, s: &Percentiles| {
        let _ = writeln!(table, "{name:<24} {n:>6} {:>8.1} {:>8.1} {:>8.1}", s.p50, s.p99, s.max);
    };
    row("told by ringfence", deaths.len(), &told);
    row("seen from outside", deaths.len(), &seen);
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for death in deaths {
        by_name.entry(death.name).or_default().push(death.seen_ms);
    }
    let mut programs = json!({});
    for (name, each) in by_name {
        let spread = Percentiles::of(each.iter().copied());
        row(&format!("  {name}"), each.len(), &spread);
        programs[name] = spread.json();
    }
    table.push('\n');
    let report = json!({
        "soak": "deadline",
        "runs": deaths.len(),
        "killed": killed,
        "orphans": n_orphans,
        "deadline_ms": millis(DEADLINE),
        "overshoot_ms": told.json(),
        "overshoot_seen_ms": seen.json(),
        "overshoot_seen_ms_by_program": programs,
    });
    Findings { report, table, complaints }
}

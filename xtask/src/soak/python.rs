//! Python programs that do not end, through one batch: each ended at its deadline, and the ordinary ones between them
//! answered, while workers are killed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::CannotTry;
use crate::percentiles::Percentiles;
use crate::random::Random;
use crate::soak::Findings;
use crate::soak::leftovers;
use crate::soak::world::World;

/// When each is ended.
const DEADLINE_MS: u32 = 100;

/// Loops in Python, in C code that never returns to it, and asleep; and some that resist.
const ENDLESS: &[&str] = &[
    "while True: pass",
    "sum(__import__('itertools').count())",
    "9 ** 9 ** 9",
    "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')",
    "import time\ntime.sleep(1000)",
    "import threading\nthreading.Event().wait()",
    "import signal\nfor n in range(1, 30):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\nwhile True: pass",
    "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass",
    "import atexit\natexit.register(lambda: [None for _ in iter(int, 1)])",
    "while True: print('x' * 10000)",
];

/// Runs `n_runs` of them, with an ordinary program after every fourth.
pub(crate) fn soak(
    world: &World,
    n_runs: u32,
    seed: u64,
    overshoot_p99_ms_max: f64,
) -> Result<Findings, CannotTry> {
    let mut items = String::new();
    for i in 0..n_runs {
        let code = ENDLESS[i as usize % ENDLESS.len()];
        let item = json!({"id": format!("loop {i}"), "code": code, "timeout_ms": DEADLINE_MS});
        let _ = writeln!(items, "{item}");
        if i % 4 == 3 {
            let item = json!({"id": format!("plain {i}"), "code": format!("print({i})")});
            let _ = writeln!(items, "{item}");
        }
    }
    let mut child = world
        .batch(&["-j", "2", "--preset", "open", "--output", "100K"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start ringfence: {e}"))?;
    let mut stdin = child.stdin.take().ok_or("ringfence has no stdin")?;
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(items.as_bytes());
    });
    let done = AtomicBool::new(false);
    let pid = child.id();
    let (output, n_killed) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| kill_workers(pid, seed, &done));
        let output = child.wait_with_output();
        done.store(true, Ordering::SeqCst);
        (output, killer.join().unwrap_or(0))
    });
    let _ = writer.join();
    let output = output.map_err(|e| format!("cannot wait for ringfence: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let outcomes: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok(judge(&outcomes, n_runs, n_killed, overshoot_p99_ms_max))
}

/// Kills one process deep inside now and then: a worker, waiting or at work. Returns how many.
fn kill_workers(batch: u32, seed: u64, done: &AtomicBool) -> u32 {
    let mut random = Random::new(seed);
    let mut n = 0;
    while !done.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(200 + random.next() % 400));
        let workers = workers(batch);
        if workers.is_empty() {
            continue;
        }
        let at = usize::try_from(random.next()).unwrap_or(0) % workers.len();
        if let Some(pid) = rustix::process::Pid::from_raw(workers[at]) {
            n += u32::from(
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok(),
            );
        }
    }
    n
}

/// Processes below `batch` that are the first of a pid namespace two below ours.
fn workers(batch: u32) -> Vec<i32> {
    let first_of_its_own = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let pids: Vec<&str> = pids.unwrap_or_default().split_whitespace().collect();
        pids.len() >= 3 && pids.last() == Some(&"1")
    };
    let below = leftovers::below(batch).into_iter().map(|(pid, ..)| pid);
    below.filter(first_of_its_own).filter_map(|pid| i32::try_from(pid).ok()).collect()
}

fn judge(outcomes: &[Value], n_runs: u32, n_killed: u32, overshoot_p99_ms_max: f64) -> Findings {
    let mut complaints = Vec::new();
    let expected = n_runs + n_runs / 4;
    if outcomes.len() != expected as usize {
        complaints.push(format!("{} outcomes for {expected} items", outcomes.len()));
    }
    let is_loop = |o: &&Value| o["id"].as_str().is_some_and(|id| id.starts_with("loop"));
    let loops: Vec<&Value> = outcomes.iter().filter(is_loop).collect();
    let ended = loops.iter().filter(|o| o["status"] == "timeout").count();
    let plain_ok = outcomes.iter().filter(|o| !is_loop(o) && o["status"] == "ok").count();
    // A worker that was killed from outside while it ran has another status, and says so.
    let from_outside =
        outcomes.iter().filter(|o| o["status"] == "memory" || o["status"] == "killed").count();
    if ended + plain_ok + from_outside != outcomes.len() || from_outside > n_killed as usize {
        let odd = outcomes.iter().find(|o| {
            !["timeout", "memory", "killed"].contains(&o["status"].as_str().unwrap_or_default())
                && (is_loop(o) || o["status"] != "ok")
        });
        complaints.push(format!("{ended} ended, {plain_ok} plain, {from_outside} killed: {odd:?}"));
    }
    let late = loops
        .iter()
        .filter(|o| o["status"] == "timeout")
        .filter_map(|o| o["usage"]["wall_ms"].as_f64())
        .map(|wall| wall - f64::from(DEADLINE_MS));
    let spread = Percentiles::of(late);
    if spread.p99.is_nan() || spread.p99 > overshoot_p99_ms_max {
        complaints.push(format!("p99 overshoot is {:.1} ms", spread.p99));
    }
    let table = format!(
        "loops {}, ended at the deadline {ended}\nordinary programs between them {plain_ok}\nworkers killed from outside {n_killed}, \
         of them at work {from_outside}\novershoot ms p50 {:.1} p99 {:.1} max {:.1}\n\n",
        loops.len(),
        spread.p50,
        spread.p99,
        spread.max
    );
    let report = json!({
        "soak": "python", "runs": n_runs, "killed": ended, "plain": plain_ok,
        "workers_killed": n_killed, "overshoot_ms": spread.json(),
    });
    Findings { report, table, complaints }
}

//! A service over many runs: its memory, descriptors and processes stay what they were.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::service::Service;
use crate::soak::world::World;
use crate::soak::{Findings, below};
use crate::{CannotTry, process};

/// Clients at once, each with a connection of its own.
const CLIENTS: u32 = 4;

/// Samples of a soak: the mean of each quarter of them is compared.
const SAMPLES: usize = 40;

/// Factor by which memory may grow between the second and the last quarter.
const MEMORY_RATIO_MAX: f64 = 1.05;

/// Growth that means nothing, in KiB: pools of a few processes breathe.
const MEMORY_SLACK_KIB: f64 = 4096.0;

/// Descriptors and processes that may be there for a moment.
const MOMENTARY: f64 = 32.0;

/// Fewer runs tell nothing of memory.
const RUNS_MIN: u32 = 5000;

#[derive(Clone, Debug, Default)]
struct Sample {
    /// Anonymous memory of the service, in KiB.
    own_kib: f64,
    /// That of each process below it.
    others_kib: BTreeMap<u32, f64>,
    descriptors: f64,
}

/// Means of some samples.
#[derive(Clone, Copy, Debug)]
struct Means {
    own_kib: f64,
    /// Of the processes that are there in every sample: zygotes and helpers, and no worker.
    lasting_kib: f64,
    descriptors: f64,
    processes: f64,
}

impl Sample {
    fn take(pid: u32) -> Self {
        Self {
            own_kib: anonymous_kib(pid),
            others_kib: below(pid).iter().map(|(pid, ..)| (*pid, anonymous_kib(*pid))).collect(),
            descriptors: count(process::n_descriptors(pid)),
        }
    }
}

impl Means {
    fn of(samples: &[Sample], lasting: &BTreeSet<u32>) -> Self {
        let n = count(samples.len().max(1));
        let mean = |part: &dyn Fn(&Sample) -> f64| samples.iter().map(part).sum::<f64>() / n;
        let of_lasting = |sample: &Sample| lasting.iter().map(|pid| sample.others_kib[pid]).sum();
        Self {
            own_kib: mean(&|s| s.own_kib),
            lasting_kib: mean(&of_lasting),
            descriptors: mean(&|s| s.descriptors),
            processes: mean(&|s| count(s.others_kib.len())),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn count(n: usize) -> f64 {
    n as f64
}

/// Anonymous memory of a process, 0 if it is gone.
#[expect(clippy::cast_precision_loss, reason = "small sizes")]
fn anonymous_kib(pid: u32) -> f64 {
    process::status_kib(pid, "RssAnon").unwrap_or(0) as f64
}

/// Does `n_runs` runs over HTTP and compares what the service uses.
pub(crate) fn soak(world: &World, n_runs: u32) -> Result<Findings, CannotTry> {
    let service = Service::spawn(world.serve())?;
    let (next, failed) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    let is_over = AtomicBool::new(false);
    let mut samples = Vec::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| client(&service, n_runs, &next, &failed)))
            .collect();
        // Ends with the last client, also if one of them panics.
        scope.spawn(|| {
            for client in clients {
                let _ = client.join();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut due = 0;
        while !is_over.load(Ordering::Relaxed) {
            let done = next.load(Ordering::Relaxed).min(n_runs);
            if u64::from(done) * SAMPLES as u64 >= due * u64::from(n_runs) {
                samples.push(Sample::take(service.pid()));
                due += 1;
                if due.is_multiple_of(4) {
                    eprintln!("soak: {done} of {n_runs}");
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let took = began.elapsed();
    let is_over = service.stop();
    crate::soak::leftovers::settle(world);
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut findings = judge(&samples, n_runs, took, &failed);
    if !is_over {
        findings.complaints.push("the service did not end when it was asked to".to_owned());
    }
    Ok(findings)
}

fn judge(samples: &[Sample], n_runs: u32, took: Duration, failed: &[String]) -> Findings {
    let quarter = samples.len() / 4;
    let compared = &samples[quarter..];
    let first = compared.first().map(|sample| sample.others_kib.keys().copied());
    let is_lasting = |pid: &u32| compared.iter().all(|sample| sample.others_kib.contains_key(pid));
    let lasting: BTreeSet<u32> = first.into_iter().flatten().filter(is_lasting).collect();
    let part = |from: usize| Means::of(&samples[from..from + quarter], &lasting);
    let (second, last) = (part(quarter), part(samples.len() - quarter));
    let mut complaints: Vec<String> = failed.iter().take(5).cloned().collect();
    if !failed.is_empty() {
        complaints.push(format!("{} runs failed", failed.len()));
    }
    if n_runs >= RUNS_MIN {
        let mut bound = |what: &str, before: f64, after: f64, most: f64| {
            if after > most {
                complaints.push(format!("{what} grew from {before:.0} to {after:.0}"));
            }
        };
        let grown = |before: f64| (before * MEMORY_RATIO_MAX).max(before + MEMORY_SLACK_KIB);
        bound("the service's memory in KiB", second.own_kib, last.own_kib, grown(second.own_kib));
        let most = grown(second.lasting_kib);
        bound("memory of zygotes in KiB", second.lasting_kib, last.lasting_kib, most);
        let some = |before: f64| before + MOMENTARY;
        bound("descriptors", second.descriptors, last.descriptors, some(second.descriptors));
        bound("processes", second.processes, last.processes, some(second.processes));
    }
    let per_second = f64::from(n_runs) / took.as_secs_f64();
    let mut table = String::new();
    let mut row = |name: &str, second: f64, last: f64| {
        let _ = writeln!(table, "{name:<40} {second:.0} {last:.0}");
    };
    row("memory, second and last quarter, KiB", second.own_kib, last.own_kib);
    row("of zygotes and helpers, KiB", second.lasting_kib, last.lasting_kib);
    row("descriptors of the service", second.descriptors, last.descriptors);
    row("processes", second.processes, last.processes);
    let _ = writeln!(table, "{:<40} {per_second:.0}\n", "runs a second");
    let quarters = |part: fn(&Means) -> f64| json!([part(&second), part(&last)]);
    let report = json!({
        "soak": "service",
        "runs": n_runs,
        "failed": failed.len(),
        "per_second": per_second,
        "own_kib": quarters(|s| s.own_kib),
        "lasting_kib": quarters(|s| s.lasting_kib),
        "descriptors": quarters(|s| s.descriptors),
        "processes": quarters(|s| s.processes),
    });
    Findings { report, table, complaints }
}

/// Runs programs one after another over one connection, until all are done.
fn client(service: &Service, n_runs: u32, next: &AtomicU32, failed: &Mutex<Vec<String>>) {
    let fail = |why: String| {
        failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(why);
    };
    let mut connection = match service.connect() {
        Ok(connection) => connection,
        Err(error) => return fail(format!("cannot connect: {error}")),
    };
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= n_runs {
            return;
        }
        match connection.run(&json!({"code": format!("print({number})")})) {
            Ok(answer) if answer.contains(&format!("\"stdout\":\"{number}\\n\"")) => {}
            Ok(answer) => fail(format!("run {number} answered {answer:.500}")),
            Err(error) => return fail(format!("run {number}: {error}")),
        }
    }
}

//! Many clients of one service, one of them hostile: what each honest one gets, how long it waits, and what memory the
//! service takes. Prints one JSON object; `cargo xtask soak --fair` judges it.
//!
//! ```text
//! fair DATA [RUNS] [CLIENTS] [NAMES]     the hostile client comes back under so many names in part 3; 1 if not said
//! ```
//! 1. capacity: as many runs a second as ten callers at once can have;
//! 2. share: every client asks again as soon as it is answered, more than the service can do, and the hostile one floods;
//! 3. waiting: runs arrive at half of the capacity whether others were answered or not, by turns with the hostile one and
//!    without, so that whatever else the host does meets both.

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringfence_audit::{KeepAll, LedgerSettings};
use ringfence_engine::admission::AdmissionSettings;
use ringfence_engine::{CodeCall, CodePolicy, Engine, HostContext, Recorder};
use ringfence_jail::Launcher;
use ringfence_spec::{Code, CodePreset, Limits, Problem, Status};
use serde_json::json;
use tokio::task::JoinSet;

/// What the service allows a client in a minute.
const RATE: u32 = 100;

/// Runs of one slice of the third part, with the hostile client and without by turns; there are two at least.
const SLICE_RUNS: u32 = 1250;

/// What the hostile client runs: loops, bombs of memory, floods of output.
const HOSTILE: [&str; 3] = [
    "while True: pass",
    "x = []\nwhile True: x.append(bytearray(1 << 22))",
    "while True: print('x' * 65536)",
];

fn main() -> Result<(), Problem> {
    // First: it may only be forked while there is one thread.
    let launcher = Launcher::start()?;
    let mut args = std::env::args().skip(1);
    let data = PathBuf::from(args.next().unwrap_or_default());
    let mut number = |default: u32| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (n_runs, n_clients, n_names) = (number(10_000), number(200), number(1).max(1));
    let mut code = CodePolicy { limits: Limits::for_code(CodePreset::Open), ..Default::default() };
    code.rules.preset = CodePreset::Open;
    let settings =
        AdmissionSettings { rate_per_minute: Some(RATE), ..AdmissionSettings::service() };
    let engine = Engine::builder()
        .launcher(launcher)
        .host(HostContext::here(&data)?)
        .code_policy(code)
        .recorder(Recorder::open(&data.join("ledger"), LedgerSettings::new(KeepAll))?)
        .admission(settings)
        .build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Problem::internal(Code::Threads, "cannot start a runtime").cause(e))?;
    runtime.block_on(async {
        let capacity = capacity(&engine, n_runs / 10).await;
        eprintln!("fair: {capacity:.0} runs a second");
        let memory = Memory::watch();
        let share = share(&engine, n_runs, n_clients).await;
        eprintln!("fair: {share}");
        let waits = waits(&engine, n_runs / 2, n_clients, n_names, capacity / 2.0).await;
        let report = json!({
            "runs": n_runs,
            "clients": n_clients,
            "hostile_names": n_names,
            "capacity_per_s": capacity.round(),
            "share": share,
            "waits_ms": waits,
            "memory_kib": memory.stop().await,
        });
        println!("{report}");
    });
    Ok(())
}

/// An honest run: a little work, as an agent asks for.
fn honest() -> CodeCall {
    CodeCall { code: "print(sum(range(1000)))".into(), ..CodeCall::default() }
}

/// Runs a second, of ten callers that are nobody's clients.
async fn capacity(engine: &Engine, n: u32) -> f64 {
    let n_left = Arc::new(AtomicU64::new(u64::from(n)));
    let mut callers = JoinSet::new();
    engine.execute("first", honest()).await;
    let began = Instant::now();
    for _ in 0..10 {
        let (engine, n_left) = (engine.clone(), Arc::clone(&n_left));
        callers.spawn(async move {
            while let Ok(at) =
                n_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            {
                // A name for every few, so that nobody's rate is passed.
                engine.execute(&format!("warm {}", at / 50), honest()).await;
            }
        });
    }
    callers.join_all().await;
    f64::from(n) / began.elapsed().as_secs_f64()
}

/// All ask at once and again, until so many runs are done: Jain's index of what the honest ones got.
async fn share(engine: &Engine, n_runs: u32, n_clients: u32) -> serde_json::Value {
    let stop = Arc::new(AtomicBool::new(false));
    let n_done = Arc::new(AtomicU64::new(0));
    let hostile = tokio::spawn(hostile(engine.clone(), 0, Arc::clone(&stop)));
    let mut clients = JoinSet::new();
    for n in 1..n_clients {
        let (engine, stop, n_done) = (engine.clone(), Arc::clone(&stop), Arc::clone(&n_done));
        clients.spawn(async move {
            let (mut n_own, mut n_rejected) = (0u32, 0u64);
            while !stop.load(Ordering::SeqCst) {
                let outcome = engine.execute(&format!("client {n}"), honest()).await.outcome;
                if outcome.status == Status::Ok {
                    n_own += 1;
                    if n_done.fetch_add(1, Ordering::SeqCst) + 1 >= u64::from(n_runs) {
                        stop.store(true, Ordering::SeqCst);
                    }
                    continue;
                }
                n_rejected += 1;
                let wait = outcome.error.and_then(|error| error.retry_after_ms).unwrap_or(10);
                tokio::time::sleep(Duration::from_millis(wait.min(1000))).await;
            }
            (n_own, n_rejected)
        });
    }
    let each = clients.join_all().await;
    let seen = hostile.await.unwrap_or_default();
    let shares: Vec<f64> = each.iter().map(|(n, _)| f64::from(*n)).collect();
    let n_rejected: u64 = each.iter().map(|(_, n)| n).sum();
    let least = each.iter().map(|(n, _)| *n).min();
    let most = each.iter().map(|(n, _)| *n).max();
    json!({
        "jain": jain(&shares), "least": least, "most": most, "rejected": n_rejected, "hostile": seen.json(),
    })
}

/// 1 when all have the same, one in so many when one has all.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    let n = f64::from(u32::try_from(shares.len()).unwrap_or(u32::MAX));
    if squares == 0.0 { 0.0 } else { sum * sum / (n * squares) }
}

/// How long honest runs take that arrive at this rate, with the hostile client and without.
async fn waits(
    engine: &Engine,
    n_runs: u32,
    n_clients: u32,
    n_names: u32,
    per_s: f64,
) -> serde_json::Value {
    let mut took = [Vec::new(), Vec::new()];
    let mut n_refused = [0u32; 2];
    let mut seen = Hostilities::default();
    let n_slices = 2 * n_runs.div_ceil(SLICE_RUNS);
    for slice in 0..n_slices {
        let with = (slice % 2) as usize;
        let stop = Arc::new(AtomicBool::new(false));
        let other = (with == 1).then(|| {
            tokio::spawn(hostile(engine.clone(), 1 + slice / 2 % n_names, Arc::clone(&stop)))
        });
        let mut runs = JoinSet::new();
        let (began, n_slice) = (Instant::now(), n_runs * 2 / n_slices);
        for i in 0..n_slice {
            let due = began + Duration::from_secs_f64(f64::from(i) / per_s);
            tokio::time::sleep_until(due.into()).await;
            let (engine, client) = (engine.clone(), format!("client {}", 1 + i % (n_clients - 1)));
            // From when it was due, so that a harness that is late hides nothing.
            runs.spawn(async move {
                let status = engine.execute(&client, honest()).await.outcome.status;
                (status == Status::Ok, due.elapsed().as_secs_f64() * 1e3)
            });
        }
        for (ok, ms) in runs.join_all().await {
            took[with].push(ms);
            n_refused[with] += u32::from(!ok);
        }
        stop.store(true, Ordering::SeqCst);
        if let Some(other) = other {
            seen.add(other.await.unwrap_or_default());
        }
    }
    let [calm, hostile] = took.map(|mut times| {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
        json!({ "runs": times.len(), "p50": at(50), "p99": at(99) })
    });
    json!({
        "per_s": per_s.round(), "without": calm, "with": hostile, "refused": n_refused, "hostile": seen.json(),
    })
}

/// What became of the hostile client's calls.
#[derive(Clone, Copy, Default)]
struct Hostilities {
    asked: u32,
    ran: u32,
}

impl Hostilities {
    fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.ran += other.ran;
    }

    fn json(self) -> serde_json::Value {
        json!({ "asked": self.asked, "ran": self.ran })
    }
}

/// A hundred calls at once, then five times its rate, whatever it is answered. In each part under another name, so that
/// nobody remembers it from the one before.
async fn hostile(engine: Engine, n: u32, stop: Arc<AtomicBool>) -> Hostilities {
    let mut calls = JoinSet::new();
    let mut seen = Hostilities::default();
    let pause = Duration::from_mins(1) / (5 * RATE);
    while !stop.load(Ordering::SeqCst) {
        let n_now = if seen.asked == 0 { RATE } else { 1 };
        for _ in 0..n_now {
            let code = HOSTILE[seen.asked as usize % HOSTILE.len()].to_owned();
            let timeout = Some(Duration::from_millis(400));
            let (engine, call) = (
                engine.clone(),
                CodeCall { code: code.into_bytes(), timeout, ..CodeCall::default() },
            );
            seen.asked += 1;
            let name = format!("hostile {n}");
            calls.spawn(async move { engine.execute(&name, call).await.outcome.status });
        }
        tokio::time::sleep(pause).await;
    }
    let statuses = calls.join_all().await;
    seen.ran = u32::try_from(statuses.iter().filter(|s| **s != Status::Rejected).count())
        .unwrap_or(u32::MAX);
    seen
}

/// Resident memory of this process, looked at while it works.
struct Memory {
    stop: Arc<AtomicBool>,
    samples: tokio::task::JoinHandle<Vec<f64>>,
}

impl Memory {
    fn watch() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let samples = tokio::spawn(async move {
            let mut samples = Vec::with_capacity(10_000);
            while !stopped.load(Ordering::SeqCst) {
                samples.push(resident_kib());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            samples
        });
        Self { stop, samples }
    }

    /// The medians of the third and of the last quarter.
    async fn stop(self) -> serde_json::Value {
        self.stop.store(true, Ordering::SeqCst);
        let samples = self.samples.await.unwrap_or_default();
        let n = samples.len() / 4;
        let median = |part: &[f64]| {
            let mut part = part.to_vec();
            part.sort_by(f64::total_cmp);
            part.get(part.len() / 2).copied().unwrap_or_default()
        };
        json!({ "first": median(&samples[..n]), "third": median(&samples[2 * n..3 * n]), "last": median(&samples[3 * n..]) })
    }
}

fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

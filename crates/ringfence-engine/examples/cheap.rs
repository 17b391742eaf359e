//! What the ledger costs a warm program: two engines in one process, one that writes everything down and one that writes
//! nothing, asked in turn, so that whatever else the host does meets both. First with a pause before each, so that a worker
//! waits and nothing else is to do; then one after the other, where what a run costs its host besides counts as well.
//!
//! ```text
//! cargo run --release --package ringfence-engine --example cheap [RUNS]
//! ```

#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_audit::{KeepAll, LedgerSettings};
use ringfence_engine::{CodeCall, Engine, HostContext, Recorder};
use ringfence_jail::Launcher;
use ringfence_spec::{Code, Problem, Status};

/// Clients at once where throughput is measured.
const CLIENTS: usize = 4;

/// Long enough for another worker to be there.
const PAUSE: Duration = Duration::from_millis(8);

/// Turns of each engine there.
const ROUNDS: usize = 10;

fn main() -> Result<(), Problem> {
    // First: launchers may only be forked while there is one thread.
    let launchers = [Launcher::start()?, Launcher::start()?];
    let n: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2000);
    let base = std::env::var_os("RINGFENCE_BENCH_DIR").unwrap_or(".".into());
    let dir = tempfile::tempdir_in(base)
        .map_err(|e| Problem::internal(Code::Internal, "cannot make a directory").cause(e))?;
    let [on, off] = launchers;
    let ledger = dir.path().join("ledger");
    let engines = [
        engine(on, &dir.path().join("on"), Recorder::open(&ledger, LedgerSettings::new(KeepAll))?)?,
        engine(off, &dir.path().join("off"), Recorder::off())?,
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::internal(Code::Threads, "cannot start a runtime").cause(e))?;
    runtime.block_on(async {
        for engine in &engines {
            alone(engine, 50).await;
        }
        for pause in [PAUSE, Duration::ZERO] {
            in_turn(&engines, n, pause).await;
        }
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for which in [round % 2, 1 - round % 2] {
                rates[which].push(rate(&engines[which], n / ROUNDS).await);
            }
        }
        for rates in &mut rates {
            rates.sort_by(f64::total_cmp);
        }
        let [on, off] = rates.map(|rates| rates[ROUNDS / 2]);
        println!("{CLIENTS} clients at once, the median of {ROUNDS} rounds");
        println!(
            "  ledger on {on:.0} runs/s  off {off:.0} runs/s  {:+.1}%",
            (on / off - 1.0) * 100.0
        );
    });
    Ok(())
}

/// Asks both, so many times each.
async fn in_turn(engines: &[Engine; 2], n: usize, pause: Duration) {
    let mut took = [Vec::with_capacity(n), Vec::with_capacity(n)];
    for i in 0..n {
        // First one, then the other goes first, so that neither always follows the other.
        for at in [i % 2, 1 - i % 2] {
            tokio::time::sleep(pause).await;
            took[at].extend(alone(&engines[at], 1).await);
        }
    }
    for times in &mut took {
        times.sort_unstable();
    }
    let at = |which: usize, part: usize| millis(took[which][n * part / 100]);
    println!("warm print(1), {n} of each, in turn, {} ms before each", pause.as_millis());
    for part in [50, 99] {
        let (on, off) = (at(0, part), at(1, part));
        println!(
            "  p{part}  ledger on {on:.3} ms  off {off:.3} ms  difference {:+.3} ms",
            on - off
        );
    }
}

fn engine(launcher: Launcher, state: &Path, recorder: Recorder) -> Result<Engine, Problem> {
    let place = HostContext {
        environment: std::env::vars_os().collect(),
        cwd: std::env::current_dir().unwrap_or_default(),
        cwd_id: None,
        state: state.to_owned(),
        config: None,
    };
    Engine::builder().launcher(launcher).host(place).recorder(recorder).parallel(CLIENTS).build()
}

/// One after the other; how long each took.
async fn alone(engine: &Engine, n: usize) -> Vec<Duration> {
    let mut took = Vec::with_capacity(n);
    for _ in 0..n {
        let call = CodeCall { code: "print(1)".into(), ..CodeCall::default() };
        let began = Instant::now();
        let ran = engine.execute("bench", call).await;
        took.push(began.elapsed());
        assert_eq!(ran.outcome.status, Status::Ok, "{:?}", ran.outcome);
    }
    took
}

/// Runs a second, of several clients.
async fn rate(engine: &Engine, n: usize) -> f64 {
    let began = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { alone(&engine, n.div_ceil(CLIENTS)).await.len() })
        })
        .collect();
    let mut n_done = 0;
    for client in clients {
        n_done += client.await.unwrap_or_default();
    }
    f64::from(u32::try_from(n_done).unwrap_or(u32::MAX)) / began.elapsed().as_secs_f64()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

//! Many runs at once in one workspace: commands, one-shot programs and batches. Each answers what it was asked, and none is
//! refused because others run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::percentiles::Percentiles;
use crate::soak::world::World;
use crate::soak::{Findings, leftovers};

/// Programs of one batch.
const BATCH_ITEMS: u32 = 4;

/// Failures that are told in full.
const TOLD_MAX: usize = 5;

/// Runs between two lines of progress.
const PROGRESS_EVERY: u32 = 1000;

/// Kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Run,
    Exec,
    Batch,
}

/// Half of the runs are commands, a quarter each of the others.
const KINDS: [Kind; 4] = [Kind::Run, Kind::Exec, Kind::Run, Kind::Batch];

#[derive(Default)]
struct Tally {
    times_ms: BTreeMap<Kind, Vec<f64>>,
    failures: Vec<String>,
    n_failed: u32,
}

/// Does `n_runs` runs, `n_jobs` of them at once.
pub(crate) fn soak(world: &World, n_runs: u32, n_jobs: u32) -> Findings {
    let next = AtomicU32::new(0);
    let tally = Mutex::new(Tally::default());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..n_jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= n_runs {
                        return;
                    }
                    if number > 0 && number.is_multiple_of(PROGRESS_EVERY) {
                        eprintln!("soak: {number} of {n_runs}");
                    }
                    let kind = KINDS[number as usize % KINDS.len()];
                    let began = Instant::now();
                    let result = run(world, kind, number);
                    let took_ms = began.elapsed().as_secs_f64() * 1e3;
                    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    tally.times_ms.entry(kind).or_default().push(took_ms);
                    if let Err(failure) = result {
                        tally.n_failed += 1;
                        if tally.failures.len() < TOLD_MAX {
                            tally.failures.push(failure);
                        }
                    }
                }
            });
        }
    });
    let took = began.elapsed();
    leftovers::settle(world);
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    judge(tally, n_runs, n_jobs, took)
}

/// Does one run and compares its answer.
fn run(world: &World, kind: Kind, number: u32) -> Result<(), String> {
    let (mut command, input, wanted) = match kind {
        Kind::Run => {
            let argv = ["sh", "-c", &format!("echo {number}")].map(str::to_owned);
            (world.run(&[], &argv), None, format!("{number}\n"))
        }
        Kind::Exec => {
            let mut command = world.exec(&["--preset", "open"]);
            command.args(["-c", &format!("print({number})")]);
            (command, None, format!("{number}\n"))
        }
        Kind::Batch => {
            let (mut items, mut wanted) = (String::new(), String::new());
            for n in (0..BATCH_ITEMS).map(|i| u64::from(number) * 10 + u64::from(i)) {
                let _ = writeln!(items, "{}", json!({"id": n, "code": format!("print({n})")}));
                let _ = writeln!(wanted, "{n}");
            }
            (world.batch(&["--preset", "open", "-j", "2"]), Some(items), wanted)
        }
    };
    let output = output_of(&mut command, input).map_err(|e| format!("{kind:?} {number}: {e}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let said = if kind == Kind::Batch { batch_output(&stdout) } else { stdout.into_owned() };
    if output.status.success() && said == wanted {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{kind:?} {number}: {}: {said:?}: {}", output.status, stderr.trim()))
}

fn output_of(
    command: &mut Command,
    input: Option<String>,
) -> std::io::Result<std::process::Output> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A batch that ended early says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// Output of the items of a batch, in the order of their ids.
fn batch_output(stdout: &str) -> String {
    let answers = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let by_id: BTreeMap<u64, String> = answers
        .filter_map(|answer| Some((answer["id"].as_u64()?, answer["stdout"].as_str()?.to_owned())))
        .collect();
    by_id.into_values().collect()
}

fn judge(tally: Tally, n_runs: u32, n_jobs: u32, took: Duration) -> Findings {
    let mut table = format!(
        "runs                {n_runs}\nat once             {n_jobs}\nseconds             {:.1}\nfailed              {}\n",
        took.as_secs_f64(),
        tally.n_failed
    );
    let mut kinds = json!({});
    for (kind, times) in &tally.times_ms {
        let Percentiles { p50, p99, max, .. } = Percentiles::of(times.iter().copied());
        let name = format!("{kind:?}").to_lowercase();
        let _ = writeln!(
            table,
            "{name:<10} {:>8} runs, {p50:>8.1} ms p50, {p99:>8.1} p99, {max:>8.1} at most",
            times.len()
        );
        kinds[name] = json!({"runs": times.len(), "p50_ms": p50, "p99_ms": p99, "max_ms": max});
    }
    table.push('\n');
    let report = json!({
        "soak": "parallel",
        "runs": n_runs,
        "jobs": n_jobs,
        "failed": tally.n_failed,
        "seconds": took.as_secs_f64(),
        "kinds": kinds,
    });
    let mut complaints = tally.failures;
    if tally.n_failed > 0 {
        complaints.insert(0, format!("{} of {n_runs} runs failed", tally.n_failed));
    }
    Findings { report, table, complaints }
}

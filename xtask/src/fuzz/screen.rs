//! Hostile sources for `ringfence_screen::screen`: mutated programs, one after the other in this process. Every verdict must
//! come without a panic, on a small stack, in bounded time, agree with itself and keep the presets in order.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_screen::{ScreenRisk, ScreenVerdict, screen};
use ringfence_spec::CodePreset;

use super::FuzzArgs;
use super::mutate::Mutator;
use crate::{CannotTry, Verdict};

/// The stack sources are read on: a quarter of what a thread gets by default.
const STACK_BYTES: usize = 512 << 10;

/// Programs kept to mutate further.
pub(super) const POOL_MAX: usize = 2000;

/// Fewest sources, however slow the machine is: so many are read after the time is over.
const SOURCES_MIN: u64 = 200;

/// Failures saved before giving up.
const FAILURES_MAX: usize = 20;

/// Findings of a run.
#[derive(Debug, Default)]
struct Found {
    n_sources: u64,
    n_safe: u64,
    slowest: Duration,
    failures: Vec<(String, PathBuf)>,
}

/// Fuzzes for a while.
pub(super) fn fuzz(args: &FuzzArgs, seed: u64) -> Result<Verdict, CannotTry> {
    let seeds = programs()?;
    let dir = tempfile::Builder::new()
        .prefix("ringfence-fuzz-")
        .tempdir()
        .map_err(|e| format!("cannot make a directory for what is found: {e}"))?;
    // A stack overflow ends this process; then the source is here.
    let last = dir.path().join("last.py");
    eprintln!("the source being read is in `{}`", last.display());
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let each_max = Duration::from_millis(args.each_max);
    let worker = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || attempt(Mutator::new(seed, seeds), deadline, each_max, &last))
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    let found = worker.join().map_err(|_| "the fuzzer itself panicked".to_owned())?;
    if !found.failures.is_empty() {
        // What was found stays.
        let kept = dir.keep();
        eprintln!("sources that failed are in `{}`", kept.display());
    }
    report(args, seed, &found);
    Ok(if found.failures.is_empty() { Verdict::Held } else { Verdict::Failed })
}

fn attempt(mut mutator: Mutator, deadline: Instant, each_max: Duration, last: &Path) -> Found {
    // A panic is reported with its source; its own message would only be noise.
    std::panic::set_hook(Box::new(|_| {}));
    let mut found = Found::default();
    while (Instant::now() < deadline || found.n_sources < SOURCES_MIN)
        && found.failures.len() < FAILURES_MAX
    {
        let source = mutator.source();
        let _ = std::fs::write(last, &source);
        let started = Instant::now();
        let judged = std::panic::catch_unwind(AssertUnwindSafe(|| judge(&source)));
        let took = started.elapsed();
        found.n_sources += 1;
        found.slowest = found.slowest.max(took);
        let failure = match judged {
            Err(_) => Some("panic".to_owned()),
            Ok(Err(why)) => Some(why),
            Ok(Ok(_)) if took > each_max => Some(format!("took {} ms", took.as_millis())),
            Ok(Ok(verdicts)) => {
                found.n_safe += u64::from(verdicts.iter().any(|v| v.safe));
                mutator.keep_if_new(source, &verdicts);
                None
            }
        };
        if let Some(why) = failure {
            let path = last.with_file_name(format!("{}.py", found.failures.len()));
            let _ = std::fs::copy(last, &path);
            found.failures.push((why, path));
        }
    }
    let _ = std::panic::take_hook();
    found
}

/// The verdict of every preset, from tight to loose, or what is wrong with them.
fn judge(source: &[u8]) -> Result<Vec<ScreenVerdict>, String> {
    let presets = [CodePreset::Strict, CodePreset::Standard, CodePreset::Data, CodePreset::Open];
    let verdicts: Vec<ScreenVerdict> = presets.iter().map(|p| screen(source, *p, &[])).collect();
    for verdict in &verdicts {
        let is_quiet = verdict.safe && verdict.findings.is_empty();
        if verdict.safe != verdict.violations.is_empty()
            || is_quiet != (verdict.risk == ScreenRisk::Safe)
        {
            return Err("a verdict disagrees with itself".into());
        }
    }
    if verdicts.windows(2).any(|pair| pair[0].safe && !pair[1].safe) {
        return Err("a looser preset refuses what a tighter one allows".into());
    }
    Ok(verdicts)
}

/// The programs of the corpus.
fn programs() -> Result<Vec<Vec<u8>>, CannotTry> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ringfence-screen/corpus");
    let cannot = |e: std::io::Error| format!("cannot read the corpus `{}`: {e}", corpus.display());
    let mut programs = Vec::new();
    for preset in std::fs::read_dir(&corpus).map_err(cannot)? {
        for entry in std::fs::read_dir(preset.map_err(cannot)?.path()).map_err(cannot)? {
            programs.push(std::fs::read(entry.map_err(cannot)?.path()).map_err(cannot)?);
        }
    }
    // The order of a directory is not the same everywhere; a seed should be.
    programs.sort();
    Ok(programs)
}

fn report(args: &FuzzArgs, seed: u64, found: &Found) {
    let Found { n_sources, n_safe, slowest, failures } = found;
    if args.json {
        let list: Vec<_> = failures
            .iter()
            .map(|(why, path)| serde_json::json!({"why": why, "source": path}))
            .collect();
        let object = serde_json::json!({
            "ok": failures.is_empty(), "seed": seed, "sources": n_sources, "safe": n_safe,
            "slowest_ms": crate::millis(*slowest), "failures": list,
        });
        println!("{object}");
        return;
    }
    let bytes_max = CodePreset::Standard.source_bytes_max();
    println!("{n_sources} sources of up to {bytes_max} bytes, {n_safe} safe by some preset");
    println!("slowest: {:.1} ms for all four presets", crate::millis(*slowest));
    for (why, path) in failures {
        println!("FAILED: {why}: {}", path.display());
    }
}

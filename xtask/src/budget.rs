//! What building the program costs: crates, processor time, wall time and the longest unit, each within its bound. Builds
//! `cargo build --release` in a directory of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::{CannotTry, Verdict, program};

/// Processor time on a machine with two idle cores.
const CPU_MAX: Duration = Duration::from_mins(7);

const WALL_MAX: Duration = Duration::from_mins(4);

/// The longest time of one crate.
const UNIT_MAX: Duration = Duration::from_secs(45);

/// Crates and build scripts compiled.
const UNITS_MAX: usize = 410;

#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// Judge crates and processor time only: other work shares the processors
    #[arg(long)]
    busy: bool,
}

pub(crate) fn budget(args: &BudgetArgs) -> Result<Verdict, CannotTry> {
    let target = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
    let began = Instant::now();
    let before = children_cpu()?;
    let status = program::cargo()
        .args(["build", "--release", "--package", "ringfence", "--timings"])
        .env("CARGO_TARGET_DIR", target.path())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !status.success() {
        return Err("`cargo build --release` failed".to_owned());
    }
    let (wall, cpu) = (began.elapsed(), children_cpu()?.saturating_sub(before));
    let units = units(target.path())?;
    let longest = units.first().ok_or("the report of timings lists no units")?;
    let rows = [
        ("processor time, s", cpu.as_secs_f64(), CPU_MAX.as_secs_f64(), true),
        ("wall time, s", wall.as_secs_f64(), WALL_MAX.as_secs_f64(), !args.busy),
        ("longest unit, s", longest.0, UNIT_MAX.as_secs_f64(), !args.busy),
        ("units", count(units.len()), count(UNITS_MAX), true),
    ];
    let mut verdict = Verdict::Held;
    for (name, found, max, judged) in rows {
        let word = match (judged, found <= max) {
            (false, _) => "not judged",
            (true, true) => "ok",
            (true, false) => "too much",
        };
        if word == "too much" {
            verdict = Verdict::Failed;
        }
        println!("{name:<20} {found:>8.1} of {max:>6.1}  {word}");
    }
    for (seconds, name) in units.iter().take(10) {
        println!("  {seconds:>6.1} s  {name}");
    }
    Ok(verdict)
}

/// Processor time of the processes that this one has waited for, and of theirs.
fn children_cpu() -> Result<Duration, CannotTry> {
    let text = std::fs::read_to_string("/proc/self/stat").map_err(|e| format!("/proc: {e}"))?;
    // After the name, which may contain anything: `cutime` and `cstime` are fields 16 and 17 of all.
    let after = text.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: u64 =
        after.split_whitespace().skip(13).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs(ticks)
        / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100))
}

fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// The units of cargo's report, the longest first: seconds, name.
fn units(target: &Path) -> Result<Vec<(f64, String)>, CannotTry> {
    let path = target.join("cargo-timings/cargo-timing.html");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let start = text.find("UNIT_DATA = ").ok_or("the report has no units")? + "UNIT_DATA = ".len();
    let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let list = stream.next().and_then(Result::ok).ok_or("the report's units are not JSON")?;
    let unit = |unit: &Value| {
        let name = format!("{}{}", unit["name"].as_str()?, unit["target"].as_str().unwrap_or(""));
        Some((unit["duration"].as_f64()?, name))
    };
    let mut units: Vec<_> = list.as_array().into_iter().flatten().filter_map(unit).collect();
    units.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(units)
}

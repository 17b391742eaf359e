//! Flat in concurrency: what one start, session call, admission and ledger row costs beside few and beside many others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::percentiles::Percentiles;
use crate::soak::cgroup_parents;
use crate::{CannotTry, Verdict, millis, program};

/// Limit of the cost of the largest of a row, in times of the smallest.
const RATIO_MAX: f64 = 1.1;

/// Differences below this are none: a clock and a cache show more.
const NOISE_US: f64 = 5.0;

/// Measured starts of each size.
const STARTS: usize = 101;

#[derive(Debug, Args)]
pub(crate) struct FlatArgs {
    /// The binary to measure; built in release if not given
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The engine's example `flat`; built in release if not given
    #[arg(long, value_name = "PATH")]
    example: Option<PathBuf>,
    /// Most other runs alive
    #[arg(long, default_value_t = 1000)]
    runs: usize,
    /// Most leaves left behind, of processes that live; as root
    #[arg(long, default_value_t = 10_000)]
    leaves: usize,
    /// Most sessions, and most clients
    #[arg(long, default_value_t = 10_000)]
    sessions: usize,
    /// Most rows of the ledger
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Median costs of one row, by size.
type Rows = BTreeMap<String, Vec<(usize, f64)>>;

/// Measures, prints, judges.
pub(crate) fn flat(args: &FlatArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let example = program::example("flat", args.example.as_ref())?;
    let dir = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
    let mut rows = Rows::new();
    starts_beside_runs(&binary, dir.path(), args.runs, &mut rows)?;
    starts_beside_leaves(&binary, dir.path(), args.leaves, &mut rows)?;
    engine_rows(&example, dir.path(), args, &mut rows)?;
    let mut is_flat = true;
    let mut report = json!({});
    for (name, costs) in &rows {
        let few = costs.first().map_or(f64::NAN, |(_, cost)| *cost);
        let most = costs.iter().map(|(_, cost)| *cost).fold(few, f64::max);
        let holds = most <= few * RATIO_MAX || most - few <= NOISE_US;
        is_flat &= holds;
        report[name] = json!({"p50_us": costs, "ratio": most / few, "flat": holds});
        if !args.json {
            let costs: Vec<String> =
                costs.iter().map(|(size, cost)| format!("{size}: {cost:.0} µs")).collect();
            println!("{name:<36} {:.2}  {}", most / few, costs.join("  "));
        }
        if !holds {
            eprintln!("FAILED: {name}: {:.2} times as much beside many", most / few);
        }
    }
    if args.json {
        println!("{report}");
    }
    Ok(if is_flat { Verdict::Held } else { Verdict::Failed })
}

/// Runs that are alive and sleep. Dropping it ends them.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &self.0 {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(child),
                rustix::process::Signal::TERM,
            );
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

fn command(
    binary: &Path,
    dir: &Path,
    workspace: &str,
    argv: &[&str],
) -> Result<Command, CannotTry> {
    let workspace = dir.join(workspace);
    std::fs::create_dir_all(&workspace).map_err(|e| format!("cannot make a workspace: {e}"))?;
    let mut command = Command::new(binary);
    command.arg("run").arg("--data-dir").arg(dir.join("data")).arg("--").args(argv);
    command.current_dir(workspace).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Median time of a start, each in the same workspace as the one before.
fn start_us(binary: &Path, dir: &Path) -> Result<f64, CannotTry> {
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let began = Instant::now();
        let status = command(binary, dir, "work", &["true"])?
            .status()
            .map_err(|e| format!("cannot start ringfence: {e}"))?;
        times.push(millis(began.elapsed()) * 1e3);
        if !status.success() {
            return Err(format!("`ringfence run -- true`: {status}"));
        }
    }
    Ok(Percentiles::of(times).p50)
}

fn starts_beside_runs(
    binary: &Path,
    dir: &Path,
    most: usize,
    rows: &mut Rows,
) -> Result<(), CannotTry> {
    let mut sleepers = Sleepers(Vec::new());
    start_us(binary, dir)?;
    for size in [0, most / 10, most] {
        while sleepers.0.len() < size {
            let workspace = format!("work{}", sleepers.0.len());
            let child = command(binary, dir, &workspace, &["sleep", "3600"])?.spawn();
            sleepers.0.push(child.map_err(|e| format!("cannot start ringfence: {e}"))?);
            if sleepers.0.len().is_multiple_of(50) {
                // They start one after the other on few processors.
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        std::thread::sleep(Duration::from_secs(2));
        let cost = start_us(binary, dir)?;
        rows.entry("start beside other runs".to_owned()).or_default().push((size, cost));
    }
    Ok(())
}

/// Directories like the leaves of runs whose supervisors live. Dropping it removes them.
struct Leaves(Vec<PathBuf>);

impl Drop for Leaves {
    fn drop(&mut self) {
        for leaf in &self.0 {
            let _ = std::fs::remove_dir(leaf);
        }
    }
}

fn starts_beside_leaves(
    binary: &Path,
    dir: &Path,
    most: usize,
    rows: &mut Rows,
) -> Result<(), CannotTry> {
    let is_root = rustix::process::getuid().is_root();
    let parents = cgroup_parents();
    let own: Vec<&PathBuf> = parents
        .iter()
        .filter(|dir| {
            ["memory", "pids"].iter().any(|c| dir.starts_with(format!("/sys/fs/cgroup/{c}")))
        })
        .collect();
    if !is_root || own.is_empty() {
        eprintln!(
            "NOTE: no leaves: they need root and cgroup v1; `cargo xtask vm --scenario cost` has v2"
        );
        return Ok(());
    }
    let mut leaves = Leaves(Vec::new());
    let pid = std::process::id();
    for size in [0, most / 10, most] {
        for controller in ["memory", "pids"] {
            let top = format!("/sys/fs/cgroup/{controller}");
            // The deepest is this process's own, where runs make theirs.
            let Some(parent) = own
                .iter()
                .filter(|dir| dir.starts_with(&top))
                .max_by_key(|dir| dir.components().count())
            else {
                continue;
            };
            let from = leaves.0.iter().filter(|leaf| leaf.starts_with(&top)).count();
            for number in from..size {
                // The sweep leaves those of living processes alone.
                let leaf = parent.join(format!("ringfence-{pid}-{}-{number:08x}", u64::MAX));
                std::fs::create_dir(&leaf)
                    .map_err(|e| format!("mkdir({}): {e}", leaf.display()))?;
                leaves.0.push(leaf);
            }
        }
        let cost = start_us(binary, dir)?;
        rows.entry("start beside leaves".to_owned()).or_default().push((size, cost));
    }
    Ok(())
}

fn engine_rows(
    example: &Path,
    dir: &Path,
    args: &FlatArgs,
    rows: &mut Rows,
) -> Result<(), CannotTry> {
    let sizes = [args.sessions, args.sessions, args.rows].map(|n| n.to_string());
    let output = Command::new(example)
        .arg(dir.join("engine"))
        .args(sizes)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start the example: {e}"))?;
    if !output.status.success() {
        return Err(format!("the example ended with {}", output.status));
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let row: Value = serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?;
        let name = row["row"].as_str().unwrap_or_default().to_owned();
        let size = row["size"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        rows.entry(name).or_default().push((size, row["p50_us"].as_f64().unwrap_or(f64::NAN)));
    }
    Ok(())
}

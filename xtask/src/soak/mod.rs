//! Certain death: programs that do not want to die, each dead at its deadline, and afterwards nothing of them anywhere.

mod deadline;
mod engine;
mod fair;
mod hostile;
mod leftovers;
mod parallel;
mod python;
mod service;
mod supervisor;
mod world;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{CannotTry, Verdict, program, random};
use leftovers::Leftovers;
use world::World;

pub(crate) use leftovers::{below, cgroup_parents, reap};

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct SoakArgs {
    /// Number of runs [default: 1,000; 10,000 for `--fair`, 20,000 for `--parallel`, 1,000,000 for `--service`]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// The binary to prove; a release build of this workspace when not given
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The tier to prove; `landlock` takes user namespaces away first
    #[arg(long, value_enum, default_value_t = SoakTier::Namespaces)]
    tier: SoakTier,
    /// Limit of the 99th percentile of the time past a deadline, in milliseconds; the promise is the default
    #[arg(long, value_name = "MS", default_value_t = 100.0)]
    overshoot_p99_max: f64,
    /// Run as this user (needs root) [default as root in the tier `landlock`: 61234]
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Kill ringfence itself at random moments instead of waiting for deadlines
    #[arg(long)]
    kill_supervisor: bool,
    /// Endless Python programs through one batch instead of hostile commands
    #[arg(long, conflicts_with = "kill_supervisor")]
    python: bool,
    /// Kill a service under load at random moments, on one data directory, and look at its ledger
    #[arg(long, conflicts_with_all = ["kill_supervisor", "python"])]
    engine: bool,
    /// Number of kills, for `--engine`
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    kills: u32,
    /// 200 clients of one service, one of them hostile: each gets its share, in time
    #[arg(long, conflicts_with_all = ["kill_supervisor", "python", "engine"])]
    fair: bool,
    /// Number of clients, for `--fair`
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    clients: u32,
    /// Commands, one-shot programs and batches at once in one workspace
    #[arg(long, conflicts_with_all = ["kill_supervisor", "python", "engine", "fair"])]
    parallel: bool,
    /// Python programs through one service over HTTP: its memory, descriptors and processes stay what they were
    #[arg(long, conflicts_with_all = ["kill_supervisor", "python", "engine", "fair", "parallel"])]
    service: bool,
    /// Number of parallel jobs, for `--parallel`
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    jobs: u32,
    /// Chooses the moments of `--kill-supervisor` and `--engine`; printed, so that a run can be repeated
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SoakTier {
    Namespaces,
    Landlock,
}

impl SoakTier {
    const fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
        }
    }

    /// User that replaces root: ringfence refuses root of the host outside of a user namespace, and this tier is tested in
    /// one.
    fn stand_in(self) -> Option<u32> {
        let root = rustix::process::getuid().is_root();
        (self == Self::Landlock && root).then_some(ORDINARY_ID)
    }
}

/// An id that no distribution hands out and no passwd knows.
const ORDINARY_ID: u32 = 61_234;

/// Findings of a soak, as JSON and as a verdict.
struct Findings {
    report: Value,
    table: String,
    complaints: Vec<String>,
}

/// Soaks, prints, judges.
pub(crate) fn soak(args: &SoakArgs) -> Result<Verdict, CannotTry> {
    let binary = match args {
        SoakArgs { engine: true, .. } => program::example("load", args.binary.as_ref())?,
        SoakArgs { fair: true, .. } => program::example("fair", args.binary.as_ref())?,
        _ => program::ringfence(args.binary.as_ref())?,
    };
    // Processes that a run leaves alive or unreaped become children of this one, so counting its descendants finds them.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| format!("cannot become a subreaper: {e}"))?;
    let user = args.user.or_else(|| args.tier.stand_in());
    let world = World::new(&binary, args.tier, user)?;
    match args {
        SoakArgs { engine: true, .. } => engine::begin(&world)?,
        SoakArgs { fair: true, .. } => {}
        _ => world.check_tier()?,
    }
    let before = Leftovers::count(&world);
    let n_runs = args.runs.unwrap_or(1000);
    let seed = args.seed.unwrap_or_else(random::seed);
    let mut findings = if args.engine {
        engine::soak(&world, args.kills, seed)?
    } else if args.fair {
        fair::soak(&world, args.runs.unwrap_or(10_000), args.clients)?
    } else if args.parallel {
        parallel::soak(&world, args.runs.unwrap_or(20_000), args.jobs)
    } else if args.service {
        service::soak(&world, args.runs.unwrap_or(1_000_000))?
    } else if args.kill_supervisor {
        supervisor::soak(&world, n_runs, seed)?
    } else if args.python {
        python::soak(&world, n_runs, seed, args.overshoot_p99_max)?
    } else {
        deadline::soak(&world, n_runs, args.overshoot_p99_max)?
    };
    let left = Leftovers::count(&world).beyond(&before);
    findings.complaints.extend(left.complaints());
    findings.report["tier"] = args.tier.name().into();
    findings.report["uid"] = user.unwrap_or(rustix::process::getuid().as_raw()).into();
    findings.report["leftovers"] = left.json();
    findings.report["complaints"] = findings.complaints.clone().into();
    findings.report["ok"] = findings.complaints.is_empty().into();
    if args.json {
        println!("{}", findings.report);
    } else {
        print!("{}{}", findings.table, left.table());
    }
    for complaint in &findings.complaints {
        eprintln!("FAILED: {complaint}");
    }
    Ok(if findings.complaints.is_empty() { Verdict::Held } else { Verdict::Failed })
}

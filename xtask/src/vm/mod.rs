//! Other kernels: boots Debian's own kernel in qemu, runs a table of steps in it, and judges what they answered.
//! Emulated, so that it needs neither root nor hardware virtualisation; installs nothing on the host.

mod image;
mod kernel;
mod machine;
mod newc;
mod steps;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use crate::{CannotTry, Verdict, program};
use machine::Answer;
use steps::{Duration, Needs, SCENARIOS, Scenario};

#[derive(Debug, Args)]
pub(crate) struct VmArgs {
    /// The kernel series to boot, as Debian packages it for clouds
    #[arg(long, value_name = "SERIES", default_values_t = ["6.1".to_owned(), "6.12".to_owned()])]
    kernel: Vec<String>,
    /// Only this scenario: default, noipv6, nouserns, nolandlock, nothing; only when named, because they take long: escapes, cost,
    /// soak
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Of the scenario `escapes`, only attacks whose name contains this
    #[arg(long, value_name = "WORD", default_value = "as_nobody")]
    only: String,
    /// Runs of the scenario `soak`, as root, as a user, and as a user with a cgroup of their own
    #[arg(long, value_name = "N", default_value_t = 1000)]
    runs: u32,
    /// The binary to prove; a release build of this workspace when not given
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Where kernels, images and consoles are kept
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print every answer, not only the wrong ones
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Boots every scenario of every kernel.
pub(crate) fn vm(args: &VmArgs) -> Result<Verdict, CannotTry> {
    let chosen: Vec<&Scenario> = SCENARIOS
        .iter()
        .filter(|s| {
            args.scenario.as_ref().map_or(s.duration == Duration::Short, |name| name == s.name)
        })
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = SCENARIOS.iter().map(|s| s.name).collect();
        return Err(format!("no such scenario; there are {}", names.join(", ")));
    }
    let binary = program::ringfence(args.binary.as_ref())?;
    let dir = args.dir.clone().unwrap_or_else(|| program::target_dir().join("vm"));
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot make `{}`: {e}", dir.display()))?;
    let needs = |what: Needs| chosen.iter().any(|scenario| scenario.needs == what);
    let attacks = if needs(Needs::Attacks) {
        Some(image::Attacks { programs: program::escapes()?, only: args.only.clone() })
    } else {
        None
    };
    let contents = image::Contents {
        binary: &binary,
        attacks,
        peers: if needs(Needs::Bubblewrap) { &["bwrap"] } else { &[] },
        soak_runs: needs(Needs::Xtask).then_some(args.runs),
    };
    let mut boots = Vec::new();
    let mut n_wrong = 0;
    for series in &args.kernel {
        let kernel = kernel::fetch(series, &dir)?;
        let image = image::build(&contents, &kernel, &dir)?;
        for scenario in &chosen {
            let started = Instant::now();
            let mut answers = machine::boot(&kernel, &image, scenario, &dir)?;
            if answers.is_empty() {
                // An emulated kernel can panic while it patches its own code on a busy host.
                eprintln!("{} {}: no step answered; booting again", kernel.release, scenario.name);
                answers = machine::boot(&kernel, &image, scenario, &dir)?;
            }
            let seconds = started.elapsed().as_secs_f64();
            let wrong = judge(
                scenario,
                &kernel,
                &answers,
                args.verbose || scenario.needs == Needs::Bubblewrap,
            );
            let skipped = skipped(&answers);
            for line in &skipped {
                eprintln!("{line}");
            }
            eprintln!(
                "{} {}: {} of {} steps as expected, {seconds:.0} s",
                kernel.release,
                scenario.name,
                scenario.steps.len() - wrong.len(),
                scenario.steps.len(),
            );
            n_wrong += wrong.len();
            boots.push(json!({
                "kernel": kernel.release,
                "scenario": scenario.name,
                "steps": scenario.steps.len(),
                "seconds": seconds.round(),
                "wrong": wrong,
                "skipped": skipped,
            }));
        }
    }
    if args.json {
        println!("{}", json!({ "boots": boots, "ok": n_wrong == 0 }));
    }
    Ok(if n_wrong == 0 { Verdict::Held } else { Verdict::Failed })
}

/// Skips that a step reported: loud here too, where its output is not shown.
fn skipped(answers: &[Answer]) -> Vec<&str> {
    let lines = answers.iter().flat_map(|answer| answer.stdout.lines());
    lines.filter(|line| line.contains("SKIPPED")).collect()
}

/// Every step whose answer is missing or not the expected one, with what it said instead.
fn judge(
    scenario: &Scenario,
    kernel: &kernel::Kernel,
    answers: &[Answer],
    verbose: bool,
) -> Vec<Value> {
    let mut wrong = Vec::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let title = format!("{} {} as {}", scenario.name, step.name, step.who.name());
        let Some(answer) = answers.iter().find(|a| a.number == number) else {
            eprintln!("FAILED: {title}: no answer; the console is kept beside the image");
            wrong.push(json!({ "step": step.name, "who": step.who.name(), "why": ["no answer"] }));
            continue;
        };
        let why: Vec<String> =
            step.expect.iter().filter_map(|e| e.unmet(answer, kernel.landlock_abi())).collect();
        if !why.is_empty() {
            eprintln!("FAILED: {title}: {}", why.join("; "));
        }
        if verbose || !why.is_empty() {
            let Answer { code, stdout, stderr, .. } = answer;
            eprintln!("  {title}\n  exit {code}\n  stdout: {stdout}\n  stderr: {stderr}");
        }
        if !why.is_empty() {
            wrong.push(json!({ "step": step.name, "who": step.who.name(), "why": why }));
        }
    }
    wrong
}

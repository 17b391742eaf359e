//! Speed of `grep` beside ripgrep, with the same flags on the same directory: warm, in turns, medians.
//!
//! `Workspace::grep` is called in this process, as the engine does; `rg` is a process with its output discarded.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_engine::files::{
    Case, FileRules, GrepBounds, GrepContext, GrepQuery, GrepReport, PatternStyle, Select,
    Workspace,
};
use serde_json::json;

use crate::percentiles::Percentiles;
use crate::{CannotTry, Verdict, millis};

/// Maximum ratio of the medians.
const RATIO_MAX: f64 = 1.3;

/// Arguments of `cargo xtask grep-speed`.
#[derive(Debug, clap::Args)]
pub(crate) struct GrepSpeedArgs {
    /// Directory to search
    #[arg(long)]
    dir: PathBuf,
    /// The program to compare with
    #[arg(long, default_value = "rg")]
    rg: PathBuf,
    /// Measurements of each
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// A search, as ripgrep's flags and as ours.
struct SpeedCase {
    flags: &'static [&'static str],
    pattern: &'static str,
    query: GrepQuery,
}

pub(crate) fn grep_speed(args: &GrepSpeedArgs) -> Result<Verdict, CannotTry> {
    let workspace = Workspace::open(&args.dir, FileRules::default())
        .map_err(|problem| format!("cannot open {}: {problem}", args.dir.display()))?;
    let mut rows = Vec::new();
    let mut holds = true;
    for case in cases() {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut n_found = (0, 0);
        // The first round warms the cache.
        for round in 0..=args.rounds {
            let began = Instant::now();
            let found = workspace.grep(".", &case.query).map_err(|problem| problem.to_string())?;
            let our_time = began.elapsed();
            if let Some(cut) = found.cut {
                return Err(format!(
                    "`{}` was cut by {cut:?}: take another directory",
                    case.pattern
                ));
            }
            let (their_time, n_lines) = ripgrep(args, &case, round == 0)?;
            if round == 0 {
                n_found = (found.to_string().lines().count(), n_lines);
            } else {
                ours.push(millis(our_time));
                theirs.push(millis(their_time));
            }
        }
        let [ours, theirs] = [ours, theirs].map(|times| Percentiles::of(times).p50);
        let ratio = ours / theirs;
        holds &= ratio <= RATIO_MAX;
        let flags = case.flags.join(" ");
        if !args.json {
            println!(
                "{flags:<8} {:<28} {:>8.1} ms, rg {:>8.1} ms: {ratio:.2}   lines {} and {}",
                case.pattern, ours, theirs, n_found.0, n_found.1
            );
        }
        rows.push(json!({
            "flags": flags, "pattern": case.pattern, "ms": ours, "rg_ms": theirs, "ratio": ratio,
            "lines": n_found.0, "rg_lines": n_found.1,
        }));
    }
    if args.json {
        println!("{}", json!({"rows": rows, "holds": holds}));
    }
    Ok(if holds { Verdict::Held } else { Verdict::Failed })
}

fn cases() -> Vec<SpeedCase> {
    let case = |flags: &'static [&'static str], pattern: &'static str| {
        let has = |flag: &str| flags.contains(&flag);
        let context = if has("-C2") { Some(2) } else { None };
        let query = GrepQuery {
            patterns: vec![pattern.to_owned()],
            style: PatternStyle {
                literal: has("-F"),
                case: Case::asked(has("-i"), has("-S")),
                words: has("-w"),
                multiline: has("-U"),
                select: Select::asked(has("-v")),
            },
            report: GrepReport::asked(has("-l"), has("-c")),
            types: if has("-trust") { vec!["rust".to_owned()] } else { Vec::new() },
            bounds: GrepBounds {
                matches_max: 1_000_000,
                total_bytes_max: u64::MAX,
                text_bytes_max: u64::MAX,
                time_max: Duration::from_mins(5),
                context: GrepContext::asked(context, None, None),
                ..GrepBounds::default()
            },
            ..GrepQuery::default()
        };
        SpeedCase { flags, pattern, query }
    };
    vec![
        case(&["-F"], "no such text anywhere"),
        case(&[], "deprecated_since"),
        case(&["-i"], "workaround"),
        case(&["-w"], "quirk"),
        case(&[], r"fn \w+_handler\("),
        case(&[], r"[A-Z][a-z]+Error\s*=>\s*\w+"),
        case(&["-C2"], "FIXME"),
        case(&["-c"], "return"),
        case(&["-l"], "import"),
        case(&["-v", "-c"], "e"),
        case(&["-trust"], "unimplemented!"),
        case(&["-U"], r"unsafe \{\n\s+libc"),
    ]
}

/// Returns the time of ripgrep, and the lines it prints if they are asked for.
fn ripgrep(
    args: &GrepSpeedArgs,
    case: &SpeedCase,
    count: bool,
) -> Result<(Duration, usize), CannotTry> {
    let mut command = Command::new(&args.rg);
    // Everything but `.git`, as our default.
    command.args(["--no-config", "--hidden", "--no-ignore", "-g", "!.git", "-n", "--no-heading"]);
    command.args(case.flags).args(["-e", case.pattern, "."]).current_dir(&args.dir);
    command.stdin(Stdio::null());
    let fail = |error| format!("cannot run {}: {error}", args.rg.display());
    if count {
        let output = command.output().map_err(fail)?;
        let n_lines = String::from_utf8_lossy(&output.stdout).lines().count();
        return Ok((Duration::ZERO, n_lines));
    }
    // Not /dev/null, where it stops at the first match: a pipe that is read.
    command.stdout(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut output) = child.stdout.take() {
        std::io::copy(&mut output, &mut std::io::sink()).map_err(fail)?;
    }
    child.wait().map_err(fail)?;
    Ok((began.elapsed(), 0))
}

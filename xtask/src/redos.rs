//! `ReDoS`: patterns that take a backtracking matcher forever are answered in time or refused with a reason.
//!
//! Each pattern searches its attack string and long runs of characters, line by line and across lines. A file of patterns
//! has one on each line, with an attack string behind a tab if there is one; collections of them are public.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringfence_search::{Bounds, Grep, Pattern, PatternStyle, Report};
use serde_json::json;

use crate::percentiles::Percentiles;
use crate::{CannotTry, Verdict, millis};

/// Time for an answer, to compile included.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Bytes of each run of characters.
const RUN_BYTES: usize = 100_000;

/// Arguments of `cargo xtask redos`.
#[derive(Debug, clap::Args)]
pub(crate) struct RedosArgs {
    /// One pattern per line, with an attack string behind a tab if there is one
    #[arg(long, value_name = "FILE")]
    patterns: PathBuf,
    /// Print one JSON object on stdout
    #[arg(long)]
    json: bool,
}

pub(crate) fn redos(args: &RedosArgs) -> Result<Verdict, CannotTry> {
    let bytes = fs::read(&args.patterns)
        .map_err(|error| format!("cannot read {}: {error}", args.patterns.display()))?;
    let lines = String::from_utf8_lossy(&bytes);
    let mut times = Vec::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut n_patterns, mut n_cut, mut n_slow) = (0, 0, 0);
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let (pattern, attack) = line.split_once('\t').unwrap_or((line, ""));
        n_patterns += 1;
        let text = attack_text(pattern, attack);
        let mut slowest = Duration::ZERO;
        let mut refused = None;
        for (multiline, report) in [(false, Report::Lines), (true, Report::Counts)] {
            let style = PatternStyle { multiline, ..PatternStyle::default() };
            let began = Instant::now();
            match Pattern::new(pattern, style) {
                Ok(pattern) => {
                    let mut grep = Grep::new(pattern, Bounds::default(), report);
                    grep.text("attack", text.as_slice());
                    n_cut += usize::from(grep.finish().n_skipped > 0);
                }
                Err(problem) => refused = Some(reason(&problem.to_string())),
            }
            slowest = slowest.max(began.elapsed());
        }
        if slowest > ANSWER_MAX {
            n_slow += 1;
            eprintln!("{:.0} ms: {pattern}", millis(slowest));
        }
        if let Some(reason) = refused {
            *reasons.entry(reason).or_default() += 1;
        }
        times.push(millis(slowest));
    }
    let Percentiles { p50, p99, max, .. } = Percentiles::of(times);
    let n_refused: usize = reasons.values().sum();
    let report = json!({
        "patterns": n_patterns, "refused": n_refused, "over_2_s": n_slow, "searched_in_part": n_cut,
        "p50_ms": p50, "p99_ms": p99, "max_ms": max, "reasons": reasons,
    });
    if args.json {
        println!("{report}");
    } else {
        for (name, value) in report.as_object().into_iter().flatten() {
            println!("{name:<16} {value}");
        }
    }
    Ok(if n_slow == 0 && n_patterns > 0 { Verdict::Held } else { Verdict::Failed })
}

/// The attack string, and runs of characters that repeats match, each of which ends as no match does.
fn attack_text(pattern: &str, attack: &str) -> Vec<u8> {
    let mut text = attack.as_bytes().to_vec();
    for unit in ["a", "0", " ", "a0 ", "a.", "<a ", attack, pattern] {
        if !unit.is_empty() {
            text.push(b'\n');
            text.extend(unit.bytes().cycle().take(RUN_BYTES));
            text.extend_from_slice(b"!\x01");
        }
    }
    text
}

/// The kind of a refusal: its last line without the numbers and the pattern.
fn reason(problem: &str) -> String {
    let known = [
        "look-around",
        "backreference",
        "repeats stand for",
        "size limit",
        "too long",
        "bytes, of",
        "unclosed",
        "unopened",
        "unrecognized escape",
        "invalid character class range",
        "repetition operator missing expression",
        "repetition quantifier",
        "capture group name",
        "unrecognized flag",
        "hexadecimal",
        "Unicode property",
    ];
    let found = known.iter().find(|known| problem.contains(**known));
    found.map_or_else(|| problem.lines().last().unwrap_or_default().to_owned(), ToString::to_string)
}

//! All tests beside endless loops, several times in a row: a bound that only an idle machine keeps is a fault of the test or
//! of the program.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;

use crate::{CannotTry, Verdict, program};

/// Times that a loop turns between two looks at whether it is to stop.
const TURNS: u32 = 100_000;

/// Lines of a failure's message that are printed, and characters of each.
const MESSAGE_LINES: u32 = 5;
const MESSAGE_CHARS_MAX: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct LoadedArgs {
    /// Runs, one after the other; the first that fails is the last
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Endless loops beside the tests, one thread each
    #[arg(long, default_value_t = 4)]
    loops: u32,
}

/// Tests of one run, by their summaries.
#[derive(Debug, Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let count = |word: &str| {
            let before = counts.split(&format!(" {word}")).next().unwrap_or("");
            before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        self.passed += count("passed");
        self.failed += count("failed");
    }
}

pub(crate) fn loaded(args: &LoadedArgs) -> Result<Verdict, CannotTry> {
    // Compiled before the loops start: only the tests are to run beside them.
    if !cargo_test(&["--no-run"])?.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..args.loops {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    (0..TURNS).for_each(|turn| _ = std::hint::black_box(turn));
                }
            });
        }
        let other = (1..=args.runs).map(once).find(|ended| *ended != Ok(Verdict::Held));
        stop.store(true, Ordering::Relaxed);
        other.unwrap_or(Ok(Verdict::Held))
    })
}

/// One run: prints the tests that failed or were skipped, and the sum.
fn once(run: u32) -> Result<Verdict, CannotTry> {
    let began = Instant::now();
    let ended = cargo_test(&["--no-fail-fast"])?;
    println!(
        "run {run}: {}, {} passed, {} failed, {} s",
        ended.status,
        ended.tally.passed,
        ended.tally.failed,
        began.elapsed().as_secs()
    );
    let green = ended.status.success() && ended.tally.failed == 0;
    Ok(if green { Verdict::Held } else { Verdict::Failed })
}

struct Ended {
    status: std::process::ExitStatus,
    tally: Tally,
}

/// Runs `cargo test --workspace`; its stderr is this process's.
fn cargo_test(more: &[&str]) -> Result<Ended, CannotTry> {
    let mut child = program::cargo()
        .args(["test", "--workspace"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let mut tally = Tally::default();
    let mut n_follow = 0;
    let stdout = child.stdout.take().ok_or("cargo has no stdout")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(|e| format!("cannot read the tests' output: {e}"))?;
        let line = String::from_utf8_lossy(&line);
        tally.add(&line);
        if is_telling(&line) {
            n_follow = if has_message(&line) { MESSAGE_LINES } else { 0 };
            println!("{line}");
        } else if n_follow > 0 {
            n_follow -= 1;
            println!("{}", line.chars().take(MESSAGE_CHARS_MAX).collect::<String>());
        }
    }
    let status = child.wait().map_err(|e| format!("cannot wait for cargo: {e}"))?;
    Ok(Ended { status, tally })
}

/// Returns true for the lines of an output that name what failed or was skipped, or why.
fn is_telling(line: &str) -> bool {
    line.contains("FAILED") || line.contains("SKIPPED") || has_message(line)
}

/// Returns true for the lines that the message of a failure follows: a panic's, or a document's of `escapes/`.
fn has_message(line: &str) -> bool {
    line.contains("panicked at") || line.starts_with("---- escapes::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up() {
        let mut tally = Tally::default();
        tally.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s");
        tally.add("test result: FAILED. 3 passed; 2 failed; 0 ignored");
        tally.add("9 passed elsewhere");
        assert_eq!((tally.passed, tally.failed), (15, 2));
    }
}

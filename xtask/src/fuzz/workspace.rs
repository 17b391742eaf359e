//! Hostile workspaces: a fenced program fills one at random for some seconds, then the next start there must take no more
//! than twice the CPU time of a start in a clean checkout and five milliseconds, or be refused with a reason; and a start
//! anywhere else must be what it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::FuzzArgs;
use crate::random::Random;
use crate::{CannotTry, Verdict, program};

/// Programs that fill a workspace, and that measure a start.
const HOSTILE: &str = include_str!("hostile.py");
const MEASURE: &str = include_str!("measure.py");

/// Time for filling one workspace.
const FILL_SECONDS: u64 = 10;

/// Starts of which the cheapest counts: what else the machine does makes one dearer, never cheaper.
const STARTS: usize = 7;

/// A start that takes longer hangs.
const START_SECONDS: u64 = 60;

/// Workspaces as the user made them; one of these.
const CHECKOUTS: &[&str] = &[
    "git init -q . && git commit -q --allow-empty -m one",
    "git init -q ../origin && git -C ../origin commit -q --allow-empty -m o && git init -q . && \
     git submodule --quiet add ../origin sub && git commit -qm s && git worktree add -q tree && git config core.hooksPath .husky/_",
    "true",
];

/// One kind of start that is measured.
const COMMANDS: &[&[&str]] = &[&["run", "--", "true"], &["exec", "-c", "1"]];

/// Fuzzes for a while.
pub(super) fn fuzz(args: &FuzzArgs, seed: u64) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let fill = FILL_SECONDS.min(args.seconds.div_ceil(3));
    let mut random = Random::new(seed);
    let (mut n_workspaces, mut n_refused, mut worst, mut failures) = (0, 0, 0.0_f64, Vec::new());
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    while Instant::now() < until && failures.len() < 5 {
        let seed = random.next();
        let checkout = random.one_of(CHECKOUTS);
        let place = Place::new(&binary)?;
        let work = place.checkout("work", checkout)?;
        let clean = place.checkout("clean", checkout)?;
        place.fill(&work, seed, fill)?;
        for command in COMMANDS {
            let (hostile, calm) = place.measure_both(&work, &clean, command)?;
            let (verdict, ratio) = judge(&hostile, &calm, args.allowance_ms);
            worst = worst.max(ratio);
            match verdict {
                Judged::Held => {}
                Judged::Refused(reason) => {
                    n_refused += 1;
                    *reasons.entry(reason).or_default() += 1;
                }
                Judged::Failed(why) => {
                    failures.push(
                        json!({"seed": seed, "checkout": checkout, "command": command, "why": why}),
                    );
                    eprintln!("failed: seed {seed}, {command:?}: {why}");
                }
            }
        }
        // Nothing of it reaches another workspace, also when the hostile one is gone.
        make_removable(&work);
        let _ = std::fs::remove_dir_all(&work);
        let after = place.measure(&clean, COMMANDS[0], 1)?;
        if after.iter().any(|start| start["exit"] != 0) {
            failures.push(json!({"seed": seed, "why": format!("a clean workspace does not start any more: {after:?}")}));
        }
        n_workspaces += 1;
        eprintln!(
            "{n_workspaces} workspaces, {n_refused} starts refused, at worst {worst:.2} times a clean start"
        );
    }
    let report = json!({
        "ok": failures.is_empty(), "workspaces": n_workspaces, "refused": n_refused, "reasons": reasons, "worst_ratio": worst, "failures": failures,
    });
    if args.json {
        println!("{report}");
    }
    Ok(if failures.is_empty() { Verdict::Held } else { Verdict::Failed })
}

enum Judged {
    Held,
    Refused(String),
    Failed(String),
}

/// Compares starts; the ratio is that of CPU times less the allowance.
fn judge(hostile: &[Value], clean: &[Value], allowance_ms: f64) -> (Judged, f64) {
    let cheapest = |starts: &[Value]| {
        starts.iter().filter_map(|s| s["cpu_ms"].as_f64()).fold(f64::INFINITY, f64::min)
    };
    let (cpu, base) = (cheapest(hostile), cheapest(clean));
    let ratio = (cpu - allowance_ms) / base;
    if let Some(hung) = hostile.iter().find(|s| s["exit"].as_i64().is_some_and(|code| code < 0)) {
        return (Judged::Failed(format!("a start hung or died: {hung}")), ratio);
    }
    if ratio > 2.0 {
        let why = format!("{cpu:.1} ms of CPU time beside {base:.1} ms");
        return (Judged::Failed(why), ratio);
    }
    let refused = hostile.iter().find(|s| s["exit"] != 0);
    match refused {
        None => (Judged::Held, ratio),
        Some(start) => {
            let said = start["stderr"].as_str().unwrap_or_default();
            // A project file that the hostile run left may also allow the next run a millisecond only: it says so.
            let with_reason =
                (said.contains("error: ") || said.contains("was killed")) && said.len() > 20;
            if with_reason {
                (Judged::Refused(reason(said)), ratio)
            } else {
                (Judged::Failed(format!("refused without a reason: {start}")), ratio)
            }
        }
    }
}

/// Why a start was refused, without the names that differ from round to round.
fn reason(said: &str) -> String {
    let says_why = |line: &&str| line.starts_with("error: ") || line.contains("was killed");
    let line = said.lines().find(says_why).unwrap_or_default();
    let words = line.split('`').step_by(2).collect::<Vec<_>>();
    words.join("…")
}

/// Directories of one round, gone with it.
struct Place {
    dir: tempfile::TempDir,
    binary: PathBuf,
}

impl Place {
    fn new(binary: &Path) -> Result<Self, CannotTry> {
        let cannot = |e: std::io::Error| format!("cannot make a directory: {e}");
        let dir = tempfile::Builder::new().prefix("ringfence-fuzz-").tempdir().map_err(cannot)?;
        std::fs::create_dir(dir.path().join("home")).map_err(cannot)?;
        let config = "[user]\nname = n\nemail = e@x\n[protocol \"file\"]\nallow = always\n";
        std::fs::write(dir.path().join("home/.gitconfig"), config).map_err(cannot)?;
        Ok(Self { dir, binary: binary.to_owned() })
    }

    /// A directory in which the user has made a checkout.
    fn checkout(&self, name: &str, script: &str) -> Result<PathBuf, CannotTry> {
        let outer = self.dir.path().join(format!("{name}-outer"));
        let path = outer.join(name);
        std::fs::create_dir_all(&path).map_err(|e| format!("cannot make `{name}`: {e}"))?;
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("HOME", self.dir.path().join("home")).current_dir(&path);
        program::output(&mut command)?;
        Ok(path)
    }

    fn around(&self, command: &mut Command, cwd: &Path) {
        command.current_dir(cwd).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("HOME", self.dir.path().join("home"));
        command.env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.env("TMPDIR", self.dir.path()).stdin(Stdio::null());
    }

    fn fill(&self, work: &Path, seed: u64, seconds: u64) -> Result<(), CannotTry> {
        let timeout = format!("{}s", seconds + 20);
        let mut command = Command::new(&self.binary);
        command.args(["run", "--timeout", &timeout, "--", "/usr/bin/python3", "-I", "-c", HOSTILE]);
        command.args([seed.to_string(), seconds.to_string()]);
        self.around(&mut command, work);
        let output = command.stdout(Stdio::null()).output();
        let output = output.map_err(|e| format!("cannot start the binary: {e}"))?;
        match output.status.code() {
            Some(0 | 124 | 137) => Ok(()),
            _ => Err(format!("cannot fill: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }

    fn measure(&self, cwd: &Path, words: &[&str], n: usize) -> Result<Vec<Value>, CannotTry> {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-I", "-c", MEASURE, &n.to_string(), &START_SECONDS.to_string()]);
        command.arg(&self.binary).args(words);
        self.around(&mut command, cwd);
        let text = program::output(&mut command)?;
        let starts: Vec<Value> =
            text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        if starts.len() == n { Ok(starts) } else { Err(format!("cannot measure: {text}")) }
    }

    /// Starts in both, one after the other, so that both meet the same machine.
    fn measure_both(
        &self,
        work: &Path,
        clean: &Path,
        words: &[&str],
    ) -> Result<(Vec<Value>, Vec<Value>), CannotTry> {
        let (mut hostile, mut calm) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            hostile.extend(self.measure(work, words, 1)?);
            calm.extend(self.measure(clean, words, 1)?);
        }
        Ok((hostile, calm))
    }
}

/// A run may have shut its own directories.
fn make_removable(dir: &Path) {
    let _ = Command::new("chmod").args(["-R", "u+rwx"]).arg(dir).stderr(Stdio::null()).status();
}

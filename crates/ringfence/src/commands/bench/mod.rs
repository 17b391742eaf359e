//! `ringfence bench`: the numbers of SPECIFICATION.md, measured here beside the peers found installed. Every round runs
//! each contender once, in any order, so that a noisy moment hits all of them; ratios hold where absolute times do not.

mod asked;
pub(crate) mod budget;
mod gate;
mod python;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringfence_engine::host::found;
use ringfence_spec::{Code, CodePreset, Problem};
use serde::Serialize;

use self::asked::Asked;
use crate::cli::BenchArgs;
use crate::present;

/// Quiet before each run in the second start-up comparison: long enough for the kernel's RCU machinery to go idle.
const QUIET: Duration = Duration::from_millis(100);

/// The comparison of single calls.
const DENIAL: &str = "denial";

/// Refused calls in one run: fewer than are answered at full speed (`SPECIFICATION.md`, "Working").
const REFUSED_CALLS: &str = "250";

/// One contender's times in one comparison.
#[derive(Debug, Serialize)]
struct Contender {
    name: String,
    p50_ms: f64,
    p99_ms: f64,
    /// Median over the median of the comparison's baseline.
    ratio: f64,
}

/// One table.
#[derive(Debug, Serialize)]
struct Comparison {
    name: &'static str,
    what: String,
    rounds: u32,
    /// The measured work.
    unit: Unit,
    contenders: Vec<Contender>,
}

/// Unit of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    /// A whole run, from outside.
    Run,
    /// One of many calls, by the program that makes them: it prints nanoseconds.
    Call,
}

#[derive(Debug, Serialize)]
struct BenchReport {
    kernel: String,
    cpus: usize,
    comparisons: Vec<Comparison>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<budget::CpuBudget>,
}

/// Something to time.
struct Entry {
    name: String,
    argv: Vec<String>,
    cwd: PathBuf,
}

/// Measures and prints.
pub(crate) fn bench(args: &BenchArgs) -> ExitCode {
    if let Some(n) = args.refused_calls {
        present::text(&format!("{}\n", refused_call_ns(n)));
        return ExitCode::SUCCESS;
    }
    let profile = env!("BUILD_PROFILE");
    if args.gate && profile != "dist" {
        let problem = Problem::usage(Code::Bench, "the promises are about another build")
            .cause(format!("this program was built with the profile `{profile}`"))
            .hint("build it with `cargo xtask dist`, then use `target/dist/ringfence`");
        return present::problem(&problem);
    }
    match measure(args) {
        Ok(report) => {
            if args.output.json {
                present::json(&report);
            } else {
                present::text(&render(&report));
            }
            if !args.gate {
                return ExitCode::SUCCESS;
            }
            let (text, held) = gate::gate(&report.comparisons);
            if args.output.json {
                eprint!("{text}");
            } else {
                present::text(&text);
            }
            ExitCode::from(u8::from(!held))
        }
        Err(problem) => present::problem(&problem),
    }
}

fn measure(args: &BenchArgs) -> Result<BenchReport, Problem> {
    let own = std::env::current_exe()
        .map_err(|e| Problem::internal(Code::Bench, "cannot find this program").cause(e))?;
    let ground = BenchDirs::new()?;
    let names = RefCell::new(BTreeSet::new());
    let wanted = |name: &str| {
        names.borrow_mut().insert(name.to_owned());
        args.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    };
    let (mut comparisons, mut budget) = (Vec::new(), None);
    let mut add =
        |name: &'static str, what: &str, rounds: u32, quiet: Duration, entries: &[Entry]| {
            if wanted(name) {
                let unit = if name == DENIAL { Unit::Call } else { Unit::Run };
                comparisons.push(compare(name, what, rounds, quiet, unit, entries)?);
            }
            Ok::<(), Problem>(())
        };
    let copy = ground.dir(DENIAL)?.join("ringfence");
    if wanted(DENIAL) {
        // Into a workspace: where this program is, a run may not see it.
        #[expect(clippy::disallowed_methods, reason = "this program and a directory made above")]
        std::fs::copy(&own, &copy).map_err(|e| cannot(&copy, &e))?;
    }
    let own = own.to_string_lossy().into_owned();
    let fenced = |argv: &[&str]| -> Vec<String> {
        [own.as_str(), "run", "--"].iter().chain(argv).map(|s| (*s).to_owned()).collect()
    };
    let entry = |name: &str, argv: Vec<String>, cwd: &Path| Entry {
        name: name.to_owned(),
        argv,
        cwd: cwd.to_owned(),
    };

    let empty = ground.dir("empty")?;
    let mut start = vec![entry("ringfence", fenced(&["/bin/true"]), &empty)];
    start.extend(peers(&empty));
    start.push(entry("plain", owned(&["/bin/true"]), &empty));
    add("start", "run /bin/true, back to back", args.rounds, Duration::ZERO, &start)?;
    let quiet_rounds = (args.rounds / 2).max(5);
    add("start_quiet", "run /bin/true after 100 ms of quiet", quiet_rounds, QUIET, &start)?;

    if wanted("large_workspace") || wanted("inside_rg") {
        ground.files("large", args.files)?;
    }
    let large = ground.dir("large")?;
    add(
        "large_workspace",
        &format!("run /bin/true in an empty workspace and in one of {} files", args.files),
        args.rounds,
        Duration::ZERO,
        &[
            entry("large", fenced(&["/bin/true"]), &large),
            entry("empty", fenced(&["/bin/true"]), &empty),
        ],
    )?;

    // Work that lasts: what the fence costs inside, start-up included.
    let inside_rounds = (args.rounds / 5).max(5);
    if installed("rg") {
        let rg = ["rg", "-c", "needle-that-is-rare", "."];
        let what = format!("rg over {} files", args.files);
        add(
            "inside_rg",
            &what,
            inside_rounds,
            Duration::ZERO,
            &[entry("ringfence", fenced(&rg), &large), entry("plain", owned(&rg), &large)],
        )?;
    }

    let calls = ["./ringfence", "bench", "--refused-calls", REFUSED_CALLS];
    let denial = ground.dir(DENIAL)?;
    add(
        DENIAL,
        "one refused call (umount2), reported, against the kernel's own refusal",
        inside_rounds,
        Duration::ZERO,
        &[entry("ringfence", fenced(&calls), &denial), entry("plain", owned(&calls), &denial)],
    )?;
    if let Some(python) = python_on_path(args) {
        let code = [python.as_str(), "-I", "-c", "print(1)"];
        let exec = [own.as_str(), "exec", "--python", &python, "-c", "print(1)"];
        let mut cold = vec![entry("ringfence", owned(&exec), &empty)];
        if installed("bwrap") {
            cold.push(entry("bwrap", bubblewrap(&code), &empty));
        }
        add("python_cold", "print(1), started for it alone", quiet_rounds, Duration::ZERO, &cold)?;
    }
    if installed("git") && wanted("inside_git") {
        let repository = ground.repository(args.files.min(20_000))?;
        let (what, job) = ("git status in a repository, from a shell that stays", "git status");
        comparisons.push(inside("inside_git", what, args.rounds * 6, &own, job, &repository)?);
    }
    if wanted("inside_cpu") {
        // A shell of its own each time: where the kernel happens to put a program makes 5% of its speed.
        let what = "a loop of 40,000 rounds, from a shell that stays";
        let job = "sh -c 'i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done'";
        comparisons.push(inside("inside_cpu", what, args.rounds * 6, &own, job, &empty)?);
    }
    if wanted("screen") {
        comparisons.push(screening(args.rounds)?);
    }
    if let Some(python) = python_on_path(args) {
        // First: each launcher is a fork of this process, which gets threads with the first pool.
        let launcher = wanted(budget::NAME).then(ringfence_engine::Launcher::start).transpose()?;
        comparisons.extend(python::comparisons(args.rounds, &python, &wanted)?);
        let dir = ground.dir(budget::NAME)?;
        let measured =
            launcher.map(|launcher| budget::measure(args.rounds, &python, launcher, &dir));
        budget = measured.transpose()?;
    }

    if let Some(only) = args.only.as_ref().filter(|_| comparisons.is_empty() && budget.is_none()) {
        let names: Vec<String> = names.take().into_iter().collect();
        let message = format!("no comparison on this host has a name with `{only}` in it");
        return Err(Problem::usage(Code::BadValue, message)
            .hint(format!("the names are {}", names.join(", "))));
    }
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(BenchReport { kernel, cpus, comparisons, budget })
}

/// A command behind bubblewrap, with the nearest it has to our default fence.
fn bubblewrap(argv: &[&str]) -> Vec<String> {
    let fence =
        "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --die-with-parent";
    fence.split(' ').chain(argv.iter().copied()).map(str::to_owned).collect()
}

/// The peers that are installed, each given the nearest it has to our default fence.
fn peers(cwd: &Path) -> Vec<Entry> {
    let bubblewrapped = bubblewrap(&["/bin/true"]);
    let bubblewrapped: Vec<&str> = bubblewrapped.iter().map(String::as_str).collect();
    let known: &[(&str, &[&str])] = &[
        ("bwrap", &bubblewrapped),
        ("unshare", &["unshare", "-Urmpinf", "/bin/true"]),
        ("firejail", &["firejail", "--quiet", "--noprofile", "--net=none", "/bin/true"]),
        ("nsjail", &["nsjail", "-Mo", "--quiet", "--chroot", "/", "--", "/bin/true"]),
    ];
    let mut found: Vec<Entry> = Vec::new();
    for (name, argv) in known {
        let entry = Entry { name: (*name).to_owned(), argv: owned(argv), cwd: cwd.to_owned() };
        // A peer that cannot run here at all is left out rather than timed failing.
        if installed(argv[0]) && once(&entry, Unit::Run).is_ok() {
            found.push(entry);
        }
    }
    found
}

/// The interpreter to measure: Debian's, if it is there, so that figures compare.
fn python_on_path(args: &BenchArgs) -> Option<String> {
    let given = args.python.clone();
    let debians = "/usr/bin/python3";
    given.or_else(|| found(Path::new(debians)).map(|_| debians.to_owned()))
}

fn compare(
    name: &'static str,
    what: &str,
    rounds: u32,
    quiet: Duration,
    unit: Unit,
    entries: &[Entry],
) -> Result<Comparison, Problem> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); entries.len()];
    for entry in entries {
        once(entry, unit)?;
    }
    let mut order: Vec<usize> = (0..entries.len()).collect();
    for _ in 0..rounds {
        // What a contender leaves for the kernel to clear away is not always the same one's to wait for.
        fastrand::shuffle(&mut order);
        for &turn in &order {
            std::thread::sleep(quiet);
            times[turn].push(once(&entries[turn], unit)?.as_secs_f64() * 1e3);
        }
    }
    let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
    // The last contender is the plain one, the second where there is a peer: ratios are to bubblewrap if it is there.
    let baseline = entries.iter().position(|e| e.name == "bwrap").unwrap_or(entries.len() - 1);
    Ok(summary(name, what, unit, names, times, baseline))
}

/// Cost of the fence for work inside it: two shells, one behind the fence, asked for the job in turn.
/// A machine's speed changes from second to second; what is compared here lies only one job apart.
fn inside(
    name: &'static str,
    what: &str,
    rounds: u32,
    own: &str,
    job: &str,
    cwd: &Path,
) -> Result<Comparison, Problem> {
    const WARM_UP: u32 = 5;
    let script =
        format!("while read -r _; do {{ {job}; }} >/dev/null && echo done || echo failed; done");
    let failed = |e: &dyn std::fmt::Display| {
        Problem::internal(Code::Bench, format!("`{job}` cannot be asked for")).cause(e)
    };
    let mut fenced = Command::new(own);
    fenced.args(["run", "--timeout", "1h", "--cpu", "1h", "--", "sh"]);
    let mut shells = Vec::new();
    for mut command in [fenced, Command::new("sh")] {
        command.args(["-c", &script]).current_dir(cwd);
        shells.push(Asked::start(&mut command).map_err(|e| failed(&e))?);
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); shells.len()];
    let mut order = [0, 1];
    for round in 0..rounds + WARM_UP {
        fastrand::shuffle(&mut order);
        for side in order {
            let started = Instant::now();
            let answer = shells[side].ask().map_err(|e| failed(&e))?;
            let took = started.elapsed().as_secs_f64() * 1e3;
            if answer != "done" {
                return Err(failed(&answer));
            }
            if round >= WARM_UP {
                times[side].push(took);
            }
        }
    }
    Ok(summary(name, what, Unit::Run, owned(&["ringfence", "plain"]), times, 1))
}

/// Times, sorted and set against those of one contender.
fn summary(
    name: &'static str,
    what: &str,
    unit: Unit,
    names: Vec<String>,
    mut times: Vec<Vec<f64>>,
    baseline: usize,
) -> Comparison {
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    let rounds = u32::try_from(times[baseline].len()).unwrap_or(u32::MAX);
    let base = quantile(&times[baseline], 0.5);
    let contenders = names
        .into_iter()
        .zip(&times)
        .map(|(name, times)| Contender {
            name,
            p50_ms: quantile(times, 0.5),
            p99_ms: quantile(times, 0.99),
            ratio: quantile(times, 0.5) / base,
        })
        .collect();
    Comparison { name, what: what.to_owned(), rounds, unit, contenders }
}

/// A program of 2 KB, as agents write them.
const PROGRAM: &str = include_str!("screen.py");

/// Readings in a row in each round, each side: what a server does, rather than what a cold cache costs.
const READINGS: u32 = 30;

/// Screens the same program in each round, here and in a Python that waits beside.
fn screening(rounds: u32) -> Result<Comparison, Problem> {
    let mut python = Reader::start();
    let mut names = vec!["ringfence".to_owned()];
    names.extend(python.as_ref().map(|python| python.name.clone()));
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    // The first rounds are for caches, here and there.
    let warm_up = 5;
    for round in 0..rounds + warm_up {
        let started = Instant::now();
        for _ in 1..READINGS {
            let _ = ringfence_screen::screen(PROGRAM.as_bytes(), CodePreset::Standard, &[]);
        }
        let verdict = ringfence_screen::screen(PROGRAM.as_bytes(), CodePreset::Standard, &[]);
        let ours = started.elapsed().as_secs_f64() * 1e3 / f64::from(READINGS);
        if !verdict.safe {
            return Err(Problem::internal(Code::Bench, "the sample program is refused"));
        }
        let theirs = python.as_mut().map(Reader::once).transpose()?;
        if round >= warm_up {
            times[0].push(ours);
            if let Some(theirs) = theirs {
                times[1].push(theirs);
            }
        }
    }
    let baseline = names.len() - 1;
    let what = format!("judge a program of {} bytes", PROGRAM.len());
    Ok(summary("screen", &what, Unit::Call, names, times, baseline))
}

/// The host's Python, reading the same program with what it has for that.
struct Reader {
    name: String,
    python: Asked,
}

impl Reader {
    /// Parses, then compiles by `RestrictedPython` where it is installed, else plainly. One line in, one time out.
    const SCRIPT: &str = r#"
import ast, sys, time
source, readings = sys.argv[1], int(sys.argv[2])
try:
    from RestrictedPython import compile_restricted_exec
    name, work = "ast+RestrictedPython", lambda: (ast.parse(source), compile_restricted_exec(source))
except ImportError:
    name, work = "ast+compile", lambda: compile(ast.parse(source), "m", "exec")
print(name, flush=True)
for _ in sys.stdin:
    start = time.perf_counter_ns()
    for _ in range(readings):
        work()
    print((time.perf_counter_ns() - start) / readings, flush=True)
"#;

    fn start() -> Option<Self> {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", Self::SCRIPT, PROGRAM, &READINGS.to_string()]);
        let mut python = Asked::start(&mut command).ok()?;
        let name = python.line().ok()?;
        Some(Self { name, python })
    }

    /// One reading, in milliseconds by Python's own clock.
    fn once(&mut self) -> Result<f64, Problem> {
        let gone = |e: &dyn std::fmt::Display| {
            Problem::internal(Code::Bench, "the Python beside does not answer").cause(e)
        };
        let line = self.python.ask().map_err(|e| gone(&e))?;
        line.parse::<f64>().map(|ns| ns / 1e6).map_err(|e| gone(&e))
    }
}

/// The value below which a share of the sorted times lies: nearest rank.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Time of one call that the filter refuses inside the fence and the kernel outside, for every user: a mount
/// without a name cannot be taken away.
fn refused_call_ns(n: u32) -> u128 {
    let started = Instant::now();
    for _ in 0..n {
        let _ = rustix::mount::unmount("", rustix::mount::UnmountFlags::empty());
    }
    started.elapsed().as_nanos() / u128::from(n.max(1))
}

fn once(entry: &Entry, unit: Unit) -> Result<Duration, Problem> {
    let mut command = Command::new(&entry.argv[0]);
    command.args(&entry.argv[1..]).current_dir(&entry.cwd);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let cannot_run = |e: std::io::Error| {
        Problem::internal(Code::Bench, format!("cannot run `{}`", entry.argv[0])).cause(e)
    };
    let (status, took) = match unit {
        Unit::Run => {
            let started = Instant::now();
            let status = command.status().map_err(cannot_run)?;
            (status, Some(started.elapsed()))
        }
        Unit::Call => {
            let output = command.stdout(Stdio::piped()).output().map_err(cannot_run)?;
            let printed = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
            (output.status, printed.map(Duration::from_nanos))
        }
    };
    match took {
        Some(took) if status.success() || entry.argv.iter().any(|a| a == "rg") => Ok(took),
        _ => Err(Problem::internal(
            Code::Bench,
            format!("`{}` failed: {status}", entry.argv.join(" ")),
        )),
    }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| found(&dir.join(program)).is_some())
}

fn owned(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|s| (*s).to_owned()).collect()
}

/// Directories to measure in, removed at the end.
struct BenchDirs {
    root: PathBuf,
}

impl BenchDirs {
    fn new() -> Result<Self, Problem> {
        let root = std::env::temp_dir().join(format!("ringfence-bench-{}", std::process::id()));
        std::fs::create_dir(&root).map_err(|e| cannot(&root, &e))?;
        Ok(Self { root })
    }

    fn dir(&self, name: &str) -> Result<PathBuf, Problem> {
        let dir = self.root.join(name);
        std::fs::create_dir_all(&dir).map_err(|e| cannot(&dir, &e))?;
        Ok(dir)
    }

    /// `n` small files, a hundred to a directory.
    fn files(&self, name: &str, n: u32) -> Result<PathBuf, Problem> {
        let top = self.dir(name)?;
        for i in 0..n {
            let dir = top.join(format!("d{}", i / 100));
            if i % 100 == 0 {
                std::fs::create_dir_all(&dir).map_err(|e| cannot(&dir, &e))?;
            }
            let file = dir.join(format!("f{i}.txt"));
            let rare = if i % 9973 == 0 { "needle-that-is-rare\n" } else { "" };
            let text = format!("{rare}{}\n", "a line of ordinary text in a file\n".repeat(30));
            std::fs::write(&file, text).map_err(|e| cannot(&file, &e))?;
        }
        Ok(top)
    }

    fn repository(&self, n: u32) -> Result<PathBuf, Problem> {
        let dir = self.files("repository", n)?;
        for args in [
            &["init", "-q", "."][..],
            &["add", "-A"],
            &["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "all"],
        ] {
            let status = Command::new("git").args(args).current_dir(&dir).status();
            if !status.is_ok_and(|s| s.success()) {
                return Err(Problem::internal(
                    Code::Bench,
                    format!("git {} failed", args.join(" ")),
                ));
            }
        }
        Ok(dir)
    }
}

impl Drop for BenchDirs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Problem {
    Problem::internal(Code::Bench, format!("cannot write `{}`", path.display())).cause(error)
}

fn render(report: &BenchReport) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "kernel {}, {} processors", report.kernel, report.cpus);
    for c in &report.comparisons {
        let _ = writeln!(out, "\n{}: {} ({} rounds, interleaved)", c.name, c.what, c.rounds);
        let (unit, per_ms) = match c.unit {
            Unit::Run => ("ms", 1.0),
            Unit::Call => ("µs", 1e3),
        };
        let (p50, p99) = (format!("p50 {unit}"), format!("p99 {unit}"));
        let _ = writeln!(out, "  {:<20} {p50:>9} {p99:>9} {:>7}", "", "ratio");
        for k in &c.contenders {
            let (p50, p99) = (k.p50_ms * per_ms, k.p99_ms * per_ms);
            let _ = writeln!(out, "  {:<20} {p50:>9.2} {p99:>9.2} {:>7.3}", k.name, k.ratio);
        }
    }
    if let Some(budget) = &report.budget {
        budget::render(budget, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        assert!((quantile(&times, 0.5) - 50.0).abs() < f64::EPSILON);
        assert!((quantile(&times, 0.99) - 99.0).abs() < f64::EPSILON);
        assert!(quantile(&[], 0.5).is_nan());
    }
}

//! `ringfence bench`: the numbers of SPECIFICATION.md, measured here beside the peers found installed. Every round runs
//! each contender once, in turn, so that a noisy moment hits all of them; ratios hold where absolute times do not.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ringfence_spec::Problem;
use serde::Serialize;

use crate::cli::BenchArgs;
use crate::present;

/// Quiet before each run in the second start-up comparison: long enough for the kernel's RCU machinery to go idle.
const QUIET: Duration = Duration::from_millis(100);

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
    contenders: Vec<Contender>,
}

#[derive(Debug, Serialize)]
struct Report {
    kernel: String,
    cpus: usize,
    comparisons: Vec<Comparison>,
}

/// Something to time.
struct Entry {
    name: String,
    argv: Vec<String>,
    cwd: PathBuf,
}

/// Measures and prints.
pub(crate) fn bench(args: &BenchArgs) -> ExitCode {
    match measure(args) {
        Ok(report) => {
            if args.json {
                present::json(&report);
            } else {
                present::text(&render(&report));
            }
            ExitCode::SUCCESS
        }
        Err(problem) => present::problem(&problem),
    }
}

fn measure(args: &BenchArgs) -> Result<Report, Problem> {
    let own = std::env::current_exe()
        .map_err(|e| Problem::internal("bench", "cannot find this program").cause(e))?;
    let ground = Ground::new()?;
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut comparisons = Vec::new();
    let mut add =
        |name: &'static str, what: &str, rounds: u32, quiet: Duration, entries: &[Entry]| {
            if wanted(name) {
                comparisons.push(compare(name, what, rounds, quiet, entries)?);
            }
            Ok::<(), Problem>(())
        };
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
    if installed("git") && wanted("inside_git") {
        let repository = ground.repository(args.files.min(20_000))?;
        // Ten times, so that the work and not the start-up is what is measured.
        let script = "for i in 1 2 3 4 5 6 7 8 9 10; do git status >/dev/null; done";
        add(
            "inside_git",
            "git status, ten times, in a repository",
            inside_rounds,
            Duration::ZERO,
            &[
                entry("ringfence", fenced(&["sh", "-c", script]), &repository),
                entry("plain", owned(&["sh", "-c", script]), &repository),
            ],
        )?;
    }
    let spin = ["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"];
    add(
        "inside_cpu",
        "a shell loop of 400,000 rounds",
        inside_rounds,
        Duration::ZERO,
        &[entry("ringfence", fenced(&spin), &empty), entry("plain", owned(&spin), &empty)],
    )?;

    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(Report { kernel, cpus, comparisons })
}

/// The peers that are installed, each given the nearest it has to our default fence.
fn peers(cwd: &Path) -> Vec<Entry> {
    let known: &[(&str, &[&str])] = &[
        (
            "bwrap",
            &[
                "bwrap",
                "--unshare-all",
                "--ro-bind",
                "/",
                "/",
                "--dev",
                "/dev",
                "--proc",
                "/proc",
                "--tmpfs",
                "/tmp",
                "--die-with-parent",
                "/bin/true",
            ],
        ),
        ("unshare", &["unshare", "-Urmpinf", "/bin/true"]),
        ("firejail", &["firejail", "--quiet", "--noprofile", "--net=none", "/bin/true"]),
        ("nsjail", &["nsjail", "-Mo", "--quiet", "--chroot", "/", "--", "/bin/true"]),
    ];
    let mut found: Vec<Entry> = Vec::new();
    for (name, argv) in known {
        let entry = Entry { name: (*name).to_owned(), argv: owned(argv), cwd: cwd.to_owned() };
        // A peer that cannot run here at all is left out rather than timed failing.
        if installed(argv[0]) && once(&entry).is_ok() {
            found.push(entry);
        }
    }
    found
}

fn compare(
    name: &'static str,
    what: &str,
    rounds: u32,
    quiet: Duration,
    entries: &[Entry],
) -> Result<Comparison, Problem> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); entries.len()];
    for entry in entries {
        once(entry)?;
    }
    for _ in 0..rounds {
        for (entry, times) in entries.iter().zip(&mut times) {
            std::thread::sleep(quiet);
            times.push(once(entry)?.as_secs_f64() * 1e3);
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    // The last contender is the plain one, the second where there is a peer: ratios are to bubblewrap if it is there.
    let baseline = entries.iter().position(|e| e.name == "bwrap").unwrap_or(entries.len() - 1);
    let base = quantile(&times[baseline], 0.5);
    let contenders = entries
        .iter()
        .zip(&times)
        .map(|(entry, times)| Contender {
            name: entry.name.clone(),
            p50_ms: quantile(times, 0.5),
            p99_ms: quantile(times, 0.99),
            ratio: quantile(times, 0.5) / base,
        })
        .collect();
    Ok(Comparison { name, what: what.to_owned(), rounds, contenders })
}

/// The value below which a share of the sorted times lies: nearest rank.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn once(entry: &Entry) -> Result<Duration, Problem> {
    let mut command = Command::new(&entry.argv[0]);
    command.args(&entry.argv[1..]).current_dir(&entry.cwd);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status();
    let elapsed = started.elapsed();
    match status {
        Ok(status) if status.success() || entry.argv.iter().any(|a| a == "rg") => Ok(elapsed),
        Ok(status) => {
            Err(Problem::internal("bench", format!("`{}` failed: {status}", entry.argv.join(" "))))
        }
        Err(e) => {
            Err(Problem::internal("bench", format!("cannot run `{}`", entry.argv[0])).cause(e))
        }
    }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn owned(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|s| (*s).to_owned()).collect()
}

/// Directories to measure in, removed at the end.
struct Ground {
    root: PathBuf,
}

impl Ground {
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
                return Err(Problem::internal("bench", format!("git {} failed", args.join(" "))));
            }
        }
        Ok(dir)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Problem {
    Problem::internal("bench", format!("cannot write `{}`", path.display())).cause(error)
}

fn render(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "kernel {}, {} processors", report.kernel, report.cpus);
    for c in &report.comparisons {
        let _ = writeln!(out, "\n{}: {} ({} rounds, interleaved)", c.name, c.what, c.rounds);
        let _ = writeln!(out, "  {:<12} {:>9} {:>9} {:>7}", "", "p50 ms", "p99 ms", "ratio");
        for k in &c.contenders {
            let _ = writeln!(
                out,
                "  {:<12} {:>9.2} {:>9.2} {:>7.2}",
                k.name, k.p50_ms, k.p99_ms, k.ratio
            );
        }
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

//! SIGKILL for a service at random moments, under load, on one data directory: after each, the ledger verifies, knows every
//! run whose answer was given, and calls the others interrupted; and nothing of them is left a second later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringfence_audit::{Expectations, LIMIT_MAX, Reader, RunStatus, verify};
use serde_json::json;

use crate::CannotTry;
use crate::random::Random;
use crate::soak::Findings;
use crate::soak::leftovers::{self, Leftovers};
use crate::soak::world::World;

/// From before the launcher is there to the middle of the load.
const MOMENT_US_MAX: u64 = 1_200_000;

/// Time after which leftovers count.
const GONE: Duration = Duration::from_secs(1);

/// The last start, which tidies, ends by itself.
const TIDY_MAX: Duration = Duration::from_mins(1);

/// Entries of a data directory without runs and sessions.
const AT_REST: [&str; 6] =
    ["git", "ledger", "session-owners", "sessions", "sessions.key", "workspaces"];

/// A first start makes keys and directories within this time.
const FIRST_US_MAX: u64 = 30_000;

/// After every so many kills, one of a service whose data directory is new.
const FIRST_EVERY: u32 = 5;

/// A first start, and a first look: a ledger that was read stays open in this process, on purpose, and is no leftover.
pub(crate) fn begin(world: &World) -> Result<(), CannotTry> {
    let data = world.state().join("data");
    Seen::default().round(&data.join("ledger"), &tidy(world, &data)?, 0)
}

/// Kills `n_kills` services, one after the other.
pub(crate) fn soak(world: &World, n_kills: u32, seed: u64) -> Result<Findings, CannotTry> {
    let data = world.state().join("data");
    let mut moments = Random::new(seed);
    let mut moment = |us_max: u64| Duration::from_micros(moments.next() % us_max);
    let mut seen = Seen::default();
    let before = Leftovers::count(world);
    for i in 0..n_kills {
        let heard = kill_one(world, &data, moment(MOMENT_US_MAX))?;
        let left = Leftovers::count(world).beyond(&before);
        seen.complain(left.complaints().into_iter().map(|c| format!("kill {}: {c}", i + 1)));
        seen.round(&data.join("ledger"), &heard, i + 1)?;
        if i % FIRST_EVERY == 0 {
            let heard = first_start(world, moment(FIRST_US_MAX))?;
            seen.complain(heard.wrong.iter().map(|c| format!("first start {}: {c}", i + 1)));
            seen.n_first += 1;
        }
        if (i + 1).is_multiple_of(20) {
            eprintln!("soak: {} of {n_kills}", i + 1);
        }
    }
    let heard = tidy(world, &data)?;
    seen.round(&data.join("ledger"), &heard, n_kills + 1)?;
    if !seen.open.is_empty() {
        seen.complain([format!("after the last start runs are still open: {:?}", seen.open)]);
    }
    seen.complain(strange(&data).into_iter().map(|path| format!("`{path}` was left")));
    Ok(seen.findings(n_kills, seed))
}

/// Answers of a service before it was killed.
#[derive(Default)]
struct Responses {
    ready: bool,
    acknowledged: Vec<String>,
    wrong: Vec<String>,
}

impl Responses {
    fn line(&mut self, line: &str) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("ready", _) => self.ready = true,
            ("acknowledged", id) => self.acknowledged.push(id.to_owned()),
            (_, what) => self.wrong.push(what.to_owned()),
        }
    }
}

/// Kills a service in a new data directory; the next one there must start and find nothing strange.
fn first_start(world: &World, moment: Duration) -> Result<Responses, CannotTry> {
    let data = world.state().join("first");
    let mut heard = kill_one(world, &data, moment)?;
    heard.wrong.extend(tidy(world, &data)?.wrong);
    heard.wrong.extend(strange(&data).into_iter().map(|path| format!("`{path}` was left")));
    std::fs::remove_dir_all(&data)
        .map_err(|e| format!("cannot remove `{}`: {e}", data.display()))?;
    Ok(heard)
}

fn kill_one(world: &World, data: &Path, moment: Duration) -> Result<Responses, CannotTry> {
    let mut child = world
        .service(data, &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| format!("cannot start the service: {e}"))?;
    let stdout = child.stdout.take().ok_or("the service has no stdout")?;
    let mut heard = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(stdout));
        std::thread::sleep(moment);
        let killed = child.kill().and_then(|()| child.wait());
        let heard = listener.join().unwrap_or_default();
        killed.map(|status| (status, heard)).map_err(|e| format!("cannot kill the service: {e}"))
    })
    .map(|(status, mut heard)| {
        if status.code().is_some() {
            heard.wrong.push(format!("the service ended by itself: {status}"));
        }
        heard
    })?;
    let killed = Instant::now();
    leftovers::settle_within(world, GONE);
    if killed.elapsed() >= GONE {
        heard.wrong.push("processes were alive a second after their service".to_owned());
    }
    Ok(heard)
}

fn listen(stdout: std::process::ChildStdout) -> Responses {
    let mut heard = Responses::default();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        heard.line(&line);
    }
    heard
}

/// A last start that closes all sessions and ends.
fn tidy(world: &World, data: &Path) -> Result<Responses, CannotTry> {
    let mut child = world
        .service(data, &["tidy"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|e| format!("cannot start the service: {e}"))?;
    let stdout = child.stdout.take().ok_or("the service has no stdout")?;
    let started = Instant::now();
    let mut heard = listen(stdout);
    let status = child.wait().map_err(|e| format!("cannot wait for the service: {e}"))?;
    if !status.success() || started.elapsed() > TIDY_MAX {
        heard.wrong.push(format!("the last start: {status} after {:?}", started.elapsed()));
    }
    leftovers::settle_within(world, GONE);
    Ok(heard)
}

/// Rows of the ledger seen so far.
#[derive(Default)]
struct Seen {
    last_seq: i64,
    /// Started and not ended.
    open: BTreeSet<String>,
    ended: BTreeMap<String, RunStatus>,
    n_ready: u32,
    n_first: u32,
    n_acknowledged: usize,
    n_interrupted: usize,
    rows: i64,
    complaints: Vec<String>,
}

impl Seen {
    /// Looks at the ledger after one death.
    fn round(&mut self, ledger: &Path, heard: &Responses, n: u32) -> Result<(), CannotTry> {
        let cannot = |p: ringfence_spec::Problem| format!("kill {n}: the ledger: {p:?}");
        self.complain(heard.wrong.iter().map(|what| format!("kill {n}: {what}")));
        self.n_ready += u32::from(heard.ready);
        self.n_acknowledged += heard.acknowledged.len();
        // Killed before there was one.
        if !ledger.join("ledger.head").exists() && !heard.ready {
            return Ok(());
        }
        // Before anything is folded: as the dead left it.
        let verified = verify(ledger, &Expectations::default()).map_err(cannot)?;
        self.rows = verified.rows;
        if !verified.intact {
            self.complain([format!("kill {n}: {:?}", verified.findings)]);
        }
        let before = std::mem::take(&mut self.open);
        let reader = Reader::open(ledger, None).map_err(cannot)?;
        self.read(&reader).map_err(cannot)?;
        for id in &heard.acknowledged {
            match self.ended.get(id) {
                Some(RunStatus::Interrupted) | None => {
                    self.complain([format!("kill {n}: the acknowledged run {id} has no end")]);
                }
                Some(_) => {}
            }
        }
        // A service that was ready had ended what the one before it could not.
        for id in before {
            match self.ended.get(&id) {
                Some(RunStatus::Interrupted) => self.n_interrupted += 1,
                None if !heard.ready => drop(self.open.insert(id)),
                other => self.complain([format!("kill {n}: {id} was left and is {other:?}")]),
            }
        }
        for id in self.open.clone() {
            let shown = reader.show(&id).map_err(cannot)?.status;
            if shown != Some(RunStatus::Interrupted) {
                self.complain([format!("kill {n}: {id} is shown as {shown:?}")]);
            }
        }
        Ok(())
    }

    /// Takes in the rows that are new.
    fn read(&mut self, reader: &Reader) -> Result<(), ringfence_spec::Problem> {
        loop {
            let rows = reader.after(self.last_seq, LIMIT_MAX)?;
            let Some(last) = rows.last() else { return Ok(()) };
            self.last_seq = last.seq;
            for row in rows {
                let (Some(kind), Some(id)) = (row.kind, row.run_id) else { continue };
                if kind.is_start() {
                    self.open.insert(id);
                } else if kind.is_end() {
                    self.open.remove(&id);
                    let status = row.status.unwrap_or(RunStatus::Failed);
                    if let Some(first) = self.ended.insert(id.clone(), status) {
                        self.complain([format!("{id} ended twice: {first}, {status}")]);
                    }
                }
            }
        }
    }

    fn complain(&mut self, what: impl IntoIterator<Item = String>) {
        self.complaints.extend(what);
        self.complaints.truncate(20);
    }

    fn findings(self, n_kills: u32, seed: u64) -> Findings {
        let n_ended = self.ended.len();
        let rows = [
            ("services killed", i64::from(n_kills)),
            ("starts that were ready", i64::from(self.n_ready)),
            ("first starts killed", i64::from(self.n_first)),
            ("rows, chain intact", self.rows),
            ("runs and calls ended", i64::try_from(n_ended).unwrap_or(i64::MAX)),
            ("answers given, all found", i64::try_from(self.n_acknowledged).unwrap_or(i64::MAX)),
            ("shown as interrupted", i64::try_from(self.n_interrupted).unwrap_or(i64::MAX)),
        ];
        let mut table = String::new();
        for (name, n) in rows {
            let _ = writeln!(table, "{name:<24} {n:>8}");
        }
        let _ = writeln!(table, "{:<24} {seed:>8}\n", "seed");
        let report = json!({
            "soak": "engine",
            "runs": n_kills,
            "ready": self.n_ready,
            "first_starts": self.n_first,
            "rows": self.rows,
            "ended": n_ended,
            "acknowledged": self.n_acknowledged,
            "interrupted": self.n_interrupted,
            "seed": seed,
        });
        Findings { report, table, complaints: self.complaints }
    }
}

/// Returns entries that should not be in a data directory at rest.
fn strange(data: &Path) -> Vec<String> {
    let names = |dir: PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let top = names(data.to_owned()).filter(|name| !AT_REST.contains(&&**name));
    let below = ["session-owners", "sessions"]
        .into_iter()
        .flat_map(|dir| names(data.join(dir)).map(move |name| format!("{dir}/{name}")));
    top.chain(below).collect()
}

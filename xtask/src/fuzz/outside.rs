//! Fuzzes a real server from outside: starts one, sends it inputs, and every few hundred of them looks whether it lives,
//! serves an honest client, and holds no more than it may; then ends it and looks for what it left.
//!
//! Each server has a seed of its own, so that what a later one did is repeated by starting with that. Which of two
//! things happens first in a server is not in the seed's hands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::FuzzArgs;
use super::watched::MonitoredServer;
use crate::random::Random;
use crate::{CannotTry, Verdict, program};

/// Inputs between two checks.
const INPUTS_PER_CHECK: usize = 250;

/// Checks in the life of a server: short lives end in many states, long ones show whether it grows.
const SERVER_RUNS: &[usize] = &[1, 2, 5, 60];

/// Failures saved before giving up.
const FAILURES_MAX: usize = 5;

/// A server that can be fuzzed.
pub(super) trait Server: Sized {
    /// Starts one.
    fn start(place: &Place) -> Result<Self, CannotTry>;
    /// Does what comes before the first input.
    fn begin(&mut self, random: &mut Random) -> Result<(), String>;
    /// The process.
    fn watched(&mut self) -> &mut MonitoredServer;
    /// The next input.
    fn input(random: &mut Random) -> Vec<u8>;
    /// Sends it; what came back by now must be in order.
    fn send(&mut self, input: &[u8], random: &mut Random) -> Result<(), String>;
    /// Asks as an honest client does.
    fn honest(&mut self) -> Result<(), String>;
    /// Asks it to end, which it must.
    fn end(&mut self, random: &mut Random) -> Result<(), String>;
    /// Its answers to inputs.
    fn answers(&self) -> &Answers;
}

/// Number of answers of each kind: a target that only refuses is not being fuzzed.
pub(super) type Answers = BTreeMap<String, u64>;

/// Directories of one server, gone with it, and the binary.
pub(super) struct Place {
    dir: tempfile::TempDir,
    binary: PathBuf,
}

impl Place {
    fn new(binary: &Path) -> Result<Self, CannotTry> {
        let make = || {
            let dir = tempfile::Builder::new().prefix("ringfence-fuzz-").tempdir()?;
            for name in ["home", "work", "state", "tmp"] {
                std::fs::create_dir(dir.path().join(name))?;
            }
            Ok(dir)
        };
        let dir = make().map_err(|e: std::io::Error| format!("cannot make a workspace: {e}"))?;
        Ok(Self { dir, binary: binary.to_owned() })
    }

    /// `ringfence ARGS` here.
    pub(super) fn ringfence(&self, args: &[&str]) -> Command {
        let at = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(&self.binary);
        command.args(args).current_dir(at("work")).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", at("home"));
        command.env("XDG_STATE_HOME", at("state")).env("TMPDIR", at("tmp"));
        command
    }
}

/// Inputs and findings.
#[derive(Default)]
struct Found {
    n_inputs: usize,
    n_checks: usize,
    n_servers: u64,
    memory_kib_max: u64,
    slowest: Duration,
    answers: Answers,
    failures: Vec<Failure>,
}

struct Failure {
    why: String,
    seed: u64,
    inputs: PathBuf,
}

/// Fuzzes for a while.
pub(super) fn fuzz<S: Server>(args: &FuzzArgs, seed: u64) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| format!("cannot become a subreaper: {e}"))?;
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let mut found = Found::default();
    while Instant::now() < deadline && found.failures.len() < FAILURES_MAX {
        let own_seed = seed.wrapping_add(found.n_servers);
        let mut recent = Vec::new();
        if let Err(why) = one_server_run::<S>(&binary, own_seed, deadline, &mut recent, &mut found)?
        {
            let inputs = save(&recent)?;
            eprintln!("FAILED with --seed {own_seed}: {why}");
            found.failures.push(Failure { why, seed: own_seed, inputs });
        }
    }
    report(args, seed, &found);
    Ok(if found.failures.is_empty() { Verdict::Held } else { Verdict::Failed })
}

/// One server from start to end; what it was sent since it was last known to be well is in `recent`.
fn one_server_run<S: Server>(
    binary: &Path,
    seed: u64,
    deadline: Instant,
    recent: &mut Vec<Vec<u8>>,
    found: &mut Found,
) -> Result<Result<(), String>, CannotTry> {
    // Neighbours would begin alike.
    let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let place = Place::new(binary)?;
    let mut server = S::start(&place)?;
    found.n_servers += 1;
    let mut live = || {
        server.begin(&mut random)?;
        for _ in 0..random.one_of(SERVER_RUNS) {
            recent.clear();
            for _ in 0..INPUTS_PER_CHECK {
                let input = S::input(&mut random);
                recent.push(input.clone());
                server.send(&input, &mut random)?;
                found.n_inputs += 1;
            }
            let began = Instant::now();
            server.honest()?;
            found.slowest = found.slowest.max(began.elapsed());
            server.watched().check()?;
            found.n_checks += 1;
            if Instant::now() > deadline {
                break;
            }
        }
        server.end(&mut random)
    };
    let lived = live();
    found.memory_kib_max = found.memory_kib_max.max(server.watched().memory_kib_max());
    for (kind, n) in server.answers() {
        *found.answers.entry(kind.clone()).or_default() += n;
    }
    Ok(lived)
}

/// Writes inputs to files that stay.
fn save(inputs: &[Vec<u8>]) -> Result<PathBuf, CannotTry> {
    let write = || {
        let dir = tempfile::Builder::new().prefix("ringfence-fuzz-found-").tempdir()?;
        for (n, input) in inputs.iter().enumerate() {
            std::fs::write(dir.path().join(format!("{n:03}")), input)?;
        }
        Ok(dir.keep())
    };
    write().map_err(|e: std::io::Error| format!("cannot save what was found: {e}"))
}

fn report(args: &FuzzArgs, seed: u64, found: &Found) {
    let Found { n_inputs, n_checks, n_servers, memory_kib_max, slowest, answers, failures } = found;
    let slowest_ms = slowest.as_millis();
    if args.json {
        let list: Vec<_> = failures
            .iter()
            .map(|f| json!({"why": f.why, "seed": f.seed, "inputs": f.inputs}))
            .collect();
        let object = json!({
            "ok": failures.is_empty(), "seed": seed, "inputs": n_inputs, "checks": n_checks,
            "servers": n_servers, "memory_kib_max": memory_kib_max, "honest_slowest_ms": slowest_ms,
            "answers": answers,
            "failures": list,
        });
        println!("{object}");
        return;
    }
    println!("{n_inputs} inputs to {n_servers} servers, {n_checks} checks");
    println!(
        "memory at most {memory_kib_max} KiB; an honest client waited {slowest_ms} ms at most"
    );
    let kinds: Vec<String> = answers.iter().map(|(kind, n)| format!("{kind}: {n}")).collect();
    println!("answers: {}", kinds.join(", "));
    for Failure { why, seed, inputs } in failures {
        println!("FAILED: {why}");
        println!("  again with --seed {seed}; the last inputs are in `{}`", inputs.display());
    }
}

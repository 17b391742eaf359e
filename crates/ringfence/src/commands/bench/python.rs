//! The numbers of Python runs: a warm worker beside bubblewrap and a fresh interpreter, cold starts, sessions, throughput.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_engine::cancel::{self, Cancel};
use ringfence_engine::host::found;
use ringfence_engine::{Call, CodeCall, Engine, LOCAL, Launcher, Recorder, Repl, RunResult};
use ringfence_spec::{Code, CodePreset, Outcome, Problem};

use super::{Comparison, Contender, Unit, summary};
use crate::cli::PolicyFlags;
use crate::settings::{Surroundings, effective_code};

/// Runs whose time does not count.
const WARM_UP: u32 = 20;

/// Between two runs in the latency comparison: what a pool that is not under load has to refill.
const PAUSE: Duration = Duration::from_millis(8);

/// Names of the comparisons.
const NAMES: [&str; 5] =
    ["python_warm", "python_pandas", "python_cell", "python_batch", "python_cpu"];

/// Measures those that are wanted. Must be called while this process has one thread.
pub(super) fn comparisons(
    rounds: u32,
    python: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Comparison>, Problem> {
    let mut list = Vec::new();
    if !NAMES.iter().any(|name| wanted(name)) {
        return Ok(list);
    }
    let host = interpreter(python)?;
    // First: each is a fork of this process, which gets threads with the first pool.
    let launchers = [Launcher::start()?, Launcher::start()?];
    let [for_open, for_data] = launchers;
    let open = Workers::new(python, CodePreset::Open, for_open)?;
    let with_pandas = wanted("python_pandas") && imports(&host, "pandas");
    let data = with_pandas.then(|| Workers::new(python, CodePreset::Data, for_data)).transpose()?;
    open.engine.wait_for_workers(4)?;

    if wanted("python_warm") {
        let what = format!("print(1) in a waiting worker{}", open.private());
        list.push(beside(&what, "python_warm", rounds, &open, "print(1)", &host)?);
    }
    if let Some(data) = &data {
        data.engine.wait_for_workers(4)?;
        let what = format!("print(1) where pandas is loaded{}", data.private());
        list.push(beside(&what, "python_pandas_loaded", rounds, data, "print(1)", &host)?);
        let code = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2, 3]})['a'].sum())";
        let rounds = (rounds / 5).max(5);
        let what = "a sum with pandas in a waiting worker";
        list.push(beside(what, "python_pandas", rounds, data, code, &host)?);
    }
    if wanted("python_cell") {
        let mut session = open.engine.repl(LOCAL, None)?;
        let what = "one cell of a session, with its checkpoint";
        list.push(cell("python_cell", what, rounds, &mut session, &open.cancel)?);
        if imports(&host, "pandas") {
            session.cell("import pandas", open.cancel.as_fd());
            let what = "the same in a session that has loaded pandas";
            list.push(cell("python_cell_pandas", what, rounds, &mut session, &open.cancel)?);
        }
    }
    if wanted("python_batch") {
        list.push(throughput(rounds, &open, "print(1)", &host));
    }
    if wanted("python_cpu") {
        list.push(cpu((rounds / 10).max(5), &open, &host));
    }
    Ok(list)
}

/// An engine without a ledger, whose runs are measured as every caller has them.
pub(super) struct Workers {
    pub(super) engine: Engine,
    /// Held, so that nothing is cancelled.
    _wanted: cancel::CancelOnDrop,
    cancel: Cancel,
}

impl Workers {
    fn new(python: &str, preset: CodePreset, launcher: Launcher) -> Result<Self, Problem> {
        // The promise is about the worker, and a bench leaves no rows in the ledger.
        Self::start(python, preset, launcher, Recorder::off(), 2)
    }

    /// With a ledger, as in a service.
    pub(super) fn recorded(
        python: &str,
        launcher: Launcher,
        recorder: Recorder,
        jobs: usize,
    ) -> Result<Self, Problem> {
        Self::start(python, CodePreset::Standard, launcher, recorder, jobs)
    }

    fn start(
        python: &str,
        preset: CodePreset,
        launcher: Launcher,
        recorder: Recorder,
        jobs: usize,
    ) -> Result<Self, Problem> {
        let flags = PolicyFlags {
            preset: Some(preset.name().to_owned()),
            python: Some(python.to_owned()),
            ..PolicyFlags::default()
        };
        let effective = effective_code(&flags, &Surroundings::real(false)?)?;
        let engine = Engine::builder()
            .launcher(launcher)
            .recorder(recorder)
            .host(effective.place)
            .code_policy(effective.policy)
            .parallel(jobs)
            .build()?;
        let (wanted, cancel) = cancel::pair()?;
        Ok(Self { engine, _wanted: wanted, cancel })
    }

    pub(super) fn run(&self, code: &str) -> RunResult {
        let call = CodeCall { code: code.into(), ..CodeCall::default() };
        self.engine.run_blocking(LOCAL, "bench", &Call::Code(call), &self.cancel)
    }

    /// Memory private to a waiting worker, for people.
    fn private(&self) -> String {
        self.engine.waiting_worker_bytes().map_or_else(String::new, |bytes| {
            format!(", {} KiB private to a waiting worker", bytes >> 10)
        })
    }
}

/// One cell after another in a session.
fn cell(
    name: &'static str,
    what: &str,
    rounds: u32,
    session: &mut Repl,
    cancel: &Cancel,
) -> Result<Comparison, Problem> {
    let mut times = Vec::new();
    for round in 0..rounds + WARM_UP {
        let outcome = session.cell("x = 1\nx + 1", cancel.as_fd());
        succeeded(&outcome)?;
        if round >= WARM_UP {
            times.push(outcome.usage.wall_ms);
        }
    }
    Ok(summary(name, what, Unit::Run, vec!["ringfence".to_owned()], vec![times], 0))
}

fn succeeded(outcome: &Outcome) -> Result<(), Problem> {
    match &outcome.error {
        Some(error) => {
            Err(Problem::internal(Code::Bench, "a measured run failed").cause(&error.message))
        }
        None => Ok(()),
    }
}

/// The interpreter behind a name, so that no shim is timed.
fn interpreter(python: &str) -> Result<String, Problem> {
    let output =
        Command::new(python).args(["-I", "-c", "import sys; print(sys.executable)"]).output();
    let path = output.ok().map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    path.filter(|path| found(Path::new(path)).is_some())
        .ok_or_else(|| Problem::usage(Code::PythonNotFound, format!("`{python}` does not run")))
}

fn imports(python: &str, module: &str) -> bool {
    let import = format!("import {module}");
    let status = Command::new(python).args(["-I", "-c", &import]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// bubblewrap with a fresh interpreter.
fn bubblewrap(python: &str, code: &str) -> Command {
    let argv = super::bubblewrap(&[python, "-I", "-c", code]);
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The same, if it works here.
fn working_bubblewrap(python: &str, code: &str) -> Option<Command> {
    let mut command = bubblewrap(python, code);
    command.status().is_ok_and(|status| status.success()).then_some(command)
}

/// One run each in turn: the engine's, the part of its worker, its first byte, bubblewrap's.
fn beside(
    what: &str,
    name: &'static str,
    rounds: u32,
    workers: &Workers,
    code: &str,
    python: &str,
) -> Result<Comparison, Problem> {
    let mut peer = working_bubblewrap(python, code);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); if peer.is_some() { 4 } else { 3 }];
    for round in 0..rounds + WARM_UP {
        std::thread::sleep(PAUSE);
        let started = Instant::now();
        let ran = workers.run(code);
        let whole = started.elapsed();
        succeeded(&ran.outcome)?;
        let theirs = peer.as_mut().map(|peer| {
            let started = Instant::now();
            let _ = peer.status();
            started.elapsed()
        });
        if round >= WARM_UP {
            times[0].push(whole.as_secs_f64() * 1e3);
            // Without screening, admission, the ledger and the list of files.
            times[1].push(ran.outcome.usage.wall_ms);
            times[2].push(ran.first_byte.unwrap_or(whole).as_secs_f64() * 1e3);
            if let Some(theirs) = theirs {
                times[3].push(theirs.as_secs_f64() * 1e3);
            }
        }
    }
    let mut names = ["ringfence", "its worker", "first byte"].map(str::to_owned).to_vec();
    names.extend(peer.map(|_| "bwrap+python".to_owned()));
    let baseline = names.len() - 1;
    Ok(summary(name, what, Unit::Run, names, times, baseline))
}

/// Milliseconds for each of many, two at a time.
fn throughput(rounds: u32, workers: &Workers, code: &str, python: &str) -> Comparison {
    let n = rounds.max(50) * 10;
    let each = |n: u32, work: &(dyn Fn() + Sync)| {
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..n / 2).for_each(|_| work()));
            }
        });
        started.elapsed().as_secs_f64() * 1e3 / f64::from(n)
    };
    let contender = |name: &str, ms: f64, base: f64| Contender {
        name: name.to_owned(),
        p50_ms: ms,
        p99_ms: ms,
        ratio: ms / base,
    };
    let ours = each(n, &|| {
        let _ = workers.run(code);
    });
    let theirs = working_bubblewrap(python, code).map(|_| {
        each(n / 20, &|| {
            let _ = bubblewrap(python, code).status();
        })
    });
    let base = theirs.unwrap_or(ours);
    let mut contenders = vec![contender("ringfence", ours, base)];
    contenders.extend(theirs.map(|ms| contender("bwrap+python", ms, base)));
    let what = format!("{n} programs, two at a time: {:.0} a second", 1e3 / ours);
    Comparison { name: "python_batch", what, rounds: n, unit: Unit::Run, contenders }
}

/// A loop that only computes, timed by itself, here and outside.
fn cpu(rounds: u32, workers: &Workers, python: &str) -> Comparison {
    let code = "import time\nstart = time.perf_counter_ns()\nx = 0\nfor i in range(3_000_000):\n    x += i * i\n\
                print(time.perf_counter_ns() - start)";
    let nanos = |text: &str| text.trim().parse::<f64>().unwrap_or(f64::NAN);
    let mut times = vec![Vec::new(), Vec::new()];
    for _ in 0..rounds {
        times[0].push(nanos(&workers.run(code).outcome.stdout) / 1e6);
        let output = Command::new(python).args(["-I", "-c", code]).output();
        let output = output.map(|o| o.stdout).unwrap_or_default();
        times[1].push(nanos(&String::from_utf8_lossy(&output)) / 1e6);
    }
    let names = vec!["ringfence".to_owned(), "plain".to_owned()];
    summary("python_cpu", "a loop of 3,000,000 rounds", Unit::Run, names, times, 1)
}

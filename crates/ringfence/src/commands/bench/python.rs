//! The numbers of Python runs: a warm worker beside bubblewrap and a fresh interpreter, cold starts, sessions, throughput.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringfence_python::{Job, Pool, Repl};
use ringfence_spec::{CodePreset, Problem};

use super::{Comparison, Contender, Unit, summary};
use crate::cli::PolicyFlags;
use crate::settings::{Surroundings, effective_code};
use ringfence_engine::{CodeFence, Use};
use ringfence_jail::Launcher;

/// Runs whose time does not count.
const WARM_UP: u32 = 20;

/// Between two runs in the latency comparison: what a pool that is not under load has to refill.
const PAUSE: Duration = Duration::from_millis(8);

/// What each comparison is called.
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
    // First: it is a fork of this process, which gets threads with the first pool.
    let launcher = Arc::new(Launcher::start()?);
    let cells = wanted("python_cell").then(|| fence(python, CodePreset::Open, Use::Session));
    let cells = cells.transpose()?;
    let often = Use::Often { n_parallel: 2 };
    let with_pandas = wanted("python_pandas") && imports(&host, "pandas");
    let data = with_pandas.then(|| fence(python, CodePreset::Data, often)).transpose()?;
    let open = fence(python, CodePreset::Open, often)?;
    let pool = open.pool(&launcher, 2)?;
    let data_pool = data.as_ref().map(|fence| fence.pool(&launcher, 2)).transpose()?;
    pool.wait_until_full(4)?;

    if wanted("python_warm") {
        let job = open.ground().job(b"print(1)".to_vec());
        let what = format!("print(1) in a waiting worker{}", private(&pool));
        list.push(beside(&what, "python_warm", rounds, &pool, &job, &host)?);
    }
    if let (Some(fence), Some(pool)) = (&data, &data_pool) {
        pool.wait_until_full(4)?;
        let what = format!("print(1) where pandas is loaded{}", private(pool));
        let job = fence.ground().job(b"print(1)".to_vec());
        list.push(beside(&what, "python_pandas_loaded", rounds, pool, &job, &host)?);
        let code =
            b"import pandas as pd\nprint(pd.DataFrame({'a': [1, 2, 3]})['a'].sum())".to_vec();
        let job = fence.ground().job(code);
        let rounds = (rounds / 5).max(5);
        let what = "a sum with pandas in a waiting worker";
        list.push(beside(what, "python_pandas", rounds, pool, &job, &host)?);
    }
    if let Some(fence) = &cells {
        let mut session = fence.repl(&launcher)?;
        let what = "one cell of a session, with its checkpoint";
        list.push(cell("python_cell", what, rounds, &mut session, &open)?);
        if imports(&host, "pandas") {
            session.cell(&open.ground().job(b"import pandas".to_vec()), None)?;
            let what = "the same in a session that has loaded pandas";
            list.push(cell("python_cell_pandas", what, rounds, &mut session, &open)?);
        }
    }
    if wanted("python_batch") {
        list.push(throughput(rounds, &pool, &open.ground().job(b"print(1)".to_vec()), &host));
    }
    if wanted("python_cpu") {
        list.push(cpu((rounds / 10).max(5), &pool, &open, &host)?);
    }
    Ok(list)
}

/// One cell after another in a session.
fn cell(
    name: &'static str,
    what: &str,
    rounds: u32,
    session: &mut Repl,
    fence: &CodeFence,
) -> Result<Comparison, Problem> {
    let job = Job { value: true, ..fence.ground().job(b"x = 1\nx + 1".to_vec()) };
    let mut times = Vec::new();
    for round in 0..rounds + WARM_UP {
        let cell = session.cell(&job, None)?;
        if round >= WARM_UP {
            times.push(cell.wall.as_secs_f64() * 1e3);
        }
    }
    Ok(summary(name, what, Unit::Run, vec!["ringfence".to_owned()], vec![times], 0))
}

/// What a waiting worker has to itself, for people.
fn private(pool: &Pool) -> String {
    pool.waiting_bytes().map_or_else(String::new, |bytes| {
        format!(", {} KiB private to a waiting worker", bytes >> 10)
    })
}

fn fence(python: &str, preset: CodePreset, how: Use) -> Result<CodeFence, Problem> {
    let flags = PolicyFlags {
        preset: Some(preset.name().to_owned()),
        python: Some(python.to_owned()),
        ..PolicyFlags::default()
    };
    let around = Surroundings::real(false)?;
    let effective = effective_code(&flags, &around)?;
    CodeFence::new(&effective.policy, &effective.place, how)
}

/// The interpreter behind a name, so that no shim is timed.
fn interpreter(python: &str) -> Result<String, Problem> {
    let output =
        Command::new(python).args(["-I", "-c", "import sys; print(sys.executable)"]).output();
    let path = output.ok().map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    path.filter(|path| ringfence_jail::survey::found(Path::new(path)).is_some())
        .ok_or_else(|| Problem::usage("python_not_found", format!("`{python}` does not run")))
}

fn imports(python: &str, module: &str) -> bool {
    let import = format!("import {module}");
    let status = Command::new(python).args(["-I", "-c", &import]).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// bubblewrap with a fresh interpreter.
fn bubblewrap(python: &str, code: &[u8]) -> Command {
    let code = String::from_utf8_lossy(code).into_owned();
    let argv = super::bubblewrap(&[python, "-I", "-c", &code]);
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The same, if it works here.
fn working_bubblewrap(python: &str, code: &[u8]) -> Option<Command> {
    let mut command = bubblewrap(python, code);
    command.status().is_ok_and(|status| status.success()).then_some(command)
}

/// One run each in turn: the pool's, its first byte, bubblewrap's.
fn beside(
    what: &str,
    name: &'static str,
    rounds: u32,
    pool: &Pool,
    job: &Job,
    python: &str,
) -> Result<Comparison, Problem> {
    let mut peer = working_bubblewrap(python, &job.code);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); if peer.is_some() { 3 } else { 2 }];
    for round in 0..rounds + WARM_UP {
        std::thread::sleep(PAUSE);
        let started = Instant::now();
        let (finished, _) = pool.run(job, None)?;
        let whole = started.elapsed();
        let theirs = peer.as_mut().map(|peer| {
            let started = Instant::now();
            let _ = peer.status();
            started.elapsed()
        });
        if round >= WARM_UP {
            times[0].push(whole.as_secs_f64() * 1e3);
            times[1].push(finished.first_byte.unwrap_or(whole).as_secs_f64() * 1e3);
            if let Some(theirs) = theirs {
                times[2].push(theirs.as_secs_f64() * 1e3);
            }
        }
    }
    let mut names = vec!["ringfence".to_owned(), "first byte".to_owned()];
    names.extend(peer.map(|_| "bwrap+python".to_owned()));
    let baseline = names.len() - 1;
    Ok(summary(name, what, Unit::Run, names, times, baseline))
}

/// Milliseconds for each of many, two at a time.
fn throughput(rounds: u32, pool: &Pool, job: &Job, python: &str) -> Comparison {
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
        let _ = pool.run(job, None);
    });
    let theirs = working_bubblewrap(python, &job.code).map(|_| {
        each(n / 20, &|| {
            let _ = bubblewrap(python, &job.code).status();
        })
    });
    let base = theirs.unwrap_or(ours);
    let mut contenders = vec![contender("ringfence", ours, base)];
    contenders.extend(theirs.map(|ms| contender("bwrap+python", ms, base)));
    let what = format!("{n} programs, two at a time: {:.0} a second", 1e3 / ours);
    Comparison { name: "python_batch", what, rounds: n, unit: Unit::Run, contenders }
}

/// A loop that only computes, timed by itself, here and outside.
fn cpu(rounds: u32, pool: &Pool, fence: &CodeFence, python: &str) -> Result<Comparison, Problem> {
    let code = "import time\nstart = time.perf_counter_ns()\nx = 0\nfor i in range(3_000_000):\n    x += i * i\n\
                print(time.perf_counter_ns() - start)";
    let job = fence.ground().job(code.as_bytes().to_vec());
    let nanos = |text: &str| text.trim().parse::<f64>().unwrap_or(f64::NAN);
    let mut times = vec![Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let (finished, _) = pool.run(&job, None)?;
        let (head, _) = finished.stdout.parts();
        times[0].push(nanos(&String::from_utf8_lossy(&head)) / 1e6);
        let output = Command::new(python).args(["-I", "-c", code]).output();
        let output = output.map(|o| o.stdout).unwrap_or_default();
        times[1].push(nanos(&String::from_utf8_lossy(&output)) / 1e6);
    }
    let names = vec!["ringfence".to_owned(), "plain".to_owned()];
    Ok(summary("python_cpu", "a loop of 3,000,000 rounds", Unit::Run, names, times, 1))
}

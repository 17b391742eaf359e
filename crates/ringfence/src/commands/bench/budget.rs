//! Estimates throughput on 16 processors from the CPU time of one run: that of all processes, and that of each piece that
//! runs share. On a busy machine CPU time still means something, wall time does not.

#![allow(clippy::cast_precision_loss, reason = "times and numbers far below 2^52")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_engine::{LOCAL, Recorder, some_id};
use ringfence_spec::{Code, Outcome, Problem, Status};
use serde::Serialize;
use serde_json::json;

use super::python::Workers;
use crate::commands::batch::Tally;

/// Name of the budget among the comparisons.
pub(super) const NAME: &str = "python_budget";

/// The host that the limits are computed for.
const CORES: usize = 16;

/// Bound of a piece that exists once, and of one copy of a piece that exists several times.
const ONCE_US: f64 = 25.0;
const COPY_US: f64 = 100.0;

/// Runs before anything is counted.
const WARM_UP: u32 = 200;

/// Repetitions of a piece that is measured by itself.
const REPEATED: u32 = 20_000;

/// Name of the threads that make runs.
const CALLERS: &str = "bench-caller";

/// CPU time that one warm run costs, and the throughput that follows from it.
#[derive(Debug, Serialize)]
pub(super) struct CpuBudget {
    runs: u32,
    jobs: usize,
    /// CPU time of all processes for each run.
    cpu_us: f64,
    /// Its parts.
    parts: Vec<Part>,
    /// The parts, and parts of parts, that runs share.
    pieces: Vec<Piece>,
    /// Page faults of the zygotes for each fork, the children's not counted.
    zygote_faults: f64,
    /// Runs a second, measured here.
    per_second: f64,
    /// The most runs a second on a host of [`CORES`] processors by each budget.
    limits: LimitsPerSecond,
}

#[derive(Debug, Serialize)]
struct Part {
    name: &'static str,
    cpu_us: f64,
}

/// Something that runs share.
#[derive(Debug, Serialize)]
struct Piece {
    name: &'static str,
    /// CPU time for each run.
    cpu_us: f64,
    /// Number of copies on a host of [`CORES`] processors.
    copies: usize,
    /// CPU time for each run, divided by the copies.
    per_copy_us: f64,
    bound_us: f64,
}

#[derive(Debug, Serialize)]
struct LimitsPerSecond {
    cores: usize,
    /// All processors busy with nothing else.
    by_cpu: f64,
    /// The piece with the longest time per copy is busy all the time.
    by_piece: f64,
    /// Amdahl's law: what exists once is done by one processor, while the others wait.
    amdahl: f64,
}

impl Piece {
    fn new(name: &'static str, cpu_us: f64, copies: usize) -> Self {
        let bound_us = if copies == 1 { ONCE_US } else { COPY_US };
        Self { name, cpu_us, copies, per_copy_us: cpu_us / copies as f64, bound_us }
    }
}

/// Measures threads that run `print(1)` one after another, one for each processor, with a ledger.
pub(super) fn measure(
    rounds: u32,
    python: &str,
    launcher: ringfence_engine::Launcher,
    ground: &Path,
) -> Result<CpuBudget, Problem> {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let settings = ringfence_audit::LedgerSettings::new(ringfence_engine::redact);
    let recorder = Recorder::open(&ground.join("ledger"), settings)?;
    let workers = Workers::recorded(python, launcher, recorder, jobs)?;
    workers.engine.wait_for_workers(jobs)?;
    let runs = rounds.max(50) * 20;
    let (used, took) = run_counted(&workers, jobs, runs)?;
    let each_us = |ns: f64| ns / f64::from(runs) / 1e3;
    let parts: Vec<Part> = [
        ("workers", used.workers_ns),
        ("zygotes", used.zygotes_ns),
        ("callers", used.callers_ns),
        ("refill", used.refill_ns),
        ("reaper", used.reaper_ns),
        ("other", used.other_ns),
    ]
    .map(|(name, ns)| Part { name, cpu_us: each_us(ns) })
    .into();
    let cpu_us: f64 = parts.iter().map(|part| part.cpu_us).sum();
    let n_zygotes = ringfence_engine::zygotes_of(CORES);
    let pieces = vec![
        Piece::new("zygote", each_us(used.zygotes_ns), n_zygotes),
        Piece::new("refill", each_us(used.refill_ns), n_zygotes),
        Piece::new("reaper", each_us(used.reaper_ns), n_zygotes),
        Piece::new("ledger section", each_us(used.ledger_ns), 1),
        Piece::new("admission", admission_us(&workers), 1),
        Piece::new("batch output", batch_output_us(), 1),
    ];
    let limits = limits(cpu_us, &pieces);
    Ok(CpuBudget {
        runs,
        jobs,
        cpu_us,
        parts,
        pieces,
        zygote_faults: used.zygote_faults / f64::from(runs),
        per_second: f64::from(runs) / took.as_secs_f64(),
        limits,
    })
}

/// Makes the runs after a warm-up. Returns the CPU time that they took, and the wall time.
fn run_counted(workers: &Workers, jobs: usize, runs: u32) -> Result<(Sample, Duration), Problem> {
    let left = AtomicU32::new(WARM_UP);
    let failed = Mutex::new(None);
    let (begin, counted) = (std::sync::Barrier::new(jobs + 1), std::sync::Barrier::new(jobs + 1));
    let work = || {
        let next = |n: u32| n.checked_sub(1);
        while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok() {
            let ran = workers.run("print(1)");
            if let Some(error) = ran.outcome.error {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    };
    let measured = std::thread::scope(|scope| {
        for _ in 0..jobs {
            let thread = std::thread::Builder::new().name(CALLERS.to_owned());
            let caller = || {
                work();
                begin.wait();
                begin.wait();
                work();
                counted.wait();
                counted.wait();
            };
            // Without it the barriers would never open.
            thread.spawn_scoped(scope, caller).unwrap_or_else(|e| panic!("no thread: {e}"));
        }
        begin.wait();
        left.store(runs, Ordering::SeqCst);
        settle(workers);
        let before = Sample::take(workers);
        let started = Instant::now();
        begin.wait();
        counted.wait();
        let took = started.elapsed();
        // The last workers are still to be replaced: the refill belongs to the runs.
        settle(workers);
        let used = Sample::take(workers) - before;
        counted.wait();
        (used, took)
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(measured),
        Some(error) => {
            Err(Problem::internal(Code::Bench, "a measured run failed").cause(error.message))
        }
    }
}

fn limits(cpu_us: f64, pieces: &[Piece]) -> LimitsPerSecond {
    let serial_us: f64 = pieces.iter().filter(|p| p.copies == 1).map(|p| p.per_copy_us).sum();
    let slowest_us = pieces.iter().map(|p| p.per_copy_us).fold(0.0, f64::max);
    let cores = CORES as f64;
    LimitsPerSecond {
        cores: CORES,
        by_cpu: cores * 1e6 / cpu_us,
        by_piece: 1e6 / slowest_us,
        amdahl: 1e6 / (serial_us + (cpu_us - serial_us).max(0.0) / cores),
    }
}

/// Waits until the pool is full again and its processes are quiet.
fn settle(workers: &Workers) {
    let mut last = f64::NAN;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        let now = Sample::take(workers).total_ns();
        if (now - last).abs() < 1e6 {
            return;
        }
        last = now;
    }
}

fn admission_us(workers: &Workers) -> f64 {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    cpu_us_each(REPEATED, || {
        let admit = std::pin::pin!(workers.engine.admission().admit(LOCAL));
        // Nothing else runs, so it is ready at once; dropping the permit is part of the piece.
        let _ = std::future::Future::poll(admit, &mut context);
    })
}

/// CPU time of writing one outcome of a batch, which one thread does at a time.
fn batch_output_us() -> f64 {
    let Ok(mut out) = std::fs::File::options().write(true).open("/dev/null") else {
        return f64::NAN;
    };
    let problem = Problem::usage(Code::BadItem, "for timing");
    let outcome = Outcome::not_started(some_id(), Status::Error, &problem);
    let (tally, line) = (Mutex::new(Tally::default()), json!(outcome).to_string() + "\n");
    cpu_us_each(REPEATED, || {
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.add("error".to_owned(), || out.write_all(line.as_bytes()).is_ok());
    })
}

/// CPU time of `work`, repeated, in microseconds for one.
fn cpu_us_each(repeated: u32, mut work: impl FnMut()) -> f64 {
    let started = ringfence_sys::thread_cpu_time();
    for _ in 0..repeated {
        work();
    }
    ringfence_sys::thread_cpu_time().saturating_sub(started).as_secs_f64() * 1e6
        / f64::from(repeated)
}

/// CPU time so far of this process's threads and of all processes below it.
#[derive(Debug, Default)]
struct Sample {
    workers_ns: f64,
    zygotes_ns: f64,
    callers_ns: f64,
    refill_ns: f64,
    reaper_ns: f64,
    other_ns: f64,
    ledger_ns: f64,
    zygote_faults: f64,
}

impl Sample {
    fn take(workers: &Workers) -> Self {
        let own = std::process::id();
        let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
        for name in names(Path::new("/proc")) {
            let Ok(pid) = name.parse() else { continue };
            processes.extend(Process::read(pid).map(|process| (pid, process)));
        }
        let below_us = |pid: u32| {
            let parents = std::iter::successors(Some(pid), |pid| Some(processes.get(pid)?.parent));
            parents.take(64).any(|pid| pid == own)
        };
        // A zygote is a Python whose parent is none; its children are workers.
        let is_python =
            |pid: &u32| processes.get(pid).is_some_and(|p| p.name.starts_with("python"));
        let mut sample = Self::default();
        for (pid, process) in processes.iter().filter(|(pid, _)| below_us(**pid)) {
            if *pid == own {
                continue;
            }
            let used = task_ns(&format!("/proc/{pid}/task")).map(|(_, ns)| ns).sum::<f64>();
            match (is_python(pid), is_python(&process.parent)) {
                (true, true) => sample.workers_ns += used,
                (true, false) => {
                    sample.zygotes_ns += used;
                    sample.workers_ns += process.children_ns;
                    sample.zygote_faults += process.faults;
                }
                (false, _) => sample.other_ns += used,
            }
        }
        for (name, ns) in task_ns("/proc/self/task") {
            let part = match name.as_str() {
                CALLERS => &mut sample.callers_ns,
                // The kernel keeps 15 bytes of a name.
                name if name.starts_with("ringfence-refil") => &mut sample.refill_ns,
                name if name.starts_with("ringfence-reap") => &mut sample.reaper_ns,
                _ => &mut sample.other_ns,
            };
            *part += ns;
        }
        let ledger = workers.engine.recorder().ledger();
        let section = ledger.ok().flatten().map(ringfence_audit::Ledger::section_cpu);
        sample.ledger_ns = section.unwrap_or_default().as_nanos() as f64;
        sample
    }

    fn total_ns(&self) -> f64 {
        self.workers_ns + self.zygotes_ns + self.refill_ns + self.reaper_ns
    }
}

impl std::ops::Sub for Sample {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            workers_ns: self.workers_ns - before.workers_ns,
            zygotes_ns: self.zygotes_ns - before.zygotes_ns,
            callers_ns: self.callers_ns - before.callers_ns,
            refill_ns: self.refill_ns - before.refill_ns,
            reaper_ns: self.reaper_ns - before.reaper_ns,
            other_ns: self.other_ns - before.other_ns,
            ledger_ns: self.ledger_ns - before.ledger_ns,
            zygote_faults: self.zygote_faults - before.zygote_faults,
        }
    }
}

/// One process, as `/proc` shows it.
struct Process {
    name: String,
    parent: u32,
    faults: f64,
    /// CPU time of the children it has waited for.
    children_ns: f64,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = ringfence_sys::read_kernel_file(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // proc_pid_stat(5), less the first two fields and counted from 0.
        let number = |n: usize| fields.get(n)?.parse::<f64>().ok();
        let tick_ns = 1e9 / rustix::param::clock_ticks_per_second() as f64;
        Some(Self {
            name: name.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            faults: number(7)?,
            children_ns: (number(13)? + number(14)?) * tick_ns,
        })
    }
}

/// Name and CPU time of each thread in a directory of `/proc`.
fn task_ns(dir: &str) -> impl Iterator<Item = (String, f64)> {
    let read = |path: String| ringfence_sys::read_kernel_file(path).ok();
    names(Path::new(dir)).into_iter().filter_map(move |thread| {
        let name = read(format!("{dir}/{thread}/comm"))?.trim().to_owned();
        let ns = read(format!("{dir}/{thread}/schedstat"))?;
        Some((name, ns.split_whitespace().next()?.parse().ok()?))
    })
}

fn names(dir: &Path) -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "a directory of the kernel's")]
    let entries = std::fs::read_dir(dir).ok();
    let names = entries.into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The tables, for people.
pub(super) fn render(budget: &CpuBudget, out: &mut String) {
    let _ = writeln!(
        out,
        "\n{NAME}: CPU time of {} runs of print(1), {} at a time, with a ledger: {:.0} a second",
        budget.runs, budget.jobs, budget.per_second
    );
    let _ = writeln!(out, "  {:<20} {:>9}", "all processes", "µs a run");
    for part in &budget.parts {
        let _ = writeln!(out, "  {:<20} {:>9.1}", part.name, part.cpu_us);
    }
    let _ = writeln!(out, "  {:<20} {:>9.1}", "all", budget.cpu_us);
    let _ = writeln!(out, "  {:<20} {:>9.1}", "faults of a zygote", budget.zygote_faults);
    let head = ["µs a run", "copies", "each", "bound"];
    let _ = writeln!(
        out,
        "  {:<20} {:>9} {:>7} {:>9} {:>7}",
        format!("shared, {} cores", budget.limits.cores),
        head[0],
        head[1],
        head[2],
        head[3]
    );
    for piece in &budget.pieces {
        let Piece { name, cpu_us, copies, per_copy_us, bound_us } = piece;
        let _ = writeln!(
            out,
            "  {name:<20} {cpu_us:>9.1} {copies:>7} {per_copy_us:>9.1} {bound_us:>7.0}"
        );
    }
    let LimitsPerSecond { cores, by_cpu, by_piece, amdahl } = &budget.limits;
    let _ = writeln!(
        out,
        "  on {cores} cores at most {by_cpu:.0} a second by CPU, {by_piece:.0} by the slowest piece, {amdahl:.0} by Amdahl's law"
    );
}

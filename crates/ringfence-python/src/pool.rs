//! Warm workers, each for one run. A thread replaces the workers that runs take; a zygote that dies is replaced.

use std::collections::VecDeque;
use std::num::NonZero;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use ringfence_jail::Permit;
use ringfence_plan::{CodePlan, WorkerPlan};
use ringfence_spec::{Code, Problem, Start};
use ringfence_sys::CallError;

use crate::worker::{Ended, Exit, Finished, Job, RunContext, Worker};
use crate::zygote::{Failure, ForkPriority, PendingWorker, Zygote};
use crate::zygote_keeper::ZygoteKeeper;

/// Maximum number of consecutive starts of a zygote that cannot be kept alive.
const STARTS_MAX: u32 = 5;

/// Workers requested at once: one is forked while another builds its fence.
const COMING_MAX: usize = 3;

/// Number of consecutive failed workers after which the zygote is at fault.
const WORKERS_FAILED_MAX: u32 = 20;

/// Counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that found a worker waiting.
    pub hits: u64,
    /// Runs that had to wait for one.
    pub misses: u64,
    /// Workers made.
    pub made: u64,
    /// Zygotes started.
    pub zygotes: u64,
    /// Workers waiting now.
    pub waiting: usize,
}

/// Warm workers under one policy. Dropping it ends them all.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    refill: Option<JoinHandle<()>>,
    plan: WorkerPlan,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signals a new worker, or a failure, to runs that wait for a worker.
    ready: Condvar,
    /// Signals the refill thread that a worker was taken, or that there is a request for the zygote.
    wanted: Condvar,
    n_processors: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Worker>,
    /// Runs that wait for a worker.
    n_takers: usize,
    /// Runs that have one.
    n_running: usize,
    questions: VecDeque<(u32, mpsc::Sender<Option<Exit>>)>,
    /// Dead workers whose exit status is not needed.
    dead: Vec<u32>,
    /// Mount namespaces of dead workers.
    remains: Vec<OwnedFd>,
    counts: Counts,
    missing: Vec<String>,
    speedups: Vec<String>,
    failed: Option<Problem>,
    stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left the list as it was; each worker in it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if every processor has a run.
    fn is_busy(&self, state: &State) -> bool {
        state.n_running + state.n_takers >= self.n_processors
    }
}

/// A run's place in the pool. Dropping it, after a panic too, takes the run out of the count, has the zygote reap a
/// worker whose exit status is not needed, and wakes the thread that replaces the worker. That thread competes with
/// the caller for a processor, so drop it once the answer is ready.
#[derive(Debug)]
pub struct PoolSlot<'a> {
    shared: &'a Shared,
    unasked: Option<u32>,
}

impl Drop for PoolSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.n_running -= 1;
        state.dead.extend(self.unasked);
        drop(state);
        self.shared.wanted.notify_one();
    }
}

impl Pool {
    /// Fills the pool, and keeps `n_waiting` workers waiting.
    pub fn start(
        keeper: ZygoteKeeper,
        plan: &CodePlan,
        n_waiting: NonZero<usize>,
    ) -> Result<Self, Problem> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            ready: Condvar::new(),
            wanted: Condvar::new(),
            n_processors: std::thread::available_parallelism().map_or(1, NonZero::get),
        });
        let refill = Refill {
            shared: Arc::clone(&shared),
            keeper,
            plan: plan.worker.clone(),
            host_uid: plan.zygote.identity.host_uid,
            n_waiting,
        };
        let thread = std::thread::Builder::new().name("ringfence-refill".to_owned());
        let work = move || {
            let shared = Arc::clone(&refill.shared);
            let work = std::panic::AssertUnwindSafe(|| refill.work());
            if std::panic::catch_unwind(work).is_err() {
                // Runs that wait for a worker get the error, and the engine starts another pool.
                let problem =
                    Problem::internal(Code::Internal, "the pool of workers failed unexpectedly");
                shared.lock().failed = Some(problem);
                shared.ready.notify_all();
            }
        };
        let refill = thread.spawn(work).map_err(|e| {
            Problem::internal(Code::Threads, "cannot start a thread for the pool").cause(e)
        })?;
        Ok(Self { shared, refill: Some(refill), plan: plan.worker.clone() })
    }

    /// The plan that fences each run.
    pub fn plan(&self) -> &WorkerPlan {
        &self.plan
    }

    /// Waits until the pool is full, or cannot be filled.
    pub fn wait_until_full(&self, n: usize) -> Result<(), Problem> {
        let mut state = self.shared.lock();
        while state.waiting.len() < n {
            if let Some(problem) = &state.failed {
                return Err(problem.clone());
            }
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Runs a program to its end, or until `cancel` has something to read or is closed. From any thread. With a
    /// `permit` the program begins once it returns: meanwhile the worker prepares it.
    pub fn run(
        &self,
        job: &Job,
        cancel: Option<BorrowedFd<'_>>,
        permit: Option<Permit<'_>>,
    ) -> Result<(Finished, Start, PoolSlot<'_>), Problem> {
        let (worker, start) = self.take()?;
        let mut slot = PoolSlot { shared: &self.shared, unasked: Some(worker.pid) };
        let memory = self.plan.limits.memory.map(ringfence_spec::ByteSize::bytes);
        let spare = || !self.shared.is_busy(&self.shared.lock());
        let finished =
            worker.run(job, &RunContext { memory_bytes_max: memory, cancel, spare }, permit);
        slot.unasked = None;
        let mut finished = finished?;
        self.shared.lock().remains.extend(finished.mounts.take());
        match &mut finished.ended {
            Ended::Silently(exit) => *exit = self.exit_of(finished.pid),
            _ => slot.unasked = Some(finished.pid),
        }
        Ok((finished, start, slot))
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        let state = self.shared.lock();
        Counts { waiting: state.waiting.len(), ..state.counts }
    }

    /// Private memory of a waiting worker, if the kernel reports it.
    pub fn waiting_bytes(&self) -> Option<u64> {
        let pid = self.shared.lock().waiting.front()?.host_pid;
        let text = ringfence_sys::read_kernel_file(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let kib = text
            .lines()
            .filter(|line| line.starts_with("Private_"))
            .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        Some(kib.sum::<u64>() << 10)
    }

    /// Modules that were to be preloaded and that this interpreter does not have.
    pub fn missing(&self) -> Vec<String> {
        self.shared.lock().missing.clone()
    }

    /// Speed-ups of the workers that passed their checks in this interpreter.
    pub fn speedups(&self) -> Vec<String> {
        self.shared.lock().speedups.clone()
    }

    fn take(&self) -> Result<(Worker, Start), Problem> {
        let mut state = self.shared.lock();
        let mut start = Start::Warm;
        loop {
            while let Some(worker) = state.waiting.pop_front() {
                // While there are more, a replacement can wait until the run is over: it would take the processor from
                // it.
                if state.waiting.is_empty() {
                    self.shared.wanted.notify_one();
                }
                // It may have been killed while it waited.
                if worker.ends.is_dead() {
                    state.dead.push(worker.pid);
                    continue;
                }
                match start {
                    Start::Warm => state.counts.hits += 1,
                    Start::Cold => state.counts.misses += 1,
                }
                state.n_running += 1;
                return Ok((worker, start));
            }
            if let Some(problem) = &state.failed {
                return Err(problem.clone());
            }
            start = Start::Cold;
            state.n_takers += 1;
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.n_takers -= 1;
        }
    }

    fn exit_of(&self, pid: u32) -> Option<Exit> {
        let (reply, answer) = mpsc::channel();
        self.shared.lock().questions.push_back((pid, reply));
        self.shared.wanted.notify_one();
        answer.recv_timeout(Duration::from_secs(5)).ok().flatten()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.wanted.notify_all();
        if let Some(refill) = self.refill.take() {
            let _ = refill.join();
        }
    }
}

/// The thread that keeps the pool full. It alone talks to the zygote.
struct Refill {
    shared: Arc<Shared>,
    keeper: ZygoteKeeper,
    plan: WorkerPlan,
    host_uid: u32,
    n_waiting: NonZero<usize>,
}

enum Task {
    /// This many workers are missing.
    Fill(usize),
    Ask(u32, mpsc::Sender<Option<Exit>>),
    Stop,
}

impl Refill {
    fn work(self) {
        let mut line: Option<Line> = None;
        let mut n_failed = 0;
        loop {
            let n_coming = line.as_ref().map_or(0, |line| line.coming.len());
            match self.next(n_coming) {
                Task::Stop => break,
                Task::Ask(pid, reply) => {
                    // The zygote answers in order, so take the workers requested earlier first.
                    let mut line = line.as_mut();
                    while let Some(line) = line.as_mut().filter(|line| !line.coming.is_empty()) {
                        if self.take_one(line).is_err() {
                            break;
                        }
                    }
                    let _ = reply.send(line.and_then(|line| line.zygote.exit_of(pid)));
                }
                Task::Fill(n) => match self.fill(&mut line, n) {
                    Ok(()) => n_failed = 0,
                    Err(problem) => {
                        line = None;
                        n_failed += 1;
                        if n_failed >= STARTS_MAX {
                            self.shared.lock().failed = Some(problem);
                            self.shared.ready.notify_all();
                            break;
                        }
                        std::thread::sleep(Duration::from_millis(20 << n_failed));
                    }
                },
            }
        }
        let mut state = self.shared.lock();
        state.questions.clear();
        state.waiting.clear();
    }

    fn next(&self, n_coming: usize) -> Task {
        let mut state = self.shared.lock();
        loop {
            if !state.remains.is_empty() {
                let remains = std::mem::take(&mut state.remains);
                drop(state);
                drop(remains);
                state = self.shared.lock();
            }
            if state.stopping {
                return Task::Stop;
            }
            if let Some((pid, reply)) = state.questions.pop_front() {
                return Task::Ask(pid, reply);
            }
            let n_missing = self.n_waiting.get().saturating_sub(state.waiting.len());
            if n_missing > 0 || n_coming > 0 {
                return Task::Fill(n_missing);
            }
            state = self.shared.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Requests the missing workers, a few ahead, and takes the first of them: the zygote forks the next while the last
    /// builds its fence.
    fn fill(&self, line: &mut Option<Line>, n_missing: usize) -> Result<(), Problem> {
        if line.is_none() {
            let zygote = Zygote::start(&self.keeper)?;
            let mut state = self.shared.lock();
            state.counts.zygotes += 1;
            state.missing.clone_from(&zygote.missing);
            state.speedups.clone_from(&zygote.speedups);
            state.dead.clear();
            *line = Some(Line { zygote, coming: VecDeque::new(), n_failed: 0 });
        }
        let Some(line) = line else {
            return Err(Problem::internal(Code::Zygote, "there is no zygote"));
        };
        while line.coming.len() < n_missing.min(COMING_MAX) {
            let pace = self.pace(line.coming.len());
            let dead = std::mem::take(&mut self.shared.lock().dead);
            line.coming.push_back(line.zygote.ask(pace, &dead).map_err(cannot_make)?);
        }
        self.take_one(line)
    }

    /// Priority of a new worker while `n_coming` are pending. Only idle processors do warm-ups.
    fn pace(&self, n_coming: usize) -> ForkPriority {
        let state = self.shared.lock();
        let awaited = state.n_takers > n_coming;
        if awaited || self.shared.is_busy(&state) {
            ForkPriority::Hurried
        } else {
            ForkPriority::Usual
        }
    }

    fn take_one(&self, line: &mut Line) -> Result<(), Problem> {
        let Some(awaited) = line.coming.pop_front() else { return Ok(()) };
        let worker = match line.zygote.worker(awaited, &self.plan, self.host_uid) {
            Ok(worker) => worker,
            // Other workers of the same zygote are in use; one failed worker does not affect them.
            Err(Failure::Worker(pid, _)) if line.n_failed < WORKERS_FAILED_MAX => {
                line.n_failed += 1;
                self.shared.lock().dead.push(pid);
                return Ok(());
            }
            Err(failure) => return Err(cannot_make(failure.into())),
        };
        line.n_failed = 0;
        let mut state = self.shared.lock();
        state.waiting.push_back(worker);
        state.counts.made += 1;
        drop(state);
        self.shared.ready.notify_one();
        Ok(())
    }
}

/// A zygote and the workers requested from it.
struct Line {
    zygote: Zygote,
    coming: VecDeque<PendingWorker>,
    /// Consecutive workers that could not be made.
    n_failed: u32,
}

fn cannot_make(error: CallError) -> Problem {
    Problem::cannot_build(Code::Worker, "cannot make a worker for Python").cause(error)
}

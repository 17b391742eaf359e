//! Warm workers, each for one run. Several zygotes make them, each with a thread that replaces the workers that runs take;
//! a zygote that dies is replaced while the others serve. An early zygote, without the packages that take long to load,
//! serves until another one is ready.

use std::collections::VecDeque;
use std::num::NonZero;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_jail::Permit;
use ringfence_plan::{CodePlan, WorkerPlan};
use ringfence_spec::{Code, Problem, Start};

use crate::refill::{Alarm, Refill, StartZygote, Wake};
use crate::worker::{Ended, Exit, Finished, Job, RunContext, Worker, ZygoteId};
use crate::zygote::Zygote;
use crate::zygote_keeper::ZygoteKeeper;

/// Processors for each zygote: one zygote forks about as many workers as four processors can run.
const PROCESSORS_PER_ZYGOTE: usize = 4;

/// Maximum number of zygotes of a policy that is not told a number.
const ZYGOTES_MAX: usize = 8;

/// Memory of the host for each zygote: one that has loaded the packages of the preset `data` takes a tenth of it.
const MEMORY_PER_ZYGOTE: u64 = 1 << 30;

/// Time in which the number of running programs is averaged.
const LOAD_WINDOW: Duration = Duration::from_millis(5);

/// Share of the processors that programs keep busy at which no warm-up is done.
const BUSY_SHARE: f64 = 0.6;

/// Number of zygotes of a policy on a host with so many processors, before its memory is considered.
pub fn zygotes_of(n_processors: usize) -> usize {
    (n_processors / PROCESSORS_PER_ZYGOTE).clamp(1, ZYGOTES_MAX)
}

/// Number of zygotes on a host with so much memory.
pub fn zygotes_within(n_processors: usize, memory_bytes: u64) -> usize {
    let by_memory = usize::try_from(memory_bytes / MEMORY_PER_ZYGOTE).unwrap_or(usize::MAX);
    zygotes_of(n_processors).min(by_memory.max(1))
}

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
    /// Zygotes that serve now.
    pub zygotes_up: usize,
    /// Workers waiting now.
    pub waiting: usize,
}

/// Warm workers under one policy. Dropping it ends them all.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    plan: WorkerPlan,
}

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Signals a new worker, or a failure, to runs that wait for a worker.
    pub(crate) ready: Condvar,
    /// Signals the reaper that there are remains.
    remains: Condvar,
    /// One for each zygote's thread.
    alarms: Vec<Alarm>,
    pub(crate) n_processors: usize,
    pub(crate) n_waiting: usize,
    /// Number of the early zygote.
    early: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) waiting: VecDeque<Worker>,
    /// Runs that wait for a worker.
    pub(crate) n_takers: usize,
    /// Runs that have one.
    n_running: usize,
    load: Load,
    pub(crate) zygotes: Vec<ZygoteState>,
    /// Mount namespaces of dead workers.
    remains: Vec<OwnedFd>,
    pub(crate) counts: Counts,
    pub(crate) missing: Vec<String>,
    pub(crate) speedups: Vec<String>,
    pub(crate) failed: Option<Problem>,
    pub(crate) stopping: bool,
}

/// Work of a zygote's thread, and its progress.
#[derive(Debug, Default)]
pub(crate) struct ZygoteState {
    pub(crate) is_up: bool,
    /// Zygotes that died in this place.
    pub(crate) n_died: u64,
    /// Its workers among the waiting ones.
    pub(crate) n_waiting: usize,
    /// Its workers that have a run.
    pub(crate) n_running: usize,
    pub(crate) questions: VecDeque<(u32, mpsc::Sender<Option<Exit>>)>,
    /// Dead workers whose exit status is not needed.
    pub(crate) dead: Vec<u32>,
    /// The wake-up that is on its way.
    pub(crate) wake: Option<Wake>,
}

/// Moving average of the number of running programs.
#[derive(Debug)]
struct Load {
    mean: f64,
    at: Instant,
}

impl Load {
    /// Accounts for `n` programs since the last change.
    #[expect(clippy::cast_precision_loss, reason = "programs at once")]
    fn pass(&mut self, n: usize) -> f64 {
        let now = Instant::now();
        let passed = now.duration_since(self.at).as_secs_f64() / LOAD_WINDOW.as_secs_f64();
        self.mean += (n as f64 - self.mean) * (1.0 - (-passed).exp());
        self.at = now;
        self.mean
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left the list as it was; each worker in it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if every processor has a run.
    fn is_full(&self, state: &State) -> bool {
        state.n_running + state.n_takers >= self.n_processors
    }

    /// Returns true if warm-ups would take processors from runs.
    #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
    pub(crate) fn is_busy(&self, state: &mut State) -> bool {
        let mean = state.load.pass(state.n_running);
        self.is_full(state) || mean >= BUSY_SHARE * self.n_processors as f64
    }

    /// Wakes a zygote's thread.
    pub(crate) fn wake(&self, state: &mut State, zygote: usize, wake: Wake) {
        let pending = &mut state.zygotes[zygote].wake;
        if pending.is_none_or(|pending| wake > pending) {
            *pending = Some(wake);
            self.alarms[zygote].set(wake);
        }
    }

    pub(crate) fn wake_all(&self, state: &mut State) {
        for zygote in 0..state.zygotes.len() {
            self.wake(state, zygote, Wake::Now);
        }
    }

    /// Leaves a dead worker whose exit status is not needed to its zygote, if that is still there.
    fn leave_to_zygote(state: &mut State, zygote: ZygoteId, pid: u32) {
        let place = &mut state.zygotes[zygote.number];
        if place.n_died == zygote.n_died {
            place.dead.push(pid);
        }
    }

    pub(crate) fn is_early(&self, zygote: usize) -> bool {
        self.early == Some(zygote)
    }

    /// Wakes the thread of the early zygote, if it still serves.
    pub(crate) fn wake_early(&self, state: &mut State) {
        if let Some(early) = self.early.filter(|early| state.zygotes[*early].is_up) {
            self.wake(state, early, Wake::Now);
        }
    }

    pub(crate) fn alarm(&self, zygote: usize) -> &Alarm {
        &self.alarms[zygote]
    }

    /// Closes mount namespaces until the pool ends: each close waits until every processor has noticed.
    fn reap(&self) {
        let mut state = self.lock();
        while !state.stopping {
            let remains = std::mem::take(&mut state.remains);
            if remains.is_empty() {
                state = self.remains.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            drop(remains);
            state = self.lock();
        }
    }
}

/// A run's place in the pool. Dropping it, after a panic too, takes the run out of the count, has the zygote reap a
/// worker whose exit status is not needed, and has the worker replaced: at once if few are left, else a moment later,
/// when the answer has left. Making a worker competes with the caller for a processor.
#[derive(Debug)]
pub struct PoolSlot {
    shared: Arc<Shared>,
    zygote: ZygoteId,
    unasked: Option<u32>,
    /// Mount namespace of the dead worker.
    mounts: Option<OwnedFd>,
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let n_running = state.n_running;
        state.load.pass(n_running);
        state.n_running -= 1;
        state.zygotes[self.zygote.number].n_running -= 1;
        if let Some(pid) = self.unasked {
            Shared::leave_to_zygote(&mut state, self.zygote, pid);
        }
        if let Some(mounts) = self.mounts.take() {
            state.remains.push(mounts);
            self.shared.remains.notify_one();
        }
        let few = state.waiting.len() * 2 < self.shared.n_waiting;
        let wake = if few { Wake::Now } else { Wake::Later };
        self.shared.wake(&mut state, self.zygote.number, wake);
    }
}

impl Pool {
    /// Fills the pool, and keeps `n_waiting` workers waiting. Each keeper starts one zygote; that of `early` serves until
    /// another is ready.
    pub fn start(
        mut keepers: Vec<ZygoteKeeper>,
        early: Option<ZygoteKeeper>,
        plan: &CodePlan,
        n_waiting: NonZero<usize>,
    ) -> Result<Self, Problem> {
        let n_lasting = keepers.len();
        keepers.extend(early);
        let early = (keepers.len() > n_lasting).then_some(n_lasting);
        let start =
            |keeper: ZygoteKeeper| -> StartZygote { Box::new(move || Zygote::start(&keeper)) };
        let starts = keepers.into_iter().map(start).collect();
        Self::start_by(starts, early, &plan.worker, plan.zygote.identity.host_uid, n_waiting)
    }

    fn start_by(
        starts: Vec<StartZygote>,
        early: Option<usize>,
        plan: &WorkerPlan,
        host_uid: u32,
        n_waiting: NonZero<usize>,
    ) -> Result<Self, Problem> {
        let cannot = |e: &dyn std::fmt::Display| {
            Problem::internal(Code::Threads, "cannot start a thread for the pool").cause(e)
        };
        let alarms = starts.iter().map(|_| Alarm::new()).collect::<Result<_, _>>();
        let state = State {
            waiting: VecDeque::new(),
            n_takers: 0,
            n_running: 0,
            load: Load { mean: 0.0, at: Instant::now() },
            zygotes: starts.iter().map(|_| ZygoteState::default()).collect(),
            remains: Vec::new(),
            counts: Counts::default(),
            missing: Vec::new(),
            speedups: Vec::new(),
            failed: None,
            stopping: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            ready: Condvar::new(),
            remains: Condvar::new(),
            alarms: alarms.map_err(|e| cannot(&e))?,
            n_processors: std::thread::available_parallelism().map_or(1, NonZero::get),
            n_waiting: n_waiting.get(),
            early,
        });
        // From here on, dropping it ends the threads that were started.
        let mut pool = Self { shared, threads: Vec::new(), plan: plan.clone() };
        for (number, start) in starts.into_iter().enumerate() {
            let refill =
                Refill::new(Arc::clone(&pool.shared), start, plan.clone(), host_uid, number);
            pool.spawn("ringfence-refill", move || refill.work()).map_err(|e| cannot(&e))?;
            let shared = Arc::clone(&pool.shared);
            pool.spawn("ringfence-reap", move || shared.reap()).map_err(|e| cannot(&e))?;
        }
        Ok(pool)
    }

    /// Starts a thread. If it panics, runs that wait for a worker get the error, and the engine starts another pool.
    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), std::io::Error> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
                let problem =
                    Problem::internal(Code::Internal, "the pool of workers failed unexpectedly");
                shared.lock().failed = Some(problem);
                shared.ready.notify_all();
            }
        };
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// The plan that fences each run.
    pub fn plan(&self) -> &WorkerPlan {
        &self.plan
    }

    /// Waits until `n` workers wait that have everything loaded, or cannot be made.
    pub fn wait_until_full(&self, n: usize) -> Result<(), Problem> {
        let is_lasting = |worker: &&Worker| !self.shared.is_early(worker.zygote.number);
        let mut state = self.shared.lock();
        while state.waiting.iter().filter(is_lasting).count() < n {
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
    ) -> Result<(Finished, Start, PoolSlot), Problem> {
        let (worker, start) = self.take()?;
        let (zygote, unasked) = (worker.zygote, Some(worker.pid));
        let mut slot = PoolSlot { shared: Arc::clone(&self.shared), zygote, unasked, mounts: None };
        let memory = self.plan.limits.memory.map(ringfence_spec::ByteSize::bytes);
        let spare = || !self.shared.is_full(&self.shared.lock());
        let finished =
            worker.run(job, &RunContext { memory_bytes_max: memory, cancel, spare }, permit);
        slot.unasked = None;
        let mut finished = finished?;
        // Unmounting interrupts every processor: it begins when the answer is made.
        slot.mounts = finished.mounts.take();
        match &mut finished.ended {
            Ended::Silently(exit) => *exit = self.exit_of(zygote, finished.pid),
            _ => slot.unasked = Some(finished.pid),
        }
        Ok((finished, start, slot))
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        let state = self.shared.lock();
        let zygotes_up = state.zygotes.iter().filter(|zygote| zygote.is_up).count();
        Counts { waiting: state.waiting.len(), zygotes_up, ..state.counts }
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
                let zygote = worker.zygote.number;
                state.zygotes[zygote].n_waiting -= 1;
                // While there are more, a replacement can wait until the run is over: it would take the processor from
                // it.
                if state.waiting.is_empty() {
                    self.shared.wake(&mut state, zygote, Wake::Now);
                }
                // It may have been killed while it waited.
                if worker.ends.is_dead() {
                    Shared::leave_to_zygote(&mut state, worker.zygote, worker.pid);
                    self.shared.wake(&mut state, zygote, Wake::Now);
                    continue;
                }
                if self.shared.is_early(zygote) {
                    start = Start::Cold;
                }
                match start {
                    Start::Warm => state.counts.hits += 1,
                    Start::Cold => state.counts.misses += 1,
                }
                let n_running = state.n_running;
                state.load.pass(n_running);
                state.n_running += 1;
                state.zygotes[zygote].n_running += 1;
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

    /// The exit status of a dead worker, by its zygote.
    fn exit_of(&self, zygote: ZygoteId, pid: u32) -> Option<Exit> {
        let (reply, answer) = mpsc::channel();
        let mut state = self.shared.lock();
        let place = &mut state.zygotes[zygote.number];
        if place.n_died != zygote.n_died {
            return None;
        }
        place.questions.push_back((pid, reply));
        self.shared.wake(&mut state, zygote.number, Wake::Now);
        drop(state);
        answer.recv_timeout(Duration::from_secs(5)).ok().flatten()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        self.shared.wake_all(&mut state);
        drop(state);
        self.shared.remains.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let mut state = self.shared.lock();
        state.waiting.clear();
        state.remains.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::os::fd::AsFd as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ringfence_testing::Running;
    use rustix::net::RecvFlags;
    use rustix::pipe::PipeFlags;

    use super::*;
    use crate::channel;
    use crate::fake_peer::{self, FakeGuest, job, soon};

    /// Behaviour of a test's zygotes on their channels, each on a thread of its own.
    type Act = fn(OwnedFd);

    /// A pool of one zygote after another that behaves so, and the number of starts.
    fn pool_of(act: Act, n_waiting: usize) -> (Pool, Arc<AtomicUsize>) {
        let n_starts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&n_starts);
        let start: StartZygote = Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let (ours, theirs) = channel::pair().unwrap();
            std::thread::spawn(move || act(theirs));
            Ok(Zygote::fake(ours))
        });
        let n_waiting = NonZero::new(n_waiting).unwrap();
        let uid = rustix::process::getuid().as_raw();
        let pool = Pool::start_by(vec![start], None, &fake_peer::plan(), uid, n_waiting);
        (pool.unwrap(), n_starts)
    }

    /// Puts a worker with a fake guest among the waiting ones.
    fn add_worker(pool: &Pool) -> FakeGuest {
        let (worker, guest) = fake_peer::worker();
        let mut state = pool.shared.lock();
        state.waiting.push_back(worker);
        state.zygotes[0].n_waiting += 1;
        pool.shared.ready.notify_one();
        guest
    }

    #[track_caller]
    fn wait_until(mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + fake_peer::SOON;
        while !is_so() {
            assert!(Instant::now() < until, "it does not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Reads frames until the pool closes the channel, and answers each; returns early if the answer is to die. Keeps the ends
    /// of the workers it is asked for, as workers do that are on their way.
    fn serve(channel: &OwnedFd, mut answer: impl FnMut(u8, &[OwnedFd]) -> ControlFlow<()>) {
        let mut workers = Vec::new();
        while let Ok(Some(frame)) = channel::receive(channel, RecvFlags::empty()) {
            workers.extend(frame.fds);
            let n_new = if frame.kind == b'S' { 4.min(workers.len()) } else { 0 };
            if answer(frame.kind, &workers[workers.len() - n_new..]).is_break() {
                return;
            }
        }
    }

    /// Answers every frame with this one.
    fn repeat(channel: &OwnedFd, frame: &[u8]) {
        serve(channel, |_, _| {
            fake_peer::send(channel, frame, &[]);
            ControlFlow::Continue(())
        });
    }

    /// Answers every question about an exit status with this frame, or dies.
    fn tell_exits(channel: &OwnedFd, frame: Option<&[u8]>) {
        serve(channel, |kind, _| match (kind, frame) {
            (b'W', None) => ControlFlow::Break(()),
            (b'W', Some(frame)) => {
                fake_peer::send(channel, frame, &[]);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        });
    }

    #[test]
    fn zygotes_that_die_at_once_fail_the_pool_after_some_starts() {
        let (pool, n_starts) = pool_of(drop, 1);
        let failed = soon(|| pool.run(&job(60_000), None, None)).unwrap_err();
        assert_eq!(failed.code, Code::Worker);
        assert_eq!(n_starts.load(Ordering::SeqCst), 5);
        assert!(soon(|| pool.wait_until_full(1)).is_err());
        assert_eq!(pool.counts().zygotes_up, 0);
    }

    #[test]
    fn zygotes_that_talk_nonsense_are_replaced() {
        let nonsense: [Act; 5] = [
            |channel| repeat(&channel, b"?"),
            // Too short, and too many at once.
            |channel| repeat(&channel, b"P"),
            |channel| repeat(&channel, &[b"P\0\0\0".to_vec(), vec![1; 40_000]].concat()),
            // An answer without a question.
            |channel| repeat(&channel, b"X1 0 0 0"),
            |channel| repeat(&channel, b"N1"),
        ];
        for act in nonsense {
            let (pool, n_starts) = pool_of(act, 1);
            let failed = soon(|| pool.run(&job(60_000), None, None)).unwrap_err();
            assert_eq!(failed.code, Code::Worker);
            assert_eq!(n_starts.load(Ordering::SeqCst), 5);
        }
    }

    #[test]
    fn a_zygote_that_never_stops_talking_does_not_keep_the_pool_from_ending() {
        let floods: [Act; 2] = [
            |channel| {
                let pids: Vec<u8> = (1..=8u32).flat_map(u32::to_ne_bytes).collect();
                while channel::send(&channel, b'P', &[b"\0\0\0", &pids], &[]).is_ok() {}
            },
            |channel| while channel::send(&channel, b'N', &[b"1"], &[]).is_ok() {},
        ];
        for act in floods {
            let (pool, n_starts) = pool_of(act, 1);
            wait_until(|| n_starts.load(Ordering::SeqCst) > 1);
            soon(|| drop(pool));
        }
    }

    #[test]
    fn a_zygote_that_hangs_does_not_keep_the_pool_from_ending() {
        let (pool, n_starts) = pool_of(
            |channel| {
                // Holds its end open, and reads nothing, until the other one closes.
                let mut fds = [rustix::event::PollFd::new(&channel, rustix::event::PollFlags::HUP)];
                let _ = rustix::event::poll(&mut fds, None);
            },
            64,
        );
        wait_until(|| pool.counts().zygotes_up == 1);
        soon(|| drop(pool));
        assert_eq!(n_starts.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn workers_that_are_not_fenced_are_refused_and_their_zygote_replaced() {
        fn lie(channel: &OwnedFd, process: &Running) {
            let pidfd = fake_peer::pidfd(process);
            serve(channel, |kind, worker| {
                if kind == b'S' {
                    let given = [pidfd.as_fd(), pidfd.as_fd(), pidfd.as_fd()];
                    fake_peer::send(&worker[3], b"W", &given);
                    fake_peer::send(&worker[3], b"R", &[]);
                    fake_peer::send(channel, b"P\0\0\0\x07\0\0\0", &[]);
                }
                ControlFlow::Continue(())
            });
        }
        let (pool, n_starts) = pool_of(
            |channel| {
                let mut process = fake_peer::hung();
                lie(&channel, &process);
                assert!(process.try_wait().unwrap().is_none(), "a process of the host was killed");
            },
            1,
        );
        let failed = soon(|| pool.run(&job(60_000), None, None)).unwrap_err();
        assert!(failed.to_string().contains("not fenced"), "{failed}");
        assert_eq!(n_starts.load(Ordering::SeqCst), 5);
        assert_eq!((pool.counts().made, pool.counts().waiting), (0, 0));
    }

    /// The end of a run whose worker dies when it has its job, with such a zygote.
    fn run_with_exit(act: Act) -> Ended {
        let (pool, _) = pool_of(act, 1);
        let mut guest = add_worker(&pool);
        let acting = std::thread::spawn(move || {
            while let Ok(Some(frame)) = channel::receive(&guest.channel, RecvFlags::empty()) {
                if frame.kind == b'J' {
                    return guest.dies();
                }
            }
        });
        let (finished, ..) = soon(|| pool.run(&job(60_000), None, None)).unwrap();
        acting.join().unwrap();
        finished.ended
    }

    #[test]
    fn the_exit_status_of_a_silent_worker_is_the_zygotes_or_unknown() {
        let known = Exit { status: 9, cpu: Duration::from_millis(5), memory_peak_bytes: 1024 };
        let cases: [(Act, Option<Exit>); 5] = [
            (|channel| tell_exits(&channel, Some(b"X7 9 5 1")), Some(known)),
            (|channel| tell_exits(&channel, Some(b"N7")), None),
            // Of another worker.
            (|channel| tell_exits(&channel, Some(b"X8 0 5 1")), None),
            (|channel| tell_exits(&channel, Some(b"X")), None),
            (|channel| tell_exits(&channel, None), None),
        ];
        for (act, expected) in cases {
            assert_eq!(run_with_exit(act), Ended::Silently(expected));
        }
    }

    #[test]
    fn a_worker_that_died_while_it_waited_is_not_used() {
        let (pool, _) = pool_of(|channel| serve(&channel, |_, _| ControlFlow::Continue(())), 1);
        let mut first = add_worker(&pool);
        first.dies();
        assert!(first.is_killed());
        let mut second = add_worker(&pool);
        let acting = std::thread::spawn(move || {
            let _ = channel::receive(&second.channel, RecvFlags::empty());
            second.says(b"D{\"exit\": 4}");
            second.dies();
        });
        let (finished, _, slot) = soon(|| pool.run(&job(60_000), None, None)).unwrap();
        acting.join().unwrap();
        assert_eq!(finished.said.map(|said| said.exit), Some(4));
        let n_running = || pool.shared.lock().n_running;
        assert_eq!(n_running(), 1);
        drop(slot);
        assert_eq!((n_running(), pool.counts().waiting), (0, 0));
    }

    #[test]
    fn a_run_that_is_not_permitted_leaves_its_place() {
        let (pool, _) = pool_of(|channel| serve(&channel, |_, _| ControlFlow::Continue(())), 1);
        let guest = add_worker(&pool);
        let refuse = || Err(Problem::internal(Code::Internal, "no"));
        assert!(soon(|| pool.run(&job(60_000), None, Some(Permit(&refuse)))).is_err());
        assert!(guest.is_killed());
        let state = pool.shared.lock();
        assert_eq!((state.n_running, state.zygotes[0].n_running), (0, 0));
    }

    #[test]
    fn a_pool_that_ends_kills_its_waiting_workers() {
        let (pool, _) = pool_of(|channel| serve(&channel, |_, _| ControlFlow::Continue(())), 1);
        let guests = [add_worker(&pool), add_worker(&pool)];
        let (ours, mounts) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        pool.shared.lock().remains.push(mounts);
        soon(|| drop(pool));
        assert!(guests.iter().all(FakeGuest::is_killed));
        let is_closed =
            ringfence_sys::is_ready_within(&ours, rustix::event::PollFlags::IN, fake_peer::SOON);
        assert!(is_closed, "a descriptor is left open");
    }

    #[test]
    fn workers_of_a_zygote_that_died_are_killed() {
        let (pool, n_starts) = pool_of(|channel| tell_exits(&channel, None), 1);
        wait_until(|| pool.counts().zygotes_up == 1);
        let guest = add_worker(&pool);
        assert_eq!(soon(|| pool.exit_of(ZygoteId::default(), 7)), None);
        assert!(guest.is_killed());
        wait_until(|| n_starts.load(Ordering::SeqCst) == 2);
    }

    #[test]
    fn the_next_zygote_is_not_asked_about_workers_of_the_one_that_died() {
        static N_ZYGOTES: AtomicUsize = AtomicUsize::new(0);
        // A question ends the first. The next one would never answer.
        let act: Act = |channel| match N_ZYGOTES.fetch_add(1, Ordering::SeqCst) {
            0 => tell_exits(&channel, None),
            _ => serve(&channel, |_, _| ControlFlow::Continue(())),
        };
        let (pool, n_starts) = pool_of(act, 1);
        wait_until(|| pool.counts().zygotes_up == 1);
        let first = ZygoteId::default();
        assert_eq!(soon(|| pool.exit_of(first, 7)), None);
        wait_until(|| pool.counts().zygotes_up == 1 && n_starts.load(Ordering::SeqCst) == 2);
        let began = Instant::now();
        assert_eq!(pool.exit_of(first, 7), None);
        assert!(began.elapsed() < Duration::from_secs(4), "it waited for an answer");
        let mut state = pool.shared.lock();
        Shared::leave_to_zygote(&mut state, first, 7);
        let place = &state.zygotes[0];
        assert!(place.questions.is_empty() && place.dead.is_empty(), "{place:?}");
        drop(state);
        assert_eq!(n_starts.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn zygotes_follow_processors_and_memory() {
        for (n_processors, gib, expected) in [
            (1, 64, 1),
            (2, 64, 1),
            (7, 64, 1),
            (8, 64, 2),
            (16, 64, 4),
            (64, 64, 8),
            (16, 2, 2),
            (16, 0, 1),
        ] {
            assert_eq!(zygotes_within(n_processors, gib << 30), expected, "{n_processors} {gib}");
        }
    }

    #[test]
    fn load_follows_the_number_of_programs() {
        let mut load = Load { mean: 0.0, at: Instant::now() };
        load.at = Instant::now().checked_sub(LOAD_WINDOW * 10).unwrap();
        assert!(load.pass(4) > 3.9);
        load.at = Instant::now().checked_sub(LOAD_WINDOW * 10).unwrap();
        assert!(load.pass(0) < 0.1);
    }
}

//! The thread of one zygote: starts it, requests workers, takes them as they become ready, in any order, and replaces the
//! zygote when it dies. It alone talks to the zygote.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ringfence_plan::WorkerPlan;
use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Named as _};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::pool::{Shared, State};
use crate::worker::{Exit, Worker, ZygoteId};
use crate::zygote::{
    ForkPriority, PendingWorker, REQUEST_MAX, Zygote, ZygoteFrame, wait_for_frame,
};

/// Maximum number of consecutive starts of a zygote that cannot be kept alive, if no other serves.
const STARTS_MAX: u32 = 5;

/// Workers requested at once for each processor: while some build their fence, the zygote forks others.
const COMING_PER_PROCESSOR: usize = 4;

/// Waiting workers with a warm-up for each processor: more of them would keep copies of pages for a run far ahead.
const WARMED_PER_PROCESSOR: usize = 8;

/// Number of consecutive failed workers after which the zygote is at fault.
const WORKERS_FAILED_MAX: u32 = 20;

/// Pids in one request; the rest go with the next.
const DEAD_MAX: usize = 256;

/// Time until workers are replaced while others wait: an answer has left by then.
const LATER_NS: i64 = 1_000_000;

/// Urgency of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    Later,
    Now,
}

/// Wakes a thread that polls.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> Result<Self, CallError> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags);
        timer.named(|| "timerfd_create").map(Self)
    }

    pub(crate) fn set(&self, wake: Wake) {
        let tv_nsec = match wake {
            Wake::Later => LATER_NS,
            // Zero would disarm it.
            Wake::Now => 1,
        };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timer = Itimerspec { it_interval: never, it_value: Timespec { tv_sec: 0, tv_nsec } };
        // Fails only for arguments that are none of these.
        let _ = rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &timer);
    }

    fn stop(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// Starts a zygote, in place of the last. Dropping it ends the last.
pub(crate) type StartZygote = Box<dyn FnMut() -> Result<Zygote, Problem> + Send>;

pub(crate) struct Refill {
    shared: Arc<Shared>,
    start: StartZygote,
    plan: WorkerPlan,
    host_uid: u32,
    /// Number of its zygote.
    number: usize,
}

/// A zygote and the workers requested from it.
struct Line {
    id: ZygoteId,
    zygote: Zygote,
    coming: Vec<PendingWorker>,
    /// Requests without an answer yet.
    n_requests: usize,
    /// Pids that the zygote named and no worker has shown yet, or the other way round. Those left when no worker is to
    /// come died before they were ready.
    born: HashSet<u32>,
    questions: HashMap<u32, mpsc::Sender<Option<Exit>>>,
    /// Consecutive workers that could not be made.
    n_failed: u32,
}

/// Work of a zygote's thread.
enum Task {
    Stop,
    /// Request so many workers, and wait.
    Serve {
        n: usize,
        pace: ForkPriority,
    },
}

impl Refill {
    pub(crate) fn new(
        shared: Arc<Shared>,
        start: StartZygote,
        plan: WorkerPlan,
        host_uid: u32,
        number: usize,
    ) -> Self {
        Self { shared, start, plan, host_uid, number }
    }

    pub(crate) fn work(mut self) {
        let mut n_failed = 0;
        while !self.shared.lock().stopping {
            let (problem, has_served) = self.serve();
            self.mark_down();
            let Err(problem) = problem else { return };
            n_failed = if has_served { 1 } else { n_failed + 1 };
            let mut state = self.shared.lock();
            if n_failed >= STARTS_MAX && !state.zygotes.iter().any(|zygote| zygote.is_up) {
                state.failed = Some(problem);
                self.shared.ready.notify_all();
                return;
            }
            drop(state);
            self.pause(Duration::from_millis(20 << n_failed.min(STARTS_MAX)));
        }
    }

    /// Starts a zygote and serves from it until the pool ends; also returns whether it made a worker.
    fn serve(&mut self) -> (Result<(), Problem>, bool) {
        let zygote = match (self.start)() {
            Ok(zygote) => zygote,
            Err(problem) => return (Err(problem), false),
        };
        let mut state = self.shared.lock();
        state.counts.zygotes += 1;
        if !self.shared.is_early(self.number) {
            state.missing.clone_from(&zygote.missing);
            state.speedups.clone_from(&zygote.speedups);
        }
        state.zygotes[self.number].is_up = true;
        let n_died = state.zygotes[self.number].n_died;
        drop(state);
        let mut line = Line {
            id: ZygoteId { number: self.number, n_died },
            zygote,
            coming: Vec::new(),
            n_requests: 0,
            born: HashSet::new(),
            questions: HashMap::new(),
            n_failed: 0,
        };
        let mut n_made = 0;
        loop {
            let done = match self.next(&mut line) {
                Task::Stop => return (Ok(()), true),
                Task::Serve { n, pace } => self
                    .ask(&mut line, n, pace)
                    .and_then(|()| self.wait(&mut line))
                    .and_then(|()| self.take_ready(&mut line)),
            };
            match done {
                Ok(n) => n_made += n,
                Err(error) => return (Err(cannot_make(error)), n_made > 0),
            }
        }
    }

    /// The zygote is gone, and its workers with it: the others make more meanwhile.
    fn mark_down(&self) {
        let mut state = self.shared.lock();
        let own = &mut state.zygotes[self.number];
        (own.is_up, own.wake) = (false, None);
        own.n_died += 1;
        own.questions.clear();
        own.dead.clear();
        let gone = self.take_waiting(&mut state);
        self.shared.wake_all(&mut state);
        drop(state);
        drop(gone);
    }

    /// Takes its workers out of the waiting ones.
    fn take_waiting(&self, state: &mut State) -> VecDeque<Worker> {
        let waiting = std::mem::take(&mut state.waiting);
        let is_own = |worker: &Worker| worker.zygote.number == self.number;
        let (own, left) = waiting.into_iter().partition(is_own);
        state.waiting = left;
        state.zygotes[self.number].n_waiting = 0;
        own
    }

    /// Waits, but not for a pool that ends.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.shared.lock().stopping {
            let alarm = &self.shared.alarm(self.number).0;
            if !ringfence_sys::ready_by(alarm, PollFlags::IN, until).unwrap_or(false) {
                return;
            }
            self.stop_alarm();
        }
    }

    fn stop_alarm(&self) {
        let mut state = self.shared.lock();
        self.shared.alarm(self.number).stop();
        state.zygotes[self.number].wake = None;
    }

    /// Passes questions on, and counts the workers to request.
    fn next(&self, line: &mut Line) -> Task {
        let mut state = self.shared.lock();
        if state.stopping {
            return Task::Stop;
        }
        if self.is_over(&state) {
            drop(self.take_waiting(&mut state));
            // Its workers die with it.
            if state.zygotes[self.number].n_running == 0 {
                return Task::Stop;
            }
        }
        line.questions.extend(state.zygotes[self.number].questions.drain(..));
        let n = self.n_missing(&state, line.coming.len());
        let awaited = state.n_takers > line.coming.len();
        let many = state.waiting.len() >= WARMED_PER_PROCESSOR * self.shared.n_processors;
        let hurried = n > 0 && (awaited || many || self.shared.is_busy(&mut state));
        let pace = if hurried { ForkPriority::Hurried } else { ForkPriority::Usual };
        Task::Serve { n, pace }
    }

    /// Returns true if this is the early zygote and another one serves.
    fn is_over(&self, state: &State) -> bool {
        let is_lasting = |worker: &Worker| !self.shared.is_early(worker.zygote.number);
        self.shared.is_early(self.number) && state.waiting.iter().any(is_lasting)
    }

    /// This zygote's share of the missing workers.
    fn n_missing(&self, state: &State, n_coming: usize) -> usize {
        if self.is_over(state) {
            return 0;
        }
        let others = state.zygotes.iter().enumerate().filter(|(n, _)| !self.shared.is_early(*n));
        let n_up = others.filter(|(_, zygote)| zygote.is_up).count().max(1);
        let share = self.shared.n_waiting.div_ceil(n_up);
        let missing = share.saturating_sub(state.zygotes[self.number].n_waiting + n_coming);
        let coming_max = (COMING_PER_PROCESSOR * self.shared.n_processors).div_ceil(n_up);
        missing.min(coming_max.saturating_sub(n_coming))
    }

    fn ask(&self, line: &mut Line, n: usize, pace: ForkPriority) -> Result<(), CallError> {
        let mut left = n;
        while left > 0 {
            let mut state = self.shared.lock();
            let dead = &mut state.zygotes[self.number].dead;
            let dead = dead.split_off(dead.len().saturating_sub(DEAD_MAX));
            drop(state);
            let n = left.min(REQUEST_MAX);
            line.coming.extend(line.zygote.ask(n, pace, &dead)?);
            line.n_requests += 1;
            left -= n;
        }
        Ok(())
    }

    /// Waits for a frame or a wake-up; handles the zygote's frames.
    fn wait(&self, line: &mut Line) -> Result<(), CallError> {
        for pid in line.questions.keys() {
            line.zygote.ask_exit(*pid)?;
        }
        let mut asked = std::mem::take(&mut line.questions);
        let deadline = line.coming.iter().map(|pending| pending.deadline).min();
        let patience = deadline.map(ringfence_sys::time_until);
        let mut fds = vec![
            PollFd::new(&self.shared.alarm(self.number).0, PollFlags::IN),
            PollFd::new(&line.zygote, PollFlags::IN),
        ];
        fds.extend(line.coming.iter().map(|pending| PollFd::new(&pending.channel, PollFlags::IN)));
        let n = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, patience.as_ref()))
            .named(|| "poll(zygote)")?;
        if n == 0 {
            return Err(CallError::new("waiting for the zygote", Errno::TIMEDOUT));
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (woken, spoke) = (is_ready(&fds[0]), is_ready(&fds[1]) || !asked.is_empty());
        let heard: Vec<bool> = fds[2..].iter().map(is_ready).collect();
        drop(fds);
        for (pending, heard) in line.coming.iter_mut().zip(heard) {
            pending.has_spoken = heard;
        }
        if woken {
            self.stop_alarm();
        }
        if !spoke {
            return Ok(());
        }
        // Answers to questions are awaited: a run waits for each, and the worker is dead already.
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            match line.zygote.next_frame()? {
                Some(ZygoteFrame::Born(pids)) => {
                    // One answer for each request: a zygote that sends more would keep this thread and its memory busy.
                    let n_requests = line.n_requests.checked_sub(1);
                    line.n_requests = n_requests.ok_or_else(unasked)?;
                    if pids.len() > REQUEST_MAX {
                        return Err(unasked());
                    }
                    for pid in pids {
                        line.note(pid);
                    }
                }
                Some(ZygoteFrame::Exit(pid, exit)) => {
                    let reply = asked.remove(&pid).ok_or_else(unasked)?;
                    let _ = reply.send(exit);
                }
                None if asked.is_empty() => return Ok(()),
                None => {
                    wait_for_frame(&line.zygote, "waiting for the zygote", until)?;
                }
            }
        }
    }

    /// Takes the workers that are ready; returns their number.
    fn take_ready(&self, line: &mut Line) -> Result<usize, CallError> {
        let mut ready = Vec::new();
        let mut at = 0;
        while at < line.coming.len() {
            let pending = &mut line.coming[at];
            if !std::mem::take(&mut pending.has_spoken) {
                at += 1;
                continue;
            }
            match pending.is_ready(&self.plan) {
                Ok(false) => at += 1,
                Ok(true) => match line.coming.swap_remove(at).fenced(self.host_uid) {
                    Ok(mut worker) => {
                        line.note(worker.pid);
                        worker.zygote = line.id;
                        line.n_failed = 0;
                        ready.push(worker);
                    }
                    Err(error) => line.note_failure(error)?,
                },
                Err(error) => {
                    line.coming.swap_remove(at);
                    line.note_failure(error)?;
                }
            }
        }
        let n_made = ready.len();
        let is_lost = line.coming.is_empty() && line.n_requests == 0 && !line.born.is_empty();
        if n_made == 0 && !is_lost {
            return Ok(0);
        }
        let mut state = self.shared.lock();
        if is_lost {
            state.zygotes[self.number].dead.extend(line.born.drain());
        }
        state.zygotes[self.number].n_waiting += n_made;
        state.counts.made += n_made as u64;
        state.waiting.extend(ready);
        if !self.shared.is_early(self.number) {
            self.shared.wake_early(&mut state);
        }
        drop(state);
        for _ in 0..n_made {
            self.shared.ready.notify_one();
        }
        Ok(n_made)
    }
}

impl Line {
    /// Notes a pid that the zygote named or a worker has shown: the second time, the worker is accounted for.
    fn note(&mut self, pid: u32) {
        if !self.born.remove(&pid) {
            self.born.insert(pid);
        }
    }

    /// Other workers of the same zygote are in use; one failed worker does not affect them.
    fn note_failure(&mut self, error: CallError) -> Result<(), CallError> {
        self.n_failed += 1;
        if self.n_failed > WORKERS_FAILED_MAX { Err(error) } else { Ok(()) }
    }
}

fn unasked() -> CallError {
    CallError::new("the zygote sent an answer without a question", Errno::PROTO)
}

fn cannot_make(error: CallError) -> Problem {
    Problem::cannot_build(Code::Worker, "cannot make a worker for Python").cause(error)
}

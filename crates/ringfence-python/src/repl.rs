//! A worker that stays. Before each cell it forks: the child runs the cell and is the new head if it comes back; if it
//! does not, it is killed, and its parent goes on with every variable as it was. The processes in between are
//! checkpoints, to roll back to or to branch from.
//!
//! A service to the user, not a wall: files, file offsets and threads are not rolled back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfence_plan::seccomp::{self, FilterSpec};
use ringfence_plan::{CodePlan, WorkerPlan};
use ringfence_spec::{Code, Denial, DenialRule, Layer, Problem, ProblemKind};
use ringfence_sys::seccomp::Notification;
use ringfence_sys::{CallError, Named};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::artifacts::Artifacts;
use crate::channel;
use crate::receipt;
use crate::worker::{
    AfterRun, Bounds, Ends, Exceeded, GuestReport, Job, MemoryWatch, Output, Run, Worker,
};
use crate::zygote::{Zygote, expect};
use crate::zygote_keeper::ZygoteKeeper;

/// Checkpoints kept besides the first; the oldest is dropped when one more is made.
pub const CHECKPOINTS_MAX: usize = 8;

/// Time limit for making a checkpoint.
const FORK_MAX: Duration = Duration::from_secs(3);

/// Maximum number of unread frames dropped before a checkpoint. A socket's buffer of 208 KiB holds fewer than 300.
const UNREAD_FRAMES_MAX: usize = 4096;

/// Exit signal of a fork.
const SIGCHLD: u64 = 17;

/// The signal that ends a session without a checkpoint.
const SIGKILL: u8 = 9;

/// Maximum number of distinct refusals recorded for a cell.
const DENIALS_MAX: usize = 50;

/// A session of cells. Dropping it ends it, and its branches when the last of them is gone.
#[derive(Debug)]
pub struct Repl {
    base: Arc<Base>,
    /// Checkpoints from the oldest to the head. None of them is empty of processes.
    chain: Vec<Process>,
    n_cells: u64,
    /// Checkpoints lost since the last cell.
    n_lost: usize,
}

/// A function to call once if a cell runs this long.
pub struct LateCall<'a> {
    /// Time since the cell's start.
    pub after: Duration,
    /// The function.
    pub call: &'a mut dyn FnMut(),
}

/// State that branches share.
#[derive(Debug)]
struct Base {
    /// One cell at a time: they share stdout and stderr.
    turn: Mutex<()>,
    guard: Arc<Guard>,
    listener: Option<JoinHandle<()>>,
    /// The processes that were forked, until the kernel reports their death.
    forked: Mutex<Vec<Forked>>,
    /// The first process, which holds the others: when it ends, all do.
    worker: Worker,
    _zygote: Option<(Zygote, ZygoteKeeper)>,
    plan: WorkerPlan,
}

/// A process that was forked on the host's request.
#[derive(Debug)]
struct Forked {
    host_pid: u32,
    pidfd: OwnedFd,
}

/// One checkpoint.
#[derive(Debug)]
struct Process {
    /// After which cell.
    cell: u64,
    ends: Ends,
    host_pid: u32,
    /// The first process belongs to the base.
    owned: bool,
}

/// Result of a cell.
#[derive(Debug)]
pub struct Cell {
    /// Its number, from 1.
    pub number: u64,
    /// Its end.
    pub ended: CellEnd,
    /// The guest's report.
    pub said: Option<GuestReport>,
    /// stdout.
    pub stdout: Output,
    /// stderr.
    pub stderr: Output,
    /// From the request to the answer.
    pub wall: Duration,
    /// CPU time.
    pub cpu: Duration,
    /// System calls that were refused.
    pub denials: Vec<Denial>,
    /// Checkpoints that earlier cells had made unusable, and that the session went back behind.
    pub lost: usize,
}

/// Handling of a cell that completed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Keep,
    Undo,
}

/// End of a cell, and its effect on the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellEnd {
    /// It completed; its changes stay.
    Kept,
    /// It passed its deadline; undone.
    Deadline,
    /// The caller cancelled it; undone.
    Cancelled,
    /// Its process died; undone.
    Died,
    /// It ran out of memory; undone.
    Memory,
}

impl Repl {
    /// Starts a session; `plan` must allow checkpoints.
    pub fn start(keeper: ZygoteKeeper, plan: &CodePlan) -> Result<Self, Problem> {
        let zygote = Zygote::start(&keeper)?;
        let cannot =
            |e: CallError| Problem::cannot_build(Code::Repl, "cannot start a session").cause(e);
        let host_uid = plan.zygote.identity.host_uid;
        let worker = zygote.worker(&plan.worker, host_uid).map_err(cannot)?;
        Self::start_in(worker, &plan.worker, Some((zygote, keeper)))
    }

    /// Starts a session in a worker, and keeps the zygote that made it.
    fn start_in(
        mut worker: Worker,
        plan: &WorkerPlan,
        zygote: Option<(Zygote, ZygoteKeeper)>,
    ) -> Result<Self, Problem> {
        let cannot =
            |e: CallError| Problem::cannot_build(Code::Repl, "cannot start a session").cause(e);
        // It is never written to: `input()` reads the end of file at once.
        worker.ends.stdin = None;
        let listener = worker
            .listener
            .take()
            .ok_or_else(|| cannot(CallError::new("a session without a listener", Errno::BADF)))?;
        let guard = Arc::new(Guard::new(listener, plan.filter));
        let thread = std::thread::Builder::new().name("ringfence-repl".to_owned());
        let watched = Arc::clone(&guard);
        let listener = thread.spawn(move || watched.work()).map_err(|e| {
            Problem::internal(Code::Threads, "cannot start a thread for the session").cause(e)
        })?;
        let first = Process {
            cell: 0,
            ends: worker.ends.try_clone().map_err(cannot)?,
            host_pid: worker.host_pid,
            owned: false,
        };
        let base = Base {
            turn: Mutex::new(()),
            guard,
            listener: Some(listener),
            forked: Mutex::default(),
            worker,
            _zygote: zygote,
            plan: plan.clone(),
        };
        Ok(Self { base: Arc::new(base), chain: vec![first], n_cells: 0, n_lost: 0 })
    }

    /// The plan that fences each cell.
    pub fn plan(&self) -> &WorkerPlan {
        &self.base.plan
    }

    /// Cells after which there is a checkpoint, oldest first; 0 is the beginning.
    pub fn checkpoints(&self) -> Vec<u64> {
        self.chain.iter().map(|process| process.cell).collect()
    }

    /// The session's files.
    pub fn artifacts(&self) -> Result<Artifacts, Problem> {
        let workspace = self.base.worker.workspace.as_ref().map(OwnedFd::try_clone);
        match workspace {
            Some(Ok(workspace)) => Ok(Artifacts::new(workspace)),
            _ => Err(Problem::internal(Code::Repl, "the session's directory is gone")),
        }
    }

    /// Runs one cell. Data to read on one of `cancel` ends it.
    pub fn cell(
        &mut self,
        job: &Job,
        cancel: &[BorrowedFd<'_>],
        late: Option<LateCall<'_>>,
    ) -> Result<Cell, Problem> {
        self.run(job, cancel, late, After::Keep)
    }

    /// Runs a cell and undoes all its changes.
    pub fn ask(&mut self, job: &Job) -> Result<Cell, Problem> {
        self.run(job, &[], None, After::Undo)
    }

    fn run(
        &mut self,
        job: &Job,
        cancel: &[BorrowedFd<'_>],
        mut late: Option<LateCall<'_>>,
        after: After,
    ) -> Result<Cell, Problem> {
        let base = Arc::clone(&self.base);
        let _turn = base.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = |e: CallError| Problem::internal(Code::Repl, "the session is broken").cause(e);
        let began = Instant::now();
        let mut process = self.fork_living(self.n_cells + 1).map_err(no_checkpoint)?;
        let deadline = job.timeout.map(|timeout| began + timeout);
        let memory = base.plan.limits.memory.map(ringfence_spec::ByteSize::bytes);
        let mut bounds = Bounds { deadline, memory: MemoryWatch::new(process.host_pid, memory) };
        let mut run = Run::new(began, &[], job);
        let _ = process.ends.give(job, AfterRun::Kept, deadline, cancel);
        let mut end = None;
        while run.said.is_none() && end.is_none() {
            let heard = process.ends.step(&mut run, bounds.look_at(), cancel).map_err(broken)?;
            if let Some(late) = late.take_if(|late| began.elapsed() >= late.after) {
                (late.call)();
            }
            end = match () {
                () if run.said.is_some() => None,
                // It sent a frame that is not a report, and no other is read.
                () if !run.listening => Some(CellEnd::Died),
                () if heard.dead => Some(CellEnd::Died),
                () => bounds.exceeded(heard).map(|exceeded| match exceeded {
                    Exceeded::Cancelled => CellEnd::Cancelled,
                    Exceeded::Deadline => CellEnd::Deadline,
                    Exceeded::Memory => CellEnd::Memory,
                }),
            };
        }
        process.ends.drain(&mut run);
        let out_of_memory = run
            .said
            .as_ref()
            .and_then(|said| said.exception.as_ref())
            .is_some_and(|raised| raised.kind == "MemoryError");
        let ended = match end {
            None if out_of_memory => CellEnd::Memory,
            None => CellEnd::Kept,
            Some(end) => end,
        };
        let cpu = if end.is_some() {
            ringfence_jail::cpu_so_far(process.host_pid)
        } else {
            run.said_cpu()
        };
        let number = self.n_cells + 1;
        let mut lost = 0;
        if after == After::Keep {
            self.n_cells += 1;
            lost = std::mem::take(&mut self.n_lost);
        }
        if ended == CellEnd::Kept && after == After::Keep {
            // Only the guest claims that it is done, so stop the process: nothing of it runs between cells.
            process.ends.pause();
            self.chain.push(process);
            self.prune();
        } else {
            process.end();
            // Read its last frames and its remaining output.
            self.head().map_err(broken)?.ends.drain_streams(&mut run);
        }
        Ok(Cell {
            number,
            ended,
            said: run.said,
            stdout: run.stdout,
            stderr: run.stderr,
            wall: began.elapsed(),
            cpu: cpu.unwrap_or_default(),
            denials: base.guard.take_denials(),
            lost,
        })
    }

    /// Forks the head; if that fails, the newest checkpoint that can be forked.
    fn fork_living(&mut self, cell: u64) -> Result<Process, CallError> {
        loop {
            match self.fork(cell) {
                Ok(process) => return Ok(process),
                Err(error) if self.chain.len() <= 1 => return Err(error),
                Err(_) => self.lose_head(),
            }
        }
    }

    /// Gives up a head that did not fork when requested. Without an earlier checkpoint that is the end of the session, or
    /// of this branch of it.
    fn lose_head(&mut self) {
        match self.chain.as_slice() {
            [only] if only.owned => only.ends.kill(),
            [] | [_] => self.base.end(),
            [..] => {
                if let Some(head) = self.chain.pop() {
                    head.end();
                    self.n_lost += 1;
                }
            }
        }
    }

    /// Returns to the state after `cell`, which must be one of [`Repl::checkpoints`].
    pub fn rollback(&mut self, cell: u64) -> Result<(), Problem> {
        let at = self.chain.iter().position(|process| process.cell == cell).ok_or_else(|| {
            let known: Vec<String> = self.checkpoints().iter().map(u64::to_string).collect();
            Problem::usage(Code::NoCheckpoint, format!("there is no checkpoint after cell {cell}"))
                .hint(format!("there is one after {}", known.join(", ")))
        })?;
        for process in self.chain.drain(at + 1..).rev() {
            process.end();
        }
        Ok(())
    }

    /// A second session that begins with this one's current state.
    pub fn branch(&mut self) -> Result<Self, Problem> {
        let base = Arc::clone(&self.base);
        let _turn = base.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let process = self.fork(self.n_cells).map_err(|e| {
            // It may answer later, which would be taken for the answer to the next request.
            self.lose_head();
            Problem::internal(Code::Repl, "cannot branch the session").cause(e)
        })?;
        process.ends.pause();
        let n_cells = self.n_cells;
        Ok(Self { base: Arc::clone(&base), chain: vec![process], n_cells, n_lost: 0 })
    }

    /// Forks the head, which runs only meanwhile. Ends the session if the head forked and did not hand the new process
    /// over: no deadline, limit or stop would reach that process. So every process in the session's pid namespace is one
    /// of [`Base::forked`] or the first.
    fn fork(&mut self, cell: u64) -> Result<Process, CallError> {
        let base = Arc::clone(&self.base);
        self.head()?.ends.resume();
        let forked = self.fork_awake(cell);
        self.head()?.ends.pause();
        let grant = std::mem::replace(&mut *base.guard.grant(), Grant::Withdrawn);
        if forked.is_err() && grant == Grant::Used {
            base.end();
            // Every checkpoint is dead: there is none to go back to.
            self.chain.truncate(1);
        }
        forked
    }

    fn fork_awake(&mut self, cell: u64) -> Result<Process, CallError> {
        let base = Arc::clone(&self.base);
        let head = self.head()?;
        let (ours, inside) = channel::pair()?;
        let deadline = Instant::now() + FORK_MAX;
        // Frames that an earlier cell left unread do not answer this request.
        drain(&head.ends.channel, deadline)?;
        let granted = base.guard.allow_fork(head.host_pid);
        // Of a process that has one thread, and had no other when it was stopped, the fork needs no repair.
        let alone: &[u8] =
            if ringfence_sys::is_process_single_threaded(head.host_pid) { b"1" } else { b"" };
        channel::send_by(&head.ends.channel, b'K', &[alone], &[inside.as_fd()], deadline)?;
        drop(inside);
        let mut born = expect(&head.ends.channel, b'P', deadline)?;
        drop(granted);
        let nonsense = || CallError::new("the session sent no pidfd", Errno::PROTO);
        let pidfd = born.fds.pop().filter(|_| born.fds.is_empty()).ok_or_else(nonsense)?;
        // The pidfd is the guest's word. The process behind it will be stopped and killed, so it must be the head's child: the
        // guest can get a pidfd of the process that made its channel, which is this one (`SO_PEERPIDFD`).
        let host_pid = receipt::child_pid(&pidfd, head.host_pid)?;
        base.add_new(host_pid, &pidfd)?;
        let ends = head.ends.of_fork(ours, pidfd)?;
        Ok(Process { cell, ends, host_pid, owned: true })
    }

    fn head(&mut self) -> Result<&mut Process, CallError> {
        self.chain
            .last_mut()
            .ok_or_else(|| CallError::new("a session without a head", Errno::CHILD))
    }

    /// Drops the oldest checkpoints. The very first process stays: it holds the rest.
    fn prune(&mut self) {
        while self.chain.len() > CHECKPOINTS_MAX + 1 {
            let oldest = self.chain.remove(1);
            oldest.end();
        }
    }
}

impl Drop for Repl {
    fn drop(&mut self) {
        for process in self.chain.drain(..).rev() {
            process.end();
        }
    }
}

impl Process {
    fn end(self) {
        if self.owned {
            self.ends.kill();
        }
    }
}

impl Base {
    /// Adds a process that was forked. Refuses one that an earlier request made, or that is dead: naming it would hide the
    /// process that this request made.
    fn add_new(&self, host_pid: u32, pidfd: &OwnedFd) -> Result<(), CallError> {
        let mut forked = self.forked.lock().unwrap_or_else(PoisonError::into_inner);
        // A process that was killed may take a while to die, and has its pid until then.
        forked.retain(|process| !ringfence_sys::is_ready(&process.pidfd, PollFlags::IN));
        let is_known = forked.iter().any(|process| process.host_pid == host_pid);
        // Last: a process that is alive now has had this pid since it was read.
        if is_known || ringfence_sys::is_ready(pidfd, PollFlags::IN) {
            return Err(CallError::new(
                "the session sent the pidfd of an earlier fork",
                Errno::PERM,
            ));
        }
        forked.push(Forked { host_pid, pidfd: pidfd.try_clone().named(|| "dup")? });
        Ok(())
    }

    /// Ends all processes of the session and of its branches. The first is PID 1 of their namespace: the kernel kills the
    /// others with it, and reports its death after theirs.
    fn end(&self) {
        self.worker.ends.kill();
        let deadline = Instant::now() + FORK_MAX;
        let _ = ringfence_sys::ready_by(&self.worker.ends.pidfd, PollFlags::IN, deadline);
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        self.worker.ends.kill();
        // The listener closes when the last process under its filter is gone.
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Answers the filter: allows a fork that the host requested, by the process it was requested of; refuses and records
/// everything else.
#[derive(Debug)]
struct Guard {
    listener: OwnedFd,
    spec: FilterSpec,
    grant: Mutex<Grant>,
    denials: Mutex<Vec<Denial>>,
}

/// Permission to fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grant {
    /// No process may fork.
    Withdrawn,
    /// This process may fork once.
    Open { host_pid: u32 },
    /// A fork was let through. The kernel may still have refused it.
    Used,
}

/// Withdraws the permission when dropped, if it was not used.
struct Granted<'a>(&'a Guard);

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        let mut grant = self.0.grant();
        if *grant != Grant::Used {
            *grant = Grant::Withdrawn;
        }
    }
}

impl Guard {
    fn new(listener: OwnedFd, spec: FilterSpec) -> Self {
        ringfence_sys::seccomp::take_turns_on_one_processor(&listener);
        let grant = Mutex::new(Grant::Withdrawn);
        Self { listener, spec, grant, denials: Mutex::default() }
    }

    fn grant(&self) -> MutexGuard<'_, Grant> {
        self.grant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows a process to fork once.
    fn allow_fork(&self, host_pid: u32) -> Granted<'_> {
        *self.grant() = Grant::Open { host_pid };
        Granted(self)
    }

    fn take_denials(&self) -> Vec<Denial> {
        std::mem::take(&mut *self.denials.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn work(&self) {
        loop {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let waited = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))
                .named(|| "poll(listener)");
            // Hung up: no process is left under the filter.
            if waited.is_err() || !fds[0].revents().contains(PollFlags::IN) {
                return;
            }
            match ringfence_sys::seccomp::receive(&self.listener) {
                Ok(Some(call)) => self.answer(&call),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Lets a fork through if it was granted, and marks the grant as used. Returns false if it was not granted.
    fn let_fork_through(&self, call: &Notification) -> bool {
        // Held meanwhile: a grant that was withdrawn has let nothing through, and lets nothing through later.
        let mut grant = self.grant();
        if *grant != (Grant::Open { host_pid: call.pid }) {
            return false;
        }
        // A call that a signal interrupted does not wait any more: the kernel makes it again, and reports it again.
        if ringfence_sys::seccomp::is_waiting(&self.listener, call.id) {
            *grant = Grant::Used;
            let _ = ringfence_sys::seccomp::let_through(&self.listener, call.id);
        }
        true
    }

    fn answer(&self, call: &Notification) {
        let name = seccomp::name(self.spec.arch, call.nr).unwrap_or("unknown");
        let verdict = seccomp::explain(&self.spec, call.nr, &call.args);
        // The flags of clone are in a register, so they cannot change after the check. One fork only: the next needs a
        // new grant.
        // The exit signal is in the low byte: with SIGCONT the end of a child would have its stopped parent go on.
        let exit_signal = call.args[0] & 0xff;
        let fork =
            name == "clone" && verdict.rule == DenialRule::Processes && exit_signal == SIGCHLD;
        if fork && self.let_fork_through(call) {
            return;
        }
        let _ = ringfence_sys::seccomp::reply(
            &self.listener,
            call.id,
            Err(Errno::from_raw_os_error(verdict.errno)),
        );
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = denials.iter_mut().find(|d| d.syscall.as_deref() == Some(name)) {
            known.count += 1;
        } else if denials.len() < DENIALS_MAX {
            let (subject, hint) = (name.to_owned(), verdict.hint.into());
            denials.push(Denial {
                syscall: Some(name.to_owned()),
                pid: Some(call.pid),
                ..Denial::new(Layer::Syscalls, verdict.rule, subject, hint)
            });
        }
    }
}

/// The end of a session whose processes make no checkpoint for the next cell. They are the guest's, so this is no failure of
/// the host's: code that uses up its processes, or replaces what answers, ends its session and nothing else.
fn no_checkpoint(error: CallError) -> Problem {
    let message =
        "the session's interpreter made no checkpoint and was ended; the cell did not run";
    Problem::new(ProblemKind::Interrupted(SIGKILL), Code::Repl, message).cause(error).hint(
        "run it again: the next cell begins without variables; the files of a session are kept",
    )
}

/// Drops the frames that wait in a channel. Fails if they are too many, or still come at the deadline.
fn drain(channel: &OwnedFd, deadline: Instant) -> Result<(), CallError> {
    for _ in 0..UNREAD_FRAMES_MAX {
        let Ok(Some(_)) = channel::receive(channel, RecvFlags::DONTWAIT) else { return Ok(()) };
        if Instant::now() >= deadline {
            break;
        }
    }
    Err(CallError::new("the session sends without being asked", Errno::PROTO))
}

#[cfg(test)]
#[path = "repl_tests.rs"]
mod tests;

//! A session's REPL: there while there is a use for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_jail::Launcher;
use ringfence_plan::HostWorkspace;
use ringfence_python::{Artifacts, Job, Repl};
use ringfence_spec::{ByteSize, Outcome, Problem, Status};

use crate::cancel;
use crate::code::{CodePolicy, Mode, PooledRunner, PythonContext};
use crate::files::Workspace;
use crate::host_context::HostContext;

/// How often the size of a session's files is looked at while a cell runs.
const QUOTA_INTERVAL: Duration = Duration::from_millis(100);

/// The process and what it was made with.
#[derive(Debug)]
pub(crate) struct SessionInterpreter {
    runner: Arc<PooledRunner>,
    repl: Repl,
}

impl SessionInterpreter {
    /// Starts one in this workspace; without one, in a directory that ends with it.
    pub(crate) fn start(
        launcher: &Arc<Launcher>,
        policy: &CodePolicy,
        place: &HostContext,
        workspace: Option<HostWorkspace>,
    ) -> Result<Self, Problem> {
        let runner = PooledRunner::with_workspace(policy, place, Mode::Session, workspace)?;
        let repl = runner.repl(launcher)?;
        Ok(Self { runner: Arc::new(runner), repl })
    }

    /// A copy that goes on from the same state.
    pub(crate) fn branch(&mut self) -> Result<Self, Problem> {
        Ok(Self { runner: Arc::clone(&self.runner), repl: self.repl.branch()? })
    }

    /// What its cells have in common.
    pub(crate) fn runner(&self) -> &PooledRunner {
        &self.runner
    }

    /// What its cells have in common with every Python run.
    pub(crate) fn context(&self) -> &PythonContext {
        self.runner.context()
    }

    /// Cells one can roll back to.
    pub(crate) fn checkpoints(&self) -> Vec<u64> {
        self.repl.checkpoints()
    }

    /// Goes back to the state after a cell.
    pub(crate) fn rollback(&mut self, cell: u64) -> Result<(), Problem> {
        self.repl.rollback(cell)
    }

    /// The files in its directory.
    pub(crate) fn artifacts(&self) -> Result<Artifacts, Problem> {
        self.repl.artifacts()
    }

    /// Standard output of a program that leaves no trace in the session.
    pub(crate) fn ask(&mut self, job: &Job) -> Result<Vec<u8>, Problem> {
        let cell = self.repl.ask(job)?;
        Ok(cell.stdout.parts().0)
    }

    /// Runs a cell that was screened. Ended by `cancel`, by its deadline, or when the session's files pass the quota.
    pub(crate) fn cell(
        &mut self,
        job: &Job,
        cancel: BorrowedFd<'_>,
        quota: Option<&Quota<'_>>,
    ) -> Result<Outcome, Problem> {
        let Some(quota) = quota else {
            let cell = self.repl.cell(job, Some(cancel))?;
            return Ok(self.runner.cell_outcome(cell, job.timeout));
        };
        let (cell, passed) = quota.watch(Some(cancel), |over| self.repl.cell(job, Some(over)))?;
        let mut outcome = self.runner.cell_outcome(cell, job.timeout);
        if passed {
            quota.tell(&mut outcome);
        }
        Ok(outcome)
    }
}

/// How much disk a session's files may use, and how much of it one run may add.
#[derive(Clone, Debug)]
pub struct Quota<'a> {
    pub(crate) files: &'a Workspace,
    bytes_max: u64,
    /// Where a run's own limit ends before the quota does: that sum, and the limit.
    run_max: Option<(u64, ByteSize)>,
    /// Whether it is a session no more.
    closed: Option<&'a AtomicBool>,
}

impl<'a> Quota<'a> {
    /// Of these files, so much.
    pub fn new(files: &'a Workspace, bytes_max: u64) -> Self {
        Self { files, bytes_max, run_max: None, closed: None }
    }

    /// For a run that may add `disk` to what is used now.
    pub(crate) fn for_a_run(mut self, used: u64, disk: Option<ByteSize>) -> Self {
        let sum = disk.map(|disk| (used.saturating_add(disk.bytes()), disk));
        self.run_max = sum.filter(|(sum, _)| *sum < self.bytes_max);
        self
    }

    /// The same, counted now; nothing runs in a session that is full.
    pub(crate) fn for_the_next_run(&self, disk: Option<ByteSize>) -> Result<Self, Problem> {
        let usage = self.files.usage()?;
        if usage.bytes > self.bytes_max {
            return Err(Problem::refused("quota_exceeded", "the session is full")
                .hint("delete what is not needed"));
        }
        Ok(self.clone().for_a_run(usage.bytes, disk))
    }

    /// Until the session is closed.
    pub(crate) fn while_open(mut self, closed: &'a AtomicBool) -> Self {
        self.closed = Some(closed);
        self
    }

    /// Whether they take more.
    fn is_passed(&self) -> bool {
        // What cannot be counted does not pass for little.
        let bytes_max = self.run_max.map_or(self.bytes_max, |(sum, _)| sum);
        self.files.usage().map_or(true, |usage| usage.bytes > bytes_max)
    }

    /// Does some work that ends when what it is given becomes readable: when `cancel` does, or when the quota is passed,
    /// which is the second answer.
    pub(crate) fn watch<T>(
        &self,
        cancel: Option<BorrowedFd<'_>>,
        work: impl FnOnce(BorrowedFd<'_>) -> Result<T, Problem>,
    ) -> Result<(T, bool), Problem> {
        let (wish, over) = cancel::pair()?;
        let passed = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            let (done, finished) = std::sync::mpsc::channel::<()>();
            let passed = &passed;
            scope.spawn(move || {
                // Closing this side ends the work.
                let wish = wish;
                while finished.recv_timeout(QUOTA_INTERVAL)
                    == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                {
                    if self.is_passed() {
                        passed.store(true, Ordering::Relaxed);
                        break;
                    }
                    let closed = self.closed.is_some_and(|closed| closed.load(Ordering::SeqCst));
                    if closed || cancel.is_some_and(is_readable) {
                        break;
                    }
                }
                drop(wish);
            });
            let result = work(over.as_fd());
            drop(done);
            result
        })?;
        Ok((done, passed.load(Ordering::Relaxed)))
    }

    /// Says in an outcome that it was passed.
    pub(crate) fn tell(&self, outcome: &mut Outcome) {
        outcome.status = Status::Killed;
        let (code, message, hint) = match self.run_max {
            Some((_, disk)) => (
                "disk_limit",
                format!("the run added more than {disk} to the session's files and was ended"),
                crate::text::raise("disk"),
            ),
            None => (
                "quota_exceeded",
                format!("the session's files passed their quota of {} bytes", self.bytes_max),
                "delete what is not needed; what was stored is still there".to_owned(),
            ),
        };
        outcome.error = Some(crate::text::info(code, message, Some(hint)));
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

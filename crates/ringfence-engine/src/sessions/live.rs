//! A session's REPL: there while there is a use for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_jail::Launcher;
use ringfence_plan::HostWorkspace;
use ringfence_python::{Job, Repl};
use ringfence_spec::{ErrorInfo, Outcome, Problem, Status};

use crate::cancel;
use crate::code::{CodeFence, CodePolicy, Ground, Use};
use crate::files::Workspace;
use crate::place::Place;

/// How often the size of a session's files is looked at while a cell runs.
const QUOTA_INTERVAL: Duration = Duration::from_millis(100);

/// The process and what it was made with.
#[derive(Debug)]
pub(crate) struct Live {
    fence: CodeFence,
    repl: Repl,
}

impl Live {
    /// Starts one in this workspace.
    pub(crate) fn start(
        launcher: &Arc<Launcher>,
        policy: &CodePolicy,
        place: &Place,
        workspace: HostWorkspace,
    ) -> Result<Self, Problem> {
        let fence = CodeFence::with_workspace(policy, place, Use::Session, Some(workspace))?;
        let repl = fence.repl(launcher)?;
        Ok(Self { fence, repl })
    }

    /// What its cells have in common.
    pub(crate) fn ground(&self) -> &Ground {
        self.fence.ground()
    }

    /// Cells one can roll back to.
    pub(crate) fn checkpoints(&self) -> Vec<u64> {
        self.repl.checkpoints()
    }

    /// Goes back to the state after a cell.
    pub(crate) fn rollback(&mut self, cell: u64) -> Result<(), Problem> {
        self.repl.rollback(cell)
    }

    /// Runs a cell that was screened. Ended by `cancel`, by its deadline, or when the session's files pass the quota.
    pub(crate) fn cell(
        &mut self,
        job: &Job,
        cancel: BorrowedFd<'_>,
        quota: &Quota<'_>,
    ) -> Result<Outcome, Problem> {
        let timeout = job.timeout.unwrap_or_default();
        let (cell, passed) = quota.watch(Some(cancel), |over| self.repl.cell(job, Some(over)))?;
        let mut outcome = self.fence.cell_outcome(cell, timeout);
        if passed {
            quota.tell(&mut outcome);
        }
        Ok(outcome)
    }
}
/// What a session's files may take.
#[derive(Debug)]
pub struct Quota<'a> {
    pub(crate) files: &'a Workspace,
    pub(crate) bytes_max: u64,
    /// Whether it is a session no more.
    pub(crate) closed: Option<&'a AtomicBool>,
}

impl<'a> Quota<'a> {
    /// Of these files, so much.
    pub fn new(files: &'a Workspace, bytes_max: u64) -> Self {
        Self { files, bytes_max, closed: None }
    }

    /// Whether they take more.
    pub fn is_passed(&self) -> bool {
        // What cannot be counted does not pass for little.
        self.files.usage().map_or(true, |usage| usage.bytes > self.bytes_max)
    }

    /// Does some work that ends when what it is given becomes readable: when `cancel` does, or when the quota is passed,
    /// which is the second answer.
    pub fn watch<T>(
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
    pub fn tell(&self, outcome: &mut Outcome) {
        outcome.status = Status::Killed;
        outcome.error = Some(ErrorInfo {
            code: "quota_exceeded".to_owned(),
            message: format!("the session's files passed their quota of {} bytes", self.bytes_max),
            hint: Some("delete what is not needed; what was stored is still there".to_owned()),
            retry_after_ms: None,
        });
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

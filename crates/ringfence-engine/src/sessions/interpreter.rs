//! A session's REPL process, which exists only while it is in use.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ringfence_jail::Launcher;
use ringfence_plan::HostWorkspace;
use ringfence_python::{Artifacts, Job, LateCall, Repl};
use ringfence_spec::{ByteSize, Code, Outcome, Problem, Status};

use crate::cancel;
use crate::code::{CodePolicy, Mode, PooledRunner, PythonContext, add_artifacts};
use crate::files::Workspace;
use crate::host_context::HostContext;

/// Poll interval for the size of a session's files while a cell runs.
const QUOTA_INTERVAL: Duration = Duration::from_millis(100);

/// A REPL process and the runner it was started with.
#[derive(Debug)]
pub(crate) struct SessionInterpreter {
    runner: Arc<PooledRunner>,
    repl: Repl,
}

impl SessionInterpreter {
    /// Starts a REPL in this workspace; without one, in a directory removed at its end.
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

    /// Returns a copy that continues from the same state.
    pub(crate) fn branch(&mut self) -> Result<Self, Problem> {
        Ok(Self { runner: Arc::clone(&self.runner), repl: self.repl.branch()? })
    }

    /// Returns the runner shared by its cells.
    pub(crate) fn runner(&self) -> &PooledRunner {
        &self.runner
    }

    /// Returns the context shared with every Python run.
    pub(crate) fn context(&self) -> &PythonContext {
        self.runner.context()
    }

    /// Lists the cells that can be rolled back to.
    pub(crate) fn checkpoints(&self) -> Vec<u64> {
        self.repl.checkpoints()
    }

    /// Restores the state after a cell.
    pub(crate) fn rollback(&mut self, cell: u64) -> Result<(), Problem> {
        self.repl.rollback(cell)
    }

    /// Returns the files in its directory.
    pub(crate) fn artifacts(&self) -> Result<Artifacts, Problem> {
        self.repl.artifacts()
    }

    /// Runs a program that leaves no trace in the session, and returns its standard output.
    pub(crate) fn ask(&mut self, job: &Job) -> Result<Vec<u8>, Problem> {
        let cell = self.repl.ask(job)?;
        Ok(cell.stdout.parts().0)
    }

    /// Runs a screened cell. Returns the files it made or changed too. Ended by `cancel`, by its deadline, or if the session's files exceed the quota.
    pub(crate) fn cell(
        &mut self,
        job: &Job,
        cancel: BorrowedFd<'_>,
        quota: Option<&Quota<'_>>,
    ) -> Result<(Outcome, Artifacts), Problem> {
        let before = self.repl.artifacts()?.snapshot();
        let (cell, passed) = match quota {
            Some(quota) => quota.watch(cancel, |over, watch| {
                let late = LateCall { after: QUOTA_INTERVAL, call: watch };
                self.repl.cell(job, &[cancel, over], Some(late))
            })?,
            None => (self.repl.cell(job, &[cancel], None)?, false),
        };
        let mut outcome = self.runner.cell_outcome(cell, job.timeout);
        if let Some(quota) = quota.filter(|_| passed) {
            quota.tell(&mut outcome);
        }
        let files = self.repl.artifacts()?.since(before);
        add_artifacts(&mut outcome, files.list());
        Ok((outcome, files))
    }
}

/// Disk quota of a session's files, and the part of it that one run may add.
#[derive(Clone, Debug)]
pub struct Quota<'a> {
    pub(crate) files: &'a Workspace,
    bytes_max: u64,
    /// Set if the run's own limit is reached before the quota: total size at the limit, and the limit.
    run_max: Option<(u64, ByteSize)>,
    /// Set once the session is closed.
    closed: Option<&'a AtomicBool>,
}

impl<'a> Quota<'a> {
    /// A quota of `bytes_max` for these files.
    pub fn new(files: &'a Workspace, bytes_max: u64) -> Self {
        Self { files, bytes_max, run_max: None, closed: None }
    }

    /// Adds the limit of a run that may add `disk` to `used`.
    pub(crate) fn for_a_run(mut self, used: u64, disk: Option<ByteSize>) -> Self {
        let sum = disk.map(|disk| (used.saturating_add(disk.bytes()), disk));
        self.run_max = sum.filter(|(sum, _)| *sum < self.bytes_max);
        self
    }

    /// Counts the current usage and adds a run's limit. Refuses if the session is over its quota.
    pub(crate) fn for_the_next_run(&self, disk: Option<ByteSize>) -> Result<Self, Problem> {
        let usage = self.files.usage()?;
        if usage.bytes > self.bytes_max {
            return Err(Problem::refused(Code::QuotaExceeded, "the session is full")
                .hint("delete what is not needed"));
        }
        Ok(self.clone().for_a_run(usage.bytes, disk))
    }

    /// Ends the watch once the session is closed.
    pub(crate) fn while_open(mut self, closed: &'a AtomicBool) -> Self {
        self.closed = Some(closed);
        self
    }

    /// Returns true if the files exceed the quota or the run's limit.
    fn is_passed(&self) -> bool {
        // Files that cannot be counted are treated as over the quota.
        let bytes_max = self.run_max.map_or(self.bytes_max, |(sum, _)| sum);
        self.files.usage().map_or(true, |usage| usage.bytes > bytes_max)
    }

    /// Runs `work` with a descriptor that becomes readable when the session is closed or when the quota is exceeded, and
    /// with a function that starts the thread which watches for that: a cell that is over at once needs none. The second
    /// result is true if the quota was exceeded.
    pub(crate) fn watch<T>(
        &self,
        cancel: BorrowedFd<'_>,
        work: impl FnOnce(BorrowedFd<'_>, &mut dyn FnMut()) -> Result<T, Problem>,
    ) -> Result<(T, bool), Problem> {
        let (wish, over) = cancel::pair()?;
        let passed = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            let (done, finished) = std::sync::mpsc::channel::<()>();
            let passed = &passed;
            let mut watcher = Some((wish, finished));
            let mut watch = || {
                let Some((wish, finished)) = watcher.take() else { return };
                scope.spawn(move || {
                    // Closing this end cancels the work.
                    let wish = wish;
                    loop {
                        if self.is_passed() {
                            passed.store(true, Ordering::Relaxed);
                            break;
                        }
                        let closed =
                            self.closed.is_some_and(|closed| closed.load(Ordering::SeqCst));
                        if closed || ringfence_jail::is_ready(cancel, rustix::event::PollFlags::IN)
                        {
                            break;
                        }
                        if finished.recv_timeout(QUOTA_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                            break;
                        }
                    }
                    drop(wish);
                });
            };
            let result = work(over.as_fd(), &mut watch);
            drop(done);
            result
        })?;
        Ok((done, passed.load(Ordering::Relaxed)))
    }

    /// Marks an outcome as ended by the quota.
    pub(crate) fn tell(&self, outcome: &mut Outcome) {
        outcome.status = Status::Killed;
        let (code, message, hint) = match self.run_max {
            Some((_, disk)) => (
                Code::DiskLimit,
                format!("the run added more than {disk} to the session's files and was ended"),
                ringfence_spec::Hint::Limit(ringfence_spec::LimitKind::Disk),
            ),
            None => (
                Code::QuotaExceeded,
                format!("the session's files passed their quota of {} bytes", self.bytes_max),
                "delete what is not needed; what was stored is still there".into(),
            ),
        };
        outcome.error = Some(crate::text::info(code, message, Some(hint)));
    }
}

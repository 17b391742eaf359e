//! A session's REPL process, which exists only while it is in use.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ringfence_jail::Launcher;
use ringfence_plan::HostWorkspace;
use ringfence_python::{Artifacts, Job, LateCall, Repl};
use ringfence_spec::{ByteSize, Code, Outcome, Problem, Status};

use crate::cancel;
use crate::code::{CodePolicy, Mode, PooledRunner, PythonContext, add_artifacts};
use crate::files::{BYTES_PER_INODE, Usage, Workspace, not_counted};
use crate::host_context::HostContext;

/// Poll interval for the size of a session's files while a cell runs.
const QUOTA_INTERVAL: Duration = Duration::from_millis(100);

/// Pause after counting the files of a session, in times of what that took, and at most.
const QUOTA_PAUSE_TIMES: u32 = 9;
const QUOTA_INTERVAL_MAX: Duration = Duration::from_secs(2);

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
        let files = self.repl.artifacts()?.since(&before);
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
        let usage = counted(self.files)?;
        if usage.charged_bytes() > self.bytes_max {
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
        let run_bytes_max = self.run_max.map_or(u64::MAX, |(sum, _)| sum);
        counted(self.files).map_or(true, |usage| {
            usage.bytes > run_bytes_max || usage.charged_bytes() > self.bytes_max
        })
    }

    /// Runs `work` with a descriptor that becomes readable when the session is closed or when the quota is exceeded, and
    /// with a function that starts the thread which watches for that: a cell that is over at once needs none. The second
    /// result is true if the quota was exceeded.
    pub(crate) fn watch<T>(
        &self,
        cancel: BorrowedFd<'_>,
        work: impl FnOnce(BorrowedFd<'_>, &mut dyn FnMut()) -> Result<T, Problem>,
    ) -> Result<(T, bool), Problem> {
        let (cancel_on_drop, over) = cancel::pair()?;
        let passed = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            let (done, finished) = std::sync::mpsc::channel::<()>();
            let passed = &passed;
            let mut watcher = Some((cancel_on_drop, finished));
            let mut watch = || {
                let Some((cancel_on_drop, finished)) = watcher.take() else { return };
                scope.spawn(move || {
                    // Closing this end cancels the work.
                    let cancel_on_drop = cancel_on_drop;
                    loop {
                        let began = Instant::now();
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
                        // Counting many files takes long, and is the host's work.
                        let pause = (began.elapsed() * QUOTA_PAUSE_TIMES)
                            .clamp(QUOTA_INTERVAL, QUOTA_INTERVAL_MAX);
                        if finished.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                            break;
                        }
                    }
                    drop(cancel_on_drop);
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
        if let Err(problem) = counted(self.files) {
            outcome.error = Some(crate::text::info(problem.code, problem.message, problem.hint));
            return;
        }
        let (code, message, hint) = match self.run_max {
            Some((_, disk)) => (
                Code::DiskLimit,
                format!("the run added more than {disk} to the session's files and was ended"),
                ringfence_spec::Hint::Limit(ringfence_spec::LimitKind::Disk),
            ),
            None => (
                Code::QuotaExceeded,
                format!(
                    "the session's files passed their quota of {} bytes, at least {BYTES_PER_INODE} each",
                    self.bytes_max
                ),
                "delete what is not needed; what was stored is still there".into(),
            ),
        };
        outcome.error = Some(crate::text::info(code, message, Some(hint)));
    }
}

/// Counts a session's files. Refuses if some cannot be counted: they could be of any size.
pub(super) fn counted(files: &Workspace) -> Result<Usage, Problem> {
    let usage = files.session_usage()?;
    if usage.complete {
        return Ok(usage);
    }
    let message = "the size of the session's files is unknown, which counts as over their quota";
    Err(Problem::refused(Code::QuotaUnknown, message)
        .cause(not_counted())
        .hint("delete what is not needed"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use ringfence_testing::{ORDINARY_ID, as_ordinary_user, needs_root};

    use super::*;
    use crate::files::FileRules;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// Bytes counted, or the problem's code; and whether a quota of 2 MiB is passed.
    fn count(dir: &Path) -> (Result<u64, String>, bool) {
        as_ordinary_user(|| {
            let files = Workspace::open(dir, FileRules::default()).unwrap();
            let passed = Quota::new(&files, 2 << 20).is_passed();
            let counted = counted(&files).map(|usage| usage.bytes);
            (counted.map_err(|problem| problem.code.as_str().to_owned()), passed)
        })
    }

    #[test]
    fn a_closed_directory_hides_nothing_from_the_quota() {
        if !needs_root("only root can be another user") {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let (top, closed) = (place.path(), place.path().join("closed"));
        let file = closed.join("file");
        std::fs::create_dir(&closed).unwrap();
        std::fs::write(&file, vec![1; 4 << 20]).unwrap();
        for path in [top, &closed, &file] {
            std::os::unix::fs::chown(path, Some(ORDINARY_ID), Some(ORDINARY_ID)).unwrap();
        }
        for (path, mode) in [
            (closed.as_path(), 0o300),
            (&closed, 0o000),
            // Its names can be listed, and not looked up.
            (&closed, 0o400),
            (top, 0o300),
            (top, 0o400),
        ] {
            set_mode(path, mode);
            let (counted, passed) = count(top);
            assert!(counted.as_ref().is_ok_and(|bytes| *bytes >= 4 << 20), "{mode:o} {counted:?}");
            assert!(passed, "{mode:o}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(!count(top).1);
        // Another user's, which cannot be opened up: it could hold any number of bytes.
        std::os::unix::fs::chown(&closed, Some(0), Some(0)).unwrap();
        set_mode(&closed, 0o700);
        assert_eq!(count(top), (Err("quota_unknown".to_owned()), true));
    }
}

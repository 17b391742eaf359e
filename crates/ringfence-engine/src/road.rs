//! What the engine has, and how each kind of run is done with it, on a thread that may wait.

use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_audit::Entry;
use ringfence_jail::{Launcher, Permit};
use ringfence_python::{Job, Pool};
use ringfence_screen::scrub::Scrub;
use ringfence_spec::{CommandPreset, Outcome, Policy, Problem, RunId, Span, Status};

use crate::admission::Admission;
use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::code::{CodeFence, CodePolicy, Ground, Use};
use crate::command::{self, Fence, Io};
use crate::engine::{CodeCall, CommandCall, Ran};
use crate::intercept::{About, Interceptor};
use crate::metrics::Metrics;
use crate::place::Place;
use crate::record::{Begun, Recorder};
use crate::sessions::{Live, Quota, Session, Sessions, unknown};
use crate::so_far::SoFar;
use crate::text::info;
use crate::trace::Stopwatch;
use crate::watch::Seen;

/// Tries of ours when our own side fails: never for what a program did.
const TRIES_MAX: u32 = 3;

/// The wait before the second try; each that follows is twice as long.
const BACK_OFF: Duration = Duration::from_millis(50);

/// No time at all would be read as no limit.
const SHORTEST: Duration = Duration::from_millis(1);

/// What every clone of an engine shares.
#[derive(Debug)]
pub(crate) struct Inner {
    // In this order, so that workers end before the launcher that holds them.
    pub(crate) sessions: Sessions,
    pub(crate) warm: Mutex<Option<Arc<Warm>>>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) interceptor: Interceptor,
    pub(crate) redact_output: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) admission: Admission,
    pub(crate) code: CodePolicy,
    pub(crate) command: Policy,
    pub(crate) place: Place,
    pub(crate) n_parallel: usize,
    pub(crate) launcher: Arc<Launcher>,
}

/// Warm workers and what they were made with.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) pool: Pool,
    pub(crate) fence: CodeFence,
}

/// What a run is known by, where it is written down, and who may end it.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub(crate) run_id: RunId,
    /// Whoever starts anything has its beginning written first.
    pub(crate) record: &'a Begun<'a>,
    pub(crate) cancel: &'a Cancel,
}

/// A call that has ended.
pub(crate) struct Called {
    pub(crate) run_id: RunId,
    pub(crate) tool: &'static str,
    /// How it ended.
    pub(crate) word: &'static str,
    /// What the log says of it.
    pub(crate) verb: &'static str,
    pub(crate) took: Duration,
    pub(crate) watch: Stopwatch,
}

impl Inner {
    pub(crate) fn code(
        &self,
        client: &str,
        call: &CodeCall,
        about: &About,
        on: On<'_>,
    ) -> Result<Ran, Problem> {
        let run_id = on.run_id;
        let policy = &self.code;
        let About::Code(verdict) = about else {
            return Err(Problem::internal("unscreened", "the program was not screened"));
        };
        let mut job = Job {
            code: call.code.clone().into_bytes(),
            stdin: call.stdin.clone(),
            files: call.files.clone(),
            argv: call.argv.clone(),
            value: true,
            timeout: narrowed(policy.limits.timeout, call.timeout),
            output_bytes_max: policy.limits.output.bytes(),
            ..Job::default()
        };
        if let Some(id) = &call.session {
            let session = self.sessions.find(client, id)?;
            if !job.files.is_empty() {
                return Err(Problem::usage("files_with_session", "a session has files of its own"));
            }
            let mut outcome = if verdict.safe {
                on.record.begin()?;
                self.cell(&session, &mut job, call.so_far.as_ref(), on.cancel)?
            } else {
                self.warm()?.fence.blocked(run_id, verdict)
            };
            outcome.run_id = run_id;
            outcome.session_id = Some(session.id.to_string());
            return Ok(Ran { outcome, files: None });
        }
        if !verdict.safe {
            return Ok(Ran { outcome: self.warm()?.fence.blocked(run_id, verdict), files: None });
        }
        job.so_far = self.looked_at(call.so_far.as_ref(), self.warm()?.fence.ground());
        let (outcome, files) = retried(
            || self.give_up_workers(),
            || {
                let warm = self.warm()?;
                // A worker makes the program ready while its beginning is written down.
                let unwritten = std::cell::Cell::new(None);
                let begin = || on.record.begin().inspect_err(|e| unwritten.set(Some(e.clone())));
                let cancel = Some(on.cancel.as_fd());
                let done =
                    warm.fence.run_screened(run_id, &warm.pool, &job, cancel, Some(Permit(&begin)));
                // Not the workers' fault, and no better with others.
                unwritten.take().map_or(Ok(done), Err)
            },
        )?;
        Ok(Ran { outcome, files })
    }

    /// A program's output is shown before its end as it is after.
    fn looked_at(&self, so_far: Option<&SoFar>, ground: &Ground) -> Option<ringfence_jail::SoFar> {
        so_far.map(|so_far| so_far.begin(ground.scrub().clone(), self.redact_output))
    }

    /// A cell of a session, whose REPL is started if it is not there.
    fn cell(
        &self,
        session: &Session,
        job: &mut Job,
        so_far: Option<&SoFar>,
        cancel: &Cancel,
    ) -> Result<Outcome, Problem> {
        session.bytes_left()?;
        let (n_cells, bytes_max) = {
            let state = session.state();
            (state.n_cells, state.quota_bytes)
        };
        let quota = Quota { files: session.files()?, bytes_max, closed: Some(session.is_closed()) };
        let mut live = session.live.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_closed().load(Ordering::SeqCst) {
            // While this cell waited for its turn.
            return Err(unknown());
        }
        let woke = live.is_none() && n_cells > 0;
        if live.is_none() {
            let workspace = session.host_workspace()?;
            *live = Some(Live::start(&self.launcher, &self.code, &self.place, workspace)?);
        }
        let Some(repl) = &mut *live else {
            return Err(Problem::internal("repl", "the session has no REPL"));
        };
        job.name = Some(format!("cell {}", n_cells + 1));
        job.so_far = self.looked_at(so_far, repl.ground());
        let cell = repl.cell(job, cancel.as_fd(), &quota);
        if cell.is_err() {
            // What cannot be talked to is given up; the next cell starts anew.
            *live = None;
        }
        drop(live);
        self.sessions.change(session, |state| state.n_cells += 1)?;
        let mut outcome = cell?;
        if woke && outcome.error.is_none() {
            let message = "the session had been at rest: its files are there, the variables of earlier cells are gone";
            let hint = "define again what this session's code needs".to_owned();
            outcome.error = Some(info("session_woke", message, Some(hint)));
        }
        Ok(outcome)
    }

    pub(crate) fn command(
        &self,
        client: &str,
        call: &CommandCall,
        on: On<'_>,
    ) -> Result<Outcome, Problem> {
        on.record.begin()?;
        if call.argv.is_empty() {
            return Err(Problem::usage("no_command", "there is no command to run"));
        }
        let mut policy = self.command.clone();
        policy.limits.timeout = narrowed(policy.limits.timeout, call.timeout)
            .and_then(|t| Span::from_millis(u64::try_from(t.as_millis()).ok()?));
        let session =
            call.session.as_deref().map(|id| self.sessions.find(client, id)).transpose()?;
        if let Some(session) = &session {
            // Host tools, the session's files, and nothing of whoever runs the engine.
            policy.preset = CommandPreset::Readonly;
            let left = session.bytes_left()?;
            policy.limits.disk = Some(policy.limits.disk.map_or(left, |disk| disk.min(left)));
        }
        let mut fence = Fence::new(&policy, &self.place, call.argv.clone(), Io::Capture)?;
        if let Some(session) = &session {
            fence = fence.in_session(session.host_workspace()?);
        }
        let so_far = call.so_far.as_ref();
        let so_far = so_far.map(|so_far| so_far.begin(Scrub::default(), self.redact_output));
        let (plan, finished) =
            fence.run_by(&self.launcher, &call.stdin, on.cancel.as_fd(), so_far.as_ref())?;
        let cancelled = finished.stopped == Some(ringfence_jail::StopReason::Caller(9));
        // Commands see the host's own paths, so there is none to hide.
        let mut outcome = command::outcome(on.run_id, &plan, finished, &Scrub::default());
        if cancelled {
            outcome.status = Status::Killed;
            outcome.error = Some(info("cancelled", "the run was cancelled", None));
        }
        outcome.session_id = session.map(|session| session.id.to_string());
        Ok(outcome)
    }

    /// What every call ends with, once it is written down: numbers, a line of the log, its trace, and a look at it.
    pub(crate) fn tell(&self, called: Called, seen: Seen) {
        let Called { run_id, tool, word, verb, took, watch } = called;
        self.metrics.count(tool, word, took);
        tracing::info!(
            %run_id, tool, client = seen.client, session = seen.session,
            status = word, took_ms = crate::text::millis(took), "{verb}"
        );
        let who = || (seen.client.clone(), seen.session.clone());
        self.interceptor.trace(|| watch.stop(run_id, tool, word, who()));
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let seen = Seen { at_ms: self.clock.now_ms(), duration_ms, ..seen };
        self.interceptor.notice(&self.recorder, &seen);
    }

    /// The workers of the policy, started when they are first needed.
    pub(crate) fn warm(&self) -> Result<Arc<Warm>, Problem> {
        let mut slot = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warm) = &*slot {
            return Ok(Arc::clone(warm));
        }
        let how = Use::Often { n_parallel: self.n_parallel };
        let fence = CodeFence::new(&self.code, &self.place, how)?;
        let pool = fence.pool(&self.launcher, self.n_parallel)?;
        let warm = Arc::new(Warm { pool, fence });
        *slot = Some(Arc::clone(&warm));
        Ok(warm)
    }

    /// The next run has workers made anew.
    fn give_up_workers(&self) {
        *self.warm.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes down that a session ended, and archives its rows.
    pub(crate) fn forget(&self, id: &str, event: &str, owner: &str) -> Result<(), Problem> {
        self.recorder.note(&Entry::session_event(id, event).client(owner))?;
        if let Some(ledger) = self.recorder.ledger() {
            ledger.archive_session(id)?;
        }
        Ok(())
    }
}

/// A client may have less time than the policy gives, never more.
fn narrowed(policy: Option<Span>, asked: Option<Duration>) -> Option<Duration> {
    let policy = policy.map(|span| Duration::from_millis(span.millis()));
    match (policy, asked) {
        (Some(policy), Some(asked)) => Some(policy.min(asked).max(SHORTEST)),
        (policy, asked) => policy.or(asked.map(|asked| asked.max(SHORTEST))),
    }
}

/// Tries again what failed on our side, after doing something about it.
fn retried<T>(
    mend: impl Fn(),
    mut work: impl FnMut() -> Result<(Outcome, T), Problem>,
) -> Result<(Outcome, T), Problem> {
    let mut wait = BACK_OFF;
    for _ in 1..TRIES_MAX {
        let done = work()?;
        if done.0.status != Status::Failed {
            return Ok(done);
        }
        mend();
        std::thread::sleep(wait);
        wait *= 2;
    }
    work()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often something with these statuses, one after the other, is tried and mended; and what comes of it.
    fn tried(statuses: &[Status]) -> (usize, usize, Status) {
        let (n_tried, n_mended) = (Cell::new(0), Cell::new(0));
        let mend = || n_mended.set(n_mended.get() + 1);
        let done = retried(mend, || {
            let status = statuses[n_tried.get()];
            n_tried.set(n_tried.get() + 1);
            let problem = Problem::internal("x", "x");
            Ok((Outcome::not_started(crate::ids::some_id(), status, &problem), ()))
        });
        (n_tried.get(), n_mended.get(), done.unwrap().0.status)
    }

    #[test]
    fn our_own_failures_are_tried_again_and_nothing_else_is() {
        use Status::{Blocked, Error, Failed, Killed, Memory, Ok, Timeout};
        for status in [Ok, Error, Timeout, Memory, Killed, Blocked] {
            assert_eq!(tried(&[status]), (1, 0, status));
        }
        assert_eq!(tried(&[Failed, Ok]), (2, 1, Ok));
        assert_eq!(tried(&[Failed, Timeout]), (2, 1, Timeout));
        assert_eq!(tried(&[Failed, Failed, Ok]), (3, 2, Ok));
        assert_eq!(tried(&[Failed; 3]), (3, 2, Failed));
    }
}

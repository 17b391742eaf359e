//! Launches the run of a call: a program in a worker, in an interpreter of its own or as a cell of a session, or a command.

use std::os::fd::AsFd as _;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ringfence_jail::Permit;
use ringfence_python::Job;
use ringfence_screen::scrub::Scrub;
use ringfence_spec::{Code, CommandPreset, Policy, Problem, Span, Status};

use super::{CallContext, EngineState, Launch, Redaction, ReplLaunch, RunCall};
use crate::cancel::Cancel;
use crate::code::{OneShotRunner, PythonContext};
use crate::command::{self, CommandLaunch, CommandRunner, Io};
use crate::command_hint;
use crate::engine::{CodeCall, CommandCall, RunResult};
use crate::intercept::Subject;
use crate::launched::CommandInput;
use crate::partial_output::PartialOutput;
use crate::remarks::with_plain_cause;
use crate::services::Services;
use crate::sessions::{Quota, Session, SessionId, SessionInterpreter, SessionRun};
use crate::text::info;
use crate::verdict::Kind;

/// Attempts when our own side fails; never for a program's own failure.
const TRIES_MAX: u32 = 3;

/// Pause before the second attempt; each that follows is twice as long.
const BACK_OFF: Duration = Duration::from_millis(50);

/// Shortest timeout: zero would be read as no limit.
const SHORTEST: Duration = Duration::from_millis(1);

impl EngineState {
    pub(super) fn launch(
        &self,
        context: CallContext<'_>,
        call: RunCall<'_>,
        about: &Subject,
        launch: Launch<'_>,
    ) -> Result<RunResult, Problem> {
        match (call, launch) {
            (RunCall::Code(call), launch) => self.code(context, call, about, launch),
            (RunCall::Command(call), launch) => self.command(context, call, launch),
        }
    }

    fn code(
        &self,
        context: CallContext<'_>,
        call: &CodeCall,
        about: &Subject,
        launch: Launch<'_>,
    ) -> Result<RunResult, Problem> {
        let CallContext { run_id, client, record } = context;
        let policy = &self.code;
        let Subject::Code(verdict) = about else {
            return Err(Problem::internal(Code::Unscreened, "the program was not screened"));
        };
        let mut job = Job {
            code: call.code.clone(),
            name: call.name.clone(),
            stdin: call.stdin.clone(),
            files: call.files.clone(),
            argv: call.argv.clone(),
            value: true,
            own_modules: policy.rules.preset.has_own_modules(),
            timeout: narrowed(policy.limits.timeout, call.timeout),
            output_bytes_max: policy.limits.output.bytes(),
            ..Job::default()
        };
        let blocked = RunResult::of;
        match launch {
            Launch::Foreground { prefork, io, .. } => {
                let io = self.redacted(io);
                let session =
                    call.session.as_ref().map(|id| self.sessions_unswept()?.find(client, id));
                let session = session.transpose()?;
                if session.is_some() && !job.files.is_empty() {
                    return Err(files_with_session());
                }
                let run =
                    session.as_ref().map(|session| self.sessions_unswept()?.begin_run(session));
                let _run = run.transpose()?;
                let mut policy = policy.clone();
                if let Some(session) = &session {
                    let left = session.bytes_left()?;
                    policy.limits.disk = Some(policy.limits.disk.map_or(left, |d| d.min(left)));
                }
                let workspace = session.as_ref().map(|session| session.host_workspace());
                let workspace = workspace.transpose()?;
                let hook = self.plan_hook.as_ref();
                let runner = OneShotRunner::new(&policy, &self.host, io, workspace, hook)?;
                if !verdict.safe {
                    return Ok(blocked(runner.blocked(run_id, verdict)));
                }
                let permit = Permit(&|| record.begin());
                let (mut outcome, files) = runner.run(run_id, &job, prefork, permit)?;
                outcome.session_id = session.as_ref().map(|session| session.id.to_string());
                Ok(RunResult { files, ..RunResult::of(outcome) })
            }
            Launch::Repl(ReplLaunch { live, quota, cancel }) => {
                if !verdict.safe {
                    return Ok(blocked(live.runner().blocked(run_id, verdict)));
                }
                let session = call.session.as_ref().map(|id| self.sessions()?.find(client, id));
                let session = session.transpose()?;
                let run = session.as_ref().map(|session| self.sessions()?.begin_run(session));
                let _run = run.transpose()?;
                let quota = quota.map(|quota| quota.for_the_next_run(policy.limits.disk));
                let mut quota = quota.transpose()?;
                if let Some(session) = &session {
                    quota = quota.map(|quota| quota.while_open(session.is_closed()));
                    let services =
                        Services::new(self.weak_self.clone(), Arc::clone(session), client);
                    job.broker = Some(Arc::new(services));
                }
                let _changing = session.as_ref().map(|session| session.changes().during());
                record.begin()?;
                let (mut outcome, files) = live.cell(&job, cancel, quota.as_ref())?;
                outcome.run_id = run_id;
                outcome.session_id = call.session.as_ref().map(SessionId::to_string);
                Ok(RunResult { files: Some(files), ..RunResult::of(outcome) })
            }
            Launch::Service { cancel } => {
                if let Some(id) = &call.session {
                    let session = self.sessions()?.find(client, id)?;
                    if !job.files.is_empty() {
                        return Err(files_with_session());
                    }
                    let mut ran = if verdict.safe {
                        record.begin()?;
                        let services =
                            Services::new(self.weak_self.clone(), Arc::clone(&session), client);
                        job.broker = Some(Arc::new(services));
                        let _changing = session.changes().during();
                        self.cell(&session, &mut job, call.partial_output.as_ref(), cancel)?
                    } else {
                        blocked(self.warm()?.runner.blocked(run_id, verdict))
                    };
                    ran.outcome.run_id = run_id;
                    ran.outcome.session_id = Some(session.id.to_string());
                    return Ok(ran);
                }
                // An interpreter that a run could have changed is not kept warm: it runs one program at a time.
                let is_written = || {
                    let warm = self.warm().err();
                    warm.is_some_and(|problem| problem.code == Code::PythonWrittenByRuns)
                };
                if policy.processes.is_some() || is_written() {
                    return self.code_in_own_interpreter(context, call, &job, verdict, cancel);
                }
                if !verdict.safe {
                    return Ok(blocked(self.warm()?.runner.blocked(run_id, verdict)));
                }
                job.output =
                    self.partial(call.partial_output.as_ref(), self.warm()?.runner.context());
                retried(
                    || self.give_up_workers(),
                    || {
                        let warm = self.warm()?;
                        // A worker makes the program ready while its start is recorded, and need not wait for that without a
                        // ledger.
                        let unwritten = std::cell::Cell::new(None);
                        let begin =
                            || record.begin().inspect_err(|e| unwritten.set(Some(e.clone())));
                        let cancel = Some(cancel.as_fd());
                        let permit = record.is_recorded().then_some(Permit(&begin));
                        let done = warm.runner.run(run_id, &warm.pool, &job, cancel, permit);
                        // Not the workers' fault, and no better with others.
                        unwritten.take().map_or(Ok(done), Err)
                    },
                )
            }
        }
    }

    /// Runs a program in an interpreter of its own. One that may have child processes: a warm worker is one process in the
    /// cgroup of all, whose limits do not hold for a tree. And one of an interpreter that cannot be kept warm.
    fn code_in_own_interpreter(
        &self,
        context: CallContext<'_>,
        call: &CodeCall,
        job: &Job,
        verdict: &ringfence_screen::ScreenVerdict,
        cancel: &Cancel,
    ) -> Result<RunResult, Problem> {
        let CallContext { run_id, record, .. } = context;
        let mut policy = self.code.clone();
        policy.limits.timeout =
            job.timeout.and_then(|t| Span::from_millis(u64::try_from(t.as_millis()).ok()?.max(1)));
        let hook = self.plan_hook.as_ref();
        let runner = OneShotRunner::new(&policy, &self.host, Io::Capture, None, hook)?;
        if !verdict.safe {
            return Ok(RunResult::of(runner.blocked(run_id, verdict)));
        }
        record.begin()?;
        let partial_output = self.partial(call.partial_output.as_ref(), runner.context());
        let given = CommandInput {
            stdin: &job.stdin,
            output_bytes_max: job.output_bytes_max,
            cancel: &[cancel.as_fd()],
            partial_output: partial_output.as_ref(),
        };
        let (outcome, files) = runner.run_launched(run_id, job, self.launcher()?, given)?;
        Ok(RunResult { files, ..RunResult::of(outcome) })
    }

    /// Takes secrets out of output that passes through, where they are taken out of answers. A terminal is not a stream
    /// of text: what is on it depends on where the cursor is.
    fn redacted(&self, io: Io) -> Io {
        match (self.redaction, io) {
            (Redaction::Answers, Io::Passthrough) => Io::Redacted,
            (_, io) => io,
        }
    }

    /// Shows a program's output before its end as it is shown after.
    fn partial(
        &self,
        partial_output: Option<&PartialOutput>,
        python: &PythonContext,
    ) -> Option<ringfence_jail::OutputBuffer> {
        partial_output
            .map(|partial_output| partial_output.begin(python.scrub().clone(), self.redaction))
    }

    /// Runs a cell of a session, whose REPL is started if it is not there.
    fn cell(
        &self,
        session: &Session,
        job: &mut Job,
        partial_output: Option<&PartialOutput>,
        cancel: &Cancel,
    ) -> Result<RunResult, Problem> {
        let left = session.bytes_left()?;
        let (n_cells, bytes_max) = {
            let state = session.state();
            (state.n_cells, state.quota_bytes)
        };
        let quota = Quota::new(session.files()?, bytes_max)
            .for_a_run(bytes_max - left.bytes(), self.code.limits.disk)
            .while_open(session.is_closed());
        let mut live = session.live.lock().unwrap_or_else(PoisonError::into_inner);
        // Fails if the session was closed while this cell waited for its turn.
        let _run = self.sessions()?.begin_run(session)?;
        let woke = live.is_none() && n_cells > 0;
        // Taken out: what cannot be talked to any more, or panics meanwhile, is given up, and the next cell starts anew.
        let mut repl = if let Some(repl) = live.take() {
            repl
        } else {
            for rested in self.sessions()?.make_room_for(session) {
                self.note_dormant(&rested)?;
            }
            let workspace = session.host_workspace()?;
            SessionInterpreter::start(self.launcher()?, &self.code, &self.host, Some(workspace))?
        };
        job.name = Some(format!("cell {}", n_cells + 1));
        job.output = self.partial(partial_output, repl.context());
        let cell = repl.cell(job, cancel.as_fd(), Some(&quota));
        if cell.is_ok() {
            *live = Some(repl);
        }
        drop(live);
        self.sessions()?.change_soon(session, |state| state.n_cells += 1)?;
        let (mut outcome, files) = cell?;
        if woke && outcome.error.is_none() {
            let message = "the session had been at rest: its files are there, the variables of earlier cells are gone";
            let hint = "define again what this session's code needs".to_owned();
            outcome.error = Some(info(Code::SessionWoke, message, Some(hint.into())));
        }
        Ok(RunResult { files: Some(files), ..RunResult::of(outcome) })
    }

    fn command(
        &self,
        context: CallContext<'_>,
        call: &CommandCall,
        launch: Launch<'_>,
    ) -> Result<RunResult, Problem> {
        let CallContext { run_id, client, record } = context;
        if call.argv.is_empty() {
            return Err(Problem::usage(Code::NoCommand, "there is no command to run"));
        }
        let mut policy = self.command.clone();
        policy.limits.timeout = narrowed(policy.limits.timeout, call.timeout)
            .and_then(|t| Span::from_millis(u64::try_from(t.as_millis()).ok()?));
        let sessions = || match &launch {
            Launch::Foreground { .. } => self.sessions_unswept(),
            Launch::Service { .. } | Launch::Repl(_) => self.sessions(),
        };
        let session = call.session.as_ref().map(|id| sessions()?.find(client, id));
        let session = session.transpose()?;
        let run = session.as_ref().map(|session| sessions()?.begin_run(session));
        let run = run.transpose()?;
        let ignored = session.as_ref().map(|session| work_in(&mut policy, session)).transpose()?;
        let io = match &launch {
            Launch::Foreground { io, .. } => self.redacted(*io),
            Launch::Service { .. } | Launch::Repl(_) => Io::Capture,
        };
        let mut runner = CommandRunner::new(&policy, &self.host, run_id, call.words(), io)
            .with_credentials(&self.host)?
            .with_hook(self.plan_hook.as_ref());
        if let Some(session) = &session {
            runner = runner.in_session(session.host_workspace()?);
        }
        let _changing = session.as_ref().map(|session| session.changes().during());
        let ran = match launch {
            Launch::Foreground { prefork, warn, .. } => {
                let permit = Permit(&|| record.begin());
                runner.run(CommandLaunch::Foreground { prefork, permit, warn })
            }
            Launch::Service { cancel } => {
                record.begin()?;
                let partial_output = call.partial_output.as_ref();
                let partial_output = partial_output
                    .map(|partial_output| partial_output.begin(Scrub::default(), self.redaction));
                let mut cancels = vec![cancel.as_fd()];
                cancels.extend(run.as_ref().map(SessionRun::closed));
                let given = CommandInput {
                    stdin: &call.stdin,
                    output_bytes_max: policy.limits.output.bytes(),
                    cancel: &cancels,
                    partial_output: partial_output.as_ref(),
                };
                runner.run(CommandLaunch::Launcher { launcher: self.launcher()?, given })
            }
            Launch::Repl(_) => {
                return Err(Problem::internal(Code::Repl, "a REPL runs Python, not commands"));
            }
        };
        let (plan, finished) = ran.map_err(|problem| {
            let command = &call.argv[0];
            // A path in a session is not one of the host's.
            if session.is_some() && command.as_encoded_bytes().contains(&b'/') {
                return with_plain_cause(problem);
            }
            command_hint::explain(problem, command, &self.host, &policy.hide)
        })?;
        let gaps_after = finished.gaps.clone();
        // Commands see the host's own paths, so there is none to hide.
        let mut outcome =
            command::outcome(run_id, &plan, finished, Kind::Command, &Scrub::default());
        outcome.session_id = session.as_ref().map(|session| session.id.to_string());
        outcome.notes.extend(ignored.flatten());
        Ok(RunResult { gaps_after, ..RunResult::of(outcome) })
    }
}

fn files_with_session() -> Problem {
    Problem::usage(Code::FilesWithSession, "a session has files of its own")
}

/// Gives a command a session's files instead of the working directory: host tools, those files, and nothing of the user
/// that runs the engine. Returns a note on what of the policy does not hold there.
pub(super) fn work_in(policy: &mut Policy, session: &Session) -> Result<Option<String>, Problem> {
    let rw = std::mem::take(&mut policy.rw);
    policy.preset = CommandPreset::Readonly;
    let left = session.bytes_left()?;
    policy.limits.disk = Some(policy.limits.disk.map_or(left, |disk| disk.min(left)));
    let note =
        "`rw` is for commands without a session: in a session only /workspace can be written";
    Ok((!rw.is_empty()).then(|| note.to_owned()))
}

/// A client may have less time than the policy gives, never more.
fn narrowed(policy: Option<Span>, asked: Option<Duration>) -> Option<Duration> {
    let policy = policy.map(Span::duration);
    match (policy, asked) {
        (Some(policy), Some(asked)) => Some(policy.min(asked).max(SHORTEST)),
        (policy, asked) => policy.or(asked.map(|asked| asked.max(SHORTEST))),
    }
}

/// Tries again what failed on our side, after doing something about it.
fn retried(
    mend: impl Fn(),
    mut work: impl FnMut() -> Result<RunResult, Problem>,
) -> Result<RunResult, Problem> {
    let mut wait = BACK_OFF;
    for _ in 1..TRIES_MAX {
        let done = work()?;
        if done.outcome.status != Status::Failed {
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

    use ringfence_spec::Outcome;

    use super::*;

    /// Number of attempts and repairs for these statuses, one after the other, and the result.
    fn tried(statuses: &[Status]) -> (usize, usize, Status) {
        let (n_tried, n_mended) = (Cell::new(0), Cell::new(0));
        let mend = || n_mended.set(n_mended.get() + 1);
        let done = retried(mend, || {
            let status = statuses[n_tried.get()];
            n_tried.set(n_tried.get() + 1);
            let problem = Problem::internal(Code::Internal, "x");
            Ok(RunResult::of(Outcome::not_started(crate::ids::some_id(), status, &problem)))
        });
        (n_tried.get(), n_mended.get(), done.unwrap().outcome.status)
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

//! Pipeline of every run, on the calling thread: inspect, record the start, launch, redact, record the end, observe. Callers
//! choose the [`Launch`] and nothing else.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use ringfence_audit::Entry;
use ringfence_jail::Launcher;
use ringfence_plan::Plan;
use ringfence_python::Pool;
use ringfence_spec::{Code, Hint, LimitKind, Outcome, Policy, Problem, RunId, Span, Status};

use crate::admission::{self, Admission, Rejection};
use crate::cancel::Cancel;
use crate::clock::Clock;
use crate::code::{CodePolicy, Mode, OneShotRunner, OutputDir, PooledRunner, copy_out};
use crate::command::{CommandRunner, Io, Prefork};
use crate::engine::{CodeCall, CommandCall, RunResult};
use crate::host_context::HostContext;
use crate::ids::fresh_id;
use crate::intercept::{self, Inspection, Interceptor, Subject};
use crate::metrics::Metrics;
use crate::once::get_or_try_init;
use crate::record::{self, Recorder, StartedCall};
use crate::remarks::Remarks;
use crate::runs::Runs;
use crate::sessions::{
    Quota, SessionId, SessionInterpreter, SessionSettings, Sessions, Swept, SweptSession,
};
use crate::sweeper::Sweeper;
use crate::trace::Stopwatch;
use crate::watch::FinishedCall;

mod launch;

use launch::work_in;

/// A function of a test's. Only [`crate::Builder`] with the feature `test-hooks` sets one.
pub(crate) struct Hook<F: ?Sized>(pub(crate) Box<F>);

/// Changes the plan of a run before it is launched: how tests take one layer away.
pub(crate) type PlanHook = Hook<dyn Fn(&mut Plan) -> Result<(), Problem> + Send + Sync>;

/// Told by every call which stage it has reached, and for which client: how tests panic there.
pub(crate) type StageHook = Hook<dyn Fn(&str, &str) + Send + Sync>;

impl<F: ?Sized> std::fmt::Debug for Hook<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

/// State shared by every clone of an engine.
#[derive(Debug)]
pub(crate) struct EngineState {
    // In this order, so that workers end before the launcher that holds them.
    pub(crate) sessions: OnceLock<Sessions>,
    pub(crate) session_settings: SessionSettings,
    /// Search by meaning, if the operator configured it.
    pub(crate) vectors: Option<crate::vectors::Vectors>,
    pub(crate) warm: Mutex<Option<Arc<Warm>>>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) interceptor: Interceptor,
    pub(crate) redaction: Redaction,
    pub(crate) code_remarks: Remarks,
    pub(crate) command_remarks: Remarks,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) admission: Admission,
    pub(crate) code: CodePolicy,
    pub(crate) command: Policy,
    pub(crate) host: HostContext,
    pub(crate) launcher_program: Option<PathBuf>,
    pub(crate) n_parallel: Option<usize>,
    pub(crate) plan_hook: Option<PlanHook>,
    pub(crate) stage_hook: Option<StageHook>,
    pub(crate) runs: Runs,
    pub(crate) sweeper: OnceLock<Sweeper>,
    /// For the thread that sweeps.
    pub(crate) weak_self: Weak<EngineState>,
    pub(crate) launcher: OnceLock<Arc<Launcher>>,
}

/// Redaction of secrets in answers. The ledger is always redacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redaction {
    /// Answers are as the program wrote them.
    #[default]
    LedgerOnly,
    /// Answers and output that passes through are redacted as the ledger is. Cannot reach a terminal of the run's own.
    Answers,
}

/// Warm workers and what they were made with.
#[derive(Debug)]
pub(crate) struct Warm {
    pub(crate) pool: Pool,
    pub(crate) runner: PooledRunner,
}

/// A run that a client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunCall<'a> {
    /// A Python program.
    Code(&'a CodeCall),
    /// A command.
    Command(&'a CommandCall),
}

/// Launch mode of a run.
pub(crate) enum Launch<'a> {
    /// In the service of many: a program in a warm worker or as a cell of its session, a command by the launcher. Ended when
    /// `cancel` becomes readable.
    Service { cancel: &'a Cancel },
    /// As a child of this process, which has one thread and waits for it.
    Foreground { prefork: Prefork, io: Io, warn: &'a dyn Fn(&str) },
    /// As a cell of an interpreter that the caller holds.
    Repl(ReplLaunch<'a>),
}

/// An interpreter that the caller holds, the quota of the files it works on, and what ends a cell.
pub(crate) struct ReplLaunch<'a> {
    pub(crate) live: &'a mut SessionInterpreter,
    pub(crate) quota: Option<&'a Quota<'a>>,
    pub(crate) cancel: BorrowedFd<'a>,
}

/// A call that was admitted.
pub(crate) struct Admitted {
    pub(crate) run_id: RunId,
    pub(crate) entry: Entry,
    pub(crate) permit: admission::Permit,
    pub(crate) watch: Stopwatch,
}

/// One run on its way: its id, its client, and its rows in the ledger.
#[derive(Clone, Copy)]
struct CallContext<'a> {
    run_id: RunId,
    client: &'a str,
    /// Nothing is started before its start is recorded.
    record: &'a StartedCall<'a>,
}

/// A call that has ended, for metrics, the log and traces.
pub(crate) struct CallRecord {
    pub(crate) run_id: RunId,
    pub(crate) tool: &'static str,
    pub(crate) status: &'static str,
    /// `ran` or `called`, for the log.
    pub(crate) verb: &'static str,
    pub(crate) took: Duration,
    pub(crate) watch: Stopwatch,
}

impl RunCall<'_> {
    /// The name that rules and the ledger know it by, where its caller gives it none.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Code(_) => "execute_code",
            Self::Command(_) => "run_command",
        }
    }

    fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Code(call) => call.session.as_ref(),
            Self::Command(call) => call.session.as_ref(),
        }
    }

    fn run_id(&self) -> Option<RunId> {
        match self {
            Self::Code(call) => call.run_id,
            Self::Command(call) => call.run_id,
        }
    }

    fn entry(&self, run_id: RunId, client: &str, tool: &'static str) -> Entry {
        let entry = Entry::run_start(run_id).client(client).tool(tool);
        let entry = match self {
            Self::Code(CodeCall { name: Some(name), argv, code, .. }) => {
                let words = std::iter::once(name).chain(argv).map(String::as_str);
                entry.code(code).arguments(words.collect::<Vec<_>>().join(" "))
            }
            Self::Code(call) => entry.code(&call.code),
            Self::Command(call) => {
                let place = call.cwd.as_ref().map(|cwd| format!(" (in {cwd})")).unwrap_or_default();
                entry.arguments(words(call).join(" ") + &place)
            }
        };
        in_session(entry, self.session())
    }
}

/// Adds the session that a call names. Anything else than an id is the client's own text, and no part of a row or an alert.
pub(crate) fn in_session(entry: Entry, session: Option<&SessionId>) -> Entry {
    match session.filter(|id| id.is_well_formed()) {
        Some(id) => entry.session(id.as_str()),
        None => entry,
    }
}

fn words(call: &CommandCall) -> Vec<String> {
    call.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

impl EngineState {
    /// The sessions of the data directory, opened when one is first asked for.
    pub(crate) fn sessions(&self) -> Result<&Sessions, Problem> {
        let sessions = self.sessions_unswept()?;
        get_or_try_init(&self.sweeper, || Sweeper::start(self.weak_self.clone()))?;
        Ok(sessions)
    }

    /// The sessions of the data directory for a run in the foreground, which must find one thread: nothing sweeps them.
    fn sessions_unswept(&self) -> Result<&Sessions, Problem> {
        get_or_try_init(&self.sessions, || {
            Sessions::open(&self.host.state, self.session_settings, Arc::clone(&self.clock))
        })
    }

    /// Number of sessions open in this process.
    pub(crate) fn n_sessions_open(&self) -> usize {
        self.sessions.get().map_or(0, Sessions::n_open)
    }

    /// The process that launches runs, started when it is first needed.
    pub(crate) fn launcher(&self) -> Result<&Arc<Launcher>, Problem> {
        get_or_try_init(&self.launcher, || {
            let launcher = match &self.launcher_program {
                Some(program) => Launcher::execute(program),
                None if crate::init::is_done() => Launcher::execute(Path::new("/proc/self/exe")),
                None => Launcher::start(),
            };
            launcher.map(Arc::new)
        })
    }

    /// Admits a run at once or rejects it; a rejection is recorded.
    pub(crate) fn admit_now(
        &self,
        client: &str,
        tool: &'static str,
        call: RunCall<'_>,
    ) -> Result<Admitted, Box<Outcome>> {
        let (run_id, entry, mut watch) = Self::begin_admission(client, tool, call)?;
        match self.admission.admit_now(client) {
            Ok(permit) => {
                watch.part("admit");
                Ok(Admitted { run_id, entry, permit, watch })
            }
            Err(rejection) => Err(self.reject(run_id, &entry, &rejection)),
        }
    }

    /// A run's id and its first row.
    pub(crate) fn begin_admission(
        client: &str,
        tool: &'static str,
        call: RunCall<'_>,
    ) -> Result<(RunId, Entry, Stopwatch), Box<Outcome>> {
        let watch = Stopwatch::start();
        let run_id = call
            .run_id()
            .map_or_else(fresh_id, Ok)
            .map_err(|problem| failed(crate::ids::some_id(), &problem))?;
        Ok((run_id, call.entry(run_id, client, tool), watch))
    }

    /// The outcome of a run that was not admitted, recorded.
    pub(crate) fn reject(
        &self,
        run_id: RunId,
        entry: &Entry,
        rejection: &Rejection,
    ) -> Box<Outcome> {
        let outcome = Outcome::not_started(run_id, Status::Rejected, &rejection.problem());
        match self.recorder.note(&entry.ended(&outcome)) {
            Ok(()) => Box::new(outcome),
            Err(problem) => failed(run_id, &problem),
        }
    }

    /// Runs an admitted call to its end. A panic is this call's alone: it answers `failed` with the code `internal`.
    pub(crate) fn run(
        &self,
        admitted: Admitted,
        client: &str,
        call: RunCall<'_>,
        launch: Launch<'_>,
    ) -> RunResult {
        let run_id = admitted.run_id;
        guarded(|| self.run_stages(admitted, client, call, launch))
            .unwrap_or_else(|problem| RunResult::not_started(run_id, problem))
    }

    fn run_stages(
        &self,
        admitted: Admitted,
        client: &str,
        call: RunCall<'_>,
        launch: Launch<'_>,
    ) -> RunResult {
        let Admitted { run_id, entry, mut permit, mut watch } = admitted;
        let began = Instant::now();
        let tool = call.tool();
        // Without rules, a run in the foreground is rated after its end: the rating is only for the record.
        let rate_later =
            matches!(launch, Launch::Foreground { .. }) && self.interceptor.has_no_rules();
        let inspected = guarded(|| {
            self.stage("inspect", client);
            let about = self.subject_of(call);
            let judged = (!rate_later).then(|| self.interceptor.judge(tool, &about));
            (about, judged)
        });
        let (about, judged) = inspected.unwrap_or_else(|problem| {
            (Subject::Nothing, Some(Inspection::refused("the inspection failed", problem)))
        });
        let mut begun = self.recorder.prepare(match &judged {
            Some(judged) => judged.noted(entry.clone()),
            None => entry.clone(),
        });
        watch.part("screen");
        let refusal = judged.as_ref().and_then(|judged| judged.refusal.clone());
        let done = if let Some(problem) = refusal {
            Err(problem)
        } else {
            let context = CallContext { run_id, client, record: &begun };
            guarded(|| self.launch_and_collect(context, call, &about, launch)).unwrap_or_else(Err)
        };
        let mut ran = done.unwrap_or_else(|problem| RunResult::not_started(run_id, problem));
        watch.part("run");
        let judged = judged.map_or_else(|| guarded(|| self.interceptor.judge(tool, &about)), Ok);
        let judged = judged.unwrap_or_else(|problem| Inspection::refused("not rated", problem));
        begun.detail(|entry| judged.noted(entry));
        self.stage("record", client);
        begun.end(&mut ran.outcome);
        watch.part("record");
        permit.judge((&ran.outcome).into());
        let seen = intercept::seen(tool, &entry, &judged);
        // The call is done and recorded: what goes wrong in watching it is not the client's.
        let _ = guarded(|| {
            self.stage("observe", client);
            self.observe(
                CallRecord {
                    run_id,
                    tool,
                    status: ran.outcome.status.name(),
                    verb: "ran",
                    took: began.elapsed(),
                    watch,
                },
                // Written out: a new field is decided about here.
                FinishedCall {
                    at_ms: seen.at_ms,
                    client: seen.client,
                    session: seen.session,
                    tool: seen.tool,
                    status: ran.outcome.status,
                    duration_ms: seen.duration_ms,
                    code_sha256: seen.code_sha256,
                    bytes_read: seen.bytes_read,
                    n_violations: u32::try_from(ran.outcome.denials.len()).unwrap_or(u32::MAX),
                    n_misplaced_secrets: misplaced_secrets(&ran.outcome),
                    traversal: seen.traversal,
                },
            );
        });
        // Last: from here on its worker is replaced, which would take a processor from this thread.
        drop(ran.slot.take());
        ran
    }

    fn launch_and_collect(
        &self,
        context: CallContext<'_>,
        call: RunCall<'_>,
        about: &Subject,
        launch: Launch<'_>,
    ) -> Result<RunResult, Problem> {
        let client = context.client;
        let output_dir = match call {
            RunCall::Code(CodeCall { artifacts_to: Some(dir), .. }) => {
                Some(OutputDir::open(dir, &self.host)?)
            }
            _ => None,
        };
        self.stage("launch", client);
        let ran = self.launch(context, call, about, launch);
        let partial_output = match call {
            RunCall::Code(call) => call.partial_output.as_ref(),
            RunCall::Command(call) => call.partial_output.as_ref(),
        };
        if let Some(partial_output) = partial_output {
            partial_output.finish();
        }
        let remarks = self.remarks(call);
        let mut ran = ran.map_err(|problem| remarks.explain(problem))?;
        self.stage("collect", client);
        if let Subject::Code(verdict) = about {
            ran.outcome.findings.clone_from(&verdict.findings);
        }
        let (limit, asked) = match call {
            RunCall::Code(call) => (self.code.limits.timeout, call.timeout),
            RunCall::Command(call) => (self.command.limits.timeout, call.timeout),
        };
        if let (Some(limit), Some(asked)) = (limit, asked) {
            tell_limit(&mut ran.outcome, limit, asked, remarks.file_of(LimitKind::Timeout.name()));
        }
        remarks.add_to(&mut ran.outcome);
        if let (RunCall::Code(CodeCall { files: given, .. }), Some(dir), Some(files)) =
            (call, &output_dir, &ran.files)
        {
            copy_out(&mut ran.outcome, files, given, dir, self.code.disk_bytes_max());
        }
        if self.redaction == Redaction::Answers {
            record::redact_outcome(&mut ran.outcome);
        }
        Ok(ran)
    }

    fn remarks(&self, call: RunCall<'_>) -> &Remarks {
        match call {
            RunCall::Code(_) => &self.code_remarks,
            RunCall::Command(_) => &self.command_remarks,
        }
    }

    /// Tells a test which stage a call has reached.
    fn stage(&self, stage: &str, client: &str) {
        if let Some(Hook(reached)) = &self.stage_hook {
            reached(stage, client);
        }
    }

    /// Returns the text that rules and screening inspect.
    fn subject_of(&self, call: RunCall<'_>) -> Subject {
        match call {
            RunCall::Code(call) => Subject::Code(self.code.rules.screen(&call.code)),
            RunCall::Command(call) => {
                // A session's files are mounted there; other commands work where the caller is.
                let start = match call.session {
                    Some(_) => Path::new(ringfence_plan::WORKSPACE),
                    None => &self.host.cwd,
                };
                let cwd = call.cwd.as_ref().map_or_else(|| start.to_owned(), |cwd| start.join(cwd));
                let cwd = cwd.to_string_lossy().into_owned();
                Subject::Command { argv: words(call), cwd }
            }
        }
    }

    /// Ends every call once it is recorded: counts it, logs it, traces it, and watches for what is out of the ordinary.
    pub(crate) fn observe(&self, call: CallRecord, seen: FinishedCall) {
        let CallRecord { run_id, tool, status, verb, took, watch } = call;
        self.metrics.count(tool, status, took);
        tracing::info!(
            %run_id, tool, client = seen.client, session = seen.session,
            status, took_ms = crate::text::millis(took), "{verb}"
        );
        let who = || (seen.client.clone(), seen.session.clone());
        self.interceptor.trace(|| watch.stop(run_id, tool, status, who()));
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let seen = FinishedCall { at_ms: self.clock.now_ms(), duration_ms, ..seen };
        self.interceptor.notice(&self.recorder, &seen);
    }

    /// An interpreter that a caller holds, on the files of a session if it names one.
    pub(crate) fn start_repl(
        &self,
        client: &str,
        session: Option<&SessionId>,
    ) -> Result<SessionInterpreter, Problem> {
        let workspace =
            session.map(|id| self.sessions()?.host_workspace(client, id)).transpose()?;
        SessionInterpreter::start(self.launcher()?, &self.code, &self.host, workspace)
    }

    /// The plan of a command, without running it.
    pub(crate) fn explain_command(
        &self,
        client: &str,
        call: &CommandCall,
    ) -> Result<ringfence_plan::Plan, Problem> {
        let mut policy = self.command.clone();
        let session = call.session.as_ref().map(|id| self.sessions_unswept()?.find(client, id));
        let workspace = match session.transpose()? {
            Some(session) => {
                work_in(&mut policy, &session)?;
                Some(session.host_workspace()?)
            }
            None => None,
        };
        let (argv, io) = (call.words(), Io::Passthrough);
        let runner = CommandRunner::new(&policy, &self.host, fresh_id()?, argv, io)
            .with_credentials(&self.host)?;
        let plan = match workspace {
            Some(workspace) => runner.in_session(workspace).explain(),
            None => runner.explain(),
        };
        plan.map_err(|problem| self.command_remarks.explain(problem))
    }

    /// The plans of Python runs, without running anything.
    pub(crate) fn explain_code(&self) -> Result<ringfence_plan::CodePlan, Problem> {
        let mode = Mode::Pool { n_parallel: self.n_parallel() };
        Ok(PooledRunner::new(&self.code, &self.host, mode)?.plan().clone())
    }

    /// The plan of a one-shot program, without running it.
    pub(crate) fn explain_program(&self) -> Result<ringfence_plan::Plan, Problem> {
        let runner = OneShotRunner::new(&self.code, &self.host, Io::Passthrough, None, None)?;
        Ok(runner.plan().clone())
    }

    /// The workers of the policy, started when they are first needed.
    pub(crate) fn warm(&self) -> Result<Arc<Warm>, Problem> {
        let mut slot = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warm) = &*slot {
            return Ok(Arc::clone(warm));
        }
        let n_parallel = self.n_parallel();
        let runner = PooledRunner::new(&self.code, &self.host, Mode::Pool { n_parallel })?;
        let pool = runner.pool(self.launcher()?, n_parallel)?;
        self.recorder.compact_in_background()?;
        let warm = Arc::new(Warm { pool, runner });
        *slot = Some(Arc::clone(&warm));
        Ok(warm)
    }

    /// Starts the workers, or the launcher for an interpreter that a run could have changed, which is not kept warm.
    pub(crate) fn warm_if_possible(&self) -> Result<(), Problem> {
        match self.warm() {
            Err(problem) if problem.code == Code::PythonWrittenByRuns => self.launcher().map(drop),
            warm => warm.map(drop),
        }
    }

    /// Programs that run at once. Counting processors reads files of the cgroup: not for a run that needs no workers.
    fn n_parallel(&self) -> usize {
        self.n_parallel.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        })
    }

    /// Has the next run start workers anew.
    fn give_up_workers(&self) {
        *self.warm.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Ends sessions that have expired, puts idle ones to rest.
    pub(crate) fn sweep(&self) -> Result<Swept, Problem> {
        let swept = self.sessions()?.sweep();
        // Each is recorded, whatever goes wrong with another one.
        let mut recorded = Ok(());
        for SweptSession { id, owner } in &swept.expired {
            recorded = recorded.and(self.forget(id.as_str(), "expired", owner));
        }
        for session in &swept.dormant {
            recorded = recorded.and(self.note_dormant(session));
        }
        recorded.map(|()| swept)
    }

    pub(crate) fn note_dormant(&self, session: &SweptSession) -> Result<(), Problem> {
        let event = Entry::session_event(session.id.as_str(), "dormant").client(&session.owner);
        self.recorder.note(&event)
    }

    /// Records that a session ended, and archives its rows.
    pub(crate) fn forget(&self, id: &str, event: &str, owner: &str) -> Result<(), Problem> {
        self.recorder.note(&Entry::session_event(id, event).client(owner))?;
        if let Some(ledger) = self.recorder.ledger()? {
            ledger.archive_session(id)?;
        }
        Ok(())
    }
}

/// The outcome of a call that failed before it started.
pub(crate) fn failed(run_id: RunId, problem: &Problem) -> Box<Outcome> {
    Box::new(Outcome::not_started(run_id, problem.kind.into(), problem))
}

/// Tells a client how the time that it asked for compares with the operator's limit, or with that of the workspace's file.
fn tell_limit(outcome: &mut Outcome, limit: Span, asked: Duration, file: Option<&str>) {
    match asked.cmp(&limit.duration()) {
        std::cmp::Ordering::Less => {
            outcome.replace_hints(&Hint::Limit(LimitKind::Timeout), &Hint::LongerTime(limit));
        }
        std::cmp::Ordering::Equal => {}
        std::cmp::Ordering::Greater => {
            let whose =
                file.map_or_else(|| "the operator's".to_owned(), |file| format!("`{file}`'s"));
            let asked = asked.as_secs_f64();
            let note = format!("{whose} time limit of {limit} was used: {asked} s is above it");
            outcome.notes.push(note);
        }
    }
}

/// Does some work of one call. A panic in it becomes a problem of that call; the hook of the process has printed it.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Problem> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|_| {
        Problem::internal(
            Code::Internal,
            "the call failed unexpectedly; other calls are not affected",
        )
        .hint("the panic message on stderr says where; please report it")
    })
}

/// Number of connections that carried a secret's placeholder to another host.
fn misplaced_secrets(outcome: &Outcome) -> u32 {
    let carried = |c: &&ringfence_spec::Connection| {
        c.rule.as_deref().is_some_and(|rule| rule.starts_with(ringfence_spec::SECRET_RULE))
    };
    let n: u64 = outcome.connections.iter().filter(carried).map(|c| c.count).sum();
    u32::try_from(n).unwrap_or(u32::MAX)
}

//! The public face of the engine. Each method wraps the one way of a call: for runs in `call.rs`, for sessions and files
//! below.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ringfence_audit::{Entry, RunStatus};
use ringfence_python::Artifacts;
use ringfence_spec::{Outcome, Problem, ProblemKind, RunId};

use crate::admission::{Admission, BreakerVerdict};
use crate::builder::Builder;
use crate::call::{Admitted, CallRecord, EngineState, Launch, RunCall, in_session};
use crate::cancel::{self, Cancel};
use crate::command::{Io, Prefork};
use crate::files::{
    Contents, Deleted, Depth, Entry as FileEntry, GrepQuery, Grepped, Listing, OnConflict, Parents,
    Workspace, WriteOptions, WrittenFile,
};
use crate::ids::fresh_id;
use crate::intercept::{self, Subject};
use crate::metrics::Gauges;
use crate::partial_output::PartialOutput;
use crate::record::{self, Recorder};
use crate::sessions::{SessionId, SessionInfo, SessionOptions, SessionState, Swept};
use crate::trace::Stopwatch;
use crate::watch::FinishedCall;

/// A program of a client's.
#[derive(Clone, Debug, Default)]
pub struct CodeCall {
    /// The source. Bytes, because a file may declare another encoding than UTF-8.
    pub code: Vec<u8>,
    /// The session it is a cell of; without one it runs alone, in a directory of its own.
    pub session: Option<SessionId>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Files in its directory: name below it, content. Not with a session, which has files of its own.
    pub files: Vec<(String, Vec<u8>)>,
    /// `sys.argv` after the first.
    pub argv: Vec<String>,
    /// Less time than the policy gives.
    pub timeout: Option<Duration>,
    /// What the run is to be called, for callers who name it before it ends; fresh, from [`crate::fresh_id`].
    pub run_id: Option<RunId>,
    /// For callers who look at what it writes before it ends.
    pub partial_output: Option<PartialOutput>,
    /// A directory of the host's that its files are copied to.
    pub artifacts_to: Option<PathBuf>,
}

/// A command of a client's.
#[derive(Clone, Debug, Default)]
pub struct CommandCall {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The session whose files it works on; without one, in the engine's working directory.
    pub session: Option<SessionId>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Less time than the policy gives.
    pub timeout: Option<Duration>,
    /// What the run is to be called; see [`CodeCall::run_id`].
    pub run_id: Option<RunId>,
    /// For callers who look at what it writes before it ends.
    pub partial_output: Option<PartialOutput>,
}

/// A run of a client's.
#[derive(Clone, Debug)]
pub enum Call {
    /// A program.
    Code(CodeCall),
    /// A command.
    Command(CommandCall),
}

impl Call {
    fn as_run(&self) -> RunCall<'_> {
        match self {
            Self::Code(call) => RunCall::Code(call),
            Self::Command(call) => RunCall::Command(call),
        }
    }
}

impl From<CodeCall> for Call {
    fn from(call: CodeCall) -> Self {
        Self::Code(call)
    }
}

impl From<CommandCall> for Call {
    fn from(call: CommandCall) -> Self {
        Self::Command(call)
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The answer.
    pub outcome: Outcome,
    /// Files it left, where it had a directory of its own.
    pub files: Option<Artifacts>,
    /// Why it did not start, in full; the outcome has the short form.
    pub problem: Option<Problem>,
    /// Time until the first byte of a program's output, where a warm worker ran it.
    pub first_byte: Option<Duration>,
    /// What could not be made sure of after its end; the receipt has it too.
    pub gaps_after: Vec<String>,
}

impl RunResult {
    pub(crate) fn of(outcome: Outcome) -> Self {
        Self { outcome, files: None, problem: None, first_byte: None, gaps_after: Vec::new() }
    }

    /// A call that was refused before it had an id.
    pub fn refused(problem: Problem) -> Self {
        Self::not_started(crate::ids::some_id(), problem)
    }

    pub(crate) fn not_started(run_id: RunId, problem: Problem) -> Self {
        let outcome = Outcome::not_started(run_id, problem.kind.into(), &problem);
        Self { problem: Some(problem), ..Self::of(outcome) }
    }
}

impl From<Outcome> for RunResult {
    fn from(outcome: Outcome) -> Self {
        Self::of(outcome)
    }
}

/// How a command or program is started as a child of the calling process.
#[derive(Debug)]
pub struct Foreground {
    /// A child that was forked before the command line was read.
    pub prefork: Prefork,
    /// How its input and output are connected.
    pub io: Io,
}

/// Runs what clients ask for. Cheap to clone; dropping the last clone ends every run, thread and process of it.
#[derive(Clone, Debug)]
pub struct Engine {
    // First, so that runs end before what they run in.
    _ends_runs: Arc<EndRuns>,
    pub(crate) state: Arc<EngineState>,
}

/// Ends every run when the last handle of an engine is dropped. The tasks of runs hold the state and not this.
#[derive(Debug)]
struct EndRuns(Arc<EngineState>);

impl Drop for EndRuns {
    fn drop(&mut self) {
        self.0.runs.end(|_| false);
    }
}

impl EngineState {
    /// Runs a call for a client, on a thread that may block. Dropping the future ends the run.
    pub(crate) async fn serve(state: Arc<Self>, client: &str, call: Call) -> RunResult {
        let tool = call.as_run().tool();
        let (run_id, entry, mut watch) = match Self::begin_admission(client, tool, call.as_run()) {
            Ok(begun) => begun,
            Err(outcome) => return RunResult::of(*outcome),
        };
        let permit = match state.admission.admit(client).await {
            Ok(permit) => permit,
            Err(rejection) => {
                let rejected = move || state.reject(run_id, &entry, &rejection);
                return match tokio::task::spawn_blocking(rejected).await {
                    Ok(outcome) => RunResult::of(*outcome),
                    Err(e) => panicked(run_id, &e),
                };
            }
        };
        watch.part("admit");
        let (wanted, cancel) = match cancel::pair() {
            Ok(pair) => pair,
            Err(problem) => return RunResult::not_started(run_id, problem),
        };
        let client = client.to_owned();
        let admitted = Admitted { run_id, entry, permit, watch };
        let ran = tokio::task::spawn_blocking(move || {
            state.run(admitted, &client, call.as_run(), Launch::Service { cancel: &cancel })
        })
        .await;
        drop(wanted);
        ran.unwrap_or_else(|e| panicked(run_id, &e))
    }
}

impl Engine {
    pub(crate) fn new(state: Arc<EngineState>) -> Self {
        Self { _ends_runs: Arc::new(EndRuns(Arc::clone(&state))), state }
    }

    /// Starts with the settings of the command line's defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Runs a program. Dropping the future ends it, and that is recorded too.
    pub async fn execute(&self, client: &str, call: CodeCall) -> RunResult {
        EngineState::serve(Arc::clone(&self.state), client, call.into()).await
    }

    /// Runs a command. Dropping the future ends it, and that is recorded too.
    pub async fn command(&self, client: &str, call: CommandCall) -> RunResult {
        EngineState::serve(Arc::clone(&self.state), client, call.into()).await
    }

    /// Runs a call to its end on the calling thread, as [`Engine::execute`] and [`Engine::command`] do. `tool` names it in
    /// the ledger.
    pub fn run_blocking(
        &self,
        client: &str,
        tool: &'static str,
        call: &Call,
        cancel: &Cancel,
    ) -> RunResult {
        self.run_launched(client, tool, call, Launch::Service { cancel })
    }

    /// Runs a call as a child of this process, which must have one thread and waits for it. `warn` is told what a weaker
    /// tier cannot promise, before the program starts.
    pub fn run_in_foreground(
        &self,
        client: &str,
        tool: &'static str,
        call: &Call,
        foreground: Foreground,
        warn: &dyn Fn(&str),
    ) -> RunResult {
        let Foreground { prefork, io } = foreground;
        self.run_launched(client, tool, call, Launch::Foreground { prefork, io, warn })
    }

    fn run_launched(
        &self,
        client: &str,
        tool: &'static str,
        call: &Call,
        launch: Launch<'_>,
    ) -> RunResult {
        match self.state.admit_now(client, tool, call.as_run()) {
            Ok(admitted) => self.state.run(admitted, client, call.as_run(), launch),
            Err(outcome) => RunResult::of(*outcome),
        }
    }

    /// The plan of a command, without running it.
    pub fn explain_command(&self, argv: Vec<OsString>) -> Result<ringfence_plan::Plan, Problem> {
        self.state.explain_command(argv)
    }

    /// The plans of Python runs, without running anything.
    pub fn explain_code(&self) -> Result<ringfence_plan::CodePlan, Problem> {
        self.state.explain_code()
    }

    /// Makes a session.
    pub async fn session_create(
        &self,
        owner: &str,
        options: SessionOptions,
    ) -> Result<SessionState, Problem> {
        let owner = owner.to_owned();
        self.call("session", &owner.clone(), None, move |state| {
            let made = state.sessions()?.create(&owner, options)?;
            let event = Entry::session_event(made.id.as_str(), "created").client(&owner);
            state.recorder.note(&event)?;
            Ok(made)
        })
        .await
    }

    /// What is known of a session.
    pub async fn session_info(&self, owner: &str, id: &SessionId) -> Result<SessionInfo, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |state| {
            state.sessions()?.info(&owner, &id)
        })
        .await
    }

    /// An owner's sessions.
    pub async fn session_list(&self, owner: &str) -> Result<Vec<SessionState>, Problem> {
        let owner = owner.to_owned();
        self.call("session", &owner.clone(), None, move |state| Ok(state.sessions()?.list(&owner)))
            .await
    }

    /// A copy of a session's files as a new session.
    pub async fn session_fork(&self, owner: &str, id: &SessionId) -> Result<SessionState, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        let wanted = cancel::StopFlag::default();
        let stop = wanted.seen();
        let client = owner.clone();
        let forked = self.call("session", &client, Some(id.clone()), move |state| {
            let made = state.sessions()?.fork_unless(&owner, &id, &stop)?;
            let event = Entry::session_event(made.id.as_str(), "forked").client(&owner);
            state.recorder.note(&event.arguments(format!("from {id}")))?;
            Ok(made)
        });
        let forked = forked.await;
        drop(wanted);
        forked
    }

    /// Takes a session's variables back to what they were after a cell.
    pub async fn session_rollback(
        &self,
        owner: &str,
        id: &SessionId,
        cell: u64,
    ) -> Result<SessionInfo, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |state| {
            let session = state.sessions()?.find(&owner, &id)?;
            let mut live = session.live.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *live {
                Some(live) => live.rollback(cell)?,
                None => {
                    return Err(Problem::usage(
                        "no_checkpoint",
                        "the session's variables are gone, and with them what could be gone back to",
                    ));
                }
            }
            drop(live);
            state.sessions()?.info(&owner, &id)
        })
        .await
    }

    /// Ends a session: its files, its processes; its rows in the ledger are archived.
    pub async fn session_close(&self, owner: &str, id: &SessionId) -> Result<(), Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |state| {
            let id = state.sessions()?.close(&owner, &id)?;
            state.forget(id.as_str(), "closed", &owner)
        })
        .await
    }

    /// Reads a part of a session's file.
    pub async fn file_read(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<Contents, Problem> {
        self.file("read_file", owner, id, path, move |files, path, _| {
            files.read(path, offset, limit)
        })
        .await
    }

    /// Writes a session's file, all of it or nothing.
    pub async fn file_write(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        content: Vec<u8>,
        options: WriteOptions,
    ) -> Result<WrittenFile, Problem> {
        self.file("write_file", owner, id, path, move |files, path, begun| {
            let written = files.write(path, &content, options)?;
            let shown = path.to_string_lossy().into_owned();
            begun.detail(|entry| entry.wrote(shown, &content));
            Ok(written)
        })
        .await
    }

    /// What is in a session's directory.
    pub async fn file_list(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        depth: usize,
        entries_max: usize,
    ) -> Result<Listing, Problem> {
        self.file("list_dir", owner, id, path, move |files, path, _| {
            files.list(path, depth, entries_max)
        })
        .await
    }

    /// Searches a session's files. Dropping the future ends the search.
    pub async fn file_grep(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        query: GrepQuery,
    ) -> Result<Grepped, Problem> {
        let wanted = cancel::StopFlag::default();
        let stop = wanted.seen();
        let found = self
            .file("grep", owner, id, path, move |files, path, begun| {
                let looked_for = format!("{} in {}", query.pattern, path.display());
                begun.detail(|entry| entry.arguments(looked_for));
                files.grep_unless(path, &query, stop)
            })
            .await;
        drop(wanted);
        found
    }

    /// What a name in a session is.
    pub async fn file_stat(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
    ) -> Result<FileEntry, Problem> {
        self.file("stat_file", owner, id, path, move |files, path, _| files.stat(path)).await
    }

    /// Gives a session's file another name.
    pub async fn file_move(
        &self,
        owner: &str,
        id: &SessionId,
        from: OsString,
        to: OsString,
        conflict: OnConflict,
    ) -> Result<(), Problem> {
        self.file("move_file", owner, id, from, move |files, from, _| {
            files.rename(from, &to, conflict, Parents::MustExist)
        })
        .await
    }

    /// Deletes a session's file, or a directory with all that is in it.
    pub async fn file_delete(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        depth: Depth,
    ) -> Result<Deleted, Problem> {
        self.file("delete_file", owner, id, path, move |files, path, _| files.delete(path, depth))
            .await
    }

    /// One operation on one file of a session, on the same road as every call.
    async fn file<T: Send + 'static>(
        &self,
        tool: &'static str,
        owner: &str,
        id: &SessionId,
        path: OsString,
        work: impl FnOnce(&Workspace, &OsStr, &mut record::StartedCall<'_>) -> Result<T, Problem>
        + Send
        + 'static,
    ) -> Result<T, Problem> {
        let (name, session) = (owner.to_owned(), id.to_owned());
        let summary = path.to_string_lossy().into_owned();
        self.call_with(tool, owner, Some(id.to_owned()), Some(summary), move |state, begun| {
            let session = state.sessions()?.find(&name, &session)?;
            work(session.files()?, &path, begun)
        })
        .await
    }

    /// Starts the workers that the first program would start, so that it does not wait for them.
    pub async fn warm_up(&self) -> Result<(), Problem> {
        let state = Arc::clone(&self.state);
        blocking(move || state.warm().map(drop)).await
    }

    /// The same on the calling thread.
    pub fn start_workers(&self) -> Result<(), Problem> {
        self.state.warm().map(drop)
    }

    /// Waits until this many workers wait for a program.
    pub fn wait_for_workers(&self, n: usize) -> Result<(), Problem> {
        self.state.warm()?.pool.wait_until_full(n)
    }

    /// Memory that a waiting worker has to itself.
    pub fn waiting_worker_bytes(&self) -> Option<u64> {
        self.state.warm().ok()?.pool.waiting_bytes()
    }

    /// Ends sessions that have expired, puts idle ones to rest.
    pub async fn sweep(&self) -> Result<Swept, Problem> {
        let state = Arc::clone(&self.state);
        blocking(move || state.sweep()).await
    }

    /// What happened so far, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        let pool = {
            let warm = self.state.warm.lock().unwrap_or_else(PoisonError::into_inner);
            warm.as_ref().map(|warm| warm.pool.counts()).unwrap_or_default()
        };
        self.state.metrics.text(&Gauges {
            gate: self.state.admission.counts(),
            own_breaker: Some(self.state.admission.own_breaker()),
            pool,
            sessions_open: self.state.n_sessions_open(),
        })
    }

    /// What happened at the gate.
    pub fn admission(&self) -> &Admission {
        &self.state.admission
    }

    /// Where calls are written down.
    pub fn recorder(&self) -> &Recorder {
        &self.state.recorder
    }

    /// A call that is not a run: recorded, done on a thread that may wait, recorded.
    async fn call<T: Send + 'static>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<SessionId>,
        work: impl FnOnce(&EngineState) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.call_with(tool, client, session, None, move |state, _| work(state)).await
    }

    async fn call_with<T: Send + 'static>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<SessionId>,
        summary: Option<String>,
        work: impl FnOnce(&EngineState, &mut record::StartedCall<'_>) -> Result<T, Problem>
        + Send
        + 'static,
    ) -> Result<T, Problem> {
        let mut watch = Stopwatch::start();
        let mut permit = self.state.admission.admit(client).await.map_err(|r| r.problem())?;
        watch.part("admit");
        let state = Arc::clone(&self.state);
        let client = client.to_owned();
        blocking(move || {
            let run_id = fresh_id()?;
            let mut entry = Entry::call_start(run_id).client(client).tool(tool);
            entry = in_session(entry, session.as_ref());
            let about = summary.clone().map_or(Subject::Nothing, |path| Subject::Paths(vec![path]));
            let judged = state.interceptor.judge(tool, &about);
            entry = entry.risk(judged.risk);
            if let Some(summary) = summary {
                entry = entry.arguments(summary);
            }
            let seen = intercept::seen(tool, &entry, &judged);
            let began = Instant::now();
            let mut begun = state.recorder.begin(entry)?;
            let done = match judged.refusal {
                Some(problem) => Err(problem),
                None => work(&state, &mut begun),
            };
            let status = match &done {
                Ok(_) => RunStatus::Ok,
                Err(problem) if problem.kind == ProblemKind::Internal => RunStatus::Failed,
                Err(_) => RunStatus::Error,
            };
            watch.part("work");
            begun.end_with(status)?;
            watch.part("record");
            let took = began.elapsed();
            permit.judge(BreakerVerdict::Fine);
            let word = status.word();
            state.observe(
                CallRecord { run_id, tool, status: word, verb: "called", took, watch },
                FinishedCall {
                    status: intercept::status_of(done.as_ref().map(|_| ())),
                    traversal: seen.traversal
                        || done.as_ref().is_err_and(|problem| problem.code == "path_outside"),
                    ..seen
                },
            );
            done
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Problem::internal("internal", "the call's thread ended").cause(e)))
}

fn panicked(run_id: RunId, error: &tokio::task::JoinError) -> RunResult {
    RunResult::not_started(
        run_id,
        Problem::internal("internal", "the run's thread ended").cause(error),
    )
}

//! Public API of the engine. Every method follows the same call path: `call.rs` for runs, `call_with` below for
//! sessions and files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ringfence_audit::{Entry, RunStatus};
use ringfence_python::{Artifacts, PoolSlot};
use ringfence_spec::{Code, Outcome, Policy, Problem, ProblemKind, RunId};

use crate::admission::{Admission, BreakerVerdict};
use crate::builder::Builder;
use crate::call::{Admitted, CallRecord, EngineState, Launch, RunCall, in_session};
use crate::cancel::{self, Cancel};
use crate::code::CodePolicy;
use crate::command::{Io, Prefork};
use crate::files::{
    Contents, Deleted, Depth, Edit, Entry as FileEntry, GrepQuery, Grepped, Listing, OnConflict,
    OpenedFile, Parents, Precondition, Spool, Workspace, WriteOptions, WrittenFile,
};
use crate::ids::fresh_id;
use crate::intercept::{self, Subject};
use crate::metrics::Gauges;
use crate::partial_output::PartialOutput;
use crate::record::{self, Recorder};
use crate::search::{
    ChunkPage, ChunkRange, ChunkSize, IndexReport, OnIndexed, SearchQuery, SearchResult,
};
use crate::sessions::{
    Daily, Session, SessionId, SessionInfo, SessionOptions, SessionState, Swept,
};
use crate::trace::Stopwatch;
use crate::watch::FinishedCall;

/// Tools that change files of a session.
const CHANGING_TOOLS: [&str; 3] = ["delete_file", "edit_file", "write_file"];

/// Request to run a program.
#[derive(Clone, Debug, Default)]
pub struct CodeCall {
    /// The source. Bytes, because a file may declare another encoding than UTF-8.
    pub code: Vec<u8>,
    /// Its name in tracebacks, `__file__` and `sys.argv[0]`; `main.py` if there is none. The directory of an absolute
    /// one is searched for modules.
    pub name: Option<String>,
    /// The session the program is a cell of. Without one it runs alone, in a directory of its own.
    pub session: Option<SessionId>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Files for the program's directory: relative name, content. Not with a session, which has its own files.
    pub files: Vec<(String, Vec<u8>)>,
    /// `sys.argv[1:]`.
    pub argv: Vec<String>,
    /// Timeout shorter than the policy's.
    pub timeout: Option<Duration>,
    /// Id of the run, for callers that refer to it before it ends. Must be fresh, from [`crate::fresh_id`].
    pub run_id: Option<RunId>,
    /// Buffer for callers that read the output before the run ends.
    pub partial_output: Option<PartialOutput>,
    /// Host directory that the program's files are copied to.
    pub artifacts_to: Option<PathBuf>,
}

/// Request to run a command.
#[derive(Clone, Debug, Default)]
pub struct CommandCall {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The session whose files it works on; without one, the engine's working directory.
    pub session: Option<SessionId>,
    /// A directory to start in instead, also relative to that. It is entered inside the sandbox, where it can reach nothing that
    /// the command could not; the command does not start if there is none.
    pub cwd: Option<String>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Timeout shorter than the policy's.
    pub timeout: Option<Duration>,
    /// Id of the run; see [`CodeCall::run_id`].
    pub run_id: Option<RunId>,
    /// Buffer for callers that read the output before the run ends.
    pub partial_output: Option<PartialOutput>,
}

/// Script that changes to the directory `$1` and executes the words behind it; or ends with the status of a wrong argument, and
/// names a directory that is there.
const IN_DIRECTORY: &str = "cd -- \"$1\" 2> /dev/null || { \
    printf 'cwd: this run cannot enter `%s`; leave `cwd` out to start in `%s`, or name a directory that it sees\\n' \"$1\" \"$PWD\" >&2; \
    exit 2; }; shift; exec \"$@\"";

impl CommandCall {
    /// The words that are executed: the command's, or a shell's that enters its directory first.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let Some(cwd) = &self.cwd else { return self.argv.clone() };
        let shell = ["sh", "-c", IN_DIRECTORY, "sh", cwd].map(OsString::from);
        shell.into_iter().chain(self.argv.iter().cloned()).collect()
    }
}

/// Request to run a program or a command.
#[derive(Clone, Debug)]
pub enum Call {
    /// A program.
    Code(CodeCall),
    /// A command.
    Command(CommandCall),
}

impl Call {
    /// Name of the tool, as in the ledger.
    pub(crate) fn tool(&self) -> &'static str {
        self.as_run().tool()
    }

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

/// Result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The outcome.
    pub outcome: Outcome,
    /// Files a program left: all of a directory of its own, or those it made or changed in a session's.
    pub files: Option<Artifacts>,
    /// The full reason the run did not start; the outcome has the short form.
    pub problem: Option<Problem>,
    /// Time to the first byte of output, if a warm worker ran the program.
    pub first_byte: Option<Duration>,
    /// Guarantees that could not be verified after the run ended; also in the receipt.
    pub gaps_after: Vec<String>,
    /// The run's place in the pool, until the run is recorded.
    pub(crate) slot: Option<PoolSlot>,
}

impl RunResult {
    pub(crate) fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            files: None,
            problem: None,
            first_byte: None,
            gaps_after: Vec::new(),
            slot: None,
        }
    }

    /// Result of a call that was refused before it had an id.
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

/// Options for a command or program started as a child of the calling process.
#[derive(Debug)]
pub struct Foreground {
    /// A child forked before the command line was read.
    pub prefork: Prefork,
    /// Connection of its input and output.
    pub io: Io,
}

/// Runs calls for clients. Cheap to clone; dropping the last clone ends all its runs, threads and processes.
#[derive(Clone, Debug)]
pub struct Engine {
    // First: fields drop in order, and runs must end before the state they use.
    _ends_runs: Arc<EndRuns>,
    pub(crate) state: Arc<EngineState>,
}

/// Ends every run when the last handle of an engine is dropped. Run tasks hold the state, not this handle.
#[derive(Debug)]
struct EndRuns(Arc<EngineState>);

impl Drop for EndRuns {
    fn drop(&mut self) {
        self.0.runs.end(|_| false);
    }
}

impl EngineState {
    /// Runs a call for a client on a blocking thread. Dropping the future ends the run.
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

    /// Returns a builder with the command line's default settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Runs a program. Dropping the future ends the run; that end is recorded too.
    pub async fn execute(&self, client: &str, call: CodeCall) -> RunResult {
        EngineState::serve(Arc::clone(&self.state), client, call.into()).await
    }

    /// Runs a command. Dropping the future ends the run; that end is recorded too.
    pub async fn command(&self, client: &str, call: CommandCall) -> RunResult {
        EngineState::serve(Arc::clone(&self.state), client, call.into()).await
    }

    /// Runs a call to its end on the calling thread, as [`Engine::execute`] and [`Engine::command`] do. `tool` is its
    /// name in the ledger.
    pub fn run_blocking(
        &self,
        client: &str,
        tool: &'static str,
        call: &Call,
        cancel: &Cancel,
    ) -> RunResult {
        self.run_launched(client, tool, call, Launch::Service { cancel })
    }

    /// Runs a call as a child of this process, which must have one thread, and waits for it. `warn` receives the gaps
    /// of a weaker tier before the program starts.
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

    /// Returns the plan of a command without running it.
    pub fn explain_command(
        &self,
        client: &str,
        call: &CommandCall,
    ) -> Result<ringfence_plan::Plan, Problem> {
        self.state.explain_command(client, call)
    }

    /// Returns the plans of Python runs without running anything.
    pub fn explain_code(&self) -> Result<ringfence_plan::CodePlan, Problem> {
        self.state.explain_code()
    }

    /// Returns the plan of a program in an interpreter of its own, without running it.
    pub fn explain_program(&self) -> Result<ringfence_plan::Plan, Problem> {
        self.state.explain_program()
    }

    /// Creates a session.
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

    /// Returns a session's state.
    pub async fn session_info(&self, owner: &str, id: &SessionId) -> Result<SessionInfo, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |state| {
            state.sessions()?.info(&owner, &id)
        })
        .await
    }

    /// Lists an owner's sessions.
    pub async fn session_list(&self, owner: &str) -> Result<Vec<SessionState>, Problem> {
        let owner = owner.to_owned();
        self.call("session", &owner.clone(), None, move |state| state.sessions()?.list(&owner))
            .await
    }

    /// Copies a session's files to a new session.
    pub async fn session_fork(&self, owner: &str, id: &SessionId) -> Result<SessionState, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        let wanted = cancel::StopFlag::default();
        let stop = wanted.seen();
        let client = owner.clone();
        let forked = self.call("session", &client, Some(id.clone()), move |state| {
            let made = state.sessions()?.fork_cancellable(&owner, &id, &stop)?;
            let event = Entry::session_event(made.id.as_str(), "forked").client(&owner);
            state.recorder.note(&event.arguments(format!("from {id}")))?;
            Ok(made)
        });
        let forked = forked.await;
        drop(wanted);
        forked
    }

    /// Restores a session's variables to their state after a cell.
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
                None if session.state().n_cells == 0 => {
                    return Err(Problem::usage(
                        Code::NoCheckpoint,
                        "no cell has run in this session yet, so there is nothing to go back to",
                    ));
                }
                None => {
                    return Err(Problem::usage(
                        Code::NoCheckpoint,
                        "the session's variables are gone, and with them what could be gone back to",
                    ));
                }
            }
            drop(live);
            state.sessions()?.info(&owner, &id)
        })
        .await
    }

    /// Closes a session: removes its files, ends its processes and archives its ledger rows.
    pub async fn session_close(&self, owner: &str, id: &SessionId) -> Result<(), Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |state| {
            let closed = state.sessions()?.close(&owner, &id);
            // It has ended, also where its files could not be removed yet.
            if closed.as_ref().is_err_and(|problem| problem.code != Code::SessionUnremovable) {
                return closed.map(drop);
            }
            state.forget(id.as_str(), "closed", &owner)?;
            closed.map(drop)
        })
        .await
    }

    /// Reads a range of a session's file.
    pub async fn file_read(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<Contents, Problem> {
        self.file("read_file", owner, id, path, move |files, path, begun| {
            let contents = files.read(path, offset, limit)?;
            begun.bytes_read += contents.bytes.len() as u64;
            Ok(contents)
        })
        .await
    }

    /// Writes a session's file atomically.
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

    /// Opens a session's file to read it in parts. `choose` decides what of it is sent, and returns the number of bytes too,
    /// which is recorded.
    pub async fn file_open<T: Send + 'static>(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        choose: impl FnOnce(&OpenedFile) -> (T, u64) + Send + 'static,
    ) -> Result<(OpenedFile, T), Problem> {
        self.file("read_file", owner, id, path, move |files, path, begun| {
            let opened = files.open_to_read(path)?;
            let (chosen, n_bytes) = choose(&opened);
            begun.bytes_read += n_bytes;
            Ok((opened, chosen))
        })
        .await
    }

    /// Makes a spool for content that is received in parts. Blocks the thread.
    pub fn spool(&self, bytes_max: u64) -> Result<Spool, Problem> {
        Spool::new(&self.state.host.state, bytes_max)
    }

    /// Writes a session's file atomically, with the content of a spool, if its old state is as expected.
    pub async fn file_write_spooled(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        content: Spool,
        options: WriteOptions,
        when: Precondition,
    ) -> Result<WrittenFile, Problem> {
        self.file("write_file", owner, id, path, move |files, path, begun| {
            let written = files.write_spooled(path, &content, options, &when)?;
            let shown = path.to_string_lossy().into_owned();
            let (n_bytes, sha256) = (written.total_bytes, written.sha256.as_str());
            begun.detail(|entry| entry.wrote_hashed(shown, n_bytes, sha256));
            Ok(written)
        })
        .await
    }

    /// Replaces parts of a session's text file if its state is as expected; returns the number of replacements too.
    pub async fn file_edit(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        edits: Vec<Edit>,
        when: Precondition,
    ) -> Result<(WrittenFile, usize), Problem> {
        self.file("edit_file", owner, id, path, move |files, path, begun| {
            let (written, n_replaced) = files.edit_if(path, &edits, &when)?;
            let shown = path.to_string_lossy().into_owned();
            let (n_bytes, sha256) = (written.total_bytes, written.sha256.as_str());
            begun.detail(|entry| entry.wrote_hashed(shown, n_bytes, sha256));
            Ok((written, n_replaced))
        })
        .await
    }

    /// Lists a session's directory.
    pub async fn file_list(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        depth: usize,
        entries_max: usize,
    ) -> Result<Listing, Problem> {
        self.file_list_from(owner, id, path, depth, 0, entries_max).await
    }

    /// Lists a session's directory without its first `n_skipped` entries.
    pub async fn file_list_from(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        depth: usize,
        n_skipped: usize,
        entries_max: usize,
    ) -> Result<Listing, Problem> {
        self.file("list_dir", owner, id, path, move |files, path, _| {
            files.list_from(path, depth, n_skipped, entries_max)
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
                let looked_for = format!("{} in {}", query.shown(), path.display());
                begun.detail(|entry| entry.arguments(looked_for));
                files.grep_cancellable(path, &query, stop)
            })
            .await;
        drop(wanted);
        found
    }

    /// Finds the pieces of a session's files that fit a query best. Dropping the future ends the search.
    pub async fn search(
        &self,
        owner: &str,
        id: &SessionId,
        query: SearchQuery,
    ) -> Result<SearchResult, Problem> {
        let wanted = cancel::StopFlag::default();
        let (stop, about) = (wanted.seen(), query.query.clone());
        let found = self
            .in_session("search", owner, id, about, move |state, session| {
                state.sessions()?.take_daily(session, Daily::Search)?;
                session.search(&query, state.vectors.as_ref(), &stop)
            })
            .await;
        drop(wanted);
        found
    }

    /// Brings a session's search index up to date. Dropping the future ends the job; the next one goes on.
    /// The report names files that were left out below `path`.
    pub async fn index(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
    ) -> Result<IndexReport, Problem> {
        self.index_with(owner, id, path, crate::search::no_progress()).await
    }

    /// The same, and calls `progress` now and then.
    pub async fn index_with(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        progress: OnIndexed,
    ) -> Result<IndexReport, Problem> {
        let wanted = cancel::StopFlag::default();
        let stop = wanted.seen();
        let report = self
            .in_session(
                "index",
                owner,
                id,
                path.to_string_lossy().into_owned(),
                move |state, session| {
                    let below = session.files()?.path_of(&path)?;
                    state.sessions()?.take_daily(session, Daily::IndexJob)?;
                    let mut report = session.index_job(state.vectors.as_ref(), &stop, &progress)?;
                    report.skipped_files.retain(|file| Path::new(&file.path).starts_with(&below));
                    Ok(report)
                },
            )
            .await;
        drop(wanted);
        report
    }

    /// Cuts a session's file at its definitions, headings or paragraphs. Returns the pieces in the range, within the
    /// bounds of one answer.
    pub async fn chunk(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        size: ChunkSize,
        range: ChunkRange,
    ) -> Result<ChunkPage, Problem> {
        let about = path.to_string_lossy().into_owned();
        self.in_session("chunk", owner, id, about, move |_, session| {
            session.chunks(&path, size, range)
        })
        .await
    }

    /// Runs one operation on a session.
    async fn in_session<T: Send + 'static>(
        &self,
        tool: &'static str,
        owner: &str,
        id: &SessionId,
        about: String,
        work: impl FnOnce(&EngineState, &Session) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let (name, id) = (owner.to_owned(), id.to_owned());
        let about = if about.is_empty() { Vec::new() } else { vec![about] };
        self.call_with(tool, owner, Some(id.clone()), about, move |state, _| {
            let session = state.sessions()?.find(&name, &id)?;
            work(state, &session)
        })
        .await
    }

    /// Returns the metadata of a path in a session.
    pub async fn file_stat(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
    ) -> Result<FileEntry, Problem> {
        self.file("stat_file", owner, id, path, move |files, path, _| files.stat(path)).await
    }

    /// Renames a session's file.
    pub async fn file_move(
        &self,
        owner: &str,
        id: &SessionId,
        from: OsString,
        to: OsString,
        conflict: OnConflict,
    ) -> Result<(), Problem> {
        let (name, session) = (owner.to_owned(), id.to_owned());
        // The operator's rules are about both.
        let paths = [&from, &to].map(|path| path.to_string_lossy().into_owned()).into();
        self.call_with("move_file", owner, Some(id.to_owned()), paths, move |state, _| {
            let session = state.sessions()?.find(&name, &session)?;
            let done = session.files()?.rename(&from, &to, conflict, Parents::MustExist);
            session.changes().note();
            done
        })
        .await
    }

    /// Deletes a session's file, or a directory with its contents.
    pub async fn file_delete(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        depth: Depth,
    ) -> Result<Deleted, Problem> {
        self.file_delete_if(owner, id, path, depth, Precondition::Any).await
    }

    /// Deletes a session's file, or a directory with its contents, if its state is as expected.
    pub async fn file_delete_if(
        &self,
        owner: &str,
        id: &SessionId,
        path: OsString,
        depth: Depth,
        when: Precondition,
    ) -> Result<Deleted, Problem> {
        self.file("delete_file", owner, id, path, move |files, path, _| {
            files.delete_if(path, depth, &when)
        })
        .await
    }

    /// Runs one operation on a session's file, through the same path as every call.
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
        let about = vec![path.to_string_lossy().into_owned()];
        self.call_with(tool, owner, Some(id.to_owned()), about, move |state, begun| {
            let session = state.sessions()?.find(&name, &session)?;
            let done = work(session.files()?, &path, begun);
            if CHANGING_TOOLS.contains(&tool) {
                session.changes().note();
            }
            done
        })
        .await
    }

    /// Starts the workers in advance, so that the first program does not wait for them.
    pub async fn warm_up(&self) -> Result<(), Problem> {
        if self.state.code.processes.is_some() {
            // Such programs do not run in workers.
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        blocking(move || state.warm_if_possible()).await
    }

    /// Starts the workers on the calling thread; see [`Engine::warm_up`].
    pub fn start_workers(&self) -> Result<(), Problem> {
        if self.state.code.processes.is_some() {
            return self.state.launcher().map(drop);
        }
        self.state.warm_if_possible()
    }

    /// Waits until `n` workers are idle and ready for a program.
    pub fn wait_for_workers(&self, n: usize) -> Result<(), Problem> {
        self.state.warm()?.pool.wait_until_full(n)
    }

    /// Private memory of an idle worker.
    pub fn waiting_worker_bytes(&self) -> Option<u64> {
        self.state.warm().ok()?.pool.waiting_bytes()
    }

    /// Ends expired sessions and the REPLs of idle ones.
    pub async fn sweep(&self) -> Result<Swept, Problem> {
        let state = Arc::clone(&self.state);
        blocking(move || state.sweep()).await
    }

    /// Returns the metrics in the `OpenMetrics` text format that Prometheus reads.
    pub fn metrics(&self) -> String {
        let (pool, speedups) = {
            let warm = self.state.warm.lock().unwrap_or_else(PoisonError::into_inner);
            let warm = warm.as_ref().map(|warm| (warm.pool.counts(), warm.pool.speedups()));
            warm.unwrap_or_default()
        };
        self.state.metrics.text(&Gauges {
            gate: self.state.admission.counts(),
            own_breaker: Some(self.state.admission.own_breaker()),
            pool,
            speedups,
            sessions_open: self.state.n_sessions_open(),
        })
    }

    /// Returns the policy of Python runs.
    pub fn code_policy(&self) -> &CodePolicy {
        &self.state.code
    }

    /// Returns the policy of commands.
    pub fn command_policy(&self) -> &Policy {
        &self.state.command
    }

    /// Returns the admission gate.
    pub fn admission(&self) -> &Admission {
        &self.state.admission
    }

    /// Returns the recorder that writes calls to the ledger.
    pub fn recorder(&self) -> &Recorder {
        &self.state.recorder
    }

    /// Runs a call that is not a run on a blocking thread, and records its start and end.
    async fn call<T: Send + 'static>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<SessionId>,
        work: impl FnOnce(&EngineState) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.call_with(tool, client, session, Vec::new(), move |state, _| work(state)).await
    }

    async fn call_with<T: Send + 'static>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<SessionId>,
        about: Vec<String>,
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
            let done = state.watched_call(tool, &client, session.as_ref(), about, watch, |begun| {
                work(&state, begun)
            });
            permit.judge(BreakerVerdict::Fine);
            done
        })
        .await
    }
}

impl EngineState {
    /// Makes a call that is not a run, on the calling thread and without a permit of its own: judges it, records its start and
    /// end, observes it.
    pub(crate) fn tool_call<T>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<&SessionId>,
        about: Vec<String>,
        work: impl FnOnce(&mut record::StartedCall<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.watched_call(tool, client, session, about, Stopwatch::start(), work)
    }

    fn watched_call<T>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<&SessionId>,
        about: Vec<String>,
        mut watch: Stopwatch,
        work: impl FnOnce(&mut record::StartedCall<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let run_id = fresh_id()?;
        let mut entry = Entry::call_start(run_id).client(client).tool(tool);
        entry = in_session(entry, session);
        let summary = about.join(" ");
        let about = if about.is_empty() { Subject::Nothing } else { Subject::Paths(about) };
        let judged = self.interceptor.judge(tool, &about);
        entry = entry.risk(judged.risk);
        if !summary.is_empty() {
            entry = entry.arguments(summary);
        }
        let seen = intercept::seen(tool, &entry, &judged);
        let began = Instant::now();
        let mut begun = self.recorder.begin(entry)?;
        let is_refused = judged.refusal.is_some();
        let done = match judged.refusal {
            Some(problem) => Err(problem),
            None => work(&mut begun),
        };
        let status = match &done {
            Ok(_) => RunStatus::Ok,
            Err(_) if is_refused => RunStatus::Blocked,
            Err(problem) if problem.kind == ProblemKind::Internal => RunStatus::Failed,
            Err(_) => RunStatus::Error,
        };
        watch.part("work");
        let bytes_read = begun.bytes_read;
        begun.end_with(status)?;
        watch.part("record");
        let took = began.elapsed();
        let word = status.word();
        self.observe(
            CallRecord { run_id, tool, status: word, verb: "called", took, watch },
            FinishedCall {
                status: intercept::status_of(done.as_ref().map(|_| ())),
                bytes_read,
                traversal: seen.traversal
                    || done.as_ref().is_err_and(|problem| problem.code == Code::PathOutside),
                ..seen
            },
        );
        done
    }
}

/// Runs work that blocks its thread, outside of the threads of the async runtime.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| {
        Err(Problem::internal(Code::Internal, "the call's thread ended").cause(e))
    })
}

fn panicked(run_id: RunId, error: &tokio::task::JoinError) -> RunResult {
    RunResult::not_started(
        run_id,
        Problem::internal(Code::Internal, "the run's thread ended").cause(error),
    )
}

//! The façade: one engine, many clients. Each call is admitted, recorded, decided, run, scrubbed and recorded again, in
//! this file and nowhere else, whatever face it came from.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_audit::{Entry, RunStatus};
use ringfence_jail::Launcher;
use ringfence_python::{Artifacts, Job, Pool};
use ringfence_screen::decide::Rules;
use ringfence_screen::scrub::Scrub;
use ringfence_spec::{
    CodePreset, CommandPreset, ErrorInfo, Outcome, Policy, Problem, ProblemKind, RunId, Span,
    Status,
};

use crate::admission::{Admission, AdmissionSettings, Permit, Rejection, Verdict};
use crate::cancel::{self, Cancel};
use crate::clock::{Clock, HostClock};
use crate::code::{CodeFence, CodePolicy, Use};
use crate::command::{self, Fence, Io};
use crate::files::{
    Contents, Deleted, Depth, Entry as FileEntry, Listing, OnConflict, Parents, Workspace,
    WriteOptions, Written,
};
use crate::ids::fresh_id;
use crate::intercept::{self, About, AlertSink, Interceptor};
use crate::metrics::{Metrics, Now};
use crate::place::Place;
use crate::record::{self, Recorder};
use crate::sessions::{
    Live, Quota, Session, SessionInfo, SessionSettings, SessionState, Sessions, Swept,
    host_workspace, unknown,
};
use crate::watch::Seen;

/// Tries of ours when our own side fails: never for what a program did.
const TRIES_MAX: u32 = 3;

/// The wait before the second try; each that follows is twice as long.
const BACK_OFF: Duration = Duration::from_millis(50);

/// No time at all would be read as no limit.
const SHORTEST: Duration = Duration::from_millis(1);

/// A program of a client's.
#[derive(Clone, Debug, Default)]
pub struct CodeCall {
    /// The source.
    pub code: String,
    /// The session it is a cell of; without one it runs alone, in a directory of its own.
    pub session: Option<String>,
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
}

/// A command of a client's.
#[derive(Clone, Debug, Default)]
pub struct CommandCall {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The session whose files it works on; without one, in the engine's working directory.
    pub session: Option<String>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// Less time than the policy gives.
    pub timeout: Option<Duration>,
    /// What the run is to be called; see [`CodeCall::run_id`].
    pub run_id: Option<RunId>,
}

/// What came of a program.
#[derive(Debug)]
pub struct Ran {
    /// The answer.
    pub outcome: Outcome,
    /// Files it left, where it had a directory of its own.
    pub files: Option<Artifacts>,
}

/// Runs what clients ask for. Cheap to clone; the last clone ends everything.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // In this order, so that workers end before the launcher that holds them.
    sessions: Sessions,
    pools: Mutex<HashMap<CodePreset, Arc<Warm>>>,
    recorder: Recorder,
    metrics: Metrics,
    interceptor: Interceptor,
    redact_output: bool,
    clock: Arc<dyn Clock>,
    admission: Admission,
    code: CodePolicy,
    command: Policy,
    place: Place,
    n_parallel: usize,
    launcher: Arc<Launcher>,
}

/// Warm workers and what they were made with.
#[derive(Debug)]
struct Warm {
    pool: Pool,
    fence: CodeFence,
}

/// How an engine is made.
pub struct Builder {
    launcher: Launcher,
    place: Place,
    code: CodePolicy,
    command: Policy,
    recorder: Recorder,
    admission: AdmissionSettings,
    sessions: SessionSettings,
    clock: Arc<dyn Clock>,
    n_parallel: usize,
    rules: Rules,
    watch: crate::watch::Settings,
    sinks: Vec<AlertSink>,
    redact_output: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Builder {
    /// Where calls come from; `place.state` holds sessions.
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// What Python may be and use.
    #[must_use]
    pub fn code_policy(mut self, policy: CodePolicy) -> Self {
        self.code = policy;
        self
    }

    /// What commands may do.
    #[must_use]
    pub fn command_policy(mut self, policy: Policy) -> Self {
        self.command = policy;
        self
    }

    /// Where calls are written down.
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = recorder;
        self
    }

    /// Limits of a service; without them everybody runs.
    #[must_use]
    pub fn admission(mut self, settings: AdmissionSettings) -> Self {
        self.admission = settings;
        self
    }

    /// What sessions are given.
    #[must_use]
    pub fn sessions(mut self, settings: SessionSettings) -> Self {
        self.sessions = settings;
        self
    }

    /// Another clock than the host's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What the operator allows and refuses, by tool, path and command.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// What counts as out of the ordinary.
    #[must_use]
    pub fn watch(mut self, settings: crate::watch::Settings) -> Self {
        self.watch = settings;
        self
    }

    /// Tells this of every alert, besides the ledger and the log. Called on the call's thread: it must not wait for long.
    #[must_use]
    pub fn on_alert(mut self, sink: AlertSink) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Takes secrets out of answers too; out of the ledger they are always taken.
    #[must_use]
    pub fn redact_output(mut self, redact: bool) -> Self {
        self.redact_output = redact;
        self
    }

    /// How many programs at once shall find a warm worker.
    #[must_use]
    pub fn parallel(mut self, n: usize) -> Self {
        self.n_parallel = n.max(1);
        self
    }

    /// Makes it. Workers are started with the first program that needs one.
    pub fn build(self) -> Result<Engine, Problem> {
        let sessions = Sessions::open(&self.place.state, self.sessions, Arc::clone(&self.clock))?;
        if let Some(ledger) = self.recorder.ledger() {
            // Runs of a service that was killed are shown as interrupted from here on, not as running.
            ledger.recover()?;
        }
        Ok(Engine {
            inner: Arc::new(Inner {
                sessions,
                pools: Mutex::default(),
                recorder: self.recorder,
                metrics: Metrics::default(),
                interceptor: Interceptor::new(self.rules, self.watch, self.sinks),
                redact_output: self.redact_output,
                clock: Arc::clone(&self.clock),
                admission: Admission::new(self.admission, self.clock),
                code: self.code,
                command: self.command,
                place: self.place,
                n_parallel: self.n_parallel,
                launcher: Arc::new(self.launcher),
            }),
        })
    }
}

impl Engine {
    /// An engine whose runs are launched by `launcher`, which must be started before the process has threads.
    pub fn builder(launcher: Launcher) -> Builder {
        let place = Place {
            environment: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            ..Place::default()
        };
        Builder {
            launcher,
            place,
            code: CodePolicy::default(),
            command: Policy::of_preset(CommandPreset::default(), memory_total_bytes()),
            recorder: Recorder::off(),
            admission: AdmissionSettings::default(),
            sessions: SessionSettings::default(),
            clock: Arc::new(HostClock),
            n_parallel: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            rules: Rules::default(),
            watch: crate::watch::Settings::default(),
            sinks: Vec::new(),
            redact_output: false,
        }
    }

    /// Runs a program. Dropping the future ends it, and that is written down too.
    pub async fn execute(&self, client: &str, call: CodeCall) -> Ran {
        let entry = |run_id| {
            let entry = Entry::run_start(run_id).client(client).tool("execute_code");
            let entry = entry.code(call.code.as_bytes());
            match &call.session {
                Some(session) => entry.session(session),
                None => entry,
            }
        };
        let begun = match self.admit(client, call.run_id, entry).await {
            Ok(begun) => begun,
            Err(outcome) => return Ran { outcome: *outcome, files: None },
        };
        let client = client.to_owned();
        let look = |inner: &Inner, call: &CodeCall| {
            let rules = &inner.code.rules;
            let code = call.code.as_bytes();
            About::Code(ringfence_screen::screen(code, rules.preset, &rules.extra_imports))
        };
        self.on_thread(
            "execute_code",
            begun,
            call,
            look,
            move |inner, run_id, call, about, cancel| {
                inner.code(&client, run_id, call, about, cancel)
            },
        )
        .await
    }

    /// Runs a command. Dropping the future ends it, and that is written down too.
    pub async fn command(&self, client: &str, call: CommandCall) -> Ran {
        let entry = |run_id| {
            let words: Vec<_> = call.argv.iter().map(|word| word.to_string_lossy()).collect();
            let entry = Entry::run_start(run_id).client(client).tool("run_command");
            let entry = entry.arguments(words.join(" "));
            match &call.session {
                Some(session) => entry.session(session),
                None => entry,
            }
        };
        let begun = match self.admit(client, call.run_id, entry).await {
            Ok(begun) => begun,
            Err(outcome) => return Ran { outcome: *outcome, files: None },
        };
        let client = client.to_owned();
        let look = |_: &Inner, call: &CommandCall| {
            About::Command(call.argv.iter().map(|w| w.to_string_lossy().into_owned()).collect())
        };
        self.on_thread("run_command", begun, call, look, move |inner, run_id, call, _, cancel| {
            let outcome = inner.command(&client, run_id, call, cancel)?;
            Ok(Ran { outcome, files: None })
        })
        .await
    }

    /// Makes a session.
    pub async fn session_create(
        &self,
        owner: &str,
        read_only: bool,
    ) -> Result<SessionState, Problem> {
        let owner = owner.to_owned();
        self.call("session", &owner.clone(), None, move |inner| {
            let state = inner.sessions.create(&owner, read_only)?;
            let event = Entry::session_event(state.id.as_str(), "created").client(&owner);
            inner.recorder.note(&event)?;
            Ok(state)
        })
        .await
    }

    /// What is known of a session.
    pub async fn session_info(&self, owner: &str, id: &str) -> Result<SessionInfo, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |inner| {
            inner.sessions.info(&owner, &id)
        })
        .await
    }

    /// An owner's sessions.
    pub async fn session_list(&self, owner: &str) -> Result<Vec<SessionState>, Problem> {
        let owner = owner.to_owned();
        self.call("session", &owner.clone(), None, move |inner| Ok(inner.sessions.list(&owner)))
            .await
    }

    /// A copy of a session's files as a new session.
    pub async fn session_fork(&self, owner: &str, id: &str) -> Result<SessionState, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |inner| {
            let state = inner.sessions.fork(&owner, &id)?;
            let event = Entry::session_event(state.id.as_str(), "forked").client(&owner);
            inner.recorder.note(&event.arguments(format!("from {id}")))?;
            Ok(state)
        })
        .await
    }

    /// Takes a session's variables back to what they were after a cell.
    pub async fn session_rollback(
        &self,
        owner: &str,
        id: &str,
        cell: u64,
    ) -> Result<SessionInfo, Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |inner| {
            let session = inner.sessions.find(&owner, &id)?;
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
            inner.sessions.info(&owner, &id)
        })
        .await
    }

    /// Ends a session: its files, its processes; its rows in the ledger are archived.
    pub async fn session_close(&self, owner: &str, id: &str) -> Result<(), Problem> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.call("session", &owner.clone(), Some(id.clone()), move |inner| {
            let id = inner.sessions.close(&owner, &id)?;
            inner.forget(id.as_str(), "closed", &owner)
        })
        .await
    }

    /// Reads a part of a session's file.
    pub async fn file_read(
        &self,
        owner: &str,
        id: &str,
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
        id: &str,
        path: OsString,
        content: Vec<u8>,
        options: WriteOptions,
    ) -> Result<Written, Problem> {
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
        id: &str,
        path: OsString,
        depth: usize,
        entries_max: usize,
    ) -> Result<Listing, Problem> {
        self.file("list_dir", owner, id, path, move |files, path, _| {
            files.list(path, depth, entries_max)
        })
        .await
    }

    /// What a name in a session is.
    pub async fn file_stat(
        &self,
        owner: &str,
        id: &str,
        path: OsString,
    ) -> Result<FileEntry, Problem> {
        self.file("stat_file", owner, id, path, move |files, path, _| files.stat(path)).await
    }

    /// Gives a session's file another name.
    pub async fn file_move(
        &self,
        owner: &str,
        id: &str,
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
        id: &str,
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
        id: &str,
        path: OsString,
        work: impl FnOnce(&Workspace, &OsStr, &mut record::Begun<'_>) -> Result<T, Problem>
        + Send
        + 'static,
    ) -> Result<T, Problem> {
        let (name, session) = (owner.to_owned(), id.to_owned());
        let summary = path.to_string_lossy().into_owned();
        self.call_with(tool, owner, Some(id.to_owned()), Some(summary), move |inner, begun| {
            let session = inner.sessions.find(&name, &session)?;
            work(session.files()?, &path, begun)
        })
        .await
    }

    /// Starts the workers that the first program would start, so that it does not wait for them.
    pub async fn warm_up(&self) -> Result<(), Problem> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.warm().map(drop)).await
    }

    /// Ends sessions that have expired, puts idle ones to rest.
    pub async fn sweep(&self) -> Result<Swept, Problem> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let swept = inner.sessions.sweep();
            for id in &swept.expired {
                inner.forget(id.as_str(), "expired", "")?;
            }
            for id in &swept.dormant {
                inner.recorder.note(&Entry::session_event(id.as_str(), "dormant"))?;
            }
            Ok(swept)
        })
        .await
    }

    /// What happened so far, as Prometheus read it.
    pub fn metrics(&self) -> String {
        let pool = {
            let pools = self.inner.pools.lock().unwrap_or_else(PoisonError::into_inner);
            pools.values().next().map(|warm| warm.pool.counts()).unwrap_or_default()
        };
        self.inner.metrics.text(&Now {
            gate: self.inner.admission.counts(),
            own_breaker: Some(self.inner.admission.own_breaker()),
            pool,
            sessions_open: self.inner.sessions.n_open(),
        })
    }

    /// What happened at the gate.
    pub fn admission(&self) -> &Admission {
        &self.inner.admission
    }

    /// Where calls are written down.
    pub fn recorder(&self) -> &Recorder {
        &self.inner.recorder
    }

    /// Lets a run in and writes its beginning down. Who is turned away is written down too.
    async fn admit(
        &self,
        client: &str,
        run_id: Option<RunId>,
        entry: impl Fn(RunId) -> Entry,
    ) -> Result<Begun, Box<Outcome>> {
        let run_id = run_id
            .map_or_else(fresh_id, Ok)
            .map_err(|problem| failed(crate::ids::some_id(), &problem))?;
        let entry = entry(run_id);
        let permit = match self.inner.admission.admit(client).await {
            Ok(permit) => permit,
            Err(rejection) => {
                let outcome = rejected(run_id, &rejection);
                let inner = Arc::clone(&self.inner);
                let end = entry.ended(&outcome);
                let noted = blocking(move || inner.recorder.note(&end)).await;
                return Err(match noted {
                    Ok(()) => Box::new(outcome),
                    Err(problem) => failed(run_id, &problem),
                });
            }
        };
        Ok(Begun { run_id, entry, permit })
    }

    /// Takes the road on a thread that may wait; the future's end is the run's.
    async fn on_thread<C: Send + 'static>(
        &self,
        tool: &'static str,
        begun: Begun,
        call: C,
        look: impl FnOnce(&Inner, &C) -> About + Send + 'static,
        work: impl FnOnce(&Inner, RunId, &C, &About, &Cancel) -> Result<Ran, Problem> + Send + 'static,
    ) -> Ran {
        let Begun { run_id, entry, mut permit } = begun;
        let inner = Arc::clone(&self.inner);
        let (wish, cancel) = match cancel::pair() {
            Ok(pair) => pair,
            Err(problem) => return Ran { outcome: *failed(run_id, &problem), files: None },
        };
        let road = move || {
            let began = Instant::now();
            let about = look(&inner, &call);
            let judged = inner.interceptor.judge(tool, &about);
            let mut entry = entry.risk(intercept::word(judged.risk));
            if !judged.words.is_empty() {
                entry = entry.verdict(&judged.words);
            }
            let seen = Seen {
                at_ms: 0,
                client: entry.client.clone().unwrap_or_default(),
                session: entry.session.clone(),
                tool: tool.to_owned(),
                status: Status::Ok,
                duration_ms: 0,
                code_sha256: entry.details.code_sha256.map(|digest| *digest.bytes()),
                bytes_read: 0,
                n_violations: 0,
                traversal: judged.traversal,
            };
            let begun = match inner.recorder.begin(entry) {
                Ok(begun) => begun,
                Err(problem) => {
                    permit.judge(Verdict::OurFault);
                    return Ran { outcome: *failed(run_id, &problem), files: None };
                }
            };
            let ran = match judged.refusal {
                Some(problem) => Err(problem),
                None => work(&inner, run_id, &call, &about, &cancel),
            };
            let mut ran = ran
                .unwrap_or_else(|problem| Ran { outcome: *failed(run_id, &problem), files: None });
            if inner.redact_output {
                record::redact_outcome(&mut ran.outcome);
            }
            begun.end(&mut ran.outcome);
            let took = began.elapsed();
            inner.metrics.count(tool, ran.outcome.status.name(), took);
            permit.judge(ran.outcome.status.into());
            inner.notice(Seen {
                status: ran.outcome.status,
                duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                n_violations: u32::try_from(ran.outcome.denials.len()).unwrap_or(u32::MAX),
                ..seen
            });
            ran
        };
        let ran = tokio::task::spawn_blocking(road).await;
        drop(wish);
        ran.unwrap_or_else(|e| {
            let problem = Problem::internal("panic", "the run's thread ended").cause(e);
            Ran { outcome: *failed(run_id, &problem), files: None }
        })
    }

    /// A call that is not a run: recorded, done on a thread that may wait, recorded.
    async fn call<T: Send + 'static>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<String>,
        work: impl FnOnce(&Inner) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.call_with(tool, client, session, None, move |inner, _| work(inner)).await
    }

    async fn call_with<T: Send + 'static>(
        &self,
        tool: &'static str,
        client: &str,
        session: Option<String>,
        summary: Option<String>,
        work: impl FnOnce(&Inner, &mut record::Begun<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut permit = self.inner.admission.admit(client).await.map_err(|r| r.problem())?;
        let inner = Arc::clone(&self.inner);
        let client = client.to_owned();
        blocking(move || {
            let mut entry = Entry::call_start(fresh_id()?).client(client).tool(tool);
            if let Some(session) = session {
                entry = entry.session(session);
            }
            let about = summary.clone().map_or(About::Nothing, |path| About::Paths(vec![path]));
            let judged = inner.interceptor.judge(tool, &about);
            entry = entry.risk(intercept::word(judged.risk));
            if let Some(summary) = summary {
                entry = entry.arguments(summary);
            }
            let seen = Seen {
                at_ms: 0,
                client: entry.client.clone().unwrap_or_default(),
                session: entry.session.clone(),
                tool: tool.to_owned(),
                status: Status::Ok,
                duration_ms: 0,
                code_sha256: None,
                bytes_read: 0,
                n_violations: 0,
                traversal: judged.traversal,
            };
            let began = Instant::now();
            let mut begun = inner.recorder.begin(entry)?;
            let done = match judged.refusal {
                Some(problem) => Err(problem),
                None => work(&inner, &mut begun),
            };
            let status = match &done {
                Ok(_) => RunStatus::Ok,
                Err(problem) if problem.kind == ProblemKind::Internal => RunStatus::Failed,
                Err(_) => RunStatus::Error,
            };
            begun.end_with(status)?;
            let took = began.elapsed();
            inner.metrics.count(tool, status.word(), took);
            permit.judge(Verdict::Fine);
            inner.notice(Seen {
                status: intercept::status_of(done.as_ref().map(|_| ())),
                duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                traversal: seen.traversal
                    || done.as_ref().is_err_and(|problem| problem.code == "path_outside"),
                ..seen
            });
            done
        })
        .await
    }
}

/// A run that was let in.
struct Begun {
    run_id: RunId,
    entry: Entry,
    permit: Permit,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Problem::internal("panic", "the call's thread ended").cause(e)))
}

impl Inner {
    fn code(
        &self,
        client: &str,
        run_id: RunId,
        call: &CodeCall,
        about: &About,
        cancel: &Cancel,
    ) -> Result<Ran, Problem> {
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
                self.cell(&session, &mut job, cancel)?
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
        let (outcome, files) = self.retried(|| {
            let warm = self.warm()?;
            let cancel = Some(std::os::fd::AsFd::as_fd(cancel));
            Ok(warm.fence.run_screened(run_id, &warm.pool, &job, cancel))
        })?;
        Ok(Ran { outcome, files })
    }

    /// A cell of a session, whose REPL is started if it is not there.
    fn cell(&self, session: &Session, job: &mut Job, cancel: &Cancel) -> Result<Outcome, Problem> {
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
            let (id, workspace) = (&session.id, &session.workspace);
            *live = Some(Live::start(
                &self.launcher,
                &self.code,
                &self.place,
                id,
                workspace,
                session.access(),
            )?);
        }
        let Some(repl) = &mut *live else {
            return Err(Problem::internal("repl", "the session has no REPL"));
        };
        job.name = Some(format!("cell {}", n_cells + 1));
        let cell = repl.cell(job, std::os::fd::AsFd::as_fd(cancel), &quota);
        if cell.is_err() {
            // What cannot be talked to is given up; the next cell starts anew.
            *live = None;
        }
        drop(live);
        self.sessions.change(session, |state| state.n_cells += 1)?;
        let mut outcome = cell?;
        if woke && outcome.error.is_none() {
            outcome.error = Some(ErrorInfo {
                code: "session_woke".to_owned(),
                message: "the session had been at rest: its files are there, the variables of earlier cells are gone"
                    .to_owned(),
                hint: Some("define again what this session's code needs".to_owned()),
                retry_after_ms: None,
            });
        }
        Ok(outcome)
    }

    fn command(
        &self,
        client: &str,
        run_id: RunId,
        call: &CommandCall,
        cancel: &Cancel,
    ) -> Result<Outcome, Problem> {
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
            fence = fence.in_session(host_workspace(
                &session.id,
                &session.workspace,
                session.access(),
            )?);
        }
        let (plan, finished) =
            fence.run_by(&self.launcher, &call.stdin, std::os::fd::AsFd::as_fd(cancel))?;
        let cancelled = finished.stopped == Some(ringfence_jail::StopReason::Caller(9));
        // Commands see the host's own paths, so there is none to hide.
        let mut outcome = command::outcome(run_id, &plan, finished, &Scrub::default());
        if cancelled {
            outcome.status = Status::Killed;
            outcome.error = Some(ErrorInfo {
                code: "cancelled".to_owned(),
                message: "the run was cancelled".to_owned(),
                hint: None,
                retry_after_ms: None,
            });
        }
        outcome.session_id = session.map(|session| session.id.to_string());
        Ok(outcome)
    }

    /// Looks at a call that has ended.
    fn notice(&self, seen: Seen) {
        self.interceptor.notice(&self.recorder, &Seen { at_ms: self.clock.now_ms(), ..seen });
    }

    /// The workers of the policy, started when they are first needed.
    fn warm(&self) -> Result<Arc<Warm>, Problem> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warm) = pools.get(&self.code.rules.preset) {
            return Ok(Arc::clone(warm));
        }
        let how = Use::Often { n_parallel: self.n_parallel };
        let fence = CodeFence::new(&self.code, &self.place, how)?;
        let pool = fence.pool(&self.launcher, self.n_parallel)?;
        let warm = Arc::new(Warm { pool, fence });
        pools.insert(self.code.rules.preset, Arc::clone(&warm));
        Ok(warm)
    }

    /// Tries again what failed on our side, with workers made anew.
    fn retried<T>(
        &self,
        mut work: impl FnMut() -> Result<(Outcome, T), Problem>,
    ) -> Result<(Outcome, T), Problem> {
        let mut wait = BACK_OFF;
        for _ in 1..TRIES_MAX {
            let done = work()?;
            if done.0.status != Status::Failed {
                return Ok(done);
            }
            self.pools.lock().unwrap_or_else(PoisonError::into_inner).clear();
            std::thread::sleep(wait);
            wait *= 2;
        }
        work()
    }

    /// Writes down that a session ended, and archives its rows.
    fn forget(&self, id: &str, event: &str, owner: &str) -> Result<(), Problem> {
        self.recorder.note(&Entry::session_event(id, event).client(owner))?;
        if let Some(ledger) = self.recorder.ledger() {
            ledger.archive_session(id)?;
        }
        Ok(())
    }
}

fn memory_total_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit).max(1).saturating_mul(info.totalram)
}

/// A client may have less time than the policy gives, never more.
fn narrowed(policy: Option<Span>, asked: Option<Duration>) -> Option<Duration> {
    let policy = policy.map(|span| Duration::from_millis(span.millis()));
    match (policy, asked) {
        (Some(policy), Some(asked)) => Some(policy.min(asked).max(SHORTEST)),
        (policy, asked) => policy.or(asked.map(|asked| asked.max(SHORTEST))),
    }
}

fn failed(run_id: RunId, problem: &Problem) -> Box<Outcome> {
    let status = match problem.kind {
        ProblemKind::Usage | ProblemKind::NotFound => Status::Error,
        ProblemKind::Refused => Status::Blocked,
        ProblemKind::Interrupted(_) => Status::Killed,
        ProblemKind::CannotBuild | ProblemKind::Internal => Status::Failed,
    };
    Box::new(Outcome::not_started(run_id, status, problem))
}

fn rejected(run_id: RunId, rejection: &Rejection) -> Outcome {
    let mut outcome = Outcome::not_started(run_id, Status::Rejected, &rejection.problem());
    if let Some(error) = &mut outcome.error {
        error.retry_after_ms = Some(rejection.retry_after_ms);
    }
    outcome
}

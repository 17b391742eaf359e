//! The façade: one engine, many clients. Each call is admitted, looked at, recorded, run and recorded again, in this file
//! and nowhere else, whatever face it came from; how a run is done is the road's.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use ringfence_audit::{Entry, RunStatus};
use ringfence_jail::Launcher;
use ringfence_python::Artifacts;
use ringfence_spec::{Outcome, Problem, ProblemKind, RunId, Status};

use crate::admission::{Admission, Permit, Rejection, Verdict};
use crate::builder::Builder;
use crate::cancel;
use crate::files::{
    Contents, Deleted, Depth, Entry as FileEntry, GrepQuery, Grepped, Listing, OnConflict, Parents,
    Workspace, WriteOptions, Written,
};
use crate::ids::fresh_id;
use crate::intercept::{self, About};
use crate::metrics::Now;
use crate::record::{self, Recorder};
use crate::road::{Called, Inner, On};
use crate::sessions::{SessionInfo, SessionState, Swept};
use crate::so_far::SoFar;
use crate::trace::Stopwatch;
use crate::watch::Seen;

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
    /// For callers who look at what it writes before it ends.
    pub so_far: Option<SoFar>,
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
    /// For callers who look at what it writes before it ends.
    pub so_far: Option<SoFar>,
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
    pub(crate) inner: Arc<Inner>,
}

impl Engine {
    /// An engine whose runs are launched by `launcher`, which must be started before the process has threads.
    pub fn builder(launcher: Launcher) -> Builder {
        Builder::new(launcher)
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
        self.on_thread("execute_code", begun, call, look, move |inner, call, about, on| {
            inner.code(&client, call, about, on)
        })
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
        self.on_thread("run_command", begun, call, look, move |inner, call, _, on| {
            let outcome = inner.command(&client, call, on)?;
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
        let wanted = cancel::Flag::default();
        let stop = wanted.seen();
        let client = owner.clone();
        let forked = self.call("session", &client, Some(id.clone()), move |inner| {
            let state = inner.sessions.fork_unless(&owner, &id, &stop)?;
            let event = Entry::session_event(state.id.as_str(), "forked").client(&owner);
            inner.recorder.note(&event.arguments(format!("from {id}")))?;
            Ok(state)
        });
        let forked = forked.await;
        drop(wanted);
        forked
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

    /// Searches a session's files. Dropping the future ends the search.
    pub async fn file_grep(
        &self,
        owner: &str,
        id: &str,
        path: OsString,
        query: GrepQuery,
    ) -> Result<Grepped, Problem> {
        let wanted = cancel::Flag::default();
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

    /// What happened so far, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        let pool = {
            let warm = self.inner.warm.lock().unwrap_or_else(PoisonError::into_inner);
            warm.as_ref().map(|warm| warm.pool.counts()).unwrap_or_default()
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
        let mut watch = Stopwatch::start();
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
        watch.part("admit");
        Ok(Begun { run_id, entry, permit, watch })
    }

    /// Takes the road on a thread that may wait; the future's end is the run's.
    async fn on_thread<C: Send + 'static>(
        &self,
        tool: &'static str,
        begun: Begun,
        call: C,
        look: impl FnOnce(&Inner, &C) -> About + Send + 'static,
        work: impl FnOnce(&Inner, &C, &About, On<'_>) -> Result<Ran, Problem> + Send + 'static,
    ) -> Ran {
        let Begun { run_id, entry, mut permit, mut watch } = begun;
        let inner = Arc::clone(&self.inner);
        let (wish, cancel) = match cancel::pair() {
            Ok(pair) => pair,
            Err(problem) => return Ran { outcome: *failed(run_id, &problem), files: None },
        };
        let road = move || {
            let began = Instant::now();
            let about = look(&inner, &call);
            let judged = inner.interceptor.judge(tool, &about);
            let mut entry = entry.risk(judged.risk);
            if !judged.words.is_empty() {
                entry = entry.verdict(&judged.words);
            }
            let seen = intercept::seen(tool, &entry, &judged);
            watch.part("screen");
            let begun = inner.recorder.prepare(entry);
            let ran = match judged.refusal {
                Some(problem) => Err(problem),
                None => work(&inner, &call, &about, On { run_id, record: &begun, cancel: &cancel }),
            };
            let mut ran = ran
                .unwrap_or_else(|problem| Ran { outcome: *failed(run_id, &problem), files: None });
            if inner.redact_output {
                record::redact_outcome(&mut ran.outcome);
            }
            watch.part("run");
            begun.end(&mut ran.outcome);
            watch.part("record");
            let took = began.elapsed();
            permit.judge(ran.outcome.status.into());
            let word = ran.outcome.status.name();
            inner.tell(
                Called { run_id, tool, word, verb: "ran", took, watch },
                Seen {
                    status: ran.outcome.status,
                    n_violations: u32::try_from(ran.outcome.denials.len()).unwrap_or(u32::MAX),
                    ..seen
                },
            );
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
        let mut watch = Stopwatch::start();
        let mut permit = self.inner.admission.admit(client).await.map_err(|r| r.problem())?;
        watch.part("admit");
        let inner = Arc::clone(&self.inner);
        let client = client.to_owned();
        blocking(move || {
            let run_id = fresh_id()?;
            let mut entry = Entry::call_start(run_id).client(client).tool(tool);
            if let Some(session) = session {
                entry = entry.session(session);
            }
            let about = summary.clone().map_or(About::Nothing, |path| About::Paths(vec![path]));
            let judged = inner.interceptor.judge(tool, &about);
            entry = entry.risk(judged.risk);
            if let Some(summary) = summary {
                entry = entry.arguments(summary);
            }
            let seen = intercept::seen(tool, &entry, &judged);
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
            watch.part("work");
            begun.end_with(status)?;
            watch.part("record");
            let took = began.elapsed();
            permit.judge(Verdict::Fine);
            let word = status.word();
            inner.tell(
                Called { run_id, tool, word, verb: "called", took, watch },
                Seen {
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

/// A run that was let in.
struct Begun {
    run_id: RunId,
    entry: Entry,
    permit: Permit,
    watch: Stopwatch,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Problem::internal("panic", "the call's thread ended").cause(e)))
}

fn failed(run_id: RunId, problem: &Problem) -> Box<Outcome> {
    Box::new(Outcome::not_started(run_id, problem.kind.into(), problem))
}

fn rejected(run_id: RunId, rejection: &Rejection) -> Outcome {
    Outcome::not_started(run_id, Status::Rejected, &rejection.problem())
}

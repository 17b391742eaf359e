//! Registry of every client's runs, whichever front end started them: running ones and the most recently ended. The
//! registry owns each run; its task ends with the engine.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ringfence_audit::now_ms;
use ringfence_python::Artifacts;
use ringfence_spec::{Code, Outcome, Problem, RunId, Status};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::call::EngineState;
use crate::engine::{Call, Engine, RunResult};
use crate::ids::fresh_id;
use crate::live_output::{LiveOutput, OpenLine};
use crate::partial_output::{OutputCursor, PartialOutput, PartialText, Step};
use crate::run_feed::{Announcer, Feed};
use crate::sessions::SessionId;

/// Maximum concurrent runs of one owner.
const RUNNING_MAX: usize = 64;

/// Maximum ended runs of one owner whose results are kept.
const KEPT_MAX: usize = 64;

/// Memory limit of those results. The newest is kept whatever its size.
const KEPT_BYTES_MAX: u64 = 32 << 20;

/// Time for which the files of an ended run are kept.
const FILES_KEPT: Duration = Duration::from_mins(15);

/// Retention of a run's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFiles {
    /// Keep the files as part of the result, for 15 minutes at most.
    Yes,
    /// Remove the files when the run ends.
    No,
}

/// Runs by owner, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    owners: Mutex<HashMap<Arc<str>, VecDeque<Arc<Run>>>>,
    feeds: Mutex<HashMap<Arc<str>, Arc<Feed>>>,
}

/// A client's run.
#[derive(Debug)]
pub struct Run {
    id: RunId,
    session: Option<SessionId>,
    began: Instant,
    began_ms: i64,
    partial_output: PartialOutput,
    ended: watch::Receiver<Option<Arc<Ended>>>,
    cancelled_ms: OnceLock<i64>,
    announcer: Arc<Announcer>,
    task: AbortHandle,
}

/// Result of a run.
#[derive(Debug)]
pub struct Ended {
    /// The outcome.
    pub outcome: Outcome,
    /// Time of the outcome.
    pub at_ms: i64,
    at: Instant,
    files: Mutex<Option<Arc<Artifacts>>>,
    /// Memory that the files take.
    files_bytes: u64,
    /// Memory that the outcome takes, about.
    outcome_bytes: u64,
}

impl Ended {
    fn new(ran: RunResult, keep: KeepFiles) -> Self {
        let files = ran.files.filter(|_| keep == KeepFiles::Yes).map(Arc::new);
        let files_bytes =
            files.as_ref().map_or(0, |files| files.kept_bytes(&ran.outcome.artifacts));
        let files = Mutex::new(files);
        let outcome_bytes = bytes_of(&ran.outcome);
        let (outcome, at_ms, at) = (ran.outcome, now_ms(), Instant::now());
        Self { outcome, at_ms, at, files, files_bytes, outcome_bytes }
    }

    /// Returns the files the run left, while they are kept.
    pub fn files(&self) -> Option<Arc<Artifacts>> {
        self.lock_files().clone()
    }

    fn drop_old_files(&self) {
        if self.at.elapsed() >= FILES_KEPT {
            *self.lock_files() = None;
        }
    }

    fn lock_files(&self) -> MutexGuard<'_, Option<Arc<Artifacts>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> u64 {
        let files = if self.lock_files().is_some() { self.files_bytes } else { 0 };
        files.saturating_add(self.outcome_bytes)
    }
}

/// Size of an outcome as text: its output, and the names of files and hosts that it lists.
fn bytes_of(outcome: &Outcome) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, outcome).map_or(u64::MAX, |()| count.0)
}

impl Run {
    /// Returns the run's id.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Returns the run's session, if any.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Returns the start time.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Returns the start time in milliseconds since 1970.
    pub fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// Returns the tail of the output so far.
    pub fn partial(&self) -> PartialText {
        self.partial_output.read()
    }

    /// Returns the program's progress note.
    pub fn note(&self) -> Option<String> {
        self.partial_output.note()
    }

    /// Returns the program's progress in its own units.
    pub fn step(&self) -> Option<Step> {
        self.partial_output.step()
    }

    /// Returns the output after a cursor.
    pub fn partial_after(&self, cursor: OutputCursor) -> PartialText {
        self.partial_output.read_after(cursor)
    }

    /// Returns the output after a cursor, in the order it was written.
    pub fn live_after(&self, cursor: OutputCursor, open_line: OpenLine) -> LiveOutput {
        self.partial_output.live_after(cursor, open_line)
    }

    /// Returns a watch on output and end of the run.
    pub fn watch(&self) -> RunWatch {
        let output = self.partial_output.clone();
        RunWatch { written: output.written(), output, ended: self.ended.clone() }
    }

    /// Returns the result, if the run ended without being cancelled.
    pub fn result(&self) -> Option<Arc<Ended>> {
        self.ended.borrow().clone()
    }

    /// Waits for the run's end. `None` if it was cancelled before it had a result.
    pub async fn ended(&self) -> Option<Arc<Ended>> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|found| found.clone())
    }

    /// Returns true while the run has neither ended nor been cancelled.
    pub fn is_running(&self) -> bool {
        !self.task.is_finished() && self.ended.borrow().is_none()
    }

    /// Cancels the run. Does nothing if it has ended.
    pub fn cancel(&self) {
        if self.ended.borrow().is_none() {
            self.cancelled_ms.get_or_init(now_ms);
        }
        // Drops the engine's future, which kills the tree.
        self.task.abort();
        let outcome = || self.result().map_or_else(|| self.cancelled(), |e| e.outcome.clone());
        self.announcer.finished_if_not_yet(outcome);
    }

    /// Returns the time of cancellation, if any.
    pub fn cancelled_ms(&self) -> Option<i64> {
        self.cancelled_ms.get().copied()
    }

    /// Returns the outcome of a run that was cancelled before it had one.
    pub fn cancelled(&self) -> Outcome {
        let problem = Problem::usage(Code::Cancelled, "the run was cancelled");
        let mut outcome = Outcome::not_started(self.id, Status::Killed, &problem);
        outcome.ran = ringfence_spec::Ran::Unknown;
        outcome.session_id = self.session.as_ref().map(SessionId::to_string);
        outcome
    }

    /// Returns a provisional outcome: nothing is known yet except the recent output.
    pub fn running(&self, partial: &PartialText) -> serde_json::Value {
        let nothing_yet = Problem::usage(Code::Other, "");
        let unknown = Outcome::not_started(self.id, Status::Ok, &nothing_yet);
        let mut outcome = serde_json::to_value(unknown).unwrap_or_default();
        outcome["session_id"] = self.session.as_ref().map(SessionId::as_str).into();
        outcome["status"] = "running".into();
        outcome["ran"] = "unknown".into();
        outcome["usage"]["wall_ms"] = (self.began.elapsed().as_secs_f64() * 1000.0).into();
        outcome["error"] = serde_json::Value::Null;
        let streams = [
            ("stdout", &partial.stdout, partial.stdout_bytes),
            ("stderr", &partial.stderr, partial.stderr_bytes),
        ];
        for (name, shown, n_bytes) in streams {
            outcome[name] = shown.as_str().into();
            outcome["usage"][format!("{name}_bytes")] = n_bytes.into();
            // Partial output keeps the tail, so the beginning is the part left out.
            outcome["truncated"][name] = (n_bytes > shown.len() as u64).into();
        }
        outcome
    }
}

/// Changes of a run.
#[derive(Debug)]
pub struct RunWatch {
    output: PartialOutput,
    written: watch::Receiver<()>,
    ended: watch::Receiver<Option<Arc<Ended>>>,
}

impl RunWatch {
    /// Waits for output that was not there at the last call, or for the run's end.
    pub async fn changed(&mut self) {
        let due = self.output.due();
        let is_due = async {
            match due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = self.written.changed() => {}
            // Text that redaction held back, and no write came.
            () = is_due => {}
            _ = self.ended.wait_for(Option::is_some) => {}
        }
    }
}

impl Engine {
    /// Starts a run that other callers of the same owner can look up by its id. Requires a tokio runtime.
    pub fn start(
        &self,
        owner: &str,
        client: &str,
        call: impl Into<Call>,
        keep: KeepFiles,
    ) -> Result<Arc<Run>, Problem> {
        let mut call = call.into();
        let (id, partial_output) = (fresh_id()?, PartialOutput::default());
        let session = match &mut call {
            Call::Code(call) => {
                (call.run_id, call.partial_output) = (Some(id), Some(partial_output.clone()));
                call.session.clone()
            }
            Call::Command(call) => {
                (call.run_id, call.partial_output) = (Some(id), Some(partial_output.clone()));
                call.session.clone()
            }
        };
        let mut owners = self.state.runs.lock();
        let runs = owners.entry(owner.into()).or_default();
        if runs.iter().filter(|run| run.is_running()).count() >= RUNNING_MAX {
            return Err(Problem::refused(
                Code::TooManyRuns,
                format!("{RUNNING_MAX} runs of yours are running"),
            )
            .hint("wait for one, or cancel one")
            .retry_after_ms(1_000));
        }
        let (tell, ended) = watch::channel(None);
        // Not the engine's handle: the task must not keep alive the handle whose drop ends it.
        let (state, client) = (Arc::clone(&self.state), client.to_owned());
        let feed = self.state.runs.feed(owner);
        let announcer = Arc::new(Announcer::started(feed, id, session.as_ref(), call.tool()));
        let announce = Arc::clone(&announcer);
        let task = tokio::spawn(async move {
            let ran = EngineState::serve(state, &client, call).await;
            let ended = Arc::new(Ended::new(ran, keep));
            tell.send_replace(Some(Arc::clone(&ended)));
            announce.finished_if_not_yet(|| ended.outcome.clone());
        });
        let run = Arc::new(Run {
            id,
            session,
            began: Instant::now(),
            began_ms: now_ms(),
            partial_output,
            ended,
            cancelled_ms: OnceLock::new(),
            announcer,
            task: task.abort_handle(),
        });
        runs.push_back(Arc::clone(&run));
        tidy(runs);
        Ok(run)
    }

    /// Finds an owner's run by id.
    pub fn find_run(&self, owner: &str, id: &str) -> Option<Arc<Run>> {
        let owners = self.state.runs.lock();
        owners.get(owner)?.iter().find(|run| run.id.to_string() == id).cloned()
    }

    /// Lists an owner's runs, newest first.
    pub fn list_runs(&self, owner: &str) -> Vec<Arc<Run>> {
        let owners = self.state.runs.lock();
        owners.get(owner).into_iter().flatten().rev().cloned().collect()
    }

    /// Returns the feed of an owner's runs.
    pub fn run_feed(&self, owner: &str) -> Arc<Feed> {
        self.state.runs.feed(owner)
    }

    /// Drops the files of runs that ended a while ago.
    pub fn drop_old_files(&self) {
        let owners = self.state.runs.lock();
        for ended in owners.values().flatten().filter_map(|run| run.result()) {
            ended.drop_old_files();
        }
    }

    /// Number of running runs of all owners.
    pub fn n_running(&self) -> usize {
        self.state.runs.lock().values().flatten().filter(|run| run.is_running()).count()
    }

    /// Cancels and removes every run of the owners for which `keep` is false.
    pub fn end_runs(&self, keep: impl Fn(&str) -> bool) {
        self.state.runs.end(keep);
    }
}

impl Runs {
    pub(crate) fn end(&self, keep: impl Fn(&str) -> bool) {
        self.lock().retain(|owner, runs| {
            let keep = keep(owner);
            if !keep {
                for run in runs.iter() {
                    run.cancel();
                }
            }
            keep
        });
        self.lock_feeds().retain(|owner, _| keep(owner));
    }

    fn feed(&self, owner: &str) -> Arc<Feed> {
        Arc::clone(self.lock_feeds().entry(owner.into()).or_default())
    }

    fn lock_feeds(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, VecDeque<Arc<Run>>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the oldest results until the rest is within the limits.
fn tidy(runs: &mut VecDeque<Arc<Run>>) {
    let (mut n, mut bytes) = (0, 0_u64);
    let mut keep: Vec<bool> = Vec::with_capacity(runs.len());
    for run in runs.iter().rev() {
        keep.push(
            run.is_running() || {
                n += 1;
                bytes = bytes.saturating_add(run.result().map_or(0, |ended| ended.bytes()));
                bytes = bytes.saturating_add(run.partial_output.kept_bytes() as u64);
                n == 1 || (n <= KEPT_MAX && bytes <= KEPT_BYTES_MAX)
            },
        );
    }
    // `keep` was filled from the newest back, so `pop` yields the oldest first, as `retain` visits them.
    runs.retain(|_| keep.pop().unwrap_or(false));
}

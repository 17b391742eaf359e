//! The runs of every client: those that are running and the last that ended, whichever face started them. The registry owns
//! each run; its task ends with the engine.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use ringfence_audit::now_ms;
use ringfence_python::Artifacts;
use ringfence_spec::{Outcome, Problem, RunId, Status};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::call::EngineState;
use crate::engine::{Call, Engine, RunResult};
use crate::ids::fresh_id;
use crate::partial_output::{PartialOutput, PartialText};
use crate::sessions::SessionId;

/// Runs of one owner at once.
const RUNNING_MAX: usize = 64;

/// Ended runs of one owner whose results are kept.
const KEPT_MAX: usize = 64;

/// Memory of those results. The newest is kept whatever it takes.
const KEPT_BYTES_MAX: u64 = 32 << 20;

/// Whether the files of a run are kept until they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFiles {
    /// They are part of the result.
    Yes,
    /// They go when the run ends.
    No,
}

/// Every owner's runs, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    owners: Mutex<HashMap<Arc<str>, VecDeque<Arc<Run>>>>,
}

/// One run of a client.
#[derive(Debug)]
pub struct Run {
    id: RunId,
    session: Option<SessionId>,
    began: Instant,
    began_ms: i64,
    partial_output: PartialOutput,
    ended: watch::Receiver<Option<Arc<Ended>>>,
    cancelled_ms: OnceLock<i64>,
    task: AbortHandle,
}

/// The result of a run.
#[derive(Debug)]
pub struct Ended {
    /// The answer.
    pub outcome: Outcome,
    /// When it came.
    pub at_ms: i64,
    files: Mutex<Option<Artifacts>>,
}

impl Ended {
    fn new(ran: RunResult, keep: KeepFiles) -> Self {
        let files = ran.files.filter(|_| keep == KeepFiles::Yes);
        Self { outcome: ran.outcome, at_ms: now_ms(), files: Mutex::new(files) }
    }

    /// The files that it left, for the first who asks.
    pub fn take_files(&self) -> Option<Artifacts> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn bytes(&self) -> u64 {
        let text = self.outcome.stdout.len() + self.outcome.stderr.len();
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let files =
            files.as_ref().map_or(0, |_| self.outcome.artifacts.iter().map(|a| a.bytes).sum());
        files + text as u64
    }
}

impl Run {
    /// Its name.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The session it belongs to.
    pub fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// When it began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The same, in milliseconds since 1970.
    pub fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// The end of what it has written until now.
    pub fn partial(&self) -> PartialText {
        self.partial_output.read()
    }

    /// Its result, if it has ended by itself.
    pub fn result(&self) -> Option<Arc<Ended>> {
        self.ended.borrow().clone()
    }

    /// Waits for its end. `None` if it was cancelled before it had a result.
    pub async fn ended(&self) -> Option<Arc<Ended>> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|found| found.clone())
    }

    /// Whether it is still running.
    pub fn is_running(&self) -> bool {
        !self.task.is_finished() && self.ended.borrow().is_none()
    }

    /// Ends it. Does nothing to one that has ended.
    pub fn cancel(&self) {
        if self.ended.borrow().is_none() {
            self.cancelled_ms.get_or_init(now_ms);
        }
        // Drops the engine's future, which kills the tree.
        self.task.abort();
    }

    /// When it was cancelled, if it was.
    pub fn cancelled_ms(&self) -> Option<i64> {
        self.cancelled_ms.get().copied()
    }

    /// The outcome of a run that was cancelled before it had one.
    pub fn cancelled(&self) -> Outcome {
        let problem = Problem::usage("cancelled", "the run was cancelled");
        let mut outcome = Outcome::not_started(self.id, Status::Killed, &problem);
        outcome.ran = ringfence_spec::Ran::Unknown;
        outcome.session_id = self.session.as_ref().map(SessionId::to_string);
        outcome
    }

    /// An outcome in which nothing is known yet but what was written last.
    pub fn running(&self, partial: &PartialText) -> serde_json::Value {
        let nothing_yet = Problem::usage("", "");
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
            // What is left out is the beginning.
            outcome["truncated"][name] = (n_bytes > shown.len() as u64).into();
        }
        outcome
    }
}

impl Engine {
    /// Starts a run that others of the same owner can ask for by its id. In a tokio runtime.
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
                "too_many_runs",
                format!("{RUNNING_MAX} runs of yours are running"),
            )
            .hint("wait for one, or cancel one")
            .retry_after_ms(1_000));
        }
        let (tell, ended) = watch::channel(None);
        // Not the engine's handle: the task must not keep alive what ends it.
        let (state, client) = (Arc::clone(&self.state), client.to_owned());
        let task = tokio::spawn(async move {
            let ran = EngineState::serve(state, &client, call).await;
            tell.send_replace(Some(Arc::new(Ended::new(ran, keep))));
        });
        let run = Arc::new(Run {
            id,
            session,
            began: Instant::now(),
            began_ms: now_ms(),
            partial_output,
            ended,
            cancelled_ms: OnceLock::new(),
            task: task.abort_handle(),
        });
        runs.push_back(Arc::clone(&run));
        tidy(runs);
        Ok(run)
    }

    /// A run of this owner's.
    pub fn find_run(&self, owner: &str, id: &str) -> Option<Arc<Run>> {
        let owners = self.state.runs.lock();
        owners.get(owner)?.iter().find(|run| run.id.to_string() == id).cloned()
    }

    /// The runs of an owner, the newest first.
    pub fn list_runs(&self, owner: &str) -> Vec<Arc<Run>> {
        let owners = self.state.runs.lock();
        owners.get(owner).into_iter().flatten().rev().cloned().collect()
    }

    /// Runs of all owners that are running.
    pub fn n_running(&self) -> usize {
        self.state.runs.lock().values().flatten().filter(|run| run.is_running()).count()
    }

    /// Ends every run of owners that are not kept, and forgets them.
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
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, VecDeque<Arc<Run>>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the oldest results until the rest is few and small.
fn tidy(runs: &mut VecDeque<Arc<Run>>) {
    let (mut n, mut bytes) = (0, 0);
    let mut keep: Vec<bool> = Vec::with_capacity(runs.len());
    for run in runs.iter().rev() {
        keep.push(
            run.is_running() || {
                n += 1;
                bytes += run.result().map_or(0, |ended| ended.bytes());
                n == 1 || (n <= KEPT_MAX && bytes <= KEPT_BYTES_MAX)
            },
        );
    }
    // In the order in which they were looked at, from the newest back.
    runs.retain(|_| keep.pop().unwrap_or(false));
}

//! Runs of clients: those that go on, so that they can be asked for and cancelled, and the last that ended. Every run is
//! owned: by the request that waits for it, else by this list. Who lets go of it ends it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use ringfence_engine::Ran;
use ringfence_spec::{Outcome, Problem, ProblemKind, Status};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::fault::{Fault, retry_after};
use super::scope::Caller;
use crate::going::Going;

/// Runs of one client that go on at once.
const GOING_MAX: usize = 64;

/// Runs of one client whose outcome is kept.
const KEPT_MAX: usize = 64;

/// What those outcomes may take. The newest is kept whatever it takes.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Every client's runs, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Runs {
    clients: Mutex<HashMap<Caller, VecDeque<Arc<Run>>>>,
}

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    going: Going,
    ended: watch::Receiver<Option<Ended>>,
    task: AbortHandle,
}

/// How a run ended, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    status: StatusCode,
    retry_after_ms: Option<u64>,
    body: Bytes,
}

/// Ends a run when its request goes away before it ended.
#[derive(Debug)]
struct Leash<'a>(&'a Run);

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        // Drops the engine's future, which kills the tree; does nothing to a run that has ended.
        self.0.task.abort();
    }
}

impl Runs {
    /// Starts a run.
    pub(super) fn start(
        &self,
        client: &Caller,
        going: Going,
        work: impl Future<Output = Ran> + Send + 'static,
    ) -> Result<Arc<Run>, Problem> {
        let mut clients = self.lock();
        let runs = clients.entry(client.clone()).or_default();
        if runs.iter().filter(|run| run.goes_on()).count() >= GOING_MAX {
            return Err(Problem::refused(
                "too_many_runs",
                format!("{GOING_MAX} runs of yours go on"),
            )
            .hint("wait for one, or cancel one with `DELETE /api/v1/runs/{id}`")
            .retry_after_ms(1_000));
        }
        let (tell, ended) = watch::channel(None);
        let task = tokio::spawn(async move {
            let ran = work.await;
            tell.send_replace(Some(Ended::of(&ran.outcome)));
        });
        let run = Arc::new(Run { going, ended, task: task.abort_handle() });
        runs.push_back(Arc::clone(&run));
        tidy(runs);
        Ok(run)
    }

    /// A run of this client's. Another's is as unknown as one that never was.
    pub(super) fn find(&self, client: &Caller, id: &str) -> Result<Arc<Run>, Fault> {
        let clients = self.lock();
        let run = clients.get(client).and_then(|runs| runs.iter().find(|run| run.id() == id));
        run.cloned().ok_or_else(|| {
            Problem::new(ProblemKind::NotFound, "run_unknown", "there is no such run")
                .hint(
                    "outcomes are kept for a while; what was written down stays in `/api/v1/audit`",
                )
                .into()
        })
    }

    /// What this client's runs are, the newest first: those that go on whole, those that ended by name.
    pub(super) fn list(&self, client: &Caller) -> Vec<Value> {
        let clients = self.lock();
        let Some(runs) = clients.get(client) else { return Vec::new() };
        runs.iter()
            .rev()
            .map(|run| {
                let going = run.goes_on();
                serde_json::json!({
                    "run_id": run.id(),
                    "session_id": run.going.session,
                    "status": if going { "running" } else { "ended" },
                })
            })
            .collect()
    }

    /// How many go on, of everybody.
    pub(super) fn n_going(&self) -> usize {
        let clients = self.lock();
        clients.values().flatten().filter(|run| run.goes_on()).count()
    }

    /// Ends every run of clients that are not among these, and forgets them.
    pub(super) fn keep_only(&self, clients: &HashSet<Caller>) {
        self.lock().retain(|client, runs| {
            let keep = clients.contains(client);
            if !keep {
                for run in runs.iter() {
                    run.task.abort();
                }
            }
            keep
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Caller, VecDeque<Arc<Run>>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the oldest outcomes until the rest is few and small.
fn tidy(runs: &mut VecDeque<Arc<Run>>) {
    let (mut n, mut bytes) = (0, 0);
    let mut keep: Vec<bool> = Vec::with_capacity(runs.len());
    for run in runs.iter().rev() {
        let size = run.ended.borrow().as_ref().map(|ended| ended.body.len());
        keep.push(match size {
            None => run.goes_on(),
            Some(size) => {
                n += 1;
                bytes += size;
                n == 1 || (n <= KEPT_MAX && bytes <= KEPT_BYTES_MAX)
            }
        });
    }
    // In the order in which they were looked at, from the newest back.
    runs.retain(|_| keep.pop().unwrap_or(false));
}

impl Run {
    /// Waits for the end. Whoever stops waiting ends the run.
    pub(super) async fn attend(&self) -> Ended {
        let _leash = Leash(self);
        self.end().await
    }

    /// Ends it, and says how it ended; one that has ended stays as it was.
    pub(super) async fn cancel(&self) -> Ended {
        self.task.abort();
        self.end().await
    }

    /// How it stands.
    pub(super) fn now(&self) -> Response {
        if let Some(ended) = self.ended.borrow().clone() {
            return ended.into_response();
        }
        if self.task.is_finished() {
            return self.cancelled().into_response();
        }
        axum::Json(self.running()).into_response()
    }

    /// What is said of a run that goes on.
    pub(super) fn running(&self) -> Value {
        self.going.outcome(&self.going.so_far.read())
    }

    /// Its name.
    pub(super) fn id(&self) -> String {
        self.going.id.to_string()
    }

    fn goes_on(&self) -> bool {
        !self.task.is_finished() && self.ended.borrow().is_none()
    }

    async fn end(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(ended)) => ended.clone(),
            // Its task was ended before it could tell.
            Ok(None) | Err(_) => self.cancelled(),
        }
    }

    fn cancelled(&self) -> Ended {
        let problem = Problem::usage("cancelled", "the run was cancelled");
        let mut outcome = Outcome::not_started(self.going.id, Status::Killed, &problem);
        outcome.ran = ringfence_spec::Ran::Unknown;
        outcome.session_id.clone_from(&self.going.session);
        let body = serde_json::to_vec(&outcome).unwrap_or_default().into();
        Ended { status: StatusCode::OK, retry_after_ms: None, body }
    }
}

impl Ended {
    fn of(outcome: &Outcome) -> Self {
        let error = outcome.error.as_ref();
        let status = match outcome.status {
            Status::Blocked => StatusCode::UNPROCESSABLE_ENTITY,
            Status::Rejected if error.is_some_and(|e| e.code == "shutting_down") => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Status::Rejected => StatusCode::TOO_MANY_REQUESTS,
            // There is nothing it could have run in: the same answer as from every route.
            _ if error.is_some_and(|e| e.code == "session_unknown") => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        };
        let retry_after_ms = error.and_then(|error| error.retry_after_ms);
        let body = Bytes::from(serde_json::to_vec(outcome).unwrap_or_default());
        Self { status, retry_after_ms, body }
    }
}

impl IntoResponse for Ended {
    fn into_response(self) -> Response {
        if self.status == StatusCode::NOT_FOUND {
            let problem =
                Problem::new(ProblemKind::NotFound, "session_unknown", "there is no such session")
                    .hint("make one with `POST /api/v1/sessions`");
            return Fault::from(problem).into_response();
        }
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (self.status, kind, self.body).into_response();
        if let Some(ms) = self.retry_after_ms {
            response.headers_mut().insert(header::RETRY_AFTER, retry_after(ms));
        }
        response
    }
}

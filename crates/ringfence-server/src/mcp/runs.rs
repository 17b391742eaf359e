//! Runs as tool calls. A call waits for its run for a while; after that the run continues and can be queried by id. The
//! engine owns the runs; tool results are built once and kept here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::request::Parts;
use ringfence_engine::{Call, Ended, Engine, KeepFiles, OutputCursor, Run};
use ringfence_spec::{Code, Problem, ProblemKind, RunId};
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OnceCell, broadcast};
use tokio_util::sync::CancellationToken;

use super::progress::Progress;
use super::resources::ResourceStore;
use super::tool_result::UsersFiles;
use super::tools::PolicyInForce;
use super::{tasks, tool_result};

/// Time that a call waits before it answers that the run continues. Some hosts give up on calls after five seconds.
pub(super) const PATIENCE: Duration = Duration::from_millis(2500);

/// Maximum number of kept results. Each has at most four images.
const KEPT_MAX: usize = 64;

/// Maximum number of departures that a waiting call has not seen yet.
const DEPARTURES_MAX: usize = 64;

/// Result that is built on first use.
type Made = OnceCell<Arc<CallToolResult>>;

/// Runs of one client, as results of tool calls.
#[derive(Debug)]
pub(super) struct Runs {
    engine: Engine,
    /// Key that the runs are registered under.
    owner: Arc<str>,
    client: Arc<str>,
    results: Mutex<VecDeque<(RunId, Arc<Made>)>>,
    /// Resources of the runs.
    pub(super) resources: Arc<ResourceStore>,
    /// Sends the id of each MCP session that its client ends.
    departed: broadcast::Sender<Arc<str>>,
    /// Cancelled when the client may not run anything any more.
    end: CancellationToken,
}

/// The call was cancelled: no response is expected.
#[derive(Debug)]
pub(super) struct Cancelled;

impl Runs {
    pub(super) fn new(engine: Engine, owner: &str, client: &str) -> Self {
        Self {
            engine,
            owner: owner.into(),
            client: client.into(),
            results: Mutex::default(),
            resources: Arc::default(),
            departed: broadcast::channel(DEPARTURES_MAX).0,
            end: CancellationToken::new(),
        }
    }

    /// Starts a run and waits for it for a while.
    pub(super) async fn start(
        &self,
        call: Call,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Cancelled> {
        if self.end.is_cancelled() {
            return Err(Cancelled);
        }
        let run = match self.engine.start(&self.owner, &self.client, call, KeepFiles::Yes) {
            Ok(run) => run,
            Err(problem) => return Ok(tool_result::not_started(&problem).into()),
        };
        match self.wait_for_end(&run, PATIENCE, context).await? {
            Some(result) => Ok(CallToolResult::clone(&result).into()),
            None if tasks::are_known(context) => Ok(tasks::created(&run)),
            None => Ok(tool_result::running(&run, OutputCursor::default()).into()),
        }
    }

    /// Waits for a run that outlasted its call. Cancelling this call ends the run.
    pub(super) async fn wait(
        &self,
        run_id: &str,
        patience: Duration,
        cursor: OutputCursor,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Cancelled> {
        let Some(run) = self.find(run_id) else {
            let problem =
                Problem::new(ProblemKind::NotFound, Code::RunUnknown, "there is no such run")
                    .hint("compare `run_id` with the answer that named it; a result is kept for a while, and nothing is run again by asking");
            return Ok(tool_result::no_such_run(run_id, &problem));
        };
        let result = self.wait_for_end(&run, patience, context).await?;
        Ok(match result {
            Some(result) => tool_result::after(CallToolResult::clone(&result), &run, cursor),
            None => tool_result::running(&run, cursor),
        })
    }

    /// Ends every run, even one that a call waits for, and every later one.
    pub(super) fn end(&self) {
        self.end.cancel();
        self.engine.end_runs(|owner| owner != &*self.owner);
    }

    /// Ends the runs that calls of an MCP session wait for.
    pub(super) fn leave(&self, mcp_session: &str) {
        // An error says that no call waits.
        let _ = self.departed.send(mcp_session.into());
    }

    pub(super) fn find(&self, run_id: &str) -> Option<Arc<Run>> {
        self.engine.find_run(&self.owner, run_id)
    }

    /// Returns the result of a run that has ended, built on first use. A task of its own builds it: a call that stops
    /// waiting does not stop the task, and the next call finds the result.
    pub(super) async fn result(&self, run: &Run, ended: Arc<Ended>) -> Arc<CallToolResult> {
        let (cell, resources) = (self.cell(run.id()), Arc::clone(&self.resources));
        let users_files = UsersFiles::of(&PolicyInForce::of(&self.engine));
        let made = tokio::spawn(async move {
            let made = cell.get_or_init(|| async move {
                let pictures = ended.outcome.artifacts.iter().any(tool_result::is_picture);
                let make = move || {
                    tool_result::of_run(
                        ended.outcome.clone(),
                        ended.files(),
                        &resources,
                        users_files,
                    )
                };
                // Scaling an image down takes a while.
                let result = if pictures {
                    tokio::task::spawn_blocking(make).await.ok()
                } else {
                    Some(make())
                };
                Arc::new(result.unwrap_or_else(not_made))
            });
            Arc::clone(made.await)
        });
        made.await.unwrap_or_else(|_| Arc::new(not_made()))
    }

    fn cell(&self, id: RunId) -> Arc<Made> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = results.iter().find(|(known, _)| *known == id) {
            return Arc::clone(cell);
        }
        if results.len() == KEPT_MAX {
            results.pop_front();
        }
        let cell = Arc::new(OnceCell::new());
        results.push_back((id, Arc::clone(&cell)));
        cell
    }

    /// Returns the result of a run, if it ends in time. Cancelling the call ends its run.
    async fn wait_for_end(
        &self,
        run: &Run,
        patience: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<Arc<CallToolResult>>, Cancelled> {
        let mut progress = Progress::new(context, run);
        tokio::select! {
            result = self.ended(run) => {
                progress.send_step().await;
                Ok(Some(result))
            }
            () = context.ct.cancelled() => {
                run.cancel();
                Err(Cancelled)
            }
            // The SDK would let the call wait for five seconds more, in which it yields.
            () = self.departure(context) => {
                run.cancel();
                Err(Cancelled)
            }
            () = tokio::time::sleep(patience) => Ok(None),
            () = progress.report() => Ok(None),
        }
    }

    /// Waits for the end of the call's MCP session. Calls without one wait forever.
    async fn departure(&self, context: &RequestContext<RoleServer>) {
        let mut departed = self.departed.subscribe();
        let parts = context.extensions.get::<Parts>();
        let own = parts.and_then(|parts| parts.headers.get("mcp-session-id"));
        if let Some(own) = own {
            loop {
                match departed.recv().await {
                    Ok(ended) if ended.as_bytes() == own.as_bytes() => return,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break,
                }
            }
        }
        std::future::pending::<()>().await;
    }

    async fn ended(&self, run: &Run) -> Arc<CallToolResult> {
        match run.ended().await {
            Some(ended) => self.result(run, ended).await,
            // The run was cancelled before it had a result.
            None => Arc::new(tool_result::of_outcome(run.cancelled())),
        }
    }
}

fn not_made() -> CallToolResult {
    tool_result::not_started(&Problem::internal(Code::Internal, "the result could not be made"))
}

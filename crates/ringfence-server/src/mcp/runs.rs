//! Runs and those who wait for them. A run that outlasts its call goes on and can be asked for by name; its result is kept for a
//! while. Every run is owned: by its call, then by this list; who lets go of it ends it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ringfence_audit::now_ms;
use ringfence_engine::Ran;
use ringfence_spec::{Problem, ProblemKind, RunId};
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::shelf::Shelf;
use super::{answer, progress, tasks};
use crate::going::Going;

/// How long a call waits before it says that the run goes on. Hosts give up on calls that take longer than some tens of seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs that go on or have a result nobody may have seen. A result has an image or two at most.
const KEPT_MAX: usize = 64;

/// Runs that outlasted their calls, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Runs {
    kept: Mutex<VecDeque<Arc<Run>>>,
    /// What they left.
    pub(super) shelf: Arc<Shelf>,
    /// Cancelled when the client may run nothing any more.
    end: CancellationToken,
}

/// One run. Dropping the last handle ends it.
#[derive(Debug)]
pub(super) struct Run {
    client: Arc<str>,
    going: Going,
    answer: watch::Receiver<Option<Answer>>,
    task: JoinHandle<()>,
    began_ms: i64,
    /// When somebody ended it by its name.
    cancelled_ms: OnceLock<i64>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) result: Arc<CallToolResult>,
    /// When it was there.
    pub(super) at_ms: i64,
}

impl Drop for Run {
    fn drop(&mut self) {
        // Drops the engine's future, which kills the tree.
        self.task.abort();
    }
}

/// The call was cancelled: nobody waits for an answer.
#[derive(Debug)]
pub(super) struct Cancelled;

impl Runs {
    /// Starts a run and waits for it for a while.
    pub(super) async fn start(
        &self,
        going: Going,
        client: &Arc<str>,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Ran> + Send + 'static,
    ) -> Result<CallToolResponse, Cancelled> {
        let (tell, answer) = watch::channel(None);
        let (end, shelf) = (self.end.clone(), Arc::clone(&self.shelf));
        let task = tokio::spawn(async move {
            tokio::select! {
                ran = work => {
                    let answer = if ran.outcome.artifacts.iter().any(answer::is_picture) {
                        // To make a picture smaller takes a while.
                        tokio::task::spawn_blocking(move || answer::of_run(ran, &shelf)).await.ok()
                    } else {
                        Some(answer::of_run(ran, &shelf))
                    };
                    let at_ms = now_ms();
                    tell.send_replace(answer.map(|answer| Answer { result: Arc::new(answer), at_ms }));
                }
                () = end.cancelled() => {}
            }
        });
        let (client, began_ms, cancelled_ms) = (Arc::clone(client), now_ms(), OnceLock::new());
        let run = Arc::new(Run { client, going, answer, task, began_ms, cancelled_ms });
        loop {
            if let Some(answer) = run.attend(context).await? {
                return Ok(answer.into());
            }
            if self.keep(&run) {
                let known = tasks::are_known(context);
                return Ok(if known { tasks::created(&run) } else { run.goes_on().into() });
            }
            // The list is full of runs that go on, so this call waits as long as it takes.
        }
    }

    /// Waits for a run that outlasted its call. Who cancels this ends the run.
    pub(super) async fn wait(
        &self,
        run_id: &str,
        client: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Cancelled> {
        let Some(run) = self.find(run_id, client) else {
            let problem =
                Problem::new(ProblemKind::NotFound, "run_unknown", "there is no such run")
                    .hint("its result was kept for a while and is gone; run it again");
            return Ok(answer::no_such_run(run_id, &problem));
        };
        match run.attend(context).await {
            Ok(answer) => Ok(answer.unwrap_or_else(|| run.goes_on())),
            Err(cancelled) => {
                run.task.abort();
                self.lock().retain(|kept| kept.going.id != run.going.id);
                Err(cancelled)
            }
        }
    }

    /// Ends every run, whoever waits for it, and every one that is yet to come.
    pub(super) fn end(&self) {
        self.end.cancel();
    }

    pub(super) fn find(&self, run_id: &str, client: &str) -> Option<Arc<Run>> {
        let kept = self.lock();
        let is_it = |run: &&Arc<Run>| run.going.id.to_string() == run_id && &*run.client == client;
        kept.iter().find(is_it).cloned()
    }

    /// Takes a run in, instead of the oldest that has ended if need be.
    fn keep(&self, run: &Arc<Run>) -> bool {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            match kept.iter().position(|run| run.task.is_finished()) {
                Some(ended) => drop(kept.remove(ended)),
                None => return false,
            }
        }
        kept.push_back(Arc::clone(run));
        true
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Run>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    pub(super) fn id(&self) -> RunId {
        self.going.id
    }

    /// When it began.
    pub(super) fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// For whoever looks while it goes on.
    pub(super) fn in_words(&self) -> String {
        progress::in_words(&self.going)
    }

    /// Its result, if it is there.
    pub(super) fn answer_so_far(&self) -> Option<Answer> {
        self.answer.borrow().clone()
    }

    /// Ends it.
    pub(super) fn cancel(&self) {
        self.cancelled_ms.get_or_init(now_ms);
        self.task.abort();
    }

    /// When it was ended by its name, if it was.
    pub(super) fn cancelled_ms(&self) -> Option<i64> {
        self.cancelled_ms.get().copied()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Its result, if it comes in time.
    async fn attend(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<CallToolResult>, Cancelled> {
        tokio::select! {
            answer = self.result() => Ok(Some(answer)),
            () = context.ct.cancelled() => Err(Cancelled),
            () = tokio::time::sleep(PATIENCE) => Ok(None),
            () = progress::report(context, &self.going) => Ok(None),
        }
    }

    async fn result(&self) -> CallToolResult {
        let mut answer = self.answer.clone();
        match answer.wait_for(Option::is_some).await {
            Ok(found) => match &*found {
                Some(answer) => CallToolResult::clone(&answer.result),
                None => answer::ended(self.going.id),
            },
            // Its task was ended before it could tell.
            Err(_) => answer::ended(self.going.id),
        }
    }

    fn goes_on(&self) -> CallToolResult {
        answer::running(&self.going)
    }
}

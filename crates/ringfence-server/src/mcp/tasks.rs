//! Runs that outlast their call, as protocol tasks: for clients that declare the extension. Other clients get a result
//! with the status `running`, and use the tool `wait`.

use ringfence_audit::now_ms;
use ringfence_spec::utc;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CreateTaskResult, DetailedTask, ErrorData, JsonObject, Task, TaskPayload,
    TaskStatus,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use ringfence_engine::Run;

use super::progress;
use super::runs::Runs;

/// Recommended poll interval.
const POLL_EVERY_MS: u64 = 1_000;

/// Time that a result is kept, unless many others follow.
const KEPT_MS: u64 = 3_600_000;

/// Returns whether the client supports tasks.
pub(super) fn are_known(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// Response to a call whose run continues.
pub(super) fn created(run: &Run) -> CallToolResponse {
    CallToolResponse::Task(CreateTaskResult::new(task(run, TaskStatus::Working, now_ms())))
}

impl Runs {
    /// Returns the state of a run.
    pub(super) async fn task(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        let run = self.find(id).ok_or_else(unknown)?;
        let (payload, updated_ms) = if let Some(ended) = run.result() {
            let at_ms = ended.at_ms;
            let result = self.result(&run, ended).await;
            (TaskPayload::Completed { result: object(json!(*result)) }, at_ms)
        } else if let Some(at_ms) = run.cancelled_ms() {
            (TaskPayload::Cancelled, at_ms)
        } else if !run.is_running() {
            let error = ErrorData::internal_error("the run was ended with its client", None);
            (TaskPayload::Failed { error: object(json!(error)) }, now_ms())
        } else {
            (TaskPayload::Working, now_ms())
        };
        Ok(DetailedTask::new(task(&run, payload.status(), updated_ms), payload))
    }

    /// Cancels a run. One that has ended already is unchanged.
    pub(super) fn cancel_task(&self, id: &str) -> Result<(), ErrorData> {
        self.find(id).ok_or_else(unknown)?.cancel();
        Ok(())
    }

    /// Accepts an update without effect: no run ever asks for input, so there is nothing to answer.
    pub(super) fn update_task(&self, id: &str) -> Result<(), ErrorData> {
        self.find(id).map(drop).ok_or_else(unknown)
    }
}

fn task(run: &Run, status: TaskStatus, updated_ms: i64) -> Task {
    let task = Task::new(run.id().to_string(), status, utc(run.began_ms()), utc(updated_ms))
        .with_ttl_ms(KEPT_MS)
        .with_poll_interval_ms(POLL_EVERY_MS);
    if status == TaskStatus::Working {
        task.with_status_message(progress::in_words(run))
    } else {
        task
    }
}

fn unknown() -> ErrorData {
    ErrorData::invalid_params("there is no such task", None)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::default(),
    }
}

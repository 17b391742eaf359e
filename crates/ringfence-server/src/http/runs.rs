//! Runs as REST responses: the outcome with its status code, or the state of a run in progress.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::{Run, session_unknown};
use ringfence_spec::{Code, Face, Outcome, Problem, ProblemKind, Status};

use super::api_error::{ApiError, retry_after};

/// Cancels a run if its request is dropped before the run has ended.
#[derive(Debug)]
struct CancelWithRequest<'a>(&'a Run);

impl Drop for CancelWithRequest<'_> {
    fn drop(&mut self) {
        if self.0.is_running() {
            self.0.cancel();
        }
    }
}

/// Waits for the end. A client that stops waiting cancels the run.
pub(super) async fn wait_for_end(run: &Run) -> Response {
    let _cancel = CancelWithRequest(run);
    let ended = run.ended().await;
    let error = ended.as_ref().and_then(|ended| ended.outcome.error.as_ref());
    if error.is_some_and(|e| e.code == Code::SessionUnknown) {
        // There is no session to run in: the same response as from every other route.
        return ApiError::from(session_unknown()).into_response();
    }
    end(run).await
}

/// Cancels a run and returns its outcome; a run that has ended is unchanged.
pub(super) async fn cancel(run: &Run) -> Response {
    run.cancel();
    end(run).await
}

/// Returns the current state of a run.
pub(super) fn now(run: &Run) -> Response {
    match run.result() {
        Some(ended) => respond(&ended.outcome),
        None if run.is_running() => axum::Json(run.running(&run.partial())).into_response(),
        None => respond(&run.cancelled()),
    }
}

/// Response for a run that does not exist or belongs to another client.
pub(super) fn unknown() -> ApiError {
    Problem::new(ProblemKind::NotFound, Code::RunUnknown, "there is no such run")
        .hint("outcomes are kept for a while; what was written down stays in `/api/v1/audit`")
        .into()
}

async fn end(run: &Run) -> Response {
    match run.ended().await {
        Some(ended) => respond(&ended.outcome),
        None => respond(&run.cancelled()),
    }
}

fn respond(outcome: &Outcome) -> Response {
    let error = outcome.error.as_ref();
    let status = match outcome.status {
        Status::Blocked => StatusCode::UNPROCESSABLE_ENTITY,
        Status::Rejected if error.is_some_and(|e| e.code == Code::ShuttingDown) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Status::Rejected => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::OK,
    };
    let mut response = (status, axum::Json(&*outcome.worded_for(Face::Rest))).into_response();
    if let Some(ms) = error.and_then(|error| error.retry_after_ms) {
        response.headers_mut().insert(header::RETRY_AFTER, retry_after(ms));
    }
    response
}

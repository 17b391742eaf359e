//! Runs: start one and wait for it, query its state, cancel it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::{Call, CodeCall, CommandCall, KeepFiles, SessionId};
use ringfence_spec::{Code, Problem};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::schema::{Outcome, RunList};
use crate::http::AppState;
use crate::http::api_error::ApiError;
use crate::http::body::JsonBody;
use crate::http::page::{ListCursor, Order, PageQuery};
use crate::http::params::{Path, Query};
use crate::http::runs;
use crate::http::scope::{Run, Scoped};
use crate::request;

/// Program to run: either `code` or `command`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRequest {
    /// Python source.
    code: Option<String>,
    /// Shell command for `sh`, or a program and its arguments.
    command: Option<Command>,
    /// Session to run in; without one the run stands alone.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Timeout in seconds; can only lower the operator's limit.
    timeout_s: Option<f64>,
    /// Standard input.
    stdin: Option<String>,
    /// Working directory of a command.
    cwd: Option<String>,
    /// Answer at once with 202 and a `run_id` to poll.
    background: Option<bool>,
}

/// Shell command for `sh`, or a program and its arguments.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum Command {
    Line(String),
    Words(Vec<String>),
}

/// Run code or a command
///
/// Answers when the run has ended. A client that disconnects before cancels it.
#[utoipa::path(
    post, path = "/runs", tag = "runs", operation_id = "start_run", request_body = RunRequest,
    responses(
        (status = 200, description = "The run ended; `status` says how", body = Outcome),
        (status = 202, description = "Still running", body = Outcome),
        (status = 422, description = "Denied before it started; `denials` says why", body = Outcome),
        (status = 429, description = "Too many runs; retry after `Retry-After`", body = Outcome),
        (status = 503, description = "The service is shutting down", body = Outcome),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    JsonBody(asked): JsonBody<RunRequest>,
) -> Result<Response, ApiError> {
    let RunRequest { code, command, session, timeout_s, stdin, cwd, background } = asked;
    let timeout = request::seconds(timeout_s)?;
    let stdin = stdin.unwrap_or_default().into_bytes();
    // Those of a session stay in it.
    let keep = if session.is_some() { KeepFiles::No } else { KeepFiles::Yes };
    let call: Call = match (code, command) {
        (Some(code), None) => {
            if cwd.is_some() {
                return Err(bad("`cwd` is for commands; Python starts in `/workspace`"));
            }
            CodeCall { code: code.into_bytes(), session, stdin, timeout, ..CodeCall::default() }
                .into()
        }
        (None, Some(command)) => {
            let argv = match command {
                Command::Line(line) => request::shell(line),
                Command::Words(words) if words.is_empty() => {
                    return Err(bad("`command` is empty"));
                }
                Command::Words(words) => words,
            };
            let command = request::command(argv, cwd)?;
            CommandCall { session, stdin, timeout, ..command }.into()
        }
        _ => return Err(bad("a run has either `code` or `command`")),
    };
    let run = app.engine.start(&may.caller.owner(), may.name(), call, keep)?;
    if background == Some(true) {
        let place = [(header::LOCATION, format!("{}/runs/{}", super::BASE, run.id()))];
        return Ok((StatusCode::ACCEPTED, place, Json(run.running(&run.partial()))).into_response());
    }
    Ok(runs::wait_for_end(&run).await)
}

/// List your runs
///
/// Those in progress and the last that ended, newest first, whether they were started over REST or MCP.
#[utoipa::path(
    get, path = "/runs", tag = "runs", operation_id = "list_runs", params(PageQuery),
    responses((status = 200, description = "The runs", body = RunList)),
)]
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Query(asked): Query<PageQuery>,
) -> Result<Json<Value>, ApiError> {
    let runs = app.engine.list_runs(&may.caller.owner());
    let (runs, next) = asked.of_sorted(runs, Order::NewestFirst, |run| ListCursor {
        at_ms: run.began_ms(),
        id: run.id().to_string(),
    })?;
    let runs = runs.iter().map(|run| {
        let status = if run.is_running() { "running" } else { "ended" };
        let (run_id, session_id) = (run.id(), run.session());
        json!({"run_id": run_id, "session_id": session_id, "status": status, "began_ms": run.began_ms()})
    });
    Ok(Json(json!({"runs": runs.collect::<Vec<_>>(), "next": next})))
}

/// Read the state of a run
///
/// `status` is `running` until the run has ended; then this is its outcome, with the HTTP status it was or would have
/// been sent with.
#[utoipa::path(
    get, path = "/runs/{id}", tag = "runs", operation_id = "read_run", params(("id" = String, Path, description = "The run")),
    responses(
        (status = 200, description = "Current state of the run", body = Outcome),
        (status = 422, description = "It was refused before it ran", body = Outcome),
        (status = 429, description = "It was turned away", body = Outcome),
        (status = 503, description = "It was turned away while the engine shut down", body = Outcome),
    ),
)]
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let run = app.engine.find_run(&may.caller.owner(), &id).ok_or_else(runs::unknown)?;
    Ok(runs::now(&run))
}

/// Cancel a run
///
/// Kills all its processes. A run that has ended is unchanged.
#[utoipa::path(
    delete, path = "/runs/{id}", tag = "runs", operation_id = "cancel_run", params(("id" = String, Path, description = "The run")),
    responses(
        (status = 200, description = "Outcome of the run", body = Outcome),
        (status = 422, description = "It was refused before it ran", body = Outcome),
        (status = 429, description = "It was turned away", body = Outcome),
        (status = 503, description = "It was turned away while the engine shut down", body = Outcome),
    ),
)]
pub(super) async fn cancel(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let run = app.engine.find_run(&may.caller.owner(), &id).ok_or_else(runs::unknown)?;
    Ok(runs::cancel(&run).await)
}

fn bad(message: &str) -> ApiError {
    Problem::usage(Code::BadArguments, message).into()
}

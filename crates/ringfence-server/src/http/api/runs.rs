//! Runs: start one and wait for it, ask how it stands, cancel it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::{CodeCall, CommandCall, fresh_id};
use ringfence_spec::Problem;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::schema::Outcome;
use crate::going::Going;
use crate::http::House;
use crate::http::body::Asked;
use crate::http::fault::Fault;
use crate::http::params::Path;
use crate::http::scope::{May, Run};
use crate::request;

/// What to run: `code` or `command`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRequest {
    /// Python.
    code: Option<String>,
    /// A line for `sh`, or a program and its arguments.
    command: Option<Command>,
    /// The session it belongs to; without one it runs alone.
    session: Option<String>,
    /// Seconds; can only be less than the operator's limit.
    timeout_s: Option<f64>,
    /// What it reads.
    stdin: Option<String>,
    /// Where a command starts.
    cwd: Option<String>,
    /// Answer at once with 202 and a `run_id` to ask for.
    background: Option<bool>,
}

/// A line for `sh`, or a program and its arguments.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum Command {
    Line(String),
    Words(Vec<String>),
}

/// Run code or a command
///
/// Answers when the run has ended. Whoever goes away before cancels it.
#[utoipa::path(
    post, path = "/runs", tag = "runs", request_body = RunRequest,
    responses(
        (status = 200, description = "It has an outcome, good or bad", body = Outcome),
        (status = 202, description = "It goes on in the background", body = Outcome),
        (status = 422, description = "Refused before it ran; `denials` says why", body = Outcome),
        (status = 429, description = "Turned away; come again after `Retry-After`", body = Outcome),
    ),
)]
pub(super) async fn create(
    State(house): State<Arc<House>>,
    may: May<Run>,
    Asked(asked): Asked<RunRequest>,
) -> Result<Response, Fault> {
    let RunRequest { code, command, session, timeout_s, stdin, cwd, background } = asked;
    let timeout = request::seconds(timeout_s)?;
    let stdin = stdin.unwrap_or_default().into_bytes();
    let run_id = fresh_id()?;
    let client = Arc::clone(&may.caller.name);
    let engine = house.engine.clone();
    let going = Going::new(run_id, session.clone());
    let so_far = Some(going.so_far.clone());
    let run = match (code, command) {
        (Some(code), None) => {
            if cwd.is_some() {
                return Err(bad("`cwd` is for commands; Python starts in `/workspace`"));
            }
            let call = CodeCall {
                code,
                session,
                stdin,
                timeout,
                run_id: Some(run_id),
                so_far,
                ..CodeCall::default()
            };
            let work = async move { engine.execute(&client, call).await };
            house.runs.start(&may.caller, going, work)?
        }
        (None, Some(command)) => {
            let argv = match command {
                Command::Line(line) => request::shell(line, cwd)?,
                Command::Words(words) if words.is_empty() => {
                    return Err(bad("`command` is empty"));
                }
                Command::Words(words) => request::words(words, cwd)?,
            };
            let call = CommandCall { argv, session, stdin, timeout, run_id: Some(run_id), so_far };
            let work = async move { engine.command(&client, call).await };
            house.runs.start(&may.caller, going, work)?
        }
        _ => return Err(bad("a run has either `code` or `command`")),
    };
    if background == Some(true) {
        let place = [(header::LOCATION, format!("{}/runs/{}", super::BASE, run.id()))];
        return Ok((StatusCode::ACCEPTED, place, Json(run.running())).into_response());
    }
    Ok(run.attend().await.into_response())
}

/// List your runs
///
/// Those that go on, and the last that ended; the newest first.
#[utoipa::path(get, path = "/runs", tag = "runs", responses((status = 200, description = "The runs", body = Value)))]
pub(super) async fn list(State(house): State<Arc<House>>, may: May<Run>) -> Json<Value> {
    Json(json!({"runs": house.runs.list(&may.caller)}))
}

/// Ask how a run stands
///
/// `status` is `running` until it has ended; then this is its outcome, with the status it was or would have been sent with.
#[utoipa::path(
    get, path = "/runs/{id}", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "How it stands", body = Outcome)),
)]
pub(super) async fn show(
    State(house): State<Arc<House>>,
    may: May<Run>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    Ok(house.runs.find(&may.caller, &id)?.now())
}

/// Cancel a run
///
/// Kills every process of it. One that has ended stays as it was.
#[utoipa::path(
    delete, path = "/runs/{id}", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "How it ended", body = Outcome)),
)]
pub(super) async fn cancel(
    State(house): State<Arc<House>>,
    may: May<Run>,
    Path(id): Path<String>,
) -> Result<Response, Fault> {
    let run = house.runs.find(&may.caller, &id)?;
    Ok(run.cancel().await.into_response())
}

fn bad(message: &str) -> Fault {
    Problem::usage("bad_arguments", message).into()
}

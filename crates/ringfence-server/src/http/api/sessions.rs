//! Sessions: create, read, copy and close.

use ringfence_engine::files::FileAccess;
use ringfence_engine::{SessionId, SessionOptions};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::AppState;
use crate::http::body::JsonBody;
use crate::http::fault::Fault;
use crate::http::params::Path;
use crate::http::scope::{Scoped, Sessions};

/// Options of a new session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionRequest {
    /// Make the session's files read-only.
    #[serde(default)]
    read_only: bool,
}

/// Create a session
///
/// Keeps Python variables and files between runs, for at most 24 hours.
#[utoipa::path(
    post, path = "/sessions", tag = "sessions", request_body = SessionRequest,
    responses((status = 201, description = "The session; `id` is what to pass as `session`", body = Value)),
)]
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    JsonBody(asked): JsonBody<SessionRequest>,
) -> Result<(StatusCode, Json<Value>), Fault> {
    let options = SessionOptions { access: FileAccess::from_read_only(asked.read_only) };
    let state = app.engine.session_create(may.name(), options).await?;
    Ok((StatusCode::CREATED, Json(shown(&state))))
}

/// List your sessions
#[utoipa::path(get, path = "/sessions", tag = "sessions", responses((status = 200, description = "The sessions", body = Value)))]
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
) -> Result<Json<Value>, Fault> {
    let states = app.engine.session_list(may.name()).await?;
    let sessions: Vec<Value> = states.iter().map(shown).collect();
    Ok(Json(json!({"sessions": sessions})))
}

/// Read a session
#[utoipa::path(
    get, path = "/sessions/{id}", tag = "sessions", params(("id" = String, Path, description = "The session")),
    responses((status = 200, description = "What is known of it", body = Value)),
)]
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
) -> Result<Json<Value>, Fault> {
    let info = app.engine.session_info(may.name(), &id).await?;
    Ok(Json(shown(&info)))
}

/// Close a session
///
/// Deletes its files and variables, and kills its processes.
#[utoipa::path(
    delete, path = "/sessions/{id}", tag = "sessions", params(("id" = String, Path, description = "The session")),
    responses((status = 204, description = "It is gone")),
)]
pub(super) async fn close(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
) -> Result<StatusCode, Fault> {
    app.engine.session_close(may.name(), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Copy a session
///
/// Creates a session with a copy of the files. Variables are not copied.
#[utoipa::path(
    post, path = "/sessions/{id}/fork", tag = "sessions", params(("id" = String, Path, description = "The session")),
    responses((status = 201, description = "The new session", body = Value)),
)]
pub(super) async fn fork(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
) -> Result<(StatusCode, Json<Value>), Fault> {
    let state = app.engine.session_fork(may.name(), &id).await?;
    Ok((StatusCode::CREATED, Json(shown(&state))))
}

/// Serializes a session for its owner.
fn shown(session: &impl Serialize) -> Value {
    serde_json::to_value(session).unwrap_or_default()
}

//! Sessions: create, read, copy and close.

use ringfence_engine::files::FileAccess;
use ringfence_engine::{SessionId, SessionOptions, SessionState};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::schema::{CheckpointList, Session, SessionList};
use crate::http::AppState;
use crate::http::api_error::ApiError;
use crate::http::body::{JsonBody, OptionalJson};
use crate::http::page::{self, ListCursor, Order, PageQuery};
use crate::http::params::{Path, Query};
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
    post, path = "/sessions", tag = "sessions", operation_id = "create_session", request_body = SessionRequest,
    responses((status = 201, description = "The session; `id` is what to pass as `session`", body = Session)),
)]
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    OptionalJson(asked): OptionalJson<SessionRequest>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let options = SessionOptions { access: FileAccess::from_read_only(asked.read_only) };
    let state = app.engine.session_create(may.name(), options).await?;
    Ok((StatusCode::CREATED, Json(shown(&state))))
}

/// List your sessions
///
/// Oldest first.
#[utoipa::path(
    get, path = "/sessions", tag = "sessions", operation_id = "list_sessions", params(PageQuery),
    responses((status = 200, description = "The sessions", body = SessionList)),
)]
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Query(asked): Query<PageQuery>,
) -> Result<Json<Value>, ApiError> {
    let states = app.engine.session_list(may.name()).await?;
    let place = |state: &SessionState| ListCursor {
        at_ms: i64::try_from(state.created_ms).unwrap_or(i64::MAX),
        id: state.id.to_string(),
    };
    let (states, next) = asked.of_sorted(states, Order::OldestFirst, place)?;
    let sessions: Vec<Value> = states.iter().map(shown).collect();
    Ok(Json(json!({"sessions": sessions, "next": next})))
}

/// Read a session
#[utoipa::path(
    get, path = "/sessions/{id}", tag = "sessions", operation_id = "read_session", params(("id" = String, Path, description = "The session")),
    responses((status = 200, description = "The session", body = Session)),
)]
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
) -> Result<Json<Value>, ApiError> {
    let info = app.engine.session_info(may.name(), &id).await?;
    Ok(Json(shown(&info)))
}

/// Close a session
///
/// Deletes its files and variables, and kills its processes.
#[utoipa::path(
    delete, path = "/sessions/{id}", tag = "sessions", operation_id = "close_session", params(("id" = String, Path, description = "The session")),
    responses((status = 204, description = "Deleted")),
)]
pub(super) async fn close(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
) -> Result<StatusCode, ApiError> {
    app.engine.session_close(may.name(), &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Copy a session
///
/// Creates a session with a copy of the files. Variables are not copied.
#[utoipa::path(
    post, path = "/sessions/{id}/fork", tag = "sessions", operation_id = "fork_session", params(("id" = String, Path, description = "The session")),
    responses((status = 201, description = "The new session", body = Session)),
)]
pub(super) async fn fork(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let state = app.engine.session_fork(may.name(), &id).await?;
    Ok((StatusCode::CREATED, Json(shown(&state))))
}

/// List the checkpoints of a session
///
/// Cells that its variables can be rolled back to, oldest first.
#[utoipa::path(
    get, path = "/sessions/{id}/checkpoints", tag = "sessions", operation_id = "list_checkpoints",
    params(("id" = String, Path, description = "The session"), PageQuery),
    responses((status = 200, description = "The checkpoints", body = CheckpointList)),
)]
pub(super) async fn checkpoints(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
    Query(asked): Query<PageQuery>,
) -> Result<Json<Value>, ApiError> {
    let (limit, offset) = (asked.limit()?, asked.offset()?);
    let info = app.engine.session_info(may.name(), &id).await?;
    let mut cells: Vec<u64> = info.checkpoints.into_iter().skip(offset).collect();
    let next = page::cut(&mut cells, offset, limit);
    Ok(Json(json!({"session_id": id, "checkpoints": cells, "next": next})))
}

/// Cell to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RollbackRequest {
    /// Number of the cell, one of the session's `checkpoints`.
    #[schema(minimum = 0)]
    cell: u64,
}

/// Roll back a session
///
/// Restores the variables to their state after a cell. Files stay as they are.
#[utoipa::path(
    post, path = "/sessions/{id}/rollback", tag = "sessions", operation_id = "rollback_session",
    params(("id" = String, Path, description = "The session")), request_body = RollbackRequest,
    responses((status = 200, description = "The session after it", body = Session)),
)]
pub(super) async fn rollback(
    State(app): State<Arc<AppState>>,
    may: Scoped<Sessions>,
    Path(id): Path<SessionId>,
    JsonBody(asked): JsonBody<RollbackRequest>,
) -> Result<Json<Value>, ApiError> {
    let info = app.engine.session_rollback(may.name(), &id, asked.cell).await?;
    Ok(Json(shown(&info)))
}

/// Serializes a session for its owner.
fn shown(session: &impl Serialize) -> Value {
    serde_json::to_value(session).unwrap_or_default()
}

//! Files that a run without a session left. Kept with its outcome, and for 15 minutes at most.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use ringfence_engine::files::OpenedFile;
use ringfence_engine::{Run as EngineRun, blocking};
use ringfence_spec::{Code, Problem, ProblemKind};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::schema::ArtifactList;
use super::send_file;
use crate::http::api_error::ApiError;
use crate::http::page::{self, PageQuery};
use crate::http::params::{Path, Query};
use crate::http::scope::{Run, Scoped};
use crate::http::{AppState, conditions, runs};

/// List the files that a run left
#[utoipa::path(
    get, path = "/runs/{id}/artifacts", tag = "runs", operation_id = "list_artifacts",
    params(("id" = String, Path, description = "The run"), PageQuery),
    responses((status = 200, description = "The files", body = ArtifactList)),
)]
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Path(id): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Json<Value>, ApiError> {
    let run = find(&app, &may, &id)?;
    let (limit, offset) = (asked.limit()?, asked.offset()?);
    let artifacts = run.result().map(|ended| ended.outcome.artifacts.clone()).unwrap_or_default();
    let mut artifacts: Vec<_> = artifacts.into_iter().skip(offset).collect();
    let next = page::cut(&mut artifacts, offset, limit);
    Ok(Json(json!({"run_id": run.id(), "artifacts": artifacts, "next": next})))
}

/// Read a file that a run left
///
/// Of a run without a session; those of a session are its files.
#[utoipa::path(
    get, path = "/runs/{id}/artifacts/{*path}", tag = "runs", operation_id = "read_artifact",
    params(
        ("id" = String, Path, description = "The run"),
        ("path" = String, Path, description = "As the outcome names it"),
        ("Range" = Option<String>, Header, description = "One range, such as `bytes=0-99`"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of what you have"),
    ),
    responses(
        (status = 200, description = "The file's bytes", body = inline(super::schema::Bytes), content_type = "application/octet-stream"),
        (status = 206, description = "A part of them", body = inline(super::schema::Bytes), content_type = "application/octet-stream"),
        (status = 304, description = "Not modified"),
    ),
)]
pub(super) async fn read(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    Path((id, path)): Path<(String, String)>,
    axum::Extension(slot): axum::Extension<Arc<OwnedSemaphorePermit>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let run = find(&app, &may, &id)?;
    let ended = run.result().ok_or_else(|| missing("the run has not ended with a result"))?;
    if let Some(session) = run.session() {
        let problem = missing("the files of this run are those of its session");
        return Err(problem
            .hint(format!("read them at `/api/v1/sessions/{session}/files`"))
            .into());
    }
    // Only what the outcome names: a run may have left more, such as links.
    if !ended.outcome.artifacts.iter().any(|artifact| artifact.path == path) {
        return Err(missing("the run left no such file").into());
    }
    let files = ended.files().ok_or_else(|| {
        missing("the run's files are gone")
            .hint("they are kept for 15 minutes; files of a session are kept with it")
    })?;
    let name = path.clone();
    let opened = blocking(move || {
        let file = files
            .open_file(std::path::Path::new(&name))
            .map_err(|e| missing("the file cannot be read").cause(e))?;
        OpenedFile::of_plain(file)
    })
    .await?;
    let selection = conditions::evaluate(&headers, &opened.tag, opened.total_bytes, None);
    let end = app.streams.end_of(&may.caller);
    send_file::respond(opened, selection, &path, end, slot).await
}

fn find(app: &AppState, may: &Scoped<Run>, id: &str) -> Result<Arc<EngineRun>, ApiError> {
    app.engine.find_run(&may.caller.owner(), id).ok_or_else(runs::unknown)
}

fn missing(what: &str) -> Problem {
    Problem::new(ProblemKind::NotFound, Code::NotFound, what)
}

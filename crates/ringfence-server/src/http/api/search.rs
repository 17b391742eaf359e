//! Ranked search in a session's files, its index, and files cut into pieces.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::SessionId;
use ringfence_engine::search::{ChunkSize, SearchQuery};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::http::AppState;
use crate::http::fault::Fault;
use crate::http::params::{Path, Query};
use crate::http::scope::{Files, Scoped};

/// Hits of one answer.
const HITS_MAX: usize = 100;

/// Words to find, and where.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RankedQuery {
    /// Words, a question, or the name of a definition.
    query: String,
    /// Maximum number of hits, up to 100 [default: 10].
    limit: Option<usize>,
    /// Search only matching files, such as `*.py` or `src/**/*.rs`.
    glob: Option<String>,
    /// Search only files in this language.
    language: Option<String>,
}

/// A file, and the size of its pieces.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChunkQuery {
    /// File below the workspace.
    path: String,
    /// Lines of a piece, roughly.
    lines: Option<usize>,
    /// Share of a piece that the next one repeats, in percent, up to 50 [default: 0].
    #[serde(default)]
    overlap: usize,
    /// Wrap each piece as data, for the prompt of another model.
    #[serde(default)]
    prompt: bool,
}

/// Find pieces of a session's files by words
#[utoipa::path(
    get, path = "/sessions/{id}/search", tag = "files",
    params(("id" = String, Path, description = "The session"), RankedQuery),
    responses((status = 200, description = "Pieces of files, the best first", body = Value)),
)]
pub(super) async fn search(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(asked): Query<RankedQuery>,
) -> Result<Response, Fault> {
    let RankedQuery { query, limit, glob, language } = asked;
    let limit = limit.unwrap_or(0).min(HITS_MAX);
    let query = SearchQuery { query, limit, glob, language };
    Ok(Json(app.engine.search(may.name(), &id, query).await?).into_response())
}

/// Bring a session's search index up to date
///
/// A search does so too; this tells what was left out.
#[utoipa::path(
    post, path = "/sessions/{id}/index", tag = "files",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, description = "What was indexed and what was left out", body = Value)),
)]
pub(super) async fn index(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
) -> Result<Response, Fault> {
    Ok(Json(app.engine.index(may.name(), &id, ".".into()).await?).into_response())
}

/// Cut a session's file into pieces
///
/// At definitions, headings or paragraphs.
#[utoipa::path(
    get, path = "/sessions/{id}/chunks", tag = "files",
    params(("id" = String, Path, description = "The session"), ChunkQuery),
    responses((status = 200, description = "The pieces in order", body = Value)),
)]
pub(super) async fn chunks(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(asked): Query<ChunkQuery>,
) -> Result<Response, Fault> {
    let ChunkQuery { path, lines, overlap, prompt } = asked;
    let size = ChunkSize { lines, overlap_percent: overlap, prompt };
    let chunks = app.engine.chunk(may.name(), &id, path.into(), size).await?;
    Ok(Json(json!({"chunks": chunks})).into_response())
}

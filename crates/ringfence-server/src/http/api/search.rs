//! Ranked search in a session's files, its index, and files cut into pieces.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::SessionId;
use ringfence_engine::search::{CHUNKS_MAX, ChunkRange, ChunkSize, FileChunk, SearchQuery};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::IntoParams;

use super::schema::{ChunkList, IndexReport, SearchHits};
use crate::http::AppState;
use crate::http::api_error::ApiError;
use crate::http::page;
use crate::http::params::{Path, Query};
use crate::http::scope::{Files, Scoped};

/// Hits of one answer, if the request names no other number.
const HITS: usize = 10;

/// Hits of one search, on all its pages.
const HITS_MAX: usize = 100;

/// Words to find, and where.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RankedQuery {
    /// Words, a question, or the name of a definition.
    query: String,
    /// Maximum number of hits, up to 100 [default: 10].
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// Search only matching files, such as `*.py` or `src/**/*.rs`.
    glob: Option<String>,
    /// Search only files in this language.
    language: Option<String>,
    /// `next` of the previous page.
    cursor: Option<String>,
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
    /// Maximum number of pieces, up to 10000 [default: 10000]. A page of long pieces has fewer.
    #[param(minimum = 1)]
    limit: Option<usize>,
    /// `next` of the previous page.
    cursor: Option<String>,
}

/// Page of a file's pieces.
#[derive(Serialize)]
struct ChunkAnswer {
    chunks: Vec<FileChunk>,
    next: Option<String>,
}

/// Find pieces of a session's files by words
#[utoipa::path(
    get, path = "/sessions/{id}/search", tag = "files", operation_id = "search_files",
    params(("id" = String, Path, description = "The session"), RankedQuery),
    responses((status = 200, description = "Pieces of files, the best first", body = SearchHits)),
)]
pub(super) async fn search(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(asked): Query<RankedQuery>,
) -> Result<Response, ApiError> {
    let RankedQuery { query, limit, glob, language, cursor } = asked;
    let offset = page::offset(cursor.as_deref())?;
    let limit = page::limit(limit, HITS, HITS_MAX)?;
    // Ranked anew for each page, up to the hits that one search can have.
    let wanted = offset.saturating_add(limit).saturating_add(1).min(HITS_MAX);
    let query = SearchQuery { query, limit: wanted, glob, language };
    let mut found = app.engine.search(may.name(), &id, query).await?;
    found.hits.drain(..offset.min(found.hits.len()));
    let next = page::cut(&mut found.hits, offset, limit);
    let mut body = serde_json::to_value(found).unwrap_or_default();
    body["next"] = json!(next);
    Ok(Json(body).into_response())
}

/// Bring a session's search index up to date
///
/// A search does so too; this tells what was left out.
#[utoipa::path(
    post, path = "/sessions/{id}/index", tag = "files", operation_id = "index_files",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, description = "What was indexed and what was left out", body = IndexReport)),
)]
pub(super) async fn index(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
) -> Result<Response, ApiError> {
    Ok(Json(app.engine.index(may.name(), &id, ".".into()).await?).into_response())
}

/// Cut a session's file into pieces
///
/// At definitions, headings or paragraphs.
#[utoipa::path(
    get, path = "/sessions/{id}/chunks", tag = "files", operation_id = "list_chunks",
    params(("id" = String, Path, description = "The session"), ChunkQuery),
    responses((status = 200, description = "The pieces in order", body = ChunkList)),
)]
pub(super) async fn chunks(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(asked): Query<ChunkQuery>,
) -> Result<Response, ApiError> {
    let ChunkQuery { path, lines, overlap, prompt, limit, cursor } = asked;
    let offset = page::offset(cursor.as_deref())?;
    let limit = page::limit(limit, CHUNKS_MAX, CHUNKS_MAX)?;
    let size = ChunkSize { lines, overlap_percent: overlap, prompt };
    let range = ChunkRange { offset, limit };
    let page = app.engine.chunk(may.name(), &id, path.into(), size, range).await?;
    let next = page.next.map(|next| next.to_string());
    // Not by way of a `Value`, which would copy every text, and the path for every piece.
    Ok(Json(ChunkAnswer { chunks: page.chunks, next }).into_response())
}

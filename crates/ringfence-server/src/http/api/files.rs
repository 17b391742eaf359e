//! Files of a session. A file is sent as an attachment and never as a page: content that a guest wrote must not run in
//! a browser.

use ringfence_engine::SessionId;
use ringfence_spec::{Code, Problem};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::files::{
    Case, Depth, Edit, GrepBounds, GrepContext, GrepQuery, GrepReport, LIST_ENTRIES_MAX,
    OpenedFile, Parents, PatternStyle, Select, WriteOptions,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::{IntoParams, ToSchema};

use super::schema::{
    Bytes, EditPart, FileDeleted, FileEdited, FileListing, FileWritten, GrepResult,
};
use super::send_file;
use crate::http::api_error::ApiError;
use crate::http::body::JsonBody;
use crate::http::conditions::{self, Selection};
use crate::http::page;
use crate::http::params::{Path, Query};
use crate::http::scope::{Files, Scoped};
use crate::http::{AppState, body};

/// Maximum bytes of a file that one `offset` and `limit` reads.
const SLICE_BYTES_MAX: u64 = 10 << 20;

/// Range of a file, or depth of a directory listing.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FileQuery {
    /// First byte of a file [default: 0].
    offset: Option<u64>,
    /// Of a file, the maximum number of bytes, up to 10 MiB; of a directory, the maximum number of entries, up to 10,000.
    limit: Option<u64>,
    /// Levels of a directory to list [default: 1].
    depth: Option<usize>,
    /// Of a directory, `next` of the previous page.
    cursor: Option<String>,
}

impl FileQuery {
    /// Returns the range of a file that `offset` and `limit` ask for, if either is there.
    fn slice(&self) -> Option<std::ops::Range<u64>> {
        (self.offset.is_some() || self.limit.is_some()).then(|| {
            let start = self.offset.unwrap_or(0);
            start..start.saturating_add(self.limit.unwrap_or(u64::MAX).min(SLICE_BYTES_MAX))
        })
    }
}

/// Options for deleting a directory.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Delete a directory with all its contents.
    #[serde(default)]
    recursive: bool,
}

/// Pattern and scope of a search.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[allow(clippy::struct_excessive_bools, reason = "query parameters")]
pub(super) struct SearchQuery {
    /// Regular expression in Rust syntax.
    pattern: String,
    /// File or directory below the workspace [default: the whole workspace].
    path: Option<String>,
    /// Search only matching files, such as `*.py` or `src/**/*.rs`.
    glob: Option<String>,
    /// Treat the pattern as literal text.
    #[serde(default)]
    literal: bool,
    /// Search case-insensitively.
    #[serde(default)]
    ignore_case: bool,
    /// Search case-insensitively if the pattern has no upper-case letter.
    #[serde(default)]
    smart_case: bool,
    /// Match whole words only.
    #[serde(default)]
    words: bool,
    /// Select lines that do not match.
    #[serde(default)]
    invert: bool,
    /// Let a match span lines.
    #[serde(default)]
    multiline: bool,
    /// Return only the files with a match, in `files`.
    #[serde(default)]
    files: bool,
    /// Return only the number of matching lines of each file, in `files`.
    #[serde(default)]
    counts: bool,
    /// Search only files of these types, such as `py` or `rs,toml`.
    r#type: Option<String>,
    /// Search files whose names begin with a dot [default: true].
    hidden: Option<bool>,
    /// Skip what a `.gitignore` names.
    #[serde(default)]
    ignore: bool,
    /// Lines around each match, up to 30 [default: 0].
    context: Option<usize>,
    /// Lines before each match, up to 30 [default: `context`].
    before: Option<usize>,
    /// Lines after each match, up to 30 [default: `context`].
    after: Option<usize>,
    /// Maximum number of matches, or of files, up to 200 [default: 20].
    #[param(minimum = 1)]
    limit: Option<usize>,
}

impl SearchQuery {
    fn into_query(self) -> (String, GrepQuery) {
        let style = PatternStyle {
            literal: self.literal,
            case: Case::asked(self.ignore_case, self.smart_case),
            words: self.words,
            multiline: self.multiline,
            select: Select::asked(self.invert),
        };
        let types = self.r#type.as_deref().unwrap_or_default();
        let types = types.split(',').map(str::trim).filter(|name| !name.is_empty());
        let context = GrepContext::asked(self.context, self.before, self.after);
        let query = GrepQuery {
            patterns: vec![self.pattern],
            style,
            report: GrepReport::asked(self.files, self.counts),
            glob: self.glob,
            types: types.map(str::to_owned).collect(),
            skip_hidden: self.hidden == Some(false),
            skip_ignored: self.ignore,
            bounds: GrepBounds::asked(self.limit, context),
        };
        (self.path.unwrap_or_else(|| ".".to_owned()), query)
    }
}

/// List a session's files
#[utoipa::path(
    get, path = "/sessions/{id}/files", tag = "files", operation_id = "list_files",
    params(("id" = String, Path, description = "The session"), FileQuery),
    responses((status = 200, description = "Files of the workspace", body = FileListing)),
)]
pub(super) async fn list_root(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(asked): Query<FileQuery>,
) -> Result<Response, ApiError> {
    check_range(&asked)?;
    list(&app, &may, &id, ".", asked).await
}

/// Rejects numbers that are larger than any file.
fn check_range(asked: &FileQuery) -> Result<(), ApiError> {
    let is_large = |n: Option<u64>| n.is_some_and(|n| i64::try_from(n).is_err());
    if is_large(asked.offset) || is_large(asked.limit) {
        let problem = Problem::usage(Code::BadArguments, "`offset` or `limit` is too large");
        return Err(problem.into());
    }
    Ok(())
}

/// Read a file, or list a directory
///
/// Whole, by a `Range` of one part, or by `offset` and `limit`.
#[utoipa::path(
    get, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "read_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
        FileQuery,
        ("Range" = Option<String>, Header, description = "One range, such as `bytes=0-99`"),
        ("If-Match" = Option<String>, Header, description = "`ETag` that the file must have"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of what you have"),
        ("If-Range" = Option<String>, Header, description = "`ETag` that the file must have for the range"),
    ),
    responses(
        (
            status = 200,
            description = "The file's bytes; `Ringfence-Total-Bytes` is its length, `Ringfence-Next-Offset` where the next part begins, \
                `Ringfence-Sha256` the hash of what is sent, up to 1 MiB. Of a directory, its entries as JSON",
            content((inline(Bytes) = "application/octet-stream"), (String = "text/plain"), (FileListing = "application/json")),
        ),
        (
            status = 206, description = "The range",
            content((inline(Bytes) = "application/octet-stream"), (String = "text/plain")),
        ),
        (status = 304, description = "Not modified"),
    ),
)]
pub(super) async fn read(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    Query(asked): Query<FileQuery>,
    axum::Extension(slot): axum::Extension<Arc<OwnedSemaphorePermit>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check_range(&asked)?;
    if asked.depth.is_some() || asked.cursor.is_some() {
        return list(&app, &may, &id, &path, asked).await;
    }
    let slice = asked.slice();
    let choose = move |file: &OpenedFile| {
        let selection = conditions::evaluate(&headers, &file.tag, file.total_bytes, slice.as_ref());
        let n_bytes = match &selection {
            Selection::Whole => file.total_bytes,
            Selection::Part(range) | Selection::Slice(range) => range.end - range.start,
            Selection::NotModified
            | Selection::PreconditionFailed
            | Selection::RangeNotSatisfiable => 0,
        };
        (selection, n_bytes)
    };
    match app.engine.file_open(may.name(), &id, path.clone().into(), choose).await {
        Ok((file, selection)) => {
            let end = app.streams.end_of(&may.caller);
            send_file::respond(file, selection, &path, end, slot).await
        }
        Err(problem) if problem.code == Code::NotAFile => list(&app, &may, &id, &path, asked).await,
        Err(problem) => Err(problem.into()),
    }
}

/// Search a session's files
#[utoipa::path(
    get, path = "/sessions/{id}/grep", tag = "files", operation_id = "grep_files",
    params(("id" = String, Path, description = "The session"), SearchQuery),
    responses((status = 200, description = "Lines that match, or files, and the bound that ended the search", body = GrepResult)),
)]
pub(super) async fn grep(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(search): Query<SearchQuery>,
) -> Result<Response, ApiError> {
    // Refuses 0; larger ones are cut to the bounds of a search.
    page::limit(search.limit, 1, usize::MAX)?;
    let (path, query) = search.into_query();
    let found = app.engine.file_grep(may.name(), &id, path.into(), query).await?;
    Ok(Json(found).into_response())
}

/// Write a file
///
/// Written atomically; missing directories are created. With `If-Match` or `If-None-Match` only if it is as expected.
#[utoipa::path(
    put, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "write_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
        ("If-Match" = Option<String>, Header, description = "`ETag` that the file must have, or `*` for any file"),
        ("If-None-Match" = Option<String>, Header, description = "`*` if it must be new"),
    ),
    request_body(content = inline(Bytes), content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "It was replaced; `ETag` is its new one", body = FileWritten),
        (status = 201, description = "It is new; `ETag` is its tag", body = FileWritten),
    ),
)]
pub(super) async fn write(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    headers: HeaderMap,
    content: axum::body::Body,
) -> Result<Response, ApiError> {
    let (spool, _upload) = body::spool(&app, &may.caller, content).await?;
    let options = WriteOptions { parents: Parents::Create, ..WriteOptions::default() };
    let when = conditions::precondition(&headers);
    let written = app
        .engine
        .file_write_spooled(may.name(), &id, path.clone().into(), spool, options, when)
        .await?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = json!({
        "path": path, "created": written.created,
        "total_bytes": written.total_bytes, "sha256": written.sha256,
    });
    let tag = [(header::ETAG, conditions::etag(&written.tag))];
    Ok((status, tag, Json(body)).into_response())
}

/// Replacements in a text file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditRequest {
    /// Applied in this order, each to the result of the one before.
    #[schema(value_type = Vec<EditPart>)]
    edits: Vec<Edit>,
}

/// Edit a text file
///
/// Replaces parts of it, all or none, and writes it once. With `If-Match` only if it is as expected.
#[utoipa::path(
    patch, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "edit_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
        ("If-Match" = Option<String>, Header, description = "`ETag` that the file must have"),
    ),
    request_body = EditRequest,
    responses((status = 200, description = "It was changed; `ETag` is its new one", body = FileEdited)),
)]
pub(super) async fn edit(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<EditRequest>,
) -> Result<Response, ApiError> {
    let when = conditions::precondition(&headers);
    let edited = app.engine.file_edit(may.name(), &id, path.clone().into(), asked.edits, when);
    let (written, n_replaced) = edited.await?;
    let body = json!({
        "path": path, "n_replaced": n_replaced,
        "total_bytes": written.total_bytes, "sha256": written.sha256,
    });
    let tag = [(header::ETAG, conditions::etag(&written.tag))];
    Ok((tag, Json(body)).into_response())
}

/// Delete a file or a directory
#[utoipa::path(
    delete, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "delete_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
        DeleteQuery,
        ("If-Match" = Option<String>, Header, description = "`ETag` that the file must have"),
    ),
    responses((status = 200, description = "Number of entries removed", body = FileDeleted)),
)]
pub(super) async fn delete(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    Query(how_much): Query<DeleteQuery>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let depth = if how_much.recursive { Depth::All } else { Depth::One };
    let when = conditions::precondition(&headers);
    let deleted =
        app.engine.file_delete_if(may.name(), &id, path.clone().into(), depth, when).await?;
    Ok(Json(json!({"path": path, "n_entries": deleted.n_entries})))
}

async fn list(
    app: &AppState,
    may: &Scoped<Files>,
    id: &SessionId,
    path: &str,
    asked: FileQuery,
) -> Result<Response, ApiError> {
    let depth = asked.depth.unwrap_or(1).max(1);
    let limit = asked.limit.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let limit = page::limit(limit, LIST_ENTRIES_MAX, LIST_ENTRIES_MAX)?;
    let offset = page::offset(asked.cursor.as_deref())?;
    let engine = &app.engine;
    let listing = engine.file_list_from(may.name(), id, path.into(), depth, offset, limit).await?;
    // What an unreadable directory holds is on no other page.
    let n_listed = listing.entries.len();
    let next = listing.more.then(|| offset.saturating_add(n_listed).to_string());
    let body = json!({
        "path": path, "entries": listing.entries, "truncated": listing.truncated, "next": next,
    });
    Ok(Json(body).into_response())
}

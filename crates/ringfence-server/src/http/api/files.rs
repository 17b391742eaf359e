//! Files of a session. A file is sent as an attachment and never as a page: content that a guest wrote must not run in
//! a browser.

use ringfence_engine::SessionId;
use ringfence_spec::Code;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_engine::files::{
    Case, ContentKind, Depth, GrepBounds, GrepContext, GrepQuery, GrepReport, LIST_ENTRIES_MAX,
    Parents, PatternStyle, Select, WriteOptions,
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;

use crate::http::AppState;
use crate::http::body::Content;
use crate::http::fault::Fault;
use crate::http::params::{Path, Query};
use crate::http::scope::{Files, Scoped};

/// Range of a file, or depth of a directory listing.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FileQuery {
    /// First byte [default: 0].
    offset: Option<u64>,
    /// Maximum number of bytes, up to 10 MiB.
    limit: Option<u64>,
    /// Levels of a directory to list [default: 1].
    depth: Option<usize>,
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
    get, path = "/sessions/{id}/files", tag = "files",
    params(("id" = String, Path, description = "The session"), FileQuery),
    responses((status = 200, description = "What is in its workspace", body = Value)),
)]
pub(super) async fn list_root(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(part): Query<FileQuery>,
) -> Result<Response, Fault> {
    list(&app, &may, &id, ".", part.depth).await
}

/// Read a file, or list a directory
#[utoipa::path(
    get, path = "/sessions/{id}/files/{*path}", tag = "files",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
        FileQuery,
    ),
    responses((
        status = 200,
        description = "The file's bytes; `Ringfence-Total-Bytes` is its length, `Ringfence-Next-Offset` where the next part begins. \
            Of a directory, its entries as JSON",
        body = Vec<u8>, content_type = "application/octet-stream",
    )),
)]
pub(super) async fn read(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    Query(part): Query<FileQuery>,
) -> Result<Response, Fault> {
    let FileQuery { offset, limit, depth } = part;
    if depth.is_some() {
        return list(&app, &may, &id, &path, depth).await;
    }
    let offset = offset.unwrap_or(0);
    let read = app.engine.file_read(may.name(), &id, path.clone().into(), offset, limit).await;
    let contents = match read {
        Ok(contents) => contents,
        Err(problem) if problem.code == Code::NotAFile => {
            return list(&app, &may, &id, &path, None).await;
        }
        Err(problem) => return Err(problem.into()),
    };
    let mut headers = HeaderMap::new();
    let kind = match contents.kind {
        ContentKind::Text => "text/plain; charset=utf-8",
        ContentKind::Binary => "application/octet-stream",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert("ringfence-total-bytes", contents.total_bytes.into());
    if let Ok(hash) = HeaderValue::from_str(&contents.sha256) {
        headers.insert("ringfence-sha256", hash);
    }
    if contents.more {
        let next = offset.saturating_add(contents.bytes.len() as u64);
        headers.insert("ringfence-next-offset", next.into());
    }
    Ok((headers, contents.bytes).into_response())
}

/// Search a session's files
#[utoipa::path(
    get, path = "/sessions/{id}/grep", tag = "files",
    params(("id" = String, Path, description = "The session"), SearchQuery),
    responses((status = 200, description = "Lines that match, or files, and the bound that ended the search", body = Value)),
)]
pub(super) async fn grep(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path(id): Path<SessionId>,
    Query(search): Query<SearchQuery>,
) -> Result<Response, Fault> {
    let (path, query) = search.into_query();
    let found = app.engine.file_grep(may.name(), &id, path.into(), query).await?;
    Ok(Json(found).into_response())
}

/// Write a file
///
/// Written atomically; missing directories are created.
#[utoipa::path(
    put, path = "/sessions/{id}/files/{*path}", tag = "files",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "It was replaced", body = Value),
        (status = 201, description = "It is new", body = Value),
    ),
)]
pub(super) async fn write(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    Content(content): Content,
) -> Result<Response, Fault> {
    let options = WriteOptions { parents: Parents::Create, ..WriteOptions::default() };
    let written = app
        .engine
        .file_write(may.name(), &id, path.clone().into(), content.into(), options)
        .await?;
    let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let told = json!({
        "path": path, "created": written.created,
        "total_bytes": written.total_bytes, "sha256": written.sha256,
    });
    Ok((status, Json(told)).into_response())
}

/// Delete a file or a directory
#[utoipa::path(
    delete, path = "/sessions/{id}/files/{*path}", tag = "files",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Path, description = "Below its workspace"),
        DeleteQuery,
    ),
    responses((status = 200, description = "How many names are gone", body = Value)),
)]
pub(super) async fn delete(
    State(app): State<Arc<AppState>>,
    may: Scoped<Files>,
    Path((id, path)): Path<(SessionId, String)>,
    Query(how_much): Query<DeleteQuery>,
) -> Result<Json<Value>, Fault> {
    let depth = if how_much.recursive { Depth::All } else { Depth::One };
    let deleted = app.engine.file_delete(may.name(), &id, path.clone().into(), depth).await?;
    Ok(Json(json!({"path": path, "n_entries": deleted.n_entries})))
}

async fn list(
    app: &AppState,
    may: &Scoped<Files>,
    id: &SessionId,
    path: &str,
    depth: Option<usize>,
) -> Result<Response, Fault> {
    let depth = depth.unwrap_or(1).max(1);
    let engine = &app.engine;
    let listing = engine.file_list(may.name(), id, path.into(), depth, LIST_ENTRIES_MAX).await?;
    let told = json!({"path": path, "entries": listing.entries, "truncated": listing.truncated});
    Ok(Json(told).into_response())
}

//! Parts of the `OpenAPI` document that no handler declares: general information, outcomes, problems, authentication.

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, Info, OpenApi, OpenApiBuilder, Ref, RefOr, Required,
    ResponseBuilder, Responses, Schema, SecurityRequirement,
};
use utoipa::{PartialSchema, ToSchema};

use super::BASE;

/// Builds the document without routes.
pub(super) fn frame() -> OpenApi {
    let mut info = Info::new("Ringfence", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Runs code and commands behind a fence. Without tokens the service answers its own machine only, as `local`."
            .to_owned(),
    );
    OpenApiBuilder::new().info(info).components(Some(Components::new())).build()
}

/// Statuses of problems that every route can answer with.
const PROBLEMS: [(&str, &str); 9] = [
    ("400", "Invalid request"),
    ("401", "Invalid token"),
    ("403", "Not allowed"),
    ("404", "Unknown, expired, or of another client"),
    ("413", "Too large"),
    ("429", "Too many requests; retry after `Retry-After`"),
    ("500", "A failure of Ringfence"),
    ("503", "The service is ending, or not able to serve"),
    ("default", "A problem"),
];

/// Statuses of problems of routes with a body.
const BODY_PROBLEMS: [(&str, &str); 2] =
    [("408", "Timed out reading the body"), ("415", "The body is not declared as JSON")];

/// Operations whose body may be left out.
const OPTIONAL_BODIES: [&str; 2] = ["create_session", "write_file"];

/// Statuses of problems of single operations.
const OTHER_PROBLEMS: [(&str, &str, &str); 12] = [
    ("read_file", "412", "`If-Match` does not match the current ETag"),
    ("read_file", "416", "The range is not in the file"),
    ("read_artifact", "412", "`If-Match` does not match the current ETag"),
    ("read_artifact", "416", "The range is not in the file"),
    ("write_file", "409", "A file or directory has this name"),
    ("write_file", "412", "It is not as `If-Match` or `If-None-Match` expects"),
    ("edit_file", "409", "A text to replace is not there, or more than once"),
    ("edit_file", "412", "`If-Match` does not match the current ETag"),
    ("delete_file", "409", "It is a directory that is not empty"),
    ("delete_file", "412", "`If-Match` does not match the current ETag"),
    ("create_session", "409", "Session limit reached"),
    ("rollback_session", "409", "There is no such checkpoint"),
];

/// Adds the parts common to all operations: base path, authentication, problems.
pub(super) fn finish(document: &mut OpenApi) {
    let routes = std::mem::take(&mut document.paths.paths);
    document.paths.paths = routes
        .into_iter()
        // The router marks a parameter that may contain slashes; OpenAPI has no notation for that.
        .map(|(path, item)| (format!("{BASE}{}", path.replace("{*", "{")), item))
        .collect();
    for item in document.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
                .into_iter()
                .flatten();
        for operation in operations {
            let id = operation.operation_id.clone().unwrap_or_default();
            let has_body = operation.request_body.is_some();
            if OPTIONAL_BODIES.contains(&&*id)
                && let Some(body) = &mut operation.request_body
            {
                body.required = Some(Required::False);
            }
            let of_body = BODY_PROBLEMS.iter().filter(|_| has_body);
            let own = OTHER_PROBLEMS.iter().filter(|(of, ..)| *of == id);
            let own = own.map(|(_, status, what)| (*status, *what));
            for (status, what) in PROBLEMS.iter().chain(of_body).copied().chain(own) {
                add_problem(&mut operation.responses, status, what);
            }
        }
    }
    document.security = Some(vec![
        SecurityRequirement::new("token", Vec::<String>::new()),
        SecurityRequirement::default(),
    ]);
    let components = document.components.get_or_insert_default();
    components
        .add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    components.schemas.insert("Problem".to_owned(), described(problem_schema()));
    for (name, schema) in PARTS {
        components.schemas.insert((*name).to_owned(), described(schema()));
    }
}

/// Adds a problem to what an operation answers with a status.
fn add_problem(responses: &mut Responses, status: &str, what: &str) {
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = responses.responses.entry(status.to_owned());
    let response =
        response.or_insert_with(|| RefOr::T(ResponseBuilder::new().description(what).build()));
    if let RefOr::T(response) = response {
        response.content.insert("application/problem+json".to_owned(), problem);
    }
}

/// Declares a type by its JSON schema.
macro_rules! schema {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                described($schema)
            }
        }
    };
}

/// Name of a schema, and what makes it.
type NamedSchema = (&'static str, fn() -> Value);

/// Schemas that other schemas refer to.
const PARTS: &[NamedSchema] = &[
    ("RunSummary", || {
        object(
            &["run_id", "session_id", "status", "began_ms"],
            json!({
                "run_id": {"type": "string"},
                "session_id": {"type": ["string", "null"]},
                "status": {"type": "string", "enum": ["running", "ended"]},
                "began_ms": {"type": "integer"},
            }),
        )
    }),
    ("FileEntry", || {
        object(
            &["path", "kind", "bytes", "mode", "modified_ms", "n_links"],
            json!({
                "path": {"type": "string"},
                "path_base64": {"type": "string"},
                "kind": {"type": "string", "enum": ["file", "directory", "link", "special", "mount"]},
                "bytes": {"type": "integer"},
                "mode": {"type": "integer"},
                "modified_ms": {"type": "integer"},
                "n_links": {"type": "integer"},
                "link_target": {"type": "string"},
            }),
        )
    }),
    ("Artifact", || {
        object(
            &["path", "bytes", "media_type"],
            json!({
                "path": {"type": "string"},
                "bytes": {"type": "integer"},
                "media_type": {"type": "string"},
            }),
        )
    }),
    ("Event", || {
        object(
            &["id", "event", "data"],
            json!({
                "id": {"type": ["string", "null"]},
                "event": {"type": "string", "enum":
                    ["started", "stdout", "stderr", "lost", "denial", "artifact", "finished"]},
                "data": {"type": "object"},
            }),
        )
    }),
    ("AuditRecord", || {
        object(
            &["seq", "at_ms"],
            json!({
                "seq": {"type": "integer"},
                "at_ms": {"type": "integer"},
                "kind": {"type": ["string", "null"]},
                "run_id": {"type": ["string", "null"]},
                "session": {"type": ["string", "null"]},
                "client": {"type": ["string", "null"]},
                "tool": {"type": ["string", "null"]},
                "status": {"type": ["string", "null"]},
                "risk": {"type": ["string", "null"]},
                "details": {"type": ["object", "null"]},
            }),
        )
    }),
    ("Match", || {
        object(
            &["path", "line", "column", "text", "before", "after"],
            json!({
                "path": {"type": "string"},
                "line": {"type": "integer"},
                "column": {"type": "integer"},
                "text": {"type": "string"},
                "before": {"type": "array", "items": {"type": "string"}},
                "after": {"type": "array", "items": {"type": "string"}},
            }),
        )
    }),
    ("Piece", || {
        object(
            &["path", "start_line", "end_line", "language", "text"],
            json!({
                "path": {"type": "string"},
                "start_line": {"type": "integer"},
                "end_line": {"type": "integer"},
                "language": {"type": "string"},
                "symbol": {"type": ["string", "null"]},
                "score": {"type": "number"},
                "modified": {"type": ["number", "null"]},
                "text": {"type": "string"},
            }),
        )
    }),
];

#[allow(clippy::needless_pass_by_value, reason = "made for this call")]
fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// A list of a part, with the cursor of the next page.
fn list(of: &str, part: &str) -> Value {
    let items = json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{part}")}});
    object(&[of, "next"], json!({of: items, "next": next()}))
}

fn next() -> Value {
    json!({"type": ["string", "null"], "description": "`cursor` of the next page; null at the end"})
}

schema!(
    /// Content of a file.
    Bytes,
    json!({"type": "string", "format": "binary"})
);
schema!(
    /// Object of any shape.
    AnyObject,
    json!({"type": "object"})
);
schema!(
    /// Page of runs.
    RunList,
    list("runs", "RunSummary")
);
schema!(
    /// Page of a run's files.
    ArtifactList,
    {
        let mut schema = list("artifacts", "Artifact");
        schema["properties"]["run_id"] = json!({"type": "string"});
        schema
    }
);
schema!(
    /// Page of events.
    EventPage,
    object(
        &["events", "next", "ended"],
        json!({
            "events": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
            "next": {"type": "string", "description": "`cursor` of the next page"},
            "ended": {"type": "boolean", "description": "True if no event can follow"},
        })
    )
);
schema!(
    /// Page of sessions.
    SessionList,
    list("sessions", "Session")
);
schema!(
    /// Session, as its owner sees it.
    Session,
    object(
        &["id", "owner", "created_ms", "used_ms", "expires_ms", "quota_bytes", "read_only", "n_cells"],
        json!({
            "id": {"type": "string"},
            "owner": {"type": "string"},
            "created_ms": {"type": "integer"},
            "used_ms": {"type": "integer"},
            "expires_ms": {"type": "integer"},
            "quota_bytes": {"type": "integer"},
            "read_only": {"type": "boolean"},
            "n_cells": {"type": "integer"},
            "forked_from": {"type": ["string", "null"]},
            "today": {"type": "object"},
            "repl": {"type": "string", "enum": ["new", "live", "dormant"]},
            "checkpoints": {"type": "array", "items": {"type": "integer"}},
        })
    )
);
schema!(
    /// Cells that a session can be rolled back to.
    CheckpointList,
    object(
        &["session_id", "checkpoints", "next"],
        json!({
            "session_id": {"type": "string"},
            "checkpoints": {"type": "array", "items": {"type": "integer"}},
            "next": next(),
        })
    )
);
schema!(
    /// Page of a directory.
    FileListing,
    {
        let mut schema = list("entries", "FileEntry");
        schema["properties"]["path"] = json!({"type": "string"});
        schema["properties"]["truncated"] = json!({"type": "boolean"});
        schema
    }
);
schema!(
    /// File that was written.
    FileWritten,
    object(
        &["path", "created", "total_bytes", "sha256"],
        json!({
            "path": {"type": "string"},
            "created": {"type": "boolean"},
            "total_bytes": {"type": "integer"},
            "sha256": {"type": "string"},
        })
    )
);
schema!(
    /// File that was edited.
    FileEdited,
    object(
        &["path", "n_replaced", "total_bytes", "sha256"],
        json!({
            "path": {"type": "string"},
            "n_replaced": {"type": "integer", "description": "Places that were changed"},
            "total_bytes": {"type": "integer"},
            "sha256": {"type": "string"},
        })
    )
);
schema!(
    /// One replacement.
    EditPart,
    object(
        &["old", "new"],
        json!({
            "old": {"type": "string", "minLength": 1, "description": "Text in the file, exactly once unless `all`"},
            "new": {"type": "string", "description": "Text in its place"},
            "all": {"type": "boolean", "description": "Replace every occurrence"},
        })
    )
);
schema!(
    /// Files that were deleted.
    FileDeleted,
    object(
        &["path", "n_entries"],
        json!({"path": {"type": "string"}, "n_entries": {"type": "integer"}})
    )
);
schema!(
    /// Lines that match.
    GrepResult,
    object(
        &["matches", "n_files", "n_skipped", "cut"],
        json!({
            "matches": {"type": "array", "items": {"$ref": "#/components/schemas/Match"}},
            "files": {"type": "array", "items": object(&["path"], json!({
                "path": {"type": "string"}, "count": {"type": "integer"},
            }))},
            "n_files": {"type": "integer"},
            "n_skipped": {"type": "integer"},
            "cut": {"type": ["string", "null"]},
        })
    )
);
schema!(
    /// Page of hits.
    SearchHits,
    {
        let mut schema = list("hits", "Piece");
        schema["properties"]["n_files"] = json!({"type": "integer"});
        schema["properties"]["complete"] = json!({"type": "boolean"});
        schema["properties"]["ranking"] = json!({"enum": ["bm25", "bm25+vectors"]});
        schema["properties"]["ranking_note"] = json!({"type": "string"});
        schema
    }
);
schema!(
    /// Report of an index job.
    IndexReport,
    object(
        &["indexed", "unchanged", "removed", "skipped", "n_files", "n_chunks", "complete"],
        json!({
            "indexed": {"type": "integer"},
            "unchanged": {"type": "integer"},
            "removed": {"type": "integer"},
            "skipped": {"type": "integer"},
            "skipped_files": {"type": "array", "items": {"type": "object"}},
            "bytes": {"type": "integer"},
            "n_files": {"type": "integer"},
            "n_chunks": {"type": "integer"},
            "disk_bytes": {"type": "integer"},
            "n_vectors": {"type": "integer"},
            "vectors_note": {"type": "string"},
            "complete": {"type": "boolean"},
            "duration_ms": {"type": "number"},
        })
    )
);
schema!(
    /// Page of a file's pieces.
    ChunkList,
    list("chunks", "Piece")
);
schema!(
    /// Page of audit records.
    AuditPage,
    list("records", "AuditRecord")
);
schema!(
    /// Outcome of a run; `ringfence-spec` has the type.
    Outcome,
    json!({
            "type": "object",
            "description": "The same object from every face. Fields that do not apply are null, never missing.",
            "required": ["run_id", "status", "ran", "stdout", "stderr", "error"],
            "properties": {
                "run_id": {"type": "string"},
                "session_id": {"type": ["string", "null"]},
                "status": {"type": "string", "enum":
                    ["ok", "error", "blocked", "timeout", "memory", "killed", "rejected", "failed", "running"]},
                "ran": {"type": "string", "enum": ["yes", "no", "unknown"]},
                "exit_code": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
                "stdout": {"type": "string"},
                "stderr": {"type": "string"},
                "value": {"type": ["string", "null"]},
                "exception": {"type": ["object", "null"]},
                "truncated": {"type": "object"},
                "encoding": {"type": "string", "enum": ["utf-8", "base64"]},
                "artifacts": {"type": "array", "items": {"$ref": "#/components/schemas/Artifact"}},
                "workspace": {"type": "object"},
                "denials": {"type": "array", "items": {"type": "object"}},
                "connections": {"type": "array", "items": {"type": "object"}},
                "findings": {"type": "array", "items": {"type": "object"}},
                "notes": {"type": "array", "items": {"type": "string"}},
                "unobserved": {"type": "array", "items": {"type": "string"}},
                "enforcement": {"type": ["object", "null"]},
                "usage": {"type": "object"},
                "start": {"type": ["string", "null"]},
                "error": {"type": ["object", "null"], "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "hint": {"type": ["string", "null"]},
                    "retry_after_ms": {"type": ["integer", "null"]},
                }},
            },
        })
);

fn problem_schema() -> Value {
    json!({
        "type": "object",
        "description": "RFC 9457, with the code that every face uses.",
        "required": ["status", "detail", "code"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string"},
            "hint": {"type": ["string", "null"]},
            "retry_after_ms": {"type": ["integer", "null"]},
        },
    })
}

fn described(schema: Value) -> RefOr<Schema> {
    // A test checks that the document has both.
    serde_json::from_value(schema).map_or_else(|_| RefOr::T(Schema::default()), RefOr::T)
}

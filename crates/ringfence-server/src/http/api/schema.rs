//! Parts of the `OpenAPI` document that no handler declares: general information, outcomes, problems, authentication.

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, ContentBuilder, Info, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder, Schema,
    SecurityRequirement,
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

/// Adds the parts common to all operations: base path, authentication, problems.
pub(super) fn finish(document: &mut OpenApi) {
    let routes = std::mem::take(&mut document.paths.paths);
    document.paths.paths = routes
        .into_iter()
        // The router marks a parameter that may contain slashes; OpenAPI has no notation for that.
        .map(|(path, item)| (format!("{BASE}{}", path.replace("{*", "{")), item))
        .collect();
    let problem = ResponseBuilder::new()
        .description("A problem")
        .content(
            "application/problem+json",
            ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build(),
        )
        .build();
    for item in document.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten();
        for operation in operations {
            let problem = RefOr::T(problem.clone());
            operation.responses.responses.insert("default".to_owned(), problem);
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
}

/// Outcome of a run; `ringfence-spec` has the type.
pub(super) struct Outcome;

impl ToSchema for Outcome {
    fn name() -> Cow<'static, str> {
        "Outcome".into()
    }
}

impl PartialSchema for Outcome {
    fn schema() -> RefOr<Schema> {
        described(json!({
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
                "artifacts": {"type": "array", "items": {"type": "object"}},
                "workspace": {"type": "object"},
                "denials": {"type": "array", "items": {"type": "object"}},
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
        }))
    }
}

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

//! REST API: one file per kind of resource. A handler parses the request, calls the engine, and returns the result; the
//! `OpenAPI` document is generated from the declarations that define the routes.

mod about;
mod artifacts;
mod audit;
mod events;
mod files;
mod runs;
mod schema;
mod search;
mod send_file;
mod sessions;

use std::sync::Arc;

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

pub(super) use about::{authority, health, metrics, ready};

/// Base path of all routes.
pub(super) const BASE: &str = "/api/v1";

/// Builds all routes, and the document that describes them.
pub(super) fn routes() -> (Router<Arc<AppState>>, OpenApi) {
    let (router, mut document) = OpenApiRouter::<Arc<AppState>>::with_openapi(schema::frame())
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::show, runs::cancel))
        .routes(routes!(events::of_run))
        .routes(routes!(events::of_client))
        .routes(routes!(artifacts::list))
        .routes(routes!(artifacts::read))
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::show, sessions::close))
        .routes(routes!(sessions::fork))
        .routes(routes!(sessions::checkpoints))
        .routes(routes!(sessions::rollback))
        .routes(routes!(files::list_root))
        .routes(routes!(files::grep))
        .routes(routes!(search::search))
        .routes(routes!(search::index))
        .routes(routes!(search::chunks))
        .routes(routes!(files::read, files::write, files::edit, files::delete))
        .routes(routes!(audit::of_session))
        .routes(routes!(audit::all))
        .routes(routes!(about::policy))
        .routes(routes!(about::doctor))
        .routes(routes!(about::document))
        .split_for_parts();
    schema::finish(&mut document);
    (Router::new().nest(BASE, router), document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_route_of_the_contract() {
        let document = serde_json::to_value(routes().1).unwrap();
        let rows: &[(&str, &[&str])] = &[
            ("/runs", &["get", "post"]),
            ("/runs/{id}", &["delete", "get"]),
            ("/runs/{id}/events", &["get"]),
            ("/runs/{id}/artifacts", &["get"]),
            ("/runs/{id}/artifacts/{path}", &["get"]),
            ("/events", &["get"]),
            ("/sessions", &["get", "post"]),
            ("/sessions/{id}", &["delete", "get"]),
            ("/sessions/{id}/fork", &["post"]),
            ("/sessions/{id}/checkpoints", &["get"]),
            ("/sessions/{id}/rollback", &["post"]),
            ("/sessions/{id}/files", &["get"]),
            ("/sessions/{id}/files/{path}", &["delete", "get", "patch", "put"]),
            ("/sessions/{id}/grep", &["get"]),
            ("/sessions/{id}/search", &["get"]),
            ("/sessions/{id}/index", &["post"]),
            ("/sessions/{id}/chunks", &["get"]),
            ("/sessions/{id}/audit", &["get"]),
            ("/audit", &["get"]),
            ("/policy", &["get"]),
            ("/doctor", &["get"]),
            ("/openapi.json", &["get"]),
        ];
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), rows.len(), "{:?}", paths.keys());
        let mut ids = std::collections::HashSet::new();
        for (path, methods) in rows {
            let path = &paths[&format!("{BASE}{path}")];
            let mut found: Vec<&String> = path.as_object().unwrap().keys().collect();
            found.sort();
            assert_eq!(found, *methods);
            for (method, operation) in path.as_object().unwrap() {
                assert!(operation["summary"].is_string(), "{method} has no summary");
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{id} is not unique");
                assert!(operation["responses"]["default"].is_object(), "{method}: {operation}");
            }
        }
        let text = document.to_string();
        for part in text.split("\"$ref\":\"").skip(1) {
            let pointer = part.split('"').next().unwrap().trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{pointer} leads nowhere");
        }
    }
}

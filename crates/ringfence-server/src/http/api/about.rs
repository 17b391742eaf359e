//! Describes the service: policy, host report, health, metrics, `OpenAPI` document.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use ringfence_engine::admission::BreakerState;
use ringfence_spec::{Code, Problem};
use serde_json::{Value, json};

use crate::http::AppState;
use crate::http::api_error::ApiError;
use crate::http::middleware::draining;
use crate::http::scope::{Admin, Scoped};

/// Read the policy
///
/// Permissions and limits of runs, and the source of each value.
#[utoipa::path(get, path = "/policy", tag = "about", operation_id = "read_policy", responses((status = 200, description = "The policy", body = super::schema::AnyObject)))]
pub(super) async fn policy(State(app): State<Arc<AppState>>, _may: Scoped<Admin>) -> Response {
    prepared(&app.about.policy)
}

/// Read the host's enforcement report
///
/// As probed when the service started.
#[utoipa::path(get, path = "/doctor", tag = "about", operation_id = "read_doctor", responses((status = 200, description = "The report", body = super::schema::AnyObject)))]
pub(super) async fn doctor(State(app): State<Arc<AppState>>, _may: Scoped<Admin>) -> Response {
    prepared(&app.about.doctor)
}

/// Read this document
#[utoipa::path(get, path = "/openapi.json", tag = "about", operation_id = "read_openapi", responses((status = 200, description = "OpenAPI 3.1", body = super::schema::AnyObject)))]
pub(super) async fn document(State(app): State<Arc<AppState>>) -> Response {
    prepared(&app.about.document)
}

/// Answers while the process is alive.
pub(in crate::http) async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Answers whether the service accepts new work.
pub(in crate::http) async fn ready(
    State(app): State<Arc<AppState>>,
) -> Result<Json<Value>, ApiError> {
    if app.drain.is_cancelled() {
        return Err(draining());
    }
    if app.engine.admission().own_breaker() == BreakerState::Open {
        let problem = Problem::refused(
            Code::ServiceUnwell,
            "the service failed too often and is taking a break",
        );
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, problem));
    }
    Ok(Json(json!({"status": "ready"})))
}

/// Returns the metrics in Prometheus format.
pub(in crate::http) async fn metrics(
    State(app): State<Arc<AppState>>,
    _may: Scoped<Admin>,
) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (StatusCode::OK, [(header::CONTENT_TYPE, kind)], app.counts.after(&app.engine.metrics()))
}

fn prepared(json: &Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json.clone()).into_response()
}

/// Returns where to get a token; not found if only the operator issues tokens.
pub(crate) async fn authority(State(app): State<Arc<AppState>>) -> Response {
    match &app.about.authority {
        Some(document) => prepared(document),
        None => crate::http::nothing_here().into_response(),
    }
}

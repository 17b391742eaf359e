//! Reads request bodies, within bounds of size and time.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;
use ringfence_spec::{Code, Problem};
use serde::de::DeserializeOwned;

use super::AppState;
use super::fault::Fault;

/// Time limit for reading a body.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// Rejects a body by its `Content-Length`, before any of it is read.
pub(super) fn check_length(headers: &HeaderMap, bytes_max: usize) -> Result<(), Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.and_then(|length| length.parse::<u64>().ok()) {
        Some(length) if length > bytes_max as u64 => Err(too_large(bytes_max)),
        _ => Ok(()),
    }
}

/// Reads a body within both bounds.
pub(super) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Fault> {
    let whole = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(READ_WITHIN, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Ok(Err(_)) => Err(Problem::usage(Code::BadBody, "the body broke off").into()),
        Err(_) => {
            let problem = Problem::usage(Code::BodySlow, "the body took longer than 30 seconds");
            Err(Fault::new(StatusCode::REQUEST_TIMEOUT, problem))
        }
    }
}

fn too_large(bytes_max: usize) -> Fault {
    let problem = Problem::usage(Code::BodyTooLarge, "the body is too large")
        .hint(format!("send at most {bytes_max} bytes"));
    Fault::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
}

/// JSON body, deserialized as `T`.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<std::sync::Arc<AppState>> for JsonBody<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &std::sync::Arc<AppState>) -> Result<Self, Fault> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // Also rejects HTML forms of other sites, which browsers send without a CORS preflight.
        let is_json = kind.is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let problem = Problem::usage(Code::NotJson, "the body is not declared as JSON")
                .hint("send it with `Content-Type: application/json`");
            return Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
        let bytes = read(request.into_body(), app.limits.body_bytes_max).await?;
        let value = serde_json::from_slice(&bytes).map_err(|e| {
            Problem::usage(Code::BadArguments, "the body is not what this route takes")
                .cause(e)
                .hint("`/api/v1/openapi.json` describes it")
        })?;
        Ok(Self(value))
    }
}

/// Raw body.
#[derive(Debug)]
pub(super) struct Content(pub(super) Bytes);

impl FromRequest<std::sync::Arc<AppState>> for Content {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &std::sync::Arc<AppState>) -> Result<Self, Fault> {
        read(request.into_body(), app.limits.body_bytes_max).await.map(Self)
    }
}

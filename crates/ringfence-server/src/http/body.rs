//! Reads request bodies, within bounds of size and time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;
use ringfence_engine::blocking;
use ringfence_engine::files::Spool;
use ringfence_spec::{Code, Problem};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use super::AppState;
use super::api_error::ApiError;
use super::headers::declares_json;
use super::scope::Caller;

/// Time limit for reading a body; of an upload, for each part of it.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// Slowest rate of an upload after that time, on average.
const UPLOAD_BYTES_PER_S: u64 = 16 << 10;

/// Bytes of an upload that are held in memory.
const SPOOLED_BYTES: usize = 1 << 20;

/// Rejects a body by its `Content-Length`, before any of it is read.
pub(super) fn check_length(headers: &HeaderMap, bytes_max: usize) -> Result<(), ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match length.and_then(|length| length.parse::<u64>().ok()) {
        Some(length) if length > bytes_max as u64 => Err(too_large(bytes_max)),
        _ => Ok(()),
    }
}

/// Reads a body within both bounds.
pub(super) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let whole = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(READ_WITHIN, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Ok(Err(_)) => Err(Problem::usage(Code::BadBody, "the body broke off").into()),
        Err(_) => {
            let problem = Problem::usage(Code::BodySlow, "the body took longer than 30 seconds");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, problem))
        }
    }
}

fn too_large(bytes_max: usize) -> ApiError {
    let problem = Problem::usage(Code::BodyTooLarge, "the body is too large")
        .hint(format!("send at most {bytes_max} bytes"));
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
}

fn not_json() -> ApiError {
    let problem = Problem::usage(Code::NotJson, "the body is not declared as JSON")
        .hint("send it with `Content-Type: application/json`");
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem)
}

/// JSON body, deserialized as `T`.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<AppState>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, ApiError> {
        // Also rejects HTML forms of other sites, which browsers send without a CORS preflight.
        if !declares_json(request.headers()) {
            return Err(not_json());
        }
        let bytes = read(request.into_body(), app.limits.body_bytes_max).await?;
        parse(&bytes).map(Self)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|e| {
        Problem::usage(Code::BadArguments, "the body is not what this route takes")
            .cause(e)
            .hint("`/api/v1/openapi.json` describes it")
            .into()
    })
}

/// Body that may be left out; then the default of `T`.
#[derive(Debug)]
pub(super) struct OptionalJson<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<AppState>> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, ApiError> {
        // A form of another site has a type, and is rejected by it.
        let has_type = request.headers().contains_key(header::CONTENT_TYPE);
        if has_type && !declares_json(request.headers()) {
            return Err(not_json());
        }
        let bytes = read(request.into_body(), app.limits.body_bytes_max).await?;
        match (bytes.is_empty(), has_type) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => {
                parse::<Option<T>>(&bytes).map(|value| Self(value.unwrap_or_default()))
            }
            (false, false) => Err(not_json()),
        }
    }
}

/// Receives a body of any size up to the limit of uploads, in bounded memory: large ones a part at a time. The second result
/// is held until the file is written.
pub(super) async fn spool(
    app: &AppState,
    caller: &Caller,
    mut body: Body,
) -> Result<(Spool, Option<OwnedSemaphorePermit>), ApiError> {
    let bytes_max = app.limits.upload_bytes_max;
    let (mut spool, mut upload, mut part) = (None, None, Vec::new());
    let (began, mut n_bytes) = (Instant::now(), 0_usize);
    let end = app.streams.end_of(caller);
    loop {
        let frame = tokio::select! {
            biased;
            () = end.cancelled() => return Err(revoked()),
            frame = tokio::time::timeout(READ_WITHIN, body.frame()) => frame,
        };
        let frame = frame.map_err(|_| slow("for 30 seconds nothing of the body came"))?;
        let bytes = match frame {
            None => break,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(_)) => {
                return Err(Problem::usage(Code::BadBody, "the body broke off").into());
            }
        };
        n_bytes = n_bytes.saturating_add(bytes.len());
        if n_bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        let overtime_s = began.elapsed().saturating_sub(READ_WITHIN).as_secs();
        if (n_bytes as u64) < overtime_s.saturating_mul(UPLOAD_BYTES_PER_S) {
            return Err(slow("the body came too slowly"));
        }
        part.extend_from_slice(&bytes);
        if part.len() >= SPOOLED_BYTES {
            if upload.is_none() {
                upload = Some(app.streams.upload(caller)?);
            }
            spool = Some(store(app, spool, std::mem::take(&mut part)).await?);
        }
    }
    Ok((store(app, spool, part).await?, upload))
}

/// The client's token was revoked while it sent.
fn revoked() -> ApiError {
    let problem =
        Problem::refused(Code::TokenUnknown, "the token was revoked; nothing was written");
    ApiError::new(StatusCode::UNAUTHORIZED, problem)
}

async fn store(app: &AppState, spool: Option<Spool>, part: Vec<u8>) -> Result<Spool, ApiError> {
    let (engine, bytes_max) = (app.engine.clone(), app.limits.upload_bytes_max);
    let stored = blocking(move || {
        let mut spool = spool.map_or_else(|| engine.spool(bytes_max as u64), Ok)?;
        spool.write(&part)?;
        Ok(spool)
    });
    Ok(stored.await?)
}

fn slow(what: &str) -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, Problem::usage(Code::BodySlow, what))
}

//! A file as a response: as an attachment and never as a page, whatever is in it; whole or in part, streamed if it is large.

use std::ops::Range;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ringfence_audit::Digest;
use ringfence_engine::blocking;
use ringfence_engine::files::{ContentKind, OpenedFile};
use ringfence_spec::{Code, Problem};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::http::api_error::ApiError;
use crate::http::conditions::{Selection, etag};
use crate::http::streams;

/// Size up to which a response is read before it is sent. Its hash is then sent too.
const BUFFERED_BYTES: u64 = 1 << 20;

/// Header with the hash of the bytes that are sent.
const SHA256: header::HeaderName = header::HeaderName::from_static("ringfence-sha256");

/// Characters that may stand in the parameter `filename*` (RFC 8187).
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Sends what of a file a request gets. Ends when `end` is cancelled; `slot` is held while it is sent.
pub(super) async fn respond(
    file: OpenedFile,
    selection: Selection,
    path: &str,
    end: CancellationToken,
    slot: Arc<OwnedSemaphorePermit>,
) -> Result<Response, ApiError> {
    let total = file.total_bytes;
    let mut headers = HeaderMap::new();
    headers.insert(header::ETAG, etag(&file.tag));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Browsers may keep it, and must ask whether it has changed.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let (status, range) = match selection {
        Selection::Whole => (StatusCode::OK, 0..total),
        Selection::Part(range) => {
            let Range { start, end } = range;
            insert(
                &mut headers,
                header::CONTENT_RANGE,
                &format!("bytes {start}-{}/{total}", end - 1),
            );
            (StatusCode::PARTIAL_CONTENT, start..end)
        }
        Selection::Slice(range) => {
            if range.end < total {
                headers.insert("ringfence-next-offset", range.end.into());
            }
            (StatusCode::OK, range)
        }
        Selection::NotModified => return Ok((StatusCode::NOT_MODIFIED, headers).into_response()),
        Selection::PreconditionFailed => {
            let problem = Problem::usage(Code::PreconditionFailed, "the file was changed")
                .hint("read its `ETag` again");
            return Err(ApiError::new(StatusCode::PRECONDITION_FAILED, problem));
        }
        Selection::RangeNotSatisfiable => {
            let problem = Problem::usage(Code::RangeInvalid, "the range is not in the file")
                .hint(format!("it has {total} bytes"));
            let mut response =
                ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, problem).into_response();
            insert(response.headers_mut(), header::CONTENT_RANGE, &format!("bytes */{total}"));
            return Ok(response);
        }
    };
    insert(&mut headers, header::CONTENT_DISPOSITION, &disposition(path));
    headers.insert("ringfence-total-bytes", total.into());
    let kind = match file.kind {
        ContentKind::Text => "text/plain; charset=utf-8",
        ContentKind::Binary => "application/octet-stream",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let n_bytes = range.end - range.start;
    if status == StatusCode::OK && n_bytes <= BUFFERED_BYTES {
        let ask = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        let bytes = blocking(move || file.read_at(range.start, ask)).await?;
        insert(&mut headers, SHA256, &Digest::of(&bytes).to_string());
        return Ok((status, headers, bytes).into_response());
    }
    headers.insert(header::CONTENT_LENGTH, n_bytes.into());
    Ok((status, headers, streams::file(file, range, end, slot)).into_response())
}

/// Value of `Content-Disposition`: the name's last part, percent-encoded, so that no character of it means anything else.
fn disposition(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    format!("attachment; filename*=UTF-8''{}", utf8_percent_encode(name, NAME))
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

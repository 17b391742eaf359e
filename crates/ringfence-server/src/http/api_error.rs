//! Problems as HTTP responses: a status and `application/problem+json` with the code that every interface uses.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ringfence_spec::{Code, ErrorInfo, Face, Problem, ProblemKind};
use serde_json::json;

/// A problem and its HTTP status.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    problem: Box<Problem>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, problem: Problem) -> Self {
        Self { status, problem: Box::new(problem) }
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self::new(status_of(&problem), problem)
    }
}

/// Default status of a problem.
fn status_of(problem: &Problem) -> StatusCode {
    match problem.code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Exists
        | Code::NotEmpty
        | Code::Busy
        | Code::NoCheckpoint
        | Code::EditMismatch
        | Code::TooManySessions => StatusCode::CONFLICT,
        Code::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Code::TooLarge | Code::QuotaExceeded => StatusCode::PAYLOAD_TOO_LARGE,
        Code::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        _ if problem.retry_after_ms.is_some() => StatusCode::TOO_MANY_REQUESTS,
        _ => match problem.kind {
            ProblemKind::Usage => StatusCode::BAD_REQUEST,
            ProblemKind::NotFound => StatusCode::NOT_FOUND,
            ProblemKind::Refused => StatusCode::FORBIDDEN,
            ProblemKind::CannotBuild | ProblemKind::Interrupted(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ProblemKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let ErrorInfo { code, message, hint, retry_after_ms } =
            ErrorInfo::from(&self.problem.worded_for(Face::Rest));
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": message,
            "code": code,
            "hint": hint,
            "retry_after_ms": retry_after_ms,
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, body.to_string()).into_response();
        if let Some(ms) = retry_after_ms {
            response.headers_mut().insert(header::RETRY_AFTER, retry_after(ms));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"ringfence\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Value of `Retry-After`: rounded up to whole seconds, at least 1.
pub(super) fn retry_after(ms: u64) -> HeaderValue {
    HeaderValue::from(ms.div_ceil(1000).max(1))
}

//! Checks every request before it is routed: host, origin, token, body size, number of concurrent requests. Handlers
//! get the caller that this determined.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use ringfence_spec::{Code, Problem};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::api::BASE;
use super::api_error::ApiError;
use super::headers::single;
use super::oauth::is_well_known;
use super::tokens::Denied;
use super::{AppState, body, cors};

/// Maximum number of concurrent requests per client. More would only wait for admission by the engine, each with its
/// body in memory.
const REQUESTS_PER_CLIENT_MAX: usize = 64;

/// Passes a request on, or answers why it is rejected.
pub(super) async fn middleware(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let origin = app.cors.allowed(request.headers());
    let mut response = match check_request(&app, &mut request, origin.as_ref()) {
        // The place is held until the request is answered.
        Ok(Passed::ToHandler(_place)) => next.run(request).await,
        Ok(Passed::Preflight(response)) => response,
        Err(fault) => fault.into_response(),
    };
    app.counts.count(response.status());
    // Browsers must not guess the media type, nor cache the response.
    let unknown = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if let Some(challenge) = app.challenge.as_ref().filter(|_| unknown) {
        headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(origin) = origin {
        cors::permit(headers, origin);
    }
    response
}

/// A request that passed.
enum Passed {
    /// Handled while this place is held.
    ToHandler(Option<Arc<OwnedSemaphorePermit>>),
    /// Answered already: a browser asked what a page may do.
    Preflight(Response),
}

fn check_request(
    app: &AppState,
    request: &mut Request,
    origin: Option<&HeaderValue>,
) -> Result<Passed, ApiError> {
    let host = app.hosts.check_host(request.uri(), request.headers())?;
    if origin.is_none() {
        app.hosts.check_origin(&host, request.headers())?;
    } else if let Some(response) = cors::preflight(request.method(), request.headers()) {
        return Ok(Passed::Preflight(response));
    }
    // Health checks need no token.
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return Ok(Passed::ToHandler(None));
    }
    // Nor does the document that says where to get one.
    if is_well_known(request.uri().path()) {
        return Ok(Passed::ToHandler(None));
    }
    let caller = match app.tokens.check(bearer(request.headers())) {
        Ok(caller) => caller,
        Err(Denied::Missing) => {
            let problem = Problem::refused(Code::TokenUnknown, "no token was sent").hint(
                "send `Authorization: Bearer TOKEN`, once; the operator makes one with `ringfence token new`",
            );
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, problem));
        }
        Err(Denied::Unknown) => {
            let problem = Problem::refused(Code::TokenUnknown, "this token is not known here").hint(
                "it is mistyped, revoked or another service's; the operator lists tokens with `ringfence token ls`",
            );
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, problem));
        }
        Err(Denied::Unreadable(problem)) => {
            // The cause is for the operator, not for the client.
            app.log_rate_limited(&problem);
            let problem =
                Problem::cannot_build(Code::TokensUnusable, "tokens cannot be checked now")
                    .hint("the service's operator finds the reason on its stderr");
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, problem));
        }
    };
    if app.drain.is_cancelled() && is_new_work(request.method(), request.uri().path()) {
        return Err(draining());
    }
    let bytes_max = app.body_bytes_max(request.method(), request.uri().path());
    body::check_length(request.headers(), bytes_max)?;
    // Handlers that send a file hold it until the file is sent.
    let place = Arc::new(app.places.take(&caller.name)?);
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(Arc::clone(&place));
    Ok(Passed::ToHandler(Some(place)))
}

/// Returns whether a request starts new work. Reading, and cancelling a run, does not. For `/mcp`, the message decides.
fn is_new_work(method: &Method, path: &str) -> bool {
    let ends_a_run = *method == Method::DELETE && path.starts_with(&format!("{BASE}/runs/"));
    *method != Method::GET && !ends_a_run && path != "/mcp"
}

/// Response to new work during shutdown.
pub(super) fn draining() -> ApiError {
    let problem = Problem::refused(Code::Draining, "the service is shutting down")
        .hint("ask again when it is back")
        .retry_after_ms(5_000);
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, problem)
}

/// Token of a request that has exactly one `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let one = single(headers, &header::AUTHORIZATION)?;
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Concurrent requests of each client.
#[derive(Debug, Default)]
pub(super) struct RequestSlots {
    clients: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl RequestSlots {
    fn take(&self, client: &Arc<str>) -> Result<OwnedSemaphorePermit, ApiError> {
        let places = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let places = clients.entry(Arc::clone(client));
            Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(REQUESTS_PER_CLIENT_MAX))))
        };
        places.try_acquire_owned().map_err(|_| {
            Problem::refused(
                Code::TooManyRequests,
                format!("{REQUESTS_PER_CLIENT_MAX} requests of yours are here"),
            )
            .hint("wait for one of them")
            .retry_after_ms(1_000)
            .into()
        })
    }

    /// Number of requests in progress, of all clients.
    pub(super) fn n_taken(&self) -> usize {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.values().map(|places| REQUESTS_PER_CLIENT_MAX - places.available_permits()).sum()
    }
}

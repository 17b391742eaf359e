//! Every request passes here first: the right host, no page of another's, a good token, a body of a decent size, not too
//! many at once. What comes after knows who asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use ringfence_spec::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::api::BASE;
use super::fault::Fault;
use super::oauth::is_well_known;
use super::tokens::Denied;
use super::{AppState, body};

/// Requests of one client at once. More would only wait at the engine's gate, each with its body in memory.
const AT_ONCE: usize = 64;

/// Lets a request in, or says why not.
pub(super) async fn middleware(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match let_in(&app, &mut request) {
        // Held until the request is answered.
        Ok(_place) => next.run(request).await,
        Err(fault) => fault.into_response(),
    };
    app.counts.count(response.status());
    // A browser that gets here all the same guesses nothing and keeps nothing.
    let unknown = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if let Some(challenge) = app.challenge.as_ref().filter(|_| unknown) {
        headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn let_in(app: &AppState, request: &mut Request) -> Result<Option<OwnedSemaphorePermit>, Fault> {
    app.hosts.check(request.uri(), request.headers())?;
    // Whoever watches over the service need not be able to use it.
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return Ok(None);
    }
    // Nor can whoever wants to know where to get a token have one.
    if is_well_known(request.uri().path()) {
        return Ok(None);
    }
    let caller = match app.tokens.check(bearer(request.headers())) {
        Ok(caller) => caller,
        Err(Denied::Unknown) => {
            let problem =
                Problem::refused("token_unknown", "the request has no token that is good")
                    .hint("send `Authorization: Bearer TOKEN`; `ringfence token new` makes one");
            return Err(Fault::new(StatusCode::UNAUTHORIZED, problem));
        }
        Err(Denied::Unreadable(problem)) => {
            // The operator's to know, not the client's.
            app.say_now_and_then(&problem);
            let problem = Problem::cannot_build("tokens_unusable", "tokens cannot be checked now")
                .hint("the service's operator finds the reason on its stderr");
            return Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, problem));
        }
    };
    if app.drain.is_cancelled() && is_new_work(request.method(), request.uri().path()) {
        return Err(draining());
    }
    body::check_length(request.headers(), app.body_bytes_max(request.uri().path()))?;
    let place = app.places.take(&caller.name)?;
    request.extensions_mut().insert(caller);
    Ok(Some(place))
}

/// Whether a request would begin something. Asking how a run stands, and ending one, does not; of a message at `/mcp` only
/// the message tells.
fn is_new_work(method: &Method, path: &str) -> bool {
    let ends_a_run = *method == Method::DELETE && path.starts_with(&format!("{BASE}/runs/"));
    *method != Method::GET && !ends_a_run && path != "/mcp"
}

/// The answer to new work while the service ends.
pub(super) fn draining() -> Fault {
    let problem = Problem::refused("draining", "the service is shutting down")
        .hint("ask again when it is back")
        .retry_after_ms(5_000);
    Fault::new(StatusCode::SERVICE_UNAVAILABLE, problem)
}

/// The token in a request's one `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Who has how many requests here.
#[derive(Debug, Default)]
pub(super) struct RequestSlots {
    clients: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl RequestSlots {
    fn take(&self, client: &Arc<str>) -> Result<OwnedSemaphorePermit, Fault> {
        let places = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let places = clients.entry(Arc::clone(client));
            Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))))
        };
        places.try_acquire_owned().map_err(|_| {
            Problem::refused("too_many_requests", format!("{AT_ONCE} requests of yours are here"))
                .hint("wait for one of them")
                .retry_after_ms(1_000)
                .into()
        })
    }

    /// How many are here, of everybody.
    pub(super) fn n_taken(&self) -> usize {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.values().map(|places| AT_ONCE - places.available_permits()).sum()
    }
}

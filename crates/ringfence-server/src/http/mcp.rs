//! MCP over streamable HTTP, at `/mcp`: the same server as over stdio. Each client has its own, so that a handle of one is
//! nothing to another.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::Full;
use ringfence_engine::Engine;
use ringfence_spec::{Problem, ProblemKind};
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::scope::{Caller, Run, Scope, Scoped};
use super::{AppState, body, middleware};
#[cfg(feature = "fixtures")]
use crate::fixtures::{FixtureServer, Fixtures};
use crate::mcp::McpServer;
use crate::mcp::json_limits::{self, InvalidMessage, MessageShape};

/// A message may carry a file to write; as large as over stdio would be a burden here.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;

/// Handshakes of one client that are remembered, for clients of the protocols that have one. They are forgotten after five
/// minutes without a call.
const HANDSHAKES_MAX: usize = 64;

/// What is offered to clients.
#[derive(Debug)]
pub(super) enum Offered {
    Tools(Engine),
    #[cfg(feature = "fixtures")]
    Fixtures(Fixtures),
}

/// A server for each client.
#[derive(Debug)]
pub(super) struct Mcp {
    offered: Offered,
    end: CancellationToken,
    clients: Mutex<HashMap<Caller, Server>>,
}

#[derive(Clone)]
struct Server {
    handler: Handler,
    handshakes: Arc<LocalSessionManager>,
    /// Held by who shakes hands: one after the other, so that none is counted too late.
    shaking: Arc<tokio::sync::Mutex<()>>,
    end: CancellationToken,
}

/// The transport, and who answers behind it.
#[derive(Clone)]
enum Handler {
    Tools(McpServer, StreamableHttpService<McpServer, LocalSessionManager>),
    #[cfg(feature = "fixtures")]
    Fixtures(StreamableHttpService<FixtureServer, LocalSessionManager>),
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// Answers a message. Its tools run code, and touch files and sessions, so all three scopes are needed.
pub(super) async fn message(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    request: Request,
) -> Result<Response, Fault> {
    may.caller.need(Scope::Files)?;
    may.caller.need(Scope::Sessions)?;
    let server = app.mcp.server(&may.caller);
    let (parts, content) = request.into_parts();
    let content = body::read(content, BODY_BYTES_MAX).await?;
    let json_limits = match json_limits::of(&content) {
        Ok(json_limits) => json_limits,
        Err(InvalidMessage { said, id }) => return Ok(refused(-32600, &said, id.as_ref())),
    };
    if app.drain.is_cancelled() && json_limits.as_ref().is_some_and(is_new_work) {
        return Err(middleware::draining());
    }
    if parts.method == Method::DELETE && !server.remembers(&parts.headers).await {
        let problem = Problem::new(
            ProblemKind::NotFound,
            "handshake_unknown",
            "nobody is remembered by that name",
        );
        return Err(problem
            .hint("send the `Mcp-Session-Id` that `initialize` was answered with")
            .into());
    }
    // Whatever its headers say: the SDK remembers a client by the message alone.
    let _shaking = match json_limits {
        Some(json_limits) if json_limits.is_hello => Some(server.room_for_one().await?),
        _ => None,
    };
    let (is_json, is_end) = (declares_json(&parts.headers), parts.method == Method::DELETE);
    let request = Request::from_parts(parts, Full::new(content.clone()));
    let response = match &server.handler {
        Handler::Tools(_, service) => service.handle(request).await,
        #[cfg(feature = "fixtures")]
        Handler::Fixtures(service) => service.handle(request).await,
    };
    if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Ok(no_message(&content));
    }
    let mut response = response.map(Body::new);
    if is_end && response.status() == StatusCode::ACCEPTED {
        // It is done, not only accepted; the Python SDK warns of anything but 200 and 204.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response.into_response())
}

/// Whether a message asks for more than how a run stands; what asks for nothing may cancel one.
fn is_new_work(json_limits: &MessageShape) -> bool {
    json_limits.id.is_some() && !json_limits.is_about_a_run
}

/// The SDK says of a message that it cannot read that its media type is wrong, which it is not.
fn no_message(content: &[u8]) -> Response {
    match serde_json::from_slice::<serde::de::IgnoredAny>(content) {
        Err(_) => refused(-32700, "this is no JSON", None),
        Ok(_) => refused(-32600, "this is no message of MCP", None),
    }
}

fn refused(code: i32, said: &str, id: Option<&RequestId>) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": said}});
    (StatusCode::BAD_REQUEST, axum::Json(error)).into_response()
}

fn declares_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

impl Mcp {
    pub(super) fn new(offered: Offered) -> Self {
        Self { offered, end: CancellationToken::new(), clients: Mutex::default() }
    }

    fn server(&self, client: &Caller) -> Server {
        let mut clients = self.lock();
        clients
            .entry(client.clone())
            .or_insert_with(|| Server::new(&self.offered, client, self.end.child_token()))
            .clone()
    }

    /// Ends every client's server that is not among these.
    pub(super) fn keep_only(&self, clients: &HashSet<Caller>) {
        self.lock().retain(|client, server| {
            let keep = clients.contains(client);
            if !keep {
                server.close();
            }
            keep
        });
    }

    /// Ends every run and every stream.
    pub(super) fn end(&self) {
        self.keep_only(&HashSet::new());
        self.end.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Caller, Server>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn new(offered: &Offered, caller: &Caller, end: CancellationToken) -> Self {
        let handshakes = Arc::new(LocalSessionManager::default());
        let config = StreamableHttpServerConfig::default()
            // One answer is one JSON object, unless something is to be said before it.
            .with_json_response(true)
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            .with_cancellation_token(end.clone())
            // The door has looked at both, for every route.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let remembered = Arc::clone(&handshakes);
        let handler = match offered {
            Offered::Tools(engine) => {
                let tools = McpServer::new(engine.clone(), &caller.owner(), &caller.name);
                let server = tools.clone();
                let make = move || Ok(server.clone());
                Handler::Tools(tools, StreamableHttpService::new(make, remembered, config))
            }
            #[cfg(feature = "fixtures")]
            Offered::Fixtures(fixtures) => {
                let fixtures = fixtures.clone();
                let make = move || Ok(fixtures.server());
                Handler::Fixtures(StreamableHttpService::new(make, remembered, config))
            }
        };
        Self { handler, handshakes, shaking: Arc::default(), end }
    }

    /// Whether a request is of a client that shook hands.
    async fn remembers(&self, headers: &HeaderMap) -> bool {
        let id = headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
        let sessions = self.handshakes.sessions.read().await;
        id.is_some_and(|id| sessions.contains_key(id))
    }

    /// Makes sure that one more client can be remembered; nobody else is until what it returns is dropped.
    async fn room_for_one(&self) -> Result<OwnedMutexGuard<()>, Fault> {
        let shaking = Arc::clone(&self.shaking).lock_owned().await;
        let n = self.handshakes.sessions.read().await.len();
        if n < HANDSHAKES_MAX {
            return Ok(shaking);
        }
        let problem =
            Problem::refused("too_many_handshakes", format!("{n} clients of yours are here"))
                .hint("end one with `DELETE /mcp` and its `Mcp-Session-Id`")
                .retry_after_ms(10_000);
        Err(problem.into())
    }

    /// Ends runs and streams, and forgets who shook hands.
    fn close(&self) {
        match &self.handler {
            Handler::Tools(tools, _) => tools.end(),
            #[cfg(feature = "fixtures")]
            Handler::Fixtures(_) => {}
        }
        self.end.cancel();
        let handshakes = Arc::clone(&self.handshakes);
        tokio::spawn(async move {
            let ids: Vec<_> = handshakes.sessions.read().await.keys().cloned().collect();
            for id in ids {
                // One that has just ended by itself is what is wanted.
                let _ = handshakes.close_session(&id).await;
            }
        });
    }
}

//! MCP over streamable HTTP, at `/mcp`: the same server as over stdio. Each client has its own instance, so that
//! handles of one client are unknown to another.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::Full;
use ringfence_engine::Engine;
use ringfence_spec::{Code, Problem, ProblemKind};
use rmcp::model::RequestId;
use rmcp::transport::common::http_header::{HEADER_MCP_PROTOCOL_VERSION, HEADER_SESSION_ID};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::api_error::ApiError;
use super::headers::declares_json;
use super::scope::{Caller, Run, Scope, Scoped};
use super::{AppState, body, middleware, streams};
#[cfg(feature = "fixtures")]
use crate::fixtures::{FixtureServer, Fixtures};
use crate::mcp::McpServer;
use crate::mcp::json_limits::{self, InvalidMessage, MessageShape};

/// Maximum size of a message, which may carry a file to write. The limit of stdio would be too large here.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;

/// The first revision of the protocol without a handshake.
const STATELESS_SINCE: &str = "2026-07-28";

/// Maximum number of MCP sessions per client, in protocol versions that have them. One more ends the one that was unused
/// for longest, if that was for [`IDLE_MIN`].
pub(super) const MCP_SESSIONS_MAX: usize = 64;

/// Time without a call after which an MCP session may be ended for another.
const IDLE_MIN: Duration = Duration::from_mins(5);

/// Time without a call after which an MCP session is dropped: as long as a session of the engine lasts (`ttl_ms` of `SessionSettings`).
const KEEP_ALIVE: Duration = Duration::from_hours(24);

/// The longest id of an MCP session that is noted.
const ID_BYTES_MAX: usize = 128;

/// The longest text of a transport error that is read.
const SAID_BYTES_MAX: usize = 4 << 10;

/// Handler offered to clients.
#[derive(Debug)]
pub(super) enum Offered {
    Tools(Engine),
    #[cfg(feature = "fixtures")]
    Fixtures(Fixtures),
}

/// One MCP server per client.
#[derive(Debug)]
pub(super) struct Mcp {
    offered: Offered,
    end: CancellationToken,
    clients: Mutex<HashMap<Caller, Server>>,
}

#[derive(Clone)]
struct Server {
    handler: Handler,
    mcp_sessions: Arc<LocalSessionManager>,
    /// Time of the last message of each MCP session.
    used: Arc<Mutex<HashMap<String, Instant>>>,
    /// Held during a handshake: one at a time, so that none is counted too late.
    shaking: Arc<tokio::sync::Mutex<()>>,
    end: CancellationToken,
}

/// Transport, and the handler behind it.
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

/// Answers a message. The tools run code and access files and sessions, so all three scopes are required.
pub(super) async fn message(
    State(app): State<Arc<AppState>>,
    may: Scoped<Run>,
    request: Request,
) -> Result<Response, ApiError> {
    may.caller.need(Scope::Files)?;
    may.caller.need(Scope::Sessions)?;
    let server = app.mcp.server(&may.caller);
    let (parts, content) = request.into_parts();
    let content = body::read(content, BODY_BYTES_MAX).await?;
    let shape = match json_limits::of(&content) {
        Ok(shape) => shape,
        Err(InvalidMessage { code, said, id }) => return Ok(refused(code.0, &said, id.as_ref())),
    };
    if app.drain.is_cancelled() && shape.as_ref().is_some_and(is_new_work) {
        return Err(middleware::draining());
    }
    if let Some(MessageShape { is_initialize: true, names_revision: false, id, .. }) = &shape
        && is_stateless(&parts.headers)
    {
        let said = "`initialize` is not part of this revision; call `server/discover` or a tool";
        return Ok(refused_with(StatusCode::NOT_FOUND, -32601, said, id.as_ref()));
    }
    if parts.method == Method::DELETE && !server.remembers(&parts.headers).await {
        let problem =
            Problem::new(ProblemKind::NotFound, Code::HandshakeUnknown, "unknown MCP session id");
        return Err(problem
            .hint("send the `Mcp-Session-Id` that `initialize` was answered with")
            .into());
    }
    // Its answer goes on until the client leaves.
    let slot = match parts.method {
        Method::GET => Some(app.streams.messages(&may.caller)?),
        _ => None,
    };
    // Regardless of the headers: the SDK starts a session by the message alone.
    let _shaking = match shape {
        Some(shape) if shape.is_initialize => Some(server.room_for_session().await?),
        _ => None,
    };
    server.note_use(&parts.headers);
    let (is_json, is_end) = (declares_json(&parts.headers), parts.method == Method::DELETE);
    let mcp_session = session_id(&parts.headers).map(str::to_owned);
    let request = Request::from_parts(parts, Full::new(content.clone()));
    let response = match &server.handler {
        Handler::Tools(_, service) => service.handle(request).await,
        #[cfg(feature = "fixtures")]
        Handler::Fixtures(service) => service.handle(request).await,
    };
    if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Ok(no_message(&content));
    }
    // A new MCP session has its id from here.
    server.note_use(response.headers());
    let mut response = response.map(|body| match slot {
        Some(slot) => streams::holding(Body::new(body), slot),
        None => Body::new(body),
    });
    if is_end && response.status() == StatusCode::ACCEPTED {
        // The session is closed, not only accepted for closing; the Python SDK warns of any status but 200 and 204.
        *response.status_mut() = StatusCode::NO_CONTENT;
        if let (Handler::Tools(tools, _), Some(mcp_session)) = (&server.handler, mcp_session) {
            tools.leave(&mcp_session);
        }
    }
    Ok(as_problem(response.into_response()).await)
}

/// Returns whether a message starts new work. Messages about an existing run do not, nor do notifications, which may
/// cancel one.
fn is_new_work(shape: &MessageShape) -> bool {
    shape.id.is_some() && !shape.is_about_a_run
}

/// Replaces the SDK's response to an unreadable message, which blames the media type although that is correct.
fn no_message(content: &[u8]) -> Response {
    match serde_json::from_slice::<serde::de::IgnoredAny>(content) {
        Err(_) => refused(-32700, "invalid JSON", None),
        Ok(_) => refused(-32600, "this is no message of MCP", None),
    }
}

fn refused(code: i32, said: &str, id: Option<&RequestId>) -> Response {
    refused_with(StatusCode::BAD_REQUEST, code, said, id)
}

fn refused_with(status: StatusCode, code: i32, said: &str, id: Option<&RequestId>) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": said}});
    (status, axum::Json(error)).into_response()
}

/// Returns whether the headers name a revision of the protocol that has no handshake.
fn is_stateless(headers: &HeaderMap) -> bool {
    let version = headers.get(HEADER_MCP_PROTOCOL_VERSION).and_then(|text| text.to_str().ok());
    version.is_some_and(|version| version >= STATELESS_SINCE)
}

/// Id of the MCP session that a message belongs to.
fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok())
}

/// Makes a problem document of an error that the transport answers in plain text. JSON-RPC errors stay as they are.
async fn as_problem(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || declares_json(response.headers()) {
        return response;
    }
    let (parts, content) = response.into_parts();
    let said = axum::body::to_bytes(content, SAID_BYTES_MAX).await.unwrap_or_default();
    let said = ringfence_engine::shown(&String::from_utf8_lossy(&said));
    let problem = match status {
        StatusCode::NOT_FOUND => {
            Problem::new(ProblemKind::NotFound, Code::HandshakeUnknown, "unknown MCP session id")
                .hint("send `initialize` again")
        }
        _ if status.is_server_error() => {
            Problem::internal(Code::Internal, "the message could not be handled")
        }
        _ if said.is_empty() => Problem::usage(
            Code::TransportRefused,
            status.canonical_reason().unwrap_or("the request does not fit MCP over HTTP"),
        ),
        _ => Problem::usage(Code::TransportRefused, said),
    };
    let mut response = ApiError::new(status, problem).into_response();
    if let Some(methods) = parts.headers.get(header::ALLOW) {
        response.headers_mut().insert(header::ALLOW, methods.clone());
    }
    response
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

    /// Ends the server of every client that is not in this set.
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
        let mut mcp_sessions = LocalSessionManager::default();
        // The SDK's own default would end the session of a client that thinks for five minutes.
        mcp_sessions.session_config.keep_alive = Some(KEEP_ALIVE);
        let mcp_sessions = Arc::new(mcp_sessions);
        let config = StreamableHttpServerConfig::default()
            // Answers with one JSON object, unless notifications precede the result.
            .with_json_response(true)
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            .with_cancellation_token(end.clone())
            // The middleware has checked both, for every route.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let remembered = Arc::clone(&mcp_sessions);
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
        Self { handler, mcp_sessions, used: Arc::default(), shaking: Arc::default(), end }
    }

    /// Notes that a client is here.
    fn note_use(&self, headers: &HeaderMap) {
        let Some(id) = session_id(headers).filter(|id| id.len() <= ID_BYTES_MAX) else { return };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(id.to_owned(), Instant::now());
        // Those of sessions that are gone, and ids of the client's own making.
        if used.len() > 4 * MCP_SESSIONS_MAX
            && let Some(oldest) = used.iter().min_by_key(|(_, at)| **at).map(|(id, _)| id.clone())
        {
            used.remove(&oldest);
        }
    }

    /// Returns whether a request belongs to an MCP session that is known.
    async fn remembers(&self, headers: &HeaderMap) -> bool {
        let sessions = self.mcp_sessions.sessions.read().await;
        session_id(headers).is_some_and(|id| sessions.contains_key(id))
    }

    /// Checks that another MCP session can be started. Other handshakes wait until the returned guard is dropped.
    async fn room_for_session(&self) -> Result<OwnedMutexGuard<()>, ApiError> {
        let shaking = Arc::clone(&self.shaking).lock_owned().await;
        let known: Vec<_> = self.mcp_sessions.sessions.read().await.keys().cloned().collect();
        let n = known.len();
        if n < MCP_SESSIONS_MAX {
            return Ok(shaking);
        }
        let oldest = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.retain(|id, _| known.iter().any(|known| **known == **id));
            let idle = |id: &str| used.get(id).map_or(Duration::ZERO, Instant::elapsed);
            known.into_iter().max_by_key(|id| idle(id)).filter(|id| idle(id) >= IDLE_MIN)
        };
        if let Some(id) = oldest {
            // A client that left without a word.
            let _ = self.mcp_sessions.close_session(&id).await;
            return Ok(shaking);
        }
        let problem = Problem::refused(
            Code::TooManyHandshakes,
            format!("{n} MCP sessions of yours are open"),
        )
        .hint("end one with `DELETE /mcp` and its `Mcp-Session-Id`")
        .retry_after_ms(10_000);
        Err(problem.into())
    }

    /// Ends runs and streams, and drops the MCP sessions.
    fn close(&self) {
        match &self.handler {
            Handler::Tools(tools, _) => tools.end(),
            #[cfg(feature = "fixtures")]
            Handler::Fixtures(_) => {}
        }
        self.end.cancel();
        let mcp_sessions = Arc::clone(&self.mcp_sessions);
        tokio::spawn(async move {
            let ids: Vec<_> = mcp_sessions.sessions.read().await.keys().cloned().collect();
            for id in ids {
                // A session that has just ended by itself is not an error.
                let _ = mcp_sessions.close_session(&id).await;
            }
        });
    }
}

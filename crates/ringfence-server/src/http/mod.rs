//! HTTP server: MCP at `/mcp`, REST at `/api/v1`, and endpoints for the operator. A middleware checks host, origin,
//! token and size of every request; behind it the engine executes the call as for every other interface.
//!
//! | Module | Purpose |
//! |---|---|
//! | `api` | REST handlers and the `OpenAPI` document. |
//! | `body` | Reads request bodies within bounds. |
//! | `conditions` | Conditional and range requests. |
//! | `connections` | Bounds the number of connections. |
//! | `cors` | Cross-origin requests of the operator's pages. |
//! | `counts` | Counts responses by status, for `/metrics`. |
//! | `fault` | Problems as HTTP responses. |
//! | `headers` | Headers that several modules read. |
//! | `hosts` | Checks the host and origin of requests. |
//! | `mcp` | MCP over streamable HTTP, one server per client. |
//! | `middleware` | Checks every request before it is routed. |
//! | `oauth` | OAuth metadata: where to get a token. |
//! | `page` | Pages of lists. |
//! | `params` | Extractors for path and query parameters. |
//! | `runs` | Runs as REST responses. |
//! | `scope` | Scopes of tokens, and the caller of a request. |
//! | `serve` | Accepts connections, serves them, and drains at shutdown. |
//! | `streams` | Response bodies that are made while they are sent: events and large files. |
//! | `tls` | Reads certificate and key. |
//! | `tokens` | Bearer tokens and their file. |
//! | `write_timeout` | Ends connections whose client stops reading. |

mod api;
mod api_error;
mod body;
mod conditions;
mod connections;
mod cors;
mod counts;
mod headers;
mod hosts;
mod mcp;
mod middleware;
mod oauth;
mod page;
mod params;
mod runs;
mod scope;
mod serve;
mod streams;
mod tls;
mod tokens;
mod write_timeout;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::routing::{any, get};
use hyper::body::Bytes;
use ringfence_engine::Engine;
use ringfence_spec::{Code, Problem, ProblemKind};
use serde::Serialize;
use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

pub use oauth::Authority;
pub use scope::Scope;
pub use tls::TlsFiles;
pub use tokens::{Token, Tokens};

use api_error::ApiError;
use cors::Cors;
use hosts::Hosts;
use oauth::WELL_KNOWN;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Minimum interval between messages to the operator that every request could cause.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Time for the threads of runs to finish at shutdown.
const LAST_STEPS: Duration = Duration::from_millis(500);

/// Handlers that a service offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The engine: MCP, REST, and endpoints for the operator.
    Engine,
    /// Conformance fixtures at `/mcp`, for the protocol's test suite only. No request reaches the engine.
    Fixtures,
}

/// Settings of a service, decided by the operator.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Handlers to offer.
    pub offer: Offer,
    /// Address to listen on; port 0 picks a free port.
    pub listen: SocketAddr,
    /// Host names that the service answers to, besides loopback names.
    pub allow_hosts: Vec<String>,
    /// Origins whose pages may use the service from a browser.
    pub cors_origins: Vec<String>,
    /// Certificate and key files.
    pub tls: Option<TlsFiles>,
    /// Resource limits.
    pub limits: HttpLimits,
    /// Data directory, which contains the tokens.
    pub data_dir: PathBuf,
    /// Directory of the ledger, if there is one.
    pub ledger: Option<PathBuf>,
    /// Authorization servers that issue tokens, if the operator is not the only issuer.
    pub authority: Option<Authority>,
    /// Response of `/policy`.
    pub policy: Value,
    /// Response of `/doctor`.
    pub doctor: Value,
}

/// Resource limits of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum bytes of a REST request's body.
    pub body_bytes_max: usize,
    /// Maximum bytes of a file that is written. A session's own limit holds too.
    pub upload_bytes_max: usize,
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
    /// Time that runs may continue after the shutdown signal.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1 << 20,
            upload_bytes_max: 100 << 20,
            connections_max: 8192,
            drain: Duration::from_secs(20),
        }
    }
}

/// Service whose settings were checked.
#[derive(Debug)]
pub struct Service {
    settings: HttpSettings,
    hosts: Hosts,
    cors: Cors,
    tokens: Tokens,
    n_tokens: usize,
    tokens_needed: bool,
    tls: Option<Arc<ServerConfig>>,
}

fn no_fixtures() -> Problem {
    Problem::usage(Code::FixturesMissing, "this binary has no conformance fixtures")
        .hint("build one with `cargo build --features fixtures`")
}

impl Service {
    /// Checks settings. A service that other machines can reach needs a token and an allowed host name.
    pub fn check(settings: HttpSettings) -> Result<Self, Problem> {
        let hosts = Hosts::new(&settings.allow_hosts)?;
        let cors = Cors::new(&settings.cors_origins)?;
        let tokens = Tokens::of(&settings.data_dir);
        let all = tokens.list()?;
        let n_tokens = all.iter().filter(|token| token.revoked_ms.is_none()).count();
        let tokens_needed = tokens.are_needed()?;
        let listen = settings.listen;
        if settings.offer == Offer::Fixtures && cfg!(not(feature = "fixtures")) {
            return Err(no_fixtures());
        }
        if settings.offer == Offer::Fixtures {
            // Revoked and deleted tokens count too: they show that this data directory belongs to a real service.
            let private = listen.ip().is_loopback() && settings.allow_hosts.is_empty();
            if !private || tokens_needed {
                return Err(Problem::usage(
                    Code::FixturesPrivate,
                    "fixtures cannot be served to others",
                )
                .cause("they are for conformance tests on this machine, and run nothing")
                .hint(
                    "listen on loopback, without `--allow-host`, and with a `--data-dir` that \
                         never had a token; or leave `--fixtures` out",
                ));
            }
        }
        if !listen.ip().is_loopback() && settings.allow_hosts.is_empty() {
            return Err(Problem::usage(
                Code::HostsNeeded,
                format!("cannot listen on `{listen}`: no name of this service was allowed"),
            )
            .cause("others than this machine could ask, by any name that leads here")
            .hint("name it as clients do with `--allow-host`, or listen on 127.0.0.1"));
        }
        if !settings.cors_origins.is_empty() && n_tokens == 0 {
            return Err(Problem::usage(
                Code::TokenNeeded,
                "cannot let pages of other origins in without a token",
            )
            .cause("every page of these origins could run programs here")
            .hint("make one with `ringfence token new --name NAME`"));
        }
        let reached = !listen.ip().is_loopback() || !settings.allow_hosts.is_empty();
        if reached && n_tokens == 0 {
            return Err(Problem::usage(
                Code::TokenNeeded,
                format!("cannot serve others than this machine on `{listen}` without a token"),
            )
            .cause("everybody who reaches it could run programs here")
            .hint("make one with `ringfence token new --name NAME`"));
        }
        let tls = settings.tls.as_ref().map(TlsFiles::read).transpose()?;
        Ok(Self { settings, hosts, cors, tokens, n_tokens, tokens_needed, tls })
    }

    /// Summarizes the service, for people.
    pub fn summary(&self) -> String {
        let HttpSettings { listen, allow_hosts, limits, ledger, .. } = &self.settings;
        let scheme = self.scheme();
        let hosts = if allow_hosts.is_empty() {
            "this machine's own names".to_owned()
        } else {
            format!("this machine's own names, {}", allow_hosts.join(", "))
        };
        let origins = match &self.settings.cors_origins[..] {
            [] => "none but its own".to_owned(),
            all => all.join(", "),
        };
        let clients = match self.n_tokens {
            0 if self.tokens_needed => {
                "none: every token is revoked or gone; `ringfence token new` makes one".to_owned()
            }
            0 => "every user of this machine, as `local`".to_owned(),
            1 => "the holder of the one token".to_owned(),
            n => format!("holders of {n} tokens"),
        };
        let routes = match self.settings.offer {
            Offer::Engine => "/mcp, /api/v1, /healthz, /readyz, /metrics",
            Offer::Fixtures => "/mcp, fixtures for conformance tests that run nothing",
        };
        format!(
            "listen       {scheme}://{listen}\n\
             hosts        {hosts}\n\
             origins      {origins}\n\
             clients      {clients}\n\
             routes       {routes}\n\
             body         {} bytes at most; /mcp {} bytes; files {} bytes\n\
             connections  {} at most\n\
             drain        {} s\n\
             ledger       {}\n",
            limits.body_bytes_max,
            mcp::BODY_BYTES_MAX,
            limits.upload_bytes_max,
            limits.connections_max,
            limits.drain.as_secs(),
            ledger.as_ref().map_or_else(|| "off".to_owned(), |dir| dir.display().to_string()),
        )
    }

    /// Serves until SIGTERM or SIGINT. The engine's launcher must have been started before; this starts the first
    /// threads. Once connections are accepted, writes the address to stderr and calls `ready`.
    pub fn serve(self, engine: Engine, ready: impl FnOnce(SocketAddr)) -> Result<(), Problem> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|e| Problem::internal(Code::Runtime, "cannot start the server").cause(e))?;
        let end = runtime.block_on(self.run(engine, ready));
        // Drops every future, and with it every run.
        runtime.shutdown_timeout(LAST_STEPS);
        end
    }

    async fn run(self, engine: Engine, ready: impl FnOnce(SocketAddr)) -> Result<(), Problem> {
        let listener = self.bind()?;
        let scheme = self.scheme();
        let address = listener.local_addr().unwrap_or(self.settings.listen);
        let Self { settings, hosts, cors, tokens, tls, .. } = self;
        let (routes, document) = api::routes();
        let offered = match settings.offer {
            Offer::Engine => mcp::Offered::Tools(engine.clone()),
            #[cfg(feature = "fixtures")]
            Offer::Fixtures => mcp::Offered::Fixtures(crate::fixtures::Fixtures::new()?),
            #[cfg(not(feature = "fixtures"))]
            Offer::Fixtures => return Err(no_fixtures()),
        };
        let app = Arc::new(AppState {
            mcp: mcp::Mcp::new(offered),
            engine,
            hosts,
            cors,
            tokens,
            streams: streams::StreamSlots::default(),
            epoch: ringfence_audit::now_ms(),
            places: middleware::RequestSlots::default(),
            counts: counts::Counts::default(),
            limits: settings.limits,
            ledger: settings.ledger,
            drain: CancellationToken::new(),
            said: Mutex::default(),
            challenge: settings.authority.as_ref().and_then(Authority::challenge),
            about: About {
                authority: settings.authority.map(|authority| prepared(&authority.document())),
                policy: prepared(&settings.policy),
                doctor: prepared(&settings.doctor),
                document: prepared(&document),
            },
        });
        let (router, what) = match settings.offer {
            Offer::Engine => {
                let warm = app.engine.clone();
                // An error here occurs again in the first run, which reports it.
                tokio::spawn(async move { warm.warm_up().await.ok() });
                (router(&app, operators(routes)), "")
            }
            Offer::Fixtures => (router(&app, Router::new()), "FIXTURES that run nothing, "),
        };
        say(&format_args!("{what}listening on {scheme}://{address}"));
        ready(address);
        serve::serve(app, router, listener, tls.map(TlsAcceptor::from)).await
    }

    fn bind(&self) -> Result<TcpListener, Problem> {
        let listen = self.settings.listen;
        let socket = if listen.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let bound = socket.and_then(|socket| {
            // Lingering connections of a service that has just ended would keep the address in use.
            socket.set_reuseaddr(true)?;
            socket.bind(listen)?;
            socket.listen(BACKLOG)
        });
        bound.map_err(|e| {
            let problem =
                Problem::cannot_build(Code::CannotListen, format!("cannot listen on `{listen}`"));
            let in_use = e.kind() == std::io::ErrorKind::AddrInUse;
            let problem = problem.cause(e);
            if in_use {
                problem.hint("another program listens there; choose another port with `--listen`")
            } else {
                problem
            }
        })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// State shared by all requests.
#[derive(Debug)]
struct AppState {
    engine: Engine,
    hosts: Hosts,
    cors: Cors,
    tokens: Tokens,
    streams: streams::StreamSlots,
    /// Time of the start: names this life of the service in ids of events.
    epoch: i64,
    mcp: mcp::Mcp,
    places: middleware::RequestSlots,
    counts: counts::Counts,
    limits: HttpLimits,
    ledger: Option<PathBuf>,
    /// Cancelled at shutdown: no new work.
    drain: CancellationToken,
    about: About,
    /// `WWW-Authenticate` header for requests without a valid token, if there is an authority.
    challenge: Option<HeaderValue>,
    /// Time of the last message that every request could cause.
    said: Mutex<Option<Instant>>,
}

/// Responses that do not change while the service runs.
#[derive(Debug)]
struct About {
    authority: Option<Bytes>,
    policy: Bytes,
    doctor: Bytes,
    document: Bytes,
}

impl AppState {
    /// Maximum size of a request's body.
    fn body_bytes_max(&self, method: &Method, path: &str) -> usize {
        match path {
            "/mcp" => mcp::BODY_BYTES_MAX,
            // Files are the only thing that is put.
            _ if *method == Method::PUT => self.limits.upload_bytes_max,
            _ => self.limits.body_bytes_max,
        }
    }

    /// Writes a message for the operator, but not as often as clients could cause it.
    fn log_rate_limited(&self, what: &dyn std::fmt::Display) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|at| at.elapsed() > LOG_INTERVAL) {
            *said = Some(Instant::now());
            say(what);
        }
    }
}

/// Writes a message for the operator to stderr. If that fails, there is nowhere else to report it.
fn say(what: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "ringfence: {what}");
}

fn prepared(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

/// Adds the endpoints for the operator.
fn operators(routes: Router<Arc<AppState>>) -> Router<Arc<AppState>> {
    routes
        .route("/healthz", get(api::health))
        .route("/readyz", get(api::ready))
        .route("/metrics", get(api::metrics))
}

fn nothing_here() -> ApiError {
    let problem = Problem::new(ProblemKind::NotFound, Code::RouteUnknown, "no such route");
    ApiError::from(problem.hint("`/api/v1/openapi.json` lists what there is"))
}

/// Adds MCP, the responses for unknown routes and methods, and the middleware in front of all of them.
fn router(app: &Arc<AppState>, routes: Router<Arc<AppState>>) -> Router {
    routes
        .route("/mcp", any(mcp::message))
        .route(WELL_KNOWN, get(api::authority))
        .route(&format!("{WELL_KNOWN}/mcp"), get(api::authority))
        .fallback(async || nothing_here())
        .method_not_allowed_fallback(async || {
            let problem =
                Problem::usage(Code::MethodUnknown, "this route does not know that method");
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, problem)
        })
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), middleware::middleware))
        .with_state(Arc::clone(app))
}

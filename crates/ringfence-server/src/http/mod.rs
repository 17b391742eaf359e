//! HTTP: MCP at `/mcp`, REST at `/api/v1`, and what an operator needs. Every request passes one door, where host, origin,
//! token and size are looked at; behind it the engine does what every face has it do.

mod api;
mod body;
mod connections;
mod counts;
mod fault;
mod hosts;
mod mcp;
mod middleware;
mod oauth;
mod params;
mod runs;
mod scope;
mod serve;
mod tls;
mod tokens;
mod write_timeout;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderValue, StatusCode};
use axum::routing::{any, get};
use hyper::body::Bytes;
use ringfence_engine::Engine;
use ringfence_spec::{Problem, ProblemKind};
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

use fault::Fault;
use hosts::Hosts;
use oauth::WELL_KNOWN;

/// Connections that may wait to be taken in.
const BACKLOG: u32 = 1024;

/// How often the operator is told of what happens with every request.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// What is left to a run's own threads when everything ends.
const LAST_STEPS: Duration = Duration::from_millis(500);

/// What a service offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The engine: MCP, REST, and what an operator needs.
    Engine,
    /// For conformance only: what the protocol's test suite asks for, at `/mcp`. Nothing that can be asked of it reaches
    /// the engine.
    Fixtures,
}

/// What an operator decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to offer.
    pub offer: Offer,
    /// Where to listen; port 0 takes one that is free.
    pub listen: SocketAddr,
    /// Names the service answers to besides this machine's own.
    pub allow_hosts: Vec<String>,
    /// Certificate and key.
    pub tls: Option<TlsFiles>,
    /// Bounds.
    pub limits: Limits,
    /// Where tokens are.
    pub data_dir: PathBuf,
    /// Where the ledger is, if there is one.
    pub ledger: Option<PathBuf>,
    /// Who hands out tokens, where it is not only the operator.
    pub authority: Option<Authority>,
    /// What `/policy` says.
    pub policy: Value,
    /// What `/doctor` says.
    pub doctor: Value,
}

/// Bounds of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a REST request's body.
    pub body_bytes_max: usize,
    /// Connections at once.
    pub connections_max: usize,
    /// How long runs may go on after the service was told to end.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes_max: 1 << 20, connections_max: 8192, drain: Duration::from_secs(20) }
    }
}

/// Settings that were made sure of.
#[derive(Debug)]
pub struct Service {
    settings: Settings,
    hosts: Hosts,
    tokens: Tokens,
    n_tokens: usize,
    tokens_needed: bool,
    tls: Option<Arc<ServerConfig>>,
}

fn no_fixtures() -> Problem {
    Problem::usage("fixtures_missing", "this binary has no conformance fixtures")
        .hint("build one with `cargo build --features fixtures`")
}

impl Service {
    /// Makes sure of settings. Whoever is not on this machine needs a token and a name that was allowed.
    pub fn check(settings: Settings) -> Result<Self, Problem> {
        let hosts = Hosts::new(&settings.allow_hosts)?;
        let tokens = Tokens::of(&settings.data_dir);
        let all = tokens.list()?;
        let n_tokens = all.iter().filter(|token| token.revoked_ms.is_none()).count();
        let tokens_needed = tokens.are_needed()?;
        let listen = settings.listen;
        if settings.offer == Offer::Fixtures && cfg!(not(feature = "fixtures")) {
            return Err(no_fixtures());
        }
        if settings.offer == Offer::Fixtures {
            // One that is gone was one: it says that this directory is a service's.
            let private = listen.ip().is_loopback() && settings.allow_hosts.is_empty();
            if !private || tokens_needed {
                return Err(Problem::usage(
                    "fixtures_private",
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
                "hosts_needed",
                format!("cannot listen on `{listen}`: no name of this service was allowed"),
            )
            .cause("others than this machine could ask, by any name that leads here")
            .hint("name it as clients do with `--allow-host`, or listen on 127.0.0.1"));
        }
        let reached = !listen.ip().is_loopback() || !settings.allow_hosts.is_empty();
        if reached && n_tokens == 0 {
            return Err(Problem::usage(
                "token_needed",
                format!("cannot serve others than this machine on `{listen}` without a token"),
            )
            .cause("everybody who reaches it could run programs here")
            .hint("make one with `ringfence token new --name NAME`"));
        }
        let tls = settings.tls.as_ref().map(TlsFiles::read).transpose()?;
        Ok(Self { settings, hosts, tokens, n_tokens, tokens_needed, tls })
    }

    /// What would be served, for people.
    pub fn summary(&self) -> String {
        let Settings { listen, allow_hosts, limits, ledger, .. } = &self.settings;
        let scheme = self.scheme();
        let hosts = if allow_hosts.is_empty() {
            "this machine's own names".to_owned()
        } else {
            format!("this machine's own names, {}", allow_hosts.join(", "))
        };
        let clients = match self.n_tokens {
            0 if self.tokens_needed => {
                "nobody: every token is revoked or gone; `ringfence token new` makes one".to_owned()
            }
            0 => "whoever is on this machine, as `local`".to_owned(),
            1 => "whoever has the one token".to_owned(),
            n => format!("whoever has one of {n} tokens"),
        };
        let routes = match self.settings.offer {
            Offer::Engine => "/mcp, /api/v1, /healthz, /readyz, /metrics",
            Offer::Fixtures => "/mcp, fixtures for conformance tests that run nothing",
        };
        format!(
            "listen       {scheme}://{listen}\n\
             hosts        {hosts}\n\
             clients      {clients}\n\
             routes       {routes}\n\
             body         {} bytes at most; /mcp {} bytes\n\
             connections  {} at most\n\
             drain        {} s\n\
             ledger       {}\n",
            limits.body_bytes_max,
            mcp::BODY_BYTES_MAX,
            limits.connections_max,
            limits.drain.as_secs(),
            ledger.as_ref().map_or_else(|| "off".to_owned(), |dir| dir.display().to_string()),
        )
    }

    /// Serves until SIGTERM or SIGINT. The engine's launcher was started before; this starts the first threads. Where it
    /// listens is said on stderr, and `ready` is told, once connections are taken in.
    pub fn serve(self, engine: Engine, ready: impl FnOnce(SocketAddr)) -> Result<(), Problem> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|e| Problem::internal("runtime", "cannot start the server").cause(e))?;
        let end = runtime.block_on(self.run(engine, ready));
        // Drops every future, and with it every run.
        runtime.shutdown_timeout(LAST_STEPS);
        end
    }

    async fn run(self, engine: Engine, ready: impl FnOnce(SocketAddr)) -> Result<(), Problem> {
        let listener = self.bind()?;
        let scheme = self.scheme();
        let address = listener.local_addr().unwrap_or(self.settings.listen);
        let Self { settings, hosts, tokens, tls, .. } = self;
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
            tokens,
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
                // What goes wrong here goes wrong again for the first program, which has somebody to tell.
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
            // A service that was just ended leaves connections behind that would keep the address.
            socket.set_reuseaddr(true)?;
            socket.bind(listen)?;
            socket.listen(BACKLOG)
        });
        bound.map_err(|e| {
            let problem =
                Problem::cannot_build("cannot_listen", format!("cannot listen on `{listen}`"));
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

/// What every request can reach.
#[derive(Debug)]
struct AppState {
    engine: Engine,
    hosts: Hosts,
    tokens: Tokens,
    mcp: mcp::Mcp,
    places: middleware::RequestSlots,
    counts: counts::Counts,
    limits: Limits,
    ledger: Option<PathBuf>,
    /// Cancelled when the service ends: no new work.
    drain: CancellationToken,
    about: About,
    /// What a request without a good token is told, where it can get one.
    challenge: Option<HeaderValue>,
    /// When something was last said that every request could make us say.
    said: Mutex<Option<Instant>>,
}

/// Texts that do not change while the service runs.
#[derive(Debug)]
struct About {
    authority: Option<Bytes>,
    policy: Bytes,
    doctor: Bytes,
    document: Bytes,
}

impl AppState {
    /// How large a request's body may be.
    fn body_bytes_max(&self, path: &str) -> usize {
        if path == "/mcp" { mcp::BODY_BYTES_MAX } else { self.limits.body_bytes_max }
    }

    /// Tells the operator, but not as often as strangers can make it happen.
    fn say_now_and_then(&self, what: &dyn std::fmt::Display) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|at| at.elapsed() > SAY_EVERY) {
            *said = Some(Instant::now());
            say(what);
        }
    }
}

/// Tells the operator. A stderr that is gone leaves nobody to tell.
fn say(what: &dyn std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "ringfence: {what}");
}

fn prepared(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

/// Adds what an operator needs.
fn operators(routes: Router<Arc<AppState>>) -> Router<Arc<AppState>> {
    routes
        .route("/healthz", get(api::health))
        .route("/readyz", get(api::ready))
        .route("/metrics", get(api::metrics))
}

fn nothing_here() -> Fault {
    let problem = Problem::new(ProblemKind::NotFound, "route_unknown", "there is nothing here");
    Fault::from(problem.hint("`/api/v1/openapi.json` lists what there is"))
}

/// Adds MCP, what is said where there is nothing, and the door before all of it.
fn router(app: &Arc<AppState>, routes: Router<Arc<AppState>>) -> Router {
    routes
        .route("/mcp", any(mcp::message))
        .route(WELL_KNOWN, get(api::authority))
        .route(&format!("{WELL_KNOWN}/mcp"), get(api::authority))
        .fallback(async || nothing_here())
        .method_not_allowed_fallback(async || {
            let problem = Problem::usage("method_unknown", "this route does not know that method");
            Fault::new(StatusCode::METHOD_NOT_ALLOWED, problem)
        })
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), middleware::middleware))
        .with_state(Arc::clone(app))
}

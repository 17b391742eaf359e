//! Accepts connections, passes them to the router, and closes them at shutdown. Shutdown has an order: refuse new work,
//! wait for running work, then end everything.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ringfence_spec::{Code, Problem};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connections::{ActiveRequest, Connection, ConnectionLimit};
use super::scope::Caller;
use super::write_timeout::WriteTimeout;
use super::{AppState, say};

/// Time limit for a request head; also the idle timeout of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Time limit for a TLS handshake.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Write timeout: a client that reads nothing of a response for this long counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Size of the read buffer, which bounds a request head and the read-ahead of a body.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum number of headers in a request.
const HEADERS_MAX: usize = 64;

/// Time for clients to read the last responses at shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Poll interval for revoked and replaced tokens. Their requests are rejected at once; this ends what their clients
/// have started.
const REVOKED_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Poll interval for the end of the last run.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Serves until a signal, then drains.
pub(super) async fn serve(
    app: Arc<AppState>,
    router: Router,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) -> Result<(), Problem> {
    let cannot = |e| Problem::internal(Code::Signals, "cannot listen for signals").cause(e);
    let mut term = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut int = signal(SignalKind::interrupt()).map_err(cannot)?;
    let connections = ConnectionLimit::new(app.limits.connections_max);
    let accepting = accept(&connections, router, listener, tls);
    let (sweeping, revoking) = (sweep(&app), end_revoked(&app));
    let ending = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        say(&"draining; a second signal ends it at once");
        app.drain.cancel();
        tokio::select! {
            () = idle(&app) => {}
            () = sleep(app.limits.drain) => {
                say(&"what still runs is cancelled");
            }
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    tokio::select! {
        () = ending => {}
        never = accepting => match never {},
        never = sweeping => match never {},
        never = revoking => match never {},
    }
    app.engine.end_runs(|_| false);
    app.mcp.end();
    // Responses that are not read by then are lost.
    let _ = timeout(CLOSE_TIMEOUT, connections.close()).await;
    Ok(())
}

/// Waits until no request is in progress and nothing runs.
async fn idle(app: &AppState) {
    loop {
        let gate = app.engine.admission().counts();
        if app.places.n_taken() + app.engine.n_running() + gate.running + gate.queued == 0 {
            return;
        }
        sleep(DRAIN_POLL_INTERVAL).await;
    }
}

async fn sweep(app: &AppState) -> std::convert::Infallible {
    // After this, the engine sweeps by itself.
    if let Err(problem) = app.engine.sweep().await {
        say(&problem);
    }
    std::future::pending().await
}

async fn end_revoked(app: &AppState) -> std::convert::Infallible {
    loop {
        sleep(REVOKED_POLL_INTERVAL).await;
        // If the file cannot be read, the middleware rejects all requests and reports the error.
        if let Ok(callers) = app.tokens.callers() {
            let owners: HashSet<String> = callers.iter().map(Caller::owner).collect();
            app.engine.end_runs(|owner| owners.contains(owner));
            app.mcp.keep_only(&callers);
            app.streams.keep_only(&callers);
        }
        app.engine.drop_old_files();
    }
}

/// Accepts connections, forever.
async fn accept(
    connections: &Arc<ConnectionLimit>,
    router: Router,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) -> std::convert::Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The connection was aborted while it waited, or there is no descriptor left for it.
            connections.close_idlest_now();
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Only after the accept: no connection is closed for one that may never come.
        connections.wait_for_slot().await;
        let slot = connections.slot();
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            serve_connection(stream, router, tls, &slot.connection).await;
            drop(slot);
        });
    }
}

/// Serves one connection from its first byte to its end.
async fn serve_connection(
    stream: TcpStream,
    router: Router,
    tls: Option<TlsAcceptor>,
    connection: &Arc<Connection>,
) {
    // Responses are written whole.
    let _ = stream.set_nodelay(true);
    // Until its first byte a connection costs no more than its descriptor and this task. Peeks at that byte, because a
    // new socket is reported as readable whether it is or not.
    let mut first = [0];
    let spoken = tokio::select! {
        spoken = timeout(HEAD_TIMEOUT, stream.peek(&mut first)) => matches!(spoken, Ok(Ok(1))),
        () = connection.close.cancelled() => false,
    };
    if !spoken {
        return;
    }
    // Boxed, so that their memory is allocated from here on, and not for silent connections.
    match tls {
        None => Box::pin(answer(stream, router, connection)).await,
        Some(tls) => {
            let handshake = Box::pin(timeout(TLS_HANDSHAKE_TIMEOUT, tls.accept(stream)));
            let shaken = tokio::select! {
                shaken = handshake => shaken,
                () = connection.close.cancelled() => return,
            };
            if let Ok(Ok(stream)) = shaken {
                Box::pin(answer(stream, router, connection)).await;
            }
        }
    }
}

fn answer<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
    router: Router,
    connection: &Arc<Connection>,
) -> impl Future<Output = ()> + Send {
    let router = TowerToHyperService::new(router);
    let busy = Arc::clone(connection);
    let service = hyper::service::service_fn(move |request| {
        let busy = busy.busy();
        let answer = hyper::service::Service::call(&router, request);
        // The request is in progress until the whole response has been handed on.
        async move { answer.await.map(|answer| answer.map(|body| Held { body, _busy: busy })) }
    });
    let stream = TokioIo::new(WriteTimeout::new(stream, Arc::clone(connection), WRITE_TIMEOUT));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(HEADERS_MAX)
        .serve_connection(stream, service);
    let connection = Arc::clone(connection);
    async move {
        let mut serving = std::pin::pin!(serving);
        // Connection errors are not reported: they concern only the client, which sees them.
        tokio::select! {
            _ = serving.as_mut() => return,
            () = connection.close.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        if !connection.is_busy() {
            // Completes the shutdown, or finds that a request has just arrived.
            poll_fn(|context| Poll::Ready(serving.as_mut().poll(context).is_ready())).await;
        }
        // The beginning of a head is not a request: a client that has sent no more is disconnected.
        if connection.is_busy() {
            let _ = serving.await;
        }
    }
}

/// Response body that keeps its request marked as in progress.
struct Held {
    body: Body,
    _busy: ActiveRequest,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

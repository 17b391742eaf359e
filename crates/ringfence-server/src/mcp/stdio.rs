//! MCP over standard input and output. Only protocol messages are written to stdout: guests have pipes of their own,
//! and logs go to stderr.

use std::time::Duration;

use ringfence_engine::Engine;
use ringfence_spec::{Code, Problem};
use rmcp::ServiceExt as _;
use tokio::signal::unix::{SignalKind, signal};

use super::McpServer;
use super::line_framing::{LineTransport, ended};

/// Time to answer calls in flight after the end of input.
const LAST_ANSWERS: Duration = Duration::from_millis(400);

/// Time for the threads to finish when everything is ended after that. Together less than a second.
const LAST_STEPS: Duration = Duration::from_millis(400);

/// Delay of the first sweep of expired sessions: after the first answers. From then on the engine sweeps.
const FIRST_SWEEP: Duration = Duration::from_secs(2);

/// Reason why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client closed its side.
    Closed,
    /// A signal, by number.
    Signal(u8),
}

/// Serves one client until it disconnects. The engine's launcher must have been started before; this starts the first
/// threads.
pub fn serve_stdio(engine: Engine, client: &str) -> Result<End, Problem> {
    // One thread handles the protocol; runs have threads of their own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::internal(Code::Runtime, "cannot start the server").cause(e))?;
    let server = McpServer::new(engine, client, client);
    let end = runtime.block_on(serve(server));
    // Drops every future, and with it every run.
    runtime.shutdown_timeout(LAST_STEPS);
    end
}

/// Ends expired sessions, of this client and of earlier ones: there may be no other process to do it. After this, the
/// engine sweeps by itself.
async fn sweep(engine: Engine) -> std::convert::Infallible {
    tokio::time::sleep(FIRST_SWEEP).await;
    // The engine repeats it later.
    if let Err(problem) = engine.sweep().await {
        tracing::warn!("cannot end expired sessions: {problem}");
    }
    std::future::pending().await
}

async fn serve(server: McpServer) -> Result<End, Problem> {
    let cannot = |e| Problem::internal(Code::Signals, "cannot listen for signals").cause(e);
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(|kind| (kind, signal(kind)));
    let [(_, term), (_, int), (_, hup)] = &mut signals;
    let (term, int, hup) = match (term, int, hup) {
        (Ok(term), Ok(int), Ok(hup)) => (term, int, hup),
        (Err(e), ..) | (_, Err(e), _) | (.., Err(e)) => return Err(cannot(e.kind())),
    };
    let (read, write) = rmcp::transport::stdio_pipes();
    let (ending, mut end) = ended();
    let lines = LineTransport::new(read, write, ending);
    let sweeping = sweep(server.engine.clone());
    let service = async {
        // A client that disconnects before `initialize` is not an error.
        if let Ok(running) = server.serve(lines).await {
            let _ = running.waiting().await;
        }
    };
    let left = async {
        end.wait().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    Ok(tokio::select! {
        () = service => End::Closed,
        () = left => End::Closed,
        never = sweeping => match never {},
        _ = term.recv() => End::Signal(15),
        _ = int.recv() => End::Signal(2),
        _ = hup.recv() => End::Signal(1),
    })
}

//! Timings of a call's parts, for distributed tracing.

use std::time::{Duration, Instant, SystemTime};

use ringfence_spec::RunId;

/// Timings of a finished call.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Id of the run or call, as in the ledger.
    pub run_id: RunId,
    /// The tool.
    pub tool: &'static str,
    /// The client that made the call.
    pub client: String,
    /// The session, if any.
    pub session: Option<String>,
    /// Final status.
    pub status: String,
    /// Time of the request.
    pub began: SystemTime,
    /// Time from the request to the response.
    pub took: Duration,
    /// Parts of the call, in order.
    pub parts: Vec<Part>,
}

/// A part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Stable, `snake_case`.
    pub name: &'static str,
    /// Offset of the part's start from the start of the call.
    pub from: Duration,
    /// Offset of the part's end from the start of the call.
    pub to: Duration,
}

/// Receives the trace of every finished call. Runs on the call's thread, so it must not block.
pub type TraceSink = Box<dyn Fn(Trace) + Send + Sync>;

/// Measures a call in progress.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    at: SystemTime,
    began: Instant,
    parts: Vec<Part>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let parts = Vec::with_capacity(4);
        Self { at: SystemTime::now(), began: Instant::now(), parts }
    }

    /// Ends a part: the time since the previous part is recorded under `name`.
    pub(crate) fn part(&mut self, name: &'static str) {
        let from = self.parts.last().map_or(Duration::ZERO, |part| part.to);
        self.parts.push(Part { name, from, to: self.began.elapsed() });
    }

    /// Ends the call and returns its trace.
    pub(crate) fn stop(
        self,
        run_id: RunId,
        tool: &'static str,
        status: &str,
        (client, session): (String, Option<String>),
    ) -> Trace {
        let (began, took, parts) = (self.at, self.began.elapsed(), self.parts);
        Trace { run_id, tool, client, session, status: status.to_owned(), began, took, parts }
    }
}

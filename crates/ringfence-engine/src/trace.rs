//! What the parts of a call took, for whoever follows calls through several services.

use std::time::{Duration, Instant, SystemTime};

use ringfence_spec::RunId;

/// A call that has ended, and where its time went.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The run or call; as the ledger has it.
    pub run_id: RunId,
    /// The tool.
    pub tool: &'static str,
    /// Who asked.
    pub client: String,
    /// In which session, if any.
    pub session: Option<String>,
    /// How it ended.
    pub status: String,
    /// When it was asked for.
    pub began: SystemTime,
    /// From there to its answer.
    pub took: Duration,
    /// Its parts, one after the other.
    pub parts: Vec<Part>,
}

/// A part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Stable, `snake_case`.
    pub name: &'static str,
    /// From the beginning of the call to the beginning of the part.
    pub from: Duration,
    /// From the beginning of the call to the end of the part.
    pub to: Duration,
}

/// Told of every call that has ended. Called on the call's thread: it must not wait.
pub type TraceSink = Box<dyn Fn(Trace) + Send + Sync>;

/// A call on its way.
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

    /// What was done since the last part is this one.
    pub(crate) fn part(&mut self, name: &'static str) {
        let from = self.parts.last().map_or(Duration::ZERO, |part| part.to);
        self.parts.push(Part { name, from, to: self.began.elapsed() });
    }

    /// The call has ended.
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

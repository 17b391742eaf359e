//! Counts responses by status, including those to requests that the middleware rejects, which the engine's metrics
//! miss.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;

/// Last line of the metrics, the engine's and ours.
const END: &str = "# EOF\n";

/// Number of responses by status.
#[derive(Debug, Default)]
pub(super) struct Counts {
    answers: Mutex<BTreeMap<u16, u64>>,
}

impl Counts {
    /// Counts a response.
    pub(super) fn count(&self, status: StatusCode) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status.as_u16()).or_default() += 1;
    }

    /// Appends these counts to the engine's metrics.
    pub(super) fn after(&self, engine: &str) -> String {
        let mut text = engine.strip_suffix(END).unwrap_or(engine).to_owned();
        text.push_str("# HELP ringfence_http_answers Requests by the status of their answer.\n");
        text.push_str("# TYPE ringfence_http_answers counter\n");
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for (status, n) in &*answers {
            let _ = writeln!(text, "ringfence_http_answers_total{{status=\"{status}\"}} {n}");
        }
        text.push_str(END);
        text
    }
}

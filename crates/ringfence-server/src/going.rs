//! A run that goes on: what is known of it, and what is said of it to whoever asks.

use std::time::Instant;

use ringfence_engine::{Partial, SoFar, some_id};
use ringfence_spec::{Outcome, Problem, RunId, Status};
use serde_json::Value;

/// What is known of a run before it ends.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) id: RunId,
    pub(crate) session: Option<String>,
    pub(crate) began: Instant,
    pub(crate) so_far: SoFar,
}

impl Going {
    pub(crate) fn new(id: RunId, session: Option<String>) -> Self {
        Self { id, session, began: Instant::now(), so_far: SoFar::default() }
    }

    /// An outcome in which nothing is known yet but what was written last.
    pub(crate) fn outcome(&self, partial: &Partial) -> Value {
        let nothing_yet = Problem::usage("", "");
        let unknown = Outcome::not_started(some_id(), Status::Ok, &nothing_yet);
        let mut outcome = serde_json::to_value(unknown).unwrap_or_default();
        outcome["run_id"] = self.id.to_string().into();
        outcome["session_id"] = self.session.as_deref().into();
        outcome["status"] = "running".into();
        outcome["ran"] = "unknown".into();
        outcome["usage"]["wall_ms"] = (self.began.elapsed().as_secs_f64() * 1000.0).into();
        outcome["error"] = Value::Null;
        let streams = [
            ("stdout", &partial.stdout, partial.stdout_bytes),
            ("stderr", &partial.stderr, partial.stderr_bytes),
        ];
        for (name, shown, n_bytes) in streams {
            outcome[name] = shown.as_str().into();
            outcome["usage"][format!("{name}_bytes")] = n_bytes.into();
            // What is left out is the beginning.
            outcome["truncated"][name] = (n_bytes > shown.len() as u64).into();
        }
        outcome
    }
}

//! The last calls of one client, oldest first, no more than a bound.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use ringfence_spec::Status;

use super::FinishedCall;

/// What is kept of a call: no text, so that its size is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSummary {
    pub(crate) at_ms: u64,
    /// A hash of the tool's name.
    pub(crate) tool: u64,
    pub(crate) status: Status,
    pub(crate) duration_ms: u64,
    pub(crate) code_sha256: Option<[u8; 32]>,
    pub(crate) bytes_read: u64,
    pub(crate) traversal: bool,
}

/// The last calls of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    calls: VecDeque<CallSummary>,
}

impl Ring {
    pub(crate) fn push(&mut self, seen: &FinishedCall, at_ms: u64, n_max: usize) {
        while self.calls.len() >= n_max.max(1) {
            self.calls.pop_front();
        }
        self.calls.push_back(CallSummary {
            at_ms,
            tool: tool_hash(&seen.tool),
            status: seen.status,
            duration_ms: seen.duration_ms,
            code_sha256: seen.code_sha256,
            bytes_read: seen.bytes_read,
            traversal: seen.traversal,
        });
    }

    /// All that are remembered.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CallSummary> {
        self.calls.iter()
    }

    /// Those of the last so many milliseconds.
    pub(crate) fn within(&self, now_ms: u64, window_ms: u64) -> impl Iterator<Item = &CallSummary> {
        self.calls
            .iter()
            .rev()
            .take_while(move |past| now_ms.saturating_sub(past.at_ms) < window_ms)
    }
}

pub(crate) fn tool_hash(tool: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    hasher.finish()
}

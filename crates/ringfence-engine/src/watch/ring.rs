//! Recent calls of one client, oldest first, up to a limit.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use ringfence_spec::Status;

use super::FinishedCall;

/// Summary of a call. Holds no text, so its size is fixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSummary {
    pub(crate) at_ms: u64,
    /// Hash of the tool's name.
    pub(crate) tool: u64,
    pub(crate) status: Status,
    pub(crate) duration_ms: u64,
    pub(crate) code_sha256: Option<[u8; 32]>,
    pub(crate) bytes_read: u64,
    pub(crate) traversal: bool,
}

/// Recent calls of one client.
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

    /// Returns every call in the ring.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CallSummary> {
        self.calls.iter()
    }

    /// Returns the calls of the last `window_ms` milliseconds, newest first.
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

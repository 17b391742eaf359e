//! The descriptors that the launcher hands to the child across the fork.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Descriptors the child keeps; every other one is closed by its first step.
pub(crate) struct Handover {
    /// To the supervisor, closed by exec: roots, listeners, failures.
    pub(crate) report: OwnedFd,
    /// To the supervisor, held by init: the go, supplies, signals, the end.
    pub(crate) control: OwnedFd,
    /// Become 0, 1 and 2; `None` for a stream of the run's own terminal.
    pub(crate) stdio: [Option<OwnedFd>; 3],
    /// Becomes 3, the program's channel to its caller.
    pub(crate) channel: Option<OwnedFd>,
}

impl Handover {
    /// The numbers to keep.
    pub(crate) fn numbers(&self) -> Vec<RawFd> {
        [&self.report, &self.control]
            .into_iter()
            .chain(self.stdio.iter().flatten())
            .chain(&self.channel)
            .map(AsRawFd::as_raw_fd)
            .collect()
    }
}

//! A limit on the time a test takes in its own process.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::skip::say;

/// Time limit of a process that a test starts, and of a test that waits inside its own process. Tests take seconds; this is
/// for a machine that is busy with others.
pub const LIMIT: Duration = Duration::from_mins(2);

/// [`LIMIT`], times `RINGFENCE_TEST_SLOWNESS` on an emulated machine.
pub fn limit() -> Duration {
    let slowness = std::env::var("RINGFENCE_TEST_SLOWNESS").ok().and_then(|n| n.parse().ok());
    LIMIT * slowness.unwrap_or(1)
}

/// Ends the test process, loudly, if it is not dropped in time: for waits that no process can be killed to end, such as on a
/// lock, a channel or a thread.
#[derive(Debug)]
pub struct TimeLimit {
    /// Closed by dropping.
    _disarm: Sender<()>,
}

impl TimeLimit {
    /// The usual limit.
    #[expect(
        clippy::new_without_default,
        reason = "a default that ends the process would surprise"
    )]
    pub fn new() -> Self {
        Self::of(limit())
    }

    /// Another limit.
    pub fn of(limit: Duration) -> Self {
        let test = crate::skip::test_name();
        Self {
            _disarm: after(limit, move || {
                say(&format!("TIMED OUT {test}: it still waits after {limit:?}"));
                std::process::abort();
            }),
        }
    }
}

/// Does `act` when the time is over, unless the sender is dropped before.
pub(crate) fn after(limit: Duration, act: impl FnOnce() + Send + 'static) -> Sender<()> {
    let (disarm, disarmed) = channel::<()>();
    std::thread::spawn(move || {
        if disarmed.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            act();
        }
    });
    disarm
}

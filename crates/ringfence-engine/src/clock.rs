//! Source of the current time: the host's clock, or a test's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock in milliseconds since the epoch.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// The current time.
    fn now_ms(&self) -> u64;
}

/// The host's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that advances only by [`TestClock::advance_ms`].
#[derive(Debug, Default)]
pub struct TestClock(AtomicU64);

impl TestClock {
    /// Creates a clock that shows `now`.
    pub fn at_ms(now: u64) -> Self {
        Self(AtomicU64::new(now))
    }

    /// Advances the clock.
    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

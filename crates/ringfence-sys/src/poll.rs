//! Waiting for one descriptor, with a bound.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::{CallError, Named};

/// Time left until `deadline`, for poll(2); zero if it is past.
pub fn time_until(deadline: Instant) -> Timespec {
    timespec(deadline.saturating_duration_since(Instant::now()))
}

/// Waits until `fd` has one of `events`, or an error or hang-up, at most until `deadline`. Returns false past it.
pub fn ready_by(fd: impl AsFd, events: PollFlags, deadline: Instant) -> Result<bool, CallError> {
    rustix::io::retry_on_intr(|| {
        rustix::event::poll(&mut [PollFd::new(&fd, events)], Some(&time_until(deadline)))
    })
    .map(|n| n > 0)
    .named(|| "poll")
}

/// Returns true if `fd` has one of `events`, or an error or hang-up, within `time`.
pub fn is_ready_within(fd: impl AsFd, events: PollFlags, time: Duration) -> bool {
    rustix::event::poll(&mut [PollFd::new(&fd, events)], Some(&timespec(time))).is_ok_and(|n| n > 0)
}

/// Returns true if `fd` has one of `events`, or an error or hang-up, now.
pub fn is_ready(fd: impl AsFd, events: PollFlags) -> bool {
    is_ready_within(fd, events, Duration::ZERO)
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

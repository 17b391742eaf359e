//! Who may run now, who waits, who is turned away: rate, concurrency, a bounded fair queue, circuit breakers.
//! It guards a service; without settings it lets everybody in.

mod breaker;
mod gate;
mod rate;
mod terms;

pub use breaker::BreakerState;
pub use gate::{Admission, Permit};
pub use terms::{AdmissionSettings, Counts, Rejection, Verdict};

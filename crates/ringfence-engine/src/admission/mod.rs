//! Who may run now, who waits, who is turned away: rate, concurrency, a bounded fair queue, circuit breakers.
//! It guards a service; without settings it lets everybody in.

mod breaker;
mod gate;
mod rate;
mod settings;

pub use breaker::BreakerState;
pub use gate::{Admission, Permit};
pub use settings::{AdmissionSettings, BreakerVerdict, Counts, Rejection};

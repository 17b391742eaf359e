//! Admission control: rate, concurrency, a bounded fair queue, circuit breakers. Protects a service; without settings
//! every call is admitted.

mod breaker;
mod gate;
mod rate;
mod settings;

pub use breaker::BreakerState;
pub use gate::{Admission, Permit};
pub use settings::{AdmissionSettings, BreakerVerdict, Counts, Rejection};

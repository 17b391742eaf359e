//! What an operator sets, what a client is told, and what is counted at the gate.

use ringfence_spec::{Problem, Status};
use serde::{Deserialize, Serialize};

/// Limits of a service. `None` means no limit of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSettings {
    /// Calls of one client in a minute.
    pub rate_per_minute: Option<u32>,
    /// Runs at once, of all clients together.
    pub concurrent: Option<usize>,
    /// Runs at once, of one client. With breakers, one every two seconds until one goes well: at first, and after each
    /// that hit a limit or was refused.
    pub concurrent_per_client: Option<usize>,
    /// Calls that may wait, of all clients together.
    pub queue: Option<usize>,
    /// Whether clients whose runs do harm are shut out for a while.
    pub breakers: bool,
}

impl AdmissionSettings {
    /// What a service has unless its operator says otherwise.
    pub fn service() -> Self {
        Self {
            rate_per_minute: Some(100),
            concurrent: Some(10),
            concurrent_per_client: Some(4),
            queue: Some(50),
            breakers: true,
        }
    }
}

/// Why a call was turned away, and when to come again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Stable, `snake_case`.
    pub code: &'static str,
    /// In words.
    pub message: String,
    /// When it may be worth asking again.
    pub retry_after_ms: u64,
}

impl Rejection {
    /// The same as a problem.
    pub fn problem(&self) -> Problem {
        Problem::refused(self.code, self.message.clone())
            .hint(format!("ask again in {} ms", self.retry_after_ms))
            .retry_after_ms(self.retry_after_ms)
    }
}

/// What a run meant for the breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerVerdict {
    /// Nothing against anybody.
    Fine,
    /// The client's doing: a limit hit, a screen refused.
    Abusive,
    /// Our own failure.
    OurFault,
    /// Never ran.
    Unknown,
}

impl From<Status> for BreakerVerdict {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok | Status::Error => Self::Fine,
            Status::Timeout | Status::Memory | Status::Killed | Status::Blocked => Self::Abusive,
            Status::Failed => Self::OurFault,
            Status::Rejected => Self::Unknown,
        }
    }
}

/// What happened at the gate so far, and how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls let in.
    pub admitted: u64,
    /// Calls turned away.
    pub rejected: u64,
    /// Running now.
    pub running: usize,
    /// Waiting now.
    pub queued: usize,
    /// Clients shut out now.
    pub breakers_open: usize,
}

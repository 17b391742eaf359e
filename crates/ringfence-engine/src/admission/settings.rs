//! Settings, rejections and counters of the admission gate.

use ringfence_spec::{Code, Outcome, Problem, Status};
use serde::{Deserialize, Serialize};

/// Limits of a service. `None` means no limit of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSettings {
    /// Calls of one client per minute.
    pub rate_per_minute: Option<u32>,
    /// Concurrent runs of all clients together.
    pub concurrent: Option<usize>,
    /// Concurrent runs of one client. With breakers, one every two seconds at first and after each run that hit a limit
    /// or was refused, until one does neither.
    pub concurrent_per_client: Option<usize>,
    /// Queued calls of all clients together.
    pub queue: Option<usize>,
    /// Enables circuit breakers, which reject clients with abusive runs for a while.
    pub breakers: bool,
}

impl AdmissionSettings {
    /// Defaults of a service.
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

/// Reason a call was rejected, and when to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Stable code.
    pub code: Code,
    /// Message for the client.
    pub message: String,
    /// Time after which a retry may succeed.
    pub retry_after_ms: u64,
}

impl Rejection {
    /// Converts the rejection to a problem.
    pub fn problem(&self) -> Problem {
        Problem::refused(self.code, self.message.clone())
            .hint(format!("ask again in {} ms", self.retry_after_ms))
            .retry_after_ms(self.retry_after_ms)
    }
}

/// Verdict on a run, for the circuit breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerVerdict {
    /// Neither the client's nor the service's fault.
    Fine,
    /// The client's fault: a limit was hit, or screening refused the code.
    Abusive,
    /// An internal failure.
    OurFault,
    /// The call never ran.
    Unknown,
}

impl From<&Outcome> for BreakerVerdict {
    fn from(outcome: &Outcome) -> Self {
        match outcome.status {
            Status::Ok | Status::Error => Self::Fine,
            Status::Timeout | Status::Memory | Status::Blocked => Self::Abusive,
            // A run that was cancelled, or a program that crashed, has hit no limit.
            Status::Killed => match outcome.error.as_ref().map(|error| error.code) {
                Some(Code::DiskLimit | Code::FileSizeLimit | Code::SyscallEntry) => Self::Abusive,
                _ => Self::Fine,
            },
            Status::Failed => Self::OurFault,
            Status::Rejected => Self::Unknown,
        }
    }
}

/// Counters and current values of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls admitted.
    pub admitted: u64,
    /// Calls rejected.
    pub rejected: u64,
    /// Calls running now.
    pub running: usize,
    /// Calls queued now.
    pub queued: usize,
    /// Clients whose breaker is not closed.
    pub breakers_open: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakers_count_limits_and_refusals_alone() {
        use BreakerVerdict::{Abusive, Fine, OurFault, Unknown};
        for (status, code, expected) in [
            (Status::Ok, Code::Cancelled, Fine),
            (Status::Error, Code::Crash, Fine),
            (Status::Timeout, Code::WallDeadline, Abusive),
            (Status::Memory, Code::MemoryLimit, Abusive),
            (Status::Blocked, Code::Screen, Abusive),
            (Status::Killed, Code::DiskLimit, Abusive),
            (Status::Killed, Code::FileSizeLimit, Abusive),
            (Status::Killed, Code::SyscallEntry, Abusive),
            (Status::Killed, Code::Cancelled, Fine),
            (Status::Killed, Code::Signal, Fine),
            (Status::Killed, Code::InterpreterDied, Fine),
            (Status::Failed, Code::Internal, OurFault),
            (Status::Rejected, Code::Busy, Unknown),
        ] {
            let problem = Problem::internal(code, "x");
            let outcome = Outcome::not_started(crate::ids::some_id(), status, &problem);
            assert_eq!(BreakerVerdict::from(&outcome), expected, "{status:?} {code}");
        }
    }
}

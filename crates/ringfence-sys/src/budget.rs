//! A bound on work that the host does for a run: entries looked at, bytes read, and a moment by which it must be done.
//! Files of a run decide how much work there is; the budget decides how much of it is done.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::CallError;

/// The clock is asked once in so many entries: asking costs as much as a look at one.
const ENTRIES_BETWEEN_CLOCK: u32 = 64;

/// Entries, bytes and time that are left. Spending past one of them is an error, and stays one.
#[derive(Debug)]
pub struct Budget {
    entries: Cell<u32>,
    bytes: Cell<u64>,
    deadline: Option<Instant>,
}

impl Budget {
    /// Limits entries, bytes and time from now on.
    pub fn new(entries: u32, bytes: u64, time: Duration) -> Self {
        let deadline = Some(Instant::now() + time);
        Self { entries: Cell::new(entries), bytes: Cell::new(bytes), deadline }
    }

    /// Limits entries only.
    pub fn entries(entries: u32) -> Self {
        Self { entries: Cell::new(entries), bytes: Cell::new(u64::MAX), deadline: None }
    }

    /// Limits time only.
    pub fn time(time: Duration) -> Self {
        Self::new(u32::MAX, u64::MAX, time)
    }

    /// Without bound: for directories that no run can write.
    pub fn unlimited() -> Self {
        Self::entries(u32::MAX)
    }

    /// Counts one directory entry, file or system call.
    pub fn spend_entry(&self) -> Result<(), CallError> {
        let left = self.entries.get().checked_sub(1).ok_or_else(|| spent("entries"))?;
        self.entries.set(left);
        if left.is_multiple_of(ENTRIES_BETWEEN_CLOCK) { self.check_time() } else { Ok(()) }
    }

    /// Counts bytes that are about to be read.
    pub fn spend_bytes(&self, n: u64) -> Result<(), CallError> {
        let left = self.bytes.get().checked_sub(n).ok_or_else(|| spent("bytes"))?;
        self.bytes.set(left);
        self.check_time()
    }

    /// Fails once the time is over.
    pub fn check_time(&self) -> Result<(), CallError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                self.entries.set(0);
                Err(spent("time"))
            }
            _ => Ok(()),
        }
    }

    /// The moment by which the work must be done.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

fn spent(what: &str) -> CallError {
    CallError::new(format!("the budget of {what} is spent"), Errno::DQUOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_spent_stays_spent() {
        let budget = Budget::new(2, 10, Duration::from_mins(1));
        assert!(budget.spend_entry().is_ok() && budget.spend_entry().is_ok());
        assert!(budget.spend_entry().is_err() && budget.spend_entry().is_err());
        assert!(budget.spend_bytes(10).is_ok());
        assert!(budget.spend_bytes(1).is_err());
        let late = Budget::new(1000, 10, Duration::ZERO);
        assert!(late.check_time().is_err());
        assert!(late.spend_entry().is_err());
    }
}

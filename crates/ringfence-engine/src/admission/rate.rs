//! Rate limit per client: the generic cell rate algorithm, one number for each client.

/// A number of calls per minute, and the burst allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    interval_us: u64,
    tolerance_us: u64,
}

/// Time at which a client's next call would be due at an even rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due(u64);

impl Rate {
    /// `per_minute` calls, all of which may come in one burst after a quiet minute.
    pub(super) fn per_minute(per_minute: u32) -> Self {
        let interval_us = 60_000_000 / u64::from(per_minute.max(1));
        Self { interval_us, tolerance_us: interval_us * u64::from(per_minute.saturating_sub(1)) }
    }

    /// Takes one call. The error is the time in milliseconds to wait.
    pub(super) fn take(self, due: &mut Due, now_ms: u64) -> Result<(), u64> {
        let now_us = now_ms.saturating_mul(1000);
        let at = due.0.max(now_us);
        let early_us = at - now_us;
        if early_us > self.tolerance_us {
            return Err((early_us - self.tolerance_us).div_ceil(1000));
        }
        due.0 = at + self.interval_us;
        Ok(())
    }

    /// Refunds a call that was taken but rejected through no fault of the client.
    pub(super) fn refund(self, due: &mut Due) {
        due.0 = due.0.saturating_sub(self.interval_us);
    }

    /// Returns true if the client's limit has fully recovered.
    pub(super) fn is_fresh(due: Due, now_ms: u64) -> bool {
        due.0 <= now_ms.saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_calls_may_come_at_once_and_the_next_waits() {
        let (rate, mut due) = (Rate::per_minute(100), Due::default());
        for _ in 0..100 {
            assert_eq!(rate.take(&mut due, 1_000), Ok(()));
        }
        assert_eq!(rate.take(&mut due, 1_000), Err(600));
        assert_eq!(rate.take(&mut due, 1_599), Err(1));
        assert_eq!(rate.take(&mut due, 1_600), Ok(()));
        assert!(!Rate::is_fresh(due, 1_600));
        assert!(Rate::is_fresh(due, 62_000));
    }

    #[test]
    fn five_times_the_rate_gets_the_rate() {
        let (rate, mut due) = (Rate::per_minute(60), Due::default());
        let taken = (0..3_000).filter(|i| rate.take(&mut due, i * 200).is_ok()).count();
        // Ten minutes at five calls a second: the burst, then one a second.
        assert!((655..=660).contains(&taken), "{taken}");
    }
}

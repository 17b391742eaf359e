//! Circuit breaker: opens if over half of the last hundred are bad, tries one after a cool-down, closes if it is good.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use serde::Serialize;

/// Outcomes remembered: the bits of `history`.
const WINDOW: u32 = 128;

/// Outcomes judged, out of those remembered.
const COUNTED: u32 = 100;

/// Minimum outcomes before the breaker may open.
const AT_LEAST: u32 = 10;

/// Minimum outcomes of all clients but one before the service's breaker may open.
const OTHERS_AT_LEAST: usize = 3;

/// First cool-down. Each failed trial doubles it, up to the maximum.
const COOL_DOWN_MS: u64 = 10_000;
const COOL_DOWN_MS_MAX: u64 = 300_000;

/// State of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// One trial call passes.
    HalfOpen,
    /// No call passes.
    Open,
}

/// A circuit breaker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaker {
    /// Recent outcomes, newest in the lowest bit; a set bit is a bad outcome.
    history: u128,
    n_known: u32,
    state: State,
    cool_down_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open {
        until_ms: u64,
    },
    /// A trial call is running; if it never ends, the next may pass after this time.
    Trying {
        until_ms: u64,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self { history: 0, n_known: 0, state: State::Closed, cool_down_ms: COOL_DOWN_MS }
    }
}

impl Breaker {
    /// Returns whether a call may pass. The error is the time in milliseconds to wait.
    pub(super) fn check(&self, now_ms: u64) -> Result<(), u64> {
        match self.state {
            State::Open { until_ms } | State::Trying { until_ms } if now_ms < until_ms => {
                Err(until_ms - now_ms)
            }
            _ => Ok(()),
        }
    }

    /// Lets a call pass that was checked. It is the trial if the breaker is not closed.
    pub(super) fn pass(&mut self, now_ms: u64) {
        if self.state != State::Closed {
            self.state = State::Trying { until_ms: now_ms + self.cool_down_ms };
        }
    }

    /// Lets the next call be the trial: one that passed ended without an outcome.
    pub(super) fn give_back(&mut self, now_ms: u64) {
        if let State::Trying { .. } = self.state {
            self.state = State::Open { until_ms: now_ms };
        }
    }

    /// Records the outcome of a call that passed.
    pub(super) fn record(&mut self, bad: bool, now_ms: u64) {
        self.record_if(bad, now_ms, || true);
    }

    /// The same, and opens only if `may_open`.
    fn record_if(&mut self, bad: bool, now_ms: u64, may_open: impl FnOnce() -> bool) {
        if let State::Trying { .. } = self.state {
            if bad {
                self.cool_down_ms = (self.cool_down_ms * 2).min(COOL_DOWN_MS_MAX);
                self.state = State::Open { until_ms: now_ms + self.cool_down_ms };
            } else {
                *self = Self::default();
            }
            return;
        }
        self.history = self.history << 1 | u128::from(bad);
        self.n_known = (self.n_known + 1).min(WINDOW);
        let n = self.n_known.min(COUNTED);
        let n_bad = (self.history & (u128::MAX >> (WINDOW - n))).count_ones();
        if self.state == State::Closed && n >= AT_LEAST && n_bad * 2 > n && may_open() {
            self.state = State::Open { until_ms: now_ms + self.cool_down_ms };
        }
    }

    /// Returns the state.
    pub(super) fn state(&self, now_ms: u64) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { until_ms } if now_ms < until_ms => BreakerState::Open,
            State::Open { .. } | State::Trying { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns the time in milliseconds until a trial may pass, if the breaker is open.
    pub(super) fn open_for_ms(&self, now_ms: u64) -> Option<u64> {
        match self.state {
            State::Open { until_ms } if now_ms < until_ms => Some(until_ms - now_ms),
            _ => None,
        }
    }

    /// Returns true unless the breaker is closed and the last outcome was good.
    pub(super) fn is_suspicious(&self) -> bool {
        self.state != State::Closed || self.n_known == 0 || self.history & 1 == 1
    }

    /// Returns true if the breaker is closed and remembers no bad outcome.
    pub(super) fn is_fresh(&self) -> bool {
        self.state == State::Closed && self.history == 0
    }
}

/// The breaker for internal failures, which rejects the calls of all clients. A failure that only one client meets is no
/// reason for that, whatever the client does: over half of the outcomes must be bad without those of the client with most of
/// them, too. That client's own breaker counts them all.
#[derive(Debug, Default)]
pub(super) struct ServiceBreaker {
    breaker: Breaker,
    /// Client and outcome of the last calls, oldest first.
    recent: VecDeque<(u64, bool)>,
    hashes: RandomState,
}

impl ServiceBreaker {
    /// Records the outcome of a client's call that passed.
    pub(super) fn record(&mut self, client: &str, bad: bool, now_ms: u64) {
        self.recent.push_back((self.hashes.hash_one(client), bad));
        if self.recent.len() > COUNTED as usize {
            self.recent.pop_front();
        }
        let was_closed = self.breaker.state == State::Closed;
        self.breaker.record_if(bad, now_ms, || is_shared(&self.recent));
        if !was_closed && self.breaker.state == State::Closed {
            self.recent.clear();
        }
    }

    /// Returns whether a call may pass. The error is the time in milliseconds to wait.
    pub(super) fn check(&self, now_ms: u64) -> Result<(), u64> {
        self.breaker.check(now_ms)
    }

    /// Lets a call pass that was checked.
    pub(super) fn pass(&mut self, now_ms: u64) {
        self.breaker.pass(now_ms);
    }

    /// Lets the next call be the trial: one that passed ended without an outcome.
    pub(super) fn give_back(&mut self, now_ms: u64) {
        self.breaker.give_back(now_ms);
    }

    /// Returns the state.
    pub(super) fn state(&self, now_ms: u64) -> BreakerState {
        self.breaker.state(now_ms)
    }
}

/// Returns true if over half of the outcomes are bad without those of the client that has most of the bad ones.
fn is_shared(recent: &VecDeque<(u64, bool)>) -> bool {
    let mut n_bad: HashMap<u64, usize> = HashMap::new();
    for (client, _) in recent.iter().filter(|(_, bad)| *bad) {
        *n_bad.entry(*client).or_default() += 1;
    }
    let worst = n_bad.iter().max_by_key(|(_, n)| **n).map(|(client, _)| *client);
    let others: Vec<bool> =
        recent.iter().filter(|(client, _)| Some(*client) != worst).map(|(_, bad)| *bad).collect();
    let n_others_bad = others.iter().filter(|bad| **bad).count();
    others.len() >= OTHERS_AT_LEAST && n_others_bad * 2 > others.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: &[bool]) -> Breaker {
        let mut breaker = Breaker::default();
        for bad in outcomes {
            breaker.record(*bad, 0);
        }
        breaker
    }

    #[test]
    fn it_opens_past_half_of_at_least_ten() {
        assert_eq!(after(&[true; 9]).state(0), BreakerState::Closed);
        assert_eq!(after(&[true; 10]).state(0), BreakerState::Open);
        let half: Vec<bool> = (0..100).map(|i| i % 2 == 1).collect();
        assert_eq!(after(&half).state(0), BreakerState::Closed);
    }

    #[test]
    fn what_is_older_than_the_last_hundred_is_forgotten() {
        let mut breaker = after(&[false; 100]);
        for i in 0..51 {
            assert_eq!(breaker.state(0), BreakerState::Closed, "{i}");
            breaker.record(true, 0);
        }
        assert_eq!(breaker.state(0), BreakerState::Open);
    }

    fn passes(breaker: &mut Breaker, now_ms: u64) -> Result<(), u64> {
        breaker.check(now_ms).map(|()| breaker.pass(now_ms))
    }

    #[test]
    fn one_is_let_through_after_the_cool_down_and_decides() {
        let mut breaker = after(&[true; 10]);
        assert_eq!(passes(&mut breaker, 9_000), Err(1_000));
        assert_eq!(breaker.state(10_000), BreakerState::HalfOpen);
        assert_eq!(passes(&mut breaker, 10_000), Ok(()));
        assert!(passes(&mut breaker, 10_001).is_err(), "only one");
        breaker.record(true, 10_002);
        assert_eq!(passes(&mut breaker, 30_001), Err(1), "twice as long");
        assert_eq!(passes(&mut breaker, 30_002), Ok(()));
        breaker.record(false, 30_003);
        assert_eq!(breaker.state(30_003), BreakerState::Closed);
        assert!(breaker.is_fresh());
    }

    #[test]
    fn a_trial_that_never_comes_back_does_not_close_the_door_for_ever() {
        let mut breaker = after(&[true; 10]);
        assert_eq!(passes(&mut breaker, 10_000), Ok(()));
        assert_eq!(passes(&mut breaker, 20_000), Ok(()));
    }

    #[test]
    fn a_trial_that_is_given_back_is_the_next_calls() {
        let mut breaker = after(&[true; 10]);
        assert_eq!(passes(&mut breaker, 10_000), Ok(()));
        breaker.give_back(10_001);
        assert_eq!(passes(&mut breaker, 10_001), Ok(()));
        let mut closed = Breaker::default();
        closed.give_back(0);
        assert_eq!(closed.state(0), BreakerState::Closed);
    }

    fn service_after(outcomes: &[(&str, usize, bool)]) -> ServiceBreaker {
        let mut breaker = ServiceBreaker::default();
        for (client, times, bad) in outcomes {
            (0..*times).for_each(|_| breaker.record(client, *bad, 0));
        }
        breaker
    }

    #[test]
    fn the_services_breaker_opens_for_failures_of_several_clients_alone() {
        use BreakerState::{Closed, Open};
        for (outcomes, expected) in [
            (&[("a", 100, true)][..], Closed),
            (&[("b", 3, false), ("a", 97, true)], Closed),
            (&[("b", 2, true), ("a", 98, true)], Closed),
            (&[("b", 3, false), ("b", 3, true), ("a", 94, true)], Closed),
            (&[("b", 3, true), ("a", 97, true)], Open),
            (&[("a", 5, true), ("b", 5, true)], Open),
            (&[("b", 40, false), ("a", 60, true)], Closed),
            (&[("a", 3, true), ("b", 3, true), ("c", 3, true), ("a", 1, true)], Open),
        ] {
            assert_eq!(service_after(outcomes).state(0), expected, "{outcomes:?}");
        }
    }
}

//! The admission gate.

use ringfence_spec::Code;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::breaker::{Breaker, BreakerState, ServiceBreaker};
use super::rate::{Due, Rate};
use super::settings::{AdmissionSettings, BreakerVerdict, Counts, Rejection};
use crate::clock::Clock;

/// Maximum clients remembered; idle ones are forgotten first.
const CLIENTS_MAX: usize = 10_000;

/// Initial estimate of a run's duration, for the first retry times.
const RUN_MS_GUESS: u64 = 250;

/// A client without a good last run starts its next run when the previous has ended, or after this time: a client that
/// begins with a long run has other calls to make meanwhile.
const CAREFUL: Duration = Duration::from_secs(2);

/// The admission gate.
#[derive(Clone, Debug)]
pub struct Admission {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: AdmissionSettings,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clients: HashMap<String, Client>,
    /// Clients with waiting calls, next turn first.
    turns: VecDeque<String>,
    ours: ServiceBreaker,
    counts: Counts,
    next_ticket: u64,
    /// The turn being served.
    turn: u64,
    /// Moving average of run durations.
    run_ms: u64,
}

#[derive(Debug, Default)]
struct Client {
    due: Due,
    /// Turn of its next run, or the one being served if that is later: a client that was served is served again once
    /// every waiting client has been (start-time fair queueing).
    turn: u64,
    breaker: Breaker,
    n_running: usize,
    /// Start time of its last run.
    started_ms: u64,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    admit: oneshot::Sender<Answer>,
}

/// Permission to run. Dropping it admits the next call.
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    client: String,
    began_ms: u64,
    verdict: BreakerVerdict,
}

impl Admission {
    /// Creates a gate with these limits.
    pub fn new(settings: AdmissionSettings, clock: Arc<dyn Clock>) -> Self {
        let state = State { run_ms: RUN_MS_GUESS, ..State::default() };
        Self { shared: Arc::new(Shared { settings, clock, state: Mutex::new(state) }) }
    }

    /// Waits until the client may run, or rejects it. Dropping the future leaves the queue.
    pub async fn admit(&self, client: &str) -> Result<Permit, Rejection> {
        let (ticket, answer) = match self.shared.ask(client) {
            Ok(None) => return Ok(self.shared.permit(client)),
            Ok(Some(waiting)) => waiting,
            Err(rejection) => return Err(rejection),
        };
        let mut place = QueuePlace { shared: &self.shared, client, ticket, answer, open: true };
        let answer = loop {
            match tokio::time::timeout(CAREFUL, &mut place.answer).await {
                Ok(answer) => break answer,
                // No other event fires when a client has waited long enough for its own run.
                Err(_) => self.shared.admit_waiting(&mut self.shared.lock()),
            }
        };
        place.open = false;
        drop(place);
        match answer {
            Ok(Ok(())) => Ok(self.shared.permit(client)),
            Ok(Err(rejection)) => Err(rejection),
            Err(_) => Err(Rejection {
                code: Code::ShuttingDown,
                message: "the service is shutting down".to_owned(),
                retry_after_ms: 1000,
            }),
        }
    }

    /// Admits the client at once or rejects it, for callers that do not queue.
    pub(crate) fn admit_now(&self, client: &str) -> Result<Permit, Rejection> {
        match self.shared.ask(client)? {
            None => Ok(self.shared.permit(client)),
            Some((ticket, answer)) => {
                // Leaves the queue.
                drop(QueuePlace { shared: &self.shared, client, ticket, answer, open: true });
                Err(Rejection {
                    code: Code::QueueFull,
                    message: "as many runs as may run at once are running".to_owned(),
                    retry_after_ms: self.shared.queue_ms(&self.shared.lock()),
                })
            }
        }
    }

    /// Returns the gate's counters.
    pub fn counts(&self) -> Counts {
        let now = self.shared.clock.now_ms();
        let state = self.shared.lock();
        let open = |client: &&Client| client.breaker.state(now) != BreakerState::Closed;
        Counts { breakers_open: state.clients.values().filter(open).count(), ..state.counts }
    }

    /// Returns the state of the breaker for internal failures.
    pub fn own_breaker(&self) -> BreakerState {
        let now = self.shared.clock.now_ms();
        self.shared.lock().ours.state(now)
    }

    #[cfg(test)]
    fn breaker_of(&self, client: &str) -> BreakerState {
        let now = self.shared.clock.now_ms();
        let state = self.shared.lock();
        state.clients.get(client).map_or(BreakerState::Closed, |c| c.breaker.state(now))
    }
}

/// A place in the queue, given up on drop.
struct QueuePlace<'a> {
    shared: &'a Arc<Shared>,
    client: &'a str,
    ticket: u64,
    answer: oneshot::Receiver<Answer>,
    open: bool,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let mut state = self.shared.lock();
        let Some(client) = state.clients.get_mut(self.client) else { return };
        let before = client.waiting.len();
        client.waiting.retain(|waiter| waiter.ticket != self.ticket);
        if client.waiting.len() < before {
            let none_left = client.waiting.is_empty();
            state.counts.queued -= 1;
            state.give_back_trials(self.client, self.shared.clock.now_ms());
            if none_left {
                // Otherwise a client that joins and leaves repeatedly would have many turns.
                state.turns.retain(|name| name != self.client);
            }
        } else if let Ok(Ok(())) = self.answer.try_recv() {
            // The waiter was admitted just as it left. A rejected waiter holds no slot.
            state.release(self.client);
            state.give_back_trials(self.client, self.shared.clock.now_ms());
            self.shared.admit_waiting(&mut state);
        }
    }
}

/// Admission, or the reason for rejection.
type Answer = Result<(), Rejection>;

type Waiting = (u64, oneshot::Receiver<Answer>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and lists are consistent between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, client: &str) -> Permit {
        Permit {
            shared: Arc::clone(self),
            client: client.to_owned(),
            began_ms: self.clock.now_ms(),
            verdict: BreakerVerdict::Unknown,
        }
    }

    /// Admits the client at once (`None`), or adds it to the queue.
    fn ask(&self, name: &str) -> Result<Option<Waiting>, Rejection> {
        let now = self.clock.now_ms();
        let mut state = self.lock();
        state.forget_idle(now);
        if let Err(rejection) = self.check(&mut state, name, now) {
            state.counts.rejected += 1;
            return Err(rejection);
        }
        let has_room = self.settings.concurrent.is_none_or(|max| state.counts.running < max);
        // A client that waits although there is room waits for its own run to end.
        if has_room && self.may_start(&state, name) && !state.is_waiting(name) {
            state.start(name, now);
            return Ok(None);
        }
        if self.settings.queue.is_some_and(|max| state.counts.queued >= max) {
            self.make_room(&mut state, name)?;
        }
        state.next_ticket += 1;
        let ticket = state.next_ticket;
        let (admit, admitted) = oneshot::channel();
        let client = state.clients.entry(name.to_owned()).or_default();
        client.waiting.push_back(Waiter { ticket, admit });
        if client.waiting.len() == 1 {
            state.turns.push_back(name.to_owned());
        }
        state.counts.queued += 1;
        self.admit_waiting(&mut state);
        Ok(Some((ticket, admitted)))
    }

    /// Checks rate and breakers. Only a call that passes all of them is a trial of a breaker: another one would keep it open
    /// without an outcome.
    fn check(&self, state: &mut State, name: &str, now: u64) -> Result<(), Rejection> {
        let State { clients, ours, .. } = state;
        let client = clients.entry(name.to_owned()).or_default();
        if self.settings.breakers {
            client.breaker.check(now).map_err(circuit_open)?;
            ours.check(now).map_err(|retry_after_ms| Rejection {
                code: Code::ServiceUnwell,
                message: "the service failed too often and is taking a break".to_owned(),
                retry_after_ms,
            })?;
        }
        if let Some(per_minute) = self.settings.rate_per_minute {
            Rate::per_minute(per_minute).take(&mut client.due, now).map_err(|retry_after_ms| {
                Rejection {
                    code: Code::RateLimited,
                    message: format!("more than {per_minute} calls in a minute"),
                    retry_after_ms,
                }
            })?;
        }
        if self.settings.breakers {
            client.breaker.pass(now);
            ours.pass(now);
        }
        Ok(())
    }

    /// Returns true if the client is below its own limit on concurrent runs.
    fn may_start(&self, state: &State, name: &str) -> bool {
        let (Some(max), Some(client)) =
            (self.settings.concurrent_per_client, state.clients.get(name))
        else {
            return true;
        };
        let careful = self.settings.breakers && client.breaker.is_suspicious();
        let since = self.clock.now_ms().saturating_sub(client.started_ms);
        client.n_running < max
            && (!careful || client.n_running == 0 || u128::from(since) >= CAREFUL.as_millis())
    }

    /// Makes room in a full queue if the client's turn is before the last waiter's, which is rejected instead.
    fn make_room(&self, state: &mut State, name: &str) -> Result<(), Rejection> {
        let rejection = Rejection {
            code: Code::QueueFull,
            message: format!("{} calls are waiting already", state.counts.queued),
            retry_after_ms: self.queue_ms(state),
        };
        let last = state.turns.iter().max_by_key(|turn| state.turn_after(turn, 0)).cloned();
        let last = last.filter(|last| state.turn_after(last, 0) > state.turn_after(name, 1));
        state.counts.rejected += 1;
        let now = self.clock.now_ms();
        let Some(last) = last else {
            self.refund(state, name);
            state.give_back_trials(name, now);
            return Err(rejection);
        };
        self.refund(state, &last);
        state.give_back_trials(&last, now);
        let Some(client) = state.clients.get_mut(&last) else { return Ok(()) };
        if let Some(waiter) = client.waiting.pop_back() {
            state.counts.queued -= 1;
            let _ = waiter.admit.send(Err(rejection));
        }
        if client.waiting.is_empty() {
            state.turns.retain(|turn| *turn != last);
        }
        Ok(())
    }

    /// Estimates the time to serve the queue.
    fn queue_ms(&self, state: &State) -> u64 {
        let n_at_once = self.settings.concurrent.unwrap_or(1).max(1);
        let n_rounds = state.counts.queued.div_ceil(n_at_once) as u64;
        (state.run_ms * n_rounds).max(1)
    }

    /// Refunds the rate limit for a call that was rejected because the queue is full.
    fn refund(&self, state: &mut State, name: &str) {
        if let (Some(per_minute), Some(client)) =
            (self.settings.rate_per_minute, state.clients.get_mut(name))
        {
            Rate::per_minute(per_minute).refund(&mut client.due);
        }
    }

    /// Rejects the waiting calls of a client whose breaker is open.
    fn reject_client(state: &mut State, name: &str, now: u64) {
        let Some(client) = state.clients.get_mut(name) else { return };
        let Some(retry_after_ms) = client.breaker.open_for_ms(now) else { return };
        let n = client.waiting.len();
        for waiter in client.waiting.drain(..) {
            let _ = waiter.admit.send(Err(circuit_open(retry_after_ms)));
        }
        state.turns.retain(|turn| turn != name);
        state.counts.queued -= n;
        state.counts.rejected += n as u64;
    }

    /// Fills free slots from the queue: clients with fewer running calls first, then by turn.
    fn admit_waiting(&self, state: &mut State) {
        while self.settings.concurrent.is_none_or(|max| state.counts.running < max) {
            let running = |name: &String| state.clients.get(name).map_or(0, |c| c.n_running);
            let may_start = |(_, name): &(usize, &String)| self.may_start(state, name);
            let turns = state.turns.iter().enumerate().filter(may_start);
            let fewest = turns.min_by_key(|(i, name)| (running(name), state.client_turn(name), *i));
            let Some((at, _)) = fewest else { return };
            let Some(name) = state.turns.remove(at) else { return };
            let Some(client) = state.clients.get_mut(&name) else { continue };
            let waiter = client.waiting.pop_front();
            if !client.waiting.is_empty() {
                state.turns.push_back(name.clone());
            }
            let Some(waiter) = waiter else { continue };
            state.counts.queued -= 1;
            state.start(&name, self.clock.now_ms());
            if waiter.admit.send(Ok(())).is_err() {
                state.release(&name);
            }
        }
    }
}

fn circuit_open(retry_after_ms: u64) -> Rejection {
    Rejection {
        code: Code::CircuitOpen,
        message: "more than half of this client's last runs failed, hit a limit or were refused"
            .to_owned(),
        retry_after_ms,
    }
}

impl State {
    fn is_waiting(&self, name: &str) -> bool {
        self.clients.get(name).is_some_and(|client| !client.waiting.is_empty())
    }

    /// Returns the turn of a client's next run.
    fn client_turn(&self, name: &str) -> u64 {
        self.clients.get(name).map_or(0, |client| client.turn).max(self.turn)
    }

    /// Returns the turn of a client's last waiting call if `n_more` were added.
    fn turn_after(&self, name: &str, n_more: u64) -> u64 {
        let n_waiting = self.clients.get(name).map_or(0, |client| client.waiting.len()) as u64;
        self.client_turn(name) + (n_waiting + n_more).saturating_sub(1)
    }

    fn start(&mut self, name: &str, now: u64) {
        self.turn = self.client_turn(name);
        let client = self.clients.entry(name.to_owned()).or_default();
        client.turn = self.turn + 1;
        client.n_running += 1;
        client.started_ms = now;
        self.counts.running += 1;
        self.counts.admitted += 1;
    }

    /// Lets another call be the trial of breakers that are not closed: a call of the client ended without an outcome.
    fn give_back_trials(&mut self, name: &str, now: u64) {
        self.ours.give_back(now);
        if let Some(client) = self.clients.get_mut(name) {
            client.breaker.give_back(now);
        }
    }

    fn release(&mut self, name: &str) {
        self.counts.running = self.counts.running.saturating_sub(1);
        if let Some(client) = self.clients.get_mut(name) {
            client.n_running = client.n_running.saturating_sub(1);
        }
    }

    fn forget_idle(&mut self, now: u64) {
        if self.clients.len() < CLIENTS_MAX {
            return;
        }
        self.clients.retain(|_, client| {
            client.n_running > 0
                || !client.waiting.is_empty()
                || !client.breaker.is_fresh()
                || !Rate::is_fresh(client.due, now)
        });
        if self.clients.len() >= CLIENTS_MAX {
            self.clients.retain(|_, client| client.n_running > 0 || !client.waiting.is_empty());
        }
    }
}

impl Permit {
    /// Sets the verdict on the run, for the breakers.
    pub fn judge(&mut self, verdict: BreakerVerdict) {
        self.verdict = verdict;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = self.shared.clock.now_ms();
        let mut state = self.shared.lock();
        state.release(&self.client);
        let took_ms = now.saturating_sub(self.began_ms);
        state.run_ms = (state.run_ms * 7 + took_ms) / 8;
        if self.shared.settings.breakers {
            let is_bad = match self.verdict {
                BreakerVerdict::Fine => Some(false),
                BreakerVerdict::Abusive | BreakerVerdict::OurFault => Some(true),
                BreakerVerdict::Unknown => None,
            };
            if let Some(is_bad) = is_bad {
                let is_ours = self.verdict == BreakerVerdict::OurFault;
                state.ours.record(&self.client, is_ours, now);
                if let Some(client) = state.clients.get_mut(&self.client) {
                    client.breaker.record(is_bad, now);
                    Shared::reject_client(&mut state, &self.client, now);
                }
            } else {
                state.give_back_trials(&self.client, now);
            }
        }
        self.shared.admit_waiting(&mut state);
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;

//! The gate itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_spec::{Problem, Status};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::breaker::{Breaker, BreakerState};
use super::rate::{Due, Rate};
use crate::clock::Clock;

/// Clients remembered; the idle ones are forgotten first.
const CLIENTS_MAX: usize = 10_000;

/// A guess at how long a run takes, for the first answer to "when again?".
const RUN_MS_GUESS: u64 = 250;

/// Limits of a service. `None` means no limit of that kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionSettings {
    /// Calls of one client in a minute.
    pub rate_per_minute: Option<u32>,
    /// Runs at once, of all clients together.
    pub concurrent: Option<usize>,
    /// Runs at once, of one client. After a run that hit a limit or was refused, one at a time until one goes well.
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
    }
}

/// What a run meant for the breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against anybody.
    Fine,
    /// The client's doing: a limit hit, a screen refused.
    Abusive,
    /// Our own failure.
    OurFault,
    /// Never ran.
    Unknown,
}

impl From<Status> for Verdict {
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

/// The gate.
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
    /// Clients with somebody waiting, whose turn is next first.
    turns: VecDeque<String>,
    ours: Breaker,
    counts: Counts,
    next_ticket: u64,
    /// A running mean of how long runs take.
    run_ms: u64,
}

#[derive(Debug, Default)]
struct Client {
    due: Due,
    breaker: Breaker,
    n_running: usize,
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    admit: oneshot::Sender<Answer>,
}

/// The right to run. Dropping it lets the next in.
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    client: String,
    began_ms: u64,
    verdict: Verdict,
}

impl Admission {
    /// A gate with these limits.
    pub fn new(settings: AdmissionSettings, clock: Arc<dyn Clock>) -> Self {
        let state = State { run_ms: RUN_MS_GUESS, ..State::default() };
        Self { shared: Arc::new(Shared { settings, clock, state: Mutex::new(state) }) }
    }

    /// Waits until this client may run, or says why not. Dropping the future gives the place in the queue back.
    pub async fn admit(&self, client: &str) -> Result<Permit, Rejection> {
        let (ticket, answer) = match self.shared.ask(client) {
            Ok(None) => return Ok(self.shared.permit(client)),
            Ok(Some(waiting)) => waiting,
            Err(rejection) => return Err(rejection),
        };
        let mut place = Place { shared: &self.shared, client, ticket, answer, open: true };
        let answer = (&mut place.answer).await;
        place.open = false;
        drop(place);
        match answer {
            Ok(Ok(())) => Ok(self.shared.permit(client)),
            Ok(Err(rejection)) => Err(rejection),
            Err(_) => Err(Rejection {
                code: "shutting_down",
                message: "the service is shutting down".to_owned(),
                retry_after_ms: 1000,
            }),
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        let now = self.shared.clock.now_ms();
        let state = self.shared.lock();
        let open = |client: &&Client| client.breaker.state(now) != BreakerState::Closed;
        Counts { breakers_open: state.clients.values().filter(open).count(), ..state.counts }
    }

    /// Where the breaker for our own failures stands.
    pub fn own_breaker(&self) -> BreakerState {
        let now = self.shared.clock.now_ms();
        self.shared.lock().ours.state(now)
    }

    /// Where a client's breaker stands.
    pub fn breaker_of(&self, client: &str) -> BreakerState {
        let now = self.shared.clock.now_ms();
        let state = self.shared.lock();
        state.clients.get(client).map_or(BreakerState::Closed, |c| c.breaker.state(now))
    }
}

/// A place in the queue, given back when its holder goes away.
struct Place<'a> {
    shared: &'a Arc<Shared>,
    client: &'a str,
    ticket: u64,
    answer: oneshot::Receiver<Answer>,
    open: bool,
}

impl Drop for Place<'_> {
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
            if none_left {
                // Otherwise whoever comes and goes would have many turns.
                state.turns.retain(|name| name != self.client);
            }
        } else if let Ok(Ok(())) = self.answer.try_recv() {
            // It had been let in the moment it left. Who had been turned away holds nothing.
            state.release(self.client);
            self.shared.let_in(&mut state);
        }
    }
}

/// Come in, or why not.
type Answer = Result<(), Rejection>;

type Waiting = (u64, oneshot::Receiver<Answer>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and lists are whole between any two statements that could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, client: &str) -> Permit {
        Permit {
            shared: Arc::clone(self),
            client: client.to_owned(),
            began_ms: self.clock.now_ms(),
            verdict: Verdict::Unknown,
        }
    }

    /// Lets the client in at once (`None`), or gives it a place in the queue.
    fn ask(&self, name: &str) -> Result<Option<Waiting>, Rejection> {
        let now = self.clock.now_ms();
        let mut state = self.lock();
        state.forget_idle(now);
        if let Err(rejection) = self.check(&mut state, name, now) {
            state.counts.rejected += 1;
            return Err(rejection);
        }
        let has_room = self.settings.concurrent.is_none_or(|max| state.counts.running < max);
        // Whoever waits although there is room waits for a run of its own to end.
        if has_room && self.may_start(&state, name) && !state.is_waiting(name) {
            state.start(name);
            return Ok(None);
        }
        if let Some(max) = self.settings.queue
            && state.counts.queued >= max
            && let Err(rejection) = state.make_room(name)
        {
            state.counts.rejected += 1;
            return Err(rejection);
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
        self.let_in(&mut state);
        Ok(Some((ticket, admitted)))
    }

    /// Breakers and rate.
    fn check(&self, state: &mut State, name: &str, now: u64) -> Result<(), Rejection> {
        if self.settings.breakers {
            state.ours.pass(now).map_err(|retry_after_ms| Rejection {
                code: "service_unwell",
                message: "the service failed too often and is taking a break".to_owned(),
                retry_after_ms,
            })?;
        }
        let client = state.clients.entry(name.to_owned()).or_default();
        if let Some(per_minute) = self.settings.rate_per_minute {
            Rate::per_minute(per_minute).take(&mut client.due, now).map_err(|retry_after_ms| {
                Rejection {
                    code: "rate_limited",
                    message: format!("more than {per_minute} calls in a minute"),
                    retry_after_ms,
                }
            })?;
        }
        if self.settings.breakers {
            client.breaker.pass(now).map_err(circuit_open)?;
        }
        Ok(())
    }

    /// Whether this client runs less than it may.
    fn may_start(&self, state: &State, name: &str) -> bool {
        let (Some(max), Some(client)) =
            (self.settings.concurrent_per_client, state.clients.get(name))
        else {
            return true;
        };
        client.n_running < if client.breaker.is_suspicious() { 1 } else { max }
    }

    /// Turns away those who wait while their client is shut out.
    fn shut_out(state: &mut State, name: &str, now: u64) {
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

    /// Fills free places from the queue: in turn, a client with fewer running before one with more.
    fn let_in(&self, state: &mut State) {
        while self.settings.concurrent.is_none_or(|max| state.counts.running < max) {
            let running = |name: &String| state.clients.get(name).map_or(0, |c| c.n_running);
            let may_start = |(_, name): &(usize, &String)| self.may_start(state, name);
            let turns = state.turns.iter().enumerate().filter(may_start);
            let fewest = turns.min_by_key(|(i, name)| (running(name), *i));
            let Some((at, _)) = fewest else { return };
            let Some(name) = state.turns.remove(at) else { return };
            let Some(client) = state.clients.get_mut(&name) else { continue };
            let waiter = client.waiting.pop_front();
            if !client.waiting.is_empty() {
                state.turns.push_back(name.clone());
            }
            let Some(waiter) = waiter else { continue };
            state.counts.queued -= 1;
            state.start(&name);
            if waiter.admit.send(Ok(())).is_err() {
                state.release(&name);
            }
        }
    }
}

fn circuit_open(retry_after_ms: u64) -> Rejection {
    Rejection {
        code: "circuit_open",
        message: "more than half of this client's last runs hit a limit or were refused".to_owned(),
        retry_after_ms,
    }
}

impl State {
    fn is_waiting(&self, name: &str) -> bool {
        self.clients.get(name).is_some_and(|client| !client.waiting.is_empty())
    }

    fn start(&mut self, name: &str) {
        self.clients.entry(name.to_owned()).or_default().n_running += 1;
        self.counts.running += 1;
        self.counts.admitted += 1;
    }

    fn release(&mut self, name: &str) {
        self.counts.running = self.counts.running.saturating_sub(1);
        if let Some(client) = self.clients.get_mut(name) {
            client.n_running = client.n_running.saturating_sub(1);
        }
    }

    /// A full queue takes one more of a client who has fewer in it than another: the other's last goes.
    fn make_room(&mut self, name: &str) -> Result<(), Rejection> {
        let full = |n_queued: usize, run_ms: u64| Rejection {
            code: "queue_full",
            message: format!("{n_queued} calls are waiting already"),
            retry_after_ms: run_ms.max(1) * 2,
        };
        let own = self.clients.get(name).map_or(0, |client| client.waiting.len());
        let longest = self.clients.iter().max_by_key(|(_, client)| client.waiting.len());
        let longest = longest.filter(|(_, client)| client.waiting.len() > own + 1);
        let Some(longest) = longest.map(|(name, _)| name.clone()) else {
            return Err(full(self.counts.queued, self.run_ms));
        };
        let rejection = full(self.counts.queued, self.run_ms);
        if let Some(waiter) = self.clients.get_mut(&longest).and_then(|c| c.waiting.pop_back()) {
            self.counts.queued -= 1;
            self.counts.rejected += 1;
            let _ = waiter.admit.send(Err(rejection));
        }
        Ok(())
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
    /// How the run went, for the breakers.
    pub fn judge(&mut self, verdict: Verdict) {
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
            let (verdict, client) = (self.verdict, &self.client);
            if verdict != Verdict::Unknown {
                state.ours.record(verdict == Verdict::OurFault, now);
            }
            if matches!(verdict, Verdict::Fine | Verdict::Abusive)
                && let Some(client) = state.clients.get_mut(client)
            {
                client.breaker.record(verdict == Verdict::Abusive, now);
                Shared::shut_out(&mut state, &self.client, now);
            }
        }
        self.shared.let_in(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;

    fn gate(settings: AdmissionSettings) -> (Admission, Arc<TestClock>) {
        let clock = Arc::new(TestClock::at_ms(1_000_000));
        (Admission::new(settings, Arc::clone(&clock) as Arc<dyn Clock>), clock)
    }

    fn limits(concurrent: usize, queue: usize) -> AdmissionSettings {
        AdmissionSettings {
            concurrent: Some(concurrent),
            queue: Some(queue),
            ..AdmissionSettings::default()
        }
    }

    #[tokio::test]
    async fn without_settings_everybody_runs() {
        let (gate, _) = gate(AdmissionSettings::default());
        let mut permits = Vec::new();
        for _ in 0..1000 {
            permits.push(gate.admit("a").await.unwrap());
        }
        assert_eq!(gate.counts().running, 1000);
        drop(permits);
        assert_eq!(gate.counts().running, 0);
    }

    #[tokio::test]
    async fn the_rate_is_each_clients_own() {
        let settings = AdmissionSettings { rate_per_minute: Some(3), ..Default::default() };
        let (gate, clock) = gate(settings);
        for _ in 0..3 {
            gate.admit("a").await.unwrap();
        }
        let refused = gate.admit("a").await.unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), ("rate_limited", 20_000));
        gate.admit("b").await.unwrap();
        clock.advance_ms(20_000);
        gate.admit("a").await.unwrap();
    }

    #[tokio::test]
    async fn a_full_queue_turns_away_and_a_free_place_lets_in() {
        let (gate, _) = gate(limits(1, 1));
        let first = gate.admit("a").await.unwrap();
        let second = tokio::spawn({
            let gate = gate.clone();
            async move { gate.admit("a").await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(gate.admit("a").await.unwrap_err().code, "queue_full");
        drop(first);
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_newcomer_takes_a_place_from_whoever_fills_the_queue() {
        let (gate, _) = gate(limits(1, 4));
        let first = gate.admit("flood").await.unwrap();
        let wait = |name: &'static str| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.admit(name).await.map(|permit| (name, permit)) })
        };
        let floods: Vec<_> = (0..4).map(|_| wait("flood")).collect();
        tokio::task::yield_now().await;
        let honest = wait("honest");
        tokio::task::yield_now().await;
        assert_eq!(gate.counts().queued, 4);
        drop(first);
        // In turn: one of the flood's was first, then the newcomer, although three more came before it.
        let mut order = Vec::new();
        let mut n_rejected = 0;
        let mut pending: Vec<_> = floods.into_iter().chain([honest]).collect();
        while !pending.is_empty() {
            let mut rest = Vec::new();
            for task in pending {
                if task.is_finished() {
                    match task.await.unwrap() {
                        Ok((name, permit)) => {
                            order.push(name);
                            drop(permit);
                        }
                        Err(_) => n_rejected += 1,
                    }
                } else {
                    rest.push(task);
                }
            }
            pending = rest;
            tokio::task::yield_now().await;
        }
        assert_eq!(n_rejected, 1);
        assert_eq!(order[..2], ["flood", "honest"]);
    }

    #[tokio::test]
    async fn who_leaves_the_queue_gives_the_place_back() {
        let (gate, _) = gate(limits(1, 5));
        let first = gate.admit("a").await.unwrap();
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.admit("b").await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(gate.counts().queued, 1);
        waiting.abort();
        let _ = waiting.await;
        assert_eq!(gate.counts().queued, 0);
        drop(first);
        gate.admit("c").await.unwrap();
        assert_eq!(gate.counts().running, 0);
    }

    #[tokio::test]
    async fn who_comes_and_goes_has_one_turn() {
        let (gate, _) = gate(limits(1, 5));
        let _first = gate.admit("a").await.unwrap();
        for _ in 0..100 {
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { gate.admit("b").await.map(drop) }
            });
            tokio::task::yield_now().await;
            waiting.abort();
            let _ = waiting.await;
        }
        assert!(gate.shared.lock().turns.is_empty());
    }

    #[tokio::test]
    async fn who_was_turned_away_and_left_frees_nobodys_place() {
        let (gate, _) = gate(limits(1, 2));
        let _first = gate.admit("a").await.unwrap();
        // Polled once, so that they stand in the queue; not again, so that they never hear the answer.
        let mut flood = [Box::pin(gate.admit("flood")), Box::pin(gate.admit("flood"))];
        for waiting in &mut flood {
            assert!(poll_once(waiting.as_mut()).await.is_none());
        }
        let mut honest = Box::pin(gate.admit("honest"));
        assert!(poll_once(honest.as_mut()).await.is_none());
        drop(flood);
        assert_eq!((gate.counts().running, gate.counts().queued), (1, 1));
    }

    /// Polls once.
    async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn one_clients_breaker_is_not_anothers() {
        let settings = AdmissionSettings { breakers: true, ..Default::default() };
        let (gate, clock) = gate(settings);
        for _ in 0..10 {
            gate.admit("bad").await.unwrap().judge(Verdict::Abusive);
        }
        assert_eq!(gate.breaker_of("bad"), BreakerState::Open);
        assert_eq!(gate.admit("bad").await.unwrap_err().code, "circuit_open");
        gate.admit("good").await.unwrap().judge(Verdict::Fine);
        assert_eq!(gate.own_breaker(), BreakerState::Closed);
        clock.advance_ms(10_000);
        gate.admit("bad").await.unwrap().judge(Verdict::Fine);
        assert_eq!(gate.breaker_of("bad"), BreakerState::Closed);
    }

    #[tokio::test]
    async fn one_client_cannot_take_all_places() {
        let settings = AdmissionSettings {
            concurrent: Some(10),
            concurrent_per_client: Some(4),
            queue: Some(50),
            breakers: true,
            ..Default::default()
        };
        let (gate, _) = gate(settings);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(gate.admit("flood").await.unwrap());
        }
        let mut waiting: Vec<_> = (0..6).map(|_| Box::pin(gate.admit("flood"))).collect();
        for waiting in &mut waiting {
            assert!(poll_once(waiting.as_mut()).await.is_none());
        }
        gate.admit("honest").await.unwrap().judge(Verdict::Fine);
        // After one that did harm, the next only when the others are over.
        held.pop().unwrap().judge(Verdict::Abusive);
        for left in [3, 2, 1] {
            assert_eq!((gate.counts().running, gate.counts().queued), (left, 6));
            held.pop().unwrap().judge(Verdict::Abusive);
        }
        assert_eq!((gate.counts().running, gate.counts().queued), (1, 5));
    }

    #[tokio::test]
    async fn a_client_that_is_shut_out_is_shut_out_of_the_queue() {
        let settings = AdmissionSettings { breakers: true, ..limits(1, 50) };
        let (gate, _) = gate(settings);
        for _ in 0..9 {
            gate.admit("bad").await.unwrap().judge(Verdict::Abusive);
        }
        let mut tenth = gate.admit("bad").await.unwrap();
        let mut waiting = Box::pin(gate.admit("bad"));
        assert!(poll_once(waiting.as_mut()).await.is_none());
        tenth.judge(Verdict::Abusive);
        drop(tenth);
        let refused = poll_once(waiting.as_mut()).await.unwrap().unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), ("circuit_open", 10_000));
        assert_eq!((gate.counts().running, gate.counts().queued), (0, 0));
    }

    #[tokio::test]
    async fn our_own_failures_open_the_door_to_nobody() {
        let settings = AdmissionSettings { breakers: true, ..Default::default() };
        let (gate, _) = gate(settings);
        for _ in 0..10 {
            gate.admit("a").await.unwrap().judge(Verdict::OurFault);
        }
        assert_eq!(gate.admit("b").await.unwrap_err().code, "service_unwell");
        assert_eq!(gate.breaker_of("a"), BreakerState::Closed);
    }
}

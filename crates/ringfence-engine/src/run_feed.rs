//! Feed of one owner's runs: an event for each start and each end, with ids that a reader can come back with. Bounded: the
//! oldest events are dropped, and a reader that missed some is told how many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_audit::now_ms;
use ringfence_spec::{Outcome, RunId};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::sessions::SessionId;

/// Maximum events kept for one owner.
const EVENTS_MAX: usize = 1024;

/// Events of one owner's runs, oldest first.
#[derive(Debug)]
pub struct Feed {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of events so far; the id of the last one.
    n_events: u64,
    events: VecDeque<Arc<RunEvent>>,
}

/// Start or end of a run.
#[derive(Debug)]
pub struct RunEvent {
    /// Number in its feed, from 1.
    pub n: u64,
    /// `started` or `finished`.
    pub name: &'static str,
    /// The event.
    pub data: Value,
}

/// Events after a number.
#[derive(Clone, Debug, Default)]
pub struct FeedPage {
    /// Oldest first.
    pub events: Vec<Arc<RunEvent>>,
    /// Events after the number that were dropped.
    pub n_lost: u64,
}

impl Default for Feed {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Feed {
    /// Returns the events after the one with this number, up to a limit. A number that was never given counts as the last.
    pub fn after(&self, n: u64, limit: usize) -> FeedPage {
        let state = self.lock();
        let first = state.events.front().map_or(state.n_events + 1, |event| event.n);
        let from = n.saturating_add(1);
        let events = state.events.iter().filter(|event| event.n >= from).take(limit);
        FeedPage { events: events.cloned().collect(), n_lost: first.saturating_sub(from) }
    }

    /// Returns a receiver that changes with every event.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn add(&self, name: &'static str, data: Value) {
        let mut state = self.lock();
        state.n_events += 1;
        let n = state.n_events;
        state.events.push_back(Arc::new(RunEvent { n, name, data }));
        if state.events.len() > EVENTS_MAX {
            state.events.pop_front();
        }
        drop(state);
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Announces one run's start and, once, its end.
#[derive(Debug)]
pub(crate) struct Announcer {
    feed: Arc<Feed>,
    is_finished: AtomicBool,
}

impl Announcer {
    pub(crate) fn started(
        feed: Arc<Feed>,
        id: RunId,
        session: Option<&SessionId>,
        tool: &'static str,
    ) -> Self {
        let data = json!({"run_id": id, "session_id": session, "tool": tool, "at_ms": now_ms()});
        feed.add("started", data);
        Self { feed, is_finished: AtomicBool::new(false) }
    }

    pub(crate) fn finished_if_not_yet(&self, outcome: impl FnOnce() -> Outcome) {
        if self.is_finished.swap(true, Ordering::Relaxed) {
            return;
        }
        let outcome = outcome();
        let data = json!({
            "run_id": outcome.run_id,
            "session_id": outcome.session_id,
            "status": outcome.status,
            "ran": outcome.ran,
            "exit_code": outcome.exit_code,
            "n_denials": outcome.denials.len(),
            "n_artifacts": outcome.artifacts.len(),
            "error": outcome.error,
            "at_ms": now_ms(),
        });
        self.feed.add("finished", data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_comes_back_is_told_what_it_missed() {
        let feed = Feed::default();
        assert_eq!(feed.after(0, 10).n_lost, 0);
        for n in 0..EVENTS_MAX + 5 {
            feed.add("started", json!(n));
        }
        let page = feed.after(0, 3);
        assert_eq!((page.n_lost, page.events[0].n, page.events.len()), (5, 6, 3));
        let page = feed.after(EVENTS_MAX as u64 + 3, 10);
        assert_eq!((page.n_lost, page.events.len()), (0, 2));
        assert!(feed.after(u64::MAX, 10).events.is_empty());
    }
}

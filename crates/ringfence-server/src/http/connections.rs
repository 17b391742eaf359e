//! The connections that are here: a bounded number. When it is full and another waits, the one that has been idle longest
//! makes room, so that a crowd that asks for nothing keeps nobody out. Who has just come is given a moment to speak.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::write_timeout::Unflushed;

/// Who has been idle for less is not asked to go: a head, or a handshake, may be on its way. Short, because a crowd that
/// says nothing has as long in each of its places.
const MOMENT: Duration = Duration::from_millis(100);

/// How often it is looked whether somebody's moment is over.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The room and who is in it.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    n_max: usize,
    connections: Mutex<Connections>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    here: BTreeMap<u64, Arc<Connection>>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    n_requests: AtomicUsize,
    /// Bytes of an answer are still to be taken.
    owes: AtomicBool,
    /// Since when nothing was asked.
    idle_since: Mutex<Instant>,
    asked_to_go: AtomicBool,
    /// Tells it to end once its request is answered.
    pub(super) go: CancellationToken,
}

/// A place in the room, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<ConnectionLimit>,
    number: u64,
    /// Who sits here.
    pub(super) connection: Arc<Connection>,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Connection>);

impl ConnectionLimit {
    pub(super) fn new(n_max: usize) -> Arc<Self> {
        Arc::new(Self { n_max: n_max.max(1), connections: Mutex::default(), left: Notify::new() })
    }

    /// Waits until there is room for one more who is here already, and makes room if somebody idle is there.
    pub(super) async fn room(&self) {
        loop {
            // Before looking: whoever leaves in between wakes us.
            let left = self.left.notified();
            {
                let connections = self.lock();
                if connections.here.len() < self.n_max {
                    return;
                }
                send_away_one(&connections, MOMENT);
            }
            tokio::select! {
                () = left => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Makes room although there may be some: the host has no more descriptors.
    pub(super) fn make_room(&self) {
        send_away_one(&self.lock(), Duration::ZERO);
    }

    /// Takes a connection in.
    pub(super) fn slot(self: &Arc<Self>) -> Slot {
        let connection = Arc::new(Connection::new());
        let mut connections = self.lock();
        connections.next += 1;
        let number = connections.next;
        connections.here.insert(number, Arc::clone(&connection));
        Slot { connections: Arc::clone(self), number, connection }
    }

    /// Tells all to go, and waits until they have.
    pub(super) async fn close(&self) {
        loop {
            let left = self.left.notified();
            {
                let connections = self.lock();
                connections.here.values().for_each(|connection| connection.go.cancel());
                if connections.here.is_empty() {
                    return;
                }
            }
            left.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the one to go that has been idle longest, unless somebody is on the way out already.
fn send_away_one(connections: &Connections, spared: Duration) {
    let mut longest: Option<(Instant, &Connection)> = None;
    for connection in connections.here.values().filter(|connection| !connection.is_busy()) {
        if connection.asked_to_go.load(Ordering::Relaxed) {
            return;
        }
        let since = connection.idle_since();
        if longest.is_none_or(|(before, _)| since < before) {
            longest = Some((since, connection));
        }
    }
    if let Some((since, connection)) = longest
        && since.elapsed() >= spared
    {
        connection.asked_to_go.store(true, Ordering::Relaxed);
        connection.go.cancel();
    }
}

impl Connection {
    fn new() -> Self {
        Self {
            n_requests: AtomicUsize::new(0),
            owes: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            asked_to_go: AtomicBool::new(false),
            go: CancellationToken::new(),
        }
    }

    /// Has a request answered.
    pub(super) fn busy(self: &Arc<Self>) -> ActiveRequest {
        self.n_requests.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    /// Whether somebody waits for an answer or a part of one.
    pub(super) fn is_busy(&self) -> bool {
        self.n_requests.load(Ordering::Relaxed) > 0 || self.owes.load(Ordering::Relaxed)
    }

    fn idle_since(&self) -> Instant {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unflushed for Connection {
    fn owes(&self, bytes: bool) {
        self.owes.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        *self.0.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.n_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.lock().here.remove(&self.number);
        self.connections.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_one_idle_longest_makes_room() {
        let connections = ConnectionLimit::new(3);
        let seats: Vec<Slot> = (0..3).map(|_| connections.slot()).collect();
        let busy = seats[0].connection.busy();
        sleep(MOMENT).await;
        drop(seats[1].connection.busy());
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.room().await }
        });
        seats[2].connection.go.cancelled().await;
        sleep(MOMENT * 2).await;
        // One goes for one who comes.
        assert!(!seats[0].connection.go.is_cancelled() && !seats[1].connection.go.is_cancelled());
        assert!(!waiting.is_finished());
        let mut seats = seats;
        drop(seats.pop());
        waiting.await.unwrap();
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_just_come_has_a_moment_to_speak() {
        let connections = ConnectionLimit::new(2);
        let (first, newcomer) = (connections.slot(), connections.slot());
        let _busy = first.connection.busy();
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.room().await }
        });
        sleep(MOMENT / 2).await;
        assert!(!newcomer.connection.go.is_cancelled());
        newcomer.connection.go.cancelled().await;
        drop(newcomer);
        waiting.await.unwrap();
    }
}

//! Bounds the number of connections. When the limit is reached and another connection waits, the one idle longest is
//! closed, so that idle connections keep no client out. A new connection has a grace period to send its first request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::write_timeout::Unflushed;

/// Idle grace period: a connection that has been idle for less is not closed, because a request head or a TLS handshake
/// may be on its way. Short, because every silent connection can occupy its slot for that long.
const IDLE_GRACE: Duration = Duration::from_millis(100);

/// Poll interval for the idle grace period.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Open connections and their maximum number.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    n_max: usize,
    connections: Mutex<Connections>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, Arc<Connection>>,
}

/// State of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    n_requests: AtomicUsize,
    /// Bytes of a response are not flushed yet.
    unflushed: AtomicBool,
    /// End of the last request, or start of the connection.
    idle_since: Mutex<Instant>,
    is_closing: AtomicBool,
    /// Cancelled to close the connection once its request is answered.
    pub(super) close: CancellationToken,
}

/// Slot of one connection, freed when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<ConnectionLimit>,
    number: u64,
    /// Connection in this slot.
    pub(super) connection: Arc<Connection>,
}

/// Marks a request as in progress until dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Connection>);

impl ConnectionLimit {
    pub(super) fn new(n_max: usize) -> Arc<Self> {
        Arc::new(Self { n_max: n_max.max(1), connections: Mutex::default(), left: Notify::new() })
    }

    /// Waits for a free slot for an accepted connection, and closes an idle connection if there is none.
    pub(super) async fn wait_for_slot(&self) {
        loop {
            // Before the check, so that a slot freed in between wakes us.
            let left = self.left.notified();
            {
                let connections = self.lock();
                if connections.open.len() < self.n_max {
                    return;
                }
                close_idlest(&connections, IDLE_GRACE);
            }
            tokio::select! {
                () = left => {}
                () = sleep(IDLE_POLL_INTERVAL) => {}
            }
        }
    }

    /// Closes an idle connection even if slots are free: the host is out of descriptors.
    pub(super) fn close_idlest_now(&self) {
        close_idlest(&self.lock(), Duration::ZERO);
    }

    /// Adds a connection.
    pub(super) fn slot(self: &Arc<Self>) -> Slot {
        let connection = Arc::new(Connection::new());
        let mut connections = self.lock();
        connections.next += 1;
        let number = connections.next;
        connections.open.insert(number, Arc::clone(&connection));
        Slot { connections: Arc::clone(self), number, connection }
    }

    /// Closes all connections, and waits until they have ended.
    pub(super) async fn close(&self) {
        loop {
            let left = self.left.notified();
            {
                let connections = self.lock();
                connections.open.values().for_each(|connection| connection.close.cancel());
                if connections.open.is_empty() {
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

/// Closes the connection idle longest, if for at least `spared`, unless another idle one is closing already.
fn close_idlest(connections: &Connections, spared: Duration) {
    let mut longest: Option<(Instant, &Connection)> = None;
    for connection in connections.open.values().filter(|connection| !connection.is_busy()) {
        if connection.is_closing.load(Ordering::Relaxed) {
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
        connection.is_closing.store(true, Ordering::Relaxed);
        connection.close.cancel();
    }
}

impl Connection {
    fn new() -> Self {
        Self {
            n_requests: AtomicUsize::new(0),
            unflushed: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
            is_closing: AtomicBool::new(false),
            close: CancellationToken::new(),
        }
    }

    /// Marks the start of a request.
    pub(super) fn busy(self: &Arc<Self>) -> ActiveRequest {
        self.n_requests.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    /// Returns whether a request is in progress or part of a response is not flushed yet.
    pub(super) fn is_busy(&self) -> bool {
        self.n_requests.load(Ordering::Relaxed) > 0 || self.unflushed.load(Ordering::Relaxed)
    }

    fn idle_since(&self) -> Instant {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unflushed for Connection {
    fn owes(&self, bytes: bool) {
        self.unflushed.store(bytes, Ordering::Relaxed);
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
        self.connections.lock().open.remove(&self.number);
        self.connections.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_one_idle_longest_makes_room() {
        let connections = ConnectionLimit::new(3);
        let slots: Vec<Slot> = (0..3).map(|_| connections.slot()).collect();
        let busy = slots[0].connection.busy();
        sleep(IDLE_GRACE).await;
        drop(slots[1].connection.busy());
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.wait_for_slot().await }
        });
        slots[2].connection.close.cancelled().await;
        sleep(IDLE_GRACE * 2).await;
        // One connection is closed for one that waits.
        assert!(
            !slots[0].connection.close.is_cancelled() && !slots[1].connection.close.is_cancelled()
        );
        assert!(!waiting.is_finished());
        let mut slots = slots;
        drop(slots.pop());
        waiting.await.unwrap();
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_a_grace_period() {
        let connections = ConnectionLimit::new(2);
        let (first, newcomer) = (connections.slot(), connections.slot());
        let _busy = first.connection.busy();
        let waiting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.wait_for_slot().await }
        });
        sleep(IDLE_GRACE / 2).await;
        assert!(!newcomer.connection.close.is_cancelled());
        newcomer.connection.close.cancelled().await;
        drop(newcomer);
        waiting.await.unwrap();
    }
}

//! The connections that are here: a bounded number. When it is full, the one that has been idle longest makes room, so that
//! a crowd that says nothing keeps nobody out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The room and who is in it.
#[derive(Debug)]
pub(super) struct Floor {
    n_max: usize,
    guests: Mutex<Guests>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Guests {
    next: u64,
    here: BTreeMap<u64, Arc<Guest>>,
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Guest {
    n_requests: AtomicUsize,
    asked_to_go: AtomicBool,
    /// Tells it to end once its request is answered.
    pub(super) go: CancellationToken,
}

/// A place in the room, given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    floor: Arc<Floor>,
    number: u64,
    /// Who sits here.
    pub(super) guest: Arc<Guest>,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<Guest>);

impl Floor {
    pub(super) fn new(n_max: usize) -> Arc<Self> {
        Arc::new(Self { n_max: n_max.max(1), guests: Mutex::default(), left: Notify::new() })
    }

    /// Waits until there is room for one more, and makes room if somebody idle is there.
    pub(super) async fn room(&self) {
        loop {
            // Before looking: whoever leaves in between wakes us.
            let left = self.left.notified();
            {
                let guests = self.lock();
                if guests.here.len() < self.n_max {
                    return;
                }
                send_away_one(&guests);
            }
            left.await;
        }
    }

    /// Makes room although there may be some: the host has no more descriptors.
    pub(super) fn make_room(&self) {
        send_away_one(&self.lock());
    }

    /// Takes a connection in.
    pub(super) fn seat(self: &Arc<Self>) -> Seat {
        let guest = Arc::new(Guest::default());
        let mut guests = self.lock();
        guests.next += 1;
        let number = guests.next;
        guests.here.insert(number, Arc::clone(&guest));
        Seat { floor: Arc::clone(self), number, guest }
    }

    /// Tells all to go, and waits until they have.
    pub(super) async fn close(&self) {
        loop {
            let left = self.left.notified();
            {
                let guests = self.lock();
                guests.here.values().for_each(|guest| guest.go.cancel());
                if guests.here.is_empty() {
                    return;
                }
            }
            left.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send_away_one(guests: &Guests) {
    let idle = guests.here.values().find(|guest| {
        guest.n_requests.load(Ordering::Relaxed) == 0 && !guest.asked_to_go.load(Ordering::Relaxed)
    });
    if let Some(guest) = idle {
        guest.asked_to_go.store(true, Ordering::Relaxed);
        guest.go.cancel();
    }
}

impl Guest {
    /// Has a request answered.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.n_requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.n_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.floor.lock().here.remove(&self.number);
        self.floor.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_one_idle_longest_makes_room() {
        let floor = Floor::new(3);
        let seats: Vec<Seat> = (0..3).map(|_| floor.seat()).collect();
        let busy = seats[0].guest.busy();
        let waiting = tokio::spawn({
            let floor = Arc::clone(&floor);
            async move { floor.room().await }
        });
        seats[1].guest.go.cancelled().await;
        assert!(!seats[0].guest.go.is_cancelled() && !seats[2].guest.go.is_cancelled());
        assert!(!waiting.is_finished());
        let mut seats = seats.into_iter();
        let first = seats.next();
        drop(seats.next());
        waiting.await.unwrap();
        drop((busy, first));
    }
}

//! Searches batches of files on several threads and puts the results in order. The caller's thread walks the
//! directories, and searches too when the others have enough to do.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ringfence_search::{Found, Grep, TextFound, TextSearch};

use super::super::problems::shown_bytes;
use super::walk::Walked;

/// Maximum threads of one search.
const THREADS_MAX: usize = 4;

/// Batches that the caller's thread searches before it starts others: a small search is over sooner.
const BATCHES_ALONE: u64 = 2;

/// Batches that may be searched or wait before the oldest of them has its result. Bounds the results that wait.
const BATCHES_AHEAD: u64 = 16;

/// Interval at which a thread that waits checks the clock.
const WAIT: Duration = Duration::from_millis(100);

/// Files of one directory, in order.
pub(super) struct Batch {
    pub(super) dir: Arc<OwnedFd>,
    /// Path of the directory with a `/` at its end, or nothing.
    pub(super) path: Vec<u8>,
    pub(super) files: Vec<OsString>,
}

/// Opens a file of a directory; none if it may not be read.
pub(super) type Open<'a> = &'a (dyn Fn(&OwnedFd, &OsStr) -> Option<File> + Sync);

/// Searches the files that `walk` passes on.
pub(super) fn search(
    grep: Grep,
    matches_max: usize,
    open: Open<'_>,
    walk: impl FnOnce(&mut dyn FnMut(Batch) -> ControlFlow<()>) -> Walked,
) -> (Found, Walked) {
    let mut own = grep.text_search();
    let shared = Shared {
        state: Mutex::new(State {
            grep,
            next: 0,
            results: BTreeMap::new(),
            queue: VecDeque::new(),
            end: u64::MAX,
            is_closed: false,
            is_stopped: false,
        }),
        changed: Condvar::new(),
        matches_max,
        open,
    };
    let n_threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let walked = thread::scope(|scope| {
        let mut n = 0;
        let walked = walk(&mut |batch| {
            if n_threads == 1 || n < BATCHES_ALONE {
                shared.search_one(&mut own, n, &batch);
            } else {
                if n == BATCHES_ALONE {
                    for _ in 1..n_threads {
                        let (mut search, shared) = (own.again(), &shared);
                        let work = move || shared.work(&mut search);
                        // Without another thread this one does it all.
                        let _ =
                            thread::Builder::new().name("grep".into()).spawn_scoped(scope, work);
                    }
                }
                shared.enqueue(&mut own, n, batch);
            }
            n += 1;
            if shared.is_over(n) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        shared.lock().is_closed = true;
        shared.changed.notify_all();
        shared.work(&mut own);
        walked
    });
    let mut state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if walked == Walked::Stopped || state.is_stopped {
        // Sets the reason, if it is the time.
        state.grep.is_over();
    }
    (state.grep.finish(), walked)
}

/// Reads a regular file. A read that returns less than asked for has met the end (read(2)), so that no other is needed to
/// learn of it.
struct RegularFile {
    file: File,
    is_at_end: bool,
}

impl Read for RegularFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_at_end {
            return Ok(0);
        }
        let n = self.file.read(into)?;
        self.is_at_end = n < into.len();
        Ok(n)
    }
}

struct Shared<'a> {
    state: Mutex<State>,
    changed: Condvar,
    matches_max: usize,
    open: Open<'a>,
}

struct State {
    grep: Grep,
    /// The batch whose result is added next.
    next: u64,
    /// Results of later batches.
    results: BTreeMap<u64, Vec<TextFound>>,
    queue: VecDeque<(u64, Batch)>,
    /// The first batch that need not be searched.
    end: u64,
    /// No batch will follow.
    is_closed: bool,
    /// A batch was not searched to its end, because the time is over.
    is_stopped: bool,
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches batches until there are no more.
    fn work(&self, search: &mut TextSearch) {
        loop {
            let mut state = self.lock();
            let taken = loop {
                if let Some(taken) = state.queue.pop_front() {
                    break Some(taken);
                }
                if state.is_closed || search.is_over() {
                    break None;
                }
                let waited = self.changed.wait_timeout(state, WAIT);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            };
            drop(state);
            let Some((n, batch)) = taken else { return };
            self.search_one(search, n, &batch);
        }
    }

    /// Adds a batch to the queue. While there is no room, searches what is in it.
    fn enqueue(&self, search: &mut TextSearch, n: u64, batch: Batch) {
        let mut state = self.lock();
        while n >= state.next + BATCHES_AHEAD && !search.is_over() {
            if let Some((n, batch)) = state.queue.pop_front() {
                drop(state);
                self.search_one(search, n, &batch);
                state = self.lock();
            } else {
                let waited = self.changed.wait_timeout(state, WAIT);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.queue.push_back((n, batch));
        drop(state);
        self.changed.notify_one();
    }

    /// Returns true if the batch `n` need not be searched.
    fn is_over(&self, n: u64) -> bool {
        self.lock().end <= n
    }

    fn search_one(&self, search: &mut TextSearch, n: u64, batch: &Batch) {
        let mut bytes_left = {
            let state = self.lock();
            if n >= state.end {
                return;
            }
            state.grep.bytes_left()
        };
        let mut results = Vec::new();
        let mut n_matches = 0;
        let (mut is_last, mut is_stopped) = (false, false);
        for name in &batch.files {
            if search.is_over() {
                is_stopped = true;
                break;
            }
            let Some(file) = (self.open)(&batch.dir, name) else { continue };
            let path = shown_bytes(&[&batch.path, name.as_encoded_bytes()].concat());
            let file = RegularFile { file, is_at_end: false };
            let found = search.text(&path, file, self.matches_max, bytes_left);
            bytes_left = bytes_left.saturating_sub(found.n_bytes());
            n_matches += found.n_matches();
            is_last = found.is_last() || n_matches > self.matches_max || bytes_left == 0;
            results.push(found);
            if is_last {
                break;
            }
        }
        let mut state = self.lock();
        if is_last || is_stopped {
            state.end = state.end.min(n + 1);
            state.is_stopped |= is_stopped;
        }
        state.results.insert(n, results);
        let state = &mut *state;
        while let Some(results) = state.results.remove(&state.next) {
            for found in results {
                state.grep.add(found);
            }
            state.next += 1;
            if state.grep.has_ended() {
                state.end = state.end.min(state.next);
            }
        }
        self.changed.notify_all();
    }
}

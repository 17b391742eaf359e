//! The output so far of a running program, readable before it ends.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::stdio::keep_last;

/// Bytes kept of each stream: the last ones.
const TAIL_BYTES: usize = 16 << 10;

/// Bytes kept of both streams together, in the order they were written, for readers that follow the output.
const JOURNAL_BYTES: usize = 256 << 10;

/// Pieces kept in the journal. Bounds what a program that alternates between its streams by single bytes costs.
const PIECES_MAX: usize = 2048;

/// Size up to which writes to one stream become one piece.
const PIECE_BYTES: usize = 4 << 10;

/// Rewrites one stream of a program before anything else sees it, such as to take secrets out. May hold bytes back.
pub trait OutputFilter: fmt::Debug + Send {
    /// Takes the next bytes of the program. Returns those that can be shown by now.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8>;

    /// Time at which [`OutputFilter::overdue`] has something to return, if bytes are held back.
    fn due(&self) -> Option<Instant>;

    /// Returns the bytes that have been held back long enough.
    fn overdue(&mut self, now: Instant) -> Vec<u8>;

    /// Ends the stream. Returns the rest.
    fn finish(&mut self) -> Vec<u8>;
}

/// Makes the filters of a run, one for each of its streams.
pub type MakeFilter = fn() -> Box<dyn OutputFilter>;

/// Written by the thread that runs the program, readable by any other. Clones share the buffer.
#[derive(Clone, Debug, Default)]
pub struct OutputBuffer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    on_write: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputBuffer").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    snapshot: OutputSnapshot,
    journal: Journal,
    /// For standard output and standard error.
    filters: Option<[Box<dyn OutputFilter>; 2]>,
}

/// The end of the output so far.
#[derive(Clone, Debug, Default)]
pub struct OutputSnapshot {
    /// Standard output.
    pub stdout: Tail,
    /// Standard error.
    pub stderr: Tail,
    /// The program's last progress note; untrusted text.
    pub note: Option<String>,
}

/// The end of a stream.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Its last bytes.
    pub bytes: VecDeque<u8>,
    /// Number of bytes in all, with those that are no longer kept. Counts what a filter returned, not what it took.
    pub total_bytes: u64,
    /// Number of bytes that the program wrote.
    pub written_bytes: u64,
}

/// Stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Bytes that were written to one stream, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The stream.
    pub stream: OutputStream,
    /// Number of bytes of the stream before these.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The last pieces of both streams, in the order they were written.
#[derive(Debug, Default)]
struct Journal {
    pieces: VecDeque<Piece>,
    n_bytes: usize,
}

impl OutputBuffer {
    /// Passes everything that is added from now on through a filter: for standard output and standard error.
    pub fn filter(&self, filters: [Box<dyn OutputFilter>; 2]) {
        self.lock().filters = Some(filters);
    }

    /// A copy of the current state.
    pub fn read(&self) -> OutputSnapshot {
        let mut state = self.lock();
        state.keep_overdue();
        state.snapshot.clone()
    }

    /// Time at which bytes that a filter holds back can be read.
    pub fn due(&self) -> Option<Instant> {
        let state = self.lock();
        state.filters.iter().flatten().filter_map(|filter| filter.due()).min()
    }

    /// Copies the pieces after these places of both streams, up to a number of bytes. What was dropped is missing: the first
    /// piece of a stream then begins after the place.
    pub fn pieces_after(&self, stdout: u64, stderr: u64, bytes_max: usize) -> Vec<Piece> {
        let mut state = self.lock();
        state.keep_overdue();
        let mut n_bytes = 0;
        let mut found = Vec::new();
        for piece in &state.journal.pieces {
            let from = match piece.stream {
                OutputStream::Stdout => stdout,
                OutputStream::Stderr => stderr,
            };
            let seen = usize::try_from(from.saturating_sub(piece.at)).unwrap_or(usize::MAX);
            let Some(bytes) = piece.bytes.get(seen..).filter(|bytes| !bytes.is_empty()) else {
                continue;
            };
            let at = piece.at + seen as u64;
            found.push(Piece { stream: piece.stream, at, bytes: bytes.to_vec() });
            n_bytes += bytes.len();
            if n_bytes >= bytes_max {
                break;
            }
        }
        found
    }

    /// Number of bytes that the buffer holds.
    pub fn kept_bytes(&self) -> usize {
        let state = self.lock();
        let OutputSnapshot { stdout, stderr, .. } = &state.snapshot;
        stdout.bytes.len() + stderr.bytes.len() + state.journal.n_bytes
    }

    /// Calls `each` after every write, on the writing thread. Only the first call of this sets it.
    pub fn on_write(&self, each: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.on_write.set(Box::new(each));
    }

    /// Adds to standard output.
    pub fn add_stdout(&self, bytes: &[u8]) {
        self.change(|state| state.add(OutputStream::Stdout, bytes));
    }

    /// Adds to standard error.
    pub fn add_stderr(&self, bytes: &[u8]) {
        self.change(|state| state.add(OutputStream::Stderr, bytes));
    }

    /// Ends both streams: adds what filters hold back.
    pub fn finish(&self) {
        self.change(State::finish);
    }

    /// Returns the note.
    pub fn note(&self) -> Option<String> {
        self.lock().snapshot.note.clone()
    }

    /// Replaces the note.
    pub fn set_note(&self, note: String) {
        self.change(|state| state.snapshot.note = Some(note));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        if let Some(each) = self.0.on_write.get() {
            each();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.tail(stream).written_bytes += bytes.len() as u64;
        match &mut self.filters {
            Some(filters) => {
                let shown = filters[stream as usize].push(bytes);
                self.keep(stream, &shown);
            }
            None => self.keep(stream, bytes),
        }
    }

    fn keep_overdue(&mut self) {
        let now = Instant::now();
        self.keep_from_filters(|filter| filter.overdue(now));
    }

    fn finish(&mut self) {
        self.keep_from_filters(|filter| filter.finish());
    }

    fn keep_from_filters(&mut self, take: impl Fn(&mut dyn OutputFilter) -> Vec<u8>) {
        let Some(filters) = &mut self.filters else { return };
        let [stdout, stderr] = filters.each_mut().map(|filter| take(&mut **filter));
        self.keep(OutputStream::Stdout, &stdout);
        self.keep(OutputStream::Stderr, &stderr);
    }

    fn keep(&mut self, stream: OutputStream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.tail(stream).total_bytes;
        self.journal.push(stream, at, bytes);
        self.tail(stream).keep(bytes);
    }

    fn tail(&mut self, stream: OutputStream) -> &mut Tail {
        match stream {
            OutputStream::Stdout => &mut self.snapshot.stdout,
            OutputStream::Stderr => &mut self.snapshot.stderr,
        }
    }
}

impl Tail {
    fn keep(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        keep_last(&mut self.bytes, bytes, TAIL_BYTES);
    }
}

impl Journal {
    fn push(&mut self, stream: OutputStream, at: u64, bytes: &[u8]) {
        self.n_bytes += bytes.len();
        match self.pieces.back_mut() {
            Some(last) if last.stream == stream && last.bytes.len() < PIECE_BYTES => {
                last.bytes.extend_from_slice(bytes);
            }
            _ => self.pieces.push_back(Piece { stream, at, bytes: bytes.to_vec() }),
        }
        while self.n_bytes > JOURNAL_BYTES || self.pieces.len() > PIECES_MAX {
            let Some(oldest) = self.pieces.pop_front() else { return };
            self.n_bytes -= oldest.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_all_are_counted() {
        let output_buffer = OutputBuffer::default();
        output_buffer.add_stdout(b"first");
        output_buffer.add_stdout(&vec![b'x'; 3 * TAIL_BYTES]);
        output_buffer.add_stdout(b"last");
        let stdout = output_buffer.read().stdout;
        assert_eq!(stdout.bytes.len(), TAIL_BYTES);
        assert_eq!(stdout.total_bytes, 5 + 3 * TAIL_BYTES as u64 + 4);
        assert!(stdout.bytes.into_iter().collect::<Vec<_>>().ends_with(b"xlast"));
    }

    #[test]
    fn pieces_are_in_the_order_of_the_writes_and_bounded() {
        let buffer = OutputBuffer::default();
        let n_writes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&n_writes);
        buffer.on_write(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        buffer.add_stdout(b"one ");
        buffer.add_stdout(b"two");
        buffer.add_stderr(b"err");
        buffer.add_stdout(b"three");
        assert_eq!(n_writes.load(std::sync::atomic::Ordering::Relaxed), 4);
        let shown = |pieces: Vec<Piece>| -> Vec<(u64, String)> {
            pieces.into_iter().map(|p| (p.at, String::from_utf8(p.bytes).unwrap())).collect()
        };
        let row = |at: u64, text: &str| (at, text.to_owned());
        let all = shown(buffer.pieces_after(0, 0, usize::MAX));
        assert_eq!(all, [row(0, "one two"), row(0, "err"), row(7, "three")]);
        let rest = shown(buffer.pieces_after(5, 3, usize::MAX));
        assert_eq!(rest, [row(5, "wo"), row(7, "three")]);
        assert_eq!(shown(buffer.pieces_after(0, 0, 1)), [row(0, "one two")]);
        assert!(buffer.pieces_after(12, 3, usize::MAX).is_empty());
        assert!(buffer.pieces_after(u64::MAX, u64::MAX, usize::MAX).is_empty());
        for _ in 0..200 {
            buffer.add_stdout(&[b'x'; 7 << 10]);
        }
        for _ in 0..2 * PIECES_MAX {
            buffer.add_stdout(b"o");
            buffer.add_stderr(b"e");
        }
        let kept = buffer.pieces_after(0, 0, usize::MAX);
        assert_eq!(kept.len(), PIECES_MAX);
        assert!(kept[0].at > 0 && buffer.kept_bytes() < JOURNAL_BYTES + 2 * TAIL_BYTES);
    }
}

//! The search index of one session, in one directory. Files come from a [`Source`]; the index opens nothing but its own
//! directory. Built in segments, each committed when it is written, so an interrupted update goes on where it stopped.
//!
//! | module | purpose |
//! |---|---|
//! | `update` | finds what changed, reads it, writes segments, merges |
//! | `builder` | a segment in memory |
//! | `segment` | the file of a segment |
//! | `merge` | several segments into one |
//! | `manifest` | the list of segments, the lock, the directory |
//! | `postings`, `codec` | encodings |

mod builder;
pub(crate) mod codec;
mod manifest;
mod merge;
mod postings;
pub(crate) mod search;
mod segment;
mod update;

use std::fmt;
use std::hash::RandomState;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::chunk::{ChunkOptions, NotText};
use crate::rank::{Hit, Query, Weights};
use manifest::{Manifest, Store};
use segment::Segment;

/// Field that a term was found in. Terms of different fields are different keys of the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// Text of a chunk.
    Body,
    /// Word of a name that the chunk defines.
    SymbolPart,
    /// Name that the chunk defines, in lower case without separators.
    Symbol,
    /// Name that the chunk defines, as it is written.
    Exact,
    /// Word of the file's path, on its first chunk.
    Path,
}

impl Field {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Body => b'b',
            Self::SymbolPart => b'd',
            Self::Symbol => b'n',
            Self::Exact => b'e',
            Self::Path => b'p',
        }
    }
}

/// Bounds of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexLimits {
    /// Bytes of a file; a longer one is skipped.
    pub file_bytes_max: u64,
    /// Bytes of all files; those past it are skipped.
    pub total_bytes_max: u64,
    /// Number of files; those past it are skipped.
    pub files_max: usize,
    /// Bytes of the paths of all files, which an update holds in memory; those past it are skipped.
    pub paths_bytes_max: usize,
    /// Threads that read and tokenise.
    pub n_threads: usize,
    /// Postings that a thread collects before it writes a segment. Three million take about 60 MB.
    pub segment_postings_max: usize,
    /// Sizes of chunks.
    pub chunks: ChunkOptions,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self {
            file_bytes_max: 10 << 20,
            total_bytes_max: 4 << 30,
            files_max: 500_000,
            paths_bytes_max: 64 << 20,
            n_threads: 2,
            segment_postings_max: 3_000_000,
            chunks: ChunkOptions::default(),
        }
    }
}

/// A file that can be indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path from the root of the source, with `/`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Time of the last change in nanoseconds since 1970. The time of the inode's change (`st_ctime`) is best: a program
    /// cannot set it back.
    pub stamp_ns: u64,
}

/// Files to index. Decides which files there are (ignored, hidden and secret ones are not) and how they are opened.
pub trait Source: Sync {
    /// Calls `each` with every file, and `before_name` before each name that is looked at, of a file or not: names that are
    /// left out take time too. Ends when one of them breaks.
    fn files(
        &self,
        before_name: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    ) -> io::Result<()>;

    /// Opens a file that `files` named.
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + '_>>;
}

/// Progress of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files read.
    pub files_done: u64,
    /// Files that are new or changed.
    pub files_total: u64,
    /// Bytes read.
    pub bytes_done: u64,
    /// Bytes of the files that are new or changed.
    pub bytes_total: u64,
}

/// Reason why a file is not in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Longer than [`IndexLimits::file_bytes_max`].
    TooLarge,
    /// Past [`IndexLimits::total_bytes_max`], [`IndexLimits::files_max`] or [`IndexLimits::paths_bytes_max`].
    IndexFull,
    /// Binary or in another encoding.
    NotText(NotText),
    /// The path is longer than a record may be.
    PathTooLong,
    /// The source failed to open or read it.
    Unreadable(io::ErrorKind),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("too large"),
            Self::IndexFull => f.write_str("the index is full"),
            Self::NotText(why) => why.fmt(f),
            Self::PathTooLong => f.write_str("path too long"),
            Self::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
        }
    }
}

/// Result of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateReport {
    /// Files that were read and indexed.
    pub files_indexed: u64,
    /// Files that are in the index already.
    pub files_unchanged: u64,
    /// Files that were dropped from the index.
    pub files_removed: u64,
    /// Files that were skipped.
    pub files_skipped: u64,
    /// The first [`SKIPPED_MAX`] of them.
    pub skipped: Vec<(String, SkipReason)>,
    /// Bytes that were indexed.
    pub bytes: u64,
    /// Chunks that were indexed.
    pub chunks: u64,
    /// True if the update completed; false if the progress callback stopped it.
    pub is_complete: bool,
    /// True if a damaged or outdated index was discarded first.
    pub was_rebuilt: bool,
    /// Time it took.
    pub duration: Duration,
}

/// Maximum skipped files that a report names.
pub const SKIPPED_MAX: usize = 100;

/// Counts of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Files, with those that have no text.
    pub n_files: u64,
    /// Chunks, with those of files that are gone and not merged away yet.
    pub n_chunks: u64,
    /// Segments.
    pub n_segments: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// True if the index is damaged, and the next update rebuilds it.
    pub is_damaged: bool,
}

/// Failure of an index.
#[derive(Debug)]
pub enum IndexError {
    /// A part of the index is damaged.
    Corrupt {
        /// The part.
        what: &'static str,
    },
    /// The manifest names a segment that is not there.
    SegmentMissing,
    /// Another process or thread updates the index.
    Busy,
    /// A glob of the query is invalid.
    Glob {
        /// The reason, with the glob.
        why: String,
    },
    /// The filesystem failed.
    Io(io::Error),
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { what } => {
                write!(f, "the search index is damaged ({what}); the next update rebuilds it")
            }
            Self::SegmentMissing => {
                f.write_str("the search index is incomplete; the next update rebuilds it")
            }
            Self::Busy => f.write_str("the search index is being updated by another process"),
            Self::Glob { why } => write!(f, "invalid glob: {why}"),
            Self::Io(error) => write!(f, "cannot access the search index: {error}"),
        }
    }
}

impl std::error::Error for IndexError {}

impl IndexError {
    /// Returns true if a rebuild repairs this error.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::SegmentMissing)
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for IndexError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// A search index.
#[derive(Debug)]
pub struct Index {
    store: Store,
    limits: IndexLimits,
    snapshot: RwLock<Arc<Snapshot>>,
    writer: Mutex<()>,
    /// Held from reading the manifest to replacing the snapshot, so that an older one never replaces a newer.
    loading: Mutex<()>,
    is_damaged: AtomicBool,
    /// Scores of the last search, for the next.
    scores: Mutex<Vec<f32>>,
    /// The last update that found nothing to do.
    unchanged: Mutex<Option<update::Unchanged>>,
    /// Keys of the marks of files, drawn at random: a program cannot make two sets of files with the same mark.
    mark_keys: RandomState,
    is_first_update: AtomicBool,
    revision: AtomicU64,
}

/// The segments that a search reads: they do not change while it runs.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    manifest: Manifest,
    segments: Vec<Arc<Segment>>,
}

/// Attempts to open a list of segments while another process replaces it.
const OPEN_ATTEMPTS: usize = 100;

impl Index {
    /// Opens the index in `dir`, or an empty one. A damaged index opens as empty and is rebuilt by the next update.
    pub fn open(dir: &Path, limits: IndexLimits) -> Result<Self, IndexError> {
        let store = Store::open(dir)?;
        let (snapshot, is_damaged) = match load(&store, &Snapshot::default()) {
            Ok(snapshot) => (snapshot, false),
            Err(error) if error.is_damage() => (Snapshot::default(), true),
            Err(error) => return Err(error),
        };
        Ok(Self {
            store,
            limits,
            snapshot: RwLock::new(Arc::new(snapshot)),
            writer: Mutex::new(()),
            loading: Mutex::new(()),
            is_damaged: AtomicBool::new(is_damaged),
            scores: Mutex::default(),
            unchanged: Mutex::default(),
            mark_keys: RandomState::new(),
            is_first_update: AtomicBool::new(true),
            revision: AtomicU64::new(0),
        })
    }

    /// Brings the index up to date with `source`. Reads files whose size or time changed, and indexes those whose content
    /// did. `progress` is called now and then, with totals of 0 while files are still being listed; if it breaks, what was
    /// done so far is kept.
    pub fn update(
        &self,
        source: &dyn Source,
        progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<UpdateReport, IndexError> {
        let _writer = self.writer.try_lock().map_err(|_| IndexError::Busy)?;
        let updated = update::update(self, source, progress);
        if updated.is_err() {
            // It may have left a segment that nothing lists.
            self.is_first_update.store(true, Ordering::Relaxed);
        }
        if updated.as_ref().is_err_and(IndexError::is_damage) {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        updated
    }

    /// The best chunks for a query, with the weights of this crate.
    pub fn search(&self, query: &Query) -> Result<Vec<Hit>, IndexError> {
        self.search_with(query, &Weights::DEFAULT)
    }

    /// The best chunks for a query.
    pub fn search_with(&self, query: &Query, weights: &Weights) -> Result<Vec<Hit>, IndexError> {
        // Searches at the same time allocate their own.
        let mut scores =
            self.scores.try_lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
        let found = search::search(&self.snapshot(), query, weights, &mut scores);
        if let Ok(mut kept) = self.scores.try_lock() {
            *kept = scores;
        }
        if found.as_ref().is_err_and(IndexError::is_damage) {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        found
    }

    /// Calls `each` with the chunks of one file after another.
    pub(crate) fn each_file(&self, each: &mut dyn FnMut(Vec<Hit>)) -> Result<(), IndexError> {
        search::each_file(&self.snapshot(), each)
    }

    /// Changes whenever the chunks do.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Reads a file that is kept with the index, if there is one.
    pub(crate) fn read_beside(
        &self,
        name: &str,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, IndexError> {
        self.store.read(name, bytes_max)
    }

    /// Replaces a file that is kept with the index.
    pub(crate) fn write_beside(&self, name: &str, bytes: &[u8]) -> Result<(), IndexError> {
        self.store.replace(name, bytes)
    }

    /// Looks for changes that another process made.
    pub fn reload(&self) -> Result<(), IndexError> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.snapshot();
        let new = load(&self.store, &old)?;
        self.replace(Arc::new(new));
        Ok(())
    }

    /// Counts.
    pub fn stats(&self) -> IndexStats {
        let snapshot = self.snapshot();
        let mut stats = IndexStats {
            is_damaged: self.is_damaged.load(Ordering::Relaxed),
            ..IndexStats::default()
        };
        for (state, segment) in snapshot.parts() {
            stats.n_files += u64::from(segment.n_files.saturating_sub(state.n_dead()));
            stats.n_chunks += u64::from(segment.n_chunks);
            stats.n_segments += 1;
            stats.disk_bytes += segment.len;
        }
        stats
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, snapshot: Arc<Snapshot>) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        self.revision.fetch_add(1, Ordering::AcqRel);
    }
}

impl Snapshot {
    fn parts(&self) -> impl Iterator<Item = (&manifest::SegmentState, &Segment)> {
        self.manifest.segments.iter().zip(self.segments.iter().map(AsRef::as_ref))
    }
}

/// Reads the manifest and opens its segments, except those that `old` has open.
fn load(store: &Store, old: &Snapshot) -> Result<Snapshot, IndexError> {
    let mut failure = IndexError::SegmentMissing;
    for _ in 0..OPEN_ATTEMPTS {
        match open_segments(store, store.manifest()?, old) {
            // Merged away after the manifest was read.
            Err(IndexError::SegmentMissing) => failure = IndexError::SegmentMissing,
            other => return other,
        }
    }
    Err(failure)
}

fn open_segments(
    store: &Store,
    manifest: Manifest,
    old: &Snapshot,
) -> Result<Snapshot, IndexError> {
    let mut segments = Vec::new();
    for state in &manifest.segments {
        let known = old
            .manifest
            .segments
            .iter()
            .position(|known| known.id == state.id && known.len == state.len);
        let segment = match known {
            Some(at) => Arc::clone(&old.segments[at]),
            None => Arc::new(Segment::open(store.open_segment(state.id)?)?),
        };
        if segment.len != state.len {
            return Err(codec::corrupt("length of a segment"));
        }
        segments.push(segment);
    }
    Ok(Snapshot { manifest, segments })
}

#[cfg(test)]
mod tests;

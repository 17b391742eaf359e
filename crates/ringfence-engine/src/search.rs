//! Ranked search in the files of a session, by an index of its own that no run can see. The index lies beside the
//! workspace and is brought up to date before a search, if something may have changed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, Read as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_search::{
    ChunkOptions, Hit, Index, IndexError, IndexLimits, IndexStats, Language, Query, Source,
    SourceFile, Tree, decode, each_chunk,
};
pub use ringfence_search::{EMBED_TEXTS_MAX, Embedder, StaticModel, VectorError};
use ringfence_spec::{Code, Problem};
use serde::{Serialize, Serializer};

use crate::files::{Workspace, normal_path};
use crate::sessions::{Session, private_dir};
use crate::text::json_bytes;
use crate::vectors::{BY_WORDS, Ranked, SessionVectors, VectorReport, Vectors};

/// Called while an index is brought up to date: files read, and files to read, which is 0 while they are being listed.
pub type OnIndexed = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// For callers that show no progress.
pub(crate) fn no_progress() -> OnIndexed {
    Arc::new(|_, _| ())
}

/// Directory of the index, beside the workspace.
const DIRECTORY: &str = "index";

/// Time that a search may spend on bringing the index up to date. What is left is done by the next one.
const UPDATE_MAX: Duration = Duration::from_secs(20);

/// Age at which an index is checked again although nothing in this process has changed a file.
const AGE_MAX: Duration = Duration::from_secs(5);

/// The largest file that is indexed.
const FILE_BYTES_MAX: u64 = 10 << 20;

/// The most text of one hit.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// The largest file that is cut into chunks.
const CHUNKED_BYTES_MAX: u64 = 50 << 20;

/// Maximum pieces of one answer, whatever the request asks for.
pub const CHUNKS_MAX: usize = 10_000;

/// Bytes of JSON from which an answer ends: enough for most files that can be read whole, at the default size of pieces.
const CHUNK_PAGE_BYTES: usize = 16 << 20;

/// Bytes of a piece in JSON, without its texts.
const CHUNK_FIELDS_BYTES: usize = 128;

/// Bytes of a line of code, for chunks that are asked for by lines.
const LINE_BYTES: usize = 32;

/// Words to find, and where.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// Words, a question, or the name of a definition.
    pub query: String,
    /// Hits; 0 is 10.
    pub limit: usize,
    /// Only these files, such as `src/**/*.rs`.
    pub glob: Option<String>,
    /// Only this language.
    pub language: Option<String>,
}

/// A piece of a file that fits a query.
#[derive(Clone, Debug, Serialize)]
pub struct SearchHit {
    /// Its path below the workspace.
    pub path: String,
    /// First line, from 1.
    pub start_line: u32,
    /// Last line.
    pub end_line: u32,
    /// Language of the file.
    pub language: &'static str,
    /// The first name that it defines; null if it defines none.
    pub symbol: Option<String>,
    /// Higher is better, within one search.
    pub score: f64,
    /// Time of the file's last change, in seconds since 1970.
    pub modified: Option<f64>,
    /// Its text, cut after 8 KiB.
    pub text: String,
}

/// Result of a search.
#[derive(Clone, Debug, Serialize)]
pub struct SearchResult {
    /// Hits, the best first.
    pub hits: Vec<SearchHit>,
    /// Files in the index.
    pub n_files: u64,
    /// False if not every file is in the index yet.
    pub complete: bool,
    /// Ranking of the hits: `bm25`, or `bm25+vectors` if the operator configured an embedding model.
    pub ranking: &'static str,
    /// Reason that vectors are configured and were not used, or not for every piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranking_note: Option<String>,
}

/// Result of an index job.
#[derive(Clone, Debug, Serialize)]
pub struct IndexReport {
    /// Files that were read and indexed.
    pub indexed: u64,
    /// Files that had not changed.
    pub unchanged: u64,
    /// Files that are gone.
    pub removed: u64,
    /// Files that were left out.
    pub skipped: u64,
    /// The first of them, each with the reason.
    pub skipped_files: Vec<SkippedFile>,
    /// Bytes that were indexed.
    pub bytes: u64,
    /// Files in the index now.
    pub n_files: u64,
    /// Pieces in the index now.
    pub n_chunks: u64,
    /// Size of the index.
    pub disk_bytes: u64,
    /// Pieces that have a vector, if the operator configured an embedding model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_vectors: Option<u64>,
    /// Reason that not every piece has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vectors_note: Option<String>,
    /// False if the job was ended before its end; the next one goes on.
    pub complete: bool,
    /// Time it took.
    pub duration_ms: f64,
}

/// A file that was not indexed.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedFile {
    /// Its path.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// A piece of a file.
#[derive(Clone, Debug, Serialize)]
pub struct FileChunk {
    /// The file's path below the workspace, without `.` and `..`, shared by its pieces.
    #[serde(serialize_with = "shared_text")]
    pub path: Arc<str>,
    /// First line, from 1.
    pub start_line: u32,
    /// Last line.
    pub end_line: u32,
    /// Language of the file.
    pub language: &'static str,
    /// The first name that it defines; null if it defines none.
    pub symbol: Option<String>,
    /// The text.
    pub text: String,
}

fn shared_text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

/// Pieces of a file that one answer holds.
#[derive(Clone, Debug, Serialize)]
pub struct ChunkPage {
    /// The pieces, in order.
    pub chunks: Vec<FileChunk>,
    /// Number of pieces up to the end of this page, if there are more.
    pub next: Option<usize>,
}

/// Pieces of a file that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRange {
    /// Pieces before the first wanted one.
    pub offset: usize,
    /// Maximum number of pieces, [`CHUNKS_MAX`] at most. A page of long pieces has fewer.
    pub limit: usize,
}

impl Default for ChunkRange {
    fn default() -> Self {
        Self { offset: 0, limit: CHUNKS_MAX }
    }
}

/// Sizes of the pieces of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChunkSize {
    /// Lines of a piece, roughly; the default is about 50.
    pub lines: Option<usize>,
    /// Share of a piece that the next one repeats, in percent, 50 at most.
    pub overlap_percent: usize,
    /// True to wrap each piece as data, for the prompt of another model.
    pub prompt: bool,
}

impl ChunkSize {
    fn options(self) -> ChunkOptions {
        let bytes_max = self
            .lines
            .map_or(ChunkOptions::default().bytes_max, |n| n.clamp(2, 10_000) * LINE_BYTES);
        let overlap_bytes = bytes_max * self.overlap_percent.min(50) / 100;
        ChunkOptions { bytes_min: bytes_max / 3, bytes_max, overlap_bytes }
    }
}

/// Possible changes of a session's files since they were indexed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    generation: AtomicU64,
    n_running: AtomicUsize,
}

/// A run that may change files while it lasts.
#[derive(Debug)]
pub(crate) struct Changing<'a>(&'a Changes);

impl Changes {
    /// Notes that files were changed.
    pub(crate) fn note(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that a run may change files until the guard is dropped.
    pub(crate) fn during(&self) -> Changing<'_> {
        self.n_running.fetch_add(1, Ordering::AcqRel);
        self.note();
        Changing(self)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.note();
        self.0.n_running.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The index of a session.
#[derive(Debug)]
pub(crate) struct SessionIndex {
    index: Index,
    last: Mutex<Option<LastUpdate>>,
    vectors: Mutex<SessionVectors>,
}

/// The last update of an index.
#[derive(Clone, Copy, Debug)]
struct LastUpdate {
    at: Instant,
    generation: u64,
    complete: bool,
}

impl SessionIndex {
    /// Opens the index beside a workspace, or makes an empty one.
    pub(crate) fn open(workspace: &Path) -> Result<Self, Problem> {
        let dir = workspace.with_file_name(DIRECTORY);
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let limits = IndexLimits {
            n_threads: threads.min(4),
            file_bytes_max: FILE_BYTES_MAX,
            ..IndexLimits::default()
        };
        let index =
            private_dir(&dir).and_then(|()| Index::open(&dir, limits).map_err(|e| problem(&e)))?;
        Ok(Self { index, last: Mutex::default(), vectors: Mutex::default() })
    }

    /// Brings the index up to date if something may have changed; returns whether all of it is.
    fn refresh(&self, session: &Session, stop: &AtomicBool) -> Result<bool, Problem> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = session.changes();
        let generation = changes.generation.load(Ordering::Acquire);
        if let Some(done) = &*last {
            // A run finds what it has just written: while there is one, every search looks at the files.
            let is_fresh = done.complete
                && done.generation == generation
                && changes.n_running.load(Ordering::Acquire) == 0
                && done.at.elapsed() < AGE_MAX;
            if is_fresh {
                return Ok(true);
            }
        }
        let report =
            self.update(session, UPDATE_MAX, stop, &no_progress(), generation, &mut last)?;
        Ok(report.complete)
    }

    /// Runs an index job to its end.
    fn job(
        &self,
        session: &Session,
        stop: &AtomicBool,
        progress: &OnIndexed,
    ) -> Result<IndexReport, Problem> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = session.changes().generation.load(Ordering::Acquire);
        self.update(session, Duration::MAX, stop, progress, generation, &mut last)
    }

    fn update(
        &self,
        session: &Session,
        most: Duration,
        stop: &AtomicBool,
        progress: &OnIndexed,
        generation: u64,
        last: &mut Option<LastUpdate>,
    ) -> Result<IndexReport, Problem> {
        let began = Instant::now();
        let source = SessionFiles::of(session)?;
        let report = self
            .index
            .update(&source, &mut |now| {
                progress(now.files_done, now.files_total);
                if stop.load(Ordering::Relaxed) || began.elapsed() > most {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })
            .map_err(|e| problem(&e))?;
        let (at, took, complete) = (Instant::now(), began.elapsed(), report.is_complete);
        *last = Some(LastUpdate { at, generation, complete });
        let IndexStats { n_files, n_chunks, disk_bytes, .. } = self.index.stats();
        let skipped = report.skipped.iter();
        Ok(IndexReport {
            indexed: report.files_indexed,
            unchanged: report.files_unchanged,
            removed: report.files_removed,
            skipped: report.files_skipped,
            skipped_files: skipped
                .map(|(path, why)| SkippedFile { path: path.clone(), reason: why.to_string() })
                .collect(),
            bytes: report.bytes,
            n_files,
            n_chunks,
            disk_bytes,
            n_vectors: None,
            vectors_note: None,
            complete,
            duration_ms: took.as_secs_f64() * 1e3,
        })
    }
}

impl Session {
    /// Searches its files.
    pub(crate) fn search(
        &self,
        asked: &SearchQuery,
        vectors: Option<&Vectors>,
        stop: &AtomicBool,
    ) -> Result<SearchResult, Problem> {
        if asked.query.trim().is_empty() {
            return Err(Problem::usage(Code::BadArguments, "there is nothing to search for")
                .hint("`query` is a few words, a question, or the name of a definition"));
        }
        let language = asked.language.as_deref().map(language).transpose()?;
        let query = Query {
            text: asked.query.clone(),
            limit: asked.limit,
            globs: asked.glob.iter().cloned().collect(),
            languages: language.into_iter().collect(),
            ..Query::default()
        };
        let index = self.index()?;
        let complete = index.refresh(self, stop)?;
        let source = SessionFiles::of(self)?;
        let rank = || {
            if let Some(vectors) = vectors {
                return vectors.fuse(&index.vectors, &index.index, &source, &query, stop);
            }
            let hits = index.index.search(&query)?;
            Ok(Ranked { hits, ranking: BY_WORDS, note: None })
        };
        let ranked = match rank() {
            Err(error) if error.is_damage() => {
                // Built again from the files, which are all there.
                *index.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
                index.refresh(self, stop)?;
                rank()
            }
            ranked => ranked,
        };
        let Ranked { hits, ranking, note } = ranked.map_err(|e| problem(&e))?;
        Ok(SearchResult {
            hits: with_text(source.files, hits),
            n_files: index.index.stats().n_files,
            complete,
            ranking,
            ranking_note: note,
        })
    }

    /// Brings its index up to date.
    pub(crate) fn index_job(
        &self,
        vectors: Option<&Vectors>,
        stop: &AtomicBool,
        progress: &OnIndexed,
    ) -> Result<IndexReport, Problem> {
        let index = self.index()?;
        let mut report = index.job(self, stop, progress)?;
        if let Some(vectors) = vectors {
            let began = Instant::now();
            let source = SessionFiles::of(self)?;
            let VectorReport { n_vectors, note } =
                vectors.job(&index.vectors, &index.index, &source, stop);
            (report.n_vectors, report.vectors_note) = (Some(n_vectors), note);
            report.duration_ms += began.elapsed().as_secs_f64() * 1e3;
        }
        Ok(report)
    }

    /// Cuts one of its files at definitions, headings or paragraphs.
    pub(crate) fn chunks(
        &self,
        path: &OsStr,
        size: ChunkSize,
        range: ChunkRange,
    ) -> Result<ChunkPage, Problem> {
        let contents = self.files()?.read(path, 0, Some(CHUNKED_BYTES_MAX))?;
        let path = normal_path("read", path)?;
        if contents.more {
            let bytes = contents.total_bytes;
            return Err(Problem::refused(
                Code::TooLarge,
                format!(
                    "cannot cut `{path}` into chunks: it has {bytes} bytes, of {CHUNKED_BYTES_MAX} at most"
                ),
            ));
        }
        chunked(&path, &contents.bytes, size, range)
    }
}

/// Cuts a text into pieces. Keeps only those in the range, up to the bounds of an answer.
pub fn chunked(
    path: &str,
    bytes: &[u8],
    size: ChunkSize,
    range: ChunkRange,
) -> Result<ChunkPage, Problem> {
    let text = decode(bytes).map_err(|why| {
        Problem::usage(Code::NotText, format!("cannot cut `{path}` into chunks")).cause(why)
    })?;
    let path: Arc<str> = path.into();
    // The path is in every piece of the answer.
    let fields_bytes = CHUNK_FIELDS_BYTES + json_bytes(&path);
    let limit = range.limit.clamp(1, CHUNKS_MAX);
    let mut page = ChunkPage { chunks: Vec::new(), next: None };
    let (mut n_skipped, mut page_bytes) = (0, 0);
    each_chunk(&path, &text, &size.options(), |chunk| {
        if n_skipped < range.offset {
            n_skipped += 1;
            return ControlFlow::Continue(());
        }
        if page.chunks.len() >= limit || page_bytes >= CHUNK_PAGE_BYTES {
            page.next = Some(range.offset.saturating_add(page.chunks.len()));
            return ControlFlow::Break(());
        }
        let text = if size.prompt {
            let place = format!("{path}:{}-{}", chunk.start_line, chunk.end_line);
            ringfence_search::wrap(chunk.text, &place).text
        } else {
            chunk.text.to_owned()
        };
        let symbol = chunk.symbols.first().map(|name| (*name).to_owned());
        page_bytes += fields_bytes + json_bytes(&text) + symbol.as_deref().map_or(0, json_bytes);
        page.chunks.push(FileChunk {
            path: Arc::clone(&path),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            language: chunk.language.name(),
            symbol,
            text,
        });
        ControlFlow::Continue(())
    });
    Ok(page)
}

fn language(name: &str) -> Result<Language, Problem> {
    Language::from_name(&name.to_ascii_lowercase()).ok_or_else(|| {
        Problem::usage(Code::BadArguments, format!("`{name}` is not a known language"))
            .hint("such as python, rust, javascript, typescript, go, java or markdown; a glob such as `*.xyz` always works")
    })
}

/// Adds the text of each hit as it is now. Opens each file once. A hit whose file is gone or shorter is left out: the next
/// search finds what is there then.
fn with_text(files: &Workspace, found: Vec<Hit>) -> Vec<SearchHit> {
    let mut by_path: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, hit) in found.iter().enumerate() {
        by_path.entry(&hit.path).or_default().push(at);
    }
    let mut texts: Vec<Option<(String, f64)>> = vec![None; found.len()];
    let mut bytes = Vec::new();
    for (path, hits) in by_path {
        let Some((fd, stat)) = files.open_to_search(path) else { continue };
        bytes.clear();
        if File::from(fd).take(FILE_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            continue;
        }
        let last_line = hits.iter().map(|at| found[*at].end_line).max().unwrap_or(0);
        let lines = line_starts(&bytes, last_line);
        #[allow(clippy::cast_precision_loss, reason = "seconds since 1970")]
        let modified = stat.st_mtime as f64;
        for at in hits {
            let line = |number: u32| lines.get(number as usize).copied().unwrap_or(bytes.len());
            let from = line(found[at].start_line.saturating_sub(1));
            let to = line(found[at].end_line).min(from + TEXT_BYTES_MAX);
            let text = String::from_utf8_lossy(&bytes[from..to.max(from)]).into_owned();
            texts[at] = (!text.is_empty()).then_some((text, modified));
        }
    }
    let hits = found.into_iter().zip(texts).filter_map(|(hit, text)| {
        let (text, modified) = text?;
        Some(SearchHit {
            path: hit.path,
            start_line: hit.start_line,
            end_line: hit.end_line,
            language: hit.language.name(),
            symbol: Some(hit.symbol).filter(|symbol| !symbol.is_empty()),
            score: f64::from(hit.score),
            modified: Some(modified),
            text,
        })
    });
    hits.collect()
}

/// Where the first `n_max` lines and the one after them start.
fn line_starts(bytes: &[u8], n_max: u32) -> Vec<usize> {
    let mut starts = vec![0];
    let mut rest = bytes;
    while starts.len() <= n_max as usize && !rest.is_empty() {
        // From memory it cannot fail.
        let _ = rest.skip_until(b'\n');
        starts.push(bytes.len() - rest.len());
    }
    starts
}

/// The files of a session that may be searched.
struct SessionFiles<'a> {
    tree: Tree,
    files: &'a Workspace,
}

impl<'a> SessionFiles<'a> {
    fn of(session: &'a Session) -> Result<Self, Problem> {
        let tree = Tree::open(&session.workspace).map_err(|e| unusable(&e))?;
        Ok(Self { tree, files: session.files()? })
    }
}

impl Source for SessionFiles<'_> {
    fn files(
        &self,
        before_name: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.tree.files(before_name, &mut |file| {
            if self.files.hides(&file.path) {
                return ControlFlow::Continue(());
            }
            each(file)
        })
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn io::Read + '_>> {
        // As every other tool opens it: no link, no mount, no file with another owner under several names.
        let (file, _) = self.files.open_to_search(path).ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(Box::new(File::from(file)))
    }
}

fn unusable(why: &dyn std::fmt::Display) -> Problem {
    Problem::internal(Code::Index, "cannot use the search index").cause(why)
}

fn problem(error: &IndexError) -> Problem {
    match error {
        IndexError::Glob { why } => {
            Problem::usage(Code::PatternInvalid, "the glob is not valid").cause(why)
        }
        IndexError::Busy => Problem::refused(Code::IndexBusy, error.to_string()).hint("try again"),
        error => unusable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ChunkSize = ChunkSize { lines: Some(2), overlap_percent: 0, prompt: false };

    fn page(path: &str, text: &str, offset: usize, limit: usize) -> ChunkPage {
        chunked(path, text.as_bytes(), SMALL, ChunkRange { offset, limit }).unwrap()
    }

    #[test]
    fn pages_of_pieces_join_to_the_whole_file() {
        let text = (0..100).map(|n| format!("line {n:050}\n")).collect::<Vec<_>>().concat();
        let all = page("a.txt", &text, 0, CHUNKS_MAX);
        assert_eq!((all.chunks.len(), all.next), (100, None));
        let (mut joined, mut next, mut n_pages) = (String::new(), Some(0), 0);
        while let Some(offset) = next {
            let page = page("a.txt", &text, offset, 30);
            joined.extend(page.chunks.iter().map(|chunk| chunk.text.as_str()));
            (next, n_pages) = (page.next, n_pages + 1);
        }
        assert_eq!((joined, n_pages), (text.clone(), 4));
        // A page that ends with the file has no next one, nor has one behind the end.
        assert_eq!(page("a.txt", &text, 70, 30).next, None);
        for offset in [100, usize::MAX] {
            let none = page("a.txt", &text, offset, 30);
            assert!(none.chunks.is_empty() && none.next.is_none(), "{none:?}");
        }
    }

    #[test]
    fn a_page_of_pieces_is_bounded_in_number_and_in_bytes() {
        let text = format!("{}\n", "x".repeat(63)).repeat(150_000);
        let many = page("a", &text, 0, usize::MAX);
        assert_eq!((many.chunks.len(), many.next), (CHUNKS_MAX, Some(CHUNKS_MAX)));
        assert!(many.chunks.iter().all(|chunk| Arc::ptr_eq(&chunk.path, &many.chunks[0].path)));
        // The longest path, and text that JSON makes six times as long.
        let deep = vec!["d".repeat(100); 40].join("/");
        for (path, text) in [(deep.as_str(), text), ("a", "\u{1}".repeat(9 << 20))] {
            let size = ChunkSize { lines: Some(if path == "a" { 1000 } else { 2 }), ..SMALL };
            let range = ChunkRange::default();
            let page = chunked(path, text.as_bytes(), size, range).unwrap();
            assert_eq!(page.next, Some(page.chunks.len()));
            let n_bytes = serde_json::to_string(&page).unwrap().len();
            let range = CHUNK_PAGE_BYTES - (1 << 20)..CHUNK_PAGE_BYTES + (1 << 20);
            assert!(range.contains(&n_bytes), "{n_bytes} bytes for `{path}`");
        }
    }
}

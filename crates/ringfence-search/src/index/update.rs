//! Brings an index up to date: compares the source with what is indexed, reads the difference on a few threads, commits
//! each segment as it is written, and merges when there are many.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::builder::Builder;
use super::manifest::{Manifest, SegmentState};
use super::merge::{Input, merge};
use super::segment::FileRecord;
use super::{
    Index, IndexError, Progress, SKIPPED_MAX, SkipReason, Snapshot, Source, SourceFile,
    UpdateReport, load, open_segments,
};
use crate::chunk::{Language, decode};
use crate::file_kind::FileKind;
use crate::hash::hash64;

/// Segments above which an update merges.
const SEGMENTS_MAX: usize = 8;

/// Part of the files that may be dead before a merge drops them: one in so many.
const DEAD_PART: u32 = 3;

/// Interval of calls of the progress callback.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Names that are listed between two calls of the progress callback, if they take less than its interval.
const NAMES_BETWEEN_PROGRESS: usize = 1000;

/// A change this recent may be followed by another with the same time: the file is read again by the next update. As
/// git's index does with files it calls racy.
const RACY_NS: u64 = 2_000_000_000;

/// Longest path that is indexed.
const PATH_BYTES_MAX: usize = 4096;

/// Bytes to read for which a further thread is started.
const THREAD_BYTES: u64 = 4 << 20;

/// Bytes and files that are read on the caller's thread: less than starting another one takes.
const INLINE_BYTES_MAX: u64 = 64 << 10;
const INLINE_FILES_MAX: usize = 16;

/// Where a file is in the index.
#[derive(Clone, Copy, Debug)]
struct Known {
    segment_id: u64,
    file: u32,
    size: u64,
    stamp_ns: u64,
    hash: u64,
}

/// A file to read, with what the index has of it.
struct Job {
    file: SourceFile,
    known: Option<Known>,
}

pub(super) fn update(
    index: &Index,
    source: &dyn Source,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<UpdateReport, IndexError> {
    let started = Instant::now();
    let _lock = index.store.lock()?;
    // Kept to the end: a reader may replace the snapshot of the index meanwhile.
    let (mut snapshot, was_rebuilt) = start(index)?;
    let mut report = UpdateReport { was_rebuilt, ..UpdateReport::default() };
    let compared = match compare(index, &snapshot, source, &mut report, progress) {
        Ok(found) => found,
        Err(error) if error.is_damage() => {
            // Found only now: a damaged block of files. Nothing of the index is kept.
            snapshot = discard(index)?;
            report = UpdateReport { was_rebuilt: true, ..UpdateReport::default() };
            compare(index, &snapshot, source, &mut report, progress)?
        }
        Err(error) => return Err(error),
    };
    let Some(Difference { jobs, gone, mark }) = compared else {
        report.duration = started.elapsed();
        return Ok(report);
    };
    if jobs.is_empty() && gone.is_empty() && !report.was_rebuilt {
        // Nothing is written, and no other file of the index is looked at.
        report.is_complete = true;
        index.note_unchanged(snapshot, mark);
        report.duration = started.elapsed();
        return Ok(report);
    }
    let manifest = snapshot.manifest.clone();
    let work = Work {
        index,
        source,
        jobs: &jobs,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        files_done: AtomicU64::new(0),
        bytes_done: AtomicU64::new(0),
        shared: Mutex::new(Shared { manifest, report, failure: None }),
    };
    work.run(progress);
    let Shared { mut manifest, mut report, failure } =
        work.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failure {
        return Err(error);
    }
    report.is_complete = !work.stop.into_inner();
    // Also if it was stopped: else updates that never complete would keep the paths of all files there ever were.
    for (segment_id, file) in &gone {
        kill(&mut manifest, *segment_id, *file);
    }
    report.files_removed = gone.len() as u64;
    manifest.segments.retain(|segment| !is_all_dead(&snapshot, segment));
    finish(index, &snapshot, manifest)?;
    report.duration = started.elapsed();
    Ok(report)
}

/// Reads the newest list of segments. Discards a damaged index and returns whether it did.
fn start(index: &Index) -> Result<(Arc<Snapshot>, bool), IndexError> {
    let loaded = load(&index.store, &index.snapshot());
    let was_damaged = index.is_damaged.load(Ordering::Relaxed);
    match loaded {
        Ok(mut snapshot) if !was_damaged => {
            if snapshot.manifest.next_id == 0 {
                snapshot.manifest.next_id = first_id();
            }
            Ok((Arc::new(snapshot), false))
        }
        Err(error) if !error.is_damage() => Err(error),
        _ => Ok((discard(index)?, true)),
    }
}

/// The first number for segments: never one that an earlier index in this directory used, because readers tell by it
/// whether they have a segment open already.
fn first_id() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(1)
}

/// Removes the index and returns an empty one.
fn discard(index: &Index) -> Result<Arc<Snapshot>, IndexError> {
    index.store.forget()?;
    index.store.sweep(&Manifest::default())?;
    index.replace(Arc::default());
    index.is_damaged.store(false, Ordering::Relaxed);
    let manifest = Manifest { next_id: first_id(), ..Manifest::default() };
    Ok(Arc::new(Snapshot { manifest, ..Snapshot::default() }))
}

/// Files that are gone: segment and number.
type Gone = Vec<(u64, u32)>;

/// Files of a source that differ from an index.
struct Difference {
    jobs: Vec<Job>,
    gone: Gone,
    /// Mark of all files of the source, see [`Unchanged`].
    mark: u64,
}

/// The files of a source at an update that found nothing to do. While their mark and the list of segments stay the same,
/// the next update finds nothing either, and need not read which files are indexed. A file that was read while it could
/// still change within the same time is never among them: it is a job of every update until it is older.
#[derive(Debug)]
pub(super) struct Unchanged {
    manifest: Manifest,
    mark: u64,
}

impl Index {
    /// Keeps the snapshot and the mark of an update that found nothing to do.
    fn note_unchanged(&self, snapshot: Arc<Snapshot>, mark: u64) {
        let mut unchanged = self.unchanged.lock().unwrap_or_else(PoisonError::into_inner);
        if unchanged.as_ref().is_none_or(|u| u.mark != mark || u.manifest != snapshot.manifest) {
            *unchanged = Some(Unchanged { manifest: snapshot.manifest.clone(), mark });
        }
        drop(unchanged);
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.snapshot().manifest != snapshot.manifest {
            self.replace(snapshot);
        }
    }
}

/// Compares the source with the index. `None` if the progress callback ended it.
fn compare(
    index: &Index,
    snapshot: &Snapshot,
    source: &dyn Source,
    report: &mut UpdateReport,
    progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Option<Difference>, IndexError> {
    let limits = index.limits;
    let mut listed = Vec::new();
    let mut mark = index.mark_keys.build_hasher();
    let (mut n_files, mut n_bytes, mut n_path_bytes) = (0usize, 0u64, 0usize);
    let (mut n_names, mut told_at, mut is_stopped) = (0usize, Instant::now(), false);
    let before_name = &mut || {
        n_names += 1;
        if !n_names.is_multiple_of(NAMES_BETWEEN_PROGRESS) && told_at.elapsed() < PROGRESS_INTERVAL
        {
            return ControlFlow::Continue(());
        }
        told_at = Instant::now();
        let flow = progress(&Progress::default());
        is_stopped = flow.is_break();
        flow
    };
    source.files(before_name, &mut |file| {
        let skip = match () {
            () if file.path.len() > PATH_BYTES_MAX => Some(SkipReason::PathTooLong),
            () if file.size > limits.file_bytes_max => Some(SkipReason::TooLarge),
            () if n_files >= limits.files_max
                || n_path_bytes + file.path.len() > limits.paths_bytes_max
                || n_bytes.saturating_add(file.size) > limits.total_bytes_max =>
            {
                Some(SkipReason::IndexFull)
            }
            () => None,
        };
        if let Some(reason) = skip {
            report.skip(file.path, reason);
            return ControlFlow::Continue(());
        }
        n_files += 1;
        n_bytes += file.size;
        n_path_bytes += file.path.len();
        (&file.path, file.size, file.stamp_ns).hash(&mut mark);
        listed.push(file);
        ControlFlow::Continue(())
    })?;
    if is_stopped {
        return Ok(None);
    }
    let mark = mark.finish();
    let is_same = |seen: &Unchanged| seen.mark == mark && seen.manifest == snapshot.manifest;
    if index.unchanged.lock().is_ok_and(|seen| seen.as_ref().is_some_and(is_same)) {
        report.files_unchanged = listed.len() as u64;
        return Ok(Some(Difference { jobs: Vec::new(), gone: Gone::new(), mark }));
    }
    let mut known = known_files(snapshot)?;
    let mut jobs = Vec::new();
    for file in listed {
        match known.remove(&file.path) {
            Some(old)
                if old.size == file.size && old.stamp_ns == file.stamp_ns && file.stamp_ns != 0 =>
            {
                report.files_unchanged += 1;
            }
            known => jobs.push(Job { file, known }),
        }
    }
    // Known files that the source no longer has, or that are skipped now.
    let gone = known.into_values().map(|known| (known.segment_id, known.file)).collect();
    Ok(Some(Difference { jobs, gone, mark }))
}

/// The files of an index, by path.
fn known_files(snapshot: &Snapshot) -> Result<HashMap<String, Known>, IndexError> {
    let n_files = snapshot.parts().map(|(_, segment)| segment.n_files as usize).sum();
    let mut known: HashMap<String, Known> = HashMap::with_capacity(n_files);
    for (state, segment) in snapshot.parts() {
        for block in 0..segment.n_file_blocks() {
            segment.files_in(block, &mut |number, record| {
                if !state.is_dead(number) {
                    let stamp_ns = state.stamps.get(&number).copied().unwrap_or(record.stamp_ns);
                    let FileRecord { path, size, hash, .. } = record;
                    known.insert(
                        path,
                        Known { segment_id: state.id, file: number, size, stamp_ns, hash },
                    );
                }
            })?;
        }
    }
    Ok(known)
}

impl UpdateReport {
    fn skip(&mut self, path: String, reason: SkipReason) {
        self.files_skipped += 1;
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push((path, reason));
        }
    }
}

/// The threads' common state.
struct Work<'a> {
    index: &'a Index,
    source: &'a dyn Source,
    jobs: &'a [Job],
    next: AtomicUsize,
    stop: AtomicBool,
    files_done: AtomicU64,
    bytes_done: AtomicU64,
    shared: Mutex<Shared>,
}

struct Shared {
    manifest: Manifest,
    report: UpdateReport,
    failure: Option<IndexError>,
}

/// A file that a builder holds and that replaces an indexed one.
type Replaced = Vec<(u64, u32)>;

impl Work<'_> {
    fn run(&self, progress: &mut dyn FnMut(&Progress) -> ControlFlow<()>) {
        let bytes_total = self.jobs.iter().map(|job| job.file.size).sum::<u64>();
        let wanted = usize::try_from(bytes_total / THREAD_BYTES).unwrap_or(usize::MAX);
        let n_threads = wanted.clamp(1, self.index.limits.n_threads.max(1));
        let mut tell = || {
            let now = Progress {
                files_done: self.files_done.load(Ordering::Relaxed),
                files_total: self.jobs.len() as u64,
                bytes_done: self.bytes_done.load(Ordering::Relaxed),
                bytes_total,
            };
            if progress(&now).is_break() {
                self.stop.store(true, Ordering::Relaxed);
            }
        };
        tell();
        if bytes_total <= INLINE_BYTES_MAX && self.jobs.len() <= INLINE_FILES_MAX {
            self.work_or_stop();
        } else {
            std::thread::scope(|scope| {
                let (done, ended) = mpsc::channel::<()>();
                for _ in 0..n_threads {
                    let done = done.clone();
                    scope.spawn(move || {
                        self.work_or_stop();
                        drop(done);
                    });
                }
                drop(done);
                // The channel closes when the last thread has ended.
                while ended.recv_timeout(PROGRESS_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout)
                {
                    tell();
                }
            });
        }
        if !self.stop.load(Ordering::Relaxed) {
            tell();
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until nothing is left. A failure stops the other threads too.
    fn work_or_stop(&self) {
        if let Err(error) = self.work() {
            self.stop.store(true, Ordering::Relaxed);
            self.shared().failure.get_or_insert(error);
        }
    }

    fn work(&self) -> Result<(), IndexError> {
        let mut builder = Builder::default();
        let mut replaced = Replaced::new();
        let mut bytes = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let Some(job) = self.jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            self.file(job, &mut bytes, &mut builder, &mut replaced);
            self.files_done.fetch_add(1, Ordering::Relaxed);
            self.bytes_done.fetch_add(job.file.size, Ordering::Relaxed);
            if builder.is_full(self.index.limits.segment_postings_max) {
                self.commit(&mut builder, &mut replaced)?;
            }
        }
        self.commit(&mut builder, &mut replaced)
    }

    fn file(&self, job: &Job, bytes: &mut Vec<u8>, builder: &mut Builder, replaced: &mut Replaced) {
        let file = &job.file;
        let path = &file.path;
        let limits = &self.index.limits;
        bytes.clear();
        // One buffer for all files, but not for ever as large as the largest.
        bytes.shrink_to(1 << 20);
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let is_racy = u128::from(file.stamp_ns) + u128::from(RACY_NS) > now_ns;
        let stamp_ns = if is_racy { 0 } else { file.stamp_ns };
        let read = self
            .source
            .open(path)
            .and_then(|from| from.take(limits.file_bytes_max.saturating_add(1)).read_to_end(bytes));
        if let Err(error) = read {
            self.shared().report.skip(path.clone(), SkipReason::Unreadable(error.kind()));
            replaced.extend(job.known.map(|known| (known.segment_id, known.file)));
            return;
        }
        let hash = hash64(bytes);
        let size = bytes.len() as u64;
        if let Some(known) = job.known
            && (known.hash, known.size) == (hash, size)
        {
            let mut shared = self.shared();
            shared.report.files_unchanged += 1;
            let state = shared.manifest.segments.iter_mut().find(|s| s.id == known.segment_id);
            if let Some(state) = state
                && known.stamp_ns != stamp_ns
            {
                state.stamps.insert(known.file, stamp_ns);
            }
            return;
        }
        replaced.extend(job.known.map(|known| (known.segment_id, known.file)));
        let record = FileRecord {
            path: path.clone(),
            size: file.size,
            stamp_ns: if size == file.size { stamp_ns } else { 0 },
            hash,
            first_chunk: 0,
            kind: FileKind::default(),
            language: Language::Text,
        };
        let text = if size > limits.file_bytes_max {
            Err(SkipReason::TooLarge)
        } else {
            decode(bytes).map_err(SkipReason::NotText)
        };
        match text {
            Ok(text) => {
                let n_chunks = builder.add(record, &text, &limits.chunks);
                let mut shared = self.shared();
                shared.report.files_indexed += 1;
                shared.report.bytes += size;
                shared.report.chunks += n_chunks as u64;
            }
            Err(reason) => {
                builder.add_skipped(record);
                self.shared().report.skip(path.clone(), reason);
            }
        }
    }

    /// Writes what the builder holds and adds it to the manifest.
    fn commit(&self, builder: &mut Builder, replaced: &mut Replaced) -> Result<(), IndexError> {
        if builder.is_empty() && replaced.is_empty() {
            return Ok(());
        }
        let mut new = None;
        if !builder.is_empty() {
            let id = {
                let mut shared = self.shared();
                shared.manifest.next_id += 1;
                shared.manifest.next_id
            };
            let len = self.index.store.write_segment(id, |out| builder.write(out))?;
            new = Some(SegmentState { id, len, ..SegmentState::default() });
        }
        let mut shared = self.shared();
        for (segment_id, file) in replaced.drain(..) {
            kill(&mut shared.manifest, segment_id, file);
        }
        shared.manifest.segments.extend(new);
        self.index.store.commit(&shared.manifest)
    }
}

fn kill(manifest: &mut Manifest, segment_id: u64, file: u32) {
    if let Some(state) = manifest.segments.iter_mut().find(|state| state.id == segment_id) {
        state.kill(file);
        state.stamps.remove(&file);
    }
}

fn is_all_dead(snapshot: &Snapshot, state: &SegmentState) -> bool {
    let known = snapshot.parts().find(|(known, _)| known.id == state.id);
    known.is_some_and(|(_, segment)| state.n_dead() >= segment.n_files)
}

/// Commits, merges if there are many segments, and removes what is not used any more.
fn finish(index: &Index, old: &Snapshot, mut manifest: Manifest) -> Result<(), IndexError> {
    let is_new = manifest != index.store.manifest().unwrap_or_default();
    if is_new {
        index.store.commit(&manifest)?;
    }
    let mut snapshot = open_segments(&index.store, manifest.clone(), old)?;
    let groups = merge_groups(&snapshot, index.limits.n_threads.max(1));
    let is_merged = !groups.is_empty();
    if is_merged {
        let first_id = manifest.next_id + 1;
        manifest.next_id += groups.len() as u64;
        let merged = merge_all(index, &snapshot, &groups, first_id)?;
        manifest.segments.retain(|state| !groups.iter().flatten().any(|id| *id == state.id));
        manifest.segments.extend(merged);
        index.store.commit(&manifest)?;
        snapshot = open_segments(&index.store, manifest.clone(), &snapshot)?;
    }
    {
        // After a reader that has just read the list before this one.
        let _loading = index.loading.lock().unwrap_or_else(PoisonError::into_inner);
        index.replace(Arc::new(snapshot));
    }
    // The first time for what a crash left, then for what this update merged or emptied.
    if is_new || is_merged || index.is_first_update.swap(false, Ordering::Relaxed) {
        index.store.sweep(&manifest)?;
    }
    Ok(())
}

/// The segments to merge, by id: all small ones, or everything once the small ones together are half of the largest or
/// many files are dead.
fn merge_groups(snapshot: &Snapshot, n_threads: usize) -> Vec<Vec<u64>> {
    let mut sizes: Vec<(u64, u64)> =
        snapshot.parts().map(|(state, segment)| (segment.len, state.id)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let n_dead: u32 = snapshot.parts().map(|(state, _)| state.n_dead()).sum();
    let n_files: u32 = snapshot.parts().map(|(_, segment)| segment.n_files).sum();
    let many_dead = n_dead > n_files / DEAD_PART && n_dead > 64;
    if sizes.len() <= SEGMENTS_MAX && !many_dead {
        return Vec::new();
    }
    let Some((largest, _)) = sizes.first().copied() else { return Vec::new() };
    let others: u64 = sizes.iter().skip(1).map(|(len, _)| len).sum();
    if !many_dead && others < largest / 2 {
        return vec![sizes[1..].iter().map(|(_, id)| *id).collect()];
    }
    // Dealt out in order of size, so that the threads have about the same to do.
    let n_groups = n_threads.min(sizes.len().div_ceil(4)).max(1);
    let mut groups = vec![Vec::new(); n_groups];
    for (index, (_, id)) in sizes.iter().enumerate() {
        groups[index % n_groups].push(*id);
    }
    groups
}

fn merge_all(
    index: &Index,
    snapshot: &Snapshot,
    groups: &[Vec<u64>],
    first_id: u64,
) -> Result<Vec<SegmentState>, IndexError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = groups
            .iter()
            .zip(first_id..)
            .map(|(group, id)| scope.spawn(move || merge_group(index, snapshot, group, id)))
            .collect();
        let merged = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        merged.collect()
    })
}

fn merge_group(
    index: &Index,
    snapshot: &Snapshot,
    group: &[u64],
    id: u64,
) -> Result<SegmentState, IndexError> {
    let parts: Vec<_> = snapshot.parts().filter(|(state, _)| group.contains(&state.id)).collect();
    let closures: Vec<_> = parts
        .iter()
        .map(|(state, _)| {
            (|file| state.is_dead(file), |file: u32| state.stamps.get(&file).copied())
        })
        .collect();
    let inputs: Vec<Input<'_>> = parts
        .iter()
        .zip(&closures)
        .map(|((_, segment), (is_dead, stamp_ns))| Input { segment, is_dead, stamp_ns })
        .collect();
    let len = index.store.write_segment(id, |out| merge(&inputs, out))?;
    Ok(SegmentState { id, len, ..SegmentState::default() })
}

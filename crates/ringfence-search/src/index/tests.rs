//! Indexes built, updated, damaged and searched.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::*;
use crate::rank::Mode;

/// Files in memory: path to text and stamp.
#[derive(Clone, Default)]
struct Files(BTreeMap<String, (Vec<u8>, u64)>);

impl Files {
    fn put(&mut self, path: &str, text: impl AsRef<[u8]>, stamp_ns: u64) {
        self.0.insert(path.to_owned(), (text.as_ref().to_vec(), stamp_ns));
    }
}

impl Source for Files {
    fn files(
        &self,
        before_name: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for (path, (text, stamp_ns)) in &self.0 {
            let file =
                SourceFile { path: path.clone(), size: text.len() as u64, stamp_ns: *stamp_ns };
            if before_name().is_break() || each(file).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn Read + '_>> {
        match self.0.get(path) {
            Some((text, _)) => Ok(Box::new(Cursor::new(text))),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Small segments, so that a few files make several.
fn limits() -> IndexLimits {
    IndexLimits { segment_postings_max: 200, ..IndexLimits::default() }
}

fn update(index: &Index, files: &Files) -> UpdateReport {
    index.update(files, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn paths(index: &Index, text: &str) -> Vec<String> {
    let query = Query { limit: 1000, mode: Mode::Plain, ..Query::new(text) };
    let mut paths: Vec<String> =
        index.search(&query).unwrap().into_iter().map(|hit| hit.path).collect();
    paths.sort();
    paths
}

fn some_files() -> Files {
    let mut files = Files::default();
    for n in 0..40 {
        let text = format!("fn common_{n}() {{ shared(q{n}z, {}); }}\n", "filler ".repeat(n));
        files.put(&format!("src/file{n}.rs"), text, 1);
    }
    files
}

#[test]
fn hits_name_file_lines_symbol_and_language() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    let mut files = Files::default();
    files.put("src/url.rs", "//! Doc.\n\n/// Parses.\npub fn parse_url() {}\n", 1);
    files.put("src/other.py", "def other():\n    parse_url()\n", 1);
    let report = update(&index, &files);
    assert_eq!((report.files_indexed, report.chunks, report.is_complete), (2, 2, true));
    let hits = index.search(&Query::new("parseUrl")).unwrap();
    let found: Vec<_> = hits
        .iter()
        .map(|h| (h.path.as_str(), h.start_line, h.end_line, h.symbol.as_str(), h.language.name()))
        .collect();
    assert_eq!(
        found,
        [("src/url.rs", 1, 4, "parse_url", "rust"), ("src/other.py", 1, 2, "other", "python")]
    );
}

#[test]
fn globs_and_languages_restrict_a_search() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    let mut files = Files::default();
    for path in ["a/x.rs", "a/x.py", "b/x.rs", "b/c/x.md"] {
        files.put(path, "needle", 1);
    }
    update(&index, &files);
    for (globs, languages, expected) in [
        (vec!["a/**"], vec![], vec!["a/x.py", "a/x.rs"]),
        (vec!["*.rs"], vec![], vec!["a/x.rs", "b/x.rs"]),
        (vec!["*.md", "a/*.py"], vec![], vec!["a/x.py", "b/c/x.md"]),
        (vec![], vec!["rust"], vec!["a/x.rs", "b/x.rs"]),
        (vec!["b/*"], vec!["rust"], vec!["b/x.rs"]),
    ] {
        let query = Query {
            globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
            languages: languages
                .iter()
                .filter_map(|name| crate::Language::from_name(name))
                .collect(),
            mode: Mode::Plain,
            ..Query::new("needle")
        };
        let mut found: Vec<String> =
            index.search(&query).unwrap().into_iter().map(|h| h.path).collect();
        found.sort();
        assert_eq!(found, expected, "{globs:?} {languages:?}");
    }
    let invalid = Query { globs: vec!["[".to_owned()], ..Query::new("x") };
    assert!(matches!(index.search(&invalid), Err(IndexError::Glob { .. })));
}

#[test]
fn an_update_with_nothing_to_do_writes_nothing_and_still_sees_the_next_change() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), limits()).unwrap();
    let mut files = some_files();
    update(&index, &files);
    update(&index, &files);
    let state = |dir: &Path| {
        let mut all: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name(), entry.metadata().unwrap().modified().unwrap())
            })
            .collect();
        all.sort();
        all
    };
    let (before, revision) = (state(dir.path()), index.revision());
    for _ in 0..3 {
        let report = update(&index, &files);
        assert_eq!((report.files_indexed, report.files_unchanged), (0, 40));
        assert!(report.is_complete);
    }
    assert_eq!((state(dir.path()), index.revision()), (before, revision));
    // Same size, other time; then gone; then renamed with the same size and time.
    let (text, _) = files.0["src/file3.rs"].clone();
    files.put("src/file3.rs", vec![b'x'; text.len()], 2);
    assert_eq!(update(&index, &files).files_indexed, 1);
    let file = files.0.remove("src/file5.rs").unwrap();
    assert_eq!(update(&index, &files).files_removed, 1);
    files.0.insert("src/file5b.rs".to_owned(), file);
    assert_eq!(update(&index, &files).files_indexed, 1);
    assert_eq!(paths(&index, "shared").len(), 39);
    // Another process changed the index.
    let other = Index::open(dir.path(), limits()).unwrap();
    let mut more = files.clone();
    more.put("src/new.rs", "shared by another process", 3);
    update(&other, &more);
    assert_eq!(update(&index, &files).files_removed, 1);
    assert_eq!(paths(&index, "shared").len(), 39);
}

#[test]
fn an_update_reads_what_changed_and_forgets_what_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), limits()).unwrap();
    let mut files = some_files();
    assert_eq!(update(&index, &files).files_indexed, 40);
    assert_eq!(paths(&index, "shared").len(), 40);
    let report = update(&index, &files);
    assert_eq!((report.files_indexed, report.files_unchanged), (0, 40));

    files.put("src/file3.rs", "changed entirely", 2);
    files.put("src/file4.rs", files.0["src/file4.rs"].0.clone(), 2);
    files.put("new.rs", "shared news", 2);
    files.0.remove("src/file5.rs");
    let report = update(&index, &files);
    assert_eq!((report.files_indexed, report.files_unchanged, report.files_removed), (2, 38, 1));
    assert_eq!(paths(&index, "shared").len(), 39);
    assert_eq!(paths(&index, "entirely"), ["src/file3.rs"]);
    assert_eq!(paths(&index, "q3z").len(), 0);
    assert_eq!(paths(&index, "q5z").len(), 0);
    assert_eq!(index.stats().n_files, 40);

    // The same from the disk.
    let again = Index::open(dir.path(), limits()).unwrap();
    assert_eq!(paths(&again, "shared"), paths(&index, "shared"));
    let report = update(&again, &files);
    assert_eq!((report.files_indexed, report.files_unchanged, report.was_rebuilt), (0, 40, false));
}

#[test]
fn many_updates_are_merged_and_answer_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), limits()).unwrap();
    let mut files = some_files();
    update(&index, &files);
    for round in 2..30 {
        let n = round * 7 % 40;
        files.put(
            &format!("src/file{n}.rs"),
            format!("fn round_{round}() {{ shared(round{round}); }}"),
            round,
        );
        files.put(&format!("extra{round}.rs"), format!("shared extra{round}"), round);
        update(&index, &files);
    }
    let stats = index.stats();
    assert!(stats.n_segments <= 9, "{stats:?}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len() as u64, stats.n_segments + 2, "segments, manifest and lock");

    let fresh_dir = tempfile::tempdir().unwrap();
    let fresh = Index::open(fresh_dir.path(), IndexLimits::default()).unwrap();
    update(&fresh, &files);
    for word in ["shared", "filler", "round29", "q7z", "extra12", "common"] {
        assert_eq!(paths(&index, word), paths(&fresh, word), "{word}");
    }
}

#[test]
fn files_without_text_are_skipped_with_a_reason_and_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let limits =
        IndexLimits { file_bytes_max: 1000, total_bytes_max: 3000, ..IndexLimits::default() };
    let index = Index::open(dir.path(), limits).unwrap();
    let mut files = Files::default();
    files.put("a.bin", b"\x7fELF\0\0", 1);
    files.put("b.txt", "x".repeat(2000), 1);
    files.put("c.txt", [0xff; 500], 1);
    files.put("d.txt", "fine words", 1);
    files.put("e.txt", "y".repeat(900), 1);
    files.put("f.txt", "y".repeat(900), 1);
    files.put("g.txt", "z ".repeat(400), 1);
    let report = update(&index, &files);
    let reasons: Vec<String> =
        report.skipped.iter().map(|(path, why)| format!("{path}: {why}")).collect();
    assert_eq!(
        reasons,
        [
            "b.txt: too large",
            "g.txt: the index is full",
            "a.bin: binary file",
            "c.txt: not UTF-8 text"
        ]
    );
    let report = update(&index, &files);
    assert_eq!((report.files_indexed, report.files_unchanged, report.files_skipped), (0, 5, 2));
}

#[test]
fn a_recent_change_is_not_trusted_to_be_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    let now_ns =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let now_ns = u64::try_from(now_ns).unwrap();
    let mut files = Files::default();
    files.put("a.txt", "before", now_ns);
    update(&index, &files);
    // The same size and the same time, as a write in the same tick of the clock.
    files.put("a.txt", "after!", now_ns);
    update(&index, &files);
    assert_eq!(paths(&index, "after").len(), 1);
}

/// Takes long to open one file, and says when it does.
struct Slow<'a>(&'a Files, AtomicBool);
impl Source for Slow<'_> {
    fn files(
        &self,
        before_name: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.0.files(before_name, each)
    }
    fn open(&self, path: &str) -> io::Result<Box<dyn Read + '_>> {
        if path.ends_with("file30.rs") {
            self.1.store(true, Ordering::SeqCst);
            // Longer than the interval of the progress callback.
            std::thread::sleep(Duration::from_millis(400));
        }
        self.0.open(path)
    }
}

impl Slow<'_> {
    /// Updates until that file is opened.
    fn update(&self, index: &Index) -> UpdateReport {
        let progress = &mut |_: &Progress| {
            if self.1.load(Ordering::SeqCst) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        index.update(self, progress).unwrap()
    }
}

#[test]
fn an_interrupted_update_keeps_its_segments_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits { n_threads: 1, ..limits() }).unwrap();
    let files = some_files();
    let slow = Slow(&files, AtomicBool::new(false));
    let report = slow.update(&index);
    assert!(
        !report.is_complete && report.files_indexed > 10 && report.files_indexed < 40,
        "{report:?}"
    );
    let again = Index::open(dir.path(), limits()).unwrap();
    assert_eq!(paths(&again, "shared").len() as u64, report.files_indexed);
    let rest = update(&again, &files);
    assert_eq!(rest.files_indexed + report.files_indexed, 40);
    assert_eq!(paths(&again, "shared").len(), 40);
}

/// Else a program that renames its files before each search would fill the disk, and memory with their paths.
#[test]
fn an_interrupted_update_forgets_what_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits { n_threads: 1, ..limits() }).unwrap();
    let mut files = Files::default();
    for n in 0..40 {
        files.put(&format!("old{n}.rs"), format!("shared old{n}"), 1);
    }
    update(&index, &files);
    let files = some_files();
    let report = Slow(&files, AtomicBool::new(false)).update(&index);
    assert_eq!((report.is_complete, report.files_removed), (false, 40), "{report:?}");
    assert_eq!(index.stats().n_files, report.files_indexed);
    assert!(paths(&index, "old1").is_empty());
}

/// Names of empty files, as long as can be.
struct LongNames {
    n_files: usize,
}

impl Source for LongNames {
    fn files(
        &self,
        before_name: &mut dyn FnMut() -> ControlFlow<()>,
        each: &mut dyn FnMut(SourceFile) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for n in 0..self.n_files {
            let path = format!("{n:04000}");
            if before_name().is_break()
                || each(SourceFile { path, size: 0, stamp_ns: 1 }).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn open(&self, _: &str) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(io::empty()))
    }
}

#[test]
fn paths_are_bounded_in_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let limits = IndexLimits::default();
    let index = Index::open(dir.path(), limits).unwrap();
    let names = LongNames { n_files: 100_000 };
    let report = index.update(&names, &mut |_| ControlFlow::Continue(())).unwrap();
    let n_indexed = limits.paths_bytes_max as u64 / 4000;
    assert_eq!((report.files_indexed, report.files_skipped), (n_indexed, 100_000 - n_indexed));
    assert!(report.is_complete);
    assert!(report.skipped.iter().all(|(_, why)| *why == SkipReason::IndexFull));
    assert!(index.stats().disk_bytes < limits.paths_bytes_max as u64 + (8 << 20));
    // The next one reads the paths of all of them.
    let report = index.update(&names, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.files_unchanged, report.files_indexed), (n_indexed, 0));
}

fn record(path: String) -> segment::FileRecord {
    segment::FileRecord {
        path,
        size: 10,
        stamp_ns: 1,
        hash: 1,
        first_chunk: 0,
        kind: crate::file_kind::FileKind::default(),
        language: crate::Language::Text,
    }
}

#[test]
fn files_without_text_fill_a_segment_too() {
    let mut builder = builder::Builder::default();
    let mut n_files = 0;
    while !builder.is_full(1000) {
        builder.add_skipped(record("x".repeat(100)));
        n_files += 1;
        assert!(n_files <= 1000);
    }
    assert_eq!(n_files, 40);
}

#[test]
fn the_last_progress_of_a_small_update_says_that_all_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), limits()).unwrap();
    let mut files = Files::default();
    files.put("a.txt", "some words", 1);
    let mut told = Vec::new();
    let progress = &mut |now: &Progress| {
        told.push((now.files_done, now.files_total));
        ControlFlow::Continue(())
    };
    index.update(&files, progress).unwrap();
    assert_eq!(told.last(), Some(&(1, 1)), "{told:?}");
}

#[test]
fn an_update_can_be_ended_while_files_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    let mut files = Files::default();
    for n in 0..3000 {
        files.put(&format!("{n}.txt"), "x", 1);
    }
    let report = index.update(&files, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((report.is_complete, report.files_indexed), (false, 0));
}

#[test]
fn a_crash_leaves_the_old_index() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), limits()).unwrap();
    let mut files = some_files();
    update(&index, &files);
    // As after a crash: a segment that no manifest lists, and a manifest that was not renamed.
    fs::write(dir.path().join("segment-00000000000000ff"), b"half a segm").unwrap();
    fs::write(dir.path().join("manifest.new"), b"half").unwrap();
    let again = Index::open(dir.path(), limits()).unwrap();
    assert_eq!(paths(&again, "shared").len(), 40);
    files.put("new.rs", "shared", 1);
    assert!(!update(&again, &files).was_rebuilt);
    assert_eq!(paths(&again, "shared").len(), 41);
    assert!(!dir.path().join("segment-00000000000000ff").exists());
}

#[test]
fn one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    let other = Index::open(dir.path(), IndexLimits::default()).unwrap();
    let files = some_files();
    let mut inner = None;
    index
        .update(&files, &mut |_| {
            inner.get_or_insert_with(|| other.update(&files, &mut |_| ControlFlow::Continue(())));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(matches!(inner, Some(Err(IndexError::Busy))));
    assert!(paths(&other, "shared").is_empty());
    other.reload().unwrap();
    assert_eq!(paths(&other, "shared").len(), 40);
}

#[test]
fn searches_during_updates_and_merges_see_one_state() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(dir.path(), limits()).unwrap();
    let mut files = some_files();
    update(&index, &files);
    let other = Index::open(dir.path(), limits()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in [&index, &other] {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    reader.reload().unwrap();
                    let found = paths(reader, "shared");
                    let mut distinct = found.clone();
                    distinct.dedup();
                    // Within an update old and new files are replaced in parts, but never doubled.
                    assert!(found.len() >= 38 && distinct == found, "{found:?}");
                }
            });
        }
        for round in 2..40u64 {
            files.put(&format!("src/file{}.rs", round % 40), format!("shared round{round}"), round);
            update(&index, &files);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert_eq!(paths(&index, "shared").len(), 40);
}

#[test]
fn sessions_with_the_same_content_stay_apart() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = ["alder", "birch", "cedar", "daisy", "elder", "ficus", "grape", "hazel"];
    std::thread::scope(|scope| {
        for mine in secrets {
            let dir = dir.path().join(mine);
            scope.spawn(move || {
                let index = Index::open(&dir, limits()).unwrap();
                let mut files = some_files();
                files.put("mine.rs", format!("shared secret {mine}"), 1);
                update(&index, &files);
                for other in secrets {
                    let expected: &[&str] = if other == mine { &["mine.rs"] } else { &[] };
                    assert_eq!(paths(&index, other), expected);
                }
                assert_eq!(paths(&index, "shared").len(), 41);
            });
        }
    });
}

/// Every file of the index, by name.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

#[test]
fn damage_anywhere_is_noticed_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let files = some_files();
    update(&Index::open(dir.path(), IndexLimits::default()).unwrap(), &files);
    let sound = contents(dir.path());
    let (mut n_found, mut n_tried) = (0, 0);
    for (name, bytes) in sound.iter().filter(|(name, _)| *name != "lock") {
        for at in (0..bytes.len()).step_by(bytes.len() / 25 + 1) {
            n_tried += 1;
            let path = dir.path().join(name);
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[bytes[at] ^ 0x55], at as u64).unwrap();
            let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
            let searched = index.search(&Query::new("shared filler q3z common")).is_err();
            if searched || index.stats().is_damaged {
                n_found += 1;
                assert!(update(&index, &files).was_rebuilt, "{name} at {at}");
                assert_eq!(paths(&index, "shared").len(), 40);
            }
            // Back to the sound index.
            for entry in fs::read_dir(dir.path()).unwrap().flatten() {
                fs::remove_file(entry.path()).unwrap();
            }
            for (name, bytes) in &sound {
                fs::write(dir.path().join(name), bytes).unwrap();
            }
        }
    }
    // Blocks that this query does not read may be damaged unnoticed.
    assert!(n_found * 2 > n_tried, "{n_found} of {n_tried}");
    for (name, bytes) in sound.iter().filter(|(name, _)| *name != "lock") {
        for len in [0, 1, 7, bytes.len() / 2, bytes.len() - 1] {
            fs::write(dir.path().join(name), &bytes[..len]).unwrap();
            let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
            assert!(index.stats().is_damaged, "{name} cut to {len}");
            assert!(update(&index, &files).was_rebuilt);
            assert_eq!(paths(&index, "shared").len(), 40);
            fs::remove_dir_all(dir.path()).unwrap();
            fs::create_dir(dir.path()).unwrap();
            for (name, bytes) in &sound {
                fs::write(dir.path().join(name), bytes).unwrap();
            }
        }
    }
}

#[test]
fn forged_numbers_behind_a_right_checksum_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = builder::Builder::default();
    for n in 0..200 {
        let record = record(format!("f{n}.rs"));
        builder.add(record, &format!("fn f{n}() {{ shared word }}"), &ChunkOptions::default());
    }
    let sound = builder.write(Vec::new()).unwrap();
    let path = dir.path().join("segment");
    let mut state = 1u64;
    for _ in 0..500 {
        let mut bytes = sound.clone();
        for _ in 0..3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            bytes[at] = u8::try_from(state >> 24 & 0xff).unwrap();
        }
        reseal(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        // No panic, no huge allocation: results do not matter.
        let Ok(segment) = Segment::open(fs::File::open(&path).unwrap()) else { continue };
        for key in [&b"bshared"[..], b"bword", b"df1", b"bf"] {
            if let Ok(Some(entry)) = segment.find(key) {
                let _ = segment.postings(&entry, |chunk, _| assert!(chunk < segment.n_chunks));
            }
        }
        for file in 0..segment.n_files.min(300) {
            let _ = segment.path(file);
        }
        for chunk in 0..segment.n_chunks.min(300) {
            let _ = (segment.chunk(chunk), segment.file_of(chunk));
        }
        let inputs = [merge::Input {
            segment: &segment,
            is_dead: &|file| file % 3 == 0,
            stamp_ns: &|_| None,
        }];
        let _ = merge::merge(&inputs, Vec::new());
    }
}

/// Makes the checksums of the footer and of the sections right again.
fn reseal(bytes: &mut [u8]) {
    let seal = |bytes: &mut [u8]| {
        let checksum = crate::hash::hash64(&bytes[codec::CHECKSUM_BYTES..]);
        bytes[..codec::CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    };
    let len = bytes.len();
    let footer_at = len - 8 * 16;
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    for section in 0..5 {
        let at = footer_at + 8 + 8 * (5 + 2 * section);
        let (offset, size) = (word(bytes, at), word(bytes, at + 8));
        let range =
            usize::try_from(offset).ok().zip(usize::try_from(offset.saturating_add(size)).ok());
        if let Some((start, end)) = range
            && end <= footer_at
            && start + 8 <= end
        {
            seal(&mut bytes[start..end]);
        }
    }
    seal(&mut bytes[footer_at..]);
}

#[test]
fn links_and_pipes_in_place_of_index_files_are_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let files = some_files();
    update(&Index::open(dir.path(), IndexLimits::default()).unwrap(), &files);
    let manifest = dir.path().join("manifest");
    fs::rename(&manifest, dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &manifest).unwrap();
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    assert!(index.stats().is_damaged);
    fs::remove_file(&manifest).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &manifest,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // Does not wait for a writer.
    let index = Index::open(dir.path(), IndexLimits::default()).unwrap();
    assert!(index.stats().is_damaged);
    assert!(update(&index, &files).was_rebuilt);
}

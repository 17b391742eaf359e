//! Files a run left in its directory, reached by descriptor: no link is followed, nothing that is not a plain file
//! opened.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_spec::Artifact;
use ringfence_sys::untrusted::{self, open_beneath, open_directory_beneath, stat_at};
use ringfence_sys::{Budget, CallError, Named, TMPFS_MAGIC};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Maximum number of files listed.
const FILES_MAX: usize = 1000;

/// Maximum size of their paths, which the answer and what is kept of a run hold.
const PATH_BYTES_MAX: usize = 256 << 10;

/// Maximum depth of directories.
const DEPTH_MAX: usize = 16;

/// Bounds of a listing, in entries and in time, whatever the run left.
const ENTRIES_MAX: u32 = 20_000;
const LIST_MAX: Duration = Duration::from_millis(500);

const NS_PER_S: i128 = 1_000_000_000;

/// Files that a run left.
#[derive(Debug, Default)]
pub struct Listing {
    /// By name.
    pub artifacts: Vec<Artifact>,
    /// False if a bound cut the listing short, or a directory could not be opened.
    pub is_complete: bool,
}

/// Files that were not copied, each with its reason.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Their names are refused.
    pub refused: Vec<String>,
    /// They could not be read or written, or passed a bound.
    pub failed: Vec<String>,
}

/// A run's directory after its end.
#[derive(Debug)]
pub struct Artifacts {
    workspace: OwnedFd,
    /// If its directory is a session's, the files that the run made or changed there.
    changed: Option<Files>,
}

/// Raw names and sizes of plain files, sorted.
#[derive(Clone, Debug, Default)]
struct Files {
    list: Vec<(PathBuf, u64)>,
    is_complete: bool,
}

/// The files of a directory at one moment, to tell those that a run made or changed from the rest.
#[derive(Debug)]
pub struct Snapshot {
    /// By the hash of their paths, which may have thousands of bytes each.
    files: HashMap<u64, FileStamp>,
    hashes: RandomState,
    is_complete: bool,
    /// By the clock that the kernel takes file times from.
    taken_ns: i128,
}

/// Differs between two moments if a file was written, replaced or renamed in between. A program can set the time of
/// modification, and not the time of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    id: (u64, u64),
    bytes: i64,
    changed_ns: i128,
}

impl FileStamp {
    fn of(stat: &Stat) -> Self {
        Self {
            id: (stat.st_dev, stat.st_ino),
            bytes: stat.st_size,
            changed_ns: i128::from(stat.st_ctime) * NS_PER_S + i128::from(stat.st_ctime_nsec),
        }
    }
}

impl Snapshot {
    /// Returns true if a file is not as it was. Of a snapshot that a bound cut short, a file that is not in it counts if
    /// it changed later.
    fn lacks(&self, path: &Path, now: FileStamp) -> bool {
        match self.files.get(&self.hashes.hash_one(path)) {
            Some(before) => *before != now,
            None => self.is_complete || now.changed_ns >= self.taken_ns,
        }
    }
}

impl Artifacts {
    pub(crate) fn new(workspace: OwnedFd) -> Self {
        Self { workspace, changed: None }
    }

    /// The files of a host directory.
    pub fn of_directory(dir: &Path) -> Result<Self, CallError> {
        untrusted::open_absolute(dir).map(Self::new)
    }

    /// Bytes to count for keeping them: everything in the file system of the run's own, listed or not. For the directory of
    /// a session, which is on disk, those `listed`.
    pub fn kept_bytes(&self, listed: &[Artifact]) -> u64 {
        let listed = listed.iter().map(|file| file.bytes).sum();
        let is_session = self.changed.is_some();
        let is_own = rustix::fs::fstatfs(&self.workspace).map(|fs| fs.f_type == TMPFS_MAGIC);
        match is_own {
            Ok(true) if !is_session => {
                ringfence_sys::used_bytes(&self.workspace).map_or(u64::MAX, |held| held.max(listed))
            }
            Ok(_) => listed,
            Err(_) => u64::MAX,
        }
    }

    /// The files as they are now.
    pub fn snapshot(&self) -> Snapshot {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let taken_ns = i128::from(now.tv_sec) * NS_PER_S + i128::from(now.tv_nsec);
        let (mut files, hashes) = (HashMap::new(), RandomState::new());
        let is_complete = self.walk(|path, stat| {
            files.insert(hashes.hash_one(&path), FileStamp::of(stat));
            true
        });
        Snapshot { files, hashes, is_complete, taken_ns }
    }

    /// Only those made or changed after a snapshot.
    #[must_use]
    pub fn since(self, before: &Snapshot) -> Self {
        let changed = self.listed(Some(before));
        Self { changed: Some(changed), ..self }
    }

    /// The plain files in it, by name.
    pub fn list(&self) -> Listing {
        let artifact = |(path, bytes): (PathBuf, u64)| Artifact {
            path: path.to_string_lossy().into_owned(),
            bytes,
            media_type: media_type(&path).to_owned(),
        };
        let Files { list, is_complete } = self.files();
        Listing { artifacts: list.into_iter().map(artifact).collect(), is_complete }
    }

    /// Those that a run made or changed: not the files it was given, if they are as they were.
    pub fn list_changed(&self, given: &[(String, Vec<u8>)]) -> Listing {
        let mut listing = self.list();
        listing
            .artifacts
            .retain(|artifact| !self.is_as_given(Path::new(&artifact.path), artifact.bytes, given));
        listing
    }

    fn is_as_given(&self, path: &Path, bytes: u64, given: &[(String, Vec<u8>)]) -> bool {
        given.iter().any(|(name, content)| {
            Path::new(name) == path
                && content.len() as u64 == bytes
                && self.read(path, bytes).is_ok_and(|found| found == *content)
        })
    }

    fn files(&self) -> Files {
        self.changed.clone().unwrap_or_else(|| self.listed(None))
    }

    /// The files as they are now; only those made or changed after `before`, if there is one.
    fn listed(&self, before: Option<&Snapshot>) -> Files {
        let (mut list, mut room) = (Vec::new(), PATH_BYTES_MAX);
        let is_complete = self.walk(|path, stat| {
            if before.is_some_and(|before| !before.lacks(&path, FileStamp::of(stat))) {
                return true;
            }
            let path_bytes = path.as_os_str().len();
            let has_room = list.len() < FILES_MAX && path_bytes <= room;
            if has_room {
                room -= path_bytes;
                list.push((path, u64::try_from(stat.st_size).unwrap_or(0)));
            }
            has_room
        });
        list.sort();
        Files { list, is_complete }
    }

    /// Calls `each` with every plain file, which returns false for one that it has no room for. Returns true if every
    /// directory was listed to its end.
    fn walk(&self, mut each: impl FnMut(PathBuf, &Stat) -> bool) -> bool {
        let budget = Budget::new(ENTRIES_MAX, u64::MAX, LIST_MAX);
        let mut is_complete = true;
        let mut pending: VecDeque<(PathBuf, usize)> = VecDeque::from([(PathBuf::new(), 0)]);
        while let Some((dir, depth)) = pending.pop_front() {
            let at = if dir.as_os_str().is_empty() { Path::new(".") } else { &dir };
            let opened = match open_directory_beneath(&self.workspace, at) {
                Ok(opened) => opened,
                // Removed or replaced since it was listed: its files are gone.
                Err(error) if matches!(error.errno, Errno::NOENT | Errno::NOTDIR) => continue,
                // A run can take away the permissions of its own directory; what is in it is not known.
                Err(_) => {
                    is_complete = false;
                    continue;
                }
            };
            let listed = untrusted::list(&opened, &budget, |name, _| {
                let Some(stat) = stat_at(&opened, name) else { return ControlFlow::Continue(()) };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => is_complete &= each(dir.join(name), &stat),
                    FileType::Directory if depth < DEPTH_MAX && pending.len() < FILES_MAX => {
                        pending.push_back((dir.join(name), depth + 1));
                    }
                    FileType::Directory => is_complete = false,
                    _ => {}
                }
                ControlFlow::Continue(())
            });
            is_complete &= listed.is_ok();
        }
        is_complete
    }

    /// Reads a file, up to a bound.
    pub fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, CallError> {
        let file = self.open_file(path)?;
        let mut content = Vec::new();
        file.take(bytes_max).read_to_end(&mut content).named(|| format!("read({path:?})"))?;
        Ok(content)
    }

    /// Opens a file for reading.
    pub fn open_file(&self, path: &Path) -> Result<std::fs::File, CallError> {
        let place = open_beneath(&self.workspace, path)?;
        let stat = rustix::fs::fstat(&place).named(|| format!("fstat({path:?})"))?;
        // Opening a FIFO would block, and opening a device has side effects.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(CallError::new(format!("open({path:?}): no plain file"), Errno::NXIO));
        }
        // A file under a lease would keep the caller waiting for its holder.
        reopen(&place, OFlags::RDONLY | OFlags::NONBLOCK).map(Into::into)
    }

    /// Copies the files that a run made or changed to a directory of the host's, never through a link of either side and
    /// no more than `bytes_max` in all: a sparse file counts with its apparent size. `given` are the files that the run
    /// was given. `check` returns the reason to refuse a name.
    pub fn copy_to(
        &self,
        root: &OwnedFd,
        given: &[(String, Vec<u8>)],
        bytes_max: u64,
        check: impl Fn(&Path) -> Result<(), String>,
    ) -> LeftOut {
        let mut left_out = LeftOut::default();
        let mut room = bytes_max;
        let Files { list: files, is_complete } = self.files();
        if !is_complete {
            left_out.failed.push(format!(
                "files beyond {FILES_MAX} or {PATH_BYTES_MAX} bytes of names, deeper than {DEPTH_MAX} directories, or in directories that cannot be opened"
            ));
        }
        for (path, bytes) in files {
            if self.is_as_given(&path, bytes, given) {
                continue;
            }
            if let Err(why) = check(&path) {
                left_out.refused.push(format!("{path:?}: {why}"));
            } else if bytes > room {
                left_out.failed.push(format!("{path:?}: together they pass {bytes_max} bytes"));
            } else if let Err(error) = self.copy_one(&path, root, bytes) {
                left_out.failed.push(format!("{path:?}: {error}"));
            } else {
                room -= bytes;
            }
        }
        left_out
    }

    fn copy_one(&self, path: &Path, root: &OwnedFd, bytes: u64) -> Result<(), CallError> {
        let source = self.open_file(path)?;
        let (top, above) = (root.try_clone().named(|| "dup")?, path.parent());
        let above = above.unwrap_or(Path::new(""));
        let parent = untrusted::make_directories_beneath(top, above, 0o755)?;
        let name = path.file_name().unwrap_or_default();
        // Under a temporary name first: a link at the final name is replaced, not followed.
        let partial = format!(".ringfence-{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let _ = rustix::fs::unlinkat(&parent, &partial, AtFlags::empty());
        let target = rustix::fs::openat(&parent, &partial, flags, Mode::from_raw_mode(0o644))
            .named(|| format!("openat({partial:?}, O_CREAT|O_EXCL)"))?;
        let copied = std::io::copy(&mut source.take(bytes), &mut std::fs::File::from(target))
            .named(|| format!("copy({path:?})"))
            .and_then(|_| {
                rustix::fs::renameat(&parent, &partial, &parent, name)
                    .named(|| format!("renameat({path:?})"))
            });
        if copied.is_err() {
            let _ = rustix::fs::unlinkat(&parent, &partial, AtFlags::empty());
        }
        copied
    }
}

/// Opens the file of an `O_PATH` descriptor with these flags.
fn reopen(place: &OwnedFd, flags: OFlags) -> Result<OwnedFd, CallError> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty())
        .named(|| format!("open({path:?})"))
}

/// Media type by a file's extension.
fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "jsonl" => "application/jsonl",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "xml" => "application/xml",
        "txt" | "log" => "text/plain",
        "py" => "text/x-python",
        "parquet" => "application/vnd.apache.parquet",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "sqlite" | "db" => "application/vnd.sqlite3",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// Takes from this thread the capabilities by which root reads any directory. An ordinary user has none.
    fn obey_permissions() {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, sets).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_opened_makes_the_list_incomplete() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("closed")).unwrap();
        fs::write(root.join("closed/hidden.csv"), "1").unwrap();
        fs::write(root.join("open.csv"), "1").unwrap();
        let files = Artifacts::of_directory(&root).unwrap();
        assert!(files.list().is_complete && files.list().artifacts.len() == 2);
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let out = tempfile::tempdir().unwrap();
        let out_dir = ringfence_sys::untrusted::open_absolute(out.path()).unwrap();
        let (listing, left_out) = std::thread::scope(|scope| {
            let list = || {
                obey_permissions();
                (files.list(), files.copy_to(&out_dir, &[], 1 << 20, |_| Ok(())))
            };
            scope.spawn(list).join().unwrap()
        });
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        let names: Vec<&str> = listing.artifacts.iter().map(|a| a.path.as_str()).collect();
        assert_eq!((names.as_slice(), listing.is_complete), (&["open.csv"][..], false));
        assert!(left_out.failed[0].contains("cannot be opened"), "{left_out:?}");
    }
    #[test]
    fn names_of_files_are_bounded_in_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let deep = (0..10).fold(PathBuf::new(), |at, _| at.join("d".repeat(200)));
        let root = dir.path().canonicalize().unwrap();
        // By descriptors: the whole path may be longer than the kernel takes.
        let top = untrusted::open_absolute(&root).unwrap();
        let mut at = top.try_clone().unwrap();
        for name in &deep {
            rustix::fs::mkdirat(&at, Path::new(name), Mode::RWXU).unwrap();
            at = open_beneath(&at, Path::new(name)).unwrap();
        }
        for n in 0..400 {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&at, format!("{n}"), flags, Mode::RUSR).unwrap();
        }
        let files = Artifacts::new(top);
        let before = files.snapshot();
        let listing = files.list();
        let bytes: usize = listing.artifacts.iter().map(|file| file.path.len()).sum();
        assert!(!listing.is_complete && !listing.artifacts.is_empty());
        assert!(bytes <= PATH_BYTES_MAX, "{bytes}");
        fs::write(root.join("new"), "1").unwrap();
        let changed = files.since(&before).list();
        let names: Vec<&str> = changed.artifacts.iter().map(|file| file.path.as_str()).collect();
        assert_eq!((names.as_slice(), changed.is_complete), (&["new"][..], true));
    }
}

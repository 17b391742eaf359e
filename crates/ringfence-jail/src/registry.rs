//! Records about workspaces, kept on disk between and during runs: placeholders that runs hold, and nested repositories
//! that a git index named. One file for each workspace, bounded when written: one workspace cannot spoil another's.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_plan::{FileId, KnownLinks, Placeholder, PlaceholderShape, WritableDir};
use ringfence_sys::untrusted::{self, open_beneath};
use ringfence_sys::{Budget, CallError, Named};
use rustix::fs::{AtFlags, FileType, FlockOperation, FsWord, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::open::{is_on, open_exact};
use crate::proc::start_ticks;
use crate::workspace_lock::{WorkspaceLock, is_unsupported};

/// Time to wait, for all directories of a run, until other processes have removed names in them.
const REMOVAL_MAX: Duration = Duration::from_millis(300);

/// Maximum size of a record. A larger file was not written by Ringfence.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// The same for a list of nested repositories.
const LINKS_BYTES_MAX: u64 = 256 << 10;

/// Interval between sweeps of the records of all workspaces.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// Maximum number of records checked in one sweep. The next sweep goes on behind them.
const SWEEP_MAX: usize = 256;

/// Maximum number of records listed to choose those from. Some 20 ms, once a minute.
const SWEEP_LIST_MAX: u32 = 100_000;

/// Time that the record of a directory is kept which is no longer at its path: it may have been moved.
const AWAY_MAX: Duration = Duration::from_hours(24 * 30);

/// Time to wait for a record locked by another run, which holds the lock while it makes or removes names.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// The records in a state directory.
#[derive(Clone, Debug)]
pub struct Registry {
    dir: PathBuf,
}

/// Identifies the run that holds a name: the supervisor's pid and start time, and the run's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunKey {
    pid: i32,
    start_ticks: u64,
    run: String,
}

/// A directory that runs may write: the placeholders in it, and the runs that hold them. The record stays after the
/// last run, because any file in that directory may have been written by one.
#[derive(Debug, Serialize, Deserialize)]
struct WorkspaceRecord {
    /// Bytes of the path, which need not be text.
    root: Vec<u8>,
    dev: u64,
    ino: u64,
    names: Vec<Name>,
    runs: Vec<RunKey>,
    /// When the directory was made: another one may get its inode number after it is gone.
    #[serde(default)]
    born: Option<Born>,
    /// When it was first not found at its path, in seconds since 1970: moved, or gone.
    #[serde(default)]
    away_since: Option<u64>,
}

/// A birth time, as statx(2) gives it: seconds and nanoseconds.
type Born = (i64, u32);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Name {
    path: Vec<u8>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    EmptyDirectory,
    Inert,
    EmptyFile,
    Dot,
}

impl From<PlaceholderShape> for Shape {
    fn from(shape: PlaceholderShape) -> Self {
        match shape {
            PlaceholderShape::EmptyDirectory => Self::EmptyDirectory,
            PlaceholderShape::Inert => Self::Inert,
            PlaceholderShape::EmptyFile => Self::EmptyFile,
            PlaceholderShape::Dot => Self::Dot,
        }
    }
}

impl Shape {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::EmptyDirectory | Self::Inert | Self::EmptyFile => b"",
            Self::Dot => b".\n",
        }
    }
}

/// Content of a placeholder.
pub(crate) fn text_of(shape: PlaceholderShape) -> &'static [u8] {
    Shape::from(shape).text()
}

/// Names held for one run. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct Hold {
    registry: Registry,
    key: RunKey,
    /// Directories in which names are held.
    roots: Vec<FileId>,
    locks: Vec<HeldLock>,
}

/// A directory whose names the run needs, its own or those that it found.
#[derive(Debug)]
struct HeldLock {
    root: FileId,
    /// Keeps runs of other data directories from removing the names.
    lock: Option<WorkspaceLock>,
    /// The reason that they may do so all the same.
    gap: Option<String>,
}

impl RunKey {
    /// This process's key for the run `run`.
    pub(crate) fn of_this_process(run: &str) -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { pid, start_ticks: start_ticks(pid).unwrap_or(0), run: run.to_owned() }
    }

    /// Returns true if the run's process lives. With `hidepid` its start cannot be read: then it is taken for the one it was.
    fn is_alive(&self) -> bool {
        start_ticks(self.pid).map_or_else(
            || {
                rustix::process::Pid::from_raw(self.pid)
                    .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
            },
            |ticks| ticks == self.start_ticks,
        )
    }
}

impl Registry {
    /// The records in the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { dir: state.to_owned() }
    }

    /// Names of `root` that are placeholders now, though a survey would find them present.
    pub(crate) fn held(&self, root: FileId) -> BTreeSet<PathBuf> {
        let Ok(text) = untrusted::read_file(&self.file(root), RECORD_BYTES_MAX) else {
            return BTreeSet::new();
        };
        let record: Option<WorkspaceRecord> = parse(&text);
        let names = record.into_iter().flat_map(|record| record.names);
        names.map(|name| PathBuf::from(OsStr::from_bytes(&name.path))).collect()
    }

    /// Nested repositories that the index in the git directory `id` named when it was last read.
    pub(crate) fn known_links(&self, id: FileId) -> Option<KnownLinks> {
        parse(&untrusted::read_file(&self.links_file(id), LINKS_BYTES_MAX).ok()?)
    }

    /// Records them for the next run. If that fails, the next run reads the index again.
    pub(crate) fn remember_links(&self, id: FileId, known: &KnownLinks) {
        let Ok(text) = serde_json::to_vec(known) else { return };
        let path = self.links_file(id);
        let Some(dir) = path.parent().filter(|_| text.len() as u64 <= LINKS_BYTES_MAX) else {
            return;
        };
        let next = path.with_extension(format!("{}", std::process::id()));
        let written = private_directory(dir).is_ok() && write_new(&next, &text).is_ok();
        if !written || fs::rename(&next, &path).is_err() {
            let _ = fs::remove_file(&next);
        }
    }

    /// Deletes them: the index is gone.
    pub(crate) fn forget_links(&self, id: FileId) {
        let _ = fs::remove_file(self.links_file(id));
    }

    /// Removes placeholders of dead runs from all workspaces, if the last sweep is long enough ago. Returns notices for
    /// the user.
    pub fn sweep(&self) -> Vec<String> {
        let dir = self.dir.join("workspaces");
        let mark = dir.join(".swept");
        let Ok(meta) = fs::symlink_metadata(&mark) else {
            // Almost always because nothing was ever held here; else from now on.
            if rustix::fs::access(&dir, rustix::fs::Access::EXISTS).is_ok() {
                let _ = write_new(&mark, b"");
            }
            return Vec::new();
        };
        let recent = meta.modified().is_ok_and(|m| m.elapsed().is_ok_and(|age| age < SWEEP_EVERY));
        if recent {
            return Vec::new();
        }
        self.sweep_now()
    }

    /// The same at once.
    pub fn sweep_now(&self) -> Vec<String> {
        let mut notices = Vec::new();
        let dir = self.dir.join("workspaces");
        let mark = dir.join(".swept");
        // The mark holds the name of the last record that was checked.
        let last = untrusted::read_file(&mark, NAME_BYTES_MAX).unwrap_or_default();
        let Ok(names) = untrusted::open_absolute(&dir)
            .and_then(|dir| untrusted::open_directory_beneath(&dir, Path::new(".")))
            .and_then(|listed| names_after(&listed, &last))
        else {
            return notices;
        };
        // Before the records are checked: a process that starts meanwhile has nothing to sweep.
        let _ = fs::remove_file(&mark);
        let _ = write_new(&mark, names.last().map_or(b"", |name| name.as_bytes()));
        for id in names.iter().filter_map(|name| id_of_name(name)) {
            let edited = self.edit(id, Missing::Leave, |record| match record {
                Some(record) => settle(record, None, None),
                None => Edit::Keep,
            });
            // A record that cannot be read or written now is tried again by a later sweep.
            notices.extend(edited.ok().and_then(|edited| edited.notice));
        }
        notices
    }

    /// Returns the directory around `path`, which is canonical, that a run could write, now or earlier; or the state
    /// directory.
    pub fn written_by_runs(&self, path: &Path) -> Option<PathBuf> {
        let is_recorded = |dir: &Path| {
            let stat = rustix::fs::lstat(dir).ok()?;
            let file = self.file(crate::open::id_of(&stat));
            rustix::fs::access(&file, rustix::fs::Access::EXISTS).ok()?;
            // A record that cannot be read stands for the directory.
            let text = untrusted::read_file(&file, RECORD_BYTES_MAX).unwrap_or_default();
            let record: Option<WorkspaceRecord> = parse(&text);
            let is_another = record
                .is_some_and(|record| record.away_since.is_some() && record.born != born(dir));
            (!is_another).then_some(())
        };
        let inside_state = path.starts_with(&self.dir).then(|| self.dir.clone());
        inside_state
            .or_else(|| path.ancestors().find(|dir| is_recorded(dir).is_some()).map(Path::to_owned))
    }

    /// Returns true if no run in `root` can have changed `path` or what is below it: runs have the caller's user id, and
    /// every file belongs to root and only root can write it. A run in `/usr/share` leaves Python's files there as
    /// they are. `path` is canonical.
    pub fn is_out_of_reach(&self, root: &Path, path: &Path) -> bool {
        let own = rustix::process::geteuid().as_raw();
        // Runs of root have the workspace's owner. A record of another user tells of runs that had another id.
        let stat = rustix::fs::lstat(root);
        let record = stat.map(|stat| self.file(crate::open::id_of(&stat)));
        let by_other = record.is_ok_and(|record| {
            rustix::fs::lstat(&record).is_ok_and(|record| record.st_uid != own)
        });
        if own == 0 || by_other {
            return false;
        }
        let way = path.ancestors().take_while(|at| at.starts_with(root));
        way.into_iter().all(|at| rustix::fs::lstat(at).is_ok_and(|stat| is_roots_alone(&stat)))
            && all_roots_alone(path, &Budget::new(REACH_ENTRIES_MAX, 0, REACH_MAX))
    }

    /// Notes the directories that a run may write, makes the placeholders, and notes that `key` holds them. Written
    /// down before anything is made. Locks the placeholders' directories and `needed`, whose protected names may be
    /// placeholders of another data directory.
    pub(crate) fn hold(
        &self,
        writable: &[WritableDir],
        needed: &[&WritableDir],
        placeholders: &[Placeholder],
        key: &RunKey,
    ) -> Result<Hold, CallError> {
        let (roots, locks) = (Vec::new(), Vec::new());
        let mut hold = Hold { registry: self.clone(), key: key.clone(), roots, locks };
        let give_up = Instant::now() + REMOVAL_MAX;
        let holds_names = |root: FileId| placeholders.iter().any(|p| p.root_id == root);
        for dir in writable.iter().filter(|dir| !holds_names(dir.id)) {
            if !self.is_recorded_as(dir) {
                self.edit(dir.id, Missing::Make, |record| {
                    let Some(record) = record else { return Edit::Keep };
                    record.set_root(&dir.path);
                    Edit::Write
                })?;
            }
        }
        let mut roots: Vec<&Placeholder> = Vec::new();
        for p in placeholders {
            if !roots.iter().any(|known| known.root_id == p.root_id) {
                roots.push(p);
            }
        }
        for dir in needed.iter().filter(|dir| !holds_names(dir.id)) {
            let root = open_exact(&dir.path, dir.id)?.0;
            hold.lock(&root, dir.id, &dir.path, give_up)?;
        }
        for of in roots {
            let root = open_exact(&of.root, of.root_id)?.0;
            // Before the names: from here on no run of another data directory removes them.
            hold.lock(&root, of.root_id, &of.root, give_up)?;
            let own = || placeholders.iter().filter(|p| p.root_id == of.root_id);
            let edited = self.edit(of.root_id, Missing::Make, |record| {
                let Some(record) = record else { return Edit::Keep };
                record.set_root(&of.root);
                record.runs.retain(RunKey::is_alive);
                record.runs.push(key.clone());
                for p in own() {
                    let path = p.path.as_os_str().as_bytes().to_vec();
                    let name = Name { path, shape: p.shape.into() };
                    if !record.names.contains(&name) {
                        record.names.push(name);
                    }
                }
                Edit::Write
            })?;
            hold.roots.push(of.root_id);
            let mut twin: Option<&Path> = None;
            let _umask = Umask::none();
            for p in own() {
                make(&root, &p.path, p.shape.into(), twin)?;
                if p.shape == PlaceholderShape::Inert {
                    twin = twin.or(Some(&p.path));
                }
            }
            // Held until the names exist: a run that lets go meanwhile must not miss them.
            drop(edited);
        }
        Ok(hold)
    }

    /// Returns true if there is a record of exactly this directory: one of another that had its number is no reason to leave it.
    fn is_recorded_as(&self, dir: &WritableDir) -> bool {
        let text = untrusted::read_file(&self.file(dir.id), RECORD_BYTES_MAX).unwrap_or_default();
        let record: Option<WorkspaceRecord> = parse(&text);
        record.is_some_and(|record| {
            record.away_since.is_none() && record.root == dir.path.as_os_str().as_bytes()
        })
    }

    fn file(&self, root: FileId) -> PathBuf {
        self.dir.join("workspaces").join(name_of_id(root))
    }

    fn links_file(&self, git_dir: FileId) -> PathBuf {
        self.dir.join("git").join(name_of_id(git_dir))
    }

    /// Changes one record under its lock, and returns the lock so that the caller can hold it longer.
    fn edit(
        &self,
        id: FileId,
        missing: Missing,
        change: impl FnOnce(Option<&mut WorkspaceRecord>) -> Edit,
    ) -> Result<Edited, CallError> {
        let path = self.file(id);
        let mut notice = None;
        let (file, mut record) = loop {
            let Some(file) = locked(&path, missing)? else {
                change(None);
                return Ok(Edited { _lock: None, notice });
            };
            let length = file.metadata().named(|| format!("fstat({path:?})"))?.len();
            // With enough capacity, one call reads all of it.
            let room = length.min(RECORD_BYTES_MAX).saturating_add(1);
            let mut text = Vec::with_capacity(usize::try_from(room).unwrap_or_default());
            let mut bounded = std::io::Read::take(&file, RECORD_BYTES_MAX);
            let read = std::io::Read::read_to_end(&mut bounded, &mut text);
            if length == 0 {
                break (file, WorkspaceRecord::new(id));
            }
            let readable = read.is_ok() && length <= RECORD_BYTES_MAX;
            if let Some(record) = parse(&text).filter(|_| readable) {
                break (file, record);
            }
            let aside = path.with_extension("damaged");
            fs::rename(&path, &aside).named(|| format!("rename({path:?})"))?;
            notice = Some(format!(
                "the record `{}` of a workspace was damaged and is set aside as `{}`; empty directories and unix sockets it named may be \
                 left in that workspace",
                path.display(),
                aside.display()
            ));
        };
        match change(Some(&mut record)) {
            Edit::Keep => {}
            Edit::Remove => {
                fs::remove_file(&path).named(|| format!("unlink({path:?})"))?;
            }
            Edit::Write => {
                let text = serde_json::to_vec(&record).unwrap_or_default();
                if text.len() as u64 > RECORD_BYTES_MAX {
                    return Err(CallError::new(
                        format!("write({path:?}): too many names"),
                        Errno::FBIG,
                    ));
                }
                // In place, in one write: a reader takes the first value and ignores the rest that an interrupted
                // truncation leaves.
                file.write_all_at(&text, 0).named(|| format!("write({path:?})"))?;
                file.set_len(text.len() as u64).named(|| format!("ftruncate({path:?})"))?;
            }
        }
        Ok(Edited { _lock: Some(file), notice })
    }
}

/// Opens a record and takes its lock. A file that was removed between the two is opened again.
fn locked(path: &Path, missing: Missing) -> Result<Option<fs::File>, CallError> {
    let give_up = Instant::now() + LOCK_MAX;
    loop {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(missing == Missing::Make).mode(0o600);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
        let file = match options.open(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                if missing == Missing::Leave {
                    return Ok(None);
                }
                let dir = path.parent().unwrap_or(path);
                private_directory(dir).named(|| format!("mkdir({dir:?})"))?;
                continue;
            }
            other => other.named(|| format!("open({path:?})"))?,
        };
        let meta = file.metadata().named(|| format!("fstat({path:?})"))?;
        // If the state directory had to be in /tmp, another user's file could supply any record.
        let ours = meta.is_file()
            && meta.uid() == rustix::process::geteuid().as_raw()
            && meta.mode() & 0o022 == 0;
        if !ours {
            return Err(CallError::new(format!("open({path:?}): not ours alone"), Errno::PERM));
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            other => other.named(|| format!("flock({path:?})"))?,
        }
        let still = fs::symlink_metadata(path).is_ok_and(|now| now.ino() == meta.ino());
        if still {
            return Ok(Some(file));
        }
    }
}

/// Handling of a missing record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Make,
    Leave,
}

/// Outcome of an edit.
enum Edit {
    Write,
    Keep,
    Remove,
}

/// A record that was changed. Dropping it unlocks the record.
struct Edited {
    _lock: Option<fs::File>,
    notice: Option<String>,
}

impl WorkspaceRecord {
    fn new(id: FileId) -> Self {
        let FileId { dev, ino } = id;
        let (names, runs) = (Vec::new(), Vec::new());
        Self { root: Vec::new(), dev, ino, names, runs, born: None, away_since: None }
    }

    /// Notes where the directory is now.
    fn set_root(&mut self, path: &Path) {
        if self.born.is_none() || self.away_since.is_some() {
            self.born = born(path);
            self.away_since = None;
        }
        self.root = path.as_os_str().as_bytes().to_vec();
    }

    fn id(&self) -> FileId {
        FileId { dev: self.dev, ino: self.ino }
    }
}

/// Maximum length of a record's name: two numbers of 16 digits.
const NAME_BYTES_MAX: u64 = 64;

/// Names of up to `SWEEP_MAX` records: those behind `last` by name, then those from the beginning.
fn names_after(dir: &OwnedFd, last: &[u8]) -> Result<Vec<String>, CallError> {
    let (mut behind, mut before) = (BTreeSet::new(), BTreeSet::new());
    let listed = untrusted::list(dir, &Budget::entries(SWEEP_LIST_MAX), |name, _| {
        let Some(name) = name.to_str().filter(|name| id_of_name(name).is_some()) else {
            return std::ops::ControlFlow::Continue(());
        };
        let names = if name.as_bytes() > last { &mut behind } else { &mut before };
        names.insert(name.to_owned());
        if names.len() > SWEEP_MAX {
            names.pop_last();
        }
        std::ops::ControlFlow::Continue(())
    });
    match listed {
        // More records than are listed at once: those that were are swept.
        Err(error) if error.errno != Errno::DQUOT => Err(error),
        _ => Ok(behind.into_iter().chain(before).take(SWEEP_MAX).collect()),
    }
}

/// `DEV-INO.json`, in hexadecimal.
fn name_of_id(id: FileId) -> String {
    format!("{:x}-{:x}.json", id.dev, id.ino)
}

fn id_of_name(name: &str) -> Option<FileId> {
    let (dev, ino) = name.strip_suffix(".json")?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(FileId { dev: number(dev)?, ino: number(ino)? })
}

/// The first value in a text; `None` if a crash of the machine left garbage, in which case its runs are gone too.
fn parse<T: serde::de::DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::Deserializer::from_slice(text).into_iter().next()?.ok()
}

fn private_directory(dir: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn write_new(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)
}

/// Removes `key` and dead runs from a record, and its placeholders if no run is left, here and in other data directories:
/// `lock` is the run's own share of the directory. What is left is removed by a later run or sweep.
fn settle(record: &mut WorkspaceRecord, key: Option<&RunKey>, lock: Option<WorkspaceLock>) -> Edit {
    let n_before = record.runs.len();
    record.runs.retain(|run| Some(run) != key && run.is_alive());
    let changed = record.runs.len() < n_before;
    if !record.runs.is_empty() {
        return if changed { Edit::Write } else { Edit::Keep };
    }
    let path = Path::new(OsStr::from_bytes(&record.root));
    match open_exact(path, record.id()) {
        Ok((root, _)) => {
            record.away_since = None;
            if record.names.is_empty() {
                return Edit::Write;
            }
            let locked =
                lock.map_or_else(|| WorkspaceLock::to_remove(&root), WorkspaceLock::into_removing);
            // Of a directory that cannot be read either: a run that needs the names may have made it so.
            if locked.as_ref().is_err_and(|error| !is_unsupported(error)) {
                return Edit::Write;
            }
            record.names.retain(|name| {
                let path = Path::new(OsStr::from_bytes(&name.path));
                unmake(&root, path, name.shape) == Err(Errno::ACCESS)
            });
        }
        // A run made it inaccessible to its own user, which may be undone; until then keep the record.
        Err(error) if error.errno == Errno::ACCESS => {}
        // Gone, or moved: what runs wrote there is where it is now. Without a birth time it cannot be told from the next
        // directory with its number.
        Err(_) if record.born.is_none() => return Edit::Remove,
        Err(_) => {
            let since = record.away_since.filter(|_| record.names.is_empty());
            if since.is_some_and(|since| now_s().saturating_sub(since) > AWAY_MAX.as_secs()) {
                return Edit::Remove;
            }
            if since.is_some() && !changed {
                return Edit::Keep;
            }
            record.names.clear();
            record.away_since = record.away_since.or(Some(now_s()));
        }
    }
    Edit::Write
}

fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// When a directory was made, where its file system knows it.
fn born(path: &Path) -> Option<Born> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::BTIME).ok()?;
    let has_it = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    has_it.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec))
}

impl Hold {
    /// Releases the names now, for the janitor, which does not run destructors.
    pub(crate) fn release(&mut self) {
        let key = self.key.clone();
        for root in std::mem::take(&mut self.roots) {
            let lock = self.locks.iter_mut().find(|held| held.root == root);
            let lock = lock.and_then(|held| held.lock.take());
            // A record that cannot be updated now is swept later.
            let _ = self.registry.edit(root, Missing::Leave, |record| match record {
                Some(record) => settle(record, Some(&key), lock),
                None => Edit::Keep,
            });
        }
        self.locks.clear();
    }

    /// Locks a directory. A filesystem without such locks, or a process that keeps it locked, is a gap.
    fn lock(
        &mut self,
        dir: &OwnedFd,
        root: FileId,
        path: &Path,
        give_up: Instant,
    ) -> Result<(), CallError> {
        if self.locks.iter().any(|held| held.root == root) {
            return Ok(());
        }
        let (lock, fault) = match WorkspaceLock::share(dir) {
            Ok(lock) => {
                let waited = lock.wait_for_removal(give_up);
                (Some(lock), waited.err())
            }
            Err(error) if is_unsupported(&error) => (None, Some(error)),
            Err(error) => return Err(error),
        };
        let gap = fault.map(|fault| {
            format!(
                "`{}` cannot be locked ({fault}): a Ringfence with another data directory could remove the placeholders of this run, which \
                 could then make protected names",
                path.display()
            )
        });
        self.locks.push(HeldLock { root, lock, gap });
        Ok(())
    }

    /// Descriptors of its locks.
    pub(crate) fn locks(&self) -> impl Iterator<Item = RawFd> {
        self.locks.iter().filter_map(|held| held.lock.as_ref().map(AsRawFd::as_raw_fd))
    }

    /// Protection that is uncertain because a directory could not be locked.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = String> {
        self.locks.iter().filter_map(|held| held.gap.clone())
    }

    /// Returns true if no names are held.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// Makes one placeholder. `twin` is an inert one made just before in the same workspace: a hard link to it is cheaper
/// than a second file.
fn make(root: &OwnedFd, path: &Path, shape: Shape, twin: Option<&Path>) -> Result<(), CallError> {
    let (parent, name) = parent(root, path)?;
    let named = |r: Result<(), Errno>| match r {
        // Another run holds it, or the user made it just now. It exists, which is enough.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        other => other.named(|| format!("create({path:?})")),
    };
    match shape {
        Shape::EmptyDirectory => named(rustix::fs::mkdirat(&parent, name, PLACEHOLDER_MODE)),
        Shape::Inert => {
            let linked =
                twin.map(|twin| rustix::fs::linkat(root, twin, &parent, name, AtFlags::empty()));
            match linked {
                Some(Ok(())) => Ok(()),
                // No twin, or it is gone again, or this filesystem has no second names.
                _ => named(rustix::fs::mknodat(
                    &parent,
                    name,
                    FileType::Socket,
                    Mode::from_raw_mode(0o600),
                    0,
                )),
            }
        }
        Shape::EmptyFile | Shape::Dot => {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&parent, name, flags, PLACEHOLDER_FILE_MODE) {
                Err(errno) => named(Err(errno)),
                Ok(file) if shape.text().is_empty() => {
                    drop(file);
                    Ok(())
                }
                Ok(file) => rustix::io::write(&file, shape.text())
                    .map(|_| ())
                    .named(|| format!("write({path:?})")),
            }
        }
    }
}

/// Mode of a directory that holds a name. It is known again by its sticky bit, which mkdir(1) does not set; the other bits
/// follow the directory it is in (`setgid`, a default ACL).
const PLACEHOLDER_MODE: Mode = Mode::RWXU.union(Mode::from_bits_retain(0o1055));

/// Mode of a file that holds a name, with the same mark.
const PLACEHOLDER_FILE_MODE: Mode = Mode::from_bits_retain(0o1644);

/// Filesystems that keep no sticky bit.
const WITHOUT_STICKY_BIT: &[(&str, FsWord)] = &[
    ("FAT", 0x4d44),
    ("exFAT", 0x2011_bab0),
    ("NTFS, driver ntfs", 0x5346_544e),
    ("NTFS, driver ntfs3", 0x7366_746e),
    ("SMB 1", 0x517b),
    ("CIFS", 0xff53_4d42),
    ("SMB 2 and 3", 0xfe53_4d42),
    ("9p, drives of Windows in WSL", 0x0102_1997),
    ("FUSE, NTFS by ntfs-3g among others", 0x6573_5546),
    ("vboxsf", 0x786f_4256),
];

fn keeps_sticky_bit(dir: &Parent<'_>) -> bool {
    !is_on(dir, WITHOUT_STICKY_BIT)
}

/// Clears the umask, which is the process's: it holds names for a run, and has one thread. Dropping it brings the umask
/// back.
struct Umask(Mode);

impl Umask {
    fn none() -> Self {
        Self(rustix::process::umask(Mode::empty()))
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        rustix::process::umask(self.0);
    }
}

/// Removes a placeholder if it still looks like one; a file that replaced it belongs to the user.
fn unmake(root: &OwnedFd, path: &Path, shape: Shape) -> Result<(), Errno> {
    let (parent, name) = parent(root, path).map_err(|error| error.errno)?;
    let still = match shape {
        Shape::EmptyDirectory | Shape::Inert => {
            let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
            let is_marked = is_ours && Mode::from(stat.st_mode).contains(Mode::SVTX);
            match FileType::from_raw_mode(stat.st_mode) {
                // One that the user filled meanwhile is not empty, and stays.
                FileType::Directory if is_marked || !keeps_sticky_bit(&parent) => {
                    return rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
                }
                FileType::Socket => is_ours,
                _ => false,
            }
        }
        Shape::EmptyFile | Shape::Dot => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
            let mut text = [0u8; 8];
            let stat = rustix::fs::fstat(&file)?;
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && rustix::io::read(&file, &mut text).is_ok_and(|n| &text[..n] == shape.text())
        }
    };
    if still { rustix::fs::unlinkat(&parent, name, AtFlags::empty()) } else { Ok(()) }
}

/// The directory that a placeholder is in.
enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Beneath(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Beneath(dir) => dir.as_fd(),
        }
    }
}

fn parent<'a>(root: &'a OwnedFd, path: &'a Path) -> Result<(Parent<'a>, &'a Path), CallError> {
    let name = path.file_name().map(Path::new);
    let name = name.ok_or_else(|| CallError::new(format!("placeholder {path:?}"), Errno::INVAL))?;
    let parent = match path.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) => Parent::Beneath(open_beneath(root, above)?),
        None => Parent::Root(root.as_fd()),
    };
    Ok((parent, name))
}

/// Bounds of a check whether a run could have changed a directory tree. Python's own library has some 2,000 entries.
const REACH_ENTRIES_MAX: u32 = 50_000;
const REACH_MAX: Duration = Duration::from_secs(10);

/// Returns true if a file belongs to root and only root can write it. The group's bits cover access lists: acl(5).
fn is_roots_alone(stat: &rustix::fs::Stat) -> bool {
    let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    stat.st_uid == 0 && (is_link || stat.st_mode & 0o022 == 0)
}

/// The same for everything below `path`, which may be a file. False if the budget is spent or a directory cannot be listed.
fn all_roots_alone(path: &Path, budget: &Budget) -> bool {
    let mut pending = vec![path.to_owned()];
    while let Some(at) = pending.pop() {
        let Ok(opened) = untrusted::open_absolute(&at) else { return false };
        let Ok(stat) = rustix::fs::fstat(&opened) else { return false };
        if !is_roots_alone(&stat) {
            return false;
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            continue;
        }
        let Ok(dir) = untrusted::open_directory_beneath(&opened, Path::new(".")) else {
            return false;
        };
        let mut all = true;
        let listed = untrusted::list(&dir, budget, |name, _| {
            let stat = untrusted::stat_at(&dir, name);
            all &= stat.is_some_and(|stat| {
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    pending.push(at.join(name));
                }
                is_roots_alone(&stat)
            });
            if all { std::ops::ControlFlow::Continue(()) } else { std::ops::ControlFlow::Break(()) }
        });
        if listed.is_err() || !all {
            return false;
        }
    }
    true
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;

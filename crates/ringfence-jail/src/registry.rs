//! Names held in workspaces while runs last, counted on disk, so that two runs in one workspace can share them
//! and whoever comes last, or next, takes them away. One book per workspace, one lock for all books.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_plan::{FileId, Placeholder, PlaceholderShape};
use ringfence_sys::{CallError, Named};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::open::{exists_at, open_beneath, open_exact};

/// A book larger than this is not ours.
const BOOK_BYTES_MAX: u64 = 1 << 20;

/// Where the books are.
#[derive(Clone, Debug)]
pub struct Registry {
    dir: PathBuf,
}

/// Which run holds something: a supervisor's pid, when it started, and a number of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunKey {
    pid: i32,
    start_ticks: u64,
    run: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Book {
    /// Bytes of the path, which need not be text.
    root: Vec<u8>,
    dev: u64,
    ino: u64,
    names: Vec<Name>,
    runs: Vec<RunKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Name {
    path: Vec<u8>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    Directory,
    EmptyFile,
    Dot,
}

impl From<PlaceholderShape> for Shape {
    fn from(shape: PlaceholderShape) -> Self {
        match shape {
            PlaceholderShape::Directory => Self::Directory,
            PlaceholderShape::EmptyFile => Self::EmptyFile,
            PlaceholderShape::Dot => Self::Dot,
        }
    }
}

impl Shape {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Directory | Self::EmptyFile => b"",
            Self::Dot => b".\n",
        }
    }
}

/// Names held for one run. Dropping it lets them go.
#[derive(Debug)]
pub(crate) struct Hold {
    registry: Registry,
    key: RunKey,
    roots: Vec<FileId>,
}

impl RunKey {
    /// This process's key for the run `run`.
    pub(crate) fn of_this_process(run: &str) -> Self {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self { pid, start_ticks: start_ticks(pid).unwrap_or(0), run: run.to_owned() }
    }

    fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

impl Registry {
    /// Books below the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("placeholders") }
    }

    /// Names of `root` that are placeholders now, though a survey would find them present.
    pub(crate) fn held(&self, root: FileId) -> BTreeSet<PathBuf> {
        let book = self.read(root).unwrap_or_default();
        book.into_iter()
            .flat_map(|book| book.names)
            .map(|name| PathBuf::from(OsStr::from_bytes(&name.path)))
            .collect()
    }

    /// Takes away what dead runs left.
    pub fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let ids: Vec<FileId> =
            entries.flatten().filter_map(|e| parse_name(&e.file_name())).collect();
        if ids.is_empty() {
            return;
        }
        let Ok(_lock) = self.lock() else { return };
        for id in ids {
            // A book that cannot be read now is tried again at the next start.
            let _ = self.settle(id, None);
        }
    }

    /// Makes the placeholders and notes that `key` holds them. Written down before anything is made.
    pub(crate) fn hold(
        &self,
        placeholders: &[Placeholder],
        key: RunKey,
    ) -> Result<Hold, CallError> {
        let mut hold = Hold { registry: self.clone(), key: key.clone(), roots: Vec::new() };
        if placeholders.is_empty() {
            return Ok(hold);
        }
        let _lock = self.lock()?;
        let ids: BTreeSet<(u64, u64)> =
            placeholders.iter().map(|p| (p.root_id.dev, p.root_id.ino)).collect();
        for (dev, ino) in ids {
            let id = FileId { dev, ino };
            let ours: Vec<&Placeholder> = placeholders.iter().filter(|p| p.root_id == id).collect();
            let root = open_exact(&ours[0].root, id)?;
            let mut book = self.read(id)?.unwrap_or_else(|| Book {
                root: ours[0].root.as_os_str().as_bytes().to_vec(),
                dev,
                ino,
                names: Vec::new(),
                runs: Vec::new(),
            });
            book.runs.retain(RunKey::is_alive);
            book.runs.push(key.clone());
            for p in &ours {
                let path = p.path.as_os_str().as_bytes().to_vec();
                let name = Name { path, shape: p.shape.into() };
                if !book.names.contains(&name) {
                    book.names.push(name);
                }
            }
            self.write(&book)?;
            hold.roots.push(id);
            for p in ours {
                make(&root, &p.path, p.shape.into())?;
            }
        }
        Ok(hold)
    }

    /// Strikes `key` and the dead from a book; removes the placeholders when nobody is left.
    fn settle(&self, id: FileId, key: Option<&RunKey>) -> Result<(), CallError> {
        let Some(mut book) = self.read(id)? else { return Ok(()) };
        book.runs.retain(|run| Some(run) != key && run.is_alive());
        if !book.runs.is_empty() {
            return self.write(&book);
        }
        let path = Path::new(OsStr::from_bytes(&book.root));
        // A workspace that is gone or was exchanged holds nothing of ours any more.
        if let Ok(root) = open_exact(path, id) {
            for name in &book.names {
                unmake(&root, Path::new(OsStr::from_bytes(&name.path)), name.shape);
            }
        }
        let file = self.file(id);
        fs::remove_file(&file).named(|| format!("unlink({file:?})"))
    }

    fn lock(&self) -> Result<OwnedFd, CallError> {
        let dir = &self.dir;
        if !dir.is_dir() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .named(|| format!("mkdir({dir:?})"))?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty()).named(|| format!("open({dir:?})"))?;
        let stat = rustix::fs::fstat(&fd).named(|| "fstat")?;
        // Somebody else's directory could feed us any book.
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return Err(CallError::new(format!("open({dir:?}): not ours alone"), Errno::PERM));
        }
        rustix::io::retry_on_intr(|| rustix::fs::flock(&fd, FlockOperation::LockExclusive))
            .named(|| format!("flock({dir:?})"))?;
        Ok(fd)
    }

    fn file(&self, id: FileId) -> PathBuf {
        self.dir.join(format!("{:x}-{:x}.json", id.dev, id.ino))
    }

    fn read(&self, id: FileId) -> Result<Option<Book>, CallError> {
        let file = self.file(id);
        let text = match fs::metadata(&file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).named(|| format!("stat({file:?})")),
            Ok(meta)
                if meta.len() > BOOK_BYTES_MAX
                    || meta.uid() != rustix::process::geteuid().as_raw() =>
            {
                return Err(CallError::new(
                    format!("open({file:?}): not a book of ours"),
                    Errno::PERM,
                ));
            }
            Ok(_) => fs::read(&file).named(|| format!("read({file:?})"))?,
        };
        // A book that does not parse was cut short by a crash of the machine: its run is gone with it.
        Ok(serde_json::from_slice(&text).ok())
    }

    fn write(&self, book: &Book) -> Result<(), CallError> {
        let file = self.file(FileId { dev: book.dev, ino: book.ino });
        let fresh = file.with_extension("new");
        let text = serde_json::to_vec(book).unwrap_or_default();
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut out = options.open(&fresh).named(|| format!("open({fresh:?})"))?;
        std::io::Write::write_all(&mut out, &text).named(|| format!("write({fresh:?})"))?;
        fs::rename(&fresh, &file).named(|| format!("rename({fresh:?}, {file:?})"))
    }
}

impl Hold {
    /// Lets go now, for the janitor, which has no destructor to rely on.
    pub(crate) fn release(&mut self) {
        if self.roots.is_empty() {
            return;
        }
        let Ok(_lock) = self.registry.lock() else { return };
        for id in self.roots.drain(..) {
            // What cannot be settled now is swept at the next start.
            let _ = self.registry.settle(id, Some(&self.key));
        }
    }

    /// Whether there is anything to let go of.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

fn make(root: &OwnedFd, path: &Path, shape: Shape) -> Result<(), CallError> {
    let (parent, name) = parent(root, path)?;
    let named = |r: Result<(), Errno>| match r {
        // Another run holds it, or the user made it a moment ago: it is there, which is what matters.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        other => other.named(|| format!("create({path:?})")),
    };
    match shape {
        Shape::Directory => named(rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))),
        Shape::EmptyFile | Shape::Dot => {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644)) {
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

/// Removes a placeholder if it still looks like one; whatever somebody made of it is theirs.
fn unmake(root: &OwnedFd, path: &Path, shape: Shape) {
    let Ok((parent, name)) = parent(root, path) else { return };
    match shape {
        // rmdir refuses a directory that is not empty.
        Shape::Directory => {
            let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
        }
        Shape::EmptyFile | Shape::Dot => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(&parent, name, flags, Mode::empty()) else { return };
            let mut text = [0u8; 8];
            let regular = rustix::fs::fstat(&file).is_ok_and(|s| {
                rustix::fs::FileType::from_raw_mode(s.st_mode) == rustix::fs::FileType::RegularFile
            });
            if regular
                && rustix::io::read(&file, &mut text).is_ok_and(|n| &text[..n] == shape.text())
            {
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::empty());
            }
        }
    }
}

fn parent<'a>(root: &OwnedFd, path: &'a Path) -> Result<(OwnedFd, &'a Path), CallError> {
    let name = path.file_name().map(Path::new);
    let name = name.ok_or_else(|| CallError::new(format!("placeholder {path:?}"), Errno::INVAL))?;
    let above = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((open_beneath(root, above)?, name))
}

fn parse_name(name: &OsStr) -> Option<FileId> {
    let (dev, ino) = name.to_str()?.strip_suffix(".json")?.split_once('-')?;
    Some(FileId {
        dev: u64::from_str_radix(dev, 16).ok()?,
        ino: u64::from_str_radix(ino, 16).ok()?,
    })
}

/// When a process started, in clock ticks since boot; with its pid this names it for ever.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Removes a directory tree of a run's, also where it took away its own permissions. Never follows a link.
pub(crate) fn remove_tree(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if fs::remove_dir_all(dir).is_ok() {
        return;
    }
    let mut pending = vec![dir.to_owned()];
    while let Some(path) = pending.pop() {
        // Only directories are opened up, and an entry's own type says which are: a link is not one.
        let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o700));
        let Ok(entries) = fs::read_dir(&path) else { continue };
        let directories = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        pending.extend(directories.map(|e| e.path()));
    }
    // What is left now belongs to somebody else.
    let _ = fs::remove_dir_all(dir);
}

/// Whether `name` exists in `root`, for reports after a run.
pub(crate) fn appeared(root: &Path, name: &str) -> bool {
    rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .is_ok_and(|dir| exists_at(dir.as_fd(), Path::new(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{file_id, open_canonical};

    struct Fixture {
        _dir: tempfile::TempDir,
        root: PathBuf,
        registry: Registry,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir(&root).unwrap();
        let registry = Registry::new(&dir.path().join("state"));
        Fixture { _dir: dir, root, registry }
    }

    fn placeholder(root: &Path, name: &str, shape: PlaceholderShape) -> Placeholder {
        let root_id = file_id(open_canonical(root).unwrap()).unwrap();
        Placeholder { root: root.to_owned(), root_id, path: name.into(), shape }
    }

    #[test]
    fn a_placeholder_stays_until_the_last_run_lets_go() {
        let f = fixture();
        let wanted = [placeholder(&f.root, ".mcp.json", PlaceholderShape::Directory)];
        let first = f.registry.hold(&wanted, RunKey::of_this_process("1")).unwrap();
        let second = f.registry.hold(&wanted, RunKey::of_this_process("2")).unwrap();
        assert!(f.registry.held(wanted[0].root_id).contains(Path::new(".mcp.json")));
        drop(first);
        assert!(f.root.join(".mcp.json").is_dir());
        drop(second);
        assert!(!f.root.join(".mcp.json").exists());
        assert!(f.registry.held(wanted[0].root_id).is_empty());
    }

    #[test]
    fn what_somebody_made_of_a_placeholder_is_theirs() {
        let f = fixture();
        let wanted = [
            placeholder(&f.root, ".claude", PlaceholderShape::Directory),
            placeholder(&f.root, "config.worktree", PlaceholderShape::EmptyFile),
        ];
        let hold = f.registry.hold(&wanted, RunKey::of_this_process("1")).unwrap();
        fs::write(f.root.join(".claude/settings.json"), "{}").unwrap();
        fs::write(f.root.join("config.worktree"), "[core]").unwrap();
        drop(hold);
        assert!(f.root.join(".claude/settings.json").exists());
        assert!(f.root.join("config.worktree").exists());
    }

    #[test]
    fn the_next_start_sweeps_what_a_dead_run_left() {
        let f = fixture();
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Directory)];
        let dead = RunKey { pid: 1, start_ticks: u64::MAX, run: "dead".into() };
        std::mem::forget(f.registry.hold(&wanted, dead).unwrap());
        assert!(f.root.join(".vscode").exists());
        f.registry.sweep();
        assert!(!f.root.join(".vscode").exists());
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let f = fixture();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), f.root.join("git")).unwrap();
        let wanted = [placeholder(&f.root, "git/hooks", PlaceholderShape::Directory)];
        assert!(f.registry.hold(&wanted, RunKey::of_this_process("1")).is_err());
        assert!(!outside.path().join("hooks").exists());
    }

    #[test]
    fn a_book_that_is_nonsense_is_no_book() {
        let f = fixture();
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Directory)];
        drop(f.registry.hold(&wanted, RunKey::of_this_process("1")).unwrap());
        fs::write(f.registry.file(wanted[0].root_id), "{not json").unwrap();
        assert!(f.registry.held(wanted[0].root_id).is_empty());
    }
}

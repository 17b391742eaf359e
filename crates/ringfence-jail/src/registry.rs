//! Names held in workspaces while runs last, counted on disk, so that two runs in one workspace can share them
//! and whoever comes last, or next, takes them away. One book for each workspace, one file and one lock for all.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_plan::{FileId, Placeholder, PlaceholderShape};
use ringfence_sys::{CallError, Named};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::open::{exists_at, open_beneath, open_exact};

/// Books larger than this are not ours.
const BOOKS_BYTES_MAX: u64 = 4 << 20;

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
    Inert,
    EmptyFile,
    Dot,
}

impl From<PlaceholderShape> for Shape {
    fn from(shape: PlaceholderShape) -> Self {
        match shape {
            PlaceholderShape::Inert => Self::Inert,
            PlaceholderShape::EmptyFile => Self::EmptyFile,
            PlaceholderShape::Dot => Self::Dot,
        }
    }
}

impl Shape {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Inert | Self::EmptyFile => b"",
            Self::Dot => b".\n",
        }
    }
}

/// Names held for one run. Dropping it lets them go.
#[derive(Debug)]
pub(crate) struct Hold {
    registry: Registry,
    key: RunKey,
    holds: bool,
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
    /// The books in the state directory `state`.
    pub fn new(state: &Path) -> Self {
        Self { dir: state.to_owned() }
    }

    /// Names of `root` that are placeholders now, though a survey would find them present.
    pub(crate) fn held(&self, root: FileId) -> BTreeSet<PathBuf> {
        let mut options = fs::OpenOptions::new();
        // Where the state directory had to be in /tmp, somebody else may have put a link or a FIFO there.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
        let Ok(file) = options.open(self.file()) else { return BTreeSet::new() };
        let ours = |meta: &fs::Metadata| {
            meta.is_file() && meta.uid() == rustix::process::geteuid().as_raw()
        };
        let Some(meta) = file.metadata().ok().filter(ours) else { return BTreeSet::new() };
        let books = read(&file, &meta).unwrap_or_default();
        let book = books.into_iter().find(|book| book.id() == root);
        book.into_iter()
            .flat_map(|book| book.names)
            .map(|name| PathBuf::from(OsStr::from_bytes(&name.path)))
            .collect()
    }

    /// Takes away what dead runs left.
    pub fn sweep(&self) {
        // Almost always there is nothing: no file, or an empty one.
        if fs::metadata(self.file()).is_ok_and(|meta| meta.len() > 0) {
            // What cannot be read or written now is tried again at the next start.
            let _ = self.edit(|books| books.retain_mut(|book| !settle(book, None)));
        }
    }

    /// Makes the placeholders and notes that `key` holds them. Written down before anything is made.
    pub(crate) fn hold(
        &self,
        placeholders: &[Placeholder],
        key: &RunKey,
    ) -> Result<Hold, CallError> {
        let mut hold = Hold { registry: self.clone(), key: key.clone(), holds: false };
        if placeholders.is_empty() {
            return Ok(hold);
        }
        let mut roots: Vec<(OwnedFd, &Placeholder)> = Vec::new();
        for p in placeholders {
            if !roots.iter().any(|(_, known)| known.root_id == p.root_id) {
                roots.push((open_exact(&p.root, p.root_id)?.0, p));
            }
        }
        let lock = self.edit(|books| {
            for (_, of) in &roots {
                let at = books.iter().position(|book| book.id() == of.root_id);
                let at = at.unwrap_or_else(|| {
                    books.push(Book::new(&of.root, of.root_id));
                    books.len() - 1
                });
                let book = &mut books[at];
                book.runs.retain(RunKey::is_alive);
                book.runs.push(key.clone());
                for p in placeholders.iter().filter(|p| p.root_id == of.root_id) {
                    let path = p.path.as_os_str().as_bytes().to_vec();
                    let name = Name { path, shape: p.shape.into() };
                    if !book.names.contains(&name) {
                        book.names.push(name);
                    }
                }
            }
        })?;
        hold.holds = true;
        for (root, of) in &roots {
            let mut twin: Option<&Path> = None;
            for p in placeholders.iter().filter(|p| p.root_id == of.root_id) {
                make(root, &p.path, p.shape.into(), twin)?;
                if p.shape == PlaceholderShape::Inert {
                    twin = twin.or(Some(&p.path));
                }
            }
        }
        // Held until the names exist: a run that lets go meanwhile must not miss them.
        drop(lock);
        Ok(hold)
    }

    fn file(&self) -> PathBuf {
        self.dir.join("placeholders.json")
    }

    /// Changes the books under their lock, which is returned so that the caller can keep it a little longer.
    fn edit(&self, change: impl FnOnce(&mut Vec<Book>)) -> Result<fs::File, CallError> {
        let path = self.file();
        if !self.dir.is_dir() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&self.dir)
                .named(|| format!("mkdir({:?})", self.dir))?;
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0));
        let file = options.open(&path).named(|| format!("open({path:?})"))?;
        let meta = file.metadata().named(|| format!("fstat({path:?})"))?;
        // Somebody else's file could feed us any book.
        let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
        if !ours || meta.len() > BOOKS_BYTES_MAX {
            return Err(CallError::new(format!("open({path:?}): not ours alone"), Errno::PERM));
        }
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))
            .named(|| format!("flock({path:?})"))?;
        let mut books = read(&file, &meta).unwrap_or_default();
        change(&mut books);
        let text = if books.is_empty() {
            Vec::new()
        } else {
            serde_json::to_vec(&books).unwrap_or_default()
        };
        // In place and at once: a reader takes the first value and ignores what an interrupted cut leaves behind it.
        file.write_all_at(&text, 0).named(|| format!("write({path:?})"))?;
        file.set_len(text.len() as u64).named(|| format!("ftruncate({path:?})"))?;
        Ok(file)
    }
}

impl Book {
    fn new(root: &Path, id: FileId) -> Self {
        let root = root.as_os_str().as_bytes().to_vec();
        Self { root, dev: id.dev, ino: id.ino, names: Vec::new(), runs: Vec::new() }
    }

    fn id(&self) -> FileId {
        FileId { dev: self.dev, ino: self.ino }
    }
}

/// The books in a file, which was about as long as `meta` says. Nonsense, left by a crash of the machine, is no book: its
/// runs are gone with it.
fn read(file: &fs::File, meta: &fs::Metadata) -> Option<Vec<Book>> {
    let length = meta.len().min(BOOKS_BYTES_MAX);
    // One more, so that the read that finds the end needs no larger buffer.
    let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    std::io::Read::read_to_end(&mut std::io::Read::take(file, BOOKS_BYTES_MAX), &mut text).ok()?;
    serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
}

/// Strikes `key` and the dead from a book, and removes its placeholders when nobody is left. Whether it is closed.
fn settle(book: &mut Book, key: Option<&RunKey>) -> bool {
    book.runs.retain(|run| Some(run) != key && run.is_alive());
    if !book.runs.is_empty() {
        return false;
    }
    let path = Path::new(OsStr::from_bytes(&book.root));
    match open_exact(path, book.id()) {
        Ok((root, _)) => book.names.retain(|name| {
            let path = Path::new(OsStr::from_bytes(&name.path));
            unmake(&root, path, name.shape) == Err(Errno::ACCESS)
        }),
        // What a run shut against its own user may be opened again; until then the book remembers.
        Err(error) if error.errno == Errno::ACCESS => {}
        // A workspace that is gone or was exchanged holds nothing of ours any more.
        Err(_) => book.names.clear(),
    }
    book.names.is_empty()
}

impl Hold {
    /// Lets go now, for the janitor, which has no destructor to rely on.
    pub(crate) fn release(&mut self) {
        if std::mem::take(&mut self.holds) {
            let key = self.key.clone();
            let mine = |book: &Book| book.runs.contains(&key);
            // What cannot be settled now is swept at the next start.
            let _ = self.registry.edit(|books| {
                books.retain_mut(|book| !(mine(book) && settle(book, Some(&key))));
            });
        }
    }

    /// Whether there is anything to let go of.
    pub(crate) fn is_empty(&self) -> bool {
        !self.holds
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// Makes one placeholder. `twin` is an inert one made a moment ago in the same workspace: a second name for it costs
/// less than a second file.
fn make(root: &OwnedFd, path: &Path, shape: Shape, twin: Option<&Path>) -> Result<(), CallError> {
    let (parent, name) = parent(root, path)?;
    let named = |r: Result<(), Errno>| match r {
        // Another run holds it, or the user made it a moment ago: it is there, which is what matters.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        other => other.named(|| format!("create({path:?})")),
    };
    match shape {
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
fn unmake(root: &OwnedFd, path: &Path, shape: Shape) -> Result<(), Errno> {
    let (parent, name) = parent(root, path).map_err(|error| error.errno)?;
    let still = match shape {
        Shape::Inert => {
            let ours = rustix::process::geteuid().as_raw();
            let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_uid == ours
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

/// When a process started, in clock ticks since boot; with its pid this names it for ever.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = crate::survey::small_file(format!("/proc/{pid}/stat")).ok()?;
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
        let wanted = [placeholder(&f.root, ".mcp.json", PlaceholderShape::Inert)];
        let first = f.registry.hold(&wanted, &RunKey::of_this_process("1")).unwrap();
        let second = f.registry.hold(&wanted, &RunKey::of_this_process("2")).unwrap();
        assert!(f.registry.held(wanted[0].root_id).contains(Path::new(".mcp.json")));
        drop(first);
        assert!(f.root.join(".mcp.json").exists());
        drop(second);
        assert!(!f.root.join(".mcp.json").exists());
        assert!(f.registry.held(wanted[0].root_id).is_empty());
    }

    #[test]
    fn what_somebody_made_of_a_placeholder_is_theirs() {
        let f = fixture();
        let wanted = [
            placeholder(&f.root, ".claude", PlaceholderShape::Inert),
            placeholder(&f.root, "config.worktree", PlaceholderShape::EmptyFile),
        ];
        let hold = f.registry.hold(&wanted, &RunKey::of_this_process("1")).unwrap();
        fs::remove_file(f.root.join(".claude")).unwrap();
        fs::create_dir(f.root.join(".claude")).unwrap();
        fs::write(f.root.join("config.worktree"), "[core]").unwrap();
        drop(hold);
        assert!(f.root.join(".claude").is_dir());
        assert!(f.root.join("config.worktree").exists());
    }

    #[test]
    fn the_next_start_sweeps_what_a_dead_run_left() {
        let f = fixture();
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
        let dead = RunKey { pid: 1, start_ticks: u64::MAX, run: "dead".into() };
        std::mem::forget(f.registry.hold(&wanted, &dead).unwrap());
        assert!(f.root.join(".vscode").exists());
        f.registry.sweep();
        assert!(!f.root.join(".vscode").exists());
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let f = fixture();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), f.root.join("git")).unwrap();
        let wanted = [placeholder(&f.root, "git/hooks", PlaceholderShape::Inert)];
        assert!(f.registry.hold(&wanted, &RunKey::of_this_process("1")).is_err());
        assert!(!outside.path().join("hooks").exists());
    }

    #[test]
    fn a_book_that_is_nonsense_is_no_book() {
        let f = fixture();
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
        drop(f.registry.hold(&wanted, &RunKey::of_this_process("1")).unwrap());
        fs::write(f.registry.file(), "{not json").unwrap();
        assert!(f.registry.held(wanted[0].root_id).is_empty());
        assert!(f.registry.hold(&wanted, &RunKey::of_this_process("2")).is_ok());
    }

    #[test]
    fn a_book_with_an_interrupted_cut_behind_it_is_still_read() {
        let f = fixture();
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
        let hold = f.registry.hold(&wanted, &RunKey::of_this_process("1")).unwrap();
        let text = fs::read_to_string(f.registry.file()).unwrap();
        fs::write(f.registry.file(), format!("{text}ons\":[1,2]}}]")).unwrap();
        assert!(f.registry.held(wanted[0].root_id).contains(Path::new(".vscode")));
        drop(hold);
        assert!(!f.root.join(".vscode").exists());
    }

    #[test]
    fn a_file_that_others_can_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let f = fixture();
        let wanted = [placeholder(&f.root, ".vscode", PlaceholderShape::Inert)];
        drop(f.registry.hold(&wanted, &RunKey::of_this_process("1")).unwrap());
        fs::set_permissions(f.registry.file(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(f.registry.hold(&wanted, &RunKey::of_this_process("2")).is_err());
    }
}

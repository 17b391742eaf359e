//! Removes trees that runs wrote: by descriptor, without links, at any depth, within a budget.
//!
//! A run decides how deep and wide its tree is, and may still change it. So the stack of open directories and the names
//! listed at once are bounded, and no path is used below the tree's parent.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom};
use rustix::io::Errno;

use crate::{Budget, CallError, Named as _};

/// Maximum number of directories held open. Deeper ones are first moved up into the tree's top directory.
const HELD_MAX: usize = 64;

/// Bytes of entries that are listed at once, in each of the directories held open.
const LIST_BYTES: usize = 32 << 10;

/// Removes the entry at `path`, a directory with everything below it. Links on the way to its parent are followed,
/// because a caller's own paths may have some; the entry itself may be one, and is then removed as itself. What the
/// budget does not allow stays for another attempt.
pub fn remove_tree(path: &Path, budget: &Budget) -> Result<(), CallError> {
    let named = || format!("remove({path:?})");
    let name = path.file_name().ok_or(Errno::INVAL).named(named)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty());
    remove_at(parent.named(named)?, name, budget, &mut 0)
}

/// Removes the entry `name` of the directory `parent`, a directory with everything below it, and counts what it
/// removed, also when it fails. Goes on behind entries that cannot be removed, and returns the first of their errors.
pub fn remove_at(
    parent: impl AsFd,
    name: &OsStr,
    budget: &Budget,
    n_removed: &mut u64,
) -> Result<(), CallError> {
    let parent = parent.as_fd();
    if !unlink(parent, name, n_removed).named(|| format!("unlinkat({name:?})"))? {
        return Ok(());
    }
    let top = enter(parent, name).named(|| format!("openat({name:?})"))?;
    let mut removal = Removal { budget, n_removed, first_error: None };
    removal.empty(top)?;
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => *removal.n_removed += 1,
        Err(Errno::NOENT) => {}
        Err(errno) => {
            let own = || CallError::new(format!("rmdir({name:?})"), errno);
            return Err(removal.first_error.unwrap_or_else(own));
        }
    }
    Ok(())
}

struct Removal<'a> {
    budget: &'a Budget,
    n_removed: &'a mut u64,
    first_error: Option<CallError>,
}

/// A directory that is being emptied.
struct Level {
    dir: OwnedFd,
    /// Its name in the directory above.
    name: OsString,
    /// Names that were listed and not looked at yet.
    names: Vec<OsString>,
    /// True if its entries changed since it was read from its beginning: the listing may then have missed some.
    changed: bool,
}

impl Removal<'_> {
    /// Empties a directory as far as possible. Fails only if the budget is spent.
    fn empty(&mut self, top: OwnedFd) -> Result<(), CallError> {
        let mut levels = vec![Level::new(top, OsString::new())];
        let mut buffer = Vec::with_capacity(LIST_BYTES);
        while let Some(level) = levels.last_mut() {
            self.budget.spend_entry()?;
            if let Some(name) = level.names.pop() {
                self.remove_entry(&mut levels, &name);
                continue;
            }
            match list_some(&level.dir, &mut buffer) {
                Ok(names) => level.names = names,
                Err(errno) => self.keep_error(&level.name, errno),
            }
            if level.names.is_empty() {
                self.finish_level(&mut levels);
            }
        }
        Ok(())
    }

    /// Removes an entry of the last level, or makes it the next level if it is a directory.
    fn remove_entry(&mut self, levels: &mut Vec<Level>, name: &OsStr) {
        let n_levels = levels.len();
        let Some(level) = levels.last_mut() else { return };
        let is_directory = unlink(level.dir.as_fd(), name, self.n_removed);
        let done = match is_directory {
            Ok(false) => {
                level.changed = true;
                return;
            }
            Ok(true) if n_levels < HELD_MAX => enter(level.dir.as_fd(), name)
                .map(|dir| levels.push(Level::new(dir, name.to_owned()))),
            Ok(true) => move_up(levels, name),
            Err(errno) => Err(errno),
        };
        match done {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => self.keep_error(name, errno),
        }
    }

    /// Removes the directory of the last level, whose listing is at its end, or lists it again if that may help.
    fn finish_level(&mut self, levels: &mut Vec<Level>) {
        let Some(mut level) = levels.pop() else { return };
        let Some(above) = levels.last_mut() else {
            // The top: its caller removes it.
            if level.changed && self.rewind(&mut level) {
                levels.push(level);
            }
            return;
        };
        match rustix::fs::unlinkat(&above.dir, &level.name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                *self.n_removed += 1;
                above.changed = true;
            }
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if level.changed => {
                if self.rewind(&mut level) {
                    levels.push(level);
                }
            }
            Err(errno) => self.keep_error(&level.name, errno),
        }
    }

    fn rewind(&mut self, level: &mut Level) -> bool {
        level.changed = false;
        let sought = rustix::fs::seek(&level.dir, SeekFrom::Start(0));
        sought.inspect_err(|errno| self.keep_error(&level.name, *errno)).is_ok()
    }

    fn keep_error(&mut self, name: &OsStr, errno: Errno) {
        self.first_error.get_or_insert_with(|| CallError::new(format!("remove({name:?})"), errno));
    }
}

impl Level {
    fn new(dir: OwnedFd, name: OsString) -> Self {
        Self { dir, name, names: Vec::new(), changed: false }
    }
}

/// Removes an entry that is not a directory. Returns true if it is one.
fn unlink(dir: BorrowedFd<'_>, name: &OsStr, n_removed: &mut u64) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) => {
            *n_removed += 1;
            Ok(false)
        }
        Err(Errno::ISDIR) => Ok(true),
        // POSIX for a directory; else the kernel refuses to remove the file.
        Err(Errno::PERM) if is_directory(dir, name) => Ok(true),
        Err(errno) => Err(errno),
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &OsStr) -> bool {
    crate::untrusted::stat_at(dir, name)
        .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Moves a directory of the last level into the first one.
fn move_up(levels: &mut [Level], name: &OsStr) -> Result<(), Errno> {
    let [top, .., level] = levels else { return Err(Errno::INVAL) };
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let free = format!(".ringfence-removed-{:032x}", u128::from_ne_bytes(random));
    let mut moved = rustix::fs::renameat(&level.dir, name, &top.dir, &free);
    if moved == Err(Errno::ACCESS) {
        // rename(2) writes `..` into a directory that gets another parent.
        drop(enter(level.dir.as_fd(), name)?);
        moved = rustix::fs::renameat(&level.dir, name, &top.dir, &free);
    }
    moved?;
    top.changed = true;
    level.changed = true;
    Ok(())
}

/// Opens a directory to empty it. Gives its owner, if that is this process's user, the access that is missing.
fn enter(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
    let opened = match open_in(dir, name, flags) {
        Err(Errno::ACCESS) => {
            let seen = open_in(dir, name, OFlags::PATH | OFlags::DIRECTORY)?;
            give_owner_access(&seen)?;
            return open_in(seen.as_fd(), OsStr::new("."), flags);
        }
        opened => opened?,
    };
    // If it is refused, so is the removal of the first entry.
    let _ = give_owner_access(&opened);
    Ok(opened)
}

/// Gives the owner of an open directory the access that is missing, if that is this process's user.
pub fn give_owner_access(dir: impl AsFd) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(&dir)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    if !is_own || mode.contains(Mode::RWXU) {
        return Ok(());
    }
    chmod_open(dir, mode | Mode::RWXU)
}

/// Sets the permissions of an open file, which may be open by `O_PATH`.
pub fn chmod_open(file: impl AsFd, mode: Mode) -> Result<(), Errno> {
    // fchmod(2) refuses an `O_PATH` descriptor, and chmod(2) by name would follow a link swapped in meanwhile: this path leads to
    // the same file, whatever its name is now.
    rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()), mode)
}

/// Opens an entry of a directory. Enters no mount and follows no link.
fn open_in(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve) {
        // Old kernels return ENOSYS, old container filters EPERM.
        Err(Errno::NOSYS | Errno::PERM) => {
            let opened = rustix::fs::openat(dir, name, flags, Mode::empty())?;
            let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| stat.st_dev);
            if device(opened.as_fd())? == device(dir)? { Ok(opened) } else { Err(Errno::XDEV) }
        }
        other => other,
    }
}

/// Returns the next names of a directory, as many as the kernel gives at once; none at its end.
fn list_some(dir: &OwnedFd, buffer: &mut Vec<u8>) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = entry?.file_name().to_bytes().to_owned();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(&name).to_owned());
        }
        if entries.is_buffer_empty() && !names.is_empty() {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::*;

    /// Bound of a test's removals, for a slow machine that does other things too.
    const SLOW: Duration = Duration::from_mins(2);

    /// A directory for one test, which root gives to another user: no permission stops root.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir()
                .join(format!("ringfence-remove-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir.canonicalize().unwrap())
        }

        /// Runs a function on a thread without privileges, which owns the directory.
        fn as_user<T: Send>(&self, work: impl FnOnce(&Path) -> T + Send) -> T {
            let thread = || {
                let (uid, gid) = (rustix::fs::Uid::from_raw(1234), rustix::fs::Gid::from_raw(1234));
                if rustix::process::geteuid().is_root() {
                    rustix::fs::chown(&self.0, Some(uid), Some(gid)).unwrap();
                    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                }
                work(&self.0)
            };
            std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = remove_tree(&self.0, &Budget::time(SLOW));
        }
    }

    fn remove(path: &Path) -> Result<(), CallError> {
        remove_tree(path, &Budget::time(SLOW))
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn is_there(path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok()
    }

    /// Makes a chain of directories below `dir`, each with these permissions at the end.
    fn dig(dir: &Path, n_levels: usize, mode: u32) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
        for _ in 0..n_levels {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            let next = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
            rustix::fs::fchmod(&at, Mode::from_raw_mode(mode)).unwrap();
            at = next;
        }
    }

    #[test]
    fn a_chain_deeper_than_any_stack_or_path_is_removed() {
        for permissions in [0o700, 0o555, 0o000] {
            let scratch = Scratch::new(&format!("deep-{permissions:o}"));
            scratch.as_user(|dir| {
                let tree = dir.join("tree");
                std::fs::create_dir(&tree).unwrap();
                dig(&tree, 15_000, permissions);
                remove(&tree).unwrap();
                assert!(!is_there(&tree), "{permissions:o}");
            });
        }
    }

    #[test]
    fn directories_without_permissions_are_removed() {
        let scratch = Scratch::new("closed");
        scratch.as_user(|dir| {
            let tree = dir.join("tree");
            for permissions in [0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o555, 0o600] {
                let closed = tree.join(format!("{permissions:o}"));
                std::fs::create_dir_all(closed.join("below")).unwrap();
                std::fs::write(closed.join("file"), "").unwrap();
                mode(&closed.join("below"), permissions);
                mode(&closed, permissions);
            }
            mode(&tree, 0);
            remove(&tree).unwrap();
            assert!(!is_there(&tree));
        });
    }

    #[test]
    fn a_link_is_removed_and_its_target_stays_as_it_is() {
        let scratch = Scratch::new("links");
        scratch.as_user(|dir| {
            let (tree, outside) = (dir.join("tree"), dir.join("outside"));
            std::fs::create_dir_all(tree.join("read-only")).unwrap();
            std::fs::create_dir(&outside).unwrap();
            std::fs::write(outside.join("file"), "kept").unwrap();
            mode(&outside, 0o555);
            symlink(&outside, tree.join("link")).unwrap();
            symlink(&outside, tree.join("read-only/link")).unwrap();
            mode(&tree.join("read-only"), 0o555);
            remove(&tree).unwrap();
            assert!(!is_there(&tree));
            symlink(&outside, &tree).unwrap();
            remove(&tree).unwrap();
            assert!(!is_there(&tree));
            assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"kept");
            assert_eq!(std::fs::metadata(&outside).unwrap().mode() & 0o777, 0o555);
            mode(&outside, 0o700);
        });
    }

    /// A process exchanges directories with links to one outside while the tree is removed.
    #[test]
    fn a_directory_that_becomes_a_link_leads_nowhere() {
        use rustix::fs::{CWD, RenameFlags};
        let scratch = Scratch::new("race");
        scratch.as_user(|dir| {
            let outside = dir.join("outside");
            std::fs::create_dir_all(outside.join("below")).unwrap();
            std::fs::write(outside.join("below/file"), "kept").unwrap();
            mode(&outside.join("below"), 0o555);
            mode(&outside, 0o555);
            for _ in 0..20 {
                let tree = dir.join("tree");
                for n in 0..20 {
                    std::fs::create_dir_all(tree.join(format!("{n}/below"))).unwrap();
                    mode(&tree.join(format!("{n}")), 0);
                    symlink(&outside, tree.join(format!("link-{n}"))).unwrap();
                }
                let done = std::sync::atomic::AtomicBool::new(false);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while !done.load(std::sync::atomic::Ordering::Relaxed) {
                            for n in 0..20 {
                                let names = [format!("{n}"), format!("link-{n}")];
                                let [one, other] = names.map(|name| tree.join(name));
                                let how = RenameFlags::EXCHANGE;
                                let _ = rustix::fs::renameat_with(CWD, one, CWD, other, how);
                            }
                        }
                    });
                    // What was exchanged at the wrong moment may stay for the next attempt.
                    let _ = remove(&tree);
                    done.store(true, std::sync::atomic::Ordering::Relaxed);
                });
                let again = remove(&tree);
                assert!(again.is_ok() || again.is_err_and(|e| e.errno == Errno::NOENT));
                let modes = [&outside, &outside.join("below")]
                    .map(|path| std::fs::metadata(path).unwrap().mode() & 0o777);
                assert_eq!(modes, [0o555; 2]);
                assert_eq!(std::fs::read(outside.join("below/file")).unwrap(), b"kept");
            }
        });
    }

    #[test]
    fn a_directory_with_many_entries_is_removed_within_its_time() {
        let scratch = Scratch::new("wide");
        let tree = scratch.0.join("tree");
        std::fs::create_dir(&tree).unwrap();
        for n in 0..100_000 {
            std::fs::File::create(tree.join(format!("{n}"))).unwrap();
        }
        let parent = rustix::fs::open(&scratch.0, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let parent = parent.unwrap();
        let attempt = |budget: &Budget| {
            let mut n_removed = 0;
            let removed = remove_at(&parent, OsStr::new("tree"), budget, &mut n_removed);
            (removed.map_err(|error| error.errno), n_removed)
        };
        assert_eq!(attempt(&Budget::time(Duration::ZERO)).0, Err(Errno::DQUOT));
        let (removed, n_first) = attempt(&Budget::entries(10_000));
        assert_eq!(removed, Err(Errno::DQUOT));
        assert!(n_first > 9_000, "{n_first}");
        assert!(is_there(&tree));
        let began = Instant::now();
        let (removed, n_second) = attempt(&Budget::time(SLOW));
        assert_eq!(removed, Ok(()));
        assert!(n_first + n_second >= 99_000, "{n_first} and {n_second}");
        assert!(began.elapsed() < SLOW / 2, "{:?}", began.elapsed());
        assert!(!is_there(&tree));
    }

    #[test]
    fn everything_but_what_cannot_be_removed_is() {
        if !ringfence_testing::needs_root("only root makes files of another user") {
            return;
        }
        let scratch = Scratch::new("foreign");
        let tree = scratch.0.join("tree");
        // A directory of root's in a tree of the user's.
        std::fs::create_dir_all(tree.join("a/foreign")).unwrap();
        std::fs::write(tree.join("a/foreign/file"), "").unwrap();
        for dir in [&tree, &tree.join("a")] {
            std::os::unix::fs::chown(dir, Some(1234), Some(1234)).unwrap();
        }
        scratch.as_user(|_| {
            dig(&tree.join("a"), 200, 0o700);
            std::fs::write(tree.join("z"), "").unwrap();
            assert_eq!(remove(&tree).unwrap_err().errno, Errno::ACCESS);
        });
        let left = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
        assert_eq!([&tree, &tree.join("a"), &tree.join("a/foreign")].map(|dir| left(dir)), [1; 3]);
    }
}

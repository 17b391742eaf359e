//! Opens and reads files that a run may have written, moved or replaced.
//!
//! Every function here works on a descriptor, follows no symbolic link, never waits for another process and reads at most
//! the bytes it was told to. The crates above open such files by no other way: `clippy.toml` disallows the functions of
//! `std` that follow links or wait.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::{Budget, CallError, Named};

/// Reason why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// A directory, link, FIFO, socket or device, instead of a regular file.
    NotAFile,
    /// More bytes than the bound.
    TooLarge,
    /// The kernel refused a call.
    Call(CallError),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotAFile => f.write_str("not a regular file"),
            Self::TooLarge => f.write_str("too large"),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<CallError> for ReadError {
    fn from(error: CallError) -> Self {
        match error.errno {
            // O_NOFOLLOW on a link, and a socket, which cannot be opened.
            Errno::LOOP | Errno::NXIO => Self::NotAFile,
            _ => Self::Call(error),
        }
    }
}

impl ReadError {
    /// Returns true if there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Call(error) if matches!(error.errno, Errno::NOENT | Errno::NOTDIR))
    }
}

/// Opens an absolute path as `O_PATH`, never through a link. The last component may be a link: then the descriptor is
/// the link itself.
pub fn open_absolute(path: &Path) -> Result<OwnedFd, CallError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => {
            let root = rustix::fs::open("/", flags, Mode::empty()).named(|| "open(\"/\")")?;
            walk(root, path)
        }
        other => other.named(|| format!("openat2({path:?}, RESOLVE_NO_SYMLINKS)")),
    }
}

/// Makes the directory at an absolute path, with those above it, where there is none, and opens it as `O_PATH`; never through
/// a link. New ones have these permissions, as far as the umask allows.
pub fn make_directory(path: &Path, permissions: u32) -> Result<OwnedFd, CallError> {
    let exists = |above: &&Path| open_absolute(above).is_ok();
    let above = path.ancestors().find(exists).unwrap_or(Path::new("/"));
    let dir = open_absolute(above)?;
    let below = path.strip_prefix(above).unwrap_or(Path::new(""));
    let dir = make_directories_beneath(dir, below, permissions)?;
    let stat = rustix::fs::fstat(&dir).named(|| format!("fstat({path:?})"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(dir),
        FileType::Symlink => Err(CallError::new(format!("open({path:?})"), Errno::LOOP)),
        _ => Err(CallError::new(format!("open({path:?})"), Errno::NOTDIR)),
    }
}

/// Makes the directories of `path` below `root` where there are none, and opens the last as `O_PATH`; never through a link on
/// the way. It may be something else than a directory if that was there.
pub fn make_directories_beneath(
    root: OwnedFd,
    path: &Path,
    permissions: u32,
) -> Result<OwnedFd, CallError> {
    let mut dir = root;
    for name in path.components() {
        let name: &Path = name.as_ref();
        match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(permissions)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(CallError::new(format!("mkdirat({path:?})"), errno)),
        }
        dir = open_beneath(&dir, name)?;
    }
    Ok(dir)
}

/// Opens `path` below `root` as `O_PATH`, never leaving it and never through a link. The last component may be a
/// link: then the descriptor is the link itself.
pub fn open_beneath(root: impl AsFd, path: &Path) -> Result<OwnedFd, CallError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat2(&root, path, flags, Mode::empty(), BENEATH) {
        Err(Errno::NOSYS) => walk_beneath(root, path),
        other => other.named(|| format!("openat2({path:?}, RESOLVE_BENEATH)")),
    }
}

/// Opens the directory `path` below `root` to list it. A link in the last place is refused too.
pub fn open_directory_beneath(root: impl AsFd, path: &Path) -> Result<OwnedFd, CallError> {
    open_for_reading(root, path, OFlags::DIRECTORY)
}

/// Opens the directory `path` below `root` to list it and look its names up; `None` if there is no directory. One of which
/// its owner, this process's user, may not do both is opened up first: what a run made unlistable is judged all the same.
pub fn open_to_judge(root: impl AsFd, path: &Path) -> Result<Option<OwnedFd>, CallError> {
    let opened = match open_directory_beneath(&root, path) {
        Err(error) if error.errno == Errno::ACCESS => {
            let_owner_read(&open_beneath(&root, path)?, path)?;
            open_directory_beneath(&root, path)
        }
        other => other,
    };
    match opened {
        Ok(dir) => {
            // It may be readable and not searchable.
            let_owner_read(&dir, path)?;
            Ok(Some(dir))
        }
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets its owner list and search an open directory, if that is this process's user.
fn let_owner_read(dir: &OwnedFd, path: &Path) -> Result<(), CallError> {
    let stat = rustix::fs::fstat(dir).named(|| format!("fstat({path:?})"))?;
    let (mode, wanted) = (Mode::from_raw_mode(stat.st_mode), Mode::RUSR | Mode::XUSR);
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    if !is_own || mode.contains(wanted) {
        return Ok(());
    }
    crate::chmod_open(dir, mode | wanted).named(|| format!("chmod({path:?})"))
}

/// Returns true if a call failed because there is nothing at a path, or something else than a directory on the way.
pub fn is_absent(error: &CallError) -> bool {
    matches!(error.errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Opens the regular file `path` below `root` for reading, without waiting for a FIFO's writer or a lease.
pub fn open_file_beneath(root: impl AsFd, path: &Path) -> Result<std::fs::File, ReadError> {
    Ok(regular(open_for_reading(root, path, OFlags::empty())?, path)?.file)
}

/// Opens the regular file `path` for reading in the same way. Links on the way to its directory are followed, because a
/// caller's own paths may have some; the file itself may not be one.
pub fn open_file(path: &Path) -> Result<std::fs::File, ReadError> {
    Ok(open_regular(path, READING | OFlags::NOFOLLOW)?.file)
}

fn open_regular(path: &Path, flags: OFlags) -> Result<Regular, ReadError> {
    regular(rustix::fs::open(path, flags, Mode::empty()).named(|| format!("open({path:?})"))?, path)
}

/// The bytes of the regular file `path` below `root`, if there are no more than `bytes_max`.
pub fn read_beneath(root: impl AsFd, path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    read_open(&regular(open_for_reading(root, path, OFlags::empty())?, path)?, path, bytes_max)
}

/// The bytes of the regular file `path`, if there are no more than `bytes_max`. Opens as [`open_file`] does.
pub fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    read_open(&open_regular(path, READING | OFlags::NOFOLLOW)?, path, bytes_max)
}

/// Opens a regular file that no run can replace, such as one the operator names: a link is followed. Waits for nothing.
pub fn open_trusted(path: &Path) -> Result<std::fs::File, ReadError> {
    Ok(open_regular(path, READING)?.file)
}

/// The bytes of a file that no run can replace, such as the operator's settings: a link is followed, because
/// configuration managers use them. Waits for nothing either.
pub fn read_trusted(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    read_open(&open_regular(path, READING)?, path, bytes_max)
}

/// Properties of one entry of a directory, a link as itself; `None` if there is none.
pub fn look_at(dir: impl AsFd, name: &Path) -> Result<Option<Stat>, CallError> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(CallError::new(format!("fstatat({name:?})"), errno)),
    }
}

/// The same, and `None` if it cannot be looked at.
pub fn stat_at(dir: impl AsFd, name: impl rustix::path::Arg) -> Option<Stat> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// Bytes of entries that the kernel hands over at once.
const LIST_BYTES: usize = 32 << 10;

/// Calls `each` with the name and type of every entry of an open directory, until it says stop or the budget is spent.
/// Straight from the kernel's buffer: a directory may have very many entries.
pub fn list(
    dir: impl AsFd,
    budget: &Budget,
    mut each: impl FnMut(&OsStr, FileType) -> std::ops::ControlFlow<()>,
) -> Result<(), CallError> {
    let mut buffer: Vec<u8> = Vec::with_capacity(LIST_BYTES);
    let dir = dir.as_fd();
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry.named(|| "getdents64")?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        budget.spend_entry()?;
        let name = OsStr::from_bytes(name);
        // Some filesystems do not tell the type in a listing.
        let kind = match entry.file_type() {
            FileType::Unknown => stat_at(dir, name)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        if each(name, kind).is_break() {
            break;
        }
    }
    Ok(())
}

/// The names of the directories in an open directory, sorted, at most `n_max` and one more that tells of the excess.
pub fn list_directories(
    dir: impl AsFd,
    budget: &Budget,
    n_max: usize,
) -> Result<Vec<OsString>, CallError> {
    let mut names = Vec::new();
    list(dir, budget, |name, kind| {
        if kind == FileType::Directory {
            names.push(name.to_owned());
        }
        if names.len() > n_max {
            return std::ops::ControlFlow::Break(());
        }
        std::ops::ControlFlow::Continue(())
    })?;
    names.sort();
    Ok(names)
}

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// `O_NONBLOCK`: a FIFO or a leased file answers at once. `O_NOCTTY`: a terminal does not become ours.
const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

fn open_for_reading(root: impl AsFd, path: &Path, more: OFlags) -> Result<OwnedFd, CallError> {
    let flags = READING | OFlags::NOFOLLOW | more;
    match rustix::fs::openat2(&root, path, flags, Mode::empty(), BENEATH) {
        Err(Errno::NOSYS) => {
            let (parent, name) = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
                    (walk_beneath(root, parent)?, name)
                }
                (_, Some(name)) => (walk_beneath(root, Path::new("."))?, name),
                _ => (walk_beneath(root, path)?, OsStr::new(".")),
            };
            rustix::fs::openat(parent, name, flags, Mode::empty())
                .named(|| format!("openat({path:?}, O_NOFOLLOW)"))
        }
        other => other.named(|| format!("openat2({path:?}, RESOLVE_BENEATH)")),
    }
}

/// An open regular file, and how long it was when it was opened.
struct Regular {
    file: std::fs::File,
    bytes: u64,
}

fn regular(fd: OwnedFd, path: &Path) -> Result<Regular, ReadError> {
    let stat = rustix::fs::fstat(&fd).named(|| format!("fstat({path:?})"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            Ok(Regular { file: fd.into(), bytes: u64::try_from(stat.st_size).unwrap_or(0) })
        }
        _ => Err(ReadError::NotAFile),
    }
}

fn read_open(opened: &Regular, path: &Path, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    // One byte more than the bound, so that a larger file is told from one that fits.
    let most = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_add(1);
    // Nearly every file is smaller than this: one call reads it.
    let mut bytes = vec![0; most.min(4096)];
    let mut length = 0;
    loop {
        if length == bytes.len() {
            if length == most {
                return Err(ReadError::TooLarge);
            }
            bytes.resize(most.min(length.saturating_mul(2)), 0);
        }
        let read =
            rustix::io::retry_on_intr(|| rustix::io::read(&opened.file, &mut bytes[length..]));
        match read.named(|| format!("read({path:?})"))? {
            0 => break,
            n => length += n,
        }
        // Files of the kernel have no length: only a read finds their end.
        if length as u64 == opened.bytes {
            break;
        }
    }
    bytes.truncate(length);
    if bytes.len() as u64 > bytes_max { Err(ReadError::TooLarge) } else { Ok(bytes) }
}

fn walk_beneath(root: impl AsFd, path: &Path) -> Result<OwnedFd, CallError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let start =
        rustix::fs::openat(root, ".", flags, Mode::empty()).named(|| "openat(root, \".\")")?;
    walk(start, path)
}

/// The same by hand, for kernels and filters that answer ENOSYS to openat2: one component at a time.
fn walk(start: OwnedFd, path: &Path) -> Result<OwnedFd, CallError> {
    let mut at = start;
    let mut components = path.components().filter(|c| *c != Component::RootDir).peekable();
    while let Some(component) = components.next() {
        let name = match component {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            _ => {
                return Err(CallError::new(
                    format!("open({path:?}): leaves its root"),
                    Errno::XDEV,
                ));
            }
        };
        let mut flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if components.peek().is_some() {
            // With O_PATH and O_NOFOLLOW a link opens as itself; O_DIRECTORY then says ENOTDIR.
            flags |= OFlags::DIRECTORY;
        }
        at = rustix::fs::openat(&at, name, flags, Mode::empty())
            .named(|| format!("openat({path:?}, O_NOFOLLOW)"))?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir()
                .join(format!("ringfence-untrusted-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir.canonicalize().unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_link_in_the_middle_is_refused_and_a_link_at_the_end_is_itself() {
        let dir = Scratch::new("links");
        std::fs::create_dir(dir.0.join("real")).unwrap();
        std::fs::write(dir.0.join("real/f"), "x").unwrap();
        symlink("real", dir.0.join("link")).unwrap();
        let root = open_absolute(&dir.0).unwrap();
        assert!(open_beneath(&root, Path::new("real/f")).is_ok());
        assert!(open_beneath(&root, Path::new("link/f")).is_err());
        assert!(open_beneath(&root, Path::new("link")).is_ok());
        assert!(open_beneath(&root, Path::new("../..")).is_err());
        assert!(read_beneath(&root, Path::new("link/f"), 9).is_err());
        assert_eq!(read_beneath(&root, Path::new("real/f"), 9).unwrap(), b"x");
        assert!(open_directory_beneath(&root, Path::new("link")).is_err());
        assert!(open_directory_beneath(&root, Path::new("real")).is_ok());
    }

    #[test]
    fn the_walk_without_openat2_agrees() {
        let dir = Scratch::new("walk");
        std::fs::create_dir_all(dir.0.join("a/b")).unwrap();
        symlink("a", dir.0.join("l")).unwrap();
        let root = || open_absolute(&dir.0).unwrap();
        assert!(walk(root(), Path::new("a/b")).is_ok());
        assert!(walk(root(), Path::new("l/b")).is_err());
        assert!(walk(root(), Path::new("../a")).is_err());
        assert!(walk(root(), Path::new("l")).is_ok());
    }

    #[test]
    fn only_a_small_regular_file_is_read() {
        let dir = Scratch::new("files");
        let at = |name: &str| dir.0.join(name);
        std::fs::write(at("file"), "12345").unwrap();
        assert_eq!(read_file(&at("file"), 5).unwrap(), b"12345");
        assert!(matches!(read_file(&at("file"), 4), Err(ReadError::TooLarge)));
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let root = open_absolute(&dir.0).unwrap();
        for name in ["link", "endless", "pipe", "socket"] {
            assert!(matches!(read_file(&at(name), 100), Err(ReadError::NotAFile)), "{name}");
            let beneath = read_beneath(&root, Path::new(name), 100);
            assert!(matches!(beneath, Err(ReadError::NotAFile)), "{name}");
        }
        assert!(matches!(read_file(&at("."), 100), Err(ReadError::NotAFile)));
        assert!(read_file(&at("none"), 100).unwrap_err().is_missing());
        assert_eq!(read_trusted(&at("link"), 100).unwrap(), b"12345");
        assert!(matches!(read_trusted(&at("pipe"), 100), Err(ReadError::NotAFile)));
    }

    #[test]
    fn a_listing_ends_with_its_budget() {
        let dir = Scratch::new("listing");
        for i in 0..20 {
            std::fs::create_dir(dir.0.join(format!("d{i:02}"))).unwrap();
        }
        std::fs::write(dir.0.join("file"), "").unwrap();
        let root = open_absolute(&dir.0).unwrap();
        let listed = || open_directory_beneath(&root, Path::new(".")).unwrap();
        let all = list_directories(listed(), &Budget::unlimited(), 100).unwrap();
        assert_eq!((all.len(), all[0].as_os_str()), (20, OsStr::new("d00")));
        assert_eq!(list_directories(listed(), &Budget::unlimited(), 5).unwrap().len(), 6);
        let spent = list_directories(listed(), &Budget::entries(10), 100).unwrap_err();
        assert_eq!(spent.errno, Errno::DQUOT);
    }
}

//! Opening paths so that the descriptor is the proof: no link followed, the file that was surveyed or nothing.

use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use ringfence_plan::FileId;
use ringfence_sys::{CallError, Named};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Opens a canonical absolute path without following any link and checks that it is still the file `id`; and says what
/// kind of file that is.
pub(crate) fn open_exact(path: &Path, id: FileId) -> Result<(OwnedFd, FileType), CallError> {
    let fd = open_canonical(path)?;
    let stat = rustix::fs::fstat(&fd).named(|| "fstat")?;
    if id_of(&stat) == id {
        return Ok((fd, FileType::from_raw_mode(stat.st_mode)));
    }
    // Somebody exchanged it between the survey and now.
    Err(CallError::new(format!("open({path:?}): another file than was surveyed"), Errno::STALE))
}

/// Opens a canonical absolute path as `O_PATH`; a link anywhere in it is refused.
pub(crate) fn open_canonical(path: &Path) -> Result<OwnedFd, CallError> {
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

/// Opens `path` below `root` as `O_PATH`, never leaving it and never through a link. The last component may be a
/// link: then the descriptor is the link itself.
pub fn open_beneath(root: impl AsFd, path: &Path) -> Result<OwnedFd, CallError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => {
            let start = rustix::fs::openat(root, ".", flags, Mode::empty())
                .named(|| "openat(root, \".\")")?;
            walk(start, path)
        }
        other => other.named(|| format!("openat2({path:?}, RESOLVE_BENEATH)")),
    }
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

/// Which file a descriptor is.
pub(crate) fn file_id(fd: impl AsFd) -> Result<FileId, CallError> {
    rustix::fs::fstat(fd).named(|| "fstat").map(|stat| id_of(&stat))
}

fn id_of(stat: &Stat) -> FileId {
    FileId { dev: stat.st_dev, ino: stat.st_ino }
}

/// What an ordinary file of a run's holds, if that is no more than `bytes_max`. Whatever else stands there, or takes its
/// place meanwhile, is neither followed nor waited for: a run can lay a pipe or a link to `/dev/zero` anywhere it writes.
pub(crate) fn read_small(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::from(fd).take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= bytes_max).then_some(bytes)
}

/// Whether `name` exists below `dir`, as a link or otherwise.
pub(crate) fn exists_at(dir: impl AsFd, name: &Path) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_in_the_middle_is_refused_and_a_link_at_the_end_is_itself() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::fs::write(dir.path().join("real/f"), "x").unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        let root = open_canonical(&dir.path().canonicalize().unwrap()).unwrap();
        assert!(open_beneath(&root, Path::new("real/f")).is_ok());
        assert!(open_beneath(&root, Path::new("link/f")).is_err());
        assert!(open_beneath(&root, Path::new("link")).is_ok());
        assert!(open_beneath(&root, Path::new("../..")).is_err());
    }

    #[test]
    fn the_walk_without_openat2_agrees() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink("a", dir.path().join("l")).unwrap();
        let root = || open_canonical(&dir.path().canonicalize().unwrap()).unwrap();
        assert!(walk(root(), Path::new("a/b")).is_ok());
        assert!(walk(root(), Path::new("l/b")).is_err());
        assert!(walk(root(), Path::new("../a")).is_err());
        assert!(walk(root(), Path::new("l")).is_ok());
    }

    #[test]
    fn only_a_small_ordinary_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        assert_eq!(read_small(&at("file"), 5).unwrap(), b"12345");
        assert!(read_small(&at("file"), 4).is_none());
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::RWXU).unwrap();
        for name in ["link", "endless", "pipe", ".", "none"] {
            assert!(read_small(&at(name), 100).is_none(), "{name}");
        }
    }

    #[test]
    fn an_exchanged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("f");
        std::fs::write(&path, "").unwrap();
        let id = file_id(open_canonical(&path).unwrap()).unwrap();
        assert!(open_exact(&path, id).is_ok());
        let other = FileId { ino: id.ino + 1, ..id };
        assert_eq!(open_exact(&path, other).unwrap_err().errno, Errno::STALE);
    }
}

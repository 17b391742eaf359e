//! A directory that runs may have written, accessed by descriptor and under a budget. No link is followed.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use ringfence_plan::{FileId, FileKind, Found};
use ringfence_sys::untrusted::{self, ReadError};
use ringfence_sys::{Budget, CallError, Named as _};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::open::{id_of, open_exact};

/// Times that a link is followed while other processes rename.
const TRIES_MAX: u32 = 100;

/// An open directory.
#[derive(Debug)]
pub(crate) struct Tree<'b> {
    dir: OwnedFd,
    /// Canonical path.
    path: PathBuf,
    budget: &'b Budget,
}

/// An entry; a link is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its type.
    pub(crate) kind: FileKind,
    /// Identity of the file.
    pub(crate) id: FileId,
    /// Its owner.
    pub(crate) owner: (u32, u32),
    /// True if it has the sticky bit.
    pub(crate) is_sticky: bool,
}

impl Seen {
    fn of(stat: &Stat) -> Self {
        let is_sticky = Mode::from(stat.st_mode).contains(Mode::SVTX);
        Self { kind: kind_of(stat), id: id_of(stat), owner: (stat.st_uid, stat.st_gid), is_sticky }
    }
}

/// The content of a file that may be anything.
pub(crate) enum Content {
    /// There is no such file.
    Missing,
    /// Its bytes.
    Bytes(Vec<u8>),
    /// It is not a regular file, or too large.
    Unsuitable,
    /// The kernel refused to open or read it.
    Refused(CallError),
}

impl Content {
    /// Result of reading a file.
    pub(crate) fn of(read: Result<Vec<u8>, ReadError>) -> Self {
        match read {
            Ok(bytes) => Self::Bytes(bytes),
            Err(error) if error.is_missing() => Self::Missing,
            Err(ReadError::NotAFile | ReadError::TooLarge) => Self::Unsuitable,
            Err(ReadError::Call(error)) => Self::Refused(error),
        }
    }

    /// The bytes; `None` if there is no such file, or none that can hold what is looked for.
    pub(crate) fn bytes(self) -> Result<Option<Vec<u8>>, CallError> {
        match self {
            Self::Bytes(bytes) => Ok(Some(bytes)),
            Self::Missing | Self::Unsuitable => Ok(None),
            Self::Refused(error) => Err(error),
        }
    }
}

impl<'b> Tree<'b> {
    /// Opens a directory that was resolved before, and makes sure that it is still the same.
    pub(crate) fn open(found: &Found, budget: &'b Budget) -> Result<Self, CallError> {
        let (dir, kind) = open_exact(&found.path, found.id)?;
        if kind != FileType::Directory {
            return Err(CallError::new(format!("open({:?})", found.path), Errno::NOTDIR));
        }
        Ok(Self { dir, path: found.path.clone(), budget })
    }

    /// Opens a canonical absolute path; `None` where there is no directory without links on the way.
    pub(crate) fn at(path: &Path, budget: &'b Budget) -> Result<Option<Self>, CallError> {
        budget.spend_entry()?;
        let Ok(dir) = untrusted::open_absolute(path) else { return Ok(None) };
        let stat = rustix::fs::fstat(&dir).named(|| "fstat")?;
        let is_directory = kind_of(&stat) == FileKind::Directory;
        Ok(is_directory.then(|| Self { dir, path: path.to_owned(), budget }))
    }

    /// A directory below this one; `None` if it does not exist, or a link is on the way.
    pub(crate) fn sub(&self, path: &Path) -> Result<Option<Self>, CallError> {
        self.budget.spend_entry()?;
        let Some(dir) = if_there(untrusted::open_beneath(&self.dir, path))? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&dir).named(|| "fstat")?;
        let is_directory = kind_of(&stat) == FileKind::Directory;
        Ok(is_directory.then(|| Self { dir, path: self.path.join(path), budget: self.budget }))
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The budget that bounds the work.
    pub(crate) fn budget(&self) -> &'b Budget {
        self.budget
    }

    /// The directory's own identity and owner.
    pub(crate) fn itself(&self) -> Result<Seen, CallError> {
        rustix::fs::fstat(&self.dir).named(|| "fstat").map(|stat| Seen::of(&stat))
    }

    /// The entry at `path`, a link not followed; `None` if it does not exist, or a link is on the way.
    pub(crate) fn look(&self, path: impl AsRef<Path>) -> Result<Option<Seen>, CallError> {
        self.budget.spend_entry()?;
        let path = path.as_ref();
        let mut components = path.components();
        let single =
            matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
        if single {
            return Ok(untrusted::look_at(&self.dir, path)?.map(|stat| Seen::of(&stat)));
        }
        let Some(fd) = if_there(untrusted::open_beneath(&self.dir, path))? else {
            return Ok(None);
        };
        rustix::fs::fstat(&fd).named(|| "fstat").map(|stat| Some(Seen::of(&stat)))
    }

    /// The content of a regular file of at most `bytes_max`.
    pub(crate) fn read(
        &self,
        path: impl AsRef<Path>,
        bytes_max: u64,
    ) -> Result<Content, CallError> {
        self.budget.spend_entry()?;
        let content = Content::of(untrusted::read_beneath(&self.dir, path.as_ref(), bytes_max));
        if let Content::Bytes(bytes) = &content {
            self.budget.spend_bytes(bytes.len() as u64)?;
        }
        Ok(content)
    }

    /// Names of the directories at `path`, sorted: at most `n_max`, and one more that signals the excess.
    pub(crate) fn directories(
        &self,
        path: &Path,
        n_max: usize,
    ) -> Result<Vec<OsString>, CallError> {
        self.budget.spend_entry()?;
        let dir = if_there(untrusted::open_directory_beneath(&self.dir, path))?;
        dir.map_or(Ok(Vec::new()), |dir| untrusted::list_directories(&dir, self.budget, n_max))
    }

    /// Returns true if there is an empty directory at `path`.
    pub(crate) fn is_empty(&self, path: &Path) -> Result<bool, CallError> {
        self.budget.spend_entry()?;
        let Some(dir) = if_there(untrusted::open_directory_beneath(&self.dir, path))? else {
            return Ok(false);
        };
        let mut is_empty = true;
        untrusted::list(&dir, self.budget, |_, _| {
            is_empty = false;
            std::ops::ControlFlow::Break(())
        })?;
        Ok(is_empty)
    }

    /// Calls `each` with every name and type at the top.
    pub(crate) fn list(
        &self,
        mut each: impl FnMut(&OsStr, FileType) -> std::ops::ControlFlow<()>,
    ) -> Result<(), CallError> {
        let dir = untrusted::open_directory_beneath(&self.dir, Path::new("."))?;
        untrusted::list(&dir, self.budget, &mut each)
    }

    /// The place that `path` leads to when links that stay in this directory are followed, relative to it. `None` where
    /// it leads out or nowhere.
    pub(crate) fn follow(&self, path: &Path) -> Result<Option<(PathBuf, FileKind)>, CallError> {
        use std::os::fd::AsRawFd as _;
        self.budget.spend_entry()?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut n_tries = 0;
        let fd = loop {
            match rustix::fs::openat2(&self.dir, path, flags, Mode::empty(), resolve) {
                Ok(fd) => break fd,
                // openat2(2): a rename anywhere on the host while a link with `..` was followed.
                Err(Errno::AGAIN) if n_tries < TRIES_MAX => n_tries += 1,
                Err(Errno::AGAIN) => {
                    return Err(CallError::new(format!("openat2({path:?})"), Errno::AGAIN));
                }
                Err(_) => return Ok(None),
            }
        };
        let Ok(stat) = rustix::fs::fstat(&fd) else { return Ok(None) };
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let Ok(real) = rustix::fs::readlink(&link, Vec::new()) else { return Ok(None) };
        let real =
            PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(real.to_bytes()));
        Ok(real.strip_prefix(&self.path).ok().map(|below| (below.to_owned(), kind_of(&stat))))
    }

    /// The text of the link at `path`, if it is one.
    pub(crate) fn link_text(&self, path: &Path) -> Result<Option<PathBuf>, CallError> {
        self.budget.spend_entry()?;
        let Some(fd) = if_there(untrusted::open_beneath(&self.dir, path))? else {
            return Ok(None);
        };
        // readlinkat(2): with an empty name, the link that the descriptor is.
        let text = rustix::fs::readlinkat(&fd, "", Vec::new()).ok();
        Ok(text.map(|text| {
            PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text.to_bytes()))
        }))
    }

    /// Returns true if the caller may create entries in it.
    pub(crate) fn can_create(&self) -> bool {
        use std::os::fd::AsRawFd as _;
        // By /proc: faccessat(2) cannot take an O_PATH descriptor alone before Linux 5.8.
        let path = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
    }
}

/// What was opened, if there is anything. A refusal is no absence: what cannot be looked at is not left unprotected.
fn if_there(opened: Result<OwnedFd, CallError>) -> Result<Option<OwnedFd>, CallError> {
    match opened {
        Ok(fd) => Ok(Some(fd)),
        Err(error) if untrusted::is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl AsFd for Tree<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The type of a file.
pub(crate) fn kind_of(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => FileKind::Directory,
        FileType::RegularFile => FileKind::File,
        FileType::Symlink => FileKind::Symlink,
        FileType::Socket => FileKind::Socket,
        _ => FileKind::Other,
    }
}

//! The ledger's directory: created private, opened by handle, refused if another user could have changed it.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ringfence_spec::Problem;
use ringfence_sys::{Budget, untrusted};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::errors;

pub(crate) const DATABASE: &str = "ledger.db";
pub(crate) const LOG: &str = "ledger.db-wal";
pub(crate) const INTAKE: &str = "ledger.intake";
pub(crate) const HEAD: &str = "ledger.head";
pub(crate) const LOCK: &str = "ledger.lock";
pub(crate) const KEYS: &str = "keys";
pub(crate) const ARCHIVES: &str = "archives";

/// An open ledger directory, owned by this user.
#[derive(Debug)]
pub(crate) struct LedgerDir {
    dir: OwnedFd,
    path: PathBuf,
}

/// The lock that all writers share. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct WriteLock<'a>(&'a File);

impl LedgerDir {
    /// Opens the directory, or makes it and its parents.
    pub(crate) fn create(path: &Path) -> Result<Self, Problem> {
        match Self::open_dir(path) {
            Err(Errno::NOENT) => {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(path)
                    .map_err(|e| errors::from_io(path, "mkdir", &e))?;
                Self::open(path)
            }
            Err(errno) => Err(errors::from_errno(path, "open", errno)),
            Ok(dir) => Self::checked(dir, path),
        }
    }

    /// Opens the directory.
    pub(crate) fn open(path: &Path) -> Result<Self, Problem> {
        let dir = Self::open_dir(path).map_err(|errno| match errno {
            Errno::NOENT => errors::missing(path),
            errno => errors::from_errno(path, "open", errno),
        })?;
        Self::checked(dir, path)
    }

    fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            // O_DIRECTORY gives this error for a link and for a file; only the first is about links.
            Err(Errno::NOTDIR) if path.is_symlink() => Err(Errno::LOOP),
            other => other,
        }
    }

    fn checked(dir: OwnedFd, path: &Path) -> Result<Self, Problem> {
        let stat = rustix::fs::fstat(&dir).map_err(|e| errors::from_errno(path, "fstat", e))?;
        belongs_to_us(&stat, path)?;
        // SQLite takes a path and refuses links in it, so resolve them first.
        #[expect(
            clippy::disallowed_methods,
            reason = "a directory of ours, opened and checked above"
        )]
        let path =
            match rustix::fs::readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new()) {
                Ok(real) => PathBuf::from(OsStr::from_bytes(real.as_bytes())),
                Err(_) => path.canonicalize().map_err(|e| errors::from_io(path, "realpath", &e))?,
            };
        Ok(Self { dir, path })
    }

    /// The directory's path, without links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file in the directory.
    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file of the ledger without following a link; `None` if it does not exist.
    pub(crate) fn find(&self, name: &str) -> Result<Option<File>, Problem> {
        match self.open_file(name, OFlags::RDWR) {
            Err(Errno::NOENT) => Ok(None),
            other => self.owned(name, other).map(Some),
        }
    }

    /// Opens a file of the ledger, or creates it.
    pub(crate) fn find_or_make(&self, name: &str) -> Result<File, Problem> {
        // It usually exists, and O_CREAT takes a lock on the directory.
        match self.open_file(name, OFlags::RDWR) {
            Err(Errno::NOENT) => {
                self.owned(name, self.open_file(name, OFlags::RDWR | OFlags::CREATE))
            }
            other => self.owned(name, other),
        }
    }

    /// Makes a directory in it, if it does not exist.
    pub(crate) fn make_dir(&self, name: &str) -> Result<Self, Problem> {
        let path = self.join(name);
        match rustix::fs::mkdirat(&self.dir, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => Self::open(&path),
            Err(errno) => Err(errors::from_errno(&path, "mkdirat", errno)),
        }
    }

    /// Writes a file as a whole or not at all, and waits until it is on disk.
    pub(crate) fn write_atomically(&self, name: &str, content: &[u8]) -> Result<(), Problem> {
        let draft = format!("{name}.new");
        let path = self.join(name);
        let result = self.write_draft(&draft, content).and_then(|()| {
            rustix::fs::renameat(&self.dir, &draft, &self.dir, name)?;
            rustix::fs::fsync(&self.dir)
        });
        result.map_err(|errno| {
            // If this fails, the next attempt truncates it.
            let _ = self.remove(&draft);
            errors::from_errno(&path, "write", errno)
        })
    }

    fn write_draft(&self, draft: &str, content: &[u8]) -> Result<(), Errno> {
        let file = self.open_file(draft, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        let mut rest = content;
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = &rest[written..];
        }
        rustix::fs::fsync(&file)
    }

    /// Creates an empty draft file, to be written and then named by [`LedgerDir::publish`].
    pub(crate) fn draft(&self, name: &str) -> Result<File, Problem> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        self.owned(name, self.open_file(name, flags))
    }

    /// Syncs a draft, and gives it its name.
    pub(crate) fn publish(&self, file: &File, draft: &str, name: &str) -> Result<(), Problem> {
        let steps = || {
            rustix::fs::fsync(file)?;
            rustix::fs::renameat(&self.dir, draft, &self.dir, name)?;
            rustix::fs::fsync(&self.dir)
        };
        steps().map_err(|errno| errors::from_errno(&self.join(name), "rename", errno))
    }

    /// Removes a file; a missing file is not an error.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Problem> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errors::from_errno(&self.join(name), "unlink", errno)),
        }
    }

    /// Size of a file, 0 if it does not exist.
    pub(crate) fn size(&self, name: &str) -> u64 {
        rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .ok()
            .and_then(|stat| u64::try_from(stat.st_size).ok())
            .unwrap_or(0)
    }

    /// Device and inode of a name; a link is not followed.
    pub(crate) fn identity(&self, name: &str) -> Option<(u64, u64)> {
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    /// Names in it.
    pub(crate) fn names(&self) -> Result<Vec<String>, Problem> {
        let mut names = Vec::new();
        untrusted::open_directory_beneath(&self.dir, Path::new("."))
            .and_then(|dir| {
                untrusted::list(&dir, &Budget::unlimited(), |name, _| {
                    names.extend(name.to_str().map(str::to_owned));
                    ControlFlow::Continue(())
                })
            })
            .map_err(|e| errors::from_errno(self.path(), "getdents", e.errno))?;
        Ok(names)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        // Nonblocking, because opening a FIFO by that name would block forever.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat(&self.dir, name, flags, Mode::from_raw_mode(0o600))
    }

    fn owned(&self, name: &str, opened: Result<OwnedFd, Errno>) -> Result<File, Problem> {
        let path = self.join(name);
        let fd = opened.map_err(|errno| errors::from_errno(&path, "openat", errno))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| errors::from_errno(&path, "fstat", e))?;
        belongs_to_us(&stat, &path)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(errors::foreign(&path, "it is not a regular file"));
        }
        Ok(File::from(fd))
    }
}

impl<'a> WriteLock<'a> {
    /// Waits for the write lock.
    pub(crate) fn wait(lock: &'a File, path: &Path) -> Result<Self, Problem> {
        Self::take(lock, FlockOperation::LockExclusive, path)
    }

    /// Waits until no process writes, and blocks writers.
    pub(crate) fn wait_to_read(lock: &'a File, path: &Path) -> Result<Self, Problem> {
        Self::take(lock, FlockOperation::LockShared, path)
    }

    fn take(lock: &'a File, how: FlockOperation, path: &Path) -> Result<Self, Problem> {
        loop {
            match rustix::fs::flock(lock, how) {
                Ok(()) => return Ok(Self(lock)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errors::from_errno(path, "flock", errno)),
            }
        }
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

fn belongs_to_us(stat: &Stat, path: &Path) -> Result<(), Problem> {
    let us = rustix::process::geteuid().as_raw();
    if stat.st_uid != us {
        return Err(errors::foreign(path, format!("user {} owns it, not {us}", stat.st_uid)));
    }
    if stat.st_mode & 0o022 != 0 {
        let mode = stat.st_mode & 0o7777;
        return Err(errors::foreign(path, format!("others may write it: its mode is {mode:o}"))
            .hint(format!("chmod go-rwx {path:?}")));
    }
    Ok(())
}

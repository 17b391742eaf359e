//! A copy of a tree, by handle: directories and plain files, links as links. Nothing is followed.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use ringfence_spec::Problem;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Directories below each other.
const DEPTH_MAX: usize = 64;

/// Bytes copied at once.
const CHUNK: usize = 1 << 20;

/// Copies everything in `from` into the empty directory `to`, no more than so many bytes.
pub(super) fn tree(from: &Path, to: &Path, bytes_max: u64) -> Result<(), Problem> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |path: &Path| rustix::fs::openat(CWD, path, directory, Mode::empty());
    let mut left = bytes_max;
    open(from).and_then(|from| open(to).and_then(|to| copy(&from, &to, 0, &mut left))).map_err(
        |e| match e {
            Errno::DQUOT => {
                Problem::refused("quota_exceeded", "the files do not fit the new session's quota")
            }
            e => Problem::internal("session_copy", "cannot copy the session's files").cause(e),
        },
    )
}

fn copy(from: &OwnedFd, to: &OwnedFd, depth: usize, left: &mut u64) -> Result<(), Errno> {
    let mut entries = rustix::fs::Dir::read_from(from)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name: CString = entry.file_name().to_owned();
        if name.as_bytes() == b"." || name.as_bytes() == b".." {
            continue;
        }
        let stat = match rustix::fs::statat(from, &name, AtFlags::SYMLINK_NOFOLLOW) {
            // It went away meanwhile.
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if depth < DEPTH_MAX => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let inner = rustix::fs::openat(from, &name, flags, Mode::empty())?;
                rustix::fs::mkdirat(to, &name, Mode::from_raw_mode(0o700))?;
                let target = rustix::fs::openat(to, &name, flags, Mode::empty())?;
                copy(&inner, &target, depth + 1, left)?;
                rustix::fs::fchmod(&target, mode)?;
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let source = rustix::fs::openat(from, &name, flags, Mode::empty())?;
                // What is behind the name now may be something else than was looked at.
                let now = rustix::fs::fstat(&source)?;
                if FileType::from_raw_mode(now.st_mode) != FileType::RegularFile {
                    continue;
                }
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let target = rustix::fs::openat(to, &name, flags, Mode::from_raw_mode(0o600))?;
                content(&source, &target, left)?;
                rustix::fs::fchmod(&target, mode)?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(from, &name, Vec::new())?;
                rustix::fs::symlinkat(&target, to, &name)?;
            }
            // Pipes, sockets and devices hold nothing to copy.
            _ => {}
        }
    }
    Ok(())
}

fn content(from: &OwnedFd, to: &OwnedFd, left: &mut u64) -> Result<(), Errno> {
    loop {
        let n = rustix::fs::copy_file_range(from, None, to, None, CHUNK)?;
        if n == 0 {
            return Ok(());
        }
        *left = left.checked_sub(n as u64).ok_or(Errno::DQUOT)?;
    }
}

//! Copies a tree by handle: directories and regular files, links as links, holes as holes. Follows no link.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ringfence_jail::Budget;
use ringfence_spec::{Code, Problem};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

/// Maximum nesting of directories.
const DEPTH_MAX: usize = 128;

/// Maximum entries copied; each chunk of content counts as one too.
const ENTRIES_MAX: u32 = 250_000;

/// Maximum duration of a copy.
const TIME_MAX: Duration = Duration::from_secs(30);

/// Bytes per `copy_file_range(2)`.
const CHUNK: u64 = 1 << 20;

/// Limits of one copy.
struct Copying<'a> {
    bytes_left: u64,
    budget: Budget,
    stop: &'a AtomicBool,
}

/// Reason a copy was abandoned.
enum CopyError {
    TooMuch,
    TooDeep,
    TooLong,
    Stopped,
    Call(Errno),
}

impl From<Errno> for CopyError {
    fn from(errno: Errno) -> Self {
        Self::Call(errno)
    }
}

/// Copies the contents of `from` into the empty directory `to`, up to `bytes_max` bytes, until `stop` is set.
pub(super) fn tree(
    from: &Path,
    to: &Path,
    bytes_max: u64,
    stop: &AtomicBool,
) -> Result<(), Problem> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |path: &Path| rustix::fs::openat(CWD, path, directory, Mode::empty());
    let budget = Budget::new(ENTRIES_MAX, u64::MAX, TIME_MAX);
    let mut copying = Copying { bytes_left: bytes_max, budget, stop };
    let copied = open(from).and_then(|from| Ok((from, open(to)?))).map_err(CopyError::from);
    copied.and_then(|(from, to)| copying.directory(&from, &to, 0)).map_err(|why| match why {
        CopyError::TooMuch => {
            Problem::refused(Code::QuotaExceeded, "the files do not fit the new session's quota")
        }
        CopyError::TooDeep => Problem::refused(
            Code::SessionTooDeep,
            format!("the session has more than {DEPTH_MAX} directories below each other"),
        ),
        CopyError::TooLong => Problem::refused(
            Code::SessionTooLarge,
            format!(
                "the session has more than {ENTRIES_MAX} files, or takes more than {} s to copy",
                TIME_MAX.as_secs()
            ),
        ),
        CopyError::Stopped => Problem::refused(Code::Cancelled, "the copy was cancelled"),
        CopyError::Call(e) => {
            Problem::internal(Code::SessionCopy, "cannot copy the session's files").cause(e)
        }
    })
}

impl Copying<'_> {
    fn spend(&self) -> Result<(), CopyError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(CopyError::Stopped);
        }
        self.budget.spend_entry().map_err(|_| CopyError::TooLong)
    }

    fn directory(&mut self, from: &OwnedFd, to: &OwnedFd, depth: usize) -> Result<(), CopyError> {
        let mut entries = rustix::fs::Dir::read_from(from)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name: CString = entry.file_name().to_owned();
            if name.as_bytes() == b"." || name.as_bytes() == b".." {
                continue;
            }
            self.spend()?;
            let stat = match rustix::fs::statat(from, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed meanwhile.
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth == DEPTH_MAX => return Err(CopyError::TooDeep),
                FileType::Directory => {
                    let flags =
                        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let inner = rustix::fs::openat(from, &name, flags, Mode::empty())?;
                    rustix::fs::mkdirat(to, &name, Mode::from_raw_mode(0o700))?;
                    let target = rustix::fs::openat(to, &name, flags, Mode::empty())?;
                    self.directory(&inner, &target, depth + 1)?;
                    rustix::fs::fchmod(&target, mode)?;
                }
                FileType::RegularFile => {
                    let flags =
                        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    let source = rustix::fs::openat(from, &name, flags, Mode::empty())?;
                    // The name may refer to another file now than the one checked.
                    let now = rustix::fs::fstat(&source)?;
                    if FileType::from_raw_mode(now.st_mode) != FileType::RegularFile {
                        continue;
                    }
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    let target = rustix::fs::openat(to, &name, flags, Mode::from_raw_mode(0o600))?;
                    self.content(&source, &target, u64::try_from(now.st_size).unwrap_or(0))?;
                    rustix::fs::fchmod(&target, mode)?;
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(from, &name, Vec::new())?;
                    rustix::fs::symlinkat(&target, to, &name)?;
                }
                // Pipes, sockets and devices have no content to copy.
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies the data of a file but not its holes.
    fn content(&mut self, from: &OwnedFd, to: &OwnedFd, length: u64) -> Result<(), CopyError> {
        rustix::fs::ftruncate(to, length)?;
        let mut at = 0;
        while at < length {
            let begin = match rustix::fs::seek(from, SeekFrom::Data(at)) {
                // lseek(2): no data after this offset.
                Err(Errno::NXIO) => return Ok(()),
                other => other?,
            };
            let end = rustix::fs::seek(from, SeekFrom::Hole(begin))?.min(length);
            let (mut read, mut write) = (begin, begin);
            while read < end {
                self.spend()?;
                let chunk = usize::try_from((end - read).min(CHUNK)).unwrap_or(1);
                let n = rustix::fs::copy_file_range(
                    from,
                    Some(&mut read),
                    to,
                    Some(&mut write),
                    chunk,
                )?;
                if n == 0 {
                    break;
                }
                self.bytes_left =
                    self.bytes_left.checked_sub(n as u64).ok_or(CopyError::TooMuch)?;
            }
            // The file may have been truncated meanwhile.
            at = end.max(begin + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn copied(from: &Path, bytes_max: u64) -> (tempfile::TempDir, Result<(), &'static str>) {
        let to = tempfile::tempdir().unwrap();
        let done = tree(from, to.path(), bytes_max, &AtomicBool::new(false));
        (to, done.map_err(|problem| problem.code.as_str()))
    }

    #[test]
    fn holes_stay_holes_and_data_counts() {
        let from = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(from.path().join("sparse")).unwrap();
        file.set_len(40 << 30).unwrap();
        std::os::unix::fs::FileExt::write_at(&file, b"middle", 20 << 30).unwrap();
        std::fs::write(from.path().join("plain"), vec![7; 3 << 20]).unwrap();
        let (to, done) = copied(from.path(), 8 << 20);
        assert_eq!(done, Ok(()));
        let meta = std::fs::metadata(to.path().join("sparse")).unwrap();
        assert!(meta.len() == 40 << 30 && meta.blocks() < 100, "{meta:?}");
        let mut middle = [0; 6];
        let sparse = std::fs::File::open(to.path().join("sparse")).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&sparse, &mut middle, 20 << 30).unwrap();
        assert_eq!(&middle, b"middle");
        assert_eq!(std::fs::read(to.path().join("plain")).unwrap(), vec![7; 3 << 20]);
        assert_eq!(copied(from.path(), 2 << 20).1, Err("quota_exceeded"));
    }

    #[test]
    fn a_tree_too_deep_or_unwanted_is_not_copied_in_part_without_a_word() {
        let from = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(from.path().join("d/".repeat(DEPTH_MAX + 1))).unwrap();
        assert_eq!(copied(from.path(), 1 << 20).1, Err("session_too_deep"));
        let to = tempfile::tempdir().unwrap();
        let stopped = tree(from.path(), to.path(), 1 << 20, &AtomicBool::new(true));
        assert_eq!(stopped.map_err(|problem| problem.code.as_str()), Err("cancelled"));
    }
}

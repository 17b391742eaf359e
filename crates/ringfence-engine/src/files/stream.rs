//! Files too large to be held in memory: opened and read in parts, received in a spool before they are written. And tags,
//! which tell whether a file is as it was.

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

use ringfence_spec::{Code, Problem, hex};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::path::GuestPath;
use super::read::content_kind;
use super::write::{fresh_name, write_all};
use super::{ContentKind, Workspace, problems};

/// Bytes looked at to tell text from binary.
const SNIFFED_BYTES: usize = 8 << 10;

/// Tag of a file: changes when the file is written or replaced. Made from the file's identity, size, and times of
/// modification and of change; a program can set the first of these times, and not the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTag(String);

impl FileTag {
    pub(super) fn of(stat: &Stat) -> Self {
        let mut hash = Sha256::new();
        for part in [stat.st_dev, stat.st_ino, stat.st_size.cast_unsigned()] {
            hash.update(part.to_le_bytes());
        }
        for (seconds, nanoseconds) in
            [(stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec)]
        {
            hash.update(i128::from(seconds).to_le_bytes());
            hash.update(i128::from(nanoseconds).to_le_bytes());
        }
        Self(hex(&hash.finalize()[..16]))
    }

    /// Returns the tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// State that a file must have to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Any.
    #[default]
    Any,
    /// It must not exist.
    Absent,
    /// It must exist.
    Present,
    /// It must have one of these tags.
    OneOf(Vec<String>),
    /// If it exists, it must have none of these tags.
    NoneOf(Vec<String>),
}

impl Precondition {
    pub(super) fn check(
        &self,
        act: &str,
        shown: &str,
        found: Option<&Stat>,
    ) -> Result<(), Problem> {
        let has = |tags: &[String]| {
            found.is_some_and(|stat| tags.iter().any(|tag| tag == FileTag::of(stat).as_str()))
        };
        let holds = match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Present => found.is_some(),
            Self::OneOf(tags) => has(tags),
            Self::NoneOf(tags) => !has(tags),
        };
        if holds {
            return Ok(());
        }
        let cause = match found {
            Some(_) if *self == Self::Absent => "it exists",
            Some(_) => "it is not as the request expects it: it was changed",
            None => "it does not exist",
        };
        Err(Problem::usage(Code::PreconditionFailed, problems::cannot(act, shown)).cause(cause))
    }
}

/// A file open for reading.
#[derive(Debug)]
pub struct OpenedFile {
    fd: OwnedFd,
    /// Size when it was opened.
    pub total_bytes: u64,
    /// Tag when it was opened.
    pub tag: FileTag,
    /// Kind of its first 8 KiB.
    pub kind: ContentKind,
}

impl OpenedFile {
    fn new(fd: OwnedFd, stat: &Stat) -> Result<Self, Errno> {
        let mut head = vec![0; SNIFFED_BYTES];
        let n = read_at(&fd, &mut head, 0)?;
        Ok(Self {
            fd,
            total_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            tag: FileTag::of(stat),
            kind: content_kind(&head[..n]),
        })
    }

    /// A file that was opened elsewhere, as a plain file.
    pub fn of_plain(file: std::fs::File) -> Result<Self, Problem> {
        let fd = OwnedFd::from(file);
        rustix::fs::fstat(&fd)
            .and_then(|stat| Self::new(fd, &stat))
            .map_err(|errno| problems::refused_by_kernel("read", "the file", errno))
    }

    /// Reads up to `bytes_max` bytes at an offset; fewer only at the file's end.
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Problem> {
        let mut bytes = vec![0; bytes_max];
        let n = read_at(&self.fd, &mut bytes, offset)
            .map_err(|errno| problems::refused_by_kernel("read", "the file", errno))?;
        bytes.truncate(n);
        Ok(bytes)
    }
}

fn read_at(fd: &OwnedFd, bytes: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut n = 0;
    while n < bytes.len() {
        match rustix::io::pread(fd, &mut bytes[n..], offset + n as u64) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(n)
}

impl Workspace {
    /// Opens a file to read it in parts.
    pub fn open_to_read(&self, path: impl AsRef<OsStr>) -> Result<OpenedFile, Problem> {
        let act = "read";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_read(act, &path)?;
        let (fd, stat) = self.open_file(act, &path)?;
        OpenedFile::new(fd, &stat)
            .map_err(|errno| problems::refused_by_kernel(act, &path.to_string(), errno))
    }
}

/// Content that is received in parts, in a file without a name. No run can reach it; it goes when it is dropped.
#[derive(Debug)]
pub struct Spool {
    file: OwnedFd,
    n_bytes: u64,
    bytes_max: u64,
}

impl Spool {
    /// Makes an empty one on the file system of `dir`, which no run can write.
    pub(crate) fn new(dir: &Path, bytes_max: u64) -> Result<Self, Problem> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let file = match rustix::fs::openat(CWD, dir, flags | OFlags::TMPFILE, mode) {
            // File systems without `O_TMPFILE`, such as overlays of older kernels.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => named(dir),
            other => other,
        };
        let file =
            file.map_err(|errno| problems::refused_by_kernel("store", "the upload", errno))?;
        Ok(Self { file, n_bytes: 0, bytes_max })
    }

    /// Appends to it, within the bound.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.n_bytes = self.n_bytes.saturating_add(bytes.len() as u64);
        if self.n_bytes > self.bytes_max {
            return Err(Problem::refused(Code::TooLarge, "the file is too large")
                .hint(format!("a file may have {} bytes", self.bytes_max)));
        }
        write_all(&self.file, bytes)
            .map_err(|errno| problems::refused_by_kernel("store", "the upload", errno))
    }

    /// Number of bytes received.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Calls `each` with the content, part by part.
    pub(super) fn read(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (mut at, mut part) = (0, vec![0; 1 << 20]);
        while at < self.n_bytes {
            let n = read_at(&self.file, &mut part, at)?;
            if n == 0 {
                return Err(Errno::IO);
            }
            each(&part[..n])?;
            at += n as u64;
        }
        Ok(())
    }
}

/// A file whose name is removed at once.
fn named(dir: &Path) -> Result<OwnedFd, Errno> {
    let name = dir.join(fresh_name()?);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(CWD, &name, flags, Mode::from_raw_mode(0o600))?;
    rustix::fs::unlinkat(CWD, &name, AtFlags::empty())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{FileRules, WriteOptions};

    #[test]
    fn a_tag_changes_with_the_file_and_guards_a_write() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path(), FileRules::default()).unwrap();
        let options = WriteOptions::default();
        let write = |content: &[u8], when: &Precondition| {
            workspace.write_if("a", content, options, when).map_err(|p| p.code.as_str())
        };
        let failed = Err("precondition_failed");
        assert_eq!(write(b"1", &Precondition::Present).map(drop), failed);
        let first = write(b"1", &Precondition::Absent).unwrap().tag;
        assert_eq!(workspace.open_to_read("a").unwrap().tag, first);
        assert_eq!(write(b"2", &Precondition::Absent).map(drop), failed);
        let expected = Precondition::OneOf(vec!["x".to_owned(), first.to_string()]);
        let second = write(b"2", &expected).unwrap().tag;
        assert_ne!(first, second);
        assert_eq!(write(b"3", &expected).map(drop), failed);
        assert_eq!(write(b"3", &Precondition::NoneOf(vec![second.to_string()])).map(drop), failed);
        assert_eq!(workspace.read("a", 0, None).unwrap().bytes, b"2");
        // Written in place, as a program would.
        std::fs::write(dir.path().join("a"), b"4").unwrap();
        assert_ne!(workspace.open_to_read("a").unwrap().tag, second);
    }

    #[test]
    fn a_spool_is_bounded_and_written_whole() {
        let (data, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::open(dir.path(), FileRules::default()).unwrap();
        let mut spool = Spool::new(data.path(), 3 << 20).unwrap();
        let part: Vec<u8> = (0..=255).collect();
        for _ in 0..3 << 12 {
            spool.write(&part).unwrap();
        }
        let options = WriteOptions::default();
        let written = workspace.write_spooled("b", &spool, options, &Precondition::Any).unwrap();
        let read = workspace.read("b", 0, None).unwrap();
        assert_eq!((written.total_bytes, &written.sha256), (3 << 20, &read.sha256));
        assert!(read.bytes == part.repeat(3 << 12));
        assert_eq!(spool.write(b"x").unwrap_err().code, Code::TooLarge);
        assert!(std::fs::read_dir(data.path()).unwrap().next().is_none());
    }
}

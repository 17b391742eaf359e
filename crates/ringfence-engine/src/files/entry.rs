//! Metadata of a file without opening it. Reads no content and follows no link.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use base64::Engine as _;
use ringfence_spec::{Code, Problem};
use rustix::fs::{FileType, OFlags, Stat};
use serde::Serialize;

use super::handle::Seen;
use super::path::GuestPath;
use super::{Workspace, path, problems};

/// An entry of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Path relative to the workspace; invalid UTF-8 is replaced by `�`.
    pub path: String,
    /// The exact path in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Type of the entry.
    pub kind: EntryKind,
    /// Size; for a link, the length of its target.
    pub bytes: u64,
    /// Permission bits, as `chmod` takes them.
    pub mode: u32,
    /// Modification time in milliseconds since 1970.
    pub modified_ms: i64,
    /// Number of hard links.
    pub n_links: u64,
    /// Target of a link, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_target: Option<String>,
}

/// Type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which is never followed.
    Link,
    /// A FIFO, socket or device: never opened.
    Special,
    /// A mount point: never entered.
    Mount,
}

impl Workspace {
    /// Returns the metadata of a path. A link is described itself, not its target.
    pub fn stat(&self, path: impl AsRef<OsStr>) -> Result<Entry, Problem> {
        let act = "look at";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_read(act, &path)?;
        if path.split().is_none() {
            let fail = |errno| problems::refused_by_kernel(act, ".", errno);
            let stat = self.root.stat().map_err(fail)?;
            return Ok(Entry::new(b".", &stat, EntryKind::Directory, None));
        }
        let found = self.find(act, &path)?;
        Ok(Entry::seen(&path::joined(path.names()), &found.seen))
    }

    /// Opens the regular file at a path for reading.
    pub(super) fn open_file(
        &self,
        act: &str,
        path: &GuestPath,
    ) -> Result<(OwnedFd, Stat), Problem> {
        let shown = path.to_string();
        if path.split().is_none() {
            return Err(problems::not_a_file(act, &shown, "a directory"));
        }
        let found = self.find(act, path)?;
        self.check_plain(act, path, &found.seen)?;
        let fail = |errno| self.explain(act, path.names(), errno);
        // Checked before the open, so that no device is opened; checked again, because the name may be replaced.
        let fd = self.root.open_in(&found.dir, found.name, OFlags::RDONLY).map_err(fail)?;
        let stat = rustix::fs::fstat(&fd).map_err(fail)?;
        let seen = Seen { fd, stat };
        self.check_plain(act, path, &seen)?;
        Ok((seen.fd, seen.stat))
    }

    /// Opens a file of a directory that a walk reached; none if it is not a regular file, or may come from outside.
    /// Its type was read from the directory, so no device is opened; `owner` is that of the workspace.
    pub(super) fn open_plain_in(&self, dir: &OwnedFd, name: &OsStr, owner: u32) -> Option<OwnedFd> {
        let fd = self.root.open_in(dir, name, OFlags::RDONLY).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        (is_plain && !is_shared(&stat, owner)).then_some(fd)
    }

    /// Owner of the workspace; no user if unknown.
    pub(super) fn owner(&self) -> u32 {
        self.root.stat().map_or(u32::MAX, |stat| stat.st_uid)
    }

    /// Opens a file to index or to show a hit; none if no tool may read it.
    pub(crate) fn open_to_search(&self, path: &str) -> Option<(OwnedFd, Stat)> {
        let path = GuestPath::parse("search", path.as_ref()).ok()?;
        self.check_may_read("search", &path).ok()?;
        self.open_file("search", &path).ok()
    }

    /// Returns the path of an entry that exists, relative to the workspace and without `.` and `..`.
    pub(crate) fn path_of(&self, path: &OsStr) -> Result<PathBuf, Problem> {
        let path = GuestPath::parse("index", path)?;
        self.check_may_read("index", &path)?;
        if path.split().is_some() {
            self.find("index", &path)?;
        }
        Ok(path.names().iter().collect())
    }

    /// Returns true if no tool may read a path.
    pub(crate) fn hides(&self, path: &str) -> bool {
        if self.rules.read_forbidden.is_empty() {
            return false;
        }
        GuestPath::parse("search", path.as_ref())
            .and_then(|path| self.check_may_read("search", &path))
            .is_err()
    }

    /// Refuses anything but a regular file, and a hard-linked file of another owner, which may come from outside.
    pub(super) fn check_plain(
        &self,
        act: &str,
        path: &GuestPath,
        seen: &Seen,
    ) -> Result<(), Problem> {
        match seen.file_type() {
            FileType::RegularFile => {}
            FileType::Symlink => {
                return Err(self.explain(act, path.names(), rustix::io::Errno::LOOP));
            }
            other => return Err(problems::not_a_file(act, &path.to_string(), a_kind(other))),
        }
        if is_shared(&seen.stat, self.owner()) {
            let shown = path.to_string();
            return Err(Problem::refused(Code::PathShared, problems::cannot(act, &shown)).cause(
                "it has several names and another owner than the workspace: it may be a file from outside",
            ));
        }
        Ok(())
    }
}

/// Returns true for a hard-linked file of another owner.
fn is_shared(stat: &Stat, owner: u32) -> bool {
    stat.st_nlink > 1 && stat.st_uid != owner
}

impl Entry {
    pub(super) fn seen(path: &[u8], seen: &Seen) -> Self {
        let link = || rustix::fs::readlinkat(&seen.fd, "", Vec::new()).ok();
        match seen.file_type() {
            FileType::RegularFile => Self::new(path, &seen.stat, EntryKind::File, None),
            FileType::Directory => Self::new(path, &seen.stat, EntryKind::Directory, None),
            FileType::Symlink => {
                let target = link().map(|t| t.to_string_lossy().into_owned());
                Self::new(path, &seen.stat, EntryKind::Link, target)
            }
            _ => Self::new(path, &seen.stat, EntryKind::Special, None),
        }
    }

    /// An entry for a mount point. Gives no metadata besides its path.
    pub(super) fn mount(path: &[u8]) -> Self {
        let (text, base64) = names_of(path);
        Self {
            path: text,
            path_base64: base64,
            kind: EntryKind::Mount,
            bytes: 0,
            mode: 0,
            modified_ms: 0,
            n_links: 0,
            link_target: None,
        }
    }

    fn new(path: &[u8], stat: &Stat, kind: EntryKind, link_target: Option<String>) -> Self {
        let (text, base64) = names_of(path);
        let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        Self {
            path: text,
            path_base64: base64,
            kind,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            modified_ms: stat.st_mtime.saturating_mul(1000).saturating_add(nanos / 1_000_000),
            n_links: stat.st_nlink,
            link_target,
        }
    }
}

fn names_of(path: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(path) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (
            OsStr::from_bytes(path).to_string_lossy().into_owned(),
            Some(base64::engine::general_purpose::STANDARD.encode(path)),
        ),
    }
}

/// Name of a file type, with its article.
pub(super) fn a_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a plain file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

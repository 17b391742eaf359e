//! The files of a session's workspace: read, write, list, search, move, delete, stat.
//!
//! Every path is looked up by descriptor from the workspace down. A link is never followed, wherever it points: access
//! through it is refused with `path_link`, and the error names the target if that is a file or directory in the
//! workspace. So a path has one meaning, `a/../b` is `b`, and the name the rules check is the name of the file that is
//! accessed. The link itself can be listed, moved and deleted.
//!
//! Writing replaces: a new file takes the old one's name, so a file with several hard links is never changed under its
//! other names. A hard-linked file whose owner is not the workspace's owner is not read either.
//!
//! Never waits for the guest (FIFOs, devices and leased files are refused at once), never shows a host path, never
//! touches a mount inside the workspace. Blocks the thread: async callers must call from a blocking thread.
//!
//! ```
//! use ringfence_engine::files::{FileRules, Workspace, WriteOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let workspace = Workspace::open(dir.path(), FileRules::default())?;
//! workspace.write("notes.md", b"# Notes", WriteOptions::default())?;
//! assert_eq!(workspace.read("/workspace/notes.md", 2, None)?.bytes, b"Notes");
//!
//! let refused = workspace.write(".git/config", b"", WriteOptions::default()).unwrap_err();
//! assert_eq!(refused.code.as_str(), "path_forbidden");
//! assert_eq!(workspace.read("../../etc/passwd", 0, None).unwrap_err().code.as_str(), "path_outside");
//! # Ok(())
//! # }
//! ```

mod delete;
mod edit;
mod entry;
mod grep;
mod handle;
mod list;
mod path;
mod problems;
mod read;
mod relocate;
mod rules;
mod stream;
mod usage;
mod walk;
mod write;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_spec::{Code, Problem};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

pub use delete::{Deleted, Depth};
pub use edit::Edit;
pub use entry::{Entry, EntryKind};
pub use grep::GrepQuery;
pub use handle::Lookup;
pub use list::{LIST_DEPTH_MAX, LIST_ENTRIES_MAX, Listing};
pub use read::{ContentKind, Contents};
pub use relocate::OnConflict;
pub use ringfence_search::{
    Bounds as GrepBounds, Case, Context as GrepContext, Cut, FileMatches, Found as Grepped,
    MATCHES_MAX as GREP_MATCHES_MAX, MATCHES_USUAL as GREP_MATCHES_USUAL, Match, PatternStyle,
    Report as GrepReport, Select,
};
pub(crate) use rules::check_copy;
pub use rules::{FileAccess, FileRules, Patterns, WRITE_FORBIDDEN};
pub use stream::{FileTag, OpenedFile, Precondition, Spool};
pub use usage::Usage;
pub(crate) use usage::{BYTES_PER_INODE, not_counted};
pub use write::{Durability, Parents, WriteMode, WriteOptions, WrittenFile};

use handle::{Root, Seen};
use path::GuestPath;
pub(crate) use path::{PATH_BYTES_MAX, normal_path};
use usage::Meter;

/// A session's files. Operations that change files exclude each other.
#[derive(Debug)]
pub struct Workspace {
    root: Root,
    rules: FileRules,
    meter: Mutex<Meter>,
}

impl Workspace {
    /// Opens a host directory; later renames of it have no effect.
    pub fn open(dir: &Path, rules: FileRules) -> Result<Self, Problem> {
        Self::open_with(dir, rules, Lookup::Kernel)
    }

    /// Opens a host directory with the given lookup method.
    pub fn open_with(dir: &Path, rules: FileRules, lookup: Lookup) -> Result<Self, Problem> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, dir, flags, Mode::empty())
            .and_then(|dir| Root::new(dir, lookup))
            .map_err(|errno| {
                Problem::internal(Code::WorkspaceMissing, "cannot open the session's workspace")
                    .cause(errno)
            })?;
        Ok(Self { root, rules, meter: Mutex::default() })
    }

    /// Returns the workspace's rules.
    pub fn rules(&self) -> &FileRules {
        &self.rules
    }

    /// Locks the workspace for a change: a check of a directory's contents still holds when the directory is moved, as
    /// far as these operations go, and two writes cannot both take the last of the quota.
    fn changing(&self) -> MutexGuard<'_, Meter> {
        // The meter is a cache that is counted again, so a panic elsewhere cannot leave it wrong for good.
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_may_change(&self, act: &str, path: &GuestPath) -> Result<(), Problem> {
        if self.rules.access == FileAccess::ReadOnly {
            return Err(problems::read_only(act, &path.to_string()));
        }
        if self.rules.write_forbidden.matches(path.names()) {
            let why = "the policy protects this name from being changed: programs of the host may obey such a file";
            let problem = problems::forbidden(act, path.names(), why);
            return Err(problem.hint("choose another name, or make it by a program in the session"));
        }
        Ok(())
    }

    fn check_may_read(&self, act: &str, path: &GuestPath) -> Result<(), Problem> {
        if self.rules.read_forbidden.matches(path.names()) {
            let why = "the policy does not let this name be read";
            return Err(problems::forbidden(act, path.names(), why));
        }
        Ok(())
    }

    /// Finds the directory of a path, its name there, and its metadata.
    fn find<'a>(&self, act: &str, path: &'a GuestPath) -> Result<ExistingEntry<'a>, Problem> {
        let Some((parents, name)) = path.split() else {
            let why = "it is the workspace itself";
            return Err(problems::invalid(act, b".", why));
        };
        let fail = |errno| self.explain(act, path.names(), errno);
        let dir = self.root.directory(parents).map_err(fail)?;
        let seen = self.root.look(&dir, name).map_err(fail)?;
        if path.names_a_directory() && seen.file_type() != FileType::Directory {
            return Err(self.explain(act, path.names(), Errno::NOTDIR));
        }
        Ok(ExistingEntry { dir, name, seen })
    }

    /// Explains the kernel's error for this path: names the link, the non-directory or the mount in the way.
    fn explain(&self, act: &str, names: &[OsString], errno: Errno) -> Problem {
        let path = path::shown(names);
        if !matches!(errno, Errno::NOTDIR | Errno::LOOP | Errno::XDEV) {
            return problems::refused_by_kernel(act, &path, errno);
        }
        let Ok(mut dir) = self.root.directory(&[]) else {
            return problems::refused_by_kernel(act, &path, errno);
        };
        for (n, name) in names.iter().enumerate() {
            let here = path::shown(&names[..=n]);
            match self.root.look(&dir, name) {
                Ok(seen) if seen.file_type() == FileType::Symlink => {
                    return self.link_problem(act, names, n, &seen);
                }
                Ok(seen) if seen.file_type() != FileType::Directory => {
                    return problems::refused_by_kernel(act, &path, Errno::NOTDIR)
                        .cause(format!("`{here}` is {}", entry::a_kind(seen.file_type())));
                }
                Ok(seen) => dir = seen.fd,
                Err(Errno::XDEV) => {
                    return problems::refused_by_kernel(act, &path, Errno::XDEV)
                        .cause(format!("something is mounted at `{here}`"));
                }
                Err(_) => break,
            }
        }
        problems::refused_by_kernel(act, &path, errno)
    }

    /// Builds the error for a link at `names[n]`. Suggests its target if that is a file or directory in the workspace.
    fn link_problem(&self, act: &str, names: &[OsString], n: usize, link: &Seen) -> Problem {
        let here = path::shown(&names[..=n]);
        let problem = problems::refused_by_kernel(act, &path::shown(names), Errno::LOOP)
            .cause(format!("`{here}` is a link, and links are not followed"));
        let Ok(target) = rustix::fs::readlinkat(&link.fd, "", Vec::new()) else { return problem };
        match self.behind_link(act, &names[..n], target.as_bytes(), &names[n + 1..]) {
            Some(path) => problem.hint(format!("name what it points to: `{path}`")),
            None => problem,
        }
    }

    /// Resolves a link in the directory `dir` followed by `rest`, if the result is in the workspace and may be read.
    fn behind_link(
        &self,
        act: &str,
        dir: &[OsString],
        target: &[u8],
        rest: &[OsString],
    ) -> Option<GuestPath> {
        let mut text = if target.starts_with(b"/") { Vec::new() } else { path::joined(dir) };
        if !text.is_empty() {
            text.push(b'/');
        }
        text.extend_from_slice(target);
        for name in rest {
            text.push(b'/');
            text.extend_from_slice(name.as_encoded_bytes());
        }
        let text: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(text.as_slice());
        let path = GuestPath::parse(act, text).ok()?;
        self.check_may_read(act, &path).ok()?;
        let (parents, name) = path.split()?;
        let dir = self.root.directory(parents).ok()?;
        let kind = self.root.look(&dir, name).ok()?.file_type();
        matches!(kind, FileType::RegularFile | FileType::Directory).then_some(path)
    }
}

/// An existing entry, by descriptor.
struct ExistingEntry<'a> {
    dir: OwnedFd,
    name: &'a OsStr,
    seen: Seen,
}

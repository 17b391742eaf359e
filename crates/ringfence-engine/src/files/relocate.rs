//! Renames a file, a directory or a link. Copies nothing and follows no link.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;

use ringfence_spec::Problem;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::path::GuestPath;
use super::walk::{Closed, ENTRIES_MAX, Walked, walk};
use super::write::{Parents, rename_new};
use super::{ExistingEntry, Workspace, problems};

/// Handling of an existing file at the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Fail with `exists`.
    Fail,
    /// Replace a file or link, never a directory.
    Replace,
}

impl Workspace {
    /// Renames `from` to `to`. Refuses a directory that holds a protected name, at the old or the new path.
    pub fn rename(
        &self,
        from: impl AsRef<OsStr>,
        to: impl AsRef<OsStr>,
        on_conflict: OnConflict,
        parents: Parents,
    ) -> Result<(), Problem> {
        let act = "move";
        let from = GuestPath::parse(act, from.as_ref())?;
        let to = GuestPath::parse("move to", to.as_ref())?;
        self.check_may_change(act, &from)?;
        self.check_may_read(act, &from)?;
        self.check_may_change("move to", &to)?;
        to.check_new("move to")?;
        if to.split().is_none() {
            return Err(problems::invalid("move to", b".", "it is the workspace itself"));
        }
        let _changing = self.changing();

        let found = self.find(act, &from)?;
        let is_directory = found.seen.file_type() == FileType::Directory;
        if is_directory {
            if to.names().starts_with(from.names()) {
                let why = format!("it would be moved into `{from}`, which is itself");
                return Err(problems::invalid("move to", to.to_string().as_bytes(), &why));
            }
            self.check_holds_nothing_protected(act, &from, Some(&to), &found)?;
        } else if to.names_a_directory() {
            let why = format!("its end says that it names a directory, and `{from}` is none");
            return Err(
                problems::refused_by_kernel("move to", &to.to_string(), Errno::NOTDIR).cause(why)
            );
        }
        let (to_dir, to_name) = self.parent_of("move to", &to, parents, &mut Vec::new())?;
        let fail = |errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR => {
                problems::exists("move to", &to.to_string())
            }
            _ => self.explain(act, from.names(), errno),
        };
        let replaceable = on_conflict == OnConflict::Replace && !is_directory;
        if replaceable {
            rustix::fs::renameat(&found.dir, found.name, &to_dir, to_name).map_err(fail)
        } else {
            rename_new(&found.dir, found.name, &to_dir, to_name).map_err(fail)
        }
    }

    /// Refuses to move or delete a directory that holds a protected name, at its old or its new path: the files would
    /// be lost, escape their rule, or take a name that a rule protects.
    pub(super) fn check_holds_nothing_protected(
        &self,
        act: &str,
        from: &GuestPath,
        to: Option<&GuestPath>,
        found: &ExistingEntry<'_>,
    ) -> Result<(), Problem> {
        let (write, read) = (&self.rules.write_forbidden, &self.rules.read_forbidden);
        if write.is_empty() && read.is_empty() {
            return Ok(());
        }
        let fail = |errno| self.explain(act, from.names(), errno);
        let top = self
            .root
            .open_in(&found.dir, found.name, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(fail)?;
        let mut path: Vec<OsString> = Vec::new();
        let mut is_protected = |above: &GuestPath, below: &[OsString]| {
            path.clear();
            path.extend_from_slice(above.names());
            path.extend_from_slice(below);
            // An unreadable file may be deleted, but not moved to a path where it could be read.
            let read = to.is_some() && read.matches_last(&path);
            (read || write.matches_last(&path)).then(|| path.clone())
        };
        let walked = walk(&self.root, &top, Closed::Skip, |below, _| {
            let hit =
                is_protected(from, below).or_else(|| to.and_then(|to| is_protected(to, below)));
            hit.map_or(ControlFlow::Continue(()), ControlFlow::Break)
        });
        match walked.map_err(fail)? {
            Walked::All => Ok(()),
            Walked::NotAll => {
                let why = format!(
                    "not all of it can be looked at for protected names: it has {ENTRIES_MAX} entries or more, or a directory that may not be read"
                );
                Err(problems::too_large(act, &from.to_string(), why))
            }
            Walked::Stopped(hit) => {
                let hit = super::path::shown(&hit);
                let why = format!("it holds `{hit}`, a name that the policy protects");
                Err(problems::forbidden(act, from.names(), why))
            }
        }
    }
}

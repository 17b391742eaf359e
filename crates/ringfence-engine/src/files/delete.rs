//! Deletes a file, a link, or a directory with its contents, by descriptor. Deletes a link, never its target.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use ringfence_spec::Problem;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::path::GuestPath;
use super::stream::Precondition;
use super::walk::{Closed, ENTRIES_MAX, names_in, walk};
use super::write::{fresh_name, is_draft};
use super::{Workspace, problems};

/// Maximum nesting of directories held open. Deeper directories are first moved up into the directory being deleted.
const HELD_MAX: usize = 64;

/// Recursion of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Delete a directory only if it is empty.
    One,
    /// Delete a directory with its contents.
    All,
}

/// Result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Number of entries deleted.
    pub n_entries: u64,
}

impl Workspace {
    /// Deletes the entry at a path. A directory that holds a protected name is refused before anything is deleted.
    pub fn delete(&self, path: impl AsRef<OsStr>, depth: Depth) -> Result<Deleted, Problem> {
        self.delete_if(path, depth, &Precondition::Any)
    }

    /// Deletes an entry if its state is as expected.
    pub fn delete_if(
        &self,
        path: impl AsRef<OsStr>,
        depth: Depth,
        when: &Precondition,
    ) -> Result<Deleted, Problem> {
        let act = "delete";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_change(act, &path)?;
        let mut meter = self.changing();
        let found = self.find(act, &path)?;
        when.check(act, &path.to_string(), Some(&found.seen.stat))?;
        meter.forget();
        let fail = |errno| self.explain(act, path.names(), errno);
        if found.seen.file_type() != FileType::Directory {
            rustix::fs::unlinkat(&found.dir, found.name, AtFlags::empty()).map_err(fail)?;
            return Ok(Deleted { n_entries: 1 });
        }
        let mut n_gone = 0;
        if depth == Depth::All {
            self.check_holds_nothing_protected(act, &path, None, &found)?;
            let emptied = self
                .root
                .open_up(&found.dir, found.name)
                .and_then(|top| self.empty_out(&top, &mut n_gone));
            emptied.map_err(|errno| {
                let problem = fail(errno);
                let state = format!("{n_gone} of its entries are deleted, the rest is there");
                if n_gone == 0 { problem } else { problem.hint(state) }
            })?;
        }
        rustix::fs::unlinkat(&found.dir, found.name, AtFlags::REMOVEDIR).map_err(fail)?;
        Ok(Deleted { n_entries: n_gone + 1 })
    }

    /// Deletes everything in the workspace, ignoring its rules, to end a session. Keeps the directory itself.
    pub fn clear(&self) -> Result<Deleted, Problem> {
        let mut meter = self.changing();
        meter.forget();
        let mut n_gone = 0;
        self.root
            .directory(&[])
            .and_then(|top| self.root.open_up(&top, OsStr::new(".")))
            .and_then(|top| self.empty_out(&top, &mut n_gone))
            .map_err(|errno| problems::refused_by_kernel("clear", ".", errno))?;
        Ok(Deleted { n_entries: n_gone })
    }

    /// Deletes the drafts of interrupted writes. Not safe while another process may write here.
    pub fn remove_drafts(&self) -> Result<Deleted, Problem> {
        let fail = |errno| problems::refused_by_kernel("tidy", ".", errno);
        let mut meter = self.changing();
        meter.forget();
        let top = self.root.directory(&[]).map_err(fail)?;
        let mut drafts = Vec::new();
        let walked = walk(&self.root, &top, Closed::Skip, |names, stat| {
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file && names.last().is_some_and(|name| is_draft(name)) {
                drafts.push(names.to_vec());
            }
            ControlFlow::<()>::Continue(())
        });
        walked.map_err(fail)?;
        let mut n_entries = 0;
        for names in drafts {
            let Some((name, parents)) = names.split_last() else { continue };
            let Ok(dir) = self.root.directory(parents) else { continue };
            if rustix::fs::unlinkat(&dir, name, AtFlags::empty()).is_ok() {
                n_entries += 1;
            }
        }
        Ok(Deleted { n_entries })
    }

    fn empty_out(&self, top: &OwnedFd, n_gone: &mut u64) -> Result<(), Errno> {
        // Each round deletes the upper levels of the directories that the previous round moved up.
        while self.empty_levels(top, top, 0, n_gone)? == Round::MovedUp {}
        Ok(())
    }

    fn empty_levels(
        &self,
        top: &OwnedFd,
        dir: &OwnedFd,
        level: usize,
        n_gone: &mut u64,
    ) -> Result<Round, Errno> {
        let mut round = Round::Done;
        let names = names_in(dir, ENTRIES_MAX)?.ok_or(Errno::OVERFLOW)?;
        for name in names {
            match rustix::fs::unlinkat(dir, &name, AtFlags::empty()) {
                Ok(()) => {
                    *n_gone += 1;
                    continue;
                }
                Err(Errno::NOENT) => continue,
                // A directory: EISDIR on Linux, EPERM by POSIX.
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
            if level == HELD_MAX {
                rustix::fs::renameat(dir, &name, top, fresh_name()?)?;
                round = Round::MovedUp;
                continue;
            }
            let below = match self.root.open_up(dir, &name) {
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            if self.empty_levels(top, &below, level + 1, n_gone)? == Round::MovedUp {
                round = Round::MovedUp;
            }
            match rustix::fs::unlinkat(dir, &name, AtFlags::REMOVEDIR) {
                Ok(()) => *n_gone += 1,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(round)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Done,
    MovedUp,
}

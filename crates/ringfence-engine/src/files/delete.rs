//! Deletes a file, a link, or a directory with its contents, by descriptor. Deletes a link, never its target.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::time::Duration;

use ringfence_jail::{Budget, CallError, remove_at};
use ringfence_spec::Problem;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::path::GuestPath;
use super::stream::Precondition;
use super::walk::{Closed, walk};
use super::write::is_draft;
use super::{Workspace, problems};

/// Maximum time of one delete.
const DELETE_MAX: Duration = Duration::from_secs(30);

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
        if depth == Depth::One {
            rustix::fs::unlinkat(&found.dir, found.name, AtFlags::REMOVEDIR).map_err(fail)?;
            return Ok(Deleted { n_entries: 1 });
        }
        self.check_holds_nothing_protected(act, &path, None, &found)?;
        let (budget, mut n_entries) = (Budget::time(DELETE_MAX), 0);
        let removed = remove_at(&found.dir, found.name, &budget, &mut n_entries);
        let problem = |error: CallError| match budget.check_time() {
            Ok(()) => fail(error.errno),
            Err(_) => problems::refused_by_kernel(act, &path.to_string(), Errno::BUSY)
                .cause(format!("it takes longer than {} s", DELETE_MAX.as_secs())),
        };
        match removed {
            Ok(()) => Ok(Deleted { n_entries }),
            Err(error) if n_entries == 0 => Err(problem(error)),
            Err(error) => Err(problem(error)
                .hint(format!("{n_entries} of its entries are deleted, the rest is there"))),
        }
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
}

//! Links, pipes and devices among git's own files. Git opens, overwrites and prunes its files by name: a link there has
//! `git commit` write, or `git gc` delete, whatever it leads to.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_sys::untrusted::{self, stat_at};
use ringfence_sys::{Budget, CallError};
use rustix::fs::FileType;

/// Files and directories of one git directory that are looked at.
pub(crate) const ENTRIES_MAX: u32 = 50_000;

/// Deeper than any name of a branch that people use.
const DEPTH_MAX: usize = 24;

/// Directories that are not entered: runs cannot write the first two, and the others hold content by its hash.
const NOT_ENTERED: [&str; 4] = ["hooks", "modules", "annex", "lfs/objects"];

/// Directories in which people make links of their own; tools that share parts of a repository link its top entries.
const WITH_LINKS: [&str; 2] = ["", "info"];

/// Entries that are neither files nor directories where people have some, before a run.
pub(crate) fn before(git_dir: &OwnedFd) -> BTreeSet<PathBuf> {
    let mut odd = BTreeSet::new();
    let budget = Budget::entries(1000);
    for dir in WITH_LINKS {
        let _ = list(git_dir, Path::new(dir), &budget, |path, kind| {
            if is_odd(kind) {
                odd.insert(path);
            }
        });
    }
    odd
}

/// All such entries, at any depth.
pub(crate) fn after(git_dir: &OwnedFd, budget: &Budget) -> Result<Vec<PathBuf>, CallError> {
    let mut odd = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        list(git_dir, &dir, budget, |path, kind| {
            if is_odd(kind) {
                odd.push(path);
            } else if kind == FileType::Directory && is_entered(&path) {
                pending.push(path);
            }
        })?;
    }
    odd.sort();
    Ok(odd)
}

fn is_odd(kind: FileType) -> bool {
    !matches!(kind, FileType::RegularFile | FileType::Directory)
}

fn is_entered(path: &Path) -> bool {
    if NOT_ENTERED.iter().any(|name| path == Path::new(name)) {
        return false;
    }
    // Loose objects, of which there may be very many, are found by their content.
    let is_loose = path.parent() == Some(Path::new("objects"))
        && path.file_name().is_some_and(|name| name.len() == 2);
    !is_loose && path.components().count() <= DEPTH_MAX
}

fn list(
    git_dir: &OwnedFd,
    at: &Path,
    budget: &Budget,
    mut each: impl FnMut(PathBuf, FileType),
) -> Result<(), CallError> {
    let here = if at.as_os_str().is_empty() { Path::new(".") } else { at };
    budget.spend_entry()?;
    let Ok(dir) = untrusted::open_directory_beneath(git_dir, here) else { return Ok(()) };
    untrusted::list(&dir, budget, |name: &OsStr, kind| {
        each(at.join(name), known(&dir, name, kind));
        ControlFlow::Continue(())
    })
}

/// The type of an entry; some filesystems do not tell it in a listing.
fn known(dir: impl AsFd, name: &OsStr, kind: FileType) -> FileType {
    match kind {
        FileType::Unknown => stat_at(dir, name)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        kind => kind,
    }
}

//! Links, pipes and devices among git's own files. Git opens, overwrites and prunes its files by name: a link there has
//! `git commit` write, or `git gc` delete, whatever it leads to.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_sys::untrusted::{self, stat_at};
use ringfence_sys::{Budget, CallError};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Files and directories of one git directory that are looked at.
pub(crate) const ENTRIES_MAX: u32 = 50_000;

/// Directories of them that are listed; a repository with so many has names of branches with many slashes.
const DIRECTORIES_MAX: usize = 256;

/// Directories that git writes or deletes in, and how deep: gitrepository-layout(5). Objects are found by their content, so
/// of them only the directories of packs; what is not named here git does not enter. No run can write `hooks` and `modules`.
const ENTERED: [(&str, usize); 12] = [
    ("logs", 32),
    ("refs", 32),
    ("worktrees", 4),
    ("rr-cache", 2),
    ("objects", 2),
    ("info", 1),
    ("lfs", 2),
    ("rebase-merge", 2),
    ("rebase-apply", 2),
    ("sequencer", 1),
    ("remotes", 8),
    ("branches", 8),
];

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
pub(crate) fn after(
    git_dir: &OwnedFd,
    budget: &Budget,
    odd: &mut Vec<PathBuf>,
) -> Result<(), CallError> {
    // Level by level: what is at the top is found whatever is below.
    let mut pending = VecDeque::from([PathBuf::new()]);
    let mut n_listed = 0;
    while let Some(dir) = pending.pop_front() {
        n_listed += 1;
        if n_listed > DIRECTORIES_MAX {
            return Err(CallError::new("it has more directories than are searched", Errno::DQUOT));
        }
        list(git_dir, &dir, budget, |path, kind| {
            if is_odd(kind) {
                odd.push(path);
            } else if kind == FileType::Directory && is_entered(&path) {
                pending.push_back(path);
            }
        })?;
    }
    Ok(())
}

fn is_odd(kind: FileType) -> bool {
    !matches!(kind, FileType::RegularFile | FileType::Directory)
}

fn is_entered(path: &Path) -> bool {
    let mut names = path.iter();
    let first = names.next().and_then(OsStr::to_str).unwrap_or_default();
    let depth = 1 + names.clone().count();
    let is_loose = first == "objects" && names.next().is_some_and(|name| name.len() == 2);
    !is_loose && ENTERED.iter().any(|(name, depth_max)| *name == first && depth <= *depth_max)
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

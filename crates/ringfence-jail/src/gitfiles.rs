//! Finds links, pipes and devices among git's own files. Git opens, overwrites and prunes its files by name: through a
//! link there `git commit` writes, or `git gc` deletes, the link's target.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ringfence_plan::FileId;
use ringfence_sys::untrusted;
use ringfence_sys::{Budget, CallError, TMPFS_MAGIC};
use rustix::fs::{FileType, FsWord, Stat};
use rustix::io::Errno;

use crate::file_time::StartTimes;
use crate::open::{id_of, is_on};

/// Maximum number of files and directories checked in one git directory.
pub(crate) const ENTRIES_MAX: u32 = 20_000;

/// Maximum number of directories listed; a repository with more has branch names with many slashes.
const DIRECTORIES_MAX: usize = 512;

/// Directories that git writes or deletes in, and their depth: gitrepository-layout(5). Objects are found by their
/// content, so of them only the directories of packs; git does not enter a directory that is not listed here. No run
/// can write `hooks` and `modules`.
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

/// A directory in which users make links of their own, besides the top: an old link in it may stay.
const WITH_LINKS: &str = "info";

/// Filesystems on which a directory has two links plus one for each subdirectory: find(1) relies on the same.
const COUNTS_DIRECTORIES: &[(&str, FsWord)] =
    &[("ext2, ext3, ext4", 0xef53), ("XFS", 0x5846_5342), ("tmpfs", TMPFS_MAGIC)];

/// Entries of a git directory that are neither files nor directories and that a run put there.
pub(crate) struct OddFiles<'a> {
    git_dir: &'a OwnedFd,
    /// State before the run; `None` if the run made the repository.
    before: Option<BeforeRun<'a>>,
    counts_directories: bool,
}

/// What is known of a git directory that was there before the run.
struct BeforeRun<'a> {
    began: &'a StartTimes,
    /// The directory that was at [`WITH_LINKS`].
    links_dir: Option<FileId>,
}

/// Place of a directory, compared with before the run. Its own stamp does not tell: the run may have moved one above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    InPlace,
    MayBeMoved,
}

/// Identity of the directory at [`WITH_LINKS`], before a run.
pub(crate) fn links_dir(git_dir: &OwnedFd) -> Option<FileId> {
    untrusted::stat_at(git_dir, WITH_LINKS).map(|stat| id_of(&stat))
}

impl<'a> OddFiles<'a> {
    /// Those that came since the run began.
    pub(crate) fn since(
        git_dir: &'a OwnedFd,
        began: &'a StartTimes,
        links_dir: Option<FileId>,
    ) -> Self {
        let before = Some(BeforeRun { began, links_dir });
        Self { before, ..Self::all(git_dir) }
    }

    /// All.
    pub(crate) fn all(git_dir: &'a OwnedFd) -> Self {
        let counts_directories = is_on(git_dir, COUNTS_DIRECTORIES);
        Self { git_dir, before: None, counts_directories }
    }

    /// Finds them at any depth.
    pub(crate) fn find(&self, budget: &Budget, odd: &mut Vec<PathBuf>) -> Result<(), CallError> {
        // Breadth first, so that entries at the top are found however much is below.
        let mut pending = VecDeque::from([(PathBuf::new(), Stays::InPlace)]);
        let mut n_seen = 0;
        // What cannot be listed keeps nothing else from being searched.
        let mut searched = Ok(());
        while let Some((dir, above)) = pending.pop_front() {
            n_seen += 1;
            if n_seen > DIRECTORIES_MAX {
                let what = "it has more directories than are searched";
                return Err(CallError::new(what, Errno::DQUOT));
            }
            let stat = untrusted::stat_at(self.git_dir, &dir);
            let is_top = dir.as_os_str().is_empty();
            let is_recent = stat.as_ref().is_none_or(|stat| self.is_recent(stat));
            // The git directory itself is held by a mount.
            let here = if is_recent && !is_top { Stays::MayBeMoved } else { above };
            let is_leaf = !is_top && stat.is_some_and(|stat| self.is_leaf(&stat));
            if here == Stays::InPlace && is_leaf {
                budget.spend_entry()?;
                continue;
            }
            let listed = list(self.git_dir, &dir, budget, |path, kind| {
                if is_odd(kind) {
                    if !self.was_there(&dir, &path) {
                        odd.push(path);
                    }
                } else if kind == FileType::Directory && is_entered(&path) {
                    pending.push_back((path, here));
                }
            });
            searched = searched.and(listed);
        }
        searched
    }

    /// Returns true if a directory has no subdirectories, whose content may have changed.
    fn is_leaf(&self, stat: &Stat) -> bool {
        self.counts_directories
            && stat.st_nlink == 2
            && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
    }

    /// Returns true if an entry was in its place before the run: creating it, or moving it there, changes its ctime.
    fn was_there(&self, dir: &Path, path: &Path) -> bool {
        let Some(before) = &self.before else { return false };
        let is_allowed = dir.as_os_str().is_empty()
            || (dir == Path::new(WITH_LINKS) && links_dir(self.git_dir) == before.links_dir);
        let stat = untrusted::stat_at(self.git_dir, path);
        is_allowed && stat.is_some_and(|stat| !self.is_recent(&stat))
    }

    fn is_recent(&self, stat: &Stat) -> bool {
        self.before.as_ref().is_none_or(|before| before.began.is_recent(stat))
    }
}

/// Leaves sockets out: placeholders are sockets, and through the file of a socket nothing is read or written.
fn is_odd(kind: FileType) -> bool {
    !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Socket)
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
    let Some(dir) = untrusted::open_to_judge(git_dir, here)? else { return Ok(()) };
    untrusted::list(&dir, budget, |name: &OsStr, kind| {
        each(at.join(name), kind);
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Links made after `began` are found in directories without and with others in them; those of before stay.
    #[test]
    fn new_links_are_found_at_any_depth_and_old_ones_at_the_top_stay() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for dir in ["info", "refs/heads/topic", "refs/tags", "logs/refs/heads", "objects/aa"] {
            std::fs::create_dir_all(at(dir)).unwrap();
        }
        for old in ["HEAD", "info/exclude", "refs/tags/v0"] {
            symlink("/nowhere", at(old)).unwrap();
        }
        let git_dir = untrusted::open_absolute(&place.path().canonicalize().unwrap()).unwrap();
        let before = links_dir(&git_dir);
        // File stamps advance by ticks of some milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let began = StartTimes::now(std::iter::empty());
        let new = ["ORIG_HEAD", "info/attributes", "logs/refs/heads/main", "refs/heads/topic/x"];
        for new in new {
            symlink("/elsewhere", at(new)).unwrap();
        }
        symlink("/elsewhere", at("objects/aa/not-looked-at")).unwrap();
        let find = |links_dir| {
            let mut odd = Vec::new();
            let files = OddFiles::since(&git_dir, &began, links_dir);
            files.find(&Budget::unlimited(), &mut odd).unwrap();
            odd.sort();
            odd
        };
        // `refs/tags` was not touched and has no subdirectories: on a filesystem that counts them it is not listed.
        let mut found = find(before);
        found.retain(|path| path != Path::new("refs/tags/v0"));
        assert_eq!(found, new.map(PathBuf::from));
        // In another directory than before, an old link came with it.
        assert!(find(None).contains(&PathBuf::from("info/exclude")));
        // In a repository of the run's own all count, and not sockets.
        std::os::unix::net::UnixListener::bind(at("fsmonitor--daemon.ipc")).unwrap();
        let mut all = Vec::new();
        OddFiles::all(&git_dir).find(&Budget::unlimited(), &mut all).unwrap();
        all.sort();
        let mut both: Vec<_> =
            new.into_iter().chain(["HEAD", "info/exclude"]).map(PathBuf::from).collect();
        both.sort();
        all.retain(|path| path != Path::new("refs/tags/v0"));
        assert_eq!(all, both);
    }
}

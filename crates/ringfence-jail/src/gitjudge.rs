//! Judges a repository that a run made or could change: would the host's git execute something in it, or write through one
//! of its files to elsewhere? A fresh clone has neither hooks nor a configuration that names a program, and its index names
//! no repository that has.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ringfence_sys::untrusted::{self, open_beneath, open_file_beneath, stat_at};
use ringfence_sys::{Budget, CallError};
use rustix::io::Errno;

use crate::file_time::StartTimes;
use crate::gitfiles::OddFiles;
use crate::gitindex::{self, HashBytes};
use crate::survey::{executes_by_config, hash_bytes, is_foreign_strategy, names_a_strategy};

/// Maximum size of a list of rebase steps.
const STEPS_BYTES_MAX: u64 = 256 << 10;

/// Maximum size of a configuration file.
const CONFIG_BYTES_MAX: u64 = 256 << 10;

/// Steps of an unfinished rebase.
pub(crate) const REBASE_STEPS: &str = "rebase-merge/git-rebase-todo";

/// Files that name the merge strategy of an unfinished operation; git runs a program of that name to continue it.
pub(crate) const STRATEGIES: [(&str, &str); 2] =
    [("sequencer", "opts"), ("rebase-merge", "strategy")];

/// Directories in which old versions of git kept addresses; a current repository has no file in them.
pub(crate) const LEGACY_REMOTES: [&str; 2] = ["remotes", "branches"];

/// Maximum depth and number of entries that are checked in such a directory; one with more counts as changed.
const LEGACY_REMOTES_DEPTH_MAX: usize = 8;
const LEGACY_REMOTES_MAX: usize = 256;

/// Repositories that are followed from one index to the next.
const NESTED_DEPTH_MAX: usize = 8;

/// Opens a nested repository that an index names; `None` if there is nothing, or a link leads out on the way: git follows none
/// to a nested repository.
pub(crate) fn open_nested(checkout: &OwnedFd, link: &Path) -> Result<Option<OwnedFd>, CallError> {
    match open_beneath(checkout, link) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if untrusted::is_absent(&error) || error.errno == Errno::XDEV => Ok(None),
        Err(error) => Err(error),
    }
}

/// Judges repositories within a budget. An error counts as unjudged.
pub(crate) struct Judge<'a> {
    /// Start of the run, if only what changed since counts.
    began: Option<&'a StartTimes>,
    budget: &'a Budget,
}

/// The directory whose files an index names.
#[derive(Clone, Copy)]
struct Checkout<'a> {
    dir: &'a OwnedFd,
    /// Number of repositories whose index led here.
    depth: usize,
}

impl<'a> Judge<'a> {
    /// Judges everything in a repository: the run made it.
    pub(crate) fn all(budget: &'a Budget) -> Self {
        Self { began: None, budget }
    }

    /// Judges what changed in a repository since the run began. Links among its files are not looked for.
    pub(crate) fn since(began: &'a StartTimes, budget: &'a Budget) -> Self {
        Self { began: Some(began), budget }
    }

    /// Returns true if git would obey something hostile in the repository whose `.git` is in `dir`.
    pub(crate) fn of_checkout(&self, dir: &OwnedFd) -> Result<bool, CallError> {
        self.of_nested(Checkout { dir, depth: 0 })
    }

    /// The same of a directory that is a repository itself and has no checkout.
    pub(crate) fn of_git_directory(&self, dir: &OwnedFd) -> Result<bool, CallError> {
        self.obeys(dir, None)
    }

    fn of_nested(&self, checkout: Checkout<'_>) -> Result<bool, CallError> {
        match untrusted::open_to_judge(checkout.dir, Path::new(".git"))? {
            Some(git) => self.obeys(&git, Some(checkout)),
            None => Ok(self.is_new(checkout.dir, Path::new(".git"))),
        }
    }

    fn obeys(&self, git: &OwnedFd, checkout: Option<Checkout<'_>>) -> Result<bool, CallError> {
        self.budget.spend_entry()?;
        let redirects = ["commondir", "config.worktree", "modules", "worktrees"];
        // Worktrees come and go in a repository of the user's.
        let redirects = &redirects[..if self.began.is_some() { 3 } else { 4 }];
        if redirects.iter().any(|name| self.is_new(git, Path::new(name))) {
            return Ok(true);
        }
        let config = match untrusted::read_beneath(git, Path::new("config"), CONFIG_BYTES_MAX) {
            Ok(config) => config,
            Err(error) if error.is_missing() => Vec::new(),
            Err(_) => return Ok(self.is_new(git, Path::new("config"))),
        };
        if self.is_new(git, Path::new("config")) && executes_by_config(&config) {
            return Ok(true);
        }
        let goes_on = STRATEGIES
            .iter()
            .any(|(operation, file)| self.goes_on_with_a_program(git, operation, file));
        Ok(self.has_hooks(git)?
            || goes_on
            || self.has_commands_as_steps(git)
            || self.has_old_addresses(git)?
            || self.leads_out(git)?
            || self.names_such(git, &config, checkout)?)
    }

    fn has_hooks(&self, git: &OwnedFd) -> Result<bool, CallError> {
        let Some(hooks) = untrusted::open_to_judge(git, Path::new("hooks"))? else {
            return Ok(self.is_new(git, Path::new("hooks")));
        };
        let is_moved = self.is_new(git, Path::new("hooks"));
        let mut has = false;
        untrusted::list(&hooks, self.budget, |name, _| {
            has = !name.as_bytes().ends_with(b".sample")
                && (is_moved || self.is_new(&hooks, Path::new(name)));
            if has { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(has)
    }

    /// Returns true if the unfinished `operation` goes on with a merge strategy that is not git's own.
    pub(crate) fn goes_on_with_a_program(
        &self,
        git: &OwnedFd,
        operation: &str,
        file: &str,
    ) -> bool {
        let path = Path::new(operation).join(file);
        if !self.is_new(git, &path) {
            return false;
        }
        let text = untrusted::read_beneath(git, &path, CONFIG_BYTES_MAX);
        text.map_or(true, |text| match file {
            "opts" => names_a_strategy(&text),
            _ => is_foreign_strategy(String::from_utf8_lossy(&text).trim()),
        })
    }

    /// Returns true if the next steps of an unfinished rebase are commands.
    pub(crate) fn has_commands_as_steps(&self, git: &OwnedFd) -> bool {
        let path = Path::new(REBASE_STEPS);
        if !self.is_new(git, path) {
            return false;
        }
        let text = untrusted::read_beneath(git, path, STEPS_BYTES_MAX);
        text.map_or(true, |text| {
            text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_start).any(|line| {
                let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
                word == b"exec" || word == b"x"
            })
        })
    }

    fn has_old_addresses(&self, git: &OwnedFd) -> Result<bool, CallError> {
        for name in LEGACY_REMOTES {
            if self.has_file(git, Path::new(name))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a file at or below `path` in a git directory is new.
    pub(crate) fn has_file(&self, git: &OwnedFd, path: &Path) -> Result<bool, CallError> {
        self.has_file_below(git, path, 0, &mut 0)
    }

    fn has_file_below(
        &self,
        git: &OwnedFd,
        path: &Path,
        depth: usize,
        n_seen: &mut usize,
    ) -> Result<bool, CallError> {
        let Ok(listed) = untrusted::open_directory_beneath(git, path) else {
            return Ok(self.is_new(git, path));
        };
        let mut names = Vec::new();
        untrusted::list(&listed, self.budget, |name, _| {
            *n_seen += 1;
            names.push(name.to_owned());
            if *n_seen > LEGACY_REMOTES_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if *n_seen > LEGACY_REMOTES_MAX || depth > LEGACY_REMOTES_DEPTH_MAX {
            return Ok(true);
        }
        for name in names {
            if self.has_file_below(git, &path.join(name), depth + 1, n_seen)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if something else than a file or directory is among the files of a repository that the run made.
    fn leads_out(&self, git: &OwnedFd) -> Result<bool, CallError> {
        let mut odd = Vec::new();
        if self.began.is_none() {
            OddFiles::all(git).find(self.budget, &mut odd)?;
        }
        Ok(!odd.is_empty())
    }

    /// Returns true if the index names a repository in which git would obey something hostile, or cannot be judged.
    fn names_such(
        &self,
        git: &OwnedFd,
        config: &[u8],
        checkout: Option<Checkout<'_>>,
    ) -> Result<bool, CallError> {
        let path = Path::new("index");
        if !self.is_new(git, path) {
            return Ok(false);
        }
        let Ok(file) = open_file_beneath(git, path) else { return Ok(true) };
        let Ok(scan) = gitindex::scan(&file, HashBytes(hash_bytes(config)), self.budget) else {
            return Ok(true);
        };
        let Some(Checkout { dir: checkout, depth }) = checkout else {
            return Ok(!scan.links.is_empty() || scan.base.is_some());
        };
        for link in &scan.links {
            self.budget.spend_entry()?;
            let Some(dir) = open_nested(checkout, link)? else { continue };
            if stat_at(&dir, ".git").is_none() {
                continue;
            }
            let nested = Checkout { dir: &dir, depth: depth + 1 };
            if nested.depth > NESTED_DEPTH_MAX || self.of_nested(nested)? {
                return Ok(true);
            }
        }
        Ok(scan.base.is_some())
    }

    /// Returns true if an entry is there and, if that counts, may have changed or come there since the run began.
    fn is_new(&self, dir: &OwnedFd, path: &Path) -> bool {
        stat_at(dir, path).is_some() && self.began.is_none_or(|b| b.is_recent_below(dir, path))
    }
}

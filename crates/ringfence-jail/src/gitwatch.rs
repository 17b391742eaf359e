//! After a run, compares the files that the host's git would obey with their state before it, and sets aside those that
//! the run added or changed. Reads the run's files as hostile input: by descriptor, without links, under a budget.
//! Anything that could not be compared is reported as a gap.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_plan::{
    BindSource, FileId, FileKind, FileStamp, GitIndex, IndexBefore, KnownLinks, Mount, Plan, Step,
    WritableDir, catalogue,
};
use ringfence_sys::untrusted::{self, open_beneath, open_file_beneath, stat_at};
use ringfence_sys::{Budget, CallError};
use rustix::fs::{FileType, Mode, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use serde::{Deserialize, Serialize};

use crate::file_time::{StartTimes, changed_at, is_old};
use crate::gitfiles::{self, OddFiles};
use crate::gitindex::{self, HashBytes, NotJudged};
use crate::gitjudge::{self, Judge};
use crate::open::{id_of, open_exact};
use crate::registry::Registry;
use crate::survey::{TOP_DIRECTORIES_MAX, Tree, is_git_directory, lexical};

/// Entries at the top of a workspace among which a new repository is looked for.
const TOP_ENTRIES_MAX: usize = 8192;

/// Number of nested repositories from which on some may not be protected.
const NESTED_MANY: usize = 60;

/// Maximum number of new worktrees that are checked.
const WORKTREES_MAX: usize = 32;

/// Maximum number of hooks of a nested repository that are checked.
const HOOKS_MAX: usize = 64;

/// Maximum size of a file that holds one path.
const POINTER_BYTES_MAX: u64 = 4096;

/// Names that make a directory a repository, or redirect one.
const MAKE_A_REPOSITORY: [&str; 6] =
    ["HEAD", "objects", "refs", "config", "commondir", "config.worktree"];

/// Maximum number of new names that are listed.
const LISTED_MAX: usize = 32;

/// Suffix of a name that is set aside.
const SET_ASIDE: &str = "-set-aside";

/// Maximum number of random names tried for an entry that is set aside, and bytes kept of its own name in one.
const ASIDE_NAMES_MAX: usize = 8;
const ASIDE_NAME_BYTES_MAX: usize = 64;

/// Maximum number of entries set aside, and of gaps, that are listed, and bytes of their texts.
const ASIDE_LISTED_MAX: usize = 256;
const ASIDE_LISTED_BYTES_MAX: usize = 256 << 10;

/// An entry that was moved out of git's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Its path before.
    pub path: String,
    /// Its path now.
    pub moved_to: String,
    /// The reason, in one phrase.
    pub reason: String,
}

/// Files that a run left and that the host's git would obey.
#[derive(Debug, Default)]
pub(crate) struct GitReport {
    /// Names that appeared or were replaced.
    pub(crate) created: Vec<String>,
    /// Entries that were moved out of git's way.
    pub(crate) set_aside: Vec<SetAside>,
    /// Comparisons that could not be made.
    pub(crate) gaps: Vec<String>,
    /// Names of all entries that were moved, listed or not.
    moved: HashSet<String>,
    /// Number of entries and gaps that are not listed, and bytes of those that are.
    n_unlisted: usize,
    listed_bytes: usize,
}

/// The state before the run.
#[derive(Debug)]
pub(crate) struct GitWatch {
    indexes: Vec<Before>,
    /// The directory in each git directory in which people make links.
    links_dirs: Vec<Option<FileId>>,
    /// The `.git` of each nested repository that was protected.
    nested: BTreeMap<PathBuf, FileId>,
    /// Protected files, which only the host can change.
    files: Vec<(PathBuf, FileStamp)>,
    /// Names that other programs obey, which were absent.
    absent: Vec<PathBuf>,
    began: StartTimes,
}

/// A separate bound for each search, so that the findings of one cannot use up another's.
pub(crate) struct Budgets {
    /// Reading of indexes.
    pub(crate) indexes: Budget,
    /// Listing of git directories.
    pub(crate) files: Budget,
    /// Repositories at the top.
    pub(crate) repositories: Budget,
}

#[derive(Debug, Default)]
struct Before {
    /// The index.
    stamp: Option<FileStamp>,
    /// Names of linked worktrees.
    worktrees: BTreeSet<OsString>,
}

impl GitWatch {
    /// Records the state. Call before the program starts.
    pub(crate) fn begin(plan: &Plan) -> Self {
        let began = StartTimes::now(plan.disk_roots.iter().chain(&plan.git_dirs));
        let indexes = plan.git_indexes.iter().map(Before::of).collect();
        let links_dirs = plan.git_dirs.iter().map(|dir| {
            let (dir, _) = open_exact(&dir.path, dir.id).ok()?;
            gitfiles::links_dir(&dir)
        });
        let links_dirs = links_dirs.collect();
        let links = plan.git_indexes.iter().flat_map(|index| {
            index.links.iter().map(|link| index.checkout.join(link).join(".git"))
        });
        let mounted = plan.mounts().filter_map(|mount| match mount {
            // Most are not: searching the bytes first is cheaper than going through the components.
            Mount::Bind { source: BindSource::Beneath { path, .. }, at, .. }
                if path.as_os_str().as_bytes().windows(4).any(|name| name == b".git") =>
            {
                at.ancestors().find(|dir| dir.file_name() == Some(OsStr::new(".git")))
            }
            _ => None,
        });
        let mounted: BTreeSet<&Path> = mounted.collect();
        let nested = links.chain(mounted.into_iter().map(Path::to_owned)).filter_map(|path| {
            let stat = rustix::fs::lstat(&path).ok()?;
            Some((path, id_of(&stat)))
        });
        let nested = nested.collect();
        let obeyed = plan
            .disk_roots
            .iter()
            .flat_map(|dir| catalogue::REPORTED_WHEN_MADE.iter().map(|name| dir.path.join(name)));
        let absent = obeyed.filter(|path| rustix::fs::lstat(path).is_err()).collect();
        let files = protected_files(plan)
            .filter_map(|path| {
                let stat = rustix::fs::lstat(&path).ok()?;
                stamp_of(&stat).map(|stamp| (path, stamp))
            })
            .collect();
        Self { indexes, links_dirs, nested, files, absent, began }
    }

    /// Start of the run, by the clock of each file system.
    pub(crate) fn began(&self) -> &StartTimes {
        &self.began
    }

    /// Compares. Call after the last process of the run is dead.
    pub(crate) fn report(self, plan: &Plan, registry: &Registry, budgets: &Budgets) -> GitReport {
        let mut report = GitReport::default();
        for root in &plan.watch_git {
            let opened = untrusted::open_absolute(root)
                .and_then(|dir| untrusted::open_to_judge(&dir, Path::new(".")));
            let dir = match opened {
                Ok(Some(dir)) => dir,
                Ok(None) => continue,
                Err(error) if untrusted::is_absent(&error) => continue,
                Err(error) => {
                    let at = root.display();
                    report.gap(format!("a new repository was not looked for in `{at}`: {error}"));
                    continue;
                }
            };
            if stat_at(&dir, ".git").is_some() {
                judge_new(&dir, root, &budgets.repositories, &mut report);
            } else {
                // The directory itself may have become a repository.
                self.bare(plan, &dir, root, &budgets.repositories, &mut report);
            }
        }
        for path in &self.absent {
            if rustix::fs::lstat(path).is_ok() {
                report.created.push(shown(path));
            }
        }
        // First: the checks below open git's files by their names.
        for (links_dir, dir) in self.links_dirs.iter().zip(&plan.git_dirs) {
            if let Err(why) = self.odd_files(*links_dir, dir, &budgets.files, &mut report) {
                let at = dir.path.display();
                report.gap(format!("not all of `{at}` was searched for links: {why}"));
            }
        }
        for (before, index) in self.indexes.iter().zip(&plan.git_indexes) {
            let mut compare = Compare {
                plan,
                index,
                before,
                nested: &self.nested,
                began: &self.began,
                budget: &budgets.indexes,
                report: &mut report,
            };
            if let Err(why) = compare.index(registry) {
                let at = index.git_dir.join("index");
                report.gap(format!(
                    "nested repositories that `{}` names were not compared: {why}",
                    at.display()
                ));
            }
        }
        if let Err(why) = self.new_repositories(plan, &budgets.repositories, &mut report) {
            report.gap(format!("new repositories were not looked for: {why}"));
        }
        for (path, before) in &self.files {
            let same = rustix::fs::lstat(path).is_ok_and(|stat| stamp(&stat) == *before);
            if !same {
                report.created.push(shown(path));
            }
        }
        report.bounded()
    }

    /// Sets aside links, pipes and devices that appeared among git's own files.
    fn odd_files(
        &self,
        links_dir: Option<FileId>,
        dir: &WritableDir,
        budget: &Budget,
        report: &mut GitReport,
    ) -> Result<(), CallError> {
        let (git_dir, _) = open_exact(&dir.path, dir.id)?;
        let mut odd = Vec::new();
        let searched = OddFiles::since(&git_dir, &self.began, links_dir).find(budget, &mut odd);
        for path in odd {
            let Some(name) = path.file_name() else { continue };
            budget.check_time()?;
            let Ok(parent) = open_beneath(&git_dir, parent_of(&path)) else { continue };
            let reason = "the run made it something else than a file: git would write, read or delete through it";
            // To the top: git goes through every name in some of its directories.
            report.set_aside_to(&parent, name, &git_dir, dir, &path, reason);
        }
        searched
    }

    /// A directory that the run made a repository by itself, without a `.git`: it added what was missing, perhaps to what an
    /// earlier run had left, or moved it to here.
    fn bare(&self, plan: &Plan, dir: &OwnedFd, at: &Path, budget: &Budget, report: &mut GitReport) {
        let Ok(stat) = rustix::fs::fstat(dir) else { return };
        // It was one before, and is protected.
        if plan.git_dirs.iter().any(|known| known.id == id_of(&stat)) {
            return;
        }
        let has = |name: &str| Ok::<_, Infallible>(stat_at(dir, name).is_some());
        let is_recent = self.began.is_recent(&stat)
            || MAKE_A_REPOSITORY.iter().any(|name| self.is_recent(dir, OsStr::new(name)));
        if !is_git_directory(has).unwrap_or(true) {
            return;
        }
        if !is_recent {
            let judged = Judge::since(&self.began, budget).of_git_directory(dir);
            changed_in_place(judged, dir, at, "HEAD", report);
        } else if Judge::all(budget).of_git_directory(dir).unwrap_or(true) {
            let reason =
                "the run made this directory a repository whose configuration or hooks execute";
            report.set_aside(dir, OsStr::new("HEAD"), at, reason);
        } else {
            report.created.push(shown(&at.join("HEAD")));
        }
    }

    /// Repositories that appeared directly below a workspace, or behind a link there.
    fn new_repositories(
        &self,
        plan: &Plan,
        budget: &Budget,
        report: &mut GitReport,
    ) -> Result<(), CallError> {
        for WritableDir { path: root, .. } in &plan.disk_roots {
            let Some(tree) = Tree::at(root, budget)? else { continue };
            let Some(listed) = untrusted::open_to_judge(&tree, Path::new("."))? else { continue };
            let (mut names, mut links, mut n_entries) = (Vec::new(), Vec::new(), 0);
            untrusted::list(&listed, budget, |name, kind| {
                n_entries += 1;
                if n_entries > TOP_ENTRIES_MAX {
                    return ControlFlow::Break(());
                }
                match kind {
                    FileType::Directory => names.push(name.to_owned()),
                    FileType::Symlink => links.push(name.to_owned()),
                    _ => {}
                }
                ControlFlow::Continue(())
            })?;
            if n_entries > TOP_ENTRIES_MAX {
                report.gap(format!(
                    "new repositories were looked for among {TOP_ENTRIES_MAX} of more entries at the top of `{}`",
                    root.display()
                ));
            }
            // Set aside just now. Any other name is the run's choice.
            let aside = report.moved.clone();
            let is_ours =
                |name: &OsString| name == ".git" || aside.contains(&shown(&root.join(name)));
            // With more repositories than are protected, the run may have changed an existing one in place.
            let thorough = self.nested.len().max(plan.git_dirs.len()) >= NESTED_MANY;
            for (n, what) in [(names.len(), "directories"), (links.len(), "links")] {
                if n > TOP_DIRECTORIES_MAX {
                    report.gap(format!(
                        "new repositories were looked for in {TOP_DIRECTORIES_MAX} of {n} {what} at the top of `{}`",
                        root.display()
                    ));
                }
            }
            let names = names.iter().take(TOP_DIRECTORIES_MAX);
            for name in names.filter(|name| !is_ours(name)) {
                budget.spend_entry()?;
                // A name that appears in a directory changes it, and so does moving the directory.
                if !thorough && !self.is_recent(&tree, name) {
                    continue;
                }
                self.new_repository(plan, &tree, Path::new(name), report);
            }
            for name in links.into_iter().take(TOP_DIRECTORIES_MAX) {
                budget.spend_entry()?;
                let Some((to, FileKind::Directory)) = tree.follow(Path::new(&name))? else {
                    continue;
                };
                // The link may be older than the directory that it leads to now.
                let is_recent =
                    self.is_recent(&tree, &name) || self.began.is_recent_below(&tree, &to);
                if is_recent && !to.as_os_str().is_empty() {
                    self.new_repository(plan, &tree, &to, report);
                }
            }
        }
        Ok(())
    }

    /// Returns true if an entry of an open directory changed since the run began.
    fn is_recent(&self, dir: impl AsFd, name: &OsStr) -> bool {
        stat_at(dir, name).is_some_and(|stat| self.began.is_recent(&stat))
    }

    /// The directory `name` below a workspace.
    fn new_repository(&self, plan: &Plan, root: &Tree<'_>, name: &Path, report: &mut GitReport) {
        let before = stat_at(root, name).map(|stat| Mode::from_raw_mode(stat.st_mode));
        match untrusted::open_to_judge(root, name) {
            Ok(None) => {}
            Ok(Some(dir)) => {
                self.new_repository_in(plan, root, name, &dir, report);
                if let Some(mode) = before.filter(|mode| !mode.contains(Mode::RUSR | Mode::XUSR)) {
                    // As the run left it.
                    let _ = ringfence_sys::chmod_open(&dir, mode);
                }
            }
            Err(error) => {
                let at = root.path().join(name);
                let at = at.display();
                report.gap(format!("a new repository was not looked for in `{at}`: {error}"));
            }
        }
    }

    fn new_repository_in(
        &self,
        plan: &Plan,
        root: &Tree<'_>,
        name: &Path,
        dir: &OwnedFd,
        report: &mut GitReport,
    ) {
        let (checkout, budget) = (root.path().join(name), root.budget());
        let at = checkout.join(".git");
        let Some(stat) = stat_at(dir, ".git") else {
            // A repository may also be its own git directory.
            if stat_at(dir, "HEAD").is_some() {
                self.bare(plan, dir, &checkout, budget, report);
            }
            return;
        };
        let is_known =
            mounts_below(plan, &at) && self.nested.get(&at).is_none_or(|id| *id == id_of(&stat));
        // Moved to here with its directory, it is as old as it was.
        let is_new =
            !is_known && (self.began.is_recent(&stat) || self.began.is_recent_below(root, name));
        // A worktree of the workspace's own repository was judged with that.
        let is_pointer = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && is_checkout_of_a_worktree(root, &at);
        if is_pointer {
            return;
        }
        if is_new {
            judge_new(dir, &checkout, budget, report);
        } else if !is_known {
            let judged = Judge::since(&self.began, budget).of_checkout(dir);
            changed_in_place(judged, dir, &checkout, ".git", report);
        }
    }
}

/// Sets aside `name` of a repository that was there before the run, and not protected, if git was judged to obey something of
/// the run's in it.
fn changed_in_place(
    judged: Result<bool, CallError>,
    dir: &OwnedFd,
    at: &Path,
    name: &str,
    report: &mut GitReport,
) {
    match judged {
        Ok(false) => {}
        Ok(true) => {
            let reason = "the run changed this repository, and something in it executes";
            report.set_aside(dir, OsStr::new(name), at, reason);
        }
        Err(error) => {
            let at = at.display();
            report.gap(format!("the repository in `{at}` was not compared: {error}"));
        }
    }
}

/// Judges a `.git` that the run made in an open directory.
fn judge_new(dir: &OwnedFd, at: &Path, budget: &Budget, report: &mut GitReport) {
    if Judge::all(budget).of_checkout(dir).unwrap_or(true) {
        let reason = "the run made a repository, and something in it executes or leads out";
        report.set_aside(dir, OsStr::new(".git"), at, reason);
    } else {
        report.created.push(shown(&at.join(".git")));
    }
}

/// Paths by their bytes, to look one up among many.
pub(crate) fn names_of(paths: &[PathBuf]) -> HashSet<&OsStr> {
    paths.iter().map(|path| path.as_os_str()).collect()
}

/// The directory that a name lies in, for opening.
fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Files that a mount keeps from being changed. The run cannot; but a mount goes with the name it stands on when the
/// host replaces the file, and from then on the run could.
fn protected_files(plan: &Plan) -> impl Iterator<Item = PathBuf> {
    // Placeholders are ours, and runs that share them come and go.
    let ours: HashSet<PathBuf> = plan.placeholders.iter().map(|p| p.root.join(&p.path)).collect();
    plan.setup.iter().filter_map(move |step| match step {
        Step::Mount(Mount::Bind {
            source: BindSource::Beneath { root, path },
            access: ringfence_plan::Access::ReadOnly,
            ..
        }) if plan.disk_roots.iter().any(|dir| dir.path == *root) => {
            let path = root.join(path);
            (!ours.contains(&path)).then_some(path)
        }
        _ => None,
    })
}

impl Before {
    fn of(index: &GitIndex) -> Self {
        let Ok((dir, _)) = open_exact(&index.git_dir, index.git_dir_id) else {
            return Self::default();
        };
        let worktrees = worktrees(&dir, &Budget::entries(1000)).unwrap_or_default();
        Self {
            stamp: stamp_at(&dir, Path::new("index")),
            worktrees: worktrees.into_iter().collect(),
        }
    }
}

struct Compare<'a> {
    plan: &'a Plan,
    index: &'a GitIndex,
    before: &'a Before,
    nested: &'a BTreeMap<PathBuf, FileId>,
    began: &'a StartTimes,
    budget: &'a Budget,
    report: &'a mut GitReport,
}

impl Compare<'_> {
    fn index(&mut self, registry: &Registry) -> Result<(), NotJudged> {
        let index = self.index;
        let opened = open_exact(&index.git_dir, index.git_dir_id);
        let (dir, _) = opened.map_err(|e| format!("its directory is gone: {e}"))?;
        self.rebase_steps(&dir);
        self.strategies(&dir);
        self.legacy_remotes(&dir);
        self.new_worktrees(&dir).map_err(|e| e.to_string())?;
        let Some(stamp) = stamp_at(&dir, Path::new("index")) else {
            // A link or a pipe was set aside with the others.
            registry.forget_links(index.git_dir_id);
            return Ok(());
        };
        let unchanged =
            self.before.stamp == Some(stamp) && is_old(&stamp, self.began.at(stamp.id.dev));
        if let IndexBefore::Read { stamp: read, is_on_record } = index.before
            && unchanged
            && read == stamp
        {
            if !is_on_record {
                let links = index.links.clone();
                let known = KnownLinks { stamp, links, unjudged: None };
                registry.remember_links(index.git_dir_id, &known);
            }
            return self.links(&index.links, Change::None);
        }
        let change = if unchanged { Change::None } else { Change::ByTheRun };
        if let IndexBefore::Unjudged { stamp: before } = index.before
            && unchanged
            && before == Some(stamp)
        {
            // Already reported as a gap.
            return Ok(());
        }
        match self.read(&dir) {
            Ok(after) => {
                self.links(&after.links, change)?;
                let still = stamp_at(&dir, Path::new("index")) == Some(stamp);
                let now = self.began.latest_sure(stamp.id.dev);
                if !after.is_split && still && is_old(&stamp, now) {
                    let known = KnownLinks { stamp, links: after.links, unjudged: None };
                    registry.remember_links(index.git_dir_id, &known);
                }
                Ok(())
            }
            // It could be judged before the run, or was not there, and cannot be judged now: the run made it so.
            Err(why)
                if change == Change::ByTheRun
                    && !matches!(index.before, IndexBefore::Unjudged { .. }) =>
            {
                let reason = format!("it cannot be judged: {why}");
                self.set_aside(&dir, "index", &index.git_dir, &reason);
                registry.forget_links(index.git_dir_id);
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    /// Sets aside the strategy of an unfinished operation if git would find its program in the checkout.
    fn strategies(&mut self, dir: &OwnedFd) {
        for (operation, file) in gitjudge::STRATEGIES {
            let Ok(operation_dir) = open_beneath(dir, Path::new(operation)) else { continue };
            if Judge::since(self.began, self.budget).goes_on_with_a_program(dir, operation, file) {
                let at = self.index.git_dir.join(operation);
                let reason =
                    "the run left an operation that goes on with a program of the checkout";
                self.set_aside(&operation_dir, file, &at, reason);
            }
        }
    }

    /// Addresses that the run put where only old versions of git kept them.
    fn legacy_remotes(&mut self, dir: &OwnedFd) {
        for name in gitjudge::LEGACY_REMOTES {
            let is_new = Judge::since(self.began, self.budget).has_file(dir, Path::new(name));
            if is_new.unwrap_or(true) {
                let at = self.index.git_dir.clone();
                self.set_aside(dir, name, &at, "the run gave git another address for a remote");
            }
        }
    }

    /// The index as it is now.
    fn read(&self, dir: &OwnedFd) -> Result<After, NotJudged> {
        let file = open_file_beneath(dir, Path::new("index")).map_err(|e| e.to_string())?;
        self.read_file(&file, dir)
    }

    fn read_file(&self, file: &File, dir: &OwnedFd) -> Result<After, NotJudged> {
        let hash = HashBytes(self.index.hash_bytes);
        let mut scan = gitindex::scan(file, hash, self.budget)?;
        let Some(base) = &scan.base else {
            return Ok(After { links: scan.links, is_split: false });
        };
        let file = open_file_beneath(dir, Path::new(&base.name)).map_err(|e| e.to_string())?;
        scan.links.extend(gitindex::scan_base(&file, hash, self.budget, &base.replaced_by_links)?);
        scan.links.sort();
        scan.links.dedup();
        Ok(After { links: scan.links, is_split: true })
    }

    /// Judges the nested repositories that the index names.
    fn links(&mut self, after: &[PathBuf], change: Change) -> Result<(), NotJudged> {
        let checkout = match untrusted::open_absolute(&self.index.checkout) {
            Ok(checkout) => checkout,
            Err(error) if untrusted::is_absent(&error) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let settled = names_of(&self.index.settled);
        let before = names_of(&self.index.links);
        for link in after {
            let at = self.index.checkout.join(link);
            let reachable = self.plan.disk_roots.iter().any(|dir| at.starts_with(&dir.path));
            if !reachable || settled.contains(link.as_os_str()) {
                continue;
            }
            self.budget.spend_entry().map_err(|e| e.call)?;
            let dir = match gitjudge::open_nested(&checkout, link) {
                Ok(Some(dir)) => dir,
                Ok(None) => continue,
                Err(error) => {
                    self.report.gap(format!("`{}` was not compared: {error}", at.display()));
                    continue;
                }
            };
            let Some(git) = stat_at(&dir, ".git") else { continue };
            let is_new = change == Change::ByTheRun && !before.contains(link.as_os_str());
            let at_git = at.join(".git");
            // A mount moves along with a directory that another run renames.
            let same = self.nested.get(&at_git).is_some_and(|id| *id == id_of(&git));
            let protected = same && mounts_below(self.plan, &at_git);
            if is_new {
                self.set_aside(&dir, ".git", &at, "the run had git's index name this repository");
            } else if !self.nested.contains_key(&at_git) {
                // However old its files are: the run may have moved a directory to here.
                let reason = "git's index names this repository, and there was none before the run";
                self.set_aside(&dir, ".git", &at, reason);
            } else if !same {
                let reason = "git's index names this repository, and another stood here before";
                self.set_aside(&dir, ".git", &at, reason);
            } else if !protected
                && (self.changed(&dir, &git).unwrap_or(true)
                    || Judge::since(self.began, self.budget).of_checkout(&dir).unwrap_or(true))
            {
                self.set_aside(
                    &dir,
                    ".git",
                    &at,
                    "git's index names this repository, and the run changed it",
                );
            }
        }
        Ok(())
    }

    /// Returns true if a nested repository, or a file of it that git obeys, changed during the run.
    fn changed(&self, dir: &OwnedFd, git: &Stat) -> Result<bool, CallError> {
        if FileType::from_raw_mode(git.st_mode) != FileType::Directory {
            return Ok(self.is_recent(git));
        }
        let git_dir = open_beneath(dir, Path::new(".git"))?;
        for name in ["config", "config.worktree", "commondir", "hooks", "modules"] {
            self.budget.spend_entry()?;
            if stat_at(&git_dir, name).is_some_and(|stat| self.is_recent(&stat)) {
                return Ok(true);
            }
        }
        let Some(hooks) = untrusted::open_to_judge(&git_dir, Path::new("hooks"))? else {
            return Ok(false);
        };
        let (mut changed, mut n) = (false, 0);
        untrusted::list(&hooks, self.budget, |name, _| {
            n += 1;
            changed |= stat_at(&hooks, name).is_some_and(|stat| self.is_recent(&stat));
            if changed || n > HOOKS_MAX {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(changed || n > HOOKS_MAX)
    }

    fn is_recent(&self, stat: &Stat) -> bool {
        self.began.is_recent(stat)
    }

    /// Reports a rebase that the run left unfinished and whose next steps are commands.
    fn rebase_steps(&mut self, dir: &OwnedFd) {
        if Judge::since(self.began, self.budget).has_commands_as_steps(dir) {
            self.report.created.push(shown(&self.index.git_dir.join(gitjudge::REBASE_STEPS)));
        }
    }

    /// Checks worktrees that the run added: they must belong to this repository, and name no nested one.
    fn new_worktrees(&mut self, dir: &OwnedFd) -> Result<(), CallError> {
        let names = worktrees(dir, self.budget)?;
        let new: Vec<_> =
            names.into_iter().filter(|name| !self.before.worktrees.contains(name)).collect();
        if new.len() > WORKTREES_MAX {
            self.report.created.push(shown(&self.index.git_dir.join("worktrees")));
            return Ok(());
        }
        for name in new {
            let at = self.index.git_dir.join("worktrees").join(&name);
            let Ok(admin) = open_beneath(dir, &Path::new("worktrees").join(&name)) else {
                continue;
            };
            let read = |file: &str| {
                untrusted::read_beneath(&admin, Path::new(file), POINTER_BYTES_MAX).ok()
            };
            let common = read("commondir").map(|text| text.trim_ascii().to_vec());
            let honest = common.as_deref() == Some(b"../..")
                && stat_at(&admin, "config.worktree").is_none()
                && stat_at(&admin, "modules").is_none();
            let checkout = read("gitdir").and_then(|text| {
                let git = lexical(&at.join(OsStr::from_bytes(text.trim_ascii())));
                git.parent().map(Path::to_owned)
            });
            let links =
                open_file_beneath(&admin, Path::new("index")).map_err(|e| e.to_string()).and_then(
                    |file| gitindex::scan(&file, HashBytes(self.index.hash_bytes), self.budget),
                );
            let plain = match links {
                Ok(scan) => scan.links.is_empty() && scan.base.is_none(),
                Err(_) => stat_at(&admin, "index").is_none(),
            };
            if honest && plain {
                continue;
            }
            self.report.created.push(shown(&at));
            let opened = checkout.as_deref().and_then(|checkout| {
                let ours = self.plan.disk_roots.iter().any(|dir| checkout.starts_with(&dir.path));
                if ours { untrusted::open_absolute(checkout).ok() } else { None }
            });
            if let (Some(opened), Some(checkout)) = (opened, checkout) {
                self.set_aside(
                    &opened,
                    ".git",
                    &checkout,
                    "the run made it a worktree that redirects git",
                );
            }
        }
        Ok(())
    }

    fn set_aside(&mut self, dir: &OwnedFd, name: &str, at: &Path, reason: &str) {
        self.report.set_aside(dir, OsStr::new(name), at, reason);
    }
}

impl GitReport {
    /// Moves `name` of the open directory `parent`, which is `path` below a git directory, to the top of that.
    fn set_aside_to(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        git_dir: &OwnedFd,
        at: &WritableDir,
        path: &Path,
        reason: &str,
    ) {
        let flat: Vec<_> = path.iter().collect();
        let flat = flat.join(OsStr::new("-"));
        let moved = rename_aside(parent, name, git_dir, &flat);
        self.note(moved.map(|to| at.path.join(to)), &at.path.join(path), reason);
    }

    fn note(&mut self, moved: Result<PathBuf, Errno>, from: &Path, reason: &str) {
        let path = shown(from);
        match moved {
            Ok(to) => {
                let aside = SetAside {
                    path: path.clone(),
                    moved_to: shown(&to),
                    reason: reason.to_owned(),
                };
                self.moved.insert(aside.moved_to.clone());
                let n_bytes = aside.path.len() + aside.moved_to.len() + aside.reason.len();
                if self.has_room(self.set_aside.len(), n_bytes) {
                    self.set_aside.push(aside);
                } else {
                    self.n_unlisted += 1;
                }
            }
            Err(Errno::NOENT) => return,
            Err(errno) => {
                let errno = ringfence_sys::errno_name(errno.raw_os_error());
                self.gap(format!("`{path}` could not be set aside ({errno}): {reason}"));
            }
        }
        self.created.push(path);
    }

    fn gap(&mut self, gap: String) {
        if self.has_room(self.gaps.len(), gap.len()) {
            self.gaps.push(gap);
        } else {
            self.n_unlisted += 1;
        }
    }

    /// Counts a text that is to be listed after `n_before` others. A run chooses how many there are, and their length.
    fn has_room(&mut self, n_before: usize, n_bytes: usize) -> bool {
        let has_room =
            n_before < ASIDE_LISTED_MAX && self.listed_bytes + n_bytes <= ASIDE_LISTED_BYTES_MAX;
        self.listed_bytes += if has_room { n_bytes } else { 0 };
        has_room
    }

    /// Cuts the names to as many as are listed, and says what is not.
    fn bounded(mut self) -> Self {
        let more = self.created.len().saturating_sub(LISTED_MAX);
        if more > 0 {
            self.created.truncate(LISTED_MAX);
            self.gaps.push(format!("{more} more names appeared or were replaced than are listed"));
        }
        if self.n_unlisted > 0 {
            let n = self.n_unlisted;
            self.gaps.push(format!(
                "{n} more entries than are listed were set aside, or could not be: search for `*{SET_ASIDE}*`"
            ));
        }
        self
    }

    /// Renames `name` in the open directory `dir`, which is at `at`, so that git no longer finds it.
    fn set_aside(&mut self, dir: &OwnedFd, name: &OsStr, at: &Path, reason: &str) {
        let moved = rename_aside(dir, name, dir, name);
        self.note(moved.map(|to| at.join(to)), &at.join(name), reason);
    }
}

/// Difference of an index from its state before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    ByTheRun,
}

struct After {
    links: Vec<PathBuf>,
    is_split: bool,
}

/// Returns true if the file `git`, below the workspace `root`, names a worktree of the workspace's repository, and that names
/// this very file as its checkout's. Any other file that names it makes its repository look at another directory.
fn is_checkout_of_a_worktree(root: &Tree<'_>, git: &Path) -> bool {
    let target = || {
        let below = git.strip_prefix(root.path()).ok()?;
        let text = untrusted::read_beneath(root, below, POINTER_BYTES_MAX).ok()?;
        let target = text.trim_ascii().strip_prefix(b"gitdir: ")?;
        let admin = lexical(&git.parent()?.join(OsStr::from_bytes(target)));
        if admin.parent()? != root.path().join(".git/worktrees") {
            return None;
        }
        let pointer = admin.strip_prefix(root.path()).ok()?.join("gitdir");
        let back = untrusted::read_beneath(root, &pointer, POINTER_BYTES_MAX).ok()?;
        Some(lexical(&admin.join(OsStr::from_bytes(back.trim_ascii()))))
    };
    target().is_some_and(|target| target == git)
}

/// Returns true if the run had a mount at `path` or below it: it existed before, and was protected.
fn mounts_below(plan: &Plan, path: &Path) -> bool {
    plan.mounts().any(|mount| {
        matches!(mount, Mount::Bind { source: BindSource::Beneath { .. }, at, .. } if at.starts_with(path))
    })
}

fn worktrees(dir: &OwnedFd, budget: &Budget) -> Result<Vec<OsString>, CallError> {
    let list = untrusted::open_to_judge(dir, Path::new("worktrees"))?;
    list.map_or(Ok(Vec::new()), |list| untrusted::list_directories(&list, budget, 256))
}

/// Moves an entry to a free name in `to_dir`; makes `dir` writable first if its owner, the caller, may not write it.
fn rename_aside(
    dir: &OwnedFd,
    name: &OsStr,
    to_dir: &OwnedFd,
    to_name: &OsStr,
) -> Result<OsString, Errno> {
    let mut opened_up = false;
    let mut n = 0;
    let mut to = [to_name, OsStr::new(SET_ASIDE)].join(OsStr::new(""));
    loop {
        match rustix::fs::renameat_with(dir, name, to_dir, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(to),
            // The run may have taken the name, or chosen one so long.
            Err(Errno::EXIST | Errno::NAMETOOLONG) if n < ASIDE_NAMES_MAX => {
                n += 1;
                to = random_name(to_name)?;
            }
            Err(Errno::ACCESS) if !opened_up => {
                opened_up = true;
                ringfence_sys::give_owner_access(dir)?;
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// A name that no run can guess.
fn random_name(name: &OsStr) -> Result<OsString, Errno> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, GetRandomFlags::empty())?;
    let kept = &name.as_bytes()[..name.len().min(ASIDE_NAME_BYTES_MAX)];
    let mut to = OsStr::from_bytes(kept).to_owned();
    to.push(format!("{SET_ASIDE}-{}", ringfence_spec::hex(&random)));
    Ok(to)
}

/// The stamp of a regular file in an open directory.
pub(crate) fn stamp_at(dir: impl AsFd, name: &Path) -> Option<FileStamp> {
    stat_at(dir, name).as_ref().and_then(stamp_of)
}

/// The stamp of a regular file, `None` for any other.
pub(crate) fn stamp_of(stat: &Stat) -> Option<FileStamp> {
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular.then(|| stamp(stat))
}

fn stamp(stat: &Stat) -> FileStamp {
    FileStamp {
        id: id_of(stat),
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        modified: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        changed: changed_at(stat),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

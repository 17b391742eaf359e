//! After a run, compares what the host's git would obey with what it was before, and sets aside what the run made it obey.
//! Reads what the run left as hostile input: by descriptor, without links, under a budget. What could not be compared is
//! named as a gap.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_plan::{BindSource, FileStamp, GitIndex, KnownLinks, Mount, Plan, Step, WritableDir};
use ringfence_sys::untrusted::{self, open_beneath, open_file_beneath, stat_at};
use ringfence_sys::{Budget, CallError};
use rustix::fs::{FileType, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::gitindex::{self, HashBytes, NotJudged};
use crate::open::{id_of, open_exact};
use crate::registry::Registry;
use crate::survey::{BARE, executes_by_config, lexical};

/// Directories at the top of a workspace in which a new repository is looked for.
const TOP_DIRECTORIES_MAX: usize = 512;

/// New worktrees that are looked at.
const WORKTREES_MAX: usize = 32;

/// Hooks of a nested repository that are looked at.
const HOOKS_MAX: usize = 64;

/// A list of rebase steps is not longer.
const TODO_BYTES_MAX: u64 = 256 << 10;

/// A configuration file is not larger.
const CONFIG_BYTES_MAX: u64 = 256 << 10;

/// A file that holds one path is not larger.
const POINTER_BYTES_MAX: u64 = 4096;

/// Names that are listed of those that appeared.
const LISTED_MAX: usize = 32;

/// Names tried for what is set aside.
const ASIDE_NAMES_MAX: usize = 100;

/// An index changed so shortly ago that another change could leave it the same time stamp.
const RACY_NANOS: i128 = 20_000_000;

/// A moment on the clock that files are stamped with, in seconds and nanoseconds.
pub(crate) type Moment = (i64, i64);

/// The moment at which a file changed now would be stamped: that clock advances by ticks of some milliseconds.
pub(crate) fn file_clock() -> Moment {
    let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

/// Something that was moved out of git's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Where it was.
    pub path: String,
    /// Where it is.
    pub moved_to: String,
    /// Why, in one phrase.
    pub reason: String,
}

/// What a run left that the host's git would obey.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Names that appeared or were replaced.
    pub(crate) created: Vec<String>,
    /// What was moved out of git's way.
    pub(crate) set_aside: Vec<SetAside>,
    /// What could not be compared.
    pub(crate) gaps: Vec<String>,
}

/// The state before the run.
#[derive(Debug)]
pub(crate) struct GitWatch {
    indexes: Vec<Before>,
    /// Protected files, which only the host can change.
    files: Vec<(PathBuf, FileStamp)>,
    began: Moment,
}

#[derive(Debug, Default)]
struct Before {
    /// The index.
    stamp: Option<FileStamp>,
    /// Names of linked worktrees.
    worktrees: BTreeSet<OsString>,
}

impl GitWatch {
    /// Notes the state. Before the program starts.
    pub(crate) fn begin(plan: &Plan) -> Self {
        let began = file_clock();
        let indexes = plan.git_indexes.iter().map(Before::of).collect();
        let files = protected_files(plan)
            .filter_map(|path| {
                let stat = rustix::fs::lstat(&path).ok()?;
                let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                regular.then(|| (path, stamp(&stat)))
            })
            .collect();
        Self { indexes, files, began }
    }

    /// Compares. After the last process of the run is dead.
    pub(crate) fn report(self, plan: &Plan, registry: &Registry, budget: &Budget) -> Report {
        let mut report = Report::default();
        for root in &plan.watch_git {
            if crate::registry::appeared(root, ".git") {
                report.created.push(shown(&root.join(".git")));
            }
            // The directory itself has become a repository.
            if BARE.iter().all(|name| crate::registry::appeared(root, name)) {
                report.created.push(shown(&root.join("config")));
            }
        }
        for (before, index) in self.indexes.iter().zip(&plan.git_indexes) {
            let mut compare =
                Compare { plan, index, before, began: self.began, budget, report: &mut report };
            if let Err(why) = compare.index(registry) {
                let at = index.git_dir.join("index");
                report.gaps.push(format!(
                    "nested repositories that `{}` names were not compared: {why}",
                    at.display()
                ));
            }
        }
        if let Err(why) = new_repositories(plan, self.began, budget, &mut report) {
            report.gaps.push(format!("new repositories were not looked for: {why}"));
        }
        for (path, before) in &self.files {
            let same = rustix::fs::lstat(path).is_ok_and(|stat| stamp(&stat) == *before);
            if !same {
                report.created.push(shown(path));
            }
        }
        if report.created.len() > LISTED_MAX {
            let more = report.created.len() - LISTED_MAX;
            report.created.truncate(LISTED_MAX);
            report
                .gaps
                .push(format!("{more} more names appeared or were replaced than are listed"));
        }
        report
    }
}

/// Files that a mount keeps from being changed. The run cannot; but a mount goes with the name it stands on when the host
/// replaces the file, and from then on the run could.
fn protected_files(plan: &Plan) -> impl Iterator<Item = PathBuf> {
    plan.setup.iter().filter_map(|step| match step {
        Step::Mount(Mount::Bind {
            source: BindSource::Beneath { root, path },
            access: ringfence_plan::Access::ReadOnly,
            ..
        }) if plan.disk_roots.iter().any(|dir| dir.path == *root) => {
            // Placeholders are ours, and runs that share them come and go.
            let is_ours = plan.placeholders.iter().any(|p| p.root == *root && p.path == *path);
            (!is_ours).then(|| root.join(path))
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
    began: Moment,
    budget: &'a Budget,
    report: &'a mut Report,
}

impl Compare<'_> {
    fn index(&mut self, registry: &Registry) -> Result<(), NotJudged> {
        let index = self.index;
        let opened = open_exact(&index.git_dir, index.git_dir_id);
        let (dir, _) = opened.map_err(|e| format!("its directory is gone: {e}"))?;
        self.rebase_steps(&dir);
        self.new_worktrees(&dir).map_err(|e| e.to_string())?;
        let Some(stamp) = stamp_at(&dir, Path::new("index")) else { return Ok(()) };
        let unchanged = self.before.stamp == Some(stamp) && is_old(&stamp, self.began);
        if unchanged && index.read_at == Some(stamp) {
            if !index.is_on_record {
                let links = index.links.clone();
                registry.remember_links(index.git_dir_id, &KnownLinks { stamp, links });
            }
            return self.links(&index.links, Change::None);
        }
        let change = if unchanged { Change::None } else { Change::ByTheRun };
        match self.read(&dir) {
            Ok(after) => {
                self.links(&after.links, change)?;
                let still = stamp_at(&dir, Path::new("index")) == Some(stamp);
                if !after.is_split && still && is_old(&stamp, file_clock()) {
                    registry.remember_links(
                        index.git_dir_id,
                        &KnownLinks { stamp, links: after.links },
                    );
                }
                Ok(())
            }
            // It could be judged before the run, and cannot now: the run made it so.
            Err(why) if change == Change::ByTheRun && index.read_at.is_some() => {
                self.set_aside(
                    &dir,
                    "index",
                    &index.git_dir,
                    &format!("it cannot be judged: {why}"),
                );
                Ok(())
            }
            Err(why) => Err(why),
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
        let Ok(checkout) = untrusted::open_absolute(&self.index.checkout) else { return Ok(()) };
        for link in after {
            let at = self.index.checkout.join(link);
            let reachable = self.plan.disk_roots.iter().any(|dir| at.starts_with(&dir.path));
            if !reachable || self.index.settled.contains(link) {
                continue;
            }
            self.budget.spend_entry().map_err(|e| e.call)?;
            let Ok(dir) = open_beneath(&checkout, link) else { continue };
            let Some(git) = stat_at(&dir, ".git") else { continue };
            let is_new = change == Change::ByTheRun && !self.index.links.contains(link);
            let protected = mounts_below(self.plan, &at.join(".git"));
            if is_new {
                self.set_aside(&dir, ".git", &at, "the run had git's index name this repository");
            } else if !protected && self.changed(&dir, &git).unwrap_or(true) {
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

    /// Whether a nested repository, or what it tells git to do, changed during the run.
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
        let Ok(hooks) = untrusted::open_directory_beneath(&git_dir, Path::new("hooks")) else {
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
        changed_at(stat) >= self.began
    }

    /// A rebase that the run left unfinished and whose next steps are commands.
    fn rebase_steps(&mut self, dir: &OwnedFd) {
        let path = Path::new("rebase-merge/git-rebase-todo");
        let Ok(file) = open_file_beneath(dir, path) else { return };
        if !rustix::fs::fstat(&file).is_ok_and(|stat| self.is_recent(&stat)) {
            return;
        }
        let text = untrusted::read_beneath(dir, path, TODO_BYTES_MAX);
        let executes = text.map_or(true, |text| {
            text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_start).any(|line| {
                let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
                word == b"exec" || word == b"x"
            })
        });
        if executes {
            self.report.created.push(shown(&self.index.git_dir.join(path)));
        }
    }

    /// Worktrees that the run added: they must be of this repository, and name no nested one.
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
        self.report.set_aside(dir, name, at, reason);
    }
}

impl Report {
    /// Renames `name` in the open directory `dir`, which is at `at`, so that git no longer finds it.
    fn set_aside(&mut self, dir: &OwnedFd, name: &str, at: &Path, reason: &str) {
        let path = shown(&at.join(name));
        match rename_aside(dir, name) {
            Ok(to) => self.set_aside.push(SetAside {
                path: path.clone(),
                moved_to: shown(&at.join(to)),
                reason: reason.to_owned(),
            }),
            Err(Errno::NOENT) => return,
            Err(errno) => {
                let errno = ringfence_sys::errno_name(errno.raw_os_error());
                self.gaps.push(format!("`{path}` could not be set aside ({errno}): {reason}"));
            }
        }
        self.created.push(path);
    }
}

/// Whether an index is another than before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    ByTheRun,
}

struct After {
    links: Vec<PathBuf>,
    is_split: bool,
}

/// Repositories that appeared directly below a workspace.
fn new_repositories(
    plan: &Plan,
    began: Moment,
    budget: &Budget,
    report: &mut Report,
) -> Result<(), CallError> {
    for WritableDir { path: root, .. } in &plan.disk_roots {
        let Ok(dir) = untrusted::open_absolute(root) else { continue };
        let Ok(listed) = untrusted::open_directory_beneath(&dir, Path::new(".")) else { continue };
        let names = untrusted::list_directories(&listed, budget, TOP_DIRECTORIES_MAX)?;
        for name in names.iter().take(TOP_DIRECTORIES_MAX) {
            budget.spend_entry()?;
            let at = root.join(name).join(".git");
            let git = Path::new(name).join(".git");
            let Some(stat) = stat_at(&dir, &git) else { continue };
            let is_new = changed_at(&stat) >= began && !mounts_below(plan, &at);
            // A worktree of the workspace's own repository was judged with that.
            let is_pointer = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && points_into(&dir, &git, &root.join(".git/worktrees"));
            if !is_new || is_pointer {
                continue;
            }
            let Ok(parent) = open_beneath(&dir, Path::new(name)) else { continue };
            if executes(&parent, budget)? {
                let reason = "the run made a repository whose configuration or hooks execute";
                report.set_aside(&parent, ".git", &root.join(name), reason);
            } else {
                report.created.push(shown(&at));
            }
        }
    }
    Ok(())
}

/// Whether git would execute something of the repository in `dir`: one that was only cloned has neither hooks nor a
/// configuration that names a program.
fn executes(dir: &OwnedFd, budget: &Budget) -> Result<bool, CallError> {
    let Ok(git) = open_beneath(dir, Path::new(".git")) else { return Ok(true) };
    let is_directory = rustix::fs::fstat(&git)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    let redirects = ["commondir", "config.worktree", "modules", "worktrees"];
    if !is_directory || redirects.iter().any(|name| stat_at(&git, *name).is_some()) {
        return Ok(true);
    }
    match untrusted::read_beneath(&git, Path::new("config"), CONFIG_BYTES_MAX) {
        Ok(bytes) if executes_by_config(&bytes) => return Ok(true),
        Err(error) if !error.is_missing() => return Ok(true),
        _ => {}
    }
    let Ok(hooks) = untrusted::open_directory_beneath(&git, Path::new("hooks")) else {
        return Ok(stat_at(&git, "hooks").is_some());
    };
    let mut active = false;
    untrusted::list(&hooks, budget, |name, _| {
        active = !name.as_bytes().ends_with(b".sample");
        if active { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(active)
}

fn points_into(dir: &OwnedFd, git: &Path, parent: &Path) -> bool {
    let Ok(text) = untrusted::read_beneath(dir, git, POINTER_BYTES_MAX) else { return false };
    let Some(target) = text.trim_ascii().strip_prefix(b"gitdir: ") else { return false };
    let from = parent.parent().and_then(Path::parent).unwrap_or(parent);
    let base = git.parent().unwrap_or(git);
    let target = lexical(&from.join(base).join(OsStr::from_bytes(target)));
    target.parent() == Some(parent)
}

/// Whether the run had a mount at `path` or below it: it was there before, and protected.
fn mounts_below(plan: &Plan, path: &Path) -> bool {
    plan.mounts().any(|mount| {
        matches!(mount, Mount::Bind { source: BindSource::Beneath { .. }, at, .. } if at.starts_with(path))
    })
}

fn worktrees(dir: &OwnedFd, budget: &Budget) -> Result<Vec<OsString>, CallError> {
    match untrusted::open_directory_beneath(dir, Path::new("worktrees")) {
        Ok(list) => untrusted::list_directories(&list, budget, 256),
        Err(_) => Ok(Vec::new()),
    }
}

/// Gives an entry another name in its directory; makes that directory writable first if its owner, who is the caller, took
/// that away.
fn rename_aside(dir: &OwnedFd, name: &str) -> Result<String, Errno> {
    let mut opened_up = false;
    let mut n = 0;
    loop {
        let to = if n == 0 { format!("{name}-set-aside") } else { format!("{name}-set-aside-{n}") };
        match rustix::fs::renameat_with(dir, name, dir, &to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(to),
            Err(Errno::EXIST) if n < ASIDE_NAMES_MAX => n += 1,
            Err(Errno::ACCESS) if !opened_up => {
                use std::os::fd::AsRawFd as _;
                opened_up = true;
                let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
                rustix::fs::chmod(path, rustix::fs::Mode::RWXU)?;
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Whether a change after `now` is sure to be seen in a file's time stamp.
fn is_old(stamp: &FileStamp, now: Moment) -> bool {
    let nanos = |(seconds, nanos): Moment| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    nanos(now) - nanos(stamp.changed) > RACY_NANOS
}

/// The stamp of a regular file in an open directory.
pub(crate) fn stamp_at(dir: impl AsFd, name: &Path) -> Option<FileStamp> {
    let stat = stat_at(dir, name)?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular.then(|| stamp(&stat))
}

fn stamp(stat: &Stat) -> FileStamp {
    FileStamp {
        id: id_of(stat),
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        modified: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        changed: changed_at(stat),
    }
}

fn changed_at(stat: &Stat) -> Moment {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

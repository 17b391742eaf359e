//! Git's executable surface in a directory that a run may write: hooks, configuration, paths that the configuration
//! names, and everything that redirects git to another repository. docs/git.md has the table.
//!
//! Nothing that a run can write decides what is protected. The sources are the configuration, which no run can write,
//! `modules`, which is read-only or held, and the index as it was before the run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use ringfence_plan::{
    FileId, FileKind, Found, GitFacts, GitIndex, IndexBefore, KnownLinks, PlaceholderShape,
    Protected, ProtectedState, WritableDir, WritableRoot,
};
use ringfence_sys::CallError;
use ringfence_sys::untrusted;
use rustix::io::Errno;

use super::gitconfig::{self, Role, Variable};
use super::paths::{follow_links, links_inside, protect};
use super::tree::Tree;
use crate::file_time::{file_clock, has_local_clock, is_old};
use crate::gitindex::{self, HashBytes};
use crate::gitwatch::{names_of, stamp_of};
use crate::registry::Registry;

mod config;

use config::Config;

/// Maximum number of nested repositories whose `.git` is protected: submodules and others together.
const NESTED_MAX: usize = 64;

/// Maximum number of nested repositories with a git directory of their own, each of which takes half a dozen mounts.
const NESTED_DIRECTORIES_MAX: usize = 16;

/// Maximum number of linked worktrees whose parts are protected one by one; with more, their parent directory is
/// read-only as a whole.
const WORKTREES_MAX: usize = 16;

/// Maximum number of directories searched below `modules`: a submodule's name may have slashes.
const MODULE_DIRECTORIES_MAX: usize = 512;

/// Maximum depth of directories below `modules`.
const MODULE_DEPTH_MAX: usize = 16;

/// Maximum size of a configuration file; a larger one is not read.
const CONFIG_BYTES_MAX: u64 = 256 << 10;

/// Maximum size of a `.git` file, or another that holds one path.
const POINTER_BYTES_MAX: u64 = 4096;

/// Maximum number of directories above a workspace that are searched for its repository.
const ABOVE_MAX: usize = 32;

/// Inputs of the survey besides the directory itself.
pub(super) struct SurveyContext<'a> {
    /// Placeholders and indexes on record.
    pub(super) registry: &'a Registry,
    /// The caller's home, for `~` in configuration.
    pub(super) home: Option<&'a Path>,
    /// The user's and the system's configuration files.
    pub(super) config_files: &'a [PathBuf],
}

/// Surveys git in and around a writable directory. `top_directories` are the names of the directories at its top.
pub(super) fn survey(
    root: &Tree<'_>,
    held: &BTreeSet<PathBuf>,
    top_directories: &[PathBuf],
    around: &SurveyContext<'_>,
) -> Result<GitFacts, CallError> {
    let mut survey = Survey::new(root, held, around);
    let own = root.look(".git")?;
    survey.facts.is_repository = own.is_some();
    match own {
        None => {
            survey.bare()?;
            survey.granted_modules()?;
        }
        Some(seen) if seen.kind == FileKind::Directory => {
            survey.repository(Path::new(".git"), Path::new(""))?;
        }
        Some(seen) if seen.kind == FileKind::File => {
            survey.facts.protected.push(present(".git", FileKind::File));
            survey.linked()?;
        }
        Some(seen) => {
            survey.facts.distrusted = Some("it is neither a directory nor a file".to_owned());
            survey.facts.protected.push(present(".git", seen.kind));
        }
    }
    survey.repository_above()?;
    survey.nested_at_the_top(top_directories)?;
    survey.finish()
}

/// Returns true if git takes a directory with these names for a repository, with or without a configuration. Where `commondir`
/// names another directory, objects and references are there (`is_git_directory` in git's `setup.c`).
pub(crate) fn is_git_directory<E>(mut has: impl FnMut(&str) -> Result<bool, E>) -> Result<bool, E> {
    Ok(has("HEAD")? && (has("commondir")? || (has("objects")? && has("refs")?)))
}

fn present(path: impl Into<PathBuf>, kind: FileKind) -> Protected {
    Protected { path: path.into(), state: ProtectedState::Present(kind) }
}

struct Survey<'a, 'b> {
    root: &'a Tree<'b>,
    held: &'a BTreeSet<PathBuf>,
    around: &'a SurveyContext<'a>,
    /// The user's and the system's configuration, read when the first repository is found.
    shared_config: Option<Vec<Variable>>,
    facts: GitFacts,
    pinned: BTreeSet<PathBuf>,
    protected: BTreeSet<PathBuf>,
    n_nested: usize,
    n_nested_directories: usize,
    n_named: usize,
    n_includes: usize,
    too_many: BTreeSet<&'static str>,
}

impl<'a, 'b> Survey<'a, 'b> {
    fn new(root: &'a Tree<'b>, held: &'a BTreeSet<PathBuf>, around: &'a SurveyContext<'a>) -> Self {
        Self {
            root,
            held,
            around,
            shared_config: None,
            facts: GitFacts::default(),
            pinned: BTreeSet::new(),
            protected: BTreeSet::new(),
            n_nested: 0,
            n_nested_directories: 0,
            n_named: 0,
            n_includes: 0,
            too_many: BTreeSet::new(),
        }
    }

    fn finish(mut self) -> Result<GitFacts, CallError> {
        let at = self.root.path().display();
        for what in &self.too_many {
            self.facts.gaps.push(format!("`{at}`: {what}"));
        }
        let mut pinned: Vec<PathBuf> = self.pinned.into_iter().collect();
        let inside = links_inside(self.root, &self.facts.protected, &mut self.facts.gaps)?;
        follow_links(self.root, &inside, &mut self.facts.protected, &mut pinned)?;
        pinned.retain(|path| !path.as_os_str().is_empty());
        // Parents first: in this order each is still reachable by its name.
        pinned.sort();
        self.facts.pinned = pinned;
        Ok(self.facts)
    }

    /// Keeps `path` and every directory above it from being renamed.
    fn pin(&mut self, path: &Path) {
        let below = path.ancestors().filter(|above| !above.as_os_str().is_empty());
        self.pinned.extend(below.map(Path::to_owned));
    }

    fn pin_above(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.pin(parent);
        }
    }

    fn protect(&mut self, protected: Protected) {
        if self.protected.insert(protected.path.clone()) {
            self.pin_above(&protected.path);
            self.facts.protected.push(protected);
        }
    }

    /// A directory that is itself a repository: git obeys its configuration.
    fn bare(&mut self) -> Result<(), CallError> {
        if !is_git_directory(|name| Ok::<_, CallError>(self.root.look(name)?.is_some()))? {
            return Ok(());
        }
        self.facts.is_repository = true;
        if self.root.look("commondir")?.is_some() {
            let at = self.root.path().display();
            self.facts.gaps.push(format!(
                "`{at}` is a git directory: what its `commondir` names is not protected"
            ));
        }
        let config = self.config(self.root, Path::new(""))?;
        self.executable_surface(self.root, Path::new(""), &config)?;
        self.worktrees(self.root, Path::new(""), &config, None)
    }

    /// Protects a repository without a checkout of its own at `at`, as beside the worktrees that are made from it.
    fn nested_bare(&mut self, at: &Path) -> Result<(), CallError> {
        if !is_git_directory(|name| Ok::<_, CallError>(self.root.look(at.join(name))?.is_some()))? {
            return Ok(());
        }
        if self.protected.contains(at) || !self.may_protect_another() {
            return Ok(());
        }
        self.pin(at);
        let Some(git_dir) = self.root.sub(at)? else { return Ok(()) };
        let config = self.config(&git_dir, at)?;
        self.executable_surface(&git_dir, at, &config)?;
        self.worktrees(&git_dir, at, &config, None)
    }

    /// `modules` of a repository, granted as a directory of its own: each module in it is protected like a repository.
    fn granted_modules(&mut self) -> Result<(), CallError> {
        let path = self.root.path();
        let is_modules = path.file_name() == Some(OsStr::new("modules"));
        let Some(parent) = path.parent().filter(|_| is_modules) else { return Ok(()) };
        let Some(git_dir) = Tree::at(parent, self.root.budget())? else { return Ok(()) };
        if git_dir.look("HEAD")?.is_none() {
            return Ok(());
        }
        let mut modules = Vec::new();
        find_modules(self.root, Path::new(""), 0, &mut 0, &mut modules)?;
        for module in modules {
            if self.n_nested_directories == NESTED_DIRECTORIES_MAX {
                self.too_many.insert("more submodules are granted than can be protected one by one; the others are read-only");
                self.protect(present(module.at, FileKind::Directory));
                continue;
            }
            self.n_nested_directories += 1;
            self.pin(&module.at);
            let config = Config::new(module.config);
            let Some(dir) = self.root.sub(&module.at)? else { continue };
            self.executable_surface(&dir, &module.at, &config)?;
            if let Some(checkout) = module.checkout {
                self.index(&dir, checkout, &config, Vec::new())?;
            }
        }
        Ok(())
    }

    /// A git directory at `at` whose checkout is at `checkout`.
    fn repository(&mut self, at: &Path, checkout: &Path) -> Result<(), CallError> {
        self.pin(at);
        let Some(git_dir) = self.root.sub(at)? else { return Ok(()) };
        let config = self.config(&git_dir, checkout)?;
        self.executable_surface(&git_dir, at, &config)?;
        self.worktrees(&git_dir, at, &config, None)?;
        let settled = self.module_pointers(&git_dir)?;
        let checkout_path = self.root.path().join(checkout);
        self.index(&git_dir, checkout_path, &config, settled)
    }

    /// Hooks, configuration and redirection of the git directory at `at`.
    fn executable_surface(
        &mut self,
        git_dir: &Tree<'_>,
        at: &Path,
        config: &Config,
    ) -> Result<(), CallError> {
        self.facts
            .dirs
            .push(WritableDir { path: git_dir.path().to_owned(), id: git_dir.itself()?.id });
        // Git obeys `config.worktree` only if the configuration says so (git-worktree(1)), but `git sparse-checkout`
        // turns that on: in the repository of the workspace its place is held. In a nested one it is protected if it is
        // obeyed.
        let is_nested = at.components().count() > 1 && at.ends_with(".git");
        let names = [
            ("hooks", PlaceholderShape::EmptyDirectory),
            ("config", PlaceholderShape::EmptyFile),
            // It redirects everything, configuration included.
            ("commondir", PlaceholderShape::Dot),
            ("modules", PlaceholderShape::EmptyDirectory),
            ("config.worktree", PlaceholderShape::EmptyFile),
        ];
        let n = match () {
            () if !is_nested => 5,
            () if config.per_worktree => 5,
            // Nothing is read from `modules` of a nested repository.
            () => 3,
        };
        self.protect_in(git_dir, at, &names[..n])
    }

    fn protect_in(
        &mut self,
        dir: &Tree<'_>,
        at: &Path,
        names: &[(&str, PlaceholderShape)],
    ) -> Result<(), CallError> {
        let held = below(self.held, at);
        for found in protect(dir, &held, names)? {
            self.protect(Protected { path: at.join(&found.path), ..found });
        }
        Ok(())
    }

    /// Protects linked worktrees. Their administrative directories stay writable (HEAD, index) if the checkout lies in
    /// the workspace; the files that redirect them do not, and neither does the checkout's `.git` file.
    fn worktrees(
        &mut self,
        git_dir: &Tree<'_>,
        at: &Path,
        config: &Config,
        own: Option<&Path>,
    ) -> Result<(), CallError> {
        let mut names = git_dir.directories(Path::new("worktrees"), WORKTREES_MAX)?;
        let parent = at.join("worktrees");
        if names.is_empty() {
            return Ok(());
        }
        // Moved away and made anew, the parent would take the protection below it along.
        self.pin(&parent);
        if names.len() > WORKTREES_MAX && own.is_none() {
            self.protect(present(parent, FileKind::Directory));
            return Ok(());
        }
        if names.len() > WORKTREES_MAX {
            names.truncate(WORKTREES_MAX);
            self.too_many.insert("its repository has more worktrees than are protected");
        }
        for name in names {
            let admin = parent.join(name);
            if own == Some(&admin) {
                continue;
            }
            let Some(dir) = self.root.sub(&admin)? else { continue };
            let pointer = pointer(&dir, Path::new("gitdir"), "")?;
            // git-worktree(1): relative to the administrative directory, where `worktree.useRelativePaths` is set.
            let checkout = pointer
                .map(|git| lexical(&dir.path().join(git)))
                .and_then(|git| git.parent().map(Path::to_owned))
                .and_then(|checkout| {
                    checkout.strip_prefix(self.root.path()).ok().map(Path::to_owned)
                })
                .filter(|checkout| !checkout.as_os_str().is_empty());
            let Some(checkout) = checkout else {
                // Elsewhere: the run cannot work in it, so nothing of it need be writable.
                self.protect(present(admin, FileKind::Directory));
                continue;
            };
            self.pin(&admin);
            for name in ["commondir", "gitdir"] {
                if let Some(seen) = dir.look(name)? {
                    self.protect(present(admin.join(name), seen.kind));
                }
            }
            self.protect_in(&dir, &admin, &ADMIN_NAMES)?;
            self.pointer_file(&checkout)?;
            let settled = self.module_pointers(&dir)?;
            self.names(&config.variables, &checkout)?;
            self.index(&dir, self.root.path().join(&checkout), config, settled)?;
        }
        Ok(())
    }

    /// Protects the `.git` files of the submodules whose git directories lie in `git_dir`; returns the absolute paths
    /// of those checkouts. They are found by `core.worktree` of a directory that no run can write.
    fn module_pointers(&mut self, git_dir: &Tree<'_>) -> Result<Vec<PathBuf>, CallError> {
        let Some(dir) = git_dir.sub(Path::new("modules"))? else { return Ok(Vec::new()) };
        let mut modules = Vec::new();
        let mut n_seen = 0;
        find_modules(&dir, Path::new(""), 0, &mut n_seen, &mut modules)?;
        if n_seen > MODULE_DIRECTORIES_MAX {
            self.too_many.insert("`.git/modules` has more directories than are looked at; submodules past them are not protected");
        }
        let mut settled = Vec::new();
        for module in modules {
            let Some(checkout) = module.checkout else { continue };
            let Ok(below) = checkout.strip_prefix(self.root.path()).map(Path::to_owned) else {
                continue;
            };
            if below.as_os_str().is_empty() || !self.may_protect_another() {
                continue;
            }
            let is_protected = self.pointer_file(&below)?;
            self.names(&module.config, &below)?;
            // A checkout that does not exist could be made by the run.
            if is_protected {
                settled.push(checkout);
            }
        }
        Ok(settled)
    }

    fn may_protect_another(&mut self) -> bool {
        if self.n_nested == NESTED_MAX {
            self.too_many.insert("it has more nested repositories than are protected; of those past 64 only configuration, hooks and index are compared after the run");
            return false;
        }
        self.n_nested += 1;
        true
    }

    /// Protects the `.git` of a checkout at `at`, which the host's git follows: it can be neither changed nor moved.
    /// Returns false if there is none.
    fn pointer_file(&mut self, at: &Path) -> Result<bool, CallError> {
        let git = at.join(".git");
        match self.root.look(&git)? {
            None => self.empty_checkout(at),
            Some(seen) => {
                self.protect(present(git, seen.kind));
                Ok(true)
            }
        }
    }

    /// Protects a submodule that is not checked out: its directory is empty, and git would obey files that a run put
    /// there. Returns false if there is no directory; then a `.git` in it is new after the run.
    fn empty_checkout(&mut self, at: &Path) -> Result<bool, CallError> {
        let seen = self.root.look(at)?;
        if let Some(seen) = &seen {
            self.protect(present(at, seen.kind));
        }
        Ok(seen.is_some())
    }

    /// Protects a repository at `at` below the workspace that is not a submodule of this one.
    fn nested(&mut self, at: &Path) -> Result<(), CallError> {
        let git = at.join(".git");
        match self.root.look(&git)? {
            None => self.empty_checkout(at).map(drop),
            Some(seen) if seen.kind == FileKind::Directory => {
                if self.protected.contains(&git) || self.pinned.contains(&git) {
                    return Ok(());
                }
                if self.root.look(git.join("HEAD"))?.is_none() {
                    // Git does not take it for a repository, until a run makes what is missing.
                    self.protect(present(git, FileKind::Directory));
                    return Ok(());
                }
                if self.n_nested_directories == NESTED_DIRECTORIES_MAX {
                    self.too_many.insert("it has more nested repositories than can be protected part by part; the others are read-only");
                    self.protect(present(git, FileKind::Directory));
                    return Ok(());
                }
                self.n_nested_directories += 1;
                self.pin(&git);
                let Some(git_dir) = self.root.sub(&git)? else { return Ok(()) };
                let config = self.config(&git_dir, at)?;
                self.executable_surface(&git_dir, &git, &config)?;
                self.worktrees(&git_dir, &git, &config, None)?;
                self.index(&git_dir, self.root.path().join(at), &config, Vec::new())
            }
            Some(seen) => {
                self.protect(present(git, seen.kind));
                Ok(())
            }
        }
    }

    /// Protects repositories directly below the workspace, whether or not it is one itself.
    fn nested_at_the_top(&mut self, directories: &[PathBuf]) -> Result<(), CallError> {
        for name in directories {
            self.root.budget().spend_entry()?;
            // By name, which is cheapest: the listing gave its type as a directory, and mount sources are resolved
            // without links.
            let is_there = untrusted::stat_at(self.root, name.join(".git")).is_some();
            if is_there && self.may_protect_another() {
                self.nested(name)?;
            } else if !is_there && untrusted::stat_at(self.root, name.join("HEAD")).is_some() {
                self.nested_bare(name)?;
            }
        }
        Ok(())
    }

    /// Records an index to compare after the run, and protects the nested repositories that it names.
    fn index(
        &mut self,
        git_dir: &Tree<'_>,
        checkout: PathBuf,
        config: &Config,
        settled: Vec<PathBuf>,
    ) -> Result<(), CallError> {
        let id = git_dir.itself()?.id;
        let hash_bytes = config.hash_bytes;
        let (before, links) = self.index_before(git_dir, id, hash_bytes)?;
        let known = names_of(&settled);
        for link in &links {
            let at = checkout.join(link);
            let below = at.strip_prefix(self.root.path()).map(Path::to_owned);
            let Ok(below) = below else { continue };
            if below.as_os_str().is_empty() || known.contains(at.as_os_str()) {
                continue;
            }
            if !self.may_protect_another() {
                break;
            }
            self.nested(&below)?;
        }
        let settled = settled
            .into_iter()
            .filter_map(|at| at.strip_prefix(&checkout).ok().map(Path::to_owned));
        let settled = settled.collect();
        self.facts.indexes.push(GitIndex {
            git_dir: git_dir.path().to_owned(),
            git_dir_id: id,
            checkout,
            hash_bytes,
            settled,
            links,
            before,
        });
        Ok(())
    }

    /// The nested repositories that an index names: from the record if the file is unchanged since it was read, else by
    /// reading it.
    fn index_before(
        &mut self,
        git_dir: &Tree<'_>,
        id: FileId,
        hash_bytes: usize,
    ) -> Result<(IndexBefore, Vec<PathBuf>), CallError> {
        self.root.budget().spend_entry()?;
        let Some(stat) = untrusted::stat_at(git_dir, "index") else {
            return Ok((IndexBefore::Absent, Vec::new()));
        };
        let stamp = stamp_of(&stat);
        let recorded = self.around.registry.known_links(id);
        let recorded = recorded.filter(|known| Some(known.stamp) == stamp);
        let why = match (recorded, stamp) {
            (Some(KnownLinks { stamp, links, unjudged: None }), _) => {
                return Ok((IndexBefore::Read { stamp, is_on_record: true }, links));
            }
            (Some(KnownLinks { unjudged: Some(why), .. }), _) => why,
            (None, None) => "it is not a regular file".to_owned(),
            (None, Some(stamp)) => match self.read_index(git_dir, hash_bytes) {
                Ok(links) => {
                    return Ok((IndexBefore::Read { stamp, is_on_record: false }, links));
                }
                Err(why) => {
                    // Record the failure, so that the next run does not spend the same time again.
                    if has_local_clock(git_dir, id.dev) && is_old(&stamp, file_clock()) {
                        let (links, unjudged) = (Vec::new(), Some(why.clone()));
                        let known = KnownLinks { stamp, links, unjudged };
                        self.around.registry.remember_links(id, &known);
                    }
                    why
                }
            },
        };
        self.facts.gaps.push(format!(
            "nested repositories that `{}/index` names are not compared: {why}",
            git_dir.path().display()
        ));
        Ok((IndexBefore::Unjudged { stamp }, Vec::new()))
    }

    fn read_index(&self, git_dir: &Tree<'_>, hash_bytes: usize) -> Result<Vec<PathBuf>, String> {
        let file = untrusted::open_file_beneath(git_dir, Path::new("index"));
        let file = file.map_err(|e| e.to_string())?;
        let scan = gitindex::scan(&file, HashBytes(hash_bytes), self.root.budget())?;
        match scan.base {
            None => Ok(scan.links),
            // Its base may have been changed without a trace in the index itself.
            Some(_) => Err("it is split".to_owned()),
        }
    }

    /// The repository that the workspace is a part of: `.git` files of its submodules and worktrees may lie here.
    fn repository_above(&mut self) -> Result<(), CallError> {
        let above = self.root.path().ancestors().skip(1).take(ABOVE_MAX);
        for dir in above.filter(|dir| *dir != Path::new("/")) {
            self.root.budget().spend_entry()?;
            if rustix::fs::lstat(dir.join(".git")).is_err() {
                continue;
            }
            let Some(dir) = Tree::at(dir, self.root.budget())? else { return Ok(()) };
            let git_dir = match dir.look(".git")? {
                None => continue,
                Some(seen) if seen.kind == FileKind::Directory => dir.sub(Path::new(".git"))?,
                Some(_) => match pointer(&dir, Path::new(".git"), "gitdir: ")? {
                    Some(target) => {
                        Tree::at(&lexical(&dir.path().join(target)), self.root.budget())?
                    }
                    None => None,
                },
            };
            let Some(git_dir) = git_dir else { return Ok(()) };
            if git_dir.look("HEAD").is_err_and(|error| error.errno == Errno::ACCESS) {
                // Another user's: the caller's git cannot read it either.
                return Ok(());
            }
            let config = self.read_config(&git_dir)?;
            let settled = self.module_pointers(&git_dir)?;
            for name in git_dir.directories(Path::new("worktrees"), WORKTREES_MAX)? {
                let Some(admin) = git_dir.sub(&Path::new("worktrees").join(name))? else {
                    continue;
                };
                let git = pointer(&admin, Path::new("gitdir"), "")?;
                let git = git.map(|git| lexical(&admin.path().join(git)));
                let checkout = git.as_deref().and_then(Path::parent);
                let below = checkout.and_then(|dir| dir.strip_prefix(self.root.path()).ok());
                if let Some(below) = below.filter(|below| !below.as_os_str().is_empty()) {
                    self.pointer_file(below)?;
                }
            }
            self.names_above(&config.variables, dir.path())?;
            return self.index(&git_dir, dir.path().to_owned(), &config, settled);
        }
        Ok(())
    }

    /// A `.git` file: followed only when its target points back here.
    fn linked(&mut self) -> Result<(), CallError> {
        let budget = self.root.budget();
        let root = self.root.path();
        let mut refuse = |why: &str| {
            self.facts.distrusted = Some(why.to_owned());
            Ok(())
        };
        let Some(target) = pointer(self.root, Path::new(".git"), "gitdir: ")? else {
            return refuse("it does not name a git directory");
        };
        let Some(admin) = Tree::at(&lexical(&root.join(target)), budget)? else {
            return refuse("the git directory it names does not exist");
        };
        let points_back = if let Some(back) = pointer(&admin, Path::new("gitdir"), "")? {
            // A linked worktree: .git/worktrees/NAME/gitdir names our .git file.
            lexical(&admin.path().join(back)) == root.join(".git")
        } else {
            // A submodule: its config names our directory as its work tree.
            let bytes = admin.read("config", CONFIG_BYTES_MAX)?.bytes()?.unwrap_or_default();
            let config = gitconfig::parse(&bytes);
            let worktree = config.iter().rev().find(|v| v.role() == Some(Role::Worktree));
            worktree.is_some_and(|v| lexical(&admin.path().join(&v.value)) == root)
        };
        if !points_back {
            return refuse("the git directory it names does not point back here");
        }
        let common = match pointer(&admin, Path::new("commondir"), "")? {
            Some(common) => Tree::at(&lexical(&admin.path().join(common)), budget)?,
            None => Tree::at(admin.path(), budget)?,
        };
        let Some(common) = common else {
            return refuse("its common directory does not exist");
        };
        // The administrative directory must lie in the repository it claims to be of, where git puts it, or be it.
        let lies_right = admin.path() == common.path()
            || admin.path().parent() == Some(&common.path().join("worktrees"));
        if !lies_right || root.starts_with(common.path()) {
            return refuse("its git directory lies outside its repository");
        }
        if !is_repository(&common)? {
            return refuse("what it names is not a git repository by its name and content");
        }
        let seen = common.itself()?;
        let held = self.around.registry.held(seen.id);
        let mut inner = Survey::new(&common, &held, self.around);
        inner.shared_config = self.shared_config.take();
        let config = inner.config(&common, Path::new(""))?;
        inner.executable_surface(&common, Path::new(""), &config)?;
        // This worktree, if it is a linked one: it lies outside the repository, and the run works in it.
        let own = admin.path().strip_prefix(common.path()).ok().map(Path::to_owned);
        let own = own.filter(|own| !own.as_os_str().is_empty());
        inner.worktrees(&common, Path::new(""), &config, own.as_deref())?;
        inner.module_pointers(&common)?;
        if let Some(own) = own {
            inner.pin(&own);
            for name in ["commondir", "gitdir"] {
                if let Some(seen) = admin.look(name)? {
                    inner.protect(present(own.join(name), seen.kind));
                }
            }
            inner.protect_in(&admin, &own, &ADMIN_NAMES)?;
            // The main checkout's: nothing in a linked worktree needs to write them.
            inner.protect_in(&common, Path::new(""), &MAIN_CHECKOUT_NAMES)?;
        }
        let inner = inner.finish()?;
        // Checkouts of submodules, and paths that the configuration names, lie in the workspace.
        let settled = self.module_pointers(&admin)?;
        self.names(&config.variables, Path::new(""))?;
        self.index(&admin, root.to_owned(), &config, settled)?;
        let linked = WritableRoot {
            root: Found { path: common.path().to_owned(), kind: FileKind::Directory, id: seen.id },
            owner_uid: seen.owner.0,
            owner_gid: seen.owner.1,
            protected: Vec::new(),
            secrets: Vec::new(),
            git: inner,
        };
        self.facts.linked = Some(Box::new(linked));
        Ok(())
    }
}

/// Names in the administrative directory of a worktree that may be absent, and whose places are then held.
const ADMIN_NAMES: [(&str, PlaceholderShape); 2] = [
    ("config.worktree", PlaceholderShape::EmptyFile),
    ("modules", PlaceholderShape::EmptyDirectory),
];

/// In the repository of a linked worktree: the state of the main checkout.
const MAIN_CHECKOUT_NAMES: [(&str, PlaceholderShape); 2] =
    [("index", PlaceholderShape::Inert), ("HEAD", PlaceholderShape::Inert)];

/// A submodule's git directory.
struct Module {
    /// Below `modules`.
    at: PathBuf,
    /// The checkout that its configuration names, absolute.
    checkout: Option<PathBuf>,
    config: Vec<Variable>,
}

/// Finds git directories below a `modules` directory.
fn find_modules(
    dir: &Tree<'_>,
    at: &Path,
    depth: usize,
    n_seen: &mut usize,
    found: &mut Vec<Module>,
) -> Result<(), CallError> {
    if depth > MODULE_DEPTH_MAX {
        return Ok(());
    }
    for name in dir.directories(Path::new("."), MODULE_DIRECTORIES_MAX)? {
        *n_seen += 1;
        if *n_seen > MODULE_DIRECTORIES_MAX {
            return Ok(());
        }
        let name = Path::new(&name);
        let at = at.join(name);
        // By paths relative to `dir`, which takes half the calls of opening each one.
        let config = dir.read(name.join("config"), CONFIG_BYTES_MAX)?.bytes()?;
        if config.is_none() && dir.look(name.join("HEAD"))?.is_none() {
            // A submodule's name with slashes: its parts are directories.
            if let Some(sub) = dir.sub(name)? {
                find_modules(&sub, &at, depth + 1, n_seen, found)?;
            }
            continue;
        }
        let config = gitconfig::parse(&config.unwrap_or_default());
        let worktree = config.iter().rev().find(|v| v.role() == Some(Role::Worktree));
        let checkout = worktree.map(|v| lexical(&dir.path().join(name).join(&v.value)));
        found.push(Module { at: at.clone(), checkout, config });
        if let Some(nested) = dir.sub(&name.join("modules"))? {
            find_modules(&nested, &at.join("modules"), depth + 1, n_seen, found)?;
        }
    }
    Ok(())
}

/// Those of `held` that lie below `at`, relative to it.
fn below(held: &BTreeSet<PathBuf>, at: &Path) -> BTreeSet<PathBuf> {
    held.iter().filter_map(|p| p.strip_prefix(at).ok()).map(Path::to_owned).collect()
}

/// Returns true if a directory outside the workspace is a git directory, so that a run may enter it because a file of
/// its workspace names it. Its content may have been planted by another run, in whose workspace it lies, to have a
/// whole project or a home taken for a repository; its name, if it is the top of such a workspace, cannot.
fn is_repository(dir: &Tree<'_>) -> Result<bool, CallError> {
    let path = dir.path();
    let own_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = own_name.strip_suffix(".git").is_some() || own_name == ".bare";
    // A submodule's lies in the repository that it is a part of, under any name.
    let parts: Vec<_> = path.iter().collect();
    let last = |wanted: &str| parts.iter().rposition(|part| *part == wanted);
    let of_a_module = last(".git").zip(last("modules")).is_some_and(|(git, modules)| git < modules);
    let is = |name: &str, kind| Ok::<_, CallError>(dir.look(name)?.is_some_and(|s| s.kind == kind));
    Ok((named || of_a_module)
        && dir.look(".git")?.is_none()
        && is("HEAD", FileKind::File)?
        && is("config", FileKind::File)?
        && is("objects", FileKind::Directory)?)
}

/// The path that a small pointer file names, after `prefix`.
fn pointer(dir: &Tree<'_>, file: &Path, prefix: &str) -> Result<Option<PathBuf>, CallError> {
    let Some(bytes) = dir.read(file, POINTER_BYTES_MAX)?.bytes()? else { return Ok(None) };
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let Some(path) = line.strip_prefix(prefix.as_bytes()) else { return Ok(None) };
    let path = path.trim_ascii_end();
    Ok((!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path))))
}

/// Removes `.` and `..` from a path lexically. The result is opened without links, so the two paths mean the same.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

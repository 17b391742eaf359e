//! Git's executable surface in a directory a run may write: hooks, config, and everything that redirects to others.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use ringfence_plan::{
    FileId, FileKind, GitFacts, PlaceholderShape, Protected, ProtectedState, WritableRoot,
    catalogue,
};

use super::host::{look, resolve};
use super::paths::{distrusted, protect};
use crate::open::read_small;

/// Submodules and worktrees looked at; past that many their parent directory becomes read-only as a whole.
const REPOSITORIES_MAX: usize = 64;

/// How deep submodules of submodules are followed.
const DEPTH_MAX: usize = 4;

/// A `.gitmodules` or a config larger than this is not read.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// A `.git` file or a pointer in it longer than this is not one.
const POINTER_BYTES_MAX: u64 = 4096;

/// Looks at `.git` below `root`. `held` are placeholders of `root` itself, `held_by` those of another directory.
pub(super) fn survey(
    root: &Path,
    held: &BTreeSet<PathBuf>,
    held_by: &dyn Fn(FileId) -> BTreeSet<PathBuf>,
) -> GitFacts {
    match look(&root.join(".git")) {
        None => bare(root, held),
        Some((FileKind::Directory, _)) => {
            let mut facts = GitFacts::default();
            repository(root, Path::new(".git"), held, 0, &mut facts);
            facts
        }
        Some((kind @ FileKind::File, _)) => {
            let mut facts = linked(root, held_by);
            facts.protected.push(present(".git", kind));
            facts
        }
        Some((kind, _)) => {
            let mut facts = distrusted("it is neither a directory nor a file");
            facts.protected.push(present(".git", kind));
            facts
        }
    }
}

/// What makes git take a directory for a repository, with or without a config.
pub(crate) const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

/// A directory that is itself a repository: git would obey its config.
fn bare(root: &Path, held: &BTreeSet<PathBuf>) -> GitFacts {
    let mut facts = GitFacts::default();
    if BARE.iter().all(|name| look(&root.join(name)).is_some()) {
        executable_surface(root, Path::new(""), held, &mut facts);
    }
    facts
}

fn present(path: impl Into<PathBuf>, kind: FileKind) -> Protected {
    Protected { path: path.into(), state: ProtectedState::Present(kind) }
}

/// A git directory at `at` below `root`: pins it, protects what it executes, and goes into its submodules.
fn repository(
    root: &Path,
    at: &Path,
    held: &BTreeSet<PathBuf>,
    depth: usize,
    facts: &mut GitFacts,
) {
    facts.pinned.push(at.to_owned());
    executable_surface(root, at, held, facts);
    worktrees(root, at, held, facts);
    if depth == 0 {
        for path in submodule_paths(root) {
            checkout(root, &path, facts);
        }
    }
    let modules = at.join("modules");
    let names = directories(&root.join(&modules));
    if names.is_empty() {
        return;
    }
    if names.len() > REPOSITORIES_MAX || depth >= DEPTH_MAX {
        facts.protected.push(present(modules, FileKind::Directory));
        return;
    }
    // Renaming a parent would carry the mounts below it away: the parent is pinned too.
    facts.pinned.push(modules.clone());
    for name in names {
        let module = modules.join(name);
        if look(&root.join(&module).join("HEAD")).is_some() {
            repository(root, &module, held, depth + 1, facts);
        } else {
            // A submodule path with slashes: what is below may be repositories; none of it may change.
            facts.protected.push(present(module, FileKind::Directory));
        }
    }
}

/// Linked worktrees: their administrative directories are writable (HEAD, index), but not what redirects them; and a
/// checkout inside the workspace keeps the `.git` file it has.
fn worktrees(root: &Path, at: &Path, held: &BTreeSet<PathBuf>, facts: &mut GitFacts) {
    let parent = at.join("worktrees");
    let names = directories(&root.join(&parent));
    if names.is_empty() {
        return;
    }
    // Moved away and laid anew, the parent would take the protection below it along.
    facts.pinned.push(parent.clone());
    if names.len() > REPOSITORIES_MAX {
        facts.protected.push(present(parent, FileKind::Directory));
        return;
    }
    for name in names {
        let admin = parent.join(name);
        facts.pinned.push(admin.clone());
        redirections(root, &admin, held, facts);
        let checkout_git = pointer(&root.join(&admin).join("gitdir"), "");
        let inside = checkout_git
            .and_then(|git| git.parent().and_then(|dir| dir.canonicalize().ok()))
            .and_then(|dir| dir.strip_prefix(root).ok().map(Path::to_owned));
        if let Some(dir) = inside.filter(|dir| !dir.as_os_str().is_empty()) {
            checkout(root, &dir, facts);
        }
    }
}

/// What makes a worktree's administrative directory mean another repository.
fn redirections(root: &Path, admin: &Path, held: &BTreeSet<PathBuf>, facts: &mut GitFacts) {
    let dir = root.join(admin);
    for name in ["commondir", "gitdir"] {
        if let Some((kind, _)) = look(&dir.join(name)) {
            facts.protected.push(present(admin.join(name), kind));
        }
    }
    let local = below(held, admin);
    let more = protect(&dir, &local, &["config.worktree"], PlaceholderShape::EmptyFile);
    facts.protected.extend(more.into_iter().map(|p| Protected { path: admin.join(&p.path), ..p }));
}

/// A checkout inside the workspace whose `.git` the host's git will follow: it can be neither changed nor moved.
fn checkout(root: &Path, at: &Path, facts: &mut GitFacts) {
    let Some((kind, _)) = look(&root.join(at).join(".git")) else { return };
    for ancestor in ancestors_below(at) {
        if !facts.pinned.contains(&ancestor) {
            facts.pinned.push(ancestor);
        }
    }
    facts.protected.push(present(at.join(".git"), kind));
}

/// Paths that `.gitmodules` names, as far as they are plain names below the workspace without a link on the way.
fn submodule_paths(root: &Path) -> Vec<PathBuf> {
    let text = small_text(&root.join(".gitmodules"), CONFIG_BYTES_MAX).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.trim().split_once('=')?;
            (key.trim() == "path").then(|| PathBuf::from(value.trim()))
        })
        .filter(|path| path.components().all(|c| matches!(c, Component::Normal(_))))
        .filter(|path| root.join(path).canonicalize().is_ok_and(|real| real == root.join(path)))
        .take(REPOSITORIES_MAX)
        .collect()
}

/// Those of `held` that lie below `at`, relative to it.
fn below(held: &BTreeSet<PathBuf>, at: &Path) -> BTreeSet<PathBuf> {
    held.iter().filter_map(|p| p.strip_prefix(at).ok()).map(Path::to_owned).collect()
}

fn executable_surface(root: &Path, at: &Path, held: &BTreeSet<PathBuf>, facts: &mut GitFacts) {
    let dir = root.join(at);
    let local = below(held, at);
    let lists: [(&[&str], PlaceholderShape); 3] = [
        (catalogue::GIT_PROTECTED_DIRECTORIES, PlaceholderShape::Inert),
        (catalogue::GIT_PROTECTED_FILES, PlaceholderShape::EmptyFile),
        (&[catalogue::GIT_COMMONDIR], PlaceholderShape::Dot),
    ];
    for (names, shape) in lists {
        let found = protect(&dir, &local, names, shape);
        facts
            .protected
            .extend(found.into_iter().map(|p| Protected { path: at.join(&p.path), ..p }));
    }
}

fn directories(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()))
        .map(|entry| entry.file_name())
        .take(REPOSITORIES_MAX + 1)
        .collect();
    names.sort();
    names
}

/// A `.git` file: followed only when what it points to points back here.
fn linked(root: &Path, held_by: &dyn Fn(FileId) -> BTreeSet<PathBuf>) -> GitFacts {
    let Some(target) = pointer(&root.join(".git"), "gitdir: ") else {
        return distrusted("it does not name a git directory");
    };
    let Ok(gitdir) = resolve(&root.join(target)) else {
        return distrusted("the git directory it names does not exist");
    };
    let own = root.join(".git");
    let points_back = match pointer(&gitdir.path.join("gitdir"), "") {
        // A linked worktree: .git/worktrees/NAME/gitdir names our .git file.
        Some(back) => resolve(&gitdir.path.join(back)).is_ok_and(|b| b.path == own),
        // A submodule: its config names our directory as its work tree.
        None => worktree_of(&gitdir.path).is_some_and(|w| w == root),
    };
    if !points_back {
        return distrusted("the git directory it names does not point back here");
    }
    let common = match pointer(&gitdir.path.join("commondir"), "") {
        Some(common) => resolve(&gitdir.path.join(common)),
        None => Ok(gitdir.clone()),
    };
    let Ok(common) = common else {
        return distrusted("its common directory does not exist");
    };
    // The administrative directory must lie in the repository it claims to be of, where git puts it, or be it.
    let lies_right =
        gitdir.path == common.path || gitdir.path.parent() == Some(&common.path.join("worktrees"));
    if !lies_right || root.starts_with(&common.path) {
        return distrusted("its git directory lies outside its repository");
    }
    if !is_repository(&common.path) {
        return distrusted("what it names is not a git repository by its name and content");
    }
    let held = held_by(common.id);
    let mut facts = GitFacts::default();
    repository(&common.path, Path::new(""), &held, 0, &mut facts);
    facts.pinned.retain(|p| !p.as_os_str().is_empty());
    if let Ok(own_admin) = gitdir.path.strip_prefix(&common.path)
        && !own_admin.as_os_str().is_empty()
    {
        for ancestor in ancestors_below(own_admin) {
            if !facts.pinned.contains(&ancestor) {
                facts.pinned.push(ancestor);
            }
        }
    }
    let (owner_uid, owner_gid) = {
        use std::os::unix::fs::MetadataExt;
        std::fs::symlink_metadata(&common.path).map_or((0, 0), |m| (m.uid(), m.gid()))
    };
    let linked = WritableRoot {
        root: common,
        owner_uid,
        owner_gid,
        protected: Vec::new(),
        secrets: Vec::new(),
        git: facts,
    };
    GitFacts { linked: Some(Box::new(linked)), ..GitFacts::default() }
}

/// Whether a directory elsewhere is git's, and so a run may be let into it because a file of its workspace says so. All
/// that it holds can have been laid there by another run, in whose workspace it lies, to have a whole project or a home
/// taken for a repository; its name, if that is the top of such a workspace, cannot.
fn is_repository(path: &Path) -> bool {
    let own_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = own_name.strip_suffix(".git").is_some() || own_name == ".bare";
    // A submodule's lies in the repository that it is a part of, under any name.
    let parts: Vec<_> = path.iter().collect();
    let last = |wanted: &str| parts.iter().rposition(|part| *part == wanted);
    let of_a_module = last(".git").zip(last("modules")).is_some_and(|(git, modules)| git < modules);
    let holds = |name: &str, kind| look(&path.join(name)).is_some_and(|(found, _)| found == kind);
    (named || of_a_module)
        && look(&path.join(".git")).is_none()
        && holds("HEAD", FileKind::File)
        && holds("config", FileKind::File)
        && holds("objects", FileKind::Directory)
}

fn ancestors_below(path: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> =
        path.ancestors().filter(|p| !p.as_os_str().is_empty()).map(Path::to_owned).collect();
    list.reverse();
    list
}

fn small_text(file: &Path, bytes_max: u64) -> Option<String> {
    String::from_utf8(read_small(file, bytes_max)?).ok()
}

/// The path a small pointer file names, after `prefix`.
fn pointer(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = small_text(file, POINTER_BYTES_MAX)?;
    let line = text.lines().next()?.strip_prefix(prefix)?.trim_end();
    (!line.is_empty()).then(|| PathBuf::from(line))
}

/// `core.worktree` of a git directory, resolved.
fn worktree_of(gitdir: &Path) -> Option<PathBuf> {
    let config = small_text(&gitdir.join("config"), CONFIG_BYTES_MAX)?;
    let value = config.lines().find_map(|line| {
        let (key, value) = line.trim().split_once('=')?;
        (key.trim().eq_ignore_ascii_case("worktree")).then(|| value.trim().to_owned())
    })?;
    let path = gitdir.join(value);
    let clean = path.components().all(|c| !matches!(c, Component::Prefix(_)));
    clean.then(|| path.canonicalize().ok()).flatten()
}

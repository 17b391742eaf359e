//! Resolves every path that a run requests, and surveys each directory it may write.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_plan::{
    FileId, FileKind, Found, HostWorkspace, OwnEffect, OwnRule, PlaceholderShape, Protected,
    ProtectedState, Request, WritableRoot, catalogue, protected_path,
};
use ringfence_spec::{Code, CommandPreset, Policy, Problem};
use ringfence_sys::untrusted::{open_absolute, open_beneath};
use ringfence_sys::{Budget, CallError};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::git;
use super::host::{as_it_is, found_at, homes_of_others, is_private, secrets_for_root};
use super::tree::{Seen, Tree, kind_of};
use crate::registry::{Registry, text_of};

/// Entries at the top of a workspace, of which those that may hold secrets are masked. Listing so many takes as long as
/// the start of a run.
const TOP_ENTRIES_MAX: u32 = 32_768;

/// Directories above the working directory in which a repository is looked for.
const DEPTH_MAX: usize = 32;

/// Maximum number of secret files masked one by one.
const SECRETS_MAX: usize = 64;

/// Directories at the top in which a repository is looked for.
pub(crate) const TOP_DIRECTORIES_MAX: usize = 512;

/// Maximum depth and number of entries of a protected directory that are searched for links.
const LINKS_DEPTH_MAX: usize = 4;
const LINKS_ENTRIES_MAX: usize = 512;

/// Maximum number of links followed, as in the kernel.
const LINKS_MAX: usize = 40;

/// The caller's request, unresolved.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Working directory, without links.
    pub cwd: PathBuf,
    /// Its identity, if it was found before.
    pub cwd_id: Option<FileId>,
    /// True if the program gets a terminal.
    pub terminal: bool,
    /// True if output is captured.
    pub capture: bool,
    /// A fresh name for a private directory, used only without namespaces.
    pub host_scratch: PathBuf,
    /// A session's directory, to work in instead of `cwd`.
    pub session: Option<HostWorkspace>,
    /// The caller's home, for `~` in git's configuration.
    pub home: Option<PathBuf>,
    /// Git's configuration files of the user and the system.
    pub git_config_files: Vec<PathBuf>,
}

/// Resolves a request. Earlier runs decide how much there is to survey; `budget` bounds it.
pub fn request(
    policy: &Policy,
    asked: Asked,
    registry: &Registry,
    budget: &Budget,
) -> Result<Request, Problem> {
    let cwd = working_directory(&asked)?;
    if cwd.kind != FileKind::Directory {
        return Err(Problem::usage(
            Code::CwdNotADirectory,
            format!("`{}` is not a directory", asked.cwd.display()),
        )
        .hint("pass a directory to `--cwd`"));
    }
    let mut writable_roots = Vec::new();
    let mut writable_files = Vec::new();
    if matches!(policy.preset, CommandPreset::Workspace | CommandPreset::Agent) {
        refuse_gits_files(&cwd.path)?;
        writable_roots.push(cwd.clone());
    }
    for path in &policy.rw {
        let found = find(path, "rw", &writable_roots, registry)?;
        refuse_gits_files(&found.path)?;
        match found.kind {
            FileKind::Directory if writable_roots.iter().any(|r| r.path == found.path) => {}
            FileKind::Directory => writable_roots.push(found),
            FileKind::File => writable_files.push(found),
            _ => return Err(not_a_grant(path, "rw")),
        }
    }
    let mut readable = find_readable(&policy.ro, &writable_roots, registry)?;
    // From a subdirectory of a repository, git needs the rest of it.
    let of_workspace = asked.session.is_none() && policy.preset != CommandPreset::Minimal;
    let is_root = rustix::process::geteuid().is_root();
    let other_homes = if is_root { homes_of_others() } else { Vec::new() };
    let private = other_homes.iter().filter(|home| is_private(home));
    let homes: Vec<&Path> =
        asked.home.as_deref().into_iter().chain(private.map(PathBuf::as_path)).collect();
    let repository = of_workspace.then(|| repository_around(&cwd.path, &homes));
    if let Some(found) = repository.flatten()
        && !writable_roots.iter().chain(&readable).any(|known| found.path.starts_with(&known.path))
    {
        readable.push(found);
    }
    for found in &readable {
        if writable_roots.iter().chain(&writable_files).any(|w| w.path == found.path) {
            return Err(Problem::usage(
                Code::ContradictoryPaths,
                format!("`{}` is both writable and read-only", found.path.display()),
            )
            .hint("drop one of `--rw` and `--ro`, or use `--preset readonly`"));
        }
    }
    // A missing path needs no hiding, but a typing error would then hide nothing, so it must exist.
    let hidden = policy.hide.iter().map(|p| find(p, "hide", &[], registry));
    let hidden = hidden.collect::<Result<_, _>>()?;
    let sockets = policy.sockets.iter().map(|p| socket(p, &writable_roots, registry));
    let sockets = sockets.collect::<Result<_, _>>()?;
    let own_rules = match &asked.session {
        None => own_rules(policy, &cwd)?,
        Some(_) => Vec::new(),
    };
    let shown = readable.iter().chain((policy.preset == CommandPreset::Readonly).then_some(&cwd));
    let mut secrets = secrets_in(shown, budget)?;
    if is_root {
        let granted = readable.iter().chain(&writable_roots).chain(&writable_files).chain([&cwd]);
        secrets.extend(secrets_for_root(&granted.collect::<Vec<_>>(), &other_homes));
    }
    let around = git::SurveyContext {
        registry,
        home: asked.home.as_deref(),
        config_files: &asked.git_config_files,
    };
    let mut writable = Vec::new();
    for root in writable_roots {
        let surveyed = survey(&root, &around, budget).map_err(|e| unreadable(&root, &e))?;
        writable.push(surveyed);
    }
    Ok(Request {
        session: asked.session,
        interception: None,
        ssh_agent: None,
        mapped: Vec::new(),
        argv: asked.argv,
        cwd,
        writable,
        writable_files,
        readable,
        secrets,
        own_rules,
        hidden,
        sockets,
        host_scratch: asked.host_scratch,
        terminal: asked.terminal,
        capture: asked.capture,
    })
}

/// Opens the working directory as it was found: its path has no links, so that one on it now was put there since.
fn working_directory(asked: &Asked) -> Result<Found, Problem> {
    let path = &asked.cwd;
    let found = found_at(path.clone(), path).map_err(|e| match e.errno {
        Errno::LOOP => cwd_moved(path).cause(e),
        _ => cannot_use("cwd", path, &e),
    })?;
    if found.kind == FileKind::Symlink || asked.cwd_id.is_some_and(|id| id != found.id) {
        return Err(cwd_moved(path));
    }
    Ok(found)
}

fn cwd_moved(path: &Path) -> Problem {
    Problem::refused(
        Code::CwdMoved,
        format!("the working directory is no longer at `{}`", path.display()),
    )
    .hint("another directory or a link is there, which a run may have made; look at it, and start again in the directory that is meant")
}

/// Resolves files and directories that a run may read, and finds the secrets at the top of each.
pub fn readable(
    paths: &[PathBuf],
    registry: &Registry,
    budget: &Budget,
) -> Result<(Vec<Found>, Vec<Found>), Problem> {
    let readable = find_readable(paths, &[], registry)?;
    let mut secrets = secrets_in(readable.iter(), budget)?;
    if rustix::process::geteuid().is_root() {
        let granted: Vec<&Found> = readable.iter().collect();
        secrets.extend(secrets_for_root(&granted, &homes_of_others()));
    }
    Ok((readable, secrets))
}

/// Finds the repository that a directory lies in: the nearest one above it that has a `.git` directory, below every home
/// and the root. A directory with a `.git` of its own is none of another's.
fn repository_around(dir: &Path, homes: &[&Path]) -> Option<Found> {
    let has_git = |dir: &Path| as_it_is(dir.join(".git")).map(|found| found.kind);
    if has_git(dir).is_some() {
        return None;
    }
    let root = dir
        .ancestors()
        .skip(1)
        .take(DEPTH_MAX)
        .take_while(|above| above.parent().is_some())
        .take_while(|above| !homes.iter().any(|home| home.starts_with(above)))
        .find(|above| has_git(above) == Some(FileKind::Directory))?;
    as_it_is(root.to_owned()).filter(|found| found.kind == FileKind::Directory)
}

fn find_readable(
    paths: &[PathBuf],
    written: &[Found],
    registry: &Registry,
) -> Result<Vec<Found>, Problem> {
    let find = |path: &PathBuf| {
        let found = find(path, "ro", written, registry)?;
        match found.kind {
            FileKind::Directory | FileKind::File => Ok(found),
            _ => Err(not_a_grant(path, "ro")),
        }
    };
    paths.iter().map(find).collect()
}

fn secrets_in<'a>(
    shown: impl Iterator<Item = &'a Found>,
    budget: &Budget,
) -> Result<Vec<Found>, Problem> {
    let mut secrets = Vec::new();
    for found in shown.filter(|found| found.kind == FileKind::Directory) {
        let tree = Tree::open(found, budget).map_err(|e| unreadable(found, &e))?;
        let top = top(&tree).map_err(|e| unreadable(found, &e))?;
        secrets.extend(top.secrets.iter().filter_map(|name| as_it_is(found.path.join(name))));
    }
    Ok(secrets)
}

fn unreadable(found: &Found, error: &CallError) -> Problem {
    let at = found.path.display();
    if error.errno == Errno::DQUOT {
        return Problem::refused(
            Code::WorkspaceTooLarge,
            format!("`{at}` holds more than can be looked at before a run"),
        )
        .cause(error)
        .hint("start in a smaller directory; if a run filled this one, remove what it left");
    }
    Problem::cannot_build(Code::Workspace, format!("cannot look at `{at}`")).cause(error)
}

/// Resolves a path of the caller's. A link in a directory that runs write, this one or earlier ones, may have been made by a
/// run: it is not followed out of that directory.
fn find(path: &Path, key: &str, written: &[Found], registry: &Registry) -> Result<Found, Problem> {
    let resolved = resolve(path).map_err(|e| cannot_use(key, path, &e))?;
    refuse_planted_links(&resolved, key, &resolved.found.path, registry)?;
    for root in written {
        let link = resolved.links.iter().find(|(link, _)| link.starts_with(&root.path));
        if let Some((link, _)) = link.filter(|_| !resolved.found.path.starts_with(&root.path)) {
            return Err(led_out(key, link, &resolved.found.path));
        }
    }
    Ok(resolved.found)
}

fn cannot_use(key: &str, path: &Path, error: &CallError) -> Problem {
    Problem::usage(Code::PathNotFound, format!("`{key}`: cannot use `{}`", path.display()))
        .cause(error)
        .hint("the path must exist before the run starts")
}

/// Refuses a path on which a link in a directory that runs have written leads out of that directory, to `target`.
fn refuse_planted_links(
    resolved: &Resolved,
    key: &str,
    target: &Path,
    registry: &Registry,
) -> Result<(), Problem> {
    for (link, _) in &resolved.links {
        let Some(root) = registry.written_by_runs(link) else { continue };
        if !resolved.found.path.starts_with(&root) {
            return Err(led_out(key, link, target));
        }
    }
    Ok(())
}

/// Refuses a link that leads to a file which does not exist, in a directory that runs have written: whatever makes that file
/// later makes it where a run wanted it.
fn refuse_dangling_link(
    path: &Path,
    parent: &Path,
    key: &str,
    registry: &Registry,
) -> Result<(), Problem> {
    let (Some(name), Ok(target)) = (path.file_name(), rustix::fs::readlink(path, Vec::new()))
    else {
        return Ok(());
    };
    let Ok(parent) = resolve(parent) else { return Ok(()) };
    let link = parent.found.path.join(name);
    let target = parent.found.path.join(OsStr::from_bytes(target.to_bytes()));
    match registry.written_by_runs(&link) {
        Some(_) => Err(led_out(key, &link, &target)),
        None => Ok(()),
    }
}

/// Where a path of the caller's leads.
#[derive(Clone, Debug)]
pub struct LeadsTo {
    /// The path without links.
    pub path: PathBuf,
    /// Identity of the file there, if there is one.
    pub id: Option<FileId>,
}

/// Refuses a path of the caller's if a link in a directory that runs have written leads out of that directory. A path
/// that does not exist yet is judged by its parent directory.
pub fn without_planted_links(
    path: &Path,
    key: &str,
    registry: &Registry,
) -> Result<LeadsTo, Problem> {
    let unresolved = || Ok(LeadsTo { path: path.to_owned(), id: None });
    let mut existing = path;
    let resolved = loop {
        match (resolve(existing), existing.parent()) {
            (Ok(resolved), _) => break resolved,
            // Its own error names it better.
            (Err(error), _) if error.errno != Errno::NOENT => return unresolved(),
            (Err(_), Some(parent)) => {
                refuse_dangling_link(existing, parent, key, registry)?;
                existing = parent;
            }
            (Err(_), None) => return unresolved(),
        }
    };
    let rest = path.strip_prefix(existing).unwrap_or(Path::new(""));
    let target = resolved.found.path.join(rest);
    refuse_planted_links(&resolved, key, &target, registry)?;
    Ok(if rest.as_os_str().is_empty() {
        LeadsTo { path: resolved.found.path, id: Some(resolved.found.id) }
    } else {
        LeadsTo { path: target, id: None }
    })
}

/// Refuses to make writable what git executes or obeys: below a git directory everything but the files that git itself writes
/// in normal use. Wherever the run is started, and also if the repository itself is not writable.
fn refuse_gits_files(path: &Path) -> Result<(), Problem> {
    for dir in path.ancestors().skip(1) {
        let has = |name: &str| Ok::<_, Infallible>(rustix::fs::lstat(dir.join(name)).is_ok());
        if !git::is_git_directory(has).unwrap_or(true) {
            continue;
        }
        let below = path.strip_prefix(dir).ok().and_then(|below| below.iter().next());
        let is_written = below
            .and_then(OsStr::to_str)
            .is_some_and(|name| catalogue::GIT_WRITTEN.contains(&name) || name == "modules");
        return if is_written { Ok(()) } else { Err(protected_path(path)) };
    }
    Ok(())
}

fn led_out(key: &str, link: &Path, target: &Path) -> Problem {
    let target = target.display();
    Problem::refused(
        Code::LinkOutOfWorkspace,
        format!("`{key}`: `{}` is a link that leads out of the workspace", link.display()),
    )
    .cause(format!("it leads to `{target}`, and a run could have made it"))
    .hint(format!("name `{target}` itself if that is meant"))
}

/// A path without links, and the links that were on the way.
#[derive(Debug)]
pub struct Resolved {
    /// The resolved file.
    pub found: Found,
    /// Each link's path and its text.
    pub links: Vec<(PathBuf, PathBuf)>,
}

impl Resolved {
    /// Every link on the way, and the file itself.
    pub fn into_paths(self) -> impl Iterator<Item = PathBuf> {
        self.links.into_iter().map(|(link, _)| link).chain([self.found.path])
    }
}

/// Follows every link of an absolute path, as realpath(3) does, and opens the result without following one: a link that
/// appears meanwhile is an error.
pub fn resolve(path: &Path) -> Result<Resolved, CallError> {
    // Nearly every path has no link: then one call shows it, and the path as written is the resolved one.
    if let Ok(found) = found_at(git::lexical(path), path)
        && found.kind != FileKind::Symlink
    {
        return Ok(Resolved { found, links: Vec::new() });
    }
    let mut at = PathBuf::from("/");
    let mut links = Vec::new();
    let mut pending: Vec<OsString> = Vec::new();
    let push = |pending: &mut Vec<OsString>, path: &Path| {
        pending.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
    };
    push(&mut pending, path);
    while let Some(part) = pending.pop() {
        match part.as_bytes() {
            b"/" => at = PathBuf::from("/"),
            b"." => {}
            b".." => {
                at.pop();
            }
            _ => {
                at.push(&part);
                let Ok(target) = rustix::fs::readlink(&at, Vec::new()) else { continue };
                let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
                links.push((at.clone(), target.clone()));
                if links.len() > LINKS_MAX {
                    return Err(CallError::new(format!("open({path:?})"), Errno::LOOP));
                }
                at.pop();
                push(&mut pending, &target);
            }
        }
    }
    let found = found_at(at.clone(), &at)?;
    if found.kind == FileKind::Symlink {
        return Err(CallError::new(format!("open({:?})", found.path), Errno::LOOP));
    }
    Ok(Resolved { found, links })
}

fn not_a_grant(path: &Path, key: &str) -> Problem {
    Problem::usage(
        Code::PathNotGrantable,
        format!("`{key}`: `{}` is neither a file nor a directory", path.display()),
    )
    .hint("a unix socket is granted with `--socket`")
}

/// Finds a socket to grant. One whose server does more than a run may needs `!` after its path.
fn socket(asked: &Path, written: &[Found], registry: &Registry) -> Result<Found, Problem> {
    let insisted = asked.to_str().and_then(|text| text.strip_suffix('!')).map(Path::new);
    let path = insisted.unwrap_or(asked);
    let found = find(path, "socket", written, registry)?;
    if found.kind == FileKind::Socket {
        let is_ssh_agent = std::env::var_os("SSH_AUTH_SOCK").is_some_and(|agent| *path == *agent);
        // By either name: the path may be a link.
        let power = [path, &found.path]
            .into_iter()
            .find_map(|path| ringfence_plan::power_of_socket(&path.to_string_lossy()))
            .or_else(|| is_ssh_agent.then_some("signs with every SSH key that the agent has"));
        let Some(power) = power.filter(|_| insisted.is_none()) else { return Ok(found) };
        let shown = path.display();
        return Err(Problem::refused(
            Code::GrantTooBroad,
            format!("`--socket {shown}` would undo the fence"),
        )
        .cause(format!("the server behind it {power}"))
        .hint(format!("leave it out; to grant it all the same, insist: `--socket '{shown}!'`")));
    }
    Err(Problem::usage(
        Code::NotASocket,
        format!("`socket`: `{}` is not a unix socket", path.display()),
    ))
}

/// Resolves the paths of the workspace's own file, below the workspace and without links.
fn own_rules(policy: &Policy, cwd: &Found) -> Result<Vec<OwnRule>, Problem> {
    if policy.workspace_ro.is_empty() && policy.workspace_hide.is_empty() {
        return Ok(Vec::new());
    }
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        let message = format!("`ringfence.toml` names `{}`", path.display());
        Problem::usage(Code::WorkspacePolicy, message)
            .cause(why)
            .hint("a workspace's own file names files and directories in it, and no links")
    };
    let root = open_absolute(&cwd.path).map_err(|e| cannot(&cwd.path, &e))?;
    let hidden = policy.workspace_hide.iter().map(|path| (path, OwnEffect::Hidden));
    let read_only = policy.workspace_ro.iter().map(|path| (path, OwnEffect::ReadOnly));
    let mut rules = Vec::new();
    for (path, effect) in read_only.chain(hidden) {
        let fd = open_beneath(&root, path).map_err(|e| cannot(path, &e))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| cannot(path, &e))?;
        match kind_of(&stat) {
            FileKind::Symlink => return Err(cannot(path, &"it is a link")),
            kind => rules.push(OwnRule { path: path.clone(), kind, effect }),
        }
    }
    Ok(rules)
}

/// Surveys a writable directory for protected names, secrets and git's files.
fn survey(
    root: &Found,
    around: &git::SurveyContext<'_>,
    budget: &Budget,
) -> Result<WritableRoot, CallError> {
    let held = around.registry.held(root.id);
    let tree = Tree::open(root, budget)?;
    let (owner_uid, owner_gid) = tree.itself()?.owner;
    let names: Vec<_> =
        catalogue::PROTECTED.iter().map(|name| (*name, PlaceholderShape::EmptyDirectory)).collect();
    let mut protected = protect(&tree, &held, &names)?;
    for name in catalogue::PROTECTED_WHEN_PRESENT {
        if let Some(seen) = tree.look(name)?
            && matches!(seen.kind, FileKind::File | FileKind::Symlink | FileKind::Directory)
        {
            let state = ProtectedState::Present(seen.kind);
            protected.push(Protected { path: name.into(), state });
        }
    }
    let top = top(&tree)?;
    let mut git = git::survey(&tree, &held, &top.directories, around)?;
    if top.n_directories > TOP_DIRECTORIES_MAX {
        git.gaps.push(format!(
            "repositories to protect were looked for in {TOP_DIRECTORIES_MAX} of {} directories at the top of `{}`",
            top.n_directories,
            root.path.display()
        ));
    }
    let inside = links_inside(&tree, &protected, &mut git.gaps)?;
    follow_links(&tree, &inside, &mut protected, &mut git.pinned)?;
    let secrets = top.secrets;
    Ok(WritableRoot { root: root.clone(), owner_uid, owner_gid, protected, secrets, git })
}

/// Links in protected directories: hooks and settings are often links to files that are edited elsewhere, and the host obeys
/// those.
pub(super) fn links_inside(
    root: &Tree<'_>,
    protected: &[Protected],
    gaps: &mut Vec<String>,
) -> Result<Vec<PathBuf>, CallError> {
    let mut links = Vec::new();
    let directories =
        protected.iter().filter(|p| p.state == ProtectedState::Present(FileKind::Directory));
    for Protected { path: top, .. } in directories.filter(|p| is_obeyed_by_file(&p.path)) {
        let mut pending = vec![(top.clone(), 1)];
        let mut n_entries = 0;
        while let Some((at, depth)) = pending.pop() {
            let Some(dir) = root.sub(&at)? else { continue };
            dir.list(|name, kind| {
                n_entries += 1;
                match kind {
                    FileType::Symlink => links.push(at.join(name)),
                    FileType::Directory if depth < LINKS_DEPTH_MAX => {
                        pending.push((at.join(name), depth + 1));
                    }
                    _ => {}
                }
                if n_entries > LINKS_ENTRIES_MAX {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            if n_entries > LINKS_ENTRIES_MAX {
                let at = root.path().join(top);
                gaps.push(format!(
                    "`{}` has more than {LINKS_ENTRIES_MAX} entries: what links among the others lead to is not protected",
                    at.display()
                ));
                break;
            }
        }
    }
    Ok(links)
}

/// Returns true for a protected directory whose files the host reads one by one. Parts of a git directory are found by git,
/// which makes no links there, except for hooks.
fn is_obeyed_by_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_in_git = path.iter().any(|part| part == ".git");
    name == "hooks" || !(is_in_git || name == "modules" || name == "worktrees")
}

/// Protects the targets of protected links, and of `inside`, too: a protected link is useless if its target can be changed.
pub(super) fn follow_links(
    root: &Tree<'_>,
    inside: &[PathBuf],
    protected: &mut Vec<Protected>,
    pinned: &mut Vec<PathBuf>,
) -> Result<(), CallError> {
    let mut targets: Vec<Protected> = Vec::new();
    let links = protected.iter().filter(|p| p.state == ProtectedState::Present(FileKind::Symlink));
    for link in links.map(|link| &link.path).chain(inside) {
        let (path, state) = match root.follow(link)? {
            Some((path, kind)) => (path, ProtectedState::Present(kind)),
            // The link dangles, and a file created at its target becomes the protected name.
            None => match missing_target(root, link)? {
                Some(path) => (path, ProtectedState::Absent(PlaceholderShape::Inert)),
                None => continue,
            },
        };
        let is_known = protected.iter().chain(&targets).any(|known| known.path == path);
        if path.as_os_str().is_empty() || is_known {
            continue;
        }
        for ancestor in path.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty()) {
            if !pinned.iter().any(|p| p == ancestor) {
                pinned.push(ancestor.to_owned());
            }
        }
        targets.push(Protected { path, state });
    }
    protected.extend(targets);
    pinned.sort();
    Ok(())
}

/// Target of a dangling link in this directory, if its parent exists.
fn missing_target(root: &Tree<'_>, link: &Path) -> Result<Option<PathBuf>, CallError> {
    let Some(text) = root.link_text(link)? else { return Ok(None) };
    let base = root.path().join(link.parent().unwrap_or(Path::new("")));
    let target = git::lexical(&base.join(text));
    let Ok(below) = target.strip_prefix(root.path()) else { return Ok(None) };
    let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else { return Ok(None) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    Ok(root.follow(parent)?.map(|(parent, _)| parent.join(name)))
}

/// The state of each of `names` in a directory. A name that no run can create needs no placeholder.
pub(super) fn protect(
    dir: &Tree<'_>,
    held: &BTreeSet<PathBuf>,
    names: &[(&str, PlaceholderShape)],
) -> Result<Vec<Protected>, CallError> {
    let can_create = dir.can_create();
    let mut list = Vec::new();
    for &(name, shape) in names {
        let seen = dir.look(name)?;
        let is_placeholder = held.contains(Path::new(name))
            || seen.map_or(Ok(false), |seen| looks_made_to_hold(dir, name, seen, shape))?;
        let state = match seen {
            Some(seen) if !is_placeholder => ProtectedState::Present(seen.kind),
            _ if can_create => ProtectedState::Absent(shape),
            _ => continue,
        };
        list.push(Protected { path: name.into(), state });
    }
    Ok(list)
}

/// Returns true if an entry at a protected name is a placeholder of which this data directory has no record: that of a run
/// of another one, or one whose record was lost. No program makes a socket there, or an empty directory or a file with the
/// sticky bit.
fn looks_made_to_hold(
    dir: &Tree<'_>,
    name: &str,
    seen: Seen,
    shape: PlaceholderShape,
) -> Result<bool, CallError> {
    match (shape, seen.kind) {
        (PlaceholderShape::Inert | PlaceholderShape::EmptyDirectory, FileKind::Socket) => Ok(true),
        (PlaceholderShape::EmptyDirectory, FileKind::Directory) if seen.is_sticky => {
            dir.is_empty(Path::new(name))
        }
        (PlaceholderShape::EmptyFile | PlaceholderShape::Dot, FileKind::File) if seen.is_sticky => {
            let text = text_of(shape);
            let content = dir.read(name, text.len() as u64 + 1)?.bytes()?;
            Ok(content.is_some_and(|content| content == text))
        }
        _ => Ok(false),
    }
}

/// The entries of interest at the top of a directory, from one listing.
#[derive(Default)]
struct Top {
    /// `.env` and `.env.*`: files and links, not directories (a virtual environment may be called `.env`).
    secrets: Vec<PathBuf>,
    /// Directories to search for repositories.
    directories: Vec<PathBuf>,
    /// All directories.
    n_directories: usize,
}

fn top(root: &Tree<'_>) -> Result<Top, CallError> {
    let mut top = Top::default();
    let (mut n_entries, mut too_many) = (0_u32, false);
    root.list(|name, kind| {
        n_entries += 1;
        let bytes = name.as_bytes();
        let secret = bytes == b".env" || bytes.starts_with(b".env.");
        let template = catalogue::DOTENV_TEMPLATES.iter().any(|t| t.as_bytes() == bytes);
        if kind == FileType::Directory && bytes != b".git" {
            top.n_directories += 1;
            if top.n_directories <= TOP_DIRECTORIES_MAX {
                top.directories.push(name.into());
            }
        }
        if secret && !template && kind != FileType::Directory {
            top.secrets.push(name.into());
        }
        too_many = n_entries > TOP_ENTRIES_MAX || top.secrets.len() > SECRETS_MAX;
        if too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if too_many {
        // Masking only some would let a run uncover one by creating others.
        let what = if top.secrets.len() > SECRETS_MAX { "`.env` files" } else { "entries" };
        return Err(CallError::new(format!("too many {what} in {:?}", root.path()), Errno::DQUOT));
    }
    let mut targets = Vec::new();
    let mut secrets = Vec::new();
    for name in std::mem::take(&mut top.secrets) {
        let Some(seen) = root.look(&name)? else { continue };
        match seen.kind {
            FileKind::Directory => continue,
            // A link's target is as secret as the link, wherever in this directory it lies.
            FileKind::Symlink => {
                let target = root.follow(&name)?.filter(|(_, kind)| *kind == FileKind::File);
                targets.extend(target.map(|(path, _)| path));
            }
            _ => {}
        }
        secrets.push(name);
    }
    secrets.extend(targets);
    secrets.sort();
    secrets.dedup();
    Ok(Top { secrets, ..top })
}

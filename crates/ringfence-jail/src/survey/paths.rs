//! Resolves every path a run asks for, and surveys each directory it may write.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ringfence_plan::{
    FileKind, Found, GitFacts, HostWorkspace, PlaceholderShape, Protected, ProtectedState, Request,
    WritableRoot, catalogue,
};
use ringfence_spec::{CommandPreset, Policy, Problem};

use rustix::fs::{FileType, Mode, OFlags, RawDir};

use super::git;
use super::host::{as_it_is, look, resolve};
use crate::registry::Registry;

/// What the caller asked for, unresolved.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Where to start.
    pub cwd: PathBuf,
    /// Whether the program gets a terminal.
    pub terminal: bool,
    /// Whether output is captured.
    pub capture: bool,
    /// A fresh name for a private directory, used only without namespaces.
    pub host_scratch: PathBuf,
    /// A session's directory, to work in instead of `cwd`.
    pub session: Option<HostWorkspace>,
}

/// Resolves a request.
pub fn request(policy: &Policy, asked: Asked, registry: &Registry) -> Result<Request, Problem> {
    let cwd = find(&asked.cwd, "cwd")?;
    if cwd.kind != FileKind::Directory {
        return Err(Problem::usage(
            "cwd_not_a_directory",
            format!("`{}` is not a directory", asked.cwd.display()),
        )
        .hint("pass a directory to `--cwd`"));
    }
    let mut writable_roots = Vec::new();
    let mut writable_files = Vec::new();
    if policy.preset == CommandPreset::Workspace {
        writable_roots.push(cwd.clone());
    }
    for path in &policy.rw {
        let found = find(path, "rw")?;
        match found.kind {
            FileKind::Directory if writable_roots.iter().any(|r| r.path == found.path) => {}
            FileKind::Directory => writable_roots.push(found),
            FileKind::File => writable_files.push(found),
            _ => return Err(not_a_grant(path, "rw")),
        }
    }
    let mut readable = Vec::new();
    for path in &policy.ro {
        let found = find(path, "ro")?;
        match found.kind {
            FileKind::Directory | FileKind::File => readable.push(found),
            _ => return Err(not_a_grant(path, "ro")),
        }
    }
    for found in &readable {
        if writable_roots.iter().chain(&writable_files).any(|w| w.path == found.path) {
            return Err(Problem::usage(
                "contradictory_paths",
                format!("`{}` is both writable and read-only", found.path.display()),
            )
            .hint("drop one of `--rw` and `--ro`, or use `--preset readonly`"));
        }
    }
    // What is not there needs no hiding; but a typing error would then hide nothing, so it must exist.
    let hidden = policy.hide.iter().map(|p| find(p, "hide")).collect::<Result<_, _>>()?;
    let sockets = policy.sockets.iter().map(|p| socket(p)).collect::<Result<_, _>>()?;
    let shown = readable.iter().chain((policy.preset == CommandPreset::Readonly).then_some(&cwd));
    let secrets = shown
        .filter(|found| found.kind == FileKind::Directory)
        .flat_map(|found| dotenv(&found.path).into_iter().map(|name| found.path.join(name)))
        .filter_map(as_it_is)
        .collect();
    let writable = writable_roots.into_iter().map(|root| survey(root, registry)).collect();
    Ok(Request {
        session: asked.session,
        argv: asked.argv,
        cwd,
        writable,
        writable_files,
        readable,
        secrets,
        hidden,
        sockets,
        host_scratch: asked.host_scratch,
        terminal: asked.terminal,
        capture: asked.capture,
    })
}

fn find(path: &Path, key: &str) -> Result<Found, Problem> {
    resolve(path).map_err(|e| {
        Problem::usage("path_not_found", format!("`{key}`: cannot use `{}`", path.display()))
            .cause(e)
            .hint("the path must exist before the run starts")
    })
}

fn not_a_grant(path: &Path, key: &str) -> Problem {
    Problem::usage(
        "path_not_grantable",
        format!("`{key}`: `{}` is neither a file nor a directory", path.display()),
    )
    .hint("a unix socket is granted with `--socket`")
}

fn socket(path: &Path) -> Result<Found, Problem> {
    let found = find(path, "socket")?;
    if found.kind == FileKind::Socket {
        return Ok(found);
    }
    Err(Problem::usage(
        "not_a_socket",
        format!("`socket`: `{}` is not a unix socket", path.display()),
    ))
}

/// What in a writable directory is protected, secret or git's.
fn survey(root: Found, registry: &Registry) -> WritableRoot {
    let held = registry.held(root.id);
    let (owner_uid, owner_gid) =
        std::fs::symlink_metadata(&root.path).map_or((0, 0), |meta| (meta.uid(), meta.gid()));
    let mut protected = protect(&root.path, &held, catalogue::PROTECTED, PlaceholderShape::Inert);
    for name in catalogue::PROTECTED_WHEN_PRESENT {
        if let Some((kind @ (FileKind::File | FileKind::Symlink), _)) = look(&root.path.join(name))
        {
            protected.push(Protected { path: name.into(), state: ProtectedState::Present(kind) });
        }
    }
    let mut git = git::survey(&root.path, &held, &|id| registry.held(id));
    follow_links(&root.path, &mut protected, &mut git.pinned);
    follow_links(&root.path, &mut git.protected, &mut git.pinned);
    let secrets = dotenv(&root.path);
    WritableRoot { root, owner_uid, owner_gid, protected, secrets, git }
}

/// A protected name that is a link protects nothing if what it leads to can be changed: that is protected too.
fn follow_links(root: &Path, protected: &mut Vec<Protected>, pinned: &mut Vec<PathBuf>) {
    let mut targets = Vec::new();
    for link in protected.iter().filter(|p| p.state == ProtectedState::Present(FileKind::Symlink)) {
        let (real, state) = match resolve(&root.join(&link.path)) {
            Ok(found) => (found.path, ProtectedState::Present(found.kind)),
            // It leads to nothing yet: whoever makes that makes the protected name.
            Err(_) => match missing_target(&root.join(&link.path)) {
                Some(path) => (path, ProtectedState::Absent(PlaceholderShape::Inert)),
                None => continue,
            },
        };
        let Ok(path) = real.strip_prefix(root) else { continue };
        if path.as_os_str().is_empty() {
            continue;
        }
        for ancestor in path.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty()) {
            if !pinned.iter().any(|p| p == ancestor) {
                pinned.push(ancestor.to_owned());
            }
        }
        targets.push(Protected { path: path.to_owned(), state });
    }
    protected.extend(targets);
}

/// Where a dangling link would lead if its last part existed.
fn missing_target(link: &Path) -> Option<PathBuf> {
    let target = link.parent()?.join(std::fs::read_link(link).ok()?);
    let parent = target.parent()?.canonicalize().ok()?;
    Some(parent.join(target.file_name()?))
}

/// The state of each of `names` below `dir`. What nobody can create needs no placeholder.
pub(super) fn protect(
    dir: &Path,
    held: &BTreeSet<PathBuf>,
    names: &[&str],
    shape: PlaceholderShape,
) -> Vec<Protected> {
    let can_create = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok();
    let state = |name: &str| match look(&dir.join(name)) {
        Some((kind, _)) if !held.contains(Path::new(name)) => Some(ProtectedState::Present(kind)),
        _ => can_create.then_some(ProtectedState::Absent(shape)),
    };
    names
        .iter()
        .filter_map(|name| Some(Protected { path: name.into(), state: state(name)? }))
        .collect()
}

/// `.env` and `.env.*` at the top: files and links, not directories (a virtual environment may be called `.env`).
fn dotenv(root: &Path) -> Vec<PathBuf> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(root, flags, Mode::empty()) else { return Vec::new() };
    let mut names: Vec<PathBuf> = Vec::new();
    // Straight from the kernel's buffer: a workspace may have very many entries, and nearly none is of interest.
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        let secret = name == b".env" || name.starts_with(b".env.");
        let template = catalogue::DOTENV_TEMPLATES.iter().any(|t| t.as_bytes() == name);
        if !secret || template {
            continue;
        }
        let name = PathBuf::from(OsStr::from_bytes(name));
        let directory = match entry.file_type() {
            // Some filesystems do not say.
            FileType::Unknown => {
                look(&root.join(&name)).is_some_and(|(kind, _)| kind == FileKind::Directory)
            }
            kind => kind == FileType::Directory,
        };
        if !directory {
            names.push(name);
        }
    }
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    // What a link leads to is as secret as the link, wherever in this directory it lies.
    let targets: Vec<PathBuf> = names
        .iter()
        .filter(|name| look(&root.join(name)).is_some_and(|(kind, _)| kind == FileKind::Symlink))
        .filter_map(|name| resolve(&root.join(name)).ok())
        .filter(|found| found.kind == FileKind::File)
        .filter_map(|found| found.path.strip_prefix(&real_root).ok().map(Path::to_owned))
        .collect();
    names.extend(targets);
    names.sort();
    names.dedup();
    names
}

/// An empty [`GitFacts`] with a reason.
pub(super) fn distrusted(why: impl Into<String>) -> GitFacts {
    GitFacts { distrusted: Some(why.into()), ..GitFacts::default() }
}

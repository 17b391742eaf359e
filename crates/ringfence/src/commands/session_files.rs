//! `ringfence session put|get|ls`: copies files into and out of a session and lists them. Bytes pass unchanged.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ringfence_engine::files::{
    Entry, EntryKind, FileRules, LIST_ENTRIES_MAX, Listing, Parents, WriteOptions,
};
use ringfence_engine::host::{FileKind, found};
use ringfence_engine::{Engine, HostContext, LOCAL, Launcher, SessionId};
use ringfence_spec::{Code, Problem, escape_name, shell_word, utc};
use ringfence_sys::untrusted;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use serde::Serialize;

use crate::cli::PolicyFlags;
use crate::commands::exec::open_resolved;
use crate::commands::mcp;
use crate::present;
use crate::settings::{Surroundings, rules, search};

/// The name that stands for stdin or stdout.
const STANDARD_STREAM: &str = "-";

/// An engine for the files of sessions, and the thread its calls are made from.
pub(super) struct FileEngine {
    pub(super) engine: Engine,
    runtime: tokio::runtime::Runtime,
    place: HostContext,
}

impl FileEngine {
    /// Starts an engine with the user's settings. The calling process must have one thread.
    pub(super) fn start(data_dir: Option<&String>) -> Result<Self, Problem> {
        // First: the launcher is a fork of this process, which must not have threads yet.
        let launcher = Launcher::start()?;
        let flags = PolicyFlags { data_dir: data_dir.cloned(), ..PolicyFlags::default() };
        let around = Surroundings::real(false)?;
        let (code, command) = mcp::policies(&flags, &around)?;
        let place = command.place.clone();
        let builder = mcp::builder(launcher, code, command)?;
        let builder = builder.rules(rules(&flags, &around)?);
        let engine = search(&flags, &around)?.apply(builder, &around)?.build()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Problem::internal(Code::Runtime, "cannot start").cause(e))?;
        Ok(Self { engine, runtime, place })
    }

    /// Waits for a call.
    pub(super) fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Copies a local file, or stdin, into a session.
    pub(super) fn put(
        &self,
        id: &SessionId,
        local: &Path,
        name: Option<&OsStr>,
    ) -> Result<Copied, Problem> {
        let name = match name {
            // The name of a directory, as cp(1) takes it.
            Some(name) if name.as_bytes().ends_with(b"/") => {
                Path::new(name).join(file_name(local)?).into_os_string()
            }
            Some(name) => name.to_owned(),
            None if local == Path::new(STANDARD_STREAM) => {
                let message = "stdin has no name of its own";
                return Err(Problem::usage(Code::BadFileName, message)
                    .hint("name the file: `ringfence session put ID - NAME`"));
            }
            None => file_name(local)?.to_owned(),
        };
        let content = self.read_local(local).map_err(|problem| {
            if !is_directory(local) {
                return problem;
            }
            let (tar, id) = (tar(local), shell_word(id.as_str()));
            problem.hint(format!("`{tar} | ringfence run --session {id} -- tar x` copies it"))
        })?;
        let options = WriteOptions { parents: Parents::Create, ..WriteOptions::default() };
        let written = self.wait(self.engine.file_write(LOCAL, id, name.clone(), content, options));
        Ok(Copied::new(&name, written?.total_bytes))
    }

    /// Reads a local file, or stdin, up to one byte more than a session takes: writing it reports the limit.
    fn read_local(&self, local: &Path) -> Result<Vec<u8>, Problem> {
        let cannot = |e: &dyn std::fmt::Display| {
            Problem::usage(Code::Unreadable, format!("cannot read `{}`", local.display())).cause(e)
        };
        let most = FileRules::default().file_bytes_max + 1;
        let mut content = Vec::new();
        if local == Path::new(STANDARD_STREAM) {
            let stdin = std::io::stdin().lock();
            stdin.take(most).read_to_end(&mut content).map_err(|e| cannot(&e))?;
            return Ok(content);
        }
        let real = self.place.without_planted_links(local, "LOCAL")?;
        let file = open_resolved(&real).map_err(|e| cannot(&e))?;
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(cannot(&"it is not a regular file"));
        }
        file.take(most).read_to_end(&mut content).map_err(|e| cannot(&e))?;
        Ok(content)
    }

    /// Copies a file of a session to a local file, or to stdout.
    pub(super) fn get(
        &self,
        id: &SessionId,
        name: &OsStr,
        local: Option<&Path>,
    ) -> Result<Copied, Problem> {
        // The first part is read before anything local is made.
        let first = self.read_part(id, name, 0)?;
        if local == Some(Path::new(STANDARD_STREAM)) {
            let mut out = std::io::stdout().lock();
            let cannot = |e| Problem::cannot_build(Code::Stdout, "cannot write to stdout").cause(e);
            let bytes = self.copy(id, name, first, |part| out.write_all(part).map_err(cannot))?;
            out.flush().map_err(cannot)?;
            return Ok(Copied::new(OsStr::new(STANDARD_STREAM), bytes));
        }
        let target = LocalTarget::find(&self.place, local, file_name(Path::new(name))?)?;
        let mut draft = target.draft()?;
        let bytes = self.copy(id, name, first, |part| draft.write(part))?;
        draft.finish()?;
        Ok(Copied::new(target.path.as_os_str(), bytes))
    }

    fn read_part(&self, id: &SessionId, name: &OsStr, offset: u64) -> Result<FilePart, Problem> {
        let read = self.engine.file_read(LOCAL, id, name.to_owned(), offset, None);
        let read = self.wait(read)?;
        Ok(FilePart { total_bytes: read.total_bytes, more: read.more, bytes: read.bytes })
    }

    /// Passes a file to `take` part by part, because one read has a limit. Returns its size.
    fn copy(
        &self,
        id: &SessionId,
        name: &OsStr,
        first: FilePart,
        mut take: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<u64, Problem> {
        let total_bytes = first.total_bytes;
        let mut part = first;
        let mut offset = 0;
        loop {
            take(&part.bytes)?;
            offset += part.bytes.len() as u64;
            if !part.more {
                return Ok(offset);
            }
            part = self.read_part(id, name, offset)?;
            if part.total_bytes != total_bytes || part.bytes.is_empty() {
                let name = escape_name(&name.to_string_lossy()).into_owned();
                let message = format!("`{name}` changed while it was copied");
                return Err(Problem::refused(Code::Busy, message)
                    .hint("try again when no run writes to it"));
            }
        }
    }

    /// Lists a directory of a session.
    pub(super) fn list(&self, id: &SessionId, dir: &OsStr) -> Result<Listing, Problem> {
        self.wait(self.engine.file_list(LOCAL, id, dir.to_owned(), 1, LIST_ENTRIES_MAX))
    }
}

/// A part of a file.
struct FilePart {
    bytes: Vec<u8>,
    total_bytes: u64,
    more: bool,
}

/// A copied file, for `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Copied {
    path: String,
    bytes: u64,
}

impl Copied {
    fn new(path: &OsStr, bytes: u64) -> Self {
        Self { path: path.to_string_lossy().into_owned(), bytes }
    }
}

fn is_directory(path: &Path) -> bool {
    found(path).is_some_and(|found| found.kind == FileKind::Directory)
}

/// The command that packs a directory under its own name.
fn tar(dir: &Path) -> String {
    let word = |path: &Path| shell_word(&path.to_string_lossy()).into_owned();
    match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
            format!("tar c -C {} {}", word(parent), word(Path::new(name)))
        }
        _ => format!("tar c {}", word(dir)),
    }
}

fn file_name(path: &Path) -> Result<&OsStr, Problem> {
    path.file_name().ok_or_else(|| {
        Problem::usage(Code::BadFileName, format!("`{}` does not name a file", path.display()))
    })
}

/// Where a file of a session is written.
struct LocalTarget {
    path: PathBuf,
    dir: OwnedFd,
    name: OsString,
    /// Permissions of the file that is replaced.
    mode: Mode,
}

impl LocalTarget {
    /// Finds the directory of `local`, by descriptor. Without one, or if it is a directory, the file keeps its name.
    fn find(place: &HostContext, local: Option<&Path>, name: &OsStr) -> Result<Self, Problem> {
        let local = local.unwrap_or(Path::new("."));
        let real = place.without_planted_links(local, "LOCAL")?;
        let is_directory = |path: &Path| {
            rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        };
        let wants_directory = local.as_os_str().as_bytes().ends_with(b"/");
        let path = if is_directory(&real) || wants_directory { real.join(name) } else { real };
        let cannot = |e: &dyn std::fmt::Display| cannot_write(&path, e);
        let name = path.file_name().unwrap_or(name).to_owned();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let dir = untrusted::open_absolute(parent).map_err(|e| cannot(&e))?;
        let old = untrusted::stat_at(&dir, &name);
        let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        if old.is_some_and(|stat| !is_file(stat.st_mode)) {
            let why = "something that is not a regular file has this name";
            return Err(cannot(&why).hint("remove it, name another file, or `-` for stdout"));
        }
        let mode = Mode::from_raw_mode(old.map_or(0o666, |stat| stat.st_mode & 0o777));
        Ok(Self { path, dir, name, mode })
    }

    fn draft(&self) -> Result<Draft<'_>, Problem> {
        // A name that no run can take first.
        let name = format!(".ringfence-{:016x}", fastrand::u64(..));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, &name, flags, self.mode)
            .map_err(|e| cannot_write(&self.path, &e))?;
        Ok(Draft { target: self, name, file: file.into() })
    }
}

/// A file that gets its name once it is complete: whatever has that name then is replaced, never followed.
struct Draft<'a> {
    target: &'a LocalTarget,
    name: String,
    file: std::fs::File,
}

impl Draft<'_> {
    fn write(&mut self, part: &[u8]) -> Result<(), Problem> {
        self.file.write_all(part).map_err(|e| cannot_write(&self.target.path, &e))
    }

    fn finish(self) -> Result<(), Problem> {
        let LocalTarget { dir, name, path, .. } = self.target;
        rustix::fs::renameat(dir, &self.name, dir, name).map_err(|e| cannot_write(path, &e))
    }
}

impl Drop for Draft<'_> {
    /// Removes an incomplete file; one that was renamed is not there any more.
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.target.dir, &self.name, AtFlags::empty());
    }
}

fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> Problem {
    Problem::usage(Code::FileFailed, format!("cannot write `{}`", path.display())).cause(error)
}

/// Prints a listing: names, or with `long` a line for each as `ls -l` has it.
pub(super) fn show(listing: &Listing, long: bool) {
    let mut text = String::new();
    for entry in &listing.entries {
        let name = escape_name(&entry.path);
        let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
        let target = entry.link_target.as_deref().map(|to| format!(" -> {}", escape_name(to)));
        // Writing to a string cannot fail.
        let _ = if long {
            let (mode, time) = (mode(entry), utc(entry.modified_ms));
            let target = target.unwrap_or_default();
            writeln!(text, "{mode} {:>12}  {time}  {name}{slash}{target}", entry.bytes)
        } else {
            writeln!(text, "{name}{slash}")
        };
    }
    present::text(&text);
    if listing.truncated {
        present::note("not every file is listed; name a directory");
    }
}

/// Type and permissions as `ls -l` shows them.
fn mode(entry: &Entry) -> String {
    let kind = match entry.kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Link => 'l',
        EntryKind::Special => 's',
        EntryKind::Mount => 'm',
    };
    let bits = (0..9).map(|n| match entry.mode & (0o400 >> n) {
        0 => '-',
        _ => ['r', 'w', 'x'][n % 3],
    });
    std::iter::once(kind).chain(bits).collect()
}

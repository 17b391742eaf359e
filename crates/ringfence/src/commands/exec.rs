//! `ringfence exec`: runs one Python program behind the fence.

use std::io::{IsTerminal as _, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ringfence_engine::clock::HostClock;
use ringfence_engine::files::EntryKind;
use ringfence_engine::host::{FileKind, found, resolve};
use ringfence_engine::{
    Call, CodeCall, Foreground, HostContext, Io, LOCAL, Prefork, RunResult, SessionId,
    SessionSettings, Sessions,
};
use ringfence_spec::{Code, CodePreset, Encoding, Outcome, Problem, escape_name, shell_word};
use ringfence_sys::{Budget, untrusted};
use rustix::fs::{FileType, Mode, OFlags};

use crate::cli::{ExecArgs, Source};
use crate::commands::local::{self, Alerts};
use crate::commands::notify;
use crate::present;
use crate::settings::{Surroundings, effective_code};

/// Maximum size of a file copied in; the run's own disk limit is 100 MB by default.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Minimum time to wait for a reader of the output that takes nothing; a longer run timeout replaces it.
const PATIENCE_MIN: Duration = Duration::from_secs(5);

/// Bounds of a directory that is copied in.
const DIRECTORY_ENTRIES_MAX: u32 = 20_000;
const DIRECTORY_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum length of a program's name.
const NAME_BYTES_MAX: usize = 4096;

/// Maximum size of a program's arguments, which are sent in one frame.
const ARGS_BYTES_MAX: usize = 32 << 10;

/// Runs the program. The exit code is the program's own unless the fence ended it.
pub(crate) fn exec(args: &ExecArgs, prefork: Prefork) -> ExitCode {
    let alerts = Alerts::default();
    let mut patience = PATIENCE_MIN;
    let ran = attempt(args, prefork, &alerts, &mut patience);
    let code = local::show(ran, args.json, |ran| show(&ran.outcome, args, patience));
    notify::later(&alerts.take(), &args.policy);
    code
}

fn attempt(
    args: &ExecArgs,
    prefork: Prefork,
    alerts: &Alerts,
    patience: &mut Duration,
) -> Result<RunResult, Problem> {
    let around = Surroundings::real(false)?;
    let mut effective = effective_code(&args.policy, &around)?;
    if let Some(timeout) = effective.policy.limits.timeout {
        *patience = timeout.duration().max(PATIENCE_MIN);
    }
    local::make_ready(&mut effective.place)?;
    let place = effective.place.clone();
    let readable = effective.policy.ro.clone();
    let engine = local::for_code(effective, &args.policy, &around, alerts)?.build()?;
    let (source, arguments) = args.program();
    refuse_flag(&source)?;
    let code =
        read(&source, Some(&place)).map_err(|problem| match (&args.session, &source.file) {
            (Some(id), Some(file)) => in_session(problem, id, file, &place),
            _ => problem,
        })?;
    if arguments.iter().map(String::len).sum::<usize>() > ARGS_BYTES_MAX {
        return Err(Problem::usage(Code::ArgsTooLong, "the program's arguments are too long"));
    }
    let call = Call::Code(CodeCall {
        code,
        name: name(&source, &readable),
        session: args.session.clone(),
        files: host_files(&args.files, &place)?,
        argv: arguments.to_vec(),
        artifacts_to: args.artifacts.clone(),
        ..CodeCall::default()
    });
    let io = if args.json { Io::Capture } else { Io::Passthrough };
    let foreground = Foreground { prefork, io };
    Ok(engine.run_in_foreground(LOCAL, "exec", &call, foreground, &present::warn))
}

/// Reads the program's source.
pub(crate) fn read(source: &Source, place: Option<&HostContext>) -> Result<Vec<u8>, Problem> {
    if let Some(code) = &source.code {
        return Ok(code.as_bytes().to_vec());
    }
    // Without a file the program is on stdin, as for `python`.
    let file = source.file.as_deref().unwrap_or(Path::new("-"));
    let without_code = |cause: &str| {
        Problem::usage(Code::NoCode, "there is no program to run")
            .cause(cause)
            .hint("name its FILE, pass `-c CODE`, or send it to stdin, which `-` names")
    };
    if source.file.is_none() && std::io::stdin().is_terminal() {
        return Err(without_code("no FILE and no `-c CODE` is given, and stdin is a terminal"));
    }
    let mut code = Vec::new();
    let cannot = |e: std::io::Error| {
        Problem::usage(Code::Unreadable, format!("cannot read `{}`", file.display())).cause(e)
    };
    // One byte more than screening accepts, so that screening can report it.
    let most = CodePreset::Open.source_bytes_max() as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut code).map_err(cannot)?;
    } else {
        let real = place.map(|place| place.without_planted_links(file, "FILE")).transpose()?;
        let opened = match &real {
            Some(real) => open_resolved(real),
            None => open_without_waiting(file),
        };
        let opened = opened.map_err(|e| {
            let text = file.to_string_lossy();
            let is_code =
                e.kind() == std::io::ErrorKind::NotFound && text.contains(['(', '=', ' ']);
            let problem = cannot(e);
            if is_code { problem.hint("code itself is given with `-c`") } else { problem }
        })?;
        opened.take(most).read_to_end(&mut code).map_err(cannot)?;
    }
    if source.file.is_none() && code.is_empty() {
        return Err(without_code("no FILE and no `-c CODE` is given, and stdin is empty"));
    }
    Ok(code)
}

/// Tells how to run a program that is not here, and is in the session.
fn in_session(problem: Problem, id: &SessionId, file: &Path, place: &HostContext) -> Problem {
    let sessions = Sessions::open(&place.state, SessionSettings::default(), Arc::new(HostClock));
    let is_there = sessions.and_then(|sessions| {
        let (files, _) = sessions.files(LOCAL, id)?;
        files.stat(file.as_os_str())
    });
    if !is_there.is_ok_and(|entry| entry.kind == EntryKind::File) {
        return problem;
    }
    let (id, file) = (shell_word(id.as_str()), file.to_string_lossy());
    let file = shell_word(&file);
    problem.hint(format!(
        "it is in the session: `ringfence session get {id} {file} - | ringfence exec --session {id} -`"
    ))
}

/// Refuses a mistyped flag, which would be taken for a file.
fn refuse_flag(source: &Source) -> Result<(), Problem> {
    match &source.file {
        Some(file) if file.as_os_str().as_bytes().starts_with(b"--") && !exists(file) => {
            Err(Problem::usage(Code::BadValue, format!("`{}` is not a flag", file.display()))
                .hint("`ringfence exec --help` lists them; flags of the program follow its file"))
        }
        _ => Ok(()),
    }
}

/// The program's name: its path where the run can read it, else as it was given.
fn name(source: &Source, readable: &[PathBuf]) -> Option<String> {
    let file = source.file.as_deref().filter(|file| *file != Path::new("-"))?;
    let real = std::env::current_dir().ok().and_then(|cwd| real(&cwd.join(file)));
    let is_readable = |path: &PathBuf| {
        readable.iter().filter_map(|dir| self::real(dir)).any(|dir| path.starts_with(dir))
    };
    let name = real.filter(is_readable).unwrap_or_else(|| file.to_owned());
    // The frame that carries it ends names at a zero, and one that is not text has no place in a traceback.
    name.to_str().filter(|name| name.len() <= NAME_BYTES_MAX).map(str::to_owned)
}

/// Reads files and directories given as `HOSTPATH[:NAME]`.
fn host_files(specs: &[String], place: &HostContext) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let mut files = Vec::new();
    for spec in specs {
        let whole = PathBuf::from(spec);
        let (path, name) = match spec.rsplit_once(':') {
            Some((path, name)) if !exists(&whole) => (PathBuf::from(path), name.to_owned()),
            _ => {
                // `.` and `..` have no name of their own: their content goes into the run's directory itself.
                let name = whole.file_name().map(|n| n.to_string_lossy().into_owned());
                (whole, name.unwrap_or_default())
            }
        };
        let real = place.without_planted_links(&path, "--file")?;
        if found(&real).is_some_and(|found| found.kind == FileKind::Directory) {
            host_directory(&real, &name, &mut files)?;
        } else {
            let content = host_file(&path, &real, &name)?;
            files.push((name, content));
        }
    }
    Ok(files)
}

/// Reads the plain files of a directory; links are left out.
fn host_directory(
    dir: &Path,
    top: &str,
    files: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), Problem> {
    let cannot = |e: &dyn std::fmt::Display| {
        Problem::usage(Code::Unreadable, format!("cannot read `{}`", dir.display())).cause(e)
    };
    let root = untrusted::open_absolute(dir).map_err(|e| cannot(&e))?;
    let budget = Budget::new(DIRECTORY_ENTRIES_MAX, u64::MAX, DIRECTORY_TIME_MAX);
    let mut room = FILE_BYTES_MAX;
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let at = if below.as_os_str().is_empty() { Path::new(".") } else { &below };
        let opened = untrusted::open_directory_beneath(&root, at).map_err(|e| cannot(&e))?;
        let mut names = Vec::new();
        untrusted::list(&opened, &budget, |name, kind| {
            names.push((below.join(name), kind));
            std::ops::ControlFlow::Continue(())
        })
        .map_err(|e| cannot(&e))?;
        for (path, kind) in names {
            match kind {
                FileType::Directory => pending.push(path),
                FileType::RegularFile => {
                    let name = Path::new(top).join(&path).to_string_lossy().into_owned();
                    if !is_plain_name(&name) {
                        return Err(cannot(&invalid_name(&name)));
                    }
                    let content =
                        untrusted::read_beneath(&root, &path, room).map_err(|e| match e {
                            untrusted::ReadError::TooLarge => cannot(&format!(
                                "{}: `--file` copies at most 1 GiB of a directory",
                                path.display()
                            ))
                            .hint("read the directory where it is with `--ro PATH`"),
                            e => cannot(&format!("{}: {e}", path.display())),
                        })?;
                    room -= content.len() as u64;
                    files.push((name, content));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Reads a file of the host's for the run's directory.
fn host_file(path: &Path, real: &Path, name: &str) -> Result<Vec<u8>, Problem> {
    if !is_plain_name(name) {
        return Err(Problem::usage(Code::BadFileName, invalid_name(name)));
    }
    let cannot = |e: &dyn std::fmt::Display| {
        Problem::usage(Code::Unreadable, format!("cannot read `{}`", path.display())).cause(e)
    };
    let file = open_resolved(real).map_err(|e| cannot(&e))?;
    let meta = file.metadata().map_err(|e| cannot(&e))?;
    if !meta.is_file() {
        return Err(cannot(&"it is not a regular file"));
    }
    if meta.len() > FILE_BYTES_MAX {
        let why = format!("it has {} bytes; `--file` copies at most 1 GiB", meta.len());
        return Err(cannot(&why).hint("read it where it is with `--ro PATH`"));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut content).map_err(|e| cannot(&e))?;
    Ok(content)
}

fn real(path: &Path) -> Option<PathBuf> {
    resolve(path).ok().map(|resolved| resolved.found.path)
}

fn exists(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

/// Opens a file at a path that was resolved before: a link on it now was put there since, and is not followed. The links of
/// `/proc`, which are behind `/dev/fd/63` of a shell too, are the kernel's.
pub(crate) fn open_resolved(path: &Path) -> std::io::Result<std::fs::File> {
    if ["/proc", "/dev/fd", "/dev/stdin"].iter().any(|kernels| path.starts_with(kernels)) {
        return open_without_waiting(path);
    }
    let found = untrusted::open_absolute(path).map_err(|e| std::io::Error::from(e.errno))?;
    open_without_waiting(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())))
}

/// Opens a file without blocking: opening a FIFO without a writer would wait forever.
pub(crate) fn open_without_waiting(path: &Path) -> std::io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::io::ioctl_fionbio(&fd, false)?;
    Ok(fd.into())
}

/// Returns true if a name stays below its directory and is valid on a file system.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 1024
        && !name.contains('\0')
        && !name.ends_with('/')
        && Path::new(name).components().all(|c| match c {
            std::path::Component::Normal(part) => part.len() <= 255,
            _ => false,
        })
}

/// Message about a name that is not plain.
pub(crate) fn invalid_name(name: &str) -> String {
    format!("invalid file name `{name}`: it must be relative and stay below the run's directory")
}

/// Prints the program's output, then the reason it was stopped.
fn show(outcome: &Outcome, args: &ExecArgs, patience: Duration) {
    use base64::Engine as _;
    let bytes = |text: &str| match outcome.encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Base64 => {
            base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default()
        }
    };
    present::output(&bytes(&outcome.stdout), patience);
    present::errors(&bytes(&outcome.stderr), patience);
    if present::screening(outcome) {
        return;
    }
    let missed = missed_file(outcome).or_else(|| missed_module(outcome, args));
    present::report(outcome, missed.as_ref().map(|missed| missed.subject.as_str()));
    if let Some(missed) = missed {
        present::note(&missed.line);
    }
    if args.artifacts.is_none() && outcome.session_id.is_none() {
        present_lost(outcome);
    }
}

/// Names files that the program made and that are gone with its directory.
fn present_lost(outcome: &Outcome) {
    const NAMED_MAX: usize = 3;
    let n = outcome.artifacts.len();
    let named = outcome.artifacts.iter().take(NAMED_MAX);
    let mut names: Vec<String> =
        named.map(|artifact| format!("`{}`", escape_name(&artifact.path))).collect();
    if names.is_empty() {
        return;
    }
    if n > NAMED_MAX {
        names.push(format!("{} more", n - NAMED_MAX));
    }
    let files = if n == 1 { "a file, which is" } else { "files, which are" };
    present::note(&format!(
        "the program made {files} gone with its directory: {}; `--artifacts DIR` copies them out",
        names.join(", ")
    ));
}

/// A file or module that a program missed and that its caller has.
struct Missed {
    /// As the program named it.
    subject: String,
    /// Where it is, and the flag that helps.
    line: String,
}

fn missed_file(outcome: &Outcome) -> Option<Missed> {
    let exception = outcome.exception.as_ref().filter(|e| e.kind == "FileNotFoundError")?;
    let quoted = exception.message.split_once(": ")?.1;
    // Python quotes a name with an apostrophe by the other sign.
    let is_between = |sign| quoted.strip_prefix(sign)?.strip_suffix(sign);
    let name = is_between('\'').or_else(|| is_between('"'))?;
    let path = Path::new(name);
    let is_outside = path.is_absolute() && !path.starts_with(ringfence_plan::WORKSPACE);
    if !(is_outside || is_plain_name(name)) || !exists(path) {
        return None;
    }
    let shown = escape_name(name);
    let line = match &outcome.session_id {
        _ if is_outside => {
            format!(
                "`{shown}` is on the host, not in this run: to read it, show it with `--ro {}`; write below /workspace, and \
                 take the files with `--artifacts DIR`",
                shell_word(name)
            )
        }
        id => copy_hint(name, id.as_deref()),
    };
    Some(Missed { subject: name.to_owned(), line })
}

/// A module that is beside the script, or for code without a file in the caller's directory.
fn missed_module(outcome: &Outcome, args: &ExecArgs) -> Option<Missed> {
    let exception = outcome.exception.as_ref().filter(|e| e.kind == "ModuleNotFoundError")?;
    let subject = exception.message.split('\'').nth(1)?;
    let module = subject.split('.').next().filter(|module| is_plain_name(module))?;
    let (source, _) = args.program();
    let script = source.file.filter(|file| file != Path::new("-"));
    let dir = script.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut files = [format!("{module}.py"), module.to_owned()].into_iter().map(|f| dir.join(f));
    let file = files.find(|file| exists(file))?;
    let name = file.to_str()?;
    let line = match (&outcome.session_id, &script) {
        (Some(_), _) | (None, None) => copy_hint(name, outcome.session_id.as_deref()),
        (None, Some(_)) => {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            format!(
                "`{}` is beside your program, not in this run: show it with `--ro {}`",
                escape_name(name),
                shell_word(&dir.to_string_lossy())
            )
        }
    };
    Some(Missed { subject: subject.to_owned(), line })
}

/// Tells how to copy a file of the caller's directory into the session or the run.
fn copy_hint(name: &str, session: Option<&str>) -> String {
    let word = shell_word(name);
    let (place, way) = match session {
        Some(id) => ("the session", format!("ringfence session put {id} {word}")),
        None => ("the program's", format!("--file {word}")),
    };
    let name = escape_name(name);
    format!("`{name}` is in your directory, not in {place}: copy it in with `{way}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_put_on_a_resolved_path_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = resolve(dir.path()).unwrap().found.path;
        let (file, sub) = (root.join("file"), root.join("sub"));
        std::fs::create_dir(&sub).unwrap();
        for path in [&file, &sub.join("file")] {
            std::fs::write(path, "text").unwrap();
            let mut text = String::new();
            open_resolved(path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        std::os::unix::fs::symlink(&file, root.join("link")).unwrap();
        std::os::unix::fs::symlink(&sub, root.join("way")).unwrap();
        for path in ["link", "way/file"] {
            let error = open_resolved(&root.join(path)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(40), "{path}: {error}");
        }
        let (read, mut write) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut write, b"piped").unwrap();
        drop(write);
        let mut text = String::new();
        let shells = format!("/dev/fd/{}", read.as_raw_fd());
        open_resolved(Path::new(&shells)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "piped");
    }
}

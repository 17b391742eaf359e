//! Ways out for a command that did not start: where the host has it, what its first line names, what its caller probably
//! meant. Looks at files of the host, and executes nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringfence_jail::survey::{found, interpreter_line};
use ringfence_plan::FileKind;
use ringfence_spec::{Code, Hint, Problem, escape_name};

use crate::host_context::HostContext;

/// Adds a hint to the problem of a command that was not found or cannot be executed; `hide` are the policy's paths.
pub(crate) fn explain(
    problem: Problem,
    command: &OsStr,
    place: &HostContext,
    hide: &[PathBuf],
) -> Problem {
    let at = Place::of(command, place);
    let problem = match problem.code {
        Code::CommandNotFound => problem.cause(match &at {
            Some(at) if at.is_path => {
                "the run does not see it, or not the program that its first line names"
            }
            _ if Path::new(command).components().count() > 1 => "it does not exist",
            _ => "no directory of the run's PATH has it",
        }),
        _ => problem,
    };
    let hidden = at.as_ref().and_then(|at| hide.iter().find(|hidden| at.path.starts_with(hidden)));
    let hint = match (problem.code, &at) {
        (Code::CommandNotFound | Code::CommandNotExecutable, Some(at)) if hidden.is_some() => {
            hidden.map(|hidden| {
                let hidden = hidden.display();
                format!("the host has `{}`, and `{hidden}` is hidden from this run", at.shown)
                    .into()
            })
        }
        (Code::CommandNotFound, Some(at)) => where_it_is(at, place),
        (Code::CommandNotFound, None) => what_was_meant(command, place),
        (Code::CommandNotExecutable, Some(at)) => why_not_executable(at),
        _ => None,
    };
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// A command on the host.
struct Place {
    /// As the caller's directory or `PATH` leads to it, links unresolved.
    path: PathBuf,
    /// For a message: a path as the caller wrote it.
    shown: String,
    /// True if the command is a path, false if it was found in `PATH`.
    is_path: bool,
}

impl Place {
    fn of(command: &OsStr, place: &HostContext) -> Option<Self> {
        let is_path = Path::new(command).components().count() > 1 || command == ".";
        let path = if is_path {
            let path: PathBuf = place.cwd.join(command).components().collect();
            found(&path).map(|_| path)
        } else {
            on_path(command, place)
        }?;
        let shown = if is_path { command.to_string_lossy() } else { path.to_string_lossy() };
        let shown = escape_name(&shown).into_owned();
        Some(Self { path, shown, is_path })
    }
}

/// The first program of that name in the caller's `PATH`.
fn on_path(command: &OsStr, place: &HostContext) -> Option<PathBuf> {
    let path = place.environment.get(OsStr::new("PATH"))?;
    let mut candidates = std::env::split_paths(path).map(|dir| dir.join(command));
    candidates.find(|candidate| found(candidate).is_some_and(|f| f.kind == FileKind::File))
}

/// The run does not see the command, or not the program that its first line names.
fn where_it_is(at: &Place, place: &HostContext) -> Option<Hint> {
    let Place { path, shown: script, is_path } = at;
    let is_visible = *is_path && path.starts_with(&place.cwd);
    if let Some(interpreter) = found(path).and_then(|file| interpreter_line(&file.path)) {
        let named = escape_name(&interpreter);
        if interpreter.ends_with('\r') {
            let hint = format!(
                "the first line of `{script}` ends with a carriage return, which is taken for a part of the program's name; \
                 save the file with Unix line ends"
            );
            return Some(hint.into());
        }
        if found(Path::new(&interpreter)).is_none() {
            let hint =
                format!("the first line of `{script}` names `{named}`, which does not exist");
            return Some(hint.into());
        }
        if is_visible {
            return Some(Hint::operator(
                format!(
                    "the first line of `{script}` names `{named}`, which this run does not see: add `--ro {named}`"
                ),
                format!("to show `{named}` to runs: the first line of `{script}` names it"),
            ));
        }
    }
    if is_visible {
        return None;
    }
    // Found by its directory in PATH, which a run has only if it sees it.
    let shown = if *is_path { path } else { path.parent().unwrap_or(path) };
    let shown = escape_name(&shown.to_string_lossy()).into_owned();
    Some(Hint::operator(
        format!("the host has `{script}`, which this run does not see: add `--ro {shown}`"),
        format!("to show `{shown}` to runs: the host has `{script}`"),
    ))
}

/// A command that the host does not have either.
fn what_was_meant(command: &OsStr, place: &HostContext) -> Option<Hint> {
    let text = command.to_str()?;
    let has = |name: &str| on_path(OsStr::new(name), place).is_some();
    let first_word = text.split_whitespace().next().filter(|word| *word != text);
    if first_word.is_some_and(has) {
        let hint = "this is one word with spaces in it: give program and arguments as words of their own, or have a shell \
                    read the line with `sh -c`";
        return Some(hint.into());
    }
    // `python` and `pip`, which some distributions do not have.
    let versioned = format!("{text}3");
    if has(&versioned) {
        return Some(format!("this host has `{versioned}`").into());
    }
    let is_name = !text.is_empty() && !text.contains(|c: char| c == '/' || c.is_whitespace());
    is_name.then(|| "no directory of the host's PATH has it either".into())
}

/// A file that execve(2) refuses.
fn why_not_executable(at: &Place) -> Option<Hint> {
    let file = found(&at.path)?;
    let script = &at.shown;
    if file.kind == FileKind::Directory {
        return Some(format!("`{script}` is a directory").into());
    }
    let mode = rustix::fs::stat(&file.path).ok()?.st_mode;
    if mode & 0o111 == 0 {
        let hint = format!(
            "`{script}` has no permission to be executed: give it with `chmod +x`, or name the program that reads it, such as `sh`"
        );
        return Some(hint.into());
    }
    (interpreter_line(&file.path).is_none()).then(|| {
        format!(
            "`{script}` is neither a program for this machine nor a script whose first line names one, such as `#!/bin/sh`"
        )
        .into()
    })
}

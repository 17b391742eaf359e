//! Converts client arguments to engine arguments. Shared by MCP and REST.

use std::ffi::OsString;
use std::time::Duration;

use ringfence_spec::{Code, Problem};

/// Script that changes to the directory `$1` and runs the shell command `$2`. The `cd` happens inside the sandbox,
/// where it can reach nothing that the run could not.
const IN_DIRECTORY: &str = "cd -- \"$1\" && exec sh -c \"$2\"";

/// Same, for an argument vector in place of a shell command.
const WORDS_IN_DIRECTORY: &str = "cd -- \"$1\" && shift && exec \"$@\"";

/// Builds the argument vector of a shell command, run in `cwd` if given.
pub(crate) fn shell(command: String, cwd: Option<String>) -> Result<Vec<OsString>, Problem> {
    let argv: Vec<String> = match cwd {
        None => vec!["sh".into(), "-c".into(), command],
        Some(cwd) => vec!["sh".into(), "-c".into(), IN_DIRECTORY.into(), "sh".into(), cwd, command],
    };
    checked(argv)
}

/// Same, for an argument vector that no shell interprets.
pub(crate) fn words(argv: Vec<String>, cwd: Option<String>) -> Result<Vec<OsString>, Problem> {
    let Some(cwd) = cwd else { return checked(argv) };
    let inside = ["sh", "-c", WORDS_IN_DIRECTORY, "sh", &cwd].map(str::to_owned);
    checked(inside.into_iter().chain(argv).collect())
}

fn checked(argv: Vec<String>) -> Result<Vec<OsString>, Problem> {
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(Problem::usage(Code::BadArguments, "a command has no NUL in it"));
    }
    Ok(argv.into_iter().map(OsString::from).collect())
}

/// Converts seconds to a [`Duration`].
pub(crate) fn seconds(timeout_s: Option<f64>) -> Result<Option<Duration>, Problem> {
    let Some(timeout_s) = timeout_s else { return Ok(None) };
    let wrong = || {
        Problem::usage(Code::BadArguments, format!("`timeout_s` is {timeout_s}"))
            .hint("it is a number of seconds greater than 0; leave it out for the operator's limit")
    };
    if timeout_s <= 0.0 {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(timeout_s).map(Some).map_err(|_| wrong())
}

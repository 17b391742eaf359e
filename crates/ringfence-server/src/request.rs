//! Converts client arguments to engine arguments. Shared by MCP and REST.

use std::ffi::OsString;
use std::time::Duration;

use ringfence_engine::CommandCall;
use ringfence_spec::{Code, Problem};

/// Builds the argument vector of a shell command.
pub(crate) fn shell(command: String) -> Vec<String> {
    vec!["sh".into(), "-c".into(), command]
}

/// Builds a command from its words and the directory it starts in, if one is given.
pub(crate) fn command(argv: Vec<String>, cwd: Option<String>) -> Result<CommandCall, Problem> {
    if argv.iter().chain(&cwd).any(|word| word.contains('\0')) {
        return Err(Problem::usage(Code::BadArguments, "a command has no NUL in it"));
    }
    let argv = argv.into_iter().map(OsString::from).collect();
    Ok(CommandCall { argv, cwd, ..CommandCall::default() })
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

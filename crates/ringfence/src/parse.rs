//! Parses the command line, and prints help and the parser's errors.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser};

use ringfence_spec::{Code, Problem};

use crate::cli::{Cli, Color, Command, OutputFlags, RunArgs};
use crate::settings::{Surroundings, effective, effective_code};
use crate::style::{self, Stream};
use crate::{help, present};

/// Parses the command line. Help and version go to stdout with exit 0, errors to stderr with exit 2.
pub(crate) fn parse() -> Result<Command, ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let colour = colour_asked(&arguments);
    let first = arguments.get(1).cloned();
    match parsed(arguments) {
        Ok((command, output)) => {
            style::set(output);
            Ok(command)
        }
        Err(mut error) => {
            let unknown = error.kind() == clap::error::ErrorKind::InvalidSubcommand;
            let subcommand = first.clone();
            if let Some(way) = first.filter(|_| unknown).and_then(|word| way_to_run(&word)) {
                use clap::error::{ContextKind, ContextValue};
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![way.into()]));
            }
            suggest_flag(&mut error, subcommand.as_deref().unwrap_or_default());
            style::set(OutputFlags { color: colour, ..OutputFlags::default() });
            let (stream, code) =
                if error.use_stderr() { (Stream::Stderr, 2) } else { (Stream::Stdout, 0) };
            let mut text = error.render().to_string();
            if style::is_coloured(stream) {
                text = help::coloured(&text);
            }
            match stream {
                Stream::Stdout => present::text(&text),
                // Nothing can be done about a closed stderr.
                Stream::Stderr => drop(write!(std::io::stderr(), "{text}")),
            }
            Err(ExitCode::from(code))
        }
    }
}

/// Parses a command line. The error has the help texts, which take longer to build than most commands take to parse.
pub(crate) fn parsed(arguments: Vec<OsString>) -> Result<(Command, OutputFlags), clap::Error> {
    if let Some(parsed) = parsed_alone(&arguments) {
        return Ok(parsed);
    }
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(_) => Cli::from_arg_matches(&help::command().try_get_matches_from(arguments)?)?,
    };
    Ok((cli.command, cli.output))
}

/// Checks flags for `ringfence SUBCOMMAND` that another program will pass later: an unknown flag or a bad value. Without flags
/// there is nothing to check: settings that cannot be read are reported where they are used.
pub(crate) fn check_flags(
    subcommand: &str,
    flags: &[String],
    around: &Surroundings,
) -> Result<(), Problem> {
    if flags.is_empty() {
        return Ok(());
    }
    let refused = |cause: String| {
        let message = format!("`ringfence {subcommand}` does not take these flags");
        let hint = format!("`ringfence {subcommand} --help` lists them");
        Problem::usage(Code::BadValue, message).cause(cause).hint(hint)
    };
    let own: &[&str] = if subcommand == "run" { &["--", "true"] } else { &[] };
    let words = ["ringfence", subcommand].into_iter().chain(flags.iter().map(String::as_str));
    let words = words.chain(own.iter().copied());
    let cli = Cli::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        refused(line.trim_start_matches("error: ").to_owned())
    })?;
    match cli.command {
        Command::Run(args) => {
            if args.argv != ["true"] {
                let word = args.argv.first().map(|word| word.to_string_lossy().into_owned());
                return Err(refused(format!("`{}` is not a flag", word.unwrap_or_default())));
            }
            effective(&args.policy, around)?;
        }
        Command::Mcp(args) => {
            effective(&args.policy.for_commands(), around)?;
            effective_code(&args.policy.for_code(), around)?;
        }
        _ => {}
    }
    Ok(())
}

/// The value of `--color` on a command line that cannot be parsed, or asks for help.
fn colour_asked(arguments: &[OsString]) -> Color {
    let mut words = arguments.iter().filter_map(|word| word.to_str()).take_while(|w| *w != "--");
    let value = words.by_ref().find_map(|word| word.strip_prefix("--color"));
    match value.map(|rest| rest.strip_prefix('=').or_else(|| words.next())) {
        Some(Some("always")) => Color::Always,
        Some(Some("never")) => Color::Never,
        _ => Color::Auto,
    }
}

/// Flags that other programs have: the subcommand, the flag, and the one that is meant there.
const OTHER_FLAGS: [(&str, &str, &str); 9] = [
    ("serve", "--port", "the address and the port are `--listen 127.0.0.1:PORT`"),
    ("serve", "--host", "the address and the port are `--listen ADDRESS:PORT`"),
    ("serve", "--bind", "the address and the port are `--listen ADDRESS:PORT`"),
    ("run", "--port", "a port of the run is published by `--publish PORT`"),
    ("run", "--network", "hosts are allowed by `--net allow:HOST`"),
    ("run", "--allow-net", "hosts are allowed by `--net allow:HOST`"),
    ("run", "--max-memory", "the limit is `--memory SIZE`"),
    ("run", "--volume", "paths are granted by `--rw PATH` and `--ro PATH`"),
    ("run", "--workdir", "the directory is `--cwd PATH`"),
];

/// Replaces the parser's guess by the flag that is meant.
fn suggest_flag(error: &mut clap::Error, subcommand: &OsStr) {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return };
    let name = flag.split('=').next().unwrap_or_default();
    let is_meant = |(of, other, _): &&(&str, &str, &str)| subcommand == *of && *other == name;
    let Some((.., way)) = OTHER_FLAGS.iter().find(is_meant) else { return };
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*way).into()]));
}

/// Suggests the command line for a program or script in the place of a subcommand.
fn way_to_run(word: &OsStr) -> Option<String> {
    use rustix::fs::{Access, access};
    let text = word.to_str()?;
    let is_python = Path::new(word).extension().is_some_and(|extension| extension == "py");
    if is_python && access(word, Access::EXISTS).is_ok() {
        return Some(format!("run a Python program with `ringfence exec {text}`"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = if text.contains('/') {
        access(word, Access::EXEC_OK).is_ok()
    } else {
        std::env::split_paths(&path).any(|dir| access(dir.join(word), Access::EXEC_OK).is_ok())
    };
    is_program.then(|| format!("run a command with `ringfence run -- {text}`"))
}

/// Parses a `run` or `exec` that is valid; for anything else the full parser reports the error. All parsers together take
/// five times as long to build as one of them, and a command without flags needs none.
fn parsed_alone(arguments: &[OsString]) -> Option<(Command, OutputFlags)> {
    let own = arguments.get(1..)?;
    match (own.first()?.to_str()?, own.get(1).and_then(|word| word.to_str())) {
        ("run", Some("--")) if own.len() > 2 => {
            Some((Command::Run(RunArgs::of(own[2..].to_vec())), OutputFlags::default()))
        }
        ("run", _) => {
            let alone = Alone::try_parse_from(own).ok()?;
            Some((Command::Run(alone.args), alone.output))
        }
        ("exec", _) => {
            let alone = Alone::try_parse_from(own).ok()?;
            Some((Command::Exec(alone.args), alone.output))
        }
        _ => None,
    }
}

/// The parser of one subcommand alone.
#[derive(Debug, Parser)]
struct Alone<A: clap::Args> {
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    args: A,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_short_way_reads_what_the_long_way_reads() {
        for line in [
            "ringfence run true",
            "ringfence run -- true",
            "ringfence run -- -x --json",
            "ringfence run -- a -- b",
            "ringfence run a -- b",
            "ringfence run --",
            "ringfence run -- ",
            "ringfence exec",
            "ringfence exec --",
            "ringfence exec x.py",
            "ringfence exec x.py --json -c",
            "ringfence exec x.py -- -c",
            "ringfence exec -c 1+1",
            "ringfence exec -c -1 a --b",
            "ringfence exec --json --quiet -c x",
            "ringfence exec --file a:b --file c -",
            "ringfence exec --session 0 --file a -",
            "ringfence exec --no-such-flag -",
            "ringfence exec --help",
            "ringfence run --json --pids 9 -- ls --json -l",
            "ringfence run --session 0 -- ls",
            "ringfence run --quiet --color never -- ls --verbose",
            "ringfence run --quiet --verbose -- ls",
            "ringfence run --session 0 --cwd / -- ls",
            "ringfence run --rw /a --rw /b --memory 1G sh -c x",
            "ringfence run",
            "ringfence run --no-such-flag true",
            "ringfence run --help",
            "ringfence run --version true",
            "ringfence --version",
            "ringfence exec run",
            "ringfence",
        ] {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let long = match Cli::try_parse_from(&arguments) {
                Ok(Cli { command: command @ (Command::Run(_) | Command::Exec(_)), output }) => {
                    Some(format!("{command:?} {output:?}"))
                }
                _ => None,
            };
            let short = parsed_alone(&arguments);
            let short = short.map(|(command, output)| format!("{command:?} {output:?}"));
            assert_eq!(short, long, "{line}");
        }
    }

    #[test]
    fn everything_after_the_command_belongs_to_it() {
        let cli = Cli::try_parse_from(["ringfence", "run", "--pids", "9", "ls", "--json", "-l"]);
        let Command::Run(run) = cli.unwrap().command else { panic!("not a run") };
        assert_eq!(run.argv, ["ls", "--json", "-l"]);
        assert!(!run.json);
    }
}

//! One module per subcommand.

mod agent;
mod audit;
mod batch;
mod bench;
mod check;
mod doctor;
mod exec;
mod explain;
mod grep;
mod hook;
mod init;
mod local;
mod mcp;
mod notify;
mod policy;
mod repl;
mod run;
mod search;
mod serve;
mod session;
mod session_files;
mod token;

use std::ffi::OsStr;
use std::process::ExitCode;

use crate::cli::Command;
use ringfence_engine::Prefork;

pub(crate) use mcp::COMMAND_TIMEOUT;

/// Forks a run's child before the command line is parsed, if it is a run. Dropping the value ends the child.
pub(crate) fn prefork(first_argument: Option<&OsStr>) -> Option<Prefork> {
    match first_argument?.to_str()? {
        "run" => Some(Prefork::for_command()),
        "exec" => Some(Prefork::for_code()),
        _ => None,
    }
}

/// Runs a subcommand and returns the process's exit code.
pub(crate) fn dispatch(command: Command, prefork: Option<Prefork>) -> ExitCode {
    match command {
        Command::Agent(args) => agent::agent(&args),
        Command::Run(args) => run::run(args, prefork.unwrap_or_else(Prefork::for_command)),
        Command::Check(args) => check::check(args),
        Command::Exec(args) => exec::exec(&args, prefork.unwrap_or_else(Prefork::for_code)),
        Command::Batch(args) => batch::batch(&args),
        Command::Repl(args) => repl::repl(&args),
        Command::Explain(args) => explain::explain(args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Policy(args) => policy::policy(args),
        Command::Session(args) => session::session(&args),
        Command::Grep(args) => grep::grep(&args),
        Command::Search(args) => search::search(&args),
        Command::Index(args) => search::index(&args),
        Command::Chunk(args) => search::chunk(&args),
        Command::Audit(args) => audit::audit(&args),
        Command::Mcp(args) => mcp::mcp(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Token(args) => token::token(&args),
        Command::Init(args) => init::init(&args),
        Command::Wrap(args) => init::wrap(&args),
        Command::Completions(args) => completions(&args),
        Command::Hook(args) => hook::hook(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Notify => notify::deliver(),
    }
}

/// Prints the script by which a shell completes commands and flags.
fn completions(args: &crate::cli::CompletionsArgs) -> ExitCode {
    use clap::CommandFactory as _;
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::Cli::command(), "ringfence", &mut script);
    crate::present::text(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

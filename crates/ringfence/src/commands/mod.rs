//! One module for each subcommand.

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
mod mcp;
mod policy;
mod repl;
mod run;
mod serve;
mod session;
mod token;

use std::ffi::OsStr;
use std::process::ExitCode;

use crate::cli::Command;
use ringfence_engine::HeadStart;
use ringfence_jail::Who;

/// Begins a run before its command line is read, if there will be one. It ends with its value, run or not.
pub(crate) fn head_start(first_argument: Option<&OsStr>) -> Option<HeadStart> {
    let who = match first_argument?.to_str()? {
        "run" => Who::Command,
        "exec" => Who::Code,
        _ => return None,
    };
    Some(HeadStart::new(who))
}

/// Runs a subcommand and returns the process's exit code.
pub(crate) fn dispatch(command: Command, head_start: Option<HeadStart>) -> ExitCode {
    match command {
        Command::Run(args) => {
            run::run(args, head_start.unwrap_or_else(|| HeadStart::new(Who::Command)))
        }
        Command::Check(args) => check::check(args),
        Command::Exec(args) => {
            exec::exec(&args, head_start.unwrap_or_else(|| HeadStart::new(Who::Code)))
        }
        Command::Batch(args) => batch::batch(&args),
        Command::Repl(args) => repl::repl(&args),
        Command::Explain(args) => explain::explain(args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Policy(args) => policy::policy(args),
        Command::Session(args) => session::session(&args),
        Command::Grep(args) => grep::grep(&args),
        Command::Audit(args) => audit::audit(&args),
        Command::Mcp(args) => mcp::mcp(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Token(args) => token::token(&args),
        Command::Init(args) => init::init(&args),
        Command::Hook(args) => hook::hook(&args),
        Command::Bench(args) => bench::bench(&args),
    }
}

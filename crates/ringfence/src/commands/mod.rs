//! One module for each subcommand.

mod bench;
mod doctor;
mod explain;
mod policy;
mod run;

use std::process::ExitCode;

use crate::cli::Command;

/// Runs a subcommand and returns the process's exit code.
pub(crate) fn dispatch(command: Command) -> ExitCode {
    match command {
        Command::Run(args) => run::run(args),
        Command::Explain(args) => explain::explain(args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Policy(args) => policy::policy(args),
        Command::Bench(args) => bench::bench(&args),
    }
}

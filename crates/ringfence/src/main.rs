//! The `ringfence` command: parses the command line, dispatches, turns results into text and exit codes. Holds no
//! policy and no mechanism of its own.

// Tests create and inspect their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod agents;
mod cli;
mod commands;
mod help;
mod parse;
mod present;
mod progress;
mod settings;
mod style;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Does not return where a library executed this program as its launcher.
    ringfence_engine::init();
    // The run's child creates its namespaces while the command line is parsed.
    let prefork = commands::prefork(std::env::args_os().nth(1).as_deref());
    match parse::parse() {
        Ok(command) => present::all_printed(commands::dispatch(command, prefork)),
        Err(code) => code,
    }
}

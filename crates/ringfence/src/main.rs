//! The `ringfence` command: reads the command line, hands over, turns results into text and exit codes.
//! Holds no policy and no mechanism of its own.

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cli;
mod commands;
mod present;
mod settings;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Last in that case: a library may have executed this program as its launcher.
    ringfence_engine::init();
    // A run's child makes its namespaces while its command line is read.
    let prefork = commands::prefork(std::env::args_os().nth(1).as_deref());
    match cli::parse() {
        Ok(command) => present::all_printed(commands::dispatch(command, prefork)),
        Err(code) => code,
    }
}

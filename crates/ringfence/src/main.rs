//! The `ringfence` command: reads the command line, hands over, turns results into text and exit codes.
//! Holds no policy and no mechanism of its own.

mod cli;
mod commands;
mod fence;
mod present;
mod settings;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::parse() {
        Ok(command) => commands::dispatch(command),
        Err(code) => code,
    }
}

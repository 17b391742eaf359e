//! Hostile input for a while, chosen by a seed: sources for the screen in this process, messages and requests for a real
//! server outside of it.

mod broker;
mod bytes;
mod http;
mod mcp;
mod messages;
mod mutate;
mod outside;
mod requests;
mod screen;
mod watched;
mod workspace;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{CannotTry, Verdict, random};

#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// Target
    #[arg(value_enum)]
    target: Target,
    /// Duration
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// For `screen`: how long one source may take under all four presets, in milliseconds; this is no optimised build
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    each_max: u64,
    /// Chooses the inputs; printed, so that a run can be repeated
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// For `workspace`: CPU time that a start may take besides twice that of a clean one
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    allowance_ms: f64,
    /// For `mcp`, `http`, `workspace` and `broker`: the binary to try; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// The verdict on Python source
    Screen,
    /// Lines to `ringfence mcp`
    Mcp,
    /// Bytes to `ringfence serve`
    Http,
    /// Files that a run leaves for the next start
    Workspace,
    /// Frames of programs to the broker of `code_api`
    Broker,
}

/// Fuzzes for a while.
pub(crate) fn fuzz(args: &FuzzArgs) -> Result<Verdict, CannotTry> {
    let seed = args.seed.unwrap_or_else(random::seed);
    let name = args.target.to_possible_value();
    let name = name.as_ref().map_or("", |name| name.get_name());
    eprintln!("fuzz {name}: seed {seed}, {} s", args.seconds);
    match args.target {
        Target::Screen => screen::fuzz(args, seed),
        Target::Mcp => outside::fuzz::<mcp::Mcp>(args, seed),
        Target::Http => outside::fuzz::<http::Http>(args, seed),
        Target::Workspace => workspace::fuzz(args, seed),
        Target::Broker => broker::fuzz(args, seed),
    }
}

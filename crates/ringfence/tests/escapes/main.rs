//! Runs the documents of `escapes/` as tests: each row of each table in a throwaway container of its own.
//! Without arguments all of them; with words those whose name contains one.
//!
//! Started by root it runs everything twice: as root, where rows behind the whole fence are the host root's own, and
//! as an ordinary user. The binary is also the container's launcher and the runner of thinned-out plans.

#![allow(clippy::disallowed_methods)]

mod container;
mod document;
mod honesty;
mod invocation;
mod layers;
mod naive_proxy;
mod program;
mod suite;
mod tree;
mod victims;

#[allow(dead_code, reason = "the tests of the network use more of it")]
#[path = "../network/servers.rs"]
mod servers;

// The modules of the binary that turn flags into a policy: the same ones, so that a
// row `without LAYER` differs from `ringfence run` or `ringfence exec` by that layer alone.
#[allow(dead_code, unused_imports, reason = "the binary uses more of it")]
#[path = "../../src/cli/mod.rs"]
mod cli;
#[allow(dead_code, unused_imports, reason = "the binary uses more of it")]
#[path = "../../src/settings/mod.rs"]
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The network helper of a thinned-out plan is this program too.
    ringfence_engine::init();
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(mode) if mode == "--container" => container::main(),
        Some(mode) if mode == "--without" => {
            let layers = args.next().unwrap_or_default().to_string_lossy().into_owned();
            layers::run_without(&layers, args.collect::<Vec<OsString>>())
        }
        _ => suite::main(std::env::args().skip(1)),
    }
}

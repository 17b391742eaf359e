//! `ringfence run`: runs a command behind the fence.

use std::process::ExitCode;

use ringfence_engine::{Call, CommandCall, Foreground, Io, LOCAL, Prefork, RunResult};
use ringfence_spec::Problem;
use rustix::process::Signal;

use crate::cli::RunArgs;
use crate::commands::local::{self, Alerts};
use crate::commands::notify;
use crate::present;
use crate::settings::{Surroundings, effective};

/// Runs the command. The exit code is the program's own unless the fence ended it.
pub(crate) fn run(args: RunArgs, prefork: Prefork) -> ExitCode {
    run_as(args, prefork, "run")
}

/// Runs a command under the name of another tool in the ledger.
pub(crate) fn run_as(args: RunArgs, prefork: Prefork, tool: &'static str) -> ExitCode {
    let json = args.json;
    if args.die_with_parent {
        // SIGTERM, so that the run is ended and cleaned up.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    }
    let terminal = !json && rustix::termios::isatty(rustix::stdio::stdout());
    let io = match (json, terminal) {
        (true, _) => Io::Capture,
        (false, true) => Io::Terminal,
        (false, false) => Io::Passthrough,
    };
    let alerts = Alerts::default();
    let flags = args.policy.clone();
    let ran = attempt(args, Foreground { prefork, io }, &alerts, tool);
    let code = local::show(ran, json, |ran| {
        present::gaps(&ran.gaps_after);
        present::report(&ran.outcome, None);
    });
    notify::later(&alerts.take(), &flags);
    code
}

fn attempt(
    args: RunArgs,
    foreground: Foreground,
    alerts: &Alerts,
    tool: &'static str,
) -> Result<RunResult, Problem> {
    let around = Surroundings::real(foreground.io == Io::Terminal)?;
    local::refuse_rw_in_session(&args)?;
    let mut effective = effective(&args.policy, &around)?;
    local::make_ready(&mut effective.place)?;
    let engine = local::for_commands(effective, &args.policy, &around, alerts)?.build()?;
    let call = Call::Command(CommandCall {
        argv: args.argv,
        session: args.session,
        ..CommandCall::default()
    });
    Ok(engine.run_in_foreground(LOCAL, tool, &call, foreground, &present::warn))
}

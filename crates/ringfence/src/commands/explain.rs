//! `ringfence explain`: prints the plan without running it.

use std::process::ExitCode;

use ringfence_plan::Plan;
use ringfence_spec::Problem;

use crate::cli::RunArgs;
use crate::commands::local;
use crate::present;
use crate::settings::{Surroundings, effective, effective_code};
use ringfence_engine::{CommandCall, Engine, LOCAL};

/// Prints the plan.
pub(crate) fn explain(args: RunArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: RunArgs) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    if args.argv.is_empty() {
        let effective = effective_code(&args.policy, &around)?;
        let has_processes = effective.policy.processes.is_some();
        let engine = Engine::builder().host(effective.place).code_policy(effective.policy);
        let engine = engine.parallel(1).build()?;
        if has_processes {
            // Such programs run in no worker.
            show(&engine.explain_program()?, args.json);
            return Ok(());
        }
        let plan = engine.explain_code()?;
        if args.json {
            present::json(&plan);
        } else {
            present::text(&ringfence_plan::render_code(&plan));
        }
        return Ok(());
    }
    local::refuse_rw_in_session(&args)?;
    let effective = effective(&args.policy, &around)?;
    let engine = Engine::builder().host(effective.place).command_policy(effective.policy);
    let engine = engine.command_remarks(effective.remarks);
    let RunArgs { argv, session, .. } = args;
    let call = CommandCall { argv, session, ..CommandCall::default() };
    show(&engine.build()?.explain_command(LOCAL, &call)?, args.json);
    Ok(())
}

fn show(plan: &Plan, json: bool) {
    if json {
        present::json(plan);
    } else {
        present::text(&ringfence_plan::render(plan));
    }
}

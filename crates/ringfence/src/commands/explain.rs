//! `ringfence explain`: the plan, without running it.

use std::process::ExitCode;

use ringfence_spec::Problem;

use crate::cli::RunArgs;
use crate::present;
use crate::settings::{Surroundings, effective, effective_code};
use ringfence_engine::{CodeFence, Use};
use ringfence_engine::{Fence, Io};

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
        let fence =
            CodeFence::new(&effective.policy, &effective.place, Use::Often { n_parallel: 1 })?;
        if args.json {
            present::json(fence.plan());
        } else {
            present::text(&ringfence_plan::render_code(fence.plan()));
        }
        return Ok(());
    }
    let effective = effective(&args.policy, &around)?;
    let fence = Fence::new(
        &effective.policy,
        &effective.place,
        args.argv,
        Io::Passthrough { terminal: false },
    )?;
    let plan = fence.explain()?;
    if args.json {
        present::json(&plan);
    } else {
        present::text(&ringfence_plan::render(&plan));
    }
    Ok(())
}

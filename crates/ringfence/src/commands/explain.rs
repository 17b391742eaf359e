//! `ringfence explain`: the plan, without running it.

use std::process::ExitCode;

use ringfence_spec::Problem;

use crate::cli::RunArgs;
use crate::fence::{Fence, Io};
use crate::present;
use crate::settings::{Surroundings, effective};

/// Prints the plan.
pub(crate) fn explain(args: RunArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: RunArgs) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    let effective = effective(&args.policy, &around)?;
    let fence = Fence::new(&effective, &around, args.argv, Io::Passthrough { terminal: false })?;
    let plan = fence.explain()?;
    if args.json {
        present::json(&plan);
    } else {
        present::text(&ringfence_plan::render(&plan));
    }
    Ok(())
}

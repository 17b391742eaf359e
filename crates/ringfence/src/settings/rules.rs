//! The table `[rules]` of the operator's files: calls of an agent that are refused before any other check.

use std::path::Path;

use ringfence_engine::{Rules, TOOLS};
use ringfence_screen::decide::{RuleFault, Stance};
use ringfence_spec::{Code, Problem, escape_name};

use super::Surroundings;
use super::layer::read_table;
use crate::cli::PolicyFlags;

/// Name of the table.
pub(super) const TABLE: &str = "rules";

/// Reads the rules for an agent's calls. The ceilings' rules always apply; other files can only refuse more.
pub(crate) fn rules(flags: &PolicyFlags, around: &Surroundings) -> Result<Rules, Problem> {
    let mut chosen = None;
    for file in around.operators_files(flags) {
        if chosen.is_none() {
            chosen = of_file(&file)?;
        }
    }
    Ok(match (of_file(&around.ceilings)?, chosen) {
        (Some(ceilings), Some(chosen)) => narrowed(ceilings, chosen),
        (ceilings, chosen) => ceilings.or(chosen).unwrap_or_default(),
    })
}

/// Checks a file's table by itself, for `policy check`.
pub(super) fn check_file(file: &Path) -> Result<(), Problem> {
    of_file(file).map(drop)
}

fn of_file(file: &Path) -> Result<Option<Rules>, Problem> {
    let Some(table) = read_table(file)?.and_then(|mut all| all.remove(TABLE)) else {
        return Ok(None);
    };
    let rules: Rules = table.try_into().map_err(|e: toml::de::Error| {
        Problem::usage(
            Code::BadValue,
            format!("`[{TABLE}]` of `{}` cannot be used", file.display()),
        )
        .cause(e.to_string().trim_end())
        .hint("it has `default`, `opaque`, `deny` and `allow`; docs/reference/policy.md shows them")
    })?;
    match rules.fault(&TOOLS) {
        None => Ok(Some(rules)),
        Some(RuleFault { rule, cause, hint }) => {
            let message = format!(
                "the rule `{}` in `[{TABLE}]` of `{}` would never match",
                escape_name(&rule),
                file.display()
            );
            Err(Problem::usage(Code::BadValue, message).cause(cause).hint(hint))
        }
    }
}

/// Returns the first rules, extended by the refusals of the second.
fn narrowed(mut first: Rules, second: Rules) -> Rules {
    if second.opaque == Stance::Deny {
        first.opaque = Stance::Deny;
    }
    if first.default == Stance::Allow && second.default == Stance::Deny {
        // The first allows everything by default, so the second's allow list is the narrower.
        (first.default, first.allow) = (Stance::Deny, second.allow);
    }
    first.deny.extend(second.deny);
    first
}

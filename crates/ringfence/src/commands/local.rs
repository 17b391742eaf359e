//! The engine of the command line: one caller, settings of the user and the operator, alerts delivered after the end.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_engine::watch::Alert;
use ringfence_engine::{Builder, Engine, HostContext, Recorder, RunResult};
use ringfence_spec::Problem;

use crate::cli::PolicyFlags;
use crate::present;
use crate::settings::{Effective, EffectiveCode, Surroundings, Switch, ledger, ready, rules};

/// Alerts of calls that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alerts(Arc<Mutex<Vec<Alert>>>);

impl Alerts {
    /// Takes those that have come.
    pub(crate) fn take(&self) -> Vec<Alert> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn collect(&self, builder: Builder) -> Builder {
        let alerts = self.clone();
        builder.on_alert(Box::new(move |alert| {
            alerts.0.lock().unwrap_or_else(PoisonError::into_inner).push(alert.clone());
        }))
    }
}

/// Makes the data directory if it is not there.
pub(crate) fn make_ready(place: &mut HostContext) -> Result<(), Problem> {
    place.state = ready(&place.state, &place.cwd)?;
    Ok(())
}

/// An engine for commands, to be built.
pub(crate) fn for_commands(
    command: Effective,
    flags: &PolicyFlags,
    around: &Surroundings,
    alerts: &Alerts,
) -> Result<Builder, Problem> {
    let Effective { policy, place, audit, redaction, .. } = command;
    Ok(builder(place, audit, alerts)
        .command_policy(policy)
        .redaction(redaction)
        .rules(rules(flags, around)?))
}

/// An engine for Python, to be built.
pub(crate) fn for_code(
    code: EffectiveCode,
    flags: &PolicyFlags,
    around: &Surroundings,
    alerts: &Alerts,
) -> Result<Builder, Problem> {
    let EffectiveCode { policy, place, audit, redaction } = code;
    Ok(builder(place, audit, alerts)
        .code_policy(policy)
        .redaction(redaction)
        .rules(rules(flags, around)?))
}

/// What both have in common. Opens nothing: a single run opens the ledger while its fence goes up.
fn builder(place: HostContext, audit: Switch, alerts: &Alerts) -> Builder {
    let recorder = ledger(&place, audit).map_or_else(Recorder::off, Recorder::lazy);
    alerts.collect(Engine::builder().recorder(recorder).host(place))
}

/// Shows a run in the foreground and returns its exit code: as JSON, or by `for_people`; one that did not start, as a problem.
pub(crate) fn show(
    ran: Result<RunResult, Problem>,
    json: bool,
    for_people: impl FnOnce(&RunResult),
) -> ExitCode {
    let ran = ran.unwrap_or_else(RunResult::refused);
    let code = match &ran.problem {
        Some(problem) => problem.kind.exit_code(),
        None => present::exit_code(&ran.outcome),
    };
    match &ran.problem {
        _ if json => present::json(&ran.outcome),
        Some(problem) => return present::problem(problem),
        None => for_people(&ran),
    }
    ExitCode::from(code)
}

//! The engine of the command line: one caller, settings of the user and the operator, alerts delivered after the end.

use std::sync::{Arc, Mutex, PoisonError};

use ringfence_engine::watch::Alert;
use ringfence_engine::{Builder, Engine, Place, Recorder};
use ringfence_spec::Problem;

use crate::cli::PolicyFlags;
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
pub(crate) fn make_ready(place: &mut Place) -> Result<(), Problem> {
    place.state = ready(&place.state, &place.cwd)?;
    Ok(())
}

/// An engine for commands, to be built. Opens nothing: a single run opens the ledger while its fence goes up.
pub(crate) fn for_commands(
    command: Effective,
    flags: &PolicyFlags,
    around: &Surroundings,
    alerts: &Alerts,
) -> Result<Builder, Problem> {
    let recorder = recorder(&command.place, command.audit);
    let builder = Engine::builder()
        .recorder(recorder)
        .place(command.place)
        .command_policy(command.policy)
        .redaction(command.redaction)
        .rules(rules(flags, around)?);
    Ok(alerts.collect(builder))
}

/// An engine for Python, to be built.
pub(crate) fn for_code(
    code: EffectiveCode,
    flags: &PolicyFlags,
    around: &Surroundings,
    alerts: &Alerts,
) -> Result<Builder, Problem> {
    let recorder = recorder(&code.place, code.audit);
    let builder = Engine::builder()
        .recorder(recorder)
        .place(code.place)
        .code_policy(code.policy)
        .redaction(code.redaction)
        .rules(rules(flags, around)?);
    Ok(alerts.collect(builder))
}

/// The ledger of a data directory, opened with the first row; or none if there is to be none.
pub(crate) fn recorder(place: &Place, audit: Switch) -> Recorder {
    ledger(place, audit).map_or_else(Recorder::off, Recorder::lazy)
}

//! The command line's engine: one caller, the user's and the operator's settings, alerts delivered at the end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_engine::watch::Alert;
use ringfence_engine::{Builder, Engine, HostContext, Recorder, RunResult};
use ringfence_spec::{Code, Problem, shell_word};

use crate::cli::{PolicyFlags, RunArgs};
use crate::present;
use crate::settings::{self, Effective, EffectiveCode, Surroundings, Switch, ledger, ready, rules};

/// Alerts of finished calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alerts(Arc<Mutex<Vec<Alert>>>);

impl Alerts {
    /// Takes the alerts collected so far.
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

/// Returns the data directory, for commands that need no other setting. Warns about faults of others.
pub(crate) fn data_dir(flag: Option<&str>, around: &Surroundings) -> Result<PathBuf, Problem> {
    let (data, warnings) = settings::data_dir(flag, around)?;
    for warning in warnings {
        present::warn(&warning);
    }
    Ok(data)
}

/// This process's directory and the records of its user's runs, for commands that start none.
pub(crate) fn caller() -> Result<HostContext, Problem> {
    HostContext::here(&data_dir(None, &Surroundings::real(false)?)?)
}

/// Creates the data directory if missing.
pub(crate) fn make_ready(place: &mut HostContext) -> Result<(), Problem> {
    place.state = ready(&place.state, &place.cwd)?;
    Ok(())
}

/// Refuses `--rw` for a command of a session, whose files are a session's own. Elsewhere than in a flag it is for other
/// commands, and ignored.
pub(crate) fn refuse_rw_in_session(args: &RunArgs) -> Result<(), Problem> {
    match (&args.session, args.policy.rw.first()) {
        (Some(id), Some(path)) => {
            let message =
                "a command of a session writes in its /workspace only, so it takes no `--rw`";
            let (id, path) = (shell_word(id.as_str()), shell_word(path));
            Err(Problem::usage(Code::ContradictoryPaths, message).hint(format!(
                "leave out `--rw`; `ringfence session put {id} {path}` copies a file into the session, `--ro` shows one"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns a builder of an engine for commands.
pub(crate) fn for_commands(
    command: Effective,
    flags: &PolicyFlags,
    around: &Surroundings,
    alerts: &Alerts,
) -> Result<Builder, Problem> {
    let Effective { policy, place, audit, redaction, remarks, .. } = command;
    Ok(builder(place, audit, alerts)
        .command_policy(policy)
        .command_remarks(remarks)
        .redaction(redaction)
        .rules(rules(flags, around)?))
}

/// Returns a builder of an engine for Python.
pub(crate) fn for_code(
    code: EffectiveCode,
    flags: &PolicyFlags,
    around: &Surroundings,
    alerts: &Alerts,
) -> Result<Builder, Problem> {
    let EffectiveCode { policy, place, audit, redaction, remarks } = code;
    Ok(builder(place, audit, alerts)
        .code_policy(policy)
        .code_remarks(remarks)
        .redaction(redaction)
        .rules(rules(flags, around)?))
}

/// Returns the common builder. Opens nothing: a single run opens the ledger while its sandbox is built.
fn builder(place: HostContext, audit: Switch, alerts: &Alerts) -> Builder {
    let recorder = ledger(&place, audit).map_or_else(Recorder::off, Recorder::lazy);
    alerts.collect(Engine::builder().recorder(recorder).host(place))
}

/// Prints a foreground run as JSON or by `for_people`, or the problem if it did not start, and returns its exit code.
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

//! `ringfence session`: workspaces that outlive a command. A REPL lives as long as the command that runs it.

use std::process::ExitCode;
use std::sync::Arc;

use ringfence_audit::{Entry, Ledger, Settings};
use ringfence_engine::clock::HostClock;
use ringfence_engine::files::FileAccess;
use ringfence_engine::{LOCAL, SessionOptions, SessionSettings, SessionState, Sessions};
use ringfence_spec::Problem;

use crate::cli::{SessionArgs, SessionCommand};
use crate::present;
use crate::settings::{Surroundings, data_dir};

/// Runs the subcommand.
pub(crate) fn session(args: &SessionArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &SessionArgs) -> Result<(), Problem> {
    let around = Surroundings::real(false)?;
    let data = data_dir(args.data_dir.as_deref(), &around)?;
    let sessions = Sessions::open(&data, SessionSettings::default(), Arc::new(HostClock))?;
    let ledger = Ledger::open(&data.join("ledger"), Settings::new(ringfence_engine::redact))?;
    let note = |id: &str, event: &str| {
        ledger.append(&Entry::session_event(id, event).client(LOCAL)).map(|_| ())
    };
    // For every subcommand: no service may be running that would sweep.
    let swept = sessions.sweep();
    for id in &swept.expired {
        note(id.as_str(), "expired")?;
        ledger.archive_session(id.as_str())?;
    }
    let shown = |state: &SessionState| {
        if args.json {
            present::json(state);
        } else {
            present::text(&format!("{}\n", state.id));
        }
    };
    match &args.command {
        SessionCommand::New { read_only } => {
            let access = FileAccess::from_read_only(*read_only);
            let state = sessions.create(LOCAL, SessionOptions { access })?;
            note(state.id.as_str(), "created")?;
            shown(&state);
        }
        SessionCommand::Ls => {
            for state in sessions.list(LOCAL) {
                shown(&state);
            }
        }
        SessionCommand::Show { id } => {
            let info = sessions.info(LOCAL, id)?;
            let mut value = serde_json::to_value(&info).unwrap_or_default();
            value["workspace"] = sessions.workspace(LOCAL, id)?.to_string_lossy().into();
            present::json(&value);
        }
        SessionCommand::Fork { id } => {
            let state = sessions.fork(LOCAL, id)?;
            note(state.id.as_str(), "forked")?;
            shown(&state);
        }
        SessionCommand::Rm { ids } => {
            for id in ids {
                let id = sessions.close(LOCAL, id)?;
                note(id.as_str(), "closed")?;
                ledger.archive_session(id.as_str())?;
            }
        }
        SessionCommand::Gc => present::json(&swept),
    }
    Ok(())
}

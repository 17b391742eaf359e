//! `ringfence session`: workspaces that outlive a command. A REPL lives as long as the command that runs it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence_audit::{Entry, Ledger, Settings};
use ringfence_engine::clock::HostClock;
use ringfence_engine::files::{FileAccess, Listing};
use ringfence_engine::{LOCAL, SessionOptions, SessionSettings, SessionState, Sessions};
use ringfence_spec::{Problem, utc};

use crate::cli::{SessionArgs, SessionCommand};
use crate::commands::session_files::{self, Copied, FileEngine};
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
    match &args.command {
        SessionCommand::Put { id, local, name } => {
            let copied = FileEngine::start(args.data_dir.as_ref())?.put(id, local, name.as_deref());
            show_copied(&copied?, args.json);
        }
        SessionCommand::Get { id, name, local } => {
            let copied = FileEngine::start(args.data_dir.as_ref())?.get(id, name, local.as_deref());
            // Stdout has the file itself.
            let to_stdout = local.as_deref() == Some(Path::new("-"));
            show_copied(&copied?, args.json && !to_stdout);
        }
        SessionCommand::Ls { long, id: Some(id), dir } => {
            let listing = FileEngine::start(args.data_dir.as_ref())?.list(id, dir)?;
            if args.json {
                let Listing { entries, truncated } = listing;
                present::json(&serde_json::json!({"entries": entries, "truncated": truncated}));
            } else {
                session_files::show(&listing, *long);
            }
        }
        command => return lifecycle(args, command),
    }
    Ok(())
}

fn show_copied(copied: &Copied, json: bool) {
    if json {
        present::json(copied);
    }
}

/// Runs a subcommand about sessions as a whole.
fn lifecycle(args: &SessionArgs, command: &SessionCommand) -> Result<(), Problem> {
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
    match command {
        SessionCommand::New { read_only } => {
            let access = FileAccess::from_read_only(*read_only);
            let state = sessions.create(LOCAL, SessionOptions { access })?;
            note(state.id.as_str(), "created")?;
            shown(&state);
        }
        SessionCommand::Ls { long, .. } => {
            for state in sessions.list(LOCAL) {
                if *long && !args.json {
                    present::text(&long_line(&state));
                } else {
                    shown(&state);
                }
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
        // Handled by `attempt`.
        SessionCommand::Put { .. } | SessionCommand::Get { .. } => {}
    }
    Ok(())
}

/// Id, access, times of creation, last use and expiry, and the number of cells.
fn long_line(state: &SessionState) -> String {
    let time = |ms: u64| utc(i64::try_from(ms).unwrap_or(i64::MAX));
    format!(
        "{}  {}  made {}  used {}  expires {}  {} cells\n",
        state.id,
        if state.read_only { "ro" } else { "rw" },
        time(state.created_ms),
        time(state.used_ms),
        time(state.expires_ms),
        state.n_cells,
    )
}

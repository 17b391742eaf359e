//! `ringfence session`: workspaces that outlive a command. A REPL lives as long as the command that runs it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ringfence_audit::{Entry, Ledger, LedgerSettings};
use ringfence_engine::clock::HostClock;
use ringfence_engine::files::{FileAccess, Listing};
use ringfence_engine::{
    LOCAL, SessionOptions, SessionSettings, SessionState, Sessions, SweptSession,
};
use ringfence_spec::Problem;

use crate::cli::{SessionArgs, SessionCommand};
use crate::commands::local::data_dir;
use crate::commands::session_files::{self, Copied, FileEngine};
use crate::present;
use crate::settings::{Surroundings, ready};
use crate::style::{self, Stream};
use crate::table::{self, cell, column, numbers};

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
            let copied =
                FileEngine::start(args.shared.data_dir.as_ref())?.put(id, local, name.as_deref());
            show_copied(&copied?, args.shared.json);
        }
        SessionCommand::Get { id, name, local } => {
            let copied =
                FileEngine::start(args.shared.data_dir.as_ref())?.get(id, name, local.as_deref());
            // Stdout has the file itself.
            let to_stdout = local.as_deref() == Some(Path::new("-"));
            show_copied(&copied?, args.shared.json && !to_stdout);
        }
        SessionCommand::Ls { long, id: Some(id), dir } => {
            let listing = FileEngine::start(args.shared.data_dir.as_ref())?.list(id, dir)?;
            if args.shared.json {
                let Listing { entries, truncated, .. } = listing;
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
    let data = ready(&data_dir(args.shared.data_dir.as_deref(), &around)?, &around.cwd)?;
    let sessions = Sessions::open(&data, SessionSettings::default(), Arc::new(HostClock))?;
    let ledger = Ledger::open(&data.join("ledger"), LedgerSettings::new(ringfence_engine::redact))?;
    let note = |id: &str, event: &str| {
        ledger.append(&Entry::session_event(id, event).client(LOCAL)).map(|_| ())
    };
    // For every subcommand: no service may be running that would sweep.
    let swept = sessions.sweep();
    for SweptSession { id, owner } in &swept.expired {
        ledger.append(&Entry::session_event(id.as_str(), "expired").client(owner))?;
        ledger.archive_session(id.as_str())?;
    }
    let shown = |state: &SessionState| {
        if args.shared.json {
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
            let all = sessions.list(LOCAL)?;
            let is_terminal = style::is_terminal(Stream::Stdout);
            // In a pipe only ids, for `for id in $(ringfence session ls)`.
            if args.shared.json || !(*long || is_terminal) {
                all.iter().for_each(shown);
            } else {
                show_table(&sessions, &all);
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
                let id = sessions.close(LOCAL, id).map_err(|problem| Problem {
                    message: format!("cannot close `{id}`: {}", problem.message),
                    ..problem
                })?;
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

/// Prints sessions as a table, with the size of their files.
fn show_table(sessions: &Sessions, all: &[SessionState]) {
    let now = u64::try_from(ringfence_audit::now_ms()).unwrap_or(0);
    let row = |state: &SessionState| {
        let usage = sessions.files(LOCAL, &state.id).and_then(|(files, _)| files.usage());
        let size = usage.map_or_else(|_| "?".to_owned(), |usage| table::size(usage.bytes));
        vec![
            cell(state.id.as_str()),
            cell(table::age(now.saturating_sub(state.created_ms))),
            cell(table::age(now.saturating_sub(state.used_ms))),
            cell(table::age(state.expires_ms.saturating_sub(now))),
            cell(size),
            cell(state.n_cells.to_string()),
            cell(if state.read_only { "ro" } else { "rw" }),
        ]
    };
    let columns = [
        column("SESSION"),
        numbers("AGE"),
        numbers("UNUSED"),
        numbers("EXPIRES IN"),
        numbers("SIZE"),
        numbers("CELLS"),
        column("FILES"),
    ];
    table::print(&columns, &all.iter().map(row).collect::<Vec<_>>());
}

//! `ringfence init CLIENT`: registers `ringfence mcp` with an MCP client. Shows the change as a diff, changes nothing
//! else, keeps a backup, and reverts with `--undo`.

mod client;
mod edit;
mod file;
mod lines;
mod plugin;
mod wrap;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_spec::{Code, Problem, escape_unseen};
use similar::TextDiff;

use crate::cli::InitArgs;
use crate::commands::local;
use crate::settings::Surroundings;
use crate::{parse, present};
use client::Client;
use edit::Server;
use file::{Backup, ConfigFile};

pub(crate) use wrap::wrap;

/// Writes a client's configuration, or reverts it.
pub(crate) fn init(args: &InitArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &InitArgs) -> Result<(), Problem> {
    let client: Client = args.client.parse()?;
    if !args.undo {
        parse::check_flags("mcp", &args.arguments, &Surroundings::real(false)?)?;
    }
    if let Some(dir) = &args.plugin {
        if client != Client::ClaudeCode {
            let message = format!("there is no plugin for {client}");
            return Err(Problem::usage(Code::UnknownClient, message)
                .hint("`--plugin` is for `init claude-code`"));
        }
        let server = Server { command: own_path(), arguments: arguments(&args.arguments, None) };
        return plugin::init(dir, &server, args.undo, args.dry_run);
    }
    let path = match &args.config {
        Some(path) => path.clone(),
        None => client.config(&|name| std::env::var_os(name))?,
    };
    let file = ConfigFile::read(&path, &local::caller()?)?;
    let workspace = workspace(client, &args.arguments);
    let server =
        Server { command: own_path(), arguments: arguments(&args.arguments, workspace.as_deref()) };
    if args.undo {
        return undo(client, &file, &server, args.dry_run);
    }
    let before = file.text.as_deref().unwrap_or_default();
    let after = client.edit().put(before, &server).map_err(|why| unreadable(&path, &why))?;
    if after == before {
        present::text(&format!("{client} has it already: {}\n", path.display()));
        return Ok(());
    }
    show(&path, before, &after);
    if args.dry_run {
        return Ok(());
    }
    let backups = file.backups()?;
    let newest = backups.first().filter(|newest| {
        // The current file can be made again from that backup, so it needs no other.
        is_put_in(client, &newest.text, before, &server).unwrap_or(false)
    });
    let kept = match newest {
        Some(newest) => Some(newest.path.clone()),
        None => file.keep()?,
    };
    if let Some(dir) = &workspace {
        std::fs::create_dir_all(dir).map_err(|e| {
            Problem::usage(Code::Cwd, format!("cannot make `{}`", dir.display()))
                .cause(e)
                .hint("name a directory for commands after `--`: `-- --cwd DIR`")
        })?;
        present::note(&format!("commands will work in {}", dir.display()));
    }
    file.replace(&after)?;
    if let Some(kept) = kept {
        present::note(&format!("what was there is in {}", kept.display()));
    }
    present::note(client.next_step());
    Ok(())
}

/// Returns true if `now` is `before` with a server added and no other change.
fn is_put_in(client: Client, before: &str, now: &str, server: &Server) -> Result<bool, String> {
    let known = client.edit().get(now)?;
    Ok(before == now || client.edit().put(before, known.as_ref().unwrap_or(server))? == now)
}

/// Restores the backup; if the file has other changes since, restores only our entry.
fn undo(client: Client, file: &ConfigFile, server: &Server, dry_run: bool) -> Result<(), Problem> {
    let Some(now) = file.text.as_deref() else {
        present::note(&format!("there is nothing to undo: {} does not exist", file.path.display()));
        return Ok(());
    };
    let unreadable = |why: String| unreadable(&file.path, &why);
    let edit = client.edit();
    if !edit.has(now).map_err(unreadable)? {
        present::note(&format!(
            "there is nothing to undo: {} does not know ringfence",
            file.path.display()
        ));
        return Ok(());
    }
    let backups = file.backups()?;
    let former = former(client, &backups);
    if let Some(former) = former
        && is_put_in(client, &former.text, now, server).map_err(unreadable)?
    {
        show(&file.path, now, &former.text);
        return if dry_run { Ok(()) } else { file.restore(former) };
    }
    if backups.is_empty() && is_put_in(client, "", now, server).map_err(unreadable)? {
        show(&file.path, now, "");
        return if dry_run { Ok(()) } else { file.delete() };
    }
    let former_text = former.map(|former| former.text.as_str());
    let before = edit.put_back(now, former_text).map_err(unreadable)?;
    show(&file.path, now, &before);
    if dry_run {
        return Ok(());
    }
    file.replace(&before)?;
    if let Some(former) = former {
        present::note(&format!(
            "the file has other changes, which stay; what was there before is still in {}",
            former.path.display()
        ));
    }
    Ok(())
}

/// Returns the newest backup without our entry: one made between two of our changes has it.
fn former(client: Client, backups: &[Backup]) -> Option<&Backup> {
    let is_ours = |backup: &Backup| {
        let server = client.edit().get(&backup.text).ok().flatten();
        server.is_some_and(|server| {
            let program = Path::new(&server.command).file_name();
            program.is_some_and(|name| name == "ringfence")
                && server.arguments.first().is_some_and(|first| first == "mcp")
        })
    };
    // The entry in the first backup was there before us.
    backups.iter().find(|backup| !is_ours(backup)).or_else(|| backups.last())
}

fn show(path: &Path, before: &str, after: &str) {
    let diff = TextDiff::from_lines(before, after);
    let name = path.display().to_string();
    let diff = diff.unified_diff().context_radius(3).header(&name, &name).to_string();
    // The file may be a project's, and a terminal would obey what is in its comments.
    present::text(&escape_unseen(&diff, |c| matches!(c, '\n' | '\t')));
}

/// Returns the path of this executable: a client started from a desktop does not have the shell's PATH.
fn own_path() -> String {
    let own: Option<PathBuf> = std::env::current_exe().ok();
    own.and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| "ringfence".to_owned())
}

fn arguments(more: &[String], workspace: Option<&Path>) -> Vec<String> {
    let cwd = workspace.and_then(Path::to_str).map(|dir| ["--cwd".to_owned(), dir.to_owned()]);
    let all = std::iter::once("mcp".to_owned()).chain(cwd.into_iter().flatten());
    all.chain(more.iter().cloned()).collect()
}

/// Returns the directory for the commands of a client that starts its servers in `/` or in the home, where no command can
/// work: the current one, or one of its own if that is no better.
fn workspace(client: Client, more: &[String]) -> Option<PathBuf> {
    let is_named = more.iter().any(|flag| flag == "--cwd" || flag.starts_with("--cwd="));
    if is_named || !client.starts_anywhere() {
        return None;
    }
    let home = PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?);
    let here = std::env::current_dir().ok().filter(|here| !home.starts_with(here));
    Some(here.unwrap_or_else(|| home.join("ringfence")))
}

fn unreadable(path: &Path, why: &str) -> Problem {
    Problem::usage(Code::ConfigInvalid, format!("cannot read `{}`", path.display()))
        .cause(why)
        .hint("mend the file, or name another one with `--config FILE`; nothing was changed")
}

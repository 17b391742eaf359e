//! `ringfence init CLIENT`: tells an agent's program about `ringfence mcp`. Shows what it changes, changes nothing else, keeps
//! what was there, and takes it back with `--undo`.

mod client;
mod edit;
mod file;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_spec::Problem;
use similar::TextDiff;

use crate::cli::InitArgs;
use crate::present;
use client::Client;
use edit::Server;
use file::ConfigFile;

/// Writes a client's configuration, or takes it back.
pub(crate) fn init(args: &InitArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &InitArgs) -> Result<(), Problem> {
    let client: Client = args.client.parse()?;
    let path = match &args.config {
        Some(path) => path.clone(),
        None => client.config(&|name| std::env::var_os(name))?,
    };
    let file = ConfigFile::read(&path)?;
    let server = Server { command: own_path(), arguments: arguments(&args.arguments) };
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
    let backup = file.replace(&after)?;
    if let Some(backup) = backup {
        present::say(&format!("what was there is in {}", backup.display()));
    }
    present::say(client.next_step());
    Ok(())
}

/// Brings back what was there, or takes out what is ours where somebody has written to the file since.
fn undo(client: Client, file: &ConfigFile, server: &Server, dry_run: bool) -> Result<(), Problem> {
    let Some(now) = file.text.as_deref() else {
        present::say(&format!("there is nothing to undo: {} does not exist", file.path.display()));
        return Ok(());
    };
    let unreadable = |why: String| unreadable(&file.path, &why);
    let untouched = |before: &str| {
        let known = client.edit().get(now)?;
        let put = client.edit().put(before, known.as_ref().unwrap_or(server))?;
        Ok::<bool, String>(put == now)
    };
    let backup = file.backup()?;
    let before = match &backup {
        Some(before) if untouched(before).map_err(unreadable)? => Some(before.clone()),
        None if untouched("").map_err(unreadable)? => Some(String::new()),
        _ => client.edit().remove(now).map_err(unreadable)?,
    };
    let Some(before) = before else {
        present::say(&format!(
            "there is nothing to undo: {} does not know ringfence",
            file.path.display()
        ));
        return Ok(());
    };
    show(&file.path, now, &before);
    if dry_run {
        return Ok(());
    }
    if before.is_empty() && backup.is_none() {
        return file.delete();
    }
    file.restore(&before)
}

fn show(path: &Path, before: &str, after: &str) {
    let diff = TextDiff::from_lines(before, after);
    let name = path.display().to_string();
    present::text(&diff.unified_diff().context_radius(3).header(&name, &name).to_string());
}

/// This very program: a client that was started from a desktop has not the shell's PATH.
fn own_path() -> String {
    let own: Option<PathBuf> = std::env::current_exe().ok();
    own.and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| "ringfence".to_owned())
}

fn arguments(more: &[String]) -> Vec<String> {
    std::iter::once("mcp".to_owned()).chain(more.iter().cloned()).collect()
}

fn unreadable(path: &Path, why: &str) -> Problem {
    Problem::usage("config_invalid", format!("cannot read `{}`", path.display()))
        .cause(why)
        .hint("mend the file, or name another one with `--config FILE`; nothing was changed")
}

//! `ringfence wrap SERVER`: puts a third-party stdio MCP server behind the fence, by changing the command in its client's
//! configuration to `ringfence run … -- COMMAND`. The old command is part of the new one, so `--undo` needs nothing else.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ringfence_engine::host::FileKind;
use ringfence_spec::{Code, Problem, escape_name};
use sha2::{Digest as _, Sha256};

use super::client::{self, Client};
use super::edit::{ConfiguredServer, Server};
use super::file::ConfigFile;
use super::{own_path, show, unreadable};
use crate::cli::WrapArgs;
use crate::commands::local;
use crate::settings::Surroundings;
use crate::style::Look;
use crate::table::{self, cell, column, texts};
use crate::{parse, present};

/// Wall-clock limit of a wrapped server: 30 days, longer than a client stays open.
const TIMEOUT: &str = "720h";

/// Configuration of a project's own servers, in the format of Claude Code.
const PROJECT_CONFIG: &str = ".mcp.json";

/// Programs that fetch a server from a registry and run it, and the bundle of that registry.
const FETCHERS: [(&str, &str); 8] = [
    ("npx", "npm"),
    ("npm", "npm"),
    ("pnpm", "npm"),
    ("bunx", "npm"),
    ("bun", "npm"),
    ("uvx", "pypi"),
    ("uv", "pypi"),
    ("pipx", "pypi"),
];

/// Programs that start the server elsewhere, where this fence does not hold it.
const ELSEWHERE: [&str; 4] = ["docker", "podman", "ssh", "kubectl"];

/// A configuration that exists.
struct Known {
    client: Client,
    file: ConfigFile,
    servers: Vec<ConfiguredServer>,
}

/// Wraps a server, unwraps it, or lists the known ones.
pub(crate) fn wrap(args: &WrapArgs) -> ExitCode {
    match attempt(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => present::problem(&problem),
    }
}

fn attempt(args: &WrapArgs) -> Result<(), Problem> {
    if args.name.is_some() && !args.undo {
        parse::check_flags("run", &args.arguments, &Surroundings::real(false)?)?;
    }
    let known = configurations(args)?;
    let Some(name) = &args.name else {
        list(&known, args.json);
        return Ok(());
    };
    let (place, configured) = find(&known, name)?;
    let wrapped = unwrapped(&configured.server);
    let after = match (args.undo, &wrapped) {
        (true, Some(original)) => original.clone(),
        (true, None) => {
            present::note(&format!("there is nothing to undo: `{name}` is not behind the fence"));
            return Ok(());
        }
        (false, _) => behind_the_fence(place, configured, wrapped.as_ref(), &args.arguments)?,
    };
    let before = place.file.text.as_deref().unwrap_or_default();
    let text = place.client.edit().restart(before, name, &after);
    let text = text.map_err(|why| unreadable(&place.file.path, &why))?;
    if text == before {
        present::text(&format!("`{name}` is behind the fence already\n"));
        return Ok(());
    }
    if args.undo {
        // The backup, if the file has no other change since: its layout was the user's own.
        let backups = place.file.backups()?;
        let edit = place.client.edit();
        let former = backups.iter().find(|backup| {
            edit.restart(&backup.text, name, &configured.server).is_ok_and(|again| again == before)
        });
        let text = former.map_or(&text, |former| &former.text);
        show(&place.file.path, before, text);
        if !args.dry_run {
            match former {
                Some(former) => place.file.restore(former)?,
                None => place.file.replace(text)?,
            }
            present::note(place.client.start_again());
        }
        return Ok(());
    }
    show(&place.file.path, before, &text);
    if args.dry_run {
        return Ok(());
    }
    make_directory(&after)?;
    // A wrapped server holds its own original.
    let kept = if wrapped.is_none() { place.file.keep()? } else { None };
    place.file.replace(&text)?;
    if let Some(kept) = kept {
        present::note(&format!("what was there is in {}", kept.display()));
    }
    present::note(place.client.start_again());
    present::note(
        "`ringfence audit ls` shows what it was refused; give it more after `--`: `ringfence wrap … -- --net allow:HOST --ro DIR`",
    );
    Ok(())
}

/// Reads the named configuration, or every one that exists.
fn configurations(args: &WrapArgs) -> Result<Vec<Known>, Problem> {
    let var = |name: &str| std::env::var_os(name);
    let mut places: Vec<(Client, PathBuf)> = Vec::new();
    let named = args.client.as_deref().map(str::parse::<Client>).transpose()?;
    if let (Some(client), Some(path)) = (named, &args.config) {
        places.push((client, path.clone()));
    } else {
        for client in client::all().filter(|client| named.is_none_or(|named| named == *client)) {
            places.push((client, client.config(&var)?));
            if client == Client::ClaudeCode {
                places.push((client, PROJECT_CONFIG.into()));
            }
        }
    }
    let must_be_readable = args.client.is_some();
    let place = local::caller()?;
    let mut known = Vec::new();
    for (client, path) in places {
        let read = ConfigFile::read(&path, &place).and_then(|file| {
            let text = file.text.clone().unwrap_or_default();
            let servers = client.edit().servers(&text);
            servers.map(|servers| (file, servers)).map_err(|why| unreadable(&path, &why))
        });
        match read {
            Ok((file, servers)) if file.text.is_some() => {
                known.push(Known { client, file, servers });
            }
            Ok(_) => {}
            Err(problem) if must_be_readable => return Err(problem),
            Err(problem) => present::note(&problem.message),
        }
    }
    Ok(known)
}

/// A server in the list.
#[derive(serde::Serialize)]
struct ListedServer<'a> {
    name: &'a str,
    client: String,
    /// True if a fence holds it.
    #[serde(skip)]
    is_fenced: bool,
    state: &'static str,
    /// Flags of its fence, besides those that `wrap` always gives.
    grants: String,
    command: String,
}

fn list(known: &[Known], json: bool) {
    let mut rows = Vec::new();
    for place in known {
        for configured in &place.servers {
            // Another program of our name is any program, with the rights that any has.
            let is_own = is_this_program(&configured.server);
            let original = unwrapped(&configured.server).filter(|_| is_own);
            let Server { command, arguments } = original.as_ref().unwrap_or(&configured.server);
            let words: Vec<&str> = std::iter::once(command.as_str())
                .chain(arguments.iter().map(String::as_str))
                .collect();
            rows.push(ListedServer {
                name: &configured.name,
                client: place.client.to_string(),
                is_fenced: is_own,
                state: match original {
                    Some(_) => "behind the fence",
                    None if is_own => "ringfence itself",
                    None => "with your rights",
                },
                grants: original.as_ref().map(|_| grants(&configured.server)).unwrap_or_default(),
                command: words.join(" "),
            });
        }
    }
    if json {
        present::json(&rows);
        return;
    }
    if rows.is_empty() {
        present::note("no client's configuration names a server that is started as a command");
    }
    let columns =
        [column("SERVER"), column("CLIENT"), column("STATE"), texts("GRANTS"), texts("COMMAND")];
    let rows = rows.into_iter().map(|row| {
        let look = if row.is_fenced { Look::Good } else { Look::Warning };
        vec![
            cell(escape_name(row.name)),
            cell(row.client),
            (row.state.to_owned(), Some(look)),
            cell(escape_name(&row.grants)),
            cell(escape_name(&row.command)),
        ]
    });
    table::print(&columns, &rows.collect::<Vec<_>>());
}

fn find<'a>(known: &'a [Known], name: &str) -> Result<(&'a Known, &'a ConfiguredServer), Problem> {
    let all = known.iter().flat_map(|place| place.servers.iter().map(move |s| (place, s)));
    let mut found: Vec<_> = all.filter(|(_, configured)| configured.name == name).collect();
    if found.len() > 1 {
        let clients: Vec<String> =
            found.iter().map(|(place, _)| place.client.to_string()).collect();
        let message = format!("several clients have a server `{name}`: {}", clients.join(", "));
        return Err(Problem::usage(Code::UnknownClient, message).hint(
            "choose one with `--client CLIENT`, and for a file of a project `--config FILE` too",
        ));
    }
    found.pop().ok_or_else(|| {
        let names: Vec<&str> =
            known.iter().flat_map(|place| &place.servers).map(|s| s.name.as_str()).collect();
        let hint = if names.is_empty() {
            "no configuration of a known client has one; name it with `--client CLIENT --config FILE`".to_owned()
        } else {
            format!("those that are started as a command: {}", names.join(", "))
        };
        Problem::usage(Code::UnknownClient, format!("there is no server `{name}`")).hint(hint)
    })
}

/// Returns true if a server is called as this program is.
fn is_ringfence(server: &Server) -> bool {
    Path::new(&server.command).file_name().is_some_and(|name| name == "ringfence")
}

/// Returns true if a server is this program: by its path, or by the name that the client looks up.
fn is_this_program(server: &Server) -> bool {
    let same_file = || {
        let found = |path: &str| ringfence_engine::host::found(Path::new(path)).map(|f| f.id);
        let id = found(&server.command);
        id.is_some() && id == found(&own_path())
    };
    server.command == "ringfence" || server.command == own_path() || same_file()
}

/// The server behind the fence; none if it is not.
fn unwrapped(server: &Server) -> Option<Server> {
    if !is_ringfence(server) || server.arguments.first().is_none_or(|first| first != "run") {
        return None;
    }
    let end = server.arguments.iter().position(|argument| argument == "--")?;
    let mut original = server.arguments[end + 1..].iter().cloned();
    Some(Server { command: original.next()?, arguments: original.collect() })
}

/// Flags of a wrapped server's fence that widen it, as its configuration has them: those of a project are the project's choice.
fn grants(server: &Server) -> String {
    let mut flags = server.arguments.iter().skip(1).take_while(|argument| *argument != "--");
    let mut grants: Vec<&str> = Vec::new();
    while let Some(flag) = flags.next() {
        match flag.as_str() {
            "--die-with-parent" => {}
            "--timeout" => drop(flags.next()),
            "--cwd" => {
                let other = flags.next().filter(|dir| !dir.contains("/ringfence-servers/"));
                grants.extend(other.into_iter().flat_map(|dir| [flag.as_str(), dir.as_str()]));
            }
            other => grants.push(other),
        }
    }
    grants.join(" ")
}

/// The server's command with a fence around it.
fn behind_the_fence(
    place: &Known,
    configured: &ConfiguredServer,
    wrapped: Option<&Server>,
    more: &[String],
) -> Result<Server, Problem> {
    let server = wrapped.unwrap_or(&configured.server);
    let name = &configured.name;
    let program = Path::new(&server.command).file_name().and_then(|name| name.to_str());
    let program = program.unwrap_or(&server.command);
    let refused = |message: String| Problem::usage(Code::BadValue, message);
    if is_ringfence(server) {
        return Err(refused(format!("`{name}` is Ringfence's own server, which has a fence")));
    }
    if ELSEWHERE.contains(&program) {
        let message = format!("`{name}` is started by {program}, outside of any fence around that");
        return Err(refused(message).hint("wrap a server that runs on this host by itself"));
    }
    let is_given = |flag: &str| {
        more.iter().any(|given| given == flag || given.starts_with(&format!("{flag}=")))
    };
    let mut arguments = vec!["run".to_owned(), "--die-with-parent".to_owned()];
    let mut add = |flag: &str, value: &str| arguments.extend([flag.to_owned(), value.to_owned()]);
    if !is_given("--timeout") {
        add("--timeout", TIMEOUT);
    }
    if !is_given("--cwd") {
        let directory = directory(&place.file.path, name, server)?;
        add(
            "--cwd",
            directory.to_str().ok_or_else(|| refused("the home is not UTF-8".to_owned()))?,
        );
    }
    if !is_given("--net")
        && let Some((_, bundle)) = FETCHERS.iter().find(|(fetcher, _)| *fetcher == program)
    {
        add("--net", &format!("allow:{bundle}"));
    }
    for variable in &configured.variables {
        add("--env", variable);
    }
    for directory in own_directories(server) {
        add("--ro", &directory);
    }
    arguments.extend(more.iter().cloned());
    arguments.push("--".to_owned());
    arguments.push(server.command.clone());
    arguments.extend(server.arguments.iter().cloned());
    if configured.variables.iter().any(|v| looks_secret(v)) {
        present::note(&format!(
            "`{name}` still gets {}: `--secret NAME=env:NAME@HOST` after `--` lets only HOST have it",
            configured
                .variables
                .iter()
                .filter(|v| looks_secret(v))
                .cloned()
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    Ok(Server { command: own_path(), arguments })
}

fn looks_secret(variable: &str) -> bool {
    let upper = variable.to_ascii_uppercase();
    ["TOKEN", "KEY", "SECRET", "PASSWORD"].iter().any(|word| upper.contains(word))
}

/// Directories below the home that hold the server's own files, by absolute paths in its command.
fn own_directories(server: &Server) -> Vec<String> {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else { return Vec::new() };
    let words = std::iter::once(&server.command).chain(&server.arguments);
    let below = words.map(Path::new).filter(|path| path.is_absolute() && path.starts_with(&home));
    let mut directories: Vec<String> = below
        .filter_map(|path| {
            let found = ringfence_engine::host::found(path)?;
            let directory =
                if found.kind == FileKind::Directory { Some(path) } else { path.parent() };
            directory.filter(|dir| *dir != home)?.to_str().map(str::to_owned)
        })
        .collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}

/// The one directory that the server may write. Another server of the same name, in another file or with another command, has
/// another one: what it leaves there is code to the next, such as the packages that `npx` prefers.
fn directory(config: &Path, name: &str, server: &Server) -> Result<PathBuf, Problem> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let data = match set("XDG_DATA_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(set("HOME").ok_or_else(|| {
            Problem::usage(Code::NoHome, "there is no home directory for the server's files")
                .hint("name a directory that it may write after `--`: `-- --cwd DIR`")
        })?)
        .join(".local/share"),
    };
    let mut hash = Sha256::new();
    let words =
        [name, &server.command].into_iter().chain(server.arguments.iter().map(String::as_str));
    for part in [config.as_os_str().as_bytes()].into_iter().chain(words.map(str::as_bytes)) {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let [a, b, c, d, ..] = <[u8; 32]>::from(hash.finalize());
    let id = u32::from_be_bytes([a, b, c, d]);
    // A server's name is any text.
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    let name: String = name.chars().map(safe).collect();
    Ok(data.join("ringfence-servers").join(format!("{name}-{id:08x}")))
}

fn make_directory(server: &Server) -> Result<(), Problem> {
    let end = server.arguments.iter().position(|a| a == "--").unwrap_or(server.arguments.len());
    let flags = &server.arguments[..end];
    let Some(at) = flags.iter().position(|flag| flag == "--cwd") else { return Ok(()) };
    let Some(directory) = flags.get(at + 1) else { return Ok(()) };
    std::fs::create_dir_all(directory).map_err(|e| {
        Problem::usage(Code::Cwd, format!("cannot make `{directory}`"))
            .cause(e)
            .hint("name a directory that the server may write after `--`: `-- --cwd DIR`")
    })?;
    present::note(&format!("it may write {directory}, and nothing else"));
    Ok(())
}

//! The table `[notify]` of the operator's files: recipients of a server's alerts, ledger anchors and call traces; and
//! its log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_engine::host::{FileKind, found};
use ringfence_server::notify::{Destination, NotifySettings};
use ringfence_spec::{Code, Problem, Span};
use rustix::fs::{Access, access};
use serde::Deserialize;
use tracing_subscriber::filter::LevelFilter;

use super::Surroundings;
use super::layer::read_table;
use super::log::{Format, Log};
use crate::cli::PolicyFlags;

/// Name of the table.
pub(super) const TABLE: &str = "notify";

/// Name of the table before version 0.2, still read.
pub(super) const OLD_TABLE: &str = "tell";

/// Default interval between anchors of the ledger's head.
const ANCHOR_EVERY: Span = Span::secs(600);

/// The table as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    alert_command: Option<Vec<String>>,
    alert_webhook: Option<String>,
    anchor_every: Option<String>,
    anchor_file: Option<PathBuf>,
    anchor_command: Option<Vec<String>>,
    anchor_webhook: Option<String>,
    traces: Option<String>,
    log: Option<String>,
    log_format: Option<String>,
}

/// Notification recipients and log of a server.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    pub(crate) others: NotifySettings,
    pub(crate) log: Log,
    /// The file that says so.
    file: PathBuf,
}

impl Notify {
    /// Checks that the programs and files are there: an alert that cannot be sent is only a line in a log.
    pub(crate) fn check_destinations(&self) -> Result<(), Problem> {
        let all = [("alert", &self.others.alerts), ("anchor", &self.others.anchors)];
        for (what, to) in
            all.into_iter().flat_map(|(what, all)| all.iter().map(move |to| (what, to)))
        {
            let (kind, checked) = match to {
                Destination::Command(words) => ("command", check_program(words)),
                Destination::File(file) => ("file", check_appendable(file)),
                Destination::Webhook(_) => continue,
            };
            checked.map_err(|cause| {
                let file = self.file.display();
                let message = format!("`{what}_{kind}` in `[{TABLE}]` of `{file}` cannot be used");
                Problem::usage(Code::BadValue, message).cause(cause)
            })?;
        }
        Ok(())
    }
}

/// Finds a program as it will be found.
fn check_program(words: &[String]) -> Result<(), String> {
    let program = words.first().map_or("", String::as_str);
    let is_program = |path: &Path| {
        found(path).is_some_and(|found| found.kind == FileKind::File)
            && access(path, Access::EXEC_OK).is_ok()
    };
    if program.contains('/') {
        return match Path::new(program) {
            path if is_program(path) => Ok(()),
            path if found(path).is_some() => {
                Err(format!("`{program}` is not a program that can be executed"))
            }
            _ => Err(format!("`{program}` does not exist")),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&path).any(|dir| is_program(&dir.join(program)));
    if is_found { Ok(()) } else { Err(format!("`{program}` is in no directory of PATH")) }
}

/// Checks that a line can be added to a file, without making it.
fn check_appendable(file: &Path) -> Result<(), String> {
    let shown = file.display();
    let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    match found(file).map(|found| found.kind) {
        Some(FileKind::Directory) => return Err(format!("`{shown}` is a directory")),
        Some(_) if is_writable(file) => return Ok(()),
        Some(_) => return Err(format!("`{shown}` cannot be written")),
        None => {}
    }
    let dir = file.parent().unwrap_or(Path::new("/"));
    let why = match found(dir).map(|found| found.kind) {
        Some(FileKind::Directory) if is_writable(dir) => return Ok(()),
        Some(FileKind::Directory) => format!("`{}` cannot be written", dir.display()),
        _ => format!("there is no directory `{}`", dir.display()),
    };
    Err(format!("`{shown}` cannot be made: {why}"))
}

/// Reads the table of the policy file, else of the user's file.
pub(crate) fn notify(flags: &PolicyFlags, around: &Surroundings) -> Result<Notify, Problem> {
    for file in around.operators_files(flags) {
        if let Some(notify) = of_file(&file)? {
            return Ok(notify);
        }
    }
    Ok(Notify::default())
}

/// Checks a file's table by itself, for `policy check`.
pub(super) fn check_file(file: &Path) -> Result<(), Problem> {
    of_file(file).map(drop)
}

fn of_file(file: &Path) -> Result<Option<Notify>, Problem> {
    let Some(table) =
        read_table(file)?.and_then(|mut all| all.remove(TABLE).or_else(|| all.remove(OLD_TABLE)))
    else {
        return Ok(None);
    };
    let wrong = |cause: String| {
        Problem::usage(
            Code::BadValue,
            format!("`[{TABLE}]` of `{}` cannot be used", file.display()),
        )
        .cause(cause.trim_end())
        .hint("docs/http.md shows what it can say")
    };
    let table: Table = table.try_into().map_err(|e: toml::de::Error| wrong(e.to_string()))?;
    let log = log(table.log.as_deref(), table.log_format.as_deref()).map_err(wrong)?;
    let others = decide(table).map_err(wrong)?;
    Ok(Some(Notify { others, log, file: file.to_owned() }))
}

fn log(level: Option<&str>, format: Option<&str>) -> Result<Log, String> {
    let usual = Log::default();
    let level = match level {
        None => usual.level,
        Some("off") => LevelFilter::OFF,
        Some("error") => LevelFilter::ERROR,
        Some("warn") => LevelFilter::WARN,
        Some("info") => LevelFilter::INFO,
        Some(other) => return Err(format!("`log` is off, error, warn or info, not `{other}`")),
    };
    let format = match format {
        None => usual.format,
        Some("text") => Format::Text,
        Some("json") => Format::Json,
        Some(other) => return Err(format!("`log_format` is text or json, not `{other}`")),
    };
    Ok(Log { level, format })
}

fn decide(table: Table) -> Result<NotifySettings, String> {
    let command = |name: &str, words: Option<Vec<String>>| match words {
        Some(words) if words.is_empty() => Err(format!("`{name}` names no program")),
        words => Ok(words.map(Destination::Command)),
    };
    let address = |name: &str, url: Option<String>| match url {
        Some(url) if !is_address(&url) => {
            Err(format!("`{name}` must begin with https:// or http:// and a host"))
        }
        url => Ok(url),
    };
    let file = match table.anchor_file {
        Some(path) if !path.is_absolute() => {
            return Err(format!("`anchor_file` must be absolute, and is `{}`", path.display()));
        }
        path => path.map(Destination::File),
    };
    let anchors: Vec<Destination> = [
        file,
        command("anchor_command", table.anchor_command)?,
        address("anchor_webhook", table.anchor_webhook)?.map(Destination::Webhook),
    ]
    .into_iter()
    .flatten()
    .collect();
    if table.anchor_every.is_some() && anchors.is_empty() {
        return Err("`anchor_every` says how often, and nothing says to whom".to_owned());
    }
    let every = table.anchor_every.map_or(Ok(ANCHOR_EVERY), |text| {
        text.parse::<Span>().map_err(|e| format!("`anchor_every` cannot be `{text}`: {e}"))
    })?;
    let alerts = [
        command("alert_command", table.alert_command)?,
        address("alert_webhook", table.alert_webhook)?.map(Destination::Webhook),
    ];
    Ok(NotifySettings {
        alerts: alerts.into_iter().flatten().collect(),
        anchor_every: (!anchors.is_empty()).then(|| Duration::from_millis(every.millis())),
        anchors,
        traces: address("traces", table.traces)?,
    })
}

/// Error about a URL that is none.
pub(crate) fn invalid_url(url: &str) -> Problem {
    Problem::usage(Code::BadValue, format!("invalid URL `{url}`"))
        .hint("a URL begins with https:// or http:// and a host")
}

/// Returns true if the URL is `http` or `https` with a host.
pub(crate) fn is_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']))
}

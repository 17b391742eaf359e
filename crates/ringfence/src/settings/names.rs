//! Names that are no settings, and the setting that was meant: by a near spelling, or by a name that is usual elsewhere.

use ringfence_spec::{Code, Problem};

use super::layer::IN_A_WORKSPACE;
use super::{Key, Origin, notify, rules, search, serve};

/// File that a name stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The user's, or a policy file.
    File,
    /// The system's ceilings.
    Ceilings,
    /// The workspace's own.
    Workspace,
}

/// Tables of an operator's file.
const TABLES: [&str; 4] = [rules::TABLE, serve::TABLE, search::TABLE, notify::TABLE];

/// Names that are usual elsewhere, and what is meant.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("network", "net"),
    ("allow_hosts", "net"),
    ("mem", "memory"),
    ("ram", "memory"),
    ("max_memory", "memory"),
    ("memory_max", "memory"),
    ("memory_limit", "memory"),
    ("cpu_time", "cpu"),
    ("max_cpu", "cpu"),
    ("max_pids", "pids"),
    ("processes", "pids"),
    ("max_processes", "pids"),
    ("wall_time", "timeout"),
    ("time_limit", "timeout"),
    ("max_time", "timeout"),
    ("deadline", "timeout"),
    ("max_output", "output"),
    ("max_disk", "disk"),
    ("disk_limit", "disk"),
    ("write", "rw"),
    ("writable", "rw"),
    ("read_write", "rw"),
    ("read", "ro"),
    ("readable", "ro"),
    ("read_only", "ro"),
    ("readonly", "ro"),
    ("hidden", "hide"),
    ("sockets", "socket"),
    ("environment", "env"),
    ("secrets", "secret"),
    ("workdir", "cwd"),
    ("state_dir", "data_dir"),
    ("imports", "allow_import"),
    ("interpreter", "python"),
];

/// Tables of other names.
const OTHER_TABLES: &[(&str, &str)] = &[
    ("server", serve::TABLE),
    ("service", serve::TABLE),
    ("http", serve::TABLE),
    ("policy", rules::TABLE),
    ("alerts", notify::TABLE),
];

/// The name nearest to a mistyped one.
pub(crate) fn nearest<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(text, name), name))
        .filter(|(distance, name)| *distance <= 2 && *distance < name.len())
        .min()
        .map(|(_, name)| name)
}

fn by_other_name(text: &str, others: &[(&str, &'static str)]) -> Option<&'static str> {
    others.iter().find(|(other, _)| *other == text).map(|(_, name)| *name)
}

/// The setting that a name stands for.
fn key_for(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase().replace('-', "_");
    by_other_name(&lower, OTHER_NAMES)
        .or_else(|| nearest(&lower, Key::ALL.iter().map(|key| key.name())))
}

fn list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The way out for a variable, whose name is given without `RINGFENCE_`.
pub(super) fn near_variable(short: &str) -> String {
    if let Some(near) = key_for(short) {
        return format!("did you mean `RINGFENCE_{}`?", near.to_ascii_uppercase());
    }
    let names = list(Key::ALL.iter().map(|key| key.name()));
    format!("it is RINGFENCE_ and one of these in upper case: {names}")
}

/// The error for a name in a file that is no setting.
pub(super) fn unknown(name: &str, value: &toml::Value, shown: &str, place: Place) -> Problem {
    let is_table = match value {
        toml::Value::Table(_) => true,
        toml::Value::Array(items) => items.first().is_some_and(toml::Value::is_table),
        _ => false,
    };
    let written = if is_table { format!("[{name}]") } else { name.to_owned() };
    if is_table
        && place == Place::Workspace
        && (TABLES.contains(&name) || name == notify::OLD_TABLE)
    {
        let message =
            format!("`[{name}]` cannot be set there: {} {IN_A_WORKSPACE}", Origin::Workspace);
        return Problem::usage(Code::KeyNotAllowedHere, message)
            .hint("put it into ~/.config/ringfence/config.toml, or a `--policy` file");
    }
    let hint = if is_table { near_table(name, place) } else { near_key(name, place) };
    Problem::usage(Code::UnknownKey, format!("`{written}` is not a setting in `{shown}`"))
        .hint(hint)
}

fn near_table(name: &str, place: Place) -> String {
    let lower = name.to_ascii_lowercase();
    let tables: &[&str] = match place {
        Place::File => &TABLES,
        Place::Ceilings => &[rules::TABLE],
        Place::Workspace => &[],
    };
    let near = by_other_name(&lower, OTHER_TABLES).filter(|table| tables.contains(table));
    if let Some(near) = near.or_else(|| nearest(&lower, tables.iter().copied())) {
        return format!("did you mean `[{near}]`?");
    }
    let top = "settings such as `timeout` and `memory` stand at the top of the file, in no table";
    match tables {
        [] => top.to_owned(),
        tables => {
            let names: Vec<String> = tables.iter().map(|table| format!("[{table}]")).collect();
            format!("{top}; the tables are {}", names.join(", "))
        }
    }
}

fn near_key(name: &str, place: Place) -> String {
    let lower = name.to_ascii_lowercase();
    if lower == "preset" && place == Place::File {
        return "`command_preset` is that of commands, `code_preset` that of Python".to_owned();
    }
    if place == Place::File && serve::KEYS.contains(&lower.as_str()) {
        return format!("`{lower}` stands in the table `[{}]`", serve::TABLE);
    }
    let is_allowed = |key: &&Key| match place {
        Place::File => true,
        Place::Ceilings => key.is_ceiling(),
        Place::Workspace => key.is_for_workspaces(),
    };
    if let Some(near) = key_for(name) {
        return format!("did you mean `{near}`?");
    }
    let keys = list(Key::ALL.iter().filter(is_allowed).map(|key| key.name()));
    format!("the settings there are {keys}")
}

//! One parsed source of settings: flags, variables, or a file. Errors name the unknown key or the bad value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use ringfence_spec::network::{NetworkLimit, RequestRule, UpstreamProxy};
use ringfence_spec::{
    ByteSize, Code, CodePreset, CommandPreset, Count, EnvGrant, Fallback, Network, Problem,
    ProcView, PublishedPort, SecretGrant, Span, SshAgentGrant, Tier, WorkerSpeedups,
};
use ringfence_sys::untrusted::{self, ReadError};
use rustix::io::Errno;

use super::names::{self, Place};
use super::{Faults, Key, Origin, Subject, own_flags};
use crate::cli::PolicyFlags;

/// Maximum size of a settings file.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum size of the workspace's own file: it holds a few limits and paths, and a run may have written it.
const WORKSPACE_FILE_BYTES_MAX: u64 = 64 << 10;

/// The variable that names a policy file, read before the others.
const POLICY_VARIABLE: &str = "RINGFENCE_POLICY";

/// What a workspace's own file may set.
pub(super) const IN_A_WORKSPACE: &str =
    "is in the workspace, where only limits, `hide`, `ro`, `net_deny` and `net_limit` may stand";

/// Variables of the test suite.
const TEST_PREFIX: &str = "RINGFENCE_TEST_";

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Switch {
    #[default]
    On,
    Off,
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::On { "on" } else { "off" })
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(format!("`{text}` is neither on nor off")),
        }
    }
}

/// A number of child processes, which may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Processes(pub(crate) Option<Count>);

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(0, Count::get).fmt(f)
    }
}

impl FromStr for Processes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self(None));
        }
        text.parse().map(|count| Self(Some(count))).map_err(|e| format!("{e}"))
    }
}

/// A parsed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Preset(CommandPreset),
    CodePreset(CodePreset),
    Span(Span),
    Size(ByteSize),
    Count(Count),
    Processes(Processes),
    Path(PathBuf),
    Paths(Vec<PathBuf>),
    Env(Vec<EnvGrant>),
    Network(Network),
    Address(std::net::SocketAddr),
    Proxy(UpstreamProxy),
    Secrets(Vec<SecretGrant>),
    SshAgent(Vec<SshAgentGrant>),
    Ports(Vec<PublishedPort>),
    Requests(Vec<RequestRule>),
    NetLimits(Vec<NetworkLimit>),
    /// Network rules, each a denial.
    Denials(Vec<String>),
    Tier(Tier),
    Fallback(Fallback),
    Proc(ProcView),
    Switch(Switch),
    Modules(Vec<String>),
    Speedups(WorkerSpeedups),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(v) => v.fmt(f),
            Self::Size(v) => v.fmt(f),
            Self::Count(v) => v.fmt(f),
            Self::Processes(v) => v.fmt(f),
            Self::Tier(v) => v.fmt(f),
            Self::Switch(v) => v.fmt(f),
            Self::Fallback(Fallback::Error) => f.write_str("error"),
            Self::Fallback(Fallback::Warn) => f.write_str("warn"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A source of settings.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) origin: Origin,
    pub(super) values: BTreeMap<Key, Value>,
}

impl Layer {
    /// Returns the value of a key in this source.
    pub(super) fn get(&self, key: Key) -> Option<&Value> {
        self.values.get(&key)
    }

    /// Returns the paths of a key in this source.
    pub(super) fn paths(&self, key: Key) -> Vec<PathBuf> {
        match self.get(key) {
            Some(Value::Paths(paths)) => paths.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the hosts that this source denies, as rules.
    pub(super) fn denials(&self) -> &[String] {
        match self.get(Key::NetDeny) {
            Some(Value::Denials(rules)) => rules,
            _ => &[],
        }
    }

    /// Returns the limits of the network in this source.
    pub(super) fn net_limits(&self) -> &[NetworkLimit] {
        match self.get(Key::NetLimit) {
            Some(Value::NetLimits(limits)) => limits,
            _ => &[],
        }
    }

    /// Parses flags. Paths are relative to the working directory.
    pub(super) fn from_flags(
        flags: &PolicyFlags,
        cwd: &Path,
        subject: Subject,
    ) -> Result<Self, Problem> {
        own_flags::refuse_foreign(flags, subject)?;
        let single = [
            (subject.preset(), &flags.preset),
            (Key::Python, &flags.python),
            (Key::CodeProcesses, &flags.code_processes),
            (Key::Timeout, &flags.timeout),
            (Key::Cpu, &flags.cpu),
            (Key::Memory, &flags.memory),
            (Key::Pids, &flags.pids),
            (Key::Fds, &flags.fds),
            (Key::Disk, &flags.disk),
            (Key::Output, &flags.output),
            (Key::Cwd, &flags.cwd),
            (Key::Net, &flags.net),
            (Key::Require, &flags.require),
            (Key::Fallback, &flags.fallback),
            (Key::Proc, &flags.proc),
            (Key::DataDir, &flags.data_dir),
            (Key::Audit, &flags.audit),
            (Key::Redact, &flags.redact),
        ];
        let lists = [
            (Key::Rw, &flags.rw),
            (Key::Ro, &flags.ro),
            (Key::Hide, &flags.hide),
            (Key::Socket, &flags.socket),
            (Key::Env, &flags.env),
            (Key::Secret, &flags.secret),
            (Key::SshAgent, &flags.ssh_agent),
            (Key::NetRequest, &flags.net_request),
            (Key::NetLimit, &flags.net_limit),
            (Key::Publish, &flags.publish),
            (Key::AllowImport, &flags.allow_import),
        ];
        let single = single
            .into_iter()
            .filter_map(|(key, value)| value.as_ref().map(|v| (key, vec![v.clone()])));
        let lists = lists
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| (key, values.clone()));
        let name = |key: Key| match key {
            Key::CommandPreset | Key::CodePreset => "--preset".to_owned(),
            key => format!("--{}", key.name().replace('_', "-")),
        };
        Self::build(Origin::Flag, single.chain(lists), &name, Some(cwd), &Faults::refused())
    }

    /// Parses `RINGFENCE_*` variables. Lists of paths are separated by colons, other lists by commas.
    pub(super) fn from_environment(
        environment: &BTreeMap<OsString, OsString>,
        cwd: &Path,
        faults: &Faults,
    ) -> Result<Self, Problem> {
        let mut pairs = Vec::new();
        let mut is_preset = false;
        for (name, value) in environment {
            let Some(name) = name.to_str().filter(|n| n.starts_with("RINGFENCE_")) else {
                continue;
            };
            if name.starts_with(TEST_PREFIX) || name == POLICY_VARIABLE {
                continue;
            }
            let short = name.trim_start_matches("RINGFENCE_").to_ascii_lowercase();
            let key = match short.as_str() {
                // One variable for both kinds of run: command and code presets share no name.
                "preset" if value.to_str().is_some_and(own_flags::is_for_code) => Key::CodePreset,
                "preset" => {
                    is_preset = true;
                    Key::CommandPreset
                }
                other => {
                    let Ok(key) = other.parse() else {
                        let message = format!("`{name}` is not a setting");
                        let problem = Problem::usage(Code::UnknownKey, message);
                        faults.of_key(None, problem.hint(names::near_variable(&short)))?;
                        continue;
                    };
                    key
                }
            };
            let Some(value) = value.to_str() else {
                let message = format!("`{name}` is not valid UTF-8");
                faults.of_key(Some(key), Problem::usage(Code::BadValue, message))?;
                continue;
            };
            let separator = match key {
                Key::Rw | Key::Ro | Key::Hide | Key::Socket => Some(':'),
                Key::Env
                | Key::AllowImport
                | Key::NetDeny
                | Key::NetLimit
                | Key::Publish
                | Key::SshAgent => Some(','),
                // A rule may hold commas, between its methods.
                Key::NetRequest => Some(';'),
                _ => None,
            };
            let values: Vec<String> = match separator {
                Some(s) => value.split(s).filter(|v| !v.is_empty()).map(str::to_owned).collect(),
                None => vec![value.to_owned()],
            };
            pairs.push((key, values));
        }
        let name = |key: Key| match key {
            Key::CommandPreset if is_preset => "RINGFENCE_PRESET".to_owned(),
            key => format!("RINGFENCE_{}", key.name().to_ascii_uppercase()),
        };
        Self::build(Origin::Environment, pairs, &name, Some(cwd), faults).map_err(|problem| {
            // It may name either kind, and this is neither.
            if is_preset && problem.message.contains("`RINGFENCE_PRESET`") {
                return problem.cause(
                    "choose workspace, readonly, minimal or agent for commands, data, standard, strict or open for Python",
                );
            }
            problem
        })
    }

    /// Parses a settings file; `None` if it does not exist. Paths in it must be absolute.
    pub(super) fn from_file(
        path: &Path,
        origin: Origin,
        faults: &Faults,
    ) -> Result<Option<Self>, Problem> {
        let mut table = match read_table(path) {
            Ok(Some(table)) => table,
            Ok(None) => return Ok(None),
            Err(problem) => {
                faults.of_file(path, problem)?;
                return Ok(None);
            }
        };
        // Not settings of a single run: read by `rules.rs`, `serve.rs`, `search.rs` and `notify.rs`.
        table.remove(super::rules::TABLE);
        let others = [super::search::TABLE, super::notify::TABLE, super::notify::OLD_TABLE];
        if origin == Origin::Ceiling {
            for other in others {
                if table.remove(other).is_some() {
                    let message = format!(
                        "`[{other}]` cannot be set there: {origin} sets ceilings; this table is not one"
                    );
                    faults.of_key(None, Problem::usage(Code::KeyNotAllowedHere, message))?;
                }
            }
        } else {
            super::serve::take_table(&mut table);
            for other in others {
                table.remove(other);
            }
        }
        let shown = path.display().to_string();
        let name = |key: Key| format!("{}` in `{shown}", key.name());
        let place = if origin == Origin::Ceiling { Place::Ceilings } else { Place::File };
        let mut pairs = pairs(table, &shown, place, faults)?;
        if origin == Origin::Ceiling {
            denials_of_net(&mut pairs);
        }
        Self::build(origin, pairs, &name, None, faults).map(Some)
    }

    /// Parses the workspace's own file, which may only restrict a run. Its paths stay relative to the workspace and
    /// are resolved below it, without links, when the run is built: they cannot name anything else.
    pub(super) fn from_workspace(
        path: &Path,
        workspace: &Path,
        faults: &Faults,
    ) -> Result<Option<Self>, Problem> {
        let text = match untrusted::read_file(path, WORKSPACE_FILE_BYTES_MAX) {
            Ok(text) => text,
            // A placeholder, a link or a directory is not the operator's file.
            Err(ReadError::NotAFile) => return Ok(None),
            Err(error) if error.is_missing() => return Ok(None),
            Err(ReadError::Call(error)) if error.errno == Errno::ACCESS => return Ok(None),
            Err(error) => {
                faults.of_key(None, unreadable(path, &error))?;
                return Ok(None);
            }
        };
        let table = match parse_table(path, text) {
            Ok(table) => table,
            Err(problem) => {
                faults.of_key(None, problem)?;
                return Ok(None);
            }
        };
        let shown = path.display().to_string();
        let name = |key: Key| format!("{}` in `{shown}", key.name());
        let mut pairs = pairs(table, &shown, Place::Workspace, faults)?;
        denials_of_net(&mut pairs);
        let mut layer = Self::build(Origin::Workspace, pairs, &name, Some(workspace), faults)?;
        layer.only(Key::is_for_workspaces, IN_A_WORKSPACE, faults)?;
        for key in [Key::Ro, Key::Hide] {
            let paths = layer.paths(key);
            match paths.iter().map(|path| below(path, workspace)).collect::<Result<Vec<_>, _>>() {
                Ok(paths) if paths.is_empty() => {}
                Ok(paths) => {
                    layer.values.insert(key, Value::Paths(paths));
                }
                Err(path) => {
                    let named = path.display();
                    return Err(Problem::usage(
                        Code::WorkspacePolicy,
                        format!("`{shown}` names `{named}`, which is not inside the workspace"),
                    )
                    .hint("a workspace's own file can only restrict what is in it"));
                }
            }
        }
        Ok(Some(layer))
    }

    /// Refuses keys that this source may not set.
    pub(super) fn only(
        &mut self,
        allowed: fn(Key) -> bool,
        why: &str,
        faults: &Faults,
    ) -> Result<(), Problem> {
        let wrong: Vec<Key> = self.values.keys().copied().filter(|key| !allowed(*key)).collect();
        for key in wrong {
            self.values.remove(&key);
            let message = format!("`{}` cannot be set there: {} {why}", key.name(), self.origin);
            faults.of_key(Some(key), Problem::usage(Code::KeyNotAllowedHere, message))?;
        }
        Ok(())
    }

    fn build(
        origin: Origin,
        pairs: impl IntoIterator<Item = (Key, Vec<String>)>,
        name: &dyn Fn(Key) -> String,
        base: Option<&Path>,
        faults: &Faults,
    ) -> Result<Self, Problem> {
        let mut values = BTreeMap::new();
        for (key, texts) in pairs {
            match parse(key, &texts, base) {
                Ok(value) => {
                    values.insert(key, value);
                }
                Err(why) => {
                    let message = format!("`{}` has a bad value", name(key));
                    let problem = Problem::usage(Code::BadValue, message).cause(why);
                    faults.of_key(
                        Some(key),
                        match key {
                            Key::SshAgent => problem.hint(SshAgentGrant::FORMS),
                            _ => problem,
                        },
                    )?;
                }
            }
        }
        Ok(Self { origin, values })
    }
}

fn parse(key: Key, texts: &[String], base: Option<&Path>) -> Result<Value, String> {
    fn one<T>(texts: &[String], wrap: fn(T) -> Value) -> Result<Value, String>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        match texts {
            [text] => text.parse().map(wrap).map_err(|e: T::Err| e.to_string()),
            _ => Err("one value is expected".to_owned()),
        }
    }
    fn all<T>(texts: &[String], wrap: fn(Vec<T>) -> Value) -> Result<Value, String>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let parse = |text: &String| text.parse().map_err(|e: T::Err| e.to_string());
        texts.iter().map(parse).collect::<Result<_, _>>().map(wrap)
    }
    match key {
        Key::CommandPreset => one(texts, Value::Preset),
        Key::Timeout | Key::Cpu => one(texts, Value::Span),
        Key::Memory | Key::Disk => {
            // Fewer bytes than either has use for: a number that was meant with a unit.
            const BYTES_MIN: u64 = 64 << 10;
            let text = texts.first().map_or("", |text| text.trim());
            let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
            match one(texts, Value::Size) {
                Ok(Value::Size(size)) if is_bare && size.bytes() < BYTES_MIN => {
                    Err(format!("`{text}` without a unit are bytes; write `{text}M`"))
                }
                parsed => parsed,
            }
        }
        Key::Output => one(texts, Value::Size),
        Key::Pids | Key::Fds | Key::WorkerZygotes => one(texts, Value::Count),
        Key::CodeProcesses => one(texts, Value::Processes),
        Key::Net => one(texts, Value::Network),
        Key::Secret => all(texts, Value::Secrets),
        Key::SshAgent => all(texts, Value::SshAgent),
        Key::Publish => all(texts, Value::Ports),
        Key::NetRequest => all(texts, Value::Requests),
        Key::NetLimit => all(texts, Value::NetLimits),
        Key::NetDeny => {
            texts.iter().map(|t| denial(t)).collect::<Result<_, _>>().map(Value::Denials)
        }
        Key::NetProxy => one(texts, Value::Proxy),
        Key::NetResolver => one(texts, Value::Address)
            .map_err(|_| "write ADDRESS:PORT of a name server, such as 192.0.2.1:53".to_owned()),
        Key::Require => one(texts, Value::Tier),
        Key::Fallback => one(texts, Value::Fallback),
        Key::Proc => one(texts, Value::Proc),
        Key::Audit | Key::Redact => one(texts, Value::Switch),
        Key::WorkerSpeedups => one(texts, Value::Speedups),
        Key::Cwd | Key::DataDir | Key::NetCa => match texts {
            [text] => path(text, base).map(Value::Path),
            _ => Err("one path is expected".to_owned()),
        },
        Key::Rw | Key::Ro | Key::Hide | Key::Socket => {
            texts.iter().map(|t| path(t, base)).collect::<Result<_, _>>().map(Value::Paths)
        }
        Key::Env => texts.iter().map(|t| t.parse()).collect::<Result<_, _>>().map(Value::Env),
        Key::CodePreset | Key::CodePresetAtLeast => one(texts, Value::CodePreset),
        Key::Python => match texts {
            // A name without a slash is searched for in PATH.
            [text] if !text.contains('/') && !text.is_empty() => Ok(Value::Path(text.into())),
            [text] => path(text, base).map(Value::Path),
            _ => Err("one path is expected".to_owned()),
        },
        Key::AllowImport => {
            texts.iter().map(|t| module(t)).collect::<Result<_, _>>().map(Value::Modules)
        }
    }
}

/// Reads `net = "deny:HOST,…"` as `net_deny`, in a source that may only restrict a run.
fn denials_of_net(pairs: &mut Vec<(Key, Vec<String>)>) {
    let is_denial = |text: &String| text.split(',').all(|rule| rule.trim().starts_with("deny:"));
    let only_denies = |(key, texts): &(Key, Vec<String>)| {
        *key == Key::Net && !texts.is_empty() && texts.iter().all(is_denial)
    };
    let Some(at) = pairs.iter().position(only_denies) else { return };
    let (_, texts) = pairs.remove(at);
    let rules = texts.iter().flat_map(|text| text.split(',')).map(|rule| rule.trim().to_owned());
    match pairs.iter_mut().find(|(key, _)| *key == Key::NetDeny) {
        Some((_, known)) => known.extend(rules),
        None => pairs.push((Key::NetDeny, rules.collect())),
    }
}

/// A host, or a pattern of hosts, that no run may reach.
fn denial(text: &str) -> Result<String, String> {
    let rule = if text.starts_with("deny:") { text.to_owned() } else { format!("deny:{text}") };
    rule.parse::<ringfence_spec::network::NetworkRule>().map(|_| rule)
}

/// A module name, dots included.
fn module(text: &str) -> Result<String, String> {
    let is_name = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    if text.split('.').all(is_name) {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a module; write a name such as yaml or scipy.stats"))
    }
}

fn path(text: &str, base: Option<&Path>) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if text.as_bytes().contains(&0) {
        return Err("the path contains a NUL byte".to_owned());
    }
    let path = Path::new(text);
    match base {
        Some(base) => Ok(base.join(path)),
        None if path.is_absolute() => Ok(path.to_owned()),
        None => Err(format!("`{text}` is relative; paths in a settings file must be absolute")),
    }
}

/// Reads a file of the operator or the user; `None` if there is none.
pub(super) fn read_table(path: &Path) -> Result<Option<toml::Table>, Problem> {
    match untrusted::read_trusted(path, FILE_BYTES_MAX) {
        Ok(text) => parse_table(path, text).map(Some),
        Err(error) if error.is_missing() => Ok(None),
        // A directory of another user's on the path: those settings are not for this user.
        Err(ReadError::Call(error)) if error.errno == Errno::ACCESS => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, why: &ReadError) -> Problem {
    let message = format!("cannot read `{}`", path.display());
    Problem::usage(Code::SettingsUnreadable, message).cause(why)
}

fn parse_table(path: &Path, text: Vec<u8>) -> Result<toml::Table, Problem> {
    let wrong = |why: &dyn fmt::Display| {
        let message = format!("`{}` is not valid TOML", path.display());
        Problem::usage(Code::SettingsSyntax, message).cause(why)
    };
    let text = String::from_utf8(text).map_err(|e| wrong(&e.utf8_error()))?;
    text.parse::<toml::Table>().map_err(|e| wrong(&e.to_string().trim_end()))
}

/// Makes a path of the workspace's own file relative to the workspace. The error is the path, if it is outside.
fn below<'a>(path: &'a PathBuf, workspace: &Path) -> Result<PathBuf, &'a PathBuf> {
    let below = path.strip_prefix(workspace).map_err(|_| path)?;
    let plain: Option<PathBuf> = below
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    plain.filter(|plain| !plain.as_os_str().is_empty()).ok_or(path)
}

fn pairs(
    table: toml::Table,
    shown: &str,
    place: Place,
    faults: &Faults,
) -> Result<Vec<(Key, Vec<String>)>, Problem> {
    let mut list = Vec::new();
    for (name, value) in table {
        let Ok(key) = name.parse::<Key>() else {
            faults.of_key(None, names::unknown(&name, &value, shown, place))?;
            continue;
        };
        let value_kind = value.type_str();
        let texts = match value {
            toml::Value::Array(items) => items.iter().map(text).collect::<Option<Vec<_>>>(),
            other => text(&other).map(|t| vec![t]),
        };
        let Some(texts) = texts else {
            let message = format!("`{name}` in `{shown}` has a bad value");
            let problem = Problem::usage(Code::BadValue, message).cause(match value_kind {
                "boolean" => "a switch is the text `on` or `off`, in quotation marks",
                _ => "a text, a number or a list of texts is expected",
            });
            faults.of_key(Some(key), problem)?;
            continue;
        };
        list.push((key, texts));
    }
    Ok(list)
}

pub(super) fn text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(s) => Some(s.clone()),
        toml::Value::Integer(n) => Some(n.to_string()),
        _ => None,
    }
}

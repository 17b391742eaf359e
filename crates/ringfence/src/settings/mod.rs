//! Precedence of policy values: flag, else policy file, else environment, else the user's file, else the preset; never
//! above the system's ceilings, lowered further by the workspace's own file. Values are parsed in one place.

mod faults;
mod key;
mod layer;
mod log;
mod names;
mod notify;
mod own_flags;
mod rules;
mod search;
mod serve;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_engine::host::{FileId, own_cwd, ready_data_dir, resolve, user_data_dir, xdg_dir};
use ringfence_engine::{CodePolicy, CodeRules, HostContext, LoweredLimit, Redaction, Remarks};
use ringfence_spec::{
    Code, CodePreset, CommandPreset, Count, EnvGrant, Fallback, Limits, LimitsMax, Network, Policy,
    Problem, ProcView, Tier,
};

use crate::cli::PolicyFlags;
pub(crate) use faults::Faults;
pub(crate) use key::Key;
pub(crate) use layer::Switch;
use layer::{Layer, Value};
pub(crate) use notify::{invalid_url, is_address, notify};
pub(crate) use own_flags::foreign_flags;
pub(crate) use rules::rules;
pub(crate) use search::search;
pub(crate) use serve::service;

macro_rules! pick {
    ($source:expr, $key:ident, $variant:ident) => {
        match $source.get(Key::$key) {
            Some(Value::$variant(value)) => Some(value.clone()),
            _ => None,
        }
    };
}

/// The system's ceilings file.
const CEILINGS: &str = "/etc/ringfence/config.toml";

/// The workspace's own file.
const WORKSPACE_FILE: &str = "ringfence.toml";

/// Source of a value, for `policy show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag.
    Flag,
    /// `--policy FILE`.
    PolicyFile(PathBuf),
    /// A variable.
    Environment,
    /// The user's settings.
    User(PathBuf),
    /// The preset.
    Preset,
    /// A ceiling lowered it.
    Ceiling,
    /// The workspace's file lowered it.
    Workspace,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::PolicyFile(path) | Self::User(path) => path.display().fmt(f),
            Self::Environment => f.write_str("environment"),
            Self::Preset => f.write_str("preset"),
            Self::Ceiling => f.write_str(CEILINGS),
            Self::Workspace => f.write_str(WORKSPACE_FILE),
        }
    }
}

/// The effective policy of a command run.
#[derive(Debug)]
pub(crate) struct Effective {
    /// The policy.
    pub(crate) policy: Policy,
    /// Screening rules for Python code.
    pub(crate) code: CodeRules,
    /// Child processes of Python programs.
    pub(crate) code_processes: Option<Count>,
    /// Directories and environment the run starts with.
    pub(crate) place: HostContext,
    /// Recording of calls in the ledger.
    pub(crate) audit: Switch,
    /// Redaction of secrets in captured output.
    pub(crate) redaction: Redaction,
    /// What the settings have to say about every run.
    pub(crate) remarks: Remarks,
    /// Source of each key's value.
    pub(crate) origins: BTreeMap<Key, Origin>,
}

/// The effective policy of Python runs.
#[derive(Debug)]
pub(crate) struct EffectiveCode {
    /// The policy.
    pub(crate) policy: CodePolicy,
    /// Directories and environment that runs start with.
    pub(crate) place: HostContext,
    /// Recording of calls in the ledger.
    pub(crate) audit: Switch,
    /// Redaction of secrets in captured output.
    pub(crate) redaction: Redaction,
    /// What the settings have to say about every run.
    pub(crate) remarks: Remarks,
}

/// Returns the path of a data directory's ledger; `None` if the ledger is off.
pub(crate) fn ledger(place: &HostContext, audit: Switch) -> Option<PathBuf> {
    (audit == Switch::On).then(|| place.state.join("ledger"))
}

/// Kind of run that settings are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A command.
    Command,
    /// Python code.
    Code,
}

impl Subject {
    /// Returns the key that `--preset` sets.
    fn preset(self) -> Key {
        match self {
            Self::Command => Key::CommandPreset,
            Self::Code => Key::CodePreset,
        }
    }
}

/// Environment of this process, read once, so that tests can replace it.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The environment variables.
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// Its identity.
    pub(crate) cwd_id: Option<FileId>,
    /// Physical memory.
    pub(crate) memory_total_bytes: u64,
    /// Path of the ceilings file.
    pub(crate) ceilings: PathBuf,
    /// True if the program will have a terminal.
    pub(crate) terminal: bool,
}

impl Surroundings {
    /// Reads the surroundings of this process.
    pub(crate) fn real(terminal: bool) -> Result<Self, Problem> {
        let (cwd, cwd_id) = own_cwd().map_err(|e| {
            Problem::usage(Code::NoCwd, "the working directory cannot be found").cause(e)
        })?;
        let info = rustix::system::sysinfo();
        Ok(Self {
            environment: std::env::vars_os().collect(),
            cwd,
            cwd_id: Some(cwd_id),
            memory_total_bytes: u64::from(info.mem_unit).max(1) * info.totalram,
            ceilings: CEILINGS.into(),
            terminal,
        })
    }

    fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment.get(std::ffi::OsStr::new(name)).filter(|v| !v.is_empty())
    }

    /// Returns the path of the policy file as given by flag or variable.
    fn policy_file(&self, flags: &PolicyFlags) -> Option<PathBuf> {
        flags.policy.clone().or_else(|| self.variable("RINGFENCE_POLICY").map(PathBuf::from))
    }

    /// Returns the files with an operator's settings for more than one run, in order of precedence.
    fn operators_files(&self, flags: &PolicyFlags) -> impl Iterator<Item = PathBuf> {
        let policy = self.policy_file(flags).map(|file| self.cwd.join(file));
        let user = self.xdg("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("config.toml"));
        policy.into_iter().chain(user)
    }

    /// The files of settings that exist.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let flags = PolicyFlags::default();
        let workspace = self.cwd.join(WORKSPACE_FILE);
        let all = self.operators_files(&flags).chain([self.ceilings.clone(), workspace]);
        all.filter(|file| ringfence_engine::host::found(file).is_some()).collect()
    }

    fn xdg(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        xdg_dir(self.variable(variable).cloned(), self.variable("HOME").cloned(), below_home)
    }
}

/// Returns the effective policy of a command run.
pub(crate) fn effective(flags: &PolicyFlags, around: &Surroundings) -> Result<Effective, Problem> {
    effective_but_for(flags, around, &Faults::refused())
}

/// The same without what is at fault, for commands that only show it.
pub(crate) fn effective_but_for(
    flags: &PolicyFlags,
    around: &Surroundings,
    faults: &Faults,
) -> Result<Effective, Problem> {
    decide(&Sources::gather(flags, around, Subject::Command, faults)?, around)
}

/// Returns the effective policy of Python runs.
pub(crate) fn effective_code(
    flags: &PolicyFlags,
    around: &Surroundings,
) -> Result<EffectiveCode, Problem> {
    effective_code_but_for(flags, around, &Faults::refused())
}

/// The same without what is at fault, for commands that only show it.
pub(crate) fn effective_code_but_for(
    flags: &PolicyFlags,
    around: &Surroundings,
    faults: &Faults,
) -> Result<EffectiveCode, Problem> {
    let sources = Sources::gather(flags, around, Subject::Code, faults)?;
    let Sources { chosen, .. } = &sources;
    // In a file or a variable these two are for commands.
    if let Some(Network::Allow(rules)) = pick!(chosen, Net, Network)
        && chosen.is_by_flag(Key::Net)
    {
        return Err(Problem::cannot_build(
            Code::NetworkAllowlistUnsupported,
            format!("cannot open the network for `{rules}`"),
        )
        .cause("Python runs have no network")
        .hint("leave out `--net`, or pass `--net none`"));
    }
    if pick!(chosen, Fallback, Fallback) == Some(Fallback::Warn) && chosen.is_by_flag(Key::Fallback)
    {
        return Err(Problem::usage(
            Code::NoFallback,
            "`--fallback warn` is for commands: Python runs in the full tier or not at all",
        ));
    }
    let rules = sources.code_rules()?;
    let mut origins = sources.origins();
    let limits = sources.limits(Limits::for_code(rules.preset), &mut origins)?;
    Ok(EffectiveCode {
        policy: CodePolicy {
            rules,
            limits,
            python: pick!(chosen, Python, Path),
            speedups: pick!(chosen, WorkerSpeedups, Speedups).unwrap_or_default(),
            zygotes: pick!(chosen, WorkerZygotes, Count),
            // A grant in a file is for commands.
            ro: match chosen.values.get(&Key::Ro) {
                Some((Value::Paths(paths), Origin::Flag)) => paths.clone(),
                _ => Vec::new(),
            },
            processes: pick!(chosen, CodeProcesses, Processes).and_then(|n| n.0),
        },
        place: HostContext {
            environment: around.environment.clone(),
            state: state_dir(chosen, around),
            cwd: sources.cwd.clone(),
            cwd_id: sources.cwd_id,
            config: sources.config.clone(),
        },
        audit: pick!(chosen, Audit, Switch).unwrap_or_default(),
        redaction: sources.redaction(),
        remarks: sources.remarks(&origins),
    })
}

/// Returns the screening rules for Python code, for a command that runs none, and warnings about faults of other settings.
pub(crate) fn code_rules(
    flags: &PolicyFlags,
    around: &Surroundings,
) -> Result<(CodeRules, Vec<String>), Problem> {
    const NEEDED: &[Key] = &[Key::CodePreset, Key::CodePresetAtLeast, Key::AllowImport];
    let faults = Faults::noted_but_of(NEEDED);
    let rules = Sources::gather(flags, around, Subject::Code, &faults)?.code_rules()?;
    Ok((rules, faults.warnings()))
}

/// All sources of settings, parsed.
struct Sources {
    own_directories: Option<(String, Vec<String>)>,
    chosen: Chosen,
    ceilings: Option<Layer>,
    workspace: Option<Layer>,
    cwd: PathBuf,
    /// Identity of the process's own; that of a directory that a setting names is found when the engine is built.
    cwd_id: Option<FileId>,
    config: Option<PathBuf>,
}

impl Chosen {
    /// Values that the caller may set: by flag, policy file, variable and the user's file.
    fn gather(
        flags: &PolicyFlags,
        around: &Surroundings,
        subject: Subject,
        faults: &Faults,
    ) -> Result<Self, Problem> {
        let mut layers = vec![Layer::from_flags(flags, &around.cwd, subject)?];
        if let Some(file) = &around.policy_file(flags) {
            let path = around.cwd.join(file);
            let n_noted = faults.n_noted();
            let layer = Layer::from_file(&path, Origin::PolicyFile(file.clone()), faults)?;
            if layer.is_none() && faults.n_noted() == n_noted {
                let message = format!("`{}` does not exist", file.display());
                return Err(Problem::usage(Code::PolicyNotFound, message));
            }
            layers.extend(layer);
        }
        layers.push(Layer::from_environment(&around.environment, &around.cwd, faults)?);
        if let Some(dir) = around.xdg("XDG_CONFIG_HOME", ".config") {
            let file = dir.join("config.toml");
            layers.extend(Layer::from_file(&file, Origin::User(file.clone()), faults)?);
        }
        Ok(Self::merge(layers))
    }
}

impl Sources {
    fn gather(
        flags: &PolicyFlags,
        around: &Surroundings,
        subject: Subject,
        faults: &Faults,
    ) -> Result<Self, Problem> {
        let config = around.xdg("XDG_CONFIG_HOME", ".config");
        let chosen = Chosen::gather(flags, around, subject, faults)?;
        let mut ceilings = Layer::from_file(&around.ceilings, Origin::Ceiling, faults)?;
        if let Some(ceilings) = &mut ceilings {
            ceilings.only(Key::is_ceiling, "sets ceilings; this key is not one", faults)?;
        }
        let (cwd, cwd_id) = match chosen.get(Key::Cwd) {
            Some(Value::Path(path)) => (path.clone(), None),
            _ => (around.cwd.clone(), around.cwd_id),
        };
        let workspace = Layer::from_workspace(&cwd.join(WORKSPACE_FILE), &cwd, faults)?;
        Ok(Self {
            own_directories: flags.own_directories.clone(),
            chosen,
            ceilings,
            workspace,
            cwd,
            cwd_id,
            config,
        })
    }

    /// Redaction of results: the chosen value, else that of the ceilings.
    fn redaction(&self) -> Redaction {
        let ceiling = self.ceilings.as_ref().and_then(|layer| pick!(layer, Redact, Switch));
        match pick!(self.chosen, Redact, Switch).or(ceiling) {
            Some(Switch::On) => Redaction::Answers,
            Some(Switch::Off) | None => Redaction::LedgerOnly,
        }
    }

    /// Returns the screening rules. The default preset is tightened to the floor; a looser one that was asked for is
    /// refused.
    fn code_rules(&self) -> Result<CodeRules, Problem> {
        let floors = [
            pick!(self.chosen, CodePresetAtLeast, CodePreset),
            self.ceilings.as_ref().and_then(|layer| pick!(layer, CodePresetAtLeast, CodePreset)),
        ];
        let floor = floors.into_iter().flatten().min();
        let preset = match (pick!(self.chosen, CodePreset, CodePreset), floor) {
            (Some(asked), Some(floor)) if asked > floor => {
                return Err(Problem::refused(
                    Code::Ceiling,
                    format!("the preset `{asked}` is looser than `code_preset_at_least` allows"),
                )
                .hint(format!("ask for `{floor}`, or a tighter preset")));
            }
            (Some(asked), _) => asked,
            (None, floor) => CodePreset::default().min(floor.unwrap_or(CodePreset::Open)),
        };
        let extra_imports = pick!(self.chosen, AllowImport, Modules).unwrap_or_default();
        Ok(CodeRules { preset, loosest: floor.unwrap_or(CodePreset::Open), extra_imports })
    }

    /// Returns the source of each key's value.
    fn origins(&self) -> BTreeMap<Key, Origin> {
        let preset = Key::ALL.iter().map(|key| (*key, Origin::Preset));
        // Values that these files add; limits are compared by `limits`, the rest by `decide`.
        let added = [Key::Hide, Key::NetDeny, Key::NetLimit, Key::Redact, Key::Ro];
        let others = self.workspace.iter().chain(&self.ceilings).flat_map(|layer| {
            let set = added.into_iter().filter(|key| layer.get(*key).is_some());
            set.map(|key| (key, layer.origin.clone()))
        });
        let chosen = self.chosen.values.iter().map(|(key, (_, origin))| (*key, origin.clone()));
        preset.chain(others).chain(chosen).collect()
    }

    /// Applies the chosen values to a preset's limits, never above the ceilings, lowered by the workspace.
    fn limits(
        &self,
        mut limits: Limits,
        origins: &mut BTreeMap<Key, Origin>,
    ) -> Result<Limits, Problem> {
        let chosen = &self.chosen;
        if let Some(v) = pick!(chosen, Timeout, Span) {
            limits.timeout = Some(v);
        }
        if let Some(v) = pick!(chosen, Cpu, Span) {
            limits.cpu = Some(v);
        }
        if let Some(v) = pick!(chosen, Memory, Size) {
            limits.memory = Some(v);
        }
        if let Some(v) = pick!(chosen, Pids, Count) {
            limits.pids = Some(v);
        }
        if let Some(v) = pick!(chosen, Fds, Count) {
            limits.fds = Some(v);
        }
        if let Some(v) = pick!(chosen, Disk, Size) {
            limits.disk = Some(v);
        }
        if let Some(v) = pick!(chosen, Output, Size) {
            limits.output = v;
        }
        if let Some(layer) = &self.ceilings {
            refuse_above(chosen, layer)?;
            limits = lower(limits, layer, &Origin::Ceiling, origins);
        }
        if let Some(layer) = &self.workspace {
            limits = lower(limits, layer, &Origin::Workspace, origins);
        }
        Ok(limits)
    }

    /// Limits that a file lowered: named where one ends a run, and noted where another value was asked for.
    fn remarks(&self, origins: &BTreeMap<Key, Origin>) -> Remarks {
        let mut remarks = Remarks::default();
        for key in [Key::Rw, Key::Ro, Key::Socket, Key::Cwd, Key::NetCa] {
            let place = match self.chosen.values.get(&key) {
                None | Some((_, Origin::Flag)) => continue,
                Some((_, Origin::Environment)) => {
                    format!("the variable `RINGFENCE_{}`", key.name().to_ascii_uppercase())
                }
                Some((_, origin)) => format!("`{origin}`"),
            };
            remarks.set_in.push((key.name(), place));
        }
        let of_files = [(Origin::Ceiling, &self.ceilings), (Origin::Workspace, &self.workspace)];
        for (origin, layer) in of_files {
            let Some(layer) = layer else { continue };
            for (key, value) in layer.values.iter().filter(|(key, _)| key.is_limit()) {
                if origins.get(key) != Some(&origin) {
                    continue;
                }
                remarks.lowered.push(LoweredLimit { key: key.name(), file: origin.to_string() });
                if let Some(asked) = self.chosen.get(*key) {
                    remarks.notes.push(format!(
                        "the workspace's `{origin}` allows a `{}` of {value}; {asked} was asked for",
                        key.name()
                    ));
                }
            }
        }
        remarks
    }

    /// The network with the denials of every source.
    fn network(&self) -> Result<Network, Problem> {
        let Network::Allow(mut rules) = pick!(self.chosen, Net, Network).unwrap_or(Network::None)
        else {
            return Ok(Network::None);
        };
        let chosen = match self.chosen.get(Key::NetDeny) {
            Some(Value::Denials(denials)) => denials.as_slice(),
            _ => &[],
        };
        let others = self.ceilings.iter().chain(&self.workspace).flat_map(Layer::denials);
        rules
            .with_denials(chosen.iter().chain(others).map(String::as_str))
            .map_err(|e| Problem::usage(Code::BadValue, "`net_deny` has a bad value").cause(e))?;
        Ok(Network::Allow(rules))
    }

    /// The limits of the network of every source: each applies.
    fn net_limits(&self) -> Vec<ringfence_spec::network::NetworkLimit> {
        let mut limits = pick!(self.chosen, NetLimit, NetLimits).unwrap_or_default();
        let others = self.ceilings.iter().chain(&self.workspace).flat_map(Layer::net_limits);
        limits.extend(others.cloned());
        limits
    }
}

/// Merged layers: the first layer that sets a key wins; lists of hidden paths and of denied hosts add up.
struct Chosen {
    values: BTreeMap<Key, (Value, Origin)>,
}

impl Chosen {
    fn merge(layers: Vec<Layer>) -> Self {
        let mut values: BTreeMap<Key, (Value, Origin)> = BTreeMap::new();
        for layer in layers {
            for (key, value) in layer.values {
                match (key, values.get_mut(&key), value) {
                    (Key::Hide, Some((Value::Paths(known), _)), Value::Paths(more)) => {
                        known.extend(more);
                    }
                    (Key::NetDeny, Some((Value::Denials(known), _)), Value::Denials(more)) => {
                        known.extend(more);
                    }
                    (_, Some(_), _) => {}
                    (_, None, value) => {
                        values.insert(key, (value, layer.origin.clone()));
                    }
                }
            }
        }
        Self { values }
    }

    fn get(&self, key: Key) -> Option<&Value> {
        self.values.get(&key).map(|(value, _)| value)
    }

    /// Returns true if a flag set this key.
    fn is_by_flag(&self, key: Key) -> bool {
        matches!(self.values.get(&key), Some((_, Origin::Flag)))
    }

    fn paths(&self, key: Key) -> Vec<PathBuf> {
        match self.get(key) {
            Some(Value::Paths(paths)) => paths.clone(),
            _ => Vec::new(),
        }
    }
}

fn decide(sources: &Sources, around: &Surroundings) -> Result<Effective, Problem> {
    let Sources { chosen, ceilings, workspace, cwd, config, .. } = sources;
    let mut origins = sources.origins();
    let preset = pick!(chosen, CommandPreset, Preset).unwrap_or_default();
    let limits = sources.limits(preset_limits(preset, around), &mut origins)?;
    let mut require: Option<Tier> = pick!(chosen, Require, Tier);
    let mut fallback: Fallback = pick!(chosen, Fallback, Fallback).unwrap_or_default();
    let mut hide = chosen.paths(Key::Hide);
    let (mut workspace_ro, mut workspace_hide) = (Vec::new(), Vec::new());
    if let Some(layer) = ceilings {
        if let Some(tier) = pick!(layer, Require, Tier)
            && require.is_none_or(|asked| !asked.satisfies(tier))
        {
            require = Some(tier);
            origins.insert(Key::Require, Origin::Ceiling);
        }
        if pick!(layer, Fallback, Fallback) == Some(Fallback::Error) && fallback == Fallback::Warn {
            fallback = Fallback::Error;
            origins.insert(Key::Fallback, Origin::Ceiling);
        }
        hide.extend(layer.paths(Key::Hide));
    }
    if let Some(layer) = workspace {
        workspace_hide = layer.paths(Key::Hide);
        // Both only restrict, and `hide` restricts more: no conflict, unlike with a caller's own grant.
        let taken = |path: &PathBuf| workspace_hide.iter().any(|hidden| path.starts_with(hidden));
        workspace_ro = layer.paths(Key::Ro).into_iter().filter(|path| !taken(path)).collect();
    }
    let env = pick!(chosen, Env, Env).unwrap_or_default();
    let mut remarks = sources.remarks(&origins);
    for grant in &env {
        if let EnvGrant::Inherit(name) = grant
            && !around.environment.contains_key(std::ffi::OsStr::new(name))
        {
            remarks.notes.push(format!("`{name}` of `env` is not set here, so the run has none"));
        }
    }
    Ok(Effective {
        policy: Policy {
            preset,
            limits,
            rw: chosen.paths(Key::Rw),
            ro: chosen.paths(Key::Ro),
            hide,
            workspace_ro,
            workspace_hide,
            sockets: chosen.paths(Key::Socket),
            env,
            network: sources.network()?,
            resolver: pick!(chosen, NetResolver, Address),
            upstream: pick!(chosen, NetProxy, Proxy),
            own_directories: sources.own_directories.clone(),
            secrets: pick!(chosen, Secret, Secrets).unwrap_or_default(),
            ssh_agent: pick!(chosen, SshAgent, SshAgent).unwrap_or_default(),
            publish: pick!(chosen, Publish, Ports).unwrap_or_default(),
            net_requests: pick!(chosen, NetRequest, Requests).unwrap_or_default(),
            net_limits: sources.net_limits(),
            net_ca: pick!(chosen, NetCa, Path),
            require,
            fallback,
            proc: pick!(chosen, Proc, Proc).unwrap_or(ProcView::Own),
        },
        code: sources.code_rules()?,
        code_processes: pick!(chosen, CodeProcesses, Processes).and_then(|n| n.0),
        place: HostContext {
            environment: around.environment.clone(),
            cwd: cwd.clone(),
            cwd_id: sources.cwd_id,
            state: state_dir(chosen, around),
            config: config.clone(),
        },
        audit: pick!(chosen, Audit, Switch).unwrap_or_default(),
        redaction: sources.redaction(),
        remarks,
        origins,
    })
}

/// R4.1: the preset's limits, without a timeout at a terminal.
fn preset_limits(preset: CommandPreset, around: &Surroundings) -> Limits {
    let mut limits = Limits::for_preset(preset, around.memory_total_bytes);
    if around.terminal {
        limits.timeout = None;
    }
    limits
}

/// Returns a file's path as named, and its resolved path.
pub(crate) fn named_and_resolved(file: &Path) -> std::io::Result<[PathBuf; 2]> {
    let named = std::path::absolute(file)?;
    let resolved = resolve(&named).map_err(std::io::Error::other)?;
    Ok([named, resolved.found.path])
}

/// Makes the data directory if it does not exist, and returns its canonical path.
pub(crate) fn ready(data: &Path, cwd: &Path) -> Result<PathBuf, Problem> {
    ready_data_dir(data, cwd).map_err(|problem| {
        let other = "choose another with `--data-dir`";
        let hint = match &problem.hint {
            Some(hint) => format!("{other}, or {hint}"),
            None => other.to_owned(),
        };
        problem.hint(hint)
    })
}

/// Returns the data directory by flag, variable, file or default, for commands that need no other setting, and warnings about
/// faults of others. Files of the workspace do not matter.
pub(crate) fn data_dir(
    flag: Option<&str>,
    around: &Surroundings,
) -> Result<(PathBuf, Vec<String>), Problem> {
    let flags = PolicyFlags { data_dir: flag.map(str::to_owned), ..PolicyFlags::default() };
    // What stands before the files decides without them.
    let is_given = flag.is_some() || around.variable("RINGFENCE_DATA_DIR").is_some();
    let faults = Faults::noted_but_of(if is_given { &[] } else { &[Key::DataDir] });
    let chosen = Chosen::gather(&flags, around, Subject::Code, &faults)?;
    Ok((state_dir(&chosen, around), faults.warnings()))
}

fn state_dir(chosen: &Chosen, around: &Surroundings) -> PathBuf {
    if let Some(Value::Path(path)) = chosen.get(Key::DataDir) {
        return path.clone();
    }
    user_data_dir(|name| around.variable(name).cloned())
}

/// Refuses an explicit value above a ceiling, rather than silently lowering it.
fn refuse_above(chosen: &Chosen, ceilings: &Layer) -> Result<(), Problem> {
    for (key, (value, origin)) in &chosen.values {
        let Some(max) = ceilings.get(*key) else { continue };
        let above = match (value, max) {
            (Value::Span(v), Value::Span(max)) => v > max,
            (Value::Size(v), Value::Size(max)) => v > max,
            (Value::Count(v), Value::Count(max)) => v > max,
            (Value::Processes(v), Value::Processes(max)) => v > max,
            (Value::Fallback(Fallback::Warn), Value::Fallback(Fallback::Error))
            | (Value::Switch(Switch::Off), Value::Switch(Switch::On)) => true,
            (Value::Tier(v), Value::Tier(min)) => !v.satisfies(*min),
            _ => false,
        };
        if above {
            return Err(Problem::refused(
                Code::Ceiling,
                format!("`{}` from the {origin} passes the ceiling set by {CEILINGS}", key.name()),
            )
            .cause(format!("{value} is beyond {max}"))
            .hint(format!("ask for at most {max}")));
        }
    }
    Ok(())
}

fn lower(
    limits: Limits,
    layer: &Layer,
    origin: &Origin,
    origins: &mut BTreeMap<Key, Origin>,
) -> Limits {
    let max = LimitsMax {
        timeout: pick!(layer, Timeout, Span),
        cpu: pick!(layer, Cpu, Span),
        memory: pick!(layer, Memory, Size),
        pids: pick!(layer, Pids, Count),
        fds: pick!(layer, Fds, Count),
        disk: pick!(layer, Disk, Size),
        output: pick!(layer, Output, Size),
    };
    let before = limits.clone();
    let after = limits.lowered_to(&max);
    let changed = [
        (Key::Timeout, before.timeout != after.timeout),
        (Key::Cpu, before.cpu != after.cpu),
        (Key::Memory, before.memory != after.memory),
        (Key::Pids, before.pids != after.pids),
        (Key::Fds, before.fds != after.fds),
        (Key::Disk, before.disk != after.disk),
        (Key::Output, before.output != after.output),
    ];
    for (key, _) in changed.into_iter().filter(|(_, changed)| *changed) {
        origins.insert(key, origin.clone());
    }
    after
}

/// What a settings file sets.
pub(crate) struct CheckedFile {
    /// Its keys.
    pub(crate) keys: Vec<Key>,
    /// Its tables.
    pub(crate) tables: Vec<String>,
}

/// Checks a settings file by itself, for `policy check`.
pub(crate) fn check_file(path: &Path) -> Result<CheckedFile, Problem> {
    let workspace = path.file_name().is_some_and(|name| name == WORKSPACE_FILE);
    let layer = if workspace {
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned());
        Layer::from_workspace(&parent.join(WORKSPACE_FILE), &parent, &Faults::refused())?
    } else {
        serve::check_file(path)?;
        rules::check_file(path)?;
        notify::check_file(path)?;
        search::check_file(path)?;
        Layer::from_file(path, Origin::PolicyFile(path.to_owned()), &Faults::refused())?
    };
    let layer = layer.ok_or_else(|| {
        Problem::usage(Code::PolicyNotFound, format!("`{}` does not exist", path.display()))
    })?;
    let (memory, fds) = (pick!(layer, Memory, Size), pick!(layer, Fds, Count));
    // Python needs more memory than a command, and the file may be for commands alone.
    ringfence_plan::refuse_too_small(memory, fds, ringfence_plan::COMMAND_MEMORY_MIN)?;
    let tables = layer::read_table(path)?.unwrap_or_default();
    Ok(CheckedFile {
        keys: layer.values.keys().copied().collect(),
        tables: tables.into_iter().filter(|(_, v)| v.is_table()).map(|(name, _)| name).collect(),
    })
}

#[cfg(test)]
mod tests;

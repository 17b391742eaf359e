//! The resources that a run may access, before anything is known about the host it will run on.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::network::NetworkRules;
use crate::{Limits, Tier};

/// A named starting point for command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandPreset {
    /// Host tools read-only, the working directory writable, home private, no network.
    #[default]
    Workspace,
    /// The same view with nothing writable but private temporary directories.
    Readonly,
    /// The system's programs and libraries and an empty writable directory; nothing of the caller's.
    Minimal,
    /// As `workspace`, for an agent that works for hours: no deadline, more processes.
    Agent,
}

impl CommandPreset {
    /// Every preset, in the order `ringfence policy presets` lists them.
    pub const ALL: [Self; 4] = [Self::Workspace, Self::Readonly, Self::Minimal, Self::Agent];

    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Readonly => "readonly",
            Self::Minimal => "minimal",
            Self::Agent => "agent",
        }
    }

    /// One sentence for people choosing between presets.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Workspace => {
                "host tools read-only, working directory writable, home private, no network"
            }
            Self::Readonly => "the same view, nothing writable but /tmp",
            Self::Minimal => {
                "system programs and libraries only, an empty writable /workspace, nothing of yours"
            }
            Self::Agent => "as workspace, without a deadline and with more processes",
        }
    }
}

impl FromStr for CommandPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
            format!(
                "`{text}` is not a command preset; choose workspace, readonly, minimal or agent"
            )
        })
    }
}

impl fmt::Display for CommandPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A named set of rules for Python code, from the tightest to the loosest: each allows everything that the ones before
/// it allow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CodePreset {
    /// A calculator with loops: a whitelist of syntax, 36 builtins, no import.
    Strict,
    /// Ordinary programs over harmless modules: no files, no reflection.
    Standard,
    /// Any program, except constructs with no use but to break the interpreter open; what `standard` refuses is noted.
    #[default]
    Data,
    /// Any program that parses; nothing is noted.
    Open,
}

impl CodePreset {
    /// Returns true if programs may import modules of their own directory, which are not screened.
    pub const fn has_own_modules(self) -> bool {
        matches!(self, Self::Data | Self::Open)
    }

    /// Every preset, in the order `ringfence policy presets` lists them.
    pub const ALL: [Self; 4] = [Self::Data, Self::Standard, Self::Strict, Self::Open];

    /// The name users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Standard => "standard",
            Self::Data => "data",
            Self::Open => "open",
        }
    }

    /// Maximum size of a program (R1.6).
    pub const fn source_bytes_max(self) -> usize {
        match self {
            Self::Strict | Self::Standard => 50 << 10,
            Self::Data | Self::Open => 1 << 20,
        }
    }

    /// One sentence for people choosing between presets.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Strict => {
                "expressions, loops and 36 builtins; no import, def, class, with or try"
            }
            Self::Standard => {
                "ordinary Python over an allowlist of imports; no files, no reflection"
            }
            Self::Data => {
                "the default: any program, except one that breaks the interpreter open; what standard refuses is noted"
            }
            Self::Open => "any program that parses; the other layers alone hold it",
        }
    }
}

impl FromStr for CodePreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
            format!("`{text}` is not a code preset; choose data, standard, strict or open")
        })
    }
}

impl fmt::Display for CodePreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One variable the run receives besides the ones Ringfence sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EnvGrant {
    /// The caller's own value, if it has one.
    Inherit(String),
    /// A value given in the policy.
    Set(String, String),
}

impl EnvGrant {
    /// The variable's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Inherit(name) | Self::Set(name, _) => name,
        }
    }
}

impl FromStr for EnvGrant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let well_formed = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !well_formed {
            return Err(format!("`{name}` is not a variable name; write NAME or NAME=VALUE"));
        }
        if value.is_some_and(|v| v.contains('\0')) {
            return Err(format!("the value of `{name}` contains a NUL byte"));
        }
        Ok(match value {
            Some(value) => Self::Set(name.to_owned(), value.to_owned()),
            None => Self::Inherit(name.to_owned()),
        })
    }
}

/// The network of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A loopback of its own and nothing else.
    #[default]
    None,
    /// The hosts that the rules allow, through a proxy.
    Allow(NetworkRules),
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        match text.strip_prefix("allow:") {
            Some(list) => NetworkRules::parse(list).map(Self::Allow),
            None if NetworkRules::parse(text).is_ok() => {
                Err(format!("`{text}` is not a network policy; write allow:{text}"))
            }
            None => Err(format!(
                "`{text}` is not a network policy; write none, allow:HOST, or allow:* for any public host"
            )),
        }
    }
}

/// Behaviour if this host cannot build a layer that the policy requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// Refuse to run.
    #[default]
    Error,
    /// Run with the remaining layers, and warn about the missing ones.
    Warn,
}

impl FromStr for Fallback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            _ => Err(format!("`{text}` is not a fallback; choose error or warn")),
        }
    }
}

/// Measures that only make warm Python workers faster, by the risk they take with the interpreter's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerSpeedups {
    /// None.
    Off,
    /// Those that do not move the interpreter's memory or code.
    Safe,
    /// All, each after a check in the interpreter at hand.
    #[default]
    Full,
}

impl WorkerSpeedups {
    /// Returns the name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Safe => "safe",
            Self::Full => "full",
        }
    }
}

impl FromStr for WorkerSpeedups {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Off, Self::Safe, Self::Full]
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| {
                format!("`{text}` is not a level of speed-ups; choose off, safe or full")
            })
    }
}

/// The `/proc` of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcView {
    /// The run's own processes, with the host's dangerous files masked.
    #[default]
    Own,
    /// An empty directory, for hosts that refuse a new procfs.
    None,
}

impl FromStr for ProcView {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "none" => Ok(Self::None),
            _ => Err(format!("`{text}` is not a /proc view; choose own or none")),
        }
    }
}

/// Everything the operator decided about one command run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// The starting point.
    pub preset: CommandPreset,
    /// Resource limits.
    pub limits: Limits,
    /// Host paths the run may also write.
    pub rw: Vec<PathBuf>,
    /// Host paths the run may also read.
    pub ro: Vec<PathBuf>,
    /// Host paths that are invisible even where a grant contains them.
    pub hide: Vec<PathBuf>,
    /// Paths below the working directory that its own settings file makes read-only; relative, without `..`.
    pub workspace_ro: Vec<PathBuf>,
    /// Paths below the working directory that its own settings file hides; relative, without `..`.
    pub workspace_hide: Vec<PathBuf>,
    /// Host unix sockets the run may connect to.
    pub sockets: Vec<PathBuf>,
    /// Variables granted besides the scrubbed set.
    pub env: Vec<EnvGrant>,
    /// The network.
    pub network: Network,
    /// The name server to ask on the host, instead of its own.
    pub resolver: Option<std::net::SocketAddr>,
    /// The operator's proxy, through which public hosts are reached.
    pub upstream: Option<crate::network::UpstreamProxy>,
    /// Directories below the home that runs under this name keep.
    pub own_directories: Option<(String, Vec<String>)>,
    /// Credentials that the network helper puts into requests.
    pub secrets: Vec<crate::SecretGrant>,
    /// Logins by the user's SSH agent.
    pub ssh_agent: Vec<crate::SshAgentGrant>,
    /// Ports of the run that the host may connect to.
    pub publish: Vec<crate::PublishedPort>,
    /// Requests that hosts may receive; a host without such a rule may receive any.
    pub net_requests: Vec<crate::network::RequestRule>,
    /// Limits of the network.
    pub net_limits: Vec<crate::network::NetworkLimit>,
    /// A file of certificates that the network helper trusts besides the host's own.
    pub net_ca: Option<PathBuf>,
    /// The weakest tier that is acceptable.
    pub require: Option<Tier>,
    /// Behaviour if a layer is missing.
    pub fallback: Fallback,
    /// The `/proc` of the run.
    pub proc: ProcView,
}

impl Policy {
    /// A preset as it is, on a host with so much memory.
    pub fn of_preset(preset: CommandPreset, memory_total_bytes: u64) -> Self {
        Self {
            preset,
            limits: Limits::for_preset(preset, memory_total_bytes),
            rw: Vec::new(),
            ro: Vec::new(),
            hide: Vec::new(),
            workspace_ro: Vec::new(),
            workspace_hide: Vec::new(),
            sockets: Vec::new(),
            env: Vec::new(),
            network: Network::None,
            resolver: None,
            upstream: None,
            own_directories: None,
            secrets: Vec::new(),
            ssh_agent: Vec::new(),
            publish: Vec::new(),
            net_requests: Vec::new(),
            net_limits: Vec::new(),
            net_ca: None,
            require: None,
            fallback: Fallback::default(),
            proc: ProcView::Own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_no_deadline_and_room_for_its_processes() {
        let agent = Policy::of_preset(CommandPreset::Agent, 64 << 30).limits;
        assert_eq!((agent.timeout, agent.pids), (None, Some(crate::Count::of(4096))));
        let command = Policy::of_preset(CommandPreset::Workspace, 64 << 30).limits;
        assert_eq!(command, Limits::for_commands(64 << 30));
    }

    #[test]
    fn an_env_grant_is_a_name_or_a_name_with_a_value() {
        assert_eq!("CI".parse(), Ok(EnvGrant::Inherit("CI".into())));
        assert_eq!("A=b=c".parse(), Ok(EnvGrant::Set("A".into(), "b=c".into())));
        assert!("=x".parse::<EnvGrant>().is_err());
        assert!("1A=x".parse::<EnvGrant>().is_err());
        assert!("A B=x".parse::<EnvGrant>().is_err());
    }

    #[test]
    fn code_presets_are_ordered_from_tight_to_loose() {
        use CodePreset::{Data, Open, Standard, Strict};
        assert!(Strict < Standard && Standard < Data && Data < Open);
        for preset in CodePreset::ALL {
            assert_eq!(preset.name().parse(), Ok(preset));
        }
        assert!("workspace".parse::<CodePreset>().is_err());
    }

    #[test]
    fn a_network_policy_with_an_empty_host_is_refused() {
        assert_eq!("none".parse(), Ok(Network::None));
        assert_eq!(
            "allow:a.example, b.example".parse(),
            NetworkRules::parse("a.example,b.example").map(Network::Allow)
        );
        assert!("allow:a.example,".parse::<Network>().is_err());
        assert!("allow:".parse::<Network>().is_err());
        assert!("host".parse::<Network>().is_err());
    }
}

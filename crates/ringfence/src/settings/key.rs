//! Names of settings, the same in files, variables and flags.

use std::str::FromStr;

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    CommandPreset,
    CodePreset,
    CodePresetAtLeast,
    CodeProcesses,
    Timeout,
    Cpu,
    Memory,
    Pids,
    Fds,
    Disk,
    Output,
    Rw,
    Ro,
    Hide,
    Socket,
    Cwd,
    Env,
    Net,
    NetDeny,
    NetResolver,
    NetProxy,
    NetCa,
    Secret,
    SshAgent,
    NetRequest,
    NetLimit,
    Publish,
    Python,
    AllowImport,
    Require,
    Fallback,
    Proc,
    DataDir,
    Audit,
    Redact,
    WorkerSpeedups,
    WorkerZygotes,
}

impl Key {
    /// Every setting, in the order `policy show` lists them.
    pub(crate) const ALL: [Self; 37] = [
        Self::CommandPreset,
        Self::CodePreset,
        Self::CodePresetAtLeast,
        Self::CodeProcesses,
        Self::Timeout,
        Self::Cpu,
        Self::Memory,
        Self::Pids,
        Self::Fds,
        Self::Disk,
        Self::Output,
        Self::Rw,
        Self::Ro,
        Self::Hide,
        Self::Socket,
        Self::Cwd,
        Self::Env,
        Self::Net,
        Self::NetDeny,
        Self::NetResolver,
        Self::NetProxy,
        Self::NetCa,
        Self::Secret,
        Self::SshAgent,
        Self::NetRequest,
        Self::NetLimit,
        Self::Publish,
        Self::Python,
        Self::AllowImport,
        Self::Require,
        Self::Fallback,
        Self::Proc,
        Self::DataDir,
        Self::Audit,
        Self::Redact,
        Self::WorkerSpeedups,
        Self::WorkerZygotes,
    ];

    /// Returns the name in files. The variable is `RINGFENCE_` and the name in upper case, the flag has dashes.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::CommandPreset => "command_preset",
            Self::CodePreset => "code_preset",
            Self::CodePresetAtLeast => "code_preset_at_least",
            Self::CodeProcesses => "code_processes",
            Self::Timeout => "timeout",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Fds => "fds",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Rw => "rw",
            Self::Ro => "ro",
            Self::Hide => "hide",
            Self::Socket => "socket",
            Self::Cwd => "cwd",
            Self::Env => "env",
            Self::Net => "net",
            Self::NetDeny => "net_deny",
            Self::NetResolver => "net_resolver",
            Self::NetProxy => "net_proxy",
            Self::NetCa => "net_ca",
            Self::Secret => "secret",
            Self::SshAgent => "ssh_agent",
            Self::NetRequest => "net_request",
            Self::NetLimit => "net_limit",
            Self::Publish => "publish",
            Self::Python => "python",
            Self::AllowImport => "allow_import",
            Self::Require => "require",
            Self::Fallback => "fallback",
            Self::Proc => "proc",
            Self::DataDir => "data_dir",
            Self::Audit => "audit",
            Self::Redact => "redact",
            Self::WorkerSpeedups => "worker_speedups",
            Self::WorkerZygotes => "worker_zygotes",
        }
    }

    /// Returns true for limits, which every source may lower.
    pub(crate) const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Cpu
                | Self::Memory
                | Self::Pids
                | Self::Fds
                | Self::Disk
                | Self::Output
        )
    }

    /// Returns true for keys that the system's file may set.
    pub(crate) const fn is_ceiling(self) -> bool {
        self.is_limit()
            || matches!(
                self,
                Self::Require
                    | Self::Fallback
                    | Self::Hide
                    | Self::NetDeny
                    | Self::NetLimit
                    | Self::Audit
                    | Self::Redact
                    | Self::CodePresetAtLeast
                    | Self::CodeProcesses
            )
    }

    /// Returns true for keys that a workspace's own file may set: only those that restrict the run.
    pub(crate) const fn is_for_workspaces(self) -> bool {
        self.is_limit() || matches!(self, Self::Hide | Self::NetDeny | Self::NetLimit | Self::Ro)
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|key| key.name() == text).ok_or(())
    }
}

//! The layers that were really active in a run, in the contract's words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// The word used in outcomes and on the command line.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }
    };
}

words! {
    /// The strength of the fence that the host's kernel allows.
    Tier {
        /// User, mount, pid, net, ipc, uts and cgroup namespaces under Landlock and seccomp.
        Namespaces = "namespaces",
        /// Landlock, seccomp and rlimits, for hosts without user namespaces.
        Landlock = "landlock",
        /// Less than that: only with `--fallback warn`.
        None = "none",
    }
}

words! {
    /// The mechanism that holds the process tree together.
    ProcessFence {
        /// A pid namespace: killing its init ends everything.
        Pidns = "pidns",
        /// A process group with a subreaper above it.
        Pgroup = "pgroup",
    }
}

words! {
    /// The installed system call filter.
    SyscallFence {
        /// Allowlist for code runs.
        Allowlist = "allowlist",
        /// The broader profile for commands.
        Command = "command",
        /// No filter.
        None = "none",
    }
}

words! {
    /// The mechanism that enforces resource limits.
    ResourceFence {
        /// cgroup v2.
        Cgroup2 = "cgroup2",
        /// cgroup v1.
        Cgroup1 = "cgroup1",
        /// Resource limits and a watchdog.
        Rlimit = "rlimit",
    }
}

words! {
    /// The network that the run can reach.
    NetworkFence {
        /// Nothing outside itself.
        None = "none",
        /// Named hosts.
        Allowlist = "allowlist",
        /// The same as the host.
        Host = "host",
    }
}

words! {
    /// The mechanism that confines file access.
    FilesystemFence {
        /// A root of its own with Landlock on top.
        PivotRootLandlock = "pivot_root+landlock",
        /// A root of its own.
        PivotRoot = "pivot_root",
        /// Landlock rules over the host's tree.
        Landlock = "landlock",
        /// Nothing.
        None = "none",
    }
}

words! {
    /// State of the output layer: captured output is bounded and scrubbed.
    OutputState {
        /// Bounded, and text distinguished from bytes.
        On = "on",
        /// Passed through untouched.
        Off = "off",
    }
}

words! {
    /// State of the audit layer: the run is recorded in the ledger.
    AuditState {
        /// Recorded.
        On = "on",
        /// Not recorded.
        Off = "off",
    }
}

impl Tier {
    /// Higher is stronger.
    const fn strength(self) -> u8 {
        match self {
            Self::Namespaces => 2,
            Self::Landlock => 1,
            Self::None => 0,
        }
    }

    /// Returns true if this tier is at least as strong as `wanted`.
    pub const fn satisfies(self, wanted: Self) -> bool {
        self.strength() >= wanted.strength()
    }
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "namespaces" => Ok(Self::Namespaces),
            "landlock" => Ok(Self::Landlock),
            _ => Err(format!(
                "`{text}` is not a tier one can require; choose namespaces or landlock"
            )),
        }
    }
}

/// The receipt: which layers held in this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// The strength of the fence that the host allows.
    pub tier: Tier,
    /// The screening preset, null for command runs.
    pub screen: Option<String>,
    /// Layer 2.
    pub process: ProcessFence,
    /// Layer 3.
    pub syscalls: SyscallFence,
    /// Layer 4.
    pub resources: ResourceFence,
    /// Layer 5.
    pub network: NetworkFence,
    /// Layer 6.
    pub filesystem: FilesystemFence,
    /// Layer 7.
    pub output: OutputState,
    /// Layer 8.
    pub audit: AuditState,
    /// Version and place of the interpreter, null for command runs.
    pub python: Option<String>,
    /// Guarantees that this run lacks, one sentence each; empty in the full tier on a full host.
    pub gaps: Vec<String>,
    /// SHA-256 of the plan that was executed.
    pub policy_sha256: Option<String>,
}

impl Enforcement {
    /// Returns true if every layer was active and none has a gap.
    pub fn is_full(&self) -> bool {
        self.tier == Tier::Namespaces
            && self.gaps.is_empty()
            && self.syscalls != SyscallFence::None
            && self.output == OutputState::On
            && self.audit == AuditState::On
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_ordered_and_none_cannot_be_required() {
        assert!(Tier::Namespaces.satisfies(Tier::Landlock));
        assert!(!Tier::Landlock.satisfies(Tier::Namespaces));
        assert!("none".parse::<Tier>().is_err());
    }

    #[test]
    fn words_are_the_contracts() {
        assert_eq!(
            serde_json::to_string(&FilesystemFence::PivotRootLandlock).unwrap(),
            "\"pivot_root+landlock\""
        );
    }
}

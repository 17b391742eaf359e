//! Resource limits of a run. `None` means the policy sets no limit of that kind.

use serde::{Deserialize, Serialize};

use crate::{ByteSize, CodePreset, CommandPreset, Count, Span};

/// Processes and threads of an agent: a language server, a build and a browser at once.
const AGENT_PIDS: Count = Count::of(4096);

/// Limits of one run, all decided before it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall clock: SIGKILL to the whole tree when it passes.
    pub timeout: Option<Span>,
    /// CPU time of the whole tree.
    pub cpu: Option<Span>,
    /// Memory of the whole tree.
    pub memory: Option<ByteSize>,
    /// Processes and threads alive at once.
    pub pids: Option<Count>,
    /// Open descriptors per process.
    pub fds: Option<Count>,
    /// Bytes a run may add to disk: exact on its own tmpfs, polled on a bound workspace.
    pub disk: Option<ByteSize>,
    /// Bytes of captured output kept per stream; does not apply to passthrough.
    pub output: ByteSize,
}

/// Ceilings that no user, environment or flag may pass. `None` leaves that limit alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LimitsMax {
    /// Ceiling of [`Limits::timeout`].
    pub timeout: Option<Span>,
    /// Ceiling of [`Limits::cpu`].
    pub cpu: Option<Span>,
    /// Ceiling of [`Limits::memory`].
    pub memory: Option<ByteSize>,
    /// Ceiling of [`Limits::pids`].
    pub pids: Option<Count>,
    /// Ceiling of [`Limits::fds`].
    pub fds: Option<Count>,
    /// Ceiling of [`Limits::disk`].
    pub disk: Option<ByteSize>,
    /// Ceiling of [`Limits::output`].
    pub output: Option<ByteSize>,
}

impl Limits {
    /// Limits of a command run (R4.1). `memory_total_bytes` is the host's memory: a command gets 4 GiB or half of it.
    pub fn for_commands(memory_total_bytes: u64) -> Self {
        let four_gib = ByteSize::mib(4096);
        let half = ByteSize::new(memory_total_bytes / 2).unwrap_or(four_gib);
        Self {
            timeout: Some(Span::secs(600)),
            cpu: None,
            memory: Some(four_gib.min(half)),
            pids: Some(Count::of(512)),
            fds: Some(Count::of(4096)),
            disk: Some(ByteSize::mib(20 << 10)),
            output: ByteSize::mib(10),
        }
    }

    /// Limits of a command run under a preset. An agent has no deadline: a person ends it.
    pub fn for_preset(preset: CommandPreset, memory_total_bytes: u64) -> Self {
        let limits = Self::for_commands(memory_total_bytes);
        match preset {
            CommandPreset::Agent => Self { timeout: None, pids: Some(AGENT_PIDS), ..limits },
            CommandPreset::Workspace | CommandPreset::Readonly | CommandPreset::Minimal => limits,
        }
    }

    /// Limits of a Python run (R4.1, R1.5). `pids` bounds threads: a worker has no processes beside itself.
    pub fn for_code(preset: CodePreset) -> Self {
        let standard = Self {
            timeout: Some(Span::secs(30)),
            cpu: Some(Span::secs(30)),
            memory: Some(ByteSize::mib(512)),
            pids: Some(Count::of(32)),
            fds: Some(Count::of(64)),
            disk: Some(ByteSize::mib(100)),
            output: ByteSize::mib(10),
        };
        match preset {
            CodePreset::Strict => Self {
                timeout: Some(Span::secs(5)),
                cpu: Some(Span::secs(60)),
                memory: Some(ByteSize::mib(256)),
                disk: Some(ByteSize::mib(10)),
                ..standard
            },
            _ => standard,
        }
    }

    /// The same limits, each lowered to its ceiling if it exceeds it.
    #[must_use]
    pub fn lowered_to(mut self, max: &LimitsMax) -> Self {
        fn lower<T: Ord + Copy>(value: &mut Option<T>, max: Option<T>) {
            if let Some(max) = max {
                *value = Some(value.map_or(max, |v| v.min(max)));
            }
        }
        lower(&mut self.timeout, max.timeout);
        lower(&mut self.cpu, max.cpu);
        lower(&mut self.memory, max.memory);
        lower(&mut self.pids, max.pids);
        lower(&mut self.fds, max.fds);
        lower(&mut self.disk, max.disk);
        if let Some(max) = max.output {
            self.output = self.output.min(max);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_host_halves_the_command_memory() {
        assert_eq!(Limits::for_commands(64 << 30).memory, Some(ByteSize::mib(4096)));
        assert_eq!(Limits::for_commands(2 << 30).memory, Some(ByteSize::mib(1024)));
    }

    #[test]
    fn a_ceiling_lowers_and_never_raises() {
        let limits = Limits { cpu: None, ..Limits::for_commands(64 << 30) };
        let max = LimitsMax {
            cpu: Some(Span::secs(5)),
            pids: Some(Count::of(9999)),
            ..LimitsMax::default()
        };
        let lowered = limits.lowered_to(&max);
        assert_eq!(lowered.cpu, Some(Span::secs(5)), "no limit is above every ceiling");
        assert_eq!(lowered.pids, Some(Count::of(512)));
    }
}

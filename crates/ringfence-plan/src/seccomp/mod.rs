//! Compiles the system calls that a run may make into a seccomp filter, in classic BPF without a library.
//!
//! Pure: the filter is a plain value that can be printed, hashed and simulated. It installs nothing and reads nothing
//! of the host.
//!
//! - `table`: numbers and names of calls, per architecture.
//! - `rules`: the rule for each call, as data; `checks`: the rules about arguments; `reasons`: error and hint;
//!   `lookup`: the rule of each number.
//! - `compile`: rules to instructions, with the few of `bpf`.
//! - `simulate`: the kernel's answer to a call. `explain`: the filter in words.
//!
//! An architecture that is not the run's own (`int 0x80` on x86-64) ends the process; an x32 number, and any number
//! that is in no table, gets `ENOSYS`.

mod bpf;
mod checks;
mod compile;
pub mod errno;
mod explain;
mod lookup;
mod reasons;
mod rules;
mod simulate;
mod table;

pub use bpf::Insn;
pub use explain::{CheckedCall, RefusedCall, Summary, SyscallVerdict, explain};
pub use simulate::{Action, BadFilter, INSNS_MAX, Program, SeccompData, Trace, simulate};
pub use table::{name, number};

use serde::{Deserialize, Serialize};

/// Architecture of a filter's system call numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

/// Kind of run that a filter is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Ordinary programs: shells, compilers, package managers, databases. Calls that they have no use for are refused.
    Command,
    /// Python code in a worker: memory, files, threads and time. Everything else is refused.
    Code,
    /// The same with child processes, which have the same filter.
    CodeWithProcesses,
    /// The process that workers are forked from: a command that may make namespaces and mounts.
    Zygote,
}

/// Handling of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observe {
    /// It goes to a listener, which answers with the [`SyscallVerdict`]'s error and records a denial.
    Notify,
    /// The program gets the same error straight away and the supervisor is not notified: for hosts where a listener is
    /// not available.
    Errno,
}

/// Sockets of the family `AF_UNIX`. A connected `socketpair` of streams or packets is always
/// available.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnixSockets {
    /// Stream and packet sockets; every connect goes to the listener, which decides and performs it
    /// on a duplicate of the socket. Needs [`Observe::Notify`]: see [`FilterSpec::normalised`].
    Supervised,
    /// None. Connect needs no supervision then.
    Refused,
}

/// TCP and UDP sockets over IPv4 and IPv6. The network namespace and Landlock decide which peers they reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inet {
    /// They can be made.
    Allowed,
    /// TCP alone, for clients: every connect goes to the listener, which decides, and performs it to another peer. Without
    /// a network namespace the peers are the host's. Needs [`Observe::Notify`]: see [`FilterSpec::normalised`].
    Redirected,
    /// They cannot, loopback included.
    Refused,
}

/// `memfd_create` and System V shared memory: memory that no process's own size shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedMemory {
    /// Available: something else, such as a memory cgroup, counts it.
    Allowed,
    /// Refused.
    Refused,
}

/// Objects with names shared by all processes of an IPC and a pid namespace: System V objects, POSIX message queues,
/// and other processes whose limits or scheduling would be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ipc {
    /// Available: the run has both namespaces to itself.
    Own,
    /// Refused, since they are the host's. Of limits and scheduling the caller's own remain, by the
    /// id 0.
    Refused,
}

/// Specification of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilterSpec {
    /// Architecture of the system calls.
    pub arch: Arch,
    /// Kind of run.
    pub profile: Profile,
    /// Handling of refusals.
    pub observe: Observe,
    /// Unix sockets.
    pub unix_sockets: UnixSockets,
    /// Internet sockets.
    pub inet: Inet,
    /// Shared memory.
    pub shared_memory: SharedMemory,
    /// Semaphores, message queues and other processes.
    pub ipc: Ipc,
}

/// A compiled filter, ready to be installed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Filter {
    /// The spec it was compiled from, normalised.
    pub spec: FilterSpec,
    /// The program.
    pub insns: Vec<Insn>,
}

/// Compiles a filter for the spec in its [normalised](FilterSpec::normalised) form.
pub fn compile(spec: FilterSpec) -> Filter {
    let spec = spec.normalised();
    Filter { spec, insns: compile::instructions(spec) }
}

/// Returns true if `nr` is connect(2), which a filter with supervised sockets leaves to the supervisor. For a
/// given filter, use [`FilterSpec::supervises`].
pub fn is_supervised_connect(arch: Arch, nr: i32) -> bool {
    name(arch, nr) == Some("connect")
}

impl Arch {
    /// The architecture this program was built for, if Ringfence has a filter for it.
    pub const NATIVE: Option<Arch> =
        if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            Some(Arch::X86_64)
        } else if cfg!(all(
            target_arch = "aarch64",
            target_endian = "little",
            target_pointer_width = "64"
        )) {
            Some(Arch::Aarch64)
        } else {
            None
        };

    /// Its `AUDIT_ARCH_*`, as `struct seccomp_data` has it.
    pub fn audit(self) -> u32 {
        match self {
            Arch::X86_64 => 0xc000_003e,
            Arch::Aarch64 => 0xc000_00b7,
        }
    }
}

impl FilterSpec {
    /// The spec without contradictions; the one place that resolves them. Sockets whose connects a listener decides
    /// become refused ones without it: connect could reach any peer the run can see.
    #[must_use]
    pub fn normalised(mut self) -> Self {
        if self.observe == Observe::Errno {
            self.unix_sockets = UnixSockets::Refused;
            if self.inet == Inet::Redirected {
                self.inet = Inet::Refused;
            }
        }
        self
    }

    /// Returns true if the supervisor decides and performs a notified call `nr`, rather than refuse it.
    pub fn supervises(&self, nr: i32) -> bool {
        self.profile == Profile::Command
            && self.normalised().decides_connects()
            && is_supervised_connect(self.arch, nr)
    }

    /// Returns true if connects go to the listener. For a normalised spec.
    pub fn decides_connects(&self) -> bool {
        self.unix_sockets == UnixSockets::Supervised || self.inet == Inet::Redirected
    }
}

impl Filter {
    /// Returns true if it must be installed with `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    pub fn listener(&self) -> bool {
        self.spec.observe == Observe::Notify
    }

    /// The filter in words.
    pub fn summary(&self) -> Summary {
        explain::summary(self)
    }
}

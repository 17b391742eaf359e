//! Maps the end of a run to the contract's status: one function for commands, programs and cells, however launched.

use ringfence_spec::{
    Code, Denial, DenialRule, DeniedBy, ErrorInfo, Hint, Layer, LimitKind, Limits, Span, Status,
};

use crate::text::info;

/// Sent by the kernel for a system call through an entry (ABI) that the filter does not know.
const SIGSYS: i32 = 31;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGKILL: i32 = 9;

/// The end of a run, combined from the kernel's, the supervisor's and the guest's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The program exited with this code.
    Exited(i32),
    /// A signal ended it, other than those that a limit sends.
    Signaled(i32),
    /// The whole process tree was killed from outside.
    Swept,
    /// Wall time limit reached.
    Wall,
    /// CPU time limit reached.
    Cpu,
    /// Killed for exceeding the memory limit.
    MemoryKilled,
    /// An allocation beyond the memory limit was refused, and the program exited with this code.
    MemoryRefused(i32),
    /// Killed by the kernel when memory ran out.
    OutOfMemory,
    /// Disk limit exceeded.
    Disk,
    /// Cancelled by the caller.
    Cancelled,
    /// The interpreter ended without a report.
    Silent,
    /// Killed, but not by Ringfence.
    KilledFromOutside,
}

/// Kind of run; selects the wording of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command.
    Command,
    /// A program in an interpreter.
    Program,
    /// A cell of a session.
    Cell,
}

/// Status, exit code, signal and error of an outcome.
#[derive(Debug)]
pub(crate) struct RunVerdict {
    pub(crate) status: Status,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) error: Option<ErrorInfo>,
}

impl RunVerdict {
    fn new(status: Status) -> Self {
        Self { status, exit_code: None, signal: None, error: None }
    }

    fn exited(status: Status, code: i32) -> Self {
        Self { exit_code: Some(code), ..Self::new(status) }
    }

    fn signaled(status: Status, signal: i32) -> Self {
        Self { signal: Some(signal), ..Self::new(status) }
    }

    fn with(self, code: Code, message: impl Into<String>, hint: Option<Hint>) -> Self {
        Self { error: Some(info(code, message, hint)), ..self }
    }

    /// Returns a denial for the limit that ended the run, if any.
    pub(crate) fn denial(&self) -> Option<Denial> {
        let by_limit = matches!(self.status, Status::Timeout | Status::Memory | Status::Killed);
        let error = self.error.as_ref().filter(|_| by_limit)?;
        let rule = limit_rule(error.code)?;
        let hint = error.hint.clone().unwrap_or_default();
        // A program can raise the exception, and send itself these signals.
        let may_be_its_own =
            self.exit_code.is_some() || matches!(self.signal, Some(SIGXCPU | SIGXFSZ));
        let by = if may_be_its_own { DeniedBy::Guest } else { DeniedBy::Host };
        Some(Denial { by, ..limit_denial(rule, error.message.clone(), hint, 1) })
    }
}

/// Returns the denial rule of an error code that stands for a policy limit.
const fn limit_rule(code: Code) -> Option<DenialRule> {
    match code {
        Code::WallDeadline => Some(DenialRule::WallDeadline),
        Code::CpuLimit => Some(DenialRule::CpuLimit),
        Code::MemoryLimit => Some(DenialRule::MemoryLimit),
        Code::DiskLimit => Some(DenialRule::DiskLimit),
        Code::FileSizeLimit => Some(DenialRule::FileSizeLimit),
        _ => None,
    }
}

/// Judges the end of a run. `timeout` is this run's own timeout, which may be shorter than its limits.
pub(crate) fn judge(end: End, kind: Kind, limits: &Limits, timeout: Option<Span>) -> RunVerdict {
    let shown = |limit: Option<String>| limit.unwrap_or_default();
    let memory = || shown(limits.memory.map(|limit| limit.to_string()));
    match end {
        End::Exited(0) => RunVerdict::exited(Status::Ok, 0),
        End::Exited(code) => RunVerdict::exited(Status::Error, code),
        End::Wall => {
            let limit = shown(timeout.or(limits.timeout).map(|limit| limit.to_string()));
            let message = format!("the run was still going after {limit} and was killed");
            RunVerdict::signaled(Status::Timeout, SIGKILL).with(
                Code::WallDeadline,
                message,
                Some(Hint::Limit(LimitKind::Timeout)),
            )
        }
        End::Cpu => {
            let limit = shown(limits.cpu.map(|limit| limit.to_string()));
            let message = format!("the run used more than {limit} of CPU time and was killed");
            RunVerdict::signaled(Status::Timeout, SIGKILL).with(
                Code::CpuLimit,
                message,
                Some(Hint::Limit(LimitKind::Cpu)),
            )
        }
        // The kernel's limit per process is one second above that of the tree.
        End::Signaled(SIGXCPU) if limits.cpu.is_some() => {
            RunVerdict::signaled(Status::Timeout, SIGXCPU).with(
                Code::CpuLimit,
                "the program used up its CPU time",
                Some(Hint::Limit(LimitKind::Cpu)),
            )
        }
        End::MemoryKilled => {
            let message = format!("the run used more than {} of memory and was killed", memory());
            RunVerdict::signaled(Status::Memory, SIGKILL).with(
                Code::MemoryLimit,
                message,
                Some(Hint::Limit(LimitKind::Memory)),
            )
        }
        End::MemoryRefused(code) => {
            let message = format!("the program asked for more than {} of memory", memory());
            RunVerdict::exited(Status::Memory, code).with(
                Code::MemoryLimit,
                message,
                Some(Hint::Limit(LimitKind::Memory)),
            )
        }
        End::OutOfMemory => RunVerdict::signaled(Status::Memory, SIGKILL).with(
            Code::OomKill,
            "the kernel killed the run, as it does when memory runs out",
            None,
        ),
        End::Disk => {
            let limit = shown(limits.disk.map(|limit| limit.to_string()));
            let message =
                format!("the run added more than {limit} to the workspace and was killed");
            RunVerdict::signaled(Status::Killed, SIGKILL).with(
                Code::DiskLimit,
                message,
                Some(Hint::Limit(LimitKind::Disk)),
            )
        }
        End::Signaled(SIGXFSZ) => {
            let limit = shown(limits.disk.map(|limit| limit.to_string()));
            let message = format!("the program wrote a file larger than {limit}");
            RunVerdict::signaled(Status::Killed, SIGXFSZ).with(
                Code::FileSizeLimit,
                message,
                Some(Hint::Limit(LimitKind::Disk)),
            )
        }
        End::Signaled(SIGSYS) => RunVerdict::signaled(Status::Killed, SIGSYS).with(
            Code::SyscallEntry,
            "the program used a system call entry that the fence refuses",
            None,
        ),
        End::Signaled(signal) => {
            let (code, message) = match kind {
                Kind::Command => {
                    (Code::Signal, format!("the program was ended by signal {signal}"))
                }
                _ => (Code::Crash, format!("the interpreter crashed with signal {signal}")),
            };
            RunVerdict::signaled(Status::Killed, signal).with(code, message, None)
        }
        End::Swept => RunVerdict::signaled(Status::Killed, SIGKILL).with(
            Code::EndedFromOutside,
            "the run was ended from outside",
            None,
        ),
        End::KilledFromOutside => RunVerdict::signaled(Status::Killed, SIGKILL).with(
            Code::Sigkill,
            "the run was killed from outside",
            None,
        ),
        End::Cancelled => {
            let what = if kind == Kind::Cell { "cell" } else { "run" };
            RunVerdict::signaled(Status::Killed, SIGKILL).with(
                Code::Cancelled,
                format!("the {what} was cancelled"),
                None,
            )
        }
        End::Silent => {
            let message = match kind {
                Kind::Cell => "the interpreter ended in the middle of the cell",
                _ => "the interpreter exited without a result",
            };
            RunVerdict::signaled(Status::Killed, SIGKILL).with(Code::InterpreterDied, message, None)
        }
    }
}

/// Builds a denial for a limit that refused or ended something.
pub(crate) fn limit_denial(rule: DenialRule, subject: String, hint: Hint, count: u64) -> Denial {
    Denial { count, ..Denial::new(Layer::Resources, rule, subject, hint) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_spec::CodePreset;

    fn judged(end: End, kind: Kind) -> (Status, Option<i32>, Option<i32>, String) {
        let verdict = judge(end, kind, &Limits::for_code(CodePreset::Open), None);
        let code = verdict.error.map(|error| error.code.to_string()).unwrap_or_default();
        (verdict.status, verdict.exit_code, verdict.signal, code)
    }

    #[test]
    fn every_end_has_its_status() {
        use Status::{Error, Killed, Memory, Ok, Timeout};
        let rows = [
            (End::Exited(0), Kind::Command, (Ok, Some(0), None, "")),
            (End::Exited(3), Kind::Program, (Error, Some(3), None, "")),
            (End::Wall, Kind::Command, (Timeout, None, Some(9), "wall_deadline")),
            (End::Cpu, Kind::Program, (Timeout, None, Some(9), "cpu_limit")),
            (End::Signaled(24), Kind::Command, (Timeout, None, Some(24), "cpu_limit")),
            (End::Signaled(25), Kind::Command, (Killed, None, Some(25), "file_size_limit")),
            (End::Signaled(31), Kind::Program, (Killed, None, Some(31), "syscall_entry")),
            (End::Signaled(11), Kind::Command, (Killed, None, Some(11), "signal")),
            (End::Signaled(11), Kind::Program, (Killed, None, Some(11), "crash")),
            (End::MemoryKilled, Kind::Command, (Memory, None, Some(9), "memory_limit")),
            (End::MemoryRefused(1), Kind::Program, (Memory, Some(1), None, "memory_limit")),
            (End::OutOfMemory, Kind::Program, (Memory, None, Some(9), "oom_kill")),
            (End::Disk, Kind::Command, (Killed, None, Some(9), "disk_limit")),
            (End::Cancelled, Kind::Cell, (Killed, None, Some(9), "cancelled")),
            (End::Silent, Kind::Cell, (Killed, None, Some(9), "interpreter_died")),
            (End::Swept, Kind::Command, (Killed, None, Some(9), "ended_from_outside")),
        ];
        for (end, kind, (status, exit_code, signal, code)) in rows {
            assert_eq!(judged(end, kind), (status, exit_code, signal, code.to_owned()), "{end:?}");
        }
    }

    /// `kill -XCPU $$`, `kill -XFSZ $$`, `raise MemoryError`.
    #[test]
    fn a_limit_that_a_program_can_feign_is_its_word() {
        let limits = Limits::for_code(CodePreset::Open);
        let by = |end| judge(end, Kind::Program, &limits, None).denial().map(|denial| denial.by);
        for end in [End::Signaled(SIGXCPU), End::Signaled(SIGXFSZ), End::MemoryRefused(1)] {
            assert_eq!(by(end), Some(DeniedBy::Guest), "{end:?}");
        }
        for end in [End::Wall, End::Cpu, End::MemoryKilled, End::Disk] {
            assert_eq!(by(end), Some(DeniedBy::Host), "{end:?}");
        }
    }

    #[test]
    fn a_limit_that_ended_a_run_is_a_denial_and_nothing_else_is() {
        let limits = Limits::for_code(CodePreset::Open);
        let denied =
            |end| judge(end, Kind::Program, &limits, None).denial().map(|d| d.rule.to_string());
        assert_eq!(denied(End::Wall).as_deref(), Some("wall_deadline"));
        assert_eq!(denied(End::MemoryKilled).as_deref(), Some("memory_limit"));
        assert_eq!(denied(End::Exited(1)), None);
        assert_eq!(denied(End::Signaled(11)), None);
        assert_eq!(denied(End::Cancelled), None);
    }
}

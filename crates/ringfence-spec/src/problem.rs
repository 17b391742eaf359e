//! An error a person or an agent can act on: the act, the object, the cause, the way out.

use crate::{Code, Face, Hint};
use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Kind of problem; determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProblemKind {
    /// The command line or a settings file is wrong: exit 2.
    Usage,
    /// The host cannot build a layer that the policy requires: exit 125.
    CannotBuild,
    /// Policy refuses the run before it starts: exit 126.
    Refused,
    /// The program does not exist in the run's view: exit 127.
    NotFound,
    /// Ringfence itself failed: exit 125.
    Internal,
    /// The caller ended it by this signal before it began: exit 128 and the signal.
    Interrupted(u8),
}

impl ProblemKind {
    /// The exit code of the contract.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::CannotBuild | Self::Internal => 125,
            Self::Refused => 126,
            Self::NotFound => 127,
            Self::Interrupted(signal) => 128 + (signal & 0x7f),
        }
    }
}

/// One error. Printed as three lines: error, cause, hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Kind of problem; determines the exit code.
    pub kind: ProblemKind,
    /// Stable code.
    pub code: Code,
    /// The act and its object.
    pub message: String,
    /// The answer of the kernel or parser.
    pub cause: Option<String>,
    /// The way out, only when true for this very call.
    pub hint: Option<Hint>,
    /// Time to wait before a retry, for rejected calls. Small, to keep problems cheap to return.
    pub retry_after_ms: Option<NonZeroU32>,
}

impl Problem {
    /// A problem without cause or hint yet.
    pub fn new(kind: ProblemKind, code: Code, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), cause: None, hint: None, retry_after_ms: None }
    }

    /// Bad usage.
    pub fn usage(code: Code, message: impl Into<String>) -> Self {
        Self::new(ProblemKind::Usage, code, message)
    }

    /// Something this host cannot build.
    pub fn cannot_build(code: Code, message: impl Into<String>) -> Self {
        Self::new(ProblemKind::CannotBuild, code, message)
    }

    /// Something policy refuses.
    pub fn refused(code: Code, message: impl Into<String>) -> Self {
        Self::new(ProblemKind::Refused, code, message)
    }

    /// An internal failure.
    pub fn internal(code: Code, message: impl Into<String>) -> Self {
        Self::new(ProblemKind::Internal, code, message)
    }

    /// Adds the answer of the kernel or parser.
    #[must_use]
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Words the way out for a reader.
    #[must_use]
    pub fn worded_for(mut self, face: Face) -> Self {
        self.hint.iter_mut().for_each(|hint| hint.word_for(face));
        self
    }

    /// Adds the time to wait before a retry.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        self.retry_after_ms = Some(NonZeroU32::new(ms).unwrap_or(NonZeroU32::MIN));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(cause) = &self.cause {
            write!(f, "\n  cause: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_error_cause_hint() {
        let p = Problem::cannot_build(Code::ProcMount, "cannot mount `/proc` in the sandbox")
            .cause("mount(\"proc\") = EPERM")
            .hint("pass `--proc none`");
        assert_eq!(
            p.to_string(),
            "cannot mount `/proc` in the sandbox\n  cause: mount(\"proc\") = EPERM\n  hint: pass `--proc none`"
        );
        assert_eq!(p.kind.exit_code(), 125);
    }
}

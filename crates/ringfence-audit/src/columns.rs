//! The words in a row's columns, each an enum with its spelling.

use std::fmt;
use std::str::FromStr;

pub use ringfence_spec::Risk;
use ringfence_spec::{Outcome, Status};
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word in the ledger and on the command line.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.word() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|word| word.word()).collect();
                    format!(concat!("`{}` is not ", $what, "; choose {}"), text, known.join(", "))
                })
            }
        }
    };
}

words! {
    /// Kind of row.
    Kind, "a kind of row" {
        /// A run was admitted and is about to start.
        RunStart = "run_start",
        /// It ended.
        RunEnd = "run_end",
        /// A tool was called.
        CallStart = "call_start",
        /// The call was answered.
        CallEnd = "call_end",
        /// A connection that a run made or was refused.
        Connection = "connection",
        /// A session event.
        Session = "session",
        /// An alert.
        Alert = "alert",
        /// A new signing key, signed by the one before.
        Key = "key",
        /// A signature over the chain so far.
        Checkpoint = "checkpoint",
        /// Bodies were archived and cleared.
        Expire = "expire",
        /// The head and the database disagreed when this row was written.
        Gap = "gap",
    }
}

words! {
    /// Status of a run or call.
    RunStatus, "a status" {
        /// Exit 0.
        Ok = "ok",
        /// It ended non-zero or raised.
        Error = "error",
        /// Refused before it ran.
        Blocked = "blocked",
        /// A deadline passed.
        Timeout = "timeout",
        /// A memory limit.
        Memory = "memory",
        /// Another limit or a signal.
        Killed = "killed",
        /// Admission refused it.
        Rejected = "rejected",
        /// An internal error.
        Failed = "failed",
        /// Its writer died before it wrote the end.
        Interrupted = "interrupted",
        /// It has not ended, and its writer lives. Never stored.
        Running = "running",
    }
}

impl Kind {
    /// Returns true for the rows that hold the ledger together; their bodies are never cleared.
    pub const fn is_ledgers_own(self) -> bool {
        matches!(self, Self::Key | Self::Checkpoint | Self::Expire | Self::Gap)
    }

    /// Returns true for the start of a run or call.
    pub const fn is_start(self) -> bool {
        matches!(self, Self::RunStart | Self::CallStart)
    }

    /// Returns true for the end of a run or call.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::RunEnd | Self::CallEnd)
    }

    /// The kind of row that closes a row of this kind.
    pub(crate) const fn ended(self) -> Self {
        match self {
            Self::CallStart | Self::CallEnd => Self::CallEnd,
            _ => Self::RunEnd,
        }
    }
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Self::Ok,
            Status::Error => Self::Error,
            Status::Blocked => Self::Blocked,
            Status::Timeout => Self::Timeout,
            Status::Memory => Self::Memory,
            Status::Killed => Self::Killed,
            Status::Rejected => Self::Rejected,
            Status::Failed => Self::Failed,
        }
    }
}

impl From<&Outcome> for RunStatus {
    fn from(outcome: &Outcome) -> Self {
        outcome.status.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_answered_with_the_right_ones() {
        assert_eq!("high".parse::<Risk>(), Ok(Risk::High));
        let answer = "extreme".parse::<Risk>().unwrap_err();
        assert_eq!(answer, "`extreme` is not a risk; choose low, medium, high");
    }
}

//! Python behind the fence: finds interpreters, keeps a zygote and its warm workers, runs code in them.
//!
//! The zygote is the host's own `CPython`, started by the jail in a fence of its own. Each worker is a fork of it that
//! builds a second fence around itself from a list of system calls which `ringfence-plan` laid out, and runs one
//! program. Both are treated as hostile: their messages are checked, bounded, and never decide what was enforced.
//!
//! | module | purpose |
//! |---|---|
//! | `artifacts` | files that a run left |
//! | `broker` | calls of a running program to the host |
//! | `channel` | frames between the host and the guest |
//! | `interpreter` | finds an interpreter and the paths it needs |
//! | `one_shot` | runs one program in an interpreter of its own |
//! | `pool` | warm workers, each for one run |
//! | `receipt` | checks a worker's fence by the kernel's report |
//! | `refill` | the thread of one zygote: requests workers, takes them, replaces the zygote |
//! | `repl` | a session of cells with checkpoints |
//! | `worker` | one worker and one run in it |
//! | `zygote` | the host's side of a zygote |
//! | `zygote_keeper` | starts zygotes through the launcher |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod artifacts;
mod broker;
mod channel;
#[cfg(test)]
mod fake_peer;
mod interpreter;
mod one_shot;
mod pool;
mod receipt;
mod refill;
mod repl;
mod worker;
mod zygote;
mod zygote_keeper;

pub use artifacts::{Artifacts, LeftOut, Listing, Snapshot};
pub use broker::{Broker, CallFailure};
pub use interpreter::{Interpreter, InterpreterSearch, discover};
pub use one_shot::{OneShot, OneShotChannel, OneShotTask, Processes, argv, run_one_shot};
pub use pool::{Counts, Pool, PoolSlot, zygotes_of, zygotes_within};
pub use repl::{CHECKPOINTS_MAX, Cell, CellEnd, LateCall, Repl};
pub use worker::{Attempt, Ended, Exit, Finished, GuestReport, Job, Output, Raised};
pub use zygote_keeper::{Preload, ZygoteKeeper};

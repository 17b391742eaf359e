//! Walks a plan: surveys the host, launches, supervises, observes, cleans up.
//! Decides nothing about policy: every choice is in the plan. Never forks a process that has several threads.

mod cgroup;
mod channel;
mod child;
mod gitindex;
mod handover;
mod identity;
mod janitor;
mod landlock;
mod launch;
mod launcher;
mod locked_dir;
mod mounts;
mod notify;
mod open;
mod orders;
pub mod probe;
mod registry;
mod so_far;
mod stdio;
mod supervise;
pub mod survey;
mod terminal;
mod watchdog;

pub use launch::{Early, Fault, Permit, Task, Who, run};
pub use launcher::{Errand, Launched, Launcher};
pub use open::open_beneath;
pub use registry::Registry;
pub use ringfence_sys::{CallError, SignalFd, Signals, time_until};
pub use so_far::{SoFar, Tail, Written};
pub use stdio::{Output, StdioMode};
pub use supervise::{Ending, Finished, StopReason};
pub use watchdog::{anonymous_bytes, cpu_so_far};

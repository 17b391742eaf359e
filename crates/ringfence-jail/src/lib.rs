//! Walks a plan: surveys the host, launches, supervises, observes, cleans up.
//! Decides nothing about policy: every choice is in the plan. Never forks a process that has several threads.

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cgroup;
mod channel;
mod child;
mod gitfiles;
mod gitindex;
mod gitwatch;
mod handover;
mod identity;
mod janitor;
mod landlock;
mod launch;
mod launcher;
mod locked_dir;
mod mounts;
mod open;
mod output_buffer;
mod plan_transfer;
pub mod probe;
mod registry;
mod seccomp_notify;
mod stdio;
mod supervise;
pub mod survey;
mod terminal;
mod watchdog;

pub use gitwatch::SetAside;
pub use launch::{Fault, Permit, PreforkedChild, RunIdentity, Task, run};
pub use launcher::{LaunchRequest, Launched, Launcher, become_launcher_if_asked};
pub use output_buffer::{OutputBuffer, OutputSnapshot, Tail};
pub use registry::{Registry, remove_tree};
pub use ringfence_sys::{Budget, CallError, SignalFd, Signals, time_until};
pub use stdio::{Output, StdioMode};
pub use supervise::{Ending, Finished, StopReason};
pub use watchdog::{anonymous_bytes, cpu_so_far};

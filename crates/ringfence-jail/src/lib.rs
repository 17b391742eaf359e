//! Executes a plan: surveys the host, launches, supervises, observes, cleans up.
//! Decides nothing about policy: every choice is in the plan. Never forks a process that has several threads.
//!
//! | module | purpose |
//! |---|---|
//! | `cgroup` | a cgroup leaf for one run |
//! | `channel` | messages between supervisor and run |
//! | `child` | executes the plan's steps in the forked child |
//! | `descriptors` | keeps descriptors of the supervisor free for its own work |
//! | `disk_watch` | growth of a writable directory, deleted files included |
//! | `file_time` | compares time stamps of files with the start of a run |
//! | `gitfiles` | finds links, pipes and devices among git's files |
//! | `gitindex` | parses a git index for nested repositories |
//! | `gitjudge` | judges a repository that a run made or could change |
//! | `gitwatch` | compares git's files after a run with those before |
//! | `handover` | descriptors that the child inherits |
//! | `identity` | id maps and mounts with translated owners |
//! | `janitor` | cleans up if the supervisor dies |
//! | `landlock` | applies Landlock rules |
//! | `launch` | forks the child and prepares its resources |
//! | `launcher` | a single-threaded process that launches runs for a threaded caller |
//! | `locked_dir` | directories locked by their run, and sweeping of abandoned ones |
//! | `memory_watch` | memory of a run's processes, without a cgroup |
//! | `mounts` | builds the new root |
//! | `network` | the helper that makes a run's connections, and its reports |
//! | `open` | opens exactly the file that was surveyed |
//! | `output_buffer` | the output so far of a running program |
//! | `plan_transfer` | sends plans to another process |
//! | `probe` | probes kernel features |
//! | `proc` | reads processes in `/proc` |
//! | `ready` | supervisors that wait for a command with half of its fence made |
//! | `registry` | records of placeholders and nested repositories |
//! | `seccomp_notify` | answers the filter's notifications |
//! | `secret_source` | values of secrets, read on the host |
//! | `ssh_agent` | connects to the user's SSH agent; denials of what was not asked of it |
//! | `stdin_pump` | a pipe of the caller's as the program's stdin |
//! | `stdio` | the program's stdin, stdout and stderr |
//! | `subreaper` | processes of a run without a pid namespace |
//! | `supervise` | supervises a run to the death of its last process |
//! | `survey` | surveys the host and the request |
//! | `terminal` | the run's own terminal |
//! | `watchdog` | limits that no kernel limit covers |
//! | `workspace_lock` | the lock on a workspace that runs of all data directories share |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod cgroup;
mod channel;
mod child;
mod descriptors;
mod disk_watch;
#[cfg(test)]
mod fake_peer;
mod file_time;
mod gitfiles;
mod gitindex;
mod gitjudge;
mod gitwatch;
mod handover;
mod identity;
mod janitor;
mod landlock;
mod launch;
mod launcher;
mod locked_dir;
mod memory_watch;
mod mounts;
mod network;
mod open;
mod output_buffer;
mod plan_transfer;
pub mod probe;
mod proc;
mod ready;
mod registry;
mod seccomp_notify;
mod secret_source;
mod ssh_agent;
mod stdin_pump;
mod stdio;
mod subreaper;
mod supervise;
pub mod survey;
mod terminal;
mod watchdog;
mod workspace_lock;

pub use gitwatch::SetAside;
pub use launch::{LaunchError, Permit, PreforkedChild, RunIdentity, Task, run};
pub use launcher::{LaunchRequest, Launched, Launcher, become_launcher_if_asked};
pub use memory_watch::anonymous_bytes;
pub use network::allow_network_helper;
pub use output_buffer::{
    MakeFilter, OutputBuffer, OutputFilter, OutputSnapshot, OutputStream, Piece, Tail,
};
pub use proc::cpu_so_far;
pub use registry::Registry;
pub use ringfence_sys::untrusted::make_directory;
pub use ringfence_sys::{
    Budget, CallError, SignalFd, Signals, give_owner_access, is_ready, remove_at, remove_tree,
    time_until,
};
pub use secret_source::read_secret;
pub use ssh_agent::start_ssh_agent;
pub use stdio::{Output, StdioMode};
pub use supervise::{Ending, Finished, StopReason};

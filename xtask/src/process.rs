//! Processes under proof, seen from outside.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Waits for a process for at most `patience`.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A size in the kernel's status of a process, such as `VmRSS`, in KiB.
pub(crate) fn status_kib(pid: u32, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Open descriptors of a process, 0 if it is gone.
pub(crate) fn n_descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

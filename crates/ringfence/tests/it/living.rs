//! Runs seen from outside: a tree of processes that is known by a marker, and how long anything may take.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What is promised within a second is given twenty here: the suite runs many things at once, on machines that do more
/// besides, and a server that does not end at all is found as well. `RINGFENCE_TEST_QUIET=1` holds it to the second.
pub(crate) fn soon() -> Duration {
    let quiet = std::env::var_os("RINGFENCE_TEST_QUIET").is_some();
    Duration::from_secs(if quiet { 1 } else { 20 })
}

/// Waits for what must come, however slow the machine.
pub(crate) fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    wait(Duration::from_mins(5), what, is_so);
}

/// Waits for what must come [`soon`].
pub(crate) fn promptly(what: &str, is_so: impl FnMut() -> bool) {
    wait(soon(), what, is_so);
}

fn wait(most: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < most, "not within {most:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a run is known by: a number of seconds to sleep that nobody else uses, be it the same test of another user.
pub(crate) fn marker() -> String {
    static N: AtomicUsize = AtomicUsize::new(0);
    format!("1001.{:07}{:03}", std::process::id(), N.fetch_add(1, Ordering::Relaxed))
}

/// A command that goes on for long, as a tree of processes.
pub(crate) fn tree(marker: &str) -> String {
    format!("(setsid sleep {marker} | sleep {marker}) & sleep {marker}")
}

/// Waits until all of a [`tree`] runs.
pub(crate) fn runs(marker: &str) {
    eventually("the tree runs", || n_alive(marker) == 3);
}

/// Makes sure that nothing is left of it, promptly.
pub(crate) fn gone(marker: &str) {
    promptly("the tree is gone", || n_alive(marker) == 0);
}

/// How many processes of this host sleep by this marker.
pub(crate) fn n_alive(marker: &str) -> usize {
    sleepers(marker).len()
}

/// Processes of this host that sleep by this marker.
pub(crate) fn sleepers(marker: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"sleep\0") && String::from_utf8_lossy(&line).contains(marker)
    })
    .collect()
}

/// Children of a process's main thread.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A process, its parent and so on.
pub(crate) fn ancestors(mut pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    while pid > 1 {
        found.push(pid);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        pid = parent.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    }
    found
}

/// Returns false also for a dead process that its parent has not reaped.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until a process has a child that leads a session of its own and is in nobody's namespace: the janitor.
pub(crate) fn has_janitor(pid: rustix::process::Pid) {
    let pid = pid.as_raw_nonzero().get().unsigned_abs();
    eventually("a janitor is there", || {
        children(pid).into_iter().any(|child| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status"));
            let status = status.unwrap_or_default();
            let leads = |name: &str| {
                let ids = status.lines().find_map(|line| line.strip_prefix(name));
                ids.is_some_and(|ids| ids.trim() == child.to_string())
            };
            leads("NSpid:") && leads("NSsid:")
        })
    });
}

/// Waits until a file is there.
pub(crate) fn there(path: &Path) {
    eventually(&format!("{} is there", path.display()), || path.exists());
}

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
    wait(Duration::from_mins(1), what, is_so);
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
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.starts_with("sleep ") && line.contains(marker))
        .count()
}

/// Waits until a process has a child that leads a session of its own and is in nobody's namespace: the janitor.
pub(crate) fn has_janitor(pid: rustix::process::Pid) {
    let pid = pid.as_raw_nonzero();
    eventually("a janitor is there", || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        children.unwrap_or_default().split_whitespace().any(|child| {
            let status = std::fs::read_to_string(format!("/proc/{child}/status"));
            let status = status.unwrap_or_default();
            let leads = |name: &str| {
                let ids = status.lines().find_map(|line| line.strip_prefix(name));
                ids.is_some_and(|ids| ids.split_whitespace().eq([child]))
            };
            leads("NSpid:") && leads("NSsid:")
        })
    });
}

/// Waits until a file is there.
pub(crate) fn there(path: &Path) {
    eventually(&format!("{} is there", path.display()), || path.exists());
}

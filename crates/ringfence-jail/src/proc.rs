//! Reads processes in `/proc`: their trees, threads and times.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::time::Duration;

use ringfence_sys::{list_kernel_directory, open_kernel_file, read_kernel_file};

/// The process `root` and everything below it.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut seen: HashSet<i32> = HashSet::from([root]);
    let mut next = 0;
    let mut by_scan: Option<HashMap<i32, Vec<i32>>> = None;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for child in children(pid, &mut by_scan) {
            if seen.insert(child) {
                found.push(child);
            }
        }
    }
    found
}

/// The threads of a process.
pub(crate) fn tasks(pid: i32) -> Vec<i32> {
    let names = list_kernel_directory(format!("/proc/{pid}/task")).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The children of a process.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    children(pid, &mut None)
}

fn children(pid: i32, by_scan: &mut Option<HashMap<i32, Vec<i32>>>) -> Vec<i32> {
    let mut list = Vec::new();
    for tid in tasks(pid) {
        let Ok(text) = read_kernel_file(format!("/proc/{pid}/task/{tid}/children")) else {
            // Kernels without CONFIG_PROC_CHILDREN: read every process's parent once.
            let map = by_scan.get_or_insert_with(scan_parents);
            return map.get(&pid).cloned().unwrap_or_default();
        };
        list.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    list
}

/// The children of `pid`, by asking every process for its parent.
pub(crate) fn children_by_scan(pid: i32) -> Option<Vec<i32>> {
    let mut parents = scan_parents();
    // Without a free descriptor nothing of the list could be read.
    let own = rustix::process::getpid().as_raw_nonzero().get();
    parent_of(own)?;
    parents.values().flatten().any(|pid| *pid == own).then_some(())?;
    Some(parents.remove(&pid).unwrap_or_default())
}

fn scan_parents() -> HashMap<i32, Vec<i32>> {
    let mut map: HashMap<i32, Vec<i32>> = HashMap::new();
    for name in list_kernel_directory("/proc").unwrap_or_default() {
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            map.entry(parent).or_default().push(pid);
        }
    }
    map
}

/// The parent of a process, by its line in `/proc`.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let [parent] = numbers(&stat_of(pid)?, 1)?;
    i32::try_from(parent).ok()
}

/// The fields of `/proc/PID/stat` after the name in parentheses: state, parent and so on.
pub(crate) fn stat_of(pid: i32) -> Option<String> {
    let text = line_of(&format!("/proc/{pid}/stat"))?;
    Some(text.rsplit_once(") ")?.1.to_owned())
}

/// `N` numbers of a line, from the one at `first` on.
pub(crate) fn numbers<const N: usize>(line: &str, first: usize) -> Option<[u64; N]> {
    let mut words = line.split_ascii_whitespace().skip(first);
    let mut found = [0; N];
    for number in &mut found {
        *number = words.next()?.parse().ok()?;
    }
    Some(found)
}

/// Reads a kernel file of one short line with one call: these are read many times a second.
pub(crate) fn line_of(path: &str) -> Option<String> {
    let mut buffer = [0; 1024];
    let n = open_kernel_file(path).ok()?.read(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..n]).into_owned())
}

/// Start time of a process, in clock ticks since boot; together with the pid it is unique.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    numbers::<1>(&stat_of(pid)?, 19).map(|[ticks]| ticks)
}

/// CPU time of a living process alone, all its threads.
pub fn cpu_so_far(pid: u32) -> Option<Duration> {
    let [user, system] = numbers(&stat_of(i32::try_from(pid).ok()?)?, 11)?;
    Some(of_ticks(user + system))
}

/// Time of that many clock ticks.
pub(crate) fn of_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Returns true if a thread has ended, and waits to be reaped.
pub(crate) fn is_zombie(tid: i32) -> bool {
    stat_of(tid).is_none_or(|fields| fields.starts_with(['Z', 'X']))
}

#[cfg(test)]
#[path = "proc_tests.rs"]
mod tests;

//! Reads processes in `/proc`: their trees, threads and times. A process that is not there has none; what cannot be read for
//! another reason, such as the want of a descriptor, is an error.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::time::Duration;

use ringfence_sys::{list_kernel_directory, open_kernel_file, read_kernel_file};
use rustix::io::Errno;

/// Returns `None` for a process or file that is not there.
pub(crate) fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    // EPERM: with `hidepid=1` nothing of a process that may not be looked into, which the plan names as a gap.
    let absent = [Errno::NOENT, Errno::SRCH, Errno::PERM].map(Errno::raw_os_error);
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.raw_os_error().is_some_and(|e| absent.contains(&e)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process `root` and everything below it.
pub(crate) fn tree(root: i32) -> io::Result<Vec<i32>> {
    let mut found = vec![root];
    let mut seen: HashSet<i32> = HashSet::from([root]);
    let mut next = 0;
    let mut by_scan: Option<HashMap<i32, Vec<i32>>> = None;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for child in children(pid, &mut by_scan)? {
            if seen.insert(child) {
                found.push(child);
            }
        }
    }
    Ok(found)
}

/// The threads of a process.
pub(crate) fn tasks(pid: i32) -> io::Result<Vec<i32>> {
    let names = if_there(list_kernel_directory(format!("/proc/{pid}/task")))?.unwrap_or_default();
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// The children of a process.
pub(crate) fn children_of(pid: i32) -> io::Result<Vec<i32>> {
    children(pid, &mut None)
}

fn children(pid: i32, by_scan: &mut Option<HashMap<i32, Vec<i32>>>) -> io::Result<Vec<i32>> {
    let mut list = Vec::new();
    for tid in tasks(pid)? {
        let text = if_there(read_kernel_file(format!("/proc/{pid}/task/{tid}/children")))?;
        let Some(text) = text else {
            // Kernels without CONFIG_PROC_CHILDREN: read every process's parent once.
            let map = match by_scan {
                Some(map) => map,
                None => by_scan.insert(scan_parents()?),
            };
            return Ok(map.get(&pid).cloned().unwrap_or_default());
        };
        list.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    Ok(list)
}

/// The children of `pid`, by asking every process for its parent.
pub(crate) fn children_by_scan(pid: i32) -> Option<Vec<i32>> {
    let mut parents = scan_parents().ok()?;
    // An empty `/proc` is no list.
    let own = rustix::process::getpid().as_raw_nonzero().get();
    parents.values().flatten().any(|pid| *pid == own).then_some(())?;
    Some(parents.remove(&pid).unwrap_or_default())
}

fn scan_parents() -> io::Result<HashMap<i32, Vec<i32>>> {
    let mut map: HashMap<i32, Vec<i32>> = HashMap::new();
    for name in if_there(list_kernel_directory("/proc"))?.unwrap_or_default() {
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid)? {
            map.entry(parent).or_default().push(pid);
        }
    }
    Ok(map)
}

/// The parent of a process, by its line in `/proc`.
pub(crate) fn parent_of(pid: i32) -> io::Result<Option<i32>> {
    let stat = stat_of(pid)?;
    let parent = stat.and_then(|stat| numbers::<1>(&stat, 1));
    Ok(parent.and_then(|[parent]| i32::try_from(parent).ok()))
}

/// The fields of `/proc/PID/stat` after the name in parentheses: state, parent and so on.
pub(crate) fn stat_of(pid: i32) -> io::Result<Option<String>> {
    let text = line_of(&format!("/proc/{pid}/stat"))?;
    Ok(text.and_then(|text| Some(text.rsplit_once(") ")?.1.to_owned())))
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
pub(crate) fn line_of(path: &str) -> io::Result<Option<String>> {
    let mut buffer = [0; 1024];
    let n = if_there(open_kernel_file(path).and_then(|mut file| file.read(&mut buffer)))?;
    Ok(n.map(|n| String::from_utf8_lossy(&buffer[..n]).into_owned()))
}

/// Start time of a process, in clock ticks since boot; together with the pid it is unique.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    numbers::<1>(&stat_of(pid).ok()??, 19).map(|[ticks]| ticks)
}

/// CPU time of a living process alone, all its threads.
pub fn cpu_so_far(pid: u32) -> Option<Duration> {
    let [user, system] = numbers(&stat_of(i32::try_from(pid).ok()?).ok()??, 11)?;
    Some(of_ticks(user + system))
}

/// Time of that many clock ticks.
pub(crate) fn of_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Returns true if a thread has ended, and waits to be reaped. One that cannot be read may be alive.
pub(crate) fn is_zombie(tid: i32) -> bool {
    stat_of(tid).is_ok_and(|stat| stat.is_none_or(|fields| fields.starts_with(['Z', 'X'])))
}

#[cfg(test)]
#[path = "proc_tests.rs"]
mod tests;

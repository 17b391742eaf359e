//! Checks a worker's fence as the kernel reports it: the zygote that made the worker is not trusted.

use std::os::fd::{AsRawFd, OwnedFd};

use ringfence_sys::{CallError, Named};
use rustix::io::Errno;

/// The pid on the host of the process behind a pidfd that a guest sent.
pub(crate) fn host_pid(pidfd: &OwnedFd) -> Result<u32, CallError> {
    identify(pidfd).map(|(pid, _)| pid)
}

/// Its pid, and its parent's where one call answers both.
fn identify(pidfd: &OwnedFd) -> Result<(u32, Option<u32>), CallError> {
    // The process would outlive the thread, and every signal to it.
    if ringfence_sys::is_of_a_thread(pidfd) {
        return Err(CallError::new("the pidfd is of a thread", Errno::PERM));
    }
    if let Some(ids) = ringfence_sys::process_ids(pidfd) {
        return Ok((ids.pid, Some(ids.parent)));
    }
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let info = ringfence_sys::read_kernel_file(&path).named(|| format!("read({path:?})"))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i32>().ok());
    let pid = pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    pid.map(|pid| (pid, None))
        .ok_or_else(|| CallError::new("the pidfd names no living process", Errno::SRCH))
}

/// Refuses a worker that is not fenced according to the kernel; returns its pid in the zygote's namespace.
pub(crate) fn check(host_pid: u32, host_uid: u32) -> Result<u32, CallError> {
    let path = format!("/proc/{host_pid}/status");
    let status = ringfence_sys::read_kernel_file(&path).named(|| format!("read({path:?})"))?;
    match missing(&status, host_uid) {
        Some(what) => Err(CallError::new(format!("the worker is not fenced: {what}"), Errno::PERM)),
        None => pid_in_zygote(&status)
            .ok_or_else(|| CallError::new("the worker has no pid in the zygote", Errno::SRCH)),
    }
}

/// Returns true if a process is in another pid namespace than this one: it is none of the host's.
pub(crate) fn is_inside(host_pid: u32) -> bool {
    let status = ringfence_sys::read_kernel_file(format!("/proc/{host_pid}/status"));
    status.is_ok_and(|status| pid_in_zygote(&status).is_some())
}

/// The same of a process that must be a child of `parent`: a child has its parent's fence.
pub(crate) fn child_pid(pidfd: &OwnedFd, parent: u32) -> Result<u32, CallError> {
    let (pid, found) = identify(pidfd)?;
    let found = if found.is_some() { found } else { parent_by_proc(pid)? };
    if found == Some(parent) {
        return Ok(pid);
    }
    Err(CallError::new("the session sent the pidfd of another process", Errno::PERM))
}

fn parent_by_proc(pid: u32) -> Result<Option<u32>, CallError> {
    let path = format!("/proc/{pid}/status");
    let status = ringfence_sys::read_kernel_file(&path).named(|| format!("read({path:?})"))?;
    Ok(status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()))
}

/// The pid in the namespace around the worker's own.
fn pid_in_zygote(status: &str) -> Option<u32> {
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    pids.split_whitespace().rev().nth(1)?.parse().ok()
}

/// The first missing part of the fence in a worker's `status`.
fn missing(status: &str, host_uid: u32) -> Option<String> {
    let field = |name: &str| {
        status.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim())
        })
    };
    let uid = host_uid.to_string();
    let uids = field("Uid").unwrap_or_default();
    if uids.split_whitespace().count() != 4 || uids.split_whitespace().any(|id| id != uid) {
        return Some(format!("its uid on the host is {uids}"));
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        if field(set).is_none_or(|bits| bits.bytes().any(|b| b != b'0')) {
            return Some(format!("{set} is not empty"));
        }
    }
    if field("NoNewPrivs") != Some("1") {
        return Some("it may gain privileges".to_owned());
    }
    if field("Seccomp") != Some("2") {
        return Some("it has no system call filter".to_owned());
    }
    // The zygote's filter and its own. Kernels before 5.9 do not report the number.
    let n_filters = field("Seccomp_filters").and_then(|n| n.parse::<u32>().ok());
    if n_filters.is_some_and(|n| n < 2) {
        return Some("it has not its own system call filter".to_owned());
    }
    // The host's, the zygote's, its own: it is the first process of the last one.
    let pids: Vec<&str> = field("NSpid").unwrap_or_default().split_whitespace().collect();
    if pids.len() < 3 || pids.last() != Some(&"1") {
        return Some("it has no pid namespace of its own".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{missing, pid_in_zygote};

    const GOOD: &str = "Name:\tpython3\nUid:\t7\t7\t7\t7\nNSpid:\t90\t12\t1\nCapInh:\t0000\nCapPrm:\t0000\nCapEff:\t0000\n\
                        CapBnd:\t0000\nCapAmb:\t0000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";

    #[test]
    fn each_lack_is_named() {
        assert_eq!(missing(GOOD, 7), None);
        assert_eq!(pid_in_zygote(GOOD), Some(12));
        for (from, to, what) in [
            ("Uid:\t7\t7", "Uid:\t0\t7", "uid on the host"),
            ("CapEff:\t0000", "CapEff:\t0020", "CapEff"),
            ("CapBnd:\t0000\n", "", "CapBnd"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "privileges"),
            ("Seccomp:\t2", "Seccomp:\t0", "no system call filter"),
            ("filters:\t2", "filters:\t1", "its own system call filter"),
            ("NSpid:\t90\t12\t1", "NSpid:\t90\t12", "pid namespace"),
            ("NSpid:\t90\t12\t1", "NSpid:\t90\t12\t2", "pid namespace"),
        ] {
            let status = GOOD.replace(from, to);
            let found = missing(&status, 7);
            assert!(found.as_ref().is_some_and(|f| f.contains(what)), "{what}: {found:?}");
        }
        assert!(missing(GOOD, 0).is_some());
    }
}

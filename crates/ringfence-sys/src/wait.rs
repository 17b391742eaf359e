//! Reaping children together with what they used.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::CallError;

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// A child that has been reaped.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// Its process id.
    pub pid: i32,
    /// Its end.
    pub ended: Ended,
    /// CPU time of it and of everything it had reaped.
    pub cpu: Duration,
    /// The largest resident set among them.
    pub memory_peak_bytes: u64,
}

/// Waits for the end of one child.
pub fn reap_pid(pid: i32) -> Result<Reaped, CallError> {
    // Without WNOHANG, wait4(2) returns no 0.
    wait4(pid, 0)?.ok_or_else(|| CallError::new(format!("wait4({pid})"), Errno::CHILD))
}

/// Reaps one child if it has ended.
pub fn try_reap_pid(pid: i32) -> Result<Option<Reaped>, CallError> {
    wait4(pid, libc::WNOHANG)
}

/// Reaps a child that has ended. `None` if all still run, or there is none.
pub fn try_reap_any() -> Result<Option<Reaped>, CallError> {
    match wait4(-1, libc::WNOHANG) {
        Err(e) if e.errno == Errno::CHILD => Ok(None),
        other => other,
    }
}

/// Frees the memory of a process that is being killed while the process does so itself, by `process_mrelease`. It is dead
/// sooner: since Linux 6.18 the two begin at different ends. Without support of the kernel this does nothing.
pub fn release_memory(pidfd: impl AsFd) {
    // SAFETY: takes a descriptor and flags, and touches no memory.
    let _ = unsafe { libc::syscall(libc::SYS_process_mrelease, pidfd.as_fd().as_raw_fd(), 0) };
}

/// Returns true if two processes have their memory in common, as a parent and the child it waits for in vfork(2) have.
pub fn have_memory_in_common(one: i32, other: i32) -> bool {
    const KCMP_VM: libc::c_int = 1;
    have_in_common(one, other, KCMP_VM)
}

/// Returns true if two threads have their descriptors in common, as those of one program usually have.
pub fn have_descriptors_in_common(one: i32, other: i32) -> bool {
    const KCMP_FILES: libc::c_int = 2;
    have_in_common(one, other, KCMP_FILES)
}

fn have_in_common(one: i32, other: i32, what: libc::c_int) -> bool {
    // SAFETY: takes numbers, and touches no memory.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, what, 0, 0) == 0 }
}

fn wait4(pid: i32, options: libc::c_int) -> Result<Option<Reaped>, CallError> {
    let mut status: libc::c_int = 0;
    // SAFETY: `rusage` is plain data for which all zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = loop {
        // SAFETY: both out-pointers are live and of the right type for the whole call.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        match reaped {
            0 => return Ok(None),
            n if n > 0 => break n,
            _ => {
                let error = CallError::last(format!("wait4({pid})"));
                if error.errno != Errno::INTR {
                    return Err(error);
                }
            }
        }
    };
    let ended = if libc::WIFEXITED(status) {
        Ended::Exited(libc::WEXITSTATUS(status))
    } else {
        Ended::Signaled(libc::WTERMSIG(status))
    };
    let time = |t: libc::timeval| {
        Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), 0)
            + Duration::from_micros(u64::try_from(t.tv_usec).unwrap_or(0))
    };
    Ok(Some(Reaped {
        pid,
        ended,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        memory_peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }))
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

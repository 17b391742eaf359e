//! What the kernel says of the process behind a pidfd that a run may have sent.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::CallError;

/// `PID_FS_MAGIC`: the filesystem of pidfds since Linux 6.9.
const PID_FS_MAGIC: u64 = 0x5049_4446;

/// Ids of a process, in the caller's pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIds {
    /// Its pid.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
}

/// Ids of the process behind a pidfd, in one call. `None` before Linux 6.13, for a process that is gone or in another
/// namespace, and for other descriptors.
pub fn process_ids(pidfd: impl AsFd) -> Option<ProcessIds> {
    // The server of another filesystem could answer the call below with anything.
    let kind = rustix::fs::fstatfs(&pidfd).ok()?.f_type;
    if u64::try_from(kind).ok()? != PID_FS_MAGIC {
        return None;
    }
    // SAFETY: plain data for which all zero bytes are a valid value: it asks for nothing but the ids.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is live and as large as the number of the call says.
    let result =
        unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), libc::PIDFD_GET_INFO as _, &raw mut info) };
    let has_ids = result == 0
        && info.mask & u64::from(libc::PIDFD_INFO_PID) != 0
        && info.pid > 0
        && info.pid == info.tgid;
    has_ids.then_some(ProcessIds { pid: info.pid, parent: info.ppid })
}

/// Returns true if a pidfd is of one thread (`PIDFD_THREAD`, since Linux 6.9): it reports the end of that thread, and a
/// signal sent by it reaches nothing after that.
pub fn is_of_a_thread(pidfd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(pidfd).is_ok_and(|flags| flags.contains(OFlags::EXCL))
}

/// Returns true if a thread is the first of its process, so that its id is the process's. Cheaper than to ask for a pidfd,
/// which only first threads have, or to read its status.
pub fn is_first_thread(tid: i32) -> bool {
    // SAFETY: takes numbers; signal 0 is not sent.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, tid, tid, 0) };
    // It fails with ESRCH for another thread, and only then asks for permission.
    result == 0 || CallError::last("tgkill").errno == Errno::PERM
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use ringfence_testing::BoundedCommand as _;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn a_pidfd_has_the_ids_of_its_process_until_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).bounded_spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let expected = ProcessIds { pid: child.id(), parent: std::process::id() };
        let found = process_ids(&pidfd);
        assert!(!is_of_a_thread(&pidfd));
        let thread = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
        if let Ok(thread) = pidfd_open(Pid::from_child(&child), thread) {
            assert!(is_of_a_thread(&thread));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(process_ids(&pidfd), None);
        assert_eq!(process_ids(std::io::stdin()), None);
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map(|n| n.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        // Older kernels may have it too.
        assert!(found.is_none_or(|found| found == expected), "{found:?}");
        assert!(found.is_some() || version < (6, 13), "{release}");
    }

    #[test]
    fn only_the_first_thread_has_the_id_of_its_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_first_thread(own));
        // A test runs on a thread of its own.
        let this = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(this != own && !is_first_thread(this));
        assert!(!is_first_thread(i32::MAX) && is_first_thread(1));
    }
}

//! A lock on a workspace's own directory, shared by all runs that hold names in it. Records of placeholders belong to one
//! data directory; by this lock, runs of other data directories and users are noticed too.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_sys::untrusted::open_directory_beneath;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Time to wait for a process that removes names, which takes it milliseconds.
const SHARE_MAX: Duration = Duration::from_secs(1);

/// Pause before the lock is tried again.
const PAUSE: Duration = Duration::from_micros(200);

/// The lock. Dropping it unlocks the directory, also where a forked process still has a copy of the descriptor: the lock
/// belongs to all copies.
#[derive(Debug)]
pub(crate) struct WorkspaceLock(OwnedFd);

/// Result of taking or changing the lock.
#[derive(Debug)]
pub(crate) enum Locking<T> {
    /// It is held.
    Held(T),
    /// Another process holds it otherwise.
    Busy,
    /// The filesystem has no such locks (NFS refuses exclusive ones), or the caller cannot read the directory.
    Unsupported,
}

impl WorkspaceLock {
    /// Shares the directory `root` with other runs. A process of a run can lock its own workspace too: that is no reason to
    /// wait long, or to refuse the next run.
    pub(crate) fn share(root: &OwnedFd) -> Locking<Self> {
        let Ok(dir) = open_directory_beneath(root, Path::new(".")) else {
            return Locking::Unsupported;
        };
        let give_up = Instant::now() + SHARE_MAX;
        loop {
            match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Locking::Held(Self(dir)),
                Err(Errno::AGAIN | Errno::INTR) if Instant::now() < give_up => {
                    std::thread::sleep(PAUSE);
                }
                Err(Errno::AGAIN | Errno::INTR) => return Locking::Busy,
                Err(_) => return Locking::Unsupported,
            }
        }
    }

    /// Locks the directory `root` for this process alone, to remove names in it.
    pub(crate) fn alone(root: &OwnedFd) -> Locking<Self> {
        match open_directory_beneath(root, Path::new(".")) {
            Ok(dir) => Self(dir).into_alone(),
            Err(_) => Locking::Unsupported,
        }
    }

    /// The same for a directory that is shared. The lock is gone if this fails: flock(2) changes it in two steps.
    pub(crate) fn into_alone(self) -> Locking<Self> {
        match rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Locking::Held(self),
            Err(Errno::AGAIN | Errno::INTR) => Locking::Busy,
            Err(_) => Locking::Unsupported,
        }
    }
}

impl AsRawFd for WorkspaceLock {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for WorkspaceLock {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_sys::untrusted::open_absolute;

    #[test]
    fn many_share_a_directory_and_one_alone_removes() {
        let dir = tempfile::tempdir().unwrap();
        let root = open_absolute(&dir.path().canonicalize().unwrap()).unwrap();
        let Locking::Held(first) = WorkspaceLock::share(&root) else { panic!("not shared") };
        let Locking::Held(second) = WorkspaceLock::share(&root) else { panic!("not shared twice") };
        assert!(matches!(WorkspaceLock::alone(&root), Locking::Busy));
        assert!(matches!(first.into_alone(), Locking::Busy));
        let Locking::Held(alone) = second.into_alone() else { panic!("not alone") };
        assert!(matches!(WorkspaceLock::share(&root), Locking::Busy));
        drop(alone);
        assert!(matches!(WorkspaceLock::alone(&root), Locking::Held(_)));
    }

    #[test]
    fn a_copy_of_the_descriptor_keeps_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let root = open_absolute(&dir.path().canonicalize().unwrap()).unwrap();
        let Locking::Held(lock) = WorkspaceLock::share(&root) else { panic!("not shared") };
        let _copy = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(matches!(WorkspaceLock::alone(&root), Locking::Held(_)));
    }
}

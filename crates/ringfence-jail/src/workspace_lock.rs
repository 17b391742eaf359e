//! A lock on a workspace's own directory, shared by all runs that need names in it. Records of placeholders belong to one
//! data directory; by this lock, runs of other data directories and users are noticed too.
//!
//! Locks on bytes: a process that locks the directory by flock(1) for its own purposes is in no run's way. A byte of a
//! directory can only be shared, so there are two. A run shares the first and then looks at the second; to remove names,
//! it shares the second and then looks at the first.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_sys::untrusted::open_directory_beneath;
use ringfence_sys::{CallError, is_byte_held, release_byte, share_byte};
use rustix::io::Errno;

/// Byte shared by those that need names in the directory.
const NEEDED: i64 = 0x5249_4e47_0000;

/// Byte shared by those that remove names.
const REMOVING: i64 = NEEDED + 1;

/// Pause before the directory is looked at again.
const PAUSE: Duration = Duration::from_micros(200);

/// The lock. Dropping it unlocks the directory, also where a forked process still has a copy of the descriptor: the lock
/// belongs to all copies.
#[derive(Debug)]
pub(crate) struct WorkspaceLock(OwnedFd);

impl WorkspaceLock {
    /// Shares the directory `root` with other runs: from here on, no run begins to remove names in it.
    pub(crate) fn share(root: &OwnedFd) -> Result<Self, CallError> {
        let lock = Self(open_directory_beneath(root, Path::new("."))?);
        share_byte(&lock.0, NEEDED)?;
        Ok(lock)
    }

    /// Waits for processes that had begun to remove names before, which takes them milliseconds. A process of a run can
    /// lock its own workspace too: that is no reason to wait long.
    pub(crate) fn wait_for_removal(&self, deadline: Instant) -> Result<(), CallError> {
        while is_byte_held(&self.0, REMOVING)? {
            if Instant::now() >= deadline {
                return Err(CallError::new("another process keeps it locked", Errno::BUSY));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Locks the directory `root` to remove names in it. Fails if a run needs them.
    pub(crate) fn to_remove(root: &OwnedFd) -> Result<Self, CallError> {
        Self(open_directory_beneath(root, Path::new("."))?).into_removing()
    }

    /// The same for a run that shares the directory. It gives its share up first: of two that end at once, one removes.
    pub(crate) fn into_removing(self) -> Result<Self, CallError> {
        share_byte(&self.0, REMOVING)?;
        release_byte(&self.0, NEEDED)?;
        if is_byte_held(&self.0, NEEDED)? {
            return Err(CallError::new("another run needs the names", Errno::BUSY));
        }
        Ok(self)
    }
}

/// Returns true for errors of filesystems that have no such locks on directories.
pub(crate) fn is_unsupported(error: &CallError) -> bool {
    matches!(error.errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NOLCK)
}

impl AsRawFd for WorkspaceLock {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for WorkspaceLock {
    fn drop(&mut self) {
        for byte in [NEEDED, REMOVING] {
            let _ = release_byte(&self.0, byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_sys::untrusted::open_absolute;

    fn directory() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let root = open_absolute(&dir.path().canonicalize().unwrap()).unwrap();
        (dir, root)
    }

    fn is_free(lock: &WorkspaceLock) -> bool {
        lock.wait_for_removal(Instant::now()).is_ok()
    }

    #[test]
    fn many_share_a_directory_and_the_last_removes() {
        let (_dir, root) = directory();
        let first = WorkspaceLock::share(&root).unwrap();
        let second = WorkspaceLock::share(&root).unwrap();
        assert!(WorkspaceLock::to_remove(&root).is_err());
        assert!(first.into_removing().is_err());
        assert!(is_free(&second));
        let removing = second.into_removing().unwrap();
        let late = WorkspaceLock::share(&root).unwrap();
        assert!(!is_free(&late));
        drop(removing);
        assert!(is_free(&late));
        drop(late);
        assert!(WorkspaceLock::to_remove(&root).is_ok());
    }

    #[test]
    fn of_two_that_end_at_once_one_removes() {
        let (_dir, root) = directory();
        for _ in 0..200 {
            let locks = [(); 2].map(|()| WorkspaceLock::share(&root).unwrap());
            let at_once = &std::sync::Barrier::new(2);
            let n_removing: usize = std::thread::scope(|scope| {
                let ends = locks.map(|lock| {
                    scope.spawn(move || {
                        at_once.wait();
                        usize::from(lock.into_removing().is_ok())
                    })
                });
                ends.map(|end| end.join().unwrap()).into_iter().sum()
            });
            assert!(n_removing > 0);
        }
    }

    #[test]
    fn a_copy_of_the_descriptor_keeps_no_lock() {
        let (_dir, root) = directory();
        let lock = WorkspaceLock::share(&root).unwrap();
        let _copy = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(WorkspaceLock::to_remove(&root).is_ok());
    }
}

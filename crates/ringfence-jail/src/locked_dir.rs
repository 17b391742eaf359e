//! Directories of a run that others may sweep: locked by their maker while the run lives, and taken for abandoned by a
//! sweep that can lock them itself. Making and locking are two calls, so a sweep can come between: it leaves young
//! directories alone, and a maker that was late makes its directory again.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use ringfence_sys::{CallError, Named};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Age below which a sweep does not lock a directory: its maker may not have locked it yet.
pub(crate) const ABANDONED_AFTER: Duration = Duration::from_secs(2);

/// Bound on making a directory, for a sweep that holds it and sweeps that remove it. Each takes milliseconds.
const MAKE_MAX: Duration = Duration::from_secs(5);

/// Pause before the lock is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Makes `dir` by `create` and locks it. While the descriptor is open, no sweep removes it.
pub(crate) fn make(
    dir: &Path,
    create: impl Fn(&Path) -> std::io::Result<()>,
) -> Result<OwnedFd, CallError> {
    let deadline = Instant::now() + MAKE_MAX;
    loop {
        create(dir).named(|| format!("mkdir({dir:?})"))?;
        match lock_made(dir, deadline) {
            Ok(Some(lock)) => return Ok(lock),
            Ok(None) if Instant::now() < deadline => {}
            Ok(None) => return Err(CallError::new(format!("mkdir({dir:?})"), Errno::STALE)),
            Err(error) => {
                let _ = std::fs::remove_dir(dir);
                return Err(error);
            }
        }
    }
}

/// Locks `dir`, or returns none if a sweep has removed it.
fn lock_made(dir: &Path, deadline: Instant) -> Result<Option<OwnedFd>, CallError> {
    let lock = match open(dir) {
        Ok(lock) => lock,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(CallError::new(format!("open({dir:?})"), errno)),
    };
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(errno) => return Err(CallError::new(format!("flock({dir:?})"), errno)),
        }
    }
    // Only now: with the lock held nothing removes it any more.
    Ok(is_at(&lock, dir)?.then_some(lock))
}

/// Locks `dir` for removal if its run is gone. The caller holds the lock until it has removed it.
pub(crate) fn lock_abandoned(dir: &Path, older_than: Duration) -> Option<OwnedFd> {
    let lock = std::fs::File::from(open(dir).ok()?);
    let made = lock.metadata().and_then(|meta| meta.modified()).ok()?;
    // A clock that was set back makes a directory seem to come from the future: that is old, unless by a little.
    let age = SystemTime::now().duration_since(made).unwrap_or_else(|ahead| ahead.duration());
    if age < older_than {
        return None;
    }
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Another sweep may have removed it since it was opened, and its maker made it again: that one is not locked here.
    is_at(&lock, dir).ok()?.then(|| lock.into())
}

fn open(dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty())
}

/// Returns true if the directory behind `fd` is the one at `path`.
fn is_at(fd: &impl AsFd, path: &Path) -> Result<bool, CallError> {
    let opened = rustix::fs::fstat(fd).named(|| format!("fstat({path:?})"))?;
    match rustix::fs::lstat(path) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(CallError::new(format!("lstat({path:?})"), errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_directory_that_is_swept_before_its_lock_is_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        let n_made = Cell::new(0);
        let lock = make(&dir, |dir| {
            n_made.set(n_made.get() + 1);
            std::fs::create_dir(dir)?;
            // The first time it is gone before it can be opened.
            if n_made.get() == 1 { std::fs::remove_dir(dir) } else { Ok(()) }
        });
        assert_eq!(n_made.get(), 2);
        assert!(is_at(&lock.unwrap(), &dir).unwrap());
    }

    #[test]
    fn a_maker_waits_for_a_sweep_and_makes_again_what_it_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        std::thread::scope(|scope| {
            let n_made = Cell::new(0);
            let lock = make(&dir, |dir| {
                n_made.set(n_made.get() + 1);
                std::fs::create_dir(dir)?;
                if n_made.get() == 1 {
                    let held = lock_abandoned(dir, Duration::ZERO).expect("a sweep locks it first");
                    let dir = dir.to_owned();
                    scope.spawn(move || {
                        std::thread::sleep(Duration::from_millis(30));
                        std::fs::remove_dir(dir).unwrap();
                        drop(held);
                    });
                }
                Ok(())
            });
            assert_eq!(n_made.get(), 2);
            assert!(is_at(&lock.unwrap(), &dir).unwrap());
        });
    }

    #[test]
    fn only_what_is_old_and_unlocked_is_abandoned() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        let lock = make(&dir, |dir| std::fs::create_dir(dir)).unwrap();
        assert!(lock_abandoned(&dir, Duration::ZERO).is_none());
        drop(lock);
        assert!(lock_abandoned(&dir, ABANDONED_AFTER).is_none());
        assert!(lock_abandoned(&dir, Duration::ZERO).is_some());
        let now = SystemTime::now();
        let set = |time| std::fs::File::open(&dir).unwrap().set_modified(time).unwrap();
        for (time, abandoned) in [
            (now - Duration::from_mins(1), true),
            (now + Duration::from_mins(1), true),
            (now, false),
        ] {
            set(time);
            assert_eq!(lock_abandoned(&dir, ABANDONED_AFTER).is_some(), abandoned, "{time:?}");
        }
    }

    #[test]
    fn a_link_is_neither_locked_nor_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, link) = (parent.path().join("run"), parent.path().join("link"));
        std::fs::create_dir(&dir).unwrap();
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(lock_abandoned(&link, Duration::ZERO).is_none());
    }
}

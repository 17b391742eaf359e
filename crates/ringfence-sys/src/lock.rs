//! Locks on single bytes of a file that belong to an open file: the kernel lets go when its last descriptor is closed,
//! also by death, so a held byte means that its holder is alive.

use std::os::fd::{AsFd, AsRawFd};

use crate::CallError;

/// Takes the byte at `offset` for the open file behind `fd`; false when another open file holds it.
pub fn hold_byte(fd: impl AsFd, offset: i64) -> Result<bool, CallError> {
    let mut wanted = byte(libc::F_WRLCK, offset);
    match control(&fd, libc::F_OFD_SETLK, &mut wanted) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.errno.raw_os_error(), libc::EAGAIN | libc::EACCES) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Takes a share of the byte at `offset` for the open file behind `fd`, which may be a directory. Of a byte that is only
/// shared this never fails for want of one.
pub fn share_byte(fd: impl AsFd, offset: i64) -> Result<(), CallError> {
    control(&fd, libc::F_OFD_SETLK, &mut byte(libc::F_RDLCK, offset))
}

/// Lets go of the byte at `offset`, also for copies of `fd` in other processes.
pub fn release_byte(fd: impl AsFd, offset: i64) -> Result<(), CallError> {
    control(&fd, libc::F_OFD_SETLK, &mut byte(libc::F_UNLCK, offset))
}

/// Returns true if an open file other than the one behind `fd` holds the byte at `offset`, or shares it.
pub fn is_byte_held(fd: impl AsFd, offset: i64) -> Result<bool, CallError> {
    let mut asked = byte(libc::F_WRLCK, offset);
    control(&fd, libc::F_OFD_GETLK, &mut asked)?;
    Ok(i32::from(asked.l_type) != libc::F_UNLCK)
}

fn byte(kind: i32, offset: i64) -> libc::flock {
    let word = |n: i32| libc::c_short::try_from(n).unwrap_or(0);
    libc::flock {
        l_type: word(kind),
        l_whence: word(libc::SEEK_SET),
        l_start: offset,
        l_len: 1,
        // fcntl(2): must be zero for locks of open files.
        l_pid: 0,
    }
}

fn control(fd: &impl AsFd, command: i32, lock: &mut libc::flock) -> Result<(), CallError> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the call reads and writes one `flock`, which outlives it.
    let result = unsafe { libc::fcntl(fd, command, std::ptr::from_mut(lock)) };
    if result == 0 {
        return Ok(());
    }
    Err(CallError::last(format!("fcntl({fd}, {command}, byte {})", lock.l_start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_held_until_its_open_file_is_closed() {
        let path = std::env::temp_dir().join(format!("ringfence-lock-{}", std::process::id()));
        let open = || {
            std::fs::File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let (one, other) = (open(), open());
        assert!(hold_byte(&one, 1 << 40).unwrap());
        assert!(!hold_byte(&other, 1 << 40).unwrap());
        assert!(is_byte_held(&other, 1 << 40).unwrap());
        assert!(!is_byte_held(&other, 7).unwrap());
        drop(one);
        assert!(!is_byte_held(&other, 1 << 40).unwrap());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_byte_of_a_directory_is_shared_by_many() {
        let dir = std::env::temp_dir().join(format!("ringfence-lock-dir-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let open = || std::fs::File::open(&dir).unwrap();
        let (one, two, other) = (open(), open(), open());
        for fd in [&one, &two] {
            share_byte(fd, 9).unwrap();
        }
        release_byte(&one, 9).unwrap();
        assert!(is_byte_held(&other, 9).unwrap());
        // Its own share does not count.
        assert!(!is_byte_held(&two, 9).unwrap());
        let copy = two.try_clone().unwrap();
        release_byte(&two, 9).unwrap();
        drop(two);
        assert!(!is_byte_held(&other, 9).unwrap());
        drop(copy);
        // Locks of flock(1) are others.
        rustix::fs::flock(&one, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        share_byte(&other, 9).unwrap();
        std::fs::remove_dir(&dir).unwrap();
    }
}

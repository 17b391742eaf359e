//! Descriptors by the range.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use crate::CallError;

/// Closes every descriptor from `first` on.
pub fn close_range_from(first: RawFd) -> Result<(), CallError> {
    close_range(first, u32::MAX, 0)
}

/// Closes every descriptor from `first` to `last`, both included; an empty range is fine.
pub fn close_range_between(first: RawFd, last: RawFd) -> Result<(), CallError> {
    if first > last {
        return Ok(());
    }
    close_range(first, u32::try_from(last).unwrap_or(0), 0)
}

/// Closes every descriptor from `first` on but `keep`, which it sorts.
pub fn close_from_except(first: RawFd, keep: &mut [RawFd]) -> Result<(), CallError> {
    keep.sort_unstable();
    let mut next = first;
    for number in keep {
        close_range_between(next, *number - 1)?;
        next = next.max(*number + 1);
    }
    close_range_from(next)
}

/// Marks every descriptor from `first` on to be closed by exec.
pub fn set_cloexec_from(first: RawFd) -> Result<(), CallError> {
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Makes `number` another name of `fd`, kept across exec. Whatever `number` named before is closed: for a process about
/// to execute a program, which owns nothing by that number any more.
pub fn duplicate_onto(fd: impl AsFd, number: RawFd) -> Result<(), CallError> {
    let from = fd.as_fd().as_raw_fd();
    // SAFETY: the call takes integers only; see above for what `number` may name.
    let result = unsafe { libc::dup2(from, number) };
    if result == number { Ok(()) } else { Err(CallError::last(format!("dup2({from}, {number})"))) }
}

fn close_range(first: RawFd, last: u32, flags: u32) -> Result<(), CallError> {
    let call = || format!("close_range({first}, {last:#x}, {flags})");
    let Ok(from) = u32::try_from(first) else {
        return Err(CallError::new(call(), rustix::io::Errno::INVAL));
    };
    // SAFETY: the call takes integers only. Callers are children that own no descriptor object in that range
    // any more, or keep those objects from closing twice; a stale number is an error later, not undefined.
    let result = unsafe { libc::syscall(libc::SYS_close_range, from, last, flags) };
    if result == 0 { Ok(()) } else { Err(CallError::last(call())) }
}

//! Descriptors by the range.

use std::os::fd::RawFd;

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

/// Marks every descriptor from `first` on to be closed by exec.
pub fn set_cloexec_from(first: RawFd) -> Result<(), CallError> {
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
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

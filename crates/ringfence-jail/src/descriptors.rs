//! Keeps descriptors of this process free for its own work, whatever a run has it hold. Opens and closes none.

use std::os::fd::{AsFd, AsRawFd as _, RawFd};
use std::sync::LazyLock;

/// Minimum number of descriptors kept free, where the limit has as many.
const RESERVE_MIN: u64 = 64;

/// First number of the reserve.
static RESERVE_FROM: LazyLock<RawFd> = LazyLock::new(|| {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    RawFd::try_from(reserve_from(limit.unwrap_or(u64::MAX))).unwrap_or(RawFd::MAX)
});

/// First number of the reserve: an eighth of the limit, at least [`RESERVE_MIN`], at most half.
fn reserve_from(limit: u64) -> u64 {
    limit - (limit / 8).max(RESERVE_MIN).min(limit / 2)
}

/// Returns true if a descriptor takes a number of the reserve. A new descriptor has the lowest number that is free (open(2)):
/// then all below are taken. If none is kept for a run that has such a number, the reserve stays free. Makes no system call.
pub(crate) fn is_in_reserve(fd: impl AsFd) -> bool {
    fd.as_fd().as_raw_fd() >= *RESERVE_FROM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_limit_is_kept_and_not_less_than_64() {
        for (limit, from) in [(0, 0), (64, 32), (128, 64), (256, 192), (1024, 896), (8000, 7000)] {
            assert_eq!(reserve_from(limit), from, "{limit}");
        }
    }
}

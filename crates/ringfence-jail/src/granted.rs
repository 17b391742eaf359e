//! Shared memory without a file that a run was granted, where no cgroup counts it.
//!
//! What such memory holds lives on while any part of it is mapped, and no process's size shows the part that is not. But
//! each piece was granted whole by one call: so many as live hold at most what the largest grants add up to.

use std::collections::BTreeMap;

/// How many grants there were of which size. Sizes are rounded up by less than a sixteenth: there are not many then,
/// whatever a run asks for.
#[derive(Default)]
pub(crate) struct Granted {
    counts: BTreeMap<u64, u64>,
    total: u64,
}

impl Granted {
    pub(crate) fn add(&mut self, length: u64) {
        let size = rounded(length);
        *self.counts.entry(size).or_default() += 1;
        self.total = self.total.saturating_add(size);
    }

    /// Bytes that all pieces together hold at most, if none was let go.
    pub(crate) fn bytes(&self) -> u64 {
        self.total
    }

    /// Bytes that so many of them hold at most.
    pub(crate) fn bytes_of(&self, n_living: u64) -> u64 {
        let mut left = n_living;
        let mut bytes = 0_u64;
        for (size, count) in self.counts.iter().rev() {
            let n = left.min(*count);
            bytes = bytes.saturating_add(size.saturating_mul(n));
            left -= n;
        }
        bytes
    }
}

/// The next number of which only the five highest bits are set.
fn rounded(length: u64) -> u64 {
    let step = 1 << length.checked_ilog2().unwrap_or(0).saturating_sub(4);
    length.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_those_that_live() {
        let mut granted = Granted::default();
        for size in [1 << 12, 1 << 30, 1 << 20, 1 << 20] {
            granted.add(size);
        }
        let living: Vec<u64> = (0..6).map(|n| granted.bytes_of(n)).collect();
        let (kib4, mib, gib) = (1 << 12, 1 << 20, 1 << 30);
        let all = gib + 2 * mib + kib4;
        assert_eq!(living, [0, gib, gib + mib, gib + 2 * mib, all, all]);
        assert_eq!(granted.bytes(), all);
    }

    #[test]
    fn sizes_are_rounded_up_and_by_little() {
        for length in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
            let size = rounded(length);
            assert!(size >= length && size - length <= length / 16, "{length} became {size}");
        }
        assert_eq!(rounded(u64::MAX), u64::MAX);
        let mut granted = Granted::default();
        for length in 0..100_000 {
            granted.add(length * 4096 + 1);
        }
        assert!(granted.counts.len() < 400, "{}", granted.counts.len());
    }
}

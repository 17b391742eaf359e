//! Choices that can be repeated.

/// A seed nobody chose.
pub(crate) fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Only moments and mutations depend on it: without randomness, a fixed choice is as good.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

/// xorshift64: repeatable, and spread evenly enough.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

//! The number of tests that run at a time.

/// `RUST_TEST_THREADS`, for test programs of our own: libtest reads it itself.
pub fn test_threads() -> Option<usize> {
    let n: usize = std::env::var("RUST_TEST_THREADS").ok()?.parse().ok()?;
    (n > 0).then_some(n)
}

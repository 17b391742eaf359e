//! Tests that cannot run here: said where it is seen, and a failure where it is required.

use std::io::Write as _;

/// Returns true if `RINGFENCE_TEST_REQUIRE` names a feature.
pub fn is_required(feature: &str) -> bool {
    let required = std::env::var("RINGFENCE_TEST_REQUIRE").unwrap_or_default();
    required.split(',').any(|name| name.trim() == feature)
}

/// Says that the present test, or a part of it, is left out because a feature is missing here.
///
/// # Panics
///
/// If the feature is required.
pub fn missing(feature: &str, reason: &str) {
    assert!(!is_required(feature), "RINGFENCE_TEST_REQUIRE names `{feature}`: {reason}");
    say(&format!("SKIPPED {}: {reason} ({feature})", test_name()));
}

/// Returns true if this process is root, as a test requires. The second pass of root's tests runs as an ordinary user, and has
/// nothing to say of tests that the first has run.
pub fn needs_root(reason: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !is_second_pass() {
        missing("root", reason);
    }
    is_root
}

/// Returns true if the tests run once more, as an ordinary user.
pub fn is_second_pass() -> bool {
    std::env::var_os("RINGFENCE_TEST_AGAIN").is_some()
}

/// Writes a line to the stderr of the process: what `eprintln!` says in a test that passes is captured and thrown away.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The test harness names a test's thread after it.
pub(crate) fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

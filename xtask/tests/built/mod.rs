//! The binary that the proofs in small are about, and what they say of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_testing::{BoundedCommand as _, Json, limit};

/// What `xtask` reports when all went well, which it must.
pub(crate) fn report(xtask: &mut Command) -> Json {
    let output = xtask.bounded_output_within(5 * limit()).expect("xtask starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{said}");
    let report = Json::parse(&*stdout);
    assert_eq!(report["ok"], true, "{report}");
    report
}

/// The binary under test: named by `RINGFENCE_TEST_BINARY`, or beside ours, or built now.
pub(crate) fn ringfence() -> PathBuf {
    if let Some(named) = std::env::var_os("RINGFENCE_TEST_BINARY") {
        return named.into();
    }
    let beside = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("ringfence");
    if !beside.exists() {
        eprintln!("NOTE: no `{}`; building it", beside.display());
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        let built =
            build.args(["build", "--package", "ringfence"]).bounded_status_within(15 * limit());
        assert!(built.is_ok_and(|s| s.success()), "`cargo build --package ringfence` failed");
        assert!(beside.exists(), "cargo built ringfence, but not at `{}`", beside.display());
    }
    beside
}

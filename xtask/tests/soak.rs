//! The soaks in small: a few runs of each, so that `cargo test` notices when they rot.

use std::path::{Path, PathBuf};
use std::process::Command;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// The binary under test: named by `RINGFENCE_TEST_BINARY`, or beside ours, or built now.
fn ringfence() -> PathBuf {
    if let Some(named) = std::env::var_os("RINGFENCE_TEST_BINARY") {
        return named.into();
    }
    let beside = Path::new(XTASK).with_file_name("ringfence");
    if !beside.exists() {
        eprintln!("NOTE: no `{}`; building it", beside.display());
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "--package", "ringfence"]).status();
        assert!(built.is_ok_and(|s| s.success()), "`cargo build --package ringfence` failed");
        assert!(beside.exists(), "cargo built ringfence, but not at `{}`", beside.display());
    }
    beside
}

fn soak(args: &[&str]) {
    let binary = ringfence();
    let output = Command::new(XTASK)
        .args(["soak", "--json", "--runs", "20", "--binary"])
        .arg(&binary)
        .args(args)
        .output()
        .expect("xtask starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{said}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON object");
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["runs"], 20, "{report}");
}

// One test: the promise about time is made for two runs side by side on two cores, not for four.
#[test]
fn twenty_hostile_programs_die_in_each_tier_and_twenty_killed_supervisors_leave_nothing() {
    for args in [&[][..], &["--tier", "landlock"], &["--kill-supervisor"]] {
        soak(args);
    }
}

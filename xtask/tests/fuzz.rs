//! The fuzzer in small: two seconds of it, so that `cargo test` notices when it rots or finds something at once.

use std::process::Command;

#[test]
fn two_seconds_of_hostile_sources_break_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["fuzz", "screen", "--seconds", "2", "--json", "--each-max", "20000"])
        .output()
        .expect("xtask starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{said}");
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON object");
    assert_eq!(report["ok"], true, "{report}");
    assert!(report["sources"].as_u64().is_some_and(|n| n > 0), "{report}");
    assert!(report["safe"].as_u64().is_some_and(|n| n > 0), "{report}");
}

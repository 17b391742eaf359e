//! The guest's own functions, in an interpreter without a fence.

use std::process::Command;

#[test]
fn the_last_expression_is_the_same_found_by_lines_and_by_tree() {
    let program = include_str!("../src/guest/program.py");
    let output = Command::new("python3")
        .args(["-I", "-W", "ignore", "-c", include_str!("parted.py"), program])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let n_parted = String::from_utf8_lossy(&output.stdout).trim().parse::<usize>();
    // Else nothing was compared.
    assert!(n_parted.is_ok_and(|n| n >= 30), "{output:?}");
}

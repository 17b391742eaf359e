//! The fuzzers in small: seconds of each, so that `cargo test` notices when one rots or finds something at once.

#![allow(clippy::disallowed_methods)]

mod built;

use std::process::Command;

use ringfence_testing::{BoundedCommand as _, Json};

#[test]
fn two_seconds_of_hostile_sources_break_nothing() {
    let report = built::report(Command::new(env!("CARGO_BIN_EXE_xtask")).args([
        "fuzz",
        "screen",
        "--seconds",
        "2",
        "--json",
        "--each-max",
        "20000",
    ]));
    assert!(report["sources"].as_u64().is_some_and(|n| n > 0), "{report}");
    assert!(report["safe"].as_u64().is_some_and(|n| n > 0), "{report}");
}

#[test]
fn a_few_hundred_hostile_messages_keep_nobody_from_being_served() {
    fuzz_outside("mcp");
}

#[test]
fn a_few_hundred_hostile_requests_keep_nobody_from_being_served() {
    fuzz_outside("http");
}

#[test]
fn a_few_hostile_frames_leave_the_broker_serving() {
    let report = fuzz("broker");
    assert!(report["programs"].as_u64().is_some_and(|n| n > 0), "{report}");
}

fn fuzz_outside(target: &str) {
    let report = fuzz(target);
    assert!(report["checks"].as_u64().is_some_and(|n| n > 0), "{report}");
}

fn fuzz(target: &str) -> Json {
    built::report(
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["fuzz", target, "--seconds", "3", "--json", "--binary"])
            .arg(built::ringfence()),
    )
}

#[test]
fn a_workspace_that_a_run_filled_at_random_holds_no_start_up() {
    let report = built::report(
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            // Without optimisation our part of a start takes several times as long, the kernel's does not.
            .args([
                "fuzz",
                "workspace",
                "--seconds",
                "6",
                "--allowance-ms",
                "30",
                "--json",
                "--binary",
            ])
            .arg(built::ringfence()),
    );
    assert!(report["workspaces"].as_u64().is_some_and(|n| n > 0), "{report}");
}

/// A server that says what is no message: the fuzzer believes its eyes.
const LIAR: &str = "#!/bin/sh\necho 'hello!'\nexec cat > /dev/null\n";

#[test]
fn a_server_that_talks_on_stdout_is_caught() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let liar = dir.path().join("ringfence");
    std::fs::write(&liar, LIAR).expect("the liar is written");
    std::fs::set_permissions(&liar, PermissionsExt::from_mode(0o755)).expect("and executable");
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["fuzz", "mcp", "--seconds", "2", "--json", "--binary"])
        .arg(&liar)
        .bounded_output()
        .expect("xtask starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = Json::parse(&output.stdout);
    let why = report["failures"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("it said what is no message: hello!"), "{report}");
}

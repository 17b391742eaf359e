//! The example of docs/tour.md is the one that is compiled, and does what it says.

#![allow(clippy::disallowed_methods)]

use std::process::Command;

use ringfence_testing::BoundedCommand as _;

const TOUR: &str = include_str!("../../../docs/tour.md");
const EXAMPLE: &str = include_str!("../examples/embed.rs");

#[test]
fn the_documents_example_is_compiled_and_runs() {
    let shown = TOUR.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (_doc, code) = EXAMPLE.split_once("\n\n").unwrap();
    assert_eq!(shown, code, "docs/tour.md and examples/embed.rs differ");

    // `cargo test` builds examples beside the tests.
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples/embed");
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut command = Command::new(built);
    command.current_dir(work).env("HOME", home.path()).env_remove("XDG_STATE_HOME");
    let output = command.bounded_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let lines = ["Ok \"\" None", "Ok \"hello\\n\" Some(\"42\")", "\"Linux\\n\""];
    assert_eq!(said.lines().collect::<Vec<_>>(), lines, "{output:?}");
    // The ledger is on by default, where the command line has it.
    assert!(home.path().join(".local/state/ringfence/ledger/ledger.head").exists());
}

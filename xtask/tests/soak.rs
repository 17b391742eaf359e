//! The soaks in small: a few runs of each, so that `cargo test` notices when they rot.

#![allow(clippy::disallowed_methods)]

mod built;

use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_testing::{BoundedCommand as _, Json, limit};

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// Soaks run several programs side by side on two cores, and are not meant to run beside each other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Twenty runs of an unoptimised binary beside other tests tell nothing about a p99; that they die is what is tested.
const LATE_MS_MAX: &str = "5000";

fn soak(args: &[&str]) {
    let report = built::report(
        Command::new(XTASK)
            .args(["soak", "--json", "--runs", "20", "--binary"])
            .arg(built::ringfence())
            .args(["--overshoot-p99-max", LATE_MS_MAX])
            .args(args),
    );
    assert_eq!(report["runs"], 20, "{report}");
}

#[test]
fn twenty_hostile_programs_die_in_each_tier_and_twenty_killed_supervisors_leave_nothing() {
    let _alone = alone();
    for args in [&[][..], &["--tier", "landlock"], &["--kill-supervisor"]] {
        soak(args);
    }
}

/// An example of the engine: beside ours, where `cargo test` puts it, or built now.
fn example(name: &str) -> PathBuf {
    let beside = Path::new(XTASK).with_file_name("examples").join(name);
    if !beside.exists() {
        eprintln!("NOTE: no `{}`; building it", beside.display());
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--package", "ringfence-engine", "--example", name])
            .bounded_status_within(15 * limit());
        assert!(built.is_ok_and(|s| s.success()), "the example `{name}` does not build");
    }
    beside
}

#[test]
fn five_services_killed_under_load_lose_nothing_and_leave_nothing() {
    let _alone = alone();
    let report = built::report(
        Command::new(XTASK)
            .args(["soak", "--engine", "--json", "--kills", "5", "--binary"])
            .arg(example("load")),
    );
    assert_eq!(report["runs"], 5, "{report}");
    assert!(report["acknowledged"].as_u64() > Some(0), "nothing ran: {report}");
    assert!(report["interrupted"].as_u64() > Some(0), "nothing was cut short: {report}");
}

#[test]
fn a_dozen_clients_of_which_one_is_hostile_each_get_their_share() {
    let _alone = alone();
    let output = Command::new(XTASK)
        .args(["soak", "--fair", "--json", "--runs", "240", "--clients", "12", "--binary"])
        .arg(example("fair"))
        .bounded_output_within(5 * limit())
        .expect("xtask starts");
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let report = Json::parse(&output.stdout);
    let hostile = &report["figures"]["waits_ms"]["hostile"];
    assert!(hostile["ran"].as_u64() > Some(0), "nobody was hostile: {report}");
    assert!(hostile["ran"].as_u64() < hostile["asked"].as_u64(), "nobody was held: {report}");
}

/// A supervisor that says the right words and leaves a process and a file: the soak believes its eyes.
const LIAR: &str = r#"#!/bin/sh
case "$*" in *" sleep 0.1") echo '{"status":"ok","enforcement":{"tier":"namespaces"}}'; exit 0 ;; esac
(sleep 10 < /dev/null > /dev/null 2>&1 &)
mkdir -p "$TMPDIR/ringfence-01234567"
echo '{"status":"timeout","run_id":"0123456789","usage":{"wall_ms":301}}'
exit 124
"#;

#[test]
fn eighty_runs_sixteen_at_once_answer_and_leave_nothing() {
    let _alone = alone();
    let report = built::report(
        Command::new(XTASK)
            .args(["soak", "--parallel", "--json", "--runs", "80", "--jobs", "16", "--binary"])
            .arg(built::ringfence()),
    );
    assert_eq!((report["failed"].as_u64(), report["runs"].as_u64()), (Some(0), Some(80)));
}

#[test]
fn two_hundred_runs_of_a_service_answer_and_leave_nothing() {
    let _alone = alone();
    let report = built::report(
        Command::new(XTASK)
            .args(["soak", "--service", "--json", "--runs", "200", "--binary"])
            .arg(built::ringfence()),
    );
    assert_eq!((report["failed"].as_u64(), report["runs"].as_u64()), (Some(0), Some(200)));
    assert!(report["own_kib"][1].as_f64() > Some(0.0), "{report}");
    assert!(report["descriptors"][1].as_f64() > Some(3.0), "{report}");
}

#[test]
fn a_supervisor_that_lies_about_its_dead_is_caught() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    let liar = dir.path().join("ringfence");
    std::fs::write(&liar, LIAR).expect("the liar is written");
    std::fs::set_permissions(&liar, PermissionsExt::from_mode(0o755)).expect("and executable");
    let output = Command::new(XTASK)
        .args(["soak", "--json", "--runs", "2", "--binary"])
        .arg(&liar)
        .bounded_output()
        .expect("xtask starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = Json::parse(&output.stdout);
    assert_eq!(report["leftovers"]["processes"], 2, "{report}");
    assert_eq!(report["leftovers"]["temporary_files"], 1, "{report}");
}

//! As root everything above has run once; here it runs again as nobody in particular.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::support::{binary, is_root};

/// An id that no distribution hands out and no passwd knows.
const ORDINARY_ID: u32 = 61_234;

#[test]
fn everything_again_as_an_ordinary_user() {
    if !is_root() || std::env::var_os("RINGFENCE_TEST_AGAIN").is_some() {
        return;
    }
    let dir = tempfile::Builder::new().prefix("ringfence-again-").tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &std::path::Path, name: &str| {
        let to = dir.path().join(name);
        // By another process: a descriptor of ours, open for writing and inherited by a fork of another test's, would
        // make the copy "text file busy".
        assert!(Command::new("cp").args([from, &to]).status().unwrap().success());
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let ringfence = copy(&binary(), "ringfence");
    let corpus = dir.path().join("corpus");
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    assert!(Command::new("cp").arg("-r").args([&sources, &corpus]).status().unwrap().success());
    let temp = dir.path().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    std::os::unix::fs::chown(&temp, Some(ORDINARY_ID), Some(ORDINARY_ID)).unwrap();
    let output = Command::new(tests)
        .env("RINGFENCE_TEST_AGAIN", "1")
        .env("RINGFENCE_TEST_BINARY", ringfence)
        .env("RINGFENCE_TEST_CORPUS", corpus)
        .env("HOME", &temp)
        .env("TMPDIR", &temp)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(&temp)
        .gid(ORDINARY_ID)
        .uid(ORDINARY_ID)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", text.lines().last().unwrap_or_default());
}

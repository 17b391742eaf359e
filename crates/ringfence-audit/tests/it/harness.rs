//! A ledger in a directory of its own, and the common test in two lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use ringfence_audit::{
    Entry, Expectations, FindingKind, KeepAll, Ledger, LedgerSettings, Reader, RunStatus,
    Verification, verify,
};
use ringfence_spec::RunId;
use ringfence_testing::{BoundedCommand as _, TimeLimit, limit};

pub(crate) struct Scene {
    pub(crate) dir: tempfile::TempDir,
    /// Threads and locks have no other end.
    _limit: TimeLimit,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), _limit: TimeLimit::of(3 * limit()) }
    }

    /// The same files once more.
    pub(crate) fn copy(&self) -> Self {
        let other = Self::new();
        copy_dir(&self.path(), &other.path());
        other
    }

    /// A directory of the ledger's, made by it.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("ledger")
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(&self.path(), settings()).unwrap()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&self.path(), None).unwrap()
    }

    pub(crate) fn sqlite(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path().join("ledger.db")).unwrap()
    }

    pub(crate) fn verify(&self) -> Verification {
        verify(&self.path(), &Expectations::default()).unwrap()
    }

    pub(crate) fn assert_intact(&self) -> Verification {
        let check = self.verify();
        assert!(check.intact, "{:?}", check.findings);
        check
    }

    /// The first thing wrong.
    pub(crate) fn first_fault(&self) -> (i64, FindingKind) {
        let check = self.verify();
        assert_eq!(check.intact, check.findings.is_empty());
        let first = check.findings.first().expect("something is wrong, and verify found nothing");
        assert!(!first.text.is_empty());
        (first.seq, first.fault)
    }
}

pub(crate) fn settings() -> LedgerSettings {
    LedgerSettings::new(KeepAll)
}

pub(crate) fn id(n: u64) -> RunId {
    let mut bytes = [0x5a; 16];
    bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    RunId::from_random(bytes)
}

pub(crate) fn start(n: u64) -> Entry {
    Entry::run_start(id(n))
        .client(format!("client-{}", n % 3))
        .session(format!("session-{}", n % 5))
        .tool(format!("tool-{}", n % 2))
        .risk(ringfence_audit::Risk::Low)
        .arguments("make test")
        .code(b"print(1)")
        .verdict("allowed")
}

/// Appends `n` runs, start and end.
pub(crate) fn runs(ledger: &Ledger, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let start = start(n);
        ledger.append(&start).unwrap();
        ledger.append(&start.ended_with(RunStatus::Ok, 1.5)).unwrap();
    }
}

/// This test program again, to run one ignored test of it as a process of its own.
pub(crate) fn again(test: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("RINGFENCE_TEST_LEDGER", dir);
    command
}

/// Where the process started by [`again`] works.
pub(crate) fn given_dir() -> PathBuf {
    std::env::var_os("RINGFENCE_TEST_LEDGER").expect("only for `again`").into()
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).bounded_status().unwrap();
    assert!(status.success());
}

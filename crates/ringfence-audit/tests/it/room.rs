//! No room: the append says so, nothing is half-written, and it works again by itself when there is room.

use ringfence_testing::BoundedCommand as _;

use ringfence_audit::{Ledger, RunStatus};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::harness::{Scene, again, given_dir, runs, settings, start};

const SIGXFSZ: i32 = 25;

fn room(bytes: Option<u64>) {
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[test]
fn a_full_disk_refuses_rows_and_loses_none() {
    let scene = Scene::new();
    let output = again("room::fills_up", &scene.path()).bounded_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    scene.assert_intact();
}

#[test]
#[ignore = "run by the test above, as a process of its own"]
fn fills_up() {
    // Writes past the limit then fail with EFBIG instead of killing.
    ringfence_sys::ignore(SIGXFSZ);
    let dir = given_dir();
    let ledger = Ledger::open(&dir, settings()).unwrap();
    runs(&ledger, 0..20);
    let rows = || ringfence_audit::verify(&dir, &ringfence_audit::Expectations::default()).unwrap();
    let len = || std::fs::metadata(dir.join("ledger.intake")).unwrap().len();
    // Room for half a row.
    let before = (len(), rows().rows);
    room(Some(before.0 + 150));
    for _ in 0..3 {
        let problem = ledger.append(&start(100)).unwrap_err();
        assert_eq!(problem.code.as_str(), "ledger_full", "{problem}");
        assert_eq!((len(), rows().rows), before);
        assert!(rows().intact);
    }
    // Nor is there room for the database; the rows stay in the intake.
    let problem = ledger.compact().unwrap_err();
    assert_eq!(problem.code.as_str(), "ledger_full", "{problem}");
    assert_eq!(len(), before.0);
    room(None);
    ledger.append(&start(100).ended_with(RunStatus::Ok, 1.0)).unwrap();
    ledger.compact().unwrap();
    let after = rows();
    assert!(after.intact, "{:?}", after.findings);
    assert_eq!(after.rows, before.1 + 1);
}

//! Heads as crashes leave them, each made by hand and followed by an append.

use super::*;
use crate::{Entry, Expectations, FindingKind, KeepAll, Ledger, LedgerSettings, verify};
use ringfence_spec::RunId;

fn append(ledger: &Ledger) -> i64 {
    ledger.append(&Entry::run_start(RunId::from_random([7; 16]))).unwrap()
}

/// A ledger with its key row in the database and one row in the intake; returns the marks before and after that row.
fn scene() -> (tempfile::TempDir, Ledger, Mark, Mark) {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(&dir.path().join("ledger"), LedgerSettings::new(KeepAll)).unwrap();
    ledger.compact().unwrap();
    let at = |ledger: &Ledger| ledger.store().tail().unwrap().0.mark;
    let before = at(&ledger);
    append(&ledger);
    let after = at(&ledger);
    assert_eq!((before.intake_bytes, before.place.seq, after.place.seq), (0, 1, 2));
    (dir, ledger, before, after)
}

fn put_head(ledger: &Ledger, at: Mark, going_to: Option<Mark>, folded: i64) {
    let mut store = ledger.store();
    let key = *store.secret_of(1).unwrap().mac_key();
    let mut head = Head::new(at, folded, 1, &store.boot);
    if let Some(to) = going_to {
        head = head.on_the_way(to);
    }
    store.write_head(head.signed(&key)).unwrap();
}

fn assert_next_is(ledger: &Ledger, seq: i64) {
    assert_eq!(append(ledger), seq);
    let path = ledger.store().home.path().to_owned();
    let check = verify(&path, &Expectations::default()).unwrap();
    assert!(check.intact, "{:?}", check.findings);
    assert_eq!(check.rows, seq);
}

#[test]
fn dead_after_the_rows_and_before_the_second_head() {
    let (_dir, ledger, before, after) = scene();
    put_head(&ledger, before, Some(after), 1);
    assert_next_is(&ledger, 3);
}

#[test]
fn the_same_and_then_dead_in_a_fold_before_its_head() {
    let (_dir, ledger, before, after) = scene();
    put_head(&ledger, before, Some(after), 1);
    // The next writer's call of `tail` leaves the same state as the interrupted compaction.
    ledger.store().tail().unwrap();
    let head = Head::read(&ledger.store().head).unwrap();
    ledger.compact().unwrap();
    ledger.store().write_head(head).unwrap();
    assert_next_is(&ledger, 3);
}

#[test]
fn dead_amid_the_rows() {
    let (_dir, ledger, before, after) = scene();
    ledger.store().cut_intake(after.intake_bytes - 30).unwrap();
    put_head(&ledger, before, Some(after), 1);
    assert_next_is(&ledger, 2);
}

#[test]
fn dead_before_the_rows() {
    let (_dir, ledger, before, after) = scene();
    ledger.store().cut_intake(0).unwrap();
    put_head(&ledger, before, Some(after), 1);
    assert_next_is(&ledger, 2);
}

#[test]
fn a_head_of_an_earlier_boot_may_be_the_older_of_the_two() {
    let (_dir, ledger, before, after) = scene();
    append(&ledger);
    ledger.store().boot = "another boot".to_owned();
    put_head(&ledger, before, None, 1);
    ledger.store().boot = crate::head::boot_id();
    assert_next_is(&ledger, 4);
    // In the same boot it is tampering.
    put_head(&ledger, after, None, 1);
    let path = ledger.store().home.path().to_owned();
    let first = || verify(&path, &Expectations::default()).unwrap().findings[0].clone();
    assert_eq!((first().seq, first().fault), (3, FindingKind::Inserted));
    append(&ledger);
    assert_eq!((first().seq, first().fault), (3, FindingKind::Noted));
}

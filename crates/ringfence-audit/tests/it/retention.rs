//! Old bodies go, the chain stays, and archives verify by themselves.

use std::fs;

use ringfence_audit::{BodyState, Filter, FindingKind, Kind, verify_archive};

use crate::harness::{Scene, runs, start};

#[test]
fn expired_bodies_are_archived_and_the_chain_still_verifies() {
    let scene = Scene::new();
    let ledger = scene.open();
    for n in 0..20 {
        let mut old = start(n).arguments("an old secret of the trade");
        old.at_ms = 1000;
        ledger.append(&old).unwrap();
    }
    ledger.rotate().unwrap();
    runs(&ledger, 20..25);
    // Row 1 is a key of today, so it would be the first that is kept; the ledger's own rows are never cleared anyway.
    assert_eq!(ledger.expire(500).unwrap().rows, 0);
    let expired = ledger.archive_session("session-1").unwrap();
    assert_eq!(expired.rows, 6);
    let check = scene.assert_intact();
    assert_eq!(check.cleared, 6);
    let archive = expired.archive.unwrap();
    let found = verify_archive(&archive, ledger.root_key()).unwrap();
    assert!(found.intact, "{:?}", found.findings);
    assert_eq!(found.rows, 6);
    // Again there is nothing to do.
    assert_eq!(ledger.archive_session("session-1").unwrap().rows, 0);
    // A column of a cleared row is still guarded, and so is a body that nobody said was cleared.
    scene.sqlite().execute_batch("UPDATE entries SET client = 'x' WHERE seq = 3").unwrap();
    assert_eq!(scene.first_fault(), (3, FindingKind::Edited));
}

#[test]
fn rows_older_than_the_retention_go_up_to_the_first_that_is_not() {
    let scene = Scene::new();
    let ledger = scene.open();
    runs(&ledger, 0..700);
    let now = ringfence_audit::now_ms();
    assert_eq!(ledger.expire(now - ringfence_audit::RETENTION_MS).unwrap().rows, 0);
    // A reader of a ledger without archives makes no directory for them.
    assert!(scene.reader().archives().unwrap().is_empty());
    assert!(!scene.path().join("archives").exists());
    let expired = ledger.expire(now + 1000).unwrap();
    assert_eq!(expired.rows, 1400);
    assert_eq!(scene.assert_intact().cleared, 1400);
    let reader = scene.reader();
    assert_eq!(reader.archives().unwrap(), [expired.archive.clone().unwrap()]);
    let page = reader.page(&Filter::default(), None, 1000).unwrap();
    let own = |record: &&ringfence_audit::Record| record.kind.is_some_and(Kind::is_ledgers_own);
    assert!(page.records.iter().filter(own).all(|r| r.body == BodyState::Present));
    assert!(page.records.iter().filter(|r| !own(r)).all(|r| r.body == BodyState::Expired));
    assert_eq!(reader.report(None, None).unwrap().without_body, 700);
    // What was cleared is not left in the database's free pages.
    let bytes = fs::read(scene.path().join("ledger.db")).unwrap();
    assert!(!bytes.windows(9).any(|w| w == b"make test"));
    assert!(fs::read_to_string(expired.archive.unwrap()).unwrap().contains("make test"));
    runs(&ledger, 700..710);
    scene.assert_intact();
}

#[test]
fn a_body_cleared_beside_an_honest_clearing_is_found() {
    let scene = Scene::new();
    let ledger = scene.open();
    runs(&ledger, 0..10);
    ledger.archive_session("session-2").unwrap();
    scene.assert_intact();
    scene.sqlite().execute_batch("UPDATE entries SET body = NULL WHERE seq = 9").unwrap();
    assert_eq!(scene.first_fault(), (9, FindingKind::Cleared));
}

#[test]
fn one_changed_byte_of_an_archive_is_found() {
    let scene = Scene::new();
    let ledger = scene.open();
    runs(&ledger, 0..6);
    ledger.rotate().unwrap();
    runs(&ledger, 6..9);
    let archive = ledger.archive_session("session-1").unwrap().archive.unwrap();
    let good = fs::read(&archive).unwrap();
    assert!(verify_archive(&archive, None).unwrap().intact);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        fs::write(&archive, &bad).unwrap();
        assert!(!verify_archive(&archive, None).unwrap().intact, "byte {at}");
    }
    for bad in [&good[..good.len() - 1], &[&good[..], b"\n"].concat(), b"", &good[50..]] {
        fs::write(&archive, bad).unwrap();
        assert!(!verify_archive(&archive, None).unwrap().intact, "{} bytes", bad.len());
    }
    // A whole line taken out, and the archive of another ledger.
    let text = String::from_utf8(good.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let less = [&lines[..2], &lines[3..]].concat().join("\n") + "\n";
    fs::write(&archive, less).unwrap();
    assert!(!verify_archive(&archive, None).unwrap().intact);
    fs::write(&archive, &good).unwrap();
    let other = Scene::new();
    let root = other.open().root_key();
    assert_eq!(verify_archive(&archive, root).unwrap().findings[0].fault, FindingKind::BadKey);
    assert_eq!(
        verify_archive(&scene.path().join("none"), None).unwrap_err().code.as_str(),
        "archive_unreadable"
    );
}

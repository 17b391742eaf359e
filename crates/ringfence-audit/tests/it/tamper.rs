//! Whatever is done to the files is found, with the first bad row named.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use ringfence_audit::{Anchor, Expectations, FileSink, FindingKind, verify};

use crate::harness::{Scene, copy_dir, runs};

/// A ledger of 41 rows with two epochs: key 1, runs 2..=21, key 22, runs 23..=40, checkpoint 41; all in the database.
fn compacted() -> Scene {
    static MADE: LazyLock<Scene> = LazyLock::new(|| {
        let scene = Scene::new();
        make(&scene);
        assert_eq!(scene.assert_intact().rows, 41);
        scene
    });
    MADE.copy()
}

/// The same with two more runs that are still in the intake: rows 42..=45.
fn half_compacted() -> Scene {
    static MADE: LazyLock<Scene> = LazyLock::new(|| {
        let scene = compacted();
        runs(&scene.open(), 19..21);
        assert_eq!(scene.assert_intact().rows, 45);
        scene
    });
    MADE.copy()
}

/// The first of these, and not a copy of it: another ledger with the same rows.
fn another() -> Scene {
    let scene = Scene::new();
    make(&scene);
    scene
}

fn make(scene: &Scene) {
    let ledger = scene.open();
    runs(&ledger, 0..10);
    ledger.rotate().unwrap();
    runs(&ledger, 10..19);
    ledger.checkpoint().unwrap();
    ledger.compact().unwrap();
}

fn by_sql(statement: &str, seq: i64, fault: FindingKind) {
    for scene in [compacted(), half_compacted()] {
        scene.sqlite().execute_batch(statement).unwrap();
        assert_eq!(scene.first_fault(), (seq, fault), "{statement}");
    }
}

#[test]
fn an_edit_of_any_column_is_found() {
    let edits = [
        "at_ms = at_ms + 1",
        "epoch = 2",
        "writer = writer + 1",
        "kind = 'call_start'",
        "run_id = 'ffffffffffffffffffffffffffffffff'",
        "run_id = NULL",
        "session = 'another'",
        "session = NULL",
        "client = 'another'",
        "tool = 'another'",
        "status = 'error'",
        "risk = 'high'",
        "body_hash = randomblob(32)",
        "body_hash = x'00'",
        "chain = randomblob(32)",
        "body = CAST('{}' AS BLOB)",
        "body = x''",
    ];
    for edit in edits {
        let found = if edit == "status = 'error'" { 7 } else { 8 };
        by_sql(
            &format!("UPDATE entries SET {edit} WHERE seq = {found}"),
            found,
            FindingKind::Edited,
        );
    }
}

#[test]
fn only_the_row_that_was_changed_is_accused() {
    for edit in ["body = x'7b7d'", "client = 'another'", "chain = randomblob(32)"] {
        for seq in [8, 41] {
            let scene = half_compacted();
            let statement = format!("UPDATE entries SET {edit} WHERE seq = {seq}");
            scene.sqlite().execute_batch(&statement).unwrap();
            let check = scene.verify();
            let accused: Vec<i64> = check.findings.iter().map(|finding| finding.seq).collect();
            assert_eq!(accused, [seq], "{statement}: {:?}", check.findings);
            // The intake's four are behind a row whose chain cannot be told.
            let n_intake = if edit.starts_with("chain") && seq == 41 { 0 } else { 4 };
            assert_eq!((check.rows, check.rows_total), (seq - 1 + n_intake, 45), "{statement}");
        }
    }
}

#[test]
fn a_deleted_row_is_found() {
    by_sql("DELETE FROM entries WHERE seq = 8", 8, FindingKind::Missing);
    by_sql("DELETE FROM entries WHERE seq = 1", 1, FindingKind::Missing);
    by_sql("DELETE FROM entries WHERE seq BETWEEN 8 AND 30", 8, FindingKind::Missing);
}

#[test]
fn a_deleted_row_whose_place_was_filled_is_found() {
    by_sql(
        "DELETE FROM entries WHERE seq = 8; UPDATE entries SET seq = seq - 1 WHERE seq > 8",
        8,
        FindingKind::Edited,
    );
}

#[test]
fn an_inserted_row_is_found() {
    by_sql(
        "UPDATE entries SET seq = -seq - 1 WHERE seq >= 8; UPDATE entries SET seq = -seq WHERE seq < 0;
         INSERT INTO entries SELECT 8, at_ms, epoch, writer, kind, run_id, 'planted', client, tool, status, risk,
         body_hash, chain, body FROM entries WHERE seq = 7",
        8,
        FindingKind::Inserted,
    );
}

#[test]
fn reordered_rows_are_found() {
    for (a, b) in [(8, 9), (8, 12)] {
        by_sql(
            &format!(
                "UPDATE entries SET seq = -1 WHERE seq = {a}; UPDATE entries SET seq = {a} WHERE seq = {b};
                 UPDATE entries SET seq = {b} WHERE seq = -1"
            ),
            a,
            FindingKind::Reordered,
        );
    }
}

#[test]
fn a_truncated_tail_is_found() {
    let scene = compacted();
    scene.sqlite().execute_batch("DELETE FROM entries WHERE seq > 35").unwrap();
    assert_eq!(scene.first_fault(), (36, FindingKind::Truncated));
    // With rows behind them in the intake, they are a hole.
    let scene = half_compacted();
    scene.sqlite().execute_batch("DELETE FROM entries WHERE seq > 35").unwrap();
    assert_eq!(scene.first_fault(), (36, FindingKind::Missing));
}

#[test]
fn no_rows_at_all_are_found() {
    let scene = compacted();
    scene.sqlite().execute_batch("DELETE FROM entries").unwrap();
    assert_eq!(scene.first_fault(), (1, FindingKind::Truncated));
    let scene = half_compacted();
    fs::remove_file(scene.path().join("ledger.db")).unwrap();
    assert_eq!(scene.first_fault(), (1, FindingKind::Missing));
}

#[test]
fn a_cleared_body_is_found_when_no_row_speaks_of_it() {
    by_sql("UPDATE entries SET body = NULL WHERE seq = 8", 8, FindingKind::Cleared);
}

#[test]
fn every_byte_of_the_intake_counts() {
    let scene = half_compacted();
    let path = scene.path().join("ledger.intake");
    let text = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for at in (0..text.len()).step_by(37) {
        file.write_all_at(&[text[at] ^ 1], at as u64).unwrap();
        assert!(!scene.verify().intact, "byte {at}");
        file.write_all_at(&text[at..=at], at as u64).unwrap();
    }
    scene.assert_intact();
}

#[test]
fn a_shortened_intake_is_found_and_the_next_writer_does_not_cover_it_up() {
    let scene = half_compacted();
    let path = scene.path().join("ledger.intake");
    let text = fs::read_to_string(&path).unwrap();
    let kept: String = text.split_inclusive('\n').take(2).collect();
    fs::write(&path, kept).unwrap();
    assert_eq!(scene.first_fault(), (44, FindingKind::Truncated));
    runs(&scene.open(), 30..31);
    assert_eq!(scene.first_fault(), (44, FindingKind::Missing));
    scene.open().compact().unwrap();
    assert_eq!(scene.first_fault(), (44, FindingKind::Missing));
}

#[test]
fn rows_added_without_the_key_are_found_and_stay_noted() {
    let scene = half_compacted();
    let path = scene.path().join("ledger.intake");
    let mut text = fs::read_to_string(&path).unwrap();
    let last = text.lines().last().unwrap().to_owned();
    text.push_str(&last.replace("\"seq\":45", "\"seq\":46"));
    text.push('\n');
    fs::write(&path, text).unwrap();
    assert_eq!(scene.first_fault(), (46, FindingKind::Edited));
    runs(&scene.open(), 30..31);
    assert_eq!(scene.first_fault(), (46, FindingKind::Noted));
}

#[test]
fn a_missing_or_forged_head_is_found_and_stays_noted() {
    for forge in [true, false] {
        let scene = half_compacted();
        let path = scene.path().join("ledger.head");
        if forge {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("\"seq\":45", "\"seq\":44", 1)).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(scene.first_fault(), (45, FindingKind::BadHead));
        runs(&scene.open(), 30..31);
        assert_eq!(scene.first_fault(), (46, FindingKind::Noted));
    }
}

#[test]
fn a_swapped_key_is_found_and_not_signed_with() {
    let (scene, other) = (half_compacted(), another());
    let key = |scene: &Scene| scene.path().join("keys/epoch-2.key");
    fs::copy(key(&other), key(&scene)).unwrap();
    assert_eq!(scene.first_fault(), (45, FindingKind::BadKey));
    let problem = scene.open().append(&crate::harness::start(99)).unwrap_err();
    assert_eq!(problem.code.as_str(), "ledger_corrupt");
}

#[test]
fn another_root_is_found() {
    let (scene, other) = (half_compacted(), another());
    let root = other.open().root_key();
    let expected = Expectations { root, ..Expectations::default() };
    let check = verify(&scene.path(), &expected).unwrap();
    assert_eq!(check.findings[0].fault, FindingKind::BadKey);
    fs::copy(other.path().join("keys/root.pub"), scene.path().join("keys/root.pub")).unwrap();
    assert_eq!(scene.first_fault(), (1, FindingKind::BadKey));
}

#[test]
fn an_old_key_that_cannot_be_destroyed_fails_appends_until_it_is_gone() {
    let scene = compacted();
    let ledger = scene.open();
    let stuck = scene.path().join("keys/epoch-0.key");
    std::fs::create_dir(&stuck).unwrap();
    for _ in 0..2 {
        let problem = ledger.rotate().unwrap_err();
        assert_eq!(problem.code.as_str(), "ledger_unwritable", "{problem}");
    }
    std::fs::remove_dir(&stuck).unwrap();
    ledger.rotate().unwrap();
    let check = verify(&scene.path(), &Expectations::default()).unwrap();
    assert!(check.intact, "{:?}", check.findings);
}

#[test]
fn old_keys_are_gone() {
    let scene = compacted();
    assert!(!scene.path().join("keys/epoch-1.key").exists());
    assert!(scene.path().join("keys/epoch-2.key").exists());
}

#[test]
fn an_older_copy_is_found_by_an_anchor_and_only_by_one() {
    let scene = half_compacted();
    let (copy, anchors) = (scene.dir.path().join("copy"), scene.dir.path().join("anchors"));
    copy_dir(&scene.path(), &copy);
    let ledger = scene.open();
    ledger.anchor_to(&mut FileSink(anchors.clone())).unwrap();
    runs(&ledger, 40..42);
    ledger.anchor_to(&mut FileSink(anchors.clone())).unwrap();
    drop(ledger);
    let expected =
        Expectations { anchors: Anchor::read_file(&anchors).unwrap(), ..Expectations::default() };
    let check = verify(&scene.path(), &expected).unwrap();
    assert!(check.intact, "{:?}", check.findings);
    // The copy is whole by itself: nothing beside it can tell.
    assert!(verify(&copy, &Expectations::default()).unwrap().intact);
    let findings = verify(&copy, &expected).unwrap().findings;
    assert_eq!((findings[0].seq, findings[0].fault), (49, FindingKind::OlderThanAnchor));
    // Nor does another history of the same length pass.
    runs(&ringfence_audit::Ledger::open(&copy, crate::harness::settings()).unwrap(), 50..52);
    let findings = verify(&copy, &expected).unwrap().findings;
    assert_eq!((findings[0].seq, findings[0].fault), (49, FindingKind::OlderThanAnchor));
}

#[test]
fn an_index_that_lies_is_found_and_can_be_made_anew() {
    let scene = Scene::new();
    let ledger = scene.open();
    runs(&ledger, 0..600);
    ledger.compact().unwrap();
    scene.assert_intact();
    let lies = [
        "DELETE FROM marks WHERE term = 'session:session-1'",
        "UPDATE marks SET bits = x'0100' WHERE term = 'client:client-1'",
        "UPDATE spans SET at_max = 0",
    ];
    for lie in lies {
        scene.sqlite().execute_batch(lie).unwrap();
        assert_eq!(scene.first_fault().1, FindingKind::BadIndex, "{lie}");
        ledger.reindex().unwrap();
        scene.assert_intact();
    }
}

//! Directories and files that are not what a ledger needs: a clear problem, and nothing is changed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use ringfence_audit::{Expectations, Filter, Ledger, Reader, verify};

use crate::harness::{Scene, runs, settings, start};

fn refused(dir: &Path) -> &'static str {
    let problem = Ledger::open(dir, settings()).unwrap_err();
    assert!(problem.cause.is_some(), "{problem}");
    problem.code.as_str()
}

#[test]
fn a_new_ledger_is_private() {
    let scene = Scene::new();
    runs(&scene.open(), 0..2);
    scene.open().compact().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&scene.path()), 0o700);
    assert_eq!(mode(&scene.path().join("keys")), 0o700);
    let files = ["ledger.db", "ledger.head", "ledger.intake", "ledger.lock", "keys/epoch-1.key"];
    for name in files {
        assert_eq!(mode(&scene.path().join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let scene = Scene::new();
    fs::write(scene.path(), "a file").unwrap();
    assert_eq!(refused(&scene.path()), "ledger_unwritable");
    assert_eq!(refused(&scene.path().join("below")), "ledger_unwritable");
    assert_eq!(refused(Path::new("/proc/ringfence")), "ledger_unwritable");
    assert_eq!(fs::read_to_string(scene.path()).unwrap(), "a file");
}

#[test]
fn links_and_what_others_may_write_are_refused() {
    let scene = Scene::new();
    drop(scene.open());
    let link = scene.dir.path().join("link");
    symlink(scene.path(), &link).unwrap();
    assert_eq!(refused(&link), "ledger_foreign");
    for name in ["ledger.head", "ledger.intake", "ledger.lock", "ledger.db"] {
        let scene = Scene::new();
        runs(&scene.open(), 0..1);
        scene.open().compact().unwrap();
        let (file, aside) = (scene.path().join(name), scene.path().join("aside"));
        fs::rename(&file, &aside).unwrap();
        symlink("aside", &file).unwrap();
        assert_eq!(refused(&scene.path()), "ledger_foreign", "{name}");
    }
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let problem = Ledger::open(&scene.path(), settings()).unwrap_err();
    assert_eq!(problem.code.as_str(), "ledger_foreign");
    // The hint works.
    assert!(problem.hint.unwrap().to_string().starts_with("chmod go-rwx"));
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o700)).unwrap();
    scene.open();
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    if !ringfence_testing::needs_root("only root can give files away") {
        return;
    }
    let scene = Scene::new();
    drop(scene.open());
    std::os::unix::fs::chown(scene.path().join("ledger.head"), Some(1234), None).unwrap();
    assert_eq!(refused(&scene.path()), "ledger_foreign");
    std::os::unix::fs::chown(scene.path(), Some(1234), None).unwrap();
    assert_eq!(refused(&scene.path()), "ledger_foreign");
}

#[test]
fn a_damaged_database_is_refused_and_kept() {
    let scene = Scene::new();
    runs(&scene.open(), 0..3);
    scene.open().compact().unwrap();
    let path = scene.path().join("ledger.db");
    let good = fs::read(&path).unwrap();
    for bad in [&b"not a database, and long enough to be looked at as if it were one: 100 bytes and some more than that"[..], b"short"] {
        fs::write(&path, bad).unwrap();
        assert_eq!(refused(&scene.path()), "ledger_corrupt");
        assert_eq!(fs::read(&path).unwrap(), bad);
        assert_eq!(verify(&scene.path(), &Expectations::default()).unwrap_err().code.as_str(), "ledger_corrupt");
        assert_eq!(Reader::open(&scene.path(), None).unwrap_err().code.as_str(), "ledger_corrupt");
    }
    // Pages that are damaged further in.
    let mut half = good.clone();
    half[4096..].fill(0xaa);
    fs::write(&path, &half).unwrap();
    let code = verify(&scene.path(), &Expectations::default()).map(|check| check.intact);
    assert!(
        matches!(&code, Err(problem) if problem.code.as_str() == "ledger_corrupt")
            || matches!(code, Ok(false))
    );
    fs::remove_file(&path).unwrap();
    assert_eq!(refused(&scene.path()), "ledger_corrupt");
    fs::write(&path, good).unwrap();
    scene.assert_intact();
}

#[test]
fn a_newer_schema_is_refused_and_kept() {
    let scene = Scene::new();
    runs(&scene.open(), 0..3);
    scene.open().compact().unwrap();
    scene.sqlite().execute_batch("PRAGMA user_version = 99").unwrap();
    assert_eq!(refused(&scene.path()), "ledger_newer");
    assert_eq!(Reader::open(&scene.path(), None).unwrap_err().code.as_str(), "ledger_newer");
    let version: i64 =
        scene.sqlite().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn reading_makes_no_ledger() {
    let scene = Scene::new();
    assert_eq!(Reader::open(&scene.path(), None).unwrap_err().code.as_str(), "ledger_missing");
    assert_eq!(
        verify(&scene.path(), &Expectations::default()).unwrap_err().code.as_str(),
        "ledger_missing"
    );
    assert!(!scene.path().exists());
    fs::create_dir(scene.path()).unwrap();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(Reader::open(&scene.path(), None).unwrap_err().code.as_str(), "ledger_missing");
}

#[test]
fn a_ledger_whose_making_was_interrupted_is_made() {
    let scene = Scene::new();
    drop(scene.open());
    // As it is between the first row and the first head.
    fs::remove_file(scene.path().join("ledger.head")).unwrap();
    scene.open().append(&start(1)).unwrap();
    assert_eq!(scene.assert_intact().rows, 2);
}

#[test]
fn bad_questions_are_answered_with_the_way_out() {
    let scene = Scene::new();
    runs(&scene.open(), 0..3);
    let reader = scene.reader();
    let page = |filter: &Filter, cursor, limit| {
        reader.page(filter, cursor, limit).unwrap_err().code.as_str()
    };
    let all = Filter::default();
    assert_eq!(page(&all, None, 0), "limit_invalid");
    assert_eq!(page(&all, None, 1001), "limit_invalid");
    for cursor in ["", "c", "czz", "c-5", "c0", "../etc"] {
        assert_eq!(page(&all, Some(cursor), 10), "cursor_invalid", "{cursor}");
    }
    for run in ["", "xyz", "../../etc/passwd", "%", &"a".repeat(33)] {
        assert_eq!(reader.show(run).unwrap_err().code.as_str(), "run_id_invalid", "{run}");
        let filter = Filter { run: Some(run.to_owned()), ..Filter::default() };
        assert_eq!(page(&filter, None, 10), "run_id_invalid", "{run}");
    }
    let backwards = Filter { since_ms: Some(5), until_ms: Some(5), ..Filter::default() };
    assert_eq!(page(&backwards, None, 10), "period_invalid");
    assert_eq!(reader.show(&"f".repeat(32)).unwrap_err().code.as_str(), "run_unknown");
    assert!(
        reader
            .page(&Filter { session: Some("'; --".into()), ..all }, None, 9)
            .unwrap()
            .records
            .is_empty()
    );
}

//! Processes that append together and are killed at any moment: what was acknowledged is there, the chain verifies, and
//! what never ended is said to be interrupted.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use ringfence_audit::{Entry, Filter, Ledger, LedgerSettings, Reader, RunStatus};
use ringfence_spec::RunId;
use ringfence_testing::{BoundedCommand as _, Running};

use crate::harness::{Scene, again, given_dir, id, settings, start};

/// Appends runs until it is killed, and says which rows are acknowledged.
#[test]
#[ignore = "run by the tests below, as a process of its own"]
fn writer() {
    let settings = LedgerSettings { epoch_rows_max: 40, ..settings() };
    let ledger = Ledger::open(&given_dir(), settings).unwrap();
    let mut out = std::io::stdout();
    for n in 0u64.. {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
        let id = RunId::from_random(bytes);
        let start = Entry::run_start(id).client("crash").arguments("x".repeat(300));
        ledger.append(&start).unwrap();
        writeln!(out, "acknowledged {id} start").unwrap();
        if n % 7 == 3 {
            ledger.compact().unwrap();
        }
        ledger.append(&start.ended_with(RunStatus::Ok, 1.0)).unwrap();
        writeln!(out, "acknowledged {id} end").unwrap();
        out.flush().unwrap();
    }
}

fn acknowledged(mut child: Running) -> Vec<(String, bool)> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The harness of the test program writes before the first line.
    let words = lines.filter_map(|line| {
        let (_, rest) = line.split_once("acknowledged ")?;
        let (id, what) = rest.split_once(' ')?;
        Some((id.to_owned(), what == "end"))
    });
    words.collect()
}

#[test]
fn killed_writers_lose_nothing_that_was_acknowledged() {
    let scene = Scene::new();
    drop(scene.open());
    let mut all = Vec::new();
    for round in 0..12u64 {
        let mut children: Vec<Running> = (0..3)
            .map(|_| {
                again("crash::writer", &scene.path())
                    .stdout(Stdio::piped())
                    .bounded_spawn()
                    .unwrap()
            })
            .collect();
        // Not to wait for something, but to strike at many different moments.
        std::thread::sleep(Duration::from_millis(40 + round * 13));
        for child in &mut children {
            child.kill().unwrap();
        }
        for mut child in children {
            child.wait().unwrap();
            all.extend(acknowledged(child));
        }
        scene.assert_intact();
    }
    assert!(all.len() > 100, "only {} rows: the writers did not get going", all.len());
    let reader = scene.reader();
    for (id, ended) in &all {
        let run = reader.show(id).unwrap();
        assert!(run.start.is_some(), "{id}");
        assert!(!ended || run.end.is_some(), "{id}");
    }
    let interrupted = Filter { status: Some(RunStatus::Interrupted), ..Filter::default() };
    let open = reader.page(&interrupted, None, 1000).unwrap().records.len();
    assert_eq!(scene.open().recover().unwrap(), open);
    assert_eq!(scene.open().recover().unwrap(), 0);
    assert_eq!(scene.reader().page(&interrupted, None, 1000).unwrap().records.len(), open);
    scene.assert_intact();
}

#[test]
fn a_run_is_running_while_its_writer_lives_and_interrupted_after() {
    let scene = Scene::new();
    let ledger = scene.open();
    ledger.append(&start(1)).unwrap();
    let status = || scene.reader().show(&id(1).to_string()).unwrap().status;
    let listed = |status| {
        let filter = Filter { status: Some(status), ..Filter::default() };
        scene.reader().page(&filter, None, 10).unwrap().records.len()
    };
    assert_eq!(status(), Some(RunStatus::Running));
    assert_eq!((listed(RunStatus::Running), listed(RunStatus::Interrupted)), (1, 0));
    let other = scene.open();
    assert_eq!(other.recover().unwrap(), 0);
    assert_eq!(ledger.recover().unwrap(), 0);
    drop(ledger);
    // A process that another test is starting has this one's descriptors, and with them the writer's lock, until it execs.
    while status() == Some(RunStatus::Running) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status(), Some(RunStatus::Interrupted));
    assert_eq!((listed(RunStatus::Running), listed(RunStatus::Interrupted)), (0, 1));
    assert_eq!(other.recover().unwrap(), 1);
    let run = Reader::open(&scene.path(), None).unwrap().show(&id(1).to_string()).unwrap();
    let end = run.end.unwrap();
    assert_eq!(end.status, Some(RunStatus::Interrupted));
    assert_eq!(end.details.unwrap()["arguments"], "make test");
}

#[test]
fn a_torn_row_at_the_end_is_cut_off() {
    let scene = Scene::new();
    let ledger = scene.open();
    ledger.append(&start(1)).unwrap();
    drop(ledger);
    // As a writer leaves it that dies after its first head, amid its row.
    let (intake, head) = (scene.path().join("ledger.intake"), scene.path().join("ledger.head"));
    let (rows, before) = (std::fs::read(&intake).unwrap(), std::fs::read(&head).unwrap());
    let rlimit = again("crash::dies_amid_a_row", &scene.path()).bounded_output().unwrap();
    assert!(!rlimit.status.success());
    assert_ne!(std::fs::read(&head).unwrap(), before);
    assert!(std::fs::read(&intake).unwrap().len() > rows.len());
    // Nothing of it was acknowledged, so nothing is wrong even before the next writer cuts it off.
    assert_eq!(scene.assert_intact().rows, 2);
    scene.open().append(&start(2)).unwrap();
    assert_eq!(scene.assert_intact().rows, 3);
}

#[test]
fn a_database_without_tables_is_finished_by_the_next_writer() {
    let scene = Scene::new();
    let ledger = scene.open();
    ledger.append(&start(1)).unwrap();
    drop(ledger);
    // As a writer leaves it that dies between the first write to the file and its tables.
    scene.sqlite().execute_batch("PRAGMA journal_mode = WAL").unwrap();
    assert!(std::fs::metadata(scene.path().join("ledger.db")).unwrap().len() > 0);
    assert_eq!(scene.assert_intact().rows, 2);
    let ledger = scene.open();
    ledger.append(&start(2)).unwrap();
    ledger.compact().unwrap();
    assert_eq!(scene.assert_intact().rows, 3);
}

#[test]
#[ignore = "run by the test above, as a process of its own"]
fn dies_amid_a_row() {
    let dir = given_dir();
    let ledger = Ledger::open(&dir, settings()).unwrap();
    let len = std::fs::metadata(dir.join("ledger.intake")).unwrap().len();
    // Past this length a write stops halfway, and SIGXFSZ kills.
    let limit = rustix::process::Rlimit { current: Some(len + 100), maximum: None };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    let long = start(9).arguments("y".repeat(400));
    let _ = ledger.append(&long);
    unreachable!("SIGXFSZ should have killed this process");
}

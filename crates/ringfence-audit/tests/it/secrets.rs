//! Nothing reaches the disk unredacted, and a sealed ledger says nothing without its key.

use std::borrow::Cow;
use std::path::Path;

use ringfence_audit::{
    BodyState, Digest, Entry, Expectations, Ledger, LedgerSettings, Reader, RunStatus, SealKey,
    Violation, Write, verify,
};
use ringfence_spec::{
    Artifact, Code, Denial, DeniedBy, Exception, Layer, Outcome, Problem, Status,
};

use crate::harness::{Scene, id, settings};

const SECRET: &str = "hunter2";

fn hide(text: &str) -> Cow<'_, str> {
    Cow::Owned(text.replace(SECRET, "[redacted]"))
}

/// Returns true if any file below `dir` holds `needle`.
fn on_disk(dir: &Path, needle: &str) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return on_disk(&path, needle);
        }
        let bytes = std::fs::read(&path).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
}

/// An entry with the secret in every text it has.
fn full_of_secrets() -> Entry {
    let s = || format!("x {SECRET} y");
    let problem = Problem::refused(Code::Rule, s()).cause(s());
    let mut outcome = Outcome::not_started(id(1), Status::Error, &problem);
    outcome.session_id = Some(s());
    outcome.stdout = s();
    outcome.stderr = s();
    outcome.value = Some(s());
    outcome.exception = Some(Exception { kind: s(), message: s(), line: None });
    outcome.artifacts = vec![Artifact { path: s(), bytes: 1, media_type: s() }];
    outcome.denials = vec![Denial {
        layer: Layer::Screen,
        rule: ringfence_spec::DenialRule::Mount,
        subject: s(),
        line: None,
        column: None,
        hint: s().into(),
        by: DeniedBy::Host,
        syscall: Some(s()),
        argument: Some(s()),
        pid: None,
        program: Some(s()),
        count: 3,
    }];
    let start = Entry::run_start(id(1)).client(s()).tool(s()).arguments(s()).verdict(s());
    let mut end = start.ended(&outcome);
    end.details.writes.push(Write { path: s(), bytes: 1, sha256: Some(Digest::of(b"")) });
    end.details.violations.push(Violation { layer: s(), rule: s(), subject: s(), count: 1 });
    end
}

#[test]
fn every_text_is_redacted_before_it_is_written() {
    for (redacts, found) in [(true, false), (false, true)] {
        let scene = Scene::new();
        let settings = if redacts { LedgerSettings::new(hide) } else { settings() };
        let ledger = Ledger::open(&scene.path(), settings).unwrap();
        ledger.append(&full_of_secrets()).unwrap();
        ledger.append(&Entry::alert(SECRET, SECRET)).unwrap();
        ledger.append(&Entry::session_event(SECRET, SECRET)).unwrap();
        assert_eq!(on_disk(&scene.path(), SECRET), found);
        ledger.compact().unwrap();
        ledger.archive_session(SECRET).unwrap();
        assert_eq!(on_disk(&scene.path(), SECRET), found);
    }
}

#[test]
fn an_outcome_is_recorded_with_all_that_is_asked_for() {
    let scene = Scene::new();
    let ledger = scene.open();
    let mut outcome = Outcome::not_started(
        id(1),
        Status::Killed,
        &Problem::refused(Code::TooManyRuns, "it was ended"),
    );
    outcome.stdout = "é".repeat(3000);
    outcome.exit_code = Some(3);
    outcome.usage.wall_ms = 7.5;
    outcome.usage.memory_peak_bytes = Some(1 << 20);
    outcome.usage.stdout_bytes = Some(6000);
    outcome.usage.stderr_bytes = Some(5);
    let start = Entry::call_start(id(1)).code(b"print(1)").wrote("out.txt", b"content");
    ledger.append(&start).unwrap();
    ledger.append(&start.ended(&outcome)).unwrap();
    let run = scene.reader().show(&id(1).to_string()).unwrap();
    assert_eq!(run.status, Some(RunStatus::Killed));
    let details = run.end.unwrap().details.unwrap();
    assert_eq!(details["result_head"].as_str().unwrap().chars().count(), 1000);
    assert_eq!(details["result_bytes"], 6005);
    assert_eq!(details["exit_code"], 3);
    assert_eq!(details["wall_ms"], 7.5);
    assert_eq!(details["memory_peak_bytes"], 1 << 20);
    assert_eq!(details["code"], "too_many_runs");
    assert_eq!(details["code_sha256"], Digest::of(b"print(1)").to_string());
    assert_eq!(details["writes"][0]["sha256"], Digest::of(b"content").to_string());
}

#[test]
fn a_sealed_ledger_verifies_without_its_key_and_is_read_with_it() {
    let scene = Scene::new();
    let key = || SealKey::from_bytes([7; 32]);
    let sealed = LedgerSettings { seal: Some(key()), ..settings() };
    let ledger = Ledger::open(&scene.path(), sealed).unwrap();
    let start = Entry::run_start(id(1)).arguments(SECRET);
    ledger.append(&start).unwrap();
    assert!(!on_disk(&scene.path(), SECRET));
    ledger.compact().unwrap();
    assert!(!on_disk(&scene.path(), SECRET));
    assert!(verify(&scene.path(), &Expectations::default()).unwrap().intact);
    let read = |key| {
        let reader = Reader::open(&scene.path(), key).unwrap();
        let start = reader.show(&id(1).to_string()).unwrap().start.unwrap();
        (start.body, start.details)
    };
    assert_eq!(read(None), (BodyState::Sealed, None));
    assert_eq!(read(Some(SealKey::from_bytes([8; 32]))), (BodyState::Sealed, None));
    let (state, details) = read(Some(key()));
    assert_eq!((state, details.unwrap()["arguments"].as_str()), (BodyState::Present, Some(SECRET)));
    let archive = ledger.expire(i64::MAX).unwrap().archive.unwrap();
    assert!(ringfence_audit::verify_archive(&archive, None).unwrap().intact);
    assert!(!on_disk(&scene.path(), SECRET));
    assert_eq!(SealKey::parse("nonsense").unwrap_err().code.as_str(), "ledger_key_invalid");
    assert!(SealKey::parse(&"0a".repeat(32)).is_ok());
}

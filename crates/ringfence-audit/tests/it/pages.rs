//! Pages against a plain reading of all rows.

use ringfence_audit::{Entry, Filter, Format, Kind, Reader, Risk, RunStatus, View};
use ringfence_testing::Json;

use crate::harness::{Scene, id, runs, start};

/// 2,600 rows: two closed blocks and some more, with a few runs that never ended.
fn scene() -> Scene {
    let scene = Scene::new();
    let ledger = scene.open();
    let mut entries = Vec::new();
    for n in 0..1300u64 {
        let mut start = start(n);
        start.at_ms = i64::try_from(n * 10).unwrap();
        if n % 401 == 7 {
            start.risk = Some(Risk::High);
        }
        entries.push(start.clone());
        if n % 300 == 11 {
            continue;
        }
        let status = if n % 97 == 5 { RunStatus::Timeout } else { RunStatus::Ok };
        let mut end = start.ended_with(status, 1.0);
        end.at_ms = start.at_ms + 5;
        entries.push(end);
        if n % 250 == 1 {
            entries.push(Entry::alert("repeated_blocks", "five in a minute").client("client-1"));
        }
    }
    for some in entries.chunks(100) {
        ledger.append_all(some).unwrap();
    }
    drop(ledger);
    scene
}

/// All pages, one after the other: the numbers of their rows.
fn walk(reader: &Reader, filter: &Filter, limit: usize) -> Vec<i64> {
    let mut seqs = Vec::new();
    let mut cursor = None;
    loop {
        let page = reader.page(filter, cursor.as_deref(), limit).unwrap();
        assert!(page.records.len() <= limit);
        assert!(page.next.is_none() || page.records.len() == limit);
        seqs.extend(page.records.iter().map(|record| record.seq));
        cursor = page.next;
        if cursor.is_none() {
            return seqs;
        }
    }
}

/// The same by looking at every row.
fn plain(reader: &Reader, filter: &Filter) -> Vec<i64> {
    let mut records = Vec::new();
    let all = Filter { view: View::Rows, ..Filter::default() };
    let keep = |record| {
        records.push(record);
        Ok(())
    };
    reader.scan(&all, keep).unwrap();
    let ended: std::collections::HashSet<String> = records
        .iter()
        .filter(|r| r.kind.is_some_and(Kind::is_end))
        .filter_map(|r| r.run_id.clone())
        .collect();
    let mut seqs = Vec::new();
    for record in records.iter().rev() {
        let is_start = record.kind.is_some_and(Kind::is_start);
        let open = is_start && !ended.contains(record.run_id.as_ref().unwrap());
        if filter.view == View::Runs && is_start && !open {
            continue;
        }
        let mut status = record.status;
        if open && filter.view == View::Runs {
            status = Some(RunStatus::Interrupted);
        }
        let fits = filter.session.is_none_or_eq(&record.session)
            && filter.client.is_none_or_eq(&record.client)
            && filter.tool.is_none_or_eq(&record.tool)
            && (filter.status.is_none() || filter.status == status)
            && (filter.risk.is_none() || filter.risk == record.risk)
            && (filter.kind.is_none() || filter.kind == record.kind)
            && filter.since_ms.is_none_or(|since| record.at_ms >= since)
            && filter.until_ms.is_none_or(|until| record.at_ms < until)
            && filter.run.as_ref().is_none_or(|run| {
                record.run_id.as_ref().is_some_and(|id| id.starts_with(run.as_str()))
            });
        if fits {
            seqs.push(record.seq);
        }
    }
    seqs
}

trait NoneOrEq {
    fn is_none_or_eq(&self, other: &Self) -> bool;
}

impl NoneOrEq for Option<String> {
    fn is_none_or_eq(&self, other: &Self) -> bool {
        self.is_none() || self == other
    }
}

#[test]
fn pages_have_what_a_plain_reading_has() {
    let scene = scene();
    let reader = scene.reader();
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        Filter::default(),
        Filter { session: some("session-3"), ..Filter::default() },
        Filter { session: some("nobody"), ..Filter::default() },
        Filter { client: some("client-1"), tool: some("tool-0"), ..Filter::default() },
        Filter { status: Some(RunStatus::Timeout), ..Filter::default() },
        Filter { status: Some(RunStatus::Interrupted), ..Filter::default() },
        Filter { status: Some(RunStatus::Running), ..Filter::default() },
        Filter { risk: Some(Risk::High), ..Filter::default() },
        Filter { kind: Some(Kind::Alert), ..Filter::default() },
        Filter { kind: Some(Kind::Checkpoint), ..Filter::default() },
        Filter { since_ms: Some(2000), until_ms: Some(3000), ..Filter::default() },
        Filter { since_ms: Some(2000), client: some("client-2"), ..Filter::default() },
        Filter { run: Some(id(40).to_string()), ..Filter::default() },
        Filter { run: some("1"), ..Filter::default() },
    ];
    for filter in filters {
        for view in [View::Runs, View::Rows] {
            let filter = Filter { view, ..filter.clone() };
            let expected = plain(&reader, &filter);
            for limit in [1000, 37] {
                assert_eq!(walk(&reader, &filter, limit), expected, "{filter:?}, {limit} at once");
            }
        }
    }
}

#[test]
fn a_run_is_shown_with_both_rows_and_by_the_beginning_of_its_id() {
    let scene = scene();
    let reader = scene.reader();
    let run = reader.show(&id(5).to_string()[..10]).unwrap();
    assert_eq!(run.run_id, id(5).to_string());
    assert_eq!(run.status, Some(RunStatus::Timeout));
    let (start, end) = (run.start.unwrap(), run.end.unwrap());
    assert_eq!((start.kind, end.kind), (Some(Kind::RunStart), Some(Kind::RunEnd)));
    assert_eq!(end.details.unwrap()["code_bytes"], 8);
    assert_eq!(reader.show(&id(11).to_string()).unwrap().status, Some(RunStatus::Interrupted));
    assert_eq!(reader.show("1").unwrap_err().code.as_str(), "run_ambiguous");
}

#[test]
fn a_follower_sees_rows_as_they_come_also_before_they_are_folded() {
    let scene = Scene::new();
    let ledger = scene.open();
    runs(&ledger, 0..2);
    let reader = scene.reader();
    let mut at = reader.last_seq().unwrap();
    assert_eq!(at, 5);
    for n in 2..5 {
        runs(&ledger, n..n + 1);
        let rows = reader.after(at, 100).unwrap();
        assert_eq!(rows.iter().map(|r| r.seq).collect::<Vec<_>>(), [at + 1, at + 2]);
        at += 2;
        if n == 3 {
            ledger.compact().unwrap();
        }
    }
    assert_eq!(reader.after(0, 3).unwrap().len(), 3);
    assert!(reader.after(at, 3).unwrap().is_empty());
}

#[test]
fn exports_have_every_row() {
    let scene = Scene::new();
    let ledger = scene.open();
    let start = start(1).arguments("=cmd, \"quoted\"\nsecond line");
    ledger.append(&start).unwrap();
    ledger.append(&start.ended_with(RunStatus::Error, 2.0)).unwrap();
    let reader = scene.reader();
    let export = |format| {
        let mut out = Vec::new();
        let rows = reader.export(&Filter::default(), format, &mut out).unwrap();
        assert_eq!(rows, 3);
        String::from_utf8(out).unwrap()
    };
    let lines = export(Format::Jsonl);
    let rows = Json::lines(&lines);
    assert_eq!(rows[2]["status"], "error");
    assert_eq!(rows[2]["details"]["wall_ms"], 2.0);
    let csv = export(Format::Csv);
    assert!(csv.starts_with("seq,at_ms,kind,"));
    assert!(csv.contains("\"'=cmd, \"\"quoted\"\"\nsecond line\""));
    let columns = csv.lines().next().unwrap().matches(',').count();
    assert!(csv.lines().any(|line| line.matches(',').count() == columns && line.starts_with("1,")));
}

#[test]
fn a_report_counts_a_period() {
    let scene = scene();
    let report = scene.reader().report(Some(0), Some(1000)).unwrap();
    assert_eq!((report.runs, report.open), (99, 1));
    assert_eq!(report.by_status["timeout"], 1);
    assert_eq!(report.by_client["client-0"], 34);
    assert_eq!(report.by_tool.values().sum::<u64>(), 99);
    assert!((report.durations.unwrap().p99_ms - 1.0).abs() < 1e-9);
    let all = scene.reader().report(None, None).unwrap();
    assert_eq!(all.alerts_by_rule["repeated_blocks"], 6);
}

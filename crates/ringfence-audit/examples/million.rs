//! Builds a ledger of a million rows (or as many as the first argument says) and prints what reading it costs.

#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ringfence_audit::{
    Entry, Expectations, Filter, KeepAll, Ledger, LedgerSettings, Reader, Risk, RunStatus, View,
    verify,
};
use ringfence_spec::RunId;

fn main() {
    let rows: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().unwrap());
    let base = std::env::var_os("RINGFENCE_BENCH_DIR").unwrap_or(".".into());
    let dir = tempfile::tempdir_in(base).unwrap();
    let began = Instant::now();
    build(dir.path(), rows);
    println!("{rows} rows appended in {:.1} s", began.elapsed().as_secs_f64());

    let check = verify(dir.path(), &Expectations::default()).unwrap();
    assert!(check.intact, "{check:?}");
    println!("rows {}, epochs {}, signatures {}", check.rows, check.epochs, check.signatures);
    println!("verify: {}", middle(5, || drop(verify(dir.path(), &Expectations::default()))));

    let began = Instant::now();
    let reader = Reader::open(dir.path(), None).unwrap();
    println!("open a reader: {:.2} ms", began.elapsed().as_secs_f64() * 1e3);
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        ("newest", Filter::default()),
        ("all rows", Filter { view: View::Rows, ..Filter::default() }),
        ("rare session", Filter { session: some("session-rare"), ..Filter::default() }),
        ("unknown session", Filter { session: some("nobody"), ..Filter::default() }),
        ("rare status", Filter { status: Some(RunStatus::Memory), ..Filter::default() }),
        ("interrupted", Filter { status: Some(RunStatus::Interrupted), ..Filter::default() }),
        (
            "rare pair of common words",
            Filter { client: some("client-1"), tool: some("tool-2"), ..Filter::default() },
        ),
        ("high risk", Filter { risk: Some(Risk::High), ..Filter::default() }),
        ("old time", Filter { until_ms: Some(50_000), ..Filter::default() }),
        ("run id", Filter { run: some("0000beef"), ..Filter::default() }),
    ];
    for (name, filter) in filters {
        let mut found = 0;
        let time = middle(15, || found = reader.page(&filter, None, 50).unwrap().records.len());
        println!("page of {found:2} by {name}: {time}");
    }
    println!("show: {}", middle(15, || drop(reader.show(&id(rows / 4).to_string()).unwrap())));
    println!("report: {}", middle(1, || drop(reader.report(None, None).unwrap())));
}

fn build(dir: &std::path::Path, rows: u64) {
    let ledger = Ledger::open(dir, LedgerSettings::new(KeepAll)).unwrap();
    let mut batch = Vec::with_capacity(512);
    for n in 0..rows / 2 {
        let mut start = Entry::run_start(id(n))
            .client(format!("client-{}", n % 40))
            .session(match n {
                77_777 => "session-rare".to_owned(),
                n => format!("session-{}", n / 500),
            })
            .tool(format!("tool-{}", n % 7))
            .risk(if n % 50_000 == 3 { Risk::High } else { Risk::Low })
            .arguments("make -j8 test")
            .code(b"print('hello')")
            .verdict("allowed");
        start.at_ms = i64::try_from(n * 2).unwrap();
        let status = if n % 100_000 == 5 { RunStatus::Memory } else { RunStatus::Ok };
        let mut end = start.ended_with(status, 12.5);
        end.at_ms = start.at_ms + 1;
        end.details.result_head = Some("hello, world: the quick brown fox\n".repeat(6));
        batch.push(start);
        if n % 100_000 != 6 {
            batch.push(end);
        }
        if batch.len() >= 500 {
            ledger.append_all(&batch).unwrap();
            batch.clear();
        }
    }
    ledger.append_all(&batch).unwrap();
    ledger.compact().unwrap();
}

fn id(n: u64) -> RunId {
    // Spread like random ids, and known again.
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mixed);
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    RunId::from_random(bytes)
}

fn middle(times: usize, mut work: impl FnMut()) -> String {
    let mut measured: Vec<Duration> = (0..times)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    measured.sort_unstable();
    format!("p50 {:.2} ms of {times}", measured[times / 2].as_secs_f64() * 1e3)
}

//! What a row costs a process that has the ledger open: alone, from 16 threads, and waiting for the disk.

#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_audit::{Durability, Entry, KeepAll, Ledger, LedgerSettings, RunStatus};
use ringfence_spec::RunId;

fn main() {
    let base = std::env::var_os("RINGFENCE_BENCH_DIR").unwrap_or(".".into());
    let dir = tempfile::tempdir_in(base).unwrap();
    for (name, durability, rows) in [
        ("surviving kill -9", Durability::ProcessDeath, 20_000),
        ("surviving power loss", Durability::PowerLoss, 400),
    ] {
        let settings = LedgerSettings { durability, ..LedgerSettings::new(KeepAll) };
        measure(name, &dir.path().join(name), settings, rows);
    }
}

fn measure(name: &str, dir: &Path, settings: LedgerSettings, rows: u64) {
    let ledger = Ledger::open(dir, settings).unwrap();
    let began = Instant::now();
    let mut times: Vec<Duration> = (0..rows).map(|n| append(&ledger, n)).collect();
    let one = began.elapsed();
    times.sort_unstable();
    let at = |part: usize| times[times.len() * part / 1000].as_secs_f64() * 1e6;
    println!(
        "{name}, one thread: p50 {:.0} us, p99 {:.0} us, p99.9 {:.0} us, {:.0} rows/s",
        at(500),
        at(990),
        at(999),
        f64::from(u32::try_from(rows).unwrap()) / one.as_secs_f64()
    );
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let ledger = &ledger;
            scope.spawn(move || {
                for n in 0..rows / 8 {
                    append(ledger, thread * rows + n);
                }
            });
        }
    });
    let rate = f64::from(u32::try_from(rows * 2).unwrap()) / began.elapsed().as_secs_f64();
    println!("{name}, 16 threads: {rate:.0} rows/s");
}

fn append(ledger: &Ledger, n: u64) -> Duration {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.to_be_bytes());
    let entry = Entry::run_start(RunId::from_random(id))
        .client("bench")
        .session("session")
        .tool("execute_code")
        .arguments("print(1)")
        .code(b"print(1)")
        .ended_with(RunStatus::Ok, 1.5);
    let began = Instant::now();
    ledger.append(&entry).unwrap();
    began.elapsed()
}

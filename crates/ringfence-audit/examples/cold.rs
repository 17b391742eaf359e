//! What the ledger costs a process that runs one command: open, a row at the start, a row at the end, close.
//! Starts itself 400 times and prints the middle and the 99th percentile of what each measured.

#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ringfence_audit::{Entry, KeepAll, Ledger, LedgerSettings, RunStatus};
use ringfence_spec::RunId;

fn main() {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("once"), Some(dir)) => println!("{}", once(Path::new(&dir))),
        _ => many(),
    }
}

fn once(dir: &Path) -> u128 {
    let mut id = [0; 16];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).unwrap();
    let began = Instant::now();
    let ledger = Ledger::open(dir, LedgerSettings::new(KeepAll)).unwrap();
    let start = Entry::run_start(RunId::from_random(id))
        .client("cli")
        .tool("run")
        .arguments("make -j8 test")
        .verdict("allowed");
    ledger.append(&start).unwrap();
    ledger.append(&start.ended_with(RunStatus::Ok, 12.5)).unwrap();
    drop(ledger);
    began.elapsed().as_micros()
}

fn many() {
    let dir = tempfile::tempdir_in(std::env::var_os("RINGFENCE_BENCH_DIR").unwrap_or(".".into()));
    let dir = dir.unwrap().keep();
    let own = std::env::current_exe().unwrap();
    once(&dir);
    let run = |arg: &str| {
        let began = Instant::now();
        let output = Command::new(&own).arg(arg).arg(&dir).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), began.elapsed().as_micros())
    };
    let mut inside: Vec<u128> = (0..400).map(|_| run("once").0.trim().parse().unwrap()).collect();
    let mean = inside.iter().sum::<u128>() / 400;
    inside.sort_unstable();
    println!(
        "open, two rows, close: p50 {} us, p99 {} us, mean {mean} us",
        inside[200], inside[396]
    );
    let _ = std::fs::remove_dir_all(dir);
}

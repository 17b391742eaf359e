//! What a call costs beside many others: sessions, clients that the admission knows, rows of the ledger. Prints one JSON object
//! per line; `cargo xtask flat` judges them.
//!
//! ```text
//! flat DATA [SESSIONS] [CLIENTS] [ROWS]     the largest number of each
//! ```

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_audit::{Entry, KeepAll, Ledger, LedgerSettings};
use ringfence_engine::admission::AdmissionSettings;
use ringfence_engine::files::WriteOptions;
use ringfence_engine::{Engine, HostContext, Recorder, SessionOptions};
use ringfence_jail::Launcher;
use ringfence_spec::{Code, Problem, RunId};
use serde_json::json;

/// Sessions of one owner.
const SESSIONS_PER_OWNER: usize = 50;

/// Measured calls of each kind and size.
const CALLS: usize = 400;

/// Appends before those that are measured: the first ones find caches that the filling has emptied.
const UNCOUNTED: usize = 50;

/// Sessions in use.
const IN_USE: usize = 100;

/// Entries that are appended at once to fill a ledger.
const FILL: usize = 1000;

fn main() -> Result<(), Problem> {
    // First: it may only be forked while there is one thread.
    let launcher = Launcher::start()?;
    let mut args = std::env::args().skip(1);
    let data = PathBuf::from(args.next().unwrap_or_default());
    let mut number = |default: usize| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (n_sessions, n_clients, n_rows) = (number(10_000), number(10_000), number(1_000_000));
    let admission = AdmissionSettings {
        rate_per_minute: Some(u32::MAX),
        concurrent: None,
        concurrent_per_client: None,
        queue: None,
        breakers: true,
    };
    let engine = Engine::builder()
        .launcher(launcher)
        .host(HostContext::here(&data)?)
        .recorder(Recorder::open(&data.join("ledger"), LedgerSettings::new(KeepAll))?)
        .admission(admission)
        .build()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::internal(Code::Threads, "cannot start a runtime").cause(e))?;
    runtime.block_on(async {
        sessions(&engine, n_sessions).await?;
        admitted(&engine, n_clients).await;
        Ok::<_, Problem>(())
    })?;
    rows(&data.join("rows"), n_rows)
}

/// A hundredth, a tenth and all of a number.
fn sizes(most: usize) -> [usize; 3] {
    [most / 100, most / 10, most].map(|n| n.max(1))
}

fn print(row: &str, size: usize, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6;
    println!("{}", json!({"row": row, "size": size, "p50_us": at(50), "p99_us": at(99)}));
}

async fn sessions(engine: &Engine, most: usize) -> Result<(), Problem> {
    let mut all = Vec::new();
    for size in sizes(most) {
        while all.len() + CALLS < size {
            all.push(create(engine, all.len()).await?);
        }
        let (mut create_times, mut read_times, mut write_times) = (vec![], vec![], vec![]);
        for i in 0..CALLS {
            let began = Instant::now();
            let made = create(engine, all.len()).await?;
            create_times.push(began.elapsed());
            all.push(made);
            // The same number of sessions in use, beside few and many others.
            let (owner, id) = &all[all.len() - 1 - (i * 7919) % IN_USE.min(all.len())];
            let began = Instant::now();
            engine
                .file_write(owner, id, "a.txt".into(), b"text".to_vec(), WriteOptions::default())
                .await?;
            write_times.push(began.elapsed());
            let began = Instant::now();
            engine.session_info(owner, id).await?;
            read_times.push(began.elapsed());
        }
        print("session: create", all.len(), create_times);
        print("session: look", all.len(), read_times);
        print("session: write a file", all.len(), write_times);
    }
    Ok(())
}

async fn create(
    engine: &Engine,
    number: usize,
) -> Result<(String, ringfence_engine::SessionId), Problem> {
    let owner = format!("owner{}", number / SESSIONS_PER_OWNER);
    let made = engine.session_create(&owner, SessionOptions::default()).await?;
    Ok((owner, made.id))
}

async fn admitted(engine: &Engine, most: usize) {
    let mut n_known = 0;
    for size in sizes(most) {
        for number in n_known..size {
            let _ = engine.admission().admit(&format!("client{number}")).await;
        }
        n_known = size;
        let mut times = Vec::new();
        for i in 0..CALLS * 10 {
            let client = format!("client{}", (i * 7919) % size);
            let began = Instant::now();
            let _ = engine.admission().admit(&client).await;
            times.push(began.elapsed());
        }
        print("admission", size, times);
    }
}

/// Waits until the disk has what filled the ledger: millions of rows on their way to it slow down everything that writes.
fn settle(dir: &Path, ledger: &Ledger) -> Result<(), Problem> {
    ledger.compact()?;
    let unwritten = |e: std::io::Error| {
        Problem::internal(Code::LedgerUnwritable, "the disk does not take the rows").cause(e)
    };
    let dir = std::fs::File::open(dir).map_err(unwritten)?;
    rustix::fs::syncfs(&dir).map_err(|e| unwritten(e.into()))
}

fn rows(dir: &Path, most: usize) -> Result<(), Problem> {
    let ledger = Ledger::open(dir, LedgerSettings::new(KeepAll))?;
    let mut n = 0_usize;
    let entry = |n: usize| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(n as u64).to_be_bytes());
        Entry::call_start(RunId::from_random(id)).client("a client")
    };
    for size in sizes(most) {
        while n + CALLS < size {
            let entries: Vec<Entry> = (n..n + FILL).map(entry).collect();
            ledger.append_all(&entries)?;
            n += FILL;
        }
        settle(dir, &ledger)?;
        let mut times = Vec::new();
        for call in 0..CALLS + UNCOUNTED {
            let began = Instant::now();
            ledger.append(&entry(n))?;
            if call >= UNCOUNTED {
                times.push(began.elapsed());
            }
            n += 1;
        }
        print("ledger: append", n, times);
    }
    Ok(())
}

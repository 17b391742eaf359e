//! A snapshot of the ledger, to verify it while other processes write.

use ringfence_spec::Problem;
use rusqlite::Connection;

use crate::compaction::read_all;
use crate::dir::{HEAD, INTAKE, LOCK, LedgerDir, WriteLock};
use crate::head::Head;
use crate::index::{BLOCK_ROWS, closed_blocks};
use crate::{errors, schema};

/// Rows per thread that make another thread worth starting.
const ROWS_PER_THREAD: i64 = 20_000;
const THREADS_MAX: usize = 8;

/// The ledger at one moment: changing files are read at once, the database is held by open transactions.
pub(crate) struct Snapshot<'a> {
    home: &'a LedgerDir,
    pub(crate) head: Option<Head>,
    pub(crate) intake: Vec<u8>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) rows: i64,
    pub(crate) blocks: i64,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn take(home: &'a LedgerDir) -> Result<Self, Problem> {
        let lock = home.find_or_make(LOCK)?;
        let _turn = WriteLock::wait_to_read(&lock, home.path())?;
        let head = home.find(HEAD)?.as_ref().and_then(Head::read);
        let intake = match home.find(INTAKE)? {
            Some(file) => read_all(&file).map_err(|e| errors::from_io(home.path(), "read", &e))?,
            None => Vec::new(),
        };
        let intake = without_torn_row(intake, head.as_ref());
        let there = schema::glance(home)?;
        if !there && intake.is_empty() && head.is_none() {
            return Err(errors::missing(home.path()));
        }
        let mut snapshot = Self { home, head, intake, connections: Vec::new(), rows: 0, blocks: 0 };
        // A writer that was killed while it made the database left one without tables, which the next one finishes.
        if !there || schema::version(home, &schema::connect(home)?)? == 0 {
            return Ok(snapshot);
        }
        let first = snapshot.connect()?;
        let rows =
            first.query_row("SELECT coalesce(max(seq), 0) FROM entries", [], |row| row.get(0));
        snapshot.rows = snapshot.sql(rows)?;
        snapshot.blocks = snapshot.sql(closed_blocks(&first))?.min(snapshot.rows / BLOCK_ROWS);
        snapshot.connections.push(first);
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let useful = usize::try_from(snapshot.rows / ROWS_PER_THREAD).unwrap_or(0);
        for _ in 1..cores.min(useful) {
            let connection = snapshot.connect()?;
            snapshot.connections.push(connection);
        }
        Ok(snapshot)
    }

    /// A connection that sees the database as of now.
    fn connect(&self) -> Result<Connection, Problem> {
        let db = schema::connect(self.home)?;
        schema::version(self.home, &db)?;
        let begin = || {
            db.execute_batch("PRAGMA mmap_size = 4294967296; BEGIN")?;
            db.query_row("SELECT count(*) FROM (SELECT 1 FROM entries LIMIT 1)", [], |_| Ok(()))
        };
        self.sql(begin())?;
        Ok(db)
    }

    pub(crate) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, Problem> {
        result.map_err(|e| errors::from_sqlite(self.home.path(), &e))
    }
}

/// The intake without what the next writer cuts off: rows of a writer that was killed amid its write (SIGKILL stops a
/// write(2) between two pages), none of which was acknowledged.
fn without_torn_row(mut intake: Vec<u8>, head: Option<&Head>) -> Vec<u8> {
    let Some((head, to)) = head.and_then(|head| Some((head, head.going_to?))) else {
        return intake;
    };
    let bytes = intake.len() as u64;
    if bytes > head.at.intake_bytes && bytes < to.intake_bytes {
        intake.truncate(usize::try_from(head.at.intake_bytes).unwrap_or(usize::MAX));
    }
    intake
}

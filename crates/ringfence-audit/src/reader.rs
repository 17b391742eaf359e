//! The reader's view of the ledger: one run, rows as they arrive, all rows in order. Pages are in `page.rs`. Changes
//! nothing, except that it compacts the intake first, as the next writer would.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ringfence_spec::{Code, Problem};
use rusqlite::{Connection, OptionalExtension};

use crate::columns::{Kind, RunStatus};
use crate::compaction::{LINE_COLUMNS, line_of, lines, read_all};
use crate::dir::{HEAD, INTAKE, LOCK, LedgerDir, WriteLock};
use crate::ledger::Durability;
use crate::line::Line;
use crate::page::Filter;
use crate::record::{Record, Run};
use crate::seal::SealKey;
use crate::storage_settings::StorageSettings;
use crate::store::{Store, StoreOptions};
use crate::{errors, index, schema};

/// Maximum number of rows that one call returns.
pub const LIMIT_MAX: usize = 1000;

/// An open ledger, for reading.
#[derive(Debug)]
pub struct Reader {
    pub(crate) home: LedgerDir,
    pub(crate) db: Connection,
    lock: Arc<File>,
    seal: Option<SealKey>,
}

impl Reader {
    /// Opens the ledger in `dir`. Without the key, here or in the ledger's own settings, sealed bodies stay sealed.
    pub fn open(dir: &Path, seal: Option<SealKey>) -> Result<Self, Problem> {
        let home = LedgerDir::open(dir)?;
        // Without its key, a sealed body stays sealed.
        let seal = seal.or_else(|| StorageSettings::of(&home).ok()?.seal().ok()?);
        if home.size(HEAD) == 0 && home.size(INTAKE) == 0 && !schema::glance(&home)? {
            return Err(errors::missing(dir));
        }
        let lock = Arc::new(home.find_or_make(LOCK)?);
        let mut store = Store::open_existing(home, Arc::clone(&lock), StoreOptions::READING)?;
        match store.compact_now() {
            // Without space to move the newest rows, the others can still be read.
            Err(problem) if problem.code == Code::LedgerFull && schema::glance(&store.home)? => {}
            other => other?,
        }
        store.make_database()?;
        let db = schema::connect(&store.home)?;
        Ok(Self { home: store.home, db, lock, seal })
    }

    /// Makes rows visible that were appended since the reader was opened.
    pub fn refresh(&self) -> Result<(), Problem> {
        let home = LedgerDir::open(self.home.path())?;
        Store::open_existing(home, Arc::clone(&self.lock), StoreOptions::READING)?.compact_now()
    }

    /// One run or call, by its id or a prefix of it.
    pub fn show(&self, run: &str) -> Result<Run, Problem> {
        let prefix = run_prefix(run)?;
        let found = self.find_runs(&prefix, 2)?;
        let (run_id, start, end) = match &found[..] {
            [one] => one.clone(),
            [] => {
                return Err(Problem::usage(
                    Code::RunUnknown,
                    format!("the ledger knows no run {run}"),
                ));
            }
            _ => {
                return Err(Problem::usage(
                    Code::RunAmbiguous,
                    format!("several runs begin with {run}"),
                )
                .hint("give more digits of the id"));
            }
        };
        let record = |seq: Option<i64>| seq.map_or(Ok(None), |seq| self.line(seq));
        let (start, end) = (record(start)?, record(end)?);
        let status = match (&start, &end) {
            (_, Some(end)) => end.status.as_deref().and_then(|word| word.parse().ok()),
            (Some(start), None) => Some(self.standing(start)),
            (None, None) => None,
        };
        let record = |line: Line| Record::of(line, self.seal.as_ref());
        Ok(Run { run_id, status, start: start.map(record), end: end.map(record) })
    }

    /// Rows after `seq`, the oldest first, at most `limit`: for following a ledger as it grows. Reads the intake too,
    /// so that following compacts nothing.
    pub fn after(&self, seq: i64, limit: usize) -> Result<Vec<Record>, Problem> {
        let limit = limit_of(limit)?;
        let _turn = WriteLock::wait_to_read(&self.lock, self.home.path())?;
        let query =
            format!("SELECT {LINE_COLUMNS} FROM entries WHERE seq > ?1 ORDER BY seq LIMIT {limit}");
        let mut found = self.lines(&query, [seq])?;
        let last = found.last().map_or(seq, |line| line.seq);
        if let Some(intake) = self.home.find(INTAKE)? {
            let text =
                read_all(&intake).map_err(|e| errors::from_io(self.home.path(), "read", &e))?;
            found.extend(lines(&text).flatten().filter(|line| line.seq > last));
            found.truncate(limit);
        }
        Ok(found.into_iter().map(|line| self.record(line)).collect())
    }

    /// The number of the last row, 0 if there is none; following begins there.
    pub fn last_seq(&self) -> Result<i64, Problem> {
        let head = self.home.find(HEAD)?;
        Ok(head.and_then(|file| crate::head::Head::read(&file)).map_or(0, |h| h.at.place.seq))
    }

    /// Calls `each` with every row that matches the filter, oldest first.
    pub fn scan(
        &self,
        filter: &Filter,
        mut each: impl FnMut(Record) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        filter.check()?;
        let query = format!("SELECT {LINE_COLUMNS} FROM entries ORDER BY seq");
        let mut statement = self.sql(self.db.prepare(&query))?;
        let mut rows = self.sql(statement.query([]))?;
        while let Some(row) = self.sql(rows.next())? {
            let line = self.sql(line_of(row))?;
            if filter.matches(&line, line.status.as_deref().and_then(|word| word.parse().ok())) {
                each(self.record(line))?;
            }
        }
        Ok(())
    }

    /// The archives beside the ledger.
    pub fn archives(&self) -> Result<Vec<std::path::PathBuf>, Problem> {
        crate::archive::list(&self.home)
    }

    pub(crate) fn record(&self, line: Line) -> Record {
        Record::of(line, self.seal.as_ref())
    }

    pub(crate) fn line(&self, seq: i64) -> Result<Option<Line>, Problem> {
        let query = format!("SELECT {LINE_COLUMNS} FROM entries WHERE seq = ?1");
        let get = || self.db.prepare_cached(&query)?.query_row([seq], line_of).optional();
        self.sql(get())
    }

    pub(crate) fn lines<const N: usize>(
        &self,
        query: &str,
        parameters: [i64; N],
    ) -> Result<Vec<Line>, Problem> {
        let get = || {
            let mut statement = self.db.prepare_cached(query)?;
            let rows = statement.query_map(rusqlite::params_from_iter(parameters), line_of)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        self.sql(get())
    }

    /// Rows that no closed block covers, the oldest first.
    pub(crate) fn unindexed(&self) -> Result<Vec<Line>, Problem> {
        let closed = self.sql(index::closed_blocks(&self.db))?;
        let query = format!("SELECT {LINE_COLUMNS} FROM entries WHERE seq >= ?1 ORDER BY seq");
        self.lines(&query, [index::first_of(closed)])
    }

    /// Runs whose id begins with `prefix`: id, first row, last row; at most `max` of them.
    pub(crate) fn find_runs(&self, prefix: &str, max: usize) -> Result<Vec<FoundRun>, Problem> {
        let get = || {
            let mut statement = self.db.prepare_cached(
                "SELECT run_id, start_seq, end_seq FROM runs WHERE run_id >= ?1 AND run_id < ?2 LIMIT ?3",
            )?;
            // `g` follows the last digit.
            let rows = statement.query_map(
                rusqlite::params![
                    prefix,
                    format!("{prefix}g"),
                    i64::try_from(max).unwrap_or(i64::MAX)
                ],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            rows.collect::<rusqlite::Result<Vec<FoundRun>>>()
        };
        let mut found = self.sql(get())?;
        for line in self.unindexed()? {
            let (Some(id), Ok(kind)) = (&line.run_id, line.kind.parse::<Kind>()) else { continue };
            if !id.starts_with(prefix) || !(kind.is_start() || kind.is_end()) {
                continue;
            }
            let at = found.iter().position(|run| run.0 == *id).unwrap_or_else(|| {
                found.push((id.clone(), None, None));
                found.len() - 1
            });
            let run = &mut found[at];
            if kind.is_start() {
                run.1 = Some(line.seq);
            } else {
                run.2 = Some(line.seq);
            }
        }
        Ok(found)
    }

    /// Status of a start without an end: running while its writer lives.
    pub(crate) fn standing(&self, start: &Line) -> RunStatus {
        match ringfence_sys::is_byte_held(&*self.lock, start.writer) {
            Ok(true) => RunStatus::Running,
            _ => RunStatus::Interrupted,
        }
    }

    pub(crate) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, Problem> {
        result.map_err(|e| errors::from_sqlite(self.home.path(), &e))
    }
}

/// A run's id, the number of its first row and of its last.
pub(crate) type FoundRun = (String, Option<i64>, Option<i64>);

impl StoreOptions {
    /// For stores that only compact: replaces no key.
    pub(crate) const READING: Self = Self {
        epoch_ms_max: i64::MAX,
        epoch_rows_max: i64::MAX,
        durability: Durability::ProcessDeath,
    };
}

/// A validated prefix of a run id.
pub(crate) fn run_prefix(text: &str) -> Result<String, Problem> {
    let prefix = text.to_ascii_lowercase();
    let fits = (1..=32).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_hexdigit());
    if fits {
        return Ok(prefix);
    }
    Err(Problem::usage(Code::RunIdInvalid, format!("{text:?} is no run id"))
        .hint("a run id has up to 32 hexadecimal digits; the first few are enough"))
}

/// A validated number of rows.
pub(crate) fn limit_of(limit: usize) -> Result<usize, Problem> {
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::usage(Code::LimitInvalid, format!("cannot list {limit} rows at once"))
        .hint(format!("choose between 1 and {LIMIT_MAX}")))
}

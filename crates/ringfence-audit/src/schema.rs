//! The database: its tables, its numbered migrations, and the settings of a connection.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringfence_spec::Problem;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::dir::{DATABASE, LedgerDir};
use crate::errors;

/// Time a statement waits for another process: a checkpoint or a recovery of the log, both short.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// Each brings the schema from its index to the next number.
const MIGRATIONS: &[&str] = &["
    -- The ledger. `chain` covers all other columns, the body by its hash.
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY,
        at_ms INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        writer INTEGER NOT NULL,
        kind TEXT NOT NULL,
        run_id TEXT,
        session TEXT,
        client TEXT,
        tool TEXT,
        status TEXT,
        risk TEXT,
        body_hash BLOB NOT NULL,
        chain BLOB NOT NULL,
        body BLOB
    ) STRICT;
    -- Three tables made from it, one block of rows at a time, for looking things up.
    CREATE TABLE marks (term TEXT, block INTEGER, bits BLOB NOT NULL, PRIMARY KEY (term, block)) STRICT, WITHOUT ROWID;
    CREATE TABLE spans (block INTEGER PRIMARY KEY, at_min INTEGER NOT NULL, at_max INTEGER NOT NULL) STRICT;
    CREATE TABLE runs (run_id TEXT PRIMARY KEY, start_seq INTEGER, end_seq INTEGER) STRICT, WITHOUT ROWID;
    CREATE INDEX open_runs ON runs (start_seq) WHERE end_seq IS NULL;
"];

/// The schema version this program writes: the number of migrations.
const NEWEST: i64 = 1;

/// A connection to an existing database, which may be empty.
pub(crate) fn connect(home: &LedgerDir) -> Result<Connection, Problem> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let problem = |e: &rusqlite::Error| errors::from_sqlite(home.path(), e);
    let db = Connection::open_with_flags(home.join(DATABASE), flags).map_err(|e| problem(&e))?;
    let configure = || -> rusqlite::Result<()> {
        db.busy_timeout(BUSY)?;
        // A process that ran one command must not wait for the disk at its end.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // Do not run triggers and views that another program put into the file.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        db.set_prepared_statement_cache_capacity(32);
        // A compaction syncs once, by `Store::shorten_log`, and not at each commit too. Content that is cleared, or moved
        // from one page to another, must not stay readable in the file.
        db.execute_batch(
            "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON",
        )
    };
    configure().map_err(|e| problem(&e))?;
    Ok(db)
}

/// Reads the file's header without opening a database: false if there is no file yet. A file that is not a database, or
/// one of a newer version, is refused before a row is written for it.
pub(crate) fn glance(home: &LedgerDir) -> Result<bool, Problem> {
    let mut header = [0; 100];
    let Some(read) = read_kept(home, &mut header)? else { return Ok(false) };
    let n = read.map_err(|e| errors::from_io(home.path(), "read", &e))?;
    if n == 0 {
        return Ok(false);
    }
    if n < header.len() || !header.starts_with(b"SQLite format 3\0") {
        return Err(errors::corrupt(home.path(), format!("{DATABASE} is not a database")));
    }
    // https://www.sqlite.org/fileformat.html: the user version is at offset 60, big-endian.
    let version = i64::from(i32::from_be_bytes([header[60], header[61], header[62], header[63]]));
    known(home, version)?;
    Ok(true)
}

/// Database files that were read, by device and inode, kept open for the life of the process. Closing one would release
/// every lock that connections of this process hold on it: <https://www.sqlite.org/howtocorrupt.html>, 2.2.
static KEPT: Mutex<BTreeMap<(u64, u64), File>> = Mutex::new(BTreeMap::new());

/// Reads the beginning of the database; `None` if there is none.
fn read_kept(
    home: &LedgerDir,
    bytes: &mut [u8],
) -> Result<Option<std::io::Result<usize>>, Problem> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(file) = home.identity(DATABASE).and_then(|id| kept.get(&id)) {
        return Ok(Some(file.read_at(bytes, 0)));
    }
    let Some(file) = home.find(DATABASE)? else { return Ok(None) };
    let meta = file.metadata().map_err(|e| errors::from_io(home.path(), "fstat", &e))?;
    let file = kept.entry((meta.dev(), meta.ino())).or_insert(file);
    Ok(Some(file.read_at(bytes, 0)))
}

/// The schema version: 0 for an empty database. A version newer than [`NEWEST`] is refused.
pub(crate) fn version(home: &LedgerDir, db: &Connection) -> Result<i64, Problem> {
    let found: i64 = db
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|e| errors::from_sqlite(home.path(), &e))?;
    known(home, found)
}

fn known(home: &LedgerDir, version: i64) -> Result<i64, Problem> {
    match version {
        n if n > NEWEST => Err(errors::newer(home.path(), n, NEWEST)),
        n if n < 0 => Err(errors::corrupt(home.path(), format!("schema {n}"))),
        n => Ok(n),
    }
}

/// Returns true if `version` needs [`migrate`].
pub(crate) const fn is_old(version: i64) -> bool {
    version < NEWEST
}

/// Properties of an empty database that must be set before its first table.
pub(crate) fn prepare_empty(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch("PRAGMA journal_mode = WAL")
}

/// Brings the schema up to date, inside the caller's transaction.
pub(crate) fn migrate(db: &Connection, from: i64) -> rusqlite::Result<()> {
    let done = usize::try_from(from).unwrap_or(0);
    for step in MIGRATIONS.iter().skip(done) {
        db.execute_batch(step)?;
    }
    db.pragma_update(None, "user_version", NEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_schema_is_the_last_migrations() {
        assert_eq!(usize::try_from(NEWEST), Ok(MIGRATIONS.len()));
    }
}

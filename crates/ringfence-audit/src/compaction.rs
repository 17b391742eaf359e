//! Moves rows from the intake into the database: copies them unchanged, syncs them to disk, then empties the intake.
//! Checks nothing: a row changed in the intake is changed in the database too, where `verify` finds it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use ringfence_spec::Problem;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::digest::Digest;
use crate::dir::{DATABASE, LOG, WriteLock};
use crate::head::{ChainPosition, Head, Mark};
use crate::keys::{KeyBody, PublicKey};
use crate::line::{Line, Stored};
use crate::store::{Store, Tail};
use crate::{errors, index, schema};

/// The columns that make a [`Line`], in the order that [`line_of`] reads.
pub(crate) const LINE_COLUMNS: &str = "seq, at_ms, epoch, writer, kind, run_id, session, client, tool, status, \
                                       risk, body_hash, chain, body";

impl Store {
    /// Takes the write lock and compacts the intake. Afterwards the database exists and is connected.
    pub(crate) fn compact_now(&mut self) -> Result<(), Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = WriteLock::wait(&lock, self.home.path())?;
        // Record faults in the chain before the compaction could cover them up.
        self.append_in_turn(&[])?;
        let (tail, _) = self.tail()?;
        self.compact(tail)?;
        // There may have been nothing to move, and callers go on with the database.
        self.make_database()
    }

    /// Moves every row of the intake into the database. The caller holds the write lock.
    pub(crate) fn compact(&mut self, tail: Tail) -> Result<(), Problem> {
        let text = self.intake_text()?;
        if text.is_empty() {
            return Ok(());
        }
        if lines(&text).any(|line| line.is_err()) {
            // Not a row: keep it for inspection.
            self.set_aside(0, text.len() as u64)?;
        }
        self.make_database()?;
        let Some(db) = &self.db else { return Ok(()) };
        self.sql(insert_all(db, &text))?;
        let path = self.home.path().to_owned();
        let key = *self.secret_of(tail.epoch)?.mac_key();
        // From here on the disk has the rows, in the database or in its log; so they can leave the intake.
        self.shorten_log()?;
        self.intake.set_len(0).map_err(|e| errors::from_io(&path, "ftruncate", &e))?;
        let mark = Mark { intake_bytes: 0, ..tail.mark };
        self.write_head(Head::new(mark, tail.mark.place.seq, tail.epoch, &self.boot).signed(&key))
    }

    /// Position and epoch of the last row in the database.
    pub(crate) fn database_tail(&mut self) -> Result<Option<(ChainPosition, i64)>, Problem> {
        let is_finished = self.is_finished()?;
        let Some(db) = self.db.as_ref().filter(|_| is_finished) else { return Ok(None) };
        self.sql(database_tail(db))
    }

    /// The public key that the database names for `epoch`.
    pub(crate) fn database_key(&mut self, epoch: i64) -> Result<Option<PublicKey>, Problem> {
        let is_finished = self.is_finished()?;
        let Some(db) = self.db.as_ref().filter(|_| is_finished) else { return Ok(None) };
        self.sql(announced_key(db, epoch))
    }

    /// Connects to the database; false if it does not exist, or a writer was killed before it made the tables.
    fn is_finished(&mut self) -> Result<bool, Problem> {
        self.connect()?;
        let Some(db) = &self.db else { return Ok(false) };
        Ok(schema::version(&self.home, db)? > 0)
    }

    /// Connects to the database; false if it does not exist yet.
    fn connect(&mut self) -> Result<bool, Problem> {
        if self.db.is_none() && schema::glance(&self.home)? {
            self.db = Some(schema::connect(&self.home)?);
        }
        Ok(self.db.is_some())
    }

    /// Connects to the database; creates or migrates it if necessary.
    pub(crate) fn make_database(&mut self) -> Result<(), Problem> {
        if !self.connect()? {
            self.home.find_or_make(DATABASE)?;
            let db = schema::connect(&self.home)?;
            self.sql(schema::prepare_empty(&db))?;
            self.db = Some(db);
        }
        let Some(db) = &self.db else { return Ok(()) };
        let version = schema::version(&self.home, db)?;
        if !schema::is_old(version) {
            return Ok(());
        }
        let migrate = || {
            let tx = db.unchecked_transaction()?;
            schema::migrate(db, version)?;
            tx.commit()
        };
        self.sql(migrate())
    }

    /// Checkpoints the database's log into its file, syncs, and empties the log, so that the next process to open it
    /// has nothing to read. A reader may prevent that; then at least the log is on disk, and the next compaction empties it.
    pub(crate) fn shorten_log(&self) -> Result<(), Problem> {
        let Some(db) = &self.db else { return Ok(()) };
        let _ = db.busy_timeout(Duration::ZERO);
        let result = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        let _ = db.busy_timeout(schema::BUSY);
        let emptied: i64 = self.sql(result)?;
        if emptied == 0 {
            return Ok(());
        }
        match self.home.find(LOG)? {
            Some(log) => {
                log.sync_data().map_err(|e| errors::from_io(self.home.path(), "fsync", &e))
            }
            None => Ok(()),
        }
    }
}

/// The lines of a text, each a row or not.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Result<Line, serde_json::Error>> {
    let lines = text.split_inclusive(|b| *b == b'\n').filter(|line| line.len() > 1);
    lines.map(|line| match line.strip_suffix(b"\n") {
        Some(line) => serde_json::from_slice(line),
        None => Err(serde::de::Error::custom("no line end")),
    })
}

/// Reads a file from its start.
pub(crate) fn read_all(file: &File) -> std::io::Result<Vec<u8>> {
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut text = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut text[filled..], filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    text.truncate(filled);
    Ok(text)
}

/// The key that a `key` row announces for `epoch`.
pub(crate) fn key_of(line: &Line, epoch: i64) -> Option<PublicKey> {
    let body: KeyBody = (line.kind == "key").then(|| line.parse_body())??;
    (body.epoch == epoch).then_some(body.public)
}

/// A row of a query for [`LINE_COLUMNS`].
pub(crate) fn line_of(row: &Row<'_>) -> rusqlite::Result<Line> {
    Ok(Line {
        seq: row.get(0)?,
        at_ms: row.get(1)?,
        epoch: row.get(2)?,
        writer: row.get(3)?,
        kind: row.get(4)?,
        run_id: row.get(5)?,
        session: row.get(6)?,
        client: row.get(7)?,
        tool: row.get(8)?,
        status: row.get(9)?,
        risk: row.get(10)?,
        body_hash: Digest::from_bytes(row.get(11)?),
        chain: Digest::from_bytes(row.get(12)?),
        body: row.get::<_, Option<Vec<u8>>>(13)?.map(Stored),
    })
}

/// Position and epoch of the last row in `db`.
pub(crate) fn database_tail(db: &Connection) -> rusqlite::Result<Option<(ChainPosition, i64)>> {
    db.prepare_cached("SELECT seq, chain, epoch FROM entries ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| {
            let place = ChainPosition { seq: row.get(0)?, chain: Digest::from_bytes(row.get(1)?) };
            Ok((place, row.get(2)?))
        })
        .optional()
}

fn announced_key(db: &Connection, epoch: i64) -> rusqlite::Result<Option<PublicKey>> {
    let query = format!("SELECT {LINE_COLUMNS} FROM entries WHERE kind = 'key' AND epoch = ?1");
    let mut statement = db.prepare(&query)?;
    let mut lines = statement.query_map([epoch], line_of)?;
    Ok(lines.find_map(|line| key_of(&line.ok()?, epoch)))
}

fn insert_all(db: &Connection, text: &[u8]) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    {
        // The row may exist already, if a compaction died between the commit and emptying the intake. The intake is right,
        // because the head covers it.
        let mut insert = db.prepare_cached(
            "INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        for line in lines(text).flatten() {
            insert.execute(params![
                line.seq,
                line.at_ms,
                line.epoch,
                line.writer,
                line.kind,
                line.run_id,
                line.session,
                line.client,
                line.tool,
                line.status,
                line.risk,
                line.body_hash.bytes(),
                line.chain.bytes(),
                line.body.as_ref().map(|body| &body.0),
            ])?;
        }
    }
    index::close_blocks(db)?;
    tx.commit()
}

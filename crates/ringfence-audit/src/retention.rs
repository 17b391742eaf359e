//! Archives, then clears, bodies that are old or belong to a deleted session, and records it in a row. The rows
//! themselves stay, so that the chain stays whole.

use std::path::PathBuf;
use std::sync::Arc;

use ringfence_spec::Problem;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::archive;
use crate::columns::Kind;
use crate::digest::Digest;
use crate::dir::WriteLock;
use crate::entry::stored_name;
use crate::index::{self, Column};
use crate::ledger::Ledger;
use crate::store::{Draft, Store};

/// Default retention of bodies: 90 days.
pub const RETENTION_MS: i64 = 90 * 24 * 3600 * 1000;

/// Rows cleared in one transaction, during which no other process can write.
const ROWS_AT_ONCE: usize = 5000;

/// Rows whose bodies may be cleared; the ledger's own never are.
const CLEARABLE: &str = "body IS NOT NULL AND kind NOT IN ('key', 'checkpoint', 'expire', 'gap')";

/// Result of an expiry.
#[derive(Clone, Debug, Serialize)]
pub struct Expired {
    /// Number of bodies.
    pub rows: usize,
    /// The archive; null when there was nothing to archive.
    pub archive: Option<PathBuf>,
}

/// The body of an `expire` row.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpireBody {
    pub(crate) reason: String,
    /// Rows whose bodies are cleared, as ranges with both ends.
    pub(crate) cleared: Vec<(i64, i64)>,
    /// The archive's file name, and the digest that its last line signs.
    pub(crate) archive: String,
    pub(crate) sha256: Digest,
}

impl Ledger {
    /// Archives and clears the bodies of all rows up to the first that is not before `before_ms`.
    pub fn expire(&self, before_ms: i64) -> Result<Expired, Problem> {
        self.clear("expired", |db| {
            let first = index::first_of(index::first_block_since(db, before_ms)?);
            // A prefix of the chain, not every row with an old time: clocks go back, rows do not.
            let kept: i64 = db.query_row(
                "SELECT coalesce((SELECT seq FROM entries WHERE seq >= ?1 AND at_ms >= ?2 ORDER BY seq LIMIT 1), 1 << 62)",
                [first, before_ms],
                |row| row.get(0),
            )?;
            let query = format!("SELECT seq FROM entries WHERE seq < ?1 AND {CLEARABLE} ORDER BY seq");
            let mut statement = db.prepare(&query)?;
            statement.query_map([kept], |row| row.get(0))?.collect()
        })
    }

    /// Archives and clears the bodies of a session that was deleted.
    pub fn archive_session(&self, session: &str) -> Result<Expired, Problem> {
        let stored = stored_name(&*self.settings.redactor, session);
        self.clear("session deleted", |db| {
            let query = format!(
                "SELECT seq FROM entries WHERE seq BETWEEN ?1 AND ?2 AND session = ?3 AND {CLEARABLE} ORDER BY seq"
            );
            let mut statement = db.prepare(&query)?;
            let mut seqs = Vec::new();
            for (first, last) in index::ranges_with(db, Column::Session, &stored)? {
                let found = statement.query_map(params![first, last, stored], |row| row.get(0))?;
                seqs.extend(found.collect::<rusqlite::Result<Vec<i64>>>()?);
            }
            Ok(seqs)
        })
    }

    fn clear(
        &self,
        reason: &str,
        choose: impl FnOnce(&Connection) -> rusqlite::Result<Vec<i64>>,
    ) -> Result<Expired, Problem> {
        // Not the store that appends go through, which would wait for all of this.
        let mut store = self.another_store()?;
        store.compact_now()?;
        let Some(db) = &store.db else { return Ok(Expired { rows: 0, archive: None }) };
        let seqs = store.sql(choose(db))?;
        if seqs.is_empty() {
            return Ok(Expired { rows: 0, archive: None });
        }
        // In this order: the archive is on disk and signed, a row records it, the bodies are cleared. A crash in
        // between loses nothing.
        let (archive, sha256) = archive::write(&mut store, &seqs, reason)?;
        let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for some in seqs.chunks(ROWS_AT_ONCE) {
            let body = ExpireBody {
                reason: reason.to_owned(),
                cleared: ranges(some),
                archive: name.clone(),
                sha256,
            };
            clear_some(&mut store, &body)?;
        }
        Ok(Expired { rows: seqs.len(), archive: Some(archive) })
    }
}

fn clear_some(store: &mut Store, body: &ExpireBody) -> Result<(), Problem> {
    let lock = Arc::clone(&store.lock);
    let _turn = WriteLock::wait(&lock, store.home.path())?;
    store.append_in_turn(&[Draft::own(Kind::Expire, body)])?;
    let Some(db) = &store.db else { return Ok(()) };
    let clear = || {
        let tx = db.unchecked_transaction()?;
        let statement =
            format!("UPDATE entries SET body = NULL WHERE seq BETWEEN ?1 AND ?2 AND {CLEARABLE}");
        for (first, last) in &body.cleared {
            db.prepare_cached(&statement)?.execute([first, last])?;
        }
        tx.commit()
    };
    store.sql(clear())?;
    store.shorten_log()
}

/// Ascending numbers as ranges with both ends.
fn ranges(seqs: &[i64]) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for seq in seqs {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *seq => *last = *seq,
            _ => ranges.push((*seq, *seq)),
        }
    }
    ranges
}

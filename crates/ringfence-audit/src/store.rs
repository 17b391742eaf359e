//! The one place that writes rows: a transaction under the writers' lock, with the head written around its commit.
//! Never called by two threads at once; `ledger.rs` sees to that.

use std::fs::File;
use std::sync::Arc;

use ringfence_spec::Problem;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::digest::{Columns, Digest, chain};
use crate::entry::now_ms;
use crate::head::{Head, Place, Standing, boot_id};
use crate::home::{DATABASE, HEAD, Home, LOCK, LOG, Turn};
use crate::keys::{self, Secret};
use crate::words::{Kind, Risk, RunStatus};
use crate::{fault, index, schema};

/// Every row whose number this divides is a checkpoint; it is also the size of a block of the index.
pub(crate) const CHECKPOINT_ROWS: i64 = 1024;

/// Pages in the log before it is brought into the database. Whoever opens the ledger first reads the whole log (about a
/// microsecond a page), and bringing it in waits for the disk: 128 pages are some 40 runs of a command.
const LOG_PAGES_MAX: u64 = 128;

/// When a new key takes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochMax {
    pub(crate) ms: i64,
    pub(crate) rows: i64,
}

/// A row that lacks only its place.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) at_ms: i64,
    pub(crate) kind: Kind,
    pub(crate) run_id: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) status: Option<RunStatus>,
    pub(crate) risk: Option<Risk>,
    pub(crate) writer: i64,
    pub(crate) body: Vec<u8>,
}

/// The body of a `gap` row: what the head said when it and the database disagreed. The next head would have covered it up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GapBody {
    pub(crate) why: String,
    pub(crate) head: Option<Place>,
    pub(crate) found: Place,
    /// The machine was started again in between, so that it may have been a loss of power.
    pub(crate) restarted: bool,
}

/// Where the chain ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) place: Place,
    pub(crate) epoch: i64,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) home: Home,
    pub(crate) db: Connection,
    pub(crate) lock: Arc<File>,
    head: File,
    boot: String,
    secret: Option<Secret>,
    epoch_max: EpochMax,
    /// Size of the log when a reader last kept it from being shortened.
    log_kept_bytes: u64,
}

impl Store {
    /// Opens the ledger in `home`, or makes it.
    pub(crate) fn open(home: Home, epoch_max: EpochMax) -> Result<Self, Problem> {
        let lock = Arc::new(home.find_or_make(LOCK)?);
        let (db, head) = match (home.find(DATABASE)?, home.find(HEAD)?) {
            (Some(_), Some(head)) => (schema::connect(&home)?, head),
            _ => {
                // Somebody else may be making it right now.
                let _turn = Turn::wait(&lock, home.path())?;
                let fresh = home.size(DATABASE) == 0;
                if fresh && home.size(HEAD) > 0 {
                    return Err(fault::corrupt(home.path(), "the head is there, the database is gone"));
                }
                home.find_or_make(DATABASE)?;
                (schema::connect(&home)?, home.find_or_make(HEAD)?)
            }
        };
        let boot = boot_id();
        let mut store =
            Self { home, db, lock, head, boot, secret: None, epoch_max, log_kept_bytes: 0 };
        if schema::is_old(schema::version(&store.home, &store.db)?) {
            store.make()?;
        }
        Ok(store)
    }

    /// Makes or migrates the schema; a new ledger gets its first key.
    fn make(&mut self) -> Result<(), Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = Turn::wait(&lock, self.home.path())?;
        let version = schema::version(&self.home, &self.db)?;
        if !schema::is_old(version) {
            return Ok(());
        }
        if version == 0 {
            if Head::read(&self.head).is_some() {
                return Err(fault::corrupt(self.home.path(), "the head is there, the rows are gone"));
            }
            self.sql(schema::prepare_empty(&self.db))?;
        }
        self.transact(|store| {
            store.sql(schema::migrate(&store.db, version))?;
            if version > 0 {
                return Ok(None);
            }
            let secret = Secret::random(1, now_ms(), 1)?;
            secret.store(&store.home)?;
            let mut tail = Tail { place: Place { seq: 0, chain: Digest::ZERO }, epoch: 1 };
            let body = secret.sign_key(&secret, tail.place);
            store.push(&mut tail, &Draft::own(Kind::Key, &body))?;
            store.secret = Some(secret);
            Ok(Some((tail.place, tail)))
        })?;
        Ok(())
    }

    /// Appends rows. They are in the ledger when this returns, or none of them is.
    pub(crate) fn append(&mut self, drafts: &[Draft]) -> Result<Vec<i64>, Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = Turn::wait(&lock, self.home.path())?;
        self.append_in_turn(drafts)
    }

    /// The same for a caller who has the turn.
    pub(crate) fn append_in_turn(&mut self, drafts: &[Draft]) -> Result<Vec<i64>, Problem> {
        self.append_and(drafts, |_| Ok(()))
    }

    /// The same, with something else in the same transaction.
    pub(crate) fn append_and(
        &mut self,
        drafts: &[Draft],
        also: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Vec<i64>, Problem> {
        let mut seqs = Vec::with_capacity(drafts.len());
        let before = self.transact(|store| {
            let mut tail = store.tail()?;
            let before = tail;
            store.secret_of(tail.epoch)?;
            if let Some(gap) = store.disagreement(tail)? {
                store.push(&mut tail, &Draft::own(Kind::Gap, &gap))?;
            }
            store.rotate_if_due(&mut tail)?;
            for draft in drafts {
                store.checkpoint_if_due(&mut tail)?;
                store.push(&mut tail, draft)?;
                seqs.push(tail.place.seq);
            }
            store.sql(also(&store.db))?;
            Ok(Some((before.place, tail)))
        })?;
        self.keep_house(before.map_or(0, |place| place.seq), seqs.last().copied().unwrap_or(0));
        Ok(seqs)
    }

    /// Ends the epoch now.
    pub(crate) fn rotate(&mut self) -> Result<(), Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = Turn::wait(&lock, self.home.path())?;
        let wanted = std::mem::replace(&mut self.epoch_max, EpochMax { ms: i64::MIN, rows: 0 });
        let result = self.append_in_turn(&[]);
        self.epoch_max = wanted;
        result.map(|_| ())
    }

    /// Signs the chain as it stands.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = Turn::wait(&lock, self.home.path())?;
        self.transact(|store| {
            let mut tail = store.tail()?;
            let before = tail.place;
            let body = store.secret_of(tail.epoch)?.sign_checkpoint(tail.place);
            if let Some(gap) = store.disagreement(tail)? {
                store.push(&mut tail, &Draft::own(Kind::Gap, &gap))?;
                return Ok(Some((before, tail)));
            }
            store.push(&mut tail, &Draft::own(Kind::Checkpoint, &body))?;
            Ok(Some((before, tail)))
        })?;
        Ok(())
    }

    /// Runs `work` in a transaction. When it gives a new tail, the head is written before and after the commit.
    /// Returns where the chain stood.
    fn transact(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Option<(Place, Tail)>, Problem>,
    ) -> Result<Option<Place>, Problem> {
        self.run("BEGIN IMMEDIATE")?;
        let held = self.secret.as_ref().map(|secret| secret.epoch);
        let result = work(self).and_then(|moved| {
            if let Some((before, tail)) = moved {
                self.write_head(before, Some(tail.place), tail.epoch)?;
            }
            self.run("COMMIT")?;
            Ok(moved)
        });
        let moved = match result {
            Ok(moved) => moved,
            Err(problem) => {
                let _ = self.run("ROLLBACK");
                self.secret = None;
                return Err(problem);
            }
        };
        let Some((before, tail)) = moved else { return Ok(None) };
        // The rows are in. Should this write fail, the head still names them as where the chain was going.
        let _ = self.write_head(tail.place, None, tail.epoch);
        if held.is_some_and(|epoch| epoch != tail.epoch) {
            keys::destroy_others(&self.home, tail.epoch)?;
        }
        Ok(Some(before))
    }

    /// Where the chain ends.
    pub(crate) fn tail(&self) -> Result<Tail, Problem> {
        let found = self.sql(tail(&self.db))?;
        found.ok_or_else(|| fault::corrupt(self.home.path(), "all rows are gone"))
    }

    /// The key of the epoch, from memory or from its file.
    pub(crate) fn secret_of(&mut self, epoch: i64) -> Result<&Secret, Problem> {
        if self.secret.as_ref().is_none_or(|secret| secret.epoch != epoch) {
            let found = Secret::load(&self.home, epoch)?;
            let lost = || format!("the signing key of epoch {epoch} is gone");
            self.secret = Some(found.ok_or_else(|| fault::corrupt(self.home.path(), lost()))?);
        }
        self.secret.as_ref().ok_or_else(|| fault::corrupt(self.home.path(), "no signing key"))
    }

    fn write_head(&mut self, at: Place, going: Option<Place>, epoch: i64) -> Result<(), Problem> {
        let boot = self.boot.clone();
        let head = Head::new(at, going, epoch, &boot, self.secret_of(epoch)?.mac_key());
        head.write(&self.head).map_err(|e| fault::from_io(&self.home.join(HEAD), "write", &e))
    }

    /// What is wrong between head and database, if anything.
    fn disagreement(&mut self, tail: Tail) -> Result<Option<GapBody>, Problem> {
        let (head, standing) = self.standing(tail)?;
        let restarted = head.as_ref().is_some_and(|head| head.boot != self.boot);
        let why = match standing {
            HeadState::Missing if tail.place.seq <= 1 => return Ok(None),
            HeadState::Missing => "head_missing",
            HeadState::Forged => "head_forged",
            HeadState::Stands(Standing::Agrees) => return Ok(None),
            // After a loss of power the head may be the older of the two.
            HeadState::Stands(Standing::Ahead) if restarted => return Ok(None),
            HeadState::Stands(Standing::Ahead) => "inserted",
            HeadState::Stands(Standing::Behind) => "truncated",
            HeadState::Stands(Standing::Differs) => "rewritten",
        };
        let head = head.map(|head| head.at);
        Ok(Some(GapBody { why: why.to_owned(), head, found: tail.place, restarted }))
    }

    /// Reads the head and compares.
    fn standing(&mut self, tail: Tail) -> Result<(Option<Head>, HeadState), Problem> {
        let Some(head) = Head::read(&self.head) else { return Ok((None, HeadState::Missing)) };
        let genuine = if head.epoch == tail.epoch {
            head.is_genuine(self.secret_of(tail.epoch)?.mac_key())
        } else {
            // A crash between the head and the commit of a new epoch leaves a head under the key that never came.
            let next = Secret::load(&self.home, head.epoch)?;
            head.epoch == tail.epoch + 1 && next.is_some_and(|key| head.is_genuine(key.mac_key()))
        };
        if !genuine {
            self.refuse_foreign_key(tail.epoch)?;
            return Ok((Some(head), HeadState::Forged));
        }
        let db = &self.db;
        let standing = self.sql(head.compare(tail.place, |seq| chain_at(db, seq)))?;
        Ok((Some(head), HeadState::Stands(standing)))
    }

    /// Signing with a key that the chain does not know would make honest rows look forged.
    fn refuse_foreign_key(&mut self, epoch: i64) -> Result<(), Problem> {
        let announced = self.sql(announced_key(&self.db, epoch))?;
        let own = self.secret_of(epoch)?.public();
        if announced == Some(own) {
            return Ok(());
        }
        self.secret = None;
        let cause = format!("the signing key on disk is not the one of epoch {epoch}");
        Err(fault::corrupt(self.home.path(), cause))
    }

    fn rotate_if_due(&mut self, tail: &mut Tail) -> Result<(), Problem> {
        let now = now_ms();
        let EpochMax { ms, rows } = self.epoch_max;
        let secret = self.secret_of(tail.epoch)?;
        let due = now.saturating_sub(secret.since_ms) >= ms
            || tail.place.seq - secret.since_seq >= rows;
        if !due {
            return Ok(());
        }
        let old = secret.clone();
        self.refuse_foreign_key(tail.epoch)?;
        let next = Secret::random(tail.epoch + 1, now, tail.place.seq + 1)?;
        next.store(&self.home)?;
        let body = old.sign_key(&next, tail.place);
        self.secret = Some(next);
        tail.epoch += 1;
        self.push(tail, &Draft::own(Kind::Key, &body))
    }

    fn checkpoint_if_due(&mut self, tail: &mut Tail) -> Result<(), Problem> {
        if (tail.place.seq + 1) % CHECKPOINT_ROWS != 0 {
            return Ok(());
        }
        let body = self.secret_of(tail.epoch)?.sign_checkpoint(tail.place);
        self.push(tail, &Draft::own(Kind::Checkpoint, &body))
    }

    fn push(&self, tail: &mut Tail, draft: &Draft) -> Result<(), Problem> {
        let body_hash = Digest::of(&draft.body);
        let row = Columns {
            seq: tail.place.seq + 1,
            at_ms: draft.at_ms,
            epoch: tail.epoch,
            writer: draft.writer,
            kind: draft.kind.word(),
            run_id: draft.run_id.as_deref(),
            session: draft.session.as_deref(),
            client: draft.client.as_deref(),
            tool: draft.tool.as_deref(),
            status: draft.status.map(RunStatus::word),
            risk: draft.risk.map(Risk::word),
        };
        let chain = chain(&tail.place.chain, &row, &body_hash);
        self.sql(insert(&self.db, &row, &body_hash, &chain, &draft.body))?;
        tail.place = Place { seq: row.seq, chain };
        Ok(())
    }

    /// What is due now and then: closing a block of the index, shortening the log. Neither can fail an append.
    fn keep_house(&mut self, before: i64, after: i64) {
        if after / CHECKPOINT_ROWS != before / CHECKPOINT_ROWS {
            let _ = index::close_blocks(&self.db);
        }
        let bytes = self.home.size(LOG);
        if bytes >= self.log_kept_bytes + LOG_PAGES_MAX * (schema::PAGE_BYTES + 24) {
            self.shorten_log();
        }
    }

    /// Brings the log into the database and empties it. A reader may keep that from happening; then it is tried again
    /// when the log has grown as much once more.
    pub(crate) fn shorten_log(&mut self) {
        let _ = self.db.busy_timeout(std::time::Duration::ZERO);
        let busy = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
            .unwrap_or(1);
        let _ = self.db.busy_timeout(schema::BUSY);
        self.log_kept_bytes = if busy == 0 { 0 } else { self.home.size(LOG) };
    }

    fn run(&self, statement: &str) -> Result<(), Problem> {
        let run = || self.db.prepare_cached(statement)?.execute([]).map(|_| ());
        self.sql(run())
    }

    pub(crate) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, Problem> {
        result.map_err(|e| fault::from_sqlite(self.home.path(), &e))
    }
}

enum HeadState {
    Missing,
    Forged,
    Stands(Standing),
}

impl Draft {
    /// A row of the ledger's own.
    pub(crate) fn own(kind: Kind, body: &impl Serialize) -> Self {
        Self {
            at_ms: now_ms(),
            kind,
            run_id: None,
            session: None,
            client: None,
            tool: None,
            status: None,
            risk: None,
            writer: 0,
            body: serde_json::to_vec(body).unwrap_or_default(),
        }
    }
}

/// Where the chain in `db` ends; `None` when there is no row.
pub(crate) fn tail(db: &Connection) -> rusqlite::Result<Option<Tail>> {
    db.prepare_cached("SELECT seq, chain, epoch FROM entries ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| {
            let place = Place { seq: row.get(0)?, chain: Digest::from_bytes(row.get(1)?) };
            Ok(Tail { place, epoch: row.get(2)? })
        })
        .optional()
}

/// The chain's value at a row.
pub(crate) fn chain_at(db: &Connection, seq: i64) -> rusqlite::Result<Option<Digest>> {
    db.prepare_cached("SELECT chain FROM entries WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0).map(Digest::from_bytes))
        .optional()
}

/// The public key that the chain names for `epoch`.
pub(crate) fn announced_key(
    db: &Connection,
    epoch: i64,
) -> rusqlite::Result<Option<keys::PublicKey>> {
    // From the end: it is among the newest rows of its kind.
    let body: Option<Vec<u8>> = db
        .prepare_cached(
            "SELECT body FROM entries WHERE kind = 'key' AND epoch = ?1 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([epoch], |row| row.get(0))
        .optional()?
        .flatten();
    let body = body.and_then(|body| serde_json::from_slice::<keys::KeyBody>(&body).ok());
    Ok(body.filter(|body| body.epoch == epoch).map(|body| body.public))
}

fn insert(
    db: &Connection,
    row: &Columns<'_>,
    body_hash: &Digest,
    chain: &Digest,
    body: &[u8],
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        row.seq,
        row.at_ms,
        row.epoch,
        row.writer,
        row.kind,
        row.run_id,
        row.session,
        row.client,
        row.tool,
        row.status,
        row.risk,
        body_hash.bytes(),
        chain.bytes(),
        body,
    ])
    .map(|_| ())
}

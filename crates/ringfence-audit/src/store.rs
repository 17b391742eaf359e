//! The only writer of rows: appends lines to the intake under the writers' lock, and writes the head before and after.
//! Touches the database only to move the intake into it, so that a process with two rows to write pays for two writes.
//! Never called by two threads at once; `ledger.rs` sees to that.

use std::cell::OnceCell;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ringfence_spec::Problem;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::columns::{Kind, Risk, RunStatus};
use crate::digest::{Columns, Digest, chain};
use crate::dir::{DATABASE, HEAD, INTAKE, LOCK, LedgerDir, WriteLock};
use crate::entry::now_ms;
use crate::head::{ChainPosition, Head, Mark, boot_id};
use crate::keys::{self, Secret};
use crate::ledger::Durability;
use crate::line::StoredRef;
use crate::{compaction, errors, schema};

/// Every row whose number this divides is a checkpoint; also the size of an index block.
pub(crate) const CHECKPOINT_ROWS: i64 = 1024;

/// The intake is moved to the database when it is this long: some 500 rows, a few milliseconds of work.
const INTAKE_BYTES: u64 = 256 << 10;
/// The same for an append in a process that compacts it in the background, in case that does not come to it.
const INTAKE_BYTES_LATE: u64 = 4 << 20;
/// Length of the intake at which an append moves its rows to the database first: bounds it while the database fails.
const INTAKE_BYTES_MAX: u64 = 64 << 20;

/// Settings of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions {
    pub(crate) epoch_ms_max: i64,
    pub(crate) epoch_rows_max: i64,
    pub(crate) durability: Durability,
}

/// A row without its position in the chain.
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
    /// Made before the write lock is taken.
    pub(crate) text: OnceCell<DraftText>,
}

/// The parts of a row's line that do not depend on its position in the chain.
#[derive(Clone, Debug)]
pub(crate) struct DraftText {
    body_hash: Digest,
    /// From the writer up to the chain's value.
    middle: Vec<u8>,
    /// From the chain's value to the end of the line.
    end: Vec<u8>,
}

/// Columns of a [`Line`] between the epoch and the chain's value, in its order.
#[derive(Serialize)]
struct Middle<'a> {
    writer: i64,
    kind: &'a str,
    run_id: Option<&'a str>,
    session: Option<&'a str>,
    client: Option<&'a str>,
    tool: Option<&'a str>,
    status: Option<&'a str>,
    risk: Option<&'a str>,
    body_hash: Digest,
}

/// The body of a `gap` row: the state found when head and rows disagreed. The next head would have covered it up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GapBody {
    pub(crate) why: String,
    pub(crate) head: Option<ChainPosition>,
    pub(crate) found: ChainPosition,
}

/// The end of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) mark: Mark,
    pub(crate) epoch: i64,
    pub(crate) folded: i64,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) home: LedgerDir,
    pub(crate) lock: Arc<File>,
    pub(crate) intake: File,
    pub(crate) head: File,
    pub(crate) boot: String,
    /// Opened when it is first needed.
    pub(crate) db: Option<Connection>,
    secret: Option<Secret>,
    /// Keys of earlier epochs have not been destroyed yet.
    has_old_keys: bool,
    /// The last head written, as it is in the file: while the file has it, no other process has written.
    pub(crate) own_head: Option<(Vec<u8>, Head)>,
    rules: StoreOptions,
    /// The intake is compacted when it is longer than this.
    compact_at_bytes: u64,
    /// The length from which an append compacts the intake.
    append_compacts_at: u64,
}

impl Store {
    /// Opens the ledger in `home`, or creates it.
    pub(crate) fn open(home: LedgerDir, rules: StoreOptions) -> Result<Self, Problem> {
        let lock = Arc::new(home.find_or_make(LOCK)?);
        if let Some(head) = home.find(HEAD)? {
            return Self::with_head(home, lock, head, rules);
        }
        // Another process may be creating it right now.
        let turn = WriteLock::wait(&lock, home.path())?;
        make(&home)?;
        drop(turn);
        Self::open_existing(home, lock, rules)
    }

    /// Opens an existing ledger.
    pub(crate) fn open_existing(
        home: LedgerDir,
        lock: Arc<File>,
        rules: StoreOptions,
    ) -> Result<Self, Problem> {
        let head = home.find_or_make(HEAD)?;
        Self::with_head(home, lock, head, rules)
    }

    fn with_head(
        home: LedgerDir,
        lock: Arc<File>,
        head: File,
        rules: StoreOptions,
    ) -> Result<Self, Problem> {
        let intake = home.find_or_make(INTAKE)?;
        let folded = Head::read(&head).map_or(0, |head| head.folded);
        if !schema::glance(&home)? && folded > 0 {
            return Err(errors::corrupt(home.path(), "the database is gone"));
        }
        Ok(Self {
            home,
            lock,
            intake,
            head,
            boot: boot_id(),
            db: None,
            secret: None,
            has_old_keys: false,
            own_head: None,
            rules,
            compact_at_bytes: INTAKE_BYTES,
            append_compacts_at: INTAKE_BYTES,
        })
    }

    /// Has appends leave the intake to a caller that compacts it as soon as it [is long](Self::compaction_due).
    pub(crate) fn compact_late(&mut self) {
        (self.compact_at_bytes, self.append_compacts_at) = (INTAKE_BYTES_LATE, INTAKE_BYTES_LATE);
    }

    /// Returns true if the intake is long enough to compact, by the last head this store wrote.
    pub(crate) fn compaction_due(&self) -> bool {
        self.own_head.as_ref().is_some_and(|(_, head)| head.at.intake_bytes >= INTAKE_BYTES)
    }

    /// Appends rows. They are in the ledger when this returns, or none of them is, unless the error is of an old signing
    /// key that cannot be destroyed: appends fail until it can.
    pub(crate) fn append(&mut self, drafts: &[Draft]) -> Result<Vec<i64>, Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = WriteLock::wait(&lock, self.home.path())?;
        self.append_in_turn(drafts)
    }

    /// The same for a caller that holds the write lock.
    pub(crate) fn append_in_turn(&mut self, drafts: &[Draft]) -> Result<Vec<i64>, Problem> {
        let (tail, gap) = self.tail()?;
        let mut batch = Batch::after(tail);
        if let Some(gap) = &gap {
            batch.push(&Draft::own(Kind::Gap, gap));
        }
        let old = self.rotate_if_due(&mut batch)?;
        let mut seqs = Vec::with_capacity(drafts.len());
        for draft in drafts {
            if (batch.place.seq + 1) % CHECKPOINT_ROWS == 0 {
                let body = self.secret_of(batch.epoch)?.sign_checkpoint(batch.place);
                batch.push(&Draft::own(Kind::Checkpoint, &body));
            }
            batch.push(draft);
            seqs.push(batch.place.seq);
        }
        self.write(tail, &batch)?;
        self.has_old_keys |= old;
        if self.has_old_keys {
            keys::destroy_others(&self.home, batch.epoch)?;
            self.has_old_keys = false;
        }
        self.compact_if_due(tail.mark.intake_bytes)?;
        Ok(seqs)
    }

    /// Ends the epoch now.
    pub(crate) fn rotate(&mut self) -> Result<(), Problem> {
        let at_once = StoreOptions { epoch_rows_max: i64::MIN, ..self.rules };
        let usual = std::mem::replace(&mut self.rules, at_once);
        let result = self.append(&[]);
        self.rules = usual;
        result.map(|_| ())
    }

    /// Signs the chain as it stands.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = WriteLock::wait(&lock, self.home.path())?;
        // A fault must be in the chain before the chain is signed.
        self.append_in_turn(&[])?;
        let (tail, _) = self.tail()?;
        let body = self.secret_of(tail.epoch)?.sign_checkpoint(tail.mark.place);
        self.append_in_turn(&[Draft::own(Kind::Checkpoint, &body)]).map(|_| ())
    }

    /// The end of the chain, after recording any fault in it.
    pub(crate) fn settled(&mut self) -> Result<(ChainPosition, i64), Problem> {
        let lock = Arc::clone(&self.lock);
        let _turn = WriteLock::wait(&lock, self.home.path())?;
        self.append_in_turn(&[])?;
        let (tail, _) = self.tail()?;
        Ok((tail.mark.place, tail.epoch))
    }

    /// Writes the batch: head, rows, head.
    fn write(&mut self, tail: Tail, batch: &Batch) -> Result<(), Problem> {
        if batch.text.is_empty() {
            return Ok(());
        }
        // A compaction moves rows, but not the end of the chain.
        let tail = if tail.mark.intake_bytes > INTAKE_BYTES_MAX {
            self.compact(tail)?;
            self.tail()?.0
        } else {
            tail
        };
        let bytes = tail.mark.intake_bytes + batch.text.len() as u64;
        let to = Mark { place: batch.place, intake_bytes: bytes };
        let boot = self.boot.clone();
        let path = self.home.join(INTAKE);
        let durable = self.rules.durability == Durability::PowerLoss;
        let key = *self.secret_of(batch.epoch)?.mac_key();
        let before = Head::new(tail.mark, tail.folded, batch.epoch, &boot);
        self.write_head(before.on_the_way(to).signed(&key))?;
        let written = self
            .intake
            .write_all_at(&batch.text, tail.mark.intake_bytes)
            .and_then(|()| if durable { self.intake.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // A partial row was never acknowledged, and must be gone before the next append.
            let _ = self.intake.set_len(tail.mark.intake_bytes);
            self.secret = None;
            return Err(errors::from_io(&path, "write", &error));
        }
        // The rows are in. Should this write fail, the head still names them as where the chain was going.
        let _ = self.write_head(Head::new(to, tail.folded, batch.epoch, &boot).signed(&key));
        Ok(())
    }

    /// Overwrites the head in one write.
    pub(crate) fn write_head(&mut self, head: Head) -> Result<(), Problem> {
        let bytes = head.to_bytes();
        let written = self.head.write_all_at(&bytes, 0);
        self.own_head = written.is_ok().then_some((bytes, head));
        written.map_err(|e| errors::from_io(&self.home.join(HEAD), "write", &e))
    }

    /// The key of the epoch, from memory or from its file.
    pub(crate) fn secret_of(&mut self, epoch: i64) -> Result<&Secret, Problem> {
        if self.secret.as_ref().is_none_or(|secret| secret.epoch != epoch) {
            let found = Secret::load(&self.home, epoch)?;
            let lost = || format!("the signing key of epoch {epoch} is gone");
            self.secret = Some(found.ok_or_else(|| errors::corrupt(self.home.path(), lost()))?);
        }
        self.secret.as_ref().ok_or_else(|| errors::corrupt(self.home.path(), "no signing key"))
    }

    /// Announces a new key if it is due; true if the old one must be destroyed after the commit.
    fn rotate_if_due(&mut self, batch: &mut Batch) -> Result<bool, Problem> {
        let now = now_ms();
        let rules = self.rules;
        let secret = self.secret_of(batch.epoch)?;
        let due = now.saturating_sub(secret.since_ms) >= rules.epoch_ms_max
            || batch.place.seq - secret.since_seq >= rules.epoch_rows_max;
        if !due {
            return Ok(false);
        }
        let old = secret.clone();
        let next = Secret::random(batch.epoch + 1, now, batch.place.seq + 1)?;
        next.store(&self.home)?;
        let body = old.sign_key(&next, batch.place);
        self.secret = Some(next);
        batch.epoch += 1;
        batch.push(&Draft::own(Kind::Key, &body));
        Ok(true)
    }

    fn compact_if_due(&mut self, bytes: u64) -> Result<(), Problem> {
        if bytes < self.compact_at_bytes {
            return Ok(());
        }
        let (tail, _) = self.tail()?;
        // The rows are safe in the intake either way, so a failed compaction does not fail the append.
        self.compact_at_bytes = match self.compact(tail) {
            Ok(()) => self.append_compacts_at,
            Err(_) => bytes + self.append_compacts_at,
        };
        Ok(())
    }

    pub(crate) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, Problem> {
        result.map_err(|e| errors::from_sqlite(self.home.path(), &e))
    }
}

/// Rows on their way to the intake.
struct Batch {
    place: ChainPosition,
    epoch: i64,
    text: Vec<u8>,
}

impl Batch {
    fn after(tail: Tail) -> Self {
        Self { place: tail.mark.place, epoch: tail.epoch, text: Vec::with_capacity(1024) }
    }

    fn push(&mut self, draft: &Draft) {
        let text = draft.text();
        let (seq, at_ms, epoch) = (self.place.seq + 1, draft.at_ms, self.epoch);
        let chain = chain(&self.place.chain, &draft.columns(seq, epoch), &text.body_hash);
        // As `Line::write` writes it. Writing to memory does not fail.
        let _ = write!(self.text, r#"{{"seq":{seq},"at_ms":{at_ms},"epoch":{epoch},"#);
        self.text.extend_from_slice(&text.middle);
        let _ = write!(self.text, "{chain}");
        self.text.extend_from_slice(&text.end);
        self.place = ChainPosition { seq, chain };
    }
}

/// Creates a ledger with its first key. Redoes an interrupted attempt.
fn make(home: &LedgerDir) -> Result<(), Problem> {
    if home.size(HEAD) > 0 {
        return Ok(());
    }
    // An interrupted attempt left one line, of a key that was never published.
    let rows =
        home.find(INTAKE)?.and_then(|file| compaction::read_all(&file).ok()).unwrap_or_default();
    if home.size(DATABASE) > 0 || compaction::lines(&rows).count() > 1 {
        // Rows without a head: `tail.rs` records that in the ledger. An empty head must not look like a new ledger.
        home.find_or_make(HEAD)?;
        return Ok(());
    }
    let secret = Secret::random(1, now_ms(), 1)?;
    secret.store(home)?;
    let start = ChainPosition { seq: 0, chain: Digest::ZERO };
    let mark = Mark { place: start, intake_bytes: 0 };
    let mut batch = Batch::after(Tail { mark, epoch: 1, folded: 0 });
    batch.push(&Draft::own(Kind::Key, &secret.sign_key(&secret, start)));
    // The rows first, all at once, then the head by a rename: the ledger is either complete or absent.
    home.write_atomically(INTAKE, &batch.text).and_then(|()| {
        let to = Mark { place: batch.place, intake_bytes: batch.text.len() as u64 };
        let head = Head::new(to, 0, 1, &boot_id()).signed(secret.mac_key());
        home.write_atomically(HEAD, &head.to_bytes())
    })
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
            text: OnceCell::new(),
        }
    }

    /// The parts of its line, made on the first call.
    pub(crate) fn text(&self) -> &DraftText {
        self.text.get_or_init(|| {
            let body_hash = Digest::of(&self.body);
            let row = self.columns(0, 0);
            let middle = Middle {
                writer: row.writer,
                kind: row.kind,
                run_id: row.run_id,
                session: row.session,
                client: row.client,
                tool: row.tool,
                status: row.status,
                risk: row.risk,
                body_hash,
            };
            // Neither has a map with keys that are not text, so neither fails.
            let middle = serde_json::to_string(&middle).unwrap_or_default();
            let middle = format!(r#"{},"chain":""#, &middle[1..middle.len() - 1]).into_bytes();
            let mut end = br#"","body":"#.to_vec();
            let _ = serde_json::to_writer(&mut end, &StoredRef(&self.body));
            end.extend_from_slice(b"}\n");
            DraftText { body_hash, middle, end }
        })
    }

    /// Its columns at a position of the chain.
    fn columns(&self, seq: i64, epoch: i64) -> Columns<'_> {
        Columns {
            seq,
            at_ms: self.at_ms,
            epoch,
            writer: self.writer,
            kind: self.kind.word(),
            run_id: self.run_id.as_deref(),
            session: self.session.as_deref(),
            client: self.client.as_deref(),
            tool: self.tool.as_deref(),
            status: self.status.map(RunStatus::word),
            risk: self.risk.map(Risk::word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;

    #[test]
    fn a_row_is_written_as_its_line_is() {
        for (body, tool) in
            [(&b"{\"a\":\"\xc3\xa9\"}"[..], Some("a \"tool\"")), (&[0xff, 0, 7], None)]
        {
            let draft = Draft {
                run_id: Some("1f".to_owned()),
                tool: tool.map(str::to_owned),
                status: Some(RunStatus::Ok),
                writer: 1 << 40,
                body: body.to_vec(),
                ..Draft::own(Kind::RunEnd, &0)
            };
            let place = ChainPosition { seq: 41, chain: Digest::of(b"before") };
            let mark = Mark { place, intake_bytes: 0 };
            let mut batch = Batch::after(Tail { mark, epoch: 3, folded: 0 });
            batch.push(&draft);
            let line: Line = serde_json::from_slice(&batch.text).unwrap();
            let mut again = Vec::new();
            line.write(&mut again);
            assert_eq!(String::from_utf8(batch.text), String::from_utf8(again));
            assert!(line.follows(&place.chain) && line.body_is_whole());
            assert_eq!((line.seq, line.chain), (42, batch.place.chain));
        }
    }
}

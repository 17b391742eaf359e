//! Checks a ledger from its first row to its head. Writes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use ringfence_spec::Problem;
use rusqlite::Connection;

use crate::anchor::Anchor;
use crate::columns::Kind;
use crate::compaction::lines;
use crate::digest::Digest;
use crate::dir::LedgerDir;
use crate::finding::{Finding, FindingKind, Verification};
use crate::head::{ChainPosition, boot_id};
use crate::index::{BLOCK_ROWS, first_of};
use crate::keys::{CheckpointBody, KeyBody, PublicKey, Secret, root_on_disk};
use crate::line::Line;
use crate::retention::ExpireBody;
use crate::scan::{self, Scanned};
use crate::snapshot::Snapshot;
use crate::store::GapBody;
use crate::sum::IndexSum;

/// Values to compare a ledger with.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// Anchors from elsewhere.
    pub anchors: Vec<Anchor>,
    /// The public half of the first key, from elsewhere.
    pub root: Option<PublicKey>,
}

/// Verifies the ledger in `dir`.
pub fn verify(dir: &Path, expected: &Expectations) -> Result<Verification, Problem> {
    let home = LedgerDir::open(dir)?;
    let mut snapshot = Snapshot::take(&home)?;
    let mut check = Check::default();
    check.database(&mut snapshot)?;
    check.intake(&snapshot)?;
    check.keys(expected, root_on_disk(&home));
    check.clearings();
    check.head(&home, &snapshot)?;
    check.anchors(expected, &snapshot)?;
    check.index(&snapshot)?;
    Ok(check.answer())
}

/// State of a verification.
#[derive(Default)]
struct Check {
    rows: i64,
    /// Number of the last row that is there, verified or not.
    rows_total: i64,
    last: Option<ChainPosition>,
    own: Vec<(Digest, Line)>,
    cleared: Vec<(i64, i64)>,
    epochs: Vec<(i64, i64)>,
    findings: Vec<Finding>,
    keys: BTreeMap<i64, PublicKey>,
    signatures: i64,
    /// Rows after this one were not all read, as one of them is not what was written: a key or a note of an expiry may be
    /// among those, and its absence is no finding.
    read_to: Option<i64>,
    rows_sum: Option<IndexSum>,
}

impl Check {
    /// Every row of the database, in ranges read at once.
    fn database(&mut self, snapshot: &mut Snapshot<'_>) -> Result<(), Problem> {
        // Numbers begin at 1. A row before that is in no chain, but readers would show it.
        if let Some(db) = snapshot.connections.first() {
            let found = db.query_row("select min(seq) from entries where seq < 1", [], |row| {
                row.get::<_, Option<i64>>(0)
            });
            if let Some(seq) = snapshot.sql(found)? {
                let text = format!("row {seq} is there, and the first row is 1");
                self.findings.push(Finding::new(seq, FindingKind::Inserted, text));
            }
        }
        let n = i64::try_from(snapshot.connections.len()).unwrap_or(1).max(1);
        // Whole blocks, so that one thread has all rows of a block.
        let share = (snapshot.rows / n / BLOCK_ROWS + 1) * BLOCK_ROWS;
        let (rows, indexed) = (snapshot.rows, first_of(snapshot.blocks) - 1);
        let keyed = IndexSum::keyed();
        let results: Vec<rusqlite::Result<Scanned>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(snapshot.connections.iter_mut())
                .map(|(i, db)| {
                    let (first, last) = (i * share + 1, ((i + 1) * share).min(rows));
                    let sum = keyed.empty();
                    scope.spawn(move || scan::range(db, first, last, indexed, sum))
                })
                .collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let mut sum = keyed.empty();
        for result in results {
            let scanned = snapshot.sql(result)?;
            sum.add_all(&scanned.sum);
            self.add(scanned);
        }
        self.rows_sum = Some(sum);
        Ok(())
    }

    fn add(&mut self, scanned: Scanned) {
        self.rows += scanned.rows;
        self.last = scanned.last.or(self.last);
        self.own.extend(scanned.own);
        for (first, last) in scanned.cleared {
            match self.cleared.last_mut() {
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => self.cleared.push((first, last)),
            }
        }
        for (seq, epoch) in scanned.epochs {
            if self.epochs.last().is_none_or(|(_, last)| *last != epoch) {
                self.epochs.push((seq, epoch));
            }
        }
        self.findings.extend(scanned.finding);
    }

    /// The rows after those of the database.
    fn intake(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Problem> {
        let mut scanned = Scanned::default();
        let mut at = self.last.unwrap_or(ChainPosition { seq: 0, chain: Digest::ZERO });
        if !self.findings.is_empty() && at.seq < snapshot.rows {
            // Reading stopped at a finding. Its row is to blame, and not the first one of the intake: that follows from the
            // last row of the database, which has its chain with it.
            let stored = match snapshot.connections.first() {
                Some(db) => snapshot.sql(chain_at(db, snapshot.rows))?,
                None => None,
            };
            at = ChainPosition { seq: snapshot.rows, chain: stored.unwrap_or(at.chain) };
        }
        for line in lines(&snapshot.intake) {
            let next = at.seq + 1;
            let Ok(line) = line else {
                let text = format!("row {next}: the intake has something that is no row");
                scanned.finding = Some(Finding::new(next, FindingKind::Edited, text));
                break;
            };
            // A compaction that died before it emptied the intake.
            if line.seq <= snapshot.rows {
                continue;
            }
            if line.seq != next {
                scanned.finding = Some(if line.seq > next {
                    scan::missing(next, line.seq - 1)
                } else {
                    Finding::new(
                        line.seq,
                        FindingKind::Reordered,
                        format!("row {} comes again", line.seq),
                    )
                });
                break;
            }
            // Whether a row follows from one that is not what was written cannot be told.
            let is_accused = |finding: &Finding| finding.seq == at.seq;
            if !line.follows(&at.chain) && self.findings.iter().any(is_accused) {
                break;
            }
            let place = ChainPosition { seq: line.seq, chain: line.chain };
            if !scanned.take(&at.chain, line) {
                let text = format!("row {next}: it is not what was written");
                scanned.finding = Some(Finding::new(next, FindingKind::Edited, text));
                break;
            }
            at = place;
        }
        self.add(scanned);
        self.read_to = self.findings.iter().map(|finding| finding.seq).min();
        // Faults end the reading, and the rows behind them are there all the same.
        let last_of_intake = lines(&snapshot.intake).flatten().last().map_or(0, |line| line.seq);
        self.rows_total = snapshot.rows.max(last_of_intake);
        Ok(())
    }

    /// Returns true if rows before this one were not read.
    fn is_behind_unread(&self, seq: i64) -> bool {
        self.read_to.is_some_and(|read_to| seq > read_to)
    }

    /// Checks the ledger's own rows: every key against the one before it, every checkpoint against the key of its
    /// epoch.
    fn keys(&mut self, expected: &Expectations, on_disk: Option<PublicKey>) {
        let mut epoch = 0;
        for (previous, line) in std::mem::take(&mut self.own) {
            let after = ChainPosition { seq: line.seq - 1, chain: previous };
            let seq = line.seq;
            match line.kind.parse() {
                Ok(Kind::Key) => {
                    self.key(&line, after, &mut epoch);
                }
                // Its key may be one that was not read.
                Ok(Kind::Checkpoint) if self.is_behind_unread(seq) && line.epoch != epoch => {}
                Ok(Kind::Checkpoint) => {
                    self.signatures += 1;
                    let body: Option<CheckpointBody> = line.parse_body();
                    let key = self.keys.get(&epoch);
                    let good = body.zip(key).is_some_and(|(body, key)| {
                        body.after == after && body.epoch == epoch && body.is_signed_by(key)
                    });
                    if !good {
                        let text = format!(
                            "row {seq}: the checkpoint is not signed by the key of epoch {epoch}"
                        );
                        self.findings.push(Finding::new(seq, FindingKind::BadSignature, text));
                    }
                }
                Ok(Kind::Gap) => {
                    let why = line.parse_body().map_or_else(String::new, |body: GapBody| body.why);
                    let text = format!("row {seq} notes that head and rows were apart: {why}");
                    self.findings.push(Finding::new(seq, FindingKind::Noted, text));
                }
                _ => {}
            }
            self.own.push((previous, line));
        }
        for (seq, epoch) in &self.epochs {
            let announced = self.own.iter().any(|(_, line)| {
                line.seq == *seq && crate::compaction::key_of(line, *epoch).is_some()
            });
            if !announced && !self.is_behind_unread(*seq) {
                let text = format!("row {seq}: epoch {epoch} begins without a key");
                self.findings.push(Finding::new(*seq, FindingKind::BadKey, text));
            }
        }
        let root = self.keys.get(&1).copied();
        let pinned = [expected.root, on_disk];
        if self.rows > 0 && pinned.into_iter().flatten().any(|key| Some(key) != root) {
            let text = "row 1: the first key is not the one that was kept";
            self.findings.push(Finding::new(1, FindingKind::BadKey, text));
        }
    }

    fn key(&mut self, line: &Line, after: ChainPosition, epoch: &mut i64) {
        self.signatures += 1;
        let body: Option<KeyBody> = line.parse_body();
        // The first key can only vouch for itself.
        let signer = match body.as_ref() {
            Some(body) if *epoch == 0 => Some(body.public),
            _ => self.keys.get(epoch).copied(),
        };
        let good = body.as_ref().zip(signer).is_some_and(|(body, signer)| {
            body.epoch == *epoch + 1
                && line.epoch == body.epoch
                && body.after == after
                && body.is_signed_by(&signer)
        });
        // The key before it may be one that was not read.
        let is_judged = !self.is_behind_unread(line.seq) || line.epoch == *epoch + 1;
        if !good && is_judged {
            let seq = line.seq;
            let text = format!("row {seq}: the key is not signed by the one before it");
            self.findings.push(Finding::new(seq, FindingKind::BadKey, text));
        }
        if let Some(body) = body {
            *epoch = body.epoch;
            self.keys.insert(body.epoch, body.public);
        }
    }

    /// Checks that every cleared body is covered by an `expire` row.
    fn clearings(&mut self) {
        if self.read_to.is_some() {
            return;
        }
        let said: Vec<(i64, i64)> = self
            .own
            .iter()
            .filter_map(|(_, line)| line.parse_body::<ExpireBody>())
            .flat_map(|body| body.cleared)
            .collect();
        let is_said = |seq: i64| said.iter().any(|(first, last)| (*first..=*last).contains(&seq));
        // Checking the ends of ranges is enough: a hole begins at the start of a cleared range or after a recorded one.
        for (first, last) in &self.cleared {
            let mut at = *first;
            while at <= *last {
                let covering = said.iter().filter(|(a, b)| (*a..=*b).contains(&at));
                match covering.map(|(_, end)| *end).max() {
                    Some(end) if is_said(at) => at = end + 1,
                    _ => {
                        let text = format!("row {at}: its body is gone and no row says so");
                        self.findings.push(Finding::new(at, FindingKind::Cleared, text));
                        break;
                    }
                }
            }
        }
    }

    fn head(&mut self, home: &LedgerDir, snapshot: &Snapshot<'_>) -> Result<(), Problem> {
        let end = self.last.unwrap_or(ChainPosition { seq: 0, chain: Digest::ZERO });
        let next = end.seq + 1;
        let Some(head) = &snapshot.head else {
            self.findings.push(Finding::new(end.seq, FindingKind::BadHead, "the head is missing"));
            return Ok(());
        };
        let Some(secret) = Secret::load(home, head.epoch)? else {
            let text = format!("the signing key of epoch {} is not there", head.epoch);
            self.findings.push(Finding::new(end.seq, FindingKind::BadKey, text));
            return Ok(());
        };
        let announced = self.keys.get(&head.epoch);
        // A crash can leave a head under a key that no row announces yet.
        let early = head.going_to.is_some() && announced.is_none();
        let known = announced == Some(&secret.public()) || early || self.rows == 0;
        if !known && self.findings.is_empty() {
            let text = format!("the signing key on disk is not the one of epoch {}", head.epoch);
            self.findings.push(Finding::new(end.seq, FindingKind::BadKey, text));
            return Ok(());
        }
        if !head.is_genuine(secret.mac_key()) {
            let text = "the head was not written by this ledger";
            self.findings.push(Finding::new(end.seq, FindingKind::BadHead, text));
            return Ok(());
        }
        if !self.findings.is_empty() || end == head.at.place {
            return Ok(());
        }
        if head.going_to.is_some_and(|mark| mark.place == end) {
            return Ok(());
        }
        let known = head.at.place.seq;
        if end.seq < known {
            let text = format!("rows {next} to {known} are gone from the end");
            self.findings.push(Finding::new(next, FindingKind::Truncated, text));
        } else if end.seq > known && head.boot != boot_id() {
            // After a loss of power the head may be the older of the two.
        } else if end.seq > known {
            let text = format!("row {} is not known to the head", known + 1);
            self.findings.push(Finding::new(known + 1, FindingKind::Inserted, text));
        } else {
            let text = format!("row {known} is not the one that the head knows");
            self.findings.push(Finding::new(known, FindingKind::Edited, text));
        }
        Ok(())
    }

    fn anchors(&mut self, expected: &Expectations, snapshot: &Snapshot<'_>) -> Result<(), Problem> {
        for anchor in &expected.anchors {
            let seq = anchor.seq;
            let found = match snapshot.connections.first() {
                Some(db) if seq <= snapshot.rows => snapshot.sql(chain_at(db, seq))?,
                _ => lines(&snapshot.intake).flatten().find(|l| l.seq == seq).map(|l| l.chain),
            };
            let unread = self.read_to.is_some();
            let key = self.keys.get(&anchor.epoch);
            let is_unread = |key: Option<&PublicKey>| unread && key.is_none();
            let root = self.keys.get(&1);
            let text = if root != Some(&anchor.root) && !is_unread(root) {
                format!("the anchor at row {seq} is of another ledger")
            } else if found.is_none() {
                format!("the ledger ends before row {seq}, which was anchored")
            } else if found != Some(anchor.chain) {
                format!("row {seq} is not the one that was anchored")
            } else if !key.is_some_and(|key| anchor.is_signed_by(key)) && !is_unread(key) {
                format!("the anchor at row {seq} is not signed by the key of its epoch")
            } else {
                continue;
            };
            self.findings.push(Finding::new(seq, FindingKind::OlderThanAnchor, text));
        }
        Ok(())
    }

    fn index(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Problem> {
        let Some(db) = snapshot.connections.first() else { return Ok(()) };
        if !self.findings.is_empty() {
            return Ok(());
        }
        let Some(rows) = &self.rows_sum else { return Ok(()) };
        let index = snapshot.sql(rows.empty().of_index(db))?;
        if index != *rows {
            let text = "what is used for looking rows up does not agree with them";
            self.findings.push(Finding::new(1, FindingKind::BadIndex, text));
        }
        Ok(())
    }

    fn answer(mut self) -> Verification {
        self.findings.sort_by_key(|finding| finding.seq);
        Verification {
            intact: self.findings.is_empty(),
            rows: self.rows,
            rows_total: self.rows_total,
            cleared: self.cleared.iter().map(|(first, last)| last - first + 1).sum(),
            epochs: i64::try_from(self.keys.len()).unwrap_or(0),
            signatures: self.signatures,
            root: self.keys.get(&1).copied(),
            last: self.last,
            findings: self.findings,
        }
    }
}

fn chain_at(db: &Connection, seq: i64) -> rusqlite::Result<Option<Digest>> {
    use rusqlite::OptionalExtension;
    db.query_row("SELECT chain FROM entries WHERE seq = ?1", [seq], |row| {
        // A value of another type fails the row it stands in; here it only has to be something.
        Ok(row.get(0).map_or(Digest::ZERO, Digest::from_bytes))
    })
    .optional()
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;

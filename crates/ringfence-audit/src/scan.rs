//! Reads a range of rows and checks that each follows from the one before. Ranges are independent of each other,
//! because a row carries the chain's value, so several are read at once.

use rusqlite::{Connection, Row};

use crate::compaction::{LINE_COLUMNS, line_of};
use crate::digest::{Columns, Digest, chain};
use crate::finding::{Finding, FindingKind};
use crate::head::ChainPosition;
use crate::line::Line;
use crate::sum::IndexSum;

/// Rows after a bad one that are searched for its true content, to tell a swap from an edit.
const NEIGHBOURS: i64 = 1000;

/// Result of scanning a range of rows.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    /// Number of rows that are what was written.
    pub(crate) rows: i64,
    /// The end of the range.
    pub(crate) last: Option<ChainPosition>,
    /// The ledger's own rows, each with the chain's value before it.
    pub(crate) own: Vec<(Digest, Line)>,
    /// Rows without a body, as ranges.
    pub(crate) cleared: Vec<(i64, i64)>,
    /// Rows at which another epoch begins.
    pub(crate) epochs: Vec<(i64, i64)>,
    /// Sum of the index entries that the rows should have.
    pub(crate) sum: IndexSum,
    /// The first fault; the range is not read further.
    pub(crate) finding: Option<Finding>,
}

impl Scanned {
    /// Takes a row that follows `previous`; false when it does not.
    pub(crate) fn take(&mut self, previous: &Digest, line: Line) -> bool {
        if !line.body_is_whole() || !line.follows(previous) {
            return false;
        }
        self.note(line.seq, line.epoch, line.body.is_some());
        let place = ChainPosition { seq: line.seq, chain: line.chain };
        if is_own(&line.kind) {
            self.own.push((*previous, line));
        }
        self.last = Some(place);
        true
    }

    fn note(&mut self, seq: i64, epoch: i64, has_body: bool) {
        self.rows += 1;
        if self.epochs.last().is_none_or(|(_, last)| *last != epoch) {
            self.epochs.push((seq, epoch));
        }
        if !has_body {
            match self.cleared.last_mut() {
                Some((_, last)) if *last + 1 == seq => *last = seq,
                _ => self.cleared.push((seq, seq)),
            }
        }
    }
}

/// Checks the rows from `first` to `last`, and sums the index entries of those up to `indexed`.
pub(crate) fn range(
    db: &Connection,
    first: i64,
    last: i64,
    indexed: i64,
    sum: IndexSum,
) -> rusqlite::Result<Scanned> {
    let mut scanned = Scanned { sum, ..Scanned::default() };
    let Some(mut previous) = chain_before(db, first)? else {
        // The range before this one reports the missing row.
        return Ok(scanned);
    };
    let query =
        format!("SELECT {LINE_COLUMNS} FROM entries WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq");
    let mut statement = db.prepare(&query)?;
    let mut rows = statement.query([first, last])?;
    let mut expected = first;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if seq != expected {
            scanned.finding = Some(missing(expected, seq - 1));
            return Ok(scanned);
        }
        match check(row, seq, &previous) {
            Ok(checked) => {
                scanned.note(seq, checked.epoch, checked.has_body);
                if checked.is_own {
                    scanned.own.push((previous, line_of(row)?));
                }
                if seq <= indexed {
                    scanned.sum.add_row(row, seq, checked.at_ms)?;
                }
                previous = checked.chain;
                scanned.last = Some(ChainPosition { seq, chain: previous });
            }
            Err(what) => {
                scanned.finding = Some(explain(db, seq, &previous, what));
                return Ok(scanned);
            }
        }
        expected += 1;
    }
    if expected <= last {
        scanned.finding = Some(missing(expected, last));
    }
    Ok(scanned)
}

struct Checked {
    at_ms: i64,
    chain: Digest,
    epoch: i64,
    has_body: bool,
    is_own: bool,
}

/// Kind of mismatch.
#[derive(Clone, Copy)]
enum Mismatch {
    /// A column is of a type that the ledger never wrote.
    Type,
    Body,
    Chain,
}

/// Checks one row without copying it.
fn check(row: &Row<'_>, seq: i64, previous: &Digest) -> Result<Checked, Mismatch> {
    let get = || -> rusqlite::Result<(Columns<'_>, Digest, Digest, Option<&[u8]>)> {
        let text = |n: usize| Ok::<_, rusqlite::Error>(row.get_ref(n)?.as_str_or_null()?);
        let columns = Columns {
            seq,
            at_ms: row.get(1)?,
            epoch: row.get(2)?,
            writer: row.get(3)?,
            kind: row.get_ref(4)?.as_str()?,
            run_id: text(5)?,
            session: text(6)?,
            client: text(7)?,
            tool: text(8)?,
            status: text(9)?,
            risk: text(10)?,
        };
        let digest = |n: usize| row.get(n).map(Digest::from_bytes);
        Ok((columns, digest(11)?, digest(12)?, row.get_ref(13)?.as_blob_or_null()?))
    };
    let (columns, body_hash, stored, body) = get().map_err(|_| Mismatch::Type)?;
    if body.is_some_and(|body| Digest::of(body) != body_hash) {
        return Err(Mismatch::Body);
    }
    let chain = chain(previous, &columns, &body_hash);
    if chain != stored {
        return Err(Mismatch::Chain);
    }
    let (at_ms, epoch, is_own) = (columns.at_ms, columns.epoch, is_own(columns.kind));
    Ok(Checked { at_ms, chain, epoch, has_body: body.is_some(), is_own })
}

/// Determines how the row at `seq` was changed, as far as its neighbours show.
fn explain(db: &Connection, seq: i64, previous: &Digest, what: Mismatch) -> Finding {
    let edited = |text: &str| Finding::new(seq, FindingKind::Edited, format!("row {seq}: {text}"));
    match what {
        Mismatch::Type => return edited("a column is of a type that the ledger never wrote"),
        Mismatch::Body => return edited("the body is not the one that was written"),
        Mismatch::Chain => {}
    }
    let neighbours = || -> rusqlite::Result<Vec<Line>> {
        let query =
            format!("SELECT {LINE_COLUMNS} FROM entries WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq");
        let mut statement = db.prepare(&query)?;
        let lines = statement.query_map([seq, seq + NEIGHBOURS], line_of)?;
        // A neighbour that cannot be read explains nothing.
        Ok(lines.flatten().collect())
    };
    let lines = neighbours().unwrap_or_default();
    let fits_here = |line: &Line| Line { seq, ..line.clone() }.follows(previous);
    let Some(home) = lines.iter().skip(1).find(|line| fits_here(line)) else {
        return edited("a column or the chain is not what was written");
    };
    // The row that belongs here is further on. Either this row was inserted before it, or the two were swapped.
    let belongs_there = lines.first().is_some_and(|line| {
        let at = home.seq;
        let before = if at == seq + 1 {
            Some(home.chain)
        } else {
            lines.iter().find(|other| other.seq == at - 1).map(|other| other.chain)
        };
        before.is_some_and(|before| Line { seq: at, ..line.clone() }.follows(&before))
    });
    let at = home.seq;
    if belongs_there {
        return Finding::new(
            seq,
            FindingKind::Reordered,
            format!("rows {seq} and {at} changed places"),
        );
    }
    Finding::new(
        seq,
        FindingKind::Inserted,
        format!("row {seq} was put before the row that is now {at}"),
    )
}

pub(crate) fn missing(first: i64, last: i64) -> Finding {
    let text = match last - first {
        0 => format!("row {first} is missing"),
        _ => format!("rows {first} to {last} are missing"),
    };
    Finding::new(first, FindingKind::Missing, text)
}

fn is_own(kind: &str) -> bool {
    kind.parse().is_ok_and(crate::columns::Kind::is_ledgers_own)
}

/// The chain's value before a row; `None` when the row before is not there.
fn chain_before(db: &Connection, first: i64) -> rusqlite::Result<Option<Digest>> {
    use rusqlite::OptionalExtension;
    if first == 1 {
        return Ok(Some(Digest::ZERO));
    }
    db.query_row("SELECT chain FROM entries WHERE seq = ?1", [first - 1], |row| {
        // A value of another type fails the row it stands in; here it only has to be something.
        Ok(row.get(0).map_or(Digest::ZERO, Digest::from_bytes))
    })
    .optional()
}

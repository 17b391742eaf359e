//! The lookup index: the rows of a block that have a given word, the time span of a block, the first and last row of a
//! run. Built from the rows one full block at a time, so that an append touches one table only; the rows after the last
//! full block are read one by one. Derived from the rows alone, and can be rebuilt from them.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use crate::columns::Kind;
use crate::compaction::{LINE_COLUMNS, line_of};
use crate::line::Line;
use crate::store::CHECKPOINT_ROWS;

/// Rows of a block.
pub(crate) const BLOCK_ROWS: i64 = CHECKPOINT_ROWS;
const WORDS: usize = 16;
/// Maximum number of rows of a block stored as a list of two bytes each; for more, one bit per row is no longer.
const LIST_MAX: usize = 63;
/// Maximum number of blocks that one compaction closes.
const CLOSE_MAX: i64 = 16;

/// A set of rows of a block, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits([u64; WORDS]);

/// An indexed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Kind,
    Session,
    Client,
    Tool,
    Status,
    Risk,
}

impl Column {
    /// All columns, each with its position in [`crate::compaction::line_of`].
    pub(crate) const ALL: [(usize, Self); 6] = [
        (4, Self::Kind),
        (6, Self::Session),
        (7, Self::Client),
        (8, Self::Tool),
        (9, Self::Status),
        (10, Self::Risk),
    ];

    /// The word as a term of the index.
    pub(crate) fn term(self, word: &str) -> String {
        format!("{}:{word}", self.name())
    }

    /// The column's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Session => "session",
            Self::Client => "client",
            Self::Tool => "tool",
            Self::Status => "status",
            Self::Risk => "risk",
        }
    }
}

impl Bits {
    pub(crate) const NONE: Self = Self([0; WORDS]);
    pub(crate) const ALL: Self = Self([u64::MAX; WORDS]);

    pub(crate) fn set(&mut self, position: usize) {
        self.0[position / 64] |= 1 << (position % 64);
    }

    pub(crate) fn and(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
    }

    pub(crate) fn or(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    pub(crate) fn without(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
    }

    /// Positions that are set, the last first.
    pub(crate) fn descending(&self) -> impl Iterator<Item = usize> {
        let bits = *self;
        (0..WORDS * 64).rev().filter(move |n| bits.0[n / 64] >> (n % 64) & 1 == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    fn encode(&self) -> Vec<u8> {
        let mut list: Vec<usize> = self.descending().take(LIST_MAX + 1).collect();
        if list.len() > LIST_MAX {
            return self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        }
        list.reverse();
        list.iter().flat_map(|n| u16::try_from(*n).unwrap_or(0).to_le_bytes()).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut bits = Self::NONE;
        if bytes.len() == WORDS * 8 {
            for (word, bytes) in bits.0.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
            return bits;
        }
        for pair in bytes.chunks_exact(2) {
            let position = usize::from(u16::from_le_bytes([pair[0], pair[1]]));
            if position < WORDS * 64 {
                bits.set(position);
            }
        }
        bits
    }
}

/// The block of a row.
pub(crate) const fn block_of(seq: i64) -> i64 {
    (seq - 1) / BLOCK_ROWS
}

/// The first row of a block.
pub(crate) const fn first_of(block: i64) -> i64 {
    block * BLOCK_ROWS + 1
}

/// Position of a row in its block.
pub(crate) fn position_of(seq: i64) -> usize {
    usize::try_from((seq - 1) % BLOCK_ROWS).unwrap_or(0)
}

/// Number of closed blocks, counted from the first.
pub(crate) fn closed_blocks(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT coalesce(max(block) + 1, 0) FROM spans")?
        .query_row([], |row| row.get(0))
}

/// Closes the blocks that are full, inside the caller's transaction.
pub(crate) fn close_blocks(db: &Connection) -> rusqlite::Result<()> {
    let last: i64 = db.query_row("SELECT coalesce(max(seq), 0) FROM entries", [], |r| r.get(0))?;
    let first = closed_blocks(db)?;
    let full = last / BLOCK_ROWS;
    for block in first..full.min(first + CLOSE_MAX) {
        Block::read(db, block)?.write(db)?;
    }
    Ok(())
}

/// The first block with a row at or after `at_ms`; the block after the closed ones if there is none.
pub(crate) fn first_block_since(db: &Connection, at_ms: i64) -> rusqlite::Result<i64> {
    let found: Option<i64> =
        db.query_row("SELECT min(block) FROM spans WHERE at_max >= ?1", [at_ms], |row| row.get(0))?;
    found.map_or_else(|| closed_blocks(db), Ok)
}

/// Ranges of rows, both ends included, outside of which no row has the word.
pub(crate) fn ranges_with(
    db: &Connection,
    column: Column,
    word: &str,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut statement = db.prepare("SELECT block FROM marks WHERE term = ?1 ORDER BY block")?;
    let blocks = statement.query_map([column.term(word)], |row| row.get::<_, i64>(0))?;
    let mut ranges = Vec::new();
    for block in blocks {
        let block = block?;
        ranges.push((first_of(block), first_of(block + 1) - 1));
    }
    ranges.push((first_of(closed_blocks(db)?), i64::MAX));
    Ok(ranges)
}

/// Starts without an end, in closed blocks and after them.
pub(crate) fn open_starts(db: &Connection) -> rusqlite::Result<Vec<Line>> {
    let tail = first_of(closed_blocks(db)?);
    // In the rows after the last closed block, a run has ended when an end is among them.
    let query = format!(
        "SELECT {LINE_COLUMNS} FROM entries AS e WHERE (
             seq IN (SELECT start_seq FROM runs WHERE end_seq IS NULL AND start_seq IS NOT NULL)
             OR (seq >= ?1 AND kind IN ('run_start', 'call_start'))
         ) AND run_id NOT IN (
             SELECT run_id FROM entries
             WHERE seq >= ?1 AND kind IN ('run_end', 'call_end') AND run_id IS NOT NULL
         ) ORDER BY seq"
    );
    let mut statement = db.prepare(&query)?;
    let lines = statement.query_map([tail], line_of)?;
    lines.collect()
}

/// Deletes the index and rebuilds it.
pub(crate) fn rebuild(db: &Connection) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    db.execute_batch("DELETE FROM marks; DELETE FROM spans; DELETE FROM runs")?;
    loop {
        let before = closed_blocks(db)?;
        close_blocks(db)?;
        if closed_blocks(db)? == before {
            return tx.commit();
        }
    }
}

/// Index entries of one block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) number: i64,
    pub(crate) terms: BTreeMap<String, Bits>,
    pub(crate) at_min: i64,
    pub(crate) at_max: i64,
    starts: Vec<(String, i64)>,
    ends: Vec<(String, i64)>,
}

impl Block {
    fn read(db: &Connection, number: i64) -> rusqlite::Result<Self> {
        let mut block = Self {
            number,
            terms: BTreeMap::new(),
            at_min: i64::MAX,
            at_max: i64::MIN,
            starts: Vec::new(),
            ends: Vec::new(),
        };
        let mut statement = db.prepare_cached(
            "SELECT seq, at_ms, kind, run_id, session, client, tool, status, risk FROM entries
             WHERE seq BETWEEN ?1 AND ?2",
        )?;
        let mut rows = statement.query([first_of(number), first_of(number + 1) - 1])?;
        while let Some(row) = rows.next()? {
            let (seq, at_ms): (i64, i64) = (row.get(0)?, row.get(1)?);
            let columns = [
                (2, Column::Kind),
                (4, Column::Session),
                (5, Column::Client),
                (6, Column::Tool),
                (7, Column::Status),
                (8, Column::Risk),
            ];
            for (index, column) in columns {
                if let Some(word) = row.get_ref(index)?.as_str_or_null()? {
                    let bits = block.terms.entry(column.term(word)).or_insert(Bits::NONE);
                    bits.set(position_of(seq));
                }
            }
            block.at_min = block.at_min.min(at_ms);
            block.at_max = block.at_max.max(at_ms);
            let kind = row.get_ref(2)?.as_str().ok().and_then(|word| word.parse::<Kind>().ok());
            let run_id: Option<String> = row.get(3)?;
            match (kind, run_id) {
                (Some(kind), Some(id)) if kind.is_start() => block.starts.push((id, seq)),
                (Some(kind), Some(id)) if kind.is_end() => block.ends.push((id, seq)),
                _ => {}
            }
        }
        // Sorted, so that neighbours in the table are written one after the other.
        block.starts.sort_unstable();
        block.ends.sort_unstable();
        Ok(block)
    }

    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let mut mark = db.prepare_cached("INSERT OR REPLACE INTO marks VALUES (?1, ?2, ?3)")?;
        for (term, bits) in &self.terms {
            mark.execute(params![term, self.number, bits.encode()])?;
        }
        let mut start = db.prepare_cached(
            "INSERT INTO runs VALUES (?1, ?2, NULL) ON CONFLICT DO UPDATE SET start_seq = ?2",
        )?;
        for (run_id, seq) in &self.starts {
            start.execute(params![run_id, seq])?;
        }
        let mut end = db.prepare_cached(
            "INSERT INTO runs VALUES (?1, NULL, ?2) ON CONFLICT DO UPDATE SET end_seq = ?2",
        )?;
        for (run_id, seq) in &self.ends {
            end.execute(params![run_id, seq])?;
        }
        db.prepare_cached("INSERT OR REPLACE INTO spans VALUES (?1, ?2, ?3)")?.execute(params![
            self.number,
            self.at_min,
            self.at_max
        ])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_survive_storage_as_list_and_as_map() {
        for step in [1, 3, 16, 17, 500] {
            let mut bits = Bits::NONE;
            (0..1024).step_by(step).for_each(|n| bits.set(n));
            let stored = bits.encode();
            assert!(stored.len() <= 128);
            assert_eq!(Bits::decode(&stored), bits, "every {step}");
        }
        assert!(Bits::decode(&[]).is_empty());
    }

    #[test]
    fn rows_and_blocks_agree() {
        assert_eq!((block_of(1), position_of(1)), (0, 0));
        assert_eq!((block_of(1024), position_of(1024)), (0, 1023));
        assert_eq!((block_of(1025), first_of(1)), (1, 1025));
    }
}

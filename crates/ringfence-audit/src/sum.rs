//! A checksum over the content of an index, to compare an index with its rows in any order. Keyed at random for each
//! comparison, so that a different index with the same sum cannot be constructed.

use std::hash::{BuildHasher, RandomState};

use rusqlite::{Connection, Row};

use crate::index::{Bits, Column, block_of, first_of};

/// The sum of the entries added so far.
#[derive(Clone, Debug)]
pub(crate) struct IndexSum {
    key: RandomState,
    sum: u64,
    /// The block being read: its number, first and last time.
    span: Option<(i64, i64, i64)>,
}

impl Default for IndexSum {
    fn default() -> Self {
        Self::keyed()
    }
}

impl PartialEq for IndexSum {
    fn eq(&self, other: &Self) -> bool {
        self.total() == other.total()
    }
}

impl IndexSum {
    /// A sum of nothing under a new key.
    pub(crate) fn keyed() -> Self {
        Self { key: RandomState::new(), sum: 0, span: None }
    }

    /// A sum of nothing under the same key.
    pub(crate) fn empty(&self) -> Self {
        Self { key: self.key.clone(), sum: 0, span: None }
    }

    /// Adds the index entries that a row should have. Rows of a block arrive one after the other.
    pub(crate) fn add_row(&mut self, row: &Row<'_>, seq: i64, at_ms: i64) -> rusqlite::Result<()> {
        for (n, column) in Column::ALL {
            if let Some(word) = row.get_ref(n)?.as_str_or_null()? {
                let term = self.key.hash_one((column.name(), word));
                self.add(term, seq);
            }
        }
        let block = block_of(seq);
        self.span = match self.span {
            Some((current, min, max)) if current == block => {
                Some((block, min.min(at_ms), max.max(at_ms)))
            }
            _ => {
                self.sum = self.total();
                Some((block, at_ms, at_ms))
            }
        };
        Ok(())
    }

    /// Adds another sum under the same key.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.sum = self.total().wrapping_add(other.total());
        self.span = None;
    }

    /// The sum of the index in `db`.
    pub(crate) fn of_index(mut self, db: &Connection) -> rusqlite::Result<Self> {
        let mut statement = db.prepare("SELECT term, block, bits FROM marks")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (column, word) = row.get_ref(0)?.as_str()?.split_once(':').unwrap_or_default();
            let term = self.key.hash_one((column, word));
            let first = first_of(row.get(1)?);
            for position in Bits::decode(row.get_ref(2)?.as_blob()?).descending() {
                self.add(term, first + i64::try_from(position).unwrap_or(0));
            }
        }
        let mut statement = db.prepare("SELECT block, at_min, at_max FROM spans")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            self.sum = self.total();
            self.span = Some((row.get(0)?, row.get(1)?, row.get(2)?));
        }
        Ok(self)
    }

    fn total(&self) -> u64 {
        self.span.map_or(self.sum, |span| self.sum.wrapping_add(self.key.hash_one(span)))
    }

    fn add(&mut self, term: u64, seq: i64) {
        // The last step of SplitMix64: a bijection in which every bit of the keyed term reaches every bit.
        let mut x = term.wrapping_add(seq.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.sum = self.sum.wrapping_add(x ^ (x >> 31));
    }
}

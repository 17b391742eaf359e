//! Merges segments into one without reading any source file again. Streams: holds one dictionary block of each segment
//! and the postings of one term.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use super::IndexError;
use super::builder::length_of;
use super::postings::Posting;
use super::segment::{Segment, SegmentWriter, TermEntry};

/// A segment to merge, and which of its files are gone.
pub(super) struct Input<'a> {
    pub(super) segment: &'a Segment,
    pub(super) is_dead: &'a dyn Fn(u32) -> bool,
    /// The time of the last change of a file, where a later one than the segment's is known.
    pub(super) stamp_ns: &'a dyn Fn(u32) -> Option<u64>,
}

/// Marks a chunk that is dropped.
const DROPPED: u32 = u32::MAX;

/// Writes the living files of `inputs` as one segment.
pub(super) fn merge<W: Write>(inputs: &[Input<'_>], out: W) -> Result<W, IndexError> {
    let mut writer = SegmentWriter::new(out);
    let maps = chunk_maps(inputs);
    terms(inputs, &maps, &mut writer)?;
    for (input, map) in inputs.iter().zip(&maps) {
        for block in 0..input.segment.n_file_blocks() {
            let mut records = Vec::new();
            input.segment.files_in(block, &mut |number, record| records.push((number, record)))?;
            for (number, mut record) in records {
                if (input.is_dead)(number) {
                    continue;
                }
                record.first_chunk = map.first_alive(record.first_chunk);
                record.stamp_ns = (input.stamp_ns)(number).unwrap_or(record.stamp_ns);
                writer.file(&record)?;
            }
        }
    }
    let mut n_terms_total = 0.0;
    for (input, map) in inputs.iter().zip(&maps) {
        for block in 0..input.segment.n_chunk_blocks() {
            input.segment.chunks_in(block, &mut |number, record| {
                if map.get(number) != DROPPED {
                    let norm = input.segment.norms[number as usize];
                    n_terms_total += f64::from(length_of(norm));
                    writer.chunk(&record, norm)?;
                }
                Ok(())
            })?;
        }
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A sum of lengths.
    writer.finish(n_terms_total as u64)
}

/// New numbers of a segment's chunks.
enum ChunkMap {
    /// All of them live: the same numbers, shifted.
    Shift(u32),
    /// New number or [`DROPPED`], and the number behind the last.
    Table(Vec<u32>, u32),
}

impl ChunkMap {
    fn get(&self, chunk: u32) -> u32 {
        match self {
            Self::Shift(base) => base + chunk,
            Self::Table(table, _) => table.get(chunk as usize).copied().unwrap_or(DROPPED),
        }
    }

    /// The new number of `chunk`, or of the next that lives.
    fn first_alive(&self, chunk: u32) -> u32 {
        match self {
            Self::Shift(base) => base + chunk,
            Self::Table(table, end) => {
                let mut rest = table.iter().skip(chunk as usize);
                rest.find(|new| **new != DROPPED).copied().unwrap_or(*end)
            }
        }
    }
}

fn chunk_maps(inputs: &[Input<'_>]) -> Vec<ChunkMap> {
    let mut next = 0u32;
    let mut maps = Vec::new();
    for input in inputs {
        let segment = input.segment;
        if !(0..segment.n_files).any(|file| (input.is_dead)(file)) {
            maps.push(ChunkMap::Shift(next));
            next += segment.n_chunks;
            continue;
        }
        let mut table = vec![DROPPED; segment.n_chunks as usize];
        for file in (0..segment.n_files).filter(|file| !(input.is_dead)(*file)) {
            for chunk in segment.first_chunk(file)..segment.first_chunk(file + 1) {
                table[chunk as usize] = next;
                next += 1;
            }
        }
        maps.push(ChunkMap::Table(table, next));
    }
    maps
}

/// The terms of a segment in order.
struct Terms<'a> {
    segment: &'a Segment,
    next_block: usize,
    loaded: std::vec::IntoIter<(Vec<u8>, TermEntry)>,
}

impl Terms<'_> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, TermEntry)>, IndexError> {
        loop {
            if let Some(term) = self.loaded.next() {
                return Ok(Some(term));
            }
            if self.next_block == self.segment.n_blocks() {
                return Ok(None);
            }
            let mut loaded = Vec::new();
            self.segment.block(self.next_block, &mut |key, entry| {
                loaded.push((key.to_vec(), entry.read()?));
                Ok(true)
            })?;
            self.next_block += 1;
            self.loaded = loaded.into_iter();
        }
    }
}

fn terms<W: Write>(
    inputs: &[Input<'_>],
    maps: &[ChunkMap],
    writer: &mut SegmentWriter<W>,
) -> Result<(), IndexError> {
    let mut cursors: Vec<Terms<'_>> = inputs
        .iter()
        .map(|input| Terms {
            segment: input.segment,
            next_block: 0,
            loaded: Vec::new().into_iter(),
        })
        .collect();
    let mut entries: Vec<Option<TermEntry>> = vec![None; inputs.len()];
    // Smallest key first, and of equal keys the first input, so that postings stay in order of chunks.
    let mut heap = BinaryHeap::new();
    for (index, cursor) in cursors.iter_mut().enumerate() {
        if let Some((key, entry)) = cursor.next()? {
            entries[index] = Some(entry);
            heap.push(Reverse((key, index)));
        }
    }
    let mut postings: Vec<Posting> = Vec::new();
    let mut current: Vec<u8> = Vec::new();
    while let Some(Reverse((key, index))) = heap.pop() {
        if key != current {
            writer.term(&current, &postings)?;
            postings.clear();
            current = key;
        }
        if let Some(entry) = entries[index].take() {
            let map = &maps[index];
            inputs[index].segment.postings(&entry, |chunk, count| {
                let new = map.get(chunk);
                // A damaged segment may repeat a term or a chunk.
                if new != DROPPED && postings.last().is_none_or(|(last, _)| *last < new) {
                    postings.push((new, count));
                }
            })?;
        }
        if let Some((key, entry)) = cursors[index].next()? {
            entries[index] = Some(entry);
            heap.push(Reverse((key, index)));
        }
    }
    writer.term(&current, &postings)
}

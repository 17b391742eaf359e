//! A segment in memory: the terms of the files that a worker has read, until there are enough to be written.

use std::io;
use std::ops::ControlFlow;

use super::postings::{COUNT_MAX, Posting};
use super::segment::{ChunkRecord, FileRecord, SegmentWriter};
use super::{Field, IndexError};
use crate::chunk::{ChunkOptions, Language, Span, spans};
use crate::file_kind::FileKind;
use crate::hash::hash64;
use crate::token::{Tokenizer, whole_name};

/// Bits of an entry for the chunk and for the term.
const ID_BITS: u32 = 28;
const ID_MAX: usize = (1 << ID_BITS) - 1;

/// Collects the terms of files.
#[derive(Debug, Default)]
pub(super) struct Builder {
    tokenizer: Tokenizer,
    terms: Terms,
    /// Term, chunk and count of each posting, in order of chunks.
    entries: Vec<u64>,
    /// For each term, its last chunk and that chunk's entry.
    last: Vec<(u32, u32)>,
    files: Vec<FileRecord>,
    /// Bytes of the paths of `files`.
    n_path_bytes: usize,
    chunks: Vec<ChunkRecord>,
    norms: Vec<u8>,
    n_terms_total: u64,
    /// Bytes of text since the last segment.
    pub(super) n_bytes: u64,
}

impl Builder {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns true if there is enough for a segment.
    pub(super) fn is_full(&self, entries_max: usize) -> bool {
        self.entries.len() >= entries_max
            || self.terms.arena.len() >= entries_max * 4
            // Files without text have neither entries nor terms.
            || self.n_path_bytes >= entries_max * 4
            || self.chunks.len() >= ID_MAX / 2
    }

    /// Adds a file that has no text to index, so that it is not read again until it changes.
    pub(super) fn add_skipped(&mut self, mut file: FileRecord) {
        file.first_chunk = self.chunk_number();
        self.push(file);
    }

    /// Adds a file. Returns the number of its chunks.
    pub(super) fn add(
        &mut self,
        mut file: FileRecord,
        text: &str,
        options: &ChunkOptions,
    ) -> usize {
        let first = self.chunks.len();
        file.first_chunk = self.chunk_number();
        file.language = Language::of_path(&file.path, text);
        file.kind = FileKind::of(&file.path, text, file.language);
        self.n_bytes += text.len() as u64;
        spans(text, file.language, options, |span| {
            self.chunk(text, &span);
            ControlFlow::Continue(())
        });
        if self.chunks.len() > first {
            self.path(&file.path, file.first_chunk);
        }
        self.push(file);
        self.chunks.len() - first
    }

    fn push(&mut self, file: FileRecord) {
        self.n_path_bytes += file.path.len();
        self.files.push(file);
    }

    #[allow(clippy::cast_possible_truncation)] // `is_full` keeps it below 2^27 and a file adds less than 2^24.
    fn chunk_number(&self) -> u32 {
        self.chunks.len() as u32
    }

    fn chunk(&mut self, text: &str, span: &Span<'_, '_>) {
        let chunk = self.chunk_number();
        let body = &text[span.bytes.clone()];
        let mut n_terms = 0u32;
        let mut tokenizer = std::mem::take(&mut self.tokenizer);
        tokenizer.terms(body, |term| {
            n_terms += 1;
            self.post(Field::Body, term, chunk);
        });
        for symbol in span.symbols {
            tokenizer.terms(symbol, |term| self.post(Field::SymbolPart, term, chunk));
            let last = symbol.rsplit(['.', ':']).next().unwrap_or(symbol);
            self.post(Field::Exact, last, chunk);
            self.post(Field::Symbol, &whole_name(last), chunk);
            if last.len() < symbol.len() {
                self.post(Field::Symbol, &whole_name(symbol), chunk);
            }
        }
        self.tokenizer = tokenizer;
        self.n_terms_total += u64::from(n_terms);
        self.norms.push(norm(n_terms));
        self.chunks.push(ChunkRecord {
            start_line: span.start_line,
            end_line: span.end_line,
            hash: hash64(body.as_bytes()),
            symbol: span.symbols.first().map_or("", |name| name).into(),
        });
    }

    /// Posts the words of a path on the file's first chunk.
    fn path(&mut self, path: &str, chunk: u32) {
        let mut tokenizer = std::mem::take(&mut self.tokenizer);
        tokenizer.terms(path, |term| self.post(Field::Path, term, chunk));
        self.tokenizer = tokenizer;
    }

    fn post(&mut self, field: Field, term: &str, chunk: u32) {
        if term.is_empty() || term.len() > crate::token::TERM_BYTES_MAX {
            return;
        }
        let id = self.terms.id(field, term.as_bytes());
        if id == self.last.len() {
            self.last.push((u32::MAX, 0));
        }
        let (last_chunk, at) = self.last[id];
        if last_chunk == chunk {
            let entry = &mut self.entries[at as usize];
            if *entry & 0xff < u64::from(COUNT_MAX) {
                *entry += 1;
            }
            return;
        }
        #[allow(clippy::cast_possible_truncation)] // Fewer than 2^32 entries: `is_full`.
        {
            self.last[id] = (chunk, self.entries.len() as u32);
        }
        self.entries.push((id as u64) << (8 + ID_BITS) | u64::from(chunk) << 8 | 1);
    }

    /// Writes everything as a segment and starts again.
    pub(super) fn write<W: io::Write>(&mut self, out: W) -> Result<W, IndexError> {
        let mut writer = SegmentWriter::new(out);
        let n_terms = self.terms.spans.len();
        // Counting sort by term: entries are in order of chunks already.
        let mut ends = vec![0u32; n_terms + 1];
        for entry in &self.entries {
            ends[(*entry >> (8 + ID_BITS)) as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            let n = *end;
            *end = sum;
            sum += n;
        }
        let mut sorted = vec![0u32; self.entries.len()];
        #[allow(clippy::cast_possible_truncation)]
        // Chunk and count; the entry's upper bits are the term.
        for entry in &self.entries {
            let end = &mut ends[(*entry >> (8 + ID_BITS)) as usize];
            let chunk = (*entry >> 8) as usize & ID_MAX;
            sorted[*end as usize] = (chunk as u32) << 4 | (*entry & 0xf) as u32;
            *end += 1;
        }
        self.entries = Vec::new();
        let mut order: Vec<u32> = (0..u32::try_from(n_terms).unwrap_or(u32::MAX)).collect();
        order.sort_unstable_by(|a, b| self.terms.key(*a as usize).cmp(self.terms.key(*b as usize)));
        let mut postings: Vec<Posting> = Vec::new();
        for id in order {
            let id = id as usize;
            let start = if id == 0 { 0 } else { ends[id - 1] as usize };
            postings.clear();
            #[allow(clippy::cast_possible_truncation)] // Four bits.
            postings.extend(
                sorted[start..ends[id] as usize]
                    .iter()
                    .map(|entry| (entry >> 4, (entry & 0xf) as u8)),
            );
            writer.term(self.terms.key(id), &postings)?;
        }
        for file in &self.files {
            writer.file(file)?;
        }
        for (chunk, norm) in self.chunks.iter().zip(&self.norms) {
            writer.chunk(chunk, *norm)?;
        }
        let out = writer.finish(self.n_terms_total)?;
        *self = Self::default();
        Ok(out)
    }
}

/// The length of a chunk in terms, as one byte: sixteenths of its binary logarithm.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // At most 16 * 15.9.
fn norm(n_terms: u32) -> u8 {
    (f64::from(n_terms.clamp(1, 60_000)).log2() * 16.0).round() as u8
}

/// The length that a norm stands for.
pub(super) fn length_of(norm: u8) -> f32 {
    (f32::from(norm) / 16.0).exp2()
}

/// Distinct terms with their fields, numbered in the order they were met.
#[derive(Debug, Default)]
struct Terms {
    arena: Vec<u8>,
    spans: Vec<(u32, u8)>,
    /// Open addressing: part of a term's hash and its number plus one, or 0. A power of two, at most half full. The hash
    /// spares most visits to the arena.
    slots: Vec<(u32, u32)>,
}

impl Terms {
    fn key(&self, id: usize) -> &[u8] {
        let (start, len) = self.spans[id];
        &self.arena[start as usize..start as usize + usize::from(len)]
    }

    fn id(&mut self, field: Field, term: &[u8]) -> usize {
        if self.spans.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let (tag, mut at) = slot_hash(field.code(), term);
        loop {
            at &= mask;
            let (known, n) = self.slots[at];
            if n == 0 {
                break;
            }
            if known == tag {
                let key = self.key(n as usize - 1);
                if key[0] == field.code() && &key[1..] == term {
                    return n as usize - 1;
                }
            }
            at += 1;
        }
        #[allow(clippy::cast_possible_truncation)]
        // `is_full` bounds the arena; a term has 64 bytes at most.
        self.spans.push((self.arena.len() as u32, term.len() as u8 + 1));
        self.arena.push(field.code());
        self.arena.extend_from_slice(term);
        #[allow(clippy::cast_possible_truncation)] // As above.
        {
            self.slots[at] = (tag, self.spans.len() as u32);
        }
        self.spans.len() - 1
    }

    fn grow(&mut self) {
        let n = (self.slots.len() * 2).max(1 << 12);
        let mut slots = vec![(0u32, 0u32); n];
        for id in 0..self.spans.len() {
            let key = self.key(id);
            let (tag, mut at) = slot_hash(key[0], &key[1..]);
            at &= n - 1;
            while slots[at].1 != 0 {
                at = (at + 1) & (n - 1);
            }
            #[allow(clippy::cast_possible_truncation)] // As in `id`.
            {
                slots[at] = (tag, id as u32 + 1);
            }
        }
        self.slots = slots;
    }
}

/// Two independent parts of a term's hash: the tag, and the slot before it is masked.
#[allow(clippy::cast_possible_truncation)] // Halves.
fn slot_hash(field: u8, term: &[u8]) -> (u32, usize) {
    let hash = hash64(term) ^ u64::from(field).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 32) as u32, hash as u32 as usize)
}

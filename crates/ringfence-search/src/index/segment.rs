//! An immutable part of the index in one file: terms with their postings, files, chunks. Written once from start to end,
//! read by position. Every frame that is read has its length checked against the file and its checksum verified.
//!
//! ```text
//! frames     postings too long for their dictionary block; dictionary blocks; blocks of files and of chunks
//! sections   dictionary index · block tables · file heads · norms
//! footer     counts, places of the sections, checksum
//! ```
//! Read by `pread` and not mapped: a program that truncates a mapped file ends its reader with SIGBUS.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;

use super::IndexError;
use super::codec::{CHECKSUM_BYTES, Put, Reader, corrupt, frame, unframe};
use super::postings::{self, Posting};
use crate::chunk::Language;
use crate::file_kind::FileKind;

const MAGIC: u64 = u64::from_le_bytes(*b"RFSEARCH");
const VERSION: u64 = 1;

/// Terms and bytes of a dictionary block.
const BLOCK_TERMS: usize = 64;
const BLOCK_BYTES: usize = 4 << 10;

/// Postings up to this many bytes are stored inside their dictionary block.
const INLINE_BYTES: usize = 96;

/// Files or chunks in one block of records.
const BLOCK_RECORDS: usize = 64;

/// Greatest frame that holds a block. A record has a path of a few KB at most.
const BLOCK_FRAME_MAX: usize = 1 << 20;

/// Greatest frame that holds a section or the postings of a term: a segment has fewer than 2^26 chunks.
const LARGE_FRAME_MAX: usize = 64 << 20;

const N_SECTIONS: usize = 5;
const FOOTER_BYTES: usize = 8 * (5 + 2 * N_SECTIONS) + CHECKSUM_BYTES;

/// Bytes of an offset in the dictionary.
const OFFSET_BYTES: usize = 4;

/// Bytes of a file head: first chunk, kind, language.
const HEAD_BYTES: usize = 7;

/// A file of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileRecord {
    pub(super) path: String,
    pub(super) size: u64,
    /// Time of the last change, as the source gave it; 0 if it cannot be relied on.
    pub(super) stamp_ns: u64,
    pub(super) hash: u64,
    pub(super) first_chunk: u32,
    pub(super) kind: FileKind,
    pub(super) language: Language,
}

/// A chunk of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkRecord {
    pub(super) start_line: u32,
    pub(super) end_line: u32,
    pub(super) hash: u64,
    /// The first name it defines, or nothing.
    pub(super) symbol: Box<str>,
}

/// Place of a frame in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    offset: u64,
    len: u64,
}

/// Writes a segment: terms in order of their keys, then files, then chunks.
pub(super) struct SegmentWriter<W> {
    out: W,
    offset: u64,
    block: Vec<u8>,
    block_first: Vec<u8>,
    block_last: Vec<u8>,
    n_block_terms: usize,
    encoded: Vec<u8>,
    dictionary: Vec<u8>,
    dictionary_offsets: Vec<u8>,
    files: RecordBlocks,
    chunks: RecordBlocks,
    heads: Vec<u8>,
    norms: Vec<u8>,
}

/// Records collected into blocks, and the table of the blocks.
#[derive(Default)]
struct RecordBlocks {
    block: Vec<u8>,
    n_records: u64,
    table: Vec<u8>,
}

impl<W: Write> SegmentWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            offset: 0,
            block: Vec::new(),
            block_first: Vec::new(),
            block_last: Vec::new(),
            n_block_terms: 0,
            encoded: Vec::new(),
            dictionary: Vec::new(),
            dictionary_offsets: Vec::new(),
            files: RecordBlocks::default(),
            chunks: RecordBlocks::default(),
            heads: Vec::new(),
            norms: Vec::new(),
        }
    }

    fn put_frame(&mut self, payload: &[u8]) -> io::Result<Place> {
        let framed = frame(payload);
        self.out.write_all(&framed)?;
        let place = Place { offset: self.offset, len: framed.len() as u64 };
        self.offset += place.len;
        Ok(place)
    }

    /// Adds a term. Keys must ascend.
    pub(super) fn term(&mut self, key: &[u8], postings: &[Posting]) -> Result<(), IndexError> {
        if postings.is_empty() {
            return Ok(());
        }
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        postings::encode(postings, &mut encoded);
        if self.n_block_terms == 0 {
            self.block_first = key.to_vec();
            self.block_last.clear();
        }
        let shared = key.iter().zip(&self.block_last).take_while(|(a, b)| a == b).count();
        self.block.put_varint(shared as u64);
        self.block.put_bytes(&key[shared..]);
        self.block.put_varint(postings.len() as u64);
        if encoded.len() <= INLINE_BYTES {
            self.block.put_varint(encoded.len() as u64);
            self.block.extend_from_slice(&encoded);
        } else {
            let place = self.put_frame(&encoded)?;
            // Longer than any inline postings, which tells them apart.
            self.block.put_varint(place.len);
            self.block.put_varint(place.offset);
        }
        self.encoded = encoded;
        self.block_last.clear();
        self.block_last.extend_from_slice(key);
        self.n_block_terms += 1;
        if self.n_block_terms == BLOCK_TERMS || self.block.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), IndexError> {
        if self.n_block_terms == 0 {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let place = self.put_frame(&block)?;
        let offset = u32::try_from(self.dictionary.len()).map_err(|_| corrupt("dictionary"))?;
        self.dictionary_offsets.extend_from_slice(&offset.to_le_bytes());
        self.dictionary.put_bytes(&self.block_first);
        self.dictionary.put_varint(place.offset);
        self.dictionary.put_varint(place.len);
        self.n_block_terms = 0;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    pub(super) fn file(&mut self, file: &FileRecord) -> Result<(), IndexError> {
        self.heads.extend_from_slice(&file.first_chunk.to_le_bytes());
        self.heads.extend_from_slice(&file.kind.bits().to_le_bytes());
        self.heads.push(file.language.code());
        let block = &mut self.files.block;
        block.put_bytes(file.path.as_bytes());
        block.put_varint(file.size);
        block.put_varint(file.stamp_ns);
        block.put_u64(file.hash);
        self.files.n_records += 1;
        if self.files.n_records.is_multiple_of(BLOCK_RECORDS as u64) {
            self.end_files()?;
        }
        Ok(())
    }

    fn end_files(&mut self) -> io::Result<()> {
        let block = std::mem::take(&mut self.files.block);
        let place = self.put_frame(&block)?;
        self.files.table.put_varint(place.offset);
        self.files.table.put_varint(place.len);
        Ok(())
    }

    pub(super) fn chunk(&mut self, chunk: &ChunkRecord, norm: u8) -> Result<(), IndexError> {
        self.norms.push(norm);
        let block = &mut self.chunks.block;
        block.put_varint(u64::from(chunk.start_line));
        block.put_varint(u64::from(chunk.end_line.saturating_sub(chunk.start_line)));
        block.put_u64(chunk.hash);
        block.put_bytes(chunk.symbol.as_bytes());
        self.chunks.n_records += 1;
        if self.chunks.n_records.is_multiple_of(BLOCK_RECORDS as u64) {
            self.end_chunks()?;
        }
        Ok(())
    }

    fn end_chunks(&mut self) -> io::Result<()> {
        let block = std::mem::take(&mut self.chunks.block);
        let place = self.put_frame(&block)?;
        self.chunks.table.put_varint(place.offset);
        self.chunks.table.put_varint(place.len);
        Ok(())
    }

    /// Writes the sections and the footer. `n_terms_total` is the sum of the lengths of all chunks.
    pub(super) fn finish(mut self, n_terms_total: u64) -> Result<W, IndexError> {
        self.end_block()?;
        if !self.files.block.is_empty() {
            self.end_files()?;
        }
        if !self.chunks.block.is_empty() {
            self.end_chunks()?;
        }
        let mut sections = [Place::default(); N_SECTIONS];
        // Offsets first, so that a reader finds an entry without reading those before it.
        let mut dictionary = Vec::new();
        dictionary.put_u64((self.dictionary_offsets.len() / OFFSET_BYTES) as u64);
        dictionary.append(&mut self.dictionary_offsets);
        dictionary.append(&mut self.dictionary);
        let payloads = [
            dictionary,
            std::mem::take(&mut self.files.table),
            std::mem::take(&mut self.chunks.table),
            std::mem::take(&mut self.heads),
            std::mem::take(&mut self.norms),
        ];
        for (section, payload) in sections.iter_mut().zip(&payloads) {
            *section = self.put_frame(payload)?;
        }
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        for value in [MAGIC, VERSION, self.files.n_records, self.chunks.n_records, n_terms_total] {
            footer.put_u64(value);
        }
        for section in sections {
            footer.put_u64(section.offset);
            footer.put_u64(section.len);
        }
        self.out.write_all(&frame(&footer))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A segment that was opened.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) len: u64,
    /// Number of dictionary blocks, an offset for each, and for each its first key and place.
    dictionary: Vec<u8>,
    n_blocks: usize,
    file_blocks: Vec<Place>,
    chunk_blocks: Vec<Place>,
    heads: Vec<u8>,
    /// First chunk of each file, and the number of chunks.
    pub(super) starts: Vec<u32>,
    pub(super) norms: Vec<u8>,
    pub(super) n_files: u32,
    pub(super) n_chunks: u32,
    pub(super) n_terms_total: u64,
}

/// The postings of a term, not decoded yet.
#[derive(Clone, Debug)]
pub(super) struct TermEntry {
    pub(super) n_postings: u32,
    bytes: PostingBytes,
}

#[derive(Clone, Debug)]
enum PostingBytes {
    Inline(Vec<u8>),
    Frame(Place),
}

impl Segment {
    /// Opens a segment and reads its sections.
    pub(super) fn open(file: File) -> Result<Self, IndexError> {
        let len = file.metadata()?.len();
        let footer_at = len.checked_sub(FOOTER_BYTES as u64).ok_or(corrupt("segment footer"))?;
        let place = Place { offset: footer_at, len: FOOTER_BYTES as u64 };
        let footer = read_place(&file, len, place, FOOTER_BYTES, "segment footer")?;
        let mut reader = Reader::new(&footer[CHECKSUM_BYTES..], "segment footer");
        if reader.u64()? != MAGIC {
            return Err(corrupt("segment footer"));
        }
        let version = reader.u64()?;
        if version != VERSION {
            return Err(corrupt("segment version"));
        }
        let n_files = u32::try_from(reader.u64()?).map_err(|_| corrupt("number of files"))?;
        let n_chunks = u32::try_from(reader.u64()?).map_err(|_| corrupt("number of chunks"))?;
        let n_terms_total = reader.u64()?;
        let mut section = |what| -> Result<Vec<u8>, IndexError> {
            let place = Place { offset: reader.u64()?, len: reader.u64()? };
            let mut framed = read_place(&file, len, place, LARGE_FRAME_MAX, what)?;
            framed.drain(..CHECKSUM_BYTES);
            Ok(framed)
        };
        let dictionary = section("dictionary")?;
        let file_table = section("file table")?;
        let chunk_table = section("chunk table")?;
        let heads = section("file heads")?;
        let norms = section("chunk norms")?;
        if norms.len() != n_chunks as usize || heads.len() != n_files as usize * HEAD_BYTES {
            return Err(corrupt("counts of a segment"));
        }
        let n_blocks = n_dictionary_blocks(&dictionary)?;
        let starts = read_starts(&heads, n_chunks)?;
        Ok(Self {
            file,
            len,
            dictionary,
            n_blocks,
            file_blocks: read_table(&file_table, n_files)?,
            chunk_blocks: read_table(&chunk_table, n_chunks)?,
            heads,
            starts,
            norms,
            n_files,
            n_chunks,
            n_terms_total,
        })
    }

    fn read(
        &self,
        place: Place,
        len_max: usize,
        what: &'static str,
    ) -> Result<Vec<u8>, IndexError> {
        read_place(&self.file, self.len, place, len_max, what)
    }

    fn head(&self, file: u32) -> &[u8] {
        let at = file as usize * HEAD_BYTES;
        &self.heads[at..at + HEAD_BYTES]
    }

    /// The first chunk of a file, or the number of chunks behind the last file.
    pub(super) fn first_chunk(&self, file: u32) -> u32 {
        self.starts.get(file as usize).copied().unwrap_or(self.n_chunks)
    }

    pub(super) fn kind(&self, file: u32) -> FileKind {
        let head = self.head(file);
        FileKind::from_bits(u16::from_le_bytes([head[4], head[5]]))
    }

    pub(super) fn language(&self, file: u32) -> Language {
        Language::from_code(self.head(file)[6]).unwrap_or(Language::Text)
    }

    /// The file that a chunk belongs to: the last that starts at or before it. Files without chunks start there too, but
    /// before the one that has it.
    pub(super) fn file_of(&self, chunk: u32) -> u32 {
        let after = self.starts[..self.n_files as usize].partition_point(|start| *start <= chunk);
        u32::try_from(after.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// First key and place of a dictionary block.
    fn block_entry(&self, index: usize) -> Result<(&[u8], Place), IndexError> {
        const WHAT: &str = "dictionary";
        let (offsets, entries) = self.dictionary[8..].split_at(self.n_blocks * OFFSET_BYTES);
        let at = index * OFFSET_BYTES;
        let offset = [offsets[at], offsets[at + 1], offsets[at + 2], offsets[at + 3]];
        let entry = entries.get(u32::from_le_bytes(offset) as usize..).ok_or(corrupt(WHAT))?;
        let mut reader = Reader::new(entry, WHAT);
        Ok((reader.bytes()?, Place { offset: reader.varint()?, len: reader.varint()? }))
    }

    /// Looks a term up.
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<TermEntry>, IndexError> {
        let (mut low, mut high) = (0, self.n_blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.block_entry(middle)?.0 <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(index) = low.checked_sub(1) else { return Ok(None) };
        let mut found = None;
        self.block(index, &mut |candidate, entry| {
            if candidate == key {
                found = Some(entry.read()?);
            }
            Ok(candidate < key)
        })?;
        Ok(found)
    }

    pub(super) fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    /// Calls `each` with the terms of a dictionary block until it returns false.
    pub(super) fn block(&self, index: usize, each: &mut EachTerm<'_>) -> Result<(), IndexError> {
        const WHAT: &str = "dictionary block";
        let framed = self.read(self.block_entry(index)?.1, BLOCK_FRAME_MAX, WHAT)?;
        let mut reader = Reader::new(&framed[CHECKSUM_BYTES..], WHAT);
        let mut key = Vec::new();
        while !reader.is_empty() {
            let shared = reader.size()?;
            let suffix = reader.bytes()?;
            if shared > key.len() {
                return Err(corrupt(WHAT));
            }
            key.truncate(shared);
            key.extend_from_slice(suffix);
            let n_postings = reader.u32()?;
            let len = reader.varint()?;
            let entry = if len <= INLINE_BYTES as u64 {
                let inline = reader.take(usize::try_from(len).map_err(|_| corrupt(WHAT))?)?;
                RawEntry { n_postings, inline, place: Place::default() }
            } else {
                let place = Place { offset: reader.varint()?, len };
                RawEntry { n_postings, inline: &[], place }
            };
            if !each(&key, entry)? {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with the postings of a term.
    pub(super) fn postings(
        &self,
        entry: &TermEntry,
        each: impl FnMut(u32, u8),
    ) -> Result<(), IndexError> {
        let n = entry.n_postings;
        match &entry.bytes {
            PostingBytes::Inline(bytes) => postings::decode(bytes, n, self.n_chunks, each),
            PostingBytes::Frame(place) => {
                let framed = self.read(*place, LARGE_FRAME_MAX, "postings")?;
                postings::decode(&framed[CHECKSUM_BYTES..], n, self.n_chunks, each)
            }
        }
    }

    /// Calls `each` with the files of a block of records; the number of the first is `index * 64`.
    pub(super) fn files_in(
        &self,
        index: usize,
        each: &mut dyn FnMut(u32, FileRecord),
    ) -> Result<(), IndexError> {
        const WHAT: &str = "file block";
        let place = *self.file_blocks.get(index).ok_or(corrupt(WHAT))?;
        let framed = self.read(place, BLOCK_FRAME_MAX, WHAT)?;
        let mut reader = Reader::new(&framed[CHECKSUM_BYTES..], WHAT);
        for number in record_numbers(index, self.n_files) {
            let path = reader.str()?.to_owned();
            let (size, stamp_ns, hash) = (reader.varint()?, reader.varint()?, reader.u64()?);
            each(
                number,
                FileRecord {
                    path,
                    size,
                    stamp_ns,
                    hash,
                    first_chunk: self.first_chunk(number),
                    kind: self.kind(number),
                    language: self.language(number),
                },
            );
        }
        Ok(())
    }

    pub(super) fn n_file_blocks(&self) -> usize {
        self.file_blocks.len()
    }

    /// The path of a file.
    pub(super) fn path(&self, file: u32) -> Result<String, IndexError> {
        const WHAT: &str = "file block";
        let place = *self.file_blocks.get(file as usize / BLOCK_RECORDS).ok_or(corrupt(WHAT))?;
        let framed = self.read(place, BLOCK_FRAME_MAX, WHAT)?;
        let mut reader = Reader::new(&framed[CHECKSUM_BYTES..], WHAT);
        for _ in 0..file as usize % BLOCK_RECORDS {
            reader.bytes()?;
            reader.varint()?;
            reader.varint()?;
            reader.u64()?;
        }
        Ok(reader.str()?.to_owned())
    }

    /// Calls `each` with the chunks of a block of records.
    pub(super) fn chunks_in(
        &self,
        index: usize,
        each: &mut dyn FnMut(u32, ChunkRecord) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        const WHAT: &str = "chunk block";
        let place = *self.chunk_blocks.get(index).ok_or(corrupt(WHAT))?;
        let framed = self.read(place, BLOCK_FRAME_MAX, WHAT)?;
        let mut reader = Reader::new(&framed[CHECKSUM_BYTES..], WHAT);
        for number in record_numbers(index, self.n_chunks) {
            let (start_line, n_more) = (reader.u32()?, reader.u32()?);
            let hash = reader.u64()?;
            let symbol = reader.str()?.into();
            let end_line = start_line.saturating_add(n_more);
            each(number, ChunkRecord { start_line, end_line, hash, symbol })?;
        }
        Ok(())
    }

    pub(super) fn n_chunk_blocks(&self) -> usize {
        self.chunk_blocks.len()
    }

    pub(super) fn chunk(&self, chunk: u32) -> Result<ChunkRecord, IndexError> {
        let mut found = None;
        self.chunks_in(chunk as usize / BLOCK_RECORDS, &mut |number, record| {
            if number == chunk {
                found = Some(record);
            }
            Ok(())
        })?;
        found.ok_or(corrupt("chunk block"))
    }
}

/// Called with key and entry of a term; returns whether to go on.
type EachTerm<'a> = dyn FnMut(&[u8], RawEntry<'_>) -> Result<bool, IndexError> + 'a;

/// A term of a dictionary block, borrowed from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry<'a> {
    n_postings: u32,
    inline: &'a [u8],
    place: Place,
}

impl RawEntry<'_> {
    /// An entry that outlives the block.
    #[allow(clippy::unnecessary_wraps)] // For `?` in the callers' closures.
    pub(super) fn read(&self) -> Result<TermEntry, IndexError> {
        let bytes = if self.place == Place::default() {
            PostingBytes::Inline(self.inline.to_vec())
        } else {
            PostingBytes::Frame(self.place)
        };
        Ok(TermEntry { n_postings: self.n_postings, bytes })
    }
}

/// Reads a frame and verifies its checksum, which stays in front of the payload.
fn read_place(
    file: &File,
    file_len: u64,
    place: Place,
    len_max: usize,
    what: &'static str,
) -> Result<Vec<u8>, IndexError> {
    let end = place.offset.checked_add(place.len).ok_or(corrupt(what))?;
    let len = usize::try_from(place.len).map_err(|_| corrupt(what))?;
    if end > file_len || len > len_max || len < CHECKSUM_BYTES {
        return Err(corrupt(what));
    }
    let mut framed = vec![0; len];
    match file.read_exact_at(&mut framed, place.offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(corrupt(what)),
        other => other?,
    }
    unframe(&framed, what)?;
    Ok(framed)
}

fn read_starts(heads: &[u8], n_chunks: u32) -> Result<Vec<u32>, IndexError> {
    let first = |head: &[u8]| u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let mut starts: Vec<u32> = heads.chunks_exact(HEAD_BYTES).map(first).collect();
    starts.push(n_chunks);
    if starts.is_sorted() { Ok(starts) } else { Err(corrupt("file heads")) }
}

fn n_dictionary_blocks(dictionary: &[u8]) -> Result<usize, IndexError> {
    const WHAT: &str = "dictionary";
    let mut reader = Reader::new(dictionary, WHAT);
    let n = usize::try_from(reader.u64()?).map_err(|_| corrupt(WHAT))?;
    reader.take(n.checked_mul(OFFSET_BYTES).ok_or(corrupt(WHAT))?)?;
    Ok(n)
}

fn read_table(bytes: &[u8], n_records: u32) -> Result<Vec<Place>, IndexError> {
    const WHAT: &str = "block table";
    let mut reader = Reader::new(bytes, WHAT);
    let mut blocks = Vec::new();
    while !reader.is_empty() {
        blocks.push(Place { offset: reader.varint()?, len: reader.varint()? });
    }
    let expected = (n_records as usize).div_ceil(BLOCK_RECORDS);
    if blocks.len() == expected { Ok(blocks) } else { Err(corrupt(WHAT)) }
}

#[allow(clippy::cast_possible_truncation)] // The table's length is that of a u32 count.
fn record_numbers(block: usize, n_records: u32) -> std::ops::Range<u32> {
    let start = (block * BLOCK_RECORDS) as u32;
    start..n_records.min(start.saturating_add(BLOCK_RECORDS as u32))
}

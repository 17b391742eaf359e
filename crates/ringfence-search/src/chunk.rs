//! Cuts a file into chunks: source at its definitions, Markdown at its headings, other text at paragraphs. Opens nothing.
//! Takes linear time on any bytes: a line longer than a chunk is cut, invalid UTF-8 is replaced, binary data is refused.

mod define;
mod language;
mod syntax;

use std::borrow::Cow;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

pub use language::Language;

use crate::hash::hash64;
use define::Definer;

/// Maximum names that one chunk lists.
const SYMBOLS_MAX: usize = 48;

/// Maximum bytes of a listed name.
pub(crate) const SYMBOL_BYTES_MAX: usize = 128;

/// Bytes at the start of a file that are checked for NUL.
const SNIFF_BYTES: usize = 8 << 10;

/// Sizes of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkOptions {
    /// Bytes from which a chunk ends at the next definition, heading or paragraph.
    pub bytes_min: usize,
    /// Bytes at which a chunk ends.
    pub bytes_max: usize,
    /// Bytes that a chunk repeats of the one before it; at most half of `bytes_max`.
    pub overlap_bytes: usize,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self { bytes_min: 600, bytes_max: 1800, overlap_bytes: 0 }
    }
}

/// Lower bound of `bytes_max`: a chunk must hold a few words.
const BYTES_MAX_MIN: usize = 64;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Path of the file, as given, shared by its chunks.
    pub path: Arc<str>,
    /// First line, from 1.
    pub start_line: u32,
    /// Last line.
    pub end_line: u32,
    /// Language of the file.
    pub language: Language,
    /// Names defined in it, in order, without duplicates.
    pub symbols: Vec<String>,
    /// Hash of the text.
    pub hash: u64,
    /// The text.
    pub text: String,
}

/// Reason why a file has no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotText {
    /// A NUL byte near the start.
    Binary,
    /// More than a tenth of the start is not UTF-8.
    NotUtf8,
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Binary => "binary file",
            Self::NotUtf8 => "not UTF-8 text",
        })
    }
}

/// Decodes a file. Replaces single invalid sequences.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, NotText> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let start = &bytes[..bytes.len().min(SNIFF_BYTES)];
    if start.contains(&0) {
        return Err(NotText::Binary);
    }
    let text = String::from_utf8_lossy(bytes);
    if matches!(text, Cow::Owned(_)) {
        let n_invalid = String::from_utf8_lossy(start).matches('\u{fffd}').count();
        if n_invalid * 10 > start.len() {
            return Err(NotText::NotUtf8);
        }
    }
    Ok(text)
}

/// Cuts `text` into chunks. The language is that of the path's extension.
pub fn chunk_text(path: &str, text: &str, options: &ChunkOptions) -> Vec<Chunk> {
    let path: Arc<str> = path.into();
    let mut chunks = Vec::new();
    each_chunk(&path, text, options, |chunk| {
        chunks.push(Chunk {
            path: Arc::clone(&path),
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            language: chunk.language,
            symbols: chunk.symbols.iter().map(|name| (*name).to_owned()).collect(),
            hash: hash64(chunk.text.as_bytes()),
            text: chunk.text.to_owned(),
        });
        ControlFlow::Continue(())
    });
    chunks
}

/// A part of a file, borrowed from its text.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRef<'t, 's> {
    /// First line, from 1.
    pub start_line: u32,
    /// Last line.
    pub end_line: u32,
    /// Language of the file.
    pub language: Language,
    /// Names defined in it, in order, without duplicates.
    pub symbols: &'s [&'t str],
    /// The text.
    pub text: &'t str,
}

/// Cuts `text` as [`chunk_text`] does and calls `each` with every chunk, until it breaks. Copies nothing, so that the
/// caller bounds what it keeps.
pub fn each_chunk<'t>(
    path: &str,
    text: &'t str,
    options: &ChunkOptions,
    mut each: impl FnMut(ChunkRef<'t, '_>) -> ControlFlow<()>,
) {
    let language = Language::of_path(path, text);
    spans(text, language, options, |span| {
        each(ChunkRef {
            start_line: span.start_line,
            end_line: span.end_line,
            language,
            symbols: span.symbols,
            text: &text[span.bytes],
        })
    });
}

/// A chunk as a range of its file.
#[derive(Debug)]
pub(crate) struct Span<'t, 's> {
    pub(crate) bytes: Range<usize>,
    pub(crate) start_line: u32,
    pub(crate) end_line: u32,
    pub(crate) symbols: &'s [&'t str],
}

/// A line, or a part of a line that is too long for a chunk.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: usize,
    number: u32,
    /// Cost of a cut before this line: 0 for a definition or heading.
    cut: u8,
}

/// Cut before a definition at the top or inside one container, or before a heading.
const CUT_DEFINITION: u8 = 0;
/// Cut after an empty line, before a line without indentation.
const CUT_TOP: u8 = 1;
/// Cut after an empty line.
const CUT_PARAGRAPH: u8 = 2;
/// Cut before a line.
const CUT_LINE: u8 = 3;
/// Cut inside a line.
const CUT_INSIDE: u8 = 4;

/// Calls `each` with every chunk of `text`, in order, until it breaks.
pub(crate) fn spans<'t>(
    text: &'t str,
    language: Language,
    options: &ChunkOptions,
    mut each: impl FnMut(Span<'t, '_>) -> ControlFlow<()>,
) {
    let bytes_max = options.bytes_max.max(BYTES_MAX_MIN);
    let bytes_min = options.bytes_min.min(bytes_max);
    let overlap = options.overlap_bytes.min(bytes_max / 2);
    let mut definer = Definer::new(language);
    let mut pending =
        Pending { text, lines: Vec::new(), names: Vec::new(), symbols: Vec::new(), covered: 0 };
    let mut lead: Option<usize> = None;
    let mut after_blank = true;
    let (mut at, mut number) = (0usize, 0u32);
    while at < text.len() {
        number = number.saturating_add(1);
        let end = memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |n| at + n + 1);
        let line = &text[at..end];
        let read = definer.line(line);
        let is_blank = read.is_blank;
        let cut = match () {
            () if read.starts_definition => CUT_DEFINITION,
            () if after_blank && !is_blank && !line.starts_with([' ', '\t', '}', ')']) => CUT_TOP,
            () if after_blank && !is_blank => CUT_PARAGRAPH,
            () => CUT_LINE,
        };
        let index = pending.lines.len();
        // Comments, attributes and decorators above a definition belong to it.
        if read.starts_definition {
            if let Some(lead) = lead.take().filter(|lead| *lead < index) {
                pending.lines[lead].cut = CUT_DEFINITION;
                pending.lines.push(Line { start: at, number, cut: CUT_LINE });
            } else {
                pending.lines.push(Line { start: at, number, cut });
            }
        } else {
            pending.lines.push(Line { start: at, number, cut });
        }
        lead = match () {
            () if read.is_lead => lead.or(Some(index)),
            () => None,
        };
        if let Some(name) = read.name {
            pending.names.push((at, name));
        }
        // Chunks are emitted as soon as they are decided, so only a few lines are ever pending.
        let mut inside = at;
        loop {
            let is_last = end - inside <= bytes_max;
            let part_end = if is_last { end } else { text.floor_char_boundary(inside + bytes_max) };
            while let Some(n_lines) = pending.ready(part_end, bytes_min, bytes_max) {
                if pending.emit(n_lines, part_end, overlap, &mut each).is_break() {
                    return;
                }
                lead = None;
            }
            if is_last {
                break;
            }
            inside = part_end;
            pending.lines.push(Line { start: inside, number, cut: CUT_INSIDE });
        }
        after_blank = is_blank;
        at = end;
    }
    let n_lines = pending.lines.len();
    if n_lines > 0 {
        let _ = pending.emit(n_lines, at, 0, &mut each);
    }
}

/// Lines that belong to no chunk yet.
struct Pending<'t> {
    text: &'t str,
    lines: Vec<Line>,
    names: Vec<(usize, &'t str)>,
    symbols: Vec<&'t str>,
    /// End of the last chunk.
    covered: usize,
}

impl<'t> Pending<'t> {
    /// Returns the number of lines of the next chunk, once that is decided.
    fn ready(&mut self, end: usize, bytes_min: usize, bytes_max: usize) -> Option<usize> {
        let first = self.lines.first()?.start;
        if end - first <= bytes_max {
            return None;
        }
        let n_repeated = self.lines.partition_point(|line| line.start < self.covered);
        if n_repeated > 0
            && self.lines.get(n_repeated + 1).is_none_or(|line| line.start - first > bytes_max)
        {
            // The next line does not fit behind the repeated ones.
            self.lines.drain(..n_repeated);
            return self.ready(end, bytes_min, bytes_max);
        }
        // The best cut that leaves at least `bytes_min`, and of equal ones the last; else the last that fits.
        let mut best: Option<(u8, usize)> = None;
        for (index, line) in self.lines.iter().enumerate().skip(n_repeated.max(1)) {
            if line.start <= self.covered {
                continue;
            }
            let size = line.start - first;
            if size > bytes_max {
                break;
            }
            let better = best.is_none_or(|(cut, _)| line.cut <= cut);
            if size >= bytes_min && better || best.is_none_or(|(cut, _)| cut == u8::MAX) {
                best = Some((if size >= bytes_min { line.cut } else { u8::MAX }, index));
            }
        }
        Some(best.map_or(1, |(_, index)| index))
    }

    fn emit(
        &mut self,
        n_lines: usize,
        end: usize,
        overlap: usize,
        each: &mut impl FnMut(Span<'t, '_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let start = self.lines[0].start;
        let stop = self.lines.get(n_lines).map_or(end, |line| line.start);
        self.symbols.clear();
        for (_, name) in self.names.iter().filter(|(at, _)| *at < stop) {
            if self.symbols.len() < SYMBOLS_MAX && !self.symbols.contains(name) {
                self.symbols.push(name);
            }
        }
        if !self.text[start..stop].trim().is_empty() {
            each(Span {
                bytes: start..stop,
                start_line: self.lines[0].number,
                end_line: self.lines[n_lines - 1].number,
                symbols: &self.symbols,
            })?;
        }
        self.covered = stop;
        // At least one line goes, so that every step makes the rest shorter.
        let keep_from = stop.saturating_sub(overlap);
        let n_gone = if overlap > 0 && n_lines < self.lines.len() {
            self.lines[1..n_lines].partition_point(|line| line.start < keep_from) + 1
        } else {
            n_lines
        };
        self.lines.drain(..n_gone);
        let kept = self.lines.first().map_or(end, |line| line.start);
        self.names.retain(|(at, _)| *at >= kept);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;

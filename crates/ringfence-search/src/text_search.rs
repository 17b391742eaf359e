//! Searches one text within bounds, line by line.

use std::collections::VecDeque;
use std::io::{self, Read};

use grep_matcher::Matcher as _;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use crate::grep::{Bounds, FileMatches, Match, Report, Watch};
use crate::multiline::{self, Outcome};
use crate::pattern::{Pattern, Select};
use crate::pieces::Pieces;
use crate::window;

/// Lines held at once besides those before a match: itself, and what was read behind it.
const LINES_HELD: usize = 11;

/// Selected lines between two looks at the clock.
const LINES_BETWEEN_LOOKS: u64 = 64;

/// Buffer for lines that are short.
const BUFFER_BYTES: usize = 64 << 10;

/// Searches one text after another on one thread.
#[derive(Debug)]
pub struct TextSearch {
    pub(crate) pattern: Pattern,
    pub(crate) bounds: Bounds,
    pub(crate) report: Report,
    pub(crate) watch: Watch,
    searcher: Searcher,
    /// The text, if matches may span lines; else the piece of it that was read ahead.
    buffer: Vec<u8>,
}

/// Result of one text.
#[derive(Debug, Default)]
pub struct TextFound {
    pub(crate) matches: Vec<Match>,
    pub(crate) file: Option<FileMatches>,
    pub(crate) n_bytes: u64,
    /// Not all of it was searched.
    pub(crate) is_partial: bool,
    /// There are more matches than were asked for.
    pub(crate) has_more: bool,
    /// The time of the search is over.
    pub(crate) is_over: bool,
}

impl TextFound {
    /// Returns true if the texts behind this one need not be searched.
    pub fn is_last(&self) -> bool {
        self.has_more || self.is_over
    }

    /// Bytes that were read.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Number of matches.
    pub fn n_matches(&self) -> usize {
        self.matches.len()
    }
}

impl TextSearch {
    pub(crate) fn new(pattern: Pattern, bounds: Bounds, report: Report, watch: Watch) -> Self {
        // Without lines there is nothing around them.
        let (before, after) = match report {
            Report::Lines => (bounds.context.before, bounds.context.after),
            Report::Files | Report::Counts => (0, 0),
        };
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .before_context(before)
            .after_context(after)
            .heap_limit(Some(BUFFER_BYTES + (LINES_HELD + before) * pattern.line_bytes_max))
            .invert_match(pattern.style.select == Select::NonMatching)
            .line_number(report == Report::Lines)
            .build();
        Self { pattern, bounds, report, watch, searcher, buffer: Vec::new() }
    }

    /// Returns a search for another thread, with buffers of its own.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(self.pattern.clone(), self.bounds, self.report, self.watch.clone())
    }

    /// Returns true if the time of the search is over.
    pub fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    /// Searches a text for up to `matches_max` matches, and no more than `bytes_left` bytes of it.
    pub fn text(
        &mut self,
        path: &str,
        from: impl Read,
        matches_max: usize,
        bytes_left: u64,
    ) -> TextFound {
        let bytes_max = self.bounds.text_bytes_max.min(bytes_left);
        let mut from = from.take(bytes_max);
        let mut lines = Lines {
            path,
            pattern: &self.pattern,
            bounds: self.bounds,
            report: self.report,
            matches_max,
            watch: &self.watch,
            before: VecDeque::new(),
            n_selected: 0,
            found: TextFound::default(),
        };
        let (outcome, n_left) = if self.pattern.style.multiline {
            multiline::search(&mut lines, &mut self.buffer, from)
        } else {
            let ahead = ReadAhead::new(&mut from, &mut self.buffer);
            let mut reader = Pieces::new(ahead, self.pattern.line_bytes_max, self.watch.clone());
            let searched =
                self.searcher.search_reader(&self.pattern.matcher, &mut reader, &mut lines);
            let outcome = match searched {
                Ok(()) if reader.shortened => Outcome::Partial,
                Ok(()) => Outcome::Whole,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Outcome::TimeOver,
                Err(_) => Outcome::Partial,
            };
            (outcome, from.limit())
        };
        let mut found = lines.finish();
        found.n_bytes = bytes_max - n_left;
        found.is_partial |= outcome == Outcome::Partial;
        found.is_over = outcome == Outcome::TimeOver;
        found
    }
}

/// Serves small reads from a buffer. The searcher first reads three bytes, to tell the encoding by them: most files are
/// read by one system call less.
struct ReadAhead<'b, R> {
    from: R,
    buffer: &'b mut Vec<u8>,
    at: usize,
    end: usize,
}

impl<'b, R: Read> ReadAhead<'b, R> {
    fn new(from: R, buffer: &'b mut Vec<u8>) -> Self {
        // Once: zeroing it for every file takes time.
        buffer.resize(BUFFER_BYTES, 0);
        Self { from, buffer, at: 0, end: 0 }
    }
}

impl<R: Read> Read for ReadAhead<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.end {
            if into.len() >= BUFFER_BYTES / 4 {
                return self.from.read(into);
            }
            (self.at, self.end) = (0, 0);
            self.end = self.from.read(self.buffer)?;
        }
        let n = into.len().min(self.end - self.at);
        into[..n].copy_from_slice(&self.buffer[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Collects the selected lines of a text, and those around them.
pub(crate) struct Lines<'a> {
    pub(crate) path: &'a str,
    pub(crate) pattern: &'a Pattern,
    pub(crate) bounds: Bounds,
    pub(crate) report: Report,
    pub(crate) watch: &'a Watch,
    matches_max: usize,
    before: VecDeque<String>,
    n_selected: u64,
    found: TextFound,
}

impl Lines<'_> {
    fn finish(mut self) -> TextFound {
        if self.report != Report::Lines && self.n_selected > 0 {
            let count = (self.report == Report::Counts).then_some(self.n_selected);
            self.found.file = Some(FileMatches { path: self.path.to_owned(), count });
        }
        self.found
    }

    /// Counts a selected line. Returns true if it is also to be kept, false if it is the last that is needed, and none
    /// if the search goes on without it.
    pub(crate) fn select(&mut self) -> Option<bool> {
        self.n_selected += 1;
        match self.report {
            Report::Counts => None,
            Report::Files => Some(false),
            Report::Lines if self.found.matches.len() >= self.matches_max => {
                self.found.has_more = true;
                Some(false)
            }
            Report::Lines => Some(true),
        }
    }

    /// Keeps a match.
    pub(crate) fn push(&mut self, hit: Match) {
        self.found.matches.push(hit);
    }

    /// Cuts a line to its width.
    pub(crate) fn cut_line(&self, bytes: &[u8]) -> String {
        // A character takes 4 bytes at most: no more are looked at of a line that is a whole file.
        let bytes = &bytes[..bytes.len().min(4 * (self.bounds.line_chars_max + 2))];
        window::around(&as_text(bytes), &(0..0), self.bounds.line_chars_max)
    }

    /// Returns the part of a line around `at`, and the character at which that begins, from 1.
    pub(crate) fn cut_around(&self, bytes: &[u8], at: std::ops::Range<usize>) -> (String, u64) {
        let at = at.start.min(bytes.len())..at.end.min(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..at.start]);
        let hit = String::from_utf8_lossy(&bytes[at]);
        let line = as_text(bytes);
        let range = head.len()..(head.len() + hit.len()).min(line.len());
        let range = if line.get(range.clone()).is_some() { range } else { 0..0 };
        let column = head.chars().count() as u64 + 1;
        (window::around(&line, &range, self.bounds.line_chars_max), column)
    }

    /// Adds a line to the matches before it that still lack some behind them.
    fn follow(&mut self, line: &str) {
        let n = self.bounds.context.after;
        for hit in self.found.matches.iter_mut().rev().take(n) {
            if hit.after.len() < n {
                hit.after.push(line.to_owned());
            }
        }
    }

    /// Keeps a line for the matches behind it.
    fn precede(&mut self, line: String) {
        self.before.push_back(line);
        while self.before.len() > self.bounds.context.before {
            self.before.pop_front();
        }
    }
}

/// A line as text, without its end.
fn as_text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        // Not at every line: to read the clock takes as long as to match a short one.
        if self.n_selected.is_multiple_of(LINES_BETWEEN_LOOKS) && self.watch.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let Some(is_kept) = self.select() else { return Ok(true) };
        if self.report != Report::Lines {
            return Ok(is_kept);
        }
        let bytes = found.bytes();
        if !is_kept {
            let text = self.cut_line(bytes);
            self.follow(&text);
            return Ok(false);
        }
        let at = self.pattern.matcher.find(bytes).ok().flatten();
        let at = at.map_or(0..0, |at| at.start()..at.end());
        let (text, column) = self.cut_around(bytes, at);
        self.follow(&text);
        let before = self.before.iter().cloned().collect();
        if !self.bounds.context.is_none() {
            self.precede(text.clone());
        }
        self.found.matches.push(Match {
            path: self.path.to_owned(),
            line: found.line_number().unwrap_or(0),
            column,
            before,
            after: Vec::new(),
            text,
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let line = self.cut_line(context.bytes());
        if *context.kind() == SinkContextKind::After {
            self.follow(&line);
        }
        self.precede(line);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.before.clear();
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.found.is_partial = true;
        Ok(false)
    }
}

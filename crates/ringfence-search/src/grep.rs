//! Goes through texts line by line and keeps what matches, until it has enough of anything: matches, bytes or time. Looks at
//! the clock often enough to keep it: a pattern sees no more at a time than it gets through in a part of a second.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use grep_matcher::Matcher as _;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use serde::Serialize;

use crate::pattern::Pattern;
use crate::pieces::Pieces;
use crate::window;

/// Lines that are held at once: those around a match, itself, and what was read behind it.
const LINES_HELD: usize = 16;

/// What is held of lines that are short.
const BUFFER_BYTES: usize = 64 << 10;

/// How much is searched and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Lines that match.
    pub matches_max: usize,
    /// Lines before and after each.
    pub context_lines: usize,
    /// Characters of a line.
    pub line_chars_max: usize,
    /// Bytes of one text; a longer one is searched up to here.
    pub text_bytes_max: u64,
    /// Bytes of all texts.
    pub total_bytes_max: u64,
    /// Time for all of it.
    pub time_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            matches_max: 20,
            context_lines: 0,
            line_chars_max: 100,
            text_bytes_max: 10 << 20,
            total_bytes_max: 1 << 30,
            time_max: Duration::from_secs(10),
        }
    }
}

/// Lines that match, at most, whoever asks.
const MATCHES_MAX: usize = 200;

/// Lines before and after each, at most.
const CONTEXT_MAX: usize = 5;

impl Bounds {
    /// What somebody may ask for, who is not trusted with more.
    pub fn asked(matches: Option<usize>, context_lines: Option<usize>) -> Self {
        let usual = Self::default();
        Self {
            matches_max: matches.unwrap_or(usual.matches_max).clamp(1, MATCHES_MAX),
            context_lines: context_lines.unwrap_or(0).min(CONTEXT_MAX),
            ..usual
        }
    }
}

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The text it is in.
    pub path: String,
    /// Its number, from 1.
    pub line: u64,
    /// The character at which the first match in it begins, from 1.
    pub column: u64,
    /// The line, or a part of it around the match.
    pub text: String,
    /// Lines before it.
    pub before: Vec<String>,
    /// Lines after it.
    pub after: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Lines that match, in the order they were met.
    pub matches: Vec<Match>,
    /// Texts that were searched.
    pub n_files: u64,
    /// Texts that are none, which were searched up to there, or have lines too long to search, of which the beginning was.
    pub n_skipped: u64,
    /// The bound that ended the search before everything was searched.
    pub cut: Option<Cut>,
}

/// Matches as grep prints them.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for hit in &self.matches {
            let first = hit.line.saturating_sub(hit.before.len() as u64);
            for (line, before) in (first..).zip(&hit.before) {
                writeln!(f, "{}-{line}-{before}", hit.path)?;
            }
            writeln!(f, "{}:{}:{}", hit.path, hit.line, hit.text)?;
            for (line, after) in (hit.line + 1..).zip(&hit.after) {
                writeln!(f, "{}-{line}-{after}", hit.path)?;
            }
        }
        Ok(())
    }
}

/// A bound that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Enough matches.
    Matches,
    /// Enough bytes.
    Bytes,
    /// Enough time, or nobody waits for it any more.
    Time,
}

/// How long a search may go on.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    until: Instant,
    stop: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

/// A search on its way.
#[derive(Debug)]
pub struct Grep {
    pattern: Pattern,
    bounds: Bounds,
    searcher: Searcher,
    watch: Watch,
    bytes_left: u64,
    found: Found,
}

impl Grep {
    /// Begins one; its time starts now.
    pub fn new(pattern: Pattern, bounds: Bounds) -> Self {
        Self::unless(pattern, bounds, Arc::default())
    }

    /// Begins one that ends when `stop` is set, as if its time were over.
    pub fn unless(pattern: Pattern, bounds: Bounds, stop: Arc<AtomicBool>) -> Self {
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .before_context(bounds.context_lines)
            .after_context(bounds.context_lines)
            .heap_limit(Some(BUFFER_BYTES + LINES_HELD * pattern.line_bytes_max))
            .line_number(true)
            .build();
        let watch = Watch { until: Instant::now() + bounds.time_max, stop };
        let bytes_left = bounds.total_bytes_max;
        Self { pattern, bounds, searcher, watch, bytes_left, found: Found::default() }
    }

    /// Whether a bound was met, so that more texts would not be searched. Looks at the clock too: for those who have much to
    /// do between texts.
    pub fn is_over(&mut self) -> bool {
        if self.found.cut.is_none() && self.watch.is_over() {
            self.found.cut = Some(Cut::Time);
        }
        self.found.cut.is_some()
    }

    /// Searches one text.
    pub fn text(&mut self, path: &str, from: impl Read) {
        if self.is_over() {
            return;
        }
        self.found.n_files += 1;
        let bytes_max = self.bounds.text_bytes_max.min(self.bytes_left);
        let watch = self.watch.clone();
        let mut reader = Pieces::new(from.take(bytes_max), self.pattern.line_bytes_max, watch);
        let mut sink = Lines {
            path,
            pattern: &self.pattern,
            bounds: self.bounds,
            watch: &self.watch,
            before: VecDeque::new(),
            found: &mut self.found,
        };
        let searched = self.searcher.search_reader(&self.pattern.matcher, &mut reader, &mut sink);
        self.bytes_left -= bytes_max - reader.from.limit();
        if self.bytes_left == 0 && self.found.cut.is_none() {
            self.found.cut = Some(Cut::Bytes);
        }
        match searched {
            Ok(()) => self.found.n_skipped += u64::from(reader.shortened),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.found.cut = Some(Cut::Time);
            }
            Err(_) => self.found.n_skipped += 1,
        }
    }

    /// What was found.
    pub fn finish(self) -> Found {
        self.found
    }
}

/// Takes the lines that match, and those around them.
struct Lines<'a> {
    path: &'a str,
    pattern: &'a Pattern,
    bounds: Bounds,
    watch: &'a Watch,
    before: VecDeque<String>,
    found: &'a mut Found,
}

impl Lines<'_> {
    /// A line as text, without its end.
    fn line(bytes: &[u8]) -> String {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn cut_line(&self, bytes: &[u8]) -> String {
        window::around(&Self::line(bytes), &(0..0), self.bounds.line_chars_max)
    }

    /// Gives a line to the matches before it that still lack some behind them.
    fn follow(&mut self, line: &str) {
        let n = self.bounds.context_lines;
        if let Some(last) = self.found.matches.last_mut()
            && last.path == self.path
            && last.after.len() < n
        {
            last.after.push(line.to_owned());
        }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.watch.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.found.matches.len() >= self.bounds.matches_max {
            self.found.cut = Some(Cut::Matches);
            return Ok(false);
        }
        let bytes = found.bytes();
        let at = self.pattern.matcher.find(bytes).ok().flatten();
        let at = at.map_or(0..0, |at| at.start()..at.end());
        let head = String::from_utf8_lossy(&bytes[..at.start]).into_owned();
        let hit = String::from_utf8_lossy(&bytes[at.start..at.end]);
        let line = Self::line(bytes);
        let range = head.len()..(head.len() + hit.len()).min(line.len());
        let range = if line.get(range.clone()).is_some() { range } else { 0..0 };
        let text = window::around(&line, &range, self.bounds.line_chars_max);
        self.follow(&text);
        self.found.matches.push(Match {
            path: self.path.to_owned(),
            line: found.line_number().unwrap_or(0),
            column: head.chars().count() as u64 + 1,
            before: self.before.drain(..).collect(),
            after: Vec::new(),
            text: text.clone(),
        });
        if self.bounds.context_lines > 0 {
            self.before.push_back(text);
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let line = self.cut_line(context.bytes());
        if *context.kind() == SinkContextKind::After {
            self.follow(&line);
        }
        self.before.push_back(line);
        while self.before.len() > self.bounds.context_lines {
            self.before.pop_front();
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.before.clear();
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.found.n_skipped += 1;
        Ok(false)
    }
}

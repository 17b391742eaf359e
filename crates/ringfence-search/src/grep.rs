//! Searches texts, line by line or across lines, until a bound is met: matches, bytes or time. Never opens a file; the
//! caller does. Texts may be searched on several threads, each with a [`TextSearch`] of its own, and are added in order.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::pattern::Pattern;
use crate::text_search::{TextFound, TextSearch};

/// Bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Matches; files, if files are reported.
    pub matches_max: usize,
    /// Lines around each match.
    pub context: Context,
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
            matches_max: MATCHES_USUAL,
            context: Context::default(),
            line_chars_max: 100,
            text_bytes_max: 10 << 20,
            total_bytes_max: 1 << 30,
            time_max: Duration::from_secs(10),
        }
    }
}

/// Matches of a request that asks for no number.
pub const MATCHES_USUAL: usize = 20;

/// Maximum matches that a request may ask for.
pub const MATCHES_MAX: usize = 200;

/// Maximum lines before and after each match that a request may ask for.
const CONTEXT_MAX: usize = 30;

impl Bounds {
    /// Bounds for a request, within the maximum.
    pub fn asked(matches: Option<usize>, context: Context) -> Self {
        let usual = Self::default();
        Self {
            matches_max: matches.unwrap_or(usual.matches_max).clamp(1, MATCHES_MAX),
            context: Context {
                before: context.before.min(CONTEXT_MAX),
                after: context.after.min(CONTEXT_MAX),
            },
            ..usual
        }
    }
}

/// Lines around a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Lines before it.
    pub before: usize,
    /// Lines after it.
    pub after: usize,
}

impl Context {
    /// As the options of grep say: `-C` is for both sides, `-B` and `-A` for one.
    pub fn asked(around: Option<usize>, before: Option<usize>, after: Option<usize>) -> Self {
        let either = |side: Option<usize>| side.or(around).unwrap_or(0);
        Self { before: either(before), after: either(after) }
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Result that a search is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// Lines.
    #[default]
    Lines,
    /// Files with a selected line. Each is searched up to that line.
    Files,
    /// Number of selected lines of each file; of matches, if they may span lines.
    Counts,
}

impl Report {
    /// As the options of grep say: `-l` and `-c`. Names of files are enough if both are given.
    pub fn asked(files: bool, counts: bool) -> Self {
        match (files, counts) {
            (true, _) => Self::Files,
            (false, true) => Self::Counts,
            (false, false) => Self::Lines,
        }
    }
}

/// A line that matches, or lines that a match spans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Path of the text.
    pub path: String,
    /// Number of the first line, from 1.
    pub line: u64,
    /// Character at which the match begins, from 1.
    pub column: u64,
    /// The line, or the part of it around the match. Several lines are separated by `\n`.
    pub text: String,
    /// Lines before it.
    pub before: Vec<String>,
    /// Lines after it.
    pub after: Vec<String>,
}

/// A file with selected lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileMatches {
    /// Path of the text.
    pub path: String,
    /// Number of selected lines, if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Matches in order.
    pub matches: Vec<Match>,
    /// Files in order, if files or counts were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileMatches>,
    /// Texts that were searched.
    pub n_files: u64,
    /// Texts that were searched in part: up to a NUL byte, or without the ends of lines that are too long.
    pub n_skipped: u64,
    /// The bound that ended the search before everything was searched.
    pub cut: Option<Cut>,
}

impl Found {
    /// Returns true if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.matches.is_empty() && self.files.is_empty()
    }
}

/// Formats as grep does. A line that is context of two matches is shown once.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            match file.count {
                Some(count) => writeln!(f, "{}:{count}", file.path)?,
                None => writeln!(f, "{}", file.path)?,
            }
        }
        let has_context = |hit: &Match| !hit.before.is_empty() || !hit.after.is_empty();
        let has_context = self.matches.iter().any(has_context);
        // The next line of the path that was not shown yet.
        let mut shown: Option<(&str, u64)> = None;
        for (n, hit) in self.matches.iter().enumerate() {
            let path = &hit.path;
            let next =
                shown.filter(|(shown_path, _)| shown_path == path).map_or(0, |(_, next)| next);
            let first = hit.line.saturating_sub(hit.before.len() as u64);
            if has_context && shown.is_some() && (next == 0 || first > next) {
                writeln!(f, "--")?;
            }
            for (line, before) in (first..).zip(&hit.before).filter(|(line, _)| *line >= next) {
                writeln!(f, "{path}-{line}-{before}")?;
            }
            let mut last = hit.line;
            for (line, text) in (hit.line..).zip(hit.text.split('\n')) {
                writeln!(f, "{path}:{line}:{text}")?;
                last = line;
            }
            // The next match is shown as one.
            let following = self.matches.get(n + 1).filter(|following| following.path == *path);
            let end = following.map_or(u64::MAX, |following| following.line);
            for (line, after) in (last + 1..end).zip(&hit.after) {
                writeln!(f, "{path}-{line}-{after}")?;
                last = line;
            }
            shown = Some((path, last + 1));
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
    /// Out of time, or cancelled.
    Time,
}

/// End of a search: a deadline and a flag.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    until: Instant,
    stop: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn new(until: Instant, stop: Arc<AtomicBool>) -> Self {
        Self { until, stop }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

/// A search in progress.
#[derive(Debug)]
pub struct Grep {
    search: TextSearch,
    bytes_left: u64,
    found: Found,
}

impl Grep {
    /// Begins a search; its time starts now.
    pub fn new(pattern: Pattern, bounds: Bounds, report: Report) -> Self {
        Self::unless(pattern, bounds, report, Arc::default())
    }

    /// Begins a search that also ends when `stop` is set.
    pub fn unless(pattern: Pattern, bounds: Bounds, report: Report, stop: Arc<AtomicBool>) -> Self {
        let watch = Watch::new(Instant::now() + bounds.time_max, stop);
        Self {
            search: TextSearch::new(pattern, bounds, report, watch),
            bytes_left: bounds.total_bytes_max,
            found: Found::default(),
        }
    }

    /// Returns true if a bound was met, so that no more texts are searched. Checks the clock.
    pub fn is_over(&mut self) -> bool {
        if self.found.cut.is_none() && self.search.watch.is_over() {
            self.found.cut = Some(Cut::Time);
        }
        self.found.cut.is_some()
    }

    /// Searches one text.
    pub fn text(&mut self, path: &str, from: impl Read) {
        if self.is_over() {
            return;
        }
        let n_found = self.found.matches.len() + self.found.files.len();
        let matches_max = self.search.bounds.matches_max.saturating_sub(n_found);
        let found = self.search.text(path, from, matches_max, self.bytes_left);
        self.add(found);
    }

    /// Returns a search for another thread, with buffers of its own. What it finds is passed to [`Grep::add`].
    pub fn text_search(&self) -> TextSearch {
        self.search.again()
    }

    /// Adds what was found in the next text. Does nothing once a bound was met.
    pub fn add(&mut self, text: TextFound) {
        if self.found.cut.is_some() {
            return;
        }
        let found = &mut self.found;
        found.n_files += 1;
        found.n_skipped += u64::from(text.is_partial);
        found.matches.extend(text.matches);
        found.files.extend(text.file);
        let matches_max = self.search.bounds.matches_max;
        let has_more = found.matches.len() > matches_max || found.files.len() > matches_max;
        found.matches.truncate(matches_max);
        found.files.truncate(matches_max);
        self.bytes_left = self.bytes_left.saturating_sub(text.n_bytes);
        found.cut = if text.is_over {
            Some(Cut::Time)
        } else if text.has_more || has_more {
            Some(Cut::Matches)
        } else {
            (self.bytes_left == 0).then_some(Cut::Bytes)
        };
    }

    /// Returns true if a bound was met. Does not check the clock.
    pub fn has_ended(&self) -> bool {
        self.found.cut.is_some()
    }

    /// Bytes that are still searched.
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Ends the search.
    pub fn finish(self) -> Found {
        self.found
    }
}

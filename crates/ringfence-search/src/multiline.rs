//! Searches a text for matches that may span lines. A pattern sees a window of the text at a time, with a check of the
//! clock before each; a match as long as half a window is always found. A text that takes too long is given up: after a
//! match the rest of a window is searched again, which is more than linear for patterns such as `(?s)a(?:.*b)?`.

use std::io::{Read, Take};
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use grep_matcher::Matcher as _;
use memchr::{memchr, memchr_iter, memrchr};

use crate::grep::{Match, Report, Watch};
use crate::pattern::{Pattern, Select};
use crate::text_search::Lines;

/// Time for one text.
const TEXT_TIME_MAX: Duration = Duration::from_secs(1);

/// Lines of one match that are shown.
const SHOWN_LINES_MAX: usize = 20;

/// Bytes read at once.
const READ_BYTES: u64 = 256 << 10;

/// End of the search of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it was searched, or as much as was needed.
    Whole,
    /// A part was not searched.
    Partial,
    /// The time of the whole search is over.
    TimeOver,
}

/// Searches a text, and returns the part of its limit that was not read.
pub(crate) fn search(
    lines: &mut Lines<'_>,
    buffer: &mut Vec<u8>,
    mut from: Take<impl Read>,
) -> (Outcome, u64) {
    buffer.clear();
    loop {
        if lines.watch.is_over() {
            return (Outcome::TimeOver, from.limit());
        }
        match from.by_ref().take(READ_BYTES).read_to_end(buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return (Outcome::Partial, from.limit()),
        }
    }
    let whole = buffer.as_slice();
    let n = memchr(0, whole).unwrap_or(whole.len());
    let text = whole[..n].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&whole[..n]);
    let mut selection = Selection { text, lines, line: 1, counted: 0, behind: 0, pending: None };
    let (pattern, watch) = (selection.lines.pattern, selection.lines.watch);
    let outcome = match each_match(text, pattern, watch, |at| selection.add(&at)) {
        Outcome::Whole if !selection.finish() || n == whole.len() => Outcome::Whole,
        Outcome::Whole => Outcome::Partial,
        other => other,
    };
    (outcome, from.limit())
}

/// Calls `each` with the matches in a text, in order.
fn each_match(
    text: &[u8],
    pattern: &Pattern,
    watch: &Watch,
    mut each: impl FnMut(Range<usize>) -> ControlFlow<()>,
) -> Outcome {
    let window = pattern.line_bytes_max.max(2);
    let until = Instant::now() + TEXT_TIME_MAX;
    let (mut at, mut end) = (0, 0);
    while at <= text.len() {
        if watch.is_over() {
            return Outcome::TimeOver;
        }
        if Instant::now() >= until {
            return Outcome::Partial;
        }
        // After a match the window stays while half of it is left: its end takes time to find.
        if end < text.len() && end.saturating_sub(at) < window / 2 {
            end = window_end(text, at, window);
        }
        let is_last = end == text.len();
        match pattern.matcher.find_at(&text[..end], at).ok().flatten() {
            // At the end of a window it may only be the beginning of a match, or none: `$` matches there.
            Some(found) if found.end() == end && !is_last && found.start() > at => {
                at = found.start();
                end = 0;
            }
            Some(found) => {
                if each(found.start()..found.end()).is_break() {
                    return Outcome::Whole;
                }
                at = found.end() + usize::from(found.start() == found.end());
            }
            None if is_last => break,
            None => {
                at = end - window / 2;
                end = 0;
            }
        }
    }
    Outcome::Whole
}

/// Ends a window behind a line, if that leaves more than half of it.
fn window_end(text: &[u8], at: usize, window: usize) -> usize {
    let end = at.saturating_add(window);
    if end >= text.len() {
        return text.len();
    }
    let half = at + window / 2;
    memrchr(b'\n', &text[half..end]).map_or(end, |newline| half + newline + 1)
}

/// Turns matches into selected lines.
struct Selection<'t, 'l, 'a> {
    text: &'t [u8],
    lines: &'l mut Lines<'a>,
    /// Number of the line at `counted`.
    line: u64,
    counted: usize,
    /// Start of the lines behind the last match, if lines without a match are selected.
    behind: usize,
    /// Lines of the last matches, and the first of those; it grows while matches share a line.
    pending: Option<(Range<usize>, Range<usize>)>,
}

impl Selection<'_, '_, '_> {
    fn add(&mut self, at: &Range<usize>) -> ControlFlow<()> {
        let text = self.text;
        // Behind the last line end is no line.
        if at.start == text.len() && text.last().is_none_or(|byte| *byte == b'\n') {
            return ControlFlow::Continue(());
        }
        if self.lines.report == Report::Counts
            && self.lines.pattern.style.select == Select::Matching
        {
            self.lines.select();
            return ControlFlow::Continue(());
        }
        let last = at.end.saturating_sub(1).max(at.start);
        match &mut self.pending {
            // Before ends of lines are looked for: all matches may be on one line.
            Some((span, _)) if at.start < span.end || span.end == text.len() => {
                if last >= span.end && last < text.len() {
                    span.end = line_end(text, last);
                }
                ControlFlow::Continue(())
            }
            pending => {
                let start = memrchr(b'\n', &text[..at.start]).map_or(0, |newline| newline + 1);
                match pending.replace((start..line_end(text, last), at.clone())) {
                    Some((span, first)) => self.group(&span, &first),
                    None => ControlFlow::Continue(()),
                }
            }
        }
    }

    /// Handles what is left at the end of the text. Returns false if the search had ended before.
    fn finish(&mut self) -> bool {
        if let Some((span, first)) = self.pending.take()
            && self.group(&span, &first).is_break()
        {
            return false;
        }
        self.lines.pattern.style.select == Select::Matching
            || self.lines_until(self.text.len()).is_continue()
    }

    fn group(&mut self, span: &Range<usize>, first: &Range<usize>) -> ControlFlow<()> {
        match self.lines.pattern.style.select {
            Select::Matching => self.select(span, first),
            Select::NonMatching => {
                self.lines_until(span.start)?;
                self.behind = span.end;
                ControlFlow::Continue(())
            }
        }
    }

    /// Selects the lines up to `end`, which no match touches.
    fn lines_until(&mut self, end: usize) -> ControlFlow<()> {
        while self.behind < end {
            if self.lines.watch.is_over() {
                return ControlFlow::Break(());
            }
            let span = self.behind..line_end(self.text, self.behind);
            self.behind = span.end;
            self.select(&span, &(span.start..span.start))?;
        }
        ControlFlow::Continue(())
    }

    fn select(&mut self, span: &Range<usize>, first: &Range<usize>) -> ControlFlow<()> {
        match self.lines.select() {
            None => return ControlFlow::Continue(()),
            Some(false) => return ControlFlow::Break(()),
            Some(true) => {}
        }
        let text = self.text;
        self.line += memchr_iter(b'\n', &text[self.counted..span.start]).count() as u64;
        self.counted = span.start;
        let first_end = line_end(text, span.start);
        let at = first.start - span.start..first.end.min(first_end) - span.start;
        let (mut shown, column) = self.lines.cut_around(&text[span.start..first_end], at);
        let mut rest = first_end;
        for n in 1.. {
            if rest >= span.end {
                break;
            }
            if n == SHOWN_LINES_MAX {
                shown.push_str("\n…");
                break;
            }
            let end = line_end(text, rest);
            shown.push('\n');
            shown.push_str(&self.lines.cut_line(&text[rest..end]));
            rest = end;
        }
        let context = self.lines.bounds.context;
        let mut before = Vec::new();
        let mut start = span.start;
        while start > 0 && before.len() < context.before {
            let end = start;
            start = memrchr(b'\n', &text[..end - 1]).map_or(0, |newline| newline + 1);
            before.push(self.lines.cut_line(&text[start..end]));
        }
        before.reverse();
        let mut after = Vec::new();
        let mut start = span.end;
        while start < text.len() && after.len() < context.after {
            let end = line_end(text, start);
            after.push(self.lines.cut_line(&text[start..end]));
            start = end;
        }
        let path = self.lines.path.to_owned();
        self.lines.push(Match { path, line: self.line, column, text: shown, before, after });
        ControlFlow::Continue(())
    }
}

/// Position behind the line that `at` is in.
fn line_end(text: &[u8], at: usize) -> usize {
    memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline + 1)
}

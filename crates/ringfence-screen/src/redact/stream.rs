//! Redacts a stream as it is written: secrets split across writes are found. Text is passed on at line ends, as soon as no
//! secret can reach across; a line that does not end is passed on in pieces.
//!
//! The result does not depend on how the stream is cut. It is that of redacting the whole, but for a line or a block of
//! more than 64 KiB, and for text that the caller did not want to wait for ([`StreamRedactor::settle`],
//! [`StreamRedactor::release`]).

use std::borrow::Cow;

use super::chars::Class;
use super::prefix_matcher::{self, RULES};
use super::{PASSES_MAX, ScanResult, Span, merge, replace, scan};

/// Maximum number of bytes held back. More than the longest private key that is replaced, 32 KiB.
pub(super) const HELD_BYTES_MAX: usize = 64 << 10;

/// Bytes that stay behind when a piece of an endless line is passed on: more than any secret has that is not a run.
const KEPT_BYTES: usize = 8 << 10;

/// Redacts a stream of bytes. Holds back at most 64 KiB.
///
/// ```
/// let mut stream = ringfence_screen::redact::StreamRedactor::new();
/// let mut shown = stream.push(b"db=postgres://app:s3c");
/// shown.extend(stream.push(b"r3t@db/prod\nnext"));
/// assert_eq!(shown, b"db=postgres://app:[redacted:url-password]@db/prod\n");
/// assert_eq!(stream.finish(), b"next");
/// ```
#[derive(Clone, Debug, Default)]
pub struct StreamRedactor {
    held: Vec<u8>,
    /// Bytes of `held` at the last search that passed nothing on. The next one waits until a part more has come, which
    /// keeps the time linear.
    searched: usize,
    /// Drops the rest of a secret whose beginning has been replaced.
    swallowing: bool,
}

impl StreamRedactor {
    /// A redactor with every rule, at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream. Returns the text that can be shown by now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.swallowing {
                let n = rest.iter().take_while(|b| Class::Bare.has(**b)).count();
                self.swallowing = n == rest.len();
                rest = &rest[n..];
                continue;
            }
            let n = rest.len().min(HELD_BYTES_MAX - self.held.len());
            let (now, later) = rest.split_at(n);
            self.held.extend_from_slice(now);
            rest = later;
            let full = self.held.len() == HELD_BYTES_MAX;
            let due = now.contains(&b'\n') && self.held.len() >= self.searched + self.searched / 8;
            if full || due {
                self.pass_on(full, &mut out);
            }
        }
        out
    }

    /// Ends the stream. Returns the rest of the text.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let n = self.held.len();
        self.emit(n, scan(&self.held).spans, &mut out);
        *self = Self::default();
        out
    }

    /// Returns what can be shown of a line without its end: the text in front of the first word that may begin a secret.
    /// For a caller that has waited for the rest, such as that of a prompt or a progress bar.
    ///
    /// ```
    /// let mut stream = ringfence_screen::redact::StreamRedactor::new();
    /// assert_eq!(stream.push(b"Logging in with token "), b"");
    /// assert_eq!(stream.settle(), b"Logging in with ");
    /// ```
    pub fn settle(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let first = scan(&self.held);
        let safe = safe_cut(&self.held, &first);
        let line = self.held.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let cut = if safe == line { safe + plain_words(&self.held[line..]) } else { safe };
        if cut > 0 {
            self.emit(cut, first.spans, &mut out);
            self.searched = 0;
        }
        out
    }

    /// Returns all of the text but a private key whose end is missing. Replaces the secrets recognised so far. A secret that is
    /// still too short to recognise is shown. The rest of a secret that was replaced is dropped when it comes.
    pub fn release(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let ScanResult { spans, key_from, .. } = scan(&self.held);
        let n = self.held.len();
        if key_from < n {
            self.emit(key_from, spans, &mut out);
        } else {
            let ends_here = spans.iter().any(|span| span.end == n);
            self.emit(n, spans, &mut out);
            // Until the secret ends, however often this is called meanwhile.
            self.swallowing |= ends_here;
        }
        self.searched = 0;
        out
    }

    /// Number of bytes held back.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn pass_on(&mut self, full: bool, out: &mut Vec<u8>) {
        let first = scan(&self.held);
        let safe = safe_cut(&self.held, &first);
        if safe > 0 {
            self.emit(safe, first.spans, out);
            self.searched = 0;
        } else if full {
            self.cut_line(first.spans, out);
            self.searched = 0;
        } else {
            self.searched = self.held.len();
        }
    }

    /// Passes on the first `n` bytes, redacted with the text behind them in view. `spans` are the secrets of the held text.
    fn emit(&mut self, n: usize, mut spans: Vec<Span>, out: &mut Vec<u8>) {
        let mut text = Cow::Borrowed(&self.held[..]);
        let mut cut = n;
        let mut counts = vec![0; RULES.len()];
        for _ in 0..PASSES_MAX {
            spans = merge(spans);
            if spans.is_empty() {
                break;
            }
            let before: Vec<_> = spans.iter().copied().take_while(|s| s.end <= cut).collect();
            let replaced = replace(&text[..cut], &before, &mut counts).len();
            text = Cow::Owned(replace(&text, &spans, &mut counts));
            cut = replaced;
            spans = scan(&text).spans;
        }
        out.extend_from_slice(&text[..cut]);
        self.held.drain(..n);
    }

    /// Passes on most of a line that is too long to be held.
    fn cut_line(&mut self, spans: Vec<Span>, out: &mut Vec<u8>) {
        let spans = merge(spans);
        let mut cut = self.held.len() - KEPT_BYTES;
        // In front of a text that is part of a secret, or behind it; a word is not halved.
        let across = |span: &&Span| span.told.0 < cut && cut < span.told.1.max(span.end);
        if let Some(span) = spans.iter().find(across) {
            if span.end == self.held.len() && span.start + KEPT_BYTES < self.held.len() {
                // A secret without an end in sight: replace it here and drop the rest.
                let n = self.held.len();
                self.emit(n, spans, out);
                self.swallowing = true;
                return;
            }
            cut = span.told.0;
        }
        let word = self.held[..cut].iter().rev().take_while(|b| Class::Bare.has(**b)).count();
        if word < cut {
            cut -= word;
        }
        if cut == 0 {
            cut = self.held.len() - KEPT_BYTES;
        }
        self.emit(cut, spans, out);
    }
}

/// Length of the words of a line without its end that cannot be part of a secret, whatever follows. The last word may go on.
fn plain_words(line: &[u8]) -> usize {
    let word_start =
        |at: usize| at - line[..at].iter().rev().take_while(|b| Class::Bare.has(**b)).count();
    let mut first = line.len();
    prefix_matcher::find(line, |occurrence| first = first.min(occurrence.start));
    word_start(first)
}

/// End of the last line that no secret reaches across, whatever follows; 0 if there is none. `first` is the scan of
/// the held text.
fn safe_cut(held: &[u8], first: &ScanResult) -> usize {
    let mut text = Cow::Borrowed(held);
    let mut present = Cow::Borrowed(first);
    // Ends of lines: in `held`, and in the text of the present pass.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    // A command goes on behind a backslash, whatever white space follows it.
    let mut goes_on = false;
    for (at, byte) in held.iter().enumerate() {
        if *byte == b'\n' && !goes_on {
            ends.push((at + 1, at + 1));
        }
        if !byte.is_ascii_whitespace() {
            goes_on = *byte == b'\\';
        }
    }
    let mut counts = vec![0; RULES.len()];
    for _ in 0..PASSES_MAX {
        let mut told: Vec<_> = present.spans.iter().map(|span| span.told).collect();
        told.sort_unstable();
        let mut told = told.into_iter().peekable();
        let mut reach = 0;
        ends.retain(|(_, end)| {
            while let Some((_, to)) = told.next_if(|(from, _)| from < end) {
                reach = reach.max(to);
            }
            *end <= present.open_from && *end >= reach
        });
        if ends.is_empty() {
            return 0;
        }
        let spans = merge(present.spans.clone());
        if spans.is_empty() {
            break;
        }
        let mut next = spans.iter().peekable();
        let mut grown = 0_isize;
        for (_, end) in &mut ends {
            while let Some(span) = next.next_if(|span| span.end <= *end) {
                let mark = super::MARK.len() + RULES[span.rule].name.len() + 1;
                grown += mark.cast_signed() - (span.end - span.start).cast_signed();
            }
            *end = end.checked_add_signed(grown).unwrap_or(*end);
        }
        text = Cow::Owned(replace(&text, &spans, &mut counts));
        present = Cow::Owned(scan(&text));
    }
    ends.last().map_or(0, |(end, _)| *end)
}

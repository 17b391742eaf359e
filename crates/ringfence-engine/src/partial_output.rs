//! Output of a running call, made safe to show.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use ringfence_jail::{OutputBuffer as Raw, Tail};
use ringfence_screen::scrub::Scrub;
use tokio::sync::watch;

use crate::call::Redaction;
use crate::record::redact;
use crate::redacted_stream::RedactedStream;
use crate::text::{character_rest, cut_character};

/// Bytes dropped from a tail without a line break: they may be the rest of an escape sequence.
const DOUBTFUL_BYTES: usize = 256;

/// Output buffer passed with a call, readable before the call ends. Clones share the buffer.
#[derive(Clone, Debug)]
pub struct PartialOutput {
    pub(crate) raw: Raw,
    pub(crate) format: Arc<OnceLock<OutputFormat>>,
    /// Changes with every write.
    written: watch::Receiver<()>,
}

impl Default for PartialOutput {
    fn default() -> Self {
        let (raw, (tell, written)) = (Raw::default(), watch::channel(()));
        raw.on_write(move || tell.send_replace(()));
        Self { raw, format: Arc::default(), written }
    }
}

/// Treatment of a run's output when it is read.
#[derive(Debug)]
pub(crate) struct OutputFormat {
    pub(crate) scrub: Scrub,
    /// True if the buffer has the text without its controls and secrets: a filter took them out as it was written.
    pub(crate) filtered: bool,
}

/// Tail of a run's output so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialText {
    /// Tail of standard output.
    pub stdout: String,
    /// Tail of standard error.
    pub stderr: String,
    /// Bytes that the program wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes that the program wrote to standard error.
    pub stderr_bytes: u64,
    /// Progress note of the program.
    pub note: Option<String>,
    /// Where the next output begins.
    pub cursor: OutputCursor,
    /// False if output between the asked cursor and this tail was dropped.
    pub is_whole: bool,
}

/// Progress that a program reports, in units of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Units done.
    pub done: f64,
    /// Units in all, if the program says.
    pub total: Option<f64>,
}

impl Step {
    /// Reads the numbers of a note, `DONE of TOTAL: MESSAGE` as `ringfence.progress` writes it.
    fn of(note: &str) -> Option<Self> {
        let numbers = note.split_once(": ").map_or(note, |(numbers, _)| numbers);
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
        match numbers.split_once(" of ") {
            Some((done, total)) => Some(Self { done: number(done)?, total: Some(number(total)?) }),
            None => Some(Self { done: number(numbers)?, total: None }),
        }
    }
}

/// A place in the output of a run as it is shown: bytes of each stream, after redaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputCursor {
    /// Bytes of standard output.
    pub stdout: u64,
    /// Bytes of standard error.
    pub stderr: u64,
}

impl fmt::Display for OutputCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stdout, self.stderr)
    }
}

impl FromStr for OutputCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (stdout, stderr) = text.split_once('-').ok_or(())?;
        Ok(Self {
            stdout: stdout.parse().map_err(|_| ())?,
            stderr: stderr.parse().map_err(|_| ())?,
        })
    }
}

impl PartialOutput {
    /// Sets the output format before anything is written, and returns the raw buffer.
    pub(crate) fn begin(&self, scrub: Scrub, redaction: Redaction) -> Raw {
        let filtered = redaction == Redaction::Answers;
        if filtered {
            self.raw.filter([RedactedStream::scrubbed(&scrub), RedactedStream::scrubbed(&scrub)]);
        }
        let _ = self.format.set(OutputFormat { scrub, filtered });
        self.raw.clone()
    }

    /// Returns a receiver that changes with every write.
    pub(crate) fn written(&self) -> watch::Receiver<()> {
        self.written.clone()
    }

    /// Time at which text that was held back can be read without another write.
    pub(crate) fn due(&self) -> Option<std::time::Instant> {
        self.raw.due()
    }

    /// Number of bytes that the buffer holds.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.raw.kept_bytes()
    }

    /// Ends the output: text that was held back because a secret could lie across two writes can be read.
    pub(crate) fn finish(&self) {
        self.raw.finish();
    }

    /// Returns the program's progress note.
    pub(crate) fn note(&self) -> Option<String> {
        let format = self.format.get()?;
        self.raw.note().map(|note| format.note(&note))
    }

    /// Returns the numbers of the program's progress note.
    pub(crate) fn step(&self) -> Option<Step> {
        Step::of(&self.raw.note()?)
    }

    /// Returns the current tail.
    pub fn read(&self) -> PartialText {
        self.read_after(OutputCursor::default())
    }

    /// Returns what was written after a cursor, as far as the tail still has it.
    pub fn read_after(&self, from: OutputCursor) -> PartialText {
        // Empty before `begin`.
        let Some(format) = self.format.get() else { return PartialText::default() };
        let written = self.raw.read();
        let (stdout_bytes, stderr_bytes) =
            (written.stdout.written_bytes, written.stderr.written_bytes);
        let (stdout, stdout_end, out_whole) = format.stream(written.stdout, from.stdout);
        let (stderr, stderr_end, err_whole) = format.stream(written.stderr, from.stderr);
        PartialText {
            stdout,
            stderr,
            stdout_bytes,
            stderr_bytes,
            note: written.note.map(|note| format.note(&note)),
            cursor: OutputCursor { stdout: stdout_end, stderr: stderr_end },
            is_whole: out_whole && err_whole,
        }
    }
}

impl OutputFormat {
    /// The text of a stream from a place on, the place where it ends, and whether nothing between was dropped.
    fn stream(&self, tail: Tail, from: u64) -> (String, u64, bool) {
        let mut bytes: Vec<u8> = tail.bytes.into();
        let start = tail.total_bytes - bytes.len() as u64;
        let mut end = tail.total_bytes;
        let is_whole = start <= from;
        if is_whole {
            let seen = usize::try_from(from - start).unwrap_or(usize::MAX).min(bytes.len());
            bytes.drain(..seen);
            // The rest of a split character comes with the next write.
            let shown = bytes.len() - cut_character(&bytes);
            end -= (bytes.len() - shown) as u64;
            bytes.truncate(shown);
        } else {
            let line = bytes.iter().position(|b| *b == b'\n').map(|at| at + 1);
            let doubtful = line.unwrap_or(DOUBTFUL_BYTES).min(bytes.len());
            bytes.drain(..doubtful + character_rest(&bytes[doubtful..]));
        }
        (self.text(&bytes), end, is_whole)
    }

    fn text(&self, bytes: &[u8]) -> String {
        if self.filtered {
            return String::from_utf8_lossy(bytes).into_owned();
        }
        let shown = self.scrub.bytes(bytes);
        if shown.binary { "(bytes that are no text)".to_owned() } else { shown.text }
    }

    fn note(&self, note: &str) -> String {
        let shown = self.scrub.bytes(note.as_bytes()).text;
        if self.filtered { redact(&shown).into_owned() } else { shown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_whole_characters() {
        let partial_output = PartialOutput::default();
        assert_eq!(partial_output.read(), PartialText::default());
        let raw = partial_output.begin(Scrub::default(), Redaction::LedgerOnly);
        raw.add_stdout("one\nä".as_bytes());
        raw.add_stdout(&"ö".as_bytes()[..1]);
        raw.add_stderr(b"\x1b[31mred");
        raw.set_note("half \u{202e}way".to_owned());
        let partial = partial_output.read();
        assert_eq!((partial.stdout.as_str(), partial.stdout_bytes), ("one\nä", 7));
        assert!(!partial.stderr.contains('\x1b') && partial.stderr.ends_with("red"));
        assert!(partial.note.is_some_and(|note| !note.contains('\u{202e}')));
        raw.add_stdout(&[&"ö".as_bytes()[1..], b"\nnew"].concat());
        let next = partial_output.read_after(partial.cursor);
        assert_eq!((next.stdout.as_str(), next.is_whole), ("ö\nnew", true));
        raw.add_stdout("line of output\n".repeat(5_000).as_bytes());
        assert!(!partial_output.read_after(next.cursor).is_whole);
        let partial = partial_output.read();
        assert!(partial.stdout.starts_with("line of output\n") && partial.stdout.len() < 20_000);
    }

    /// The secret is split at every byte between two writes, with a read after each.
    #[test]
    fn a_secret_across_two_reads_is_in_neither() {
        let secret = format!("{}_{}", "ghp", "16C7e42F292c6912E7710c838347Ae178B4a");
        let text = format!("a\ntoken={secret} ok\nb");
        for cut in 0..=text.len() {
            let partial_output = PartialOutput::default();
            let raw = partial_output.begin(Scrub::default(), Redaction::Answers);
            raw.add_stdout(&text.as_bytes()[..cut]);
            let first = partial_output.read();
            raw.add_stdout(&text.as_bytes()[cut..]);
            let second = partial_output.read_after(first.cursor);
            raw.finish();
            let last = partial_output.read_after(second.cursor);
            let shown = first.stdout + &second.stdout + &last.stdout;
            assert_eq!(shown, redact(&text), "cut at {cut}");
            assert_eq!(last.stdout_bytes, text.len() as u64);
        }
    }
}

//! Output of a running call, made safe to show.

use std::sync::{Arc, OnceLock};

use ringfence_jail::{OutputBuffer as Raw, Tail};
use ringfence_screen::scrub::Scrub;

use crate::call::Redaction;
use crate::record::redact;
use crate::text::cut_character;

/// Bytes dropped from a tail without a line break: they may be the rest of a secret that redaction would hide.
const DOUBTFUL_BYTES: usize = 256;

/// Output buffer passed with a call, readable before the call ends. Clones share the buffer.
#[derive(Clone, Debug, Default)]
pub struct PartialOutput {
    raw: Raw,
    manner: Arc<OnceLock<OutputFormat>>,
}

/// Scrubbing and redaction of a run's output.
#[derive(Debug)]
struct OutputFormat {
    scrub: Scrub,
    redact: bool,
}

/// Tail of a run's output so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialText {
    /// Tail of standard output.
    pub stdout: String,
    /// Tail of standard error.
    pub stderr: String,
    /// Total bytes of standard output.
    pub stdout_bytes: u64,
    /// Total bytes of standard error.
    pub stderr_bytes: u64,
    /// Progress note of the program.
    pub note: Option<String>,
}

impl PartialOutput {
    /// Sets the output format before anything is written, and returns the raw buffer.
    pub(crate) fn begin(&self, scrub: Scrub, redaction: Redaction) -> Raw {
        let redact = redaction == Redaction::Answers;
        let _ = self.manner.set(OutputFormat { scrub, redact });
        self.raw.clone()
    }

    /// Returns the current tail.
    pub fn read(&self) -> PartialText {
        // Empty before `begin`.
        let Some(manner) = self.manner.get() else { return PartialText::default() };
        let written = self.raw.read();
        PartialText {
            stdout_bytes: written.stdout.total_bytes,
            stderr_bytes: written.stderr.total_bytes,
            stdout: manner.stream(written.stdout),
            stderr: manner.stream(written.stderr),
            note: written.note.map(|note| manner.text(note.as_bytes())),
        }
    }
}

impl OutputFormat {
    fn stream(&self, tail: Tail) -> String {
        let mut bytes: Vec<u8> = tail.bytes.into();
        if (bytes.len() as u64) < tail.total_bytes {
            let line = bytes.iter().position(|b| *b == b'\n').map(|at| at + 1);
            let mut doubtful = line.unwrap_or(DOUBTFUL_BYTES).min(bytes.len());
            while bytes.get(doubtful).is_some_and(|b| b & 0xc0 == 0x80) {
                doubtful += 1;
            }
            bytes.drain(..doubtful);
        } else {
            // The rest of a split character comes with the next write.
            bytes.truncate(bytes.len() - cut_character(&bytes));
        }
        self.text(&bytes)
    }

    fn text(&self, bytes: &[u8]) -> String {
        let shown = self.scrub.bytes(bytes);
        if shown.binary {
            return "(bytes that are no text)".to_owned();
        }
        if self.redact { redact(&shown.text).into_owned() } else { shown.text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_whole_characters_and_whole_lines() {
        let partial_output = PartialOutput::default();
        assert_eq!(partial_output.read(), PartialText::default());
        let raw = partial_output.begin(Scrub::default(), Redaction::Answers);
        raw.add_stdout("one\nä".as_bytes());
        raw.add_stdout(&"ö".as_bytes()[..1]);
        raw.add_stderr(b"\x1b[31mred");
        raw.set_note("half \u{202e}way".to_owned());
        let partial = partial_output.read();
        assert_eq!((partial.stdout.as_str(), partial.stdout_bytes), ("one\nä", 7));
        assert!(!partial.stderr.contains('\x1b') && partial.stderr.ends_with("red"));
        assert!(partial.note.is_some_and(|note| !note.contains('\u{202e}')));
        raw.add_stdout("line of output\n".repeat(5_000).as_bytes());
        let partial = partial_output.read();
        assert!(partial.stdout.starts_with("line of output\n") && partial.stdout.len() < 20_000);
    }
}

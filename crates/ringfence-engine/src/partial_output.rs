//! What a run that goes on has written, fit to be shown.

use std::sync::{Arc, OnceLock};

use ringfence_jail::{OutputBuffer as Raw, Tail};
use ringfence_screen::scrub::Scrub;

use crate::call::Redaction;
use crate::record::redact;
use crate::text::cut_character;

/// Of a tail without a line break, what may be the rest of something that was to be hidden.
const DOUBTFUL_BYTES: usize = 256;

/// Given along with a call by who wants to look before it ends. A clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct PartialOutput {
    raw: Raw,
    manner: Arc<OnceLock<OutputFormat>>,
}

/// How what a run writes is shown.
#[derive(Debug)]
struct OutputFormat {
    scrub: Scrub,
    redact: bool,
}

/// The end of what a run has written until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialText {
    /// Of standard output.
    pub stdout: String,
    /// Of standard error.
    pub stderr: String,
    /// Bytes on standard output in all.
    pub stdout_bytes: u64,
    /// Bytes on standard error in all.
    pub stderr_bytes: u64,
    /// What the program said of its progress.
    pub note: Option<String>,
}

impl PartialOutput {
    /// Says how it is shown, before anything is written.
    pub(crate) fn begin(&self, scrub: Scrub, redaction: Redaction) -> Raw {
        let redact = redaction == Redaction::Answers;
        let _ = self.manner.set(OutputFormat { scrub, redact });
        self.raw.clone()
    }

    /// As it is now.
    pub fn read(&self) -> PartialText {
        // Before it began there is nothing.
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
            // The rest of a character comes with the next write.
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

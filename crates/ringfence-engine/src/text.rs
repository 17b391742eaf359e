//! Converts a run's output to text that is safe to show, and numbers to the contract's units.

use base64::Engine as _;
use ringfence_jail::Output;
use ringfence_screen::scrub::Scrub;
use ringfence_spec::{Code, Encoding, ErrorInfo, Hint, Truncated};

/// Encodes both streams as text that is safe to show, or both as base64 if either is binary.
pub(crate) fn encode(out: Output, err: Output, scrub: &Scrub) -> (String, String, Encoding) {
    let (out, err) = (joined(out), joined(err));
    let (shown_out, shown_err) = (scrub.bytes(&out), scrub.bytes(&err));
    if shown_out.binary || shown_err.binary {
        let base64 = base64::engine::general_purpose::STANDARD;
        return (base64.encode(out), base64.encode(err), Encoding::Base64);
    }
    (shown_out.text, shown_err.text, Encoding::Utf8)
}

/// Makes a guest's text safe to show to a person or a model: controls, direction overrides and invisible characters
/// are made visible, and so is a carriage return that would overwrite its line.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let scrubbed = Scrub::default().bytes(text.as_bytes()).text;
    let mut chars = scrubbed.chars().peekable();
    while let Some(c) = chars.next() {
        shown.push(if c == '\r' && chars.peek().is_some_and(|next| *next != '\n') {
            '␍'
        } else {
            c
        });
    }
    shown
}

/// Joins head and tail, with a line between them that gives the number of dropped bytes.
fn joined(output: Output) -> Vec<u8> {
    let dropped = output.dropped_bytes();
    let (mut head, tail) = output.parts();
    if dropped > 0 {
        // A character split at the seam would make text look binary: cut before it, resume after it.
        while head.last().is_some_and(|b| b & 0xc0 == 0x80) {
            head.pop();
        }
        if head.last().is_some_and(|b| *b >= 0xc0) {
            head.pop();
        }
        head.extend_from_slice(format!("\n[{dropped} bytes dropped]\n").as_bytes());
        let start = tail.iter().take(4).take_while(|b| **b & 0xc0 == 0x80).count();
        head.extend_from_slice(&tail[start..]);
    } else {
        head.extend_from_slice(&tail);
    }
    head
}

/// Bytes of a text as a JSON string, without its quotes: a control character takes up to 6.
pub(crate) fn json_bytes(text: &str) -> usize {
    let escaped = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// Number of trailing bytes that belong to an incomplete UTF-8 character.
pub fn cut_character(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        _ => 0,
    }
}

/// Number of bytes at the start that belong to a character that began before.
pub(crate) fn character_rest(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count()
}

/// Milliseconds, rounded to the microsecond.
pub(crate) fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Describes the bytes dropped from both streams.
pub(crate) fn truncated(stdout: &Output, stderr: &Output) -> Truncated {
    Truncated {
        stdout: stdout.dropped_bytes() > 0,
        stderr: stderr.dropped_bytes() > 0,
        dropped_bytes: stdout.dropped_bytes() + stderr.dropped_bytes(),
    }
}

/// An error without a retry time.
pub(crate) fn info(code: Code, message: impl Into<String>, hint: Option<Hint>) -> ErrorInfo {
    ErrorInfo { code, message: message.into(), hint, retry_after_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_or_hides_a_word_is_seen() {
        for (text, safe) in [
            ("a\tb\r\nc\n", "a\tb\r\nc\n"),
            ("\u{1b}]0;t\u{7}\u{1b}[8mx", "␛]0;t␇␛[8mx"),
            ("a needle\rfake.py:7: all fine", "a needle␍fake.py:7: all fine"),
            ("\u{202e}abc", "⟨U+202E⟩abc"),
        ] {
            assert_eq!(shown(text), safe);
        }
    }
}

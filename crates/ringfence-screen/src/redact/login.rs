//! Passwords in a `.netrc`: `machine HOST login NAME password SECRET`, on one line or several.

use super::MARK;

/// Words that are read behind `machine`: more than any entry has.
const WORDS_MAX: usize = 9;

/// Longest word that is read.
const WORD_BYTES_MAX: usize = 256;

/// The password of the entry whose `machine ` ends at `end`. Sets `open` if more text could change the answer.
pub(crate) fn password(
    text: &[u8],
    start: usize,
    end: usize,
    open: &mut bool,
) -> Option<(usize, usize)> {
    if text[..start].last().is_some_and(|b| !b.is_ascii_whitespace()) {
        return None;
    }
    let mut at = end;
    let _host = word(text, &mut at)?;
    for _ in 0..WORDS_MAX / 2 {
        let (from, to) = word_or_open(text, &mut at, open)?;
        let key = &text[from..to];
        if !matches!(key, b"password" | b"login" | b"account" | b"user") {
            return None;
        }
        let (from, to) = word_or_open(text, &mut at, open)?;
        match key {
            b"password" if text[from..to].starts_with(MARK.as_bytes()) => return None,
            b"password" => return Some((from, to)),
            _ => {}
        }
    }
    None
}

fn word_or_open(text: &[u8], at: &mut usize, open: &mut bool) -> Option<(usize, usize)> {
    let found = word(text, at);
    *open |= *at == text.len();
    found
}

/// The next word, across white space and line ends.
fn word(text: &[u8], at: &mut usize) -> Option<(usize, usize)> {
    let rest = &text[*at..];
    let space = rest.iter().take(64).take_while(|b| b.is_ascii_whitespace()).count();
    let n =
        rest[space..].iter().take(WORD_BYTES_MAX).take_while(|b| !b.is_ascii_whitespace()).count();
    let from = *at + space;
    // A longer word is cut between characters.
    let more = rest[space + n..].iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count();
    *at = from + n + more;
    (n > 0).then_some((from, *at))
}

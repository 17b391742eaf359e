//! Passwords in a `.netrc`: `machine HOST login NAME password SECRET`, on one line or several.

use super::MARK;

/// Words that are read behind `machine`: more than any entry has.
const WORDS_MAX: usize = 9;

/// Longest word that is read.
const WORD_BYTES_MAX: usize = 256;

/// The password of the entry whose `machine ` ends at `end`.
pub(crate) fn password(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    if text[..start].last().is_some_and(|b| !b.is_ascii_whitespace()) {
        return None;
    }
    let mut at = end;
    let _host = word(text, &mut at)?;
    for _ in 0..WORDS_MAX / 2 {
        let (from, to) = word(text, &mut at)?;
        let key = &text[from..to];
        let (from, to) = word(text, &mut at)?;
        match key {
            b"password" if text[from..to].starts_with(MARK.as_bytes()) => return None,
            b"password" => return Some((from, to)),
            b"login" | b"account" | b"user" => {}
            _ => return None,
        }
    }
    None
}

/// The next word, across white space and line ends.
fn word(text: &[u8], at: &mut usize) -> Option<(usize, usize)> {
    let rest = &text[*at..];
    let space = rest.iter().take(64).take_while(|b| b.is_ascii_whitespace()).count();
    let n =
        rest[space..].iter().take(WORD_BYTES_MAX).take_while(|b| !b.is_ascii_whitespace()).count();
    let from = *at + space;
    *at = from + n;
    (n > 0).then_some((from, from + n))
}

//! Credentials in headers: `Authorization` of any scheme, `Cookie` and `Set-Cookie`. The name and the scheme stay.

use super::address::is_placeholder;
use super::chars::{Class, Runs, begins_word};
use super::random::{has_digits, looks_random, looks_simple};

/// Longest header that is read.
const HEADER_BYTES_MAX: usize = 4096;

/// Bytes of a credential that are judged.
const SAMPLE_BYTES: usize = 64;

/// Fewest characters of a credential.
const CREDENTIAL_BYTES_MIN: usize = 8;

/// Longest name of a scheme or a cookie.
const NAME_BYTES_MAX: usize = 64;

/// Schemes whose credentials are a list of parameters up to the end of the header (RFC 7616, RFC 5849, AWS signature 4).
const LISTS: &[&str] =
    &["digest", "aws4-hmac-sha256", "oauth", "hawk", "signature", "googlelogin", "aws"];

/// The credentials of the `Authorization` header whose name ends at `end`. `lists_end` is the end of the last list of
/// parameters that was read: a name inside is not read again, which keeps the time linear.
pub(crate) fn authorization(
    text: &[u8],
    end: usize,
    runs: &mut Runs<'_>,
    lists_end: &mut usize,
) -> Option<(usize, usize)> {
    if end < *lists_end {
        return None;
    }
    let mut at = end;
    for closing in [b'\\', b'"', b'\'', b']'] {
        at += usize::from(text.get(at) == Some(&closing));
    }
    at += space(text, at);
    if !matches!(text.get(at), Some(b':' | b'=' | b',')) {
        return None;
    }
    at += 1;
    at += usize::from(text.get(at) == Some(&b'>'));
    at += space(text, at);
    let quote = text.get(at).copied().filter(|b| matches!(b, b'"' | b'\'' | b'`'));
    at += usize::from(quote.is_some()) + usize::from(text[at..].starts_with(b"\\\"")) * 2;
    let word = runs.end(Class::Token, at);
    let scheme = &text[at..word];
    let behind = word + space(text, word);
    // A scheme is a word and a space behind it.
    let has_scheme = behind > word
        && (2..=NAME_BYTES_MAX).contains(&scheme.len())
        && (!has_digits(scheme, 1) || scheme.len() < 20);
    let from = if has_scheme { behind } else { at };
    let list = has_scheme && LISTS.iter().any(|list| scheme.eq_ignore_ascii_case(list.as_bytes()));
    let to = if list { line_end(text, from, runs) } else { runs.end(Class::Bare, from) };
    if list {
        *lists_end = to;
    }
    let credential = &text[from..to];
    if !(CREDENTIAL_BYTES_MIN..HEADER_BYTES_MAX).contains(&credential.len())
        || is_placeholder(credential)
    {
        return None;
    }
    let sample = &credential[..credential.len().min(SAMPLE_BYTES)];
    let plain = !sample.iter().any(|b| matches!(b, b'(' | b'{' | b'[' | b'$'));
    let looks = match (list, has_scheme) {
        (true, _) => looks_simple(sample, 16),
        (_, true) => {
            plain && (looks_simple(sample, CREDENTIAL_BYTES_MIN) || has_both_cases(sample))
        }
        _ => plain && (looks_random(sample, 12) || looks_simple(sample, 20)),
    };
    looks.then_some((from, to))
}

/// Letters only, of both cases, as base64 of a short text may be.
fn has_both_cases(credential: &[u8]) -> bool {
    credential.len() >= 12
        && credential.iter().all(|b| Class::Header.has(*b))
        && credential.iter().any(u8::is_ascii_lowercase)
        && credential.iter().skip(1).filter(|b| b.is_ascii_uppercase()).count() >= 3
}

/// The end of the header: of the line, or of the quotes it is in.
fn line_end(text: &[u8], from: usize, runs: &mut Runs<'_>) -> usize {
    let single = runs.end(Class::InSingle, from);
    let back = runs.end(Class::InBack, from);
    let stop = single.min(back).min(from + HEADER_BYTES_MAX);
    // Values of parameters have double quotes of their own; another one is of the text around.
    let mut inside = false;
    for at in from..stop {
        // A line end, written as in a string.
        if text[at] == b'\\' && matches!(text.get(at + 1), Some(b'n' | b'r')) {
            return at;
        }
        // Parameters have commas between: behind another space, a sentence goes on. A control character is a colour.
        if text[at] < b' ' || (!inside && at > from && text[at] == b' ' && text[at - 1] != b',') {
            return at;
        }
        if text[at] == b'"' {
            if !inside && text[at - 1] != b'=' {
                return at - usize::from(text[at - 1] == b'\\');
            }
            inside = !inside;
        }
    }
    stop
}

/// The values of the cookies in the header whose name ends at `end`: from the first that looks generated to the last.
pub(crate) fn cookies(
    text: &[u8],
    start: usize,
    end: usize,
    runs: &mut Runs<'_>,
) -> Option<(usize, usize)> {
    if !begins_word(text, start) {
        return None;
    }
    let mut at = end + space(text, end);
    at += usize::from(matches!(text.get(at), Some(b'"' | b'\'')));
    let mut span: Option<(usize, usize)> = None;
    while at < end + HEADER_BYTES_MAX {
        let name = runs.end(Class::Dotted, at);
        if name == at || name - at > NAME_BYTES_MAX || text.get(name) != Some(&b'=') {
            break;
        }
        let stop = runs.end(Class::Bare, name + 1);
        let value = &text[name + 1..stop];
        if looks_random(value, 12) && !is_placeholder(value) {
            span = Some((span.map_or(name + 1, |(from, _)| from), stop));
        }
        if text.get(stop) != Some(&b';') {
            break;
        }
        at = stop + 1 + space(text, stop + 1);
    }
    span
}

fn space(text: &[u8], at: usize) -> usize {
    text[at.min(text.len())..].iter().take(4).take_while(|b| matches!(b, b' ' | b'\t')).count()
}

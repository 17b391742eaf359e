//! Changes to bytes that know nothing of what the bytes mean.

use crate::random::Random;

/// Longest input made by repeating.
const REPEATED_BYTES_MAX: usize = 1 << 20;

/// Numbers at the edges of what parsers hold.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "1e999",
    "-1e-999",
    "0.1",
    "255",
    "65536",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
];

/// Bytes that are no UTF-8, cut UTF-8, and characters that readers treat differently.
const BYTES: &[&[u8]] = &[
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\xef\xbb\xbf",
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\t",
    b"\x0b",
    b"\x7f",
    b"\x1b[2J",
    "\u{2028}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{85}".as_bytes(),
    "𝓮".as_bytes(),
];

/// Changes bytes once, with words of the caller's among others.
pub(super) fn mutate(input: &mut Vec<u8>, words: &[&str], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(24)).min(input.len());
    match random.below(11) {
        0 => insert(input, at, random.one_of(BYTES)),
        1 => insert(input, at, random.one_of(NUMBERS).as_bytes()),
        2 | 3 => insert(input, at, random.one_of(words).as_bytes()),
        4 => drop(input.drain(at.min(end)..end)),
        5 => input.truncate(at),
        6 => {
            // One piece many times over: length, or depth.
            let piece = input[at.min(end)..end].to_vec();
            let n = [2, 40, 300, 5000][random.below(4)];
            let n = n.min(REPEATED_BYTES_MAX / piece.len().max(1));
            insert(input, at, &piece.repeat(n));
        }
        7 => {
            let from = random.below(input.len() + 1);
            let to = (from + random.below(40)).min(input.len());
            let piece = input[from..to].to_vec();
            insert(input, at, &piece);
        }
        8 => number(input, at, random),
        _ => {
            let byte = u8::try_from(random.below(256)).unwrap_or(b'x');
            match input.get_mut(at) {
                Some(old) => *old = byte,
                None => input.push(byte),
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

/// Puts another number where the next one is.
fn number(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let another = random.one_of(NUMBERS);
    let Some(begin) = input[at..].iter().position(u8::is_ascii_digit) else { return };
    let begin = at + begin;
    let n_digits = input[begin..].iter().take_while(|b| b.is_ascii_digit()).count();
    input.splice(begin..begin + n_digits, another.bytes());
}

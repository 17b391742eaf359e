//! Values of telling names: `API_KEY=…`, `"password": "…"`, `--token …`, `Authorization: Bearer …`, `?sig=…`. The name
//! stays. A value has to look like a secret: code is full of `token = next(tokens)`.

use super::MARK;
use super::address::is_placeholder;
use super::chars::{Class, Runs, begins_word, ends_word};
use super::random::{looks_chosen, looks_random};

/// Longest value that is taken for a secret.
const VALUE_BYTES_MAX: usize = 1024;

/// Fewest characters of a token.
const TOKEN_BYTES_MIN: usize = 16;

/// Longest name around a telling word.
const NAME_BYTES_MAX: usize = 64;

/// White space between a name, its sign and its value.
const SPACE_BYTES_MAX: usize = 16;

/// Kind of secret that a name indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A password: short, chosen by a person.
    Password,
    /// A token or key: long, made by a generator.
    Token,
    /// A key in base64, by its name: its value needs no check.
    Base64Key,
}

/// Endings of names that are about a secret and hold none.
const HARMLESS_ENDINGS: &[&str] = &[
    "id",
    "ids",
    "name",
    "names",
    "type",
    "types",
    "url",
    "uri",
    "path",
    "file",
    "dir",
    "hash",
    "sha256",
    "sha1",
    "md5",
    "digest",
    "fingerprint",
    "checksum",
    "len",
    "length",
    "count",
    "size",
    "limit",
    "max",
    "min",
    "expiry",
    "expires",
    "ttl",
    "endpoint",
    "field",
    "policy",
    "header",
    "arn",
    "at",
    "in",
    "version",
    "format",
    "env",
    "class",
    "index",
];

/// The value assigned to the name with the telling word at `start..end`.
pub(crate) fn value(
    kind: Kind,
    text: &[u8],
    start: usize,
    end: usize,
    runs: &mut Runs<'_>,
) -> Option<(usize, usize)> {
    let name_end = runs.end(Class::Token, end);
    if name_end - end > NAME_BYTES_MAX || has_harmless_ending(&text[end..name_end]) {
        return None;
    }
    let flag = is_flag(text, start);
    let (mut at, sign) = behind_sign(text, name_end, flag)?;
    if sign == Sign::Colon {
        at = behind_annotation(text, at, runs).unwrap_or(at);
    }
    let (from, to, quoted) = match sign {
        Sign::Element => (at, runs.end(Class::InElement, at), true),
        _ => literal(text, at, runs)?,
    };
    let (from, to) = behind_scheme(text, from, to);
    let secret = &text[from..to];
    if secret.len() > VALUE_BYTES_MAX
        || is_placeholder(secret)
        || secret.starts_with(MARK.as_bytes())
    {
        return None;
    }
    let looks = match kind {
        Kind::Base64Key => secret.len() >= 40 && secret.iter().all(|b| Class::Base64.has(*b)),
        Kind::Token => is_plain(secret, quoted) && looks_random(secret, TOKEN_BYTES_MIN),
        Kind::Password => {
            let exact = sign != Sign::Colon || quoted || flag;
            is_plain(secret, quoted)
                && (looks_random(secret, 12)
                    || (exact && looks_chosen(secret) && (quoted || !is_expression(secret))))
        }
    };
    looks.then_some((from, to))
}

/// The token behind `Bearer `.
pub(crate) fn after_scheme(
    text: &[u8],
    start: usize,
    end: usize,
    runs: &mut Runs<'_>,
) -> Option<(usize, usize)> {
    let stop = runs.end(Class::Header, end);
    (begins_word(text, start)
        && ends_word(text, stop)
        && looks_random(&text[end..stop], TOKEN_BYTES_MIN))
    .then_some((end, stop))
}

/// The value of a parameter of an address: `&sig=…`.
pub(crate) fn in_query(text: &[u8], end: usize, runs: &mut Runs<'_>) -> Option<(usize, usize)> {
    let stop = runs.end(Class::Bare, end);
    // A fragment is no part of the value.
    let stop = text[end..stop]
        .iter()
        .take(VALUE_BYTES_MAX)
        .position(|b| *b == b'#')
        .map_or(stop, |n| end + n);
    (stop - end <= VALUE_BYTES_MAX && looks_random(&text[end..stop], TOKEN_BYTES_MIN))
        .then_some((end, stop))
}

/// The text between a name and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equals,
    Colon,
    Element,
    Space,
}

/// Returns true if the name's last word shows that it holds no secret.
fn has_harmless_ending(rest: &[u8]) -> bool {
    let Some(cut) = rest.iter().rposition(|b| matches!(b, b'_' | b'-')) else {
        // `tokenId`, `passwordHash`, and `passwords`, which does not name a single one.
        let last = rest.to_ascii_lowercase();
        return HARMLESS_ENDINGS.iter().any(|ending| last.ends_with(ending.as_bytes()));
    };
    let last = rest[cut + 1..].to_ascii_lowercase();
    HARMLESS_ENDINGS.iter().any(|ending| last == ending.as_bytes())
}

/// Returns true if the name is an option of a command: `--db-password`.
fn is_flag(text: &[u8], start: usize) -> bool {
    let before = &text[start.saturating_sub(NAME_BYTES_MAX)..start];
    let n = before.iter().rev().take_while(|b| Class::Token.has(**b)).count();
    let name = &before[before.len() - n..];
    name.starts_with(b"--")
        && before[..before.len() - n].last().is_none_or(|b| !b.is_ascii_alphanumeric())
}

/// The place behind the sign, and which it is.
fn behind_sign(text: &[u8], from: usize, flag: bool) -> Option<(usize, Sign)> {
    let mut at = from;
    // The quote that closes the name, escaped or not, and the bracket of `env["TOKEN"]`.
    for closing in [b'\\', b'"', b'\'', b']'] {
        at += usize::from(text.get(at) == Some(&closing));
    }
    let spaces = space(text, at);
    let sign = text.get(at + spaces)?;
    match sign {
        b'=' | b':' => {
            let more = text[at + spaces + 1..].iter().take(2);
            let more = more.take_while(|b| matches!(b, b'=' | b'>' | b'~')).count();
            let behind = at + spaces + 1 + more;
            let sign = if *sign == b':' && more == 0 { Sign::Colon } else { Sign::Equals };
            Some((behind + space(text, behind), sign))
        }
        b'>' if at == from && spaces == 0 => Some((at + 1, Sign::Element)),
        _ if flag && spaces > 0 => Some((at + spaces, Sign::Space)),
        _ => None,
    }
}

fn space(text: &[u8], at: usize) -> usize {
    text[at..].iter().take(SPACE_BYTES_MAX).take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Past the type in `password: str = "…"`.
fn behind_annotation(text: &[u8], at: usize, runs: &mut Runs<'_>) -> Option<usize> {
    let stop = runs.end(Class::Word, at);
    if stop == at || stop - at > NAME_BYTES_MAX {
        return None;
    }
    let sign = stop + space(text, stop);
    (text.get(sign) == Some(&b'=')).then(|| sign + 1 + space(text, sign + 1))
}

/// Past `Bearer `, `Basic ` or `Token ` in the value of a header.
fn behind_scheme(text: &[u8], from: usize, to: usize) -> (usize, usize) {
    for scheme in ["bearer ", "basic ", "token "] {
        let end = from + scheme.len();
        if text.get(from..end).is_some_and(|b| b.eq_ignore_ascii_case(scheme.as_bytes())) {
            // Without quotes the value ended at the space.
            let rest = text[end..]
                .iter()
                .take(VALUE_BYTES_MAX)
                .take_while(|b| Class::Header.has(**b))
                .count();
            return (end, if to > end { to } else { end + rest });
        }
    }
    (from, to)
}

/// A value in quotes or without: from, to, quoted.
fn literal(text: &[u8], at: usize, runs: &mut Runs<'_>) -> Option<(usize, usize, bool)> {
    // Letters in front of a string: `b"…"`, `r'…'`.
    let prefix = usize::from(
        matches!(text.get(at), Some(b'b' | b'r' | b'f' | b'u'))
            && matches!(text.get(at + 1), Some(b'"' | b'\'')),
    );
    let at = at + prefix;
    let (quote, escaped) = match text.get(at..)? {
        [b'\\', quote @ (b'"' | b'\''), ..] => (*quote, true),
        [quote @ (b'"' | b'\'' | b'`'), ..] => (*quote, false),
        _ => {
            let stop = runs.end(Class::Bare, at);
            return Some((at, stop, false));
        }
    };
    let class = match quote {
        b'"' => Class::InDouble,
        b'\'' => Class::InSingle,
        _ => Class::InBack,
    };
    let from = at + 1 + usize::from(escaped);
    let mut stop = runs.end(class, from);
    if escaped {
        return Some((from, stop - usize::from(stop > from && text[stop - 1] == b'\\'), true));
    }
    // An escaped quote is part of the value; three of them are more than passwords have.
    for _ in 0..3 {
        if stop > from && text[stop - 1] == b'\\' && text.get(stop) == Some(&quote) {
            stop = runs.end(class, stop + 1);
        }
    }
    Some((from, stop, true))
}

/// Returns true if no character of it belongs to a sentence, a call or a template.
fn is_plain(secret: &[u8], quoted: bool) -> bool {
    secret.iter().all(u8::is_ascii_graphic)
        && !secret
            .windows(2)
            .any(|pair| matches!(pair, b"${" | b"{{" | b"$(" | b"()" | b"://" | b"::"))
        && (quoted || !secret.iter().any(|b| matches!(b, b'(' | b'[' | b'{')))
        && !is_path(secret)
}

/// Returns true for a path: `/home/me/project-2`, `./a/b`, `~/x/y`.
fn is_path(secret: &[u8]) -> bool {
    let rooted = [&b"/"[..], b"./", b"../", b"~/"].iter().any(|root| secret.starts_with(root));
    rooted && secret.split(|b| *b == b'/').count() > 2
}

/// Returns true if it reads like code: names with dots, underscores and arrows between.
fn is_expression(secret: &[u8]) -> bool {
    secret.iter().all(|b| {
        Class::Word.has(*b) || matches!(b, b'.' | b'-' | b'>' | b'*' | b'+' | b'/' | b'!' | b'=')
    }) && secret.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && secret.iter().any(|b| matches!(b, b'.' | b'_'))
}

//! Passwords in addresses: `scheme://user:password@host`. The user and the host stay: a reader of a log needs them.

use super::MARK;
use super::random;

/// Longest part in front of a host that is read.
const USERINFO_BYTES_MAX: usize = 1024;

/// Fewest characters of a token that stands alone in front of a host (`https://TOKEN@host`).
const TOKEN_BYTES_MIN: usize = 20;

/// The password in the address whose `://` ends at `end`.
pub(crate) fn password(text: &[u8], start: usize, end: usize) -> Option<(usize, usize)> {
    if !text[..start].last().is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let rest = &text[end..text.len().min(end + USERINFO_BYTES_MAX)];
    let (at, first_slash) = last_at(rest)?;
    let userinfo = &rest[..at];
    if userinfo.starts_with(MARK.as_bytes()) {
        return None;
    }
    let Some(colon) = userinfo.iter().position(|b| *b == b':') else {
        let token =
            random::looks_random(userinfo, TOKEN_BYTES_MIN) && first_slash.is_none_or(|s| s > at);
        return token.then_some((end, end + at));
    };
    let secret = &userinfo[colon + 1..];
    // `http://host:8080/@scope/name`: a port, not a password.
    let port = first_slash.filter(|slash| *slash < at).is_some_and(|slash| {
        slash < colon || userinfo[colon + 1..slash].iter().all(u8::is_ascii_digit)
    });
    let nothing = secret.is_empty()
        || is_placeholder(secret)
        || is_name(secret)
        || secret == &userinfo[..colon];
    (!port && !nothing).then_some((end + colon + 1, end + at))
}

/// The last `@` in front of the host, and the first slash.
fn last_at(rest: &[u8]) -> Option<(usize, Option<usize>)> {
    let mut at = None;
    let mut slash = None;
    for (place, byte) in rest.iter().enumerate() {
        match byte {
            b'@' => at = Some(place),
            b'/' | b'?' | b'#' => {
                // The host begins after the last `@`; the text after its slash is a path.
                if at.is_some() {
                    break;
                }
                slash = slash.or(Some(place));
                // The next address begins.
                if rest[place..].starts_with(b"//") {
                    break;
                }
            }
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' => break,
            _ => {}
        }
    }
    Some((at?, slash))
}

/// Returns true for a word that stands for a password in documentation.
fn is_name(value: &[u8]) -> bool {
    let lower = value[..value.len().min(32)].to_ascii_lowercase();
    ["passwd", "pass", "pwd"].iter().any(|name| lower == name.as_bytes())
        || (lower.windows(8).any(|word| word == b"password")
            && !lower.iter().any(u8::is_ascii_digit))
}

/// Returns true for a placeholder of a password: `$PASSWORD`, `{password}`, `%s`, `***`.
pub(crate) fn is_placeholder(value: &[u8]) -> bool {
    value.starts_with(MARK.as_bytes())
        || value.starts_with(b"&lt;")
        || matches!(value.first(), Some(b'$' | b'{' | b'<' | b'%'))
        || value.iter().all(|b| matches!(b, b'*' | b'.' | b'x' | b'X' | b'-' | b'_'))
}

//! Values of telling names: `API_KEY=…`, `"password": "…"`, `--token …`, `Authorization: Bearer …`, `?sig=…`. The name
//! stays. A value has to look like a secret: code is full of `token = next(tokens)`.

use super::address::is_placeholder;
use super::chars::{Class, Runs, begins_word, ends_word};
use super::random::{
    is_long_number, is_solid, is_uuid, looks_chosen, looks_random, looks_random_short,
    looks_simple, looks_symbolic,
};

/// Longest value that is taken for a secret.
const VALUE_BYTES_MAX: usize = 8192;

/// Bytes of a value that are judged.
const SAMPLE_BYTES: usize = 256;

/// Fewest characters of a token.
const TOKEN_BYTES_MIN: usize = 16;

/// The same if its characters are mixed well.
const SHORT_TOKEN_BYTES_MIN: usize = 12;

/// Fewest characters of a value behind a name that ends in `key`, which many harmless names do.
const KEY_BYTES_MIN: usize = 20;

/// Fewest characters of a value without a sign in front: `token eb2c…`.
const BARE_BYTES_MIN: usize = 16;

/// Fewest characters of a value that is written like a part of the name: `secret-123e4567-…`.
const ATTACHED_BYTES_MIN: usize = 32;

/// Longest value on the left of a comparison.
const COMPARED_BYTES_MAX: usize = 256;

/// Longest text between a name and its sign: `secret access key (prod) = …`.
const WORDS_BYTES_MAX: usize = 24;

/// Longest name around a telling word.
const NAME_BYTES_MAX: usize = 64;

/// White space between a name, its sign and its value.
const SPACE_BYTES_MAX: usize = 16;

/// The same across lines: deeply indented.
const WHITE_BYTES_MAX: usize = 64;

/// Kind of secret that a name indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A password: short, chosen by a person.
    Password,
    /// A token or key: long, made by a generator.
    Token,
    /// A key in base64, by its name: its value needs no check.
    Base64Key,
    /// A name that ends in `key`.
    Key,
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

/// Beginnings of names that are about a secret and hold none, or whose value is public.
const HARMLESS_BEGINNINGS: &[&str] = &[
    "public",
    "csrf",
    "xsrf",
    "authenticity",
    "publishable",
    "pub",
    "primary",
    "foreign",
    "partition",
    "cache",
    "bucket",
    "sort",
    "row",
    "idx",
    "index",
    "natural",
    "schema",
    "sequence",
    "object",
    "hot",
    "short",
    "map",
    "lookup",
    "translation",
    "message",
    "event",
    "dedup",
    "idempotency",
    "host",
    "known",
    "sha",
    "hash",
    "group",
    "next",
    "page",
    "continuation",
    "sync",
];

/// The value assigned to the name with the telling word at `start..end`. Sets `open` if more text could change the
/// answer.
pub(crate) fn value(
    kind: Kind,
    text: &[u8],
    start: usize,
    end: usize,
    runs: &mut Runs<'_>,
    open: &mut bool,
) -> Option<(usize, usize)> {
    let name_end = runs.end(Class::Token, end);
    if let Some(from) = attached(kind, &text[end..name_end]) {
        return Some((end + from, name_end));
    }
    let rest = text.get(end..name_end).filter(|rest| rest.len() <= NAME_BYTES_MAX)?;
    if !is_word(kind, text, start, end, rest) {
        return None;
    }
    if let Some(found) = compared(kind, text, start) {
        return Some(found);
    }
    let flag = is_flag(text, start);
    let (mut at, sign) = behind_name(text, name_end, flag, open)
        .or_else(|| behind_words(kind, text, name_end, open))?;
    if sign == Sign::Colon {
        at = behind_annotation(text, at, runs).unwrap_or(at);
    }
    let (from, to, quoted) = match sign {
        Sign::Element => {
            let from = at + white(text, at, open);
            let to = runs.end(Class::InElement, from);
            if let Some(span) = in_braces(text, from, to) {
                return Some(span);
            }
            (from, to, true)
        }
        Sign::Quoted => literal(text, at, runs).filter(|(_, _, quoted)| *quoted)?,
        _ => literal(text, at, runs)?,
    };
    let (from, to) = behind_scheme(text, from, to);
    let to = to - trailing(&text[from..to]);
    let secret = &text[from..to];
    if secret.len() > VALUE_BYTES_MAX || is_placeholder(secret) {
        return None;
    }
    let exact = sign != Sign::Colon || quoted || flag;
    let env = sign == Sign::Equals && is_env(text, start, name_end);
    let strict = rest.is_empty() && matches!(sign, Sign::Equals | Sign::Colon | Sign::Quoted);
    let looks = looks_secret(kind, secret, sign, quoted, exact, env)
        || (strict && quoted && kind.is_chosen(&text[start..end]) && looks_quoted(secret));
    // Last: most values are none by their look.
    (looks && !is_harmless(kind, text, start, rest)).then_some((from, to))
}

/// Returns true if the name holds no secret, by its first or its last word.
fn is_harmless(kind: Kind, text: &[u8], start: usize, rest: &[u8]) -> bool {
    // `secrets` does not name a single one; `credentials` does.
    let plural = rest.eq_ignore_ascii_case(b"s")
        && kind != Kind::Password
        && !text[start].eq_ignore_ascii_case(&b'c');
    plural || has_harmless_ending(rest) || has_harmless_beginning(kind, text, start)
}

impl Kind {
    /// Returns true if the word names a secret that a person may have chosen.
    fn is_chosen(self, word: &[u8]) -> bool {
        self == Self::Password || word.eq_ignore_ascii_case(b"secret")
    }
}

/// Returns true for a literal that is no word: `super$ecret`.
fn looks_quoted(secret: &[u8]) -> bool {
    let sign = |b: &u8| matches!(b, b'!' | b'#' | b'$' | b'%' | b'&' | b'*' | b'^' | b'?' | b'~');
    (8..=64).contains(&secret.len())
        && is_plain(secret, true)
        && !is_example(secret)
        && secret.iter().any(sign)
        && secret.iter().filter(|b| b.is_ascii_alphanumeric()).count() >= 6
        && !secret.iter().any(|b| matches!(b, b'<' | b'>' | b'(' | b'{' | b'/' | b',' | b'|'))
}

/// Where the value begins that is written like a part of the name, in what is behind the telling word.
fn attached(kind: Kind, rest: &[u8]) -> Option<usize> {
    if kind != Kind::Token || rest.len() <= ATTACHED_BYTES_MIN || rest.len() > NAME_BYTES_MAX * 2 {
        return None;
    }
    let from = rest.iter().take(8).position(|b| *b == b'-')? + 1;
    let value = &rest[from..];
    let hex = value.iter().all(u8::is_ascii_hexdigit) && looks_random(value, ATTACHED_BYTES_MIN);
    (is_uuid(value) || hex).then_some(from)
}

/// A sealed value as Jenkins and Maven write it: `{AQAAABAAA…}`.
fn in_braces(text: &[u8], from: usize, to: usize) -> Option<(usize, usize)> {
    let inside = text[from..to].trim_ascii_end().strip_prefix(b"{")?.strip_suffix(b"}")?;
    let last = inside.split(u8::is_ascii_whitespace).next_back()?;
    let looks = inside.len() <= VALUE_BYTES_MAX
        && (looks_random(last, TOKEN_BYTES_MIN)
            || is_uuid(last)
            || is_solid(last, TOKEN_BYTES_MIN)
            || is_long_number(last));
    looks.then_some((from + 1, from + 1 + inside.len()))
}

/// Returns true if a value looks like the secret that its name promises.
fn looks_secret(
    kind: Kind,
    secret: &[u8],
    sign: Sign,
    quoted: bool,
    exact: bool,
    env: bool,
) -> bool {
    if kind == Kind::Base64Key {
        return secret.len() >= 40 && secret.iter().all(|b| Class::Base64.has(*b));
    }
    if sign == Sign::Nothing {
        let token = secret.iter().all(|b| Class::Header.has(*b)) && !is_path(secret);
        return token
            && (looks_random(secret, BARE_BYTES_MIN)
                || is_uuid(secret)
                || is_solid(secret, BARE_BYTES_MIN));
    }
    if !is_plain(secret, quoted) {
        return false;
    }
    let symbolic = quoted && looks_symbolic(secret);
    // An address of mail, or a place of a secret (`env:NAME@host`).
    if kind != Kind::Password && !symbolic && is_address(secret) {
        return false;
    }
    match kind {
        Kind::Token => {
            looks_random(secret, TOKEN_BYTES_MIN)
                || looks_random_short(secret, SHORT_TOKEN_BYTES_MIN)
                || is_uuid(secret)
                || is_solid(secret, TOKEN_BYTES_MIN)
                || is_long_number(secret)
                || (symbolic && !secret.contains(&b' '))
        }
        Kind::Key => looks_random(secret, KEY_BYTES_MIN) || is_uuid(secret),
        _ => {
            (looks_random(secret, 12)
                || (exact && looks_chosen(secret) && (quoted || !is_expression(secret)))
                || (quoted
                    && sign != Sign::Element
                    && looks_simple(secret, 8)
                    && !is_expression(secret))
                || (env && secret.len() >= 6 && !is_expression(secret))
                || (symbolic && !secret.contains(&b' ')))
                && !is_example(secret)
        }
    }
}

/// Returns true if a host's name or a port follows an `@`.
fn is_address(value: &[u8]) -> bool {
    let mut parts = value[..value.len().min(SAMPLE_BYTES)].split(|b| *b == b'@').skip(1);
    parts.any(|host| {
        host.iter().all(|b| Class::Dotted.has(*b) || matches!(b, b':' | b'/' | b'[' | b']'))
    })
}

/// Returns true if the telling word stands for itself: `pass` is in `passed`, `key` in `monkey`.
fn is_word(kind: Kind, text: &[u8], start: usize, end: usize, rest: &[u8]) -> bool {
    let word = &text[start..end];
    if word.eq_ignore_ascii_case(b"\"auth") {
        return rest.first().is_none_or(|b| !b.is_ascii_lowercase());
    }
    let short = word.eq_ignore_ascii_case(b"pass") || kind == Kind::Key;
    if !short {
        return true;
    }
    let ends = rest.first().is_none_or(|b| !b.is_ascii_alphabetic());
    let begins = match text[..start].last() {
        Some(b'_' | b'-' | b'.') => true,
        // `apiKey`, `APIKEY`.
        Some(b) if b.is_ascii_alphanumeric() => {
            word[0].is_ascii_uppercase() && (b.is_ascii_lowercase() || word[1].is_ascii_uppercase())
        }
        _ => kind != Kind::Key,
    };
    ends && begins
}

/// Returns true for a name in the style of environment variables.
fn is_env(text: &[u8], start: usize, name_end: usize) -> bool {
    text[start..name_end].iter().all(|b| !b.is_ascii_lowercase())
        && text.get(name_end) == Some(&b'=')
}

/// The value on the left of a comparison: `if ("…" == password)`.
fn compared(kind: Kind, text: &[u8], start: usize) -> Option<(usize, usize)> {
    let before = &text[start.saturating_sub(NAME_BYTES_MAX)..start];
    let name = before.iter().rev().take_while(|b| Class::Dotted.has(**b)).count();
    let before = &text[..start - name];
    let blank = |text: &[u8]| text.iter().rev().take(4).take_while(|b| **b == b' ').count();
    let before = &before[..before.len() - blank(before)];
    let signs = before.iter().rev().take(3).take_while(|b| **b == b'=' || **b == b'!').count();
    if signs < 2 {
        return None;
    }
    let before = &before[..before.len() - signs];
    let before = &before[..before.len() - blank(before)];
    let quote = before.last().filter(|b| matches!(b, b'"' | b'\''))?;
    let to = before.len() - 1;
    let line = &text[to.saturating_sub(COMPARED_BYTES_MAX)..to];
    let n = line.iter().rev().take_while(|b| *b != quote && **b != b'\n').count();
    let from = to - n;
    let secret = &text[from..to];
    let opened = from > 0 && text[from - 1] == *quote;
    (opened
        && !is_placeholder(secret)
        && looks_secret(kind, secret, Sign::Equals, true, true, false))
    .then_some((from, to))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Equals,
    Colon,
    Element,
    /// A space behind an option of a command.
    Space,
    /// A comma or a bracket: the value is in quotes.
    Quoted,
    /// A space behind a word.
    Nothing,
}

/// Returns true if the name's last word shows that it holds no secret.
fn has_harmless_ending(rest: &[u8]) -> bool {
    let Some(cut) = rest.iter().rposition(|b| matches!(b, b'_' | b'-' | b' ' | b'.')) else {
        // `tokenId`, `passwordHash`, and `passwords`, which does not name a single one.
        let last = rest.to_ascii_lowercase();
        return HARMLESS_ENDINGS.iter().any(|ending| last.ends_with(ending.as_bytes()));
    };
    let last = rest[cut + 1..].to_ascii_lowercase();
    HARMLESS_ENDINGS.iter().any(|ending| last == ending.as_bytes())
}

/// Returns true if the word in front shows that the name holds no secret: `publicToken`, `primary_key`.
fn has_harmless_beginning(kind: Kind, text: &[u8], start: usize) -> bool {
    if kind == Kind::Password {
        return false;
    }
    let before = text[..start].strip_suffix(b"_").or_else(|| text[..start].strip_suffix(b"-"));
    let before = before.unwrap_or(&text[..start]);
    let mut n = before.iter().rev().take(16).take_while(|b| b.is_ascii_alphabetic()).count();
    // The last word of a name in camel case.
    let camel = before[before.len() - n..]
        .windows(2)
        .rposition(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    n -= camel.map_or(0, |at| at + 1);
    let word = before[before.len() - n..].to_ascii_lowercase();
    HARMLESS_BEGINNINGS.iter().any(|beginning| word == beginning.as_bytes())
}

/// Returns true if the name is an option of a command: `--db-password`.
fn is_flag(text: &[u8], start: usize) -> bool {
    let before = &text[start.saturating_sub(NAME_BYTES_MAX)..start];
    let n = before.iter().rev().take_while(|b| Class::Token.has(**b)).count();
    let name = &before[before.len() - n..];
    // PowerShell has one dash: `-Password`.
    (name.starts_with(b"--") || name == b"-")
        && before[..before.len() - n].last().is_none_or(|b| !b.is_ascii_alphanumeric())
}

/// The place behind the sign that follows a name, and which it is.
fn behind_name(text: &[u8], from: usize, flag: bool, open: &mut bool) -> Option<(usize, Sign)> {
    let mut at = from;
    // The quote that closes the name, escaped or not, and the bracket of `env["TOKEN"]`.
    for closing in [b'\\', b'"', b'\'', b']'] {
        at += usize::from(text.get(at) == Some(&closing));
    }
    let closed = at > from;
    // The size of an array: `secret[25]`.
    if text.get(at) == Some(&b'[') {
        let digits = text[at + 1..].iter().take(5).take_while(|b| b.is_ascii_digit()).count();
        at += if text.get(at + 1 + digits) == Some(&b']') { digits + 2 } else { 0 };
    }
    if at == from && text.get(at) == Some(&b'>') {
        return Some((at + 1, Sign::Element));
    }
    let spaces = space(text, at);
    if let Some(found) = operator(text, at + spaces) {
        return Some(behind_block_sign(text, found, open));
    }
    let behind = at + spaces;
    let quote = |at: usize| matches!(text.get(at), Some(b'"' | b'\'' | b'`'));
    match text.get(behind)? {
        b',' if closed && quote(behind + 1 + space(text, behind + 1)) => {
            Some((behind + 1 + space(text, behind + 1), Sign::Quoted))
        }
        b'(' if quote(behind + 1) => Some((behind + 1, Sign::Quoted)),
        b'"' | b'\'' if spaces > 0 && !closed => Some((behind, Sign::Quoted)),
        _ if flag && spaces > 0 => Some((behind, Sign::Space)),
        _ => value_of_pair(text, at, open).or_else(|| {
            (spaces > 0 && !closed && text[behind].is_ascii_alphanumeric())
                .then_some((behind, Sign::Nothing))
                .filter(|_| !has_sign_soon(text, behind))
        }),
    }
}

/// Returns true if a sign follows within a few words: then the value is behind it.
fn has_sign_soon(text: &[u8], from: usize) -> bool {
    let words = &text[from..text.len().min(from + WORDS_BYTES_MAX)];
    let n = words.iter().take_while(|b| Class::Dotted.has(**b) || **b == b' ').count();
    n < words.len() && operator(text, from + n).is_some()
}

/// An operator of assignment or comparison, and the place of the value behind it.
fn operator(text: &[u8], at: usize) -> Option<(usize, Sign)> {
    let rest = text.get(at..)?;
    let n = rest.iter().take(4).take_while(|b| b":=?.+!|>~".contains(*b)).count();
    let sign = match &rest[..n] {
        b":" => Sign::Colon,
        b"=" | b"==" | b"===" | b"!=" | b"!==" | b":=" | b"::=" | b":::=" | b"?=" | b"??="
        | b".=" | b"+=" | b"||=" | b"=>" | b"=~" | b"=>>" => Sign::Equals,
        // `=` in front of a value that begins with such a character.
        [b'=', ..] => return Some((at + 1, Sign::Equals)),
        // YAML's literal and folded blocks come without a space behind a colon too.
        [b':', b'|' | b'>'] => return Some((at + 1, Sign::Colon)),
        _ => return None,
    };
    Some((at + n + space(text, at + n), sign))
}

/// Past the sign of a block of YAML: `token: |` and the value in the next line.
fn behind_block_sign(text: &[u8], (at, sign): (usize, Sign), open: &mut bool) -> (usize, Sign) {
    if sign == Sign::Colon
        && let [b'|' | b'>', rest @ ..] = &text[at..]
    {
        let chomp = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
        if matches!(rest.get(chomp), Some(b'\n' | b'\r')) {
            let next = at + 1 + chomp;
            return (next + white(text, next, open), sign);
        }
    }
    (at, sign)
}

/// Past the words between a name and its sign: `var secretToken string = …`, `secret access key: …`.
fn behind_words(kind: Kind, text: &[u8], from: usize, open: &mut bool) -> Option<(usize, Sign)> {
    if kind == Kind::Key || !matches!(text.get(from), Some(b' ' | b'\t' | b'.')) {
        return None;
    }
    let words = &text[from..text.len().min(from + WORDS_BYTES_MAX)];
    let n = words.iter().take_while(|b| Class::Dotted.has(**b) || **b == b' ').count();
    let words = &words[..n];
    let name = words.trim_ascii_end();
    if has_harmless_ending(name) {
        return None;
    }
    let mut at = from + name.len();
    if name.ends_with(b" is") && matches!(text.get(from + n), Some(b'"' | b'\'')) {
        return Some((from + n, Sign::Quoted));
    }
    at += usize::from(matches!(text.get(at), Some(b'"' | b'\'')));
    at += space(text, at);
    let found = operator(text, at)?;
    Some(behind_block_sign(text, found, open))
}

/// The value of a pair whose name is a value itself: `name="TOKEN" value="…"`, `"name": "TOKEN", "value": "…"`, and the
/// next line of a list in YAML.
fn value_of_pair(text: &[u8], from: usize, open: &mut bool) -> Option<(usize, Sign)> {
    let mut at = from + usize::from(text.get(from) == Some(&b','));
    at += white(text, at, open);
    at += usize::from(matches!(text.get(at), Some(b'"' | b'\'')));
    let word = text.get(at..at + 5)?;
    if at == from || !word.eq_ignore_ascii_case(b"value") {
        return None;
    }
    at += 5;
    at += usize::from(matches!(text.get(at), Some(b'"' | b'\'')));
    operator(text, at + space(text, at))
}

/// White space with at most a few line ends. Sets `open` if the text ends with it, or in the next line.
fn white(text: &[u8], at: usize, open: &mut bool) -> usize {
    let rest = &text[at.min(text.len())..];
    let n = rest.iter().take(WHITE_BYTES_MAX).take_while(|b| b.is_ascii_whitespace()).count();
    let next = &rest[n..rest.len().min(n + VALUE_BYTES_MAX)];
    let crosses = rest[..n].contains(&b'\n');
    *open |= at + n == text.len()
        || (crosses && n + next.len() == rest.len() && memchr::memchr(b'\n', next).is_none());
    n
}

/// Number of signs behind a value without quotes that end a sentence, and white space.
fn trailing(value: &[u8]) -> usize {
    value.iter().rev().take_while(|b| b.is_ascii_whitespace()).count()
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
        matches!(text.get(at), Some(b'b' | b'r' | b'f' | b'u' | b'@'))
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
    let secret = &secret[..secret.len().min(SAMPLE_BYTES)];
    !matches!(secret.first(), Some(b',' | b';' | b':' | b')' | b'}' | b'#'))
        && !is_placeholder(secret.trim_ascii_start().strip_prefix(b"'").unwrap_or(secret))
        && !secret.starts_with(b"arn:")
        && secret.iter().all(u8::is_ascii_graphic)
        && !is_template(secret)
        && (quoted || !secret.iter().any(|b| matches!(b, b'(' | b'[' | b'{')))
        && !secret.windows(3).any(|three| three == b"://")
        && (quoted || !secret.windows(2).any(|pair| pair == b"::"))
        && !is_path(secret)
}

/// Returns true if a value has a place for another: `${NAME}`, `{{ name }}`, `$(command)`, `%(name)s`, `call()`.
fn is_template(secret: &[u8]) -> bool {
    secret.windows(2).enumerate().any(|(at, pair)| {
        let name = |close: &[u8]| {
            let inside = &secret[at + 2..];
            let n = inside
                .iter()
                .take_while(|b| Class::Dotted.has(**b) || matches!(b, b':' | b'|' | b'$' | b'/'))
                .count();
            inside[n..].starts_with(close)
        };
        match pair {
            b"${" => name(b"}"),
            b"{{" => name(b"}}"),
            b"$(" | b"%(" => name(b")"),
            b"()" => true,
            _ => false,
        }
    })
}

/// Returns true for a value that says that it is none.
fn is_example(secret: &[u8]) -> bool {
    const WORDS: &[&[u8]] = &[
        b"example",
        b"placeholder",
        b"changeme",
        b"fake",
        b"dummy",
        b"your-",
        b"your_",
        b"redacted",
    ];
    let n = secret.len().min(64);
    let lower = secret[..n].to_ascii_lowercase();
    WORDS.iter().any(|word| memchr::memmem::find(&lower, word).is_some())
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

//! Removes secrets from text before it is shown or recorded (layers 7 and 8): provider keys, tokens, private keys,
//! passwords in addresses and assignments. Each becomes `[redacted:RULE]`; the text around it stays.
//!
//! One pass finds the beginnings of secrets (`rules`), a small matcher checks the text that follows.
//! Time is linear in the text for any text. Never reports a secret, not even in part: a [`Hit`] is a rule and a count.
//!
//! Judges text by its look: a secret that looks like a word passes, and a random string after `token=` does not.
//!
//! | module | purpose |
//! |---|---|
//! | `address` | passwords in addresses |
//! | `assignment` | values of telling names |
//! | `block` | private keys in armour |
//! | `chars` | classes of characters and the ends of their runs |
//! | `command_line` | passwords among the arguments of commands |
//! | `header` | credentials in headers |
//! | `login` | passwords in a `.netrc` |
//! | `prefixes` | beginnings of secrets |
//! | `providers` | tokens of providers |
//! | `random` | strings made by a generator |
//! | `rules` | the rules as data |
//! | `stream` | a stream as it is written |

mod address;
mod assignment;
mod block;
mod chars;
mod command_line;
mod header;
mod login;
mod prefix_matcher;
mod providers;
mod random;
mod rules;
mod stream;

use std::borrow::Cow;

use chars::Runs;
use prefix_matcher::{Occurrence, RULES};
use rules::{SecretRule, Tail};
pub use stream::StreamRedactor;

/// Maximum number of passes over one text. Removing a secret can uncover another at its edge; the third pass has yet to
/// find one.
const PASSES_MAX: usize = 4;

/// Maximum growth of a text by redaction: the shortest hit has seven bytes (`://u:p@`), the longest mark forty.
pub const GROWTH_MAX: usize = 6;

/// Fewest bytes of a secret that is looked for again in its line, and how far.
const REPEATED_BYTES_MIN: usize = 12;
const REPEATED_WITHIN_BYTES: usize = 512;

/// Finds secrets and replaces them. Costs nothing to make: the tables are shared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redactor;

/// A text without its secrets, and which rules found any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<T> {
    /// The text, borrowed where nothing was found.
    pub text: T,
    /// Rules that hit, in the order of the table.
    pub hits: Vec<Hit>,
}

/// Number of hits of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Stable name of the rule, `kebab-case`.
    pub rule: &'static str,
    /// Number of secrets it replaced.
    pub count: usize,
}

impl Redactor {
    /// A redactor with every rule.
    pub const fn new() -> Self {
        Self
    }

    /// The text without its secrets.
    ///
    /// ```
    /// let text = "postgres://app:s3cr3t@db/prod";
    /// let clean = ringfence_screen::redact::Redactor::new().redact(text);
    /// assert_eq!(clean.text, "postgres://app:[redacted:url-password]@db/prod");
    /// ```
    pub fn redact(self, text: &str) -> Redacted<Cow<'_, str>> {
        let clean = self.redact_bytes(text.as_bytes());
        let text = match clean.text {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Hits begin and end at ASCII, so the rest is still valid UTF-8; if it were not, nothing is lost.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
            ),
        };
        Redacted { text, hits: clean.hits }
    }

    /// The same for output that need not be UTF-8.
    pub fn redact_bytes(self, bytes: &[u8]) -> Redacted<Cow<'_, [u8]>> {
        let mut text = Cow::Borrowed(bytes);
        let mut counts = vec![0; RULES.len()];
        for _ in 0..PASSES_MAX {
            let spans = merge(scan(&text).spans);
            if spans.is_empty() {
                break;
            }
            text = Cow::Owned(replace(&text, &spans, &mut counts));
        }
        Redacted { text, hits: hits(&counts) }
    }
}

/// Number of hits of each name: several rules can share one.
fn hits(counts: &[usize]) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    for (rule, count) in RULES.iter().zip(counts).filter(|(_, count)| **count > 0) {
        match hits.iter_mut().find(|hit| hit.rule == rule.name) {
            Some(hit) => hit.count += count,
            None => hits.push(Hit { rule: rule.name, count: *count }),
        }
    }
    hits
}

/// The names of all rules, in the order of the table. Several rules can share a name.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    rules::all().map(|rule| rule.name)
}

/// A secret: from, to, and the index of its rule; and the text that it was told by, from, to.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    rule: usize,
    told: (usize, usize),
}

/// State of one pass over a text.
struct Pass<'t> {
    text: &'t [u8],
    runs: Runs<'t>,
    blocks: block::Blocks<'t>,
    /// Ends of the last command and the last header that were read.
    commands_until: usize,
    lists_end: usize,
    /// Set by a matcher that reached the end of the text across a line end: more text could change its answer.
    open: bool,
}

/// Result of one pass over a text.
#[derive(Clone)]
struct ScanResult {
    /// Secrets, in any order.
    spans: Vec<Span>,
    /// Start of the first text that may become one if more follows.
    open_from: usize,
    /// Start of the first private key whose end is missing.
    key_from: usize,
}

/// Finds the secrets in a text.
fn scan(text: &[u8]) -> ScanResult {
    let mut pass = Pass {
        text,
        runs: Runs::new(text),
        blocks: block::Blocks::new(text),
        commands_until: 0,
        lists_end: 0,
        open: false,
    };
    let mut found: Vec<Span> = Vec::new();
    let mut open_from = text.len();
    let mut key_from = text.len();
    prefix_matcher::find(text, |Occurrence { start: at, end: behind, rule: index, place }| {
        let rule = RULES[index];
        if rule.is_exact() && &text[at..behind] != rule.prefixes[place].as_bytes() {
            return;
        }
        pass.open = false;
        if let Some((start, end)) = pass.secret(rule, at, behind) {
            let told = (start.min(at), end.max(behind));
            found.push(Span { start, end, rule: index, told });
            if matches!(rule.tail, Tail::Assignment(_) | Tail::Command) {
                repeated(text, &mut found);
            }
        }
        if pass.open {
            open_from = open_from.min(at);
            if matches!(rule.tail, Tail::Block | Tail::Lines) && pass.blocks.in_key {
                key_from = key_from.min(at);
            }
        }
    });
    ScanResult { spans: found, open_from, key_from }
}

/// The same secret again behind the last one found, in its line: `token='…' | '…'`.
fn repeated(text: &[u8], found: &mut Vec<Span>) {
    let Some(Span { start, end, rule, told }) = found.last().copied() else { return };
    let secret = &text[start..end];
    if !(REPEATED_BYTES_MIN..=REPEATED_WITHIN_BYTES).contains(&secret.len()) {
        return;
    }
    let rest = &text[end..text.len().min(end + REPEATED_WITHIN_BYTES)];
    let line = memchr::memchr(b'\n', rest).map_or(rest, |n| &rest[..n]);
    for at in memchr::memmem::find_iter(line, secret) {
        let start = end + at;
        let end = start + secret.len();
        found.push(Span { start, end, rule, told: (told.0, end) });
    }
}

impl Pass<'_> {
    /// The span of the secret that begins with this prefix, if it is one.
    fn secret(&mut self, rule: &SecretRule, start: usize, end: usize) -> Option<(usize, usize)> {
        let text = self.text;
        let runs = &mut self.runs;
        match rule.tail {
            Tail::Run { class, n_min } => {
                let start = rule.before.start(text, start)?;
                let mut stop = runs.end(class, end);
                // The end of a sentence is not the token's.
                stop -= text[end..stop].iter().rev().take(3).take_while(|b| **b == b'.').count();
                let tail = &text[end..stop];
                (tail.len() >= n_min
                    && !chars::by_chance(text, start, stop)
                    && chars::ends_word(text, stop)
                    && rule.looks_right(tail))
                .then_some((start, stop))
            }
            Tail::Exactly { class, n } => {
                let start = rule.before.start(text, start)?;
                let stop = runs.end(class, end);
                (stop - end == n
                    && chars::ends_word(text, stop)
                    && rule.looks_right(&text[end..stop]))
                .then_some((start, stop))
            }
            Tail::Parts { class, parts } => {
                let start = rule.before.start(text, start)?;
                let stop = parts_end(class, parts, text, end, runs)?;
                (chars::ends_word(text, stop) && rule.looks_right(&text[end..stop]))
                    .then_some((start, stop))
            }
            Tail::Block => {
                let span = self.blocks.block(start, end);
                self.open = std::mem::take(&mut self.blocks.open);
                span
            }
            Tail::Lines => {
                let span = self.blocks.lines(end);
                self.open = std::mem::take(&mut self.blocks.open);
                span
            }
            Tail::Assignment(kind) => {
                assignment::value(kind, text, start, end, runs, &mut self.open)
            }
            Tail::Authorization => header::authorization(text, end, runs, &mut self.lists_end),
            Tail::Cookie => header::cookies(text, start, end, runs),
            Tail::Scheme => assignment::after_scheme(text, start, end, runs),
            Tail::Query => assignment::in_query(text, end, runs),
            Tail::Address => address::password(text, start, end),
            Tail::Login => login::password(text, start, end, &mut self.open),
            Tail::Command => {
                command_line::password(text, start, end, &mut self.commands_until, &mut self.open)
            }
        }
    }
}

/// The end of parts of bounded length with dots between.
fn parts_end(
    class: chars::Class,
    parts: &[(usize, usize)],
    text: &[u8],
    from: usize,
    runs: &mut Runs<'_>,
) -> Option<usize> {
    let mut at = from;
    for (place, (n_min, n_max)) in parts.iter().enumerate() {
        if place > 0 {
            if text.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
        let stop = runs.end(class, at);
        if !(*n_min..=*n_max).contains(&(stop - at)) {
            return None;
        }
        at = stop;
    }
    Some(at)
}

/// Sorts spans and merges those that overlap. The rule that is first in the table names the merged one: the table goes
/// from the most telling rule to the least.
fn merge(mut found: Vec<Span>) -> Vec<Span> {
    found.sort_by_key(|span| (span.start, span.end));
    let mut merged: Vec<Span> = Vec::with_capacity(found.len());
    for span in found {
        match merged.last_mut() {
            Some(last) if span.start < last.end => {
                last.end = last.end.max(span.end);
                last.rule = last.rule.min(span.rule);
                last.told = (last.told.0.min(span.told.0), last.told.1.max(span.told.1));
            }
            _ => merged.push(span),
        }
    }
    merged
}

fn replace(text: &[u8], spans: &[Span], counts: &mut [usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for span in spans {
        out.extend_from_slice(&text[at..span.start]);
        out.extend_from_slice(MARK.as_bytes());
        out.extend_from_slice(RULES[span.rule].name.as_bytes());
        out.push(b']');
        counts[span.rule] += 1;
        at = span.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Prefix of every replacement. A value that begins so has been redacted before.
pub(crate) const MARK: &str = "[redacted:";

//! Removes secrets from text before it is shown or recorded (layers 7 and 8): provider keys, tokens, private keys,
//! passwords in addresses and assignments. Each becomes `[redacted:RULE]`; the text around it stays.
//!
//! One pass of an automaton finds the beginnings of secrets (`rules`), a small matcher checks the text that follows.
//! Time is linear in the text for any text. Never reports a secret, not even in part: a [`Hit`] is a rule and a count.
//!
//! Judges text by its look: a secret that looks like a word passes, and a random string after `token=` does not.

mod address;
mod assignment;
mod block;
mod chars;
mod login;
mod random;
mod rules;

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind};

use chars::Runs;
use rules::{RULES, SecretRule, Tail};

/// Maximum number of passes over one text. Removing a secret can uncover another at its edge; the third pass has yet to
/// find one.
const PASSES_MAX: usize = 4;

/// Maximum growth of a text by redaction: the shortest hit has seven bytes (`://u:p@`), the longest mark forty.
pub const GROWTH_MAX: usize = 6;

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
            let spans = spans(&text);
            if spans.is_empty() {
                break;
            }
            text = Cow::Owned(replace(&text, &spans, &mut counts));
        }
        let hits = RULES.iter().zip(counts).filter(|(_, count)| *count > 0);
        Redacted { text, hits: hits.map(|(rule, count)| Hit { rule: rule.name, count }).collect() }
    }
}

/// The names of all rules, in the order of the table.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// A secret: from, to, and the index of its rule.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    rule: usize,
}

/// The automaton over all prefixes, and each prefix's rule and position in its list.
struct Tables {
    automaton: AhoCorasick,
    owners: Vec<(usize, usize)>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut prefixes = Vec::new();
    let mut owners = Vec::new();
    for (index, rule) in RULES.iter().enumerate() {
        for (place, prefix) in rule.prefixes.iter().enumerate() {
            prefixes.push(*prefix);
            owners.push((index, place));
        }
    }
    let automaton = AhoCorasickBuilder::new()
        .ascii_case_insensitive(true)
        // The kind that is built fastest: a command that runs once builds it for one small text.
        .kind(Some(AhoCorasickKind::NoncontiguousNFA))
        // Deeper costs time to make, none costs a list to walk for every byte of text.
        .dense_depth(1)
        .prefilter(false)
        .build(prefixes)
        .expect("a few hundred short literals");
    Tables { automaton, owners }
});

fn spans(text: &[u8]) -> Vec<Span> {
    let mut runs = Runs::new(text);
    let mut blocks = block::Blocks::new(text);
    let mut found: Vec<Span> = Vec::new();
    for hit in TABLES.automaton.find_overlapping_iter(text) {
        let (index, place) = TABLES.owners[hit.pattern().as_usize()];
        let rule = &RULES[index];
        if rule.is_exact() && &text[hit.start()..hit.end()] != rule.prefixes[place].as_bytes() {
            continue;
        }
        if let Some((start, end)) =
            secret(rule, text, hit.start(), hit.end(), &mut runs, &mut blocks)
        {
            found.push(Span { start, end, rule: index });
        }
    }
    merge(found)
}

/// The span of the secret that begins with this prefix, if it is one.
fn secret(
    rule: &SecretRule,
    text: &[u8],
    start: usize,
    end: usize,
    runs: &mut Runs<'_>,
    blocks: &mut block::Blocks<'_>,
) -> Option<(usize, usize)> {
    match rule.tail {
        Tail::Run { class, n_min } => {
            let start = rule.before.start(text, start)?;
            let stop = runs.end(class, end);
            let tail = &text[end..stop];
            (tail.len() >= n_min
                && chars::ends_word(text, stop)
                && random::bits(tail) >= rule.bits_min)
                .then_some((start, stop))
        }
        Tail::Exactly { class, n } => {
            let start = rule.before.start(text, start)?;
            let stop = runs.end(class, end);
            (stop - end == n
                && chars::ends_word(text, stop)
                && random::bits(&text[end..stop]) >= rule.bits_min)
                .then_some((start, stop))
        }
        Tail::Parts { class, parts } => {
            let start = rule.before.start(text, start)?;
            let stop = parts_end(class, parts, text, end, runs)?;
            (chars::ends_word(text, stop) && random::bits(&text[end..stop]) >= rule.bits_min)
                .then_some((start, stop))
        }
        Tail::Block => blocks.block(start, end),
        Tail::Lines => blocks.lines(end),
        Tail::Assignment(kind) => assignment::value(kind, text, start, end, runs),
        Tail::Scheme => assignment::after_scheme(text, start, end, runs),
        Tail::Query => assignment::in_query(text, end, runs),
        Tail::Address => address::password(text, start, end),
        Tail::Login => login::password(text, start, end),
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

//! Patterns: `*` and `?` within a part of a path, `**` across parts, `[a-z]`. Matched against words with gaps, in time
//! bounded by the length of both.

use serde::{Deserialize, Serialize};

use super::Gaps;
use crate::shell::{Part, Word};

/// Longest pattern.
const PATTERN_CHARS_MAX: usize = 512;

/// Longest word that is matched to its end; the rest of a longer one is a gap.
const WORD_CHARS_MAX: usize = 4096;

/// A pattern, checked when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Glob {
    text: String,
    signs: Vec<Sign>,
}

/// Invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobError(String);

impl std::fmt::Display for GlobError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GlobError {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sign {
    Char(char),
    /// `?`
    One,
    /// `*`
    Some,
    /// `**`
    All,
    /// The beginning of `**/`: nothing of it, or [`Sign::Parts`].
    MaybeParts,
    /// `**/`: parts with their slash.
    Parts,
    /// `[a-z]`, `[!a-z]`
    Set {
        ranges: Vec<(char, char)>,
        not: bool,
    },
}

impl TryFrom<String> for Glob {
    type Error = GlobError;

    fn try_from(text: String) -> Result<Self, GlobError> {
        if text.chars().count() > PATTERN_CHARS_MAX {
            return Err(GlobError(format!(
                "a pattern has more than {PATTERN_CHARS_MAX} characters"
            )));
        }
        let mut signs = Vec::new();
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            let (sign, n) = match c {
                '*' if rest.starts_with("**/") => (Sign::Parts, 3),
                '*' if rest.starts_with("**") => (Sign::All, 2),
                '*' => (Sign::Some, 1),
                '?' => (Sign::One, 1),
                '[' => set(rest)
                    .ok_or_else(|| GlobError(format!("`[` in `{text}` is never closed")))?,
                '\\' => {
                    let next = rest[1..].chars().next();
                    let next =
                        next.ok_or_else(|| GlobError(format!("`{text}` ends in a backslash")))?;
                    (Sign::Char(next), 1 + next.len_utf8())
                }
                c => (Sign::Char(c), c.len_utf8()),
            };
            if sign == Sign::Parts {
                signs.push(Sign::MaybeParts);
            }
            signs.push(sign);
            rest = &rest[n..];
        }
        Ok(Self { text, signs })
    }
}

impl TryFrom<&str> for Glob {
    type Error = GlobError;

    fn try_from(text: &str) -> Result<Self, GlobError> {
        Self::try_from(text.to_owned())
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> Self {
        glob.text
    }
}

/// A set in brackets and its length in the pattern.
fn set(text: &str) -> Option<(Sign, usize)> {
    let not = text[1..].starts_with(['!', '^']);
    let from = 1 + usize::from(not);
    // A `]` that comes first is a member.
    let close = from + 1 + text.get(from + 1..)?.find(']')?;
    let members: Vec<char> = text.get(from..close)?.chars().collect();
    let (mut ranges, mut at) = (Vec::new(), 0);
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            ranges.push((members[at], members[at + 2]));
            at += 3;
        } else {
            ranges.push((members[at], members[at]));
            at += 1;
        }
    }
    Some((Sign::Set { ranges, not }, close + 1))
}

/// A character of a word, or a gap.
#[derive(Clone, Copy)]
enum Symbol {
    Char(char),
    Gap,
}

impl Glob {
    /// Returns true if a word matches.
    pub(crate) fn matches(&self, word: &Word, gaps: Gaps) -> bool {
        match symbols(word, gaps) {
            Some(symbols) => matches(&self.signs, &symbols),
            None => false,
        }
    }

    /// Returns true if a path matches: `x/**` also matches `x`.
    pub(crate) fn matches_path(&self, path: &Word, gaps: Gaps) -> bool {
        let Some(symbols) = symbols(path, gaps) else { return false };
        let below = matches!(&*self.signs, [.., Sign::Char('/'), Sign::All]);
        matches(&self.signs, &symbols)
            || (below && matches(&self.signs[..self.signs.len() - 2], &symbols))
    }
}

/// A word as symbols; `None` if it has gaps that do not match.
fn symbols(word: &Word, gaps: Gaps) -> Option<Vec<Symbol>> {
    let mut symbols = Vec::new();
    for part in &word.parts {
        // One more than are matched tells that there is a rest, which is not collected.
        let n_left = (WORD_CHARS_MAX + 1).saturating_sub(symbols.len());
        match part {
            Part::Known(text) => symbols.extend(text.chars().map(Symbol::Char).take(n_left)),
            // Its written form can be compared; its expansion is a gap.
            Part::Glob(text) if gaps == Gaps::Differ => {
                symbols.extend(text.chars().map(Symbol::Char).take(n_left));
            }
            Part::Glob(_) | Part::Unknown if gaps == Gaps::Match => {
                symbols.extend(std::iter::once(Symbol::Gap).take(n_left));
            }
            _ => return None,
        }
    }
    if symbols.len() > WORD_CHARS_MAX {
        symbols.truncate(WORD_CHARS_MAX);
        symbols.push(Symbol::Gap);
    }
    Some(symbols)
}

/// Returns true if pattern and word have a text in common. Keeps one row of reachable positions in the pattern per
/// symbol.
fn matches(signs: &[Sign], symbols: &[Symbol]) -> bool {
    let mut reached = vec![false; signs.len() + 1];
    reached[0] = true;
    // At the beginning of a part, where `**/` may stand for nothing more.
    skip_empty(signs, &mut reached);
    for symbol in symbols {
        let mut next = vec![false; signs.len() + 1];
        for (at, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            match symbol {
                Symbol::Gap => {
                    // Any text: every later position is reachable, and this one stays so.
                    next[at..].fill(true);
                    break;
                }
                Symbol::Char(c) => {
                    let Some(sign) = signs.get(at) else { continue };
                    step(sign, *c, at, &mut next);
                }
            }
        }
        skip_empty(signs, &mut next);
        reached = next;
    }
    reached[signs.len()]
}

fn step(sign: &Sign, c: char, at: usize, next: &mut [bool]) {
    match sign {
        Sign::Char(sign) => next[at + 1] |= *sign == c,
        Sign::One => next[at + 1] |= c != '/',
        Sign::Some => next[at] |= c != '/',
        Sign::All => next[at] = true,
        Sign::Parts => {
            next[at] = true;
            next[at + 1] |= c == '/';
        }
        Sign::MaybeParts => {}
        Sign::Set { ranges, not } => {
            let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
            next[at + 1] |= c != '/' && is_in != *not;
        }
    }
}

/// Stars can be nothing, and so can `**/` before it has taken anything.
fn skip_empty(signs: &[Sign], reached: &mut [bool]) {
    for (at, sign) in signs.iter().enumerate() {
        if !reached[at] {
            continue;
        }
        match sign {
            Sign::Some | Sign::All => reached[at + 1] = true,
            Sign::MaybeParts => {
                reached[at + 1] = true;
                reached[at + 2] = true;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, text: &str) -> bool {
        Glob::try_from(pattern).unwrap().matches_path(&Word::known(text), Gaps::Differ)
    }

    #[test]
    fn patterns_match_paths() {
        for (pattern, yes, no) in [
            (
                "/etc/*",
                &["/etc/passwd"][..],
                &["/etc", "/etc/ssl/x", "/etcetera", "/home/etc/x"][..],
            ),
            ("/etc/**", &["/etc", "/etc/passwd", "/etc/ssl/x"], &["/etcetera"]),
            (
                "**/.ssh/**",
                &["/home/a/.ssh/id", "/home/a/.ssh", ".ssh/x", "/.ssh/x"],
                &["/home/a/.sshfoo", "/a/x.ssh/b"],
            ),
            ("**/.env*", &[".env", "/a/.env.local", "/a/b/.environment"], &["/a/env", "/a/.env/x"]),
            ("*.py", &["a.py", ".py"], &["a/b.py", "a.pyc"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab", "a/x"]),
            ("[a-c]?[!x]", &["abc", "cz1"], &["dbc", "abx", "ab"]),
            (r"a\*b", &["a*b"], &["axb"]),
            ("", &[""], &["a"]),
            ("**", &["", "a/b"], &[]),
            ("ü*", &["üx"], &["ux"]),
        ] {
            for text in yes {
                assert!(is(pattern, text), "{pattern} {text}");
            }
            for text in no {
                assert!(!is(pattern, text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn gaps_match_when_asked_to() {
        let glob = Glob::try_from("/etc/**").unwrap();
        let known = |text: &str| Part::Known(text.into());
        for (parts, could) in [
            (vec![Part::Unknown], true),
            (vec![known("/et"), Part::Unknown], true),
            (vec![known("/et"), Part::Glob("?".into()), known("/passwd")], true),
            (vec![known("/home/"), Part::Unknown], false),
        ] {
            let word = Word { parts };
            assert_eq!(glob.matches_path(&word, Gaps::Match), could, "{word:?}");
            assert!(!glob.matches_path(&word, Gaps::Differ), "{word:?}");
        }
    }

    #[test]
    fn a_long_word_is_not_collected_beyond_what_is_matched() {
        let long = "x".repeat(16 << 20);
        let known = |text: &str| Part::Known(text.into());
        for (parts, gaps) in [
            (vec![known(&long)], Gaps::Differ),
            (vec![known(&long), known("/y")], Gaps::Match),
            (vec![Part::Glob(long.clone())], Gaps::Differ),
            (vec![Part::Unknown; 100_000], Gaps::Match),
        ] {
            let symbols = symbols(&Word { parts }, gaps).unwrap();
            assert_eq!(symbols.len(), WORD_CHARS_MAX + 1);
            assert!(matches!(symbols.last(), Some(Symbol::Gap)));
            assert!(symbols.capacity() <= 4 * WORD_CHARS_MAX, "{}", symbols.capacity());
        }
        // A gap behind what is matched is one still.
        let word = Word { parts: vec![known(&long), Part::Unknown] };
        assert!(symbols(&word, Gaps::Differ).is_none());
        let exact = symbols(&Word::known(&long[..WORD_CHARS_MAX]), Gaps::Differ).unwrap();
        assert!(exact.len() == WORD_CHARS_MAX && matches!(exact.last(), Some(Symbol::Char('x'))));
    }

    #[test]
    fn broken_patterns_are_refused() {
        for text in ["[a", r"a\", &"a".repeat(600)] {
            assert!(Glob::try_from(text).is_err(), "{text}");
        }
    }
}

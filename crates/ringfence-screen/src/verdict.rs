//! The verdict of screening: safe or not, and every violation with its position in the source.

use ringfence_spec::{Denial, DenialRule, Finding, Hint, Layer};
use serde::Serialize;

use crate::rules::Rule;

/// Violations listed before the rest is only counted, so that a hostile program cannot make a verdict of any size.
pub const VIOLATIONS_MAX: usize = 100;

/// Characters of a subject: long enough for any real name, short enough for a line.
const SUBJECT_CHARS_MAX: usize = 80;

/// Risk of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenRisk {
    /// No rule was broken.
    #[default]
    Safe,
    /// A rule that ordinary programs break too: an import that is not on the list, a syntax error.
    Medium,
    /// A rule that is on the way out of an interpreter: `eval`, `__subclasses__`, `import ctypes`.
    High,
}

impl From<ScreenRisk> for ringfence_spec::Risk {
    fn from(risk: ScreenRisk) -> Self {
        match risk {
            ScreenRisk::Safe => Self::Low,
            ScreenRisk::Medium => Self::Medium,
            ScreenRisk::High => Self::High,
        }
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Stable name of the rule, `snake_case`.
    pub rule: DenialRule,
    /// The name, module or construct that broke it.
    pub subject: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// An alternative to suggest.
    pub hint: Hint,
}

impl From<Violation> for Denial {
    /// Converts it for the outcome of a refused run.
    fn from(violation: Violation) -> Self {
        let Violation { rule, line, column, subject, hint, .. } = violation;
        let denial = Self::new(Layer::Screen, rule, subject, hint);
        Self { line: Some(line), column: Some(column), ..denial }
    }
}

/// The verdict on one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScreenVerdict {
    /// True if it may run under the requested preset.
    pub safe: bool,
    /// The worst risk of its violations and findings.
    pub risk: ScreenRisk,
    /// Violations in source order, at most [`VIOLATIONS_MAX`] and a last one that counts the rest.
    pub violations: Vec<Violation>,
    /// Constructs that a tighter preset would refuse, in source order, at most [`VIOLATIONS_MAX`].
    pub findings: Vec<Finding>,
}

/// Violations as they are found, by byte offset.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Found>,
}

#[derive(Debug)]
struct Found {
    offset: u32,
    rule: &'static Rule,
    risk: ScreenRisk,
    subject: String,
    hint: Hint,
}

impl Findings {
    /// Notes a broken rule at a byte offset.
    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        offset: u32,
        subject: &str,
        hint: impl Into<Hint>,
    ) {
        self.add_at_risk(rule, rule.risk, offset, subject, hint);
    }

    /// The same with the risk given by the subject.
    pub(crate) fn add_at_risk(
        &mut self,
        rule: &'static Rule,
        risk: ScreenRisk,
        offset: u32,
        subject: &str,
        hint: impl Into<Hint>,
    ) {
        self.found.push(Found { offset, rule, risk, subject: shown(subject), hint: hint.into() });
    }

    /// Keeps the ones for which `keep` returns true, and returns the others.
    pub(crate) fn split_off(&mut self, keep: impl Fn(&Rule, &str, u32) -> bool) -> Self {
        let (kept, others) = std::mem::take(&mut self.found)
            .into_iter()
            .partition(|found| keep(found.rule, &found.subject, found.offset));
        self.found = kept;
        Self { found: others }
    }

    fn sort(&mut self) {
        self.found.sort_by_key(|found| (found.offset, found.rule.name));
        self.found.dedup_by(|a, b| {
            a.offset == b.offset && a.rule.name == b.rule.name && a.subject == b.subject
        });
    }

    /// Adds these to a verdict as what a tighter preset would refuse.
    pub(crate) fn note_in(mut self, verdict: &mut ScreenVerdict, source: &str) {
        self.sort();
        let mut place = SourcePlace::start(source);
        for found in self.found.into_iter().take(VIOLATIONS_MAX) {
            place.advance_to(found.offset as usize);
            verdict.risk = verdict.risk.max(found.risk);
            verdict.findings.push(Finding {
                rule: found.rule.name,
                subject: found.subject,
                line: place.line,
                risk: found.risk.into(),
            });
        }
    }

    /// The verdict, with offsets turned into lines and columns.
    pub(crate) fn verdict(mut self, source: &str) -> ScreenVerdict {
        self.sort();
        let risk = self.found.iter().map(|f| f.risk).max().unwrap_or_default();
        let mut place = SourcePlace::start(source);
        let n_found = self.found.len();
        let mut violations: Vec<Violation> = Vec::with_capacity(n_found.min(VIOLATIONS_MAX + 1));
        for finding in self.found.into_iter().take(VIOLATIONS_MAX) {
            place.advance_to(finding.offset as usize);
            violations.push(Violation {
                rule: finding.rule.name,
                subject: finding.subject,
                line: place.line,
                column: place.column,
                hint: finding.hint,
            });
        }
        if n_found > VIOLATIONS_MAX {
            violations.push(Violation {
                rule: crate::rules::MORE_VIOLATIONS.name,
                subject: format!("{} more", n_found - VIOLATIONS_MAX),
                line: place.line,
                column: place.column,
                hint: "repair the ones above first".into(),
            });
        }
        ScreenVerdict { safe: violations.is_empty(), risk, violations, findings: Vec::new() }
    }
}

/// A position in a source that only moves forward, so that a whole list of offsets costs one pass.
struct SourcePlace<'a> {
    source: &'a str,
    offset: usize,
    line: u32,
    column: u32,
}

impl<'a> SourcePlace<'a> {
    fn start(source: &'a str) -> Self {
        // A byte order mark is no column of the first line.
        let offset = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { source, offset, line: 1, column: 1 }
    }

    fn advance_to(&mut self, offset: usize) {
        let mut chars = self.source[self.offset..].char_indices().peekable();
        let start = self.offset;
        while let Some((at, c)) = chars.next() {
            if start + at >= offset {
                self.offset = start + at;
                return;
            }
            let ends_line = match c {
                '\n' => true,
                '\r' => chars.peek().is_none_or(|(_, next)| *next != '\n'),
                _ => false,
            };
            if ends_line {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.offset = self.source.len();
    }
}

/// A subject as one short line without control characters: it is part of a name or a literal of the program.
fn shown(subject: &str) -> String {
    let mut out = String::new();
    for (n, c) in subject.chars().enumerate() {
        if n == SUBJECT_CHARS_MAX {
            out.push('…');
            break;
        }
        if c.is_control() || ringfence_spec::invisible::is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::SYNTAX_ERROR;

    fn places(source: &str, offsets: &[u32]) -> Vec<(u32, u32)> {
        let mut findings = Findings::default();
        for offset in offsets {
            findings.add(&SYNTAX_ERROR, *offset, &offset.to_string(), "");
        }
        findings.verdict(source).violations.iter().map(|v| (v.line, v.column)).collect()
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        assert_eq!(
            places("ä = b\r\nc\rd\ne", &[0, 3, 8, 10, 12]),
            [(1, 1), (1, 3), (2, 1), (3, 1), (4, 1)]
        );
        assert_eq!(places("\u{feff}x", &[3]), [(1, 1)]);
        assert_eq!(places("x", &[99]), [(1, 2)]);
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let mut findings = Findings::default();
        for offset in 0..250 {
            findings.add(&SYNTAX_ERROR, offset, &offset.to_string(), "");
        }
        let verdict = findings.verdict(&" ".repeat(250));
        assert_eq!(verdict.violations.len(), VIOLATIONS_MAX + 1);
        assert_eq!(verdict.violations[VIOLATIONS_MAX].subject, "150 more");
    }

    #[test]
    fn a_violation_becomes_the_denial_of_the_contract() {
        let verdict = crate::screen(b"import os", ringfence_spec::CodePreset::Standard, &[]);
        let denial = Denial::from(verdict.violations[0].clone());
        assert_eq!((denial.layer, denial.rule.as_str()), (Layer::Screen, "import_not_allowed"));
        assert_eq!((denial.line, denial.column, denial.count), (Some(1), Some(8), 1));
    }

    #[test]
    fn a_subject_is_one_short_visible_line() {
        assert_eq!(shown("a\nb\u{202e}"), "a\\u{a}b\\u{202e}");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SUBJECT_CHARS_MAX + 1);
    }
}

//! Cost of a pattern for each byte of a text: about as many steps as it has characters once its repeats are written out.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::pattern::{Case, PatternStyle};

/// Ranges of a class that take no longer than a character.
const RANGES_FEW: usize = 4;

/// A class of more ranges, such as `\w`: it is searched for the one that fits.
const CLASS_WEIGHT: u64 = 8;

/// A look at each end for the boundary of a word.
const WORD_WEIGHT: u64 = 2;

/// The weight of a pattern that was understood, at least 1.
pub(crate) fn pattern_cost(text: &str, style: PatternStyle) -> u64 {
    let escaped;
    let text = match style {
        // Found without an automaton.
        PatternStyle { literal: true, case: Case::Sensitive, words: false, .. } => return 1,
        PatternStyle { literal: true, .. } => {
            escaped = regex_syntax::escape(text);
            &escaped
        }
        _ => text,
    };
    let mut parser = ParserBuilder::new();
    let parser =
        parser.utf8(false).multi_line(true).case_insensitive(style.case != Case::Sensitive);
    let weight = parser.build().parse(text).map_or(u64::MAX, |hir| weigh(&hir));
    weight.saturating_add(if style.words { WORD_WEIGHT } else { 0 })
}

fn weigh(hir: &Hir) -> u64 {
    let all = |parts: &[Hir]| parts.iter().map(weigh).fold(0, u64::saturating_add);
    let weight = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(class) => {
            let n_ranges = match class {
                Class::Unicode(class) => class.ranges().len(),
                Class::Bytes(class) => class.ranges().len(),
            };
            if n_ranges <= RANGES_FEW { 1 } else { CLASS_WEIGHT }
        }
        HirKind::Repetition(repeat) => {
            let n = repeat.max.unwrap_or(repeat.min).max(1);
            weigh(&repeat.sub).saturating_mul(n.into())
        }
        HirKind::Capture(capture) => weigh(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => all(parts),
    };
    weight.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_count_as_if_they_were_written_out() {
        let usual = PatternStyle::default();
        for (text, weight) in [
            ("needle", 6),
            ("a|bc", 3),
            ("[01]{1000}", 1000),
            ("(?:[01]*1[01]{1000}){3}[^01]", 3007),
            ("x{2,}y{3,5}", 7),
            (r"\w+@\w+", 17),
            ("(?:){4000000000}", 1),
        ] {
            assert_eq!(pattern_cost(text, usual), weight, "{text}");
        }
        let literal = PatternStyle { literal: true, ..usual };
        assert_eq!(pattern_cost("a{1000}", literal), 1);
        assert_eq!(pattern_cost("a{1000}", PatternStyle { case: Case::Insensitive, ..literal }), 7);
        assert_eq!(pattern_cost("a{1000}", PatternStyle { words: true, ..literal }), 9);
    }
}

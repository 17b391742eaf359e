//! A pattern that was understood. It is matched by a finite automaton, so there is none that a text can hang.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ringfence_spec::{Code, Problem};

use crate::weight;

/// A longer pattern is no pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// What a compiled pattern may take: repeats of repeats grow without end.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// And what it may remember while it is matched; beyond, it is matched more slowly.
const CACHE_BYTES_MAX: usize = 4 << 20;

/// What a pattern may weigh: so many characters, once every repeat is written out.
const WEIGHT_MAX: u64 = 4096;

/// Weight times bytes that are matched without a look at the clock: a quarter of a second where it is slowest.
const WORK_MAX: u64 = 32 << 20;

/// Longer lines are not searched beyond this, by the lightest pattern.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// How a pattern is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternStyle {
    /// Every character stands for itself.
    pub literal: bool,
    /// Search case-insensitively.
    pub ignore_case: bool,
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(crate) matcher: RegexMatcher,
    /// How much of a line is searched: the heavier the pattern, the less.
    pub(crate) line_bytes_max: usize,
}

impl Pattern {
    /// Understands a regular expression in Rust's syntax, which has neither look-around nor back-references.
    pub fn new(text: &str, style: PatternStyle) -> Result<Self, Problem> {
        let refused = || Problem::usage(Code::PatternInvalid, "cannot search with this pattern");
        if text.is_empty() {
            return Err(refused().cause("it is empty").hint("`.` matches every line that is not"));
        }
        if text.len() > PATTERN_BYTES_MAX {
            let cause = format!("it has {} bytes, of {PATTERN_BYTES_MAX} at most", text.len());
            return Err(refused().cause(cause));
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(style.literal)
            .case_insensitive(style.ignore_case)
            .line_terminator(Some(b'\n'))
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX)
            .build(text)
            .map_err(|error| refused().cause(error).hint(hint(text)))?;
        let weight = weight::of(text, style);
        if weight > WEIGHT_MAX {
            let cause = format!(
                "its repeats stand for {weight} characters; it would take too long on a long line"
            );
            return Err(refused()
                .cause(cause)
                .hint("repeat fewer times, or without a number: `x+`"));
        }
        let line_bytes_max = (WORK_MAX / weight).min(LINE_BYTES_MAX);
        Ok(Self { matcher, line_bytes_max: usize::try_from(line_bytes_max).unwrap_or(usize::MAX) })
    }
}

/// What to write instead, where that can be told.
fn hint(text: &str) -> &'static str {
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|around| text.contains(around)) {
        "this syntax has no look-around: search for what is around too, and choose among the matches"
    } else {
        "to search for the text as it stands, say that it is literal"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pattern_is_refused_with_a_way_out() {
        for (text, says) in [
            ("", "empty"),
            ("(", "unclosed"),
            ("(?<=a)b", "look-around"),
            (r"(a)\1", "backreferences"),
            ("a\nb", "not allowed"),
            ("((((a{100}){100}){100}){100})", "size limit"),
            ("(?:[01]*1[01]{1000}){5}", "repeats stand for 5010 characters"),
            (&"a".repeat(5000), "at most 4096"),
        ] {
            let problem = Pattern::new(text, PatternStyle::default()).unwrap_err();
            let told = format!("{problem}").replace("4096 at most", "at most 4096");
            assert!(told.contains(says), "{text:?}: {told}");
            assert_eq!(problem.code.as_str(), "pattern_invalid");
        }
    }

    #[test]
    fn a_literal_may_hold_anything_but_a_line_end() {
        let style = PatternStyle { literal: true, ..PatternStyle::default() };
        assert!(Pattern::new("((?=[", style).is_ok());
    }
}

//! Compiles patterns. They are matched by finite automata, so no text makes one take more than linear time.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ringfence_spec::{Code, Problem};

use crate::weight;

/// Maximum bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;

/// Maximum size of a compiled pattern: repeats of repeats grow without end.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// Cache of a pattern that is matched; once full, matching is slower.
const CACHE_BYTES_MAX: usize = 4 << 20;

/// Maximum weight of a pattern: characters, once every repeat is written out.
const WEIGHT_MAX: u64 = 4096;

/// Weight times bytes that are matched without a check of the clock: a quarter of a second for the slowest pattern.
const WORK_MAX: u64 = 32 << 20;

/// Bytes of a line that the lightest pattern searches.
const LINE_BYTES_MAX: u64 = 256 << 10;

/// Interpretation of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternStyle {
    /// Every character stands for itself.
    pub literal: bool,
    /// Case of letters.
    pub case: Case,
    /// Match whole words only.
    pub words: bool,
    /// Let a match span lines. `.` still matches no line end, unless the pattern says `(?s)`.
    pub multiline: bool,
    /// Lines that are selected.
    pub select: Select,
}

/// Case of letters in a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Case {
    /// `a` and `A` differ.
    #[default]
    Sensitive,
    /// `a` matches `A`.
    Insensitive,
    /// Insensitive if no letter of the pattern is upper case.
    Smart,
}

impl Case {
    /// As the options of grep say: `-i` and `-S`, of which `-i` is stronger.
    pub fn asked(ignore: bool, smart: bool) -> Self {
        match (ignore, smart) {
            (true, _) => Self::Insensitive,
            (false, true) => Self::Smart,
            (false, false) => Self::Sensitive,
        }
    }
}

/// Lines that a search selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// Lines that match.
    #[default]
    Matching,
    /// Lines that do not match.
    NonMatching,
}

impl Select {
    /// As the option `-v` of grep says.
    pub fn asked(invert: bool) -> Self {
        if invert { Self::NonMatching } else { Self::Matching }
    }
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub(crate) matcher: RegexMatcher,
    pub(crate) style: PatternStyle,
    /// Bytes that are matched without a check of the clock: of a line, or of a text if a match may span lines. The
    /// heavier the pattern, the fewer.
    pub(crate) line_bytes_max: usize,
}

impl Pattern {
    /// Compiles a regular expression in Rust's syntax, which has neither look-around nor back-references.
    pub fn new(text: &str, style: PatternStyle) -> Result<Self, Problem> {
        Self::any_of(&[text], style)
    }

    /// Compiles several expressions; a line matches if one of them does.
    pub fn any_of(texts: &[impl AsRef<str>], style: PatternStyle) -> Result<Self, Problem> {
        let refused = || Problem::usage(Code::PatternInvalid, "cannot search with this pattern");
        if texts.is_empty() || texts.iter().any(|text| text.as_ref().is_empty()) {
            return Err(refused().cause("it is empty").hint("`.` matches every line that is not"));
        }
        let n_bytes: usize = texts.iter().map(|text| text.as_ref().len()).sum();
        if n_bytes > PATTERN_BYTES_MAX {
            let cause = format!("it has {n_bytes} bytes, of {PATTERN_BYTES_MAX} at most");
            return Err(refused().cause(cause));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .fixed_strings(style.literal)
            .case_insensitive(style.case == Case::Insensitive)
            .case_smart(style.case == Case::Smart)
            .word(style.words)
            .multi_line(true)
            .line_terminator((!style.multiline).then_some(b'\n'))
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX);
        let explain = |error, text: &str| refused().cause(error).hint(hint(text, style));
        if let [_, _, ..] = texts {
            // They are joined as text, where `a)|(b` would pass.
            for text in texts {
                builder.build(text.as_ref()).map_err(|error| explain(error, text.as_ref()))?;
            }
        }
        let matcher =
            builder.build_many(texts).map_err(|error| explain(error, texts[0].as_ref()))?;
        let weigh = |text: &str| weight::pattern_cost(text, style);
        let weight = texts.iter().map(|text| weigh(text.as_ref())).fold(0, u64::saturating_add);
        if weight > WEIGHT_MAX {
            let cause = format!(
                "its repeats stand for {weight} characters; it would take too long on a long line"
            );
            return Err(refused()
                .cause(cause)
                .hint("repeat fewer times, or without a number: `x+`"));
        }
        let line_bytes_max = (WORK_MAX / weight).min(LINE_BYTES_MAX);
        let line_bytes_max = usize::try_from(line_bytes_max).unwrap_or(usize::MAX);
        Ok(Self { matcher, style, line_bytes_max })
    }
}

/// Suggests what to write instead.
fn hint(text: &str, style: PatternStyle) -> &'static str {
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|around| text.contains(around)) {
        "this syntax has no look-around: search for what is around too, and choose among the matches"
    } else if !style.multiline && (text.contains('\n') || text.contains("\\n")) {
        "a pattern spans lines only in a multiline search"
    } else {
        "to search for the text as it stands, make the search literal (`-F`, or `literal`: true)"
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
            ("a\nb", "multiline"),
            (r"a\nb", "multiline"),
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
    fn each_of_several_patterns_must_be_valid_by_itself() {
        let style = PatternStyle::default();
        assert!(Pattern::any_of(&["a", "b|c"], style).is_ok());
        assert!(Pattern::any_of(&["a)", "(b"], style).is_err());
        assert!(Pattern::any_of(&["a", ""], style).is_err());
        assert!(Pattern::any_of(&["a".repeat(3000), "b".repeat(3000)], style).is_err());
        assert!(Pattern::any_of(&["x{3000}", "y{3000}"], style).is_err());
        assert!(Pattern::any_of(&[] as &[&str], style).is_err());
    }

    #[test]
    fn a_literal_may_hold_anything_but_a_line_end() {
        let style = PatternStyle { literal: true, ..PatternStyle::default() };
        assert!(Pattern::new("((?=[", style).is_ok());
    }
}

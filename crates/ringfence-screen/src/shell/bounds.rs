//! Bounds checked before the parser sees a command: its size, the possible depth of its tree, and the work for all of
//! it. Work is counted in steps, not in time, so that the same text always gets the same answer.

/// Longest command that is read. Longer ones are scripts written inline; they belong in a file.
pub const COMMAND_BYTES_MAX: usize = 64 << 10;

/// Maximum depth of commands within commands: `bash -c "sudo sh -c '$(…)'"` has four levels.
pub const DEPTH_MAX: usize = 16;

/// Maximum number of commands listed.
pub const COMMANDS_MAX: usize = 1024;

/// Maximum number of characters and words that can open a level, wherever they stand: only the parser knows which are
/// quoted, and its stack must be bounded before it runs.
const OPENERS_MAX: usize = 4096;

/// Stack for one level of the parser, in a debug build, where frames are largest.
const STACK_BYTES_PER_LEVEL: usize = 32 << 10;

/// Stack needed for any command.
const STACK_BYTES_BASE: usize = 512 << 10;

/// Maximum work for one command line, including everything inside it. Text of [`COMMAND_BYTES_MAX`] that is read once
/// takes less than half. All of it is half a second of a processor in a release build; ordinary commands take a few
/// milliseconds.
pub const STEPS_MAX: usize = 1 << 20;

/// Steps to find the signs and words of a script, by the byte.
const TOKEN_STEPS: usize = 1;

/// Steps to parse a script, by the byte.
const PARSE_STEPS: usize = 3;

/// Steps for a listed word: it is copied, and later compared with every pattern of the rules and risks.
const LISTED_WORD_STEPS: usize = 64;

/// Steps of tokens for a text of this length.
pub(crate) fn token_steps(n_bytes: usize) -> usize {
    n_bytes * TOKEN_STEPS
}

/// Steps of the parser for a script, with the levels at which it tries twice.
pub(crate) fn parse_steps(n_bytes: usize, levels: Levels) -> usize {
    (n_bytes * PARSE_STEPS) << levels.doublings()
}

/// Steps to list words.
pub(crate) fn listing_steps(n_words: usize, n_bytes: usize) -> usize {
    n_words * LISTED_WORD_STEPS + n_bytes
}

/// Number of levels that the parser could open.
pub(crate) fn openers(command: &str) -> usize {
    let signs = command.bytes().filter(|b| matches!(b, b'(' | b'{' | b'[' | b'`' | b'!')).count();
    let words = command.split(|c: char| !c.is_ascii_alphabetic());
    let keywords = words.filter(|word| {
        matches!(
            *word,
            "if" | "while"
                | "until"
                | "for"
                | "case"
                | "select"
                | "elif"
                | "function"
                | "coproc"
                | "time"
        )
    });
    signs + keywords.count()
}

/// Runs the parser where its stack suffices; nothing when the command could be too deep.
pub(crate) fn with_stack<T>(command: &str, parse: impl FnOnce() -> T) -> Option<T> {
    let openers = openers(command);
    let stack = STACK_BYTES_BASE + openers * STACK_BYTES_PER_LEVEL;
    (openers <= OPENERS_MAX).then(|| stacker::maybe_grow(stack, stack, parse))
}

/// Maximum number of open levels that the parser tries in more than one way: its time doubles with every level that is
/// not closed. At ten it takes milliseconds; people write three.
const RETRIED_LEVELS_MAX: usize = 10;

/// Returns true if expansions in a word are nested too deep. If quotes, backslashes or `case` make it unclear what a
/// closing sign closes, it closes nothing.
pub(crate) fn is_word_too_deep(word: &str) -> bool {
    let bytes = word.as_bytes();
    let (mut depth, mut unsure) = (0_usize, word.contains("case"));
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // In text they open nothing.
            b'(' | b'{' | b'['
                if depth > 0 || (at > 0 && matches!(bytes[at - 1], b'$' | b'<' | b'>')) =>
            {
                depth += 1;
            }
            b'`' | b'\\' | b'\'' | b'"' if depth > 0 => unsure = true,
            b')' | b'}' | b']' if !unsure => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > RETRIED_LEVELS_MAX {
            return true;
        }
    }
    false
}

/// Levels that are open at once, by the signs and words that the tokenizer found outside quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    /// `(`. With a `case`, whose patterns end in a `)` of their own, every one counts, closed or not.
    groups: usize,
    /// `case`.
    cases: usize,
}

impl Levels {
    pub(crate) fn of<'t>(tokens: impl Iterator<Item = (bool, &'t str)>) -> Self {
        let (mut groups, mut groups_max, mut groups_total) = (0_usize, 0, 0);
        let (mut cases, mut cases_max) = (0_usize, 0);
        let (mut last, mut last_is_operator) = ("", true);
        for (is_operator, text) in tokens {
            match text {
                "(" | "((" if is_operator => {
                    groups += text.len();
                    groups_total += text.len();
                    groups_max = groups_max.max(groups);
                }
                ")" | "))" if is_operator => {
                    groups = groups.saturating_sub(text.len());
                    // `f()` opens nothing.
                    if last == "(" {
                        groups_total -= 1;
                    }
                }
                "case" if !is_operator => {
                    cases += 1;
                    cases_max = cases_max.max(cases);
                }
                // Only where a command can begin: elsewhere it is an argument.
                "esac" if !is_operator && last_is_operator => cases = cases.saturating_sub(1),
                _ => {}
            }
            (last, last_is_operator) = (text, is_operator);
        }
        let groups = if cases_max == 0 { groups_max } else { groups_total };
        Self { groups, cases: cases_max }
    }

    /// Returns true if the parser would retry too often.
    pub(crate) fn are_too_deep(self) -> bool {
        self.groups + self.cases > RETRIED_LEVELS_MAX
    }

    /// Number of doublings of the parser's work: one per level of `case`, which it tries with and without an end, and
    /// one per group beyond the sixth, as the first six cost little. Measured with brush-parser.
    fn doublings(self) -> usize {
        const CHEAP_GROUPS: usize = 6;
        self.cases + self.groups.saturating_sub(CHEAP_GROUPS)
    }
}

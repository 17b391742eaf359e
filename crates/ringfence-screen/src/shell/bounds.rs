//! Bounds that hold before the parser sees a command: its size, and how deep its tree can be.

/// Longest command that is read. Longer ones are scripts written on the spot; they belong in a file.
pub const COMMAND_BYTES_MAX: usize = 64 << 10;

/// How deep commands are followed into commands: `bash -c "sudo sh -c '$(…)'"` has four levels.
pub const DEPTH_MAX: usize = 16;

/// Most commands that are listed.
pub const COMMANDS_MAX: usize = 1024;

/// Most characters and words that can open a level, wherever they stand: only the parser knows which are quoted, and it must
/// not be asked before its stack is bounded.
const OPENERS_MAX: usize = 4096;

/// Stack for one level of the parser, in a debug build, where frames are largest.
const STACK_BYTES_PER_LEVEL: usize = 32 << 10;

/// Stack that is needed whatever the command is.
const STACK_BYTES_BASE: usize = 512 << 10;

/// How many levels the parser could open.
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

/// Levels that can be open at once where the parser tries each in more than one way: with every level that is not closed its
/// time doubles. At ten it takes milliseconds; people write three.
const RETRIED_LEVELS_MAX: usize = 10;

/// Whether expansions in a word are nested too deep. Where quotes, backslashes or `case` make it unsure what a closing sign
/// closes, it closes nothing.
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

/// Whether groups are nested too deep, by the signs and words that the tokenizer found outside quotes.
pub(crate) fn is_script_too_deep<'t>(tokens: impl Iterator<Item = (bool, &'t str)>) -> bool {
    let (mut open, mut open_max, mut total, mut n_cases) = (0_usize, 0, 0, 0);
    let mut last = "";
    for (is_operator, text) in tokens {
        match text {
            "(" | "((" if is_operator => {
                open += text.len();
                total += text.len();
                open_max = open_max.max(open);
            }
            ")" | "))" if is_operator => {
                open = open.saturating_sub(text.len());
                // `f()` opens nothing.
                if last == "(" {
                    total -= 1;
                }
            }
            "case" if !is_operator => n_cases += 1,
            _ => {}
        }
        last = text;
    }
    if n_cases == 0 { open_max > RETRIED_LEVELS_MAX } else { total + n_cases > RETRIED_LEVELS_MAX }
}

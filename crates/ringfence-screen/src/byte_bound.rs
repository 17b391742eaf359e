//! Bounds the depth of a short source's syntax tree by its bytes, without reading its tokens.

use std::ops::RangeInclusive;

use memchr::memmem;

use crate::shape::{DEPTH_MAX, NESTING_MAX};

/// Words of these lengths may be keywords.
const KEYWORD_BYTES: RangeInclusive<usize> = 2..=8;

/// A bound on the depth of a short source's tree, from its bytes: reading the tokens costs a fifth of a verdict. `None` if
/// the bytes alone do not show that it is within the limits.
///
/// Counts what may be a bracket, an operator, a keyword or a block as if all of them were inside each other, those in
/// strings and comments too. So the depth is at least the one of [`crate::shape::Shape::of`], and a valid source passes its limits.
pub(crate) fn depth_of_short(source: &str) -> Option<u32> {
    let bytes = source.as_bytes();
    // The statement itself, an indent of the first line, the end of the last.
    let (mut depth, mut brackets, mut margin) = (5, 0, 0);
    let mut number_end = usize::MAX;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (start, before) = (at, bytes[..at].last());
        at += 1;
        match BYTE_KINDS[usize::from(*byte)] {
            kind @ (ByteKind::Letter | ByteKind::Digit) => {
                at += length_of(&bytes[at..], |kind| kind <= ByteKind::Digit);
                let length = at - start;
                // After a number's dot too.
                let may_be_number =
                    kind == ByteKind::Digit || before == Some(&b'.') && start - 1 == number_end;
                if may_be_number {
                    // A number may end within a word, and again: `1if`, `1.j0b2j`.
                    depth += length;
                    number_end = at;
                } else {
                    depth += usize::from(KEYWORD_BYTES.contains(&length));
                }
            }
            ByteKind::Blank => {
                at += length_of(&bytes[at..], |kind| kind == ByteKind::Blank);
                if matches!(before, None | Some(b'\n' | b'\r')) {
                    margin = margin.max(at - start);
                }
            }
            ByteKind::Bracket => {
                brackets += 1;
                depth += 2;
            }
            ByteKind::Quote => {
                let may_begin_f_string =
                    matches!(before, Some(b'f' | b'F' | b't' | b'T' | b'r' | b'R'));
                brackets += usize::from(may_begin_f_string);
                depth += 1 + usize::from(may_begin_f_string);
            }
            // A block has its statement and its clause. The next line begins with one, or has a wrong indent.
            ByteKind::LineEnd => depth += 2,
            ByteKind::Nothing => {}
            ByteKind::Other => depth += 1,
        }
        if depth > DEPTH_MAX as usize {
            return None;
        }
    }
    let lambdas = memmem::find_iter(bytes, b"lambda").count();
    // Each block is at least one column further in than the one around it.
    let nesting = brackets + lambdas + margin;
    (nesting <= NESTING_MAX as usize).then_some(u32::try_from(depth).ok()?)
}

/// Bytes at the beginning whose kinds pass.
fn length_of(bytes: &[u8], passes: impl Fn(ByteKind) -> bool) -> usize {
    let end = bytes.iter().position(|byte| !passes(BYTE_KINDS[usize::from(*byte)]));
    end.unwrap_or(bytes.len())
}

/// What a byte outside of strings and comments may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ByteKind {
    Letter,
    Digit,
    Blank,
    Bracket,
    Quote,
    LineEnd,
    /// Nothing that makes a tree deeper.
    Nothing,
    Other,
}

const BYTE_KINDS: [ByteKind; 256] = {
    let mut kinds = [ByteKind::Other; 256];
    let mut byte = 0_u8;
    loop {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => ByteKind::Letter,
            b'0'..=b'9' => ByteKind::Digit,
            b' ' | b'\t' | b'\x0c' => ByteKind::Blank,
            b'(' | b'[' | b'{' => ByteKind::Bracket,
            b'\'' | b'"' => ByteKind::Quote,
            b'\n' | b'\r' => ByteKind::LineEnd,
            b',' | b':' | b';' | b')' | b']' => ByteKind::Nothing,
            _ => ByteKind::Other,
        };
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};

#[cfg(test)]
mod tests {
    use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};

    use super::*;
    use crate::shape::Shape;

    #[test]
    fn the_bytes_of_a_short_source_bound_its_depth() {
        // All of them, alone and in pairs, so often that the bytes no longer suffice.
        let pieces = [
            "a",
            "1",
            "1if ",
            "1.e500000000if ",
            "0xfor ",
            "1.j",
            "0b2j",
            "1._",
            "_0b222222222.",
            "(",
            ")",
            "[x",
            "]",
            "{",
            "}",
            ",",
            ":",
            "=",
            ":=",
            ".b",
            "+",
            "**-",
            " not ",
            " in ",
            " and ",
            "lambda x:",
            "lambda:",
            " if 1 else ",
            "'",
            "\"\"\"",
            "f'{",
            "}'",
            "f'''",
            "rf\"{x!r:>{w}}\"",
            "#",
            "\\\n",
            "\\",
            "\n",
            "\r",
            "\n ",
            "\n\t",
            "\n  \t",
            "\n        ",
            "\nif x:\n ",
            "\nif x:\n\t\t",
            "\u{c}",
            "é",
            "€",
            "é1if ",
            "$",
            "!",
            "@d\n",
            "await ",
            "return ",
            ";",
            "->",
            "\u{feff}",
        ];
        let (mut bounded, mut unbounded) = (0, 0);
        for first in pieces {
            for second in pieces {
                for times in [1, 7, 34, 101] {
                    let both = [first, second].concat().repeat(times);
                    for source in [
                        [first, &second.repeat(times)].concat(),
                        [both.as_str(), "\n    y\n  z\n\tw"].concat(),
                    ] {
                        let Some(bound) = depth_of_short(&source) else {
                            unbounded += 1;
                            continue;
                        };
                        bounded += 1;
                        let shape = Shape::of(&source);
                        assert!(bound >= shape.depth, "{bound} < {}: {source:?}", shape.depth);
                        if shape.is_too_deep() {
                            let parsed = parse_unchecked(&source, ParseOptions::from(Mode::Module));
                            assert!(parsed.has_invalid_syntax(), "{shape:?}: {source:?}");
                        }
                    }
                }
            }
        }
        assert!(bounded > 5_000 && unbounded > 1_000, "{bounded}, {unbounded}");
    }

    #[test]
    fn an_ordinary_program_is_bounded_by_its_bytes() {
        let program = "with open('in.csv') as file:\n    rows = [row for row in csv.reader(file) if row]\n\
            for name, value in sorted(rows, key=lambda row: -float(row[1])):\n    print(f\"{name}: {value}\")\n";
        assert!(depth_of_short(&program.repeat(5)).is_some());
        assert!(depth_of_short(&program.repeat(50)).is_none());
    }
}

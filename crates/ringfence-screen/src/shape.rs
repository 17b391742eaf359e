//! Size and shape of a source: bytes, encoding, and the possible depth of its syntax tree. The bound is computed from
//! the tokens, so a source that would overflow a stack is refused before any code recurses over it.

use memchr::memchr;
use ringfence_spec::CodePreset;
use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

use crate::rules;
use crate::verdict::Findings;

/// Maximum nesting of brackets, blocks, lambdas and f-strings. Python itself stops at 100 levels of blocks.
pub const NESTING_MAX: u32 = 100;

/// Maximum depth of the tree, chains of operators, calls and attributes included. Python's compiler gives up at about
/// three times that.
pub const DEPTH_MAX: u32 = 1000;

/// Bounds on the tree, from the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Brackets, blocks, lambdas and f-strings inside each other.
    pub(crate) nesting: u32,
    /// No tree of a valid source with these tokens is deeper.
    pub(crate) depth: u32,
    /// No tree at all is deeper, not even one made while recovering from errors: every level takes a token.
    pub(crate) tokens: u32,
}

impl Shape {
    /// Reads the tokens of a source.
    pub(crate) fn of(source: &str) -> Self {
        let mut lexer = lexer::lex(source, Mode::Module);
        let mut gauge = Gauge::default();
        loop {
            match lexer.next_token() {
                TokenKind::EndOfFile => return gauge.finish(),
                token => gauge.take(token),
            }
        }
    }

    pub(crate) fn is_too_deep(self) -> bool {
        self.nesting > NESTING_MAX || self.depth > DEPTH_MAX
    }
}

/// The text of a source that can be parsed, or its faults.
pub(crate) fn text(source: &[u8], preset: CodePreset) -> Result<&str, (Findings, &str)> {
    let refuse = |rule, offset: usize, subject: &str, hint: &str, text| {
        let mut findings = Findings::default();
        findings.add(rule, u32::try_from(offset).unwrap_or(u32::MAX), subject, hint);
        Err((findings, text))
    };
    let bytes_max = preset.source_bytes_max();
    if source.len() > bytes_max {
        return refuse(
            &rules::SOURCE_TOO_LARGE,
            0,
            &format!("more than {bytes_max} bytes"),
            "keep the program shorter; pass data as a file or on stdin",
            "",
        );
    }
    let text = match std::str::from_utf8(source) {
        Ok(text) => text,
        Err(error) => {
            // The text before the bad byte is valid, and gives its position.
            let good = std::str::from_utf8(&source[..error.valid_up_to()]).unwrap_or_default();
            return refuse(
                &rules::SOURCE_NOT_UTF8,
                error.valid_up_to(),
                &format!("byte 0x{:02x}", source[error.valid_up_to()]),
                "write the source in UTF-8; spell other bytes as escapes in a literal",
                good,
            );
        }
    };
    if let Some(offset) = memchr(0, source) {
        return refuse(
            &rules::NULL_BYTE,
            offset,
            "\\0",
            "write the escape `\\0` in a literal instead of the byte",
            text,
        );
    }
    if let Some((offset, encoding)) = foreign_encoding(text) {
        return refuse(
            &rules::SOURCE_ENCODING,
            offset,
            encoding,
            "remove the coding comment; the source is read as UTF-8",
            text,
        );
    }
    Ok(text)
}

/// The findings for a source that is too deep.
pub(crate) fn too_deep(text: &str, shape: Shape) -> Findings {
    let mut findings = Findings::default();
    findings.add(
        &rules::TOO_DEEP,
        u32::try_from(first_too_deep(text)).unwrap_or(u32::MAX),
        &format!("nesting {}, depth {}", shape.nesting, shape.depth),
        "split the expression or the blocks into named steps",
    );
    findings
}

/// A `coding:` comment in the first two lines that names anything but UTF-8 (PEP 263): Python would decode other
/// characters than the ones screened here.
fn foreign_encoding(source: &str) -> Option<(usize, &str)> {
    let mut start = 0;
    // Two lines; `\r\n` counts as two here.
    for line in source.split(['\n', '\r']).take(4) {
        let text = line.trim_start_matches(['\u{feff}', ' ', '\t', '\u{c}']);
        if let Some(comment) = text.strip_prefix('#') {
            for (at, word) in comment.match_indices("coding") {
                let Some(rest) = comment[at + word.len()..].strip_prefix([':', '=']) else {
                    continue;
                };
                let rest = rest.trim_start_matches([' ', '\t']);
                let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
                let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
                if !name.is_empty() && !is_utf8_or_part_of_it(name) {
                    return Some((start, name));
                }
            }
        }
        start += line.len() + 1;
    }
    None
}

fn is_utf8_or_part_of_it(encoding: &str) -> bool {
    let plain = encoding.to_ascii_lowercase().replace('_', "-");
    matches!(plain.as_str(), "utf-8" | "utf8" | "utf-8-sig" | "u8" | "utf" | "ascii" | "us-ascii")
}

/// The shortest beginning of a source that is too deep, by halving: where to point.
fn first_too_deep(source: &str) -> usize {
    let (mut fits, mut too_deep) = (0, source.len());
    while too_deep - fits > 1 {
        let middle = source.ceil_char_boundary(fits + (too_deep - fits) / 2);
        if middle >= too_deep {
            break;
        }
        if Shape::of(&source[..middle]).is_too_deep() {
            too_deep = middle;
        } else {
            fits = middle;
        }
    }
    fits
}

/// State of one level of brackets.
#[derive(Default)]
struct Level {
    /// Operators that bind tighter than `and` and `or`, since the last of those or the last comma.
    tight: u32,
    /// Operators that bind looser, since the last comma.
    loose: u32,
    /// The deepest bracket since the last `and`, `or` or comma.
    inner: u32,
    /// The deepest piece between `and`, `or` or commas since the last comma.
    deepest_piece: u32,
    /// The deepest piece between commas.
    deepest_item: u32,
    /// Lambdas whose colon has not come yet: commas belong to their parameters.
    lambdas: u32,
    /// Lambdas since the last comma.
    lambdas_nested: u32,
}

impl Level {
    fn end_piece(&mut self) {
        self.deepest_piece = self.deepest_piece.max(self.tight + self.inner);
        self.tight = 0;
        self.inner = 0;
    }

    fn end_item(&mut self) {
        self.end_piece();
        self.deepest_item = self.deepest_item.max(self.loose + self.deepest_piece);
        self.loose = 0;
        self.deepest_piece = 0;
        self.lambdas_nested = 0;
    }
}

/// Walks over tokens and keeps the greatest depth. Every ancestor of a leaf is a bracket around it, an operator of the
/// same piece, or a block around it; so counting those bounds the tree from above.
#[derive(Default)]
struct Gauge {
    base: Level,
    open: Vec<Level>,
    blocks: u32,
    lambdas_open: u32,
    shape: Shape,
}

impl Gauge {
    fn level(&mut self) -> &mut Level {
        self.open.last_mut().unwrap_or(&mut self.base)
    }

    fn take(&mut self, token: TokenKind) {
        self.shape.tokens += 1;
        match token {
            TokenKind::Comment
            | TokenKind::NonLogicalNewline
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle
            | TokenKind::Name => {}
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => self.push(),
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => self.pop(),
            TokenKind::Comma => {
                let level = self.level();
                if level.lambdas == 0 {
                    self.end_item();
                }
            }
            TokenKind::And | TokenKind::Or => self.level().end_piece(),
            TokenKind::Lambda => {
                let level = self.level();
                level.loose += 1;
                level.lambdas += 1;
                level.lambdas_nested += 1;
                self.lambdas_open += 1;
                self.note_nesting();
            }
            TokenKind::Colon => {
                let level = self.level();
                level.lambdas = level.lambdas.saturating_sub(1);
            }
            TokenKind::Not | TokenKind::If | TokenKind::Else | TokenKind::ColonEqual => {
                self.level().loose += 1;
            }
            TokenKind::Newline | TokenKind::Semi => self.end_statement(),
            TokenKind::Indent => {
                self.blocks += 1;
                self.note_nesting();
            }
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            // Everything else is an operator or a keyword that may make a level of its own.
            _ => self.level().tight += 1,
        }
    }

    fn push(&mut self) {
        self.level().tight += 1;
        self.open.push(Level::default());
        self.note_nesting();
    }

    fn pop(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.end_item();
        if let Some(closed) = self.open.pop() {
            let parent = self.level();
            parent.inner = parent.inner.max(closed.deepest_item + 1);
        }
    }

    fn end_item(&mut self) {
        let level = self.level();
        let lambdas = level.lambdas_nested;
        level.end_item();
        self.lambdas_open = self.lambdas_open.saturating_sub(lambdas);
    }

    fn end_statement(&mut self) {
        while !self.open.is_empty() {
            self.pop();
        }
        self.end_item();
        // One level for the statement, two for each block around it: its statement and its clause.
        let depth = std::mem::take(&mut self.base).deepest_item + 2 * self.blocks + 1;
        self.shape.depth = self.shape.depth.max(depth);
        self.lambdas_open = 0;
    }

    fn note_nesting(&mut self) {
        let open = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
        self.shape.nesting = self.shape.nesting.max(open + self.blocks + self.lambdas_open);
    }

    fn finish(mut self) -> Shape {
        self.end_statement();
        self.shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(source: &str) -> u32 {
        Shape::of(source).depth
    }

    #[test]
    fn chains_count_every_link_and_lists_only_their_deepest_item() {
        assert_eq!(depth("a"), 1);
        assert_eq!(depth("a.b.c"), 3);
        assert_eq!(depth("a+b+c"), 3);
        assert_eq!(depth("[a, b, c.d]"), 4);
        assert_eq!(depth("f(a)(b)(c)"), depth("f(a)(b)(c)\n"));
        assert_eq!(depth("a or b or c.d"), 2);
    }

    #[test]
    fn commas_inside_lambda_parameters_end_nothing() {
        let nested = "lambda a, b=".repeat(20) + "0" + &": 0".repeat(20);
        assert!(depth(&nested) >= 20, "{}", depth(&nested));
        let list = format!("[{}]", "lambda: 0, ".repeat(200));
        assert!(Shape::of(&list).nesting < 10, "{:?}", Shape::of(&list));
    }

    #[test]
    fn a_coding_comment_may_only_say_utf_8() {
        assert_eq!(foreign_encoding("# -*- coding: utf-8 -*-\nx"), None);
        assert_eq!(foreign_encoding("# vim: set fileencoding=UTF_8 :\nx"), None);
        assert_eq!(foreign_encoding("#!/usr/bin/python\n# coding=utf-7\nx"), Some((18, "utf-7")));
        assert_eq!(foreign_encoding("\n\n\n\n# coding: utf-7"), None);
        assert_eq!(foreign_encoding("x = '# coding: utf-7'"), None);
        assert_eq!(foreign_encoding("# encoding of things matters"), None);
    }
}

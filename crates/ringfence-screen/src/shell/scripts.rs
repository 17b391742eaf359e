//! From the text of a script to its tree, within bounds.

use brush_parser::{Parser, ParserOptions, Token, TokenizerOptions, uncached_tokenize_str};

use super::Reason;
use super::bounds::{self, COMMAND_BYTES_MAX, Levels};
use super::tree::{Position, ShellPart};

/// Characters of a parser's message that are kept.
const MESSAGE_CHARS_MAX: usize = 120;

/// Parses a script at this position and adds its commands.
pub(crate) fn read(script: &str, place: &Position, found: &mut ShellPart) {
    if place.is_too_deep() {
        return found.opaque(Reason::TooDeep);
    }
    if script.len() > COMMAND_BYTES_MAX {
        return found.opaque(Reason::TooLong);
    }
    if !found.spend(bounds::token_steps(script.len())) {
        return;
    }
    if script.contains('\0') {
        return found.opaque(Reason::Syntax { message: "a null byte".into() });
    }
    let answer = bounds::with_stack(script, || match parse(script, found) {
        Ok(program) => found.program(&program, place),
        Err(reason) => found.opaque(reason),
    });
    if answer.is_none() {
        found.opaque(Reason::TooDeep);
    }
}

fn parse(script: &str, found: &mut ShellPart) -> Result<brush_parser::ast::Program, Reason> {
    let syntax = |message: String| Reason::Syntax {
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
    };
    let tokens = uncached_tokenize_str(script, &TokenizerOptions::default())
        .map_err(|e| syntax(e.to_string()))?;
    let signs = tokens.iter().map(|token| (matches!(token, Token::Operator(..)), token.to_str()));
    let levels = Levels::of(signs);
    if levels.are_too_deep() {
        return Err(Reason::TooDeep);
    }
    if !found.spend(bounds::parse_steps(script.len(), levels)) {
        return Err(Reason::TooCostly);
    }
    let options = ParserOptions::default();
    Parser::new(script.as_bytes(), &options).parse_program().map_err(|e| syntax(e.to_string()))
}

//! Computes the verdict: shape, syntax, rules, in that order. A later step is skipped if an earlier one has refused.

use std::cell::LazyCell;

use ringfence_spec::{CodePreset, Hint};
use ruff_python_ast::Mod;
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};

use crate::byte_bound::depth_of_short;
use crate::rules::{self, internals};
use crate::shape::{self, Shape};
use crate::verdict::{Findings, ScreenVerdict};
use crate::walk;

/// Stack for one level of a syntax tree, parsed, walked or dropped. A quarter of it is enough in a debug build, where
/// frames are largest. The parser grows its own stack on most of its paths, not on all.
const STACK_BYTES_PER_LEVEL: usize = 8 * 1024;

/// Stack for one level of a tree that is only dropped.
const STACK_BYTES_PER_DROP: usize = 1024;

/// Stack needed for any source.
const STACK_BYTES_BASE: usize = 128 * 1024;

/// Syntax errors listed: after the first few, the parser guesses.
const SYNTAX_ERRORS_MAX: usize = 5;

/// Judges a Python program. `extra_imports` are modules the operator allows besides the preset's, submodules included.
///
/// Never panics and needs no deep stack of the caller: a source whose tree could be deeper than [`crate::DEPTH_MAX`] is
/// refused by its tokens, and the rest runs on the caller's stack if it fits, else on a larger one.
pub fn screen(source: &[u8], preset: CodePreset, extra_imports: &[String]) -> ScreenVerdict {
    let text = match shape::text(source, preset) {
        Ok(text) => text,
        Err((findings, text)) => return findings.verdict(text),
    };
    let shape = LazyCell::new(|| Shape::of(text));
    let by_bytes = depth_of_short(text);
    debug_assert!(by_bytes.is_none_or(|depth| depth >= shape.depth), "{text}");
    if by_bytes.is_none() && shape.is_too_deep() {
        return shape::too_deep(text, *shape).verdict(text);
    }
    let depth = by_bytes.unwrap_or_else(|| shape.depth);
    let stack = STACK_BYTES_BASE + depth as usize * STACK_BYTES_PER_LEVEL;
    stacker::maybe_grow(stack, stack, || judge(text, || *shape, preset, extra_imports))
}

fn judge(
    text: &str,
    shape: impl FnOnce() -> Shape,
    preset: CodePreset,
    extra_imports: &[String],
) -> ScreenVerdict {
    let (mut findings, mut noted) = (Findings::default(), Findings::default());
    let parsed = parse_unchecked(text, ParseOptions::from(Mode::Module));
    if parsed.has_invalid_syntax() {
        for error in parsed.errors().iter().take(SYNTAX_ERRORS_MAX) {
            let at = error.location.start().to_u32();
            let hint = match notebook_sign(text, at as usize) {
                Some(sign) => Hint::NotebookLine(sign),
                None => "repair the syntax at this place".into(),
            };
            findings.add(&rules::SYNTAX_ERROR, at, &error.error.to_string(), hint);
        }
        drop_broken(parsed, shape());
    } else if let Mod::Module(module) = parsed.syntax()
        && preset < CodePreset::Open
    {
        walk::walk(&module.body, preset.min(CodePreset::Standard), extra_imports, &mut findings);
        if preset == CodePreset::Data {
            noted = internals::keep_escape_findings(&module.body, extra_imports, &mut findings);
        }
    }
    let mut verdict = findings.verdict(text);
    noted.note_in(&mut verdict, text);
    verdict
}

/// The sign that a line of a notebook begins with: `!pip install x`, `%matplotlib inline`.
fn notebook_sign(text: &str, at: usize) -> Option<char> {
    let line = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(line..)?.lines().next()?.trim_start();
    line.chars().next().filter(|first| matches!(first, '!' | '%'))
}

/// The tree of a broken source follows no grammar; only its number of tokens bounds it.
fn drop_broken(parsed: Parsed<Mod>, shape: Shape) {
    let stack = STACK_BYTES_BASE + shape.tokens as usize * STACK_BYTES_PER_DROP;
    stacker::maybe_grow(stack, stack, || drop(parsed));
}

//! Words: their known parts, and the commands inside them.

use brush_parser::word::{Parameter, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{ParserOptions, word};
use serde::{Serialize, Serializer};

use super::bounds;
use super::braces;

/// A word of a command: known text, and gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word {
    /// Its parts, in order. Two known parts never stand side by side.
    pub parts: Vec<Part>,
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Text that the program will see so.
    Known(String),
    /// A pattern of file names that the shell expands: `*`, `?`, `[a-z]`.
    Glob(String),
    /// An expansion whose value is not known: any text, or none.
    Unknown,
}

impl Word {
    /// A word of known text.
    pub fn known(text: &str) -> Self {
        Self { parts: vec![Part::Known(text.to_owned())] }
    }

    /// A word without any known text.
    pub fn unknown() -> Self {
        Self { parts: vec![Part::Unknown] }
    }

    /// The text, where all of it is known.
    pub fn text(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Known(text)] => Some(text),
            _ => None,
        }
    }

    /// The known text it begins with.
    pub fn beginning(&self) -> &str {
        match self.parts.first() {
            Some(Part::Known(text)) => text,
            _ => "",
        }
    }

    /// For display: gaps are `…`.
    pub fn shown(&self) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Known(text) | Part::Glob(text) => text,
            Part::Unknown => "…",
        });
        parts.collect()
    }

    pub(crate) fn n_bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            Part::Known(text) | Part::Glob(text) => text.len(),
            Part::Unknown => 1,
        });
        parts.sum()
    }

    fn push(&mut self, part: Part) {
        match (self.parts.last_mut(), part) {
            (Some(Part::Known(last)), Part::Known(text)) => last.push_str(&text),
            (Some(Part::Unknown), Part::Unknown) => {}
            (_, part) => self.parts.push(part),
        }
    }
}

impl Serialize for Word {
    /// In its displayed form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

/// Expansion of a written word.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    /// The words: braces and `$IFS` make several of one.
    pub(crate) words: Vec<Word>,
    /// Commands inside it: `$(…)`, backticks.
    pub(crate) scripts: Vec<String>,
    /// True if it could not be parsed.
    pub(crate) broken: bool,
    /// Bytes that the parser of words was given.
    pub(crate) n_bytes: usize,
}

/// Expands a word as written.
pub(crate) fn expand(written: &str) -> Expanded {
    let mut out = Expanded::default();
    for written in braces::expand(written) {
        one(&written, false, &mut out);
    }
    out
}

/// Expands the text of a here-document whose delimiter has no quotes.
pub(crate) fn expand_document(written: &str) -> Expanded {
    let mut out = Expanded::default();
    one(written, true, &mut out);
    out
}

fn one(written: &str, document: bool, out: &mut Expanded) {
    let options = ParserOptions::default();
    out.n_bytes += written.len();
    // A word without anything to expand, as most are, needs no parser.
    if !written.contains(['$', '`', '\'', '"', '\\', '~', '*', '?', '[']) {
        out.words.push(Word::known(written));
        return;
    }
    if !document
        && let Some(text) = written.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''))
        && !text.contains('\'')
    {
        out.words.push(Word::known(text));
        return;
    }
    let parsed = if bounds::is_word_too_deep(written) {
        None
    } else {
        bounds::with_stack(written, || {
            if document {
                word::parse_heredoc(written, &options)
            } else {
                word::parse(written, &options)
            }
        })
    };
    let Some(Ok(pieces)) = parsed else {
        out.broken = true;
        out.words.push(Word::unknown());
        return;
    };
    let mut words = vec![Word::default()];
    out.n_bytes += pieces_of(&pieces, Quotes::None, &mut words, &mut out.scripts);
    // `$IFS` at an edge makes an empty word, which the shell drops.
    if words.len() > 1 {
        words.retain(|word| !word.parts.is_empty());
    }
    out.words.append(&mut words);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
}

/// Adds the expansion of pieces to `words` and `scripts`. Returns the number of their bytes that were parsed again.
fn pieces_of(
    pieces: &[WordPieceWithSource],
    quotes: Quotes,
    words: &mut Vec<Word>,
    scripts: &mut Vec<String>,
) -> usize {
    let mut n_bytes = 0;
    for piece in pieces {
        let last = words.len() - 1;
        match &piece.piece {
            WordPiece::Text(text) if quotes == Quotes::None => globs(text, &mut words[last]),
            WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => {
                words[last].push(Part::Known(text.clone()));
            }
            WordPiece::AnsiCQuotedText(text) => words[last].push(ansi_c(text)),
            WordPiece::DoubleQuotedSequence(inner)
            | WordPiece::GettextDoubleQuotedSequence(inner) => {
                // An empty pair of quotes is still a word.
                words[last].push(Part::Known(String::new()));
                n_bytes += pieces_of(inner, Quotes::Double, words, scripts);
            }
            WordPiece::TildeExpansion(tilde) => words[last].push(home(tilde)),
            WordPiece::ParameterExpansion(ParameterExpr::Parameter {
                parameter: Parameter::Named(name),
                indirect: false,
            }) => match name.as_str() {
                "IFS" if quotes == Quotes::None => words.push(Word::default()),
                "HOME" => words[last].push(Part::Known("~".into())),
                _ => words[last].push(Part::Unknown),
            },
            WordPiece::ParameterExpansion(expression) => {
                words[last].push(Part::Unknown);
                // Defaults and patterns can hold commands: `${x:-$(rm y)}`.
                for text in texts_of(expression) {
                    n_bytes += inner_scripts(text, scripts);
                }
            }
            WordPiece::CommandSubstitution(script) => {
                scripts.push(script.clone());
                words[last].push(Part::Unknown);
            }
            WordPiece::BackquotedCommandSubstitution(script) => {
                scripts.push(unescape_backquoted(script));
                words[last].push(Part::Unknown);
            }
            WordPiece::EscapeSequence(text) => {
                let text = text.strip_prefix('\\').unwrap_or(text);
                if text != "\n" {
                    words[last].push(Part::Known(text.to_owned()));
                }
            }
            WordPiece::ArithmeticExpression(expression) => {
                words[last].push(Part::Unknown);
                n_bytes += inner_scripts(&expression.value, scripts);
            }
        }
    }
    n_bytes
}

/// The texts in a parameter expansion that the shell expands in their turn.
fn texts_of(expression: &ParameterExpr) -> Vec<&str> {
    use ParameterExpr as P;
    let (parameter, texts): (_, [Option<&str>; 2]) = match expression {
        P::Parameter { parameter, .. }
        | P::ParameterLength { parameter, .. }
        | P::Transform { parameter, .. } => (Some(parameter), [None, None]),
        P::UseDefaultValues { parameter, default_value: text, .. }
        | P::AssignDefaultValues { parameter, default_value: text, .. }
        | P::IndicateErrorIfNullOrUnset { parameter, error_message: text, .. }
        | P::UseAlternativeValue { parameter, alternative_value: text, .. }
        | P::RemoveSmallestSuffixPattern { parameter, pattern: text, .. }
        | P::RemoveLargestSuffixPattern { parameter, pattern: text, .. }
        | P::RemoveSmallestPrefixPattern { parameter, pattern: text, .. }
        | P::RemoveLargestPrefixPattern { parameter, pattern: text, .. }
        | P::UppercaseFirstChar { parameter, pattern: text, .. }
        | P::UppercasePattern { parameter, pattern: text, .. }
        | P::LowercaseFirstChar { parameter, pattern: text, .. }
        | P::LowercasePattern { parameter, pattern: text, .. } => {
            (Some(parameter), [text.as_deref(), None])
        }
        P::Substring { parameter, offset, length, .. } => (
            Some(parameter),
            [Some(offset.value.as_str()), length.as_ref().map(|length| length.value.as_str())],
        ),
        P::ReplaceSubstring { parameter, pattern, replacement, .. } => {
            (Some(parameter), [Some(pattern.as_str()), replacement.as_deref()])
        }
        P::VariableNames { .. } | P::MemberKeys { .. } => (None, [None, None]),
    };
    let index = match parameter {
        Some(Parameter::NamedWithIndex { index, .. }) => Some(index.as_str()),
        _ => None,
    };
    index.into_iter().chain(texts.into_iter().flatten()).collect()
}

/// Adds the commands in a text that the shell expands like a double-quoted one. Returns the number of bytes parsed.
pub(crate) fn inner_scripts(text: &str, scripts: &mut Vec<String>) -> usize {
    if !text.contains("$(") && !text.contains('`') {
        return 0;
    }
    let expanded = expand_document(text);
    scripts.extend(expanded.scripts);
    if expanded.broken {
        // Cannot be parsed in parts: add a script that is a syntax error, so that it is reported as one.
        scripts.push("(".into());
    }
    expanded.n_bytes
}

/// Text without quotes: file name patterns apart from the rest.
fn globs(text: &str, word: &mut Word) {
    let mut known = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let pattern = match c {
            '*' | '?' => c.to_string(),
            '[' if rest.as_str().contains(']') => {
                let close = rest.as_str().find(']').unwrap_or(0);
                let set = format!("[{}]", &rest.as_str()[..close]);
                rest = rest.as_str()[close + 1..].chars();
                set
            }
            _ => {
                known.push(c);
                continue;
            }
        };
        if !known.is_empty() {
            word.push(Part::Known(std::mem::take(&mut known)));
        }
        word.push(Part::Glob(pattern));
    }
    if !known.is_empty() {
        word.push(Part::Known(known));
    }
}

fn home(tilde: &word::TildeExpr) -> Part {
    match tilde {
        word::TildeExpr::Home => Part::Known("~".into()),
        word::TildeExpr::UserHome(user) => Part::Known(format!("~{user}")),
        word::TildeExpr::WorkingDir => Part::Known(".".into()),
        _ => Part::Unknown,
    }
}

/// `$'…'`: known if its escapes are the common ones.
fn ansi_c(text: &str) -> Part {
    let mut out = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let Some(escape) = rest.next() else { return Part::Unknown };
        let byte = match escape {
            'n' => b'\n',
            't' => b'\t',
            'r' => b'\r',
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => escape as u8,
            'x' => match digits(&mut rest, 16, 2, "") {
                Some(byte) => byte,
                None => return Part::Unknown,
            },
            '0'..='7' => match digits(&mut rest, 8, 2, escape.encode_utf8(&mut [0; 4])) {
                Some(byte) => byte,
                None => return Part::Unknown,
            },
            _ => return Part::Unknown,
        };
        out.push(byte);
    }
    String::from_utf8(out).map_or(Part::Unknown, Part::Known)
}

fn digits(rest: &mut std::str::Chars<'_>, radix: u32, n_max: usize, first: &str) -> Option<u8> {
    let n = rest.as_str().chars().take(n_max).take_while(|c| c.is_digit(radix)).count();
    let text = format!("{first}{}", &rest.as_str()[..n]);
    *rest = rest.as_str()[n..].chars();
    u8::from_str_radix(&text, radix).ok()
}

/// Inside backticks a backslash quotes only `$`, `` ` `` and itself.
fn unescape_backquoted(script: &str) -> String {
    let mut out = String::with_capacity(script.len());
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some('$' | '`' | '\\')) => out.extend(rest.next()),
            _ => out.push(c),
        }
    }
    out
}

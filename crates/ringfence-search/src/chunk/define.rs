//! Finds definitions line by line with a small table per language: no parser, so no input can make it fail or take more
//! than linear time. Reads the first words of a line; a definition written in an unusual way is missed.

use super::syntax::{CONTROL, Functions, Syntax, syntax};
use super::{Language, SYMBOL_BYTES_MAX};

/// Columns of indentation up to which a definition starts a chunk: the top and the members of one container.
const DEPTH_COLUMNS: usize = 4;

/// Bytes of a line that are read.
const LINE_BYTES_MAX: usize = 400;

/// Modifiers that are skipped before a keyword.
const MODIFIERS_MAX: usize = 8;

/// One line as the chunker sees it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadLine<'t> {
    pub(super) is_blank: bool,
    /// A definition near the left margin, or a heading.
    pub(super) starts_definition: bool,
    /// A comment, attribute or decorator, which belongs to the definition below it.
    pub(super) is_lead: bool,
    /// The name that is defined.
    pub(super) name: Option<&'t str>,
}

/// A definition and its name; `impl` has none.
#[derive(Clone, Copy)]
struct Definition<'t>(Option<&'t str>);

/// Reads the lines of one file, in order.
pub(super) struct Definer {
    language: Language,
    syntax: Syntax,
    in_comment: bool,
    in_quotes: Quotes,
    in_fence: bool,
}

/// State of a text between `"""`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Outside,
    /// Opened by a line that leads a definition, such as Elixir's `@doc`.
    OfLead,
    Inside,
}

impl Definer {
    pub(super) fn new(language: Language) -> Self {
        Self {
            language,
            syntax: syntax(language),
            in_comment: false,
            in_quotes: Quotes::Outside,
            in_fence: false,
        }
    }

    pub(super) fn line<'t>(&mut self, whole: &'t str) -> ReadLine<'t> {
        let line = whole[..whole.floor_char_boundary(LINE_BYTES_MAX)].trim_end();
        let text = line.trim_start();
        if text.is_empty() {
            return ReadLine { is_blank: true, ..ReadLine::default() };
        }
        if self.language == Language::Markdown {
            return self.markdown(line, text);
        }
        if !self.language.is_code() {
            return ReadLine::default();
        }
        if let Some(read) = self.comment(text) {
            return read;
        }
        if let Some(read) = self.quotes(text) {
            return read;
        }
        let columns = columns(line);
        let is_macro = self.language == Language::C || self.language == Language::Cpp;
        let text = match text.strip_prefix('#') {
            // `# define X` is a definition, other directives are none.
            Some(directive) if is_macro => match directive.trim_start() {
                rest if rest.starts_with("define") => rest,
                _ => return ReadLine::default(),
            },
            _ => text,
        };
        if self.syntax.leads.iter().any(|lead| text.starts_with(lead)) {
            let at_words = text.strip_prefix('@').filter(|_| self.language == Language::ObjectiveC);
            if at_words.is_none() {
                let inline =
                    if text.starts_with("template") { self.after_template(text) } else { None };
                return match inline {
                    Some(found) => Self::defined(found, columns),
                    None => ReadLine { is_lead: true, ..ReadLine::default() },
                };
            }
        }
        match self.keyword(text, columns).or_else(|| self.function(text, columns)) {
            Some(found) => Self::defined(found, columns),
            None => ReadLine::default(),
        }
    }

    fn defined(definition: Definition<'_>, columns: usize) -> ReadLine<'_> {
        ReadLine {
            starts_definition: columns <= DEPTH_COLUMNS,
            name: definition.0.filter(|name| !name.is_empty() && name.len() <= SYMBOL_BYTES_MAX),
            ..ReadLine::default()
        }
    }

    fn markdown<'t>(&mut self, line: &'t str, text: &'t str) -> ReadLine<'t> {
        if text.starts_with("```") || text.starts_with("~~~") {
            self.in_fence = !self.in_fence;
            return ReadLine::default();
        }
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if self.in_fence || depth == 0 || depth > 6 || !title.starts_with(' ') {
            return ReadLine::default();
        }
        Self::defined(Definition(Some(title.trim())), 0)
    }

    /// Follows comments over several lines.
    fn comment<'t>(&mut self, text: &str) -> Option<ReadLine<'t>> {
        let lead = ReadLine { is_lead: true, ..ReadLine::default() };
        if self.in_comment {
            self.in_comment = !text.contains("*/");
            return Some(lead);
        }
        if let Some(rest) = text.strip_prefix("/*") {
            self.in_comment = !rest.contains("*/");
            return Some(lead);
        }
        None
    }

    /// Follows texts in triple quotes: documentation, which may look like code.
    fn quotes<'t>(&mut self, text: &str) -> Option<ReadLine<'t>> {
        let marks = text.matches("\"\"\"").count();
        let read = |of: Quotes| ReadLine { is_lead: of == Quotes::OfLead, ..ReadLine::default() };
        match self.in_quotes {
            Quotes::Outside if marks % 2 == 1 => {
                self.in_quotes =
                    if text.starts_with('@') { Quotes::OfLead } else { Quotes::Inside };
                // The line that opens them may define something.
                text.starts_with(['"', '@']).then(|| read(self.in_quotes))
            }
            Quotes::Outside => None,
            inside => {
                if marks % 2 == 1 {
                    self.in_quotes = Quotes::Outside;
                }
                Some(read(inside))
            }
        }
    }

    /// The definition behind `template <...>` on one line.
    fn after_template<'t>(&self, text: &'t str) -> Option<Definition<'t>> {
        let open = text.find('<')?;
        let mut depth = 0usize;
        for (at, byte) in text.bytes().enumerate().skip(open) {
            match byte {
                b'<' => depth += 1,
                b'>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                let rest = text.get(at + 1..)?.trim_start();
                return self.keyword(rest, 0).or_else(|| self.function(rest, 0));
            }
        }
        None
    }

    /// A definition announced by a keyword. `Some(Definition(None))` is one without a name, such as `impl`.
    fn keyword<'t>(&self, text: &'t str, columns: usize) -> Option<Definition<'t>> {
        let mut rest = text.trim_start_matches(['(', '@']);
        for _ in 0..MODIFIERS_MAX {
            let (word, after) = split_word(rest);
            let keyword = self.find(self.syntax.keywords, word);
            let after = skip_parens(after.trim_start());
            // `const fn` and `class func`: a keyword that is a modifier of another.
            let next = split_word(after.trim_start()).0;
            let is_modifier = self.find(self.syntax.modifiers, word).is_some()
                && (keyword.is_none() || self.find(self.syntax.keywords, next).is_some());
            match keyword {
                Some(keyword) if !is_modifier => return self.named(keyword, after, columns),
                _ if is_modifier => rest = after.trim_start(),
                _ => return None,
            }
        }
        None
    }

    fn find(&self, words: &[&'static str], word: &str) -> Option<&'static str> {
        let is_sql = self.language == Language::Sql;
        words.iter().copied().find(|w| *w == word || is_sql && w.eq_ignore_ascii_case(word))
    }

    /// The name behind a keyword.
    fn named<'t>(
        &self,
        keyword: &'static str,
        after: &'t str,
        columns: usize,
    ) -> Option<Definition<'t>> {
        use Language as L;
        let after = after.trim_start();
        match (self.language, keyword) {
            (L::Rust, "impl") | (L::Haskell, "instance") | (L::Zig, "test") => {
                return Some(Definition(None));
            }
            (L::Rust, "macro_rules") => {
                return Some(Definition(Some(name(after.trim_start_matches('!').trim_start()))));
            }
            (
                L::C | L::Cpp | L::ObjectiveC,
                "class" | "struct" | "union" | "enum" | "interface" | "implementation" | "protocol",
            ) => {
                return record(after);
            }
            (L::Cpp, "using") => {
                let (word, rest) = split_word(after);
                return rest.trim_start().starts_with('=').then_some(Definition(Some(word)));
            }
            (L::JavaScript | L::TypeScript, "const" | "let" | "var") => {
                let (word, rest) = split_word(after);
                let is_function =
                    rest.contains("=>") || rest.contains("function") || rest.contains("class");
                return (columns == 0 && !word.is_empty()
                    || is_function && columns <= DEPTH_COLUMNS)
                    .then_some(Definition(Some(word)));
            }
            (L::TypeScript, "type")
                if !after.contains('=') && !after.is_empty() && after.contains(':') =>
            {
                return None;
            }
            (L::Kotlin | L::Scala | L::Go, "val" | "var" | "const")
            | (L::OCaml | L::FSharp, "let" | "and")
                if columns > 0 =>
            {
                return None;
            }
            (L::Go, "func") => {
                return Some(Definition(Some(name(skip_parens(after).trim_start()))));
            }
            (L::Zig, "const" | "var") => {
                let (word, rest) = split_word(after);
                let is_type =
                    ["struct", "enum", "union", "opaque", "error"].iter().any(|t| rest.contains(t));
                return (columns == 0 || is_type).then_some(Definition(Some(word)));
            }
            (L::OCaml | L::FSharp | L::Julia | L::Haskell, _) => {
                let mut rest = after;
                while let (word, more) = split_word(rest)
                    && self.syntax.modifiers.contains(&word)
                {
                    rest = more.trim_start();
                }
                let found = name(rest);
                return Some(Definition(Some(
                    found
                        .strip_prefix("this.")
                        .or_else(|| found.strip_prefix("_."))
                        .unwrap_or(found),
                )));
            }
            (L::Sql, _) => {
                let mut rest = after;
                while let (word, more) = split_word(rest)
                    && ["if", "not", "exists"].iter().any(|w| w.eq_ignore_ascii_case(word))
                {
                    rest = more.trim_start();
                }
                return Some(Definition(Some(name(rest.trim_start_matches(['`', '"', '['])))));
            }
            (L::Terraform, _) => {
                let last =
                    after.split('"').rfind(|part| !part.trim().is_empty() && !part.contains('{'));
                return Some(Definition(last.map(str::trim)));
            }
            (L::Clojure, _) => {
                let end = after
                    .find(|c: char| c.is_whitespace() || "()[]{}\"".contains(c))
                    .unwrap_or(after.len());
                return Some(Definition(Some(&after[..end])));
            }
            _ => {}
        }
        let found = name(after);
        let found = found.strip_prefix("self.").unwrap_or(found);
        // `class` in prose, `type = 3`, `def` alone.
        if found.is_empty()
            && !matches!(keyword, "type" | "var" | "const" | "object" | "given" | "extension")
        {
            return None;
        }
        Some(Definition(Some(found)))
    }

    /// A function that no keyword announces.
    fn function<'t>(&self, text: &'t str, columns: usize) -> Option<Definition<'t>> {
        match self.syntax.functions {
            Functions::Keyword => None,
            Functions::CLike => self.c_function(text, columns),
            Functions::JsLike => self.js_function(text, columns),
            Functions::ShellLike => {
                let (word, rest) = split_name(text, "_-:.");
                let is_function = rest
                    .trim_start()
                    .strip_prefix('(')
                    .is_some_and(|r| r.trim_start().starts_with(')'));
                (is_function && !word.is_empty()).then_some(Definition(Some(word)))
            }
            Functions::Signature => {
                let (word, rest) = split_name(text, "_'");
                (columns == 0 && !word.is_empty() && rest.trim_start().starts_with("::"))
                    .then_some(Definition(Some(word)))
            }
            Functions::Arrow => {
                let (word, rest) = split_name(text, "_.");
                let value = rest
                    .trim_start()
                    .strip_prefix("<-")
                    .or_else(|| rest.trim_start().strip_prefix('='))?;
                value.trim_start().starts_with("function").then_some(Definition(Some(word)))
            }
        }
    }

    fn c_function<'t>(&self, text: &'t str, columns: usize) -> Option<Definition<'t>> {
        if columns > 2 * DEPTH_COLUMNS
            || text.starts_with(['}', '{', ')', '"', '\'', '.', '-', '+', '&', '|', '?', ':'])
        {
            return None;
        }
        let open = text.find('(')?;
        let before = text[..open].trim_end();
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '~' || c == '$'))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let found = before[start..].trim_start_matches(':');
        let types = before[..start].trim();
        let has_type = !types.is_empty();
        if found.is_empty()
            || found.starts_with(|c: char| c.is_ascii_digit())
            || CONTROL.contains(&found)
            || types.contains(['=', '.', '"', '!', '+', '/', '|'])
            || types.split_whitespace().next().is_some_and(|word| CONTROL.contains(&word))
        {
            return None;
        }
        let last = text.chars().next_back()?;
        let ends = match self.language {
            Language::Erlang => columns == 0 && text.ends_with("->"),
            Language::C | Language::Cpp | Language::ObjectiveC if columns == 0 => {
                (has_type || last == '{') && last != ';' && last != '\\'
            }
            _ => last == '{' && (has_type || columns > 0),
        };
        ends.then_some(Definition(Some(found)))
    }

    fn js_function<'t>(&self, text: &'t str, columns: usize) -> Option<Definition<'t>> {
        let mut rest = text;
        for _ in 0..MODIFIERS_MAX {
            let (word, after) = split_word(rest);
            if self.syntax.modifiers.contains(&word) && after.starts_with(' ') {
                rest = after.trim_start();
            } else {
                break;
            }
        }
        let rest = rest.trim_start_matches(['*', '#', ' ']);
        let (word, after) = split_name(rest, "_$.");
        let after = after.trim_start();
        if word.is_empty() || CONTROL.contains(&word) {
            return None;
        }
        let last_part = word.rsplit('.').next().unwrap_or(word);
        if let Some(value) = after.strip_prefix('=') {
            let value = value.trim_start();
            let is_function = value.starts_with("function")
                || value.starts_with("async ")
                || value.contains("=>");
            let is_export = word.starts_with("exports.")
                || word.starts_with("module.exports.")
                || word.contains(".prototype.");
            // `exports.a = b` gives a name to something that is defined elsewhere.
            let is_alias = value
                .trim_end_matches(';')
                .chars()
                .all(|c| c.is_alphanumeric() || "_$.".contains(c));
            let is_definition = is_function || is_export && !is_alias;
            return (columns <= DEPTH_COLUMNS && !value.starts_with('=') && is_definition)
                .then_some(Definition(Some(last_part)));
        }
        let is_method = columns > 0
            && columns <= DEPTH_COLUMNS
            && after.starts_with(['(', '<'])
            && text.ends_with('{')
            && !word.contains('.')
            && !text.contains("=>")
            && !text.contains("function");
        is_method.then_some(Definition(Some(word)))
    }
}

/// The name of a C or C++ record: the last word before its body, bases or parameters. None for a use of the type.
fn record(after: &str) -> Option<Definition<'_>> {
    let end = after.find(['{', ':', '<', ';', '(', '*', '&', '=', ',', ')']).unwrap_or(after.len());
    let stop = after[end..].chars().next();
    if stop.is_some_and(|c| !matches!(c, '{' | ':' | '<')) {
        return None;
    }
    let mut words = after[..end]
        .split_whitespace()
        .filter(|word| !matches!(*word, "final" | "class" | "struct"));
    let is_name = |word: &&str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    Some(Definition(words.next_back().filter(is_name)))
}

/// A name with its qualifiers, such as `Ecto.Repo` and `Rack::Utils`.
fn name(text: &str) -> &str {
    split_name(text, "_$.:?!'").0.trim_end_matches(['.', ':', '!', '?', '\''])
}

fn split_word(text: &str) -> (&str, &str) {
    split_name(text, "_$")
}

/// Splits after the leading letters, digits and characters of `others`.
fn split_name<'t>(text: &'t str, others: &str) -> (&'t str, &'t str) {
    let end =
        text.find(|c: char| !(c.is_alphanumeric() || others.contains(c))).unwrap_or(text.len());
    text.split_at(end)
}

/// The text behind a group in parentheses, if one is at the start: `pub(crate)`, a receiver of Go.
fn skip_parens(text: &str) -> &str {
    if !text.starts_with('(') {
        return text;
    }
    text.find(')').map_or(text, |end| &text[end + 1..])
}

fn columns(line: &str) -> usize {
    let mut columns = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += 4,
            _ => break,
        }
    }
    columns
}

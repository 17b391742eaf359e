//! Queries, hits and the weights of the ranker. Pure: what a query asks for, and how well a path answers it. The index
//! computes the scores (`index/search.rs`).

use serde::Serialize;

use crate::chunk::Language;
use crate::file_kind::FileKind;
use crate::token::{Tokenizer, stem, whole_name};

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Words, a question, or the name of a symbol.
    pub text: String,
    /// Maximum number of hits; 0 is 10.
    pub limit: usize,
    /// Paths to search, such as `src/**/*.rs`; a glob without `/` matches names at any depth. All if empty.
    pub globs: Vec<String>,
    /// Languages to search. All if empty.
    pub languages: Vec<Language>,
    /// Ranking.
    pub mode: Mode,
}

/// Ranking of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// BM25 with boosts and penalties for code.
    #[default]
    Auto,
    /// BM25 of the chunks' text.
    Plain,
}

/// A chunk that answers a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Path of the file.
    pub path: String,
    /// First line, from 1.
    pub start_line: u32,
    /// Last line.
    pub end_line: u32,
    /// Language of the file.
    pub language: Language,
    /// The first name that the chunk defines, or nothing.
    pub symbol: String,
    /// Higher is better; comparable within one search only.
    pub score: f32,
    /// Hash of the chunk's text when it was indexed.
    pub hash: u64,
}

/// Hits of a search that asks for none in particular.
const LIMIT_DEFAULT: usize = 10;

/// Maximum number of hits.
const LIMIT_MAX: usize = 1000;

impl Query {
    /// A query with the usual limit.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn limit(&self) -> usize {
        if self.limit == 0 { LIMIT_DEFAULT } else { self.limit.min(LIMIT_MAX) }
    }
}

macro_rules! weights {
    ($($(#[$doc:meta])* $name:ident = $value:literal),* $(,)?) => {
        /// Weights of the ranker. Boosts are parts of the best chunk's score; penalties are factors.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Weights { $($(#[$doc])* pub $name: f32),* }

        impl Weights {
            /// Tuned on public repositories by `cargo xtask relevance --tune`.
            pub const DEFAULT: Self = Self { $($name: $value),* };

            /// Names of the weights.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// The weight of that name.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut f32> {
                match name { $(stringify!($name) => Some(&mut self.$name),)* _ => None }
            }
        }
    };
}

weights! {
    /// BM25: how soon repeats of a term stop counting.
    k1 = 1.2,
    /// BM25: how much a long chunk counts less.
    b = 0.7,
    /// Part of its idf that a term adds when it is a word of a name that the chunk defines.
    symbol_part = 0.5,
    /// Part of its idf that a term adds to the file's first chunk when it is a word of the path.
    path_part = 0.5,
    /// Part of the scores of a file's next three chunks that its best chunk gains.
    coherence = 0.2,
    /// Boost for the share of the query's words that the file's stem has.
    stem_match = 1.2,
    /// Boost for the share of the query's words that the parent directory has.
    dir_match = 0.15,
    /// Share that counts for a word of which the path only has the beginning, or the other way round.
    prefix_match = 0.8,
    /// Boost for the definition of the symbol that is the whole query.
    definition = 3.0,
    /// Boost for the definition of a name in a sentence: `parseUrl`, `parse_url`, `Url::parse`.
    definition_embedded = 1.0,
    /// Boost for the definition of a capitalised word in a sentence.
    definition_capital = 0.3,
    /// Factor for a definition that differs in case or separators.
    definition_folded = 0.8,
    /// Factor for a definition in a file named like it.
    definition_in_stem = 1.5,
    /// Factor of tests.
    test = 0.4,
    /// Factor of examples.
    example = 0.4,
    /// Factor of compatibility layers.
    compat = 0.5,
    /// Factor of files that only re-export.
    barrel = 0.6,
    /// Factor of generated files.
    generated = 0.6,
    /// Factor of vendored files.
    vendored = 0.6,
    /// Factor of declarations without code.
    stub = 0.7,
    /// Factor of prose and data beside code.
    prose = 0.6,
    /// Factor of each further chunk of a file.
    repeat = 0.3,
}

impl Default for Weights {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Weights {
    /// Factor for the kind of a file. A kind that the query names costs nothing.
    pub(crate) fn kind_factor(&self, kind: FileKind, asked: &Asked) -> f32 {
        let mut factor = 1.0;
        for (which, weight, is_asked) in [
            (FileKind::TEST, self.test, asked.names_tests),
            (FileKind::EXAMPLE, self.example, asked.names_examples),
            (FileKind::COMPAT, self.compat, asked.names_compat),
            (FileKind::BARREL, self.barrel, false),
            (FileKind::GENERATED, self.generated, false),
            (FileKind::VENDORED, self.vendored, false),
            (FileKind::STUB, self.stub, false),
        ] {
            if kind.has(which) && !is_asked {
                factor *= weight;
            }
        }
        factor
    }
}

/// Bytes of a query that are read.
const QUERY_BYTES_MAX: usize = 4 << 10;

/// Maximum terms of a query.
const TERMS_MAX: usize = 64;

/// Maximum names of a query that are looked up as symbols.
const NAMES_MAX: usize = 8;

/// A query, understood.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Distinct terms, without words that every text has.
    pub(crate) terms: Vec<String>,
    /// Distinct words for paths.
    pub(crate) words: Vec<String>,
    /// Names that may be defined somewhere.
    pub(crate) names: Vec<Name>,
    names_tests: bool,
    names_examples: bool,
    names_compat: bool,
}

/// A name in a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// As it is written, without qualifiers.
    pub(crate) exact: String,
    /// In lower case, without separators.
    pub(crate) folded: String,
    pub(crate) shape: Shape,
}

/// Reason to take a word for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It is the whole query.
    Query,
    /// It is written like an identifier.
    Identifier,
    /// It is capitalised.
    Capital,
}

impl Asked {
    pub(crate) fn read(text: &str) -> Self {
        let text = text[..text.floor_char_boundary(QUERY_BYTES_MAX)].trim();
        let mut asked = Self::default();
        let mut all = Vec::new();
        Tokenizer::default().terms(text, |term| all.push(term.to_owned()));
        let is_common = |term: &String| STOP_WORDS.contains(&term.as_str());
        // A query of nothing but common words is searched as it is.
        let keep_common = all.iter().all(is_common);
        for term in all {
            if asked.terms.len() < TERMS_MAX
                && (keep_common || !is_common(&term))
                && !asked.terms.contains(&term)
            {
                asked.terms.push(term);
            }
        }
        asked.words = asked
            .terms
            .iter()
            .filter(|term| term.len() > 2 || asked.terms.len() == 1)
            .cloned()
            .collect();
        asked.names(text);
        let says = |words: &[&str]| asked.terms.iter().any(|term| words.contains(&term.as_str()));
        asked.names_tests = says(&["test", "spec", "benchmark", "bench", "fixtur", "mock"]);
        asked.names_examples = says(&["exampl", "sampl", "demo", "tutorial"]);
        asked.names_compat = says(&["compat", "legac", "deprecat", "compatibilit"]);
        asked
    }

    fn names(&mut self, text: &str) {
        let is_one_word = !text.contains(char::is_whitespace);
        for word in text.split(|c: char| c.is_whitespace() || ",;\"'`()[]{}<>?!".contains(c)) {
            let word = word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
            let last = word.rsplit(['.', ':', '#', '\\', '/', '>']).next().unwrap_or(word);
            let qualified = last.len() < word.len();
            if last.is_empty()
                || !last.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$')
            {
                continue;
            }
            let inner_capital = last
                .chars()
                .zip(last.chars().skip(1))
                .any(|(a, b)| a.is_lowercase() && b.is_uppercase());
            let shape = match () {
                () if is_one_word => Shape::Query,
                () if inner_capital || last.contains('_') || qualified && !word.contains('/') => {
                    Shape::Identifier
                }
                () if last.starts_with(char::is_uppercase) && last.contains(char::is_lowercase) => {
                    Shape::Capital
                }
                () => continue,
            };
            let name = Name { exact: last.to_owned(), folded: whole_name(last), shape };
            if shape == Shape::Capital && STOP_WORDS.contains(&name.folded.as_str()) {
                continue;
            }
            if self.names.len() < NAMES_MAX && !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }
}

/// Share of a query that the path of a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PathMatch {
    /// Share of the words in the stem.
    pub(crate) stem: f32,
    /// Share of the words in the parent directory.
    pub(crate) dir: f32,
}

/// The words of a path that rank.
#[derive(Debug, Default)]
pub(crate) struct PathWords {
    stem: Vec<String>,
    dir: Vec<String>,
    /// The stem in lower case, without separators.
    pub(crate) stem_folded: String,
}

/// File names that say nothing: their directory names the content.
const EMPTY_STEMS: &[&str] = &["mod", "index", "__init__", "lib", "main", "init", "package"];

impl PathWords {
    pub(crate) fn of(path: &str) -> Self {
        let mut parts = path.rsplit('/');
        let name = parts.next().unwrap_or(path);
        let stem_text = name.split_once('.').map_or(name, |(stem, _)| stem);
        let dir = parts.next().unwrap_or("");
        let words = |text: &str| {
            let mut words = Vec::new();
            Tokenizer::default().terms(text, |term| words.push(term.to_owned()));
            words
        };
        if EMPTY_STEMS.contains(&stem_text) && !dir.is_empty() {
            let above = parts.next().unwrap_or("");
            return Self { stem: words(dir), dir: words(above), stem_folded: whole_name(dir) };
        }
        Self { stem: words(stem_text), dir: words(dir), stem_folded: whole_name(stem_text) }
    }

    /// Returns the share of the words that this path has; `weights` are the words' shares, whose sum is 1.
    pub(crate) fn matches(&self, words: &[(String, f32)], prefix: f32) -> PathMatch {
        let share = |parts: &[String]| {
            words.iter().map(|(word, weight)| weight * best(word, parts, prefix)).sum()
        };
        PathMatch { stem: share(&self.stem), dir: share(&self.dir) }
    }

    /// Returns true if a definition of `name` belongs into this file: same name, or its plural.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.stem_folded == name || stem(&self.stem_folded) == stem(name)
    }
}

/// Shortest word that matches as the beginning of another.
const PREFIX_MIN: usize = 3;

fn best(word: &str, parts: &[String], prefix: f32) -> f32 {
    let mut best = 0.0f32;
    for part in parts {
        if part == word {
            return 1.0;
        }
        let (short, long) =
            if part.len() < word.len() { (part.as_str(), word) } else { (word, part.as_str()) };
        if short.len() >= PREFIX_MIN && long.starts_with(short) {
            best = best.max(prefix);
        }
    }
    best
}

/// Stems of words that are in every question and say nothing about the answer.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "doe", "don", "each", "for", "from", "had", "hav", "has", "how",
    "i", "if", "in", "into", "is", "it", "its", "may", "me", "my", "no", "not", "of", "on", "onto",
    "or", "our", "should", "so", "such", "than", "that", "the", "their", "them", "then", "there",
    "thes", "they", "this", "those", "thos", "to", "up", "us", "via", "was", "we", "wer", "were",
    "what", "when", "wher", "where", "which", "whil", "while", "who", "why", "will", "with",
    "would", "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_query_is_told() {
        let shapes = |text: &str| {
            Asked::read(text).names.iter().map(|n| (n.exact.clone(), n.shape)).collect::<Vec<_>>()
        };
        let named = |name: &str, shape| vec![(name.to_owned(), shape)];
        assert_eq!(shapes("ClientSession"), named("ClientSession", Shape::Query));
        assert_eq!(shapes("Rack::Response"), named("Response", Shape::Query));
        assert_eq!(shapes("formatter"), named("formatter", Shape::Query));
        assert_eq!(shapes("where is parse_url used"), named("parse_url", Shape::Identifier));
        assert_eq!(shapes("how fmt::print works"), named("print", Shape::Identifier));
        assert_eq!(shapes("the Encoder typeclass"), named("Encoder", Shape::Capital));
        assert_eq!(shapes("How is a boundary layer heated?"), vec![]);
    }

    #[test]
    fn common_words_are_dropped_unless_there_are_no_others() {
        assert_eq!(Asked::read("how does the router work").terms, ["router", "work"]);
        assert_eq!(Asked::read("to be or not to be").terms.len(), 4);
        assert!(Asked::read("x ".repeat(100_000).as_str()).terms.len() <= TERMS_MAX);
        assert!(Asked::read("").terms.is_empty());
    }

    #[allow(clippy::cast_precision_loss)] // A few words.
    fn share(words: &[&str]) -> f32 {
        1.0 / words.len() as f32
    }

    #[test]
    fn a_path_matches_by_its_stem_and_directory() {
        let words =
            |list: &[&str]| list.iter().map(|w| ((*w).to_owned(), share(list))).collect::<Vec<_>>();
        let of = |path: &str, list: &[&str]| PathWords::of(path).matches(&words(list), 0.5);
        assert_eq!(
            of("src/http/body_proxy.rb", &["bod", "prox"]),
            PathMatch { stem: 1.0, dir: 0.0 }
        );
        assert_eq!(of("src/routing/mod.rs", &["rout", "x"]), PathMatch { stem: 0.5, dir: 0.0 });
        assert_eq!(of("auth/x.rs", &["authentication"]), PathMatch { stem: 0.0, dir: 0.5 });
        assert!(PathWords::of("a/BodyProxy.java").is_named("bodyproxy"));
    }
}

//! Searches text: by a pattern, line by line, and by an index that ranks chunks for a query. Knows no session. Files come
//! from the caller, one text after another or as a [`Source`]; the index reads and writes its own directory only.
//! No pattern and no text takes more than linear time, and everything has a bound.
//!
//! | module | purpose |
//! |---|---|
//! | `grep` | searches one text after another, within bounds |
//! | `text_search` | searches one text line by line |
//! | `multiline` | searches one text for matches across lines |
//! | `pattern` | compiles a pattern |
//! | `pieces` | a text in pieces, with a check of the clock before each |
//! | `weight` | cost of a pattern per byte of text |
//! | `window` | the part of a long line around a match |
//! | `chunk` | cuts a file into chunks at its definitions, headings or paragraphs |
//! | `token` | cuts text into search terms |
//! | `index` | BM25 index on disk, updated incrementally |
//! | `rank` | queries, hits, weights of the ranker |
//! | `file_kind` | tests, examples, generated files |
//! | `file_types` | types of files by name, such as `py` |
//! | `ignore_rules` | `.gitignore`, hidden files, secrets |
//! | `tree` | the files below a directory as a source |
//! | `vectors` | search by meaning with an embedding table, off by default |
//! | `prompt` | wraps text as data for a model |
//!
//! ```
//! use ringfence_search::{Bounds, Grep, Pattern, PatternStyle, Report};
//!
//! # fn main() -> Result<(), ringfence_spec::Problem> {
//! let pattern = Pattern::new("fn (\\w+)", PatternStyle::default())?;
//! let mut grep = Grep::new(pattern, Bounds::default(), Report::Lines);
//! grep.text("src/lib.rs", &b"mod a;\nfn main() {}\n"[..]);
//! let found = grep.finish();
//! assert_eq!((found.matches[0].line, found.matches[0].column), (2, 1));
//! # Ok(())
//! # }
//! ```

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod chunk;
mod file_kind;
mod file_types;
mod grep;
mod hash;
mod ignore_rules;
mod index;
mod multiline;
mod pattern;
mod pieces;
mod prompt;
mod rank;
mod text_search;
mod token;
mod tree;
mod vectors;
mod weight;
mod window;

pub use chunk::{Chunk, ChunkOptions, ChunkRef, Language, NotText, chunk_text, decode, each_chunk};
pub use file_types::FileTypes;
pub use grep::{
    Bounds, Context, Cut, FileMatches, Found, Grep, MATCHES_MAX, MATCHES_USUAL, Match, Report,
};
pub use ignore_rules::{
    IGNORE_FILE_BYTES_MAX, IGNORE_WALK_BYTES_MAX, IgnoreRules, is_hidden, is_secret,
};
pub use index::{
    Index, IndexError, IndexLimits, IndexStats, Progress, SKIPPED_MAX, SkipReason, Source,
    SourceFile, UpdateReport,
};
pub use pattern::{Case, Pattern, PatternStyle, Select};
pub use prompt::{CONTEXT_BYTES_MAX, ContextTooLarge, Wrapped, split_context, wrap};
pub use rank::{Hit, Mode, Query, Weights};
pub use text_search::{TextFound, TextSearch};
pub use token::Tokenizer;
pub use tree::Tree;
pub use vectors::{
    EMBED_TEXTS_MAX, Embedder, StaticModel, VectorError, VectorIndex, cosine_similarity, fuse,
};

//! Flags of the commands that search the files of a session.

use std::ffi::OsString;
use std::ops::RangeBounds;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use ringfence_engine::SessionId;

use super::{DataDir, JsonArgs};

/// Parses a number within a range; others are refused, as another number than was asked for is no answer.
fn within(range: impl RangeBounds<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

#[derive(Debug, Args)]
#[command(
    after_help = "Searches every file of the workspace except binary ones and what is below `.git`: hidden files and files that \
    a `.gitignore` names too, unlike ripgrep. Links are not followed. Takes linear time; ends after about 10 s."
)]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub(crate) struct GrepArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Search for this pattern; may be repeated, and may begin with a dash
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) patterns: Vec<String>,
    /// Treat the pattern as literal text
    #[arg(short = 'F', long, alias = "fixed-strings")]
    pub(crate) literal: bool,
    /// Search case-insensitively
    #[arg(short, long, overrides_with_all = ["smart_case", "case_sensitive"])]
    pub(crate) ignore_case: bool,
    /// Search case-insensitively if the pattern has no upper-case letter
    #[arg(short = 'S', long, overrides_with_all = ["ignore_case", "case_sensitive"])]
    pub(crate) smart_case: bool,
    /// Search case-sensitively; the default
    #[arg(short = 's', long, overrides_with_all = ["ignore_case", "smart_case"])]
    pub(crate) case_sensitive: bool,
    /// Print line numbers; always on
    #[arg(short = 'n', long)]
    pub(crate) line_number: bool,
    /// Match whole words only
    #[arg(short, long)]
    pub(crate) word_regexp: bool,
    /// Select lines that do not match
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,
    /// Let a match span lines, up to 128 KiB of them; `.` matches a line end after `(?s)`
    #[arg(short = 'U', long)]
    pub(crate) multiline: bool,
    /// Print only the paths of files with a match
    #[arg(short = 'l', long, conflicts_with = "count")]
    pub(crate) files_with_matches: bool,
    /// Print only the number of matching lines of each file; of matches with `-U`
    #[arg(short, long)]
    pub(crate) count: bool,
    /// Search only matching files, such as `*.py`
    #[arg(short, long, value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Search only files of this type: a language or an extension, such as `py` or `rust`; may be repeated
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Skip hidden files and directories
    #[arg(long, overrides_with = "hidden")]
    pub(crate) no_hidden: bool,
    /// Search hidden files and directories; the default
    #[arg(long, overrides_with = "no_hidden")]
    pub(crate) hidden: bool,
    /// Skip what a `.gitignore` of the workspace names
    #[arg(long, overrides_with = "no_ignore")]
    pub(crate) ignore: bool,
    /// Search what a `.gitignore` names; the default
    #[arg(long, overrides_with = "ignore")]
    pub(crate) no_ignore: bool,
    /// Lines after each match, 30 at most
    #[arg(short = 'A', long, value_name = "N", value_parser = within(0..=30))]
    pub(crate) after_context: Option<usize>,
    /// Lines before each match, 30 at most
    #[arg(short = 'B', long, value_name = "N", value_parser = within(0..=30))]
    pub(crate) before_context: Option<usize>,
    /// Lines around each match, 30 at most
    #[arg(short = 'C', long, value_name = "N", value_parser = within(0..=30))]
    pub(crate) context: Option<usize>,
    /// Maximum number of matches, or of files with `-l` and `-c`, 200 at most [default: 20]
    #[arg(short, long, value_name = "N", value_parser = within(1..))]
    pub(crate) max_count: Option<usize>,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// Regular expression in Rust syntax; with `-e` this is the path
    #[arg(required_unless_present = "patterns")]
    pub(crate) pattern: Option<OsString>,
    /// File or directory below the workspace [default: .]
    pub(crate) path: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Hits, 100 at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = within(1..=100))]
    pub(crate) limit: usize,
    /// Only these files, such as `src/**/*.py`
    #[arg(short, long, value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Only this language
    #[arg(short, long, value_name = "NAME")]
    pub(crate) language: Option<String>,
    /// Print paths and lines only
    #[arg(long)]
    pub(crate) no_text: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// Words, a question, or the name of a definition
    #[arg(required = true, value_name = "QUERY")]
    pub(crate) query: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// Report only files left out below this file or directory
    #[arg(default_value = ".")]
    pub(crate) path: OsString,
}

#[derive(Debug, Args)]
pub(crate) struct ChunkArgs {
    /// The session
    #[arg(long, value_name = "ID")]
    pub(crate) session: SessionId,
    /// Approximate number of lines of a piece [default: by the file's structure]
    #[arg(long, value_name = "N", value_parser = within(1..))]
    pub(crate) lines: Option<usize>,
    /// Share of a piece that the next one repeats, in percent, 50 at most
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = within(0..=50))]
    pub(crate) overlap: usize,
    /// Put each piece into a boundary that marks it as data, for the prompt of another model
    #[arg(long)]
    pub(crate) prompt: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
    #[command(flatten)]
    pub(crate) state: DataDir,
    /// A file below the workspace
    pub(crate) path: OsString,
}

//! Searches the files of a workspace for a pattern. Reports them in order of their names, and opens each as `read` does.
//! Follows no link, enters no mount, and skips files that may not be read.

mod threads;
mod walk;

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use globset::{GlobBuilder, GlobMatcher};
use ringfence_search::{Bounds, FileTypes, Found, Grep, Pattern, PatternStyle, Report};
use ringfence_spec::{Code, Problem};
use rustix::fs::FileType;

use super::path::GuestPath;
use super::{Workspace, problems};
use walk::{NAMES_MAX, Walk, Walked};

/// Maximum length of a glob: matching time grows with each of its characters, for every name.
const GLOB_BYTES_MAX: usize = 512;

/// Maximum alternatives of a glob, as in `{a,b}`.
const GLOB_CHOICES_MAX: usize = 32;

/// A search pattern and the files to search.
#[derive(Clone, Debug, Default)]
pub struct GrepQuery {
    /// Regular expressions or literals; a line matches if one of them does.
    pub patterns: Vec<String>,
    /// Interpretation of the patterns.
    pub style: PatternStyle,
    /// Result of the search.
    pub report: Report,
    /// Files to search, such as `*.py` or `src/**/*.rs`; all files if `None`.
    pub glob: Option<String>,
    /// Types of files to search, such as `py`; all files if there are none.
    pub types: Vec<String>,
    /// Skip files and directories whose names begin with a dot.
    pub skip_hidden: bool,
    /// Skip what a `.gitignore` names.
    pub skip_ignored: bool,
    /// Limits of the search.
    pub bounds: Bounds,
}

impl GrepQuery {
    /// The patterns as one line for the ledger.
    pub(crate) fn shown(&self) -> String {
        self.patterns.join(" | ")
    }
}

impl Workspace {
    /// Searches a file, or every file below a directory.
    pub fn grep(&self, path: impl AsRef<OsStr>, query: &GrepQuery) -> Result<Found, Problem> {
        self.grep_cancellable(path, query, Arc::default())
    }

    /// Searches until `stop` is set, which happens when the caller drops its request.
    pub(crate) fn grep_cancellable(
        &self,
        path: impl AsRef<OsStr>,
        query: &GrepQuery,
        stop: Arc<AtomicBool>,
    ) -> Result<Found, Problem> {
        let act = "search";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_read(act, &path)?;
        let pattern = Pattern::any_of(&query.patterns, query.style)?;
        let select = Selection {
            glob: query.glob.as_deref().map(glob).transpose()?,
            types: FileTypes::parse(&query.types)?,
            skip_hidden: query.skip_hidden,
            skip_ignored: query.skip_ignored,
        };
        let mut grep = Grep::unless(pattern, query.bounds, query.report, stop);
        let is_file = path.split().is_some()
            && self.find(act, &path)?.seen.file_type() != FileType::Directory;
        if is_file {
            let (file, _) = self.open_file(act, &path)?;
            grep.text(&path.to_string(), File::from(file));
            return Ok(grep.finish());
        }
        let walk = Walk::new(self, select, path.names(), grep.text_search())
            .map_err(|errno| self.explain(act, path.names(), errno))?;
        let owner = self.owner();
        let open = |dir: &_, name: &_| self.open_plain_in(dir, name, owner).map(File::from);
        let (found, walked) =
            threads::search(grep, query.bounds.matches_max, &open, |each| walk.run(each));
        if walked == Walked::TooMany {
            let why = format!("it holds more than {NAMES_MAX} names");
            return Err(problems::too_large(act, &path.to_string(), why)
                .hint("search a directory below it"));
        }
        Ok(found)
    }
}

/// Files that are searched.
struct Selection {
    glob: Option<GlobMatcher>,
    types: FileTypes,
    skip_hidden: bool,
    skip_ignored: bool,
}

/// A pattern without `/` matches names at any depth, as in a `.gitignore`.
fn glob(pattern: &str) -> Result<GlobMatcher, Problem> {
    let refused = |shown: &str, cause: &dyn std::fmt::Display, hint: &str| {
        let problem = Problem::usage(Code::PatternInvalid, format!("cannot search in `{shown}`"));
        Err(problem.cause(cause).hint(hint))
    };
    let n_bytes = pattern.len();
    let n_choices = pattern.matches(['{', ',']).count();
    if n_bytes > GLOB_BYTES_MAX || n_choices > GLOB_CHOICES_MAX {
        let shown: String = pattern.chars().take(40).chain(['…']).collect();
        let cause = format!(
            "it has {n_bytes} bytes and {n_choices} choices, of {GLOB_BYTES_MAX} and {GLOB_CHOICES_MAX} at most"
        );
        return refused(&shown, &cause, "search more than once");
    }
    let whole = if pattern.contains('/') {
        pattern.trim_start_matches('/').to_owned()
    } else {
        format!("**/{pattern}")
    };
    match GlobBuilder::new(&whole).literal_separator(true).build() {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => refused(pattern, &error, "such as `*.py`, or `src/**/*.rs`"),
    }
}

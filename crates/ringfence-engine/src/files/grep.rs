//! Searches the files of a workspace for a pattern, in order of their names, opening each as `read` does. Follows no
//! link, enters no mount, and skips files that may not be read.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use globset::{GlobBuilder, GlobMatcher};
use ringfence_search::{Bounds, Found, Grep, Pattern, PatternStyle};
use ringfence_spec::{Code, Problem};
use rustix::fs::{FileType, OFlags};

use super::path::{GuestPath, joined, shown};
use super::walk::{names_in, reading};
use super::{Workspace, problems};

/// Maximum depth of a search.
const DEPTH_MAX: usize = 64;

/// Maximum names read in one search.
const NAMES_MAX: usize = 200_000;

/// Maximum length of a glob: matching time grows with each of its characters, for every name.
const GLOB_BYTES_MAX: usize = 512;

/// Maximum alternatives of a glob, as in `{a,b}`.
const GLOB_CHOICES_MAX: usize = 32;

/// Directory skipped at every depth: git's own files.
const UNSEARCHED: &str = ".git";

/// A search pattern and the files to search.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    /// A regular expression or a literal.
    pub pattern: String,
    /// Interpretation of the pattern.
    pub style: PatternStyle,
    /// Files to search, such as `*.py` or `src/**/*.rs`; all files if `None`.
    pub glob: Option<String>,
    /// Limits of the search.
    pub bounds: Bounds,
}

impl Workspace {
    /// Searches a file, or every file below a directory.
    pub fn grep(&self, path: impl AsRef<OsStr>, query: &GrepQuery) -> Result<Found, Problem> {
        self.grep_unless(path, query, Arc::default())
    }

    /// Searches until `stop` is set, which happens when the caller drops its request.
    pub(crate) fn grep_unless(
        &self,
        path: impl AsRef<OsStr>,
        query: &GrepQuery,
        stop: Arc<AtomicBool>,
    ) -> Result<Found, Problem> {
        let act = "search";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_read(act, &path)?;
        let mut search = Search {
            workspace: self,
            glob: query.glob.as_deref().map(glob).transpose()?,
            grep: Grep::unless(Pattern::new(&query.pattern, query.style)?, query.bounds, stop),
            names: path.names().to_vec(),
            n_names_left: NAMES_MAX,
        };
        let is_file = path.split().is_some()
            && self.find(act, &path)?.seen.file_type() != FileType::Directory;
        if is_file {
            let (file, _) = self.open_file(act, &path)?;
            search.grep.text(&path.to_string(), File::from(file));
            return Ok(search.grep.finish());
        }
        let fail = |errno| self.explain(act, path.names(), errno);
        let dir = self.root.directory(path.names()).map_err(fail)?;
        let dir = reading(&self.root, &dir).map_err(fail)?;
        if !search.below(&dir, DEPTH_MAX) {
            let why = format!("it holds more than {NAMES_MAX} names");
            return Err(problems::too_large(act, &path.to_string(), why)
                .hint("search a directory below it"));
        }
        Ok(search.grep.finish())
    }
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

struct Search<'a> {
    workspace: &'a Workspace,
    glob: Option<GlobMatcher>,
    grep: Grep,
    names: Vec<OsString>,
    n_names_left: usize,
}

impl Search<'_> {
    /// Searches a directory. Returns false if the limit on names was exceeded.
    fn below(&mut self, dir: &OwnedFd, depth: usize) -> bool {
        let mut names = match names_in(dir, self.n_names_left) {
            Ok(Some(names)) => names,
            Ok(None) => return false,
            // Removed meanwhile, or unreadable.
            Err(_) => return true,
        };
        self.n_names_left -= names.len();
        names.sort_unstable();
        for name in names {
            if self.grep.is_over() {
                break;
            }
            self.names.push(name);
            let few = self.one(dir, depth);
            self.names.pop();
            if !few {
                return false;
            }
        }
        true
    }

    fn one(&mut self, dir: &OwnedFd, depth: usize) -> bool {
        let workspace = self.workspace;
        let Some(name) = self.names.last() else { return true };
        if workspace.rules.read_forbidden.matches(&self.names) {
            return true;
        }
        // A mount or an entry removed meanwhile fails here; a link falls through the match below. Neither is searched.
        let Ok(seen) = workspace.root.look(dir, name) else { return true };
        match seen.file_type() {
            FileType::Directory if name != UNSEARCHED && depth > 1 => {
                let opened = workspace.root.open_in(dir, name, OFlags::RDONLY | OFlags::DIRECTORY);
                opened.map_or(true, |below| self.below(&below, depth - 1))
            }
            FileType::RegularFile => {
                self.file();
                true
            }
            _ => true,
        }
    }

    fn file(&mut self) {
        let path = joined(&self.names);
        let path: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path.as_slice());
        if self.glob.as_ref().is_some_and(|glob| !glob.is_match(path)) {
            return;
        }
        let opened = GuestPath::parse("search", path)
            .and_then(|path| self.workspace.open_file("search", &path));
        if let Ok((file, _)) = opened {
            self.grep.text(&shown(&self.names), File::from(file));
        }
    }
}

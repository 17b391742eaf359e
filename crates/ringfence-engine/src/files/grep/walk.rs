//! Finds the files to search below a directory, in order of their names.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use ringfence_search::{
    IGNORE_FILE_BYTES_MAX, IGNORE_WALK_BYTES_MAX, IgnoreRules, TextSearch, is_hidden,
};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::super::Workspace;
use super::super::path::PATH_BYTES_MAX;
use super::super::walk::{entries_in, reading};
use super::Selection;
use super::threads::Batch;

/// Maximum depth of a search.
const DEPTH_MAX: usize = 64;

/// Maximum names read in one search.
pub(super) const NAMES_MAX: usize = 200_000;

/// Names between two checks of the clock, while there are no ignore files.
const NAMES_UNCHECKED: usize = 32;

/// Files that are searched by one thread in a row.
const BATCH_FILES: usize = 32;

/// Directory skipped at every depth: git's own files.
const UNSEARCHED: &str = ".git";

const IGNORE_FILE: &str = ".gitignore";

/// End of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked {
    All,
    /// The search needs no more files, or its time is over.
    Stopped,
    /// The limit on names was exceeded.
    TooMany,
}

pub(super) struct Walk<'a> {
    workspace: &'a Workspace,
    select: Selection,
    /// For its clock.
    search: TextSearch,
    top: OwnedFd,
    names: Vec<OsString>,
    /// The names as a path that ends with `/`, or nothing.
    path: Vec<u8>,
    /// Rules of the directories on the way down, with the length of the path of each.
    rules: Vec<(usize, IgnoreRules)>,
    ignore_bytes_left: u64,
    n_names_left: usize,
}

/// Takes the next files; breaks if there is no need for more.
type Each<'e> = &'e mut dyn FnMut(Batch) -> ControlFlow<()>;

impl<'a> Walk<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        select: Selection,
        names: &[OsString],
        search: TextSearch,
    ) -> Result<Self, Errno> {
        let root = &workspace.root;
        let mut walk = Walk {
            workspace,
            select,
            search,
            top: reading(root, &root.directory(names)?)?,
            names: Vec::new(),
            path: Vec::new(),
            rules: Vec::new(),
            ignore_bytes_left: IGNORE_WALK_BYTES_MAX,
            n_names_left: NAMES_MAX,
        };
        // The rules of the directories above hold below.
        for name in names {
            if walk.select.skip_ignored {
                let above = root.directory(&walk.names)?;
                walk.read_rules(&above);
            }
            walk.enter(name.clone());
        }
        Ok(walk)
    }

    pub(super) fn run(mut self, each: Each<'_>) -> Walked {
        let Ok(top) = reading(&self.workspace.root, &self.top) else { return Walked::All };
        match self.below(top, DEPTH_MAX, each) {
            ControlFlow::Continue(()) => Walked::All,
            ControlFlow::Break(walked) => walked,
        }
    }

    fn below(&mut self, dir: OwnedFd, depth: usize, each: Each<'_>) -> ControlFlow<Walked> {
        let mut entries = match entries_in(&dir, self.n_names_left) {
            Ok(Some(entries)) => entries,
            Ok(None) => return ControlFlow::Break(Walked::TooMany),
            // Removed meanwhile, or unreadable.
            Err(_) => return ControlFlow::Continue(()),
        };
        self.n_names_left -= entries.len();
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let n_rules = self.rules.len();
        if self.select.skip_ignored && entries.iter().any(|(name, _)| name == IGNORE_FILE) {
            self.read_rules(&dir);
        }
        let dir = Arc::new(dir);
        let mut files = Vec::new();
        for (n, (name, kind)) in entries.into_iter().enumerate() {
            // To match a name with hostile rules takes up to a thousand times as long.
            let is_checked = n % NAMES_UNCHECKED == 0 || !self.rules.is_empty();
            if is_checked && self.search.is_over() {
                return ControlFlow::Break(Walked::Stopped);
            }
            let kind = match kind {
                // Some file systems do not say.
                FileType::Unknown => match self.workspace.root.look(&*dir, &name) {
                    Ok(seen) => seen.file_type(),
                    Err(_) => continue,
                },
                kind => kind,
            };
            // A link is neither.
            if !matches!(kind, FileType::Directory | FileType::RegularFile) {
                continue;
            }
            let Some(name) = self.admits(name, kind) else { continue };
            if kind == FileType::RegularFile {
                files.push(name);
                if files.len() == BATCH_FILES {
                    self.pass_on(&dir, &mut files, each)?;
                }
            } else if depth > 1 {
                // Before what is below it.
                self.pass_on(&dir, &mut files, each)?;
                // A mount, a link or nothing by now.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let Ok(opened) = self.workspace.root.open_in(&*dir, &name, flags) else { continue };
                let len = self.path.len();
                self.enter(name);
                let flow = self.below(opened, depth - 1, each);
                self.names.pop();
                self.path.truncate(len);
                flow?;
            }
        }
        self.pass_on(&dir, &mut files, each)?;
        self.rules.truncate(n_rules);
        ControlFlow::Continue(())
    }

    fn enter(&mut self, name: OsString) {
        self.path.extend_from_slice(name.as_bytes());
        self.path.push(b'/');
        self.names.push(name);
    }

    fn pass_on(
        &self,
        dir: &Arc<OwnedFd>,
        files: &mut Vec<OsString>,
        each: Each<'_>,
    ) -> ControlFlow<Walked> {
        if files.is_empty() {
            return ControlFlow::Continue(());
        }
        let batch =
            Batch { dir: Arc::clone(dir), path: self.path.clone(), files: std::mem::take(files) };
        match each(batch) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(Walked::Stopped),
        }
    }

    /// Returns the name if the entry is searched.
    fn admits(&mut self, name: OsString, kind: FileType) -> Option<OsString> {
        let is_dir = kind == FileType::Directory;
        if is_dir && name == UNSEARCHED {
            return None;
        }
        let text = name.to_string_lossy();
        if self.select.skip_hidden && is_hidden(&text) {
            return None;
        }
        if !is_dir && !self.select.types.matches(&text) {
            return None;
        }
        drop(text);
        let len = self.path.len();
        self.path.extend_from_slice(name.as_bytes());
        // No tool can name what is deeper.
        let admitted = self.path.len() < PATH_BYTES_MAX
            && (is_dir || self.fits_glob())
            && !self.is_ignored(is_dir);
        self.path.truncate(len);
        if !admitted {
            return None;
        }
        if self.workspace.rules.read_forbidden.is_empty() {
            return Some(name);
        }
        self.names.push(name);
        // The directories above were checked on the way here.
        let forbidden = self.workspace.rules.read_forbidden.matches_last(&self.names);
        let name = self.names.pop();
        if forbidden { None } else { name }
    }

    fn fits_glob(&self) -> bool {
        let path = OsStr::from_bytes(&self.path);
        self.select.glob.as_ref().is_none_or(|glob| glob.is_match(path))
    }

    /// The deepest file with a rule decides.
    fn is_ignored(&self, is_dir: bool) -> bool {
        let decide = |(start, rules): &(usize, IgnoreRules)| {
            rules.decide(&String::from_utf8_lossy(&self.path[*start..]), is_dir)
        };
        self.rules.iter().rev().find_map(decide) == Some(true)
    }

    /// Reads the rules of a directory, if a tool may read them.
    fn read_rules(&mut self, dir: &OwnedFd) {
        let mut names = self.names.clone();
        names.push(IGNORE_FILE.into());
        let bytes_max = IGNORE_FILE_BYTES_MAX.min(self.ignore_bytes_left);
        if self.workspace.rules.read_forbidden.matches(&names) || bytes_max == 0 {
            return;
        }
        let owner = self.workspace.owner();
        let Some(file) = self.workspace.open_plain_in(dir, IGNORE_FILE.as_ref(), owner) else {
            return;
        };
        let mut bytes = Vec::new();
        let mut file = std::io::Read::take(std::fs::File::from(file), bytes_max);
        if std::io::Read::read_to_end(&mut file, &mut bytes).is_ok() {
            self.ignore_bytes_left -= bytes.len() as u64;
            let rules = IgnoreRules::parse(&String::from_utf8_lossy(&bytes));
            self.rules.push((self.path.len(), rules));
        }
    }
}

//! Lists a directory, sorted and within limits. Opens directories only, never a link or a mount.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use ringfence_spec::Problem;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::entry::Entry;
use super::path::{GuestPath, joined};
use super::walk::{names_in, reading};
use super::{Workspace, problems};
use crate::text::json_bytes;

/// Maximum entries returned, whatever the request asks for.
pub const LIST_ENTRIES_MAX: usize = 10_000;

/// Bytes of names, as JSON holds them, from which a listing ends.
const LIST_BYTES: usize = 8 << 20;

/// Maximum depth listed, whatever the request asks for.
pub const LIST_DEPTH_MAX: usize = 32;

/// Maximum names read in one listing. A larger directory is refused, since its first entries in order are unknown.
const NAMES_MAX: usize = 500_000;

/// Contents of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Entries sorted by name within each directory; a directory's contents follow it.
    pub entries: Vec<Entry>,
    /// True if entries were left out, by a limit or an unreadable directory.
    pub truncated: bool,
    /// True if a limit ended the listing, so that it can be continued after its last entry.
    pub more: bool,
}

impl Workspace {
    /// Lists `depth` levels below a directory; 1 lists only its own entries. Returns at most `entries_max` entries.
    pub fn list(
        &self,
        path: impl AsRef<OsStr>,
        depth: usize,
        entries_max: usize,
    ) -> Result<Listing, Problem> {
        self.list_from(path, depth, 0, entries_max)
    }

    /// Lists a directory without its first `n_skipped` entries, so that it can be read in pages.
    pub fn list_from(
        &self,
        path: impl AsRef<OsStr>,
        depth: usize,
        n_skipped: usize,
        entries_max: usize,
    ) -> Result<Listing, Problem> {
        let act = "list";
        let path = GuestPath::parse(act, path.as_ref())?;
        self.check_may_read(act, &path)?;
        let fail = |errno| self.explain(act, path.names(), errno);
        let dir = self.root.directory(path.names()).map_err(fail)?;
        let dir = reading(&self.root, &dir).map_err(fail)?;
        let mut lister = Lister {
            workspace: self,
            names: path.names().to_vec(),
            n_names_left: NAMES_MAX,
            n_to_skip: n_skipped,
            entries_max: entries_max.min(LIST_ENTRIES_MAX),
            n_bytes: 0,
            listing: Listing { entries: Vec::new(), truncated: false, more: false },
        };
        let depth = depth.clamp(1, LIST_DEPTH_MAX);
        match lister.list(&dir, depth) {
            Ok(()) => Ok(lister.listing),
            Err(Errno::OVERFLOW) => {
                let why = format!("it holds more than {NAMES_MAX} names");
                Err(problems::too_large(act, &path.to_string(), why))
            }
            Err(errno) => Err(fail(errno)),
        }
    }
}

struct Lister<'a> {
    workspace: &'a Workspace,
    names: Vec<OsString>,
    n_names_left: usize,
    n_to_skip: usize,
    entries_max: usize,
    n_bytes: usize,
    listing: Listing,
}

impl Lister<'_> {
    fn list(&mut self, dir: &OwnedFd, depth: usize) -> Result<(), Errno> {
        let mut names = names_in(dir, self.n_names_left)?.ok_or(Errno::OVERFLOW)?;
        self.n_names_left -= names.len();
        names.sort_unstable();
        for name in names {
            if self.listing.entries.len() >= self.entries_max || self.n_bytes >= LIST_BYTES {
                (self.listing.truncated, self.listing.more) = (true, true);
                return Ok(());
            }
            self.names.push(name);
            self.one(dir, depth);
            self.names.pop();
        }
        Ok(())
    }

    fn one(&mut self, dir: &OwnedFd, depth: usize) {
        let root = &self.workspace.root;
        let Some(name) = self.names.last().cloned() else { return };
        let name = name.as_os_str();
        let path = joined(&self.names);
        let seen = match root.look(dir, name) {
            Ok(seen) => seen,
            Err(Errno::XDEV) => return self.push(|| Entry::mount(&path)),
            // Removed since the directory was read.
            Err(_) => return,
        };
        self.push(|| Entry::seen(&path, &seen));
        if seen.file_type() != FileType::Directory || depth == 1 {
            return;
        }
        if self.workspace.rules.read_forbidden.matches(&self.names) {
            return;
        }
        let opened = root.open_in(dir, name, OFlags::RDONLY | OFlags::DIRECTORY);
        // A subdirectory that cannot be read, or has too many names, is listed without its contents.
        if opened.and_then(|below| self.list(&below, depth - 1)).is_err() {
            self.listing.truncated = true;
        }
    }

    fn push(&mut self, entry: impl FnOnce() -> Entry) {
        if self.n_to_skip > 0 {
            self.n_to_skip -= 1;
        } else {
            let entry = entry();
            let names = [Some(&entry.path), entry.path_base64.as_ref(), entry.link_target.as_ref()];
            self.n_bytes += names.into_iter().flatten().map(|name| json_bytes(name)).sum::<usize>();
            self.listing.entries.push(entry);
        }
    }
}

//! Walks everything below a directory by descriptor, at any depth, with a bounded number of descriptors open. Follows
//! no link, enters no mount, and reports if a limit stopped it.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, RawDir, Stat};
use rustix::io::Errno;

use super::handle::Root;

/// Maximum entries in one walk. A larger workspace is refused writes: it cannot be counted in reasonable time.
pub(super) const ENTRIES_MAX: usize = 1_000_000;

/// Maximum directories opened in one walk: a comb of deep branches costs its depth for each branch.
const OPENS_MAX: usize = 2_000_000;

/// Maximum directories held open at once; for those above, only the names are kept.
const HELD_MAX: usize = 64;

/// Maximum size of the names of one directory. A larger one is refused writes too.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Bytes of names per getdents64(2).
const LISTING_BYTES: usize = 32 << 10;

/// Result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walked<T> {
    /// Every entry was visited.
    All,
    /// Some entries were not visited: too many of them, or an unreadable directory.
    NotAll,
    /// The visitor stopped the walk.
    Stopped(T),
}

/// Treatment of a directory whose owner, the caller, took its own access away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Leave it as it is: the walk is [`Walked::NotAll`].
    Skip,
    /// Give the access back. Only in a session's own directory, never in a user's.
    OpenUp,
}

/// Visits everything below `top`. The visitor receives the names from `top` to the entry, and its metadata.
pub(super) fn walk<T>(
    root: &Root,
    top: &OwnedFd,
    closed: Closed,
    mut visit: impl FnMut(&[OsString], &Stat) -> ControlFlow<T>,
) -> Result<Walked<T>, Errno> {
    let mut names: Vec<OsString> = Vec::new();
    let mut levels: Vec<Level> = Vec::new();
    let (mut n_entries, mut n_opens, mut all) = (0, 0, true);
    let open = |dir: &OwnedFd, name: &OsStr| match closed {
        Closed::Skip => root.open_in(dir, name, OFlags::RDONLY | OFlags::DIRECTORY),
        Closed::OpenUp => root.open_up(dir, name),
    };
    let mut next = Some(open(top, OsStr::new("."))?);
    loop {
        if let Some(dir) = next.take() {
            let mut entries = names_in(&dir, ENTRIES_MAX - n_entries);
            if entries == Err(Errno::ACCESS) && closed == Closed::OpenUp {
                // It may be read but not searched (mode 400).
                ringfence_jail::give_owner_access(&dir)?;
                entries = names_in(&dir, ENTRIES_MAX - n_entries);
            }
            let Some(entries) = entries? else {
                return Ok(Walked::NotAll);
            };
            n_entries += entries.len();
            let mut pending = Vec::new();
            for name in entries {
                let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
                let stat = match rustix::fs::statat(&dir, &name, flags) {
                    Ok(stat) => stat,
                    // Removed since the directory was read.
                    Err(Errno::NOENT) => continue,
                    Err(_) => {
                        all = false;
                        continue;
                    }
                };
                let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                names.push(name);
                let flow = visit(&names, &stat);
                let name = names.pop().unwrap_or_default();
                if let ControlFlow::Break(found) = flow {
                    return Ok(Walked::Stopped(found));
                }
                if is_directory {
                    pending.push(name);
                }
            }
            levels.push(Level { dir: Some(dir), pending });
            if levels.len() > HELD_MAX {
                let at = levels.len() - 1 - HELD_MAX;
                levels[at].dir = None;
            }
        }
        let Some(level) = levels.last_mut() else { break };
        let Some(name) = level.pending.pop() else {
            levels.pop();
            names.pop();
            continue;
        };
        if level.dir.is_none() {
            n_opens += names.len();
            level.dir = reopen(root, top, &names);
        }
        n_opens += 1;
        if n_opens > OPENS_MAX {
            return Ok(Walked::NotAll);
        }
        let Some(dir) = &level.dir else {
            // Moved away during the walk.
            level.pending.clear();
            all = false;
            continue;
        };
        match open(dir, &name) {
            Ok(dir) => {
                names.push(name);
                next = Some(dir);
            }
            // Removed, replaced by another type, or a mount: not part of the walk.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {}
            Err(_) => all = false,
        }
    }
    Ok(if all { Walked::All } else { Walked::NotAll })
}

/// Returns the names in a directory, or `None` if there are more than `max`, or too long ones.
pub(super) fn names_in(dir: &OwnedFd, max: usize) -> Result<Option<Vec<OsString>>, Errno> {
    let (mut names, mut n_bytes) = (Vec::new(), 0);
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        n_bytes += name.len();
        if names.len() == max || n_bytes > NAMES_BYTES_MAX {
            return Ok(None);
        }
        names.push(OsStr::from_bytes(name).to_owned());
    }
    Ok(Some(names))
}

/// Returns the names and types in a directory that was opened to read, or `None` if there are more than `max`.
pub(super) fn entries_in(
    dir: &OwnedFd,
    max: usize,
) -> Result<Option<Vec<(OsString, FileType)>>, Errno> {
    let mut buffer = Vec::with_capacity(LISTING_BYTES);
    let mut listing = RawDir::new(dir, buffer.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if entries.len() == max {
            return Ok(None);
        }
        entries.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
    }
    Ok(Some(entries))
}

/// Reopens a directory so that its names can be read.
pub(super) fn reading(root: &Root, dir: &impl AsFd) -> Result<OwnedFd, Errno> {
    root.open_in(dir, OsStr::new("."), OFlags::RDONLY | OFlags::DIRECTORY)
}

struct Level {
    dir: Option<OwnedFd>,
    pending: Vec<OsString>,
}

/// Reopens a directory one name at a time: the joined path may exceed `PATH_MAX`.
fn reopen(root: &Root, top: &OwnedFd, names: &[OsString]) -> Option<OwnedFd> {
    let mut at = reading(root, top).ok()?;
    for name in names {
        at = root.open_in(&at, name, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    }
    Some(at)
}

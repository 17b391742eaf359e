//! Writes a file atomically: its name refers to the old content or the new, never to a part of either. The new content
//! is written under an unguessable name in the same directory, then renamed over the old file.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use ringfence_spec::Problem;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::handle::Seen;
use super::path::GuestPath;
use super::stream::{FileTag, Precondition, Spool};
use super::usage::disk_bytes;
use super::{Workspace, problems};
use ringfence_spec::hex;

/// Bytes per write(2).
const CHUNK_BYTES: usize = 1 << 20;

/// Options of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Handling of an existing file.
    pub mode: WriteMode,
    /// Durability of a completed write.
    pub durability: Durability,
    /// Handling of a missing parent directory.
    pub parents: Parents,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            mode: WriteMode::Replace,
            durability: Durability::SurvivesCrash,
            parents: Parents::MustExist,
        }
    }
}

/// Handling of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Fail with `exists` and leave the file unchanged.
    Create,
    /// Replace the file, keeping its permissions.
    Replace,
    /// Append to the file.
    Append,
}

/// Durability of a completed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file survives the end of any process.
    SurvivesCrash,
    /// The file survives power loss: file and directory are synced before the write returns.
    SurvivesPowerLoss,
}

/// Handling of a missing parent directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// Fail with `not_found`.
    MustExist,
    /// Create the directory and those above it.
    Create,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Size of the file.
    pub total_bytes: u64,
    /// SHA-256 of the whole file, in hexadecimal.
    pub sha256: String,
    /// True if the file is new.
    pub created: bool,
    /// Tag of the new file.
    pub tag: FileTag,
}

/// New content.
#[derive(Clone, Copy, Debug)]
enum NewContent<'a> {
    Bytes(&'a [u8]),
    Spooled(&'a Spool),
}

impl NewContent<'_> {
    fn n_bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Spooled(spool) => spool.n_bytes(),
        }
    }

    fn write_to(self, file: &OwnedFd, sha256: &mut Sha256) -> Result<(), Errno> {
        let mut part = |part: &[u8]| {
            sha256.update(part);
            write_all(file, part)
        };
        match self {
            Self::Bytes(bytes) => bytes.chunks(CHUNK_BYTES).try_for_each(part),
            Self::Spooled(spool) => spool.read(&mut part),
        }
    }
}

impl Workspace {
    /// Writes a file. A failed write changes nothing, except that parent directories may have been created.
    pub fn write(
        &self,
        path: impl AsRef<OsStr>,
        content: &[u8],
        options: WriteOptions,
    ) -> Result<WrittenFile, Problem> {
        self.write_if(path, content, options, &Precondition::Any)
    }

    /// Writes a file if its old state is as expected. Other operations on the workspace wait from the check on; a program in it
    /// does not.
    pub fn write_if(
        &self,
        path: impl AsRef<OsStr>,
        content: &[u8],
        options: WriteOptions,
        when: &Precondition,
    ) -> Result<WrittenFile, Problem> {
        self.write_content(path.as_ref(), NewContent::Bytes(content), options, when)
    }

    /// Writes a file whose content was received in parts, if its old state is as expected.
    pub fn write_spooled(
        &self,
        path: impl AsRef<OsStr>,
        content: &Spool,
        options: WriteOptions,
        when: &Precondition,
    ) -> Result<WrittenFile, Problem> {
        self.write_content(path.as_ref(), NewContent::Spooled(content), options, when)
    }

    fn write_content(
        &self,
        path: &OsStr,
        content: NewContent<'_>,
        options: WriteOptions,
        when: &Precondition,
    ) -> Result<WrittenFile, Problem> {
        let act = "write";
        let path = GuestPath::parse(act, path)?;
        self.check_may_change(act, &path)?;
        path.check_new(act)?;
        let shown = path.to_string();
        if path.split().is_none() || path.names_a_directory() {
            return Err(problems::not_a_file(act, &shown, "the name of a directory"));
        }
        self.check_size(act, &shown, content.n_bytes())?;
        let mut meter = self.changing();

        let mut to_sync = Vec::new();
        let (dir, name) = self.parent_of(act, &path, options.parents, &mut to_sync)?;
        let fail = |errno| self.explain(act, path.names(), errno);
        let old = match self.root.look(&dir, name) {
            Ok(seen) => Some(seen),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(fail(errno)),
        };
        when.check(act, &shown, old.as_ref().map(|seen| &seen.stat))?;
        let head = match (&old, options.mode) {
            (Some(_), WriteMode::Create) => return Err(problems::exists(act, &shown)),
            (Some(seen), WriteMode::Replace) => {
                self.check_plain(act, &path, seen)?;
                None
            }
            (Some(seen), WriteMode::Append) => {
                self.check_plain(act, &path, seen)?;
                self.check_may_read(act, &path)?;
                Some(self.open_file(act, &path)?)
            }
            (None, _) => None,
        };
        let head_bytes = head.as_ref().map_or(0, |(_, s)| u64::try_from(s.st_size).unwrap_or(0));
        let total_bytes = head_bytes.saturating_add(content.n_bytes());
        self.check_size(act, &shown, total_bytes)?;
        // A hard-linked file stays on disk under its other names.
        let only_name = |seen: &&Seen| seen.stat.st_nlink == 1;
        let freed = old.as_ref().filter(only_name).map_or(0, |seen| disk_bytes(&seen.stat));
        self.make_room(&mut meter, act, &shown, freed, total_bytes)?;

        let draft = Draft::new(&dir).map_err(fail)?;
        let mut sha256 = Sha256::new();
        if let Some((file, _)) = &head {
            copy(file, &draft.file, head_bytes, &mut sha256).map_err(fail)?;
        }
        content.write_to(&draft.file, &mut sha256).map_err(fail)?;
        self.give(&draft.file, old.as_ref()).map_err(fail)?;
        if options.durability == Durability::SurvivesPowerLoss {
            rustix::fs::fsync(&draft.file).map_err(fail)?;
            to_sync.push(dir.try_clone().map_err(|_| fail(Errno::MFILE))?);
        }
        let tag = draft.take_the_place_of(name, options.mode).map_err(fail)?;
        meter.changed(freed, total_bytes);
        if options.durability == Durability::SurvivesPowerLoss {
            for dir in to_sync {
                sync_directory(&dir).map_err(|errno| {
                    problems::refused_by_kernel(act, &shown, errno)
                        .hint("the file is written, but may not survive power loss")
                })?;
            }
        }
        let sha256 = hex(&sha256.finalize());
        Ok(WrittenFile { total_bytes, sha256, created: old.is_none(), tag })
    }

    /// Opens a new file's parent directory, creating it if missing and requested, and returns it with the file's name.
    pub(super) fn parent_of<'a>(
        &self,
        act: &str,
        path: &'a GuestPath,
        parents: Parents,
        made_in: &mut Vec<OwnedFd>,
    ) -> Result<(OwnedFd, &'a OsStr), Problem> {
        let (names, name) =
            path.split().ok_or_else(|| problems::invalid(act, b".", "it is the workspace"))?;
        let fail = |errno| self.explain(act, path.names(), errno);
        match self.root.directory(names) {
            Err(Errno::NOENT) if parents == Parents::Create => {}
            Err(Errno::NOENT) => {
                let shown = path.to_string();
                return Err(problems::refused_by_kernel(act, &shown, Errno::NOENT)
                    .cause("the directory it would be in does not exist"));
            }
            other => return other.map(|dir| (dir, name)).map_err(fail),
        }
        let mut at = self.root.directory(&[]).map_err(fail)?;
        for name in names {
            let next = self.root.open_in(&at, name, OFlags::PATH | OFlags::DIRECTORY);
            at = match next {
                Err(Errno::NOENT) => {
                    let next = self.make_directory(&at, name).map_err(fail)?;
                    made_in.push(at);
                    next
                }
                other => other.map_err(fail)?,
            };
        }
        Ok((at, name))
    }

    fn make_directory(&self, dir: &OwnedFd, name: &OsString) -> Result<OwnedFd, Errno> {
        match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => {
                let made = self.root.open_in(dir, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
                self.give(&made, None)?;
                Ok(made)
            }
            Err(Errno::EXIST) => self.root.open_in(dir, name, OFlags::PATH | OFlags::DIRECTORY),
            Err(errno) => Err(errno),
        }
    }

    /// Gives a new file or directory the workspace's owner, and the permissions of the file it replaces.
    fn give(&self, new: &OwnedFd, old: Option<&Seen>) -> Result<(), Errno> {
        let owner: Stat = self.root.stat()?;
        // Runs of a root caller use another user, which must be able to access the file.
        if rustix::process::geteuid().is_root() && owner.st_uid != 0 {
            let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
            rustix::fs::fchown(new, Some(uid), Some(gid))?;
        }
        if let Some(old) = old {
            // Without set-user-ID and the like: those were granted to the old content.
            rustix::fs::fchmod(new, Mode::from_raw_mode(old.stat.st_mode & 0o777))?;
        }
        Ok(())
    }

    fn check_size(&self, act: &str, shown: &str, bytes: u64) -> Result<(), Problem> {
        let max = self.rules.file_bytes_max;
        if bytes <= max {
            return Ok(());
        }
        let why = format!("it would have {bytes} bytes, and a file may have {max}");
        Err(problems::too_large(act, shown, why))
    }
}

/// A file without its final name yet. Removed on drop.
struct Draft<'a> {
    dir: &'a OwnedFd,
    name: Option<String>,
    file: OwnedFd,
}

impl<'a> Draft<'a> {
    fn new(dir: &'a OwnedFd) -> Result<Self, Errno> {
        let name = fresh_name()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, Mode::from_raw_mode(0o644))?;
        Ok(Self { dir, name: Some(name), file })
    }

    fn take_the_place_of(mut self, name: &OsStr, mode: WriteMode) -> Result<FileTag, Errno> {
        let draft = self.name.clone().ok_or(Errno::NOENT)?;
        if mode == WriteMode::Create {
            // Another process may have created it since the check.
            rename_new(self.dir, draft.as_ref(), self.dir, name)?;
        } else {
            rustix::fs::renameat(self.dir, &draft, self.dir, name)?;
        }
        self.name = None;
        // After the rename, which counts as a change.
        Ok(FileTag::of(&rustix::fs::fstat(&self.file)?))
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(self.dir, name, AtFlags::empty());
        }
    }
}

/// Prefix of drafts and of directories being deleted, before 32 random digits.
const DRAFT_PREFIX: &str = ".ringfence-draft-";

/// Returns true if a name has the form that [`fresh_name`] returns.
pub(super) fn is_draft(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(DRAFT_PREFIX));
    digits.is_some_and(|d| d.len() == 32 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns an unguessable name.
pub(super) fn fresh_name() -> Result<String, Errno> {
    let mut random = [0u8; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{DRAFT_PREFIX}{}", hex(&random)))
}

/// Renames only if the new name is free.
pub(super) fn rename_new(
    from_dir: &OwnedFd,
    from: &OsStr,
    to_dir: &OwnedFd,
    to: &OsStr,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        // File systems without `RENAME_NOREPLACE`.
        Err(Errno::INVAL | Errno::NOSYS) => {
            match rustix::fs::statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(from_dir, from, to_dir, to),
                Err(errno) => Err(errno),
            }
        }
        other => other,
    }
}

fn sync_directory(dir: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::fsync(rustix::fs::openat(dir, ".", flags, Mode::empty())?)
}

/// Copies exactly `bytes`: data appended meanwhile is left out, and a file that shrinks is an error, not a hole.
fn copy(from: &OwnedFd, to: &OwnedFd, bytes: u64, sha256: &mut Sha256) -> Result<(), Errno> {
    let mut chunk = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
    let mut left = bytes;
    while left > 0 {
        let ask = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match rustix::io::read(from, &mut chunk[..ask]) {
            Ok(0) => return Err(Errno::BUSY),
            Ok(n) => {
                sha256.update(&chunk[..n]);
                write_all(to, &chunk[..n])?;
                left -= n as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(super) fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

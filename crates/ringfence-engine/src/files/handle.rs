//! Resolves names to descriptors, starting at the workspace's own: follows no link, enters no mount, reaches nothing
//! above. The descriptor is the proof; a later change of the name does not matter.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use ringfence_jail::give_owner_access;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::path::joined;

/// Method of name lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// By `openat2`, falling back to manual lookup if the kernel or a seccomp filter refuses it.
    Kernel,
    /// One name at a time, as on kernels before 5.6.
    ByHand,
}

/// The workspace directory. Every lookup stays below it.
#[derive(Debug)]
pub(super) struct Root {
    dir: OwnedFd,
    lookup: Lookup,
    mount: MountId,
}

/// Identity of a descriptor's mount; the device if the kernel does not report a mount id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountId {
    Mount(u64),
    Device(u64),
}

/// A directory entry, by descriptor.
#[derive(Debug)]
pub(super) struct Seen {
    /// An `O_PATH` descriptor of the entry; for a link, of the link itself.
    pub(super) fd: OwnedFd,
    /// Its metadata.
    pub(super) stat: Stat,
}

impl Seen {
    pub(super) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

impl Root {
    pub(super) fn new(dir: OwnedFd, lookup: Lookup) -> Result<Self, Errno> {
        let mount = mount_of(&dir)?;
        Ok(Self { dir, lookup, mount })
    }

    /// Opens the directory at `names` with `O_PATH`.
    pub(super) fn directory(&self, names: &[OsString]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        if names.is_empty() {
            // Not by opening `.`, which a run may have made impossible (mode 400).
            return rustix::io::fcntl_dupfd_cloexec(&self.dir, 3);
        }
        if self.lookup == Lookup::Kernel {
            match by_kernel(&self.dir, OsStr::from_bytes(&joined(names)), flags) {
                Err(errno) if needs_hand(errno) => {}
                other => return other,
            }
        }
        let (first, rest) = (&names[0], &names[1..]);
        let mut at = self.by_hand(&self.dir, first, flags)?;
        for name in rest {
            at = self.by_hand(&at, name, flags)?;
        }
        Ok(at)
    }

    /// Opens an entry of a directory reached from here. Never blocks: a FIFO or a leased file returns at once.
    pub(super) fn open_in(
        &self,
        dir: impl AsFd,
        name: &OsStr,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        // Some kernels' openat2 rejects other flags besides `O_PATH`: with it, only these three have a meaning.
        let flags = if flags.contains(OFlags::PATH) {
            flags & (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)
        } else {
            flags
        };
        if self.lookup == Lookup::Kernel {
            match by_kernel(dir.as_fd(), name, flags) {
                Err(errno) if needs_hand(errno) => {}
                other => return other,
            }
        }
        self.by_hand(dir, name, flags)
    }

    /// Opens a directory to read it, even if its owner took its own access away (mode 000): gives it back first.
    pub(super) fn open_up(&self, dir: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.open_in(&dir, name, flags) {
            Err(Errno::ACCESS) => {
                // Nothing can be looked up in a directory that may not be searched, not even `.`.
                if name == "." {
                    give_owner_access(&dir)?;
                } else {
                    give_owner_access(self.look(&dir, name)?.fd)?;
                }
                self.open_in(&dir, name, flags)
            }
            other => other,
        }
    }

    /// Returns an entry's metadata without opening the file.
    pub(super) fn look(&self, dir: impl AsFd, name: &OsStr) -> Result<Seen, Errno> {
        let fd = self.open_in(dir, name, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Seen { fd, stat })
    }

    /// Returns the metadata of the workspace directory.
    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::fstat(&self.dir)
    }

    fn by_hand(&self, dir: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        if mount_of(&fd)? == self.mount { Ok(fd) } else { Err(Errno::XDEV) }
    }
}

fn by_kernel(dir: impl AsFd, path: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)
}

/// Old kernels return ENOSYS, old container filters EPERM. Neither is about the file, which is only inspected or read
/// here. openat2 returns EAGAIN for an undecided race or a lease; manual lookup tells them apart.
fn needs_hand(errno: Errno) -> bool {
    matches!(errno, Errno::NOSYS | Errno::PERM | Errno::AGAIN)
}

fn mount_of(fd: impl AsFd) -> Result<MountId, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    if let Ok(statx) = rustix::fs::statx(&fd, "", flags, StatxFlags::MNT_ID)
        && statx.stx_mask & StatxFlags::MNT_ID.bits() != 0
    {
        return Ok(MountId::Mount(statx.stx_mnt_id));
    }
    Ok(MountId::Device(rustix::fs::fstat(fd)?.st_dev))
}

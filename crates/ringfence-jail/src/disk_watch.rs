//! Growth of a writable directory: files that changed since the run began, and deleted ones that its processes hold.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_sys::untrusted::{
    list, open_absolute, open_beneath, open_directory_beneath, stat_at,
};
use ringfence_sys::{Budget, list_kernel_directory, read_kernel_file};
use rustix::fs::{AtFlags, FileType, StatxFlags};

use crate::file_time::StartTimes;
use crate::memory_watch::{SHARED_NAMES, for_each_mapping, has_ended};
use crate::proc::{if_there, is_zombie, tasks};

/// Time that one check walks through a workspace, which delays a deadline by at most as much.
const WALK_STEP: Duration = Duration::from_millis(50);

/// Maximum number of files in one directory, which is read in one go.
const DIRECTORY_FILES_MAX: usize = 300_000;

/// Maximum number of files read to confirm growth: with more, the run counts as over the limit.
const FILES_MAX: usize = 2_000_000;

/// Maximum size of the paths of directories that are still to be read; with more, the run counts as over the limit.
const PENDING_BYTES_MAX: usize = 32 << 20;

/// Maximum number of descriptors and mappings read in one search for deleted files: a fifth of a second's worth, which delays a
/// deadline by at most as much. A tree with more may hide files.
pub(crate) const DELETED_STEPS_MAX: usize = 200_000;

/// Steps that reading the fdinfo of a socket takes: three calls instead of one.
const SOCKET_STEPS: usize = 3;

/// A walk through a directory that the run keeps writing: by descriptor, without links, for a limited time per check.
pub(crate) struct DiskWalk {
    root: Option<OwnedFd>,
    pending: Vec<PathBuf>,
    pending_bytes: usize,
    total: u64,
    n_files: usize,
}

impl DiskWalk {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: open_absolute(root).ok(),
            pending: vec![PathBuf::from(".")],
            pending_bytes: 1,
            total: 0,
            n_files: 0,
        }
    }

    /// Continues for a while: `None` if there is more to do, else the bytes on disk of files that changed since the run
    /// began. Past `enough` the rest is not counted. A directory that cannot be read and may hold changed files counts
    /// as more than enough.
    pub(crate) fn step(&mut self, started: &StartTimes, enough: u64) -> Option<u64> {
        let until = Instant::now() + WALK_STEP;
        let Some(root) = &self.root else { return Some(u64::MAX) };
        while let Some(dir) = self.pending.pop() {
            self.pending_bytes -= dir.as_os_str().len();
            let Ok(opened) = open_directory_beneath(root, &dir) else {
                if open_beneath(root, &dir).map_or(true, |closed| may_hide(&closed, started)) {
                    return Some(u64::MAX);
                }
                continue;
            };
            let (mut total, mut below, mut n_here) = (0_u64, Vec::new(), 0_usize);
            let mut unseen = false;
            let listed = list(&opened, &Budget::unlimited(), |name, _| {
                self.n_files += 1;
                n_here += 1;
                let Some(stat) = stat_at(&opened, name) else {
                    unseen = true;
                    return ControlFlow::Continue(());
                };
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    let path = dir.join(name);
                    self.pending_bytes += path.as_os_str().len();
                    below.push(path);
                }
                if started.is_recent(&stat) {
                    total += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
                }
                let too_many =
                    n_here > DIRECTORY_FILES_MAX || self.pending_bytes > PENDING_BYTES_MAX;
                if self.total + total > enough || too_many {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            self.total += total;
            self.pending.append(&mut below);
            let too_many = self.n_files > FILES_MAX
                || n_here > DIRECTORY_FILES_MAX
                || self.pending_bytes > PENDING_BYTES_MAX;
            let hides = unseen && !is_searchable(&opened) && may_hide(&opened, started);
            if self.total > enough || too_many || hides || listed.is_err() {
                return Some(u64::MAX);
            }
            if Instant::now() >= until {
                return self.pending.is_empty().then_some(self.total);
            }
        }
        Some(self.total)
    }
}

/// Returns true if a run may have changed files in a directory that cannot be read. Searching it is enough to open a file
/// by its name; a run that may not search it must first change its permissions, and thereby its time stamp.
fn may_hide(dir: &OwnedFd, started: &StartTimes) -> bool {
    is_searchable(dir) || rustix::fs::fstat(dir).map_or(true, |stat| started.is_recent(&stat))
}

/// Returns true if names in an open directory can be looked up: that of the directory itself can then, too.
fn is_searchable(dir: &OwnedFd) -> bool {
    stat_at(dir, ".").is_some()
}

/// Device numbers by which `maps` names the files of a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MapDevices {
    /// That of stat(2), and that of the file system as a whole: subvolumes of btrfs have numbers of their own.
    Of([String; 2]),
    /// Not known, or the layers' own on overlayfs (before Linux 6.8).
    Any,
}

impl MapDevices {
    pub(crate) fn of(dir: &Path, dev: u64) -> Self {
        Self::by_mount(dir, dev).unwrap_or(Self::Any)
    }

    pub(crate) fn by_mount(dir: &Path, dev: u64) -> Option<Self> {
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW;
        let statx = rustix::fs::statx(rustix::fs::CWD, dir, flags, StatxFlags::MNT_ID).ok()?;
        (statx.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(())?;
        let id = statx.stx_mnt_id.to_string();
        let mounts = read_kernel_file("/proc/self/mountinfo").ok()?;
        Self::by_line(mounts.lines().find(|line| line.split(' ').next() == Some(&id))?, dev)
    }

    /// Reads a line of mountinfo, as in proc(5).
    pub(crate) fn by_line(line: &str, dev: u64) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        if file_system.starts_with("overlay ") {
            return Some(Self::Any);
        }
        let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
        let in_maps = |major: u32, minor: u32| format!("{major:02x}:{minor:02x}");
        Some(Self::Of([
            in_maps(rustix::fs::major(dev), rustix::fs::minor(dev)),
            in_maps(major.parse().ok()?, minor.parse().ok()?),
        ]))
    }

    /// Returns true if a deleted file with this device and name in `maps` may be one of the directory.
    fn may_have(&self, device: &str, name: &str) -> bool {
        // Memory, whatever the device: it is counted as such.
        let is_memory =
            name.starts_with("/memfd:") || SHARED_NAMES.iter().any(|n| name.contains(n));
        match self {
            Self::Of(devices) => devices.iter().any(|ours| ours == device),
            Self::Any => !is_memory,
        }
    }
}

/// Files on one device that processes hold and that have no name any more.
#[derive(Default)]
pub(crate) struct DeletedFiles {
    /// Their bytes on disk, as far as they can be seen.
    pub(crate) bytes: u64,
    /// There may be others: in a process that hides its descriptors, in messages on their way, only mapped, or past the bound
    /// of the search.
    pub(crate) may_be_hidden: bool,
    pub(crate) seen: HashSet<u64>,
    pub(crate) n_steps: usize,
}

impl DeletedFiles {
    /// Looks at these processes.
    pub(crate) fn of(processes: &[i32], dev: u64, mapped: &MapDevices) -> Self {
        let mut found = Self::default();
        for pid in processes {
            // A thread that has ended, and waits to be reaped, holds nothing.
            let Ok(tasks) = tasks(*pid) else {
                found.may_be_hidden = true;
                break;
            };
            let alive: Vec<i32> = tasks.into_iter().filter(|tid| !is_zombie(*tid)).collect();
            // Threads need not share their descriptors.
            let shares = |tid: &i32| {
                alive.first().is_some_and(|first| {
                    first != tid && ringfence_sys::have_descriptors_in_common(*first, *tid)
                })
            };
            for tid in alive.iter().filter(|tid| !shares(tid)) {
                found.add_open(*tid, dev);
            }
            if let Some(tid) = alive.first() {
                found.look_at_mappings(*tid, mapped);
            }
            if !found.steps(0) {
                break;
            }
        }
        found
    }

    /// Counts steps: false past the bound, where files may be hidden.
    fn steps(&mut self, n: usize) -> bool {
        self.n_steps += n;
        let goes_on = self.n_steps <= DELETED_STEPS_MAX;
        self.may_be_hidden |= !goes_on;
        goes_on
    }

    /// Adds the files that a thread has open and that were not seen before.
    fn add_open(&mut self, tid: i32, dev: u64) {
        if !self.steps(1) {
            return;
        }
        let fds = format!("/proc/{tid}/fd");
        let names = list_kernel_directory(&fds).unwrap_or_else(|error| {
            self.may_be_hidden |= !has_ended(&error);
            Vec::new()
        });
        for name in names {
            if !self.steps(1) {
                return;
            }
            // Through the magic link: the open file itself, whatever its name was.
            let Ok(stat) = rustix::fs::stat(Path::new(&fds).join(&name)) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let deleted = stat.st_nlink == 0 && stat.st_dev == dev;
            if kind == FileType::RegularFile && deleted && self.seen.insert(stat.st_ino) {
                self.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            }
            if kind == FileType::Socket && self.steps(SOCKET_STEPS) {
                let fdinfo = format!("/proc/{tid}/fdinfo/{}", name.to_string_lossy());
                self.may_be_hidden |= carries_descriptors(&fdinfo);
            }
        }
    }

    /// Notes if a process maps a deleted file that was not seen open, or hides its mappings.
    pub(crate) fn look_at_mappings(&mut self, pid: i32, devices: &MapDevices) {
        let read = for_each_mapping(pid, |line| {
            if !self.steps(1) {
                return ControlFlow::Break(());
            }
            if line.ends_with(" (deleted)") && self.is_unseen(line, devices) {
                self.may_be_hidden = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        self.may_be_hidden |= read.is_err_and(|error| !has_ended(&error));
    }

    pub(crate) fn is_unseen(&self, line: &str, devices: &MapDevices) -> bool {
        // Range, permissions, offset, device, inode, path.
        let mut fields = line.split_ascii_whitespace().skip(3);
        let (Some(device), Some(inode)) = (fields.next(), fields.next()) else { return false };
        let name = line.split_once(&format!(" {inode} ")).map_or("", |(_, name)| name.trim_start());
        devices.may_have(device, name)
            && !inode.parse::<u64>().is_ok_and(|inode| self.seen.contains(&inode))
    }
}

/// Returns true if descriptors wait in the socket with this fdinfo.
fn carries_descriptors(fdinfo: &str) -> bool {
    let Ok(text) = if_there(read_kernel_file(fdinfo)) else { return true };
    let text = text.unwrap_or_default();
    let n = text.lines().find_map(|line| line.strip_prefix("scm_fds:")).map(str::trim);
    n.is_some_and(|n| n != "0")
}

#[cfg(test)]
#[path = "disk_watch_tests.rs"]
mod tests;

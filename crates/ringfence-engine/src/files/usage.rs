//! Counts the disk use of a workspace by descriptor, and checks whether a write fits the quota. Counts the files of
//! runs as well as those written here. Changes nothing but the permissions of a session's own directories.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ringfence_spec::{Code, Problem};
use rustix::fs::{FileType, Stat};

use super::walk::{Closed, ENTRIES_MAX, Walked, walk};
use super::{Workspace, problems};

/// Minimum allocation of a file on most file systems; the exact one is unknown before the file is written.
const BLOCK_BYTES: u64 = 4096;

/// Share of a disk for which ext4 has one inode, unless told otherwise: mke2fs.conf(5), `inode_ratio`. A directory that may fill
/// a share of the disk with its bytes may fill no larger share of the inodes.
pub(crate) const BYTES_PER_INODE: u64 = 16 << 10;

/// A count stays valid for this many times as long as it took, so at most a twentieth of the time is spent counting.
const BELIEVED_TIMES: u32 = 20;

/// Minimum validity of a count.
const BELIEVED_AT_LEAST: Duration = Duration::from_millis(250);

/// Disk use of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Disk used, without holes in files; a hard-linked file counts once.
    pub bytes: u64,
    /// Number of files, directories and other entries.
    pub n_entries: u64,
    /// False if not everything could be counted: a million entries or more, or an unreadable directory.
    pub complete: bool,
}

impl Usage {
    /// Bytes to compare with a quota: empty files use up inodes, which other programs need too.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.bytes.max(self.n_entries.saturating_mul(BYTES_PER_INODE))
    }

    /// The same after a file that used `freed` bytes was replaced by one of `needed`. A file that used none is new.
    fn after(self, freed: u64, needed: u64) -> Self {
        let bytes = self.bytes.saturating_sub(freed).saturating_add(needed);
        let n_entries = self.n_entries + u64::from(freed == 0);
        Self { bytes, n_entries, ..self }
    }
}

/// The last count, updated by the writes since.
#[derive(Debug, Default)]
pub(super) struct Meter {
    counted: Option<Counted>,
}

#[derive(Debug)]
struct Counted {
    usage: Usage,
    at: Instant,
    took: Duration,
}

impl Meter {
    /// Records that a file using `freed` bytes was replaced by one of `total_bytes`.
    pub(super) fn changed(&mut self, freed: u64, total_bytes: u64) {
        if let Some(counted) = &mut self.counted {
            counted.usage = counted.usage.after(freed, blocks(total_bytes));
        }
    }

    /// Discards the count, so that the next write counts again.
    pub(super) fn forget(&mut self) {
        self.counted = None;
    }
}

impl Workspace {
    /// Counts the disk use of the workspace. Call it after a run, which may have written too.
    pub fn usage(&self) -> Result<Usage, Problem> {
        let mut meter = self.changing();
        self.count(&mut meter, Closed::Skip)
    }

    /// Does the same in a session's own directory: directories that a run closed to their owner are opened and counted.
    pub(crate) fn session_usage(&self) -> Result<Usage, Problem> {
        let mut meter = self.changing();
        self.count(&mut meter, Closed::OpenUp)
    }

    /// Refuses a write that would exceed the quota. A write that makes a file smaller is allowed even if the quota is
    /// exceeded already.
    pub(super) fn make_room(
        &self,
        meter: &mut Meter,
        act: &str,
        shown: &str,
        freed: u64,
        total_bytes: u64,
    ) -> Result<(), Problem> {
        let needed = blocks(total_bytes);
        let Some(quota) = self.rules.quota_bytes else { return Ok(()) };
        if needed < freed || (needed == freed && freed > 0) {
            return Ok(());
        }
        let after = |usage: Usage| usage.after(freed, needed).charged_bytes();
        let fresh = |c: &Counted| c.at.elapsed() < (c.took * BELIEVED_TIMES).max(BELIEVED_AT_LEAST);
        let fits = |usage: Usage| usage.complete && after(usage) <= quota;
        if meter.counted.as_ref().is_some_and(|c| fresh(c) && fits(c.usage)) {
            return Ok(());
        }
        // A refusing count may be out of date: a run may have deleted files since.
        let usage = self.count(meter, Closed::Skip)?;
        if fits(usage) {
            return Ok(());
        }
        if !usage.complete {
            return Err(Problem::refused(Code::QuotaUnknown, problems::cannot(act, shown))
                .cause(not_counted()));
        }
        let why = format!(
            "the workspace may use {quota} bytes of disk, at least {BYTES_PER_INODE} for each of its {} files and directories; it uses {}, and this needs {} more",
            usage.n_entries,
            usage.charged_bytes(),
            needed - freed
        );
        Err(Problem::refused(Code::QuotaExceeded, problems::cannot(act, shown))
            .cause(why)
            .hint("nothing was changed; delete what is no longer needed"))
    }

    fn count(&self, meter: &mut Meter, closed: Closed) -> Result<Usage, Problem> {
        let fail = |errno| problems::refused_by_kernel("count", ".", errno);
        let start = Instant::now();
        let top = self.root.directory(&[]).map_err(fail)?;
        let (mut bytes, mut n_entries) = (0u64, 0);
        let mut several_names = HashSet::new();
        let walked = walk(&self.root, &top, closed, |_, stat| {
            n_entries += 1;
            let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            // A directory's link count is its subdirectories, not other names.
            let shared = !directory && stat.st_nlink > 1;
            if !shared || several_names.insert((stat.st_dev, stat.st_ino)) {
                bytes = bytes.saturating_add(disk_bytes(stat));
            }
            ControlFlow::<()>::Continue(())
        });
        let complete = walked.map_err(fail)? == Walked::All;
        let usage = Usage { bytes, n_entries, complete };
        meter.counted = Some(Counted { usage, at: Instant::now(), took: start.elapsed() });
        Ok(usage)
    }
}

/// Reason that [`Usage::complete`] is false.
pub(crate) fn not_counted() -> String {
    format!(
        "how much the workspace uses cannot be counted: it has {ENTRIES_MAX} entries or more, or a directory that may not be read"
    )
}

/// Disk use of a file. `st_blocks` counts units of 512 bytes, whatever the file system's block size (stat(2)).
pub(super) fn disk_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

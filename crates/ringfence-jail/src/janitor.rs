//! A small process outside the jail that outlives a killed supervisor just long enough to clean up after it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use ringfence_plan::WritableDir;
use ringfence_sys::{Budget, CallError, Forked, Named};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;
use rustix::process::{Gid, Uid};

use crate::cgroup::Leaf;
use crate::locked_dir::{self, ABANDONED_AFTER};
use crate::open::file_id;
use crate::registry::Hold;

/// Time the janitor waits for the kernel to end a run whose supervisor died.
const RUN_DEATH_SECS_MAX: i64 = 30;

/// Time to remove a private directory. The next run's sweep goes on with the rest.
const REMOVE_MAX: Duration = Duration::from_secs(30);

/// Resources to release after the run, also if the supervisor dies. Dropping it releases them.
pub(crate) struct Cleanup {
    /// The cgroup leaf.
    pub(crate) leaf: Option<Leaf>,
    /// A private directory on the host.
    pub(crate) scratch: Option<Scratch>,
    /// Placeholders.
    pub(crate) hold: Hold,
}

/// The private directory of a run that has no root of its own. Dropping it removes it.
pub(crate) struct Scratch {
    dir: WritableDir,
    /// Held while the run lives.
    lock: OwnedFd,
}

/// The supervisor's handle. Dropping it dismisses the janitor.
pub(crate) struct Janitor {
    pid: i32,
    alive: OwnedFd,
}

impl Janitor {
    /// Starts a janitor if there is anything to clean up. `pidfd` becomes readable when the run's first process is
    /// dead.
    pub(crate) fn start(cleanup: &mut Cleanup, pidfd: &OwnedFd) -> Result<Option<Self>, CallError> {
        if cleanup.leaf.is_none() && cleanup.hold.is_empty() && cleanup.scratch.is_none() {
            return Ok(None);
        }
        let (read, alive) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).named(|| "pipe2")?;
        match ringfence_sys::fork()? {
            Forked::Parent { pid, .. } => Ok(Some(Self { pid, alive })),
            Forked::Child => {
                let work = std::panic::AssertUnwindSafe(|| wait_and_tidy(&read, cleanup, pidfd));
                let done = std::panic::catch_unwind(work);
                ringfence_sys::exit_now(i32::from(done.is_err()))
            }
        }
    }
}

impl Janitor {
    /// Its pid, to tell it from orphans of the run.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // A byte means that everything is cleaned up. If the write fails, the janitor cleans up again and finds
        // nothing.
        let _ = rustix::io::write(&self.alive, b"d");
        let _ = ringfence_sys::reap_pid(self.pid);
    }
}

fn wait_and_tidy(read: &OwnedFd, cleanup: &mut Cleanup, pidfd: &OwnedFd) {
    // Leave the caller's session: a Ctrl-C there is for the supervisor, and must not reach the janitor.
    let _ = rustix::process::setsid();
    for number in [1, 2, 3, 13, 15] {
        ringfence_sys::ignore(number);
    }
    // With the locks of the workspaces: until the run is dead, nothing else removes its placeholders.
    let mut keep = vec![read.as_raw_fd(), pidfd.as_raw_fd()];
    keep.extend(cleanup.hold.locks());
    // Close the supervisor's sockets and pipes: a copy held here would keep their peers waiting.
    if ringfence_sys::close_from_except(0, &mut keep).is_err() {
        return;
    }
    // Here, where it delays no start: the supervisor is waiting for the program.
    if let Some(leaf) = &cleanup.leaf {
        leaf.sweep_neighbours();
    }
    let mut byte = [0u8; 1];
    let said = rustix::io::retry_on_intr(|| rustix::io::read(read, &mut byte));
    if said == Ok(1) {
        return;
    }
    let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
    let patience = Timespec { tv_sec: RUN_DEATH_SECS_MAX, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut fds, Some(&patience));
    // Not the objects' own destructors: they would close descriptors that are closed already.
    cleanup.hold.release();
    for dir in cleanup.leaf.iter().flat_map(Leaf::dirs).rev() {
        crate::cgroup::remove(dir);
    }
    if let Some(scratch) = &cleanup.scratch {
        remove(&scratch.dir.path);
    }
}

impl Scratch {
    /// Makes the directory, for a run with `uid` and `gid`. Removes directories of dead runs beside it.
    pub(crate) fn new(dir: &Path, uid: u32, gid: u32) -> Result<Self, CallError> {
        if let Some(parent) = dir.parent() {
            sweep(parent, uid);
        }
        let lock = locked_dir::make(dir, |dir| std::fs::DirBuilder::new().mode(0o700).create(dir))?;
        let id = file_id(&lock).inspect_err(|_| remove(dir))?;
        // From here on it is removed if something fails.
        let made = Self { dir: WritableDir { path: dir.to_owned(), id }, lock };
        // By descriptor: another run may write the directory above, and put a link at the name.
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::fchown(&made.lock, Some(uid), Some(gid))
                .named(|| format!("fchown({dir:?})"))?;
        }
        Ok(made)
    }

    /// Where it is, and which one.
    pub(crate) fn dir(&self) -> &WritableDir {
        &self.dir
    }
}

/// Removes private directories of runs of `uid` that no process holds: a supervisor and its janitor may both be killed.
fn sweep(parent: &Path, uid: u32) {
    let own = rustix::process::geteuid().as_raw();
    #[expect(
        clippy::disallowed_methods,
        reason = "entries are opened without links, and removed by descriptor if they are locked"
    )]
    let entries = std::fs::read_dir(parent);
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|n| n.strip_prefix("ringfence-")).unwrap_or_default();
        if id.len() != 8 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            continue;
        }
        // Of the entry itself, not of a link's target.
        let Ok(meta) = entry.metadata() else { continue };
        let ours = meta.is_dir() && (meta.uid() == uid || meta.uid() == own);
        if !ours {
            continue;
        }
        if let Some(_lock) = locked_dir::lock_abandoned(&entry.path(), ABANDONED_AFTER) {
            remove(&entry.path());
        }
    }
}

fn remove(dir: &Path) {
    let _ = ringfence_sys::remove_tree(dir, &Budget::time(REMOVE_MAX));
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.dir.path);
    }
}

//! A cgroup leaf for one run: limits set before the first process, counters read after the last, removed with the run.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_plan::{CgroupFacts, CgroupPlan};
use ringfence_sys::{CallError, Named, list_kernel_directory, open_kernel_file, read_kernel_file};
use rustix::event::EventfdFlags;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::locked_dir::{self, ABANDONED_AFTER};

/// Prefix of every leaf's name, used by nothing else in the tree.
const PREFIX: &str = "ringfence-";

/// The cgroup, or cgroups, in which leaves can be made.
#[derive(Clone, Debug)]
pub(crate) enum Parent {
    /// One directory for all controllers.
    V2(PathBuf),
    /// One directory for each controller.
    V1 {
        /// Memory.
        memory: PathBuf,
        /// Pids.
        pids: PathBuf,
        /// CPU time.
        cpuacct: Option<PathBuf>,
    },
}

/// A leaf. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Leaf {
    version: Version,
    dirs: Vec<PathBuf>,
    locks: Vec<OwnedFd>,
    oom: Option<OwnedFd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Counters of a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// The highest memory use.
    pub(crate) memory_peak_bytes: Option<u64>,
    /// Number of times the kernel killed for memory.
    pub(crate) oom_kills: u64,
    /// Number of refused forks.
    pub(crate) forks_refused: u64,
}

/// Returns true if this host has the unified hierarchy of version 2.
pub(crate) fn is_v2() -> bool {
    rustix::fs::access("/sys/fs/cgroup/cgroup.controllers", rustix::fs::Access::EXISTS).is_ok()
}

/// Finds the cgroups in which this process may make leaves, or the reason it may not.
pub(crate) fn find_parent() -> Result<Parent, String> {
    let own = crate::survey::small_file("/proc/self/cgroup")
        .map_err(|e| format!("/proc/self/cgroup cannot be read: {e}"))?;
    let top = Path::new("/sys/fs/cgroup");
    let path_of = |controller: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let names = parts.next()?;
            names
                .split(',')
                .any(|n| n == controller)
                .then(|| parts.next().unwrap_or("/").to_owned())
        })
    };
    if is_v2() {
        let path = path_of("").unwrap_or_else(|| "/".to_owned());
        return find_v2(top, &path);
    }
    let dir = |controller: &str| {
        let path = path_of(controller)?;
        let dir = top.join(controller).join(path.trim_start_matches('/'));
        may_make_in(&dir).then_some(dir)
    };
    match (dir("memory"), dir("pids")) {
        (Some(memory), Some(pids)) => Ok(Parent::V1 { memory, pids, cpuacct: dir("cpuacct") }),
        _ if path_of("memory").is_none() => Err("no memory controller is mounted".to_owned()),
        _ => Err("this user may not make cgroups".to_owned()),
    }
}

/// Searches upwards: on v2 a group with processes cannot hand controllers to children, unless it is the root.
fn find_v2(top: &Path, path: &str) -> Result<Parent, String> {
    let own = top.join(path.trim_start_matches('/'));
    for dir in own.ancestors().take_while(|dir| dir.starts_with(top)) {
        if !may_make_in(dir)
            || rustix::fs::access(dir.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_err()
        {
            continue;
        }
        let has = |file: &str| {
            let text = read_kernel_file(dir.join(file)).unwrap_or_default();
            ["memory", "pids"].iter().all(|c| text.split_whitespace().any(|w| w == *c))
        };
        if has("cgroup.subtree_control") {
            return Ok(Parent::V2(dir.to_owned()));
        }
        if has("cgroup.controllers")
            && fs::write(dir.join("cgroup.subtree_control"), "+memory +pids").is_ok()
        {
            return Ok(Parent::V2(dir.to_owned()));
        }
    }
    Err("no cgroup above this process hands memory and pids down to us".to_owned())
}

fn may_make_in(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The same as facts for the plan.
pub(crate) fn facts(parent: &Result<Parent, String>) -> CgroupFacts {
    match parent {
        Ok(Parent::V2(_)) => CgroupFacts::V2,
        Ok(Parent::V1 { .. }) => CgroupFacts::V1,
        Err(why) => CgroupFacts::Missing(why.clone()),
    }
}

impl Leaf {
    /// Makes a leaf with its limits set. Removes leaves of dead runs beside it.
    pub(crate) fn new(parent: &Parent, plan: &CgroupPlan, name: &str) -> Result<Self, CallError> {
        let (version, parents): (_, Vec<&PathBuf>) = match parent {
            Parent::V2(dir) => (Version::V2, vec![dir]),
            Parent::V1 { memory, pids, cpuacct } => {
                let cpu = cpuacct.as_ref().filter(|_| plan.count_cpu);
                (Version::V1, [memory, pids].into_iter().chain(cpu).collect())
            }
        };
        for dir in &parents {
            sweep(dir, ABANDONED_AFTER);
        }
        let mut leaf = Self { version, dirs: Vec::new(), locks: Vec::new(), oom: None };
        for dir in parents {
            leaf.make(&dir.join(format!("{PREFIX}{name}")))?;
        }
        leaf.limit(plan)?;
        Ok(leaf)
    }

    fn make(&mut self, dir: &Path) -> Result<(), CallError> {
        let lock = locked_dir::make(dir, |dir| fs::create_dir(dir))?;
        self.dirs.push(dir.to_owned());
        self.locks.push(lock);
        Ok(())
    }

    fn limit(&mut self, plan: &CgroupPlan) -> Result<(), CallError> {
        let memory = self.dirs[0].clone();
        match self.version {
            Version::V2 => {
                if let Some(bytes) = plan.memory_bytes_max {
                    put(&memory, "memory.max", bytes)?;
                    // Swap would let a run hold twice its limit and drag the host down.
                    optional(put(&memory, "memory.swap.max", 0))?;
                    optional(put(&memory, "memory.oom.group", 1))?;
                }
                if let Some(pids) = plan.pids_max {
                    put(&memory, "pids.max", u64::from(pids))?;
                }
            }
            Version::V1 => {
                if let Some(bytes) = plan.memory_bytes_max {
                    put(&memory, "memory.limit_in_bytes", bytes)?;
                    optional(put(&memory, "memory.memsw.limit_in_bytes", bytes))?;
                    // TCP buffers have a counter of their own on v1, unlimited by default.
                    optional(put(&memory, "memory.kmem.tcp.limit_in_bytes", bytes))?;
                    self.oom = Some(oom_event(&memory)?);
                }
                if let Some(pids) = plan.pids_max {
                    put(&self.dirs[1], "pids.max", u64::from(pids))?;
                }
            }
        }
        Ok(())
    }

    /// The cgroup for clone3 to put a child in, on v2.
    pub(crate) fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        (self.version == Version::V2).then(|| self.locks.first().map(AsFd::as_fd)).flatten()
    }

    /// Files that a child writes `0` to, on v1. Opened here because the child may not be allowed to.
    pub(crate) fn tasks(&self) -> Result<Vec<OwnedFd>, CallError> {
        if self.version == Version::V2 {
            return Ok(Vec::new());
        }
        let open = |dir: &PathBuf| {
            let file = dir.join("tasks");
            rustix::fs::open(&file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                .named(|| format!("open({file:?})"))
        };
        self.dirs.iter().map(open).collect()
    }

    /// Becomes readable when the kernel killed one task for memory (v1: the others live on until they are killed here).
    pub(crate) fn oom_event(&self) -> Option<BorrowedFd<'_>> {
        self.oom.as_ref().map(AsFd::as_fd)
    }

    /// CPU time of the whole tree so far.
    pub(crate) fn cpu_micros(&self) -> Option<u64> {
        match self.version {
            Version::V2 => keyed(&self.dirs[0].join("cpu.stat"), "usage_usec"),
            Version::V1 => {
                let usage = self.dirs.get(2)?.join("cpuacct.usage");
                read_kernel_file(usage).ok()?.trim().parse::<u64>().ok().map(|ns| ns / 1000)
            }
        }
    }

    /// Reads the counters.
    pub(crate) fn counts(&self) -> Counts {
        let number = |dir: &Path, file: &str| {
            read_kernel_file(dir.join(file)).ok().and_then(|t| t.trim().parse().ok())
        };
        let memory = &self.dirs[0];
        match self.version {
            Version::V2 => Counts {
                memory_peak_bytes: number(memory, "memory.peak"),
                oom_kills: keyed(&memory.join("memory.events"), "oom_kill").unwrap_or(0),
                forks_refused: keyed(&memory.join("pids.events"), "max").unwrap_or(0),
            },
            Version::V1 => Counts {
                memory_peak_bytes: number(memory, "memory.max_usage_in_bytes"),
                oom_kills: keyed(&memory.join("memory.oom_control"), "oom_kill").unwrap_or(0),
                forks_refused: keyed(&self.dirs[1].join("pids.events"), "max").unwrap_or(0),
            },
        }
    }

    /// The directories to remove, for the janitor.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        for dir in self.dirs.drain(..).rev() {
            remove(&dir);
        }
    }
}

/// Removes a leaf whose processes are dead. The kernel may count the last of them for a moment longer.
pub(crate) fn remove(dir: &Path) {
    for pause_us in [0, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000] {
        std::thread::sleep(Duration::from_micros(pause_us));
        match fs::remove_dir(dir) {
            Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            _ => return,
        }
    }
}

/// Removes leaves that are unlocked and no longer young.
fn sweep(parent: &Path, older_than: Duration) {
    let names = list_kernel_directory(parent).unwrap_or_default();
    for name in names.iter().filter(|name| name.to_string_lossy().starts_with(PREFIX)) {
        let path = parent.join(name);
        if let Some(_lock) = locked_dir::lock_abandoned(&path, older_than) {
            let _ = fs::remove_dir(&path);
        }
    }
}

fn put(dir: &Path, file: &str, value: u64) -> Result<(), CallError> {
    let mut text = String::new();
    let _ = write!(text, "{value}");
    fs::write(dir.join(file), &text).named(|| format!("write({:?}, {value})", dir.join(file)))
}

/// A file that some kernels do not have: absent is fine, refused is not.
fn optional(result: Result<(), CallError>) -> Result<(), CallError> {
    match result {
        Err(e) if e.errno == Errno::NOENT => Ok(()),
        other => other,
    }
}

fn oom_event(memory: &Path) -> Result<OwnedFd, CallError> {
    use std::os::fd::AsRawFd;
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .named(|| "eventfd")?;
    let control =
        open_kernel_file(memory.join("memory.oom_control")).named(|| "open(memory.oom_control)")?;
    let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
    fs::write(memory.join("cgroup.event_control"), line).named(|| "write(cgroup.event_control)")?;
    Ok(event)
}

fn keyed(file: &Path, key: &str) -> Option<u64> {
    let text: io::Result<String> = read_kernel_file(file);
    text.ok()?.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// No limits, so that any directory can stand in for a cgroup: the tests are about making, locking and sweeping.
    const UNLIMITED: CgroupPlan =
        CgroupPlan { memory_bytes_max: None, pids_max: None, count_cpu: false };

    /// Makes leaves in one directory while other threads sweep it; returns the failures.
    fn make_while_sweeping(older_than: Duration) -> Vec<CallError> {
        let _limit = ringfence_testing::TimeLimit::new();
        let dir = tempfile::tempdir().unwrap();
        let parent = Parent::V2(dir.path().to_owned());
        let n_makers = AtomicU32::new(4);
        let make = &|thread: u32| {
            let made: Result<(), CallError> = (0..500).try_for_each(|n| {
                let leaf = Leaf::new(&parent, &UNLIMITED, &format!("{thread}-{n}"))?;
                fs::metadata(&leaf.dirs[0]).named(|| "stat of a leaf").map(|_| ())
            });
            n_makers.fetch_sub(1, Ordering::Relaxed);
            made
        };
        let failed = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while n_makers.load(Ordering::Relaxed) > 0 {
                        sweep(dir.path(), older_than);
                    }
                });
            }
            let makers: Vec<_> = (0..4).map(|thread| scope.spawn(move || make(thread))).collect();
            makers.into_iter().filter_map(|maker| maker.join().unwrap().err()).collect()
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        failed
    }

    #[test]
    fn leaves_made_while_others_sweep_are_all_made() {
        let failed = make_while_sweeping(ABANDONED_AFTER);
        assert!(failed.is_empty(), "{failed:?}");
    }

    /// Simulates makers that are suspended for long between making and locking.
    #[test]
    fn leaves_swept_before_they_are_locked_are_made_again() {
        let failed = make_while_sweeping(Duration::ZERO);
        assert!(failed.is_empty(), "{failed:?}");
    }
}

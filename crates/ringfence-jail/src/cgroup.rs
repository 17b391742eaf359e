//! A cgroup leaf for one run: limits set before the first process, counters read after the last, removed with the run.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ringfence_plan::{CgroupFacts, CgroupPlan};
use ringfence_sys::{CallError, Named, read_kernel_file};
use rustix::event::EventfdFlags;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::rand::GetRandomFlags;

use crate::locked_dir::{self, ABANDONED_AFTER};
use crate::proc::{if_there, start_ticks};

/// Prefix of every leaf's name, used by nothing else in the tree.
const PREFIX: &str = "ringfence-";

/// Bytes of names that one sweep of a directory reads, some hundred leaves: what it costs does not grow with their number.
const SWEPT_BYTES: usize = 16 << 10;

/// Number of short runs of which one sweeps: on a host where no run lasts long, leaves of killed supervisors go too.
const SWEEP_EVERY: u32 = 16;

/// Leaves that one sweep opens.
const SWEPT_LEAVES_MAX: usize = 64;

/// The cgroup, or cgroups, in which leaves can be made.
#[derive(Clone, Debug)]
pub(crate) enum Parent {
    /// One directory for all controllers.
    V2 {
        /// The directory.
        dir: PathBuf,
        /// True if memory and pids are switched on for its children. The first leaf switches them on.
        is_enabled: bool,
    },
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
    /// The directories, locked: files in them are opened by name alone.
    fds: Vec<OwnedFd>,
    /// True if the child is in it, on v1.
    is_joined: bool,
    limits: Option<CgroupPlan>,
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

/// The parent, once found: it does not change while a process lives, unless its cgroup is removed.
static FOUND: Mutex<Option<Result<Parent, String>>> = Mutex::new(None);

/// Returns true if this host has the unified hierarchy of version 2.
fn is_v2() -> bool {
    rustix::fs::access("/sys/fs/cgroup/cgroup.controllers", rustix::fs::Access::EXISTS).is_ok()
}

/// Finds the cgroups in which this process may make leaves, or the reason it may not. Searches once for a process and its
/// forks; changes nothing.
pub(crate) fn find_parent() -> Result<Parent, String> {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.get_or_insert_with(search_parent).clone()
}

/// Makes the next [`find_parent`] search again.
fn forget_parent() {
    *FOUND.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn search_parent() -> Result<Parent, String> {
    let own = read_kernel_file("/proc/self/cgroup")
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
        may_write(&dir).then_some(dir)
    };
    match (dir("memory"), dir("pids")) {
        (Some(memory), Some(pids)) => Ok(Parent::V1 { memory, pids, cpuacct: dir("cpuacct") }),
        _ if path_of("memory").is_none() => Err("no memory controller is mounted".to_owned()),
        _ => Err("this user may not make cgroups".to_owned()),
    }
}

/// Searches upwards: on v2 a group with processes cannot hand controllers to children, unless it is the root. A user's
/// delegated slice is found if this process runs below it.
fn find_v2(top: &Path, path: &str) -> Result<Parent, String> {
    let own = top.join(path.trim_start_matches('/'));
    for dir in own.ancestors().take_while(|dir| dir.starts_with(top)) {
        // A process moves between two groups only with write access to a group above both.
        if !may_write(dir) || !may_write(&dir.join("cgroup.procs")) {
            continue;
        }
        let text = |file: &str| read_kernel_file(dir.join(file)).unwrap_or_default();
        let has = |file: &str| {
            let text = text(file);
            CONTROLLERS.iter().all(|c| text.split_whitespace().any(|w| w == *c))
        };
        if has("cgroup.subtree_control") {
            return Ok(Parent::V2 { dir: dir.to_owned(), is_enabled: true });
        }
        let may_enable = has("cgroup.controllers")
            && may_write(&dir.join("cgroup.subtree_control"))
            && (dir == top || text("cgroup.procs").is_empty());
        if may_enable {
            return Ok(Parent::V2 { dir: dir.to_owned(), is_enabled: false });
        }
    }
    Err("no cgroup above this process hands memory and pids down to us".to_owned())
}

/// Controllers of version 2 that a leaf needs.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Switches the controllers on for the children of `dir`, for as long as it exists.
fn enable(dir: &Path) -> Result<(), CallError> {
    let file = dir.join("cgroup.subtree_control");
    let words = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
    fs::write(&file, &words).named(|| format!("write({file:?}, {words:?})"))?;
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Ok(Parent::V2 { is_enabled, .. })) = &mut *found {
        *is_enabled = true;
    }
    Ok(())
}

fn may_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

impl Parent {
    /// Without the controllers that these limits do not need.
    pub(crate) fn for_limits(self, plan: &CgroupPlan) -> Self {
        match self {
            Self::V1 { memory, pids, .. } if !plan.count_cpu => {
                Self::V1 { memory, pids, cpuacct: None }
            }
            parent => parent,
        }
    }
}

/// The same as facts for the plan.
pub(crate) fn facts(parent: &Result<Parent, String>) -> CgroupFacts {
    match parent {
        Ok(Parent::V2 { .. }) => CgroupFacts::V2,
        Ok(Parent::V1 { .. }) => CgroupFacts::V1,
        Err(why) => CgroupFacts::Missing(why.clone()),
    }
}

impl Leaf {
    /// Makes a leaf without limits. Its name says which process made it and when, for the sweep.
    pub(crate) fn new(parent: &Parent) -> Result<Self, CallError> {
        let (version, parents): (_, Vec<&PathBuf>) = match parent {
            Parent::V2 { dir, is_enabled } => {
                if !is_enabled {
                    enable(dir)?;
                }
                (Version::V2, vec![dir])
            }
            Parent::V1 { memory, pids, cpuacct } => {
                (Version::V1, [memory, pids].into_iter().chain(cpuacct).collect())
            }
        };
        let name = leaf_name();
        let mut leaf = Self {
            version,
            dirs: Vec::new(),
            fds: Vec::new(),
            is_joined: false,
            limits: None,
            oom: None,
        };
        for dir in parents {
            leaf.make(&dir.join(&name)).inspect_err(|_| forget_parent())?;
        }
        Ok(leaf)
    }

    fn make(&mut self, dir: &Path) -> Result<(), CallError> {
        let lock = locked_dir::make(dir, |dir| fs::create_dir(dir))?;
        self.dirs.push(dir.to_owned());
        self.fds.push(lock);
        Ok(())
    }

    /// Sets the limits: before the program may start.
    pub(crate) fn limit(&mut self, plan: &CgroupPlan) -> Result<(), CallError> {
        if self.limits == Some(*plan) {
            return Ok(());
        }
        let memory = &self.fds[0];
        match self.version {
            Version::V2 => {
                if let Some(bytes) = plan.memory_bytes_max {
                    put(memory, "memory.max", bytes)?;
                    // Swap would let a run hold twice its limit and drag the host down.
                    optional(put(memory, "memory.swap.max", 0))?;
                    optional(put(memory, "memory.oom.group", 1))?;
                }
                if let Some(pids) = plan.pids_max {
                    put(memory, "pids.max", u64::from(pids))?;
                }
            }
            Version::V1 => {
                if let Some(bytes) = plan.memory_bytes_max {
                    put(memory, "memory.limit_in_bytes", bytes)?;
                    optional(put(memory, "memory.memsw.limit_in_bytes", bytes))?;
                    // TCP buffers have a counter of their own on v1, unlimited by default.
                    optional(put(memory, "memory.kmem.tcp.limit_in_bytes", bytes))?;
                    self.oom = Some(oom_event(memory)?);
                }
                if let Some(pids) = plan.pids_max {
                    put(&self.fds[1], "pids.max", u64::from(pids))?;
                }
            }
        }
        self.limits = Some(*plan);
        Ok(())
    }

    /// The limits that are set.
    pub(crate) fn limits(&self) -> Option<CgroupPlan> {
        self.limits
    }

    /// The cgroup for clone3 to put a child in, on v2.
    pub(crate) fn clone_target(&self) -> Option<BorrowedFd<'_>> {
        (self.version == Version::V2).then(|| self.fds.first().map(AsFd::as_fd)).flatten()
    }

    /// Moves a process into it, on v1: takes milliseconds if no process was moved for a while.
    pub(crate) fn add_process(&mut self, pid: i32) -> Result<(), CallError> {
        for file in self.tasks()? {
            rustix::io::write(&file, pid.to_string().as_bytes())
                .named(|| format!("write(tasks, {pid})"))?;
        }
        self.is_joined = true;
        Ok(())
    }

    /// Files that a child writes `0` to, on v1. Opened here because the child may not be allowed to.
    pub(crate) fn tasks(&self) -> Result<Vec<OwnedFd>, CallError> {
        if self.version == Version::V2 || self.is_joined {
            return Ok(Vec::new());
        }
        self.fds.iter().map(|dir| open_in(dir, "tasks", OFlags::WRONLY)).collect()
    }

    /// Becomes readable when the kernel killed one task for memory (v1: the others live on until they are killed here).
    pub(crate) fn oom_event(&self) -> Option<BorrowedFd<'_>> {
        self.oom.as_ref().map(AsFd::as_fd)
    }

    /// CPU time of the whole tree so far, if it is counted here. An error if the counter cannot be read now.
    pub(crate) fn cpu_micros(&self) -> io::Result<Option<u64>> {
        let (dir, file) = match self.version {
            Version::V2 => (self.fds.first(), "cpu.stat"),
            Version::V1 => (self.fds.get(2), "cpuacct.usage"),
        };
        let Some(dir) = dir else { return Ok(None) };
        let Some(text) = if_there(text_in(dir, file))? else { return Ok(None) };
        Ok(match self.version {
            Version::V2 => keyed_in(&text, "usage_usec"),
            Version::V1 => number_in(&text).map(|ns| ns / 1000),
        })
    }

    /// Reads the counters.
    pub(crate) fn counts(&self) -> Counts {
        let memory = &self.fds[0];
        match self.version {
            Version::V2 => Counts {
                memory_peak_bytes: number(memory, "memory.peak"),
                oom_kills: keyed(memory, "memory.events", "oom_kill").unwrap_or(0),
                forks_refused: keyed(memory, "pids.events", "max").unwrap_or(0),
            },
            Version::V1 => Counts {
                memory_peak_bytes: number(memory, "memory.max_usage_in_bytes"),
                oom_kills: keyed(memory, "memory.oom_control", "oom_kill").unwrap_or(0),
                forks_refused: keyed(&self.fds[1], "pids.events", "max").unwrap_or(0),
            },
        }
    }

    /// Removes leaves of dead runs beside this one.
    pub(crate) fn sweep_neighbours(&self) {
        for parent in self.dirs.iter().filter_map(|dir| dir.parent()) {
            sweep(parent, ABANDONED_AFTER);
        }
    }

    /// The same in one run of [`SWEEP_EVERY`], for runs too short to have a janitor.
    pub(crate) fn sweep_neighbours_sometimes(&self) {
        if random().is_multiple_of(SWEEP_EVERY) {
            self.sweep_neighbours();
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

/// Removes a leaf whose processes are dead. The kernel may count the last of them for a moment longer; one that lives, which
/// only a run without a process namespace can have left, is killed (version 2).
pub(crate) fn remove(dir: &Path) {
    for pause_us in [0, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000] {
        std::thread::sleep(Duration::from_micros(pause_us));
        match fs::remove_dir(dir) {
            Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                let _ = fs::write(dir.join("cgroup.kill"), "1");
            }
            _ => return,
        }
    }
}

/// A name that no other leaf has: the process that makes it, the moment, and a random number, because processes of two pid
/// namespaces can have the same number.
fn leaf_name() -> String {
    let pid = rustix::process::getpid().as_raw_nonzero();
    format!("{PREFIX}{pid}-{}-{:08x}", ticks_since_boot(), random())
}

fn random() -> u32 {
    let mut random = [0u8; 4];
    let _ = rustix::rand::getrandom(&mut random, GetRandomFlags::NONBLOCK);
    u32::from_ne_bytes(random)
}

/// Time since the boot in the unit of `/proc/PID/stat`.
fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let nanos_per_tick = 1_000_000_000 / ticks_per_second.max(1);
    u64::try_from(now.tv_sec).unwrap_or(0) * ticks_per_second
        + u64::try_from(now.tv_nsec).unwrap_or(0) / nanos_per_tick.max(1)
}

/// The process and the moment in a leaf's name.
fn maker(name: &str) -> Option<(Pid, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = parts.next()?.parse().ok().and_then(Pid::from_raw)?;
    Some((pid, parts.next()?.parse().ok()?))
}

/// Returns true if a process was started after `moment`: it has only got the number of one that is gone.
fn is_younger(pid: Pid, moment: u64) -> bool {
    start_ticks(pid.as_raw_nonzero().get()).is_some_and(|started| started > moment)
}

/// Leaves whose makers are gone, from a random position on: of many leaves each sweep sees others.
fn abandoned(dir: &OwnedFd) -> Vec<String> {
    let random = random();
    // Names of a kernel's directory are ordered by a hash of 31 bits, which is their position.
    let from = u64::from(random >> 1);
    let mut names = Vec::new();
    for position in [from, 0] {
        let _ = rustix::fs::seek(dir, SeekFrom::Start(position));
        let mut buffer = Vec::with_capacity(SWEPT_BYTES);
        let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
        let mut n_bytes = 0;
        while n_bytes < SWEPT_BYTES
            && let Some(Ok(entry)) = entries.next()
        {
            let name = entry.file_name();
            n_bytes += name.count_bytes() + DIRENT_BYTES;
            names.extend(name.to_str().ok().filter(|n| n.starts_with(PREFIX)).map(str::to_owned));
        }
    }
    names.sort();
    names.dedup();
    // Whether a process lives is asked for each; when it started, which costs more, for one.
    let looked_at = usize::from(random.to_ne_bytes()[0]) % names.len().max(1);
    let is_gone = |(number, name): (usize, &String)| {
        let Some((pid, made)) = maker(name) else { return true };
        rustix::process::test_kill_process(pid) == Err(Errno::SRCH)
            || (number == looked_at && is_younger(pid, made))
    };
    let gone = names.iter().enumerate().filter(|named| is_gone(*named));
    gone.map(|(_, name)| name.clone()).take(SWEPT_LEAVES_MAX).collect()
}

/// Bytes of a directory entry beside its name: see getdents(2).
const DIRENT_BYTES: usize = 20;

/// Returns the time since a leaf was made, if its name says when. Its time stamp is that of the first look at it.
fn age(name: &str) -> Option<Duration> {
    let ticks = ticks_since_boot().checked_sub(maker(name)?.1)?;
    Some(Duration::from_secs(ticks / rustix::param::clock_ticks_per_second().max(1)))
}

/// Removes leaves of processes that are gone: by their names, so that a living neighbour's leaf is not opened. Bounded.
fn sweep(parent: &Path, older_than: Duration) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(parent, flags, Mode::empty()) else { return };
    for name in abandoned(&dir) {
        let is_old = age(&name).is_some_and(|age| age >= older_than);
        let older_than = if is_old { Duration::ZERO } else { older_than };
        // A maker that cannot be seen from here, as in a container, holds a lock.
        if let Some(_lock) = locked_dir::lock_abandoned(&parent.join(&name), older_than) {
            let _ = rustix::fs::unlinkat(&dir, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
}

fn open_in(dir: &OwnedFd, file: &str, flags: OFlags) -> Result<OwnedFd, CallError> {
    rustix::fs::openat(dir, file, flags | OFlags::CLOEXEC, Mode::empty())
        .named(|| format!("open({file})"))
}

fn put(dir: &OwnedFd, file: &str, value: u64) -> Result<(), CallError> {
    let opened = open_in(dir, file, OFlags::WRONLY)?;
    rustix::io::write(&opened, value.to_string().as_bytes())
        .map(|_| ())
        .named(|| format!("write({file}, {value})"))
}

/// A file that some kernels do not have: absent is fine, refused is not.
fn optional(result: Result<(), CallError>) -> Result<(), CallError> {
    match result {
        Err(e) if e.errno == Errno::NOENT => Ok(()),
        other => other,
    }
}

fn oom_event(memory: &OwnedFd) -> Result<OwnedFd, CallError> {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .named(|| "eventfd")?;
    let watched = open_in(memory, "memory.oom_control", OFlags::RDONLY)?;
    let control = open_in(memory, "cgroup.event_control", OFlags::WRONLY)?;
    let line = format!("{} {}", event.as_raw_fd(), watched.as_raw_fd());
    rustix::io::write(&control, line.as_bytes()).named(|| "write(cgroup.event_control)")?;
    Ok(event)
}

fn text_in(dir: &OwnedFd, file: &str) -> io::Result<String> {
    let opened = open_in(dir, file, OFlags::RDONLY).map_err(|error| error.errno)?;
    let mut text = String::new();
    fs::File::from(opened).read_to_string(&mut text)?;
    Ok(text)
}

fn number(dir: &OwnedFd, file: &str) -> Option<u64> {
    number_in(&text_in(dir, file).ok()?)
}

fn number_in(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn keyed(dir: &OwnedFd, file: &str, key: &str) -> Option<u64> {
    keyed_in(&text_in(dir, file).ok()?, key)
}

fn keyed_in(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A directory that stands in for a cgroup: the tests are about making, locking and sweeping.
    fn stand_in(dir: &Path) -> Parent {
        Parent::V2 { dir: dir.to_owned(), is_enabled: true }
    }

    #[test]
    fn leaves_made_while_others_sweep_are_all_made() {
        let _limit = ringfence_testing::TimeLimit::new();
        let dir = tempfile::tempdir().unwrap();
        let parent = stand_in(dir.path());
        let n_makers = AtomicU32::new(4);
        let make = &|| {
            let made: Result<(), CallError> = (0..500).try_for_each(|_| {
                let leaf = Leaf::new(&parent)?;
                fs::metadata(&leaf.dirs[0]).named(|| "stat of a leaf").map(|_| ())
            });
            n_makers.fetch_sub(1, Ordering::Relaxed);
            made
        };
        let failed: Vec<CallError> = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while n_makers.load(Ordering::Relaxed) > 0 {
                        sweep(dir.path(), Duration::ZERO);
                    }
                });
            }
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            makers.into_iter().filter_map(|maker| maker.join().unwrap().err()).collect()
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    fn sweeps_remove_leaves_of_dead_processes_and_keep_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let now = ticks_since_boot();
        // A process that lives; one with a number that was given again; one that no process has; other names.
        let kept = [format!("{PREFIX}{pid}-{now}-7"), "other-1-1-1".to_owned()];
        let gone = [
            format!("{PREFIX}{pid}-0-7"),
            format!("{PREFIX}{}-{now}-7", i32::MAX),
            format!("{PREFIX}0123456789abcdef"),
        ];
        for name in kept.iter().chain(&gone) {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let left = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<std::collections::BTreeSet<String>>()
        };
        // One sweep looks at the start of one process.
        for _ in 0..200 {
            sweep(dir.path(), Duration::ZERO);
        }
        assert_eq!(left(), kept.into_iter().collect());
    }

    /// The kernel stamps a cgroup when it is looked up, which a maker that was killed after mkdir(2) did not do.
    #[test]
    fn the_age_of_a_leaf_is_in_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let now = ticks_since_boot();
        let made = |ticks: u64| dir.path().join(format!("{PREFIX}{}-{ticks}-7", i32::MAX));
        for ticks in [0, now] {
            fs::create_dir(made(ticks)).unwrap();
        }
        sweep(dir.path(), Duration::from_secs(2));
        assert!(!made(0).exists() && made(now).exists());
    }
}

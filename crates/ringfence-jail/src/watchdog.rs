//! Watches limits that no kernel limit covers: memory of the tree without a cgroup, CPU of the tree, growth of a
//! workspace.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ringfence_plan::WritableDir;
use ringfence_spec::Limits;

use crate::cgroup::Leaf;
use crate::disk_watch::{DeletedFiles, DiskWalk, MapDevices};
use crate::file_time::StartTimes;
use crate::memory_watch::{Member, proportional_bytes, shared_bytes};
use crate::proc::{numbers, of_ticks, stat_of, tree};
use crate::subreaper::{Reaped, Subreaper};

/// Shortest interval between checks: the time a run can exceed a watched limit before it is stopped.
const INTERVAL: Duration = Duration::from_millis(25);

/// Interval between checks of a workspace that grows: the time it can exceed its limit before it is measured; documented.
const DISK_INTERVAL: Duration = Duration::from_millis(100);

/// Longest interval between checks. A workspace that does not grow is looked at less and less often, down to this:
/// a thousand runs that wait would else take a third of a processor.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes that the disk loses by other programs between two checks of a workspace that does not grow.
const OTHERS_BYTES: u64 = 1 << 20;

/// Interval between checks of CPU time and memory that could not measure them.
const UNMEASURED_INTERVAL: Duration = Duration::from_millis(100);

/// More memory than one processor can fill in a microsecond.
const FILL_BYTES: u64 = 8_000;

static PROCESSORS: LazyLock<u32> = LazyLock::new(|| {
    rustix::thread::sched_getaffinity(None).map_or(1, |processors| processors.count().max(1))
});

/// Checks in a row that cannot measure CPU time or memory, or find more disk used than the limit and files of the run that cannot
/// be seen: then the run counts as over the limit. Descriptors are on their way between two processes for a moment in ordinary
/// programs, too.
const HIDDEN_CHECKS_MAX: u32 = 5;

/// The watched limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    /// CPU time of the tree.
    Cpu,
    /// Memory of the tree.
    Memory,
    /// Bytes added to disk.
    Disk,
}

/// Processes of a run.
#[derive(Clone, Copy)]
pub(crate) enum RunTree<'a> {
    /// Those below PID 1 of its namespace: a process of Ringfence, which cannot be read and holds no file of the run.
    Init(i32),
    /// Those that this process is the subreaper of, besides the helpers that it started.
    Subreaper { subreaper: &'a Subreaper, helpers: &'a [i32] },
}

impl RunTree<'_> {
    fn processes(self) -> io::Result<Vec<i32>> {
        match self {
            Self::Init(pid) => tree(pid),
            Self::Subreaper { subreaper, helpers } => subreaper.processes(helpers),
        }
    }

    /// Those that may hold files of the run.
    fn holders(self) -> io::Result<Vec<i32>> {
        let mut processes = self.processes()?;
        if let Self::Init(init) = self {
            processes.retain(|pid| *pid != init);
        }
        Ok(processes)
    }
}

/// The watchdog of one run.
pub(crate) struct Watchdog {
    cpu_max: Option<Duration>,
    memory_max: Option<u64>,
    disk: Vec<DiskRoot>,
    started: StartTimes,
    disk_next: Instant,
    /// Interval until the check after that.
    disk_rest: Duration,
    /// Pause in which the run cannot exceed one of the other limits.
    rest: Duration,
    scratch: Option<OwnedFd>,
    cpu: CpuTime,
    /// Memory of the tree when it was over its limit.
    memory_found: Option<u64>,
    /// Checks in a row that could not measure CPU time or memory.
    n_unmeasured: u32,
    /// Error of the last of them, if the run counted as over the limit.
    unmeasured: Option<String>,
}

/// Result of a check of CPU time and memory.
enum Use {
    /// Over this limit.
    Over(ExceededLimit),
    /// Below the limits, and not above them before this pause is over.
    Below(Duration),
}

/// Limit whose use could not be measured.
struct Unmeasured {
    limit: ExceededLimit,
    error: io::Error,
}

impl Unmeasured {
    fn of(limit: ExceededLimit) -> impl Fn(io::Error) -> Self {
        move |error| Self { limit, error }
    }
}

struct DiskRoot {
    path: PathBuf,
    dev: u64,
    bytes_max: u64,
    /// The limit that more than that exceeds.
    limit: ExceededLimit,
    free_before: u64,
    /// Free bytes at the last check.
    free_last: u64,
    /// An unfinished walk through it, continued at the next check.
    walk: Option<DiskWalk>,
    /// Checks in a row that could not see all deleted files.
    n_hidden: u32,
}

impl Watchdog {
    /// A watchdog for a run that writes to these directories, and to a `private` one that is on the host. Memory is watched
    /// only if no cgroup limits it.
    pub(crate) fn new(
        limits: &Limits,
        roots: &[WritableDir],
        private: Option<&WritableDir>,
        started: StartTimes,
        cgroup: bool,
    ) -> Self {
        let memory_max = limits.memory.filter(|_| !cgroup).map(ringfence_spec::ByteSize::bytes);
        let disk_max = limits.disk.map(ringfence_spec::ByteSize::bytes);
        let by_disk = |dir| DiskRoot::new(dir, disk_max?, ExceededLimit::Disk);
        let in_memory = private.filter(|dir| is_in_memory(&dir.path));
        let by_memory = |dir| DiskRoot::new(dir, memory_max?, ExceededLimit::Memory);
        Self {
            cpu_max: limits.cpu.map(ringfence_spec::Span::duration),
            memory_max,
            disk: roots
                .iter()
                .chain(private)
                .filter_map(by_disk)
                .chain(in_memory.into_iter().filter_map(by_memory))
                .collect(),
            started,
            disk_next: Instant::now() + DISK_INTERVAL,
            disk_rest: DISK_INTERVAL,
            rest: INTERVAL,
            scratch: None,
            cpu: CpuTime::default(),
            memory_found: None,
            n_unmeasured: 0,
            unmeasured: None,
        }
    }

    /// Memory of the tree when it exceeded its limit.
    pub(crate) fn memory_found(&self) -> Option<u64> {
        self.memory_found
    }

    /// Returns the error because of which a limit could not be measured, if the run counted as over it.
    pub(crate) fn take_unmeasured(&mut self) -> Option<String> {
        self.unmeasured.take()
    }

    /// Sets the run's own memory filesystem, whose pages count as its memory.
    pub(crate) fn set_scratch(&mut self, root: OwnedFd) {
        self.scratch = Some(root);
    }

    /// Releases it.
    pub(crate) fn take_scratch(&mut self) -> Option<OwnedFd> {
        self.scratch.take()
    }

    /// Time until the next check, if there is anything to watch.
    pub(crate) fn interval(&self) -> Option<Duration> {
        if self.cpu_max.is_some() || self.memory_max.is_some() {
            return Some(self.rest);
        }
        self.watches_disk().then_some(self.disk_rest)
    }

    fn watches_disk(&self) -> bool {
        !self.disk.is_empty()
    }

    /// Counts the CPU time of a process that was reaped by this one.
    pub(crate) fn add_reaped(&mut self, reaped: &Reaped) {
        self.cpu.reaped += reaped.cpu;
    }

    /// Checks once.
    pub(crate) fn look(&mut self, leaf: Option<&Leaf>, run: RunTree<'_>) -> Option<ExceededLimit> {
        let mut rest = match self.look_at_use(leaf, run) {
            Ok(Use::Over(limit)) => return Some(limit),
            Ok(Use::Below(rest)) => {
                self.n_unmeasured = 0;
                rest
            }
            Err(Unmeasured { limit, error }) => {
                self.n_unmeasured += 1;
                if self.n_unmeasured >= HIDDEN_CHECKS_MAX {
                    let named = error.raw_os_error().map(ringfence_sys::errno_name);
                    self.unmeasured = Some(named.unwrap_or_else(|| error.to_string()));
                    return Some(limit);
                }
                UNMEASURED_INTERVAL
            }
        };
        let exceeded = self.look_at_disk(run);
        if self.watches_disk() {
            rest = rest.min(self.disk_rest);
        }
        self.rest = rest.max(INTERVAL);
        exceeded
    }

    /// Checks CPU time and memory.
    fn look_at_use(&mut self, leaf: Option<&Leaf>, run: RunTree<'_>) -> Result<Use, Unmeasured> {
        let (cpu, memory) =
            (Unmeasured::of(ExceededLimit::Cpu), Unmeasured::of(ExceededLimit::Memory));
        // A thousand runs that wait are looked at twice a second: only what a limit needs is read.
        let leaf = leaf.filter(|_| self.cpu_max.is_some());
        let counted_by_leaf = leaf.map(Leaf::cpu_micros).transpose().map_err(&cpu)?.flatten();
        let counted_by_leaf = counted_by_leaf.map(Duration::from_micros);
        let by_tree = self.cpu_max.is_some() && counted_by_leaf.is_none();
        let tree = match (by_tree, self.memory_max) {
            (true, _) => run.processes().map_err(&cpu)?,
            (false, Some(_)) => run.processes().map_err(&memory)?,
            (false, None) => Vec::new(),
        };
        let mut rest = IDLE_INTERVAL;
        if let Some(max) = self.cpu_max {
            let used = match counted_by_leaf {
                Some(used) => used,
                None => self.cpu.look(&tree).map_err(&cpu)?,
            };
            if used > max {
                return Ok(Use::Over(ExceededLimit::Cpu));
            }
            rest = rest.min(max.saturating_sub(used) / *PROCESSORS);
        }
        if let Some(max) = self.memory_max {
            let members = tree.iter().filter_map(|pid| Member::of(*pid).transpose());
            let members = members.collect::<io::Result<Vec<Member>>>().map_err(&memory)?;
            let mapped: u64 = members.iter().map(|member| member.mapped).sum();
            let anonymous: u64 = members.iter().map(|member| member.anonymous).sum();
            // A tree that hides more than the limit has more than the limit mapped: all others are spared the slow
            // check.
            let (mut hidden, mut swapped) = (0_u64, 0_u64);
            if mapped > max {
                hidden = shared_bytes(&members);
                for member in &members {
                    let (tables, on_disk) = member.tables_and_swapped().map_err(&memory)?;
                    hidden = hidden.saturating_add(tables);
                    swapped = swapped.saturating_add(on_disk);
                }
            }
            let anonymous = anonymous.saturating_add(swapped);
            let scratch = self.scratch.as_ref();
            let scratch = scratch.map_or(0, |root| ringfence_sys::used_bytes(root).unwrap_or(0));
            let besides = scratch.saturating_add(hidden);
            // Pages shared by a fork count once for each process in the quick sum; the slow one divides them.
            if besides.saturating_add(anonymous) > max {
                let bytes = besides.saturating_add(proportional_bytes(&members));
                if bytes > max {
                    // Too much to be measured is over any limit, but is not a figure to report.
                    self.memory_found = Some(bytes).filter(|bytes| *bytes < u64::MAX);
                    return Ok(Use::Over(ExceededLimit::Memory));
                }
            }
            let left = max.saturating_sub(besides.saturating_add(anonymous));
            let filled_us = left / (FILL_BYTES * u64::from(*PROCESSORS));
            rest = rest.min(Duration::from_micros(filled_us));
        }
        Ok(Use::Below(rest))
    }

    /// Checks the growth of the writable directories, if it is time.
    fn look_at_disk(&mut self, run: RunTree<'_>) -> Option<ExceededLimit> {
        if self.watches_disk() && Instant::now() >= self.disk_next {
            let mut has_grown = false;
            for root in &mut self.disk {
                let max = root.bytes_max;
                let free = free_bytes(&root.path).unwrap_or(root.free_before);
                has_grown |= root.free_last.saturating_sub(free) > OTHERS_BYTES;
                root.free_last = free;
                // Other processes write to the same disk: only changes in this directory since the run began count.
                if root.free_before.saturating_sub(free) <= max {
                    (root.walk, root.n_hidden) = (None, 0);
                    continue;
                }
                has_grown = true;
                let walk = root.walk.get_or_insert_with(|| DiskWalk::new(&root.path));
                let Some(changed) = walk.step(&self.started, max) else { continue };
                root.walk = None;
                if changed > max {
                    return Some(root.limit);
                }
                let devices = MapDevices::of(&root.path, root.dev);
                let deleted = match run.holders() {
                    Ok(holders) => DeletedFiles::of(&holders, root.dev, &devices),
                    Err(_) => DeletedFiles { may_be_hidden: true, ..DeletedFiles::default() },
                };
                root.n_hidden = if deleted.may_be_hidden { root.n_hidden + 1 } else { 0 };
                let is_hidden = root.n_hidden >= HIDDEN_CHECKS_MAX;
                if is_hidden || changed.saturating_add(deleted.bytes) > max {
                    return Some(root.limit);
                }
            }
            let longer = (2 * self.disk_rest).min(IDLE_INTERVAL);
            self.disk_rest = if has_grown { DISK_INTERVAL } else { longer };
            self.disk_next = Instant::now() + self.disk_rest;
        }
        None
    }
}

impl DiskRoot {
    fn new(dir: &WritableDir, bytes_max: u64, limit: ExceededLimit) -> Option<Self> {
        let free_before = free_bytes(&dir.path)?;
        Some(Self {
            path: dir.path.clone(),
            dev: dir.id.dev,
            bytes_max,
            limit,
            free_before,
            free_last: free_before,
            walk: None,
            n_hidden: 0,
        })
    }
}

/// CPU time of a tree. The kernel adds a child's time to its parent's when the parent waits for it, and drops it if the
/// parent ignores SIGCHLD: such processes are remembered with their last time seen.
#[derive(Default)]
struct CpuTime {
    /// Ticks of each process by pid and start time, and the number of the check that last saw it.
    seen: HashMap<(i32, u64), (u64, u64)>,
    /// Ticks of processes that are gone for good.
    gone: u64,
    /// Time of processes that this one waited for, and of those they had waited for: the kernel's figure, never counted twice.
    reaped: Duration,
    n_looks: u64,
}

impl CpuTime {
    /// Checks after which a process not seen again is gone, and not just missed while the tree changed.
    const PATIENCE: u64 = 8;

    fn look(&mut self, tree: &[i32]) -> io::Result<Duration> {
        // A check that fails is none: processes that it did not come to are not missed.
        let n_looks = self.n_looks + 1;
        let mut waited_for = 0;
        for pid in tree {
            let stat = stat_of(*pid)?;
            let Some((times, began)) =
                stat.and_then(|stat| Some((numbers::<4>(&stat, 11)?, numbers::<1>(&stat, 19)?[0])))
            else {
                continue;
            };
            let [user, system, ..] = times;
            waited_for += times.iter().sum::<u64>();
            if user + system > 0 {
                self.seen.insert((*pid, began), (user + system, n_looks));
            }
        }
        self.n_looks = n_looks;
        let gone = &mut self.gone;
        self.seen.retain(|_, (ticks, seen_at)| {
            let stays = n_looks - *seen_at < Self::PATIENCE;
            *gone += if stays { 0 } else { *ticks };
            stays
        });
        let each: u64 = self.seen.values().map(|(ticks, _)| ticks).sum();
        // What was reaped is in the second figure too, as far as it was seen.
        Ok((of_ticks(waited_for) + self.reaped).max(of_ticks(each + self.gone)))
    }
}

fn is_in_memory(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| stat.f_type == ringfence_sys::TMPFS_MAGIC)
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bfree * stat.f_frsize)
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;

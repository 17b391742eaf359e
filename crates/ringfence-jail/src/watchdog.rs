//! Watches limits that no kernel limit covers: memory of the tree without a cgroup, CPU of the tree, growth of a
//! workspace.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Read};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ringfence_plan::WritableDir;
use ringfence_spec::Limits;
use ringfence_sys::untrusted::{
    list, open_absolute, open_beneath, open_directory_beneath, stat_at,
};
use ringfence_sys::{Budget, list_kernel_directory, open_kernel_file, read_kernel_file};
use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use crate::cgroup::Leaf;
use crate::file_time::StartTimes;
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

/// More memory than one processor can fill in a microsecond.
const FILL_BYTES: u64 = 8_000;

static PROCESSORS: LazyLock<u32> = LazyLock::new(|| {
    rustix::thread::sched_getaffinity(None).map_or(1, |processors| processors.count().max(1))
});

/// Names of shared memory without a file in `maps`, with and without a name given by a program.
const SHARED_NAMES: &[&str] = &["/dev/zero (deleted)", "[anon_shmem:", "/SYSV"];

/// Maximum number of mappings read in one check: half a second's worth, and more than an honest tree has.
const MAPPINGS_MAX: usize = 500_000;

/// Maximum number of earlier processes compared with one that may share its memory.
const RELATIVES_MAX: usize = 64;

/// Maximum growth of one memory between two reads of its size.
const SIZE_DRIFT: u64 = 64 << 20;

/// Time that one check walks through a workspace, which delays a deadline by at most as much.
const WALK_STEP: Duration = Duration::from_millis(50);

/// Maximum number of files in one directory, which is read in one go.
const DIRECTORY_FILES_MAX: usize = 300_000;

/// Maximum number of files read to confirm growth: with more, the run counts as over the limit.
const FILES_MAX: usize = 2_000_000;

/// Maximum size of the paths of directories that are still to be read; with more, the run counts as over the limit.
const PENDING_BYTES_MAX: usize = 32 << 20;

/// Checks in a row that find more disk used than the limit and files of the run that cannot be seen: then the run counts as
/// over the limit. Descriptors are on their way between two processes for a moment in ordinary programs, too.
const HIDDEN_CHECKS_MAX: u32 = 5;

/// Maximum number of descriptors and mappings read in one search for deleted files: a fifth of a second's worth, which delays a
/// deadline by at most as much. A tree with more may hide files.
const DELETED_STEPS_MAX: usize = 200_000;

/// Steps that reading the fdinfo of a socket takes: three calls instead of one.
const SOCKET_STEPS: usize = 3;

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
    fn processes(self) -> Vec<i32> {
        match self {
            Self::Init(pid) => tree(pid),
            Self::Subreaper { subreaper, helpers } => subreaper.processes(helpers),
        }
    }

    /// Those that may hold files of the run.
    fn holders(self) -> Vec<i32> {
        let mut processes = self.processes();
        if let Self::Init(init) = self {
            processes.retain(|pid| *pid != init);
        }
        processes
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
        }
    }

    /// Memory of the tree when it exceeded its limit.
    pub(crate) fn memory_found(&self) -> Option<u64> {
        self.memory_found
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
        let counted_by_leaf = leaf.and_then(Leaf::cpu_micros).map(Duration::from_micros);
        let walks =
            self.memory_max.is_some() || (self.cpu_max.is_some() && counted_by_leaf.is_none());
        let tree = if walks { run.processes() } else { Vec::new() };
        let mut rest = IDLE_INTERVAL;
        if let Some(max) = self.cpu_max {
            let used = counted_by_leaf.unwrap_or_else(|| self.cpu.look(&tree));
            if used > max {
                return Some(ExceededLimit::Cpu);
            }
            rest = rest.min(max.saturating_sub(used) / *PROCESSORS);
        }
        if let Some(max) = self.memory_max {
            let members: Vec<Member> = tree.iter().filter_map(|pid| Member::of(*pid)).collect();
            let mapped: u64 = members.iter().map(|member| member.mapped).sum();
            let anonymous: u64 = members.iter().map(|member| member.anonymous).sum();
            // A tree that hides more than the limit has more than the limit mapped: all others are spared the slow
            // check.
            let (mut hidden, mut swapped) = (0_u64, 0_u64);
            if mapped > max {
                hidden = shared_bytes(&members);
                for (tables, on_disk) in members.iter().map(Member::tables_and_swapped) {
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
                    return Some(ExceededLimit::Memory);
                }
            }
            let left = max.saturating_sub(besides.saturating_add(anonymous));
            let filled_us = left / (FILL_BYTES * u64::from(*PROCESSORS));
            rest = rest.min(Duration::from_micros(filled_us));
        }
        let exceeded = self.look_at_disk(run);
        if self.watches_disk() {
            rest = rest.min(self.disk_rest);
        }
        self.rest = rest.max(INTERVAL);
        exceeded
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
                let deleted = DeletedFiles::of(&run.holders(), root.dev, &MapDevices::of(root));
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

/// The process `root` and everything below it.
pub(crate) fn tree(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut seen: HashSet<i32> = HashSet::from([root]);
    let mut next = 0;
    let mut by_scan: Option<HashMap<i32, Vec<i32>>> = None;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for child in children(pid, &mut by_scan) {
            if seen.insert(child) {
                found.push(child);
            }
        }
    }
    found
}

/// The threads of a process.
fn tasks(pid: i32) -> Vec<i32> {
    let names = list_kernel_directory(format!("/proc/{pid}/task")).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The children of a process.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    children(pid, &mut None)
}

fn children(pid: i32, by_scan: &mut Option<HashMap<i32, Vec<i32>>>) -> Vec<i32> {
    let mut list = Vec::new();
    for tid in tasks(pid) {
        let Ok(text) = read_kernel_file(format!("/proc/{pid}/task/{tid}/children")) else {
            // Kernels without CONFIG_PROC_CHILDREN: read every process's parent once.
            let map = by_scan.get_or_insert_with(scan_parents);
            return map.get(&pid).cloned().unwrap_or_default();
        };
        list.extend(text.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    list
}

/// The children of `pid`, by asking every process for its parent.
pub(crate) fn children_by_scan(pid: i32) -> Option<Vec<i32>> {
    let mut parents = scan_parents();
    // Without a free descriptor nothing of the list could be read.
    let own = rustix::process::getpid().as_raw_nonzero().get();
    parent_of(own)?;
    parents.values().flatten().any(|pid| *pid == own).then_some(())?;
    Some(parents.remove(&pid).unwrap_or_default())
}

fn scan_parents() -> HashMap<i32, Vec<i32>> {
    let mut map: HashMap<i32, Vec<i32>> = HashMap::new();
    for name in list_kernel_directory("/proc").unwrap_or_default() {
        let Some(pid) = name.to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            map.entry(parent).or_default().push(pid);
        }
    }
    map
}

/// The parent of a process, by its line in `/proc`.
fn parent_of(pid: i32) -> Option<i32> {
    let [parent] = numbers(&stat_of(pid)?, 1)?;
    i32::try_from(parent).ok()
}

/// The fields of `/proc/PID/stat` after the name in parentheses: state, parent and so on.
fn stat_of(pid: i32) -> Option<String> {
    let text = line_of(&format!("/proc/{pid}/stat"))?;
    Some(text.rsplit_once(") ")?.1.to_owned())
}

/// `N` numbers of a line, from the one at `first` on.
fn numbers<const N: usize>(line: &str, first: usize) -> Option<[u64; N]> {
    let mut words = line.split_ascii_whitespace().skip(first);
    let mut found = [0; N];
    for number in &mut found {
        *number = words.next()?.parse().ok()?;
    }
    Some(found)
}

/// Reads a kernel file of one short line with one call: these are read many times a second.
fn line_of(path: &str) -> Option<String> {
    let mut buffer = [0; 1024];
    let n = open_kernel_file(path).ok()?.read(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..n]).into_owned())
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

    fn look(&mut self, tree: &[i32]) -> Duration {
        self.n_looks += 1;
        let mut waited_for = 0;
        for pid in tree {
            let Some((times, began)) = stat_of(*pid)
                .and_then(|stat| Some((numbers::<4>(&stat, 11)?, numbers::<1>(&stat, 19)?[0])))
            else {
                continue;
            };
            let [user, system, ..] = times;
            waited_for += times.iter().sum::<u64>();
            if user + system > 0 {
                self.seen.insert((*pid, began), (user + system, self.n_looks));
            }
        }
        let (n_looks, gone) = (self.n_looks, &mut self.gone);
        self.seen.retain(|_, (ticks, seen_at)| {
            let stays = n_looks - *seen_at < Self::PATIENCE;
            *gone += if stays { 0 } else { *ticks };
            stays
        });
        let each: u64 = self.seen.values().map(|(ticks, _)| ticks).sum();
        // What was reaped is in the second figure too, as far as it was seen.
        (of_ticks(waited_for) + self.reaped).max(of_ticks(each + self.gone))
    }
}

/// CPU time of a living process alone, all its threads.
pub fn cpu_so_far(pid: u32) -> Option<Duration> {
    let [user, system] = numbers(&stat_of(i32::try_from(pid).ok()?)?, 11)?;
    Some(of_ticks(user + system))
}

/// Ticks of 10 ms: `USER_HZ` is 100 on every Linux we run on.
fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}

/// A process and its memory. If its first thread has exited and others go on, the kernel reports it only by one of
/// those.
struct Member {
    tid: i32,
    mapped: u64,
    anonymous: u64,
}

impl Member {
    fn of(pid: i32) -> Option<Self> {
        Self::by(pid).or_else(|| tasks(pid).into_iter().find_map(Self::by))
    }

    /// Reads it by one thread, if that is alive.
    fn by(tid: i32) -> Option<Self> {
        let [mapped, resident, of_files] = numbers(&line_of(&format!("/proc/{tid}/statm"))?, 0)?;
        let page = ringfence_sys::page_bytes();
        let anonymous = resident.saturating_sub(of_files) * page;
        (mapped > 0).then_some(Self { tid, mapped: mapped * page, anonymous })
    }

    /// Bytes of its page tables, which a process can grow at will by mapping enough, and of its swapped-out memory.
    fn tables_and_swapped(&self) -> (u64, u64) {
        let text = self.text("status").unwrap_or_default();
        let bytes = |key| in_kib(&text, key).unwrap_or(0) * 1024;
        (bytes("VmPTE:"), bytes("VmSwap:"))
    }

    /// Anonymous memory, resident and swapped, with shared pages divided among their users. Falls back to the resident
    /// figure for a process that may not be read; 0 for one that has ended.
    fn proportional_bytes(&self) -> u64 {
        match self.text("smaps_rollup") {
            Ok(text) if text.is_empty() => 0,
            Ok(text) => {
                let in_place = in_kib(&text, "Pss_Anon:").map_or(self.anonymous, |kib| kib * 1024);
                in_place.saturating_add(in_kib(&text, "SwapPss:").unwrap_or(0) * 1024)
            }
            Err(error) if has_ended(&error) => 0,
            Err(_) => self.anonymous,
        }
    }

    /// Upper bound of its shared mappings, by the sizes that every process shows.
    fn shared_bytes_max(&self) -> u64 {
        let text = self.text("status").unwrap_or_default();
        let private = ["VmData:", "VmStk:", "VmExe:", "VmLib:"];
        let private = private.iter().filter_map(|key| in_kib(&text, key)).sum::<u64>() * 1024;
        self.mapped.saturating_sub(private)
    }

    fn text(&self, file: &str) -> std::io::Result<String> {
        read_kernel_file(format!("/proc/{}/{file}", self.tid))
    }
}

/// Returns true if a file of a process cannot be read because the process has ended.
fn has_ended(error: &std::io::Error) -> bool {
    let ended = [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|errno| ended.contains(&errno))
}

/// The number after `key` in a kernel file with one such line per key.
fn in_kib(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.trim().trim_end_matches(" kB").parse().ok()
}

/// Anonymous memory of all, each memory counted once: a process and the child it waits for in vfork(2) share one.
fn proportional_bytes(members: &[Member]) -> u64 {
    let mut counted: Vec<&Member> = Vec::new();
    let mut bytes = 0_u64;
    for member in members {
        // Shared memory has one size, apart from changes between two reads.
        let again = counted.iter().rev().take(RELATIVES_MAX).any(|other| {
            other.mapped.abs_diff(member.mapped) <= SIZE_DRIFT
                && ringfence_sys::have_memory_in_common(other.tid, member.tid)
        });
        if !again {
            bytes = bytes.saturating_add(member.proportional_bytes());
            counted.push(member);
        }
    }
    bytes
}

/// Anonymous memory of a process, whichever of its threads live.
pub fn anonymous_bytes(pid: u32) -> Option<u64> {
    Some(Member::of(i32::try_from(pid).ok()?)?.anonymous)
}

/// Bytes of shared anonymous mappings, each object once and with its whole size: their pages live on in memory when
/// they are dropped from every process's sight, where no resident count shows them. More mappings than can be read in
/// time are more than any limit. A process that hides its mappings counts with all that may be shared.
fn shared_bytes(members: &[Member]) -> u64 {
    let mut objects: HashMap<String, u64> = HashMap::new();
    let mut n_lines = 0;
    let mut hidden = 0_u64;
    for member in members {
        let read = for_each_mapping(member.tid, |line| {
            n_lines += 1;
            if n_lines > MAPPINGS_MAX {
                return ControlFlow::Break(());
            }
            if !SHARED_NAMES.iter().any(|name| line.contains(name)) {
                return ControlFlow::Continue(());
            }
            let mut fields = line.split_ascii_whitespace();
            let range = fields.next().and_then(|range| range.split_once('-'));
            let Some((start, end)) = range else { return ControlFlow::Continue(()) };
            let at = |hex: &str| u64::from_str_radix(hex, 16).unwrap_or(0);
            let size = at(end).saturating_sub(at(start));
            // The fields left are permissions, offset, device, inode.
            let inode = fields.nth(3).unwrap_or_default().to_owned();
            let known = objects.entry(inode).or_default();
            *known = (*known).max(size);
            ControlFlow::Continue(())
        });
        if read.is_err_and(|error| !has_ended(&error)) {
            hidden = hidden.saturating_add(member.shared_bytes_max());
        }
        if n_lines > MAPPINGS_MAX {
            return u64::MAX;
        }
    }
    if hidden > 0 {
        // Ringfence's own processes cannot be read: the run's PID 1, and a child before it executes the program. Each maps
        // the same binary as this process.
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let own = Member::of(own).map_or(0, |member| member.shared_bytes_max());
        hidden = hidden.saturating_sub(own.saturating_mul(2));
    }
    objects.values().sum::<u64>().saturating_add(hidden)
}

/// Calls `each` with one line of a process's `maps` after the other: their paths are as long as the process likes.
fn for_each_mapping(
    pid: i32,
    mut each: impl FnMut(&str) -> ControlFlow<()>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(open_kernel_file(format!("/proc/{pid}/maps"))?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if each(String::from_utf8_lossy(&line).trim_end()).is_break() {
            break;
        }
        line.clear();
    }
    Ok(())
}

fn is_in_memory(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|stat| stat.f_type == ringfence_sys::TMPFS_MAGIC)
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bfree * stat.f_frsize)
}

/// A walk through a directory that the run keeps writing: by descriptor, without links, for a limited time per check.
struct DiskWalk {
    root: Option<OwnedFd>,
    pending: Vec<PathBuf>,
    pending_bytes: usize,
    total: u64,
    n_files: usize,
}

impl DiskWalk {
    fn new(root: &Path) -> Self {
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
    fn step(&mut self, started: &StartTimes, enough: u64) -> Option<u64> {
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
enum MapDevices {
    /// That of stat(2), and that of the file system as a whole: subvolumes of btrfs have numbers of their own.
    Of([String; 2]),
    /// Not known, or the layers' own on overlayfs (before Linux 6.8).
    Any,
}

impl MapDevices {
    fn of(root: &DiskRoot) -> Self {
        Self::by_mount(&root.path, root.dev).unwrap_or(Self::Any)
    }

    fn by_mount(dir: &Path, dev: u64) -> Option<Self> {
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW;
        let statx = rustix::fs::statx(rustix::fs::CWD, dir, flags, StatxFlags::MNT_ID).ok()?;
        (statx.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(())?;
        let id = statx.stx_mnt_id.to_string();
        let mounts = read_kernel_file("/proc/self/mountinfo").ok()?;
        Self::by_line(mounts.lines().find(|line| line.split(' ').next() == Some(&id))?, dev)
    }

    /// Reads a line of mountinfo, as in proc(5).
    fn by_line(line: &str, dev: u64) -> Option<Self> {
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
struct DeletedFiles {
    /// Their bytes on disk, as far as they can be seen.
    bytes: u64,
    /// There may be others: in a process that hides its descriptors, in messages on their way, only mapped, or past the bound
    /// of the search.
    may_be_hidden: bool,
    seen: HashSet<u64>,
    n_steps: usize,
}

impl DeletedFiles {
    /// Looks at these processes.
    fn of(processes: &[i32], dev: u64, mapped: &MapDevices) -> Self {
        let mut found = Self::default();
        for pid in processes {
            // A thread that has ended, and waits to be reaped, holds nothing.
            let alive: Vec<i32> = tasks(*pid).into_iter().filter(|tid| !is_zombie(*tid)).collect();
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
    fn look_at_mappings(&mut self, pid: i32, devices: &MapDevices) {
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

    fn is_unseen(&self, line: &str, devices: &MapDevices) -> bool {
        // Range, permissions, offset, device, inode, path.
        let mut fields = line.split_ascii_whitespace().skip(3);
        let (Some(device), Some(inode)) = (fields.next(), fields.next()) else { return false };
        let name = line.split_once(&format!(" {inode} ")).map_or("", |(_, name)| name.trim_start());
        devices.may_have(device, name)
            && !inode.parse::<u64>().is_ok_and(|inode| self.seen.contains(&inode))
    }
}

fn is_zombie(tid: i32) -> bool {
    stat_of(tid).is_none_or(|fields| fields.starts_with(['Z', 'X']))
}

/// Returns true if descriptors wait in the socket with this fdinfo.
fn carries_descriptors(fdinfo: &str) -> bool {
    let text = read_kernel_file(fdinfo).unwrap_or_default();
    let n = text.lines().find_map(|line| line.strip_prefix("scm_fds:")).map(str::trim);
    n.is_some_and(|n| n != "0")
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;

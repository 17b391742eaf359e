//! What runs could leave on a host, counted from outside: processes, descriptors, cgroups, mounts, files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::soak::world::World;

/// The kernel ends processes and frees groups a little after it said so; what is there after this stays.
const SETTLE: Duration = Duration::from_secs(5);

/// Names of everything found, by kind.
pub(crate) struct Leftovers {
    kinds: Vec<(&'static str, BTreeSet<String>)>,
}

impl Leftovers {
    /// Counts now.
    pub(crate) fn count(world: &World) -> Self {
        let (processes, zombies) = descendants();
        let numbered = |n: usize| (0..n).map(|i| i.to_string()).collect();
        Self {
            kinds: vec![
                ("processes", processes.union(&marked(world.mark())).cloned().collect()),
                ("zombies", zombies),
                ("cgroups", cgroups()),
                ("workspace", names(&world.work())),
                ("temporary files", names(&world.temp())),
                ("mounts", numbered(mount_lines())),
                ("descriptors", numbered(names(Path::new("/proc/self/fd")).len())),
            ],
        }
    }

    /// Returns entries that are new.
    pub(crate) fn beyond(self, before: &Self) -> Self {
        let kinds = self.kinds.into_iter().zip(&before.kinds);
        Self { kinds: kinds.map(|((kind, now), (_, was))| (kind, &now - was)).collect() }
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        let left = self.kinds.iter().filter(|(_, names)| !names.is_empty());
        left.map(|(kind, names)| {
            let some: Vec<&str> = names.iter().take(5).map(String::as_str).collect();
            format!("{} {kind} left: {}", names.len(), some.join(", "))
        })
        .collect()
    }

    pub(crate) fn json(&self) -> Value {
        let mut object = json!({});
        for (kind, names) in &self.kinds {
            object[kind.replace(' ', "_")] = names.len().into();
        }
        object
    }

    pub(crate) fn table(&self) -> String {
        let mut text = String::from("left behind\n");
        for (kind, names) in &self.kinds {
            let _ = writeln!(text, "  {kind:<22} {:>6}", names.len());
        }
        text
    }
}

/// Reaps what was handed to us and ended, until nothing of the soak runs any more or the time to settle is over.
/// Says how many it reaped.
pub(crate) fn settle(world: &World) -> usize {
    settle_within(world, SETTLE)
}

/// The same with another time to settle.
pub(crate) fn settle_within(world: &World, patience: Duration) -> usize {
    let started = Instant::now();
    let mut n_reaped = 0;
    loop {
        let alive = !descendants().0.is_empty() || !marked(world.mark()).is_empty();
        // After the check, so that processes that ended meanwhile are reaped too.
        n_reaped += reap();
        if !alive || started.elapsed() > patience {
            return n_reaped;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reaps what has ended. Only for callers that wait for no child of their own at the same time.
pub(crate) fn reap() -> usize {
    let mut n_reaped = 0;
    while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
        n_reaped += 1;
    }
    n_reaped
}

/// Where leaves of this process's runs are made, on either hierarchy.
pub(crate) fn cgroup_parents() -> Vec<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut parents = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let path = path.trim_start_matches('/');
        let tops = match controllers {
            "" => vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/unified".to_owned()],
            some => some.split(',').map(|c| format!("/sys/fs/cgroup/{c}")).collect(),
        };
        for top in tops {
            // A leaf may be made above us, where a group hands its controllers down.
            let own = Path::new(&top).join(path);
            parents.extend(own.ancestors().take_while(|d| d.starts_with(&top)).map(Path::to_owned));
        }
    }
    parents.retain(|dir| dir.join("cgroup.procs").exists());
    parents
}

/// Leaves without a process. One with processes belongs to a run that goes on, which is not ours: ours are over.
fn cgroups() -> BTreeSet<String> {
    let empty = |dir: &PathBuf| {
        fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|procs| procs.is_empty())
    };
    let leaves = || -> BTreeSet<PathBuf> {
        let entries = cgroup_parents().into_iter().filter_map(|p| fs::read_dir(p).ok()).flatten();
        let dirs =
            entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with("ringfence-"));
        dirs.map(|e| e.path()).filter(empty).collect()
    };
    // Another run may be between making its leaf and entering it: look again.
    let first = leaves();
    if first.is_empty() {
        return BTreeSet::new();
    }
    std::thread::sleep(Duration::from_millis(500));
    (&first & &leaves()).into_iter().map(|dir| dir.display().to_string()).collect()
}

/// Everything below this process: alive, and ended but not reaped.
fn descendants() -> (BTreeSet<String>, BTreeSet<String>) {
    let ours = below(std::process::id());
    let of = |zombie: bool| {
        let those = ours.iter().filter(|(_, _, state, _)| (*state == 'Z') == zombie);
        those.map(|(pid, _, _, name)| format!("{pid} ({name})")).collect()
    };
    (of(false), of(true))
}

/// Everything below a process, as [`stat`] has it.
pub(crate) fn below(root: u32) -> Vec<Stat> {
    let mut all: Vec<Stat> = pids().filter_map(stat).collect();
    let mut family = BTreeSet::from([root]);
    loop {
        let children =
            all.iter().filter(|(_, parent, ..)| family.contains(parent)).map(|(pid, ..)| *pid);
        let grown: BTreeSet<u32> = children.chain(family.iter().copied()).collect();
        if grown.len() == family.len() {
            break;
        }
        family = grown;
    }
    all.retain(|(pid, ..)| *pid != root && family.contains(pid));
    all
}

/// Processes with the mark in their command line, whatever their parent.
fn marked(mark: &str) -> BTreeSet<String> {
    let has = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|c| c.windows(mark.len()).any(|w| w == mark.as_bytes()))
    };
    pids().filter(has).filter_map(stat).map(|(pid, _, _, name)| format!("{pid} ({name})")).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str().and_then(|n| n.parse().ok()))
}

/// Pid, parent, state and name.
type Stat = (u32, u32, char, String);

/// The name may hold spaces and parentheses; the last `)` ends it.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let mut fields = tail.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some((pid, parent, state, head.split_once('(')?.1.to_owned()))
}

fn mount_lines() -> usize {
    fs::read_to_string("/proc/self/mountinfo").map_or(0, |text| text.lines().count())
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

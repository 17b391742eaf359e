//! Processes of a run without a pid namespace: the program, and what detaches itself from it and becomes a child of this
//! process, its subreaper. Never touches the children that this process had before the run, such as those of a shell that
//! executed it.

use std::io;
use std::time::{Duration, Instant};

use ringfence_sys::{CallError, Named};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::proc::{children_by_scan, children_of, tree};

/// Time limit for killed processes to die; one that hangs in the kernel is left to the host's init.
const DEATH_MAX: Duration = Duration::from_secs(10);

/// Looks for children that have ended, and leaves them.
const PEEK: WaitIdOptions =
    WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);

/// Pause between two rounds of killing.
const PAUSE: Duration = Duration::from_millis(1);

/// This process as the subreaper of one run.
#[derive(Debug)]
pub(crate) struct Subreaper {
    /// Children from before the run.
    strangers: Vec<i32>,
}

/// A process that was reaped during the run.
pub(crate) struct Reaped {
    /// CPU time of it and of the children it had waited for.
    pub(crate) cpu: Duration,
}

impl Subreaper {
    /// Makes this process a subreaper, before it starts the run's first process.
    pub(crate) fn new() -> Result<Self, CallError> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .named(|| "prctl(PR_SET_CHILD_SUBREAPER)")?;
        let strangers = children_of(own()).named(|| "reading the list of children in /proc")?;
        Ok(Self { strangers })
    }

    /// Every process of the run. `helpers` are children of this process that it started itself for the run.
    pub(crate) fn processes(&self, helpers: &[i32]) -> io::Result<Vec<i32>> {
        let trees = self.children(helpers)?.into_iter().map(tree);
        Ok(trees.collect::<io::Result<Vec<Vec<i32>>>>()?.concat())
    }

    /// Reaps children that have ended, but not the `program`: the dead count for the limit of processes.
    pub(crate) fn reap_dead(&self, program: i32, helpers: &[i32]) -> Vec<Reaped> {
        let children = self.children(helpers).unwrap_or_default();
        let children = children.into_iter().filter(|pid| *pid != program);
        let reaped = |pid| {
            let end = ringfence_sys::try_reap_pid(pid).ok()??;
            Some(Reaped { cpu: end.cpu })
        };
        children.filter_map(reaped).collect()
    }

    /// Kills and reaps every process of the run until none is left. Returns false if one is after [`DEATH_MAX`].
    pub(crate) fn end(&self, helpers: &[i32]) -> bool {
        let give_up = Instant::now() + DEATH_MAX;
        loop {
            for child in self.children(helpers).unwrap_or_default() {
                kill(child);
                tree(child).unwrap_or_default().into_iter().skip(1).for_each(kill);
            }
            while let Ok(Some(_)) = ringfence_sys::try_reap_any() {}
            if self.is_over(helpers) {
                return true;
            }
            if Instant::now() >= give_up {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn children(&self, helpers: &[i32]) -> io::Result<Vec<i32>> {
        Ok(self.of_the_run(children_of(own())?, helpers))
    }

    fn of_the_run(&self, mut children: Vec<i32>, helpers: &[i32]) -> Vec<i32> {
        children.retain(|pid| !self.strangers.contains(pid) && !helpers.contains(pid));
        children
    }

    /// Returns true if no child of the run is left, alive or dead. A list of children is no proof while some of them fork and
    /// exit: `/proc` is listed by rising pid and a child's is above its parent's, so a process that forks and exits during the
    /// listing leaves a child yet to be listed; twice, because pids wrap around at some point. And `/proc` is no proof alone:
    /// with `hidepid` it hides processes that the caller may not look into.
    fn is_over(&self, helpers: &[i32]) -> bool {
        if matches!(waitid(WaitId::All, PEEK), Err(Errno::CHILD)) {
            return true;
        }
        let none = |children: Vec<i32>| self.of_the_run(children, helpers).is_empty();
        children_of(own()).is_ok_and(none)
            && (0..2).all(|_| children_by_scan(own()).is_some_and(none))
    }
}

fn own() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

//! From plan to running child: leaf, placeholders, id maps, fork; then supervision; then nothing left behind.

use std::os::fd::OwnedFd;

use ringfence_plan::Plan;
use ringfence_spec::{Problem, Tier};
use ringfence_sys::{CallError, Forked, SignalFd, Signals};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Signal};

use crate::cgroup::{self, Leaf};
use crate::channel::{self, Failure, Message};
use crate::child;
use crate::handover::Handover;
use crate::identity;
use crate::janitor::{Estate, Scratch};
use crate::registry::{Registry, RunKey};
use crate::stdio::{self, StdioMode};
use crate::supervise::{self, Finished, NotStarted, Running};

/// Why nothing ran.
#[derive(Debug)]
pub enum Fault {
    /// The host refused the namespaces of this plan; a weaker plan may do.
    NoNamespaces(CallError),
    /// Anything else.
    Problem(Problem),
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Signals of the caller's that are passed on.
const PASSED_ON: [Signal; 5] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::WINCH];

/// Runs a plan to its end. `run` names it on this host while it lasts.
///
/// The calling process must have one thread: the child is a fork of it.
pub fn run(
    plan: &Plan,
    registry: &Registry,
    run: &str,
    mode: StdioMode,
    terminal: bool,
) -> Result<Finished, Fault> {
    let problem = |what: &'static str| {
        move |e: CallError| Fault::Problem(Problem::cannot_build("launch", what).cause(e))
    };
    // Blocked before the fork, so that none is lost between the fork and the first poll.
    let signals = Signals::of(&PASSED_ON.map(Signal::as_raw));
    let before = signals.block().map_err(problem("cannot block signals"))?;
    let result = launch(plan, registry, run, mode, terminal, signals);
    before.set_blocked().map_err(problem("cannot restore signals"))?;
    result
}

fn launch(
    plan: &Plan,
    registry: &Registry,
    run: &str,
    mode: StdioMode,
    terminal: bool,
    signals: Signals,
) -> Result<Finished, Fault> {
    let cannot = |what: &'static str| {
        move |e: CallError| Fault::Problem(Problem::cannot_build("launch", what).cause(e))
    };
    let namespaces = plan.tier == Tier::Namespaces;
    let host_root = rustix::process::geteuid().is_root() && plan.identity.disk_owner.is_some();
    let (stdio, plumbing) = stdio::prepare(mode, terminal)?;
    let signals = SignalFd::new(signals).map_err(cannot("cannot listen to signals"))?;
    let (report, report_inside) = channel::pair().map_err(cannot("cannot talk to the child"))?;
    let (control, control_inside) = channel::pair().map_err(cannot("cannot talk to the child"))?;

    // On v2 a child is born into its leaf; on v1 it enters by itself, and the leaf can wait.
    let parent = match &plan.cgroup {
        None => None,
        Some(_) => Some(cgroup::find_parent().map_err(|why| {
            Problem::cannot_build("cgroup", "cannot find a cgroup to work in").cause(why)
        })?),
    };
    let make_leaf = || match (&parent, &plan.cgroup) {
        (Some(parent), Some(limits)) => {
            Leaf::new(parent, limits, run).map(Some).map_err(cannot("cannot make a cgroup"))
        }
        _ => Ok(None),
    };
    // Declared before the child, so dropped after it: a cgroup can be removed only when nobody is in it.
    let mut leaf = match parent {
        Some(cgroup::Parent::V2(_)) => make_leaf()?,
        _ => None,
    };
    if !namespaces {
        // Whatever detaches itself comes to us instead of the host's init, so that we can end it.
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own))
            .map_err(|e| cannot("cannot become a subreaper")(CallError::new("prctl", e)))?;
    }
    let handover = Handover { report: report_inside, control: control_inside, stdio };
    let target = leaf.as_ref().and_then(Leaf::clone_target);
    let forked = ringfence_sys::fork_into(child::kinds(&plan.birth), target)
        .map_err(|e| if namespaces { Fault::NoNamespaces(e) } else { cannot("cannot fork")(e) })?;
    let child = match forked {
        Forked::Child => {
            // The parent's ends must not live on in here: their closing is how we learn that it died.
            drop((report, control));
            child::walk(plan, handover)
        }
        Forked::Parent { pid, pidfd } => Born { pid, pidfd: Some(pidfd) },
    };
    drop(handover);
    if namespaces {
        // First of all: the child waits for it, and then works while we do.
        identity::write_maps(child.pid, &plan.identity, host_root)
            .and_then(|()| channel::send(&control, &Message::Go))
            .map_err(Fault::NoNamespaces)?;
    }
    // Only now: of a process that cannot be dumped, nobody but root may write the child's id maps.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let hold = registry
        .hold(&plan.placeholders, &RunKey::of_this_process(run))
        .map_err(cannot("cannot hold the protected names of the workspace"))?;
    let scratch = plan
        .host_scratch
        .as_ref()
        .map(|dir| Scratch::new(dir, plan.identity.host_uid, plan.identity.host_gid));
    let scratch = scratch.transpose().map_err(cannot("cannot make a private directory"))?;
    if leaf.is_none() {
        leaf = make_leaf()?;
    }
    let mut fds = match &leaf {
        Some(leaf) => leaf.tasks().map_err(cannot("cannot open the cgroup"))?,
        None => Vec::new(),
    };
    let n_cgroups = fds.len();
    fds.extend(identity::prepare_mounts(plan).map_err(cannot_translate)?);
    // A child that failed meanwhile has closed its end; the supervisor hears why.
    let _ = channel::send(&control, &Message::Supplies { n_cgroups, fds });
    let (pid, pidfd) = child.into_parts()?;
    let estate = Estate { leaf, scratch, hold };
    let running = Running { plan, pid, pidfd, report, control, signals, plumbing, estate };
    supervise::supervise(running).map_err(|error| match error {
        // Some hosts allow the namespace and then refuse what it is for (AppArmor on Ubuntu 24.04).
        NotStarted::Step(failure) if namespaces && is_about_namespaces(&failure) => {
            Fault::NoNamespaces(failure.error)
        }
        error => Fault::Problem(supervise::explain_not_started(error, plan)),
    })
}

/// Whether a step failed that only a host without usable namespaces refuses.
fn is_about_namespaces(failure: &Failure) -> bool {
    let refused =
        matches!(failure.error.errno, Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::NOSYS);
    let early = ["Unshare", "TakeIdentity", "PrivateMounts", "Hostname", "LoopbackUp", "NewRoot"];
    refused && early.iter().any(|step| failure.step.starts_with(step))
}

/// Root's run is given the workspace under another uid, which not every filesystem can do.
fn cannot_translate(error: CallError) -> Problem {
    let no_such_filesystem = error.errno == Errno::INVAL;
    let problem =
        Problem::cannot_build("owners", "cannot translate owners for the run").cause(error);
    if no_such_filesystem {
        return problem.hint(
            "this kernel cannot translate owners on that filesystem (tmpfs before Linux 6.3, overlayfs, most network \
             filesystems); work on ext4, xfs or btrfs, or run as an ordinary user",
        );
    }
    problem
}

/// A child that nobody supervises yet. Dropping it kills it.
struct Born {
    pid: i32,
    pidfd: Option<OwnedFd>,
}

impl Born {
    fn into_parts(mut self) -> Result<(i32, OwnedFd), Problem> {
        let pidfd = self.pidfd.take();
        let pid = self.pid;
        pidfd
            .map(|fd| (pid, fd))
            .ok_or_else(|| Problem::internal("launch", "no child to supervise"))
    }
}

impl Drop for Born {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
            let _ = ringfence_sys::reap_pid(self.pid, true);
        }
    }
}

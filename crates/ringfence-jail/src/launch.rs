//! From plan to running child: leaf, placeholders, id maps, fork; then supervision; then nothing left behind.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_plan::{BindSource, Identity, Mount, Orders, Plan, Step, SystemView, WritableDir};
use ringfence_spec::{Code, Problem, Tier};
use ringfence_sys::{CallError, Forked, Named, Namespaces, SignalFd, Signals, read_kernel_file};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal};

use crate::cgroup::{self, Leaf};
use crate::channel::{self, Failure, Message, SetupPart};
use crate::child;
use crate::gitwatch::GitWatch;
use crate::handover::Handover;
use crate::identity::{self, Translation};
use crate::janitor::{Cleanup, Scratch};
use crate::registry::{Registry, RunKey};
use crate::stdio::{self, StdioMode, StdioPumps};
use crate::subreaper::Subreaper;
use crate::supervise::{self, Finished, NotStarted, Running};

/// Reason that nothing ran.
#[derive(Debug)]
pub enum LaunchError {
    /// The host refused the namespaces of this plan; a weaker plan may do.
    NoNamespaces(CallError),
    /// The host has no process, memory or namespace left for this plan just now. Never a reason for a weaker plan.
    NoRoom(CallError),
    /// The host refused to capture connections; a plan without that may do.
    NoCapture(CallError),
    /// The plan cannot be sent to a child forked earlier, or that child cannot run it; nothing ran.
    NeedsNewChild,
    /// Anything else.
    Problem(Problem),
}

impl From<Problem> for LaunchError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// The caller's signals that are forwarded.
const PASSED_ON: [Signal; 5] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::WINCH];

/// The user and group ids of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunIdentity {
    /// A command's: as similar to the caller's as possible.
    Command,
    /// Code's: always the same.
    Code,
}

/// A child forked before its plan is known; meanwhile it does the steps that every run begins with. Dropping it kills
/// it.
pub struct PreforkedChild {
    child: UnsupervisedChild,
    /// On v2, the leaf it was forked into; dropped after the child, because only an empty cgroup can be removed.
    leaf: Option<Box<Leaf>>,
    identity: Identity,
    /// The steps that it does before it has a plan.
    done: Vec<Step>,
    /// Parts made before its plan.
    ready: Option<Box<ReadyParts>>,
    before: Option<Signals>,
}

/// Parts of a run that are made before its plan, as the last plan needed them.
struct ReadyParts {
    /// For owners of the disk's files.
    translation: Option<Translation>,
}

/// Time that a child has to do the steps before its plan.
const READY_MAX: Duration = Duration::from_secs(10);

impl PreforkedChild {
    /// Starts a child. On v2 it is forked into its cgroup: to move it later takes milliseconds. The calling process must
    /// have one thread.
    pub fn start(who: RunIdentity) -> Result<Self, LaunchError> {
        let ids = crate::survey::caller_ids();
        let identity = match who {
            RunIdentity::Command => Identity::of_caller(ids),
            RunIdentity::Code => Identity::of_code(ids),
        };
        Self::start_with(identity, Orders::opening(), child::walk_early)
    }

    fn start_with(
        identity: Identity,
        done: Vec<Step>,
        walk: fn(Handover, Identity, &[Step]) -> !,
    ) -> Result<Self, LaunchError> {
        let leaf = leaf_before_fork()?;
        let (signals, before) = block_signals()?;
        let wires = ChildFds::new(signals)?;
        let kinds = child::kinds(&Orders::initial_namespaces());
        let target = leaf.as_ref().and_then(Leaf::clone_target);
        let child = UnsupervisedChild::fork(wires, kinds, target, |handover| {
            walk(handover, identity, &done)
        })
        .map_err(namespaces_fault)?;
        move_away(child.pid).map_err(cannot("cannot give the child its processors"))?;
        child.take_identity(&identity)?;
        let leaf = leaf.map(Box::new);
        let before = Some(before);
        Ok(Self { child, leaf, identity, done, ready: None, before })
    }

    /// Starts a child for a command that the process `planner` will plan, with everything that can be done without the
    /// workspace: it sees the system's files, and is in its cgroup, within its limits, on v1 too. Returns when the child is
    /// ready.
    pub(crate) fn start_ready(planner: Pid, view: SystemView) -> Result<Self, LaunchError> {
        let identity = Identity::of_caller(crate::survey::caller_ids_of(planner));
        let SystemView { steps, cgroup } = view;
        let mut child = Self::start_with(identity, steps, child::walk_ready)?;
        if child.leaf.is_none()
            && let Ok(parent) = cgroup::find_parent()
        {
            let leaf = Leaf::new(&parent).and_then(|mut leaf| {
                leaf.add_process(child.child.pid)?;
                Ok(leaf)
            });
            child.leaf = Some(Box::new(leaf.map_err(cannot("cannot make a cgroup"))?));
        }
        if let (Some(leaf), Some(limits)) = (&mut child.leaf, &cgroup) {
            leaf.limit(limits).map_err(cannot("cannot make a cgroup"))?;
        }
        let mut translation = Translation::of(&identity).map_err(cannot_translate)?;
        let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
        child.wait_until_ready()?;
        if let Some(translation) = &mut translation {
            translation.reap_holder();
        }
        child.ready = Some(Box::new(ReadyParts { translation }));
        Ok(child)
    }

    fn wait_until_ready(&self) -> Result<(), LaunchError> {
        let control = self.child.control()?;
        let by = Instant::now() + READY_MAX;
        let is_heard = ringfence_sys::ready_by(control, PollFlags::IN, by);
        match is_heard
            .and_then(|is_heard| if is_heard { channel::receive(control) } else { Ok(None) })
        {
            Ok(Some(Message::Ready)) => Ok(()),
            _ => Err(LaunchError::NeedsNewChild),
        }
    }

    /// Sends the child its plan and runs it to its end. A plan that cannot be sent comes back as
    /// [`LaunchError::NeedsNewChild`]: a child forked with it can run it.
    pub fn run(mut self, task: &Task<'_>) -> Result<Finished, LaunchError> {
        let before = self.before.take();
        let handed_over = self.hand_over(task);
        let leaf = self.leaf.take().map(|leaf| *leaf);
        let result = match handed_over {
            Ok(plumbing) => {
                let translation = self.ready.and_then(|ready| ready.translation);
                let parts = Parts { leaf, translation, ..Parts::default() };
                supply_and_supervise(self.child, task, plumbing, parts)
            }
            Err(fault) => {
                // A leaf cannot be removed while the child is in it.
                drop(self.child);
                drop(leaf);
                Err(fault)
            }
        };
        restore(before)?;
        result
    }

    fn hand_over(&self, task: &Task<'_>) -> Result<StdioPumps, LaunchError> {
        let plan = task.plan;
        let limits = self.leaf.as_ref().and_then(|leaf| leaf.limits());
        let fits = Orders::can_follow(plan, &self.done)
            && self.identity.same_ids(&plan.identity)
            && (limits.is_none() || limits == plan.cgroup);
        let orders = crate::plan_transfer::write(&Orders::of(plan))
            .map_err(cannot("cannot write the plan down"))?
            .filter(|_| fits)
            .ok_or(LaunchError::NeedsNewChild)?;
        let (stdio, plumbing) = stdio::prepare(task.mode, task.terminal)?;
        let channel = own_channel(task)?;
        channel::send(self.child.control()?, &Message::Orders { orders, stdio, channel }).map_err(
            |error| match self.ready {
                // It was killed while it waited.
                Some(_) => LaunchError::NeedsNewChild,
                None => cannot("cannot give the plan to the child")(error),
            },
        )?;
        Ok(plumbing)
    }
}

/// One run: its plan and its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The plan to execute.
    pub plan: &'a Plan,
    /// Records of placeholders.
    pub registry: &'a Registry,
    /// Its name on this host while it lasts.
    pub name: &'a str,
    /// Handling of its output.
    pub mode: StdioMode,
    /// True for a terminal of its own.
    pub terminal: bool,
    /// Becomes descriptor 3 of a program that talks to its caller.
    pub channel: Option<BorrowedFd<'a>>,
    /// A memory file for the network helper. The run never has it.
    pub credentials: Option<BorrowedFd<'a>>,
    /// A descriptor whose peer closes it to end the run.
    pub cancel: Option<BorrowedFd<'a>>,
    /// Must be granted before the program can start; requested while the child builds its fence.
    pub permit: Permit<'a>,
}

/// Permission to start a program.
#[derive(Clone, Copy)]
pub struct Permit<'a>(pub &'a dyn Fn() -> Result<(), Problem>);

impl Permit<'_> {
    /// Granted already.
    pub const GIVEN: Permit<'static> = Permit(&|| Ok(()));
}

impl std::fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permit")
    }
}

/// Runs a plan to its end.
///
/// The calling process must have one thread: the child is a fork of it.
pub fn run(task: &Task<'_>) -> Result<Finished, LaunchError> {
    let (signals, before) = block_signals()?;
    let result = launch(task, signals);
    restore(Some(before))?;
    result
}

/// Blocks the forwarded signals before the fork, so that none is lost between the fork and the first poll.
fn block_signals() -> Result<(Signals, Signals), LaunchError> {
    let signals = Signals::of(&PASSED_ON.map(Signal::as_raw));
    let before = signals.block().map_err(cannot("cannot block signals"))?;
    Ok((signals, before))
}

fn restore(before: Option<Signals>) -> Result<(), LaunchError> {
    before.map_or(Ok(()), Signals::set_blocked).map_err(cannot("cannot restore signals"))
}

fn cannot(what: &'static str) -> impl Fn(CallError) -> LaunchError {
    move |e| LaunchError::Problem(Problem::cannot_build(Code::Launch, what).cause(e))
}

fn launch(task: &Task<'_>, signals: Signals) -> Result<Finished, LaunchError> {
    let plan = task.plan;
    let namespaces = plan.tier == Tier::Namespaces;
    let leaf = if plan.cgroup.is_some() { leaf_before_fork()? } else { None };
    // A process that detaches itself is reparented to this one instead of the host's init, so that it can be killed.
    let subreaper = (!namespaces).then(Subreaper::new).transpose();
    let subreaper = subreaper.map_err(cannot("cannot become a subreaper"))?;
    let (stdio, plumbing) = stdio::prepare(task.mode, task.terminal)?;
    let mut wires = ChildFds::new(signals)?;
    wires.handover.stdio = stdio;
    wires.handover.channel = own_channel(task)?;
    let target = leaf.as_ref().and_then(Leaf::clone_target);
    let mut orders = Orders::of(plan);
    // Before the fork: the child grants it by device and inode.
    let scratch = plan
        .host_scratch
        .as_ref()
        .map(|dir| Scratch::new(dir, plan.identity.host_uid, plan.identity.host_gid));
    let scratch = scratch.transpose().map_err(cannot("cannot make a private directory"))?;
    if let (Some(scratch), Some(landlock)) = (&scratch, &mut orders.landlock) {
        let made = scratch.dir();
        for rule in landlock.rules.iter_mut().filter(|rule| rule.path == made.path) {
            rule.id = Some(made.id);
        }
    }
    let child = UnsupervisedChild::fork(
        wires,
        child::kinds(&plan.initial_namespaces),
        target,
        |handover| child::walk(orders, handover),
    )
    .map_err(|e| if namespaces { namespaces_fault(e) } else { cannot("cannot fork")(e) })?;
    if namespaces {
        child.take_identity(&plan.identity)?;
    }
    let parts = Parts { leaf, scratch, subreaper, translation: None };
    supply_and_supervise(child, task, plumbing, parts)
}

/// Moves a child to another processor than this one. Both have work to do, but the kernel often queues a new child behind
/// its parent, for most of a millisecond, while another processor is idle. Any processor will do from then on.
fn move_away(child: i32) -> Result<(), CallError> {
    let child = Pid::from_raw(child);
    let Ok(all) = rustix::thread::sched_getaffinity(None) else { return Ok(()) };
    let mut others = all;
    others.unset(rustix::thread::sched_getcpu());
    // With all of them busy it would wait longer elsewhere.
    let is_one_idle = n_runnable().is_some_and(|n| n <= all.count());
    if others.count() == 0
        || !is_one_idle
        || rustix::thread::sched_setaffinity(child, &others).is_err()
    {
        return Ok(());
    }
    rustix::thread::sched_setaffinity(child, &all).named(|| "sched_setaffinity")
}

/// Number of threads on this host that run or could: the fourth field of `proc_loadavg(5)`.
fn n_runnable() -> Option<u32> {
    let text = ringfence_sys::read_kernel_file("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

fn own_channel(task: &Task<'_>) -> Result<Option<OwnedFd>, LaunchError> {
    let channel = task.channel.map(|fd| fd.try_clone_to_owned().named(|| "dup(channel)"));
    channel.transpose().map_err(cannot("cannot pass the channel on"))
}

/// Makes the leaf that a child is forked into, on v2. On v1 a child enters by itself, and the leaf can wait.
fn leaf_before_fork() -> Result<Option<Leaf>, LaunchError> {
    match cgroup::find_parent() {
        Ok(parent @ cgroup::Parent::V2 { .. }) => {
            Leaf::new(&parent).map(Some).map_err(cannot("cannot make a cgroup"))
        }
        _ => Ok(None),
    }
}

/// Sets the limits of the plan, on a leaf that is made now unless the child is in one already.
fn limited_leaf(task: &Task<'_>, leaf: Option<Leaf>) -> Result<Option<Leaf>, LaunchError> {
    let Some(limits) = &task.plan.cgroup else { return Ok(leaf) };
    let leaf = if let Some(leaf) = leaf {
        Ok(leaf)
    } else {
        let parent = cgroup::find_parent().map_err(|why| {
            Problem::cannot_build(Code::Cgroup, "cannot find a cgroup to work in").cause(why)
        })?;
        Leaf::new(&parent.for_limits(limits))
    };
    let limited = leaf.and_then(|mut leaf| leaf.limit(limits).map(|()| Some(leaf)));
    limited.map_err(cannot("cannot make a cgroup"))
}

/// Resources of a run that are made before its child, or with it.
#[derive(Default)]
struct Parts {
    leaf: Option<Leaf>,
    scratch: Option<Scratch>,
    subreaper: Option<Subreaper>,
    translation: Option<Translation>,
}

/// Prepares the resources that a forked child waits for, then supervises it to its end.
fn supply_and_supervise(
    child: UnsupervisedChild,
    task: &Task<'_>,
    plumbing: StdioPumps,
    parts: Parts,
) -> Result<Finished, LaunchError> {
    let plan = task.plan;
    // In this order, so that the child is dropped first: a cgroup can be removed only when it is empty.
    let Parts { mut leaf, scratch, subreaper, translation } = parts;
    let child = child;
    let namespaces = plan.tier == Tier::Namespaces;
    let control =
        child.control()?.try_clone().named(|| "dup").map_err(cannot("cannot talk to the child"))?;
    let published = match &plan.network {
        Some(network) => crate::network::publish(network)?,
        None => Vec::new(),
    };
    let agent = match &plan.network {
        Some(network) => crate::ssh_agent::connect_agent(network)?,
        None => None,
    };
    // Only now: if this process is not dumpable, only root may write the child's id maps.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // The protected names in these may be placeholders of another data directory.
    let protected: BTreeSet<&Path> = plan
        .mounts()
        .filter_map(|mount| match mount {
            Mount::Bind { source: BindSource::Beneath { root, .. }, .. } => Some(root.as_path()),
            _ => None,
        })
        .collect();
    let dirs = plan.disk_roots.iter().chain(&plan.git_dirs);
    let needed: Vec<&WritableDir> =
        dirs.filter(|dir| protected.contains(dir.path.as_path())).collect();
    let key = RunKey::of_this_process(task.name);
    let hold = task
        .registry
        .hold(&plan.disk_roots, &needed, &plan.placeholders, &key)
        .map_err(cannot("cannot hold the protected names of the workspace"))?;
    let mut translation = translation;
    let mounts = identity::prepare_mounts(plan, &mut translation).map_err(cannot_translate)?;
    // A child that failed meanwhile has closed its end; the supervisor receives the reason.
    let _ = channel::send(&control, &Message::Supplies(mounts));
    leaf = limited_leaf(task, leaf)?;
    let tasks = match &leaf {
        Some(leaf) => leaf.tasks().map_err(cannot("cannot open the cgroup"))?,
        None => Vec::new(),
    };
    // Before the program can change anything, and after the placeholders, which change directories.
    let git = GitWatch::begin(plan);
    (task.permit.0)()?;
    let _ = channel::send(&control, &Message::Leave(tasks));
    drop(control);
    // Only now: its helper process has ended meanwhile.
    drop(translation);
    let cleanup = Cleanup { leaf, scratch, hold };
    let cancel = task.cancel.map(|fd| fd.try_clone_to_owned().named(|| "dup(cancel)"));
    let cancel = cancel.transpose().map_err(cannot("cannot watch the caller"))?;
    let credentials =
        task.credentials.map(|fd| fd.try_clone_to_owned().named(|| "dup(credentials)"));
    let credentials = credentials.transpose().map_err(cannot("cannot pass the credentials on"))?;
    let mut running = child.into_running(task, plumbing, cleanup, cancel, git)?;
    running.subreaper = subreaper;
    running.credentials = credentials;
    running.published = published;
    running.agent = agent;
    supervise::supervise(running).map_err(|error| match error {
        // Some hosts allow the namespace and then refuse the calls it is needed for (AppArmor on Ubuntu 24.04).
        NotStarted::Step(failure) if namespaces && is_about_namespaces(&failure) => {
            namespaces_fault(failure.error)
        }
        NotStarted::Step(failure) if failure.part == SetupPart::Network => {
            LaunchError::NoCapture(failure.error)
        }
        NotStarted::Step(failure) if failure.part == SetupPart::SystemView => {
            LaunchError::NeedsNewChild
        }
        error => LaunchError::Problem(supervise::explain_not_started(error, plan)),
    })
}

/// Tells a refusal of namespaces from a host that has none left. Only a refusal may end in a weaker tier: whatever uses up
/// processes or namespaces for a moment, another run for example, would choose the tier of this one.
fn namespaces_fault(error: CallError) -> LaunchError {
    let is_out = match error.errno {
        // SRCH: the child was killed before it had its ids.
        Errno::AGAIN | Errno::NOMEM | Errno::BUSY | Errno::MFILE | Errno::NFILE | Errno::SRCH => {
            true
        }
        Errno::NOSPC => !are_namespaces_forbidden(),
        _ => false,
    };
    if is_out { LaunchError::NoRoom(error) } else { LaunchError::NoNamespaces(error) }
}

/// Returns true if the administrator allows no namespaces of some kind, by a maximum number of 0.
fn are_namespaces_forbidden() -> bool {
    ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"].iter().any(|kind| {
        let max = read_kernel_file(format!("/proc/sys/user/max_{kind}_namespaces"));
        max.is_ok_and(|max| max.trim() == "0")
    })
}

/// Returns true if a step failed that only a host without usable namespaces refuses.
fn is_about_namespaces(failure: &Failure) -> bool {
    let refused =
        matches!(failure.error.errno, Errno::PERM | Errno::ACCESS | Errno::NOSPC | Errno::NOSYS);
    refused && failure.part == SetupPart::Namespaces
}

/// The error for a filesystem that cannot give root's run the workspace under another uid.
fn cannot_translate(error: CallError) -> Problem {
    let no_such_filesystem = error.errno == Errno::INVAL;
    let problem =
        Problem::cannot_build(Code::Owners, "cannot translate owners for the run").cause(error);
    if no_such_filesystem {
        return problem.hint(
            "this kernel cannot translate owners on that filesystem (tmpfs before Linux 6.3, overlayfs, most network \
             filesystems); work on ext4, xfs or btrfs, or run as an ordinary user",
        );
    }
    problem
}

/// The descriptors that will connect the child with its supervisor, before the fork.
struct ChildFds {
    ours: Ends,
    handover: Handover,
}

struct Ends {
    report: OwnedFd,
    control: OwnedFd,
    signals: SignalFd,
}

impl ChildFds {
    fn new(signals: Signals) -> Result<Self, LaunchError> {
        let signals = SignalFd::new(signals).map_err(cannot("cannot listen to signals"))?;
        let pair = || -> Result<_, CallError> {
            let (ours, inside) = channel::pair()?;
            // Clear of 0 to 3, which the program's own descriptors are moved onto.
            let inside = rustix::io::fcntl_dupfd_cloexec(&inside, 4);
            Ok((ours, inside.named(|| "fcntl(F_DUPFD_CLOEXEC)")?))
        };
        let (report, report_inside) = pair().map_err(cannot("cannot talk to the child"))?;
        let (control, control_inside) = pair().map_err(cannot("cannot talk to the child"))?;
        Ok(Self {
            ours: Ends { report, control, signals },
            handover: Handover {
                report: report_inside,
                control: control_inside,
                stdio: [None, None, None],
                channel: None,
            },
        })
    }
}

/// A child without a supervisor yet. Dropping it kills it.
struct UnsupervisedChild {
    pid: i32,
    pidfd: Option<OwnedFd>,
    ends: Option<Ends>,
}

impl UnsupervisedChild {
    fn fork(
        wires: ChildFds,
        kinds: Namespaces,
        cgroup: Option<BorrowedFd<'_>>,
        work: impl FnOnce(Handover),
    ) -> Result<Self, CallError> {
        let ChildFds { ours, handover } = wires;
        match ringfence_sys::fork_into(kinds, cgroup)? {
            Forked::Child => {
                // Close the parent's ends in the child: their closing is how the child learns that the parent died.
                drop(ours);
                work(handover);
                ringfence_sys::exit_now(0)
            }
            Forked::Parent { pid, pidfd } => Ok(Self { pid, pidfd: Some(pidfd), ends: Some(ours) }),
        }
    }

    /// Writes the id maps, which the child waits for; then both continue in parallel.
    fn take_identity(&self, identity: &Identity) -> Result<(), LaunchError> {
        let control = self.control()?;
        identity::write_maps(self.pid, identity)
            .and_then(|()| channel::send(control, &Message::Go))
            .map_err(namespaces_fault)
    }

    fn control(&self) -> Result<&OwnedFd, LaunchError> {
        let ends = self.ends.as_ref();
        ends.map(|ends| &ends.control).ok_or_else(|| no_child().into())
    }

    fn into_running<'a>(
        mut self,
        task: &Task<'a>,
        plumbing: StdioPumps,
        cleanup: Cleanup,
        cancel: Option<OwnedFd>,
        git: GitWatch,
    ) -> Result<Running<'a>, LaunchError> {
        let (Some(pidfd), Some(ends)) = (self.pidfd.take(), self.ends.take()) else {
            return Err(no_child().into());
        };
        let Ends { report, control, signals } = ends;
        Ok(Running {
            plan: task.plan,
            registry: task.registry,
            git,
            pid: self.pid,
            pidfd,
            subreaper: None,
            report,
            control,
            signals,
            plumbing,
            cleanup,
            cancel,
            credentials: None,
            agent: None,
            published: Vec::new(),
        })
    }
}

fn no_child() -> Problem {
    Problem::internal(Code::Launch, "no child to supervise")
}

impl Drop for UnsupervisedChild {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
            let _ = ringfence_sys::reap_pid(self.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_namespaces_allows_a_weaker_plan() {
        let fault = |errno| namespaces_fault(CallError::new("clone3", errno));
        for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL, Errno::USERS] {
            assert!(matches!(fault(errno), LaunchError::NoNamespaces(_)), "{errno:?}");
        }
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::BUSY, Errno::MFILE, Errno::NFILE] {
            assert!(matches!(fault(errno), LaunchError::NoRoom(_)), "{errno:?}");
        }
        let is_refusal = matches!(fault(Errno::NOSPC), LaunchError::NoNamespaces(_));
        assert_eq!(is_refusal, are_namespaces_forbidden());
    }
}

//! Supervises one run from its first step to the death of its last process. One thread, one poll.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_plan::{NetworkListener, NetworkWay, Plan};
use ringfence_spec::{Code, Connection, Denial, Problem, Span, Tier};
use ringfence_sys::{Budget, CallError, Ended, Interrupter, SignalFd};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::cgroup::{Counts, Leaf};
use crate::channel::{self, Failure, Message, SetupPart};
use crate::gitfiles;
use crate::gitwatch::{Budgets, GitWatch, SetAside};
use crate::janitor::{Cleanup, Janitor, Scratch};
use crate::network::Capture;
use crate::proc;
use crate::registry::Registry;
use crate::seccomp_notify::Listener;
use crate::stdin_pump::StdinPump;
use crate::stdio::{Output, Pump, StdioPumps};
use crate::subreaper::Subreaper;
use crate::terminal::Terminal;
use crate::watchdog::{ExceededLimit, RunTree, Watchdog};

/// Messages of a child that are read after its death.
const LAST_MESSAGES_MAX: usize = 64;

/// Time that a signal from the caller waits for a program that is about to start.
const START_TIMEOUT: Duration = Duration::from_millis(500);

/// A run younger than this has no janitor: starting one costs a tenth of a short run's time.
const JANITOR_AFTER: Duration = Duration::from_millis(20);

/// Time that a call of the supervisor may wait for what the run holds. Well below the 100 ms after which a run that passed its deadline
/// is dead.
const RUN_WAIT_MAX: Duration = Duration::from_millis(20);

/// Maximum pause between two checks of the watchdog, however long they take.
const WATCH_REST_MAX: Duration = Duration::from_millis(500);

/// Maximum time of the setup; a longer one hangs on something, such as a dead network filesystem.
const SETUP_MAX: Duration = Duration::from_secs(30);

/// Minimum time allowed for the setup on a loaded machine, however short the program's own limit.
const SETUP_MIN: Duration = Duration::from_secs(5);

/// Interval in which the dead of a run without a pid namespace are reaped if nothing else is watched.
const REAP_INTERVAL: Duration = Duration::from_millis(500);

/// Gap of a run whose processes could not all be ended.
const SURVIVORS: &str = "processes of the run live on: they could not be ended in time";

/// Time that output of a stopped run waits for its reader.
const DRAIN_AFTER_STOP: Duration = Duration::from_secs(1);

/// Time between a forwarded signal and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// Bounds of the check of a run's files: the largest index of a public repository, and as many entries as a second
/// allows.
const REPORT_MAX: Duration = Duration::from_secs(1);
const REPORT_ENTRIES_MAX: u32 = 100_000;
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Reason that a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The wall clock.
    Wall,
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// Bytes added to disk.
    Disk,
    /// The caller's signal.
    Caller(i32),
    /// The caller cancelled it.
    Cancelled,
}

/// The program's end, if it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Together with its whole namespace.
    Swept,
}

/// Everything known about a run after its last process is dead.
#[derive(Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The program's end.
    pub ending: Ending,
    /// Reason that the supervisor stopped it, if it did.
    pub stopped: Option<StopReason>,
    /// Error because of which the use of the limit in `stopped` could not be measured, and counted as over it.
    pub unmeasured: Option<String>,
    /// stdout and stderr, where captured.
    #[serde(skip)]
    pub output: Option<(Output, Output)>,
    /// Refusals seen.
    pub denials: Vec<Denial>,
    /// From the program's start to the end of the last process.
    pub wall: Duration,
    /// CPU time of the whole tree.
    pub cpu: Duration,
    /// Highest memory use.
    pub memory_peak_bytes: Option<u64>,
    /// Kernel kills for memory.
    pub oom_kills: u64,
    /// Forks the kernel refused.
    pub forks_refused: u64,
    /// Names that appeared in the workspace though policy protects them.
    pub protected_created: Vec<String>,
    /// Entries that were moved out of the way of the host's git.
    pub set_aside: Vec<SetAside>,
    /// Connections made and refused.
    pub connections: Vec<Connection>,
    /// Checks that could not be made after the run, one sentence each.
    pub gaps: Vec<String>,
    /// The stream whose bytes did not reach the caller, and the reason.
    pub output_lost: Option<String>,
    #[serde(skip)]
    /// The root of its own filesystem, if it had one: its files can still be read.
    pub root: Option<OwnedFd>,
}

/// A launched child and its resources.
pub(crate) struct Running<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) registry: &'a Registry,
    pub(crate) git: GitWatch,
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    /// Where it has no pid namespace.
    pub(crate) subreaper: Option<Subreaper>,
    pub(crate) report: OwnedFd,
    pub(crate) control: OwnedFd,
    pub(crate) signals: SignalFd,
    pub(crate) plumbing: StdioPumps,
    pub(crate) cleanup: Cleanup,
    /// The peer closes its end of this to cancel the run.
    pub(crate) cancel: Option<OwnedFd>,
    /// For the network helper.
    pub(crate) credentials: Option<OwnedFd>,
    /// A connection to the user's SSH agent, for the network helper.
    pub(crate) agent: Option<OwnedFd>,
    /// Listeners on the host that lead to ports of the run.
    pub(crate) published: Vec<(NetworkListener, OwnedFd)>,
}

/// Reason that a run did not start.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// A step failed.
    Step(Failure),
    /// The supervisor failed.
    Supervisor(CallError),
    /// Setup took too long.
    SetupTimeout,
    /// The caller ended it by this signal before the program began.
    Interrupted(i32),
}

impl From<CallError> for NotStarted {
    fn from(error: CallError) -> Self {
        Self::Supervisor(error)
    }
}

struct Supervisor<'a> {
    run: Running<'a>,
    watchdog: Watchdog,
    listener: Option<Listener>,
    terminal: Option<Terminal>,
    capture: Option<Capture>,
    root_dev: Option<u64>,
    launched: Instant,
    started: Option<Instant>,
    report_open: bool,
    control_open: bool,
    listener_open: bool,
    failure: Option<Failure>,
    ended: Option<Ended>,
    stopped: Option<StopReason>,
    kill_at: Option<Instant>,
    look_at: Option<Instant>,
    buffer: Vec<u8>,
    janitor: Option<Janitor>,
    janitor_at: Option<Instant>,
}

/// The descriptor that an entry of the poll list belongs to.
#[derive(Clone, Copy)]
enum Source {
    Death,
    Report,
    Control,
    Signals,
    Cancel,
    Oom,
    Listener,
    Network,
    Master,
    Stdin,
    Stdout,
    StdinPipe,
    Pump(usize),
    Capture(usize),
}

/// Supervises until every process of the run is dead.
pub(crate) fn supervise(mut run: Running<'_>) -> Result<Finished, NotStarted> {
    let capture = redirected_network(&mut run).map_err(NotStarted::Supervisor)?;
    Supervisor::new(run, capture).work()
}

/// The network of a run without a namespace of its own. Others come with their listeners.
fn redirected_network(run: &mut Running<'_>) -> Result<Option<Capture>, CallError> {
    let Some(plan) = run.plan.network.as_ref().filter(|n| n.way == NetworkWay::Redirected) else {
        return Ok(None);
    };
    let identity = run.plan.identity;
    let is_root = rustix::process::geteuid().is_root();
    let user = is_root.then_some((identity.host_uid, identity.host_gid));
    Capture::redirected(plan.clone(), user, run.credentials.take()).map(Some)
}

impl<'a> Supervisor<'a> {
    fn new(run: Running<'a>, capture: Option<Capture>) -> Self {
        let plan = run.plan;
        let has_cgroup = plan.cgroup.is_some();
        let private = run.cleanup.scratch.as_ref().map(Scratch::dir);
        Self {
            watchdog: Watchdog::new(
                &plan.limits,
                &plan.disk_roots,
                private,
                run.git.began().clone(),
                has_cgroup,
            ),
            listener: None,
            terminal: None,
            capture,
            root_dev: None,
            launched: Instant::now(),
            started: None,
            report_open: true,
            control_open: true,
            listener_open: true,
            failure: None,
            ended: None,
            stopped: None,
            kill_at: None,
            look_at: None,
            buffer: Vec::new(),
            janitor: None,
            janitor_at: Some(Instant::now() + JANITOR_AFTER),
            run,
        }
    }

    fn work(mut self) -> Result<Finished, NotStarted> {
        match self.watch().and_then(|()| self.hear_last()) {
            Ok(()) => self.finish(),
            Err(error) => {
                // Never leave a run unsupervised.
                self.kill();
                let _ = ringfence_sys::reap_pid(self.run.pid);
                self.kill_detached();
                Err(error)
            }
        }
    }

    fn watch(&mut self) -> Result<(), NotStarted> {
        let interrupter = Interrupter::new()?;
        loop {
            let (sources, ready) = self.wait()?;
            // Until the next wait: duplicates of the run's sockets are closed, and its memory and descriptors looked at.
            let _interruptions = interrupter.every(RUN_WAIT_MAX);
            let mut dead = false;
            let mut network = false;
            let mut terminal = [PollFlags::empty(); 3];
            for (source, flags) in sources.into_iter().zip(ready) {
                if flags.is_empty() {
                    continue;
                }
                match source {
                    Source::Death => dead = true,
                    Source::Report => self.hear_report()?,
                    Source::Control => self.hear_control(),
                    Source::Signals => self.hear_signals()?,
                    Source::Cancel => {
                        self.run.cancel = None;
                        self.stop(StopReason::Cancelled);
                    }
                    Source::Oom => self.stop(StopReason::Memory),
                    Source::Listener => self.answer(flags),
                    Source::Network => network = true,
                    Source::Master => terminal[0] = flags,
                    Source::Stdin => terminal[1] = flags,
                    Source::Stdout => terminal[2] = flags,
                    Source::Pump(i) => self.run.plumbing.pumps[i].step(),
                    Source::StdinPipe => {
                        self.run.plumbing.stdin.iter_mut().for_each(StdinPump::step);
                    }
                    Source::Capture(i) => {
                        self.run.plumbing.captures[i].step(&mut self.buffer);
                    }
                }
            }
            if let Some(t) = &mut self.terminal {
                t.step(terminal);
                if t.take_hung_up() {
                    self.pass_on(Signal::HUP.as_raw());
                }
            }
            if network && let Some(capture) = &mut self.capture {
                capture.step();
            }
            if dead {
                return Ok(());
            }
            self.check_time()?;
        }
    }

    /// Waits for any event, at most until the next deadline.
    fn wait(&self) -> Result<(Vec<Source>, Vec<PollFlags>), NotStarted> {
        let mut sources = vec![Source::Death, Source::Signals];
        let mut fds = vec![
            PollFd::new(&self.run.pidfd, PollFlags::IN),
            PollFd::new(&self.run.signals, PollFlags::IN),
        ];
        if let Some(cancel) = &self.run.cancel {
            sources.push(Source::Cancel);
            fds.push(PollFd::new(cancel, PollFlags::IN));
        }
        if self.report_open {
            sources.push(Source::Report);
            fds.push(PollFd::new(&self.run.report, PollFlags::IN));
        }
        if self.control_open {
            sources.push(Source::Control);
            fds.push(PollFd::new(&self.run.control, PollFlags::IN));
        }
        if let Some(event) = self.run.cleanup.leaf.as_ref().and_then(Leaf::oom_event)
            && self.stopped.is_none()
        {
            sources.push(Source::Oom);
            fds.push(PollFd::from_borrowed_fd(event, PollFlags::IN));
        }
        if let Some(listener) = self.listener.as_ref().filter(|_| self.listener_open) {
            sources.push(Source::Listener);
            fds.push(PollFd::new(listener.fd(), PollFlags::IN));
        }
        for fd in self.capture.iter().flat_map(Capture::fds) {
            sources.push(Source::Network);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
        if let Some(terminal) = &self.terminal {
            let [master, input, output] = terminal.wants();
            let wanted = [
                (Source::Master, terminal.master().as_fd(), master),
                (Source::Stdin, stdin, input),
                (Source::Stdout, stdout, output),
            ];
            for (source, fd, flags) in wanted {
                if !flags.is_empty() {
                    sources.push(source);
                    fds.push(PollFd::from_borrowed_fd(fd, flags));
                }
            }
        }
        if let Some((fd, flags)) = self.run.plumbing.stdin.as_ref().and_then(StdinPump::wants) {
            sources.push(Source::StdinPipe);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        for (i, pump) in self.run.plumbing.pumps.iter().enumerate() {
            if let Some((fd, flags)) = pump.wants() {
                sources.push(Source::Pump(i));
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        for (i, capture) in self.run.plumbing.captures.iter().enumerate() {
            if let Some(fd) = &capture.from {
                sources.push(Source::Capture(i));
                fds.push(PollFd::new(fd, PollFlags::IN));
            }
        }
        let timeout = self.next_due().map(ringfence_sys::time_until);
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(CallError::new("poll", errno).into()),
        }
        let ready = fds.iter().map(PollFd::revents).collect();
        Ok((sources, ready))
    }

    fn deadline(&self) -> Option<Instant> {
        match (self.started, self.run.plan.limits.timeout) {
            (Some(started), Some(timeout)) => Some(started + timeout.duration()),
            (None, timeout) => Some(self.launched + setup_max(timeout)),
            (Some(_), None) => None,
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let deadline = self.deadline().filter(|_| self.stopped.is_none());
        let network = self.capture.as_ref().and_then(Capture::due);
        let all = [deadline, self.kill_at, self.look_at, self.janitor_at, network];
        let held_back = self.run.plumbing.pumps.iter().filter_map(Pump::due);
        all.into_iter().flatten().chain(held_back).min()
    }

    fn check_time(&mut self) -> Result<(), NotStarted> {
        let now = Instant::now();
        for pump in &mut self.run.plumbing.pumps {
            pump.check_time(now);
        }
        if self.janitor_at.is_some_and(|at| now >= at) {
            self.call_janitor();
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.kill();
        }
        if self.stopped.is_none() && self.deadline().is_some_and(|at| now >= at) {
            if self.started.is_none() {
                return Err(NotStarted::SetupTimeout);
            }
            self.stop(StopReason::Wall);
        }
        if let Some(capture) = &mut self.capture {
            capture.look(now);
        }
        if self.look_at.is_some_and(|at| now >= at) {
            if self.stopped.is_none()
                && let Some(passed) = self.look_at_limits()
            {
                self.stop(match passed {
                    ExceededLimit::Cpu => StopReason::Cpu,
                    ExceededLimit::Memory => StopReason::Memory,
                    ExceededLimit::Disk => StopReason::Disk,
                });
            }
            // A check costs more the larger the tree: pause nine times as long as it took, up to a bound.
            let rest = (now.elapsed() * 9).min(WATCH_REST_MAX);
            self.look_at = self.look_interval().map(|every| Instant::now() + every.max(rest));
        }
        Ok(())
    }

    fn hear_report(&mut self) -> Result<(), NotStarted> {
        match channel::receive(&self.run.report) {
            Ok(Some(Message::Root(fd))) => {
                self.root_dev = rustix::fs::fstat(&fd).ok().map(|s| s.st_dev);
                self.watchdog.set_scratch(fd);
            }
            Ok(Some(Message::Terminal(master))) => {
                self.terminal = Some(Terminal::take_over(master)?);
            }
            Ok(Some(Message::Listener(fd))) => {
                if let Some(filter) = &self.run.plan.seccomp {
                    let sockets = self.run.plan.sockets.clone();
                    let identity = self.run.plan.identity;
                    let connect_as =
                        identity.disk_owner.map(|_| (identity.host_uid, identity.host_gid));
                    self.listener =
                        Some(Listener::new(fd, filter.spec, self.root_dev, sockets, connect_as));
                }
            }
            Ok(Some(Message::Network(listeners))) => {
                if let Some(plan) = &self.run.plan.network {
                    let present = plan.listeners.iter().copied().zip(listeners);
                    let present = present.filter_map(|(listener, fd)| Some((listener, fd?)));
                    let present = present.chain(std::mem::take(&mut self.run.published));
                    let identity = self.run.plan.identity;
                    let user = identity.disk_owner.map(|_| (identity.host_uid, identity.host_gid));
                    let credentials = self.run.credentials.take();
                    let agent = self.run.agent.take();
                    let capture = Capture::new(plan.clone(), present.collect(), user, credentials);
                    self.capture = Some(capture.with_agent(agent));
                }
            }
            Ok(Some(Message::Failed(failure))) => self.failure = Some(failure),
            Ok(Some(_)) => {}
            // An invalid message, or one whose descriptor did not arrive: without it the run would not be supervised.
            Err(error) => {
                self.report_open = false;
                return Err(error.into());
            }
            // Closed by exec, or by the death of a child that had reported its failure.
            Ok(None) => {
                self.report_open = false;
                if self.failure.is_none() && self.stopped.is_none() {
                    self.started = Some(Instant::now());
                    self.look_at = self.look_interval().map(|every| Instant::now() + every);
                    // Now, while the program runs: it delays neither its start nor its end.
                    if let Some(leaf) = &self.run.cleanup.leaf {
                        leaf.sweep_neighbours_sometimes();
                    }
                }
            }
        }
        Ok(())
    }

    fn hear_control(&mut self) {
        match channel::receive(&self.run.control) {
            Ok(Some(Message::Ended(ended))) => self.ended = Some(ended),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => self.control_open = false,
        }
    }

    fn hear_signals(&mut self) -> Result<(), CallError> {
        while let Some(number) = self.run.signals.next()? {
            if number == Signal::WINCH.as_raw() {
                if let Some(terminal) = &mut self.terminal {
                    terminal.resize();
                }
                continue;
            }
            self.pass_on(number);
        }
        Ok(())
    }

    /// Forwards a signal of the caller's to the program. The second signal kills.
    fn pass_on(&mut self, number: i32) {
        // The program may have started, and its first messages arrived, before the report socket closes: init closes it
        // a moment later than the program itself.
        let until = Instant::now() + START_TIMEOUT;
        while self.report_open
            && Instant::now() < until
            && ringfence_sys::ready_by(&self.run.report, PollFlags::IN, until).unwrap_or(false)
        {
            if self.hear_report().is_err() {
                break;
            }
        }
        if self.started.is_none() {
            // There is no program yet to handle the signal.
            self.stopped = Some(StopReason::Caller(number));
            self.kill();
            return;
        }
        if self.stopped.is_some() {
            self.kill();
            return;
        }
        let interrupt = number == Signal::INT.as_raw();
        if self.plan_has_init() {
            let _ = channel::send(&self.run.control, &Message::Signal(number));
        } else if let (Some(pid), Some(signal)) =
            (Pid::from_raw(self.run.pid), Signal::from_named_raw(number))
        {
            let _ = rustix::process::kill_process_group(pid, signal);
        }
        self.stopped = Some(StopReason::Caller(number));
        // Ctrl-C may be handled inside and the program go on; the other signals mean the end.
        if interrupt {
            self.stopped = None;
        } else {
            self.kill_at = Some(Instant::now() + GRACE);
        }
    }

    /// Starts a process that outlives this one. Not for very short runs: later runs clean up after those.
    fn call_janitor(&mut self) {
        if self.janitor_at.take().is_some() {
            // If it cannot be started, later runs clean up too.
            self.janitor = Janitor::start(&mut self.run.cleanup, &self.run.pidfd).ok().flatten();
        }
    }

    fn answer(&mut self, flags: PollFlags) {
        let threads = self.listener.as_ref().is_some_and(Listener::starts_threads);
        if flags.contains(PollFlags::IN) && threads {
            // An answer may start a thread, and a process with threads does not fork.
            self.call_janitor();
        }
        let Some(listener) = &mut self.listener else { return };
        let answered =
            flags.contains(PollFlags::IN) && listener.step(self.capture.as_mut()).is_ok();
        if !answered {
            // HUP: no process is left under this filter, and no call will come. The denials are kept for the end.
            self.listener_open = false;
        }
    }

    fn stop(&mut self, reason: StopReason) {
        if self.stopped.is_none() {
            self.stopped = Some(reason);
            self.kill();
        }
    }

    /// Returns true if the run's first process is PID 1 of a namespace of its own.
    fn plan_has_init(&self) -> bool {
        self.run.plan.tier == Tier::Namespaces
    }

    /// Time until the run is looked at again: its limits, or its dead.
    fn look_interval(&self) -> Option<Duration> {
        let dead = self.run.subreaper.as_ref().map(|_| REAP_INTERVAL);
        self.watchdog.interval().or(dead)
    }

    /// Reaps the dead of a run without a pid namespace, then looks at the limits.
    fn look_at_limits(&mut self) -> Option<ExceededLimit> {
        let helpers = self.helpers();
        let run = match &self.run.subreaper {
            Some(subreaper) => {
                for reaped in subreaper.reap_dead(self.run.pid, &helpers) {
                    self.watchdog.add_reaped(&reaped);
                }
                RunTree::Subreaper { subreaper, helpers: &helpers }
            }
            None => RunTree::Init(self.run.pid),
        };
        self.watchdog.look(self.run.cleanup.leaf.as_ref(), run)
    }

    /// Sends SIGKILL to everything: with a pid namespace one signal suffices, without one the tree is walked.
    fn kill(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.run.pidfd, Signal::KILL);
        if !self.plan_has_init() {
            kill_tree(self.run.pid);
        }
    }

    /// Reads what the child sent at the same instant as it died.
    fn hear_last(&mut self) -> Result<(), NotStarted> {
        for _ in 0..LAST_MESSAGES_MAX {
            if self.report_open && ringfence_sys::is_ready(&self.run.report, PollFlags::IN) {
                self.hear_report()?;
            } else if self.control_open
                && self.ended.is_none()
                && ringfence_sys::is_ready(&self.run.control, PollFlags::IN)
            {
                self.hear_control();
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Kills every process of a run without a pid namespace. Returns false if one lives on.
    fn kill_detached(&self) -> bool {
        self.run.subreaper.as_ref().is_none_or(|subreaper| {
            let interrupter = Interrupter::new().ok();
            let _interruptions = interrupter.as_ref().map(|timer| timer.every(RUN_WAIT_MAX));
            subreaper.end(&self.helpers())
        })
    }

    /// Processes that this one started for the run.
    fn helpers(&self) -> Vec<i32> {
        let janitor = self.janitor.as_ref().map(Janitor::pid);
        let helper = self.capture.as_ref().and_then(Capture::helper_pid);
        janitor.into_iter().chain(helper).collect()
    }

    fn finish(mut self) -> Result<Finished, NotStarted> {
        let reaped = ringfence_sys::reap_pid(self.run.pid)?;
        let all_ended = self.kill_detached();
        // Before anything else is opened: this closes what the run left in the listener's hands.
        let mut denials = self.listener.take().map(Listener::into_denials).unwrap_or_default();
        let wall = self.started.map_or(Duration::ZERO, |s| s.elapsed());
        match (self.stopped, self.started) {
            (Some(StopReason::Caller(number)), None) => {
                return Err(NotStarted::Interrupted(number));
            }
            (Some(StopReason::Cancelled), None) => {
                return Err(NotStarted::Interrupted(Signal::KILL.as_raw()));
            }
            _ => {}
        }
        if let Some(failure) = self.failure.take() {
            return Err(NotStarted::Step(failure));
        }
        if self.started.is_none() {
            let error =
                CallError::new("the child ended before it could start the program", Errno::CHILD);
            return Err(NotStarted::Supervisor(error));
        }
        self.drain();
        // Of the run's own PID 1 only its word about the program counts.
        let ended =
            if self.plan_has_init() { self.ended } else { self.ended.or(Some(reaped.ended)) };
        let ending = match ended {
            Some(Ended::Exited(code)) => Ending::Exited(code),
            Some(Ended::Signaled(number)) => Ending::Signaled(number),
            None => Ending::Swept,
        };
        // A program that passed its output through and succeeded needs no counts.
        let asked = self.run.plumbing.counts_wanted || ending != Ending::Exited(0);
        let leaf = self.run.cleanup.leaf.as_ref().filter(|_| asked);
        let counts = leaf.map(Leaf::counts).unwrap_or_default();
        let Counts { memory_peak_bytes, oom_kills, forks_refused } = counts;
        let mut captures = self.run.plumbing.captures.drain(..).map(|c| c.output);
        let output = captures.next().zip(captures.next());
        drop(captures);
        let lost = self.run.plumbing.pumps.iter().find_map(Pump::lost);
        let output_lost = lost.map(|(stream, errno)| {
            format!("{stream}: {}", ringfence_sys::errno_name(errno.raw_os_error()))
        });
        let network = self.capture.take().map(Capture::finish).unwrap_or_default();
        denials.extend(network.denials);
        let root = self.watchdog.take_scratch();
        let memory_found = self.watchdog.memory_found();
        let unmeasured = self.watchdog.take_unmeasured();
        let Running { plan, registry, git, cleanup, .. } = self.run;
        let report = git.report(plan, registry, &report_budgets(plan));
        let finished = Finished {
            ending,
            stopped: self.stopped,
            unmeasured,
            output,
            denials,
            wall,
            cpu: reaped.cpu,
            // For a killed tree the kernel reports only its init, which used next to nothing.
            memory_peak_bytes: memory_peak_bytes
                .or(Some(reaped.memory_peak_bytes).max(memory_found)),
            oom_kills,
            forks_refused,
            protected_created: report.created,
            set_aside: report.set_aside,
            gaps: report
                .gaps
                .into_iter()
                .chain(cleanup.hold.gaps())
                .chain(network.gaps)
                .chain((!all_ended).then(|| SURVIVORS.to_owned()))
                .collect(),
            connections: network.connections,
            output_lost,
            root,
        };
        drop(cleanup);
        // Last: until everything above is released, the janitor must be there to do it instead.
        drop(self.janitor);
        Ok(finished)
    }

    /// Reads the output that the program wrote before it died and that is still in the pipes.
    fn drain(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.drain(self.stopped.is_some());
        }
        for capture in &mut self.run.plumbing.captures {
            while capture.from.is_some() {
                let before = capture.output.total_bytes;
                capture.step(&mut self.buffer);
                if capture.output.total_bytes == before {
                    break;
                }
            }
        }
        // A run that was stopped does not wait for a reader that may never come, and no run waits past its time.
        let now = Instant::now();
        let until = match (self.stopped, self.deadline()) {
            (Some(_), _) => Some(now + DRAIN_AFTER_STOP),
            (None, Some(deadline)) => Some(deadline.max(now + DRAIN_AFTER_STOP)),
            (None, None) => None,
        };
        for pump in &mut self.run.plumbing.pumps {
            while pump.has_pending_output() {
                if let Some((fd, flags)) = pump.wants() {
                    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
                    let patience = until.map(ringfence_sys::time_until);
                    if rustix::event::poll(&mut fds, patience.as_ref()) == Ok(0) {
                        pump.lose(Errno::TIMEDOUT);
                        break;
                    }
                }
                pump.step();
            }
        }
    }
}

/// Time limit for building the fence: the run's own, clamped at both ends.
fn setup_max(timeout: Option<Span>) -> Duration {
    timeout.map_or(SETUP_MAX, |timeout| timeout.duration().clamp(SETUP_MIN, SETUP_MAX))
}

/// Bounds of the host's work after a run, whatever the run left: at most a second, or the run's own time if that is
/// less.
fn report_budgets(plan: &Plan) -> Budgets {
    let time = plan.limits.timeout.map_or(REPORT_MAX, |t| t.duration().min(REPORT_MAX));
    let budget = |entries| Budget::new(entries, REPORT_BYTES_MAX, time);
    Budgets {
        indexes: budget(REPORT_ENTRIES_MAX),
        files: budget(gitfiles::ENTRIES_MAX),
        repositories: budget(REPORT_ENTRIES_MAX),
    }
}

/// Kills every process below `root`, until a walk finds none.
fn kill_tree(root: i32) {
    let interrupter = Interrupter::new().ok();
    let _interruptions = interrupter.as_ref().map(|timer| timer.every(RUN_WAIT_MAX));
    for _ in 0..100 {
        let below = proc::tree(root).unwrap_or_else(|_| vec![root]);
        let mut any = false;
        for pid in below.into_iter().filter_map(Pid::from_raw) {
            any |= rustix::process::kill_process(pid, Signal::KILL).is_ok();
        }
        if !any {
            return;
        }
    }
}

/// Explains a failed start to the user.
pub(crate) fn explain_not_started(error: NotStarted, plan: &Plan) -> Problem {
    match error {
        NotStarted::Step(failure) => explain_step(&failure, plan),
        NotStarted::Supervisor(error) => {
            Problem::internal(Code::Supervisor, "cannot supervise the run").cause(error)
        }
        NotStarted::Interrupted(number) => Problem::new(
            ringfence_spec::ProblemKind::Interrupted(u8::try_from(number).unwrap_or(0)),
            Code::Interrupted,
            format!("ended by signal {number} before the program began"),
        ),
        NotStarted::SetupTimeout => Problem::cannot_build(
            Code::SetupTimeout,
            format!("the fence was not up after {} s", setup_max(plan.limits.timeout).as_secs()),
        ),
    }
}

fn explain_step(failure: &Failure, plan: &Plan) -> Problem {
    let command = plan.argv.first().map(|a| a.to_string_lossy().into_owned()).unwrap_or_default();
    if failure.part == SetupPart::Execute {
        let kind = match failure.error.errno {
            Errno::NOENT | Errno::NOTDIR => ringfence_spec::ProblemKind::NotFound,
            _ => ringfence_spec::ProblemKind::Refused,
        };
        let (code, message) = match failure.error.errno {
            Errno::NOENT | Errno::NOTDIR => {
                (Code::CommandNotFound, format!("`{command}` was not found in the run's view"))
            }
            _ => (Code::CommandNotExecutable, format!("`{command}` cannot be executed")),
        };
        return Problem::new(kind, code, message).cause(&failure.error);
    }
    let problem = Problem::cannot_build(
        Code::StepFailed,
        format!("cannot build the fence: {} failed", failure.step),
    )
    .cause(&failure.error);
    if failure.part == SetupPart::Seccomp && failure.error.errno == Errno::BUSY {
        return problem.hint(
            "a fence around this one listens for refused calls already, and there can be one listener; `ringfence batch` \
             needs none",
        );
    }
    if failure.part == SetupPart::Proc && failure.error.errno == Errno::PERM {
        return problem.hint(ringfence_spec::Hint::operator(
            "this host hides parts of /proc, so a new one is refused; pass `--proc none`",
            "to set `proc` to `none`: this host hides parts of /proc, so a new one is refused",
        ));
    }
    problem
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;

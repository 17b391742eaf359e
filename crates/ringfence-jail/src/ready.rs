//! Supervisors that wait for a command with their child's namespaces, view of the host's system files and cgroup made, as
//! the last commands needed them. Each serves one run. The launcher keeps a few, so that a command over MCP or HTTP starts
//! in a fence where only the workspace is missing.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ringfence_sys::{Forked, is_ready};
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal};

use crate::launch::PreforkedChild;
use crate::launcher::{Received, ViewId};
use crate::mounts::MountEvents;

/// Maximum time that one waits. It sees the host's mounts as they were, and costs two processes.
const AGE_MAX: Duration = Duration::from_mins(1);

/// Time without a request and without the end of a run after which another supervisor is made ready.
const QUIET: Duration = Duration::from_millis(3);

/// The same while a run lasts. To enter a cgroup locks all of them for milliseconds on version 1, and a run that ends would
/// wait to remove its own.
const QUIET_BESIDE_RUN: Duration = Duration::from_millis(50);

/// Time that one has to end.
const REAPED_AFTER: Duration = Duration::from_secs(1);

/// Maximum number that wait, whatever the number of processors.
const WAITING_MAX: usize = 4;

/// Number of views in a row that were never seen before after which none is made ready: each command has its own, as with
/// certificates made for it.
const NEW_VIEWS_MAX: usize = 3;

/// Number of views that are remembered.
const VIEWS_MAX: usize = 8;

/// Number of failures in a row after which none is made ready any more: on this host none can be.
const FAILED_MAX: usize = 20;

/// Tells the launcher that a supervisor is ready.
const READY: &[u8] = b"r";

/// One that waits or prepares itself. Dropping it ends it.
struct ReadySupervisor {
    pid: i32,
    socket: OwnedFd,
    view: ViewId,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Preparing,
    Ready,
    /// It failed, or was killed.
    Gone,
}

impl ReadySupervisor {
    fn state(&self) -> State {
        let mut byte = [0u8; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket, &mut byte[..], flags) {
            Ok((1, _)) => State::Ready,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => State::Preparing,
            _ => State::Gone,
        }
    }
}

/// The ready supervisors of one launcher.
pub(crate) struct ReadySupervisors {
    waiting: Vec<ReadySupervisor>,
    /// Sockets of those that have a run. Each closes with its supervisor.
    running: Vec<OwnedFd>,
    /// Time of the last request or end of a run.
    last_event: Instant,
    /// Number to keep: none before the first command.
    n_wanted: usize,
    /// Maximum: one for each processor.
    n_wanted_max: usize,
    /// Number that could not prepare themselves since the last one that served.
    n_failed: usize,
    /// True if some were told to end, and are to be reaped.
    are_ending: bool,
    /// The view of the last command, and the file that has it.
    last: Option<(ViewId, OwnedFd)>,
    /// Views of the last commands, newest last.
    seen: VecDeque<ViewId>,
    /// Number of commands in a row with a view that was not among them.
    n_new_views: usize,
    mounts: Option<MountEvents>,
    /// The process that plans.
    planner: Option<Pid>,
}

impl ReadySupervisors {
    /// For the launcher of its parent process.
    pub(crate) fn new() -> Self {
        let n_processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            n_wanted_max: n_processors.min(WAITING_MAX),
            waiting: Vec::new(),
            running: Vec::new(),
            last_event: Instant::now(),
            n_wanted: 0,
            n_failed: 0,
            are_ending: false,
            last: None,
            seen: VecDeque::new(),
            n_new_views: 0,
            mounts: MountEvents::open().ok(),
            planner: rustix::process::getppid(),
        }
    }

    /// Time after which [`tend`](Self::tend) has something to do.
    pub(crate) fn pause(&self) -> Option<Duration> {
        if self.is_missing() {
            return Some(self.quiet_left());
        }
        if self.are_ending {
            return Some(REAPED_AFTER);
        }
        let oldest = self.waiting.iter().map(|ready| ready.since).min()?;
        Some(AGE_MAX.saturating_sub(oldest.elapsed()))
    }

    /// Sockets that become readable when a run ends.
    pub(crate) fn running(&self) -> &[OwnedFd] {
        &self.running
    }

    /// Time until another may be made ready.
    fn quiet_left(&self) -> Duration {
        let quiet = if self.running.is_empty() { QUIET } else { QUIET_BESIDE_RUN };
        quiet.saturating_sub(self.last_event.elapsed())
    }

    /// Ends those that waited too long, or makes one ready if one is missing. Returns its pid. The caller reaps before.
    pub(crate) fn tend(&mut self) -> Option<i32> {
        let n_running = self.running.len();
        self.running.retain(|socket| !is_ready(socket, PollFlags::IN));
        if self.running.len() < n_running {
            self.last_event = Instant::now();
        }
        self.are_ending = false;
        let n_waiting = self.waiting.len();
        self.waiting.retain(|ready| ready.since.elapsed() < AGE_MAX);
        if self.waiting.len() < n_waiting {
            // No command came for so long: the next one makes others ready.
            self.n_wanted = self.waiting.len();
            self.are_ending = true;
        }
        if !self.is_missing() || !self.quiet_left().is_zero() {
            return None;
        }
        if self.waiting.len() >= self.n_wanted {
            // All of them are for other commands: the oldest makes room.
            self.waiting.remove(0);
            self.are_ending = true;
        }
        self.start()
    }

    /// Returns true if another is to be made ready: there are too few, or none for commands like the last one.
    fn is_missing(&self) -> bool {
        let Some((last, _)) = &self.last else { return false };
        let is_for_last = |ready: &ReadySupervisor| ready.view == *last;
        self.n_wanted > 0
            && (self.waiting.len() < self.n_wanted || !self.waiting.iter().any(is_for_last))
    }

    /// Gives a command to a supervisor that is ready. Returns it if there is none.
    pub(crate) fn hand_over(&mut self, command: Received) -> Option<Received> {
        self.last_event = Instant::now();
        if self.mounts.as_ref().is_none_or(MountEvents::have_come) {
            self.waiting.clear();
        }
        let Some((view, file)) = command.view() else { return Some(command) };
        if self.last.as_ref().is_none_or(|(last, _)| *last != view) {
            self.last = file.try_clone_to_owned().ok().map(|file| (view, file));
        }
        self.remember(view);
        let n_waiting = self.waiting.len();
        self.waiting.retain(|ready| ready.state() != State::Gone);
        self.n_failed += n_waiting - self.waiting.len();
        let can_prepare = self.n_failed < FAILED_MAX && self.n_new_views < NEW_VIEWS_MAX;
        self.n_wanted = if can_prepare { self.n_wanted_max } else { 0 };
        let fits = |r: &ReadySupervisor| r.view == view && r.state() == State::Ready;
        while let Some(at) = self.waiting.iter().position(fits) {
            let ready = self.waiting.remove(at);
            // Takes the byte that `state` left: a socket that is closed with something unread resets its peer.
            let _ = rustix::net::recv(&ready.socket, &mut [0u8; 1][..], RecvFlags::DONTWAIT);
            if command.send_to(&ready.socket).is_ok() {
                self.running.push(ready.socket);
                self.n_failed = 0;
                return None;
            }
        }
        Some(command)
    }

    fn remember(&mut self, view: ViewId) {
        if self.seen.contains(&view) {
            self.n_new_views = 0;
            return;
        }
        self.n_new_views += 1;
        self.seen.push_back(view);
        if self.seen.len() > VIEWS_MAX {
            self.seen.pop_front();
        }
    }

    /// Changes of the host's mounts. What a supervisor waits with keeps a filesystem busy that the host has unmounted.
    pub(crate) fn mounts(&self) -> Option<&MountEvents> {
        self.mounts.as_ref()
    }

    /// Ends those that wait, and returns their pids; others are made ready when the next command has been served.
    pub(crate) fn end_all(&mut self) -> Vec<i32> {
        self.are_ending |= !self.waiting.is_empty();
        self.last = None;
        self.waiting.drain(..).map(|ready| ready.pid).collect()
    }

    /// Forgets all of them, in a fork: a copy of a socket would keep a supervisor from noticing its launcher's end.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.running.clear();
        self.last = None;
    }

    /// Starts one and returns its pid. If that fails, it is tried again after as much time as after a success.
    fn start(&mut self) -> Option<i32> {
        self.last_event = Instant::now();
        let started = self.try_start();
        self.n_failed += usize::from(started.is_none());
        if self.n_failed >= FAILED_MAX {
            self.n_wanted = 0;
        }
        started
    }

    fn try_start(&mut self) -> Option<i32> {
        let planner = self.planner?;
        let (view, file) = self.last.as_ref()?;
        let (view, file) = (*view, file.try_clone().ok()?);
        let (ours, theirs) = ringfence_sys::packet_pair().ok()?;
        match ringfence_sys::fork().ok()? {
            Forked::Parent { pid, .. } => {
                let since = self.last_event;
                self.waiting.push(ReadySupervisor { pid, socket: ours, view, since });
                Some(pid)
            }
            Forked::Child => {
                self.clear();
                drop(ours);
                let work =
                    std::panic::AssertUnwindSafe(|| wait_and_run(&theirs, planner, view, file));
                let done = std::panic::catch_unwind(work);
                ringfence_sys::exit_now(i32::from(done.is_err()))
            }
        }
    }
}

/// Prepares a child, waits for a command and supervises it. Returns at once if the launcher is gone.
fn wait_and_run(socket: &OwnedFd, planner: Pid, view: ViewId, file: OwnedFd) {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    let Ok(view) = view.read(&file) else { return };
    drop(file);
    let Ok(child) = PreforkedChild::start_ready(planner, view) else { return };
    if rustix::net::send(socket, READY, SendFlags::NOSIGNAL).is_err() {
        return;
    }
    if let Ok(Some(command)) = Received::next(socket) {
        command.run(Some(child));
    }
}

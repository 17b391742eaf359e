//! The launcher: a helper process with one thread that forks a supervisor for every run. A program with threads cannot
//! fork safely, so it sends its plans here. The launcher ends with its caller, and every run ends with the launcher.
//! Decides nothing: plans come ready-made.
//!
//! A command that has no threads yet forks it ([`Launcher::start`]). Any other program executes it
//! ([`Launcher::execute`]): a `ringfence` binary, or itself, if its `main` begins with [`become_launcher_if_asked`].

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_plan::{Plan, SystemView};
use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Forked, Named as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{DumpableBehavior, Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::launch::{LaunchError, Permit, PreforkedChild, Task};
use crate::ready::ReadySupervisors;
use crate::registry::Registry;
use crate::stdio::StdioMode;
use crate::supervise::Finished;

/// Descriptors of a launch request: plan, line, stdin, stdout, stderr, channel, credentials.
const FDS_MAX: usize = 7;

/// Bits of the byte that tells which of the last two are there, and whether ready supervisors are to go first.
const HAS_CHANNEL: u8 = 1;
const HAS_CREDENTIALS: u8 = 2;
const IS_ALONE: u8 = 4;

/// Most that a command's own files may take in memory for its answer to leave before they are freed.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// Maximum size of a request's body: the run's name, its view of the host and the state directory.
const BODY_BYTES_MAX: usize = 8192;

/// Maximum size of a supervisor's report. Real ones are far smaller, also those of hostile runs: denials, connections and files
/// set aside are bounded in number and length, and output is not part of it.
const REPORT_BYTES_MAX: u64 = 16 << 20;

/// Name under which a program is executed as a launcher.
const LAUNCHER_NAME: &str = "ringfence-launcher";

/// The first packet of an executed launcher. Plans have no schema of their own on the wire: caller and launcher must be
/// of the same version.
const GREETING: &str = concat!("ringfence-launcher ", env!("CARGO_PKG_VERSION"), " 1");

/// Time an executed launcher has to greet.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// The launcher's handle. Dropping it ends the launcher and every run.
#[derive(Debug)]
pub struct Launcher {
    socket: Option<OwnedFd>,
    pid: i32,
}

/// Becomes the launcher of the process that executed this program under that name, and exits when that process ends.
/// Returns at once in every other case. First in `main`: the launcher must have no threads.
pub fn become_launcher_if_asked() {
    if std::env::args_os().next().is_none_or(|name| name != LAUNCHER_NAME) {
        return;
    }
    let served = std::panic::catch_unwind(|| {
        // The socket is descriptor 0, which runs must not inherit.
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        rustix::net::send(&socket, GREETING.as_bytes(), rustix::net::SendFlags::NOSIGNAL)?;
        serve(&socket);
        Ok::<_, Errno>(())
    });
    ringfence_sys::exit_now(i32::from(!matches!(served, Ok(Ok(())))))
}

/// A request to launch one run.
#[derive(Clone, Copy, Debug)]
pub struct LaunchRequest<'a> {
    /// The plan to execute.
    pub plan: &'a Plan,
    /// Directory with the records of placeholders.
    pub state: &'a Path,
    /// Its name on this host while it lasts.
    pub name: &'a str,
    /// Its stdin, stdout and stderr.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Becomes descriptor 3 of a program that talks to its caller.
    pub channel: Option<BorrowedFd<'a>>,
    /// A memory file for the network helper.
    pub credentials: Option<BorrowedFd<'a>>,
    /// True if no supervisor may wait beside it: they hold namespaces of which the host gives only so many.
    pub is_alone: bool,
}

/// A launched run. Dropping it ends the run.
#[derive(Debug)]
pub struct Launched {
    line: OwnedFd,
}

/// Result of a run, from its supervisor.
#[derive(Debug, Serialize, Deserialize)]
enum RunReport {
    Finished(Box<Finished>),
    NoNamespaces { call: String, errno: i32 },
    NoRoom { call: String, errno: i32 },
    NoCapture { call: String, errno: i32 },
    Problem(Box<Problem>),
}

impl Launcher {
    /// Forks one. The calling process must have one thread.
    pub fn start() -> Result<Self, Problem> {
        let cannot =
            |e: CallError| Problem::internal(Code::Launcher, "cannot start the launcher").cause(e);
        let n_threads =
            ringfence_sys::list_kernel_directory("/proc/self/task").map_or(1, |list| list.len());
        if n_threads > 1 {
            return Err(Problem::internal(
                Code::LauncherTooLate,
                format!("the launcher must be started before there are threads, and there are {n_threads}"),
            )
            .hint("begin `main` with `ringfence_engine::init()`, or name an installed `ringfence` by `Builder::launcher_program`"));
        }
        let (ours, theirs) = ringfence_sys::packet_pair().map_err(cannot)?;
        match ringfence_sys::fork().map_err(cannot)? {
            Forked::Parent { pid, .. } => Ok(Self { socket: Some(ours), pid }),
            Forked::Child => {
                drop(ours);
                let work = std::panic::AssertUnwindSafe(|| serve(&theirs));
                let done = std::panic::catch_unwind(work);
                ringfence_sys::exit_now(i32::from(done.is_err()))
            }
        }
    }

    /// Executes `program`, an absolute path, as the launcher. From a process with any number of threads.
    pub fn execute(program: &Path) -> Result<Self, Problem> {
        use std::os::unix::process::CommandExt as _;
        let cannot = |cause: &dyn std::fmt::Display| {
            Problem::cannot_build(
                Code::Launcher,
                format!("cannot start the launcher `{}`", program.display()),
            )
            .cause(cause)
        };
        if !program.is_absolute() {
            return Err(cannot(&"its path is not absolute"));
        }
        let (ours, theirs) = ringfence_sys::packet_pair().map_err(|e| cannot(&e))?;
        let child = std::process::Command::new(program)
            .arg0(LAUNCHER_NAME)
            // Nothing of the caller's secrets, and nothing that a loader obeys.
            .env_clear()
            .current_dir("/")
            .stdin(theirs)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .map_err(|e| cannot(&e))?;
        let pid = i32::try_from(child.id()).map_err(|e| cannot(&e))?;
        // From here on dropping it ends the process.
        let launcher = Self { socket: Some(ours), pid };
        match launcher.greeting() {
            Ok(greeting) if greeting == GREETING.as_bytes() => Ok(launcher),
            Ok(greeting) => {
                let greeting = String::from_utf8_lossy(&greeting).into_owned();
                launcher.kill();
                Err(cannot(&format!("it says {greeting:?}, and {GREETING:?} is needed"))
                    .hint("use a `ringfence` of the same version as the library"))
            }
            Err(why) => {
                launcher.kill();
                Err(cannot(&why).hint(
                    "name an installed `ringfence`, or a program whose `main` begins with `ringfence_engine::init()`",
                ))
            }
        }
    }

    /// The first packet, if it comes in time.
    fn greeting(&self) -> Result<Vec<u8>, CallError> {
        let gone = || CallError::new("it ended without a greeting", Errno::PIPE);
        let socket = self.socket.as_ref().ok_or_else(gone)?;
        if !ringfence_sys::ready_by(socket, PollFlags::IN, Instant::now() + GREETING_MAX)? {
            return Err(CallError::new("it did not greet in time", Errno::TIMEDOUT));
        }
        let mut greeting = [0; 128];
        let received = rustix::net::recv(socket, &mut greeting[..], RecvFlags::DONTWAIT);
        match received.named(|| "recv")? {
            (0, _) => Err(gone()),
            (n, _) => Ok(greeting[..n].to_owned()),
        }
    }

    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// Launches a run. From any thread.
    pub fn launch(&self, request: &LaunchRequest<'_>) -> Result<Launched, Problem> {
        let cannot =
            |e: CallError| Problem::internal(Code::Launcher, "cannot launch the run").cause(e);
        // Only commands are given to supervisors that are ready.
        let view = if request.channel.is_none() { SystemView::of(request.plan) } else { None };
        let view = view.and_then(|view| postcard::to_allocvec(&view).ok()).unwrap_or_default();
        let id = ViewId::of(&view);
        let plan = crate::plan_transfer::write_behind(view, request.plan).map_err(cannot)?;
        let plan = plan.ok_or_else(|| {
            Problem::cannot_build(Code::PathNotText, "a path of the run is not text")
                .hint("rename the directory, or run it by `ringfence run`")
        })?;
        let (line, theirs) = std::os::unix::net::UnixStream::pair().map_err(|e| {
            Problem::internal(Code::Launcher, "cannot make a line to the run").cause(e)
        })?;
        let (line, theirs) = (OwnedFd::from(line), OwnedFd::from(theirs));
        let gone = || CallError::new("the launcher is gone", Errno::PIPE);
        let socket = self.socket.as_ref().ok_or_else(gone).map_err(cannot)?;
        let packet = Packet {
            name: request.name,
            view: id,
            is_alone: request.is_alone,
            state: request.state,
            plan: plan.as_fd(),
            line: theirs.as_fd(),
            stdio: request.stdio,
            channel: request.channel,
            credentials: request.credentials,
        };
        packet.send(socket).map_err(cannot)?;
        Ok(Launched { line })
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        drop(self.socket.take());
        let _ = ringfence_sys::reap_pid(self.pid);
    }
}

impl Launched {
    /// Becomes readable when the run is over.
    pub fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Ends the run; [`wait`](Self::wait) still returns its result.
    pub fn cancel(&self) {
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Write);
    }

    /// Waits for the end of the run.
    pub fn wait(self) -> Result<Finished, LaunchError> {
        // The first byte may carry the root of a program's own filesystem.
        let mut bytes = vec![0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let flags = RecvFlags::empty();
        let first = ringfence_sys::receive_packet(&self.line, &mut bytes, &mut space, flags);
        let Ok((1, mut root)) = first else {
            return Err(LaunchError::Problem(supervisor_died()));
        };
        let read = std::fs::File::from(self.line).take(REPORT_BYTES_MAX).read_to_end(&mut bytes);
        let known = |errno| crate::channel::errno(errno).unwrap_or(Errno::PROTO);
        let report = read.ok().and_then(|_| postcard::from_bytes::<RunReport>(&bytes).ok());
        match report {
            Some(RunReport::Finished(mut finished)) => {
                finished.root = root.pop();
                Ok(*finished)
            }
            Some(RunReport::NoNamespaces { call, errno }) => {
                Err(LaunchError::NoNamespaces(CallError::new(call, known(errno))))
            }
            Some(RunReport::NoRoom { call, errno }) => {
                Err(LaunchError::NoRoom(CallError::new(call, known(errno))))
            }
            Some(RunReport::NoCapture { call, errno }) => {
                Err(LaunchError::NoCapture(CallError::new(call, known(errno))))
            }
            Some(RunReport::Problem(problem)) => Err(LaunchError::Problem(*problem)),
            None => Err(LaunchError::Problem(supervisor_died())),
        }
    }
}

/// Tells apart what commands see of the host, and their limits: a supervisor that was made ready for one of the same id
/// fits most likely. It compares the plans itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewId {
    hash: u64,
    /// The size of the view, in front of the plan.
    bytes: u32,
}

impl ViewId {
    fn of(view: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(view);
        Self { hash: hasher.finish(), bytes: u32::try_from(view.len()).unwrap_or(0) }
    }

    /// Reads the view that is in front of a plan, and nothing of the plan.
    pub(crate) fn read(self, plan: &OwnedFd) -> Result<SystemView, CallError> {
        crate::plan_transfer::read_part(plan, 0..u64::from(self.bytes))
    }

    fn to_bytes(self) -> Vec<u8> {
        [&self.hash.to_ne_bytes()[..], &self.bytes.to_ne_bytes()].concat()
    }

    /// The id at the beginning of a packet's rest, and what is behind it.
    fn split_from(rest: &[u8]) -> Option<(Self, &[u8])> {
        let (hash, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let id = Self { hash: u64::from_ne_bytes(*hash), bytes: u32::from_ne_bytes(*bytes) };
        Some((id, rest))
    }
}

/// A request as it is sent.
struct Packet<'a> {
    name: &'a str,
    view: ViewId,
    is_alone: bool,
    state: &'a Path,
    plan: BorrowedFd<'a>,
    line: BorrowedFd<'a>,
    stdio: [BorrowedFd<'a>; 3],
    channel: Option<BorrowedFd<'a>>,
    credentials: Option<BorrowedFd<'a>>,
}

impl Packet<'_> {
    fn send(&self, socket: &OwnedFd) -> Result<(), CallError> {
        let [stdin, stdout, stderr] = self.stdio;
        let mut fds = vec![self.plan, self.line, stdin, stdout, stderr];
        fds.extend(self.channel);
        fds.extend(self.credentials);
        let channel = if self.channel.is_some() { HAS_CHANNEL } else { 0 };
        let credentials = if self.credentials.is_some() { HAS_CREDENTIALS } else { 0 };
        let alone = if self.is_alone { IS_ALONE } else { 0 };
        let present = [0, channel | credentials | alone];
        let view = self.view.to_bytes();
        let parts = [
            IoSlice::new(self.name.as_bytes()),
            IoSlice::new(&present),
            IoSlice::new(&view),
            IoSlice::new(self.state.as_os_str().as_bytes()),
        ];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        ringfence_sys::send_packet(socket, &parts, &fds, &mut space)
    }
}

fn supervisor_died() -> Problem {
    let message = "the run's supervisor ended without a word; the run ended with it";
    Problem::internal(Code::SupervisorDied, message)
}

/// The launcher's loop: forks a supervisor for each request, reaps, and terminates all of them at its own end.
fn serve(socket: &OwnedFd) {
    // A Ctrl-C in the caller's terminal is for the caller to handle.
    let _ = rustix::process::setsid();
    if detach_stdio().is_err() || close_all_but(socket).is_err() {
        return;
    }
    let mut supervisors: Vec<i32> = Vec::new();
    let mut ready = ReadySupervisors::new();
    loop {
        let is_asked = has_request(socket, &mut ready);
        while let Ok(Some(reaped)) = ringfence_sys::try_reap_any() {
            supervisors.retain(|pid| *pid != reaped.pid);
        }
        if !is_asked {
            supervisors.extend(ready.tend());
            continue;
        }
        let Ok(Some(received)) = Received::next(socket) else { break };
        if received.is_alone {
            for pid in ready.end_all() {
                let _ = ringfence_sys::reap_pid(pid);
                supervisors.retain(|supervisor| *supervisor != pid);
            }
        }
        let left = if received.is_command() { ready.hand_over(received) } else { Some(received) };
        let Some(received) = left else { continue };
        // If the fork fails, the line closes, and the waiting caller sees that nothing ran.
        match ringfence_sys::fork() {
            Ok(Forked::Parent { pid, .. }) => supervisors.push(pid),
            Ok(Forked::Child) => {
                ready.clear();
                received.run(None);
                ringfence_sys::exit_now(0)
            }
            Err(_) => {}
        }
    }
    ready.clear();
    for pid in supervisors.iter().copied().filter_map(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
    for pid in supervisors {
        let _ = ringfence_sys::reap_pid(pid);
    }
}

/// Waits for a request or the end of the caller, until the ready supervisors are to be tended. Returns false if neither
/// came.
fn has_request(socket: &OwnedFd, ready: &mut ReadySupervisors) -> bool {
    let at_most = ready.pause().and_then(|pause| Timespec::try_from(pause).ok());
    let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
    fds.extend(ready.mounts().map(|mounts| PollFd::new(mounts, PollFlags::PRI)));
    let n_first = fds.len();
    fds.extend(ready.running().iter().map(|run| PollFd::new(run, PollFlags::IN)));
    let is_asked = match rustix::event::poll(&mut fds, at_most.as_ref()) {
        Ok(_) => !fds[0].revents().is_empty(),
        Err(errno) => errno != Errno::INTR,
    };
    if fds[1..n_first].iter().any(|mounts| !mounts.revents().is_empty()) {
        let _ = ready.end_all();
    }
    is_asked
}

/// A launch request as received.
pub(crate) struct Received {
    name: String,
    view: ViewId,
    is_alone: bool,
    state: PathBuf,
    plan: OwnedFd,
    line: OwnedFd,
    stdio: [OwnedFd; 3],
    channel: Option<OwnedFd>,
    credentials: Option<OwnedFd>,
}

impl Received {
    /// The next request; `None` if the caller is gone.
    pub(crate) fn next(socket: &OwnedFd) -> Result<Option<Self>, CallError> {
        let mut body = [0u8; BODY_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let flags = RecvFlags::empty();
        let (received, fds) = ringfence_sys::receive_packet(socket, &mut body, &mut space, flags)?;
        let body = &body[..received];
        let Some(at) = body.iter().position(|b| *b == 0) else { return Ok(None) };
        let mut fds = fds.into_iter();
        let incomplete = || CallError::new("recvmsg", Errno::PROTO);
        let (present, rest) = body[at + 1..].split_first().ok_or_else(incomplete)?;
        let (view, state) = ViewId::split_from(rest).ok_or_else(incomplete)?;
        let mut one = || fds.next().ok_or_else(incomplete);
        Ok(Some(Self {
            name: String::from_utf8_lossy(&body[..at]).into_owned(),
            view,
            is_alone: present & IS_ALONE != 0,
            state: OsStr::from_bytes(state).into(),
            plan: one()?,
            line: one()?,
            stdio: [one()?, one()?, one()?],
            channel: if present & HAS_CHANNEL != 0 { Some(one()?) } else { None },
            credentials: if present & HAS_CREDENTIALS != 0 { Some(one()?) } else { None },
        }))
    }

    /// Returns true for a command: programs talk to their caller.
    fn is_command(&self) -> bool {
        self.channel.is_none()
    }

    /// Host facts it was made with, and the file they come from.
    pub(crate) fn view(&self) -> Option<(ViewId, BorrowedFd<'_>)> {
        (self.view.bytes > 0).then(|| (self.view, self.plan.as_fd()))
    }

    /// Sends it on to a supervisor that is ready.
    pub(crate) fn send_to(&self, socket: &OwnedFd) -> Result<(), CallError> {
        let [stdin, stdout, stderr] = &self.stdio;
        let packet = Packet {
            name: &self.name,
            view: self.view,
            is_alone: self.is_alone,
            state: &self.state,
            plan: self.plan.as_fd(),
            line: self.line.as_fd(),
            stdio: [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            channel: self.channel.as_ref().map(AsFd::as_fd),
            credentials: self.credentials.as_ref().map(AsFd::as_fd),
        };
        packet.send(socket)
    }

    /// Supervises the run to its end, in a process of its own, and reports the result. `child` is one that was made ready.
    pub(crate) fn run(self, child: Option<PreforkedChild>) {
        // SIGTERM, not SIGKILL, so that the run is ended and cleaned up after, however the launcher died.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
        let mut report =
            self.supervise(child).unwrap_or_else(|problem| RunReport::Problem(Box::new(problem)));
        let root = match &mut report {
            RunReport::Finished(finished) => finished.root.take(),
            _ => None,
        };
        // A command's own files are of no use to its caller. A few go with this value, after the report: to free them
        // takes the kernel as long as a short run.
        let is_small =
            |root: &OwnedFd| ringfence_sys::used_bytes(root).is_ok_and(|n| n <= KEPT_BYTES_MAX);
        let root = root.filter(|root| self.channel.is_some() || is_small(root));
        let sent = root.as_ref().filter(|_| self.channel.is_some());
        let Ok(bytes) = postcard::to_allocvec(&report) else { return };
        let Some((first, mut left)) = bytes.split_at_checked(1) else { return };
        let fds: Vec<BorrowedFd<'_>> = sent.iter().map(|root| root.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        if ringfence_sys::send_packet(&self.line, &[IoSlice::new(first)], &fds, &mut space).is_err()
        {
            return;
        }
        while !left.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(&self.line, left)) {
                Ok(n) => left = &left[n..],
                Err(_) => return,
            }
        }
        // Before the root: the caller reads until the line is closed.
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Both);
    }

    fn supervise(&self, child: Option<PreforkedChild>) -> Result<RunReport, Problem> {
        let cannot =
            |e: CallError| Problem::internal(Code::Launcher, "cannot launch the run").cause(e);
        let [stdin, stdout, stderr] = &self.stdio;
        rustix::stdio::dup2_stdin(stdin).named(|| "dup2(0)").map_err(cannot)?;
        rustix::stdio::dup2_stdout(stdout).named(|| "dup2(1)").map_err(cannot)?;
        rustix::stdio::dup2_stderr(stderr).named(|| "dup2(2)").map_err(cannot)?;
        let plan: Plan =
            crate::plan_transfer::read_behind(&self.plan, self.view.bytes).map_err(cannot)?;
        let registry = Registry::new(&self.state);
        let task = Task {
            plan: &plan,
            registry: &registry,
            name: &self.name,
            mode: StdioMode::Given,
            terminal: false,
            channel: self.channel.as_ref().map(AsFd::as_fd),
            credentials: self.credentials.as_ref().map(AsFd::as_fd),
            cancel: Some(self.line.as_fd()),
            permit: Permit::GIVEN,
        };
        let ran = match child.map(|child| child.run(&task)) {
            None => crate::launch::run(&task),
            // Its plan begins otherwise, or the host changed meanwhile: a child forked with it can run it.
            Some(Err(LaunchError::NeedsNewChild)) => {
                // As it was when this process was forked: an ordinary user cannot write the id maps of a child that is
                // not dumpable.
                let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
                crate::launch::run(&task)
            }
            Some(ran) => ran,
        };
        Ok(match ran {
            Ok(finished) => RunReport::Finished(Box::new(finished)),
            Err(LaunchError::NoNamespaces(error)) => RunReport::NoNamespaces {
                call: error.call.clone(),
                errno: error.errno.raw_os_error(),
            },
            Err(LaunchError::NoRoom(error)) => {
                RunReport::NoRoom { call: error.call.clone(), errno: error.errno.raw_os_error() }
            }
            Err(LaunchError::NoCapture(error)) => {
                RunReport::NoCapture { call: error.call.clone(), errno: error.errno.raw_os_error() }
            }
            Err(LaunchError::Problem(problem)) => RunReport::Problem(Box::new(problem)),
            Err(LaunchError::NeedsNewChild) => RunReport::Problem(Box::new(Problem::internal(
                Code::Launch,
                "cannot launch the run",
            ))),
        })
    }
}

/// Closes every other descriptor of the caller's: a copy of another launcher's socket would keep that one from noticing
/// that its caller is gone.
fn close_all_but(socket: &OwnedFd) -> Result<(), CallError> {
    ringfence_sys::close_from_except(3, &mut [socket.as_raw_fd()])
}

/// Replaces the caller's stdin, stdout and stderr: a process that waits for their end would wait for this one.
fn detach_stdio() -> Result<(), CallError> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .named(|| "open(/dev/null)")?;
    rustix::stdio::dup2_stdin(&null).named(|| "dup2(0)")?;
    rustix::stdio::dup2_stdout(&null).named(|| "dup2(1)")?;
    rustix::stdio::dup2_stderr(&null).named(|| "dup2(2)")
}

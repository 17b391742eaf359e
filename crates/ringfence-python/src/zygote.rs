//! The host's side of the zygote: requests workers and their exit status.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_plan::WorkerPlan;
use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Named};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::PipeFlags;
use rustix::process::Signal;
use serde::Deserialize;

use crate::channel::{self, Frame};
use crate::receipt;
use crate::worker::{Ends, Exit, Worker, ZygoteId};
use crate::zygote_keeper::ZygoteKeeper;

/// Time limit for importing large packages.
const START_MAX: Duration = Duration::from_mins(1);

/// Time limit for making a worker, on a machine that makes any progress.
const SPAWN_MAX: Duration = Duration::from_secs(20);

/// Maximum number of workers in one request.
pub(crate) const REQUEST_MAX: usize = channel::FDS_SENT_MAX / 4;

/// A running zygote.
#[derive(Debug)]
pub(crate) struct Zygote {
    channel: OwnedFd,
    /// Modules that were to be preloaded and are missing.
    pub(crate) missing: Vec<String>,
    /// The speed-ups that passed their checks.
    pub(crate) speedups: Vec<String>,
}

/// Priority of making a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkPriority {
    /// To wait for a program.
    Usual,
    /// For a program that waits.
    Hurried,
}

/// A requested worker: the host's ends of its channel and streams, and what it has sent so far.
#[derive(Debug)]
pub(crate) struct PendingWorker {
    pub(crate) channel: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    pub(crate) deadline: Instant,
    /// There is something to read on its channel.
    pub(crate) has_spoken: bool,
    /// Workspace, mount namespace and pidfd.
    given: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
}

/// A frame of the zygote's, after its first.
#[derive(Debug)]
pub(crate) enum ZygoteFrame {
    /// The pids of the workers it forked for a request, in its namespace.
    Born(Vec<u32>),
    /// The end of a worker; `None` if it does not know the worker.
    Exit(u32, Option<Exit>),
}

#[derive(Deserialize)]
struct Hello {
    missing: Vec<String>,
    speedups: Vec<String>,
}

impl Zygote {
    /// Starts a zygote and waits until it has loaded its modules.
    pub(crate) fn start(keeper: &ZygoteKeeper) -> Result<Self, Problem> {
        let cannot = |e: CallError| {
            let problem =
                Problem::cannot_build(Code::Zygote, "cannot start Python behind the fence");
            match keeper.stderr_tail() {
                Some(words) => problem.cause(words),
                None => problem.cause(e),
            }
        };
        let channel = keeper.start_zygote()?;
        let frame = expect(&channel, b'Z', Instant::now() + START_MAX).map_err(cannot)?;
        let hello: Hello = serde_json::from_slice(&frame.body)
            .map_err(|_| cannot(CallError::new("the zygote's first frame", Errno::PROTO)))?;
        Ok(Self { channel, missing: hello.missing, speedups: hello.speedups })
    }

    /// Requests `n` workers, at most [`REQUEST_MAX`]; hurried ones skip their warm-up. Several requests may be pending,
    /// and workers come in any order. The zygote reaps the workers in `dead`, which are dead or dying and whose exit
    /// status is not needed.
    pub(crate) fn ask(
        &self,
        n: usize,
        pace: ForkPriority,
        dead: &[u32],
    ) -> Result<Vec<PendingWorker>, CallError> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).named(|| "pipe2");
        let deadline = Instant::now() + SPAWN_MAX;
        let (mut pending, mut inside) = (Vec::with_capacity(n), Vec::with_capacity(4 * n));
        for _ in 0..n {
            let ((stdin_inside, stdin), (stdout, stdout_inside), (stderr, stderr_inside)) =
                (pipe()?, pipe()?, pipe()?);
            let (channel, channel_inside) = channel::pair()?;
            for fd in [&stdin, &stdout, &stderr] {
                rustix::io::ioctl_fionbio(fd, true).named(|| "ioctl(FIONBIO)")?;
            }
            inside.extend([stdin_inside, stdout_inside, stderr_inside, channel_inside]);
            let (given, listener) = (Vec::new(), None);
            pending.push(PendingWorker {
                channel,
                stdin,
                stdout,
                stderr,
                deadline,
                has_spoken: false,
                given,
                listener,
            });
        }
        let how = match pace {
            ForkPriority::Usual => b"-\0\0",
            ForkPriority::Hurried => b"h\0\0",
        };
        let dead: Vec<u8> = dead.iter().flat_map(|pid| pid.to_ne_bytes()).collect();
        let fds: Vec<BorrowedFd<'_>> = inside.iter().map(AsFd::as_fd).collect();
        channel::send_by(&self.channel, b'S', &[how, &dead], &fds, deadline)?;
        Ok(pending)
    }

    /// Requests one worker, and waits for it.
    pub(crate) fn worker(&self, plan: &WorkerPlan, host_uid: u32) -> Result<Worker, CallError> {
        let mut pending = self.ask(1, ForkPriority::Usual, &[])?;
        expect(&self.channel, b'P', Instant::now() + SPAWN_MAX)?;
        let mut pending = pending.pop().ok_or_else(|| nonsense("no worker was requested"))?;
        loop {
            wait_for_frame(&pending.channel, "waiting for the guest", pending.deadline)?;
            if pending.is_ready(plan)? {
                return pending.fenced(host_uid);
            }
        }
    }

    /// The zygote's next frame, if there is one; an error if it is gone.
    pub(crate) fn next_frame(&self) -> Result<Option<ZygoteFrame>, CallError> {
        let frame = match channel::receive(&self.channel, RecvFlags::DONTWAIT) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Err(CallError::new("the zygote is gone", Errno::PIPE)),
            Err(error) if error.errno == Errno::AGAIN => return Ok(None),
            Err(error) => return Err(error),
        };
        let words = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
        match frame.kind {
            b'P' if frame.body.len() >= 3 => {
                let pids = frame.body[3..].chunks_exact(4);
                let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
                Ok(Some(ZygoteFrame::Born(pids.map(number).collect())))
            }
            b'X' => exit(&words(&frame.body))
                .map(|(pid, exit)| Some(ZygoteFrame::Exit(pid, Some(exit))))
                .ok_or_else(|| nonsense("the zygote sent no exit status")),
            b'N' => words(&frame.body)
                .parse()
                .map(|pid| Some(ZygoteFrame::Exit(pid, None)))
                .map_err(|_| nonsense("the zygote named no worker")),
            _ => Err(nonsense("the zygote sent an unknown frame")),
        }
    }

    /// Requests the exit status of a worker.
    pub(crate) fn ask_exit(&self, pid: u32) -> Result<(), CallError> {
        let deadline = Instant::now() + SPAWN_MAX;
        channel::send_by(&self.channel, b'W', &[pid.to_string().as_bytes()], &[], deadline)
    }
}

#[cfg(test)]
impl Zygote {
    /// A zygote whose other end the test holds.
    pub(crate) fn fake(channel: OwnedFd) -> Self {
        Self { channel, missing: Vec::new(), speedups: Vec::new() }
    }
}

impl AsFd for Zygote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Parses an exit status as the zygote reports it, with the worker's pid.
fn exit(text: &str) -> Option<(u32, Exit)> {
    let mut fields = text.split(' ');
    let pid = fields.next()?.parse().ok()?;
    let exit = Exit {
        status: fields.next()?.parse().ok()?,
        cpu: Duration::from_millis(fields.next()?.parse().ok()?),
        memory_peak_bytes: fields.next()?.parse::<u64>().ok()?.saturating_mul(1024),
    };
    Some((pid, exit))
}

impl PendingWorker {
    /// Reads the frames that are there; true once it waits for a program, fenced by its own account.
    pub(crate) fn is_ready(&mut self, plan: &WorkerPlan) -> Result<bool, CallError> {
        loop {
            let frame = match channel::receive_short(&self.channel) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Err(CallError::new("the guest is gone", Errno::PIPE)),
                Err(error) if error.errno == Errno::AGAIN => return Ok(false),
                Err(error) => return Err(error),
            };
            match frame.kind {
                b'W' if self.given.is_empty() && frame.fds.len() == 3 => self.given = frame.fds,
                b'L' if plan.listener => self.listener = frame.fds.into_iter().next(),
                b'R' if self.given.len() == 3 => return Ok(true),
                _ => return Err(failed(&frame)),
            }
        }
    }

    /// The worker, if it is fenced according to the kernel.
    pub(crate) fn fenced(self, host_uid: u32) -> Result<Worker, CallError> {
        let Self { channel, stdin, stdout, stderr, given, listener, .. } = self;
        let mut given = given.into_iter();
        let (workspace, mounts) = (given.next(), given.next());
        let pidfd = given.next().ok_or_else(|| nonsense("the worker sent no pidfd"))?;
        let (stdin, stdout, stderr) = (Some(stdin), Some(stdout), Some(stderr));
        // The pidfd is the zygote's word: it may be of any process, this one included (`SO_PEERPIDFD`).
        let host_pid = receipt::host_pid(&pidfd)?;
        let checked = receipt::check(host_pid, host_uid);
        if checked.is_err() && receipt::is_inside(host_pid) {
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
        }
        let pid = checked?;
        let ends = Ends { channel, pidfd, stdin, stdout, stderr };
        // From here on, dropping it kills it.
        Ok(Worker { pid, host_pid, zygote: ZygoteId::default(), ends, workspace, mounts, listener })
    }
}

fn nonsense(what: &str) -> CallError {
    CallError::new(what.to_owned(), Errno::PROTO)
}

fn failed(frame: &Frame) -> CallError {
    let words = String::from_utf8_lossy(&frame.body).chars().take(500).collect::<String>();
    CallError::new(format!("the guest failed: {words}"), Errno::PROTO)
}

/// Waits for a frame, or for the end of the process that sends them. `doing` names the error past the deadline.
pub(crate) fn wait_for_frame(
    channel: impl AsFd,
    doing: &'static str,
    deadline: Instant,
) -> Result<(), CallError> {
    let came = ringfence_sys::ready_by(channel, PollFlags::IN, deadline)?;
    if came { Ok(()) } else { Err(CallError::new(doing, Errno::TIMEDOUT)) }
}

/// The next frame, which must be of this kind.
pub(crate) fn expect(channel: &OwnedFd, kind: u8, deadline: Instant) -> Result<Frame, CallError> {
    wait_for_frame(channel, "waiting for the guest", deadline)?;
    match channel::receive(channel, RecvFlags::DONTWAIT)? {
        Some(frame) if frame.kind == kind => Ok(frame),
        Some(frame) => Err(failed(&frame)),
        None => Err(CallError::new("the guest is gone", Errno::PIPE)),
    }
}

#[cfg(test)]
#[path = "zygote_tests.rs"]
mod tests;

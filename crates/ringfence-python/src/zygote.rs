//! The host's side of the zygote: requests workers and their exit status.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_plan::WorkerPlan;
use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Named};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::pipe::PipeFlags;
use serde::Deserialize;

use crate::channel::{self, Frame};
use crate::receipt;
use crate::worker::{Ends, Exit, Worker};
use crate::zygote_keeper::ZygoteKeeper;

/// Time limit for importing large packages.
const START_MAX: Duration = Duration::from_mins(1);

/// Time limit for making a worker, on a machine that makes any progress.
const SPAWN_MAX: Duration = Duration::from_secs(20);

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

/// The process that failed while a worker was made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The zygote: it cannot be used any more.
    Zygote(CallError),
    /// This worker alone.
    Worker(u32, CallError),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Zygote(error) | Failure::Worker(_, error) => error,
        }
    }
}

/// A requested worker: the host's ends of its channel and streams.
#[derive(Debug)]
pub(crate) struct PendingWorker {
    channel: OwnedFd,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    deadline: Instant,
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
            match keeper.last_words() {
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

    /// Requests a worker; a hurried one skips its warm-up. Several may be pending; they come in the order of the
    /// requests. The zygote reaps the workers in `dead`, which are dead or dying and whose exit status is not needed.
    pub(crate) fn ask(&self, pace: ForkPriority, dead: &[u32]) -> Result<PendingWorker, CallError> {
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).named(|| "pipe2");
        let ((stdin_inside, stdin), (stdout, stdout_inside), (stderr, stderr_inside)) =
            (pipe()?, pipe()?, pipe()?);
        let (channel, inside) = channel::pair()?;
        for fd in [&stdin, &stdout, &stderr] {
            rustix::io::ioctl_fionbio(fd, true).named(|| "ioctl(FIONBIO)")?;
        }
        let fds = [&stdin_inside, &stdout_inside, &stderr_inside, &inside].map(AsFd::as_fd);
        let how: &[u8] = match pace {
            ForkPriority::Usual => b"-",
            ForkPriority::Hurried => b"h",
        };
        let dead: Vec<u8> = dead.iter().flat_map(|pid| pid.to_ne_bytes()).collect();
        channel::send(&self.channel, b'S', &[how, &dead], &fds)?;
        Ok(PendingWorker { channel, stdin, stdout, stderr, deadline: Instant::now() + SPAWN_MAX })
    }

    /// The worker requested first, fenced and waiting.
    pub(crate) fn worker(
        &self,
        awaited: PendingWorker,
        plan: &WorkerPlan,
        host_uid: u32,
    ) -> Result<Worker, Failure> {
        let mut born = expect(&self.channel, b'P', awaited.deadline).map_err(Failure::Zygote)?;
        let pid = <[u8; 4]>::try_from(&born.body[..]).ok().map(u32::from_ne_bytes);
        let (Some(pid), Some(pidfd)) = (pid, born.fds.pop()) else {
            return Err(Failure::Zygote(nonsense("the zygote names no worker")));
        };
        fenced(awaited, plan, host_uid, pid, pidfd).map_err(|error| Failure::Worker(pid, error))
    }

    /// Exit status of a worker, as the zygote reports it.
    pub(crate) fn exit_of(&self, pid: u32) -> Option<Exit> {
        let pid = pid.to_string();
        channel::send(&self.channel, b'W', &[pid.as_bytes()], &[]).ok()?;
        let frame = expect(&self.channel, b'X', Instant::now() + SPAWN_MAX).ok()?;
        let text = String::from_utf8(frame.body).ok()?;
        let mut fields = text.split(' ');
        if fields.next()? != pid {
            return None;
        }
        Some(Exit {
            status: fields.next()?.parse().ok()?,
            cpu: Duration::from_millis(fields.next()?.parse().ok()?),
            memory_peak_bytes: fields.next()?.parse::<u64>().ok()?.saturating_mul(1024),
        })
    }
}

/// Receives a worker from its fork until it waits, fenced.
fn fenced(
    awaited: PendingWorker,
    plan: &WorkerPlan,
    host_uid: u32,
    pid: u32,
    pidfd: OwnedFd,
) -> Result<Worker, CallError> {
    let PendingWorker { channel, stdin, stdout, stderr, deadline } = awaited;
    let (stdin, stdout, stderr) = (Some(stdin), Some(stdout), Some(stderr));
    let ends = Ends { channel, pidfd, stdin, stdout, stderr };
    // From here on, dropping `worker` kills it.
    let mut worker =
        Worker { pid, host_pid: 0, ends, workspace: None, mounts: None, listener: None };
    let mut given = expect(&worker.ends.channel, b'W', deadline)?.fds.into_iter();
    (worker.workspace, worker.mounts) = (given.next(), given.next());
    if worker.mounts.is_none() {
        return Err(nonsense("the worker sent no workspace"));
    }
    if plan.listener {
        worker.listener = expect(&worker.ends.channel, b'L', deadline)?.fds.pop();
    }
    expect(&worker.ends.channel, b'R', deadline)?;
    worker.host_pid = receipt::host_pid(&worker.ends.pidfd)?;
    receipt::check(worker.host_pid, host_uid)?;
    Ok(worker)
}

fn nonsense(what: &str) -> CallError {
    CallError::new(what.to_owned(), Errno::PROTO)
}

/// The next frame, which must be of this kind.
pub(crate) fn expect(channel: &OwnedFd, kind: u8, deadline: Instant) -> Result<Frame, CallError> {
    let patience = ringfence_sys::time_until(deadline);
    let mut fds = [PollFd::new(channel, PollFlags::IN)];
    let n = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&patience)))
        .named(|| "poll(guest)")?;
    if n == 0 {
        return Err(CallError::new("waiting for the guest", Errno::TIMEDOUT));
    }
    match channel::receive(channel, RecvFlags::DONTWAIT)? {
        Some(frame) if frame.kind == kind => Ok(frame),
        Some(frame) => {
            let words = String::from_utf8_lossy(&frame.body).chars().take(500).collect::<String>();
            Err(CallError::new(format!("the guest failed: {words}"), Errno::PROTO))
        }
        None => Err(CallError::new("the guest is gone", Errno::PIPE)),
    }
}

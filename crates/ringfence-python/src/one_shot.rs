//! One-shot programs: an interpreter of their own, fenced by the jail before it begins. Nothing is kept warm.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ringfence_jail::{Finished, LaunchError, Permit, PreforkedChild, Registry, StdioMode, Task};
use ringfence_plan::{Plan, WORKSPACE};
use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Forked, Named as _};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal};

use crate::artifacts::Artifacts;
use crate::channel;
use crate::interpreter::Interpreter;
use crate::worker::{AfterRun, GuestReport, Job, parts};
use crate::zygote_keeper::{API, LAZY, LOADER, OPTIONS, PROGRAM};

/// Maximum number of frames read from the guest. At most three; a program may send more.
const FRAMES_MAX: usize = 64;

/// Result of a program.
#[derive(Debug)]
pub struct OneShot {
    /// Its end, from the kernel.
    pub finished: Finished,
    /// The guest's own report: useful, but not proof.
    pub said: Option<GuestReport>,
    /// Reason that it did not begin.
    pub refused: Option<String>,
    /// Files it left.
    pub artifacts: Option<Artifacts>,
}

/// Child processes of a one-shot program. The fence decides; the guest reports what the fence refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Some.
    Allowed,
    /// None: each attempt is reported.
    Refused,
}

/// The command line of interpreter and bootstrap, for the plan.
pub fn argv(interpreter: &Interpreter, processes: Processes) -> Vec<OsString> {
    let mut argv = vec![interpreter.executable.clone().into_os_string()];
    let config = serde_json::json!({
        "packages": interpreter.facts.packages,
        "environment": interpreter.facts.environment,
        "processes": processes == Processes::Allowed,
    });
    argv.extend(OPTIONS.into_iter().chain([LOADER, PROGRAM]).map(OsString::from));
    argv.extend([config.to_string().into(), OsString::from(API), OsString::from(LAZY)]);
    argv
}

/// A program to run alone.
#[derive(Debug)]
pub struct OneShotTask<'a> {
    /// Its fence.
    pub plan: &'a Plan,
    /// Its code and files.
    pub job: &'a Job,
    /// Where it is recorded while it runs.
    pub registry: &'a Registry,
    /// Its name there.
    pub name: &'a str,
    /// Connection of its stdout and stderr.
    pub mode: StdioMode,
}

/// Runs a program to its end, with this process's stdin. The calling process must have one thread.
pub fn run_one_shot(
    task: &OneShotTask<'_>,
    early: Option<PreforkedChild>,
    permit: Permit<'_>,
) -> Result<OneShot, Problem> {
    let OneShotTask { plan, job, registry, name, mode } = *task;
    let cannot = |e: CallError| Problem::internal(Code::Guest, "cannot talk to the guest").cause(e);
    let (ours, inside) = channel::pair().map_err(cannot)?;
    let feeder = Feeder::start(&ours, job).map_err(cannot)?;
    let task = Task {
        plan,
        registry,
        name,
        mode,
        terminal: false,
        channel: Some(inside.as_fd()),
        credentials: None,
        cancel: None,
        permit,
    };
    let result = match early {
        Some(early) => match early.run(&task) {
            Err(LaunchError::NeedsNewChild) => ringfence_jail::run(&task),
            other => other,
        },
        None => ringfence_jail::run(&task),
    };
    drop(feeder);
    drop(inside);
    OneShotChannel { ours, has_files: !job.files.is_empty() }.collect(result)
}

/// The host's end of the channel to a one-shot program that the launcher starts.
#[derive(Debug)]
pub struct OneShotChannel {
    ours: OwnedFd,
    has_files: bool,
}

impl OneShotChannel {
    /// Makes a channel for this program; the second end is the program's.
    pub fn new(job: &Job) -> Result<(Self, OwnedFd), Problem> {
        let (ours, inside) = channel::pair().map_err(|e| {
            Problem::internal(Code::Guest, "cannot make a channel to the guest").cause(e)
        })?;
        Ok((Self { ours, has_files: !job.files.is_empty() }, inside))
    }

    /// Sends the program and its files. Waits for the guest to read them, or to end.
    pub fn feed(&self, job: &Job) {
        // A guest that ended is noticed by its supervisor.
        let _ = parts(job, AfterRun::Single).try_for_each(|part| part.send(&self.ours));
    }

    /// Reads what the guest reported before it ended.
    pub fn collect(self, finished: Result<Finished, LaunchError>) -> Result<OneShot, Problem> {
        let finished = finished.map_err(|fault| match fault {
            LaunchError::Problem(problem) => problem,
            LaunchError::NoNamespaces(error)
            | LaunchError::NoRoom(error)
            | LaunchError::NoCapture(error) => {
                Problem::cannot_build(Code::Namespaces, "cannot build the fence for Python")
                    .cause(error)
            }
            LaunchError::NeedsNewChild => Problem::internal(Code::Launch, "cannot launch the run"),
        })?;
        collect(&self.ours, self.has_files, finished)
    }
}

fn collect(ours: &OwnedFd, has_files: bool, mut finished: Finished) -> Result<OneShot, Problem> {
    let words = FinalReport::hear(ours, has_files);
    if !words.ready && finished.stopped.is_none() && finished.oom_kills == 0 {
        let problem = Problem::cannot_build(Code::Python, "cannot start Python behind the fence");
        let stderr = finished.output.map(|(_, stderr)| stderr.parts().0).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr);
        return Err(problem.cause(crate::worker::shown(stderr.as_bytes())));
    }
    let root = finished.root.take();
    let workspace = root.and_then(|root| {
        ringfence_sys::untrusted::open_beneath(&root, WORKSPACE.trim_start_matches('/').as_ref())
            .ok()
    });
    let FinalReport { said, refused, .. } = words;
    Ok(OneShot { finished, said, refused, artifacts: workspace.map(Artifacts::new) })
}

/// Frames that the guest sent before it ended.
#[derive(Default)]
struct FinalReport {
    /// The guest started.
    ready: bool,
    /// The program began, or has no files that could not be written before: an `E` frame cannot deny it.
    begun: bool,
    said: Option<GuestReport>,
    refused: Option<String>,
}

impl FinalReport {
    fn hear(channel: &OwnedFd, has_files: bool) -> Self {
        let mut words = Self { begun: !has_files, ..Self::default() };
        for _ in 0..FRAMES_MAX {
            match channel::receive(channel, RecvFlags::DONTWAIT) {
                Ok(Some(frame)) => match frame.kind {
                    b'R' => words.ready = true,
                    b'G' => words.begun = true,
                    b'D' => words.said = GuestReport::read(&frame.body),
                    b'E' if !words.begun => words.refused = Some(crate::worker::shown(&frame.body)),
                    _ => {}
                },
                // The guest left data unread; its frames can be read all the same.
                Err(error) if error.errno == Errno::CONNRESET => {}
                _ => break,
            }
        }
        words
    }
}

/// Sends the guest its program and files. A child process sends the part that the socket does not take at once, while
/// the fence is built. Dropping it kills that process.
struct Feeder {
    pid: Option<i32>,
}

impl Feeder {
    fn start(channel: &OwnedFd, job: &Job) -> Result<Self, CallError> {
        rustix::io::ioctl_fionbio(channel, true).named(|| "ioctl(FIONBIO)")?;
        let mut parts = parts(job, AfterRun::Single).peekable();
        while let Some(part) = parts.peek() {
            match part.send(channel) {
                Ok(()) => drop(parts.next()),
                Err(error) if error.errno == Errno::AGAIN => break,
                Err(error) => return Err(error),
            }
        }
        if parts.peek().is_none() {
            return Ok(Self { pid: None });
        }
        let parent = rustix::process::getpid();
        match ringfence_sys::fork()? {
            Forked::Parent { pid, .. } => Ok(Self { pid: Some(pid) }),
            Forked::Child => {
                // Dies with its parent, and keeps only its end of the channel open: not the guest's end, whose closing
                // it waits for, nor any descriptor whose closing another process waits for.
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                let closed = ringfence_sys::close_from_except(0, &mut [channel.as_raw_fd()]);
                if closed.is_err() || rustix::process::getppid() != Some(parent) {
                    ringfence_sys::exit_now(1)
                }
                let waits = rustix::io::ioctl_fionbio(channel, false).is_ok();
                let sent = parts.try_for_each(|part| part.send(channel));
                let sent = sent.is_ok() && waits;
                ringfence_sys::exit_now(i32::from(!sent))
            }
        }
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            let _ = ringfence_sys::reap_pid(pid);
        }
    }
}

//! A process beside us that starts zygotes. It has one thread for ever, so it may fork; we may not, once we have more.
//! It ends with us: when its socket closes it ends what it started, and leaves.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};

use ringfence_jail::{Fault, Registry, StdioMode, Task};
use ringfence_plan::{CodePlan, WorkerPlan};
use ringfence_spec::Problem;
use ringfence_sys::{CallError, Forked};
use rustix::fs::{Mode, OFlags};
use rustix::net::RecvFlags;
use rustix::process::Signal;

use crate::channel;
use crate::interpreter::Interpreter;

/// The bootstrap of a program that is alone.
pub(crate) const PROGRAM: &str = include_str!("guest/program.py");

/// The same, followed by what makes workers.
const ZYGOTE: &str = concat!(include_str!("guest/program.py"), include_str!("guest/zygote.py"));

/// Runs the bootstrap with builtins of its own: a program that replaces `len` replaces its own.
pub(crate) const LOADER: &str = "import sys, builtins; \
    exec(compile(sys.argv[1], 'guest', 'exec'), {'__name__': 'guest', '__builtins__': dict(vars(builtins))})";

/// What a zygote says on its own stdout and stderr is for the message when it fails.
const TALK_BYTES_MAX: u64 = 16 << 10;

/// The keeper's handle. Dropping it ends the keeper and every zygote.
#[derive(Debug)]
pub struct Keeper {
    socket: Option<OwnedFd>,
    pid: i32,
}

impl Keeper {
    /// Starts one for this plan and interpreter. The calling process must have one thread.
    pub fn start(
        plan: &CodePlan,
        interpreter: &Interpreter,
        preload: &[String],
        registry: &Registry,
        name: &str,
    ) -> Result<Self, Problem> {
        let mut plan = plan.clone();
        plan.zygote.argv = argv(interpreter, &plan.worker, preload);
        let cannot = |e: CallError| Problem::internal("keeper", "cannot start Python").cause(e);
        let (ours, theirs) = channel::pair().map_err(cannot)?;
        match ringfence_sys::fork().map_err(cannot)? {
            Forked::Parent { pid, .. } => Ok(Self { socket: Some(ours), pid }),
            Forked::Child => {
                drop(ours);
                let work = std::panic::AssertUnwindSafe(|| keep(&theirs, &plan, registry, name));
                let done = std::panic::catch_unwind(work);
                ringfence_sys::exit_now(i32::from(done.is_err()))
            }
        }
    }

    /// Starts a zygote; returns our end of its channel.
    pub(crate) fn start_zygote(&self) -> Result<OwnedFd, CallError> {
        let (ours, guests) = channel::pair()?;
        channel::send(self.socket()?, b'S', &[], &[guests.as_fd()])?;
        Ok(ours)
    }

    /// Why the last zygote ended, if its supervisor has said so by now.
    pub(crate) fn last_words(&self) -> Option<String> {
        let frame = channel::receive(self.socket().ok()?, RecvFlags::DONTWAIT).ok()??;
        Some(String::from_utf8_lossy(&frame.body).into_owned())
    }

    fn socket(&self) -> Result<&OwnedFd, CallError> {
        let gone = || CallError::new("the keeper is gone", rustix::io::Errno::PIPE);
        self.socket.as_ref().ok_or_else(gone)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.socket.take());
        let _ = ringfence_sys::reap_pid(self.pid, true);
    }
}

/// Puts interpreter, bootstrap and the worker's plan together into what the zygote executes.
fn argv(interpreter: &Interpreter, plan: &WorkerPlan, preload: &[String]) -> Vec<OsString> {
    let config = serde_json::json!({
        "setup": plan.setup,
        "seal": plan.seal,
        "given_calls": plan.given_calls,
        "listener": plan.listener,
        "unshare_and_setns": plan.unshare_and_setns,
        "preload": preload,
    });
    let options = ["-I", "-X", "utf8", "-c", LOADER, ZYGOTE];
    let mut argv = vec![interpreter.executable.clone().into_os_string()];
    argv.extend(options.map(OsString::from));
    argv.push(config.to_string().into());
    argv
}

fn keep(socket: &OwnedFd, plan: &CodePlan, registry: &Registry, name: &str) {
    // A Ctrl-C in the caller's terminal is the caller's to judge.
    let _ = rustix::process::setsid();
    if detach_stdio().is_err() {
        return;
    }
    let mut supervisors: Vec<i32> = Vec::new();
    let mut n_started = 0_u32;
    while let Ok(Some(frame)) = channel::receive(socket, RecvFlags::empty()) {
        while let Ok(Some(reaped)) = ringfence_sys::reap_any(false) {
            supervisors.retain(|pid| *pid != reaped.pid);
        }
        let (b'S', Some(guests)) = (frame.kind, frame.fds.into_iter().next()) else { continue };
        n_started += 1;
        let name = format!("{name}{n_started}");
        match ringfence_sys::fork() {
            Ok(Forked::Parent { pid, .. }) => supervisors.push(pid),
            Ok(Forked::Child) => {
                let words = supervise(plan, registry, &name, &guests);
                let _ = channel::send(socket, b'D', &[words.as_bytes()], &[]);
                ringfence_sys::exit_now(0)
            }
            Err(error) => {
                let _ = channel::send(socket, b'D', &[error.to_string().as_bytes()], &[]);
            }
        }
    }
    for pid in &supervisors {
        if let Some(pid) = rustix::process::Pid::from_raw(*pid) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
    for pid in supervisors {
        let _ = ringfence_sys::reap_pid(pid, true);
    }
}

/// Runs a zygote to its end; returns why it ended.
fn supervise(plan: &CodePlan, registry: &Registry, name: &str, guests: &OwnedFd) -> String {
    let task = Task {
        plan: &plan.zygote,
        registry,
        name,
        mode: StdioMode::Capture { bytes_max: TALK_BYTES_MAX },
        terminal: false,
        channel: Some(guests.as_fd()),
    };
    match ringfence_jail::run(&task) {
        Ok(finished) => {
            let stderr = finished.output.map(|(_, err)| {
                let (mut head, tail) = err.parts();
                head.extend(tail);
                String::from_utf8_lossy(&head).into_owned()
            });
            format!("{:?} {}", finished.ending, stderr.unwrap_or_default())
        }
        Err(Fault::Problem(problem)) => problem.to_string(),
        Err(Fault::NoNamespaces(error)) => error.to_string(),
        Err(Fault::NotSendable) => "the plan cannot be sent".to_owned(),
    }
}

/// Our caller's stdin, stdout and stderr are not this process's to hold: whoever waits for their end would wait for us.
fn detach_stdio() -> Result<(), CallError> {
    use ringfence_sys::Named as _;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .named(|| "open(/dev/null)")?;
    rustix::stdio::dup2_stdin(&null).named(|| "dup2(0)")?;
    rustix::stdio::dup2_stdout(&null).named(|| "dup2(1)")?;
    rustix::stdio::dup2_stderr(&null).named(|| "dup2(2)")
}

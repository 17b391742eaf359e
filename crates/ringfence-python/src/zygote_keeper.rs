//! Starts zygotes through the launcher: this process may have threads by the time one is needed.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence_jail::{LaunchError, LaunchRequest, Launched, Launcher};
use ringfence_plan::{CodePlan, Plan, WorkerPlan};
use ringfence_spec::{Code, Problem, WorkerSpeedups};
use ringfence_sys::{CallError, Named as _};
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::net::SendFlags;
use rustix::pipe::PipeFlags;

use crate::channel;
use crate::interpreter::Interpreter;

/// The module `code_api`, compiled when a program imports it.
pub(crate) const API: &str = include_str!("guest/api.py");

/// The bootstrap of a one-shot program.
pub(crate) const PROGRAM: &str = include_str!("guest/program.py");

/// Functions of the bootstrap that few programs need, compiled on first use.
pub(crate) const LAZY: &str = include_str!("guest/lazy.py");

/// The same, followed by the modules that make workers.
const ZYGOTE: &str = concat!(
    include_str!("guest/program.py"),
    include_str!("guest/lazy.py"),
    include_str!("guest/calls.py"),
    include_str!("guest/speedups.py"),
    include_str!("guest/zygote.py")
);

/// Runs the bootstrap with builtins of its own: a program that replaces `len` replaces its own.
pub(crate) const LOADER: &str = "import sys, builtins; \
    exec(compile(sys.argv[1], 'guest', 'exec'), {'__name__': 'guest', '__builtins__': dict(vars(builtins))})";

/// The same for a zygote, whose source and configuration come over its channel: every process of the host can read a
/// command line. The channel is descriptor 3.
const ZYGOTE_LOADER: &str = "import sys, builtins, posix; \
    sys.argv[1:] = [posix.read(3, 1 << 18).decode() for _ in range(3)]; \
    exec(compile(sys.argv[1], 'guest', 'exec'), {'__name__': 'guest', '__builtins__': dict(vars(builtins))})";

/// Options of every interpreter. `-S`: `site` would execute code in packages' `.pth` files before the bootstrap's first
/// line; the bootstrap adds the directories of packages.
pub(crate) const OPTIONS: [&str; 5] = ["-I", "-S", "-X", "utf8", "-c"];

/// Bytes kept of a zygote's stderr, for the error message if it fails.
const STDERR_BYTES_MAX: usize = 16 << 10;

/// Time in which a failed zygote must be dead.
const STDERR_TAIL_MAX: Duration = Duration::from_secs(1);

/// Work that a zygote does before its first worker, so that no worker has to.
#[derive(Clone, Debug, Default)]
pub struct Preload {
    /// Modules that it imports.
    pub modules: Vec<String>,
    /// A program that it runs several times as a warm-up: the interpreter specializes the code it uses, and every
    /// worker inherits it.
    pub warm_up: String,
    /// Its programs find modules in their own directory, and so does the warm-up of each worker.
    pub own_modules: bool,
    /// The parts of `guest/speedups.py` that it tries.
    pub speedups: WorkerSpeedups,
}

/// Starts one zygote after another. Dropping it ends the last.
#[derive(Debug)]
pub struct ZygoteKeeper {
    launcher: Arc<Launcher>,
    plan: Plan,
    /// Read by the zygote after its source.
    config: String,
    state: PathBuf,
    name: String,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    n_started: u32,
    zygote: Option<(Launched, OwnedFd)>,
}

impl ZygoteKeeper {
    /// A keeper for this plan and interpreter. `state` is the directory of the runs' records, `name` the prefix of
    /// their names.
    pub fn new(
        launcher: Arc<Launcher>,
        plan: &CodePlan,
        interpreter: &Interpreter,
        preload: &Preload,
        state: PathBuf,
        name: String,
    ) -> Self {
        let mut zygote = plan.zygote.clone();
        zygote.argv = vec![interpreter.executable.clone().into_os_string()];
        zygote.argv.extend(OPTIONS.into_iter().chain([ZYGOTE_LOADER]).map(OsString::from));
        let config = config(interpreter, &plan.worker, preload);
        Self { launcher, plan: zygote, config, state, name, current: Mutex::default() }
    }

    /// Starts a zygote, in place of the last; returns the host's end of its channel.
    pub(crate) fn start_zygote(&self) -> Result<OwnedFd, Problem> {
        let cannot = |e: CallError| Problem::internal(Code::Keeper, "cannot start Python").cause(e);
        let (ours, guests) = channel::pair().map_err(cannot)?;
        for text in [ZYGOTE, &self.config, API] {
            rustix::net::send(&ours, text.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
                .named(|| "send(bootstrap)")
                .map_err(cannot)?;
        }
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .named(|| "open(/dev/null)")
            .map_err(cannot)?;
        let (talk, stderr) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).named(|| "pipe2").map_err(cannot)?;
        rustix::io::ioctl_fionbio(&talk, true).named(|| "ioctl(FIONBIO)").map_err(cannot)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.n_started += 1;
        current.zygote = None;
        let name = format!("{}{}", self.name, current.n_started);
        let launched = self.launcher.launch(&LaunchRequest {
            plan: &self.plan,
            state: &self.state,
            name: &name,
            stdio: [null.as_fd(), null.as_fd(), stderr.as_fd()],
            channel: Some(guests.as_fd()),
            credentials: None,
            is_alone: false,
        })?;
        current.zygote = Some((launched, talk));
        Ok(ours)
    }

    /// Reason that the last zygote ended, with its stderr; one that still runs is ended, and yields `None`.
    pub(crate) fn stderr_tail(&self) -> Option<String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (launched, talk) = current.zygote.take()?;
        if !ringfence_sys::is_ready_within(launched.line(), PollFlags::IN, STDERR_TAIL_MAX) {
            return None;
        }
        let fault = match launched.wait() {
            Ok(finished) => format!("{:?}", finished.ending),
            Err(LaunchError::Problem(problem)) => return Some(problem.to_string()),
            Err(
                LaunchError::NoNamespaces(error)
                | LaunchError::NoRoom(error)
                | LaunchError::NoCapture(error),
            ) => {
                return Some(error.to_string());
            }
            Err(LaunchError::NeedsNewChild) => return None,
        };
        let mut said = vec![0; STDERR_BYTES_MAX];
        let n = rustix::io::read(&talk, &mut said).unwrap_or(0);
        Some(format!("{fault} {}", String::from_utf8_lossy(&said[..n])))
    }
}

/// Configuration of a zygote: the worker's plan, and the work before the first worker.
fn config(interpreter: &Interpreter, plan: &WorkerPlan, preload: &Preload) -> String {
    let config = serde_json::json!({
        "setup": plan.setup,
        "seal": plan.seal,
        "given_calls": plan.given_calls,
        "listener": plan.listener,
        "numbers": plan.numbers,
        "preload": preload.modules,
        "warm_up": preload.warm_up,
        "own_modules": preload.own_modules,
        "speedups": preload.speedups.name(),
        "pack": ringfence_spec::hex(ringfence_sys::pack_code()),
        "calls": ringfence_spec::hex(ringfence_sys::calls_code()),
        "forks": ringfence_spec::hex(ringfence_sys::fork_loop_code()),
        "packages": interpreter.facts.packages,
        "environment": interpreter.facts.environment,
    });
    config.to_string()
}

//! Starts zygotes through the launcher: this process may have threads by the time one is needed.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ringfence_jail::{Fault, LaunchRequest, Launched, Launcher};
use ringfence_plan::{CodePlan, Plan, WorkerPlan};
use ringfence_spec::{Code, Problem};
use ringfence_sys::{CallError, Named as _};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::net::SendFlags;
use rustix::pipe::PipeFlags;

use crate::channel;
use crate::interpreter::Interpreter;

/// The bootstrap of a one-shot program.
pub(crate) const PROGRAM: &str = include_str!("guest/program.py");

/// Functions of the bootstrap that few programs need, compiled on first use.
pub(crate) const LAZY: &str = include_str!("guest/lazy.py");

/// The same, followed by the modules that make workers.
const ZYGOTE: &str = concat!(
    include_str!("guest/program.py"),
    include_str!("guest/lazy.py"),
    include_str!("guest/hugepages.py"),
    include_str!("guest/calls.py"),
    include_str!("guest/seeds.py"),
    include_str!("guest/heap.py"),
    include_str!("guest/zygote.py")
);

/// Runs the bootstrap with builtins of its own: a program that replaces `len` replaces its own.
pub(crate) const LOADER: &str = "import sys, builtins; \
    exec(compile(sys.argv[1], 'guest', 'exec'), {'__name__': 'guest', '__builtins__': dict(vars(builtins))})";

/// The same for a zygote, whose source and configuration come over its channel: every process of the host can read a
/// command line. The channel is descriptor 3.
const ZYGOTE_LOADER: &str = "import sys, builtins, posix; \
    sys.argv[1:] = [posix.read(3, 1 << 18).decode() for _ in range(2)]; \
    exec(compile(sys.argv[1], 'guest', 'exec'), {'__name__': 'guest', '__builtins__': dict(vars(builtins))})";

/// Options of every interpreter. `-S`: `site` would execute code in packages' `.pth` files before the bootstrap's first
/// line; the bootstrap adds the directories of packages.
pub(crate) const OPTIONS: [&str; 5] = ["-I", "-S", "-X", "utf8", "-c"];

/// Bytes kept of a zygote's stderr, for the error message if it fails.
const TALK_BYTES_MAX: usize = 16 << 10;

/// Time in which a failed zygote must be dead.
const LAST_WORDS: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Work that a zygote does before its first worker, so that no worker has to.
#[derive(Clone, Debug, Default)]
pub struct Preload {
    /// Modules that it imports.
    pub modules: Vec<String>,
    /// A program that it runs several times as a warm-up: the interpreter specializes the code it uses, and every
    /// worker inherits it.
    pub warm_up: String,
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
        for text in [ZYGOTE, &self.config] {
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
        })?;
        current.zygote = Some((launched, talk));
        Ok(ours)
    }

    /// Reason that the last zygote ended, with its stderr; one that still runs is ended, and yields `None`.
    pub(crate) fn last_words(&self) -> Option<String> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (launched, talk) = current.zygote.take()?;
        let line = launched.line();
        let mut fds = [PollFd::from_borrowed_fd(line, PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&LAST_WORDS)) == Ok(0) {
            return None;
        }
        let fault = match launched.wait() {
            Ok(finished) => format!("{:?}", finished.ending),
            Err(Fault::Problem(problem)) => return Some(problem.to_string()),
            Err(Fault::NoNamespaces(error)) => return Some(error.to_string()),
            Err(Fault::NotSendable) => return None,
        };
        let mut said = vec![0; TALK_BYTES_MAX];
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
        "pack": ringfence_spec::hex(ringfence_sys::pack_code()),
        "calls": ringfence_spec::hex(ringfence_sys::calls_code()),
        "packages": interpreter.facts.packages,
        "environment": interpreter.facts.environment,
    });
    config.to_string()
}

#[cfg(test)]
mod tests {
    use ringfence_testing::{BoundedCommand as _, Json, json};
    use std::process::Command;

    /// An interpreter that moves itself and prints the result.
    const SCRIPT: &str = "
import json, os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
before = [str(n) * 9 for n in range(100_000)]
n_moved = pack(bytes.fromhex(CODE))
assert before == [str(n) * 9 for n in range(100_000)]
import decimal, statistics
children = []
for n in range(20):
    pid = os.fork()
    if pid == 0:
        before[n] = n
        assert statistics.mean([decimal.Decimal(n), n]) == n
        os._exit(7)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 7 << 8 for pid in children)
assert before[7] == '7' * 9
anonymous = [l for l in open('/proc/self/maps') if ' r-xp 00000000 00:00 0 ' in l and '[' not in l]
# Whether the kernel has such pages to give at all, now.
raw = libc.mmap(0, 16 * HUGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0)
area = (raw // HUGE + 1) * HUGE
libc.madvise(area, 15 * HUGE, MADV_HUGEPAGE)
ctypes.memset(area, 1, 15 * HUGE)
print(json.dumps([n_moved, bool(anonymous), is_huge(area)]))
";

    #[test]
    fn an_interpreter_goes_on_where_it_was_after_it_was_moved() {
        let code = ringfence_spec::hex(ringfence_sys::pack_code());
        let guest = include_str!("guest/hugepages.py");
        let script = format!("import os\nCODE = '{code}'\n{guest}\n{SCRIPT}");
        let output = Command::new("python3").args(["-I", "-c", &script]).bounded_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let (n_moved, anonymous, possible): (i64, bool, bool) =
            serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(anonymous, n_moved > 0, "{n_moved}");
        if cfg!(target_arch = "x86_64") && possible {
            assert!(n_moved > 10, "{n_moved} {stderr}");
        }
    }

    /// Lists of calls, made with the host's code and without it: prints results and failures.
    const CALLS: &str = "
import json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
text = lambda words: {'bytes': binascii.b2a_base64(words.encode() + bytes(1)).decode()}
call = lambda name, nr, *args, may_fail=False: dict(name=name, nr=nr, args=list(args), may_fail=may_fail)
CLOSE, OPENAT, PPOLL, DUP3, SENDMSG = NUMBERS
AT_FDCWD = (1 << 64) - 100
wanted = dict(bytes=binascii.b2a_base64(bytes(8)).decode(), at=0, result=0)
now = dict(bytes=binascii.b2a_base64(bytes(16)).decode())
of_host = [
    call('openat', OPENAT, AT_FDCWD, text('/dev/null'), os.O_RDONLY),
    call('close', CLOSE, 0x7fffffff, may_fail=True),
    # A descriptor stored where the kernel looks for it: nothing is the matter with it.
    call('ppoll', PPOLL, wanted, 1, now, 0, 0),
]
told = []
# Where the channel is, first something else.
os.open('/dev/null', os.O_RDONLY)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.dup2(theirs.fileno(), 3)
for run in runner(bytes.fromhex(CODE)), run_rows:
    calls = Calls(run, dict(dup3=DUP3, close=CLOSE, sendmsg=SENDMSG), n_given=1)
    for each in of_host:
        calls.call_of_host(each)
    opened = calls.of_host[0]
    calls.call('dup3', opened, Result(0), 0)
    calls.send(b'P1234', [opened], with_number=Result(0))
    calls.call('close', opened)
    calls.call('close', opened)
    calls.lay_out()
    calls.results[0] = 77
    try:
        calls.make()
    except CallFailed as error:
        told.append([*calls.results[2:], str(error)])
    frame, (passed,), _, _ = socket.recv_fds(ours, 16, 4)
    told[-1] += [frame.hex(), os.fstat(passed).st_rdev == os.stat('/dev/null').st_rdev]
    os.close(77)
print(json.dumps([told, run is not runner(bytes.fromhex(CODE))]))
";

    #[test]
    fn calls_are_made_in_one_go_as_they_are_made_one_by_one() {
        use ringfence_plan::seccomp::{Arch, number};
        let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
        let numbers =
            ["close", "openat", "ppoll", "dup3", "sendmsg"].map(|name| number(arch, name).unwrap());
        let code = ringfence_spec::hex(ringfence_sys::calls_code());
        let guest = concat!(include_str!("guest/hugepages.py"), include_str!("guest/calls.py"));
        let script = format!("import os\nCODE = '{code}'\nNUMBERS = {numbers:?}\n{guest}\n{CALLS}");
        let output = Command::new("python3").args(["-I", "-c", &script]).bounded_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let (told, native): (Vec<Json>, bool) = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(native, cfg!(target_arch = "x86_64"));
        let frame = ringfence_spec::hex(&[b"P", &77_u32.to_ne_bytes()[..]].concat());
        let expected = json!([-9, 0, 77, 5, 0, -9, "close: Bad file descriptor", frame, true]);
        assert_eq!(told, [expected.clone(), expected]);
    }
}

//! Guests for tests: a real process, and the guest's ends of its channel and streams, which the test drives.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringfence_plan::WorkerPlan;
use ringfence_plan::seccomp::{
    Arch, FilterSpec, Inet, Ipc, Observe, Profile, SharedMemory, UnixSockets,
};
use ringfence_spec::{
    AuditState, Enforcement, FilesystemFence, Limits, NetworkFence, OutputState, ProcessFence,
    ResourceFence, SyscallFence, Tier,
};
use ringfence_testing::{BoundedCommand, Running};
pub(crate) use ringfence_testing::{Lent, SOON, hang_up, send_packet as send, soon};
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};

use crate::channel;
use crate::worker::{Ends, Job, Worker, ZygoteId};

/// A guest that does nothing by itself. Dropping it kills it.
pub(crate) struct FakeGuest {
    pub(crate) process: Running,
    pub(crate) channel: OwnedFd,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    _dir: tempfile::TempDir,
}

/// A process that waits to be killed.
pub(crate) fn hung() -> Running {
    let mut command = Command::new("sleep");
    command.arg("987").stdin(Stdio::null()).bounded_spawn().unwrap()
}

pub(crate) fn pidfd(process: &Running) -> OwnedFd {
    rustix::process::pidfd_open(Pid::from_child(process), PidfdFlags::empty()).unwrap()
}

/// A worker with such a guest.
pub(crate) fn worker() -> (Worker, FakeGuest) {
    worker_of(hung())
}

/// A worker in this process.
pub(crate) fn worker_of(process: Running) -> (Worker, FakeGuest) {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let ((stdin_inside, stdin), (stdout, stdout_inside), (stderr, stderr_inside)) =
        (pipe(), pipe(), pipe());
    for fd in [&stdin, &stdout, &stderr] {
        rustix::io::ioctl_fionbio(fd, true).unwrap();
    }
    let (ours, inside) = channel::pair().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workspace = rustix::fs::open(dir.path(), flags, Mode::empty()).unwrap();
    let (stdin, stdout, stderr) = (Some(stdin), Some(stdout), Some(stderr));
    let worker = Worker {
        pid: 7,
        host_pid: process.id(),
        zygote: ZygoteId::default(),
        ends: Ends { channel: ours, pidfd: pidfd(&process), stdin, stdout, stderr },
        workspace: Some(workspace),
        mounts: None,
        listener: None,
    };
    let guest = FakeGuest {
        process,
        channel: inside,
        stdin: stdin_inside,
        stdout: stdout_inside,
        stderr: stderr_inside,
        _dir: dir,
    };
    (worker, guest)
}

impl FakeGuest {
    /// Sends a frame, whatever it is.
    pub(crate) fn says(&self, frame: &[u8]) {
        send(&self.channel, frame, &[]);
    }

    pub(crate) fn dies(&mut self) {
        let _ = self.process.kill();
    }

    /// Returns true if it is dead in time.
    pub(crate) fn is_killed(&self) -> bool {
        ringfence_sys::is_ready_within(pidfd(&self.process), PollFlags::IN, SOON)
    }
}

/// A job that ends after so many milliseconds.
pub(crate) fn job(timeout_ms: u64) -> Job {
    Job {
        code: b"pass".to_vec(),
        timeout: Some(Duration::from_millis(timeout_ms)),
        output_bytes_max: 1 << 16,
        ..Job::default()
    }
}

/// A job whose files do not fit into the buffer of a socket.
pub(crate) fn large_job(timeout_ms: u64) -> Job {
    let files = vec![("large".to_owned(), vec![b'x'; 4 << 20])];
    Job { files, ..job(timeout_ms) }
}

/// A plan that fences nothing: the fake guests make no calls.
pub(crate) fn plan() -> WorkerPlan {
    WorkerPlan {
        setup: Vec::new(),
        given_calls: [0, 0],
        seal: Vec::new(),
        listener: false,
        filter: FilterSpec {
            arch: Arch::NATIVE.unwrap(),
            profile: Profile::Code,
            observe: Observe::Notify,
            unix_sockets: UnixSockets::Refused,
            inet: Inet::Refused,
            shared_memory: SharedMemory::Refused,
            ipc: Ipc::Refused,
        },
        numbers: std::collections::BTreeMap::new(),
        limits: Limits { memory: None, ..Limits::for_commands(8 << 30) },
        enforcement: Enforcement {
            tier: Tier::Namespaces,
            screen: None,
            process: ProcessFence::Pidns,
            syscalls: SyscallFence::Allowlist,
            resources: ResourceFence::Rlimit,
            network: NetworkFence::None,
            filesystem: FilesystemFence::PivotRoot,
            output: OutputState::Off,
            audit: AuditState::Off,
            python: None,
            gaps: Vec::new(),
            policy_sha256: None,
        },
        unobserved: Vec::new(),
    }
}

//! Peers for tests: real processes that do what a test tells them, and descriptors that tell whether they were closed.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::Command;

use ringfence_plan::seccomp::{
    Arch, FilterSpec, Inet, Ipc, Observe, Profile, SharedMemory, UnixSockets,
};
use ringfence_plan::{Identity, NetworkPlan, NetworkWay, Plan};
use ringfence_spec::{
    AuditState, Enforcement, FilesystemFence, Limits, NetworkFence, OutputState, ProcessFence,
    ResourceFence, Span, SyscallFence, Tier,
};
use ringfence_sys::Program;
use ringfence_testing::BoundedCommand as _;
pub(crate) use ringfence_testing::{Lent, SOON, hang_up, send_packet as send, soon};
use rustix::event::PollFlags;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, setrlimit};

/// Variable of a process started by [`is_alone`].
const ALONE: &str = "RINGFENCE_TEST_ALONE";

/// A process that only the code under test waits for. Dropping it kills it.
pub(crate) struct FakeProcess {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

impl FakeProcess {
    /// Executes `/bin/sh -c SCRIPT`, in a session of its own.
    pub(crate) fn of(script: &str) -> Self {
        let argv: Vec<OsString> = ["/bin/sh", "-c", script].map(OsString::from).into();
        let path = OsString::from("/usr/local/bin:/usr/bin:/bin");
        let variables = [(OsString::from("PATH"), path.clone())];
        let program = Program::new(&argv, variables.iter().map(|(k, v)| (k, v)), &path).unwrap();
        let pid = ringfence_sys::vfork(|| {
            let _ = rustix::process::setsid();
            ringfence_sys::reset_actions();
            let _ = ringfence_sys::unblock_all();
            ringfence_sys::execute(&program);
        })
        .unwrap();
        let number = Pid::from_raw(pid).unwrap();
        let pidfd = rustix::process::pidfd_open(number, PidfdFlags::empty()).unwrap();
        Self { pid, pidfd }
    }

    /// A process that waits to be killed.
    pub(crate) fn hung() -> Self {
        Self::of("exec sleep 987")
    }

    pub(crate) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Returns true if it is dead, and some parent has waited for it.
    pub(crate) fn is_reaped(&self) -> bool {
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::CONT)
            == Err(rustix::io::Errno::SRCH)
    }

    /// Waits until it is dead.
    #[track_caller]
    pub(crate) fn wait_for_death(&self) {
        assert!(is_dead(&self.pidfd), "a process is left");
    }
}

impl Drop for FakeProcess {
    fn drop(&mut self) {
        // With everything that it started: an orphan would hold the test's output open.
        if !self.is_reaped()
            && let Some(group) = Pid::from_raw(self.pid)
        {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        self.kill();
        // Not by its number, which may be another's if it was waited for.
        let id = rustix::process::WaitId::PidFd(self.pidfd.as_fd());
        let _ = rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED);
    }
}

/// Returns true in a process of its own, whose limits the test may change: the test calls this first, with its name, and returns if
/// it is false. Then the test has passed in such a process.
pub(crate) fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    let output = again.bounded_output().unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
    false
}

/// Limits the descriptors of this process, which must be alone.
pub(crate) fn limit_descriptors(n: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(n), maximum }).unwrap();
}

/// Does something while this process, which must be alone, can open nothing.
pub(crate) fn without_descriptors<T>(work: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::Nofile);
    // The lowest number that is free.
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    limit_descriptors(next.try_into().unwrap());
    assert!(File::open("/dev/null").is_err());
    let done = work();
    setrlimit(Resource::Nofile, before).unwrap();
    done
}

/// Waits for a file that a process makes when it is ready.
pub(crate) fn wait_for_file(ready: &std::path::Path) {
    let until = std::time::Instant::now() + SOON;
    while !ready.exists() {
        assert!(std::time::Instant::now() < until, "{ready:?} does not appear");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Returns true if a process is dead in time.
pub(crate) fn is_dead(pidfd: &OwnedFd) -> bool {
    ringfence_sys::is_ready_within(pidfd, PollFlags::IN, SOON)
}

/// A plan of one process without limits but this one.
pub(crate) fn plan(timeout_ms: u64) -> Plan {
    Plan {
        tier: Tier::Namespaces,
        identity: Identity::default(),
        placeholders: Vec::new(),
        cgroup: None,
        initial_namespaces: Vec::new(),
        setup: Vec::new(),
        payload: Vec::new(),
        seccomp: None,
        landlock: None,
        environment: std::collections::BTreeMap::new(),
        argv: vec!["sleep".into()],
        cwd: PathBuf::from("/"),
        limits: Limits {
            timeout: Span::from_millis(timeout_ms),
            cpu: None,
            memory: None,
            disk: None,
            ..Limits::for_commands(8 << 30)
        },
        host_scratch: None,
        disk_roots: Vec::new(),
        watch_git: Vec::new(),
        git_indexes: Vec::new(),
        git_dirs: Vec::new(),
        sockets: Vec::new(),
        network: None,
        enforcement: Enforcement {
            tier: Tier::Namespaces,
            screen: None,
            process: ProcessFence::Pidns,
            syscalls: SyscallFence::None,
            resources: ResourceFence::Rlimit,
            network: NetworkFence::None,
            filesystem: FilesystemFence::None,
            output: OutputState::Off,
            audit: AuditState::Off,
            python: None,
            gaps: Vec::new(),
            policy_sha256: None,
        },
        unobserved: Vec::new(),
    }
}

/// The network of a run that may reach nothing.
pub(crate) fn closed_network() -> NetworkPlan {
    NetworkPlan {
        rules: ringfence_spec::network::NetworkRules::default(),
        listeners: Vec::new(),
        resolver: None,
        upstream: None,
        way: NetworkWay::Captured,
        requests: Vec::new(),
        limits: Vec::new(),
        published: Vec::new(),
        reread: Vec::new(),
        ssh_agent: None,
    }
}

/// The filter of a command whose connects are supervised.
pub(crate) fn filter() -> FilterSpec {
    FilterSpec {
        arch: Arch::NATIVE.unwrap(),
        profile: Profile::Command,
        observe: Observe::Notify,
        unix_sockets: UnixSockets::Supervised,
        inet: Inet::Allowed,
        shared_memory: SharedMemory::Allowed,
        ipc: Ipc::Own,
    }
}

//! The plan of Python runs: the zygote's fence, built by the jail like any other, and the list of raw system calls by
//! which each worker builds its own inside it.
//!
//! A worker is a fork of the zygote, so none of Ringfence's code runs there before Python does: its calls are laid out
//! here as numbers and bytes, and the guest's bootstrap makes them without knowing their meaning.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_spec::{
    AuditState, Code, Count, Enforcement, FilesystemFence, Limits, NetworkFence, OutputState,
    Problem, ProcessFence, ResourceFence, SyscallFence, Tier,
};
use serde::Serialize;

use crate::calls::{Arg, Call, Calls};
use crate::command::CORE_LIMIT;
use crate::facts::{FileKind, Found, HostFacts, HostWorkspace, PythonFacts, UserNamespaces};
use crate::orders::Orders;
use crate::plan::{
    Access, CgroupPlan, GUEST_ID, Identity, Mount, Namespace, Plan, Resource, Rlimit, Step,
};
use crate::seccomp::{
    self, Filter, FilterSpec, Inet, Ipc, Observe, Profile, SharedMemory, UnixSockets,
};
use crate::view::View;

/// The directory a run starts in.
pub const WORKSPACE: &str = "/workspace";

/// Mount point of a worker's own filesystem; its parts are bound to the paths that runs expect. Below a directory that
/// cannot be opened without capabilities.
const PRIVATE: &str = "/run/own";
const PRIVATE_CLOSED: &str = "/run";

/// Parts of a worker's filesystem and where they are seen. The first is the workspace.
pub(crate) const PRIVATE_PARTS: &[(&str, &str, u32)] =
    &[("workspace", WORKSPACE, 0o755), ("tmp", "/tmp", 0o1777), ("shm", "/dev/shm", 0o1777)];

/// Inodes of a worker's filesystem.
pub(crate) const INODES_MAX: u64 = 50_000;

/// Processes and threads that the zygote needs for itself.
const ZYGOTE_PIDS: u32 = 16;

/// Memory that the zygote and its preloaded modules may take.
const ZYGOTE_BYTES_MAX: u64 = 1 << 30;

/// Requirements of a zygote.
#[derive(Clone, Debug)]
pub struct CodeRequest {
    /// The interpreter.
    pub python: PythonFacts,
    /// Paths of the host that it must see, read-only.
    pub visible: Vec<Found>,
    /// Files in it that are masked.
    pub secrets: Vec<Found>,
    /// Links on the way there, such as `/lib64`.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Workers alive at once.
    pub n_workers_max: u32,
    /// The screening that was used, for the receipt.
    pub screen: Option<String>,
    /// Forking of workers with the host's permission: a REPL's checkpoints.
    pub checkpoints: Checkpoints,
    /// A directory of the host's to work in, instead of one in memory.
    pub workspace: Option<HostWorkspace>,
    /// True if output is captured for an outcome, false if it is passed through.
    pub capture: bool,
    /// Child processes and threads at once of a one-shot program; workers have no child processes.
    pub processes: Option<Count>,
}

/// Forking of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoints {
    /// Never.
    None,
    /// With the host's permission, requested each time.
    ByTheHost,
}

/// The zygote's plan and its workers'.
#[derive(Clone, Debug, Serialize)]
pub struct CodePlan {
    /// Origin of the interpreter and its packages.
    pub python: PythonFacts,
    /// The zygote's plan, executed by the jail.
    pub zygote: Plan,
    /// The calls of each worker.
    pub worker: WorkerPlan,
}

/// The calls by which a worker fences itself, and the resulting fence.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerPlan {
    /// Its own filesystem, limits and user namespace.
    pub setup: Vec<Call>,
    /// The calls of `setup` whose descriptors are sent to the host: the workspace, and the mount namespace. Without the
    /// host's copy the namespace would be destroyed, with a wait for every processor, in the middle of the worker's
    /// death.
    pub given_calls: [usize; 2],
    /// Last: after these it can open only the files it was given.
    pub seal: Vec<Call>,
    /// True if the last call of `seal` returns the filter's listener.
    pub listener: bool,
    /// The specification of the filter.
    pub filter: FilterSpec,
    /// Numbers of the calls that the zygote makes around a fork, and a worker around `setup` and `seal`.
    pub numbers: BTreeMap<&'static str, u32>,
    /// Limits of each run.
    pub limits: Limits,
    /// The receipt, if every call succeeds; the host checks it against the kernel's report.
    pub enforcement: Enforcement,
    /// Kinds of refusal that cannot be observed.
    pub unobserved: Vec<String>,
}

/// Makes the plans, or returns the reason it cannot.
pub fn plan_code(
    limits: &Limits,
    request: &CodeRequest,
    facts: &HostFacts,
) -> Result<CodePlan, Problem> {
    refuse_without_namespaces(facts)?;
    crate::command::refuse_too_small(limits.memory, limits.fds, crate::command::CODE_MEMORY_MIN)?;
    refuse_written_python(&request.python)?;
    let zygote = zygote(limits, request, facts);
    let worker = worker(limits, request, facts)?;
    Ok(CodePlan { python: request.python.clone(), zygote, worker })
}

/// Refuses a host without user namespaces or seccomp filters: code has no weaker tier.
pub(crate) fn refuse_without_namespaces(facts: &HostFacts) -> Result<(), Problem> {
    if facts.ids.root_outside {
        return Err(crate::command::root_outside(facts));
    }
    if let UserNamespaces::Refused(why) = &facts.user_namespaces {
        return Err(Problem::cannot_build(Code::Namespaces, "cannot build the fence for Python")
            .cause(why)
            .hint("Python runs need user namespaces; `ringfence doctor` names the fix"));
    }
    if !facts.seccomp_filter {
        return Err(Problem::cannot_build(Code::Seccomp, "cannot build the fence for Python")
            .cause("this kernel has no seccomp filters"));
    }
    Ok(())
}

/// Refuses an interpreter that a run could have changed: a zygote has capabilities in its namespaces, and every worker
/// is a copy of it.
fn refuse_written_python(python: &PythonFacts) -> Result<(), Problem> {
    let Some(written) = &python.written_by_runs else { return Ok(()) };
    let problem = Problem::refused(
        Code::PythonWrittenByRuns,
        format!("Python in `{}` cannot be kept warm", python.prefix.display()),
    )
    .cause(format!(
        "it lies in `{}`, which runs may write: one may have changed it",
        written.display()
    ));
    Err(problem.hint(
        "name another with `--python`, such as `/usr/bin/python3` or an environment outside your workspaces; programs without a \
         session run with this one",
    ))
}

/// Guarantees that a one-shot program lacks with such an interpreter: the fence is built before it begins, so only its
/// own result is at stake.
pub(crate) fn python_gaps(python: &PythonFacts) -> Vec<String> {
    let gap = |written: &PathBuf| {
        format!(
            "Python in `{}` lies in `{}`, which runs may write: one may have changed it, and with it this result",
            python.prefix.display(),
            written.display()
        )
    };
    python.written_by_runs.iter().map(gap).collect()
}

/// Adds the host's files that the interpreter needs to a view, read-only.
pub(crate) fn show_interpreter(
    view: &mut View,
    request: &CodeRequest,
    facts: &HostFacts,
    identity: &Identity,
) {
    for (at, target) in &request.links {
        view.put(Mount::Symlink { at: at.clone(), target: target.clone() });
    }
    for found in &request.visible {
        // The system's directories are open to every user; another, such as one in a home, may be open to the caller
        // alone.
        let system =
            ["/usr", "/etc", "/lib", "/lib64"].iter().any(|top| found.path.starts_with(top));
        view.host(found, Access::ReadOnly, identity.disk_owner.is_some() && !system);
    }
    for secret in facts.secrets.iter().chain(&request.secrets) {
        view.mask_where_shown(secret);
    }
}

fn zygote(limits: &Limits, request: &CodeRequest, facts: &HostFacts) -> Plan {
    let mut identity = Identity::of_caller(facts.ids);
    // Root of its own namespace, so that it keeps the capabilities there across exec; unprivileged on the host.
    (identity.guest_uid, identity.guest_gid) = (0, 0);
    if let Some(workspace) = &request.workspace {
        identity.disk_owner = identity.disk_owner.map(|_| workspace.owner);
    }
    let mut view = View::for_code();
    show_interpreter(&mut view, request, facts, &identity);
    for (_, at, mode) in PRIVATE_PARTS {
        if *at != "/dev/shm" {
            view.put(Mount::Directory { at: at.into(), mode: *mode });
        }
    }
    if let Some(workspace) = &request.workspace {
        view.put(workspace.mount(&identity));
    }
    view.put(Mount::Directory { at: PRIVATE_CLOSED.into(), mode: 0 });
    view.put(Mount::Directory { at: PRIVATE.into(), mode: 0o755 });
    // `/dev/zero` is shared memory by another name, and no worker has a terminal.
    for device in ["zero", "tty", "ptmx", "pts"] {
        view.remove(&Path::new("/dev").join(device));
    }
    let parts = view.into_parts();
    let mut setup = Orders::before_mounts();
    setup.push(Step::SizeRoot { bytes_max: 1 << 20, inodes_max: 1000 });
    setup.extend(parts.early.into_iter().map(Step::Mount));
    setup.push(Step::TakeSupplies);
    setup.extend(parts.late.into_iter().map(Step::Mount));
    if request.workspace.is_some() {
        setup.push(Step::NoExecute { at: WORKSPACE.into() });
    }
    let resources = crate::command::resource_fence(facts);
    setup.extend(Orders::closing(resources));
    let seccomp = filter(facts, Profile::Zygote, Observe::Errno);
    let payload = vec![
        Step::NewSession,
        Step::ChangeDirectory,
        Step::SetRlimits {
            limits: vec![
                Rlimit { resource: Resource::Core, max: CORE_LIMIT },
                Rlimit { resource: Resource::Msgqueue, max: 0 },
            ],
        },
        Step::NoNewPrivileges,
        Step::Seccomp,
        Step::Execute,
    ];
    let workers = u64::from(request.n_workers_max);
    let cgroup = (resources != ResourceFence::Rlimit).then(|| CgroupPlan {
        memory_bytes_max: limits.memory.map(|m| ZYGOTE_BYTES_MAX + workers * m.bytes()),
        pids_max: limits
            .pids
            .map(|n| ZYGOTE_PIDS + request.n_workers_max.saturating_mul(n.get() + 2)),
        count_cpu: false,
    });
    Plan {
        tier: Tier::Namespaces,
        identity,
        placeholders: Vec::new(),
        cgroup,
        initial_namespaces: Namespace::INITIAL.to_vec(),
        setup,
        payload,
        seccomp: Some(seccomp),
        landlock: None,
        environment: environment_of(request),
        // The interpreter's: filled in by the zygote's keeper.
        argv: Vec::new(),
        cwd: "/".into(),
        limits: Limits {
            timeout: None,
            cpu: None,
            memory: None,
            pids: None,
            fds: None,
            disk: None,
            output: limits.output,
        },
        host_scratch: None,
        disk_roots: Vec::new(),
        watch_git: Vec::new(),
        git_indexes: Vec::new(),
        git_dirs: Vec::new(),
        sockets: Vec::new(),
        network: None,
        enforcement: enforcement(request, facts, resources),
        unobserved: unobserved(false),
    }
}

/// The whole environment of a Python run, with a session's variables.
pub(crate) fn environment_of(request: &CodeRequest) -> BTreeMap<OsString, OsString> {
    let mut env = environment();
    env.extend(request.workspace.iter().flat_map(HostWorkspace::environment));
    env
}

/// The environment of a Python run without a session.
fn environment() -> BTreeMap<OsString, OsString> {
    let fixed = [
        ("HOME", WORKSPACE),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", "agent"),
        ("PATH", "/usr/bin:/bin"),
        ("TMPDIR", "/tmp"),
        ("USER", "agent"),
        // A font cache or a window is of no use here, and searching for one takes long.
        ("MPLBACKEND", "Agg"),
        ("MPLCONFIGDIR", "/tmp"),
        // Threads of a library made before the fork are not there after it: a matrix product would wait for ever.
        ("OPENBLAS_NUM_THREADS", "1"),
        ("OMP_NUM_THREADS", "1"),
        ("MKL_NUM_THREADS", "1"),
        ("NUMEXPR_NUM_THREADS", "1"),
        ("BLIS_NUM_THREADS", "1"),
        ("VECLIB_MAXIMUM_THREADS", "1"),
    ];
    fixed.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

pub(crate) fn filter(facts: &HostFacts, profile: Profile, observe: Observe) -> Filter {
    seccomp::compile(FilterSpec {
        arch: facts.arch,
        profile,
        observe,
        unix_sockets: UnixSockets::Refused,
        inet: Inet::Refused,
        shared_memory: SharedMemory::Refused,
        ipc: Ipc::Own,
    })
}

pub(crate) fn enforcement(
    request: &CodeRequest,
    facts: &HostFacts,
    resources: ResourceFence,
) -> Enforcement {
    Enforcement {
        tier: Tier::Namespaces,
        screen: request.screen.clone(),
        process: ProcessFence::Pidns,
        syscalls: SyscallFence::Allowlist,
        resources,
        network: NetworkFence::None,
        filesystem: if facts.landlock_abi > 0 {
            FilesystemFence::PivotRootLandlock
        } else {
            FilesystemFence::PivotRoot
        },
        output: if request.capture { OutputState::On } else { OutputState::Off },
        audit: AuditState::Off,
        python: Some(python_receipt(&request.python, facts)),
        gaps: python_gaps(&request.python)
            .into_iter()
            .chain(facts.core_dumps.gap().map(str::to_owned))
            .collect(),
        policy_sha256: None,
    }
}

/// Version and place; a home is not named.
fn python_receipt(python: &PythonFacts, facts: &HostFacts) -> String {
    let below_home = facts.homes.iter().find_map(|home| python.prefix.strip_prefix(home).ok());
    match below_home {
        Some(below) => format!("{} ~/{}", python.version, below.display()),
        None => format!("{} {}", python.version, python.prefix.display()),
    }
}

/// Kinds of refusal that cannot be observed; without a listener also refused system calls.
fn unobserved(listener: bool) -> Vec<String> {
    let list = ["mounts", "permissions", "landlock", "syscalls"];
    list[..list.len() - usize::from(listener)].iter().map(|&kind| kind.to_owned()).collect()
}

fn worker(
    limits: &Limits,
    request: &CodeRequest,
    facts: &HostFacts,
) -> Result<WorkerPlan, Problem> {
    let mut setup = Calls::new(facts.arch);
    // Its own session: a signal to a process group crosses pid namespaces.
    setup.call("setsid", []);
    setup.call("unshare", [Arg::from(CLONE_NEWNS)]);
    let own_workspace = request.workspace.is_none();
    let workspace = filesystem(&mut setup, limits, own_workspace, &request.visible);
    let mounts =
        setup.path_call("openat", "/proc/self/ns/mnt", [Arg::from(O_CLOEXEC), Arg::from(0)]);
    let ruleset = (facts.landlock_abi > 0).then(|| landlock(&mut setup, facts.landlock_abi));
    user_namespace(&mut setup);
    // A new user namespace begins with a full bounding set. Past the kernel's last capability the answer is EINVAL.
    for capability in 0..CAPABILITIES_MAX {
        setup.may_fail("prctl", [Arg::from(PR_CAPBSET_DROP), Arg::from(capability)]);
    }
    setup.path_call("chdir", WORKSPACE, []);
    for (resource, max) in rlimits(limits) {
        limit(&mut setup, resource, max);
    }
    // The results of `setup` are numbered on into `seal`.
    let mut seal = setup.continued();
    if let Some(ruleset) = ruleset {
        seal.call("landlock_restrict_self", [Arg::Result(ruleset), Arg::from(0)]);
    }
    // After everything was sent: descriptors that a user has in flight count against the sender's limit.
    if let Some(fds) = limits.fds {
        limit(&mut seal, RLIMIT_NOFILE, u64::from(fds.get()));
    }
    // struct __user_cap_header_struct of version 3 for this process, and no capability in either half.
    let header = [0x2008_0522_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    seal.call("capset", [Arg::Bytes(header), Arg::Bytes(vec![0; 24])]);
    seal.call("close_range", [Arg::from(4), Arg::from(u64::from(u32::MAX)), Arg::from(0)]);
    let observe = match request.checkpoints {
        Checkpoints::None => Observe::Errno,
        Checkpoints::ByTheHost => Observe::Notify,
    };
    let filter = filter(facts, Profile::Code, observe);
    seal.seccomp(&filter, request.checkpoints == Checkpoints::ByTheHost);
    let calls = |calls: Calls| {
        calls.finish().map_err(|name| {
            Problem::internal(Code::Calls, format!("no number is known for `{name}` here"))
        })
    };
    Ok(WorkerPlan {
        setup: calls(setup)?,
        given_calls: [workspace, mounts],
        seal: calls(seal)?,
        filter: filter.spec,
        listener: request.checkpoints == Checkpoints::ByTheHost,
        numbers: GUEST_CALLS
            .split_whitespace()
            .filter_map(|name| {
                Some((name, u32::try_from(seccomp::number(facts.arch, name)?).ok()?))
            })
            .collect(),
        limits: limits.clone(),
        enforcement: enforcement(request, facts, ResourceFence::Rlimit),
        unobserved: unobserved(request.checkpoints == Checkpoints::ByTheHost),
    })
}

/// Calls that the guest makes besides those in its lists.
const GUEST_CALLS: &str = "unshare setns dup3 sendmsg close pidfd_open wait4 getrandom";

const RLIMIT_NOFILE: u64 = 7;

/// Address space for programs, libraries and memory that those reserve without using.
const ADDRESS_SPACE_RESERVE: u64 = 2 << 30;

/// Signals that may wait; they are counted for the user, on the host too.
pub(crate) const SIGNALS_MAX: u64 = 128;

/// Some more than any kernel has.
const CAPABILITIES_MAX: u64 = 48;
const PR_CAPBSET_DROP: u64 = 24;
const CLONE_NEWNS: u64 = 0x0002_0000;
const CLONE_NEWUSER: u64 = 0x1000_0000;
const MS_NOSUID_NODEV_NOEXEC: u64 = 2 | 4 | 8;
const MS_BIND: u64 = 4096;
const MS_REC: u64 = 16384;
const O_PATH_CLOEXEC: u64 = 0o10_000_000 | 0o2_000_000;
const O_CLOEXEC: u64 = 0o2_000_000;
const O_WRONLY: u64 = 1;

/// Bytes that files of a run may take.
pub(crate) fn disk_bytes_max(limits: &Limits) -> u64 {
    limits.disk.map_or(100 << 20, ringfence_spec::ByteSize::bytes)
}

/// Address space for a run with so much memory.
pub(crate) fn address_space(memory: ringfence_spec::ByteSize) -> u64 {
    memory.bytes().saturating_add(ADDRESS_SPACE_RESERVE)
}

/// Makes one filesystem of the worker's own, in three places, and a `/proc` that shows only its own processes. The
/// interpreter's files below one of these places stay visible there. Returns the number of the call that opened the
/// workspace.
fn filesystem(
    calls: &mut Calls,
    limits: &Limits,
    own_workspace: bool,
    interpreter: &[Found],
) -> usize {
    let bytes = disk_bytes_max(limits);
    let options = format!("size={bytes},nr_inodes={INODES_MAX},mode=755");
    let mount = |calls: &mut Calls, what: &str, at: &str, flags: u64, options: &str| {
        let kind = if what.starts_with('/') { "none" } else { what };
        let args =
            [Arg::text(what), Arg::text(at), Arg::text(kind), Arg::from(flags), Arg::text(options)];
        calls.call("mount", args)
    };
    mount(calls, "tmpfs", PRIVATE, MS_NOSUID_NODEV_NOEXEC, &options);
    let open = |calls: &mut Calls, path: &str| {
        calls.path_call("openat", path, [Arg::from(O_PATH_CLOEXEC), Arg::from(0)])
    };
    let mut workspace = 0;
    for (i, (name, at, mode)) in PRIVATE_PARTS.iter().enumerate() {
        if i == 0 && !own_workspace {
            workspace = open(calls, at);
            continue;
        }
        let path = format!("{PRIVATE}/{name}");
        calls.path_call("mkdirat", &path, [Arg::from(u64::from(*mode))]);
        // The bootstrap's umask may have taken bits away.
        calls.path_call("fchmodat", &path, [Arg::from(u64::from(*mode)), Arg::from(0)]);
        let below = interpreter.iter().filter(|found| found.kind == FileKind::Directory);
        for found in below.filter(|found| i > 0 && found.path.starts_with(at)) {
            let Ok(rest) = found.path.strip_prefix(at) else { continue };
            let mut within = PathBuf::from(&path);
            for name in rest {
                within.push(name);
                calls.make_directory(&within.to_string_lossy());
            }
            mount(calls, &found.path.to_string_lossy(), &within.to_string_lossy(), MS_BIND, "");
        }
        mount(calls, &path, at, MS_BIND | MS_REC, "");
        if i == 0 {
            workspace = open(calls, &path);
        }
    }
    mount(calls, "proc", "/proc", MS_NOSUID_NODEV_NOEXEC, "subset=pid");
    workspace
}

/// A ruleset: read everything visible, write the worker's own. Returns which call made it.
fn landlock(calls: &mut Calls, abi: u32) -> usize {
    const READ: u64 = 1 << 2 | 1 << 3;
    const WRITE_FILE: u64 = 1 << 1;
    const MAKE_CHAR_SOCK_BLOCK: u64 = 1 << 6 | 1 << 9 | 1 << 11;
    const EXECUTE: u64 = 1;
    let n_rights = match abi {
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    let all: u64 = (1 << n_rights) - 1;
    let truncate_and_ioctl = all & (1 << 14 | 1 << 15);
    // struct landlock_ruleset_attr as far as this ABI has it: files, TCP bind and connect, scopes.
    let fields: &[u64] = match abi {
        0..4 => &[all],
        4 | 5 => &[all, 3],
        _ => &[all, 3, 3],
    };
    let attr: Vec<u8> = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
    let size = attr.len() as u64;
    let ruleset =
        calls.call("landlock_create_ruleset", [Arg::Bytes(attr), Arg::from(size), Arg::from(0)]);
    let writable = all & !MAKE_CHAR_SOCK_BLOCK & !EXECUTE;
    let device = READ | WRITE_FILE | truncate_and_ioctl;
    let rules = [("/", READ), ("/dev", device), ("/proc", READ | WRITE_FILE)];
    let private = PRIVATE_PARTS.iter().map(|(_, at, _)| (*at, writable));
    for (path, rights) in rules.into_iter().chain(private) {
        let fd = calls.path_call("openat", path, [Arg::from(O_PATH_CLOEXEC), Arg::from(0)]);
        // struct landlock_path_beneath_attr, packed: rights, then a descriptor.
        let mut rule = rights.to_ne_bytes().to_vec();
        rule.extend([0; 4]);
        let rule = Arg::BytesWithResult { bytes: rule, at: 8, result: fd };
        calls.call("landlock_add_rule", [Arg::Result(ruleset), Arg::from(1), rule, Arg::from(0)]);
    }
    ruleset
}

/// A user namespace of the worker's own: it has no rights over the zygote's, and its threads are counted alone. After
/// the mounts, because mounting /proc needs the namespace that owns the pid namespace.
fn user_namespace(calls: &mut Calls) {
    calls.call("unshare", [Arg::from(CLONE_NEWUSER)]);
    let id = format!("{GUEST_ID} 0 1");
    for (file, text) in [("setgroups", "deny"), ("uid_map", &id), ("gid_map", &id)] {
        let path = format!("/proc/self/{file}");
        let fd = calls.path_call("openat", &path, [Arg::from(O_WRONLY), Arg::from(0)]);
        let length = text.len() as u64;
        let text = Arg::Bytes(text.as_bytes().to_vec());
        calls.call("write", [Arg::Result(fd), text, Arg::from(length)]);
        calls.call("close", [Arg::Result(fd)]);
    }
}

fn limit(calls: &mut Calls, resource: u64, max: u64) {
    let pair = [max.to_ne_bytes(), max.to_ne_bytes()].concat();
    calls.call("prlimit64", [Arg::from(0), Arg::from(resource), Arg::Bytes(pair), Arg::from(0)]);
}

/// Resource numbers of getrlimit(2), the same on both architectures.
fn rlimits(limits: &Limits) -> Vec<(u64, u64)> {
    let bytes = |size: ringfence_spec::ByteSize| size.bytes();
    let entries = [
        (0, limits.cpu.map(|cpu| cpu.millis().div_ceil(1000))),
        (1, limits.disk.map(bytes)),
        // Data rather than address space: libraries reserve far more than they use.
        (2, limits.memory.map(bytes)),
        (4, Some(CORE_LIMIT)),
        (6, limits.pids.map(|n| u64::from(n.get()))),
        (8, Some(0)),
        // Address space also bounds memory that no other limit does, such as page tables.
        (9, limits.memory.map(address_space)),
        (11, Some(SIGNALS_MAX)),
        (12, Some(0)),
    ];
    entries.into_iter().filter_map(|(resource, max)| Some((resource, max?))).collect()
}

impl View {
    /// The tree of a zygote, before anything of the host is in it.
    fn for_code() -> Self {
        let mut view = Self::default();
        for mount in crate::view::devices() {
            view.put(mount);
        }
        // Not masked: a worker can mount its own only where a whole one is visible. Workers see nothing of this one.
        view.put(Mount::Proc { at: "/proc".into() });
        view
    }
}

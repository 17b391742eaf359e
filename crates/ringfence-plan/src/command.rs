//! The plan of a command run: chooses the tier, names the gaps, lays out the steps.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringfence_spec::{
    AuditState, ByteSize, Code, CommandPreset, Count, Enforcement, Fallback, FilesystemFence, Hint,
    Limits, Network, NetworkFence, OutputState, Policy, Problem, ProcessFence, ResourceFence,
    SecretGrant, SecretSource, SyscallFence, Tier,
};

use crate::catalogue;
use crate::environment::environment;
use crate::facts::{
    CgroupFacts, FileKind, GitIndex, HostFacts, HostWorkspace, MappedDir, NetworkCapture, Request,
    RootEntry, UserNamespaces, WritableDir, WritableRoot,
};
use crate::landlock_tier::landlock;
use crate::network::{NetworkPlan, NetworkWay};
use crate::orders::Orders;
use crate::plan::{
    Access, BindSource, CgroupPlan, Identity, LandlockPlan, LandlockReading, LandlockRule, Mount,
    Namespace, Plan, Resource, Rlimit, RuleAccess, Step,
};
use crate::seccomp::{
    self, Filter, FilterSpec, Inet, Ipc, Observe, Profile, SharedMemory, UnixSockets,
};
use crate::view::{Parts, ProtectedGrant, View, WORKSPACE};

/// Bytes a run's private directories may hold when neither disk nor memory is limited.
const SCRATCH_BYTES_MAX: u64 = 2 << 30;

/// Inodes a run's private directories may hold: a `node_modules` of the largest kind, and an end to inode floods.
const SCRATCH_INODES_MAX: u64 = 500_000;

/// Maximum locked memory of a run: the default of kernels since 5.16.
const MEMLOCK_BYTES_MAX: u64 = 8 << 20;

/// The limit on core dumps of every run, soft and hard: too little for a file, and the one value with which the kernel
/// starts no handler that `kernel.core_pattern` names after a `|` (fs/coredump.c). With 0 it starts it.
pub(crate) const CORE_LIMIT: u64 = 1;

/// Turns a policy, a request and the facts of this host into the plan of one command run.
pub fn plan_command(
    policy: &Policy,
    request: &Request,
    facts: &HostFacts,
) -> Result<Plan, Problem> {
    if facts.ids.root_outside {
        return Err(root_outside(facts));
    }
    refuse_too_small(policy.limits.memory, policy.limits.fds, COMMAND_MEMORY_MIN)?;
    let choice = choose_tier(policy, facts)?;
    refuse_broad_workspaces(policy, request, facts)?;
    match choice.tier {
        Tier::Namespaces => namespaces(policy, request, facts, choice.gaps),
        Tier::Landlock | Tier::None => landlock(policy, request, facts, choice),
    }
}

/// The error for a caller whose only mapped id is root's: there is no other to give the run.
pub(crate) fn root_outside(facts: &HostFacts) -> Problem {
    Problem::cannot_build(
        Code::RootOutside,
        format!("user {} here is root outside this user namespace", facts.ids.uid),
    )
    .cause("no run has host uid 0, and one id mapped alone leaves no other to give it")
    .hint("enter the namespace as an ordinary user, or run ringfence outside it")
}

/// The chosen tier, and the gaps that follow from it.
pub(crate) struct Choice {
    pub(crate) tier: Tier,
    pub(crate) gaps: Vec<String>,
}

fn choose_tier(policy: &Policy, facts: &HostFacts) -> Result<Choice, Problem> {
    let mut gaps = Vec::new();
    let tier = match &facts.user_namespaces {
        _ if !facts.seccomp_filter => {
            gaps.push(
                "system calls are not filtered: this kernel has no seccomp filters".to_owned(),
            );
            Tier::None
        }
        UserNamespaces::Usable => Tier::Namespaces,
        UserNamespaces::Refused(why) => {
            gaps.push(format!("no namespaces: {why}"));
            if facts.landlock_abi == 0 {
                gaps.push("files are not confined: this kernel has no Landlock".to_owned());
                Tier::None
            } else {
                Tier::Landlock
            }
        }
    };
    let enough = match policy.require {
        Some(required) => tier.satisfies(required),
        None => tier.satisfies(Tier::Landlock) || policy.fallback == Fallback::Warn,
    };
    if enough {
        return Ok(Choice { tier, gaps });
    }
    let required = policy.require.unwrap_or(Tier::Landlock);
    let problem = Problem::cannot_build(
        Code::TierUnavailable,
        format!("cannot build the `{required}` tier on this host"),
    )
    .cause(gaps.join("; "));
    Err(match (policy.require, tier) {
        (Some(Tier::Namespaces), Tier::Landlock) => problem.hint(
            Hint::operator(
                "allow user namespaces (`ringfence doctor` says how), or accept less with `--require landlock`",
                "to run `ringfence doctor`, which says how to allow user namespaces",
            ),
        ),
        (None, _) => problem.hint(
            Hint::operator(
                "`ringfence doctor` says what is missing; `--fallback warn` runs with what is left",
                "to run `ringfence doctor`, which says what is missing",
            ),
        ),
        _ => problem.hint("`ringfence doctor` says what is missing"),
    })
}

/// Returns true if no plan lets a run write this directory.
pub fn is_too_broad(path: &Path, facts: &HostFacts) -> bool {
    too_broad(path, facts).is_some()
}

fn too_broad(path: &Path, facts: &HostFacts) -> Option<Problem> {
    let shown = path.display();
    let broad = |message: String| {
        Problem::refused(Code::WorkspaceTooBroad, message).hint(Hint::OtherDirectory)
    };
    if path == Path::new("/") {
        return Some(broad("`/` cannot be made writable".to_owned()));
    }
    let mut homes = facts.homes.iter().chain(&facts.other_homes);
    if let Some(home) = homes.find(|home| home.starts_with(path)) {
        return Some(broad(format!(
            "`{shown}` cannot be made writable: it holds the home `{}`",
            home.display()
        )));
    }
    if let Some(secret) = facts.secrets.iter().find(|s| path.starts_with(&s.path)) {
        let message = format!("`{shown}` is never visible to a run");
        let cause = format!("`{}` holds credentials or state", secret.path.display());
        return Some(Problem::refused(Code::SecretPath, message).cause(cause));
    }
    let system = facts.system.iter().any(|entry| match entry {
        RootEntry::Directory(found) => found.path.starts_with(path),
        RootEntry::Symlink { .. } => false,
    });
    if system || ["/proc", "/sys", "/dev", "/run"].iter().any(|p| path.starts_with(p)) {
        let message = format!("`{shown}` cannot be made writable: it is part of the system");
        return Some(broad(message));
    }
    None
}

/// A writable directory that holds the caller's whole life is not a workspace.
fn refuse_broad_workspaces(
    policy: &Policy,
    request: &Request,
    facts: &HostFacts,
) -> Result<(), Problem> {
    for path in request
        .writable
        .iter()
        .map(|w| &w.root.path)
        .chain(request.writable_files.iter().map(|f| &f.path))
    {
        let shown = path.display();
        let is_cwd = *path == request.cwd.path;
        if let Some(problem) = too_broad(path, facts) {
            return Err(if is_cwd || problem.code == Code::SecretPath {
                problem
            } else {
                problem.hint(Hint::operator(
                    "grant a directory below it with `--rw`",
                    "to grant a directory below it",
                ))
            });
        }
        if let Some(hidden) = hidden_above(path, request) {
            return Err(Problem::usage(
                Code::ContradictoryPaths,
                format!("`{shown}` is writable and inside `{hidden}`, which is hidden"),
            )
            .hint(if is_cwd {
                "start in another directory, or drop `--hide`"
            } else {
                "drop one of `--rw` and `--hide`"
            }));
        }
    }
    for found in &request.readable {
        if let Some(hidden) = hidden_above(&found.path, request) {
            let shown = found.path.display();
            return Err(Problem::usage(
                Code::ContradictoryPaths,
                format!("`--ro {shown}` and `--hide {hidden}` contradict each other"),
            )
            .hint(
                "drop one of `--ro` and `--hide`; `ringfence policy show` says where they are set",
            ));
        }
        if found.path == Path::new("/") {
            return Err(Problem::refused(Code::GrantTooBroad, "`/` cannot be granted as a whole")
                .hint("name the directories the run needs with `--ro`"));
        }
        if let Some(secret) = facts.secrets.iter().find(|s| found.path.starts_with(&s.path)) {
            return Err(Problem::refused(
                Code::SecretPath,
                format!("`{}` is never visible to a run", found.path.display()),
            )
            .cause(format!("`{}` holds credentials or state", secret.path.display())));
        }
    }
    let writes = !request.writable.is_empty() || !request.writable_files.is_empty();
    if policy.preset == CommandPreset::Readonly && writes {
        return Err(Problem::usage(
            Code::ContradictoryPaths,
            "`--preset readonly` and `--rw` contradict each other",
        )
        .hint("drop `--rw`, or use `--preset workspace`"));
    }
    Ok(())
}

/// Has git look for a repository above the working directory, which is a mount of its own, if more than that is shown.
pub(crate) fn find_repositories_above(
    request: &Request,
    environment: &mut std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString>,
) {
    let cwd = &request.cwd.path;
    let is_above = |found: &crate::Found| found.path != *cwd && cwd.starts_with(&found.path);
    if request.readable.iter().any(is_above) {
        environment.insert("GIT_DISCOVERY_ACROSS_FILESYSTEM".into(), "1".into());
    }
}

/// Returns the hidden path that contains `path`.
fn hidden_above<'a>(path: &Path, request: &'a Request) -> Option<std::path::Display<'a>> {
    let hidden = request.hidden.iter().find(|h| path.starts_with(&h.path));
    hidden.map(|found| found.path.display())
}

fn namespaces(
    policy: &Policy,
    request: &Request,
    facts: &HostFacts,
    mut gaps: Vec<String>,
) -> Result<Plan, Problem> {
    let identity = identity(request, facts);
    let mut view = View::for_command(policy, request, facts, &identity);
    if let Some(session) = &request.session {
        view.put(session.mount(&identity));
    }
    for MappedDir { found, at } in &request.mapped {
        let idmapped = identity.disk_owner.is_some();
        let source = BindSource::Host { path: found.path.clone(), id: found.id, idmapped };
        let at = home_of(facts, false).join(at);
        view.put(Mount::Bind { source, at, access: Access::ReadWrite });
    }
    let limits = &policy.limits;
    let resources = resource_fence(facts);
    gaps.extend(memory_gap(facts, limits));
    gaps.extend(hidden_processes_gaps(facts, limits));
    if facts.landlock_abi == 0 {
        gaps.push("Landlock is missing: the mount table alone confines files".to_owned());
    }
    gaps.extend(facts.core_dumps.gap().map(str::to_owned));
    gaps.extend(groups_gap(facts, &identity));
    gaps.extend(git_gaps(request));
    for (found, effect) in crate::view::grants(request) {
        let shown = found.path.display();
        match effect {
            Some(ProtectedGrant::Refused) => return Err(protected_path(&found.path)),
            Some(ProtectedGrant::Given) => gaps.push(format!(
                "`{shown}` is a protected name and writable by a grant: programs of the host obey what the run leaves there"
            )),
            None => {}
        }
    }

    let landlock = (facts.landlock_abi > 0).then(|| namespace_rules(facts.landlock_abi, &view));
    let minimal = policy.preset == CommandPreset::Minimal;
    let home = home_of(facts, minimal);
    let cwd = match () {
        () if request.session.is_some() => WORKSPACE.into(),
        () if minimal && !request.writable.iter().any(|w| w.root.path == request.cwd.path) => {
            WORKSPACE.into()
        }
        () if view.shows(&request.cwd.path) => request.cwd.path.clone(),
        () => {
            return Err(Problem::usage(
                Code::CwdNotVisible,
                format!("`{}` is not visible to this run", request.cwd.path.display()),
            )
            .hint(format!("pass `--ro {}` as well", request.cwd.path.display())));
        }
    };
    let way = match facts.network_capture {
        NetworkCapture::Usable => NetworkWay::Captured,
        NetworkCapture::Refused(_) => NetworkWay::Proxy,
    };
    let mut environment =
        environment(policy, facts, way, &home, Path::new("/tmp"), |path| view.shows(path))?;
    if let Some(interception) = &request.interception {
        view.certificates(interception);
        let files = interception.hidden.iter().map(|found| &found.path);
        for file in files.filter(|file| file.parent().is_some_and(|dir| view.shows(dir))) {
            gaps.push(format!(
                "`{}` holds a secret in a directory that the run sees: a file that takes its place during the run is visible",
                file.display()
            ));
        }
        environment.extend(
            interception.placeholders.iter().map(|(name, shown)| (name.into(), shown.into())),
        );
        for name in catalogue::CERTIFICATE_VARIABLES {
            environment.entry(name.into()).or_insert_with(|| catalogue::CERTIFICATES.into());
        }
        gaps.push(
            "clients with built-in or pinned certificates do not trust the run's authority, nor does a Java whose store is in none of the usual places"
                .to_owned(),
        );
    }
    if let Some(agent) = &request.ssh_agent {
        view.ssh_agent(policy.preset, agent, &mut environment, &mut gaps);
        gaps.extend(policy.ssh_agent.iter().filter(|grant| grant.allows_unbound).map(|grant| {
            format!(
                "`--ssh-agent {grant}` signs logins that are not bound to the host's key: a run that gets at the private key of {} can log in elsewhere",
                grant.place()
            )
        }));
    }
    find_repositories_above(request, &mut environment);
    environment.extend(request.session.iter().flat_map(HostWorkspace::environment));
    let seccomp = filter(facts, resources, UnixSockets::Supervised, Inet::Allowed, Ipc::Own);
    let unobserved = unobserved(seccomp.as_ref());
    let Parts { early, late, placeholders } = view.into_parts();

    let devices = crate::view::devices();
    let mut setup = Orders::opening();
    let mut rest = early;
    // A policy may put something else in /dev; then it all comes in the table's own order.
    if devices.iter().all(|mount| rest.contains(mount)) {
        rest.retain(|mount| !devices.contains(mount));
    } else {
        setup.retain(|step| !matches!(step, Step::Mount(_)));
    }
    setup.push(Step::SizeRoot { bytes_max: scratch_bytes(limits), inodes_max: SCRATCH_INODES_MAX });
    let mut network = network(policy, request, facts, &mut gaps)?;
    if let Some(network) = &mut network {
        network.reread = reread(request);
        let captures = network.way == NetworkWay::Captured;
        let listeners = network.listeners.clone();
        setup.push(Step::CaptureNetwork { captures, listeners });
    }
    setup.extend(rest.into_iter().map(Step::Mount));
    setup.push(Step::TakeSupplies);
    setup.extend(late.into_iter().map(Step::Mount));
    setup.extend(Orders::closing(resources));
    let mut payload = vec![Step::NewSession, Step::ChangeDirectory];
    payload.push(Step::SetRlimits { limits: rlimits(limits, resources) });
    // Capabilities go before no_new_privs only by habit; both go before Landlock and seccomp, which need neither.
    payload.extend([Step::DropCapabilities, Step::NoNewPrivileges]);
    if landlock.is_some() {
        payload.push(Step::Landlock);
    }
    payload.extend([Step::Seccomp, Step::Execute]);

    Ok(Plan {
        tier: Tier::Namespaces,
        identity,
        placeholders,
        cgroup: cgroup(limits, resources),
        initial_namespaces: Namespace::INITIAL.to_vec(),
        setup,
        payload,
        seccomp,
        landlock: landlock.clone(),
        environment,
        argv: request.argv.clone(),
        cwd,
        limits: limits.clone(),
        host_scratch: None,
        disk_roots: disk_roots(request),
        watch_git: watch_git(request),
        git_indexes: git_indexes(request),
        git_dirs: git_dirs(request),
        sockets: request.sockets.iter().map(|s| s.id).collect(),
        network,
        enforcement: Enforcement {
            tier: Tier::Namespaces,
            screen: None,
            process: ProcessFence::Pidns,
            syscalls: SyscallFence::Command,
            resources,
            network: match policy.network {
                Network::None => NetworkFence::None,
                Network::Allow(_) => NetworkFence::Allowlist,
            },
            filesystem: if landlock.is_some() {
                FilesystemFence::PivotRootLandlock
            } else {
                FilesystemFence::PivotRoot
            },
            output: if request.capture { OutputState::On } else { OutputState::Off },
            audit: AuditState::Off,
            python: None,
            gaps,
            policy_sha256: None,
        },
        unobserved,
    })
}

/// The error about a grant of git's own files.
pub fn protected_path(path: &Path) -> Problem {
    Problem::refused(Code::ProtectedPath, format!("`{}` cannot be made writable", path.display()))
        .cause("the host's git executes or obeys what it finds there")
        .hint("make such changes outside the fence")
}

/// Secrets that the host may read again. Not a file that this run could have replaced by a link to another one, and not by a
/// command that names a directory of the run's: the run could have changed what it executes.
fn reread(request: &Request) -> Vec<Option<SecretGrant>> {
    let sources = request.interception.iter().flat_map(|interception| &interception.sources);
    let is_out_of_reach = |grant: &SecretGrant, paths: &[PathBuf]| match &grant.source {
        SecretSource::Command(command)
            if request.writable_paths().any(|writable| mentions(command, writable)) =>
        {
            false
        }
        _ => !request.writable_paths().any(|root| paths.iter().any(|path| path.starts_with(root))),
    };
    sources
        .map(|source| source.as_ref().filter(|(grant, paths)| is_out_of_reach(grant, paths)))
        .map(|source| source.map(|(grant, _)| grant.clone()))
        .collect()
}

/// Returns true if a command's text may name this path: by itself, or by its last name after a variable or `~`.
fn mentions(command: &str, path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    command.contains(path.to_string_lossy().as_ref())
        || name.is_none_or(|name| command.contains(&format!("/{name}")))
}

/// The captured network, or none where the host refuses to capture: then nothing is reachable, and an allowlist cannot be
/// had.
fn network(
    policy: &Policy,
    request: &Request,
    facts: &HostFacts,
    gaps: &mut Vec<String>,
) -> Result<Option<NetworkPlan>, Problem> {
    if request.ssh_agent.is_some() && !(facts.seccomp_filter && facts.seccomp_notify) {
        return Err(cannot_use_agent().cause("the run could not connect to its agent's socket: this kernel does not report system calls to a supervisor"));
    }
    match (&facts.network_capture, &policy.network) {
        (NetworkCapture::Usable, _) => {
            let agent = request.ssh_agent.as_ref().map(|agent| agent.plan.clone());
            NetworkPlan::new(policy, agent).map(Some)
        }
        (NetworkCapture::Refused(why), _) if request.ssh_agent.is_some() => Err(cannot_use_agent()
            .cause(format!(
                "connections are not captured, and ssh uses no proxy variables: {why}"
            ))),
        (NetworkCapture::Refused(why), _) if !policy.publish.is_empty() => {
            Err(cannot_publish().cause(why))
        }
        (NetworkCapture::Refused(why), Network::None) => {
            gaps.push(format!("refused name lookups are not named: {why}"));
            Ok(None)
        }
        (NetworkCapture::Refused(why), Network::Allow(_)) => {
            gaps.push(format!(
                "connections are not captured, so only programs that use the proxy variables have the network: {why}"
            ));
            NetworkPlan::by_proxy(policy).map(Some)
        }
    }
}

pub(crate) fn cannot_use_agent() -> Problem {
    Problem::cannot_build(Code::SshAgent, "cannot use the SSH agent in a run on this host")
        .hint("`ringfence doctor` says what is missing; leave out `--ssh-agent`")
}

pub(crate) fn cannot_publish() -> Problem {
    Problem::cannot_build(
        Code::NetworkAllowlistUnsupported,
        "cannot publish a port of a run on this host",
    )
    .hint("`ringfence doctor` says what is missing; leave out `--publish`")
}

/// Least memory and descriptors with which a process can be started behind the fence, by trial on x86-64: `true` needs
/// 200 KiB, Python 3.11 without modules 6 MiB, and Landlock's rules 15 descriptors.
pub const COMMAND_MEMORY_MIN: ByteSize = ByteSize::mib(1);
pub(crate) const CODE_MEMORY_MIN: ByteSize = ByteSize::mib(16);
const FDS_MIN: u32 = 16;

/// Refuses limits with which nothing could start: the kernel's own errors would not name them.
pub fn refuse_too_small(
    memory: Option<ByteSize>,
    fds: Option<Count>,
    memory_min: ByteSize,
) -> Result<(), Problem> {
    let too_small = |key: &str, limit: &dyn std::fmt::Display, min: &dyn std::fmt::Display| {
        Problem::usage(
            Code::LimitTooSmall,
            format!("`{key}` of {limit} is too small for a program to start"),
        )
        .hint(Hint::operator(
            format!("pass at least `--{key} {min}`"),
            format!("to set `{key}` to at least {min}"),
        ))
    };
    if let Some(memory) = memory.filter(|memory| *memory < memory_min) {
        return Err(too_small("memory", &memory, &memory_min));
    }
    if let Some(fds) = fds.filter(|fds| fds.get() < FDS_MIN) {
        return Err(too_small("fds", &fds, &FDS_MIN));
    }
    Ok(())
}

pub(crate) fn identity(request: &Request, facts: &HostFacts) -> Identity {
    let mut identity = Identity::of_caller(facts.ids);
    let first = request.writable.first().map(|first| (first.owner_uid, first.owner_gid));
    let whose = request.session.as_ref().map(|session| session.owner).or(first);
    if let (Some(owner), Some(whose)) = (&mut identity.disk_owner, whose) {
        *owner = whose;
    }
    identity
}

fn home_of(facts: &HostFacts, minimal: bool) -> PathBuf {
    match facts.homes.first() {
        Some(home) if !minimal => home.clone(),
        _ if minimal => WORKSPACE.into(),
        _ => "/tmp".into(),
    }
}

pub(crate) fn resource_fence(facts: &HostFacts) -> ResourceFence {
    match &facts.cgroup {
        CgroupFacts::V2 => ResourceFence::Cgroup2,
        CgroupFacts::V1 => ResourceFence::Cgroup1,
        CgroupFacts::Missing(_) => ResourceFence::Rlimit,
    }
}

/// The gap of a user who keeps supplementary groups.
pub(crate) fn groups_gap(facts: &HostFacts, identity: &Identity) -> Option<String> {
    (!facts.groups.is_empty() && identity.disk_owner.is_none()).then(|| {
        format!("supplementary groups stay: an ordinary user cannot drop {:?}", facts.groups)
    })
}

/// Gaps of the repositories in writable directories.
pub(crate) fn git_gaps(request: &Request) -> Vec<String> {
    let gaps_of = |root: &WritableRoot| {
        let distrusted = root.git.distrusted.as_ref();
        let distrusted = distrusted
            .map(|why| format!("`{}/.git` is not followed: {why}", root.root.path.display()));
        distrusted.into_iter().chain(root.git.gaps.iter().cloned()).collect::<Vec<_>>()
    };
    request.writable.iter().flat_map(gaps_of).collect()
}

/// Gaps of limits that are watched, on a host that hides processes which their own user may not look into.
pub(crate) fn hidden_processes_gaps(facts: &HostFacts, limits: &Limits) -> Vec<String> {
    let no_cgroup = matches!(facts.cgroup, CgroupFacts::Missing(_));
    let by_tree = no_cgroup && (limits.memory.is_some() || limits.cpu.is_some());
    let gaps = [
        by_tree.then_some("limits of memory and CPU time hold for each process, not for the tree"),
        limits.disk.is_some().then_some("deleted files do not count for `--disk`"),
    ];
    let why = "`/proc` is mounted with `hidepid`";
    let gaps = gaps.into_iter().flatten().filter(|_| facts.hides_processes);
    gaps.map(|gap| format!("{gap}: {why}")).collect()
}

/// Returns the gap of a run with several processes whose memory no cgroup counts together.
pub(crate) fn memory_gap(facts: &HostFacts, limits: &Limits) -> Option<String> {
    let CgroupFacts::Missing(why) = &facts.cgroup else { return None };
    limits.memory.is_some().then(|| {
        format!("memory is limited per process and watched for the tree, not by a cgroup: {why}")
    })
}

pub(crate) fn cgroup(limits: &Limits, resources: ResourceFence) -> Option<CgroupPlan> {
    (resources != ResourceFence::Rlimit).then(|| CgroupPlan {
        memory_bytes_max: limits.memory.map(ringfence_spec::ByteSize::bytes),
        pids_max: limits.pids.map(|n| n.get().saturating_add(1)),
        count_cpu: limits.cpu.is_some(),
    })
}

/// Maximum number of queued signals and timers of a command's user. Programs with a timer for each of their threads have
/// hundreds.
const SIGNALS_MAX: u64 = 4096;

pub(crate) fn rlimits(limits: &Limits, resources: ResourceFence) -> Vec<Rlimit> {
    let mut list = vec![
        Rlimit { resource: Resource::Core, max: CORE_LIMIT },
        Rlimit { resource: Resource::Memlock, max: MEMLOCK_BYTES_MAX },
        Rlimit { resource: Resource::Msgqueue, max: 0 },
        // Counted for the user, on the host too: queued signals and timers.
        Rlimit { resource: Resource::Sigpending, max: SIGNALS_MAX },
        // Where the host lets its users go before others, the run would go before its supervisor.
        Rlimit { resource: Resource::Rtprio, max: 0 },
        Rlimit { resource: Resource::Nice, max: 0 },
    ];
    let mut add = |resource, max: Option<u64>| {
        if let Some(max) = max {
            list.push(Rlimit { resource, max });
        }
    };
    add(Resource::Nofile, limits.fds.map(|n| u64::from(n.get())));
    add(Resource::Fsize, limits.disk.map(ringfence_spec::ByteSize::bytes));
    // One second above the tree's limit: the supervisor's count decides, this one is for when it is late.
    add(Resource::Cpu, limits.cpu.map(|s| s.millis().div_ceil(1000) + 1));
    if resources == ResourceFence::Rlimit {
        add(Resource::Data, limits.memory.map(ringfence_spec::ByteSize::bytes));
        add(Resource::Nproc, limits.pids.map(|n| u64::from(n.get()).saturating_add(1)));
    }
    list
}

/// Private directories live in memory, so they get half of it, or the disk limit when that is less.
fn scratch_bytes(limits: &Limits) -> u64 {
    let half_memory = limits.memory.map_or(SCRATCH_BYTES_MAX, |m| m.bytes() / 2);
    limits.disk.map_or(half_memory, |d| d.bytes().min(half_memory)).max(1 << 20)
}

pub(crate) fn filter(
    facts: &HostFacts,
    resources: ResourceFence,
    unix_sockets: UnixSockets,
    inet: Inet,
    ipc: Ipc,
) -> Option<Filter> {
    let notify = facts.seccomp_notify;
    facts.seccomp_filter.then(|| {
        seccomp::compile(FilterSpec {
            arch: facts.arch,
            profile: Profile::Command,
            observe: if notify { Observe::Notify } else { Observe::Errno },
            // Without a supervisor to decide, no connect is allowed.
            unix_sockets: if notify { unix_sockets } else { UnixSockets::Refused },
            inet,
            // Only a cgroup counts memory that no process maps.
            shared_memory: if resources == ResourceFence::Rlimit {
                SharedMemory::Refused
            } else {
                SharedMemory::Allowed
            },
            ipc,
        })
    })
}

pub(crate) fn unobserved(filter: Option<&Filter>) -> Vec<String> {
    // The kernel does not report a refusal by a mount, a permission or a Landlock rule.
    let mut list = vec!["mounts".to_owned(), "permissions".to_owned(), "landlock".to_owned()];
    if !filter.is_some_and(Filter::listener) {
        list.push("syscalls".to_owned());
    }
    list
}

fn namespace_rules(abi: u32, view: &View) -> LandlockPlan {
    let rule = |path: PathBuf, access| LandlockRule { path, access, id: None };
    let mut rules = vec![
        rule("/".into(), RuleAccess::Read),
        rule("/dev".into(), RuleAccess::Device),
        // Writing to one's own `/proc/self` is ordinary; the sensitive files there are masked or read-only by mount.
        rule("/proc".into(), RuleAccess::Device),
    ];
    rules.extend(view.writable_paths().into_iter().map(|path| rule(path, RuleAccess::Write)));
    LandlockPlan { abi, reading: LandlockReading::Free, deny_tcp: false, rules }
}

pub(crate) fn disk_roots(request: &Request) -> Vec<WritableDir> {
    let mapped = request.mapped.iter().map(|dir| &dir.found);
    let own = request.writable.iter().map(|w| &w.root).chain(mapped);
    let own = own.map(|root| WritableDir { path: root.path.clone(), id: root.id });
    own.chain(request.session.iter().map(HostWorkspace::writable_dir)).collect()
}

/// Every index that the run may write, or whose nested repositories it may write.
pub(crate) fn git_indexes(request: &Request) -> Vec<GitIndex> {
    request.writable.iter().flat_map(|w| w.git.indexes.clone()).collect()
}

/// Every git directory that the run may write.
pub(crate) fn git_dirs(request: &Request) -> Vec<WritableDir> {
    let mut dirs: Vec<WritableDir> = Vec::new();
    for writable in &request.writable {
        let linked = writable.git.linked.as_deref();
        let roots = [Some(&writable.root), linked.map(|linked| &linked.root)];
        let indexes = writable.git.indexes.iter();
        let inside = indexes.filter(|index| {
            roots.iter().flatten().any(|root| index.git_dir.starts_with(&root.path))
        });
        let of_indexes =
            inside.map(|index| WritableDir { path: index.git_dir.clone(), id: index.git_dir_id });
        let surveyed = writable.git.dirs.iter().chain(linked.iter().flat_map(|l| &l.git.dirs));
        let common = linked.map(|l| WritableDir { path: l.root.path.clone(), id: l.root.id });
        for dir in surveyed.cloned().chain(common).chain(of_indexes) {
            // The administrative directory of a worktree is searched together with its repository.
            let is_searched = |known: &WritableDir| {
                dir.path == known.path || dir.path.starts_with(known.path.join("worktrees"))
            };
            if !dirs.iter().any(is_searched) {
                dirs.push(dir);
            }
        }
    }
    dirs
}

pub(crate) fn watch_git(request: &Request) -> Vec<PathBuf> {
    request
        .writable
        .iter()
        .filter(|w| !w.git.is_repository && w.root.kind == FileKind::Directory)
        .map(|w| w.root.path.clone())
        .collect()
}

impl Plan {
    /// The mount table, in order.
    pub fn mounts(&self) -> impl Iterator<Item = &Mount> {
        self.setup.iter().filter_map(|step| match step {
            Step::Mount(mount) => Some(mount),
            _ => None,
        })
    }
}

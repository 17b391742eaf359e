//! The plan of a one-shot Python program: one interpreter, fenced by the jail before it begins, instead of a zygote and
//! its workers. It has a worker's fence, and a cgroup of its own besides.

use std::path::Path;

use ringfence_spec::{ByteSize, CommandPreset, Count, Limits, Problem, ResourceFence, Tier};

use crate::code::{self, CodeRequest, INODES_MAX, PRIVATE_PARTS, WORKSPACE};
use crate::facts::{HostFacts, HostWorkspace};
use crate::orders::Orders;
use crate::plan::{
    CgroupPlan, Identity, LandlockPlan, LandlockReading, LandlockRule, MaskKind, Mount, Namespace,
    Plan, Resource, Rlimit, RuleAccess, Step,
};
use crate::seccomp::{Observe, Profile};
use crate::view::{View, devices};

/// Devices that every run is given before its plan is known and that code has no use for: shared memory by another
/// name, and terminals.
const DEVICES_MASKED: [(&str, MaskKind); 3] = [
    ("/dev/zero", MaskKind::File),
    ("/dev/tty", MaskKind::File),
    ("/dev/pts", MaskKind::Directory),
];

/// Makes the plan, or returns the reason it cannot. The caller adds the interpreter's `argv`.
pub fn plan_one_shot(
    limits: &Limits,
    request: &CodeRequest,
    facts: &HostFacts,
) -> Result<Plan, Problem> {
    code::refuse_without_namespaces(facts)?;
    crate::command::refuse_too_small(limits.memory, limits.fds, crate::command::CODE_MEMORY_MIN)?;
    let limits = &with_processes(limits, request.processes);
    let mut identity = Identity::of_code(facts.ids);
    if let Some(workspace) = &request.workspace {
        identity.disk_owner = identity.disk_owner.map(|_| workspace.owner);
    }
    let mut view = View::default();
    for mount in devices() {
        view.put(mount);
    }
    view.put(Mount::ProcOfPids { at: "/proc".into() });
    if request.processes.is_some() {
        // The programs that it may start. What they are shown with needs no mount of its own.
        view.system(CommandPreset::Minimal, facts, &identity);
        let mut rest = request.clone();
        rest.links.retain(|(at, _)| !view.shows(at));
        rest.visible.retain(|found| !view.shows(&found.path));
        code::show_interpreter(&mut view, &rest, facts, &identity);
    } else {
        code::show_interpreter(&mut view, request, facts, &identity);
    }
    for (_, at, mode) in PRIVATE_PARTS.iter().filter(|(_, at, _)| *at != "/dev/shm") {
        view.put(match &request.workspace {
            Some(workspace) if *at == WORKSPACE => workspace.mount(&identity),
            _ => Mount::Scratch { at: at.into(), mode: *mode },
        });
    }
    let resources = crate::command::resource_fence(facts);
    let profile = match request.processes {
        Some(_) => Profile::CodeWithProcesses,
        None => Profile::Code,
    };
    let seccomp = code::filter(facts, profile, Observe::Notify);
    let landlock = (facts.landlock_abi > 0).then(|| rules(facts.landlock_abi));
    let disk_bytes_max = code::disk_bytes_max(limits);

    let parts = view.into_parts();
    let mut setup = Orders::opening();
    setup.push(Step::SizeRoot { bytes_max: disk_bytes_max, inodes_max: INODES_MAX });
    let early = parts.early.into_iter().filter(|mount| !devices().contains(mount));
    setup.extend(early.map(Step::Mount));
    setup.push(Step::TakeSupplies);
    setup.extend(parts.late.into_iter().map(Step::Mount));
    let masks = DEVICES_MASKED.map(|(at, kind)| Mount::Mask { at: at.into(), kind });
    setup.extend(masks.map(Step::Mount));
    setup.extend(PRIVATE_PARTS.iter().map(|(_, at, _)| Step::NoExecute { at: at.into() }));
    setup.extend(Orders::closing(resources));
    let mut payload = vec![
        Step::NewSession,
        Step::ChangeDirectory,
        Step::SetRlimits { limits: rlimits(limits) },
        Step::DropCapabilities,
        Step::NoNewPrivileges,
    ];
    if landlock.is_some() {
        payload.push(Step::Landlock);
    }
    payload.push(Step::Seccomp);
    // After the filter's listener was sent: all descriptors that its user has in flight count against the sender's
    // limit.
    if let Some(fds) = limits.fds {
        let max = u64::from(fds.get());
        payload.push(Step::SetRlimits { limits: vec![Rlimit { resource: Resource::Nofile, max }] });
    }
    payload.push(Step::Execute);

    let mut enforcement = code::enforcement(request, facts, resources);
    if request.processes.is_some() {
        enforcement.gaps.extend(crate::command::memory_gap(facts, limits));
    }
    Ok(Plan {
        tier: Tier::Namespaces,
        identity,
        placeholders: Vec::new(),
        cgroup: (resources != ResourceFence::Rlimit).then(|| CgroupPlan {
            // Files are memory here, and have a limit of their own.
            memory_bytes_max: limits.memory.map(|m| m.bytes().saturating_add(disk_bytes_max)),
            pids_max: limits.pids.map(|n| n.get().saturating_add(1)),
            count_cpu: limits.cpu.is_some(),
        }),
        initial_namespaces: Namespace::INITIAL.to_vec(),
        setup,
        payload,
        seccomp: Some(seccomp),
        landlock,
        environment: code::environment_of(request),
        argv: Vec::new(),
        cwd: WORKSPACE.into(),
        limits: limits.clone(),
        host_scratch: None,
        disk_roots: request.workspace.iter().map(HostWorkspace::writable_dir).collect(),
        watch_git: Vec::new(),
        git_indexes: Vec::new(),
        git_dirs: Vec::new(),
        sockets: Vec::new(),
        network: None,
        enforcement,
        unobserved: ["mounts", "permissions", "landlock"].map(str::to_owned).to_vec(),
    })
}

/// The kernel counts processes and threads together, so both have the limit: with the interpreter one more.
fn with_processes(limits: &Limits, processes: Option<Count>) -> Limits {
    let most = processes.and_then(|n| Count::new(n.get().saturating_add(1)));
    let pids = match (limits.pids, most) {
        (Some(pids), Some(most)) => Some(pids.min(most)),
        (pids, most) => pids.or(most),
    };
    Limits { pids, ..limits.clone() }
}

/// Read everything visible, write its own. Executing is the filter's to refuse, once the interpreter runs.
fn rules(abi: u32) -> LandlockPlan {
    let rule = |path: &str, access| LandlockRule { path: Path::new(path).into(), access, id: None };
    let mut rules = vec![
        rule("/", RuleAccess::Read),
        rule("/dev", RuleAccess::Device),
        rule("/proc", RuleAccess::Device),
    ];
    rules.extend(PRIVATE_PARTS.iter().map(|(_, at, _)| rule(at, RuleAccess::Write)));
    LandlockPlan { abi, reading: LandlockReading::Seen, deny_tcp: abi >= 4, rules }
}

fn rlimits(limits: &Limits) -> Vec<Rlimit> {
    let entries = [
        // One second above the limit: the supervisor's count decides, this one is for when it is late.
        (Resource::Cpu, limits.cpu.map(|cpu| cpu.millis().div_ceil(1000) + 1)),
        (Resource::Fsize, limits.disk.map(ByteSize::bytes)),
        (Resource::Data, limits.memory.map(ByteSize::bytes)),
        (Resource::Core, Some(crate::command::CORE_LIMIT)),
        // With the init above it.
        (Resource::Nproc, limits.pids.map(|n| u64::from(n.get()).saturating_add(1))),
        (Resource::Memlock, Some(0)),
        (Resource::AddressSpace, limits.memory.map(code::address_space)),
        (Resource::Sigpending, Some(code::SIGNALS_MAX)),
        (Resource::Msgqueue, Some(0)),
    ];
    let entry = |(resource, max): (Resource, Option<u64>)| Some(Rlimit { resource, max: max? });
    entries.into_iter().filter_map(entry).collect()
}

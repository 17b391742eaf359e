//! The plan of a command run without namespaces: Landlock's rules over the host's own tree, or none.

use std::path::Path;

use ringfence_spec::{
    AuditState, Code, CommandPreset, Enforcement, Fallback, FilesystemFence, Network, NetworkFence,
    OutputState, Policy, Problem, ProcessFence, ResourceFence, SyscallFence, Tier,
};

use crate::command::{
    Choice, cannot_publish, cannot_use_agent, cgroup, disk_roots, filter, find_repositories_above,
    git_dirs, git_gaps, git_indexes, groups_gap, hidden_processes_gaps, identity, memory_gap,
    resource_fence, rlimits, unobserved, watch_git,
};
use crate::environment::environment;
use crate::facts::{HostFacts, OwnEffect, ProtectedState, Request, RootEntry};
use crate::network::{NetworkPlan, NetworkWay};
use crate::plan::{Identity, LandlockPlan, LandlockReading, LandlockRule, Plan, RuleAccess, Step};
use crate::seccomp::{Inet, Ipc, UnixSockets};

/// The weaker tiers: rules over the host's own tree, no root of its own, no namespaces.
pub(crate) fn landlock(
    policy: &Policy,
    request: &Request,
    facts: &HostFacts,
    choice: Choice,
) -> Result<Plan, Problem> {
    if !policy.publish.is_empty() {
        return Err(cannot_publish().cause("a run without namespaces has no ports of its own"));
    }
    if request.ssh_agent.is_some() {
        return Err(cannot_use_agent().cause(
            "a run without namespaces has no unix sockets, and no way to other hosts but the proxy of `HTTPS_PROXY`",
        ));
    }
    if request.session.is_some() {
        return Err(Problem::cannot_build(
            Code::SessionNeedsNamespaces,
            "cannot show a session's files to a run",
        )
        .cause("only a mount namespace can show a directory under another name")
        .hint("allow user namespaces (`ringfence doctor` says how)"));
    }
    let Choice { tier, mut gaps } = choice;
    let limits = &policy.limits;
    let confined = tier == Tier::Landlock;
    let identity = if facts.ids.host_root {
        root_without_namespaces(request, facts)?
    } else {
        identity(request, facts)
    };
    let own = request.own_rules.iter().filter(|rule| rule.effect == OwnEffect::Hidden);
    let mut hidden = request
        .hidden
        .iter()
        .map(|h| h.path.clone())
        .chain(own.map(|rule| request.cwd.path.join(&rule.path)));
    if let Some(hidden) = hidden.next().filter(|_| policy.fallback == Fallback::Error) {
        return Err(Problem::cannot_build(
            Code::HideNeedsNamespaces,
            format!("cannot hide `{}` without namespaces", hidden.display()),
        )
        .hint("leave out `--hide`, or accept the gap with `--fallback warn`"));
    }
    let resources = resource_fence(facts);
    gaps.extend(memory_gap(facts, limits));
    gaps.extend(hidden_processes_gaps(facts, limits));
    gaps.extend(landlock_gaps(request, facts, confined));
    // Root's runs become another user, without groups.
    gaps.extend(groups_gap(facts, &identity).filter(|_| !facts.ids.host_root));
    gaps.extend(git_gaps(request));
    gaps.extend(facts.core_dumps.gap().map(str::to_owned));

    let landlock = confined.then(|| host_rules(policy.preset, facts.landlock_abi, request, facts));
    let shows = |path: &Path| {
        landlock.as_ref().is_none_or(|plan| plan.rules.iter().any(|r| path.starts_with(&r.path)))
    };
    let scratch = &request.host_scratch;
    let network = redirected_network(policy, request, facts, &mut gaps)?;
    let mut environment =
        environment(policy, facts, NetworkWay::Redirected, scratch, scratch, shows)?;
    find_repositories_above(request, &mut environment);
    // Without a network namespace UDP cannot be held back by Landlock, and without a mount namespace no socket
    // directory can be hidden: the families themselves are refused. IPC and process ids are the host's too.
    let inet = if network.is_some() { Inet::Redirected } else { Inet::Refused };
    let seccomp = filter(facts, resources, UnixSockets::Refused, inet, Ipc::Refused);
    let unobserved = unobserved(seccomp.as_ref());
    let cwd = if policy.preset == CommandPreset::Minimal {
        scratch.clone()
    } else {
        request.cwd.path.clone()
    };

    let mut payload =
        vec![Step::CloseDescriptors, Step::WipeSelf, Step::TakeSupplies, Step::TakeLeave];
    if resources != ResourceFence::Rlimit {
        payload.push(Step::JoinCgroup);
    }
    payload.extend([Step::HideSelf, Step::NewSession]);
    // Before the user changes: the set is root's to empty.
    payload.push(Step::DropBoundingSet);
    if facts.ids.host_root {
        payload.push(Step::BecomeUser { uid: identity.host_uid, gid: identity.host_gid });
    }
    payload.extend([
        Step::DieWithParent,
        Step::ChangeDirectory,
        Step::SetRlimits { limits: rlimits(limits, resources) },
        Step::DropCapabilities,
        Step::NoNewPrivileges,
    ]);
    if landlock.is_some() {
        payload.push(Step::Landlock);
    }
    if seccomp.is_some() {
        payload.push(Step::Seccomp);
    }
    payload.push(Step::Execute);

    Ok(Plan {
        tier,
        identity,
        placeholders: Vec::new(),
        cgroup: cgroup(limits, resources),
        initial_namespaces: Vec::new(),
        setup: Vec::new(),
        payload,
        enforcement: Enforcement {
            tier,
            screen: None,
            process: ProcessFence::Pgroup,
            syscalls: if seccomp.is_some() { SyscallFence::Command } else { SyscallFence::None },
            resources,
            network: match () {
                () if network.is_some() => NetworkFence::Allowlist,
                () if seccomp.is_some() => NetworkFence::None,
                () => NetworkFence::Host,
            },
            filesystem: if confined { FilesystemFence::Landlock } else { FilesystemFence::None },
            output: if request.capture { OutputState::On } else { OutputState::Off },
            audit: AuditState::Off,
            python: None,
            gaps,
            policy_sha256: None,
        },
        seccomp,
        landlock,
        environment,
        argv: request.argv.clone(),
        cwd,
        limits: limits.clone(),
        host_scratch: Some(scratch.clone()),
        disk_roots: disk_roots(request),
        watch_git: watch_git(request),
        git_indexes: git_indexes(request),
        git_dirs: git_dirs(request),
        sockets: Vec::new(),
        network,
        unobserved,
    })
}

/// The network of a run without namespaces: through the proxy alone, whose connects the supervisor performs.
fn redirected_network(
    policy: &Policy,
    request: &Request,
    facts: &HostFacts,
    gaps: &mut Vec<String>,
) -> Result<Option<NetworkPlan>, Problem> {
    if policy.network == Network::None {
        return Ok(None);
    }
    let cannot =
        |what, why: &str| Problem::cannot_build(Code::NetworkAllowlistUnsupported, what).cause(why);
    if !facts.seccomp_filter || !facts.seccomp_notify {
        return Err(cannot(
            "cannot open the network of a run without namespaces",
            "nothing could hold its connections to the rules: this kernel does not report system calls to a supervisor",
        )
        .hint("allow user namespaces (`ringfence doctor` says how), or leave out the network"));
    }
    if request.interception.is_some() {
        return Err(cannot(
            "cannot use credentials or rules about requests in a run without namespaces",
            "only a mount namespace can show a run's own certificates in place of the system's",
        )
        .hint("allow user namespaces (`ringfence doctor` says how), or leave out `--secret` and `--net-request`"));
    }
    gaps.push(
        "without namespaces only programs that use the proxy variables have the network, and no server of the run's own has a port"
            .to_owned(),
    );
    NetworkPlan::redirected(policy).map(Some)
}

/// Root without namespaces cannot translate owners, so the run becomes the workspace's owner outright.
fn root_without_namespaces(request: &Request, facts: &HostFacts) -> Result<Identity, Problem> {
    let owner = match request.writable.first() {
        Some(root) if root.owner_uid == 0 => {
            return Err(Problem::cannot_build(
                Code::RootNeedsNamespaces,
                format!(
                    "cannot give a run write access to `{}`, which root owns, without user namespaces",
                    root.root.path.display()
                ),
            )
            .cause("no run has host uid 0, and only namespaces can translate owners")
            .hint("run ringfence as an ordinary user, or use `--preset readonly`"));
        }
        // Only a group of the owner's own: another, such as root's or `shadow`, opens files of the system.
        Some(root) if root.owner_gid == root.owner_uid => (root.owner_uid, root.owner_gid),
        Some(root) => (root.owner_uid, facts.ids.stand_in_id),
        None => (facts.ids.stand_in_id, facts.ids.stand_in_id),
    };
    Ok(Identity {
        guest_uid: owner.0,
        guest_gid: owner.1,
        host_uid: owner.0,
        host_gid: owner.1,
        disk_owner: None,
    })
}

fn host_rules(
    preset: CommandPreset,
    abi: u32,
    request: &Request,
    facts: &HostFacts,
) -> LandlockPlan {
    let mut rules = Vec::new();
    let mut add = |path: &Path, id, access| {
        rules.push(LandlockRule { path: path.to_owned(), access, id });
    };
    for entry in &facts.system {
        if let RootEntry::Directory(found) = entry {
            let etc = found.path.starts_with("/etc");
            let whole_etc = preset != CommandPreset::Minimal;
            if !etc || whole_etc == (found.path == Path::new("/etc")) {
                add(&found.path, Some(found.id), RuleAccess::Read);
            }
        }
    }
    add(Path::new("/proc"), None, RuleAccess::Read);
    for found in &facts.sysfs {
        add(&found.path, Some(found.id), RuleAccess::Read);
    }
    for device in crate::catalogue::DEVICES {
        add(&Path::new("/dev").join(device), None, RuleAccess::Device);
    }
    if preset != CommandPreset::Minimal {
        for entry in facts.home_entries.iter().filter(|e| !holds_secret(facts, &e.source.path)) {
            add(&entry.source.path, Some(entry.source.id), RuleAccess::Read);
        }
        if preset == CommandPreset::Readonly {
            add(&request.cwd.path, Some(request.cwd.id), RuleAccess::Read);
        }
    }
    for found in &request.readable {
        add(&found.path, Some(found.id), RuleAccess::Read);
    }
    for found in &request.writable_files {
        add(&found.path, Some(found.id), RuleAccess::Write);
    }
    for root in &request.writable {
        add(&root.root.path, Some(root.root.id), RuleAccess::Write);
        if let Some(linked) = &root.git.linked {
            add(&linked.root.path, Some(linked.root.id), RuleAccess::Write);
        }
    }
    add(&request.host_scratch, None, RuleAccess::Write);
    LandlockPlan { abi, reading: LandlockReading::Seen, deny_tcp: abi >= 4, rules }
}

/// Guarantees that the landlock tier lacks, one sentence each.
fn landlock_gaps(request: &Request, facts: &HostFacts, confined: bool) -> Vec<String> {
    let mut gaps = vec![
        "what the program started survives if the supervisor is killed".to_owned(),
        "the names, sizes and times of files outside are visible".to_owned(),
        "chmod, chown, utime and chattr on the caller's own files outside succeed".to_owned(),
        "extended attributes and link targets of files outside are readable".to_owned(),
        "no /tmp, /dev/shm, IPC or hostname of its own; other processes are visible".to_owned(),
        "processes are counted for the whole user, not for the run".to_owned(),
    ];
    if !confined {
        gaps.push("every file the caller can reach is reachable".to_owned());
    }
    for root in &request.writable {
        let at = root.root.path.display();
        let protected = root.protected.iter().chain(&root.git.protected);
        if protected.clone().any(|p| matches!(p.state, ProtectedState::Present(_))) {
            gaps.push(format!("protected names in `{at}` (.git/config, .git/hooks…) are writable"));
        }
        if protected.clone().any(|p| matches!(p.state, ProtectedState::Absent(_))) {
            gaps.push(format!("protected names absent from `{at}` can be created"));
        }
        if !root.secrets.is_empty() {
            gaps.push(format!("`.env` files in `{at}` are readable"));
        }
    }
    for entry in facts.home_entries.iter().filter(|e| holds_secret(facts, &e.source.path)) {
        gaps.push(format!("`{}` is left out: it holds credentials", entry.at.display()));
    }
    for hidden in &request.hidden {
        gaps.push(format!("`{}` is not hidden", hidden.path.display()));
    }
    for rule in &request.own_rules {
        let at = request.cwd.path.join(&rule.path);
        gaps.push(match rule.effect {
            OwnEffect::Hidden => format!("`{}` is not hidden", at.display()),
            OwnEffect::ReadOnly => {
                format!("`{}` is writable: it lies in a writable directory", at.display())
            }
        });
    }
    for found in &request.readable {
        if request.writable.iter().any(|w| found.path.starts_with(&w.root.path)) {
            gaps.push(format!(
                "`{}` is writable: it lies in a writable directory",
                found.path.display()
            ));
        }
    }
    for socket in &request.sockets {
        gaps.push(format!(
            "`{}` cannot be connected to: unix sockets are refused",
            socket.path.display()
        ));
    }
    for secret in &request.secrets {
        gaps.push(format!("`{}` is readable", secret.path.display()));
    }
    let shown_secrets = facts.secrets.iter().filter(|secret| {
        let below = |path: &Path| secret.path.starts_with(path);
        request.readable.iter().any(|f| below(&f.path))
            || request.writable.iter().any(|w| below(&w.root.path))
    });
    for secret in shown_secrets {
        gaps.push(format!("`{}` is readable", secret.path.display()));
    }
    // Without a ruleset the kernel's ABI says nothing.
    let abi = if confined { facts.landlock_abi } else { 0 };
    if confined && abi < 3 {
        gaps.push(
            "truncate(2) on readable files is not held back: Landlock ABI below 3".to_owned(),
        );
    }
    if abi < 6 {
        let why = if confined { "Landlock ABI below 6" } else { "no Landlock" };
        gaps.push(format!("signals to the caller's other processes are not held back: {why}"));
    }
    gaps
}

/// Landlock cannot take a file out of a granted directory, so such a directory is not granted at all.
fn holds_secret(facts: &HostFacts, path: &Path) -> bool {
    facts.secrets.iter().any(|secret| secret.path.starts_with(path))
}

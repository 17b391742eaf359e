//! Plans of invented hosts: the whole text of each, and the properties that must hold of every one.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ringfence_plan::seccomp::{self, Arch};
use ringfence_plan::{
    Access, Arg, BindSource, CallerIds, CgroupFacts, Checkpoints, CodeRequest, CoreDumps, FileId,
    FileKind, Found, GitFacts, HomeEntry, HostFacts, ListenerKind, MaskKind, Mount, NetworkCapture,
    NetworkWay, OwnEffect, OwnRule, PlaceholderShape, Plan, Protected, ProtectedState, PythonFacts,
    Request, Resource, Rlimit, RootEntry, SshAgentFacts, SshAgentPlan, Step, SystemText,
    SystemTextKind, UserNamespaces, WritableRoot, plan_code, plan_command, plan_one_shot, render,
};
use ringfence_spec::{
    Code, CodePreset, CommandPreset, Fallback, Limits, NetworkFence, Policy, Problem, Tier,
};

fn found(path: &str, kind: FileKind) -> Found {
    let ino = path.bytes().map(u64::from).sum();
    Found { path: path.into(), kind, id: FileId { dev: 1, ino } }
}

fn dir(path: &str) -> Found {
    found(path, FileKind::Directory)
}

fn facts() -> HostFacts {
    HostFacts {
        arch: Arch::X86_64,
        ids: CallerIds {
            uid: 1000,
            gid: 1000,
            host_root: false,
            root_outside: false,
            stand_in_id: 1_900_000_007,
        },
        groups: Vec::new(),
        user_namespaces: UserNamespaces::Usable,
        landlock_abi: 7,
        seccomp_filter: true,
        seccomp_notify: true,
        cgroup: CgroupFacts::V2,
        hides_processes: false,
        network_capture: NetworkCapture::Usable,
        core_dumps: CoreDumps::new("|/usr/lib/systemd/systemd-coredump %P", None),
        environment: BTreeMap::from([
            ("PATH".into(), "/home/u/.cargo/bin:/usr/bin:/secret/bin:relative".into()),
            ("TERM".into(), "xterm".into()),
            ("AWS_SECRET_ACCESS_KEY".into(), "x".into()),
            ("LD_PRELOAD".into(), "/x.so".into()),
        ]),
        system: vec![
            RootEntry::Symlink { at: "/bin".into(), target: "usr/bin".into() },
            RootEntry::Directory(dir("/etc")),
            RootEntry::Directory(dir("/usr")),
        ],
        system_masks: vec![found("/etc/shadow", FileKind::File)],
        system_texts: vec![SystemText { at: "/etc/passwd".into(), kind: SystemTextKind::Passwd }],
        other_homes: Vec::new(),
        homes: vec!["/home/u".into()],
        home_entries: vec![HomeEntry {
            at: "/home/u/.cargo".into(),
            source: dir("/home/u/.cargo"),
        }],
        secrets: vec![
            dir("/home/u/.ssh"),
            found("/home/u/.cargo/credentials.toml", FileKind::File),
        ],
        proc_masks: vec![found("/proc/kcore", FileKind::File)],
        sysfs: vec![dir("/sys/devices/system/cpu")],
    }
}

fn workspace(path: &str) -> WritableRoot {
    let protected = |path: &str, state| Protected { path: path.into(), state };
    let present = ProtectedState::Present(FileKind::File);
    let absent = ProtectedState::Absent(PlaceholderShape::Inert);
    WritableRoot {
        root: dir(path),
        owner_uid: 1000,
        owner_gid: 1000,
        protected: vec![protected(".mcp.json", absent), protected("ringfence.toml", present)],
        secrets: vec![".env".into()],
        git: GitFacts {
            pinned: vec![".git".into()],
            protected: vec![protected(".git/config", present)],
            is_repository: true,
            ..GitFacts::default()
        },
    }
}

fn request() -> Request {
    Request {
        session: None,
        interception: None,
        ssh_agent: None,
        mapped: Vec::new(),
        argv: vec!["make".into()],
        cwd: dir("/home/u/p"),
        writable: vec![workspace("/home/u/p")],
        writable_files: Vec::new(),
        readable: Vec::new(),
        secrets: Vec::new(),
        own_rules: Vec::new(),
        hidden: Vec::new(),
        sockets: Vec::new(),
        host_scratch: "/tmp/ringfence-1".into(),
        terminal: false,
        capture: false,
    }
}

fn code_request() -> CodeRequest {
    CodeRequest {
        python: PythonFacts::default(),
        visible: vec![dir("/usr/lib/python3")],
        secrets: Vec::new(),
        links: Vec::new(),
        n_workers_max: 2,
        screen: None,
        checkpoints: Checkpoints::None,
        workspace: None,
        capture: true,
        processes: None,
    }
}

fn policy() -> Policy {
    Policy::of_preset(CommandPreset::Workspace, 64 << 30)
}

fn plan(change: impl FnOnce(&mut Policy, &mut Request, &mut HostFacts)) -> Result<Plan, Problem> {
    let (mut policy, mut request, mut facts) = (policy(), request(), facts());
    change(&mut policy, &mut request, &mut facts);
    plan_command(&policy, &request, &facts)
}

#[test]
fn what_a_workspace_takes_away_is_looked_up_below_it_and_nowhere_else() {
    let rule = |path: &str, kind, effect| OwnRule { path: path.into(), kind, effect };
    let plan = plan(|_, request, _| {
        request.own_rules = vec![
            rule("a/data", FileKind::Directory, OwnEffect::ReadOnly),
            rule("b/key", FileKind::File, OwnEffect::Hidden),
        ];
    })
    .unwrap();
    let at = |path: &str| plan.mounts().find(|m| m.at() == Path::new(path)).unwrap();
    let beneath = |path: &str| BindSource::Beneath { root: "/home/u/p".into(), path: path.into() };
    let bind = |path: &str, access| Mount::Bind {
        source: beneath(path),
        at: Path::new("/home/u/p").join(path),
        access,
    };
    assert_eq!(at("/home/u/p/a/data"), &bind("a/data", Access::ReadOnly));
    assert!(matches!(at("/home/u/p/b/key"), Mount::Mask { kind: MaskKind::File, .. }));
    // The directories above cannot be moved away.
    assert_eq!(at("/home/u/p/a"), &bind("a", Access::ReadWrite));
    assert_eq!(at("/home/u/p/b"), &bind("b", Access::ReadWrite));
}

fn position(plan: &Plan, wanted: impl Fn(&Step) -> bool) -> usize {
    plan.setup.iter().chain(&plan.payload).position(wanted).expect("the step is there")
}

#[test]
fn the_plan_of_an_ordinary_user() {
    insta::assert_snapshot!(render(&plan(|_, _, _| {}).unwrap()));
}

#[test]
fn the_plan_of_a_root_caller_without_cgroup_v2() {
    let plan = plan(|_, _, facts| {
        facts.ids.uid = 0;
        facts.ids.gid = 0;
        facts.ids.host_root = true;
        facts.cgroup = CgroupFacts::V1;
    });
    insta::assert_snapshot!(render(&plan.unwrap()));
}

#[test]
fn the_plan_without_user_namespaces() {
    let plan = plan(|_, _, facts| {
        facts.user_namespaces = UserNamespaces::Refused("clone3 = ENOSPC".into());
        facts.cgroup = CgroupFacts::Missing("this user may not make cgroups".into());
    });
    insta::assert_snapshot!(render(&plan.unwrap()));
}

#[test]
fn without_namespaces_roots_run_has_no_group_but_the_owners_own() {
    for (gid, expected) in [(1000, 1000), (0, 1_900_000_007), (42, 1_900_000_007)] {
        let plan = plan(|_, request, facts| {
            facts.user_namespaces = UserNamespaces::Refused("no".into());
            facts.ids.host_root = true;
            request.writable[0].owner_gid = gid;
        });
        let identity = plan.unwrap().identity;
        assert_eq!((identity.host_uid, identity.host_gid), (1000, expected), "{gid}");
    }
}

/// On a mount with translated owners root's files are the run's own.
#[test]
fn a_granted_directory_of_the_system_keeps_its_owners() {
    let plan = plan(|_, request, facts| {
        facts.ids.host_root = true;
        request.readable = vec![dir("/etc"), dir("/srv/data")];
    });
    let plan = plan.unwrap();
    let is_idmapped = |wanted: &str| {
        plan.mounts().find_map(|mount| match mount {
            Mount::Bind { source: BindSource::Host { idmapped, .. }, at, .. }
                if at == Path::new(wanted) =>
            {
                Some(*idmapped)
            }
            _ => None,
        })
    };
    assert_eq!((is_idmapped("/etc"), is_idmapped("/srv/data")), (Some(false), Some(true)));
}

#[test]
fn the_minimal_plan_shows_nothing_of_the_callers() {
    let plan = plan(|policy, request, _| {
        policy.preset = CommandPreset::Minimal;
        request.writable.clear();
    })
    .unwrap();
    assert!(plan.mounts().all(|m| !m.at().starts_with("/home")), "{}", render(&plan));
    assert_eq!(plan.cwd, Path::new("/workspace"));
    assert!(plan.placeholders.is_empty());
}

#[test]
fn nothing_weaker_than_required_is_planned() {
    let refused = |f: &mut HostFacts| f.user_namespaces = UserNamespaces::Refused("no".into());
    let error = plan(|p, _, f| {
        refused(f);
        p.require = Some(Tier::Namespaces);
        p.fallback = Fallback::Warn;
    });
    assert_eq!(error.unwrap_err().code.as_str(), "tier_unavailable");
    for landlock_abi in [0, 1] {
        for seccomp_filter in [false, true] {
            let plan = plan(|_, _, f| {
                refused(f);
                f.landlock_abi = landlock_abi;
                f.seccomp_filter = seccomp_filter;
            });
            let enough = landlock_abi > 0 && seccomp_filter;
            assert_eq!(plan.is_ok(), enough, "abi {landlock_abi}, seccomp {seccomp_filter}");
        }
    }
}

#[test]
fn a_missing_layer_is_a_named_gap() {
    let plan = plan(|p, _, f| {
        f.user_namespaces = UserNamespaces::Refused("no".into());
        f.landlock_abi = 0;
        p.fallback = Fallback::Warn;
    })
    .unwrap();
    assert_eq!(plan.tier, Tier::None);
    assert!(plan.landlock.is_none());
    assert!(plan.enforcement.gaps.iter().any(|g| g.contains("no Landlock")));
}

fn ssh_agent() -> SshAgentFacts {
    SshAgentFacts {
        plan: SshAgentPlan { socket: "/tmp/ssh-x/agent.1".into(), access: Vec::new() },
        known_hosts: "git.test ssh-ed25519 AAAA\n".to_owned(),
        client_settings: Some(("/etc/ssh/ssh_config".into(), "Host *\n".to_owned())),
    }
}

#[test]
fn ssh_finds_the_agent_and_the_keys_of_granted_hosts() {
    let made = |preset, settings: bool| {
        let plan = plan(|policy, request, facts| {
            policy.preset = preset;
            policy.network = "allow:git.test:22".parse().unwrap();
            facts.system.push(RootEntry::Directory(dir("/etc")));
            let mut agent = ssh_agent();
            agent.client_settings = agent.client_settings.filter(|_| settings);
            request.ssh_agent = Some(agent);
        });
        plan.unwrap()
    };
    let text = |plan: &Plan, path: &str| {
        plan.mounts().find_map(|mount| match mount {
            Mount::Text { at, text } if at == Path::new(path) => Some(text.clone()),
            _ => None,
        })
    };
    let variable = |plan: &Plan, name: &str| plan.environment.get(OsStr::new(name)).cloned();
    let plan = made(CommandPreset::Workspace, true);
    assert_eq!(variable(&plan, "SSH_AUTH_SOCK").unwrap(), "/run/ringfence/ssh-agent");
    assert_eq!(variable(&plan, "GIT_SSH_COMMAND"), None);
    let settings = text(&plan, "/etc/ssh/ssh_config").unwrap();
    assert!(settings.starts_with("GlobalKnownHostsFile /run/ringfence/ssh_known_hosts "));
    assert!(settings.ends_with("\nHost *\n"), "{settings}");
    assert!(text(&plan, "/run/ringfence/ssh_known_hosts").unwrap().starts_with("git.test "));
    let network = plan.network.as_ref().unwrap();
    assert!(network.listeners.iter().any(|l| l.kind == ListenerKind::SshAgent));
    // Another login of the user's has another socket, and the policy is the same.
    let mut other = plan.clone();
    let agent = other.network.as_mut().and_then(|network| network.ssh_agent.as_mut());
    agent.unwrap().socket = "/tmp/ssh-y/agent.2".into();
    assert_eq!(other.sha256(), plan.sha256());
    // Without settings of the system's to add to.
    let plan = made(CommandPreset::Workspace, false);
    assert!(variable(&plan, "GIT_SSH_COMMAND").unwrap().to_str().unwrap().starts_with("ssh -o"));
    assert!(plan.enforcement.gaps.iter().any(|gap| gap.contains("GlobalKnownHostsFile")));
    let plan = made(CommandPreset::Minimal, true);
    assert!(text(&plan, "/etc/ssh/ssh_known_hosts").is_some());
}

#[test]
fn an_ssh_agent_that_a_run_could_not_reach_is_refused() {
    type Edit = fn(&mut HostFacts);
    let edits: [(Edit, &str); 3] = [
        (|f| f.network_capture = NetworkCapture::Refused("EPERM".into()), "not captured"),
        (|f| f.user_namespaces = UserNamespaces::Refused("no".into()), "no unix sockets"),
        (|f| f.seccomp_notify = false, "could not connect"),
    ];
    for (edit, word) in edits {
        let refused = plan(|policy, request, facts| {
            policy.network = "allow:git.test:22".parse().unwrap();
            request.ssh_agent = Some(ssh_agent());
            edit(facts);
        });
        let problem = refused.unwrap_err();
        assert_eq!(problem.code, Code::SshAgent);
        assert!(problem.cause.as_ref().is_some_and(|cause| cause.contains(word)), "{problem:?}");
    }
}

/// A limit of 0 does not keep a handler that is started by a pipe from starting, and 1 does.
#[test]
fn where_connections_cannot_be_captured_the_proxy_is_left_and_it_is_said() {
    let plan = plan(|policy, _, facts| {
        policy.network = "allow:pypi".parse().unwrap();
        facts.network_capture = NetworkCapture::Refused("EPERM".into());
    })
    .unwrap();
    let network = plan.network.as_ref().unwrap();
    assert_eq!(network.way, NetworkWay::Proxy);
    let kinds: Vec<_> = network.listeners.iter().map(|l| (l.kind, l.port)).collect();
    assert_eq!(kinds, [(ListenerKind::Proxy, 3128); 2]);
    let proxy = plan.environment.get(std::ffi::OsStr::new("https_proxy")).unwrap();
    assert_eq!(proxy, "http://127.0.0.1:3128");
    assert!(
        plan.enforcement.gaps.iter().any(|gap| gap.contains("proxy variables")),
        "{:?}",
        plan.enforcement.gaps
    );
    assert!(plan.setup.iter().any(|s| matches!(s, Step::CaptureNetwork { captures: false, .. })));
}

#[test]
fn without_namespaces_the_proxy_is_left_and_its_connects_are_the_supervisors() {
    let without = |facts: &mut HostFacts| {
        facts.user_namespaces = UserNamespaces::Refused("no".into());
    };
    let open = plan(|policy, _, facts| {
        policy.network = "allow:pypi".parse().unwrap();
        without(facts);
    })
    .unwrap();
    let network = open.network.as_ref().unwrap();
    assert_eq!((network.way, network.listeners.len()), (NetworkWay::Redirected, 0));
    assert_eq!(open.enforcement.network, NetworkFence::Allowlist);
    let filter = open.seccomp.as_ref().unwrap();
    assert_eq!(filter.spec.inet, seccomp::Inet::Redirected);
    assert!(open.landlock.as_ref().unwrap().deny_tcp);
    let variable = |name: &str| open.environment.get(std::ffi::OsStr::new(name)).unwrap();
    assert_eq!(variable("HTTPS_PROXY"), "http://127.0.0.1:3128");
    assert!(open.enforcement.gaps.iter().any(|gap| gap.contains("proxy variables")));

    let closed = plan(|_, _, facts| without(facts)).unwrap();
    assert!(closed.network.is_none());
    assert_eq!(closed.seccomp.unwrap().spec.inet, seccomp::Inet::Refused);

    let unheld = plan(|policy, _, facts| {
        policy.network = "allow:pypi".parse().unwrap();
        without(facts);
        facts.seccomp_notify = false;
    });
    assert_eq!(unheld.unwrap_err().code, Code::NetworkAllowlistUnsupported);
}

#[test]
fn every_kind_of_run_has_a_core_limit_of_one() {
    let one = Rlimit { resource: Resource::Core, max: 1 };
    let limits_of = |plan: &Plan| -> Vec<Rlimit> {
        let steps = plan.payload.iter().filter_map(|step| match step {
            Step::SetRlimits { limits } => Some(limits.clone()),
            _ => None,
        });
        steps.flatten().filter(|limit| limit.resource == Resource::Core).collect()
    };
    let (code, limits) = (code_request(), Limits::for_code(CodePreset::Open));
    let zygote = plan_code(&limits, &code, &facts()).unwrap();
    let no_namespaces =
        plan(|_, _, f| f.user_namespaces = UserNamespaces::Refused("no".into())).unwrap();
    let plans = [
        ("command", plan(|_, _, _| {}).unwrap()),
        ("without namespaces", no_namespaces),
        ("alone", plan_one_shot(&limits, &code, &facts()).unwrap()),
        ("zygote", zygote.zygote),
    ];
    for (name, plan) in plans {
        assert_eq!(limits_of(&plan), [one], "{name}");
    }
    let pair = Arg::Bytes([1u64.to_ne_bytes(), 1u64.to_ne_bytes()].concat());
    let core = zygote.worker.setup.iter().filter(|call| {
        call.name == "prlimit64" && call.args[1] == Arg::Number(4) && call.args[2] == pair
    });
    assert_eq!(core.count(), 1);
}

#[test]
fn a_core_handler_that_no_limit_keeps_away_is_a_named_gap() {
    for (pattern, hard, gap) in [
        ("core", None, None),
        ("core", Some(0), None),
        ("", None, None),
        ("|/usr/share/apport/apport %p", None, None),
        ("|/usr/share/apport/apport %p", Some(1), None),
        ("|/usr/share/apport/apport %p", Some(0), Some("hard limit on core dumps is 0")),
        ("@/run/coredump.socket", None, Some("to a socket of the host")),
        ("@@/run/coredump.socket", Some(0), Some("to a socket of the host")),
    ] {
        let dumps = CoreDumps::new(pattern, hard);
        let named = |gaps: &[String]| {
            let found = gaps.iter().find(|g| g.starts_with("a crash "));
            match (found, gap) {
                (None, None) => true,
                (Some(found), Some(gap)) => found.contains(gap),
                _ => false,
            }
        };
        let (code, limits) = (code_request(), Limits::for_code(CodePreset::Open));
        let facts = HostFacts { core_dumps: dumps, ..facts() };
        let command = plan(|_, _, f| f.core_dumps = dumps).unwrap();
        let bare = plan(|_, _, f| {
            f.core_dumps = dumps;
            f.user_namespaces = UserNamespaces::Refused("no".into());
        });
        let alone = plan_one_shot(&limits, &code, &facts).unwrap();
        let worker = plan_code(&limits, &code, &facts).unwrap().worker;
        for enforcement in
            [command.enforcement, bare.unwrap().enforcement, alone.enforcement, worker.enforcement]
        {
            assert!(named(&enforcement.gaps), "{pattern} {hard:?}: {:?}", enforcement.gaps);
        }
    }
}

#[test]
fn without_a_listener_unix_sockets_are_refused_and_it_is_said() {
    let plan = plan(|_, _, f| f.seccomp_notify = false).unwrap();
    let filter = plan.seccomp.unwrap();
    assert!(!filter.listener());
    assert_eq!(filter.spec.unix_sockets, ringfence_plan::seccomp::UnixSockets::Refused);
    assert!(plan.unobserved.contains(&"syscalls".to_owned()));
}

#[test]
fn order_that_matters() {
    let plan = plan(|_, _, _| {}).unwrap();
    let at = |wanted: &Step| position(&plan, |s| s == wanted);
    // PDEATHSIG is cleared by a change of uid.
    assert!(at(&Step::TakeIdentity) < at(&Step::DieWithParent));
    assert!(at(&Step::SealRoot) < at(&Step::DetachOldRoot));
    assert!(at(&Step::JoinCgroup) < at(&Step::ForkPayload));
    assert!(at(&Step::NoNewPrivileges) < at(&Step::Landlock));
    assert!(at(&Step::DropCapabilities) < at(&Step::Landlock));
    // Last: after it the child can do nothing but execute.
    assert_eq!(at(&Step::Seccomp) + 1, at(&Step::Execute));
    assert_eq!(plan.payload.last(), Some(&Step::Execute));
}

#[test]
fn the_hash_is_of_the_policy_and_not_of_the_run() {
    let one = plan(|_, _, _| {}).unwrap();
    let same = plan(|_, r, f| {
        r.argv = vec!["other".into()];
        r.host_scratch = "/tmp/ringfence-2".into();
        f.ids.stand_in_id = 1_900_000_099;
    });
    let other = plan(|p, _, _| p.limits.pids = None).unwrap();
    assert_eq!(one.sha256(), same.unwrap().sha256());
    assert_ne!(one.sha256(), other.sha256());
}

/// A path of one to four plain names.
fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[a-c]{1,2}", 1..4)
        .prop_map(|names| format!("/data/{}", names.join("/")))
}

proptest! {
    #[test]
    fn parents_are_mounted_before_children_and_hidden_paths_are_hidden(
        rw in proptest::collection::vec(path(), 0..4),
        ro in proptest::collection::vec(path(), 0..4),
        hide in proptest::collection::vec(path(), 0..3),
        root in any::<bool>(),
    ) {
        let result = plan(|_, r, f| {
            f.ids.host_root = root;
            f.ids.uid = if root { 0 } else { 1000 };
            r.writable.extend(rw.iter().map(|p| workspace(p)));
            r.readable.extend(ro.iter().map(|p| dir(p)));
            r.hidden.extend(hide.iter().map(|p| dir(p)));
            // A path may be hidden for two reasons.
            r.hidden.extend(hide.iter().map(|p| dir(p)));
        });
        let Ok(plan) = result else { return Ok(()) };
        let mounts: Vec<&Mount> = plan.mounts().collect();
        for (i, mount) in mounts.iter().enumerate() {
            for later in &mounts[i + 1..] {
                prop_assert!(
                    !mount.at().starts_with(later.at()),
                    "{} comes before {}", mount.at().display(), later.at().display()
                );
            }
        }
        for hidden in &hide {
            let hidden = PathBuf::from(hidden);
            let nearest = mounts.iter().rfind(|m| hidden.starts_with(m.at()));
            let shown = nearest.is_some_and(|m| matches!(m, Mount::Bind { .. }));
            prop_assert!(!shown, "{} is shown", hidden.display());
            for mount in &mounts {
                if mount.at().starts_with(&hidden) {
                    let is_mask = matches!(mount, Mount::Mask { .. });
                    prop_assert!(is_mask, "{} shows {}", mount.at().display(), hidden.display());
                }
            }
        }
        // Nothing but private directories and what was granted is ever writable.
        for mount in &mounts {
            if let Mount::Bind { source: BindSource::Host { path, .. }, access: Access::ReadWrite, .. } = mount {
                let granted = path == Path::new("/home/u/p") || rw.iter().any(|p| Path::new(p) == path);
                prop_assert!(granted, "{}", path.display());
            }
        }
        prop_assert_ne!(plan.identity.host_uid, 0);
    }
}

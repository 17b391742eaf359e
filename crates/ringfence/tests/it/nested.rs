//! Inside containers: with Docker's default restrictions, as a restricted service, and with the profile taken off.
//! The containers are made by crun; their filters are our own short version of what the profiles refuse.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringfence_testing::{BoundedCommand as _, Json, json, missing, needs_root};

use crate::support::{Ran, World, binary};

/// What Docker's default profile refuses and Ringfence would use.
const DOCKER_REFUSES: &[&str] = &[
    "add_key",
    "bpf",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "ptrace",
    "request_key",
    "setns",
    "umount2",
    "unshare",
    "userfaultfd",
];

struct Container {
    uid: u32,
    filter: bool,
    no_new_privileges: bool,
    masked: bool,
}

impl Container {
    fn config(&self, world: &World, args: &[&str]) -> Json {
        let work = world.work();
        let dir = binary().parent().unwrap().to_owned();
        let bind = |path: &Path, options: &[&str]| {
            let options = [&["rbind"], options].concat();
            json!({"destination": path, "source": path, "type": "bind", "options": options})
        };
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
            json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666"]}),
            json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]}),
            json!({"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]}),
        ];
        for path in ["/usr", "/etc"] {
            mounts.push(bind(Path::new(path), &["ro"]));
        }
        for path in ["/bin", "/lib", "/lib64", "/sbin"] {
            if Path::new(path).is_dir() {
                mounts.push(bind(Path::new(path), &["ro"]));
            }
        }
        mounts.push(bind(&dir, &["ro"]));
        mounts.push(bind(&work, &["rw"]));
        let mut argv = vec![binary().to_string_lossy().into_owned()];
        argv.extend(args.iter().map(|a| (*a).to_owned()));
        let caps = [
            "CAP_CHOWN",
            "CAP_DAC_OVERRIDE",
            "CAP_FOWNER",
            "CAP_KILL",
            "CAP_SETGID",
            "CAP_SETUID",
            "CAP_SETPCAP",
            "CAP_NET_BIND_SERVICE",
        ];
        let caps = if self.uid == 0 { json!(caps) } else { json!([]) };
        let mut linux = json!({
            "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}],
        });
        if self.masked {
            linux.insert(
                "maskedPaths",
                json!(["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/acpi"]),
            );
            linux.insert("readonlyPaths", json!(["/proc/sys", "/proc/sysrq-trigger", "/proc/bus"]));
        }
        if self.filter {
            // CLONE_NEW* in the first argument of clone; clone3 answers ENOSYS so that libc falls back.
            let masked = json!([{"index": 0, "value": 0x7e02_0000u32, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]);
            linux.insert("seccomp", json!({
                "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64"],
                "syscalls": [
                    {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": masked},
                    {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
                    {"names": allowed(), "action": "SCMP_ACT_ALLOW"},
                ],
            }));
        }
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false, "user": {"uid": self.uid, "gid": self.uid}, "args": argv, "cwd": work,
                "env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"],
                "capabilities": {"bounding": caps, "effective": caps, "permitted": caps},
                "noNewPrivileges": self.no_new_privileges,
            },
            "root": {"path": "rootfs", "readonly": false},
            "hostname": "box", "mounts": mounts, "linux": linux,
        })
    }

    fn run(&self, world: &World, args: &[&str]) -> Ran {
        let bundle = world.root().join("bundle");
        std::fs::create_dir_all(bundle.join("rootfs")).unwrap();
        std::fs::write(bundle.join("config.json"), self.config(world, args).to_string()).unwrap();
        // Every container of this file has its own state directory, so that tests do not meet.
        let state: PathBuf = world.root().join("crun");
        let name = world.root().file_name().unwrap().to_string_lossy().into_owned();
        // crun refuses hosts with both cgroup versions mounted; it needs none here, so it is shown only the first.
        let script = "umount -l /sys/fs/cgroup/unified 2>/dev/null; exec crun \"$@\"";
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh", "--root"])
            .arg(&state)
            .args(["--cgroup-manager=disabled", "run", "--bundle"])
            .arg(&bundle)
            .arg(&name)
            .stdin(Stdio::null())
            .bounded_output()
            .unwrap();
        Ran::from(&output)
    }
}

/// Every call this C library's headers name, less what the profile refuses.
fn allowed() -> Vec<String> {
    use ringfence_plan::seccomp::{Arch, name};
    (0..1024)
        .filter_map(|nr| name(Arch::X86_64, nr))
        .filter(|name| !DOCKER_REFUSES.contains(name) && !name.starts_with("clone"))
        .map(str::to_owned)
        .collect()
}

/// crun needs root here; without crun a loud line, or a failure where it is required.
fn available() -> bool {
    if !needs_root("only root starts containers here") {
        return false;
    }
    let found =
        Command::new("crun").arg("--version").bounded_output().is_ok_and(|o| o.status.success());
    if !found {
        missing("crun", "crun is not installed");
    }
    found
}

fn owned_by(world: &World, uid: u32) {
    std::os::unix::fs::chown(world.work(), Some(uid), Some(uid)).unwrap();
    // The world's own directory is for its owner alone; a container's user must pass through it.
    std::fs::set_permissions(world.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn under_dockers_default_profile_the_landlock_tier_runs_and_says_so() {
    if !available() {
        return;
    }
    let container = Container { uid: 1000, filter: true, no_new_privileges: false, masked: true };
    let world = World::new();
    owned_by(&world, 1000);
    let ran = container
        .run(&world, &["run", "--json", "--", "sh", "-c", "echo x > here; echo y > /etc/y; id -u"]);
    let outcome = ran.json();
    assert_eq!(outcome["enforcement"]["tier"], "landlock", "{outcome}");
    assert!(outcome["enforcement"]["gaps"].to_string().contains("no namespaces"), "{outcome}");
    assert_eq!(outcome["stdout"], "1000\n", "{outcome}");
    assert!(world.work().join("here").exists());
    let ran = container.run(&world, &["run", "--require", "namespaces", "--", "true"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
}

#[test]
fn root_in_a_container_never_runs_as_root() {
    if !available() {
        return;
    }
    let container = Container { uid: 0, filter: true, no_new_privileges: false, masked: true };
    let world = World::new();
    let ran = container.run(&world, &["run", "--", "id", "-u"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("ordinary user"), "{}", ran.stderr);
    // The hint names a way that works.
    let ran = container.run(&world, &["run", "--preset", "readonly", "--", "id", "-u"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_ne!(ran.stdout, "0\n");
}

#[test]
fn a_restricted_service_gets_the_landlock_tier() {
    if !available() {
        return;
    }
    // RestrictNamespaces=yes, NoNewPrivileges=yes, PrivateTmp=yes, PrivateNetwork=yes, ProtectSystem=strict.
    let container = Container { uid: 1000, filter: true, no_new_privileges: true, masked: false };
    let world = World::new();
    owned_by(&world, 1000);
    let outcome = container.run(&world, &["run", "--json", "--", "true"]).json();
    assert_eq!(outcome["status"], "ok", "{outcome}");
    assert_eq!(outcome["enforcement"]["tier"], "landlock");
}

#[test]
fn with_the_profile_off_the_full_tier_runs_and_a_masked_proc_has_a_way_out() {
    if !available() {
        return;
    }
    let world = World::new();
    owned_by(&world, 1000);
    let open = Container { uid: 1000, filter: false, no_new_privileges: false, masked: false };
    let outcome = open.run(&world, &["run", "--json", "--", "true"]).json();
    assert_eq!(outcome["enforcement"]["tier"], "namespaces", "{outcome}");
    let masked = Container { masked: true, ..open };
    let ran = masked.run(&world, &["run", "--", "true"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("--proc none"), "{}", ran.stderr);
    let outcome = masked.run(&world, &["run", "--json", "--proc", "none", "--", "true"]).json();
    assert_eq!(outcome["status"], "ok", "{outcome}");
    assert_eq!(outcome["enforcement"]["tier"], "namespaces");
}

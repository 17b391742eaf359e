//! No silent downgrade: less than asked for is refused, or named in the outcome.

use std::process::Command;

use ringfence_testing::{BoundedCommand as _, Json, needs_root};

use crate::living::{marker, n_alive};
use crate::support::{Ran, World, binary};

/// Runs `ringfence ARGS` without user namespaces, and with Landlock taken away by a filter that answers ENOSYS.
fn without_anything(world: &World, args: &[&str]) -> Ran {
    let filter = "
import ctypes, os, struct, sys
# ld nr; jeq 444 (landlock_create_ruleset): errno ENOSYS; else allow
ins = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)]
code = b''.join(struct.pack('HBBI', *i) for i in ins)
buf = ctypes.create_string_buffer(code)
prog = struct.pack('HxxxxxxP', len(ins), ctypes.addressof(buf))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, prog, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])";
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec /usr/bin/python3 -c \"$FILTER\" \"$@\"";
    let world_args = [
        "unshare",
        "-U",
        "--map-current-user",
        "--keep-caps",
        "env",
        &format!("FILTER={filter}"),
        "sh",
        "-c",
        script,
        "sh",
    ];
    Ran::from(&world.wrapped(&world_args, args).bounded_output().unwrap())
}

#[test]
fn root_under_another_name_is_refused() {
    if !needs_root("only root is root outside") {
        return;
    }
    let world = World::new();
    for map in [&["--map-current-user"][..], &["--map-user=1000", "--map-group=1000"]] {
        let output = Command::new("unshare")
            .arg("-U")
            .args(map)
            .arg(binary())
            .args(["run", "--", "touch", "ran"])
            .current_dir(world.work())
            .bounded_output()
            .unwrap();
        let ran = Ran::from(&output);
        assert_eq!(ran.code, 125, "{}", ran.stderr);
        assert!(ran.stderr.contains("is root outside"), "{}", ran.stderr);
        assert!(world.names().is_empty());
    }
}

#[test]
fn without_user_namespaces_the_landlock_tier_runs_and_says_so() {
    let world = World::new();
    world.write("home/.ssh/id", "canary");
    world.write("work/.env", "X");
    let script = "echo x > here; cat ~/.ssh/id ../home/.ssh/id; echo x > /etc/x; python3 -c 'import socket; socket.socket()' 2>&1 | tail -1; echo done";
    let ran = world.without_namespaces(&["run", "--json", "--", "sh", "-c", script]);
    let outcome = ran.json();
    assert_eq!(outcome["enforcement"]["tier"], "landlock", "{outcome}");
    assert_eq!(outcome["enforcement"]["filesystem"], "landlock");
    assert_eq!(outcome["enforcement"]["process"], "pgroup");
    assert_eq!(outcome["enforcement"]["network"], "none");
    let gaps = outcome["enforcement"]["gaps"].to_string();
    for gap in ["no namespaces", "survives", "can be created", ".env", "chmod"] {
        assert!(gaps.contains(gap), "{gap}: {gaps}");
    }
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(!stdout.contains("canary"), "{stdout}");
    assert!(stdout.contains("Error: [Errno "), "{outcome}");
    assert!(stdout.ends_with("done\n"));
    assert!(world.work().join("here").exists());
    assert!(!std::path::Path::new("/etc/x").exists());
}

#[test]
fn in_passthrough_the_weaker_tier_is_announced() {
    let ran = World::new().without_namespaces(&["run", "--", "echo", "hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hello\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`landlock` tier"), "{}", ran.stderr);
}

#[test]
fn a_required_tier_is_required() {
    let world = World::new();
    for fallback in ["error", "warn"] {
        let ran = world.without_namespaces(&[
            "run",
            "--require",
            "namespaces",
            "--fallback",
            fallback,
            "--",
            "touch",
            "ran",
        ]);
        assert_eq!(ran.code, 125, "{}", ran.stderr);
        assert!(ran.stderr.contains("--require landlock"), "{}", ran.stderr);
        assert!(!world.work().join("ran").exists());
    }
    // The hint is followed, and it helps.
    let ran = world.without_namespaces(&["run", "--require", "landlock", "--", "touch", "ran"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(world.work().join("ran").exists());
}

#[test]
fn what_the_landlock_tier_cannot_do_on_request_is_refused() {
    let world = World::new();
    let file = world.write("work/hidden", "x");
    let ran = world.without_namespaces(&["run", "--hide", file.to_str().unwrap(), "--", "true"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("--fallback warn"));
}

#[test]
fn the_landlock_tier_ends_what_detaches_itself() {
    let world = World::new();
    let marker = marker();
    let script = format!("setsid sh -c 'setsid sleep {marker} &' & sleep {marker}");
    let flags = ["run", "--timeout", "500ms", "--", "sh", "-c", &script];
    let ran = world.without_namespaces(&flags);
    assert_eq!(ran.code, 124, "{}", ran.stderr);
    assert_eq!(n_alive(&marker), 0);
}

#[test]
fn with_nothing_to_build_on_it_refuses() {
    let world = World::new();
    let ran = without_anything(&world, &["run", "--", "touch", "ran"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("--fallback warn"), "{}", ran.stderr);
    assert!(!world.work().join("ran").exists());
    let doctor = without_anything(&world, &["doctor", "--json"]);
    assert_eq!((doctor.code, &doctor.json()["tier"]), (125, &"none".into()), "{}", doctor.stdout);
}

#[test]
fn fallback_warn_runs_and_warns_loudly() {
    let world = World::new();
    let ran = without_anything(&world, &["run", "--fallback", "warn", "--", "echo", "ran"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "ran\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("WARNING"), "{}", ran.stderr);
    assert!(ran.stderr.contains("every file the caller can reach is reachable"), "{}", ran.stderr);
    let outcome =
        without_anything(&world, &["run", "--json", "--fallback", "warn", "--", "true"]).json();
    assert_eq!(outcome["enforcement"]["tier"], "none");
    assert_eq!(outcome["enforcement"]["filesystem"], "none");
}

#[test]
fn nested_in_itself_it_is_weaker_and_says_so() {
    let world = World::new();
    let binary = binary();
    let dir = binary.parent().unwrap().to_str().unwrap();
    let state = world.work().join("state");
    let args = [
        "run",
        "--json",
        "--ro",
        dir,
        "--",
        binary.to_str().unwrap(),
        "run",
        "--json",
        "--data-dir",
        state.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "echo inner > inner; id -u",
    ];
    let outer = world.ringfence(&args).json();
    assert_eq!(outer["status"], "ok", "{outer}");
    let inner = Json::parse(outer["stdout"].as_str().unwrap());
    assert_eq!(inner["enforcement"]["tier"], "landlock", "{inner}");
    assert_eq!(inner["status"], "ok", "{inner}");
    let unobserved = inner["unobserved"].to_string();
    assert!(unobserved.contains("syscalls"), "a second listener is not to be had: {unobserved}");
    assert!(world.work().join("inner").exists());
}

#[test]
fn doctor_names_the_fix_for_used_up_namespaces() {
    let ran = World::new().without_namespaces(&["doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(ran.stdout.contains("user.max_user_namespaces"), "{}", ran.stdout);
}

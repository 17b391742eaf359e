//! The outcome is the contract's object: every field there, words from the list, one object on stdout.

use std::process::Stdio;

use ringfence_testing::{BoundedCommand as _, Json};

use crate::support::{World, is_root};

#[test]
fn every_field_is_there() {
    let (_, outcome) = World::new().sh_json(&[], "echo out; echo err >&2; exit 3");
    let fields: Vec<&str> = outcome.as_object().unwrap().keys().map(String::as_str).collect();
    for field in [
        "run_id",
        "session_id",
        "status",
        "ran",
        "exit_code",
        "signal",
        "stdout",
        "stderr",
        "value",
        "exception",
        "truncated",
        "encoding",
        "artifacts",
        "workspace",
        "denials",
        "unobserved",
        "enforcement",
        "usage",
        "start",
        "error",
    ] {
        assert!(fields.contains(&field), "{field}");
    }
    assert_eq!(outcome["status"], "error");
    assert_eq!(outcome["exit_code"], 3);
    assert_eq!(outcome["stdout"], "out\n");
    assert_eq!(outcome["stderr"], "err\n");
    assert_eq!(outcome["encoding"], "utf-8");
    assert_eq!(outcome["run_id"].as_str().unwrap().len(), 32);
    assert_eq!(outcome["usage"]["stdout_bytes"], 4);
    assert!(outcome["usage"]["memory_peak_bytes"].as_u64().unwrap() > 0);
    assert!(outcome["usage"]["wall_ms"].as_f64().unwrap() > 0.0);
    assert!(outcome["usage"]["cpu_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_receipt_says_what_was_built() {
    let (_, outcome) = World::new().sh_json(&[], "true");
    let e = &outcome["enforcement"];
    assert_eq!(e["tier"], "namespaces");
    assert_eq!(e["process"], "pidns");
    assert_eq!(e["syscalls"], "command");
    assert_eq!(e["network"], "none");
    assert_eq!(e["filesystem"], "pivot_root+landlock");
    assert_eq!(e["audit"], "on");
    assert_eq!(e["screen"], Json::Null);
    assert_eq!(e["policy_sha256"].as_str().unwrap().len(), 64);
    if !is_root() {
        assert_eq!(e["resources"], "rlimit");
    }
}

#[test]
fn one_policy_has_one_hash_and_another_has_another() {
    let world = World::new();
    let hash = |flags: &[&str], script: &str| {
        world.sh_json(flags, script).1["enforcement"]["policy_sha256"].clone()
    };
    assert_eq!(hash(&[], "true"), hash(&[], "echo other"));
    assert_ne!(hash(&[], "true"), hash(&["--pids", "9"], "true"));
}

#[test]
fn bytes_that_are_not_text_come_as_base64() {
    let (_, outcome) = World::new().sh_json(&[], "printf '\\377\\376'");
    assert_eq!(outcome["encoding"], "base64");
    assert_eq!(outcome["stdout"], "//4=");
}

#[test]
fn a_signal_is_told_from_an_exit_code() {
    let (code, outcome) = World::new().sh_json(&[], "kill -9 $$");
    assert_eq!((code, &outcome["status"], &outcome["signal"]), (137, &"killed".into(), &9.into()));
    assert_eq!(outcome["error"]["code"], "signal");
    let (code, outcome) = World::new().sh_json(&[], "exit 137");
    assert_eq!(
        (code, &outcome["status"], &outcome["exit_code"]),
        (137, &"error".into(), &137.into())
    );
}

#[test]
fn problems_are_outcomes_too() {
    let world = World::new();
    let ran = world.ringfence(&["run", "--json", "--memory", "0", "--", "true"]);
    assert_eq!((ran.code, &ran.json()["ran"]), (2, &"no".into()));
    let ran = world.ringfence(&["run", "--json", "--cwd", "/", "--", "true"]);
    assert_eq!((ran.code, &ran.json()["status"]), (126, &"blocked".into()));
    assert_eq!(ran.json()["enforcement"], Json::Null);
}

#[test]
fn explain_prints_what_would_run_and_runs_nothing() {
    let world = World::new();
    let ran = world.ringfence(&["explain", "--", "touch", "file"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("pivot_root") && ran.stdout.contains("seccomp"));
    assert!(world.names().is_empty());
    let plan = world.ringfence(&["explain", "--json", "--", "true"]).json();
    assert_eq!(plan["tier"], "namespaces");
    assert!(plan["setup"].as_array().unwrap().len() > 20);
}

#[test]
fn policy_show_names_the_origin_of_each_value() {
    let world = World::new().var("RINGFENCE_PIDS", "9");
    world.write("home/.config/ringfence/config.toml", "memory = \"1G\"");
    let shown = world.ringfence(&["policy", "show", "--json", "--fds", "99"]).json();
    assert_eq!(shown["pids"]["from"], "environment");
    assert_eq!(shown["memory"]["value"], "1G");
    assert!(shown["memory"]["from"].as_str().unwrap().ends_with("config.toml"));
    assert_eq!(shown["fds"]["from"], "flag");
    assert_eq!(shown["timeout"]["from"], "preset");
    let presets = world.ringfence(&["policy", "presets"]).stdout;
    assert!(presets.contains("workspace") && presets.contains("minimal"));
}

#[test]
fn doctor_says_yes_or_no_to_each_layer() {
    let ran = World::new().ringfence(&["doctor", "--json"]);
    let report = ran.json();
    assert_eq!(ran.code, i32::from(report["tier"] != "namespaces"));
    let names: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    for layer in ["user namespaces", "landlock", "seccomp filters", "cgroup limits", "python"] {
        assert!(names.contains(&layer), "{layer}: {names:?}");
    }
    for check in report["checks"].as_array().unwrap() {
        assert_eq!(check["ok"] == true, check["fix"].is_null(), "{check}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let world = World::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for args in [&["doctor", "--json"][..], &["policy", "presets"], &["check", "--json", "-c", "1"]]
    {
        let mut command = world.command(args);
        let running = command.stdout(full()).stderr(Stdio::piped()).bounded_spawn().unwrap();
        let output = running.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {told}");
        assert!(told.contains("cannot write all of the answer"), "{args:?}: {told}");
    }
    // Nor does a stderr that takes nothing change what happened.
    let mut refused = world.command(&["exec", "-c", "object.__subclasses__()"]);
    let status = refused.stdout(Stdio::null()).stderr(full()).bounded_status().unwrap();
    assert_eq!(status.code(), Some(126));
}

#[test]
fn a_reader_that_does_not_read_holds_no_deadline_up() {
    use std::os::unix::fs::OpenOptionsExt as _;
    let world = World::new();
    let fifo = world.root().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).bounded_status().unwrap().success());
    // Both streams on one pipe: what one of them fills, the other finds full.
    let open = || {
        std::fs::File::options().read(true).write(true).custom_flags(0o4000).open(&fifo).unwrap()
    };
    let keep = open();
    let script = "yes & yes >&2";
    let mut command = world.command(&["run", "--timeout", "1s", "--", "sh", "-c", script]);
    command.stdout(open()).stderr(open());
    let within = std::time::Duration::from_secs(30);
    let status = command.bounded_status_within(within).expect("it ends by itself");
    assert_eq!(status.code(), Some(124));
    drop(keep);
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_ends_the_program() {
    let world = World::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    // The last is ended by SIGPIPE itself, which must not hide the reason.
    for (script, code) in [("echo lost", 125), ("yes; echo $? >&2", 125), ("exec yes", 141)] {
        let mut command = world.command(&["run", "--timeout", "60s", "--", "sh", "-c", script]);
        let began = std::time::Instant::now();
        command.stdout(full()).stderr(std::process::Stdio::piped());
        let output = command.bounded_spawn().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{script}: {stderr}");
        assert!(stderr.contains("output could be written (stdout: ENOSPC)"), "{script}: {stderr}");
        assert!(began.elapsed() < std::time::Duration::from_secs(50), "{script}");
    }
}

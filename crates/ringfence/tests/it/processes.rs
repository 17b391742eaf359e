//! Child processes of Python programs: none, unless the policy allows some.

use ringfence_testing::json;

use crate::mcp::client::Client;
use crate::support::{World, have};

const ECHO: &str =
    "import subprocess\nsubprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout";

#[test]
fn a_program_has_child_processes_if_the_policy_allows_some() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let exec = |flags: &[&str], code: &str| {
        world.ringfence(&[&["exec", "--json"], flags, &["-c", code]].concat()).json()
    };
    // The caller's Python, and the system's, which lies among the programs that are shown.
    for python in ["python3", "/usr/bin/python3"] {
        let ran = exec(&["--code-processes", "4", "--python", python], ECHO);
        assert_eq!((&ran["value"], &ran["denials"]), (&json!("'hi\\n'"), &json!([])), "{ran}");
    }
    // Tools that look for a name service, and a shell.
    let ran = exec(
        &["--code-processes", "4"],
        "import subprocess\nsubprocess.run('touch f; ls -l | wc -l; id -un', shell=True, check=True, capture_output=True, text=True).stdout",
    );
    assert_eq!((&ran["value"], &ran["denials"]), (&json!("'2\\nagent\\n'"), &json!([])), "{ran}");
    assert_eq!(ran["artifacts"][0]["path"], "f");
    // What a program wrote is not executed, and the network stays closed.
    let ran = exec(
        &["--code-processes", "4"],
        "import os, shutil, subprocess\nshutil.copy('/bin/true', 'true')\nos.chmod('true', 0o755)\n\
         try: subprocess.run('./true')\n\
         except PermissionError as e: print(e.errno)\n\
         print(subprocess.run(['python3', '-c', 'import socket; socket.socket()'], capture_output=True).returncode)",
    );
    assert_eq!(ran["stdout"], "13\n1\n", "{ran}");
    let plan = world.ringfence(&["explain", "--code-processes", "4", "--python"]).stdout;
    assert!(plan.contains("/usr"), "{plan}");
}

#[test]
fn no_more_child_processes_than_allowed_are_alive_at_once() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let fork = "import os, time\nn = 0\ntry:\n    for _ in range(20):\n        if os.fork() == 0: time.sleep(30)\n        n += 1\nexcept OSError as e: print(n, e.errno)";
    let ran = world.ringfence(&["exec", "--code-processes", "3", "-c", fork]);
    assert_eq!(ran.stdout, "3 11\n", "{}", ran.stderr);
    // The memory limit is that of the whole tree.
    let fill = "import subprocess\nfill = 'x = b\"a\" * (70 << 20); import time; time.sleep(20)'\nps = [subprocess.Popen(['python3', '-c', fill]) for _ in range(4)]\nfor p in ps: p.wait()";
    let flags = ["exec", "--json", "--code-processes", "8", "--memory", "100M", "-c", fill];
    let ran = world.ringfence(&flags).json();
    assert_eq!(ran["status"], "memory", "{ran}");
}

#[test]
fn without_it_a_child_process_is_refused_with_the_way_out() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let ran = world.ringfence(&["exec", "-c", ECHO]);
    let told: Vec<&str> = ran.stderr.lines().filter(|l| l.starts_with("ringfence:")).collect();
    assert_eq!(told.len(), 1, "{}", ran.stderr);
    assert!(told[0].contains("this run has no child processes"), "{}", ran.stderr);
    assert!(told[0].contains("`--code-processes 4`"), "{}", ran.stderr);
    for (args, code) in [
        (&["run", "--code-processes", "4", "--", "true"][..], "means nothing for a command"),
        (&["repl", "--code-processes", "4"], "the cells of a session have none"),
        (&["exec", "--code-processes", "-1", "-c", "1"], "has a bad value"),
    ] {
        let ran = world.ringfence(args);
        assert!(ran.code == 2 && ran.stderr.contains(code), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn an_agent_is_told_whether_its_programs_have_child_processes() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    for (flags, said, value) in [
        (&["--code-processes", "4"][..], "at most 4 child processes and threads", json!("'hi\\n'")),
        (&[], "no child processes", json!(null)),
    ] {
        let mut client = Client::new(&world, flags);
        let tools = client.request("tools/list", &json!({}));
        assert!(
            tools["result"]["tools"][0]["description"].as_str().unwrap().contains(said),
            "{tools}"
        );
        let called = client.call("execute_code", &json!({"code": ECHO}));
        let got = called.data.get("value").cloned().unwrap_or(json!(null));
        assert_eq!(got, value, "{}", called.text);
        // A session's worker has none whatever the policy.
        let made = client.call("session", &json!({"action": "create"}));
        let session = &made.data["session_id"];
        let called = client.call("execute_code", &json!({"code": ECHO, "session": session}));
        assert!(called.text.contains("no child processes"), "{}", called.text);
    }
}

//! What the operator decided holds however a run is started: rules, risk in the ledger, alerts, redaction.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testing::{BoundedCommand as _, Json, json, limit};

use crate::support::{Ran, World};

const NO_PUSH: &str = "[[rules.deny]]\nname = \"no-push\"\n\
    commands = [{ program = \"git\", arguments = [\"push\"] }]\nreason = \"pushing is for people\"\n";

/// Refused calls of a run, more than are ordinary.
const FOUR_DENIALS: &str = "unshare -r true; mount -t tmpfs none /tmp; chmod 4755 /bin/sh; touch f; chmod 4755 f; \
    python3 -c 'import socket, os\nfor f in (socket.AF_PACKET, socket.AF_NETLINK, socket.AF_VSOCK):\n  try: socket.socket(f, socket.SOCK_RAW)\n  except OSError: pass'; \
    true";

fn operator(text: &str) -> World {
    let world = World::new();
    world.write("home/.config/ringfence/config.toml", text);
    world
}

fn fed(world: &World, args: &[&str], input: &str) -> Ran {
    let mut command = world.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.bounded_spawn().unwrap();
    // A command that is refused does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Ran::from(&child.wait_with_output().unwrap())
}

#[test]
fn a_rule_about_commands_holds_for_run_and_for_the_hook() {
    let world = operator(NO_PUSH);
    for argv in [&["git", "push"][..], &["sh", "-c", "cd /tmp && git push origin"]] {
        let ran = world.ringfence(&[&["run", "--"], argv].concat());
        assert_eq!(ran.code, 126, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("`no-push`") && ran.stderr.contains("for people"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(world.ringfence(&["run", "--", "echo", "fine"]).stdout, "fine\n");
    // The hook answers with a command that goes through `run`.
    let question = r#"{"tool_name": "Bash", "tool_input": {"command": "git push"}}"#;
    let answer: Json = fed(&world, &["hook", "claude-code"], question).json();
    let rewritten = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str();
    let rewritten = rewritten.unwrap_or_else(|| panic!("{answer}"));
    let mut shell = world.here(Command::new("sh"));
    let ran = Ran::from(&shell.args(["-c", rewritten]).bounded_output().unwrap());
    assert_eq!(ran.code, 126, "{rewritten}: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("no-push"), "{}", ran.stderr);
}

#[test]
fn a_rule_about_programs_holds_for_exec_and_for_the_repl() {
    let world = operator("[[rules.deny]]\nname = \"no-python\"\ntools = [\"execute_code\"]\n");
    let ran = world.ringfence(&["exec", "-c", "print(1)"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (126, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("no-python"), "{}", ran.stderr);
    let ran = fed(&world, &["repl"], "print(1)\n");
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("no-python"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn rules_that_cannot_be_read_are_an_error_everywhere() {
    let world = operator("[rules]\ndenny = []\n");
    let item = "{\"id\": 1, \"code\": \"1\"}\n";
    for (args, input) in [
        (&["run", "--", "true"][..], ""),
        (&["exec", "-c", "1"], ""),
        (&["batch"], item),
        (&["repl"], "1\n"),
        (&["mcp"], ""),
        (&["serve", "--listen", "127.0.0.1:0"], ""),
    ] {
        let ran = fed(&world, args, input);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("[rules]") && ran.stderr.contains("denny"),
            "{args:?}: {}",
            ran.stderr
        );
    }
}

/// A deny rule that never matches lets everything through.
#[test]
fn a_rule_that_would_never_match_is_an_error_that_says_what_to_write() {
    for (rule, hint) in [
        ("tools = [\"run\"]", "did you mean `run_command`?"),
        ("tools = [\"bash\"]", "did you mean `run_command`?"),
        ("commands = [{ program = \"/usr/bin/git\" }]", "write `git`"),
        (
            "commands = [{ program = \"git push\" }]",
            "write `{ program = \"git\", arguments = [\"push\"] }`",
        ),
        ("commands = [{ program = \"rm\", options = [\"r\"] }]", "write `-r`"),
        ("paths = [\"docs/**\"]", "write `/workspace/docs/**` for sessions"),
    ] {
        let world = operator(&format!("[[rules.deny]]\nname = \"mine\"\n{rule}\n"));
        let file = world.home().join(".config/ringfence/config.toml");
        for args in [&["policy", "check", file.to_str().unwrap()][..], &["run", "--", "true"]] {
            let ran = world.ringfence(args);
            assert_eq!(ran.code, 2, "{rule}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains("rule `mine`"), "{rule}: {}", ran.stderr);
            assert!(ran.stderr.contains(hint), "{rule}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_rule_about_paths_holds_for_a_commands_destinations_and_for_moves() {
    let world = operator(NO_PUSH);
    let docs = world.work().join("docs");
    std::fs::create_dir(&docs).unwrap();
    let rule = format!(
        "[[rules.deny]]\nname = \"no-docs\"\npaths = [\"{}/**\", \"/workspace/docs/**\"]\n",
        docs.display()
    );
    let file = world.write("home/.config/ringfence/config.toml", &rule);
    let checked = world.ringfence(&["policy", "check", file.to_str().unwrap()]);
    assert_eq!(checked.stdout, format!("{}: ok ([rules])\n", file.display()));
    let writes =
        ["echo x > docs/a", "touch a; cp a docs", "touch a; mv a docs/b", "echo x | tee docs/c"];
    for script in writes {
        let ran = world.sh(&[], script);
        assert_eq!(ran.code, 126, "{script}: {}", ran.stderr);
        assert!(ran.stderr.contains("`no-docs`"), "{script}: {}", ran.stderr);
    }
    assert!(std::fs::read_dir(&docs).unwrap().next().is_none());
    assert_eq!(world.sh(&[], "touch a; cp a b; cat b").code, 0);
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    for script in ["mkdir docs", "touch a; cp a docs/"] {
        let ran = world.ringfence(&["run", "--session", &id, "--", "sh", "-c", script]);
        assert_eq!(ran.code, 126, "{script}: {}", ran.stderr);
    }
}

#[test]
fn the_ledger_has_the_risk_of_every_run() {
    let world = World::new();
    world.ringfence(&["run", "--", "rm", "-rf", "nothing"]);
    world.ringfence(&["exec", "-c", "print(1)"]);
    fed(&world, &["batch"], "{\"id\": 1, \"code\": \"1\"}\n{\"id\": 2, \"command\": \"true\"}\n");
    fed(&world, &["repl"], "1\n");
    let listed = world.ringfence(&["audit", "ls", "--json"]).json();
    let rows = listed["records"].as_array().unwrap();
    let ends: Vec<&Json> = rows.iter().filter(|row| row["kind"] == "run_end").collect();
    assert_eq!(ends.len(), 5, "{listed}");
    for row in &ends {
        assert!(row["risk"].is_string(), "{row}");
    }
    let removal = ends.iter().find(|row| row["tool"] == "run").unwrap();
    assert_eq!(removal["risk"], "medium", "{removal}");
}

#[test]
fn an_alert_of_a_run_is_delivered_and_delays_nothing() {
    let world = World::new();
    let (told, slow) = (world.root().join("told"), world.root().join("slow"));
    let deliver = format!(
        "cat >> {0}.new; mv {0}.new {0}; while [ -e {1} ]; do sleep 0.05; done",
        told.display(),
        slow.display()
    );
    std::fs::write(&slow, "").unwrap();
    world.write(
        "home/.config/ringfence/config.toml",
        &format!("[notify]\nalert_command = [\"sh\", \"-c\", {deliver:?}]\n"),
    );
    let ran = world.ringfence(&["run", "--json", "--", "sh", "-c", FOUR_DENIALS]);
    // Its receiver is still busy, and the run has its exit code.
    assert!(slow.exists());
    assert!(ran.json()["denials"].as_array().unwrap().len() > 3, "{}", ran.stdout);
    let began = Instant::now();
    while !told.exists() {
        assert!(began.elapsed() < limit(), "no alert came: {}", ran.stderr);
        std::thread::sleep(Duration::from_millis(20));
    }
    let alert = std::fs::read_to_string(&told).unwrap();
    std::fs::remove_file(&slow).unwrap();
    let alert: Json = serde_json::from_str(alert.trim()).unwrap_or_else(|e| panic!("{e}: {alert}"));
    assert_eq!(alert["rule"], "many_violations", "{alert}");
}

/// `mcp`, `serve` and `batch` start commands and Python: each flag holds for the kind of run that has it.
#[test]
fn what_starts_both_kinds_of_runs_takes_the_flags_of_both() {
    let world = World::new();
    let flags = [
        &["--net", "allow:pypi", "--net-limit", "bytes=1M", "--net-request", "GET pypi.org"][..],
        &["--publish", "8080", "--fallback", "warn", "--env", "A=b", "--hide", "/srv"],
        &["--preset", "data", "--allow-import", "yaml", "--timeout", "5s"],
    ]
    .concat();
    for face in [&["mcp"][..], &["batch"], &["serve", "--check"]] {
        let ran = world.ringfence(&[face, &flags].concat());
        assert_eq!(ran.code, 0, "{face:?}: {}", ran.stderr);
    }
    let refused = world.ringfence(&["exec", "--publish", "8080", "-c", "1"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

/// A flag does not raise a limit of the workspace's own file: the file is named, where a run meets it and where it was asked for
/// more.
#[test]
fn a_limit_of_the_workspaces_file_is_named() {
    let world = World::new();
    world.write("work/ringfence.toml", "timeout = \"1s\"\n");
    let hint = "raise `timeout` in `ringfence.toml`, which sets it";
    let note = "the workspace's `ringfence.toml` allows a `timeout` of 1s; 10s was asked for";
    for args in [
        &["run", "--timeout", "10s", "--", "sleep", "5"][..],
        &["exec", "--timeout", "10s", "-c", "while True: pass"],
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 124, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(hint) && ran.stderr.contains(note), "{}", ran.stderr);
    }
    let ran = world.ringfence(&["run", "--json", "--", "sleep", "5"]).json();
    assert_eq!((ran["error"]["hint"].as_str(), &ran["notes"]), (Some(hint), &json!([])));
    world.write("work/ringfence.toml", "timeout = \"1m\"\nmemory = \"100K\"\n");
    for args in [&["run", "--", "true"][..], &["explain", "--", "true"], &["exec", "-c", "1"]] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        let hint = "hint: raise `memory` in `ringfence.toml`, which sets it";
        assert!(ran.stderr.contains(hint), "{args:?}: {}", ran.stderr);
    }
    world.write("work/ringfence.toml", "timeout = \"1m\"\n");
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 0);
}

#[test]
fn a_variable_that_is_not_set_is_noted() {
    let world = World::new().var("THERE", "1");
    let ran = world.ringfence(&["run", "--env", "THERE", "--env", "NOPE", "--", "true"]);
    assert_eq!(ran.stderr, "ringfence: `NOPE` of `env` is not set here, so the run has none\n");
    let ran = world.ringfence(&["run", "--json", "--env", "NOPE=1", "--", "true"]);
    assert_eq!(ran.json()["notes"], json!([]));
}

#[test]
fn a_path_that_does_not_exist_is_told_in_words_and_where_it_is_set() {
    let world = operator("ro = [\"/no/such\"]\n");
    let file = world.home().join(".config/ringfence/config.toml");
    let told = format!(
        "error: `ro`: cannot use `/no/such`\n  cause: it does not exist\n  hint: `ro` is set in `{}`; the path must exist before the run starts\n",
        file.display()
    );
    for args in [&["run", "--", "true"][..], &["explain", "--", "true"]] {
        let ran = world.ringfence(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (2, told.as_str()), "{args:?}");
    }
    let world = World::new().var("RINGFENCE_RW", "/no/such");
    let ran = world.ringfence(&["run", "--", "true"]);
    assert!(
        ran.stderr.contains("hint: `rw` is set in the variable `RINGFENCE_RW`;"),
        "{}",
        ran.stderr
    );
    let ran = World::new().ringfence(&["exec", "--file", "/no/such", "-c", "1"]);
    assert!(ran.code == 2 && !ran.stderr.contains("ENOENT"), "{}", ran.stderr);
}

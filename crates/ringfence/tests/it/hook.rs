//! `ringfence hook`: the agent's own commands behind the fence. An answer that nobody reads is taken for consent, so the
//! command must not run.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ringfence_testing::{BoundedCommand as _, Json, json};

use crate::support::{World, have, project};

const QUESTION: &[u8] = br#"{"tool_name": "Bash", "tool_input": {"command": "id"}}"#;

/// The hook's exit code with this as its stdout.
fn asked(world: &World, stdout: impl Into<Stdio>) -> Option<i32> {
    let mut command = world.command(&["hook", "claude-code"]);
    ends(command.stdout(stdout))
}

fn ends(command: &mut Command) -> Option<i32> {
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).bounded_spawn().unwrap();
    child.stdin.take().unwrap().write_all(QUESTION).unwrap();
    child.wait().unwrap().code()
}

#[test]
fn an_answer_that_nobody_reads_stops_the_command() {
    let world = World::new();
    assert_eq!(asked(&world, Stdio::piped()), Some(0), "somebody reads");
    assert_eq!(asked(&world, Stdio::null()), Some(2));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(asked(&world, full), Some(2));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(asked(&world, writer), Some(2), "the reader is gone");
    let own = world.command(&["x"]).get_program().to_owned();
    let mut shell = Command::new("bash");
    shell.arg("-c").arg("\"$1\" hook claude-code >&-").arg("bash").arg(own);
    assert_eq!(ends(shell.current_dir(world.work())), Some(2), "stdout is closed");
}

#[test]
fn the_plugin_asks_no_path_that_leads_through_the_project() {
    let plugin = project().join("plugins/claude-code");
    let read = |name: &str| -> Json { Json::parse(std::fs::read(plugin.join(name)).unwrap()) };
    let (hooks, server) = (read("hooks/hooks.json"), read(".mcp.json"));
    let hook = hooks["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
    let server = &server["mcpServers"]["ringfence"];
    let start = server["args"][1].as_str().unwrap().to_owned();
    let world = World::new();
    let planted = world.write_executable("work/bin/ringfence", "#!/bin/sh\necho planted\n");
    for line in [hook, start] {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&line).current_dir(world.work()).stdin(Stdio::null());
        shell.env("PATH", format!("{}:/usr/bin:/bin", planted.parent().unwrap().display()));
        let output = shell.env("HOME", world.home()).bounded_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(!stdout.contains("planted"), "{line}: {stdout}");
    }
}

#[test]
fn the_hook_sends_a_command_through_the_fence() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    world.write("home/.ssh/id_ed25519", "canary-5c2e");
    let ask = |question: &str| {
        let mut child = world
            .command(&["hook", "claude-code"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .bounded_spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(question.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let command = "cat ~/.ssh/id_ed25519; echo \"it's\" > out.txt; cat out.txt";
    let question = json!({"tool_name": "Bash", "tool_input": {"command": command}});
    let (code, answer) = ask(&question.to_string());
    assert_eq!(code, Some(0));
    let answer = Json::parse(&answer);
    let fenced = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap();
    // As the agent would run it.
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(fenced);
    for (name, value) in world.command(&["x"]).get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let output = shell.current_dir(world.work()).bounded_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout, "it's\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ask("nonsense"), (Some(2), String::new()), "what is not understood does not run");
}

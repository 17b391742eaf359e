//! `ringfence wrap`: another MCP server behind the fence, started as its client would start it, and taken out again.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ringfence_testing::{BoundedCommand as _, Json};

use crate::support::{World, binary};

/// Answers each line with what it can see and do.
const SERVER: &str = r#"
import json, os, socket, sys
def tried(work):
    try:
        return str(work())
    except Exception as e:
        return type(e).__name__
for line in sys.stdin:
    ask = json.loads(line)
    print(json.dumps({
        "id": ask["id"],
        "token": os.environ.get("API_TOKEN"),
        "other": os.environ.get("OTHER_TOKEN"),
        "ssh": tried(lambda: open(ask["home"] + "/.ssh/id_rsa").read()),
        "project": tried(lambda: open(ask["home"] + "/project/x", "w")),
        "own": tried(lambda: open("note", "w").write("x")),
        "net": tried(lambda: socket.create_connection(("192.0.2.1", 443), 1)),
    }), flush=True)
"#;

/// The layouts of the two formats, with a comment and an order of the user's own.
fn configurations(server: &str) -> [(&'static str, &'static str, String); 3] {
    [
        (
            "cursor",
            ".cursor/mcp.json",
            format!(
                "{{\n  // mine\n  \"mcpServers\": {{\n    \"notes\": {{\n      \"env\": {{\"API_TOKEN\": \"t-1\"}},\n      \"command\": \"/usr/bin/python3\",\n      \"args\": [\n        \"{server}\"\n      ],\n      \"disabled\": false\n    }},\n    \"web\": {{\"url\": \"https://x.test\"}}\n  }}\n}}\n"
            ),
        ),
        (
            "codex",
            ".codex/config.toml",
            format!(
                "model = \"m\" # keep\n\n[mcp_servers.notes]\nargs = [ \"{server}\" ]\ncommand = \"/usr/bin/python3\" # python\n\n[mcp_servers.notes.env]\nAPI_TOKEN = \"t-1\"\n"
            ),
        ),
        (
            "claude-code",
            ".claude.json",
            format!(
                "{{\"mcpServers\": {{\"notes\": {{\"type\": \"stdio\", \"command\": \"/usr/bin/python3\", \"args\": [\"{server}\"], \"env\": {{\"API_TOKEN\": \"t-1\"}}}}}}}}\n"
            ),
        ),
    ]
}

/// Command and arguments of the server `notes`.
fn entry(client: &str, text: &str) -> (String, Vec<String>) {
    let table = if client == "codex" {
        let table: toml::Table = text.parse().unwrap();
        Json::parse(serde_json::to_string(&table["mcp_servers"]["notes"]).unwrap())
    } else {
        let start = text.find("\"mcpServers\"").unwrap();
        Json::parse(format!("{{{}", &text[start..]))["mcpServers"]["notes"].clone()
    };
    let args = table["args"].as_array().unwrap().iter();
    (
        table["command"].as_str().unwrap().to_owned(),
        args.map(|a| a.as_str().unwrap().to_owned()).collect(),
    )
}

#[test]
fn a_wrapped_server_works_behind_the_fence_and_comes_out_again() {
    for i in 0..3 {
        let world = World::new();
        let server = world.write("home/servers/notes.py", SERVER);
        let (client, file, before) =
            configurations(server.to_str().unwrap()).into_iter().nth(i).unwrap();
        world.write("home/.ssh/id_rsa", "private");
        world.write("home/project/x", "mine");
        let path = world.write(&format!("home/{file}"), &before);
        let listed = world.ringfence(&["wrap"]);
        assert!(
            listed.stdout.contains("notes\t") && listed.stdout.contains("with your rights"),
            "{}",
            listed.stdout
        );

        let dry = world.ringfence(&["wrap", "notes", "--dry-run"]);
        assert_eq!(dry.code, 0, "{client}: {}", dry.stderr);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), before, "{client}: a dry run wrote");
        let wrapped = world.ringfence(&["wrap", "notes"]);
        assert_eq!(wrapped.code, 0, "{client}: {}", wrapped.stderr);
        assert!(wrapped.stderr.contains("API_TOKEN"), "{}", wrapped.stderr);
        let after = std::fs::read_to_string(&path).unwrap();
        for kept in ["// mine", "\"url\"", "# keep", "\"disabled\": false", "t-1"] {
            assert_eq!(after.contains(kept), before.contains(kept), "{client}: {kept}: {after}");
        }
        assert!(world.ringfence(&["wrap"]).stdout.contains("behind the fence"));

        // Started as the client starts it.
        let (command, arguments) = entry(client, &after);
        assert_eq!(command, binary().to_str().unwrap());
        let mut start = world.here(Command::new(command));
        start.args(arguments).env("API_TOKEN", "t-1").env("OTHER_TOKEN", "t-2");
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = start.bounded_spawn().unwrap();
        let ask = format!("{{\"id\": 7, \"home\": {:?}}}\n", world.home());
        running.stdin.take().unwrap().write_all(ask.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let answer = Json::parse(String::from_utf8_lossy(&output.stdout).trim());
        assert_eq!(answer["id"], 7, "{client}: {said}");
        assert_eq!(answer["token"], "t-1");
        assert!(answer["other"].is_null(), "{answer}");
        assert_eq!(answer["ssh"], "FileNotFoundError", "{answer}");
        assert_eq!(answer["project"], "FileNotFoundError", "{answer}");
        assert_eq!(answer["own"], "1", "{answer}");
        assert_eq!(answer["net"], "OSError", "{answer}");
        assert_eq!(std::fs::read_to_string(world.home().join("project/x")).unwrap(), "mine");

        let again = world.ringfence(&["wrap", "notes"]);
        assert!(again.stdout.contains("already"), "{client}: {}", again.stdout);
        let more = world.ringfence(&["wrap", "notes", "--", "--net", "allow:pypi"]);
        assert!(more.stdout.contains("allow:pypi"), "{client}: {}", more.stdout);
        let undone = world.ringfence(&["wrap", "notes", "--undo"]);
        assert_eq!(undone.code, 0, "{client}: {}", undone.stderr);
        let left = std::fs::read_to_string(&path).unwrap();
        assert_eq!(left, before, "{client}");
        let nothing = world.ringfence(&["wrap", "notes", "--undo"]);
        assert!(nothing.stderr.contains("nothing to undo"), "{}", nothing.stderr);
    }
}

#[test]
fn a_server_that_cannot_be_wrapped_is_named_with_the_reason() {
    let world = World::new();
    world.write(
        "home/.cursor/mcp.json",
        "{\"mcpServers\": {\"d\": {\"command\": \"docker\", \"args\": [\"run\"]}, \"r\": {\"command\": \"/x/ringfence\", \"args\": [\"mcp\"]}, \"u\": {\"url\": \"https://x.test\"}, \"n\": {\"command\": \"npx\", \"args\": [\"-y\", \"x\"]}}}\n",
    );
    for (name, words) in [
        ("d", "outside of any fence"),
        ("r", "has a fence"),
        ("u", "d, r, n"),
        ("missing", "no server `missing`"),
    ] {
        let refused = world.ringfence(&["wrap", name]);
        assert_eq!(refused.code, 2, "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{name}: {}", refused.stderr);
    }
    // A server from a registry reaches that registry.
    let npx = world.ringfence(&["wrap", "n", "--dry-run"]);
    assert!(npx.stdout.contains("allow:npm"), "{}", npx.stdout);
    // The same name in two clients.
    world
        .write("home/.gemini/settings.json", "{\"mcpServers\": {\"n\": {\"command\": \"npx\"}}}\n");
    let two = world.ringfence(&["wrap", "n"]);
    assert!(two.code == 2 && two.stderr.contains("--client"), "{}", two.stderr);
    assert_eq!(world.ringfence(&["wrap", "n", "--client", "gemini", "--dry-run"]).code, 0);
}

/// A run may write beside a project's `.mcp.json`, and not to it: what it leaves there as a copy is not restored as a command.
#[test]
fn a_copy_that_a_run_may_have_written_is_not_restored() {
    let world = World::new();
    let config = |command: &str| {
        format!(
            "{{\n  \"mcpServers\": {{\"notes\": {{\"command\": \"{command}\", \"args\": [\"-c\", \"1\"]}}}}\n}}\n"
        )
    };
    let path = world.write("work/.mcp.json", &config("/usr/bin/python3"));
    let wrap = |more: &[&str]| {
        let args = ["wrap", "notes", "--client", "claude-code", "--config", ".mcp.json"];
        let ran = world.ringfence(&[&args[..], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran
    };
    wrap(&[]);
    for copy in ["", ".2", ".3"] {
        let hostile = config("/bin/sh");
        let script = format!("printf '%s' '{hostile}' > .mcp.json.before-ringfence{copy}");
        assert_eq!(world.sh(&[], &script).code, 0);
    }
    let undone = wrap(&["--undo"]);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("/usr/bin/python3") && !text.contains("/bin/sh"), "{text}");
    assert!(undone.stderr.contains("left alone"), "{}", undone.stderr);
}

#[test]
fn servers_of_one_name_share_no_directory() {
    let world = World::new();
    let config = |argument: &str| {
        format!(
            "{{\"mcpServers\": {{\"notes\": {{\"command\": \"npx\", \"args\": [\"{argument}\"]}}}}}}\n"
        )
    };
    world.write("home/.cursor/mcp.json", &config("a"));
    world.write("home/.gemini/settings.json", &config("a"));
    world.write("work/.mcp.json", &config("b"));
    let directory = |client: &str, more: &[&str]| {
        let args = [&["wrap", "notes", "--dry-run", "--client", client], more].concat();
        let ran = world.ringfence(&args);
        let at = ran.stdout.find("ringfence-servers/notes").expect(&ran.stdout);
        ran.stdout[at..].split('"').next().unwrap().to_owned()
    };
    let project = ["--config", ".mcp.json"];
    let all =
        [directory("cursor", &[]), directory("gemini", &[]), directory("claude-code", &project)];
    assert_eq!(directory("cursor", &[]), all[0]);
    let different: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(different.len(), 3, "{all:?}");
}

#[test]
fn a_projects_configuration_writes_nothing_to_the_terminal_and_its_grants_are_listed() {
    let world = World::new();
    let program = binary();
    world.write(
        "work/.mcp.json",
        &format!(
            "{{\n  // \u{1b}[2J\u{202e}\n  \"mcpServers\": {{\"x\": {{\"command\": \"python3\"}},\n  \"y\": {{\"command\": \"{}\", \"args\": [\"run\", \"--rw\", \"/home\", \"--\", \"evil\"]}}}}\n}}\n",
            program.display()
        ),
    );
    let args = ["wrap", "x", "--dry-run", "--client", "claude-code", "--config", ".mcp.json"];
    let shown = world.ringfence(&args).stdout;
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown:?}");
    assert!(shown.contains("\\u{1b}[2J"), "{shown}");
    let list = world.ringfence(&["wrap"]).stdout;
    assert!(list.contains("--rw /home"), "{list}");
}

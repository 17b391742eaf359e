//! `ringfence init`: each client's own file, nothing else in it touched, and all of it taken back.

use std::os::unix::fs::PermissionsExt as _;

use ringfence_testing::{BoundedCommand as _, Json, json, needs_root};

use crate::support::{Ran, World, binary};

/// Client, its file, what is in it before, a text that the server's entry has.
const CLIENTS: [(&str, &str, &str, &str); 7] = [
    ("claude-code", ".claude.json", "{\"numStartups\": 3}\n", "\"type\": \"stdio\""),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "", "\"mcpServers\""),
    ("codex", ".codex/config.toml", "model = \"m\" # keep\n", "[mcp_servers.ringfence]"),
    ("cursor", ".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"b\"}}}\n", "\"a\""),
    ("vscode", ".config/Code/User/mcp.json", "{\n  // mine\n  \"servers\": {}\n}\n", "// mine"),
    ("gemini", ".gemini/settings.json", "{\"theme\": \"x\"}\n", "\"theme\""),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed\n{\n  \"vim_mode\": true,\n}\n",
        "\"source\": \"custom\"",
    ),
];

#[test]
fn each_client_is_told_and_the_undo_leaves_what_was_there() {
    for (client, file, before, entry) in CLIENTS {
        let world = World::new();
        let path = world.home().join(file);
        if !before.is_empty() {
            world.write(&format!("home/{file}"), before);
        }
        let dry = world.ringfence(&["init", client, "--dry-run"]);
        assert_eq!(dry.code, 0, "{client}: {}", dry.stderr);
        assert!(dry.stdout.contains('+') && dry.stdout.contains("ringfence"), "{}", dry.stdout);
        assert_eq!(path.exists(), !before.is_empty(), "{client}: a dry run wrote");

        let told = world.ringfence(&["init", client, "--", "--preset", "data"]);
        assert_eq!((told.code, !told.stdout.is_empty()), (0, true), "{client}: {}", told.stderr);
        let after = std::fs::read_to_string(&path).unwrap();
        assert!(after.contains(entry), "{client}: {after}");
        assert!(after.contains(binary().to_str().unwrap()), "{client}: {after}");
        assert!(after.contains("\"--preset\"") && after.contains("\"data\""), "{client}: {after}");
        let again = world.ringfence(&["init", client, "--", "--preset", "data"]);
        assert!(again.stdout.contains("has it already"), "{client}: {}", again.stdout);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), after);

        let undone = world.ringfence(&["init", client, "--undo"]);
        assert_eq!(undone.code, 0, "{client}: {}", undone.stderr);
        let left = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(left, before, "{client}");
        let dir = std::fs::read_dir(path.parent().unwrap()).unwrap();
        let names: Vec<_> = dir.map(|e| e.unwrap().file_name()).collect();
        assert!(
            names.iter().all(|name| !name.to_str().unwrap().contains("ringfence")),
            "{client}: {names:?}"
        );
    }
}

/// Flags for later: `init` passes them to `mcp`, `wrap` and the hook to `run`. One that fails there would leave an agent
/// without the server, or without commands.
#[test]
fn flags_that_would_fail_later_are_refused_and_nothing_is_written() {
    let bad = [
        (&["--memroy", "1G"][..], "unexpected argument '--memroy' found"),
        (&["--memory", "1X"][..], "`--memory`"),
        (&["ls"][..], "ls"),
    ];
    for (flags, word) in bad {
        let world = World::new();
        let server = r#"{"mcpServers": {"notes": {"command": "true", "args": []}}}"#;
        let path = world.write("home/.cursor/mcp.json", server);
        let question = r#"{"tool_name": "Bash", "tool_input": {"command": "id"}}"#;
        let question = std::fs::File::open(world.write("question", question)).unwrap();
        for ask in
            [["init", "cursor", "--"], ["wrap", "notes", "--"], ["hook", "claude-code", "--"]]
        {
            let mut command = world.command(&[&ask, flags].concat());
            command.stdin(question.try_clone().unwrap());
            let ran = Ran::from(&command.bounded_output().unwrap());
            assert_eq!(ran.code, 2, "{ask:?} {flags:?}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains(word), "{ask:?}: {}", ran.stderr);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), server, "{flags:?}");
    }
}

/// A project's file that cannot be read is no reason to keep an entry, or not to list the servers.
#[test]
fn entries_are_taken_back_whatever_a_project_has_in_its_file() {
    let world = World::new();
    let server = r#"{"mcpServers": {"notes": {"command": "true", "args": []}}}"#;
    let path = world.write("home/.cursor/mcp.json", server);
    assert_eq!(world.ringfence(&["wrap", "notes"]).code, 0);
    assert_eq!(world.ringfence(&["init", "cursor", "--", "--memory", "1G"]).code, 0);
    world.write("work/ringfence.toml", "not = [toml");
    for ask in [
        &["wrap"][..],
        &["wrap", "notes", "--undo"],
        &["init", "cursor", "--undo", "--", "--memory", "1G"],
    ] {
        let ran = world.ringfence(ask);
        assert_eq!(ran.code, 0, "{ask:?}: {}{}", ran.stdout, ran.stderr);
    }
    let left = Json::parse(std::fs::read(&path).unwrap());
    assert_eq!(left, Json::parse(server.as_bytes()));
    let refused = world.ringfence(&["init", "cursor", "--", "--memory", "1G"]);
    assert!(refused.code == 2 && refused.stderr.contains("ringfence.toml"), "{}", refused.stderr);
}

#[test]
fn what_somebody_wrote_since_survives_the_undo() {
    let world = World::new();
    let path = world.write("home/.cursor/mcp.json", "{\"mcpServers\": {}}\n");
    assert_eq!(world.ringfence(&["init", "cursor"]).code, 0);
    let mut config = Json::parse(std::fs::read(&path).unwrap());
    let servers = config.as_object_mut().unwrap().get_mut("mcpServers").unwrap();
    servers.insert("new", json!({"command": "n"}));
    std::fs::write(&path, config.to_string()).unwrap();
    assert_eq!(world.ringfence(&["init", "cursor", "--undo"]).code, 0);
    let left = Json::parse(std::fs::read(&path).unwrap());
    assert_eq!(left, json!({"mcpServers": {"new": {"command": "n"}}}));
}

#[test]
fn an_entry_of_ones_own_comes_back_and_no_text_is_lost() {
    let world = World::new();
    let mine = json!({"mcpServers": {"ringfence": {"command": "mine", "env": {"K": "V"}}}});
    let path = world.write("home/.cursor/mcp.json", &mine.to_string());
    let read = || -> Json { Json::parse(std::fs::read(&path).unwrap()) };
    let copy = |n: &str| world.home().join(format!(".cursor/mcp.json.before-ringfence{n}"));
    let told = world.ringfence(&["init", "cursor"]);
    assert!(told.stderr.contains(copy("").to_str().unwrap()), "{}", told.stderr);
    let mut config = read();
    config.insert("new", 1);
    std::fs::write(&path, config.to_string()).unwrap();
    // Told again, the copy that is named has what was there.
    let told = world.ringfence(&["init", "cursor", "--", "--preset", "data"]);
    assert!(told.stderr.contains(copy(".2").to_str().unwrap()), "{}", told.stderr);
    assert_eq!(std::fs::read_to_string(copy(".2")).unwrap(), config.to_string());
    let undone = world.ringfence(&["init", "cursor", "--undo"]);
    assert!(undone.code == 0 && undone.stderr.contains("other changes"), "{}", undone.stderr);
    let left = read();
    assert_eq!((&left["mcpServers"], &left["new"]), (&mine["mcpServers"], &json!(1)), "{left}");
    assert_eq!(std::fs::read_to_string(copy("")).unwrap(), mine.to_string());
}

#[test]
fn lines_and_marks_stay_as_they_are() {
    let world = World::new();
    let before = "\u{feff}# mine\r\nmodel = \"m\"\r\n";
    let path = world.write("home/.codex/config.toml", before);
    assert_eq!(world.ringfence(&["init", "codex"]).code, 0);
    let after = std::fs::read_to_string(&path).unwrap();
    assert!(after.starts_with(before) && after.ends_with("]\r\n"), "{after:?}");
    assert_eq!(world.ringfence(&["init", "codex", "--undo"]).code, 0);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
}

#[test]
fn root_leaves_the_files_of_others_alone() {
    if !needs_root("only root can give files away") {
        return;
    }
    let world = World::new();
    let path = world.write("home/.cursor/mcp.json", "{}\n");
    for theirs in [path.clone(), path.parent().unwrap().to_owned()] {
        let meta = std::fs::metadata(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(61_000), None).unwrap();
        let ran = world.ringfence(&["init", "cursor"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("belongs to the user 61000"), "{}", ran.stderr);
        std::os::unix::fs::chown(&theirs, Some(std::os::unix::fs::MetadataExt::uid(&meta)), None)
            .unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n");
}

#[test]
fn a_link_stays_a_link_and_a_mode_stays_a_mode() {
    let world = World::new();
    let real = world.write("home/dotfiles/mcp.json", "{}\n");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::create_dir_all(world.home().join(".cursor")).unwrap();
    let link = world.home().join(".cursor/mcp.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(world.ringfence(&["init", "cursor"]).code, 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().contains("ringfence"));
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_file_that_cannot_be_understood_is_left_as_it_is() {
    for (client, file, text) in [
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": "),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": []}"),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": {}, \"mcpServers\": {}}"),
        ("codex", ".codex/config.toml", "= x"),
    ] {
        let world = World::new();
        let path = world.write(&format!("home/{file}"), text);
        let ran = world.ringfence(&["init", client]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{text}");
        assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let world = World::new();
    let ran = world.ringfence(&["init", "emacs"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("claude-code, claude-desktop, codex"), "{}", ran.stderr);
}

#[test]
fn a_client_that_starts_anywhere_is_given_a_directory_for_commands() {
    let world = World::new();
    let config = world.home().join(".config/Claude/claude_desktop_config.json");
    let cwd_of = |ran: crate::support::Ran| {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let server =
            Json::parse(std::fs::read(&config).unwrap())["mcpServers"]["ringfence"].clone();
        server["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    // From a project: that project.
    let args = cwd_of(world.ringfence(&["init", "claude-desktop"]));
    assert_eq!(args, ["mcp", "--cwd", world.work().to_str().unwrap()]);
    // From the home, which no command may change: a directory of its own.
    let mut command = world.command(&["init", "claude-desktop"]);
    let ran = command.current_dir(world.home()).bounded_output().unwrap();
    let own = world.home().join("ringfence");
    assert_eq!(cwd_of(crate::support::Ran::from(&ran)), ["mcp", "--cwd", own.to_str().unwrap()]);
    assert!(own.is_dir());
    // As it was said.
    let args = cwd_of(world.ringfence(&["init", "claude-desktop", "--", "--cwd", "/srv"]));
    assert_eq!(args, ["mcp", "--cwd", "/srv"]);
}

#[test]
fn a_plugin_finds_the_program_that_wrote_it() {
    let world = World::new();
    let dir = world.root().join("plugin");
    let init = |more: &[&str]| {
        world.ringfence(
            &[&["init", "claude-code", "--plugin", dir.to_str().unwrap()], more].concat(),
        )
    };
    assert!(init(&["--dry-run"]).stdout.contains("hooks.json") && !dir.exists());
    let told = init(&["--", "--preset", "data"]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(told.stderr.contains("claude --plugin-dir"), "{}", told.stderr);
    let read = |name: &str| Json::parse(std::fs::read(dir.join(name)).unwrap());
    let server = read(".mcp.json")["mcpServers"]["ringfence"].clone();
    assert_eq!(server["command"], binary().to_str().unwrap());
    assert_eq!(server["args"], json!(["mcp", "--preset", "data"]));
    assert_eq!(read(".claude-plugin/plugin.json")["name"], "ringfence");

    // As the client starts it: by a shell, in the project, with nothing on its PATH.
    let hook = read("hooks/hooks.json")["hooks"]["PreToolUse"][0]["hooks"][0]["command"].clone();
    let asked =
        world.write("asked", "{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}");
    let mut shell = world.here(std::process::Command::new("/bin/sh"));
    shell.args(["-c", hook.as_str().unwrap()]).env("PATH", "/nowhere");
    let answer = shell.stdin(std::fs::File::open(asked).unwrap()).bounded_output().unwrap();
    let said = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(said.contains("updatedInput"), "{said} {}", String::from_utf8_lossy(&answer.stderr));

    assert_eq!(init(&["--undo", "--", "--preset", "data"]).code, 0);
    assert!(!dir.join(".mcp.json").exists() && !dir.join("hooks/hooks.json").exists());
    let other = world.ringfence(&["init", "zed", "--plugin", "x"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
}

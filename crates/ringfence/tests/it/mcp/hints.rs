//! What a model is told when it asks the wrong tool, the wrong place or nothing.

use ringfence_testing::json;

use super::client::Client;
use crate::support::World;

fn text_of(client: &mut Client, tool: &str, arguments: &ringfence_testing::Json) -> String {
    client.call(tool, arguments).text
}

#[test]
fn a_file_that_is_elsewhere_is_told_by_the_tool_that_sees_it() {
    let world = World::new();
    world.write("work/data.csv", "1");
    let absolute = world.work().join("data.csv");
    for (flags, seen) in [(&[][..], true), (&["--preset", "minimal"], false)] {
        let mut client = Client::new(&world, flags);
        let code = json!({"code": "open('data.csv')"});
        let missed = text_of(&mut client, "execute_code", &code);
        assert!(missed.contains("pass `session` to keep them between calls"), "{missed}");
        assert_eq!(missed.contains("run_command without `session` sees"), seen, "{missed}");
        let session = client.call("session", &json!({"action": "create"}));
        let id = session.data["session_id"].as_str().unwrap().to_owned();
        let code = format!("open({:?})", absolute.to_str().unwrap());
        let missed = text_of(&mut client, "execute_code", &json!({"session": id, "code": code}));
        assert_eq!(missed.contains("a session has files of its own only"), seen, "{missed}");
        let path = absolute.to_str().unwrap();
        let outside = text_of(&mut client, "read_file", &json!({"session": id, "path": path}));
        assert!(outside.contains("name a file of the session"), "{outside}");
        assert_eq!(outside.contains("run_command sees the user's own files"), seen, "{outside}");
        let tools = client.request("tools/list", &json!({}))["result"]["tools"].to_string();
        assert_eq!(tools.contains("run_command sees them"), seen);
        assert_eq!(tools.contains("The user's own files: run_command"), seen);
        // As it is told.
        let ran = client.call("run_command", &json!({"command": "cat data.csv"}));
        assert_eq!(ran.status() == "ok", seen, "{}", ran.text);
    }
}

#[test]
fn lines_of_a_notebook_are_told_as_what_they_are() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    for (code, hint) in [
        ("!pip install requests\nimport requests", "run the command with the tool `run_command`"),
        ("  !ls", "run the command with the tool `run_command`"),
        ("%matplotlib inline", "leave the line out"),
        ("x = (1", "repair the syntax"),
    ] {
        let refused = text_of(&mut client, "execute_code", &json!({"code": code}));
        assert!(refused.contains(hint), "{code}: {refused}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_told_with_one_that_is() {
    let world = World::new();
    std::fs::create_dir(world.work().join("sub dir")).unwrap();
    let mut client = Client::new(&world, &[]);
    let call = |cwd: &str| json!({"command": "pwd", "cwd": cwd});
    let refused = client.call("run_command", &call("no/$(such)"));
    assert_eq!(refused.data["exit_code"], 2, "{}", refused.text);
    let told = format!(
        "cwd: this run cannot enter `no/$(such)`; leave `cwd` out to start in `{}`, or name a directory that it sees",
        world.work().display()
    );
    assert!(refused.text.contains(&told), "{}", refused.text);
    // The reader of command lines follows the directory, and rules hold there.
    let ran = client.call("run_command", &call("sub dir"));
    assert_eq!(ran.data["stdout"], format!("{}\n", world.work().join("sub dir").display()));
}

#[test]
fn nothing_is_told_as_nothing() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let id = client.call("session", &json!({"action": "create"}));
    let id = id.data["session_id"].as_str().unwrap().to_owned();
    let back = client.call("session", &json!({"action": "rollback", "session": id, "cell": 1}));
    assert!(back.text.contains("no cell has run in this session yet"), "{}", back.text);
    let write = json!({"session": id, "path": "empty", "content": ""});
    assert_eq!(client.call("write_file", &write).status(), "ok");
    let read = client.call("read_file", &json!({"session": id, "path": "empty"}));
    assert_eq!(read.text, "(the file is empty)");
    let write = json!({"session": id, "path": "five", "content": "12345"});
    assert_eq!(client.call("write_file", &write).status(), "ok");
    let read = client.call("read_file", &json!({"session": id, "path": "five", "offset": 9}));
    assert_eq!(read.text, "(nothing from byte 9 on: the file has 5)");
    let socket = client.call("execute_code", &json!({"code": "import socket; socket.socket()"}));
    assert!(!socket.text.contains("``"), "{}", socket.text);
    // Output that was shown before is no output that was dropped.
    let slow = "import time\nprint('one', flush=True)\ntime.sleep(4)\nprint('two', flush=True)\ntime.sleep(6)";
    let running = client.call_once("execute_code", &json!({"code": slow}));
    assert_eq!(running.status(), "running", "{}", running.text);
    let asked = json!({
        "run_id": running.data["run_id"], "cursor": running.data["cursor"], "timeout_s": 3,
    });
    let waited = client.call_once("wait", &asked);
    assert_eq!((waited.status(), waited.data["stdout"].as_str()), ("running", Some("two\n")));
    assert!(waited.data.get("truncated").is_none(), "{}", waited.data);
}

//! Work that outlasts a call, and work that is called off.

use std::time::{Duration, Instant};

use ringfence_testing::{Json, json};

use super::client::{Called, Client};
use crate::living::{eventually, gone, marker, runs, tree};
use crate::support::World;

#[test]
fn a_long_run_yields_and_can_be_waited_for() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let began = Instant::now();
    let called = client.call_once(
        "run_command",
        &json!({"command": "while [ ! -e go ]; do sleep 0.1; done; echo done"}),
    );
    assert_eq!(called.status(), "running", "{}", called.text);
    // Before a host that waits five seconds gives up.
    let took = began.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_millis(4500), "{took:?}");
    let run_id = called.data["run_id"].as_str().unwrap().to_owned();
    assert!(called.text.contains(&run_id), "{}", called.text);
    // The server does other things meanwhile.
    assert_eq!(client.call("run_command", &json!({"command": "echo here"})).text, "here\n");
    std::fs::write(world.work().join("go"), "").unwrap();
    let ended = client.call("wait", &json!({"run_id": run_id}));
    assert_eq!((ended.status(), ended.text.as_str()), ("ok", "done\n"));
    assert_eq!(ended.data["run_id"], run_id.as_str());
    let again = client.call_once("wait", &json!({"run_id": run_id}));
    assert_eq!(again.data, ended.data, "a result can be asked for twice");
    let unknown = client.call_once("wait", &json!({"run_id": "0".repeat(32)}));
    assert_eq!(unknown.data["error"]["code"], "run_unknown");
}

#[test]
fn waiting_returns_only_what_is_new_and_as_long_as_it_was_asked_to() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let script = "echo first; echo oops >&2; while [ ! -e go ]; do sleep 0.05; done; echo second; while [ ! -e end ]; do sleep 0.05; done; echo third";
    let called = client.call_once("run_command", &json!({"command": script}));
    assert_eq!(called.status(), "running", "{}", called.text);
    assert_eq!(called.data["stdout"], "first\n");
    let run_id = called.data["run_id"].as_str().unwrap().to_owned();
    let cursor = called.data["cursor"].as_str().unwrap().to_owned();
    assert!(called.text.contains(&cursor), "{}", called.text);
    let began = Instant::now();
    let waited =
        client.call_once("wait", &json!({"run_id": run_id, "timeout_s": 0.2, "cursor": cursor}));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(
        (waited.status(), waited.data["stdout"].as_str()),
        ("running", Some("")),
        "{}",
        waited.text
    );
    std::fs::write(world.work().join("go"), "").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let mut cursor = waited.data["cursor"].as_str().unwrap().to_owned();
    let mut seen = String::new();
    while !seen.contains("second") && Instant::now() < until {
        let asked = json!({"run_id": run_id, "timeout_s": 0.1, "cursor": cursor});
        let waited = client.call_once("wait", &asked);
        seen.push_str(waited.data["stdout"].as_str().unwrap());
        cursor = waited.data["cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!(seen, "second\n");
    std::fs::write(world.work().join("end"), "").unwrap();
    let ended =
        client.call_once("wait", &json!({"run_id": run_id, "timeout_s": 30, "cursor": cursor}));
    assert_eq!(
        (ended.status(), ended.data["stdout"].as_str()),
        ("ok", Some("third\n")),
        "{}",
        ended.text
    );
    // Without a cursor all of it, as often as it is asked for.
    let whole = client.call_once("wait", &json!({"run_id": run_id}));
    assert_eq!(whole.data["stdout"], "first\nsecond\nthird\n");
    for wrong in [json!({"cursor": "x"}), json!({"timeout_s": 61}), json!({"timeout_s": -1})] {
        let mut asked = wrong;
        asked.insert("run_id", run_id.as_str());
        let refused = client.call_once("wait", &asked);
        assert_eq!(refused.data["error"]["code"], "bad_arguments", "{}", refused.text);
    }
}

#[test]
fn who_asks_for_progress_hears_of_it() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let id = client.begin(
        "tools/call",
        &json!({"name": "run_command", "arguments": {"command": "sleep 2.5"}, "_meta": {"progressToken": "p"}}),
    );
    client.answer(id);
    let told: Vec<f64> = client
        .notifications
        .iter()
        .filter(|n| n["method"] == "notifications/progress" && n["params"]["progressToken"] == "p")
        .map(|n| n["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(!told.is_empty(), "{:?}", client.notifications);
    assert!(told[0] >= 0.0 && told.is_sorted_by(|a, b| a < b), "{told:?}");
}

#[test]
fn progress_carries_the_programs_total_and_its_last_step() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let session = client.call("session", &json!({"action": "create"}));
    let session = session.data["session_id"].as_str().unwrap().to_owned();
    // The first cell starts the interpreter.
    let first = client.call("execute_code", &json!({"code": "1", "session": session}));
    assert_eq!(first.data["status"], "ok", "{}", first.data);
    client.notifications.clear();
    // The last step comes just before the end, sooner than anything looks.
    let code = "import ringfence, time\nringfence.progress(1, 4, 'page')\ntime.sleep(0.5)\nringfence.progress(4, 4, 'page')";
    let id = client.begin(
        "tools/call",
        &json!({"name": "execute_code", "arguments": {"code": code, "session": session}, "_meta": {"progressToken": "p"}}),
    );
    let answer = client.answer(id);
    assert_eq!(answer["result"]["structuredContent"]["status"], "ok", "{answer}");
    let last = client.notifications.last().expect("no notification")["params"].clone();
    assert_eq!(
        (last["progress"].as_f64(), last["total"].as_f64()),
        (Some(4.0), Some(4.0)),
        "{last}"
    );
    assert!(last["message"].as_str().unwrap().ends_with(": 4 of 4: page"), "{last}");
}

#[test]
fn the_first_step_is_told_also_after_seconds_without_one() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let session = client.call("session", &json!({"action": "create"}));
    let session = session.data["session_id"].as_str().unwrap().to_owned();
    let code = "import ringfence, time\ntime.sleep(5)\nringfence.progress(1, 10)";
    let begun = client.call_once("execute_code", &json!({"code": code, "session": session}));
    assert_eq!(begun.status(), "running", "{}", begun.text);
    let wait = json!({"run_id": begun.data["run_id"], "timeout_s": 30});
    let asked = json!({"name": "wait", "arguments": wait, "_meta": {"progressToken": "p"}});
    let id = client.begin("tools/call", &asked);
    client.answer(id);
    let told: Vec<_> = client.notifications.iter().map(|told| &told["params"]).collect();
    assert!(told.len() > 1, "{told:?}");
    let step = |told: &&Json| (told["progress"].as_f64(), told["total"].as_f64());
    assert_eq!(told.last().map(step), Some((Some(1.0), Some(10.0))), "{told:?}");
    assert!(told.is_sorted_by_key(|told| told["progress"].as_f64()), "{told:?}");
}

#[test]
fn a_run_that_goes_on_shows_what_it_has_written() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let session = client.call("session", &json!({"action": "create"}));
    let session = session.data["session_id"].as_str().unwrap().to_owned();
    let code = "import time, ringfence\nprint('first')\nringfence.progress(3, 10, 'loading')\ntime.sleep(9)\n\
                print('last')\nringfence.progress(10)";
    // The first run waits for the libraries that are loaded ahead.
    client.call("execute_code", &json!({"code": "1"}));
    for arguments in [
        json!({"code": code}),
        json!({"code": code, "session": session}),
        json!({"command": "echo first; sleep 9; echo last"}),
    ] {
        let is_code = arguments.get("code").is_some();
        let name = if is_code { "execute_code" } else { "run_command" };
        let meta = json!({"progressToken": "p"});
        client.notifications.clear();
        let id = client
            .begin("tools/call", &json!({"name": name, "arguments": arguments, "_meta": meta}));
        let answer = client.answer(id);
        let data = &answer["result"]["structuredContent"];
        assert_eq!((&data["status"], &data["stdout"]), (&json!("running"), &json!("first\n")));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("stdout so far:\nfirst\nstill running"), "{text}");
        if name == "execute_code" {
            assert!(text.contains(": 3 of 10: loading\n"), "{text}");
            let told = json!(client.notifications).to_string();
            assert!(told.contains("3 of 10: loading"), "{told}");
        }
        let ended = client.call("wait", &json!({"run_id": data["run_id"]}));
        assert_eq!((ended.status(), ended.text.as_str()), ("ok", "first\nlast\n"));
    }
}

#[test]
fn a_call_that_is_cancelled_ends_its_run_within_a_second() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let marker = running(&mut client);
    let id = client.last_id();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    gone(&marker);
    // `request` refuses any other answer, so none came for the cancelled call.
    assert!(client.request("ping", &json!({}))["result"].is_object());
    recorded_as_killed(&world);

    let code = client.begin_call("execute_code", &json!({"code": "while True: pass"}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": code}}));
    let called = client.call("execute_code", &json!({"code": "'next'"}));
    assert_eq!(called.text, "'next'");
}

#[test]
fn a_wait_that_is_cancelled_ends_its_run_within_a_second() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let marker = running(&mut client);
    let id = client.last_id();
    let run_id = client.answer(id)["result"]["structuredContent"]["run_id"].clone();
    let wait = client.begin_call("wait", &json!({"run_id": run_id}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": wait}}));
    gone(&marker);
    let called = client.call("wait", &json!({"run_id": run_id}));
    assert_eq!(called.data["error"]["code"], "cancelled", "{}", called.text);
    recorded_as_killed(&world);
}

#[test]
fn a_client_that_knows_tasks_is_given_one() {
    let world = World::new();
    let mut client = Client::silent(&world, &[]);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    client.hello_with("2025-11-25", &capabilities);
    let get = |client: &mut Client, id: &Json| {
        client.request("tasks/get", &json!({"taskId": id}))["result"].clone()
    };
    let begin = |client: &mut Client, command: &str| {
        let id = client.begin_call("run_command", &json!({"command": command}));
        let begun = client.answer(id)["result"].clone();
        assert_eq!(
            (&begun["resultType"], &begun["status"]),
            (&json!("task"), &json!("working")),
            "{begun}"
        );
        begun["taskId"].clone()
    };
    let task = begin(&mut client, "while [ ! -e go ]; do sleep 0.1; done; echo done; exit 3");
    let working = get(&mut client, &task);
    assert!(working["statusMessage"].as_str().unwrap().starts_with("running for"), "{working}");
    std::fs::write(world.work().join("go"), "").unwrap();
    let mut ended = Json::Null;
    eventually("the task ends", || {
        ended = get(&mut client, &task);
        ended["status"] != "working"
    });
    // A program that fails is a call that was done.
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["stdout"], "done\n");
    assert_eq!(ended["result"]["structuredContent"]["exit_code"], 3);
    assert_eq!(get(&mut client, &task), ended, "a result can be asked for twice");

    let marker = marker();
    let task = begin(&mut client, &tree(&marker));
    client.request("tasks/update", &json!({"taskId": task, "inputResponses": {}}));
    client.request("tasks/cancel", &json!({"taskId": task}));
    gone(&marker);
    assert_eq!(get(&mut client, &task)["status"], "cancelled");
    recorded_as_killed(&world);
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let asked = json!({"taskId": "0".repeat(32), "inputResponses": {}});
        assert_eq!(client.request(method, &asked)["error"]["code"], -32602, "{method}");
    }
    let mut other = Client::new(&world, &[]);
    let refused = other.request("tasks/get", &json!({"taskId": task}));
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
}

#[test]
fn much_output_keeps_its_head_and_tail() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let code = "print('head')\nfor n in range(20_000):\n    print('line', n)\nprint('tail')";
    let called = client.call("execute_code", &json!({"code": code}));
    let stdout = called.data["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("head\nline 0\n") && stdout.ends_with("line 19999\ntail\n"));
    assert!(stdout.contains("bytes left out here"), "{stdout}");
    assert!(called.data.to_string().len() < 30_000);
    assert_eq!(called.data["truncated"]["stdout"], true);
    let shown = stdout.len() as u64;
    let dropped = called.data["truncated"]["dropped_bytes"].as_u64().unwrap();
    let written = called.data["usage"]["stdout_bytes"].as_u64().unwrap();
    assert!(
        shown + dropped >= written && shown + dropped < written + 200,
        "{shown} {dropped} {written}"
    );
}

#[test]
fn pictures_are_shown_small_and_what_only_looks_like_one_is_not() {
    let world = World::new();
    let mut client = Client::new(&world, &["--preset", "open"]);
    let code = "import os, struct, zlib\n\
                def chunk(kind, data):\n    \
                    body = kind + data\n    \
                    return struct.pack('>I', len(data)) + body + struct.pack('>I', zlib.crc32(body))\n\
                def png(name, width, height):\n    \
                    rows = b''.join(b'\\0' + os.urandom(width * 3) for _ in range(height))\n    \
                    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)\n    \
                    parts = chunk(b'IHDR', head), chunk(b'IDAT', zlib.compress(rows)), chunk(b'IEND', b'')\n    \
                    open(name, 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + b''.join(parts))\n\
                png('large.png', 2000, 900)\npng('small.png', 3, 2)\n\
                open('fake.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * 100)\nNone";
    let session = client.call("session", &json!({"action": "create"})).data["session_id"].clone();
    for arguments in [json!({"code": code}), json!({"code": code, "session": session})] {
        let called = client.call("execute_code", &arguments);
        assert_eq!(called.status(), "ok", "{}", called.text);
        are_shown(&called);
    }
    // A cell that makes none shows none.
    let called = client.call("execute_code", &json!({"code": "1", "session": session}));
    assert!(called.content.iter().all(|block| block["type"] != "image"), "{}", called.text);
}

fn are_shown(called: &Called) {
    let of = |kind: &str| -> Vec<Json> {
        called.content.iter().filter(|block| block["type"] == kind).cloned().collect()
    };
    let sizes: Vec<usize> =
        of("image").iter().map(|image| image["data"].as_str().unwrap().len()).collect();
    assert!(sizes.len() == 2 && sizes[0] < 1_500_000 && sizes[1] < 200, "{sizes:?}");
    // The originals are there for whoever wants them.
    let names: Vec<Json> = of("resource_link").iter().map(|link| link["name"].clone()).collect();
    assert_eq!(names, ["fake.png", "large.png", "small.png"]);
}

/// Starts a command that would go on for long, waits until it runs, and returns what it is known by.
pub(super) fn running(client: &mut Client) -> String {
    let marker = marker();
    client.begin_call("run_command", &json!({"command": tree(&marker)}));
    runs(&marker);
    marker
}

fn recorded_as_killed(world: &World) {
    eventually("it is recorded", || {
        let ran = world.ringfence(&["audit", "ls", "--json", "--status", "killed"]);
        ran.json()["records"].as_array().unwrap().len() == 1
    });
}

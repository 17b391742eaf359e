//! The wire: what is no message does no harm, what a guest writes is no message, and the end is the end.

use std::time::Instant;

use ringfence_testing::{BoundedCommand as _, Running, json};

use super::client::Client;
use super::long::running;
use crate::living::{gone, soon, there};
use crate::support::World;

#[test]
fn lines_that_are_no_message_are_answered_and_forgotten() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let deep = "[".repeat(100_000);
    let long = format!("{{\"a\": \"{}\"}}", "x".repeat(17 << 20));
    // What is said to each; nothing to those that could only be notifications.
    let rows: &[(&[u8], Option<i64>)] = &[
        (b"garbage", Some(-32700)),
        (b"{", Some(-32700)),
        (b"\xff\xfe\x00", Some(-32700)),
        (b"Content-Length: 10\r", Some(-32700)),
        (deep.as_bytes(), Some(-32700)),
        (b"null", Some(-32600)),
        (b"[]", Some(-32600)),
        (br#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, Some(-32600)),
        (br#"{"jsonrpc": "2.0"}"#, Some(-32600)),
        (br#"{"jsonrpc": "1.0", "method": "ping"}"#, None),
        (br#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, Some(-32600)),
        (br#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, Some(-32600)),
        (br#"{"jsonrpc": "2.0", "id": 18446744073709551615, "method": "ping"}"#, Some(-32600)),
        (long.as_bytes(), Some(-32600)),
        (b"", None),
        (b"   \r", None),
        (br#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999}}"#, None),
        (br#"{"jsonrpc": "2.0", "method": "notifications/unheard", "params": [1]}"#, None),
        (br#"{"jsonrpc": "2.0", "id": 77, "result": {}}"#, None),
    ];
    for (line, code) in rows {
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
        client.write(line);
        client.write(b"\n");
        if let Some(code) = code {
            let answer = client.message();
            assert_eq!(answer["error"]["code"], *code, "{shown}: {answer}");
            assert!(answer.get("id").is_none(), "{answer}");
        }
        let ping = client.request("ping", &json!({}));
        assert!(ping["result"].is_object(), "after {shown}: {ping}");
    }
    client.send(&json!({"jsonrpc": "2.0", "id": "odd", "method": "tools/call", "params": 3}));
    let answer = client.message();
    assert!(answer["id"] == "odd" && answer["error"]["code"].is_i64(), "{answer}");
    client.send(&json!({"jsonrpc": "2.0", "id": "new", "method": "no/such", "params": {}}));
    let answer = client.message();
    assert!(answer["id"] == "new" && answer["error"]["code"] == -32601, "{answer}");
    assert!(resident_bytes(client.pid()) < 400 << 20);
    assert!(client.leave().0.success());
}

#[test]
fn nonsense_before_hello_does_no_harm() {
    let world = World::new();
    let mut client = Client::silent(&world, &[]);
    client.write(b"\nhello?\n");
    assert_eq!(client.message()["error"]["code"], -32700);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    let early = client.request("tools/list", &json!({}));
    assert_eq!(early["error"]["code"], -32602, "{early}");
    let id = client.last_id();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "result": {}}));
    assert!(client.hello("2025-11-25")["result"].is_object());
}

#[test]
fn a_client_may_look_first_and_change_its_mind() {
    let world = World::new();
    let about = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (method, params) in [("ping", json!({})), ("server/discover", json!({"_meta": about}))] {
        let mut client = Client::silent(&world, &[]);
        let looked = client.request(method, &params);
        assert!(looked["result"].is_object(), "{looked}");
        let id = client.last_id();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
        let hello = client.hello("2025-11-25");
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{hello}");
        assert!(client.request("tools/list", &json!({}))["result"].is_object(), "{method}");
    }
    // Who begins without a hello is heard at once.
    let mut client = Client::silent(&world, &[]);
    let command = json!({"command": "touch up; sleep 60"});
    let call = json!({"name": "run_command", "arguments": command, "_meta": about});
    let id = client.begin("tools/call", &call);
    there(&world.work().join("up"));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let listed = client.request("tools/list", &json!({"_meta": about}));
    assert!(listed["result"].is_object(), "{listed}");
}

#[test]
fn a_second_hello_does_no_harm() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    for version in ["9999", "2026-07-28", "2025-06-18"] {
        client.hello(version);
        let ping = client.request("ping", &json!({}));
        assert!(ping["result"].is_object(), "{version}: {ping}");
    }
}

#[test]
fn an_id_belongs_to_one_request_at_a_time() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let id = client.begin_call("run_command", &json!({"command": "touch up; sleep 1"}));
    there(&world.work().join("up"));
    client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    let refused = client.message();
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(refused.get("id").is_none(), "{refused}");
    assert!(client.answer(id)["result"].is_object());
}

#[test]
fn what_a_guest_writes_is_never_a_message() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let frame = r#"{"jsonrpc":"2.0","id":4,"result":{"forged":true}}"#;
    let code = format!("for n in range(100):\n    print({frame:?})\nprint('\\r\\n' * 3)");
    let called = client.call("execute_code", &json!({"code": code}));
    assert_eq!(called.data["stdout"].as_str().unwrap().matches("forged").count(), 100);
    let script = format!(
        "for fd in 0 1 2 3 4 5 6 7 8 9; do echo '{frame}' >&$fd; echo '{frame}' > /proc/self/fd/$fd; done; \
         echo '{frame}' > /dev/tty; echo '{frame}' > /proc/$PPID/fd/1; echo '{frame}' >&2"
    );
    // `call` reads the next line from the server and refuses any that answers something else.
    let called = client.call("run_command", &json!({"command": script}));
    assert_eq!(called.data["ran"], "yes", "{}", called.text);
    assert!(client.request("ping", &json!({}))["result"].as_object().unwrap().is_empty());
}

#[test]
fn the_end_of_input_ends_everything_within_a_second() {
    let world = World::new();
    let (status, took) = Client::silent(&world, &[]).leave();
    assert!(status.success() && took < soon(), "{status} after {took:?}");

    let mut client = Client::new(&world, &[]);
    let marker = running(&mut client);
    let (status, took) = client.leave();
    assert!(status.success() && took < soon(), "{status} after {took:?}");
    gone(&marker);
}

#[test]
fn a_call_that_is_nearly_done_at_the_end_of_input_is_answered() {
    // A call has 0.4 s from there, which is not always enough on a loaded machine.
    let tries = if std::env::var_os("RINGFENCE_TEST_QUIET").is_some() { 1 } else { 10 };
    let answered = |_| {
        let world = World::new();
        let mut client = Client::new(&world, &[]);
        client.begin_call("run_command", &json!({"command": "echo answered"}));
        client.close();
        let mut answers = std::iter::from_fn(|| client.next_message());
        answers.any(|answer| answer["result"]["structuredContent"]["stdout"] == "answered\n")
    };
    assert!((0..tries).any(answered));
}

#[test]
fn a_signal_ends_everything_within_a_second() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let world = World::new();
        let mut client = Client::new(&world, &[]);
        let marker = running(&mut client);
        rustix::process::kill_process(client.pid(), signal).unwrap();
        let (status, took) = client.end();
        assert_eq!(status.code(), Some(code));
        assert!(took < soon(), "{took:?}");
        gone(&marker);
    }
}

#[test]
fn a_server_that_is_killed_leaves_no_run() {
    let world = World::new();
    let mut client = Client::new(&world, &[]);
    let marker = running(&mut client);
    rustix::process::kill_process(client.pid(), rustix::process::Signal::KILL).unwrap();
    gone(&marker);
}

/// A server that nobody has spoken with.
fn bare(world: &World) -> Running {
    let (stdin, stdout) = (std::process::Stdio::piped(), std::process::Stdio::piped());
    world.command(&["mcp"]).stdin(stdin).stdout(stdout).bounded_spawn().unwrap()
}

#[test]
fn a_client_that_stops_listening_is_left() {
    let world = World::new();
    let mut server = bare(&world);
    drop(server.stdout.take());
    let mut stdin = server.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .unwrap();
    let began = Instant::now();
    server.wait().unwrap();
    assert!(began.elapsed() < soon());
    drop(stdin);
}

#[test]
fn a_flood_that_nobody_reads_the_answers_of_takes_no_memory() {
    let world = World::new();
    let mut server = bare(&world);
    let mut stdin = server.stdin.take().unwrap();
    let mut garbage = |lines| {
        let lines = "garbage\n".repeat(lines);
        std::io::Write::write_all(&mut stdin, lines.as_bytes()).unwrap();
    };
    garbage(50_000);
    let pid = rustix::process::Pid::from_child(&server);
    let before = resident_bytes(pid);
    garbage(250_000);
    let after = resident_bytes(pid);
    // An answer has more than a hundred bytes.
    assert!(after.saturating_sub(before) < 8 << 20, "{before}, {after}");
    assert!(after < 100 << 20, "{after}");
    drop(stdin);
    assert!(server.wait().unwrap().success());
}

fn resident_bytes(pid: rustix::process::Pid) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

//! MCP at `/mcp`: clients of the stateless protocol and those that shake hands.

use std::io::BufRead as _;

use ringfence_testing::{Json, json};

use super::client::{Answer, Client, Headers, Server};
use crate::support::{World, have};

const BOTH: (&str, &str) = ("Accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Calls a tool by the stateless protocol, and returns its result.
pub(super) fn call(client: &mut Client, tool: &str, arguments: &Json) -> Json {
    let answer =
        stateless(client, "tools/call", tool, &json!({"name": tool, "arguments": arguments}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["result"].clone()
}

/// Calls a tool and does not wait.
pub(super) fn begin_call(client: &mut Client, tool: &str, arguments: &Json) {
    let params = json!({"name": tool, "arguments": arguments});
    begin_stateless(client, "tools/call", tool, &params);
}

/// Sends a message of the stateless protocol.
pub(super) fn stateless(client: &mut Client, method: &str, name: &str, params: &Json) -> Answer {
    begin_stateless(client, method, name, params);
    client.answer()
}

fn begin_stateless(client: &mut Client, method: &str, name: &str, params: &Json) {
    let mut params = params.clone();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params.insert("_meta", meta);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut headers =
        vec![BOTH, JSON, ("Mcp-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
    if !name.is_empty() {
        headers.push(("Mcp-Name", name));
    }
    client.begin("POST", "/mcp", &headers, message.to_string().as_bytes());
}

/// The message in an answer that is a stream.
fn event(answer: &Answer) -> Json {
    assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|d| !d.is_empty());
    Json::parse(data.unwrap_or_else(|| panic!("no message: {text}")))
}

#[test]
fn a_client_of_the_stateless_protocol_is_served() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let listed = stateless(&mut client, "tools/list", "", &json!({})).json();
    assert!(listed["result"]["tools"].as_array().unwrap().len() >= 7, "{listed}");
    let made = call(&mut client, "session", &json!({"action": "create"}));
    let id = made["structuredContent"]["session_id"].as_str().unwrap().to_owned();
    call(&mut client, "execute_code", &json!({"code": "x = 41", "session": id}));
    // Nothing hangs on a connection.
    let shown =
        call(&mut server.client(), "execute_code", &json!({"code": "x + 1", "session": id}));
    assert_eq!(shown["structuredContent"]["value"], "42", "{shown}");
    // REST and MCP are two faces of the same client.
    assert_eq!(server.run(&json!({"code": "x", "session": id})).json()["value"], "41");
}

fn hello(version: &str, capabilities: &Json) -> Json {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}})
}

/// Shakes hands, and returns the id that the server remembers the client by.
fn shake_hands(client: &mut Client, version: &str) -> String {
    let hello = hello(version, &json!({}));
    let answer = client.send("POST", "/mcp", &[BOTH, JSON], hello.to_string().as_bytes());
    assert_eq!(event(&answer)["result"]["protocolVersion"], version);
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(known(client, &id, "POST", version, &ready).status, 202);
    id
}

/// Sends a message of a client that is remembered.
fn known(client: &mut Client, id: &str, method: &str, version: &str, message: &Json) -> Answer {
    begin_known(client, id, method, version, message);
    client.answer()
}

fn begin_known(client: &mut Client, id: &str, method: &str, version: &str, message: &Json) {
    let headers = [BOTH, JSON, ("Mcp-Session-Id", id), ("Mcp-Protocol-Version", version)];
    client.begin(method, "/mcp", &headers, message.to_string().as_bytes());
}

/// Shakes hands, calls a tool and does not wait.
pub(super) fn begin_remembered_call(client: &mut Client, tool: &str, arguments: &Json) {
    let version = "2025-11-25";
    let id = shake_hands(client, version);
    let asked = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}});
    begin_known(client, &id, "POST", version, &asked);
}

#[test]
fn a_client_that_shakes_hands_is_served() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    for version in ["2025-11-25", "2025-06-18"] {
        let id = shake_hands(&mut client, version);
        let asked = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "execute_code", "arguments": {"code": "6 * 7"}}});
        let answer = known(&mut client, &id, "POST", version, &asked);
        assert_eq!(event(&answer)["result"]["structuredContent"]["value"], "42");
        assert_eq!(known(&mut client, &id, "DELETE", version, &json!({})).status, 204);
        assert_eq!(known(&mut client, &id, "POST", version, &asked).status, 404);
    }
}

#[test]
fn a_client_that_shook_hands_cancels_with_a_notification() {
    let world = World::new();
    let server = Server::new(&world);
    let version = "2025-11-25";
    let (mut client, mut waiting) = (server.client(), server.client());
    let id = shake_hands(&mut client, version);
    let marker = crate::living::marker();
    let asked = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "run_command", "arguments": {"command": crate::living::tree(&marker)}}});
    begin_known(&mut waiting, &id, "POST", version, &asked);
    crate::living::runs(&marker);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 7, "reason": "enough"}});
    assert_eq!(known(&mut client, &id, "POST", version, &cancel).status, 202);
    crate::living::gone(&marker);
}

#[test]
fn a_client_that_leaves_ends_what_its_call_waits_for() {
    let world = World::new();
    let server = Server::new(&world);
    let marker = crate::living::marker();
    let mut client = server.client();
    let id = shake_hands(&mut client, "2025-11-25");
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "run_command", "arguments": {"command": crate::living::tree(&marker)}}});
    begin_known(&mut client, &id, "POST", "2025-11-25", &call);
    crate::living::runs(&marker);
    // The connection of the call stays open: leaving is what ends the run.
    let left = known(&mut server.client(), &id, "DELETE", "2025-11-25", &json!({}));
    assert_eq!(left.status, 204, "{}", left.text());
    crate::living::gone(&marker);
}

#[test]
fn a_handle_of_another_client_is_nothing() {
    let world = World::new();
    let tokens =
        ["ada", "bob"].map(|name| world.ringfence(&["token", "new", "--name", name]).stdout);
    let server = Server::new(&world);
    let version = "2025-11-25";
    let mut ada = server.client().token(&tokens[0]);
    let id = shake_hands(&mut ada, version);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(known(&mut ada, &id, "POST", version, &ping).status, 200);
    let mut bob = server.client().token(&tokens[1]);
    assert_eq!(known(&mut bob, &id, "POST", version, &ping).status, 404);
    assert_eq!(known(&mut bob, &id, "DELETE", version, &json!({})).status, 404);
    assert_eq!(known(&mut ada, &id, "POST", version, &ping).status, 200);
}

#[test]
fn handshakes_are_a_bounded_number() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    // Whatever a client says of its version, and whatever it calls itself by: who is remembered counts.
    let newer = hello("2026-07-28", &json!({})).to_string();
    for odd in [("Mcp-Protocol-Version", "2026-07-28"), ("Mcp-Session-Id", "\u{e4}")] {
        for _ in 0..2 {
            let answer = client.send("POST", "/mcp", &[BOTH, JSON, odd], newer.as_bytes());
            assert!(answer.header("mcp-session-id").is_some(), "{}", answer.text());
        }
    }
    let hello = hello("2025-11-25", &json!({}));
    for n in 0..70 {
        let answer = client.send("POST", "/mcp", &[BOTH, JSON], hello.to_string().as_bytes());
        assert_eq!(answer.status, if n < 60 { 200 } else { 429 }, "{n}: {}", answer.text());
    }
    call(&mut client, "execute_code", &json!({"code": "1"}));
}

/// Each stream keeps its connection busy: one client must not use up those of all.
#[test]
fn streams_of_messages_are_bounded_and_end_with_their_token() {
    let world = World::new();
    let token = world.ringfence(&["token", "new", "--name", "ada"]).stdout;
    let server = Server::new(&world);
    let version = "2025-11-25";
    // The transport has a limit of its own for each MCP session.
    let ids: Vec<String> =
        (0..4).map(|_| shake_hands(&mut server.client().token(&token), version)).collect();
    let open = |id: &str| {
        let mut client = server.client().token(&token);
        let stream = ("Accept", "text/event-stream");
        let headers = [stream, ("Mcp-Session-Id", id), ("Mcp-Protocol-Version", version)];
        client.begin("GET", "/mcp", &headers, b"");
        let mut line = String::new();
        client.stream.read_line(&mut line).unwrap();
        (line, client)
    };
    let all: Vec<_> = ids.iter().flat_map(|id| (0..20).map(|_| open(id))).collect();
    let statuses: Vec<bool> = all.iter().map(|(line, _)| line.contains("200")).collect();
    assert_eq!(statuses, [vec![true; 64], vec![false; 16]].concat());
    assert!(all[64].0.contains("429"), "{}", all[64].0);

    assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
    for (_, mut client) in all.into_iter().take(64) {
        let mut rest = String::new();
        while client.stream.read_line(&mut rest).unwrap() > 0 && !rest.ends_with("\r\n0\r\n") {}
    }
}

#[test]
fn initialize_is_no_method_of_the_stateless_protocol() {
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let answer = stateless(&mut client, "initialize", "", &json!({}));
    assert_eq!(answer.status, 404, "{}", answer.text());
    assert_eq!(answer.json()["error"]["code"], -32601);
}

#[test]
fn a_second_hello_changes_nothing() {
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let id = shake_hands(&mut client, "2025-11-25");
    for version in ["9999", "2026-07-28"] {
        known(&mut client, &id, "POST", "2025-11-25", &hello(version, &json!({})));
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        let answer = event(&known(&mut client, &id, "POST", "2025-11-25", &ping));
        assert!(answer["result"].is_object(), "{version}: {answer}");
    }
}

#[test]
fn what_would_take_much_memory_is_refused() {
    let world = World::new();
    let server = Server::new(&world);
    let keys = (0..340_000).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",");
    let many = hello("2025-11-25", &json!({"experimental": {"x": {"KEYS": 0}}}));
    let long = hello("2025-11-25", &json!({"experimental": {"x": {"y": "z".repeat(70_000)}}}));
    let meta = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "wait", "arguments": {"run_id": "x"}, "_meta": {"x": ["VALUES"]}}});
    // Written before there is a connection, which the server closes if nothing comes.
    let messages = [
        many.to_string().replace("\"KEYS\":0", &keys),
        long.to_string(),
        meta.to_string().replace("\"VALUES\"", &["0,".repeat(1_999_999).as_str(), "0"].concat()),
    ];
    for message in messages {
        let answer = server.client().send("POST", "/mcp", &[BOTH, JSON], message.as_bytes());
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["error"]["code"], -32600);
    }
}

#[test]
fn a_closed_stream_ends_its_run() {
    let world = World::new();
    let server = Server::new(&world);
    let marker = crate::living::marker();
    let mut client = server.client();
    begin_call(&mut client, "run_command", &json!({"command": crate::living::tree(&marker)}));
    crate::living::runs(&marker);
    drop(client);
    crate::living::gone(&marker);
}

#[test]
fn what_is_no_message_is_refused() {
    let world = World::new();
    let server = Server::new(&world);
    let rows: &[(Headers<'_>, &str, u16)] = &[
        (&[BOTH, JSON], "{", 400),
        (&[BOTH, JSON], "", 400),
        (&[BOTH, JSON], "[]", 400),
        (&[BOTH, JSON], "{\"jsonrpc\": \"2.0\"}", 400),
        (&[BOTH, JSON], "{\"jsonrpc\": \"2.0\", \"id\": 1.5, \"method\": \"ping\"}", 400),
        (&[BOTH, JSON], "{\"jsonrpc\": \"2.0\", \"id\": null, \"method\": \"ping\"}", 400),
        (&[JSON], "{}", 406),
        (&[BOTH], "{}", 415),
        (
            &[BOTH, JSON, ("Mcp-Session-Id", "x")],
            "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}",
            404,
        ),
    ];
    for (headers, body, status) in rows {
        let answer = server.client().send("POST", "/mcp", headers, body.as_bytes());
        assert_eq!(answer.status, *status, "{body}: {}", answer.text());
    }
    let large = vec![b'x'; 5 << 20];
    let mut client = server.client();
    let length = large.len().to_string();
    client.begin("POST", "/mcp", &[BOTH, JSON, ("Content-Length", &length)], b"");
    assert_eq!(client.answer().status, 413);
}

#[test]
fn a_run_is_the_same_over_mcp_and_rest() {
    let world = World::new();
    let server = Server::new(&world);
    // Begun over REST, waited for over MCP.
    let began = server.run(&json!({"command": "echo from rest", "background": true})).json();
    let result = call(&mut server.client(), "wait", &json!({"run_id": began["run_id"]}));
    assert_eq!(result["structuredContent"]["stdout"], "from rest\n", "{result}");
    // Begun over MCP, seen and ended over REST.
    let mut client = server.client();
    begin_call(&mut client, "run_command", &json!({"command": "echo from mcp; sleep 600"}));
    let listed = until(|| {
        let runs = server.client().get("/api/v1/runs").json();
        runs["runs"].as_array().unwrap().iter().find(|run| run["status"] == "running").cloned()
    });
    let path = format!("/api/v1/runs/{}", listed["run_id"].as_str().unwrap());
    let shown = until(|| {
        let run = server.client().get(&path).json();
        (run["stdout"] == "from mcp\n").then_some(run)
    });
    assert_eq!(shown["status"], "running", "{shown}");
    let ended = server.client().send("DELETE", &path, &[], b"").json();
    assert_eq!(ended["error"]["code"], "cancelled", "{ended}");
}

/// What comes in time.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < ringfence_testing::limit(), "it did not come");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn errors_of_the_transport_are_problem_documents() {
    let world = World::new();
    let server = Server::new(&world);
    let list = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}"#;
    let unknown = ("Mcp-Session-Id", "00000000-0000-0000-0000-000000000000");
    let old = ("Mcp-Protocol-Version", "2025-11-25");
    let rows: &[(&str, Headers<'_>, &str, u16)] = &[
        ("POST", &[("Accept", "text/html"), JSON], list, 406),
        ("POST", &[BOTH, ("Content-Type", "text/plain")], list, 415),
        ("POST", &[BOTH, JSON, old, unknown], list, 404),
        ("GET", &[("Accept", "text/event-stream"), old, unknown], "", 404),
        ("DELETE", &[old, unknown], "", 404),
        ("PATCH", &[BOTH], "", 405),
    ];
    for (method, headers, body, status) in rows {
        let answer = server.client().send(method, "/mcp", headers, body.as_bytes());
        assert_eq!(answer.status, *status, "{method} {headers:?}: {}", answer.text());
        assert!(!answer.code().is_empty());
    }
}

//! The same request through the command line, REST and MCP gives the same outcome.

use serde_json::{Value, json};

use super::client::{Client, Server};
use crate::support::{World, have};

/// What two runs of the same never share.
fn stripped(mut outcome: Value) -> Value {
    let fields = outcome.as_object_mut().unwrap();
    for own in ["run_id", "usage", "start"] {
        assert!(fields.remove(own).is_some(), "{own}");
    }
    for denial in outcome["denials"].as_array_mut().unwrap() {
        denial["pid"] = Value::Null;
    }
    outcome
}

#[test]
fn every_face_gives_the_same_outcome() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let rows = [
        json!({"code": "print('hi')"}),
        json!({"code": "raise ValueError('no')"}),
        json!({"code": "import socket"}),
        json!({"code": "x ="}),
        json!({"code": "while True: pass", "timeout_s": 0.5}),
        json!({"code": "print('x' * 100)\nexit(3)"}),
        json!({"command": "echo out; echo err >&2; exit 5"}),
        json!({"command": "kill -9 $$"}),
        json!({"command": "unshare -r true"}),
        json!({"command": "sleep 5", "timeout_s": 0.5}),
        json!({"command": "cat /nope"}),
    ];
    for asked in rows {
        let cli = stripped(by_command_line(&world, &asked));
        let rest = stripped(server.run(&asked).json());
        let mcp = stripped(by_mcp(&mut server.client(), &asked));
        assert_eq!(rest, mcp, "{asked}: REST and MCP");
        assert_eq!(comparable(cli), comparable(rest), "{asked}: command line and REST");
    }
}

/// Code on the command line starts an interpreter of its own, whose receipt and hash name another plan, and a limit of the
/// command line is the operator's, so its hint is another.
fn comparable(mut outcome: Value) -> Value {
    let fields = outcome.as_object_mut().unwrap();
    for own in ["enforcement", "unobserved", "value"] {
        fields.remove(own);
    }
    if let Some(error) = outcome["error"].as_object_mut() {
        error.remove("hint");
    }
    outcome
}

fn by_command_line(world: &World, asked: &Value) -> Value {
    let timeout = asked["timeout_s"].as_f64().map(|s| format!("{}ms", (s * 1000.0).round()));
    let timeout = timeout.as_deref().map_or(vec![], |timeout| vec!["--timeout", timeout]);
    let args = match (asked["code"].as_str(), asked["command"].as_str()) {
        (Some(code), _) => [&["exec", "--json"], &timeout[..], &["-c", code]].concat(),
        (_, Some(line)) => [&["run", "--json"], &timeout[..], &["--", "sh", "-c", line]].concat(),
        _ => unreachable!(),
    };
    world.ringfence(&args).json()
}

fn by_mcp(client: &mut Client, asked: &Value) -> Value {
    let tool = if asked["code"].is_string() { "execute_code" } else { "run_command" };
    super::mcp::call(client, tool, asked)["structuredContent"].clone()
}

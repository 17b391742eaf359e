//! `--fixtures`: for conformance tests on this machine, and not to be taken for a service.

use ringfence_testing::{Json, json};

use super::access::token;
use super::client::Server;
use super::mcp::{call, stateless};
use crate::support::World;

fn tools(server: &Server) -> Vec<String> {
    let listed = stateless(&mut server.client(), "tools/list", "", &json!({})).json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The code of the error that a call of a tool is answered with.
fn refused(server: &Server, tool: &str) -> Json {
    let params = json!({"name": tool, "arguments": {"code": "1", "command": "true"}});
    let answer = stateless(&mut server.client(), "tools/call", tool, &params);
    answer.json()["error"]["code"].clone()
}

#[test]
fn fixtures_are_for_this_machine_only() {
    let world = World::new();
    let check = |flags: &[&str]| {
        let ran = world.ringfence(&[&["serve", "--check", "--fixtures"], flags].concat());
        (ran.code, ran.stdout, ran.stderr)
    };
    let (code, stdout, stderr) = check(&[]);
    assert!(code == 0 && stdout.contains("/mcp, fixtures"), "{stdout}{stderr}");
    let rows: &[&[&str]] = &[
        &["--listen", "0.0.0.0:0"],
        &["--listen", "[::]:0"],
        &["--allow-host", "tools.example.org"],
    ];
    for flags in rows {
        let (code, stdout, stderr) = check(flags);
        assert!(code == 2 && stdout.is_empty(), "{flags:?}: {stdout}");
        assert!(stderr.contains("fixtures cannot be served to others"), "{flags:?}: {stderr}");
    }
    // A directory that has had a token is a service's, also when no token is left.
    token(&world, "ada", &[]);
    assert_eq!(check(&[]).0, 2);
    assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
    let (code, _, stderr) = check(&[]);
    assert!(code == 2 && stderr.contains("`--data-dir` that never had a token"), "{stderr}");
    // The hint, followed.
    let other = world.root().join("other");
    let (code, _, stderr) = check(&["--data-dir", other.to_str().unwrap()]);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn fixtures_and_tools_are_never_served_together() {
    let world = World::new();
    let service = Server::new(&world);
    assert!(!service.hello.contains("FIXTURES"), "{}", service.hello);
    let shipped = tools(&service);
    assert!(shipped.contains(&"execute_code".to_owned()), "{shipped:?}");

    let fixtures = Server::with(&world, &["--fixtures"]);
    assert!(fixtures.hello.contains("FIXTURES that run nothing"), "{}", fixtures.hello);
    let made = tools(&fixtures);
    assert!(made.contains(&"test_simple_text".to_owned()), "{made:?}");
    assert!(!made.iter().any(|name| shipped.contains(name)), "{made:?}");

    for name in &made {
        assert_eq!(refused(&service, name), -32602, "{name}");
    }
    for name in &shipped {
        assert_eq!(refused(&fixtures, name), -32602, "{name}");
    }
    for path in ["/api/v1/runs", "/api/v1/policy", "/metrics", "/readyz"] {
        assert_eq!(fixtures.get(path).status, 404, "{path}");
    }
    assert_eq!(fixtures.run(&json!({"command": "true"})).status, 404);
    let said = call(&mut fixtures.client(), "test_simple_text", &json!({}));
    assert_eq!(said["content"][0]["text"], "This is a simple text response for testing.");
}

#[test]
fn what_a_fixture_knew_cannot_be_made_up() {
    let world = World::new();
    let fixtures = Server::with(&world, &["--fixtures"]);
    let ask = |tool: &str, state: &str| {
        let answers = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
        let params = json!({"name": tool, "inputResponses": answers, "requestState": state});
        stateless(&mut fixtures.client(), "tools/call", tool, &params).json()["error"]["code"]
            .clone()
    };
    // Nobody sealed this.
    assert_eq!(ask("test_input_required_result_request_state", "asked"), -32602);
    // A client that cannot be asked is told what it lacks.
    assert_eq!(refused(&fixtures, "test_input_required_result_elicitation"), -32021);
    assert_eq!(refused(&fixtures, "test_missing_capability"), -32021);
}

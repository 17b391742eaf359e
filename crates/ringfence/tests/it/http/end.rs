//! How runs and servers end: with their clients, by a signal, by being killed. Nothing is left.

use std::time::{Duration, Instant};

use ringfence_testing::json;
use rustix::process::Signal;

use super::client::Server;
use crate::living::{eventually, gone, marker, promptly, runs, soon, there, tree};
use crate::support::World;

#[test]
fn a_client_that_leaves_ends_its_run() {
    let world = World::new();
    let server = Server::new(&world);
    let marker = marker();
    let mut client = server.client();
    let asked = json!({"command": tree(&marker)}).to_string();
    client.begin("POST", "/api/v1/runs", &[("Content-Type", "application/json")], asked.as_bytes());
    runs(&marker);
    drop(client);
    gone(&marker);
    eventually("it is recorded", || {
        let killed = world.ringfence(&["audit", "ls", "--json", "--status", "killed"]).json();
        killed["records"].as_array().unwrap().len() == 1
    });
    assert_eq!(server.run(&json!({"command": "true"})).status, 200);
}

#[test]
fn a_server_that_drains_takes_no_new_work_and_answers_what_it_has() {
    let world = World::new();
    let mut server = Server::new(&world);
    let mut client = server.client();
    let asked =
        json!({"command": "touch up; while [ ! -e go ]; do sleep 0.1; done; echo answered"})
            .to_string();
    client.begin("POST", "/api/v1/runs", &[("Content-Type", "application/json")], asked.as_bytes());
    there(&world.work().join("up"));
    let mut other = server.client();
    assert_eq!(other.get("/readyz").status, 200);
    server.signal(Signal::TERM);
    promptly("it drains", || server.get("/readyz").status == 503);
    assert_eq!(other.get("/readyz").code(), "draining");
    assert_eq!(other.get("/healthz").status, 200);
    let refused = server.run(&json!({"command": "true"}));
    assert_eq!((refused.status, refused.code().as_str()), (503, "draining"));
    assert!(refused.header("retry-after").is_some());
    std::fs::write(world.work().join("go"), "").unwrap();
    let answer = client.answer();
    assert_eq!((answer.status, answer.json()["stdout"].as_str()), (200, Some("answered\n")));
    let (status, took, said) = server.end();
    assert!(status.success() && took < soon(), "{status} after {took:?}: {said}");
    assert!(!said.contains("cancelled"), "{said}");
}

#[test]
fn what_a_draining_server_waits_for_can_be_waited_for_and_ended() {
    use super::mcp::{call, stateless};
    let world = World::new();
    let mut server = Server::with(&world, &["--drain", "1m"]);
    let mut client = server.client();
    let begun = call(
        &mut client,
        "run_command",
        &json!({"command": "while [ ! -e go ]; do sleep 0.1; done; echo waited"}),
    );
    assert_eq!(begun["structuredContent"]["status"], "running", "{begun}");
    let marker = marker();
    let asked = server.run(&json!({"command": tree(&marker), "background": true})).json();
    runs(&marker);
    server.signal(Signal::TERM);
    promptly("it drains", || server.get("/readyz").status == 503);
    let run = asked["run_id"].as_str().unwrap();
    assert_eq!(server.client().delete(&format!("/api/v1/runs/{run}")).status, 200);
    gone(&marker);
    let new = json!({"name": "run_command", "arguments": {"command": "true"}});
    assert_eq!(stateless(&mut server.client(), "tools/call", "run_command", &new).status, 503);
    std::fs::write(world.work().join("go"), "").unwrap();
    let run = &begun["structuredContent"]["run_id"];
    let ended = call(&mut server.client(), "wait", &json!({"run_id": run}));
    assert_eq!(ended["structuredContent"]["stdout"], "waited\n", "{ended}");
    let (status, took, said) = server.end();
    assert!(status.success() && took < soon(), "{status} after {took:?}: {said}");
}

#[test]
fn a_server_that_has_drained_long_enough_cancels_the_rest() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = World::new();
        let mut server = Server::with(&world, &["--drain", "500ms"]);
        let marker = marker();
        let asked = json!({"command": tree(&marker), "background": true});
        assert_eq!(server.run(&asked).status, 202);
        runs(&marker);
        let began = Instant::now();
        server.signal(signal);
        let (status, _, said) = server.end();
        let took = began.elapsed();
        assert!(status.success() && took > Duration::from_millis(500), "{status}: {said}");
        assert!(took < Duration::from_millis(500) + soon(), "{took:?}: {said}");
        gone(&marker);
        let killed = world.ringfence(&["audit", "ls", "--json", "--status", "killed"]).json();
        assert_eq!(killed["records"].as_array().unwrap().len(), 1, "{killed}");
    }
}

#[test]
fn a_run_over_mcp_ends_with_the_server() {
    let world = World::new();
    let mut server = Server::with(&world, &["--drain", "500ms"]);
    let marker = marker();
    let mut client = server.client();
    super::mcp::begin_call(&mut client, "run_command", &json!({"command": tree(&marker)}));
    runs(&marker);
    server.signal(Signal::TERM);
    let (status, took, said) = server.end();
    assert!(status.success() && took < soon(), "{status} after {took:?}: {said}");
    gone(&marker);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let world = World::new();
    let mut server = Server::with(&world, &["--drain", "10m"]);
    let marker = marker();
    assert_eq!(server.run(&json!({"command": tree(&marker), "background": true})).status, 202);
    runs(&marker);
    server.signal(Signal::TERM);
    promptly("it drains", || server.get("/readyz").status == 503);
    server.signal(Signal::TERM);
    let (status, took, said) = server.end();
    assert!(status.success() && took < soon(), "{status} after {took:?}: {said}");
    gone(&marker);
}

#[test]
fn an_idle_server_ends_at_once() {
    let world = World::new();
    let mut server = Server::new(&world);
    let idle: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let mut kept = server.client();
    assert_eq!(kept.get("/healthz").status, 200);
    server.signal(Signal::TERM);
    let (status, took, said) = server.end();
    assert!(status.success() && took < soon(), "{status} after {took:?}: {said}");
    drop(idle);
}

#[test]
fn a_server_that_is_killed_leaves_no_run() {
    let world = World::new();
    let server = Server::new(&world);
    let marker = marker();
    assert_eq!(server.run(&json!({"command": tree(&marker), "background": true})).status, 202);
    runs(&marker);
    server.signal(Signal::KILL);
    gone(&marker);
}

//! What the operator's other systems are told, and that nobody waits for them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use ringfence_testing::{BoundedCommand as _, Json, json};

use super::client::Client;
use crate::living::{eventually, soon};
use crate::support::World;

/// What was posted: where to, and what.
type Posted = Arc<Mutex<Vec<(String, Json)>>>;

/// Somebody who takes whatever is posted; the first of each address only when it comes again.
fn collector() -> (String, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let posted = Posted::default();
    let taken = Arc::clone(&posted);
    std::thread::spawn(move || {
        let mut refused = std::collections::HashSet::new();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut length = 0;
            while line.trim_end() != "" {
                line.clear();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = if path.starts_with("/hook") && refused.insert(path.clone()) {
                "503 Service Unavailable"
            } else {
                taken.lock().unwrap().push((path, Json::parse(&body)));
                "200 OK"
            };
            let answer =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (base, posted)
}

fn of(posted: &Posted, path: &str) -> Vec<Json> {
    let posted = posted.lock().unwrap();
    posted.iter().filter(|(to, _)| to == path).map(|(_, what)| what.clone()).collect()
}

#[test]
fn alerts_anchors_and_traces_are_told() {
    let world = World::new();
    let (base, posted) = collector();
    let kept = world.root().join("kept");
    world.write(
        "home/.config/ringfence/config.toml",
        &format!(
            "[notify]\nalert_webhook = '{base}/hook/alerts'\nalert_command = ['sh', '-c', 'cat >> {0}.alerts']\n\
             anchor_webhook = '{base}/hook/anchors'\nanchor_file = '{0}.anchors'\nanchor_every = '1h'\ntraces = '{base}'\n",
            kept.display()
        ),
    );
    let mut client = Client::new(&world, &[]);
    let ran = client.call("execute_code", &json!({"code": "6 * 7"}));
    let session = client.call("session", &json!({"action": "create"})).data["session_id"].clone();
    let asked = json!({"session": session, "path": "../../../etc/passwd"});
    assert_eq!(client.call("read_file", &asked).data["error"]["code"], "path_outside");
    eventually("the alert is told", || of(&posted, "/hook/alerts").len() == 1);
    let alert = &of(&posted, "/hook/alerts")[0];
    assert_eq!(alert["type"], "ringfence_alert");
    assert!(alert["subject"].as_str().unwrap().starts_with("client local"), "{alert}");
    let alerts = std::fs::read_to_string(world.root().join("kept.alerts")).unwrap();
    assert_eq!(Json::parse(&alerts)["rule"], alert["rule"]);

    let of_run = || -> Vec<String> {
        of(&posted, "/v1/traces")
            .iter()
            .flat_map(|body| {
                body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
            })
            .filter(|span| span["traceId"] == ran.data["run_id"])
            .map(|span| span["name"].as_str().unwrap().to_owned())
            .collect()
    };
    eventually("the traces are told", || !of_run().is_empty());
    assert_eq!(of_run(), ["execute_code", "admit", "screen", "run", "record"]);

    // An anchor that was told is one that can be held against the ledger.
    let anchors = of(&posted, "/hook/anchors");
    let lines = std::fs::read_to_string(world.root().join("kept.anchors")).unwrap();
    assert_eq!(Json::parse(lines.lines().next().unwrap()), anchors[0]);
    assert!(client.leave().0.success());
    let file = world.write("anchors", &anchors[0].to_string());
    let verify = world.ringfence(&["audit", "verify", "--anchor", file.to_str().unwrap()]);
    assert_eq!(verify.code, 0, "{}", verify.stdout);
}

#[test]
fn nobody_waits_for_those_who_do_not_listen() {
    let world = World::new();
    // Takes connections in, and never answers.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf = format!("http://{}/secret", deaf.local_addr().unwrap());
    world.write(
        "home/.config/ringfence/config.toml",
        &format!(
            "[notify]\nalert_webhook = '{deaf}'\nanchor_webhook = '{deaf}'\ntraces = '{deaf}'\n"
        ),
    );
    let mut client = Client::new(&world, &[]);
    for _ in 0..3 {
        assert_eq!(client.call("execute_code", &json!({"code": "1"})).status(), "ok");
    }
    let (status, took) = client.leave();
    assert!(status.success() && took < soon(), "{status} after {took:?}");
    let checked = world.ringfence(&["serve", "--check"]);
    assert!(
        checked.stdout.contains("every 600 s to the webhook http://127.0.0.1"),
        "{}",
        checked.stdout
    );
    assert!(!checked.stdout.contains("secret"), "{}", checked.stdout);
}

#[test]
fn an_anchor_goes_where_it_is_sent() {
    let world = World::new();
    let (base, posted) = collector();
    let url = format!("{base}/plain");
    let sent = world.ringfence(&["audit", "anchor", "--webhook", &url]);
    assert_eq!((sent.code, of(&posted, "/plain").len()), (0, 1), "{}", sent.stderr);
    let kept = world.root().join("kept");
    let script = format!("cat > {}", kept.display());
    let sent = world.ringfence(&["audit", "anchor", "--", "sh", "-c", &script]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(std::fs::read_to_string(kept).unwrap().trim_end(), sent.stdout.trim_end());
    for (args, code) in [
        (&["audit", "anchor", "--webhook", "ftp://x"][..], 2),
        (&["audit", "anchor", "--webhook", "http://127.0.0.1:1/"], 125),
        (&["audit", "anchor", "--", "false"], 125),
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn the_log_has_a_line_for_each_call_and_goes_to_stderr() {
    let world = World::new();
    let config = "home/.config/ringfence/config.toml";
    // The table's former name is still read.
    for (table, logged) in [("", false), ("[tell]\nlog = 'info'\nlog_format = 'json'\n", true)] {
        world.write(config, table);
        let mut server = world
            .command(&["mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .bounded_spawn()
            .unwrap();
        let code = json!({"name": "run_command", "arguments": {"command": "echo said"}});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let mut stdin = server.stdin.take().unwrap();
        for line in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": code}),
        ] {
            writeln!(stdin, "{line}").unwrap();
        }
        let mut stdout = BufReader::new(server.stdout.take().unwrap());
        let mut answers = String::new();
        for _ in 0..2 {
            stdout.read_line(&mut answers).unwrap();
        }
        drop(stdin);
        let said = server.wait_with_output().unwrap().stderr;
        let said = String::from_utf8(said).unwrap();
        assert_eq!(answers.lines().count(), 2);
        if !logged {
            assert_eq!(said, "");
            continue;
        }
        let line = Json::parse(said.lines().next().unwrap());
        assert_eq!(
            (&line["tool"], &line["status"], &line["level"]),
            (&json!("run_command"), &json!("ok"), &json!("INFO"))
        );
        assert!(!said.contains("said"), "what a program writes is not logged: {said}");
    }
}

#[test]
fn a_table_that_cannot_be_used_is_told_so() {
    let world = World::new();
    for (line, named) in [
        ("alert_webhok = 'https://x'", "alert_webhok"),
        ("alert_webhook = 'x'", "alert_webhook"),
        ("alert_command = []", "alert_command"),
        ("anchor_every = '5m'", "anchor_every"),
        ("anchor_file = 'here'", "anchor_file"),
        ("anchor_file = '/x'\nanchor_every = '5 apples'", "5 apples"),
        ("traces = 'localhost:4318'", "traces"),
        ("log = 'loud'", "loud"),
        ("log_format = 'xml'", "xml"),
    ] {
        let file =
            world.write("home/.config/ringfence/config.toml", &format!("[notify]\n{line}\n"));
        for args in
            [&["mcp"][..], &["serve", "--check"], &["policy", "check", file.to_str().unwrap()]]
        {
            let ran = world.ringfence(args);
            assert!(ran.code == 2 && ran.stderr.contains(named), "{line}: {}", ran.stderr);
        }
    }
}

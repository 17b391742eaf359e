//! Events: output as it is written, in order and once, for any client and after any number of reconnects.

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use ringfence_testing::{Json, json};

use super::client::{Client, Server};
use super::mcp;
use crate::support::{World, have};

const STREAM: (&str, &str) = ("Accept", "text/event-stream");

/// An event of a stream.
#[derive(Debug, PartialEq)]
struct Event {
    id: Option<String>,
    name: String,
    data: Json,
}

/// Reads the events of a text.
fn events(text: &str) -> Vec<Event> {
    let parts = text.split("\n\n").filter(|part| part.contains("event: "));
    let event = |part: &str| {
        let field = |name: &str| part.lines().find_map(|line| line.strip_prefix(name));
        Event {
            id: field("id: ").map(str::to_owned),
            name: field("event: ").unwrap().to_owned(),
            data: Json::parse(field("data: ").unwrap()),
        }
    };
    parts.map(event).collect()
}

/// All that a run's stream has after an event, to its end.
fn follow(client: &mut Client, run: &str, last: Option<&str>) -> Vec<Event> {
    let mut headers = vec![STREAM];
    headers.extend(last.map(|last| ("Last-Event-ID", last)));
    let answer = client.send("GET", &format!("/api/v1/runs/{run}/events"), &headers, b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    events(&answer.text())
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

fn output(events: &[Event], stream: &str) -> String {
    let of_stream = events.iter().filter(|event| event.name == stream);
    of_stream.map(|event| event.data["data"].as_str().unwrap()).collect()
}

fn begin(client: &mut Client, asked: &Json) -> String {
    let begun = client.post("/api/v1/runs", asked);
    assert_eq!(begun.status, 202, "{}", begun.text());
    begun.json()["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn output_is_followed_as_it_is_written_and_replayed() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let go = world.work().join("go");
    let script = "echo one; echo warn >&2; printf half; until [ -e go ]; do sleep 0.05; done; echo ' line'; cat /etc/shadow; exit 3";
    let run = begin(&mut client, &json!({"command": script, "background": true}));

    // The first lines, and the line that has not ended, come while it runs.
    let mut reader = server.client();
    reader.begin("GET", &format!("/api/v1/runs/{run}/events"), &[STREAM], b"");
    let (mut text, deadline) = (String::new(), Instant::now() + Duration::from_secs(30));
    while !text.contains("half") {
        assert!(Instant::now() < deadline, "{text}");
        let mut line = String::new();
        reader.stream.read_line(&mut line).unwrap();
        text.push_str(&line);
    }
    assert_eq!(client.get(&format!("/api/v1/runs/{run}")).json()["status"], "running");
    drop(reader);
    std::fs::write(&go, "").unwrap();

    let all = follow(&mut client, &run, None);
    assert_eq!((all[0].name.as_str(), all[0].data["run_id"].as_str()), ("started", Some(&*run)));
    assert_eq!(output(&all, "stdout"), "one\nhalf line\n");
    assert!(output(&all, "stderr").starts_with("warn\n"), "{all:?}");
    let last = all.last().unwrap();
    let outcome = client.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!((last.name.as_str(), &last.data), ("finished", &outcome));
    assert_eq!(outcome["exit_code"], 3);
    // From every event on, the rest comes, and nothing twice.
    for (at, event) in all.iter().enumerate().take(all.len() - 1) {
        let rest = follow(&mut client, &run, event.id.as_deref());
        let expected = output(&all[at + 1..], "stdout");
        assert_eq!(output(&rest, "stdout"), expected, "after {event:?}");
        assert_eq!(names(&rest).last(), Some(&"finished"));
    }
    // A browser that comes back after the last event is told to stop.
    let end = last.id.clone().unwrap();
    let path = format!("/api/v1/runs/{run}/events");
    let headers = [STREAM, ("Last-Event-ID", end.as_str())];
    assert_eq!(client.send("GET", &path, &headers, b"").status, 204);
    let bad = client.send("GET", &path, &[STREAM, ("Last-Event-ID", "x")], b"");
    assert_eq!((bad.status, bad.code().as_str()), (400, "bad_arguments"));
    assert_eq!(client.get("/api/v1/runs/x/events").code(), "run_unknown");

    // The same as pages.
    let (mut pages, mut text, mut cursor) = (Vec::new(), String::new(), String::new());
    loop {
        let page = client.get(&format!("{path}?limit=2{cursor}")).json();
        let events = page["events"].as_array().unwrap().clone();
        assert!(events.len() <= 2 && !events.is_empty(), "{page}");
        pages.extend(events.iter().map(|event| event["event"].as_str().unwrap().to_owned()));
        let stdout = events.iter().filter(|event| event["event"] == "stdout");
        text.extend(stdout.map(|event| event["data"]["data"].as_str().unwrap().to_owned()));
        cursor = format!("&cursor={}", page["next"].as_str().unwrap());
        if page["ended"] == true {
            break;
        }
    }
    assert_eq!(
        (pages.first().unwrap(), pages.last().unwrap()),
        (&"started".to_owned(), &"finished".to_owned())
    );
    assert_eq!(text, output(&all, "stdout"));
}

#[test]
fn what_was_dropped_is_told() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let lines =
        "for i in range(100_000):\n    print('line', i)\nimport os\nos.write(2, b'done\\n')";
    let run = begin(&mut client, &json!({"code": lines, "background": true}));
    crate::living::eventually("it ends", || {
        client.get(&format!("/api/v1/runs/{run}")).json()["status"] != "running"
    });
    let all = follow(&mut client, &run, None);
    let lost = all.iter().filter(|event| event.name == "lost");
    let lost: u64 = lost.map(|event| event.data["bytes"].as_u64().unwrap()).sum();
    let written = client.get(&format!("/api/v1/runs/{run}")).json()["stdout"].clone();
    let (written, kept) = (written.as_str().unwrap().to_owned(), output(&all, "stdout"));
    assert!(lost > 0 && kept.len() < 300 << 10, "{lost} {}", kept.len());
    assert_eq!(lost + kept.len() as u64, written.len() as u64);
    assert!(written.ends_with(&kept));
    assert_eq!(output(&all, "stderr"), "done\n");

    // A client that polls for one event at a time gets past the gap: `lost` comes with the event behind it.
    let path = format!("/api/v1/runs/{run}/events");
    let started = client.get(&format!("{path}?limit=1")).json();
    assert_eq!(started["events"][0]["event"], "started", "{started}");
    let mut cursor = started["next"].as_str().unwrap().to_owned();
    for expected in [&["lost", "stdout"][..], &["stdout"]] {
        let page = client.get(&format!("{path}?limit=1&cursor={cursor}")).json();
        let names = page["events"].as_array().unwrap().iter();
        let names: Vec<&str> = names.map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{page}");
        cursor = page["next"].as_str().unwrap().to_owned();
    }
}

#[test]
fn a_run_in_progress_has_no_events_behind_its_end() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let run = begin(&mut client, &json!({"command": "sleep 600", "background": true}));
    let path = format!("/api/v1/runs/{run}/events");
    let page = client.get(&format!("{path}?cursor=end-0"));
    assert_eq!((page.status, page.code().as_str()), (400, "bad_arguments"), "{}", page.text());
    let stream = client.send("GET", &path, &[STREAM, ("Last-Event-ID", "end-0")], b"");
    assert_eq!((stream.status, stream.code().as_str()), (400, "bad_arguments"));
    assert_eq!(client.get(&format!("/api/v1/runs/{run}")).json()["status"], "running");
    assert_eq!(client.delete(&format!("/api/v1/runs/{run}")).status, 200);
    let page = client.get(&format!("{path}?cursor=end-0")).json();
    assert_eq!(page["events"][0]["event"], "finished", "{page}");
}

#[test]
fn runs_of_rest_and_of_mcp_are_one_list() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let code = json!({"code": "print('by mcp')\nopen('left.txt', 'w').write('here')"});
    let by_mcp = mcp::call(&mut client, "execute_code", &code);
    let by_mcp = by_mcp["structuredContent"]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(output(&follow(&mut client, &by_mcp, None), "stdout"), "by mcp\n");
    let left = client.get(&format!("/api/v1/runs/{by_mcp}/artifacts/left.txt"));
    assert_eq!((left.status, left.text().as_str()), (200, "here"));

    let by_rest =
        begin(&mut client, &json!({"command": "echo by rest; sleep 600", "background": true}));
    crate::living::eventually("it has written", || {
        client.get(&format!("/api/v1/runs/{by_rest}")).json()["stdout"] == "by rest\n"
    });
    let waited = json!({"run_id": by_rest, "timeout_s": 1});
    let waited = mcp::call(&mut client, "wait", &waited);
    assert_eq!(waited["structuredContent"]["status"], "running", "{waited}");
    assert_eq!(client.delete(&format!("/api/v1/runs/{by_rest}")).status, 200);

    let page = client.get("/api/v1/events").json();
    let seen: Vec<(String, String)> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let text = |value: &Json| value.as_str().unwrap().to_owned();
            (text(&event["event"]), text(&event["data"]["run_id"]))
        })
        .collect();
    let row = |event: &str, run: &str| (event.to_owned(), run.to_owned());
    let expected = [
        row("started", &by_mcp),
        row("finished", &by_mcp),
        row("started", &by_rest),
        row("finished", &by_rest),
    ];
    assert_eq!(seen, expected);
    let next = page["next"].as_str().unwrap();
    let page = client.get(&format!("/api/v1/events?cursor={next}")).json();
    assert_eq!(page["events"], json!([]));
    // An id of another life of the service.
    let page = client.get("/api/v1/events?cursor=1-99").json();
    assert_eq!(page["events"][0]["event"], "lost", "{page}");

    let listed = client.get("/api/v1/runs?limit=1").json();
    assert_eq!(listed["runs"][0]["run_id"], json!(by_rest), "{listed}");
    let cursor = listed["next"].as_str().unwrap().to_owned();
    let listed = client.get(&format!("/api/v1/runs?limit=1&cursor={cursor}")).json();
    assert_eq!((&listed["runs"][0]["run_id"], &listed["next"]), (&json!(by_mcp), &json!(null)));
}

#[test]
fn streams_are_bounded_and_end_with_their_token() {
    let world = World::new();
    let new = |name: &str| world.ringfence(&["token", "new", "--name", name]).stdout;
    let (ada, bob) = (new("ada"), new("bob"));
    let server = Server::new(&world);
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut client = server.client().token(&ada);
        client.begin("GET", "/api/v1/events", &[STREAM], b"");
        let mut line = String::new();
        client.stream.read_line(&mut line).unwrap();
        assert!(line.contains("200"), "{line}");
        open.push(client);
    }
    let more = server.client().token(&ada).send("GET", "/api/v1/events", &[STREAM], b"");
    assert_eq!((more.status, more.code().as_str()), (429, "too_many_streams"));
    let mut other = server.client().token(&bob);
    other.begin("GET", "/api/v1/events", &[STREAM], b"");
    let mut line = String::new();
    other.stream.read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");

    assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
    for mut client in open {
        // The body's end, within the time that a read may take.
        let mut rest = String::new();
        while client.stream.read_line(&mut rest).unwrap() > 0 && !rest.ends_with("\r\n0\r\n") {}
        assert!(rest.ends_with("\r\n0\r\n"), "{rest}");
    }
}

//! Files over REST: ranges, tags, large ones in bounded memory, pages of directories, and what runs without a session left.

use std::io::{Read as _, Write as _};

use ringfence_testing::json;

use super::client::{Headers, Server};
use crate::support::{World, have};

#[test]
fn a_file_is_edited_in_parts() {
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let session =
        client.post("/api/v1/sessions", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/sessions/{session}/files/a.txt");
    let written = client.send("PUT", &path, &[], b"one\ntwo\n");
    assert_eq!(written.status, 201, "{}", written.text());
    let json = [("Content-Type", "application/json")];
    let edits =
        json!({"edits": [{"old": "one", "new": "1"}, {"old": "two", "new": "2"}]}).to_string();
    let edited = client.send("PATCH", &path, &json, edits.as_bytes());
    assert_eq!(
        (edited.status, &edited.json()["n_replaced"]),
        (200, &json!(2)),
        "{}",
        edited.text()
    );
    assert_ne!(edited.header("etag"), written.header("etag"));
    assert_eq!(client.get(&path).text(), "1\n2\n");
    let again = client.send("PATCH", &path, &json, edits.as_bytes());
    assert_eq!((again.status, again.code().as_str()), (409, "edit_mismatch"));
    let none = client.send("PATCH", &path, &json, b"{\"edits\": [{\"old\": \"1\"}]}");
    assert_eq!((none.status, none.code().as_str()), (400, "bad_arguments"));

    // Only as the client knows it; the condition is looked at before the edits.
    let edit = json!({"edits": [{"old": "1", "new": "one"}]}).to_string();
    let old = written.header("etag").unwrap();
    for edits in [&edit, &edits] {
        let headers = [json[0], ("If-Match", old)];
        let stale = client.send("PATCH", &path, &headers, edits.as_bytes());
        assert_eq!((stale.status, stale.code().as_str()), (412, "precondition_failed"));
    }
    assert_eq!(client.get(&path).text(), "1\n2\n");
    let headers = [json[0], ("If-Match", edited.header("etag").unwrap())];
    let third = client.send("PATCH", &path, &headers, edit.as_bytes());
    assert_eq!(third.status, 200, "{}", third.text());
    assert_eq!(client.get(&path).text(), "one\n2\n");
}

#[test]
fn parts_and_tags_of_a_file() {
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    // No body is needed.
    let made = client.send("POST", "/api/v1/sessions", &[], b"");
    assert_eq!(made.status, 201, "{}", made.text());
    let session = format!("/api/v1/sessions/{}", made.json()["id"].as_str().unwrap());
    let file = format!("{session}/files/a.txt");
    let written = client.send("PUT", &file, &[("If-None-Match", "*")], b"0123456789");
    assert_eq!(written.status, 201, "{}", written.text());
    let tag = written.header("etag").unwrap().to_owned();
    let whole = client.get(&file);
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    assert_eq!(whole.header("etag"), Some(tag.as_str()));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(whole.header("content-disposition"), Some("attachment; filename*=UTF-8''a.txt"));

    let rows: &[(Headers<'_>, u16, &str, Option<&str>)] = &[
        (&[("Range", "bytes=2-4")], 206, "234", Some("bytes 2-4/10")),
        (&[("Range", "bytes=8-")], 206, "89", Some("bytes 8-9/10")),
        (&[("Range", "bytes=-3")], 206, "789", Some("bytes 7-9/10")),
        (&[("Range", "bytes=0-1,3-4")], 200, "0123456789", None),
        (&[("Range", "bytes=0-1"), ("If-Range", &tag)], 206, "01", Some("bytes 0-1/10")),
        (&[("Range", "bytes=0-1"), ("If-Range", "\"x\"")], 200, "0123456789", None),
        (&[("If-None-Match", &tag)], 304, "", None),
        (&[("If-None-Match", "\"x\"")], 200, "0123456789", None),
        (&[("If-Match", &tag)], 200, "0123456789", None),
    ];
    for (headers, status, text, range) in rows {
        let mut client = server.client();
        client.begin("GET", &file, headers, b"");
        // Nothing follows the head of a 304.
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (*status, *text), "{headers:?}");
        assert_eq!(answer.header("content-range"), *range, "{headers:?}");
    }
    // A part by its offset is the same response, with the same conditions.
    let part = client.send("GET", &format!("{file}?offset=2&limit=3"), &[("If-Match", &tag)], b"");
    assert_eq!((part.status, part.text().as_str()), (200, "234"));
    assert_eq!(part.header("etag"), Some(tag.as_str()));
    assert_eq!(part.header("ringfence-next-offset"), Some("5"));
    assert_eq!(part.header("ringfence-total-bytes"), Some("10"));
    assert_eq!(part.header("content-disposition"), Some("attachment; filename*=UTF-8''a.txt"));
    let sha256 = "114bd151f8fb0c58642d2170da4ae7d7c57977260ac2cc8905306cab6b2acabc";
    assert_eq!(part.header("ringfence-sha256"), Some(sha256));
    for (query, text) in [("offset=8", "89"), ("offset=99&limit=5", ""), ("limit=0", "")] {
        let part = client.get(&format!("{file}?{query}"));
        assert_eq!((part.status, part.text().as_str()), (200, text), "{query}");
    }
    let same = client.send("GET", &format!("{file}?limit=3"), &[("If-Match", "\"x\"")], b"");
    assert_eq!((same.status, same.code().as_str()), (412, "precondition_failed"));

    let past = client.send("GET", &file, &[("Range", "bytes=10-")], b"");
    assert_eq!((past.status, past.code().as_str()), (416, "range_invalid"));
    assert_eq!(past.header("content-range"), Some("bytes */10"));

    let failed = |answer: super::client::Answer| {
        assert_eq!((answer.status, answer.code().as_str()), (412, "precondition_failed"));
    };
    failed(client.send("GET", &file, &[("If-Match", "\"x\"")], b""));
    failed(client.send("PUT", &file, &[("If-None-Match", "*")], b"new"));
    failed(client.send("PUT", &file, &[("If-Match", "\"x\"")], b"new"));
    let second = client.send("PUT", &file, &[("If-Match", &tag)], b"new");
    assert_eq!(second.status, 200, "{}", second.text());
    assert_ne!(second.header("etag"), Some(tag.as_str()));
    failed(client.send("PUT", &file, &[("If-Match", &tag)], b"lost update"));
    failed(client.send("DELETE", &file, &[("If-Match", &tag)], b""));
    assert_eq!(client.get(&file).text(), "new");
    let now = second.header("etag").unwrap();
    assert_eq!(client.send("DELETE", &file, &[("If-Match", now)], b"").status, 200);

    // A name that would mean something in a header is only a name.
    let odd = format!("{session}/files/a%22;%20b%C3%A4.html");
    assert_eq!(client.put(&odd, b"<script>").status, 201);
    let answer = client.get(&odd);
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    let disposition = answer.header("content-disposition").unwrap();
    assert_eq!(disposition, "attachment; filename*=UTF-8''a%22%3B%20b%C3%A4.html");
    // And one that would draw over a terminal is escaped in what is said about it.
    let missing = client.get(&format!("{session}/files/x%1b%5B2J%0Ay"));
    let detail = missing.json()["detail"].as_str().unwrap().to_owned();
    assert!(missing.status == 404 && !detail.contains(['\x1b', '\n']), "{detail}");

    for n in 0..5 {
        client.put(&format!("{session}/files/d/{n}"), b"");
    }
    let lists = [
        "files/d?limit=0",
        "grep?pattern=x&limit=0",
        "search?query=x&limit=0",
        "chunks?path=d/0&limit=0",
    ];
    for list in lists {
        let none = client.get(&format!("{session}/{list}"));
        assert_eq!((none.status, none.code().as_str()), (400, "bad_arguments"), "{list}");
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{session}/files/d?limit=2{cursor}")).json();
        let entries = page["entries"].as_array().unwrap();
        seen.extend(entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["d/0", "d/1", "d/2", "d/3", "d/4"]);
    let text = format!("{}\n", "x".repeat(55)).repeat(5);
    client.put(&format!("{session}/files/lines.txt"), text.as_bytes());
    for (cursor, n_chunks, next) in [("0", 2, json!("2")), ("4", 1, json!(null))] {
        let query = format!("path=./d/../lines.txt&lines=2&limit=2&cursor={cursor}");
        let page = client.get(&format!("{session}/chunks?{query}")).json();
        assert_eq!(page["chunks"].as_array().unwrap().len(), n_chunks, "{page}");
        assert_eq!((&page["chunks"][0]["path"], &page["next"]), (&json!("lines.txt"), &next));
    }
}

#[test]
fn a_hundred_megabytes_go_both_ways_in_bounded_memory() {
    const TOTAL: usize = 100_000_000;
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let id = client.post("/api/v1/sessions", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let file = format!("/api/v1/sessions/{id}/files/big.bin");
    let block: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let before = server.resident_bytes();
    let mut most = before;
    client.begin("PUT", &file, &[("Content-Length", &TOTAL.to_string())], b"");
    for _ in 0..TOTAL / block.len() {
        client.stream.get_mut().write_all(&block).unwrap();
        most = most.max(server.resident_bytes());
    }
    let written = client.answer();
    assert_eq!((written.status, &written.json()["total_bytes"]), (201, &json!(TOTAL)));
    let mut reader = server.client();
    reader.begin("GET", &file, &[("Connection", "close")], b"");
    let (mut n_read, mut part, mut head) = (0, vec![0; 1 << 20], Vec::new());
    loop {
        let n = reader.stream.read(&mut part).unwrap();
        if n == 0 {
            break;
        }
        if head.len() < 4096 {
            head.extend_from_slice(&part[..n]);
        }
        n_read += n;
        most = most.max(server.resident_bytes());
    }
    let end = head.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    assert_eq!(n_read - end, TOTAL);
    assert!(head[end..].starts_with(&block[..1000]));
    // The first connection may have been idle for too long.
    let mut client = server.client();
    let tail = client.send("GET", &file, &[("Range", "bytes=-1000")], b"");
    assert_eq!(tail.body, block[block.len() - 1000..]);
    assert!(most - before < 32 << 20, "{} MiB", (most - before) >> 20);
    let more = client.send("PUT", &file, &[("Content-Length", "104857601")], b"");
    assert_eq!((more.status, more.code().as_str()), (413, "body_too_large"));
}

#[test]
fn files_of_a_run_without_a_session_can_be_read() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let code = "import os\nopen('a b.html', 'w').write('<p>')\nos.makedirs('d')\nopen('d/x', 'wb').write(bytes(300))\nos.symlink('/etc/passwd', 'link')";
    let outcome = server.run(&json!({"code": code})).json();
    assert_eq!(outcome["status"], "ok", "{outcome}");
    let place = format!("/api/v1/runs/{}/artifacts", outcome["run_id"].as_str().unwrap());
    let page = client.get(&format!("{place}?limit=1")).json();
    assert_eq!(page["artifacts"][0]["path"], "a b.html", "{page}");
    let cursor = page["next"].as_str().unwrap().to_owned();
    let page = client.get(&format!("{place}?cursor={cursor}")).json();
    assert_eq!((&page["artifacts"][0]["path"], page["next"].as_str()), (&json!("d/x"), None));
    let html = client.get(&format!("{place}/a%20b.html"));
    assert_eq!((html.status, html.text().as_str()), (200, "<p>"));
    assert_eq!(html.header("content-type"), Some("text/plain; charset=utf-8"));
    let part = client.send("GET", &format!("{place}/d/x"), &[("Range", "bytes=298-")], b"");
    assert_eq!((part.status, part.body.as_slice()), (206, &[0, 0][..]));
    for missing in ["link", "none", "d", "..%2f..%2fetc%2fpasswd"] {
        let answer = client.get(&format!("{place}/{missing}"));
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{missing}");
    }
    // Those of a session are its files.
    let made = client.post("/api/v1/sessions", &json!({})).json();
    let session = made["id"].as_str().unwrap();
    let asked = json!({"code": "open('s', 'w').write('x')", "session": session});
    let run = server.run(&asked).json()["run_id"].as_str().unwrap().to_owned();
    let answer = client.get(&format!("/api/v1/runs/{run}/artifacts/s"));
    assert_eq!(answer.status, 404);
    let hint = answer.json()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains(&format!("/api/v1/sessions/{session}/files")), "{hint}");
    assert_eq!(client.get(&format!("/api/v1/sessions/{session}/files/s")).text(), "x");
}

#[test]
fn a_session_goes_back_to_a_checkpoint() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::with(&world, &["--preset", "data", "--rate-per-minute", "off"]);
    let mut client = server.client();
    let made = client.post("/api/v1/sessions", &json!({})).json();
    let id = made["id"].as_str().unwrap();
    let session = format!("/api/v1/sessions/{id}");
    let run = |code: &str| server.run(&json!({"code": code, "session": id})).json();
    run("x = 1");
    run("x = 2");
    let listed = client.get(&format!("{session}/checkpoints")).json();
    let cells: Vec<u64> =
        listed["checkpoints"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(cells.contains(&1), "{listed}");
    let rollback = format!("{session}/rollback");
    let back = client.post(&rollback, &json!({"cell": 1}));
    assert_eq!((back.status, &back.json()["id"]), (200, &json!(id)), "{}", back.text());
    assert_eq!(run("x")["value"], "1");
    let none = client.post(&rollback, &json!({"cell": 99}));
    assert_eq!((none.status, none.code().as_str()), (409, "no_checkpoint"));
    assert_eq!(client.post(&rollback, &json!({})).code(), "bad_arguments");
    assert_eq!(client.post("/api/v1/sessions/x/rollback", &json!({"cell": 1})).status, 404);
}

//! REST: every route of the contract, what it answers, and what it answers to what it does not take.

use ringfence_testing::{Json, json};

use super::client::{Headers, Server};
use crate::support::{World, have};

#[test]
fn a_run_has_an_outcome_and_a_status() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let flags = ["--preset", "data", "--rate-per-minute", "off", "--breakers", "off"];
    let server = Server::with(&world, &flags);
    let rows = [
        (json!({"code": "print('hi')\n6 * 7"}), 200, "ok"),
        (json!({"code": "import sys\nprint(sys.stdin.read())", "stdin": "said"}), 200, "ok"),
        (json!({"code": "1 / 0"}), 200, "error"),
        (json!({"code": "object.__subclasses__()"}), 422, "blocked"),
        (json!({"code": "while True: pass", "timeout_s": 0.3}), 200, "timeout"),
        (json!({"command": "echo hi; exit 3"}), 200, "error"),
        (json!({"command": ["printf", "%s|", "a b", "c"]}), 200, "ok"),
        (json!({"command": "pwd", "cwd": "/usr"}), 200, "ok"),
        (json!({"command": ["pwd"], "cwd": "/usr"}), 200, "ok"),
        (json!({"command": "cat", "stdin": "said"}), 200, "ok"),
        (json!({"command": "sleep 10", "timeout_s": 0.3}), 200, "timeout"),
        (json!({"command": ["no-such-program"]}), 200, "error"),
    ];
    let mut client = server.client();
    for (asked, status, word) in rows {
        let answer = client.post("/api/v1/runs", &asked);
        let outcome = answer.json();
        assert_eq!(
            (answer.status, outcome["status"].as_str()),
            (status, Some(word)),
            "{asked}: {outcome}"
        );
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let kept = client.get(&format!("/api/v1/runs/{}", outcome["run_id"].as_str().unwrap()));
        assert_eq!((kept.status, kept.json()), (status, outcome), "{asked}");
    }
    let outcome = |asked: Json| server.run(&asked).json();
    assert_eq!(outcome(json!({"code": "print('hi')\n6 * 7"}))["value"], "42");
    assert_eq!(
        outcome(json!({"code": "import sys\nprint(sys.stdin.read())", "stdin": "said"}))["stdout"],
        "said\n"
    );
    assert_eq!(outcome(json!({"command": ["printf", "%s|", "a b", "c"]}))["stdout"], "a b|c|");
    assert_eq!(outcome(json!({"command": "pwd", "cwd": "/usr"}))["stdout"], "/usr\n");
    assert_eq!(outcome(json!({"command": ["pwd"], "cwd": "/usr"}))["stdout"], "/usr\n");
}

#[test]
fn what_is_no_request_is_told_so() {
    let world = World::new();
    let server = Server::new(&world);
    let json = [("Content-Type", "application/json")];
    let rows: &[(&str, &str, Headers<'_>, &str, u16, &str)] = &[
        ("POST", "/api/v1/runs", &json, "", 400, "bad_arguments"),
        ("POST", "/api/v1/runs", &json, "{", 400, "bad_arguments"),
        ("POST", "/api/v1/runs", &json, "[]", 400, "bad_arguments"),
        ("POST", "/api/v1/runs", &json, "{}", 400, "bad_arguments"),
        (
            "POST",
            "/api/v1/runs",
            &json,
            "{\"code\": \"1\", \"command\": \"ls\"}",
            400,
            "bad_arguments",
        ),
        ("POST", "/api/v1/runs", &json, "{\"code\": 1}", 400, "bad_arguments"),
        ("POST", "/api/v1/runs", &json, "{\"code\": \"1\", \"extra\": 1}", 400, "bad_arguments"),
        (
            "POST",
            "/api/v1/runs",
            &json,
            "{\"code\": \"1\", \"timeout_s\": 0}",
            400,
            "bad_arguments",
        ),
        (
            "POST",
            "/api/v1/runs",
            &json,
            "{\"code\": \"1\", \"timeout_s\": -1}",
            400,
            "bad_arguments",
        ),
        (
            "POST",
            "/api/v1/runs",
            &json,
            "{\"code\": \"1\", \"timeout_s\": 1e999}",
            400,
            "bad_arguments",
        ),
        ("POST", "/api/v1/runs", &json, "{\"code\": \"1\", \"cwd\": \"/\"}", 400, "bad_arguments"),
        ("POST", "/api/v1/runs", &json, "{\"command\": []}", 400, "bad_arguments"),
        ("POST", "/api/v1/runs", &json, "{\"command\": \"a\\u0000b\"}", 400, "bad_arguments"),
        (
            "POST",
            "/api/v1/runs",
            &json,
            "{\"code\": \"1\", \"session\": \"x\"}",
            404,
            "session_unknown",
        ),
        ("POST", "/api/v1/runs", &[], "{\"code\": \"1\"}", 415, "not_json"),
        (
            "POST",
            "/api/v1/runs",
            &[("Content-Type", "text/plain")],
            "{\"code\": \"1\"}",
            415,
            "not_json",
        ),
        ("GET", "/api/v1/runs/x", &[], "", 404, "run_unknown"),
        ("DELETE", "/api/v1/runs/x", &[], "", 404, "run_unknown"),
        ("GET", "/api/v1/sessions/x", &[], "", 404, "session_unknown"),
        ("DELETE", "/api/v1/sessions/x", &[], "", 404, "session_unknown"),
        ("POST", "/api/v1/sessions/x/fork", &[], "", 404, "session_unknown"),
        ("GET", "/api/v1/sessions/x/files/a", &[], "", 404, "session_unknown"),
        ("PUT", "/api/v1/sessions/x/files/a", &[], "a", 404, "session_unknown"),
        ("GET", "/api/v1/sessions/x/audit", &[], "", 404, "session_unknown"),
        ("POST", "/api/v1/sessions", &json, "{\"x\": 1}", 400, "bad_arguments"),
        ("GET", "/api/v1/audit?status=odd", &[], "", 400, "bad_filter"),
        ("GET", "/api/v1/audit?odd=1", &[], "", 400, "bad_arguments"),
        ("GET", "/api/v1/audit?run=a", &[], "", 400, "bad_filter"),
        ("GET", "/api/v1/nothing", &[], "", 404, "route_unknown"),
        ("GET", "/", &[], "", 404, "route_unknown"),
        ("PATCH", "/api/v1/runs", &[], "", 405, "method_unknown"),
        ("POST", "/healthz", &[], "", 405, "method_unknown"),
    ];
    for (method, path, headers, body, status, code) in rows {
        let answer = server.client().send(method, path, headers, body.as_bytes());
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (*status, *code),
            "{method} {path} {body}"
        );
    }
}

#[test]
fn a_session_keeps_variables_and_files() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::with(&world, &["--preset", "data", "--rate-per-minute", "off"]);
    let mut client = server.client();
    let made = client.post("/api/v1/sessions", &json!({}));
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let session = format!("/api/v1/sessions/{id}");
    let run = |code: &str| server.run(&json!({"code": code, "session": id})).json();
    assert_eq!(run("x = 41")["status"], "ok");
    assert_eq!(run("x + 1")["value"], "42");

    let file = format!("{session}/files/data/in%20put.txt");
    let written = client.put(&file, b"from outside");
    assert_eq!((written.status, &written.json()["created"]), (201, &json!(true)));
    assert_eq!(client.put(&file, b"again, from outside").status, 200);
    assert_eq!(run("open('data/in put.txt').read()")["value"], "'again, from outside'");
    let read = client.get(&file);
    assert_eq!((read.status, read.text().as_str()), (200, "again, from outside"));
    assert_eq!(read.header("x-content-type-options"), Some("nosniff"));
    let part = client.get(&format!("{file}?offset=7&limit=4"));
    assert_eq!((part.text().as_str(), part.header("ringfence-next-offset")), ("from", Some("11")));
    assert_eq!(part.header("ringfence-total-bytes"), Some("19"));

    let listed = client.get(&format!("{session}/files?depth=2")).json();
    let paths: Vec<&str> =
        listed["entries"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["data", "data/in put.txt"], "{listed}");
    let listed = client.get(&format!("{session}/files/data")).json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "{listed}");

    let forked = client.send("POST", &format!("{session}/fork"), &[], b"");
    assert_eq!(forked.status, 201, "{}", forked.text());
    let copy = format!("/api/v1/sessions/{}", forked.json()["id"].as_str().unwrap());
    assert_eq!(
        client.get(&format!("{copy}/files/data/in%20put.txt")).text(),
        "again, from outside"
    );
    let n = client.get("/api/v1/sessions").json()["sessions"].as_array().unwrap().len();
    assert_eq!(n, 2);

    let refused = client.delete(&format!("{session}/files/data"));
    assert_eq!((refused.status, refused.code().as_str()), (409, "not_empty"));
    let deleted = client.delete(&format!("{session}/files/data?recursive=true"));
    assert_eq!((deleted.status, &deleted.json()["n_entries"]), (200, &json!(2)));
    assert_eq!(client.get(&file).code(), "not_found");

    // The second page, also by the name that the cursor had before.
    let first = client.get(&format!("{session}/audit?limit=1")).json();
    let next = first["next"].as_str().unwrap();
    let pages = ["cursor", "after"]
        .map(|name| client.get(&format!("{session}/audit?limit=1&{name}={next}")).json());
    assert_eq!(pages[0]["records"], pages[1]["records"]);
    assert_ne!(pages[0]["records"], first["records"]);
    let audit = client.get(&format!("{session}/audit?limit=100")).json();
    let tools: Vec<&str> =
        audit["records"].as_array().unwrap().iter().filter_map(|r| r["tool"].as_str()).collect();
    assert!(tools.contains(&"write_file") && tools.contains(&"execute_code"), "{tools:?}");
    assert_eq!(client.delete(&session).status, 204);
    assert_eq!(client.get(&session).code(), "session_unknown");
    assert_eq!(server.run(&json!({"code": "1", "session": id})).code(), "session_unknown");
}

#[test]
fn no_path_leads_out_of_a_session() {
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let id = client.post("/api/v1/sessions", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let rows: &[(&str, u16, &str)] = &[
        ("../../../etc/passwd", 403, "path_outside"),
        ("..%2f..%2fstate.json", 403, "path_outside"),
        ("%2e%2e/%2e%2e/state.json", 403, "path_outside"),
        ("/etc/passwd", 403, "path_outside"),
        ("%2fetc%2fpasswd", 403, "path_outside"),
        ("a%00b", 400, "name_invalid"),
        ("%ff", 400, "bad_arguments"),
        ("missing", 404, "not_found"),
    ];
    for (path, status, code) in rows {
        let answer = server.get(&format!("/api/v1/sessions/{id}/files/{path}"));
        assert_eq!((answer.status, answer.code().as_str()), (*status, *code), "{path}");
    }
    let refused = client.put(&format!("/api/v1/sessions/{id}/files/.env"), b"x");
    assert_eq!((refused.status, refused.code().as_str()), (403, "path_forbidden"));
}

#[test]
fn a_run_in_the_background_can_be_asked_for_and_cancelled() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::new(&world);
    let mut client = server.client();
    let begun = client
        .post("/api/v1/runs", &json!({"command": "echo here; sleep 600", "background": true}));
    assert_eq!(begun.status, 202, "{}", begun.text());
    let place = begun.header("location").unwrap().to_owned();
    assert_eq!(begun.json()["status"], "running");
    crate::living::eventually("what it wrote is shown", || {
        client.get(&place).json()["stdout"] == "here\n"
    });
    assert_eq!(client.get(&place).json()["status"], "running");
    let listed = client.get("/api/v1/runs").json();
    assert_eq!(listed["runs"][0]["run_id"], begun.json()["run_id"], "{listed}");
    let cancelled = client.delete(&place).json();
    assert_eq!(
        (&cancelled["status"], &cancelled["error"]["code"]),
        (&json!("killed"), &json!("cancelled"))
    );
    assert_eq!(cancelled["run_id"], begun.json()["run_id"]);
    assert_eq!(client.get(&place).json(), cancelled);
    assert_eq!(client.delete(&place).json(), cancelled);

    let begun = client.post("/api/v1/runs", &json!({"code": "print('done')", "background": true}));
    let place = begun.header("location").unwrap().to_owned();
    crate::living::eventually("it ends", || client.get(&place).json()["status"] != "running");
    assert_eq!(client.get(&place).json()["stdout"], "done\n");
}

#[test]
fn who_asks_too_often_is_told_when_to_come_again() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::with(&world, &["--rate-per-minute", "2"]);
    let mut client = server.client();
    for _ in 0..2 {
        assert_eq!(client.post("/api/v1/runs", &json!({"code": "1"})).status, 200);
    }
    let answer = client.post("/api/v1/runs", &json!({"code": "1"}));
    let outcome = answer.json();
    assert_eq!((answer.status, outcome["status"].as_str()), (429, Some("rejected")), "{outcome}");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    let ms = outcome["error"]["retry_after_ms"].as_u64().unwrap();
    assert_eq!(seconds, ms.div_ceil(1000));
    let answer = client.post("/api/v1/sessions", &json!({}));
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limited"));
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn an_operator_finds_policy_host_numbers_and_document() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let server = Server::with(&world, &["--timeout", "7s"]);
    assert_eq!(server.get("/healthz").json()["status"], "ok");
    assert_eq!(server.get("/readyz").json()["status"], "ready");
    let policy = server.get("/api/v1/policy").json();
    assert_eq!(policy["command"]["timeout"], json!({"value": "7s", "from": "flag"}), "{policy}");
    assert_eq!(server.get("/api/v1/doctor").json(), world.ringfence(&["doctor", "--json"]).json());
    server.run(&json!({"code": "1"}));
    let metrics = server.get("/metrics").text();
    assert!(
        metrics.contains("ringfence_calls_total{tool=\"execute_code\",status=\"ok\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.contains("ringfence_http_answers_total{status=\"200\"} "), "{metrics}");
    assert!(metrics.ends_with("# EOF\n") && metrics.matches("# EOF").count() == 1, "{metrics}");
    let document = server.get("/api/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    // Each path that is described is there: it answers something else than that there is nothing.
    for path in document["paths"].as_object().unwrap().keys() {
        let path = path.replace("{id}", "0").replace("{path}", "a");
        let answer = server.client().send("OPTIONS", &path, &[], b"");
        assert_eq!(answer.code(), "method_unknown", "{path}");
    }
    let audit = server.get("/api/v1/audit?tool=execute_code").json();
    assert_eq!(audit["records"].as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(audit["records"][0]["client"], "local");
}

#[test]
fn a_session_id_that_is_none_is_not_logged() {
    let world = World::new();
    let server = Server::new(&world);
    let forged = "y\n2026-01-01T00:00:00Z  WARN forged-by-a-client";
    for _ in 0..12 {
        let answer = server.run(&json!({"code": "1", "session": forged}));
        assert_eq!(answer.status, 404, "{}", answer.text());
    }
    drop(server);
    // Nothing of it is in the ledger, where alerts are too.
    let mut pending = vec![world.root().to_owned()];
    let mut n_files = 0;
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                pending.push(path);
            } else if entry.file_type().unwrap().is_file() {
                n_files += 1;
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes.windows(16).any(|part| part == b"forged-by-a-clie");
                assert!(!found, "{}", path.display());
            }
        }
    }
    assert!(n_files > 2, "{n_files}");
}

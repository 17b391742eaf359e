//! Who is let in: hosts, origins, tokens, scopes, and what a service refuses to be.

use std::io::Write as _;

use ringfence_testing::{BoundedCommand as _, Json, json};

use super::client::{Client, Headers, Server};
use crate::support::{Ran, World, binary, project};

/// Makes a token.
pub(super) fn token(world: &World, name: &str, scopes: &[&str]) -> String {
    let scopes: Vec<&str> = scopes.iter().flat_map(|scope| ["--scope", scope]).collect();
    let ran = world.ringfence(&[&["token", "new", "--name", name], &scopes[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

#[test]
fn every_route_looks_at_host_and_origin() {
    let world = World::new();
    let server = Server::with(&world, &[]);
    let own = format!("http://{}", server.address);
    let rows: &[(Headers<'_>, u16)] = &[
        (&[], 200),
        (&[("Host", "localhost")], 200),
        (&[("Host", "[::1]:80")], 200),
        (&[("Origin", &own)], 200),
        (&[("Host", "evil.example")], 403),
        (&[("Host", "evil.example:7400")], 403),
        (&[("Host", "127.0.0.1.evil.example")], 403),
        (&[("Origin", "http://evil.example")], 403),
        (&[("Origin", "null")], 403),
        (&[("Origin", "http://localhost:1")], 403),
        (&[("Host", "evil.example"), ("Origin", "http://evil.example")], 403),
        (&[("Host", "localhost"), ("X-Forwarded-Host", "evil.example")], 200),
    ];
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/openapi.json", "/api/v1/sessions"] {
        for (headers, status) in rows {
            let answer = server.client().send("GET", path, headers, b"");
            assert_eq!(answer.status, *status, "{path} {headers:?}: {}", answer.text());
        }
    }
    for path in ["/mcp", "/api/v1/runs", "/nothing"] {
        let evil = [("Origin", "http://evil.example"), ("Content-Type", "application/json")];
        let answer = server.client().send("POST", path, &evil, b"{\"code\": \"1\"}");
        assert_eq!((answer.status, answer.code().as_str()), (403, "origin_refused"), "{path}");
    }
    let target = "http://evil.example/healthz";
    assert_eq!(server.client().send("GET", target, &[("Host", "localhost")], b"").status, 400);
}

#[test]
fn with_tokens_nobody_is_let_in_without_one() {
    let world = World::new();
    let ada = token(&world, "ada", &[]);
    assert!(ada.starts_with("rf_") && ada.len() == 46, "{ada}");
    let server = Server::new(&world);
    let run = json!({"command": "true"});
    let refused = |client: &mut Client| {
        let answer = client.post("/api/v1/runs", &run);
        assert_eq!((answer.status, answer.code().as_str()), (401, "token_unknown"));
        assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
        for path in ["/mcp", "/metrics", "/api/v1/openapi.json", "/api/v1/nothing", "/"] {
            assert_eq!(client.get(path).status, 401, "{path}");
        }
        assert_eq!(client.get("/healthz").status, 200);
        assert_eq!(client.get("/readyz").status, 200);
    };
    refused(&mut server.client());
    for wrong in ["", "x", "rf_", &ada[..45], &format!("{ada}A"), &ada.to_lowercase()] {
        refused(&mut server.client().token(wrong));
    }
    for header in [format!("Basic {ada}"), ada.clone(), format!("Bearer{ada}")] {
        let answer =
            server.client().send("GET", "/api/v1/runs", &[("Authorization", &header)], b"");
        assert_eq!(answer.status, 401, "{header}");
    }
    let header = format!("bearer {ada}");
    let both = [("Authorization", header.as_str()), ("Authorization", "Bearer x")];
    assert_eq!(server.client().send("GET", "/api/v1/runs", &both, b"").status, 401);
    assert_eq!(server.client().send("GET", "/api/v1/runs", &both[..1], b"").status, 200);

    let mut client = server.client().token(&ada);
    assert_eq!(client.post("/api/v1/runs", &run).status, 200);
    let bob = token(&world, "bob", &["run"]);
    let mut other = server.client().token(&bob);
    assert_eq!(other.post("/api/v1/runs", &run).status, 200);
    // Also on a connection that was let in before.
    assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
    refused(&mut client);
    assert_eq!(other.post("/api/v1/runs", &run).status, 200);
    assert_eq!(world.ringfence(&["token", "revoke", "bob"]).code, 0);
    refused(&mut other);
    refused(&mut server.client());

    let listed = world.ringfence(&["token", "ls"]).stdout;
    assert!(
        listed.contains("ada") && listed.contains("revoked") && !listed.contains(&ada),
        "{listed}"
    );
    let written =
        std::fs::read_to_string(world.root().join("state/ringfence/tokens.json")).unwrap();
    assert!(!written.contains(&ada) && !written.contains(&bob));
}

#[test]
fn a_revoked_clients_runs_end() {
    runs_end_with_their_token(|world| {
        assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
    });
}

#[test]
fn an_upload_of_a_revoked_client_writes_nothing() {
    let world = World::new();
    let (ada, bob) = (token(&world, "ada", &[]), token(&world, "bob", &[]));
    let server = Server::new(&world);
    let mut client = server.client().token(&ada);
    let id = client.post("/api/v1/sessions", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let head = format!(
        "PUT /api/v1/sessions/{id}/files/late HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ada}\r\nContent-Length: 8\r\n\r\nhalf",
        server.address
    );
    client.stream.get_mut().write_all(head.as_bytes()).unwrap();
    // Its requests are answered: the service has read the head.
    assert_eq!(server.client().token(&bob).get("/api/v1/runs").status, 200);
    assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
    let answer = client.answer();
    assert_eq!((answer.status, answer.code().as_str()), (401, "token_unknown"));
    let ada = token(&world, "ada", &[]);
    let files = server.client().token(&ada).get(&format!("/api/v1/sessions/{id}/files")).json();
    assert_eq!(files["entries"], json!([]), "{files}");
}

#[test]
fn runs_of_a_token_that_was_replaced_end() {
    runs_end_with_their_token(|world| {
        // Quicker than the service looks, nearly always: whenever it does, there is a good token of that name.
        assert_eq!(world.ringfence(&["token", "revoke", "ada"]).code, 0);
        token(world, "ada", &["audit"]);
    });
}

fn runs_end_with_their_token(ended: impl Fn(&World)) {
    let world = World::new();
    let ada = token(&world, "ada", &[]);
    let server = Server::new(&world);
    let markers = [(); 3].map(|()| crate::living::marker());
    let asked = json!({"command": crate::living::tree(&markers[0]), "background": true});
    assert_eq!(server.client().token(&ada).post("/api/v1/runs", &asked).status, 202);
    let mut stateless = server.client().token(&ada);
    let asked = json!({"command": crate::living::tree(&markers[1])});
    super::mcp::begin_call(&mut stateless, "run_command", &asked);
    let mut remembered = server.client().token(&ada);
    let asked = json!({"command": crate::living::tree(&markers[2])});
    super::mcp::begin_remembered_call(&mut remembered, "run_command", &asked);
    for marker in &markers {
        crate::living::runs(marker);
    }
    ended(&world);
    for marker in &markers {
        crate::living::gone(marker);
    }
}

#[test]
fn a_token_is_good_for_its_scopes() {
    let world = World::new();
    // Every route of the document; "any" is open to every token.
    let rows = [
        ("/api/v1/runs", "GET POST", "run"),
        ("/api/v1/runs/{id}", "DELETE GET", "run"),
        ("/api/v1/runs/{id}/events", "GET", "run"),
        ("/api/v1/runs/{id}/artifacts", "GET", "run"),
        ("/api/v1/runs/{id}/artifacts/{path}", "GET", "run"),
        ("/api/v1/events", "GET", "run"),
        ("/api/v1/sessions", "GET POST", "sessions"),
        ("/api/v1/sessions/{id}", "DELETE GET", "sessions"),
        ("/api/v1/sessions/{id}/fork", "POST", "sessions"),
        ("/api/v1/sessions/{id}/checkpoints", "GET", "sessions"),
        ("/api/v1/sessions/{id}/rollback", "POST", "sessions"),
        ("/api/v1/sessions/{id}/files", "GET", "files"),
        ("/api/v1/sessions/{id}/files/{path}", "DELETE GET PATCH PUT", "files"),
        ("/api/v1/sessions/{id}/grep", "GET", "files"),
        ("/api/v1/sessions/{id}/search", "GET", "files"),
        ("/api/v1/sessions/{id}/index", "POST", "files"),
        ("/api/v1/sessions/{id}/chunks", "GET", "files"),
        ("/api/v1/sessions/{id}/audit", "GET", "audit"),
        ("/api/v1/audit", "GET", "audit"),
        ("/api/v1/policy", "GET", "admin"),
        ("/api/v1/doctor", "GET", "admin"),
        ("/api/v1/openapi.json", "GET", "any"),
    ];
    let scopes = ["run", "files", "sessions", "audit", "admin"];
    let tokens: Vec<String> = scopes.iter().map(|scope| token(&world, scope, &[scope])).collect();
    let server = Server::new(&world);
    let document = server.client().token(&tokens[0]).get("/api/v1/openapi.json").json();
    for (path, ..) in rows {
        let is_route = document["paths"].get(path).is_some();
        assert!(is_route, "{path} is not a route of the document any more");
    }
    let mut routes = vec![("GET".to_owned(), "/metrics".to_owned(), "admin")];
    for (path, operations) in document["paths"].as_object().unwrap() {
        let mut methods: Vec<String> =
            operations.as_object().unwrap().keys().map(|m| m.to_ascii_uppercase()).collect();
        methods.sort();
        let row = rows.iter().find(|(known, ..)| *known == path);
        let (_, known, needed) = row.unwrap_or_else(|| panic!("{path} has no scope here"));
        assert_eq!(methods.join(" "), *known, "{path}");
        let path = path.replace("{id}", "x").replace("{path}", "a");
        routes.extend(methods.into_iter().map(|method| (method, path.clone(), *needed)));
    }
    for (scope, token) in scopes.iter().zip(&tokens) {
        for (method, path, needed) in &routes {
            let answer = server.client().token(token).send(method, path, &[], b"");
            let refused = answer.status == 403;
            let allowed = [*scope, "any"].contains(needed);
            assert_eq!(refused, !allowed, "{scope}: {method} {path} {}", answer.text());
            if refused {
                assert_eq!(answer.code(), "scope_missing");
            }
        }
        assert_eq!(
            server.client().token(token).send("POST", "/mcp", &[], b"{}").status,
            403,
            "{scope}"
        );
    }
    let wrong = world.ringfence(&["token", "new", "--name", "x", "--scope", "everything"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

#[test]
fn what_is_anothers_is_not_there() {
    let world = World::new();
    let all = ["run", "files", "sessions", "audit"];
    let (ada, bob) = (token(&world, "ada", &all), token(&world, "bob", &all));
    let root = token(&world, "root", &["audit", "admin"]);
    let server = Server::new(&world);
    let mut ada = server.client().token(&ada);
    let mut bob = server.client().token(&bob);
    let id = ada.post("/api/v1/sessions", &json!({})).json()["id"].as_str().unwrap().to_owned();
    let run = ada.post("/api/v1/runs", &json!({"command": "true", "session": id})).json();
    let run = run["run_id"].as_str().unwrap().to_owned();
    let never = "0123456789abcdef0123456789abcdef";
    let rows = [
        ("GET", "/api/v1/runs/{}", run.as_str()),
        ("DELETE", "/api/v1/runs/{}", &run),
        ("GET", "/api/v1/sessions/{}", &id),
        ("DELETE", "/api/v1/sessions/{}", &id),
        ("POST", "/api/v1/sessions/{}/fork", &id),
        ("GET", "/api/v1/sessions/{}/files", &id),
        ("GET", "/api/v1/sessions/{}/files/a", &id),
        ("GET", "/api/v1/sessions/{}/grep?pattern=a", &id),
        ("PUT", "/api/v1/sessions/{}/files/a", &id),
        ("DELETE", "/api/v1/sessions/{}/files/a", &id),
        ("GET", "/api/v1/sessions/{}/audit", &id),
    ];
    for (method, path, id) in rows {
        let theirs = bob.send(method, &path.replace("{}", id), &[], b"");
        let nobodys = bob.send(method, &path.replace("{}", never), &[], b"");
        assert_eq!((theirs.status, theirs.text()), (404, nobodys.text()), "{method} {path}");
    }
    assert_eq!(
        bob.post("/api/v1/runs", &json!({"command": "true", "session": id})).code(),
        "session_unknown"
    );
    assert_eq!(ada.get(&format!("/api/v1/sessions/{id}")).status, 200);

    let clients = |page: Json| {
        let mut clients: Vec<String> = page["records"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|record| record["client"].as_str().map(str::to_owned))
            .collect();
        clients.sort();
        clients.dedup();
        clients
    };
    assert_eq!(clients(bob.get("/api/v1/audit?limit=200").json()), ["bob"]);
    assert_eq!(bob.get("/api/v1/audit?client=ada").code(), "scope_missing");
    let mut root = server.client().token(&root);
    assert_eq!(clients(root.get("/api/v1/audit?limit=200").json()), ["ada", "bob"]);
    assert_eq!(clients(root.get("/api/v1/audit?limit=200&client=ada").json()), ["ada"]);
}

#[test]
fn a_service_for_others_needs_a_name_and_a_token() {
    let world = World::new();
    let check = |flags: &[&str]| world.ringfence(&[&["serve", "--check"], flags].concat());
    let here = check(&[]);
    assert_eq!(here.code, 0, "{}", here.stderr);
    assert!(here.stdout.contains("http://127.0.0.1:7400") && here.stdout.contains("`local`"));
    let rows: &[(&[&str], &str)] = &[
        (&["--listen", "0.0.0.0:0"], "`--allow-host`"),
        (&["--listen", "[::]:0"], "`--allow-host`"),
        (&["--listen", "0.0.0.0:0", "--allow-host", "tools.example.org"], "`ringfence token new"),
        (&["--allow-host", "tools.example.org"], "`ringfence token new"),
        (&["--listen", "localhost"], "`listen`"),
        (&["--allow-host", "http://x"], "is not the name"),
        (&["--tls-cert", "/nope"], "both"),
        (&["--tls-cert", "/nope", "--tls-key", "/nope"], "`/nope`"),
        (&["--drain", "0s"], "`drain`"),
        (&["--rate-per-minute", "0"], "`rate_per_minute`"),
    ];
    for (flags, said) in rows {
        let ran = check(flags);
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{flags:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty());
    }
    // The hints, followed.
    let ada = token(&world, "ada", &[]);
    let flags = ["--listen", "0.0.0.0:0", "--allow-host", "tools.example.org"];
    let ran = check(&flags);
    assert!(ran.code == 0 && ran.stdout.contains("tools.example.org"), "{}", ran.stderr);
    let server = Server::with(&world, &flags);
    let mut client = server.client().token(&ada);
    let named = [("Host", "tools.example.org"), ("Origin", "https://tools.example.org")];
    assert_eq!(client.send("GET", "/api/v1/runs", &named, b"").status, 200);
    let other = [("Host", "other.example.org")];
    assert_eq!(client.send("GET", "/api/v1/runs", &other, b"").status, 403);
    // All of them revoked: the service does not open again.
    world.ringfence(&["token", "revoke", "ada"]);
    assert_eq!(client.send("GET", "/api/v1/runs", &named, b"").status, 401);
    assert_eq!(check(&flags).code, 2);
    assert!(check(&[]).stdout.contains("clients      none"), "{}", check(&[]).stdout);
    // Nor when the file is gone, and the service started again.
    std::fs::remove_file(world.root().join("state/ringfence/tokens.json")).unwrap();
    assert!(check(&[]).stdout.contains("clients      none"), "{}", check(&[]).stdout);
    let server = Server::new(&world);
    assert_eq!(server.client().get("/api/v1/runs").status, 401);
}

#[test]
fn a_missing_token_and_an_unknown_one_are_told_apart_and_a_damaged_file_has_a_way_out() {
    let world = World::new();
    token(&world, "ada", &[]);
    let server = Server::new(&world);
    let message = |headers: Headers<'_>| {
        let response = server.client().send("GET", "/api/v1/runs", headers, b"");
        assert_eq!((response.status, response.code()), (401, "token_unknown".to_owned()));
        response.json()["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!(message(&[]), "no token was sent");
    assert_eq!(message(&[("Authorization", "Basic YTpi")]), "no token was sent");
    assert_eq!(message(&[("Authorization", "Bearer rf_x")]), "this token is not known here");
    let file = world.root().join("state/ringfence/tokens.json");
    std::fs::write(&file, "{").unwrap();
    for args in [&["token", "ls"][..], &["token", "new", "--name", "bob"]] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 125, "{args:?}: {}", ran.stderr);
        let way = format!("`mv {0} {0}.damaged` and make new tokens", file.display());
        assert!(ran.stderr.contains(&way), "{args:?}: {}", ran.stderr);
    }
    std::fs::rename(&file, file.with_extension("damaged")).unwrap();
    let bob = token(&world, "bob", &[]);
    assert_eq!(server.client().token(&bob).get("/api/v1/runs").status, 200);
}

/// What would keep the service from starting is found before.
#[test]
fn a_check_finds_what_keeps_a_service_from_starting() {
    let world = World::new();
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 0);
    assert_eq!(world.ringfence(&["audit", "verify"]).code, 0);
    let state = world.root().join("state/ringfence");
    let listed = || {
        let names = std::fs::read_dir(&state).unwrap().map(|e| e.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = listed();
    assert_eq!(world.ringfence(&["serve", "--check"]).code, 0);
    assert_eq!(listed(), before, "nothing is left there");
    let database = state.join("ledger/ledger.db");
    let whole = std::fs::read(&database).unwrap();
    std::fs::write(&database, "no database").unwrap();
    for args in [&["serve", "--check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let ran = world.ringfence(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (125, ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("is damaged"), "{args:?}: {}", ran.stderr);
    }
    std::fs::write(&database, whole).unwrap();
    // Larger than what a process with this limit may write, as a full disk is.
    for (flags, said) in
        [("", "no room for the ledger"), ("--audit off", "cannot write to the data directory")]
    {
        let program = binary();
        let limited =
            format!("ulimit -f 8; trap '' XFSZ; exec {} serve --check {flags}", program.display());
        let mut shell = world.here(std::process::Command::new("sh"));
        let ran = Ran::from(&shell.args(["-c", &limited]).bounded_output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (125, ""), "{flags}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{flags}: {}", ran.stderr);
    }
    let settings = |line: &str| {
        world.write("home/.config/ringfence/config.toml", &format!("[notify]\n{line}\n"));
        world.ringfence(&["serve", "--check"])
    };
    for (line, key, cause) in [
        ("alert_command = ['/nosuch']", "`alert_command`", "`/nosuch` does not exist"),
        ("alert_command = ['no-such-program']", "`alert_command`", "in no directory of PATH"),
        ("anchor_command = ['/etc/passwd']", "`anchor_command`", "not a program"),
        ("anchor_file = '/nosuchdir/x'", "`anchor_file`", "no directory `/nosuchdir`"),
        ("anchor_file = '/tmp'", "`anchor_file`", "`/tmp` is a directory"),
    ] {
        let ran = settings(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.stderr);
        assert!(ran.stderr.contains(key) && ran.stderr.contains(cause), "{line}: {}", ran.stderr);
    }
    let kept = world.root().join("anchors");
    let fine = format!("alert_command = ['sh', '-c', 'true']\nanchor_file = '{}'", kept.display());
    let ran = settings(&fine);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!kept.exists());
}

/// The value of an option in the service unit.
fn in_unit(unit: &str, option: &str) -> String {
    let words = unit.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let mut words = words.skip_while(|word| *word != option && !word.starts_with(option));
    let word = words.next().unwrap_or_else(|| panic!("no {option}"));
    match word.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => words.next().unwrap().to_owned(),
    }
}

#[test]
fn commands_run_where_the_service_unit_starts_them() {
    let world = World::new();
    let unit = std::fs::read_to_string(project().join("dist/ringfence.service")).unwrap();
    let place =
        |option: &str| world.root().join(in_unit(&unit, option).strip_prefix("/var/lib/").unwrap());
    let (work, data) = (place("WorkingDirectory="), place("--data-dir"));
    for dir in [&data, &work] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let data = data.to_str().unwrap();
    let checked = |dir: &std::path::Path| {
        let mut command = world.command(&["serve", "--check", "--data-dir", data]);
        let output = command.current_dir(dir).bounded_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let said = checked(&work);
    assert!(said.contains(&format!("commands     {}\n", work.display())), "{said}");
    // Where they do not, it says why.
    let inside = std::path::Path::new(data).join("inside");
    std::fs::create_dir(&inside).unwrap();
    let said = checked(&inside);
    assert!(said.contains("commands     in sessions only: ") && said.contains(" state"), "{said}");
}

#[test]
fn a_settings_file_says_how_to_serve() {
    let world = World::new();
    let file = world.write(
        "home/.config/ringfence/config.toml",
        "timeout = \"9s\"\n[serve]\nlisten = \"127.0.0.1:7999\"\nbody = \"2M\"\nrate_per_minute = \"off\"\n",
    );
    let ran = world.ringfence(&["serve", "--check"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("127.0.0.1:7999") && ran.stdout.contains("2097152 bytes"),
        "{}",
        ran.stdout
    );
    let ran = world.ringfence(&["serve", "--check", "--listen", "127.0.0.1:7998"]);
    assert!(ran.stdout.contains("127.0.0.1:7998"), "{}", ran.stdout);
    assert_eq!(world.ringfence(&["run", "--", "true"]).code, 0);
    let check = ["policy", "check", file.to_str().unwrap()];
    assert_eq!(world.ringfence(&check).code, 0);
    for (wrong, said) in [("listen_on = \"x\"", "`listen_on`"), ("drain = 0", "`drain`")] {
        std::fs::write(&file, format!("[serve]\n{wrong}\n")).unwrap();
        for args in [&["serve", "--check"][..], &check] {
            let ran = world.ringfence(args);
            assert!(ran.code == 2 && ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
        }
    }
    // Not a workspace's to say.
    std::fs::remove_file(&file).unwrap();
    world.write("work/ringfence.toml", "[serve]\nlisten = \"0.0.0.0:1\"\n");
    assert_eq!(world.ringfence(&["serve", "--check"]).code, 2);
}

#[test]
fn who_has_no_token_is_told_where_to_get_one_if_the_operator_says_it() {
    let places =
        ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];
    let world = World::new();
    token(&world, "ada", &[]);
    let server = Server::new(&world);
    for place in places {
        assert_eq!(server.get(place).status, 404);
    }
    drop(server);
    let flags = [
        "--public-url",
        "https://tools.example.org/",
        "--authorization-server",
        "https://login.example.org",
    ];
    let server = Server::with(&world, &flags);
    for place in places {
        let said = server.get(place);
        assert_eq!(said.status, 200);
        assert_eq!(said.json()["resource"], "https://tools.example.org/mcp");
        assert_eq!(said.json()["authorization_servers"], json!(["https://login.example.org"]));
        assert_eq!(
            server.client().send("GET", place, &[("Host", "evil.example")], b"").status,
            403
        );
    }
    let refused = server.client().post("/mcp", &json!({}));
    let told = refused.header("www-authenticate").unwrap();
    assert_eq!(
        told,
        format!("Bearer resource_metadata=\"https://tools.example.org{}\"", places[1])
    );
    assert_eq!(server.get(&format!("{}x", places[0])).status, 401);
    for flags in [
        &flags[..2],
        &flags[2..],
        &["--public-url", "tools.example.org"],
        &["--public-url", "https://a/\", error=\"x", flags[2], flags[3]],
    ] {
        let ran = world.ringfence(&[&["serve", "--check"], flags].concat());
        assert_eq!(ran.code, 2, "{flags:?}: {}", ran.stderr);
    }
}

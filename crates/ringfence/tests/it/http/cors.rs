//! Pages of other origins: those of the operator's list may use the service, and no other.

use super::client::{Headers, Server};
use crate::support::World;

const ORIGIN: &str = "https://app.example.org";

#[test]
fn pages_of_the_list_are_let_in_with_a_token_and_no_others() {
    let world = World::new();
    let token = world.ringfence(&["token", "new", "--name", "page"]).stdout;
    let server = Server::with(&world, &["--cors-origins", ORIGIN, "--rate-per-minute", "off"]);
    let asked: Headers<'_> = &[
        ("Origin", ORIGIN),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization, content-type"),
    ];
    // A browser sends no token with the question.
    let preflight = server.client().send("OPTIONS", "/api/v1/runs", asked, b"");
    assert_eq!((preflight.status, preflight.text().as_str()), (204, ""));
    assert_eq!(preflight.header("access-control-allow-origin"), Some(ORIGIN));
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("POST"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(preflight.header("access-control-allow-credentials"), None);

    let mut page = server.client().token(&token);
    let answer = page.send("GET", "/api/v1/sessions", &[("Origin", ORIGIN)], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("access-control-allow-origin"), Some(ORIGIN));
    assert_eq!(answer.header("vary"), Some("Origin"));
    assert_eq!(answer.header("access-control-allow-credentials"), None);
    // The page can read why it was rejected.
    let answer = server.client().send("GET", "/api/v1/sessions", &[("Origin", ORIGIN)], b"");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (401, Some(ORIGIN)));

    for other in
        ["https://evil.example", "http://app.example.org", "https://app.example.org:444", "null"]
    {
        let headers = [("Origin", other), ("Access-Control-Request-Method", "POST")];
        let answer = page.send("OPTIONS", "/api/v1/runs", &headers, b"");
        assert_eq!((answer.status, answer.code().as_str()), (403, "origin_refused"), "{other}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{other}");
    }
    let answer = page.get("/api/v1/sessions");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None));
}

#[test]
fn a_list_needs_origins_and_a_token() {
    let world = World::new();
    let check = |origin: &str| world.ringfence(&["serve", "--check", "--cors-origins", origin]);
    for bad in ["*", "null", "app.example.org", "https://*.example.org", "https://a.example/x"] {
        let ran = check(bad);
        assert_eq!(ran.code, 2, "{bad}: {}", ran.stderr);
        assert!(ran.stderr.contains("is not an origin"), "{}", ran.stderr);
    }
    let ran = check(ORIGIN);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("without a token"), "{}", ran.stderr);
    world.ringfence(&["token", "new", "--name", "page"]);
    let ran = check(ORIGIN);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains(ORIGIN), "{}", ran.stdout);
}

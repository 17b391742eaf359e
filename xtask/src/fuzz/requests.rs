//! HTTP requests as bytes, from right to hopeless. The same seed makes the same sequence; the token and the names that only
//! the server knows stand in a request as words.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::bytes;
use super::messages::{self, RUN, SESSION};
use crate::random::Random;

/// Stands for a token that is good.
pub(super) const TOKEN: &str = "@token@";

const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PRI", "get",
    "", "\u{e9}",
];

/// Every route, and some that are none.
const TARGETS: &[(&str, &str)] = &[
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("POST", "/mcp"),
    ("POST", "/mcp"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/api/v1/runs"),
    ("POST", "/api/v1/runs"),
    ("POST", "/api/v1/runs"),
    ("GET", "/api/v1/runs"),
    ("GET", "/api/v1/runs/@run@"),
    ("DELETE", "/api/v1/runs/@run@"),
    ("GET", "/api/v1/runs/@run@/events"),
    ("GET", "/api/v1/runs/@run@/artifacts"),
    ("GET", "/api/v1/runs/@run@/artifacts/a.txt"),
    ("GET", "/api/v1/events"),
    ("POST", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions/@session@"),
    ("DELETE", "/api/v1/sessions/@session@"),
    ("POST", "/api/v1/sessions/@session@/fork"),
    ("POST", "/api/v1/sessions/@session@/rollback"),
    ("GET", "/api/v1/sessions/@session@/checkpoints"),
    ("GET", "/api/v1/sessions/@session@/files?depth=3"),
    ("GET", "/api/v1/sessions/@session@/files/a.txt?offset=1&limit=5"),
    ("PUT", "/api/v1/sessions/@session@/files/a.txt"),
    ("PUT", "/api/v1/sessions/@session@/files/d/e/%66.txt"),
    ("PUT", "/api/v1/sessions/@session@/files/..%2f..%2fetc/passwd"),
    ("DELETE", "/api/v1/sessions/@session@/files/d?recursive=true"),
    ("GET", "/api/v1/sessions/@session@/grep?pattern=y&context=2&limit=5"),
    ("GET", "/api/v1/sessions/@session@/grep?pattern=%28a*%29*b&glob=**%2f*&ignore_case=true"),
    ("PATCH", "/api/v1/sessions/@session@/files/a.txt"),
    ("GET", "/api/v1/sessions/@session@/search?query=y&limit=3"),
    ("POST", "/api/v1/sessions/@session@/index"),
    ("GET", "/api/v1/sessions/@session@/chunks?path=a.txt&lines=2&overlap=10"),
    ("GET", "/api/v1/sessions/@session@/audit"),
    ("GET", "/api/v1/audit?limit=3&status=ok&since_ms=0"),
    ("GET", "/api/v1/policy"),
    ("GET", "/api/v1/doctor"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/"),
    ("OPTIONS", "*"),
    ("GET", "//evil.example/healthz"),
    ("GET", "/api/v1/../../mcp"),
    ("GET", "/api/v1/runs/%00%ff"),
    ("GET", "http://evil.example/healthz"),
    ("GET", "http://localhost/api/v1/runs"),
];

/// Headers that make trouble, besides those every request has.
const HEADERS: &[&str] = &[
    "Host: evil.example",
    "Host: localhost:99999",
    "Host: [::1",
    "Host:",
    "Host: localhost\r\nHost: evil.example",
    "Origin: null",
    "Origin: http://evil.example",
    "Origin: http://localhost",
    "Authorization: Bearer rf_0000000000000000000000000000000000000000000",
    "Authorization: Bearer",
    "Authorization: Basic QDpA",
    "Authorization: Bearer @token@\r\nAuthorization: Bearer x",
    "Authorization: bearer  @token@ ",
    "Expect: 100-continue",
    "Expect: 200-ok",
    "Connection: close",
    "Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "Content-Type: text/plain",
    "Content-Type: application/json; charset=utf-16",
    "Content-Encoding: gzip",
    "Accept: text/event-stream",
    "Accept: application/json, text/event-stream",
    "Accept: */*;q=NaN",
    "Mcp-Session-Id: x",
    "Mcp-Session-Id: @session@",
    "Mcp-Protocol-Version: 2025-11-25",
    "Mcp-Protocol-Version: 2026-07-28",
    "Mcp-Protocol-Version: \u{e9}",
    "Mcp-Method: tools/call",
    "Mcp-Name: execute_code",
    "Last-Event-ID: 0",
    "Range: bytes=0-,0-,0-",
    "X-Forwarded-Host: evil.example",
    "X-HTTP-Method-Override: DELETE",
    "Forwarded: for=127.0.0.1;host=localhost",
    "Cookie: a=b",
    "Name With Space: x",
    ": nameless",
    " folded: x",
    "Bare: a\rb",
    "Nul: a\0b",
    "TE: trailers",
];

/// Headers that give the length of a body, `N`.
const FRAMES: &[&str] = &[
    "Content-Length: N\r\nContent-Length: N",
    "Content-Length: N\r\nContent-Length: 5",
    "Content-Length: N, N",
    "Content-Length: +N",
    "Content-Length: -1",
    "Content-Length: 0xN",
    "Content-Length: N ",
    "Content-Length : N",
    "Content-Length: 18446744073709551616",
    "Content-Length: 999999999",
    "Content-Length: 0",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: N",
    "Content-Length: 4\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding:\tchunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding: CHUNKED",
];

/// Lines that begin a chunk. `N` is its length.
const CHUNKS: &[&str] = &[
    "N\r\n",
    "N\r\n",
    "N\r\n",
    "0000000N\r\n",
    "N;name=value\r\n",
    "N;\"\r\n",
    "N \r\n",
    "N\n",
    "+N\r\n",
    "0xN\r\n",
    "-1\r\n",
    "ffffffffffffffff\r\n",
    "10000000000000000\r\n",
    "g\r\n",
    "\r\n",
];

/// Words that make trouble in a request.
const WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    ": ",
    " ",
    "\t",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "HTTP/0.9",
    "%00",
    "%2e%2e%2f",
    "%",
    "?",
    "&",
    "#",
    "=",
    "/",
    "//",
    ";",
    "0\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 7\r\n",
    TOKEN,
    SESSION,
    RUN,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01",
];

/// One input: mostly one request, sometimes several on one connection.
pub(super) fn some(random: &mut Random) -> Vec<u8> {
    let n = if random.once_in(10) { 2 + random.below(4) } else { 1 };
    let mut input: Vec<u8> = (0..n).flat_map(|_| one(random)).collect();
    if random.once_in(5) {
        for _ in 0..=random.below(5) {
            bytes::mutate(&mut input, WORDS, random);
        }
    }
    input
}

fn one(random: &mut Random) -> Vec<u8> {
    let (mut method, target) = random.one_of(TARGETS);
    if random.once_in(12) {
        method = random.one_of(METHODS);
    }
    let mut target = target.to_owned();
    if random.once_in(30) {
        target.push_str(&"/a".repeat([100, 5000, 40_000][random.below(3)]));
    }
    let version = if random.once_in(30) { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{method} {target} {version}\r\n");
    let mut header = |line: &str| {
        // Writing to a String does not fail.
        let _ = write!(head, "{line}\r\n");
    };
    if !random.once_in(20) {
        header("Host: localhost");
    }
    if !random.once_in(6) {
        header(&format!("Authorization: Bearer {TOKEN}"));
    }
    let mut body = body(&target, random);
    if target == "/mcp" && method == "POST" && !random.once_in(4) {
        let headers;
        (body, headers) = messages::stateless(random);
        header(&headers);
    }
    if target == "/mcp" && !random.once_in(6) {
        header("Accept: application/json, text/event-stream");
    }
    if matches!(body.first(), Some(b'{')) && !random.once_in(10) {
        header("Content-Type: application/json");
    }
    for _ in 0..[0, 0, 0, 0, 0, 1, 1, 2, 5][random.below(9)] {
        header(random.one_of(HEADERS));
    }
    if random.once_in(100) {
        let n = [90, 110, 2000][random.below(3)];
        header(&vec!["X: y"; n].join("\r\n"));
    }
    let length = body.len().to_string();
    match random.below(10) {
        0 => {
            let frame = random.one_of(FRAMES).replace('N', &length);
            if frame.to_ascii_lowercase().contains("chunked") {
                body = chunked(&body, random);
            }
            header(&frame);
        }
        _ if body.is_empty() && !matches!(method, "POST" | "PUT") => {}
        _ => header(&format!("Content-Length: {length}")),
    }
    [head.as_bytes(), b"\r\n", &body].concat()
}

/// Fails if the service describes a route that no request is for.
pub(super) fn know_every_route(document: &Value) -> Result<(), String> {
    let paths = document["paths"].as_object().ok_or("the service describes no routes")?;
    for (path, operations) in paths {
        for method in operations.as_object().into_iter().flat_map(|of| of.keys()) {
            let method = method.to_ascii_uppercase();
            if !TARGETS.iter().any(|(known, target)| *known == method && fits(target, path)) {
                return Err(format!("no request is for {method} {path}: add it to TARGETS"));
            }
        }
    }
    Ok(())
}

/// Returns true for a target of the route `path`, whose last `{path}` stands for several segments.
fn fits(target: &str, path: &str) -> bool {
    let target = target.split('?').next().unwrap_or_default();
    let mut target = target.split('/');
    for part in path.split('/') {
        match (part, target.next()) {
            ("{path}", Some(_)) => return true,
            (part, Some(found)) if part.starts_with('{') || part == found => {}
            _ => return false,
        }
    }
    target.next().is_none()
}

fn body(target: &str, random: &mut Random) -> Vec<u8> {
    let mut asked = match target {
        "/mcp" => return messages::one(random),
        "/api/v1/runs" => run(random),
        "/api/v1/sessions" => json!({"read_only": random.once_in(2)}),
        _ if target.contains("/files/") && random.once_in(4) => {
            json!({"edits": [{"old": "y", "new": "z", "all": random.once_in(2)}]})
        }
        _ if target.contains("/files/") => return b"y\n".repeat(random.below(2000)),
        _ if random.once_in(10) => json!({}),
        _ => return Vec::new(),
    };
    for _ in 0..random.below(3) {
        messages::twist(&mut asked, random);
    }
    let mut text = asked.to_string().into_bytes();
    if random.once_in(100) {
        text.resize([60 << 10, (1 << 20) - 1, 1 << 20, 3 << 20][random.below(4)], b' ');
    }
    text
}

fn run(random: &mut Random) -> Value {
    let mut asked = match random.below(6) {
        0 => json!({"code": "print(1)"}),
        1 => json!({"code": "while True: pass", "timeout_s": 0.2}),
        2 => json!({"command": "echo out; echo err >&2"}),
        3 => json!({"command": ["sh", "-c", "sleep 60"], "timeout_s": 0.2}),
        4 => json!({"command": "cat", "stdin": "in", "cwd": "."}),
        _ => json!({"code": "open('a.txt', 'w').write('y\\n' * 2000)", "session": SESSION}),
    };
    if random.once_in(4) {
        asked["background"] = json!(true);
    }
    if random.once_in(4) {
        asked["session"] = json!(SESSION);
    }
    asked
}

/// The same in chunks, some of which are wrong.
fn chunked(body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut chunks = Vec::new();
    for piece in body.chunks(1 + random.below(body.len().max(1))) {
        let length = format!("{:x}", piece.len());
        chunks.extend(random.one_of(CHUNKS).replace('N', &length).bytes());
        chunks.extend(piece);
        chunks.extend(b"\r\n");
        if chunks.len() > 1 << 20 {
            break;
        }
    }
    let end = [
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\nContent-Length: 5\r\nX: y\r\n\r\n",
        "0\r\n",
        "00000\r\n\r\n",
        "",
    ];
    chunks.extend(random.one_of(&end).bytes());
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_requests_again() {
        let several = |seed| {
            let mut random = Random::new(seed);
            (0..200).map(|_| some(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(several(7), several(7));
        assert_ne!(several(7), several(9));
    }
}

//! JSON-RPC messages, from right to hopeless. The same seed makes the same sequence: what only a server can know stands
//! in a message as a word, for which [`Known`] puts in what the server said.

use serde_json::{Value, json};

use super::bytes;
use crate::random::Random;

/// Stands for the id of a session that there is.
pub(super) const SESSION: &str = "@session@";
/// Stands for the id of a run that there was.
pub(super) const RUN: &str = "@run@";

/// Longer than a message may be (16 MiB).
const TOO_LONG_BYTES: usize = 17 << 20;

/// Nesting of a message; `serde_json` stops at 128.
const DEPTHS: &[usize] = &[10, 126, 127, 128, 129, 1000, 100_000];

const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/get",
    "tasks/list",
    "tasks/cancel",
    "sampling/createMessage",
    "roots/list",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "rpc.discover",
    "",
];

const TOOLS: &[&str] = &[
    "execute_code",
    "execute_code",
    "run_command",
    "run_command",
    "session",
    "wait",
    "read_file",
    "write_file",
    "edit_file",
    "list_dir",
    "grep",
    "search",
    "index",
    "session",
    "no_such_tool",
];

const PROGRAMS: &[&str] = &[
    "print(1)",
    "x = 1\nx + 1",
    "1 / 0",
    "import os",
    "x = (",
    "raise SystemExit(3)",
    "print('x' * 100_000)",
    "open('a.txt', 'w').write('y\\n' * 20_000)",
    "import ringfence\nfor n in range(5): ringfence.progress(n, 5, 'going')",
    "while True: pass",
    "a = bytearray(10 ** 10)",
    "print('\\ud800')",
];

const COMMANDS: &[&str] = &[
    "true",
    "exit 3",
    "echo out; echo err >&2",
    "yes | head -c 300000",
    "printf '\\377\\0'",
    "kill -9 $$",
    "cat",
    "sleep 60",
    "sleep 0.1 & sleep 60 &",
];

const PATHS: &[&str] = &[
    "a.txt",
    ".",
    "/workspace/a.txt",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b/c/d.txt",
    ".git/config",
    "a\0b",
    "",
    "%2e%2e/x",
    "dir",
];

const PATTERNS: &[&str] = &["y", "(", "(a*)*b", "a{1000}{1000}", "\\w+", "(?i)é", "[[:alpha:]]"];

const URIS: &[&str] = &[
    "ringfence://runs/@run@/stdout",
    "ringfence://runs/@run@/stdout?offset=5&limit=10",
    "ringfence://runs/@run@/files/a.txt",
    "ringfence://runs/@run@/files/../../x",
    "ringfence://runs//",
    "ringfence://runs/@run@/stderr?offset=18446744073709551615&limit=0",
    "file:///etc/passwd",
    "%ff",
    "",
];

/// Words that make trouble in JSON.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "null",
    "true",
    "NaN",
    "Infinity",
    "\"id\":1,",
    "\"id\":2,",
    "\"jsonrpc\":\"2.0\",",
    "\"method\":\"ping\",",
    "\"params\":",
    "\"_meta\":",
    "//",
    "/**/",
    "\"result\":{},",
    "\"error\":{},",
    SESSION,
    RUN,
];

/// Values of the server's answers that later messages name.
#[derive(Debug, Default)]
pub(super) struct Known {
    session: Option<String>,
    run: Option<String>,
}

impl Known {
    /// Remembers what a result names.
    pub(super) fn learn(&mut self, result: &Value) {
        for (last, field) in [(&mut self.session, "session_id"), (&mut self.run, "run_id")] {
            if let Some(name) = result[field].as_str() {
                *last = Some(name.to_owned());
            }
        }
    }

    /// Puts names where words stand for them.
    pub(super) fn fill(&self, input: &[u8]) -> Vec<u8> {
        let name = |name: &Option<String>| name.as_deref().unwrap_or("none").to_owned();
        replace(&replace(input, SESSION, &name(&self.session)), RUN, &name(&self.run))
    }
}

/// Puts a text where a word stands.
pub(super) fn replace(input: &[u8], word: &str, text: &str) -> Vec<u8> {
    let mut filled = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.windows(word.len()).position(|w| w == word.as_bytes()) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(text.as_bytes());
        rest = &rest[at + word.len()..];
    }
    filled.extend_from_slice(rest);
    filled
}

/// One input: mostly one line, sometimes several that belong together.
pub(super) fn lines(random: &mut Random) -> Vec<u8> {
    let mut input = match random.below(40) {
        0 => batch(random),
        1 => cancelled(random),
        2 => deep(random),
        3 if random.once_in(20) => vec![b'x'; TOO_LONG_BYTES],
        3 => long(random),
        4 => twins(random),
        _ => one(random),
    };
    input.push(b'\n');
    input
}

/// One message without its newline.
pub(super) fn one(random: &mut Random) -> Vec<u8> {
    let mut message = right(random);
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 4][random.below(8)] {
        // What is no message at all is seldom read far.
        let part = if random.once_in(6) { None } else { message.get_mut("params") };
        match part {
            Some(params) => twist(params, random),
            None => twist(&mut message, random),
        }
    }
    let mut text = message.to_string().into_bytes();
    if random.once_in(6) {
        for _ in 0..=random.below(4) {
            bytes::mutate(&mut text, WORDS, random);
        }
    }
    text
}

/// One message of the stateless protocol, with the headers that repeat over HTTP what it says; wrong in its arguments at most.
pub(super) fn stateless(random: &mut Random) -> (Vec<u8>, String) {
    let mut message = right(random);
    for _ in 0..random.below(2) {
        twist(&mut message["params"], random);
    }
    if message["params"].is_object() {
        message["params"]["_meta"] = about("fuzz");
    }
    let method = message["method"].as_str().unwrap_or_default();
    let mut headers = format!("Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}");
    let name = ["name", "uri"].iter().find_map(|field| message["params"][field].as_str());
    if let Some(name) = name.filter(|name| name.is_ascii() && !name.contains(char::is_control)) {
        headers.push_str("\r\nMcp-Name: ");
        headers.push_str(name);
    }
    (message.to_string().into_bytes(), headers)
}

/// Metadata that a client of the stateless protocol sends with every request.
pub(super) fn about(name: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Something in the place of one value of a tree.
pub(super) fn twist(tree: &mut Value, random: &mut Random) {
    let mut n_left = random.below(n_values(tree));
    let value = odd(random);
    let Some(place) = nth(tree, &mut n_left) else { return };
    match (random.below(4), place) {
        (0, Value::Object(fields)) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if !names.is_empty() {
                fields.remove(&names[random.below(names.len())]);
            }
        }
        (1, Value::Object(fields)) => drop(fields.insert(random.one_of(METHODS).to_owned(), value)),
        (2, Value::Array(items)) => items.push(value),
        (_, place) => *place = value,
    }
}

/// A message that nothing is wrong with, except perhaps its id.
fn right(random: &mut Random) -> Value {
    let method = match random.below(3) {
        0 => random.one_of(METHODS),
        1 => random.one_of(&["resources/read", "resources/list", "tools/list", "ping"]),
        _ => "tools/call",
    };
    let mut params = match method {
        "tools/call" => call(random),
        "resources/read" => json!({"uri": random.one_of(URIS)}),
        "initialize" => json!({
            "protocolVersion": random.one_of(&["2025-11-25", "2025-06-18", "2024-11-05", "2026-07-28", "9999"]),
            "capabilities": {"roots": {"listChanged": true}}, "clientInfo": {"name": "fuzz", "version": "1"},
        }),
        "notifications/cancelled" => json!({"requestId": id(random), "reason": "no more"}),
        "notifications/progress" => json!({"progressToken": id(random), "progress": 1}),
        _ if random.once_in(4) => json!({"cursor": "x"}),
        _ => json!({}),
    };
    // Understood with a hello and without one.
    if !random.once_in(4) {
        params["_meta"] = about("fuzz");
    }
    if random.once_in(6) {
        params["_meta"]["progressToken"] = id(random);
    }
    let mut message =
        json!({"jsonrpc": "2.0", "id": id(random), "method": method, "params": params});
    if method.starts_with("notifications/") {
        message.as_object_mut().map(|fields| fields.remove("id"));
    }
    message
}

/// Fails if the server lists a tool that no message calls.
pub(super) fn know_every_tool(listed: &Value) -> Result<(), String> {
    let tools = listed["result"]["tools"].as_array().filter(|tools| !tools.is_empty());
    let tools = tools.ok_or_else(|| format!("tools/list was answered with {listed}"))?;
    let mut names = tools.iter().filter_map(|tool| tool["name"].as_str());
    match names.find(|name| !TOOLS.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!("no message calls the tool `{name}`: add it to TOOLS")),
    }
}

fn call(random: &mut Random) -> Value {
    let tool = random.one_of(TOOLS);
    let mut arguments = match tool {
        "execute_code" => json!({"code": random.one_of(PROGRAMS), "timeout_s": 0.3}),
        "run_command" => json!({"command": random.one_of(COMMANDS), "timeout_s": 0.3}),
        "wait" => json!({"run_id": RUN}),
        "read_file" | "list_dir" | "index" => {
            json!({"session": SESSION, "path": random.one_of(PATHS)})
        }
        "write_file" => {
            json!({"session": SESSION, "path": random.one_of(PATHS), "content": "y\nz\n"})
        }
        "edit_file" => {
            let edits = json!([{"old": "y", "new": "yy", "all": random.once_in(2)}]);
            json!({"session": SESSION, "path": random.one_of(PATHS), "edits": edits})
        }
        "grep" => json!({"session": SESSION, "pattern": random.one_of(PATTERNS)}),
        "search" => json!({"session": SESSION, "query": random.one_of(PATTERNS)}),
        "session" => {
            let action = random.one_of(&["create", "info", "fork", "rollback", "close", "create"]);
            json!({"action": action, "session": SESSION})
        }
        _ => json!({}),
    };
    if matches!(tool, "execute_code" | "run_command") && random.once_in(2) {
        arguments["session"] = json!(SESSION);
    }
    if tool == "session" && random.once_in(2) {
        arguments.as_object_mut().map(|fields| fields.remove("session"));
    }
    json!({"name": tool, "arguments": arguments})
}

/// Ids that may be, ids that may not, and some that are in use.
fn id(random: &mut Random) -> Value {
    match random.below(40) {
        0 => json!(random.below(4)),
        1 => json!(format!("text {}", random.below(1000))),
        2 => json!(-1),
        3 => odd(random),
        4 => json!(i64::MAX),
        5 => json!(""),
        _ => json!(random.next() >> 20),
    }
}

/// An unexpected value.
fn odd(random: &mut Random) -> Value {
    match random.below(18) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(1.5),
        5 => json!(u64::MAX),
        6 => json!(1e300),
        7 => json!(""),
        8 => json!([]),
        9 => json!({}),
        10 => json!([[[[[[]]]]]]),
        11 => json!("x".repeat([100, 5000, 70_000][random.below(3)])),
        12 => json!(vec![0; [10, 1100, 5000][random.below(3)]]),
        13 => json!("\0\u{202e}\u{feff}\u{1b}[2J"),
        14 => json!(SESSION),
        15 => json!(random.one_of(PATHS)),
        16 => json!(random.one_of(URIS)),
        _ => json!({"name": {"name": {"name": "name"}}}),
    }
}

fn batch(random: &mut Random) -> Vec<u8> {
    let n = [0, 1, 2, 20][random.below(4)];
    let messages: Vec<Value> = (0..n).map(|_| right(random)).collect();
    json!(messages).to_string().into_bytes()
}

/// A call and its cancellation, as close as they can be; sometimes in the wrong order.
fn cancelled(random: &mut Random) -> Vec<u8> {
    let id = json!(format!("race {}", random.next() >> 20));
    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call(random)});
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    let mut order = [call.to_string(), cancel.to_string(), cancel.to_string()];
    let (a, b) = (random.below(3), random.below(3));
    order.swap(a, b);
    order.join("\n").into_bytes()
}

/// Two requests with one id.
fn twins(random: &mut Random) -> Vec<u8> {
    let message = right(random);
    format!("{message}\n{message}").into_bytes()
}

fn deep(random: &mut Random) -> Vec<u8> {
    let n = random.one_of(DEPTHS);
    let (open, close) = random.one_of(&[("[", "]"), ("{\"a\":", "}"), ("{\"params\":", "}")]);
    let close = if random.once_in(3) { String::new() } else { close.repeat(n) };
    let tree = format!("{}0{close}", open.repeat(n));
    match random.below(2) {
        0 => tree.into_bytes(),
        _ => format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{tree}}}"#)
            .into_bytes(),
    }
}

/// Long in one of the ways there are: a text, a list, a name.
fn long(random: &mut Random) -> Vec<u8> {
    let n = [60 << 10, 70 << 10, 900 << 10, 3 << 20][random.below(4)];
    let mut message = right(random);
    match random.below(4) {
        0 => message["params"]["arguments"]["content"] = json!("x".repeat(n)),
        1 => message["params"]["list"] = json!(vec![0; n / 16]),
        2 => message["method"] = json!("m".repeat(n)),
        _ => message["id"] = json!("i".repeat(n)),
    }
    message.to_string().into_bytes()
}

fn n_values(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(n_values).sum(),
        Value::Object(fields) => fields.values().map(n_values).sum(),
        _ => 0,
    }
}

/// The value that has so many before it.
fn nth<'a>(tree: &'a mut Value, n_left: &mut usize) -> Option<&'a mut Value> {
    if *n_left == 0 {
        return Some(tree);
    }
    *n_left -= 1;
    match tree {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n_left)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth(item, n_left)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_lines_again() {
        let some = |seed| {
            let mut random = Random::new(seed);
            (0..200).map(|_| lines(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(some(7), some(7));
        assert_ne!(some(7), some(9));
    }

    #[test]
    fn what_the_server_said_stands_where_a_word_stood() {
        let mut known = Known::default();
        assert_eq!(known.fill(b"a @session@ b"), b"a none b");
        known.learn(&json!({"session_id": "s1", "run_id": "r1"}));
        assert_eq!(known.fill(b"@run@@session@ @run"), b"r1s1 @run");
    }
}

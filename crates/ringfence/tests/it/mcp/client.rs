//! A client that speaks to `ringfence mcp` line by line, and believes nothing: every line must be a message, every result must fit the
//! schema its tool announced.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ringfence_testing::{BoundedCommand as _, Json, Running, json, limit};

use crate::support::World;

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_mins(3);

/// One client and its server.
pub(crate) struct Client {
    server: Running,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    n_sent: u64,
    schemas: HashMap<String, Json>,
    /// Every notification so far.
    pub(super) notifications: Vec<Json>,
}

impl Client {
    /// Starts a server, says hello, and reads the list of tools.
    pub(crate) fn new(world: &World, flags: &[&str]) -> Self {
        let mut client = Self::silent(world, flags);
        let hello = client.hello("2025-11-25");
        assert_eq!(hello["result"]["protocolVersion"], "2025-11-25", "{hello}");
        for tool in client.request("tools/list", &json!({}))["result"]["tools"].as_array().unwrap()
        {
            let name = tool["name"].as_str().unwrap().to_owned();
            client.schemas.insert(name, tool["outputSchema"].clone());
        }
        client
    }

    /// Starts a server and says nothing.
    pub(crate) fn silent(world: &World, flags: &[&str]) -> Self {
        let mut server = world
            .command(&[&["mcp"], flags].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // It serves a whole test, or a table of them.
            .bounded_spawn_within(10 * limit())
            .unwrap();
        let stdout = BufReader::new(server.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = server.stdin.take();
        Self { server, stdin, lines, n_sent: 0, schemas: HashMap::new(), notifications: Vec::new() }
    }

    pub(crate) fn hello(&mut self, version: &str) -> Json {
        self.hello_with(version, &json!({}))
    }

    /// The same of a client that can do these things.
    pub(super) fn hello_with(&mut self, version: &str, capabilities: &Json) -> Json {
        let hello = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.request("initialize", &hello);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    pub(super) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.server)
    }

    /// Writes bytes as they are.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(super) fn send(&mut self, message: &Json) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns its id.
    pub(super) fn begin(&mut self, method: &str, params: &Json) -> u64 {
        self.n_sent += 1;
        let id = self.n_sent;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message, which must be one.
    pub(super) fn message(&mut self) -> Json {
        self.next_message().expect("the server says something")
    }

    /// The same, or none if the server ended.
    pub(super) fn next_message(&mut self) -> Option<Json> {
        let line = self.lines.recv_timeout(PATIENCE).ok()?;
        let message = Json::parse(&line);
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        Some(message)
    }

    /// The answer to a request. Whatever else comes is a notification.
    pub(super) fn answer(&mut self, id: u64) -> Json {
        loop {
            let message = self.message();
            if message.get("id").is_some_and(|answered| *answered == id) {
                return message;
            }
            assert!(message.get("id").is_none() && message["method"].is_string(), "{message}");
            self.notifications.push(message);
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: &Json) -> Json {
        let id = self.begin(method, params);
        self.answer(id)
    }

    pub(super) fn begin_call(&mut self, tool: &str, arguments: &Json) -> u64 {
        self.begin("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and waits for the run's end, as often as a busy machine needs it.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Json) -> Called {
        let mut called = self.call_once(tool, arguments);
        while called.status() == "running" {
            called = self.call_once("wait", &json!({"run_id": called.data["run_id"]}));
        }
        called
    }

    /// Calls a tool once, whose run may go on; the result is whole and fits the tool's schema.
    pub(crate) fn call_once(&mut self, tool: &str, arguments: &Json) -> Called {
        let id = self.begin_call(tool, arguments);
        let answer = self.answer(id);
        let result = &answer["result"];
        let data = result["structuredContent"].clone();
        fits(&self.schemas[tool], &data, tool);
        let fine = data["status"] == "ok" || data["status"] == "running";
        assert_eq!(result["isError"], !fine, "{answer}");
        let content = result["content"].as_array().unwrap().clone();
        let text = content[0]["text"].as_str().unwrap().to_owned();
        assert!(!text.is_empty() && text.len() < 40_000, "{text}");
        Called { data, text, content }
    }

    /// Closes stdin and waits for the end: how it ended, and how long that took.
    pub(super) fn leave(mut self) -> (ExitStatus, Duration) {
        self.close();
        self.end()
    }

    /// Closes stdin.
    pub(super) fn close(&mut self) {
        drop(self.stdin.take());
    }

    /// The id of the last request.
    pub(super) fn last_id(&self) -> u64 {
        self.n_sent
    }

    /// Waits for the end of a server that was told to.
    pub(super) fn end(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        let status = self.server.wait().unwrap();
        (status, began.elapsed())
    }
}

/// What a tool gave back.
pub(crate) struct Called {
    pub(crate) data: Json,
    pub(crate) text: String,
    pub(crate) content: Vec<Json>,
}

impl Called {
    /// `status`.
    pub(super) fn status(&self) -> &str {
        self.data["status"].as_str().unwrap()
    }
}

/// Checks a value against a schema, as far as ours go: type, enum, properties, required, items.
fn fits(schema: &Json, value: &Json, at: &str) {
    if let Some(types) = schema.get("type") {
        let types = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        let one = |name: &Json| match name.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("{at}: {other}"),
        };
        assert!(types.iter().any(one), "{at} is {value}, not {types:?}");
    }
    if let Some(words) = schema.get("enum") {
        assert!(words.as_array().unwrap().contains(value), "{at} is {value}");
    }
    for name in schema.get("required").and_then(Json::as_array).into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at} has no {name}: {value}");
    }
    for (name, schema) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if let Some(value) = value.get(name) {
            fits(schema, value, &format!("{at}.{name}"));
        }
    }
    if let (Some(schema), Some(items)) = (schema.get("items"), value.as_array()) {
        for item in items {
            fits(schema, item, &format!("{at}[]"));
        }
    }
}

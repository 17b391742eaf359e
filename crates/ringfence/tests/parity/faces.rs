//! Five ways to ask the same.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use ringfence_testing::{BoundedCommand as _, Running, limit};
use serde_json::{Value, json};

use crate::support::World;
use crate::{http, mcp};

/// Whoever can be asked.
pub(crate) trait Face {
    fn name(&self) -> &'static str;
    /// Asks, and returns the outcome.
    fn ask(&mut self, asked: &Value) -> Value;
    /// What else than REST's its outcome may have, by JSON pointer.
    fn own(&self, _asked: &Value) -> &'static [&'static str] {
        &[]
    }
}

/// A result has to fit a context window; what it leaves out of long output is behind a link.
pub(crate) const SHORTENED: &[&str] = &["/stdout", "/truncated/dropped_bytes"];

/// On the command line every program has an interpreter of its own instead of a worker, and so another plan.
const ALONE: &[&str] = &["/enforcement/policy_sha256", "/enforcement/resources", "/unobserved"];

/// What an agent's command has where nobody says otherwise; on the command line it is 10 minutes.
const COMMAND_TIMEOUT: &str = "300s";

/// Every face, in one workspace.
pub(crate) fn all(world: &World) -> Vec<Box<dyn Face + '_>> {
    vec![
        Box::new(Rest(http::Server::new(world))),
        Box::new(McpHttp(http::Server::new(world))),
        Box::new(McpStdio(mcp::Client::new(world, &[]))),
        Box::new(Library::new(world)),
        Box::new(CommandLine(world)),
    ]
}

struct Rest(http::Server);

impl Face for Rest {
    fn name(&self) -> &'static str {
        "REST"
    }

    fn ask(&mut self, asked: &Value) -> Value {
        self.0.run(asked).json()
    }
}

struct McpHttp(http::Server);

impl Face for McpHttp {
    fn name(&self) -> &'static str {
        "MCP over HTTP"
    }

    fn ask(&mut self, asked: &Value) -> Value {
        let tool = tool(asked);
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": asked, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }});
        let headers = [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("Mcp-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", tool),
        ];
        let mut client = self.0.client();
        let answer = client.send("POST", "/mcp", &headers, message.to_string().as_bytes());
        answer.json()["result"]["structuredContent"].take()
    }

    fn own(&self, _asked: &Value) -> &'static [&'static str] {
        SHORTENED
    }
}

struct McpStdio(mcp::Client);

impl Face for McpStdio {
    fn name(&self) -> &'static str {
        "MCP over stdio"
    }

    fn ask(&mut self, asked: &Value) -> Value {
        self.0.call(tool(asked), asked).data
    }

    fn own(&self, _asked: &Value) -> &'static [&'static str] {
        SHORTENED
    }
}

fn tool(asked: &Value) -> &'static str {
    if asked["code"].is_string() { "execute_code" } else { "run_command" }
}

/// This program again, as [`crate::library`].
struct Library {
    child: Running,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Library {
    fn new(world: &World) -> Self {
        let mut command = world.here(Command::new(std::env::current_exe().unwrap()));
        command.arg("--library").arg(world.root().join("library"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // It answers every row.
        let mut child = command.bounded_spawn_within(10 * limit()).unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }
}

impl Face for Library {
    fn name(&self) -> &'static str {
        "library"
    }

    fn ask(&mut self, asked: &Value) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{asked}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("the library gave no outcome ({e}): {line}"))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // It ends with its stdin.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

struct CommandLine<'a>(&'a World);

impl Face for CommandLine<'_> {
    fn name(&self) -> &'static str {
        "command line"
    }

    fn ask(&mut self, asked: &Value) -> Value {
        let timeout = asked["timeout_s"].as_f64().map(|s| format!("{}ms", (s * 1000.0).round()));
        let args = match (asked["code"].as_str(), asked["command"].as_str()) {
            (Some(code), _) => {
                let timeout =
                    timeout.as_deref().map_or(vec![], |timeout| vec!["--timeout", timeout]);
                [&["exec", "--json"], &timeout[..], &["-c", code]].concat()
            }
            (_, Some(line)) => {
                let timeout = timeout.as_deref().unwrap_or(COMMAND_TIMEOUT);
                vec!["run", "--json", "--timeout", timeout, "--", "sh", "-c", line]
            }
            _ => unreachable!("a row asks for code or a command"),
        };
        self.0.ringfence(&args).json()
    }
    fn own(&self, asked: &Value) -> &'static [&'static str] {
        if asked["code"].is_string() { ALONE } else { &[] }
    }
}

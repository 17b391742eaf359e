//! Every way to ask the same.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use ringfence_testing::{BoundedCommand as _, Json, Running, json, limit};

use crate::support::World;
use crate::{http, mcp};

/// Whoever can be asked.
pub(crate) trait Face {
    fn name(&self) -> &'static str;
    /// Asks, and returns the outcome.
    fn ask(&mut self, asked: &Json) -> Json;
    /// Returns true if it can be asked that.
    fn takes(&self, _asked: &Json) -> bool {
        true
    }
    /// What else than REST's its outcome may have, by JSON pointer.
    fn own(&self, _asked: &Json) -> &'static [&'static str] {
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
pub(crate) fn all<'a>(world: &'a World, operator: &str) -> Vec<Box<dyn Face + 'a>> {
    vec![
        Box::new(Rest(http::Server::new(world))),
        Box::new(McpHttp(http::Server::new(world))),
        Box::new(McpStdio(mcp::Client::new(world, &[]))),
        Box::new(Lines::library(world, operator)),
        Box::new(Lines::batch(world)),
        Box::new(Lines::repl(world)),
        Box::new(CommandLine(world)),
    ]
}

struct Rest(http::Server);

impl Face for Rest {
    fn name(&self) -> &'static str {
        "REST"
    }

    fn ask(&mut self, asked: &Json) -> Json {
        self.0.run(asked).json()
    }
}

struct McpHttp(http::Server);

impl Face for McpHttp {
    fn name(&self) -> &'static str {
        "MCP over HTTP"
    }

    fn ask(&mut self, asked: &Json) -> Json {
        let mut data = self.call(tool(asked), asked);
        // A slow machine's run outlasts its call.
        while data["status"] == "running" {
            data = self.call("wait", &json!({"run_id": data["run_id"]}));
        }
        data
    }

    fn own(&self, _asked: &Json) -> &'static [&'static str] {
        SHORTENED
    }
}

impl McpHttp {
    fn call(&self, tool: &str, arguments: &Json) -> Json {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments, "_meta": {
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
        answer.json()["result"]["structuredContent"].clone()
    }
}

struct McpStdio(mcp::Client);

impl Face for McpStdio {
    fn name(&self) -> &'static str {
        "MCP over stdio"
    }

    fn ask(&mut self, asked: &Json) -> Json {
        self.0.call(tool(asked), asked).data
    }

    fn own(&self, _asked: &Json) -> &'static [&'static str] {
        SHORTENED
    }
}

fn tool(asked: &Json) -> &'static str {
    if asked.get("code").is_some() { "execute_code" } else { "run_command" }
}

/// A process that answers a line with a line.
struct Lines {
    kind: Kind,
    child: Running,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// This program again, as [`crate::library`].
    Library,
    /// `ringfence batch`.
    Batch,
    /// `ringfence repl --json`.
    Repl,
}

/// A REPL has one worker instead of a pool, and so another plan; a cell that went wrong is undone, which its hint says.
const REPL: &[&str] = &[
    "/enforcement/policy_sha256",
    "/enforcement/resources",
    "/unobserved",
    "/error/hint",
    "/denials",
];

/// In a batch a command has the command line's time.
const BATCH: &[&str] = &["/enforcement/policy_sha256"];

impl Lines {
    fn library(world: &World, operator: &str) -> Self {
        let mut command = world.here(Command::new(std::env::current_exe().unwrap()));
        command.arg("--library").arg(world.root().join("library"));
        command.env("RINGFENCE_TEST_OPERATOR", operator);
        Self::new(Kind::Library, command)
    }

    fn batch(world: &World) -> Self {
        Self::new(Kind::Batch, world.command(&["batch"]))
    }

    fn repl(world: &World) -> Self {
        Self::new(Kind::Repl, world.command(&["repl", "--json"]))
    }

    fn new(kind: Kind, mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // It answers every row.
        let mut child = command.bounded_spawn_within(10 * limit()).unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { kind, child, stdin, stdout }
    }
}

impl Face for Lines {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Library => "library",
            Kind::Batch => "batch",
            Kind::Repl => "repl",
        }
    }

    fn takes(&self, asked: &Json) -> bool {
        self.kind != Kind::Repl || (asked.get("code").is_some() && asked.get("timeout_s").is_none())
    }

    fn ask(&mut self, asked: &Json) -> Json {
        let line = match self.kind {
            Kind::Library => asked.clone(),
            Kind::Repl => asked["code"].clone(),
            Kind::Batch => {
                let mut item = json!({"id": 1});
                for name in ["code", "command"] {
                    if let Some(text) = asked.get(name) {
                        item.insert(name, text.clone());
                    }
                }
                if let Some(seconds) = asked.get("timeout_s").and_then(Json::as_f64) {
                    let time = std::time::Duration::from_secs_f64(seconds);
                    item.insert("timeout_ms", u64::try_from(time.as_millis()).unwrap());
                }
                item
            }
        };
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        let mut answer: Json = serde_json::from_str(&answer)
            .unwrap_or_else(|e| panic!("{} gave no outcome ({e}): {answer}", self.name()));
        answer.as_object_mut().unwrap().remove("id");
        answer
    }

    fn own(&self, asked: &Json) -> &'static [&'static str] {
        match self.kind {
            Kind::Batch if asked.get("command").is_some() => BATCH,
            Kind::Library | Kind::Batch => &[],
            Kind::Repl => REPL,
        }
    }
}

impl Drop for Lines {
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

    fn ask(&mut self, asked: &Json) -> Json {
        let timeout = asked.get("timeout_s").and_then(Json::as_f64);
        let timeout = timeout.map(|s| format!("{}ms", (s * 1000.0).round()));
        let text = |name: &str| asked.get(name).and_then(Json::as_str);
        let args = match (text("code"), text("command")) {
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
    fn own(&self, asked: &Json) -> &'static [&'static str] {
        if asked.get("code").is_some() { ALONE } else { &[] }
    }
}

//! Time of a call to a running server: Python over MCP and over HTTP, a cell of a session and a command over HTTP. Asked in
//! turn with their peers, so that other work of the host slows all of them: `FastMCP`'s `CodeMode`, which runs Python in an
//! interpreter of its own, `bwrap … true`, and with `--before` another build of Ringfence. Installs `FastMCP` with pip below
//! the target directory, once. Names the peers that are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::mcp_client::McpClient;
use crate::percentiles::Percentiles;
use crate::service::{Connection, Service};
use crate::{CannotTry, Verdict, millis, program};

/// The release that was tried.
const FASTMCP: &str = "fastmcp[code-mode]==4.1.2";

/// `FastMCP`'s server: its smallest, with what runs code.
const PEER: &str = "from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
FastMCP('peer', transforms=[CodeMode()]).run(show_banner=False, log_level='ERROR')";

/// Bubblewrap with the usual namespaces, and the command that is measured.
const BUBBLEWRAP: &str =
    "--unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --die-with-parent true";

/// Calls that are not counted: interpreters and caches get warm.
const WARM_UP: usize = 20;

/// Starts that are measured.
const STARTS: usize = 9;

#[derive(Debug, Args)]
pub(crate) struct LatencyArgs {
    /// The binary to measure; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Another binary of Ringfence, measured in turn with the first
    #[arg(long)]
    before: Option<PathBuf>,
    /// Number of calls of each
    #[arg(long, default_value_t = 500)]
    calls: usize,
    /// Pause before each call, in milliseconds
    #[arg(long, default_value_t = 10)]
    pause: u64,
}

pub(crate) fn latency(args: &LatencyArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let builds: Vec<(&str, &Path)> =
        [("ringfence", Some(&binary)), ("before", args.before.as_ref())]
            .into_iter()
            .filter_map(|(name, binary)| Some((name, binary?.as_path())))
            .collect();
    let dir = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
    let mut servers = Vec::new();
    for (name, binary) in &builds {
        let data = dir.path().join(name);
        let mut command = Command::new(binary);
        command.args(["mcp", "--data-dir"]).arg(data).current_dir(dir.path());
        servers.push(McpServer { name, command, tool: "execute_code", code: "print(1)" });
    }
    match install() {
        Ok(python) => {
            let mut command = Command::new(python);
            command.args(["-c", PEER]).current_dir(dir.path());
            let (tool, code) = ("execute", "return 1");
            servers.push(McpServer { name: "FastMCP CodeMode", command, tool, code });
        }
        Err(problem) => println!("without FastMCP: {problem}"),
    }
    measure_starts(&mut servers)?;
    let services = builds
        .iter()
        .map(|(name, binary)| {
            // Its rate limit is for clients of other kinds.
            let service = Service::start(binary, &["--rate-per-minute", "off"]);
            Ok((*name, service.map_err(|why| format!("{name}: {why}"))?))
        })
        .collect::<Result<Vec<_>, CannotTry>>()?;
    let mut calls = Vec::new();
    for server in &mut servers {
        calls.push(server.call()?);
    }
    for over_http in [Call::code, Call::cell, Call::command] {
        for (name, service) in &services {
            calls.push(over_http(name, service).map_err(|e| format!("{name}: {e}"))?);
        }
    }
    match Command::new("bwrap").arg("--version").output() {
        Ok(_) => calls.push(Call::new("command", "bwrap", Client::Bubblewrap)),
        Err(problem) => println!("without bwrap: {problem}"),
    }
    measure_calls(&mut calls, args.calls, Duration::from_millis(args.pause))?;
    println!("calls to running servers, {} of each", args.calls);
    for call in calls {
        let took = Percentiles::of(call.took_ms);
        let (kind, name) = (call.kind, call.name);
        println!("  {kind:20} {name:18} p50 {:7.3} ms  p99 {:7.3} ms", took.p50, took.p99);
    }
    Ok(Verdict::Held)
}

/// Measures and prints the time from the start of each server to its list of tools.
fn measure_starts(servers: &mut [McpServer]) -> Result<(), CannotTry> {
    let mut starts_ms = vec![Vec::new(); servers.len()];
    for _ in 0..STARTS {
        for (server, starts_ms) in servers.iter_mut().zip(&mut starts_ms) {
            let began = Instant::now();
            server.start()?.request("tools/list", &json!({}))?;
            starts_ms.push(millis(began.elapsed()));
        }
    }
    println!("start to the answer to tools/list, {STARTS} of each");
    for (server, starts_ms) in servers.iter().zip(starts_ms) {
        println!("  {:18} p50 {:8.1} ms", server.name, Percentiles::of(starts_ms).p50);
    }
    Ok(())
}

fn measure_calls(calls: &mut [Call], n: usize, pause: Duration) -> Result<(), CannotTry> {
    for round in 0..WARM_UP + n {
        // Each goes first in its turn, so that none always follows the same other.
        for offset in 0..calls.len() {
            let at = (round + offset) % calls.len();
            let call = &mut calls[at];
            std::thread::sleep(pause);
            let began = Instant::now();
            let answer = call.client.call();
            let took = began.elapsed();
            answer.map_err(|why| format!("{}, {}: {why}", call.name, call.kind))?;
            if round >= WARM_UP {
                call.took_ms.push(millis(took));
            }
        }
    }
    Ok(())
}

/// A server of MCP over stdio.
struct McpServer {
    name: &'static str,
    command: Command,
    /// Tool that runs code, and the code.
    tool: &'static str,
    code: &'static str,
}

impl McpServer {
    fn start(&mut self) -> Result<McpClient, CannotTry> {
        let client = McpClient::start(&mut self.command, "latency");
        client.map_err(|why| format!("{}: {why}", self.name))
    }

    /// Starts it and returns the call of its tool.
    fn call(&mut self) -> Result<Call, CannotTry> {
        let client = self.start()?;
        let arguments = json!({"code": self.code});
        let client = Client::Mcp { client: Box::new(client), tool: self.tool, arguments };
        Ok(Call::new("Python over MCP", self.name, client))
    }
}

/// A call, and the times that were measured.
struct Call {
    kind: &'static str,
    name: &'static str,
    client: Client,
    took_ms: Vec<f64>,
}

impl Call {
    fn new(kind: &'static str, name: &'static str, client: Client) -> Self {
        Self { kind, name, client, took_ms: Vec::new() }
    }

    fn code(name: &'static str, service: &Service) -> std::io::Result<Self> {
        let client = Client::http(service.connect()?, json!({"code": "print(1)"}));
        Ok(Self::new("Python over HTTP", name, client))
    }

    fn cell(name: &'static str, service: &Service) -> std::io::Result<Self> {
        let mut connection = service.connect()?;
        let session = connection.post("/api/v1/sessions", &json!({}))?;
        let session: Value = serde_json::from_str(&session)?;
        let run = json!({"code": "print(1)", "session": session["id"]});
        Ok(Self::new("cell over HTTP", name, Client::http(connection, run)))
    }

    fn command(name: &'static str, service: &Service) -> std::io::Result<Self> {
        let client = Client::http(service.connect()?, json!({"command": ["true"]}));
        Ok(Self::new("command over HTTP", name, client))
    }
}

/// The way to a server, or to a program without one.
enum Client {
    Mcp { client: Box<McpClient>, tool: &'static str, arguments: Value },
    Http { connection: Connection, run: Value },
    Bubblewrap,
}

impl Client {
    fn http(connection: Connection, run: Value) -> Self {
        Self::Http { connection, run }
    }

    /// Calls once. An answer that is no success is an error.
    fn call(&mut self) -> Result<(), CannotTry> {
        match self {
            Self::Mcp { client, tool, arguments } => {
                let answer = client.call(tool, arguments)?;
                if answer["isError"] == true || answer["content"].is_null() {
                    return Err(answer.to_string());
                }
            }
            Self::Http { connection, run } => {
                let answer = connection.run(run).map_err(|e| e.to_string())?;
                if !answer.contains("\"status\":\"ok\"") {
                    return Err(answer);
                }
            }
            Self::Bubblewrap => {
                let mut command = Command::new("bwrap");
                command.args(BUBBLEWRAP.split(' ')).stdin(Stdio::null());
                let status = command.status().map_err(|e| e.to_string())?;
                if !status.success() {
                    return Err(status.to_string());
                }
            }
        }
        Ok(())
    }
}

/// Installs `FastMCP` and returns the Python that has it.
fn install() -> Result<PathBuf, CannotTry> {
    let dir = program::target_dir().join("latency");
    program::python_env(&dir, &[FASTMCP])?;
    Ok(dir.join("bin/python"))
}

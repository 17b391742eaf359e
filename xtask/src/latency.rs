//! What a call over MCP takes: `ringfence mcp` and `FastMCP`'s `CodeMode`, which runs Python in an interpreter of its own kind,
//! asked in turn, so that whatever else the host does meets both. Installs `FastMCP` with pip below the target directory,
//! once; where that cannot be done, Ringfence is measured alone, and it is said.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::mcp_client::McpClient;
use crate::percentiles::Percentiles;
use crate::{CannotTry, Verdict, millis, program};

/// The release that was tried.
const FASTMCP: &str = "fastmcp[code-mode]==4.1.2";

/// `FastMCP`'s server: its smallest, with what runs code.
const PEER: &str = "from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode
FastMCP('peer', transforms=[CodeMode()]).run(show_banner=False, log_level='ERROR')";

/// Calls that are not counted: interpreters and caches get warm.
const WARM_UP: usize = 20;

/// Starts that are measured.
const STARTS: usize = 9;

#[derive(Debug, Args)]
pub(crate) struct LatencyArgs {
    /// The binary to measure; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How many calls of each
    #[arg(long, default_value_t = 500)]
    calls: usize,
    /// What to wait before each call, in milliseconds
    #[arg(long, default_value_t = 10)]
    pause: u64,
}

pub(crate) fn latency(args: &LatencyArgs) -> Result<Verdict, CannotTry> {
    let binary = program::ringfence(args.binary.as_ref())?;
    let data = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
    let mut ringfence = Command::new(binary);
    ringfence.args(["mcp", "--data-dir"]).arg(data.path()).current_dir(data.path());
    let mut servers = vec![Server::new("ringfence", ringfence, "execute_code", "print(1)")];
    match install() {
        Ok(python) => {
            let mut peer = Command::new(python);
            peer.args(["-c", PEER]).current_dir(data.path());
            servers.push(Server::new("FastMCP CodeMode", peer, "execute", "return 1"));
        }
        Err(problem) => println!("without FastMCP: {problem}"),
    }
    for _ in 0..STARTS {
        for server in &mut servers {
            server.measure_start()?;
        }
    }
    let mut live = servers.iter_mut().map(Server::start).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..WARM_UP {
        for (server, client) in servers.iter().zip(&mut live) {
            server.call(client)?;
        }
    }
    for round in 0..args.calls {
        // First one, then the other goes first, so that neither always follows the other.
        for n in 0..servers.len() {
            let at = (round + n) % servers.len();
            std::thread::sleep(Duration::from_millis(args.pause));
            let took = servers[at].call(&mut live[at])?;
            servers[at].calls_ms.push(took);
        }
    }
    println!(
        "start to the answer to tools/list, {STARTS} of each; a warm call, {} of each",
        args.calls
    );
    for server in servers {
        let (starts, calls) = (Percentiles::of(server.starts_ms), Percentiles::of(server.calls_ms));
        println!(
            "  {:18} start p50 {:8.1} ms   call p50 {:7.3} ms  p99 {:7.3} ms",
            server.name, starts.p50, calls.p50, calls.p99,
        );
    }
    Ok(Verdict::Held)
}

/// A server to measure, and what was measured.
struct Server {
    name: &'static str,
    command: Command,
    /// Tool that runs code, and the code.
    tool: &'static str,
    code: &'static str,
    starts_ms: Vec<f64>,
    calls_ms: Vec<f64>,
}

impl Server {
    fn new(name: &'static str, command: Command, tool: &'static str, code: &'static str) -> Self {
        Self { name, command, tool, code, starts_ms: Vec::new(), calls_ms: Vec::new() }
    }

    /// Measures a start.
    fn measure_start(&mut self) -> Result<(), CannotTry> {
        let began = Instant::now();
        self.start()?.request("tools/list", &json!({}))?;
        self.starts_ms.push(millis(began.elapsed()));
        Ok(())
    }

    fn start(&mut self) -> Result<McpClient, CannotTry> {
        let client = McpClient::start(&mut self.command, "latency");
        client.map_err(|why| format!("{}: {why}", self.name))
    }

    /// Returns the time of a call, in milliseconds.
    fn call(&self, client: &mut McpClient) -> Result<f64, CannotTry> {
        let arguments = json!({"code": self.code});
        let began = Instant::now();
        let result = client.call(self.tool, &arguments)?;
        let took = began.elapsed();
        if result["isError"] == true || result["content"].is_null() {
            return Err(format!("{} did not run the program: {result}", self.name));
        }
        Ok(millis(took))
    }
}

/// Installs `FastMCP` and returns the Python that has it.
fn install() -> Result<PathBuf, CannotTry> {
    let dir = program::target_dir().join("latency");
    program::python_env(&dir, &[FASTMCP])?;
    Ok(dir.join("bin/python"))
}

//! What a call over MCP takes: `ringfence mcp` and `FastMCP`'s `CodeMode`, which runs Python in an interpreter of its own kind,
//! asked in turn, so that whatever else the host does meets both. Installs `FastMCP` with pip below the target directory,
//! once; where that cannot be done, Ringfence is measured alone, and it is said.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

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
            server.start()?;
        }
    }
    let mut live = servers.iter_mut().map(Server::serve).collect::<Result<Vec<_>, _>>()?;
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
            servers[at].calls.push(took);
        }
    }
    println!(
        "start to the answer to tools/list, {STARTS} of each; a warm call, {} of each",
        args.calls
    );
    for server in &mut servers {
        let (starts, calls) = (sorted(&mut server.starts), sorted(&mut server.calls));
        println!(
            "  {:18} start p50 {:8.1} ms   call p50 {:7.3} ms  p99 {:7.3} ms",
            server.name,
            millis(starts[starts.len() / 2]),
            millis(calls[calls.len() / 2]),
            millis(calls[calls.len() * 99 / 100]),
        );
    }
    Ok(Verdict::Held)
}

/// A server to measure, and what was measured.
struct Server {
    name: &'static str,
    command: Command,
    request: Value,
    starts: Vec<Duration>,
    calls: Vec<Duration>,
}

/// A server that was started.
struct Client {
    server: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    fn new(name: &'static str, mut command: Command, tool: &str, code: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": {"code": code}}});
        Self { name, command, request, starts: Vec::new(), calls: Vec::new() }
    }

    /// Measures a start.
    fn start(&mut self) -> Result<(), CannotTry> {
        let began = Instant::now();
        let mut client = self.serve()?;
        client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}))?;
        self.starts.push(began.elapsed());
        Ok(())
    }

    fn serve(&mut self) -> Result<Client, CannotTry> {
        let cannot = |e| format!("cannot start {}: {e}", self.name);
        let mut server = self.command.spawn().map_err(cannot)?;
        let (Some(stdin), Some(stdout)) = (server.stdin.take(), server.stdout.take()) else {
            return Err(format!("{} has no pipes", self.name));
        };
        let mut client = Client { server, stdin, stdout: BufReader::new(stdout) };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "latency", "version": "1"}});
        client.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))?;
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    fn call(&self, client: &mut Client) -> Result<Duration, CannotTry> {
        let began = Instant::now();
        let answer = client.ask(&self.request)?;
        let took = began.elapsed();
        if answer["result"]["isError"] == true || answer["result"]["content"].is_null() {
            return Err(format!("{} did not run the program: {answer}", self.name));
        }
        Ok(took)
    }
}

impl Client {
    fn say(&mut self, message: &Value) -> Result<(), CannotTry> {
        let mut line = message.to_string();
        line.push('\n');
        self.stdin.write_all(line.as_bytes()).map_err(|e| format!("cannot ask a server: {e}"))
    }

    /// The answer; whatever comes before it is no answer.
    fn ask(&mut self, message: &Value) -> Result<Value, CannotTry> {
        self.say(message)?;
        loop {
            let mut line = String::new();
            match self.stdout.read_line(&mut line) {
                Ok(0) => return Err("a server ended without an answer".to_owned()),
                Ok(_) => {}
                Err(e) => return Err(format!("cannot hear a server: {e}")),
            }
            let Ok(answer) = serde_json::from_str::<Value>(&line) else { continue };
            if answer["id"] == message["id"] {
                return Ok(answer);
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Installs `FastMCP`, where it is not yet, and says which Python has it.
fn install() -> Result<PathBuf, CannotTry> {
    let place = program::target_dir().join("latency");
    std::fs::create_dir_all(&place).map_err(|e| format!("cannot make {}: {e}", place.display()))?;
    let (python, done) = (place.join("venv/bin/python"), place.join(FASTMCP));
    if !done.exists() {
        program::run_in(&place, "python3", &["-m", "venv", "venv"])?;
        program::run_in(&place, "venv/bin/pip", &["install", "--quiet", FASTMCP])?;
        std::fs::write(&done, "").map_err(|e| format!("cannot write {}: {e}", done.display()))?;
    }
    Ok(python)
}

fn sorted(times: &mut [Duration]) -> &[Duration] {
    times.sort_unstable();
    times
}

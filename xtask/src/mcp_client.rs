//! MCP over a server's stdin and stdout: one request at a time, each answered within a bound. Reads on the caller's thread,
//! so that a measured call has no hand-over between threads in it.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::CannotTry;

/// Bound of an answer. A call that takes longer is answered with `running` long before.
const ANSWER: Duration = Duration::from_mins(1);

/// A client. Kills the server it has started when dropped.
pub(crate) struct McpClient {
    server: Option<Child>,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// Bytes that were read and belong to later lines.
    unread: Vec<u8>,
    n_sent: u64,
}

impl McpClient {
    /// Talks to a server that the caller owns. The handshake is the caller's too.
    pub(crate) fn over(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        Self { server: None, stdin, stdout, unread: Vec::new(), n_sent: 0 }
    }

    /// Starts a server and shakes hands as the client `name`.
    pub(crate) fn start(command: &mut Command, name: &str) -> Result<Self, CannotTry> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().map_err(|e| format!("cannot start the server: {e}"))?;
        let (stdin, stdout) = (server.stdin.take(), server.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err("the server has no pipes".into());
        };
        let mut client = Self::over(stdin, stdout);
        client.server = Some(server);
        client.shake_hands(name)?;
        Ok(client)
    }

    /// Sends `initialize` and what follows its answer.
    pub(crate) fn shake_hands(&mut self, name: &str) -> Result<(), CannotTry> {
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}});
        self.request("initialize", &hello)?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    /// Returns the result of a request. Notifications before it are dropped; an error answer is an error.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Result<Value, CannotTry> {
        self.n_sent += 1;
        let id = self.n_sent;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        let deadline = Instant::now() + ANSWER;
        loop {
            let line = self.read_line(deadline).map_err(|why| format!("{method}: {why}"))?;
            let mut answer: Value = serde_json::from_slice(&line).map_err(|e| {
                format!("the server sent `{}`: {e}", String::from_utf8_lossy(&line))
            })?;
            if answer["id"] == id {
                return match answer.get("error") {
                    Some(error) => Err(format!("{method} was answered with {error}")),
                    None => Ok(answer["result"].take()),
                };
            }
        }
    }

    /// Returns the result of a tool call, and waits for a run that outlasts it.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, CannotTry> {
        let mut result =
            self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        while result["structuredContent"]["status"] == "running" {
            let wait = json!({"run_id": result["structuredContent"]["run_id"]});
            result = self.request("tools/call", &json!({"name": "wait", "arguments": wait}))?;
        }
        Ok(result)
    }

    fn send(&mut self, message: &Value) -> Result<(), CannotTry> {
        // One write: the server wakes up once.
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).map_err(|e| format!("the server does not read: {e}"))
    }

    fn read_line(&mut self, deadline: Instant) -> Result<Vec<u8>, CannotTry> {
        let mut n_searched = 0;
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(at) = self.unread[n_searched..].iter().position(|byte| *byte == b'\n') {
                return Ok(self.unread.drain(..=n_searched + at).collect());
            }
            n_searched = self.unread.len();
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(|e| e.to_string())?;
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Err(format!("no answer within {ANSWER:?}")),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(format!("cannot wait for the server: {e}")),
            }
            match self.stdout.read(&mut buffer) {
                Ok(0) => return Err("the server ended".into()),
                Ok(n) => self.unread.extend_from_slice(&buffer[..n]),
                Err(e) => return Err(format!("cannot read from the server: {e}")),
            }
        }
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

//! `ringfence mcp`, and lines for it. Every line it says must be a message.

use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::messages::{self, Known};
use super::outside::{Answers, Place, Server};
use super::watched::{MonitoredServer, read_lines};
use crate::CannotTry;
use crate::random::Random;

/// Timeout of the honest client, behind hundreds of hostile calls.
const PATIENCE: Duration = Duration::from_mins(1);

/// After the end of input; the server promises less than a second where nothing else keeps the host busy.
const END: Duration = Duration::from_secs(10);

/// There are as many requests of this client without an answer as there may be.
const BUSY: i64 = -32000;

pub(super) struct Mcp {
    watched: MonitoredServer,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    known: Known,
    answers: Answers,
    /// Metadata of every request of the honest client, if `initialize` is not enough.
    about: Option<Value>,
    n_asked: u64,
}

impl Server for Mcp {
    fn start(place: &Place) -> Result<Self, CannotTry> {
        let mut command = place.ringfence(&["mcp", "--timeout", "2s"]);
        let mut watched =
            MonitoredServer::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdin = watched.child.stdin.take().ok_or("no stdin")?;
        // A server that stops reading is found out, not waited for.
        rustix::io::ioctl_fionbio(&stdin, true)
            .map_err(|e| format!("cannot prepare a pipe: {e}"))?;
        let lines = read_lines(watched.child.stdout.take().ok_or("no stdout")?);
        let known = Known::default();
        Ok(Self {
            watched,
            stdin: Some(stdin),
            lines,
            known,
            answers: Answers::new(),
            about: None,
            n_asked: 0,
        })
    }

    fn begin(&mut self, random: &mut Random) -> Result<(), String> {
        // Some clients talk nonsense before they say hello.
        let n_before = random.below(3) * 10;
        for _ in 0..n_before {
            self.send(&messages::lines(random), random)?;
        }
        self.write(b"\n")?;
        if n_before > 0 {
            // A client that began without `initialize`, as some of these do, goes on without it: the SDK then wants this every time.
            self.about = Some(messages::about("honest"));
        }
        let version = random.one_of(&["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
        let hello = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "honest", "version": "1"},
        });
        let answer = self.ask("initialize", &hello)?;
        if !answer["result"].is_object() {
            return Err(format!("hello was answered with {answer}"));
        }
        self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    fn watched(&mut self) -> &mut MonitoredServer {
        &mut self.watched
    }

    fn input(random: &mut Random) -> Vec<u8> {
        messages::lines(random)
    }

    fn send(&mut self, input: &[u8], _random: &mut Random) -> Result<(), String> {
        let input = self.known.fill(input);
        self.write(&input)?;
        while let Ok(line) = self.lines.try_recv() {
            self.understand(&line)?;
        }
        Ok(())
    }

    fn honest(&mut self) -> Result<(), String> {
        // Mutated lines may lack their end.
        self.write(b"\n")?;
        let listed = self.ask("tools/list", &json!({}))?;
        messages::know_every_tool(&listed)?;
        let mut call = json!({"name": "execute_code", "arguments": {"code": "print(1)"}});
        loop {
            let answer = self.ask("tools/call", &call)?;
            let data = &answer["result"]["structuredContent"];
            match data["status"].as_str() {
                Some("ok") if data["stdout"] == "1\n" => return self.close_sessions(),
                Some("running") => {
                    call = json!({"name": "wait", "arguments": {"run_id": data["run_id"]}});
                }
                _ => return Err(format!("print(1) was answered with {answer}")),
            }
        }
    }

    fn answers(&self) -> &Answers {
        &self.answers
    }

    fn end(&mut self, random: &mut Random) -> Result<(), String> {
        if random.once_in(2) {
            let mut cut = self.known.fill(&messages::lines(random));
            cut.truncate(random.below(cut.len()));
            self.write(&cut)?;
        }
        drop(self.stdin.take());
        self.watched.end(0, END)?;
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.understand(&line)?;
        }
        Ok(())
    }
}

impl Mcp {
    /// Closes what hostile calls opened: each holds descriptors, and may until it is closed.
    fn close_sessions(&mut self) -> Result<(), String> {
        let call = |arguments: Value| json!({"name": "session", "arguments": arguments});
        let mut listed = self.ask("tools/call", &call(json!({"action": "info"})))?;
        let sessions = listed["result"]["structuredContent"]["sessions"].take();
        for session in sessions.as_array().ok_or(format!("no sessions are listed: {listed}"))? {
            self.ask("tools/call", &call(json!({"action": "close", "session": session["id"]})))?;
        }
        Ok(())
    }

    /// Asks as an honest client, and again while there is no room for it.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.n_asked += 1;
            let id = json!(format!("honest {}", self.n_asked));
            let mut message =
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            if let Some(about) = &self.about {
                message["params"]["_meta"] = about.clone();
            }
            self.write(format!("{message}\n").as_bytes())?;
            let answer = loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let Ok(line) = self.lines.recv_timeout(left) else {
                    self.watched.lives()?;
                    return Err(format!("{method} had no answer for {PATIENCE:?}"));
                };
                let message = self.understand(&line)?;
                if message["id"] == id {
                    break message;
                }
            };
            if answer["error"]["code"] != BUSY {
                return Ok(answer);
            }
            // One that is answered makes room.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes all of it, if the server reads.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let Some(stdin) = &self.stdin else { return Err("stdin is closed".into()) };
        let patience = Timespec::try_from(PATIENCE).map_err(|e| format!("{e}"))?;
        while !bytes.is_empty() {
            match rustix::io::write(stdin, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    let mut room = [PollFd::new(stdin, PollFlags::OUT)];
                    if matches!(poll(&mut room, Some(&patience)), Ok(0)) {
                        return Err(format!("it has read nothing for {PATIENCE:?}"));
                    }
                }
                Err(e) => {
                    let end = self.watched.lives().err().unwrap_or_default();
                    return Err(format!("it does not read any more: {e} {end}"));
                }
            }
        }
        Ok(())
    }

    /// A line of the server's, which must be a message.
    fn understand(&mut self, line: &[u8]) -> Result<Value, String> {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        if !is_message(&message) {
            return Err(format!("it said what is no message: {}", String::from_utf8_lossy(line)));
        }
        let data = &message["result"]["structuredContent"];
        self.known.learn(data);
        let kind = match (&data["status"], &message["error"]["code"]) {
            (Value::String(status), _) => status.clone(),
            (_, Value::Number(code)) => code.to_string(),
            _ => message["method"].as_str().unwrap_or("result").to_owned(),
        };
        *self.answers.entry(kind).or_default() += 1;
        Ok(message)
    }
}

/// JSON-RPC 2.0, 4 and 5: a request or notification has a method; a response has a result or an error, and an id.
fn is_message(message: &Value) -> bool {
    let id = message.get("id");
    let is_named = id.is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
    let shape = match (message.get("method"), message.get("result"), message.get("error")) {
        (Some(method), None, None) => method.is_string() && (id.is_none() || is_named),
        (None, Some(result), None) => result.is_object() && is_named,
        (None, None, Some(error)) => {
            error["code"].is_i64()
                && error["message"].is_string()
                && (is_named || id.is_none_or(Value::is_null))
        }
        _ => false,
    };
    message["jsonrpc"] == "2.0" && shape
}

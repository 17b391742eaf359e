//! `ringfence serve` on loopback, and bytes for it. Whatever it answers must be an answer, none of it because of a failure of
//! its own, and nothing is given to who has no token.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::messages::{Known, about, know_every_tool, replace};
use super::outside::{Answers, Place, Server};
use super::requests::{self, TOKEN};
use super::watched::MonitoredServer;
use crate::random::Random;
use crate::{CannotTry, program};

/// Timeout of the honest client.
const PATIENCE: Duration = Duration::from_mins(1);

/// Timeout of one connection; requests that start a run are answered later.
const GLANCE: Duration = Duration::from_millis(20);

/// Connections left open meanwhile. A client has 64 places.
const OPEN_MAX: usize = 80;

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// After SIGTERM: as long as runs may go on (`--drain`), and some.
const END: Duration = Duration::from_secs(15);

/// Routes that need no token.
const OPEN_TO_ALL: &[&str] = &["healthz", "readyz"];

pub(super) struct Http {
    watched: MonitoredServer,
    address: SocketAddr,
    token: String,
    honest: String,
    known: Known,
    answers: Answers,
    open: VecDeque<Open>,
}

/// A connection that something was sent on.
struct Open {
    stream: TcpStream,
    sent: Vec<u8>,
    got: Vec<u8>,
}

impl Server for Http {
    fn start(place: &Place) -> Result<Self, CannotTry> {
        let token = |name: &str| {
            let scopes = ["run", "files", "sessions", "audit", "admin"];
            let mut args = vec!["token", "new", "--name", name];
            args.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
            program::output(&mut place.ringfence(&args)).map(|text| text.trim().to_owned())
        };
        let (token, honest) = (token("fuzz")?, token("honest")?);
        let flags =
            ["--rate-per-minute", "off", "--breakers", "off", "--timeout", "2s", "--drain", "3s"];
        let serve = [&["serve", "--listen", "127.0.0.1:0"], &flags[..]].concat();
        let mut watched = MonitoredServer::start(&mut place.ringfence(&serve))?;
        let address = watched.says("listening on http://", PATIENCE);
        let address = address.and_then(|address| address.parse().ok());
        let address = address.ok_or("the service does not say where it listens")?;
        Ok(Self {
            watched,
            address,
            token,
            honest,
            known: Known::default(),
            open: VecDeque::new(),
            answers: Answers::new(),
        })
    }

    fn begin(&mut self, _random: &mut Random) -> Result<(), String> {
        let honest = self.honest.clone();
        let document = self.exchange("GET", "/api/v1/openapi.json", &honest, "", "")?;
        requests::know_every_route(&body(&document).unwrap_or_default())?;
        self.honest()
    }

    fn watched(&mut self) -> &mut MonitoredServer {
        &mut self.watched
    }

    fn input(random: &mut Random) -> Vec<u8> {
        requests::some(random)
    }

    fn send(&mut self, input: &[u8], random: &mut Random) -> Result<(), String> {
        let sent = replace(&self.known.fill(input), TOKEN, &self.token);
        let (pieces, then) = (random.below(4), random.below(8));
        let mut stream = self.connect()?;
        // Who reads nothing of a request may close before all of it was sent.
        let piece = if pieces == 0 { 1 + random.below(sent.len()) } else { sent.len().max(1) };
        let _ = sent.chunks(piece).take(50).try_for_each(|piece| stream.write_all(piece));
        match then {
            0 => return Ok(()),
            1 => drop(stream.shutdown(Shutdown::Write)),
            _ => {}
        }
        self.open.push_back(Open { stream, sent, got: Vec::new() });
        let last = self.open.len() - 1;
        if self.open[last].look(GLANCE) {
            self.close(last)?;
        } else if self.open.len() > OPEN_MAX {
            self.open[0].look(GLANCE);
            self.close(0)?;
        }
        Ok(())
    }

    fn honest(&mut self) -> Result<(), String> {
        let ran = self.ask("/api/v1/runs", "", &json!({"code": "print(1)"}))?;
        if ran["status"] != "ok" || ran["stdout"] != "1\n" {
            return Err(format!("print(1) was answered with {ran}"));
        }
        let params = json!({"_meta": about("honest")});
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        let headers = "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
        let listed = self.ask("/mcp", headers, &list)?;
        know_every_tool(&listed)?;
        while !self.open.is_empty() {
            self.open[0].look(GLANCE);
            self.close(0)?;
        }
        self.close_sessions()
    }

    fn answers(&self) -> &Answers {
        &self.answers
    }

    fn end(&mut self, random: &mut Random) -> Result<(), String> {
        // Some of what is asked for is still going on.
        for _ in 0..random.below(40) {
            let input = requests::some(random);
            self.send(&input, random)?;
        }
        let pid = Pid::from_child(&self.watched.child);
        kill_process(pid, Signal::TERM).map_err(|e| format!("cannot tell it to end: {e}"))?;
        self.watched.end(0, END)
    }
}

impl Http {
    fn connect(&mut self) -> Result<TcpStream, String> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(Duration::from_secs(5)))?;
            Ok(stream)
        };
        connect().map_err(|e: std::io::Error| {
            let end = self.watched.lives().err().unwrap_or_default();
            format!("cannot connect: {e} {end}")
        })
    }

    /// Closes a connection; what came back must be in order.
    fn close(&mut self, n: usize) -> Result<(), String> {
        let Some(Open { sent, got, .. }) = self.open.remove(n) else { return Ok(()) };
        let told = |what: &str| {
            let shown =
                |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned();
            format!("{what}: {:?} to {:?}", shown(&got), shown(&sent))
        };
        if got.is_empty() {
            return Ok(());
        }
        let Some(status) = status(&got) else { return Err(told("no answer of HTTP/1")) };
        let said = body(&got).unwrap_or_default();
        let kind = match (&said["code"], &said["error"]["code"]) {
            (Value::String(code), _) => format!("{status} {code}"),
            (_, Value::Number(code)) => format!("{status} {code}"),
            _ => status.to_string(),
        };
        *self.answers.entry(kind).or_default() += 1;
        if status >= 500 && status != 503 {
            return Err(told("a failure of its own"));
        }
        let has =
            |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|w| w == word.as_bytes());
        let is_open = OPEN_TO_ALL.iter().any(|route| has(&sent, route)) || has(&sent, &self.token);
        if !is_open && has(&got, "HTTP/1.1 2") {
            return Err(told("served without a token"));
        }
        if let Some(body) = body(&got) {
            self.known.learn(&body);
            self.known.learn(&body["result"]["structuredContent"]);
            self.known.learn(&json!({"session_id": body["id"]}));
        }
        Ok(())
    }

    /// Closes what hostile requests opened: each session holds descriptors, and may until it is closed.
    fn close_sessions(&mut self) -> Result<(), String> {
        let fuzz = self.token.clone();
        let listed = self.exchange("GET", "/api/v1/sessions", &fuzz, "", "")?;
        let sessions = body(&listed).unwrap_or_default();
        for session in sessions["sessions"].as_array().ok_or("no sessions are listed")? {
            let target = format!("/api/v1/sessions/{}", session["id"].as_str().unwrap_or_default());
            self.exchange("DELETE", &target, &fuzz, "", "")?;
        }
        Ok(())
    }

    /// Asks as an honest client, and again while there is no room for it.
    fn ask(&mut self, target: &str, headers: &str, asked: &Value) -> Result<Value, String> {
        let deadline = Instant::now() + PATIENCE;
        let honest = self.honest.clone();
        let headers = format!("Content-Type: application/json\r\n{headers}");
        loop {
            let got = self.exchange("POST", target, &honest, &headers, &asked.to_string())?;
            let shown = || String::from_utf8_lossy(&got).into_owned();
            match status(&got) {
                Some(200) => return body(&got).ok_or_else(|| format!("no JSON: {}", shown())),
                Some(429 | 503) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                _ => return Err(format!("{target} was answered with {}", shown())),
            }
        }
    }

    /// One request that nothing is wrong with, and its answer.
    fn exchange(
        &mut self,
        method: &str,
        target: &str,
        token: &str,
        headers: &str,
        body: &str,
    ) -> Result<Vec<u8>, String> {
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{headers}\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len(),
        );
        let mut stream = self.connect()?;
        let mut exchange = || {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(request.as_bytes())?;
            let mut got = Vec::new();
            stream.read_to_end(&mut got)?;
            Ok(got)
        };
        exchange().map_err(|e: std::io::Error| format!("{target} had no answer: {e}"))
    }
}
impl Open {
    /// Reads what comes within a moment; true if no more will.
    fn look(&mut self, moment: Duration) -> bool {
        let mut part = [0; 16 << 10];
        if self.stream.set_read_timeout(Some(moment)).is_err() {
            return true;
        }
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return true,
                Ok(n) => self.got.extend_from_slice(&part[..n]),
                // A moment without a byte, or the other side is gone.
                Err(e) => {
                    return !matches!(
                        e.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    );
                }
            }
            if body(&self.got).is_some() || self.got.len() > ANSWER_BYTES_MAX {
                return true;
            }
        }
    }
}

/// The status of an answer, if it is one.
fn status(got: &[u8]) -> Option<u16> {
    let line = got.split(|b| *b == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\r')?;
    let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
    rest.get(..3)?.parse().ok().filter(|status| (100..600).contains(status))
}

/// Body of a complete answer, if it is JSON.
fn body(got: &[u8]) -> Option<Value> {
    let at = got.windows(4).position(|w| w == b"\r\n\r\n")?;
    serde_json::from_slice(&got[at + 4..]).ok()
}

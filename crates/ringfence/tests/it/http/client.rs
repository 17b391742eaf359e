//! A server on a port of its own, and a client that speaks HTTP/1.1 by hand: a test sees every byte that is sent and may
//! send what no library would.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ringfence_testing::{BoundedCommand as _, Json, Running, limit};

use crate::support::World;

/// Longer than anything here takes; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_mins(5);

/// A server, ended with the test.
pub(super) struct Server {
    child: Running,
    pub(super) address: SocketAddr,
    /// What it said when it began to listen.
    pub(super) hello: String,
    lines: BufReader<std::process::ChildStderr>,
}

impl Server {
    /// Starts one without limits on how often one may ask.
    pub(super) fn new(world: &World) -> Self {
        Self::with(world, &["--rate-per-minute", "off", "--breakers", "off"])
    }

    /// Starts one with these flags and waits until it listens.
    pub(super) fn with(world: &World, flags: &[&str]) -> Self {
        let listen: &[&str] =
            if flags.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut child = world
            .command(&[&["serve"], listen, flags].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // It serves a whole test, or a table of them.
            .bounded_spawn_within(10 * limit())
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("://").map(|(_, address)| address.parse().unwrap());
        let address = address.unwrap_or_else(|| panic!("the server says where it listens: {line}"));
        Self { child, address, hello: line, lines }
    }

    pub(super) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end: how it ended, how long that took, what it said.
    pub(super) fn end(&mut self) -> (ExitStatus, Duration, String) {
        let began = Instant::now();
        let status = self.child.wait().unwrap();
        let took = began.elapsed();
        let mut said = String::new();
        self.lines.read_to_string(&mut said).unwrap();
        (status, took, said)
    }

    /// A connection.
    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A client that keeps its connection.
    pub(super) fn client(&self) -> Client {
        Client { stream: BufReader::new(self.connect()), address: self.address, token: None }
    }

    /// One request on a connection of its own.
    pub(super) fn get(&self, path: &str) -> Answer {
        self.client().send("GET", path, &[], b"")
    }

    /// One run on a connection of its own.
    pub(super) fn run(&self, asked: &Json) -> Answer {
        self.client().post("/api/v1/runs", asked)
    }

    /// What the server has in memory.
    pub(super) fn resident_bytes(&self) -> u64 {
        let statm = format!("/proc/{}/statm", self.pid().as_raw_nonzero());
        let statm = std::fs::read_to_string(statm).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    }
}

/// Names and values.
pub(super) type Headers<'a> = &'a [(&'a str, &'a str)];

/// One connection.
pub(super) struct Client {
    pub(super) stream: BufReader<TcpStream>,
    address: SocketAddr,
    token: Option<String>,
}

impl Client {
    /// Presents a token from now on.
    pub(super) fn token(mut self, token: &str) -> Self {
        self.token = Some(token.trim().to_owned());
        self
    }

    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(super) fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"")
    }

    pub(super) fn put(&mut self, path: &str, content: &[u8]) -> Answer {
        self.send("PUT", path, &[], content)
    }

    pub(super) fn post(&mut self, path: &str, asked: &Json) -> Answer {
        self.begin(
            "POST",
            path,
            &[("Content-Type", "application/json")],
            asked.to_string().as_bytes(),
        );
        self.answer()
    }

    /// Sends a request and reads its answer.
    pub(super) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: &[u8],
    ) -> Answer {
        self.begin(method, path, headers, body);
        self.answer()
    }

    /// Sends a request. A `Host` among the headers is sent instead of the server's own.
    pub(super) fn begin(&mut self, method: &str, path: &str, headers: Headers<'_>, body: &[u8]) {
        let mut head = vec![format!("{method} {path} HTTP/1.1")];
        let says = |header: &str| headers.iter().any(|(name, _)| *name == header);
        if !says("Host") {
            head.push(format!("Host: {}", self.address));
        }
        if let Some(token) = &self.token {
            head.push(format!("Authorization: Bearer {token}"));
        }
        let carries = !body.is_empty() || matches!(method, "POST" | "PUT");
        if carries && !says("Content-Length") && !says("Transfer-Encoding") {
            head.push(format!("Content-Length: {}", body.len()));
        }
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        let whole = [head.join("\r\n").as_bytes(), b"\r\n\r\n", body].concat();
        self.stream.get_mut().write_all(&whole).unwrap();
    }

    /// Reads an answer that must be one.
    pub(super) fn answer(&mut self) -> Answer {
        self.try_answer().expect("the server answers")
    }

    /// Reads an answer, if one comes before the connection ends.
    pub(super) fn try_answer(&mut self) -> Option<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut answer.body).ok()?;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let mut size = String::new();
                self.stream.read_line(&mut size).ok()?;
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                self.stream.read_exact(&mut chunk).ok()?;
                answer.body.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    break;
                }
            }
        }
        Some(answer)
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn json(&self) -> Json {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("no JSON ({e}): {} {}", self.status, self.text()))
    }

    /// The code of a problem, which must be told as one.
    pub(super) fn code(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{}",
            self.text()
        );
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{problem}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

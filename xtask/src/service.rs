//! A service under proof, on a port of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{CannotTry, process};

/// Log line of a service that is ready.
const LISTENING: &str = "listening on ";

/// Timeout of its shutdown.
const STOP_MAX: Duration = Duration::from_mins(1);

/// Timeout of a response.
const ANSWER_MAX: Duration = Duration::from_mins(1);

/// A running `ringfence serve`; ends with this value.
pub(crate) struct Service {
    child: Child,
    url: String,
    /// Removed with this value.
    data: Option<tempfile::TempDir>,
}

impl Service {
    /// Starts one with a data directory of its own.
    pub(crate) fn start(binary: &Path, flags: &[&str]) -> Result<Self, CannotTry> {
        let data = tempfile::tempdir().map_err(|e| format!("cannot make a data directory: {e}"))?;
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data.path()).args(flags);
        let mut service = Self::spawn(command)?;
        service.data = Some(data);
        Ok(service)
    }

    /// Starts this command, a `ringfence serve`.
    pub(crate) fn spawn(mut command: Command) -> Result<Self, CannotTry> {
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start the service: {e}"))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, url) = line.split_once(LISTENING)?;
            Some(url.trim().to_owned())
        });
        // Drain stderr: a full pipe would block the service.
        std::thread::spawn(move || lines.for_each(drop));
        let Some(url) = url else {
            let _ = child.kill();
            let _ = child.wait();
            return Err("the service ended before it could be talked to".into());
        };
        Ok(Self { child, url, data: None })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end. Returns true if it ends in time.
    pub(crate) fn stop(mut self) -> bool {
        if let Ok(pid) = i32::try_from(self.child.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        process::wait(&mut self.child, STOP_MAX).is_some()
    }

    /// Its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Connects to it.
    pub(crate) fn connect(&self) -> std::io::Result<Connection> {
        Connection::open(self.url.trim_start_matches("http://"))
    }

    /// URL of the MCP endpoint.
    pub(crate) fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is kept open.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    address: String,
}

impl Connection {
    /// Opens one to `host:port`.
    pub(crate) fn open(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self { reader: BufReader::new(stream), address: address.to_owned() })
    }

    /// Posts a run and returns the body of the answer.
    pub(crate) fn run(&mut self, run: &Value) -> std::io::Result<String> {
        self.post("/api/v1/runs", run)
    }

    /// Posts a body and returns that of the answer.
    pub(crate) fn post(&mut self, path: &str, body: &Value) -> std::io::Result<String> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.reader.get_mut().write_all(request.as_bytes())?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| std::io::ErrorKind::InvalidData)?;
            }
        }
        let mut body = String::new();
        (&mut self.reader).take(length).read_to_string(&mut body)?;
        Ok(body)
    }
}

//! What a request over HTTP costs: a service in this process, clients on its loopback.
//!
//! ```text
//! cargo run --release -p ringfence-server --example latency [ROUNDS]
//! ```
//! Prints p50 and p99 of one client, first alone and then among 5,000 connections that say nothing, and how many runs a
//! second 16 clients get.

#![allow(clippy::disallowed_methods)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ringfence_audit::{KeepAll, LedgerSettings};
use ringfence_engine::{Engine, HostContext, Launcher, Recorder};
use ringfence_server::http::{HttpLimits, HttpSettings, Offer, Service};
use ringfence_spec::{Code, Problem};
use rustix::process::{Resource, Rlimit};
use serde_json::Value;

/// Clients at once.
const CLIENTS: usize = 16;

/// Connections that say nothing.
const IDLE: usize = 5_000;

const REST: &str = r#"{"code": "1"}"#;

const MCP: &str = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
    "name": "execute_code", "arguments": {"code": "1"}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "latency", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}}"#;

fn main() -> Result<(), Problem> {
    // First: it may only be forked while there is one thread.
    let launcher = Launcher::start()?;
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let data = tempfile::tempdir()
        .map_err(|e| Problem::internal(Code::Internal, "cannot make a directory").cause(e))?;
    let ledger = data.path().join("ledger");
    let engine = Engine::builder()
        .launcher(launcher)
        .host(HostContext::here(data.path())?)
        .recorder(Recorder::open(&ledger, LedgerSettings::new(KeepAll))?)
        .build()?;
    let service = Service::check(HttpSettings {
        offer: Offer::Engine,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        allow_hosts: Vec::new(),
        cors_origins: Vec::new(),
        tls: None,
        authority: None,
        limits: HttpLimits { drain: Duration::from_secs(1), ..HttpLimits::default() },
        data_dir: data.path().to_owned(),
        ledger: Some(ledger),
        policy: Value::Null,
        doctor: Value::Null,
    })?;
    service.serve(engine, move |address| {
        std::thread::spawn(move || {
            measure(address, rounds);
            // The service ends as it would for anybody else.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::TERM,
            );
        });
    })
}

fn measure(address: SocketAddr, rounds: usize) {
    let mut client = Client::new(address);
    // Workers are warm after these.
    (0..50).for_each(|_| client.run());
    report("GET /healthz", &times(rounds, || client.health()));
    report("POST /api/v1/runs", &times(rounds, || client.run()));
    report("execute_code at /mcp", &times(rounds, || client.mcp()));

    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = Client::new(address);
                (0..rounds / 4).for_each(|_| client.run());
            });
        }
    });
    let ms = began.elapsed().as_millis().max(1);
    let per_second = (CLIENTS * (rounds / 4)) as u128 * 1000 / ms;
    println!("{CLIENTS} clients                 {per_second} runs/s");

    // The first one was idle for longer than the service lets a connection be.
    let mut client = Client::new(address);
    client.run();
    let before = resident_bytes();
    let idle: Vec<TcpStream> = (0..IDLE).map_while(|_| TcpStream::connect(address).ok()).collect();
    report("the same, crowded", &times(rounds, || client.run()));
    let grown = resident_bytes().saturating_sub(before) / 1024;
    println!("{} idle connections     {grown} KiB", idle.len());
}

fn times(rounds: usize, mut act: impl FnMut()) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..rounds.max(1))
        .map(|_| {
            let began = Instant::now();
            act();
            began.elapsed()
        })
        .collect();
    times.sort();
    times
}

fn report(what: &str, times: &[Duration]) {
    let ms = |per_cent: usize| times[(times.len() - 1) * per_cent / 100].as_secs_f64() * 1000.0;
    println!("{what:<26} p50 {:.2} ms  p99 {:.2} ms", ms(50), ms(99));
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// A connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the service listens");
        stream.set_nodelay(true).expect("a socket has this option");
        Self { stream: BufReader::new(stream) }
    }

    fn health(&mut self) {
        self.send("GET /healthz", "", "");
    }

    fn run(&mut self) {
        self.send("POST /api/v1/runs", "", REST);
    }

    fn mcp(&mut self) {
        let headers = "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n\
                       Mcp-Method: tools/call\r\nMcp-Name: execute_code\r\n";
        self.send("POST /mcp", headers, MCP);
    }

    /// One request, which must be answered with 200.
    fn send(&mut self, target: &str, headers: &str, body: &str) {
        let request = format!(
            "{target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("the service reads");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the service answers");
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("an answer has headers");
            if line.trim().is_empty() {
                break;
            }
            if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = n.trim().parse().expect("a length is a number");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("an answer is whole");
    }
}

//! What the network of a run costs: requests and bytes through the capture, beside a direct connection, a plain copy loop
//! and, where they are installed, tinyproxy and squid. All in turn in one run, so that whatever else the host does meets
//! all of them. Servers are on this host's loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::percentiles::Percentiles;
use crate::{CannotTry, Verdict, program};

/// Time added to a request by the capture, at most.
const ADDED_MS_MAX: f64 = 1.0;

/// Share of a plain copy loop's throughput that the capture must reach.
const SHARE_MIN: f64 = 0.8;

/// Buffer of the copy loop and of the stream's two ends.
const BUFFER_BYTES: usize = 64 << 10;

/// Length of an answer's body.
const BODY: &[u8] = &[b'x'; 100];

#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// The binary to measure; built in release if not given
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Requests of each kind and round
    #[arg(long, default_value_t = 500)]
    requests: usize,
    /// Bytes of each stream, in MiB
    #[arg(long, default_value_t = 2048)]
    mib: u64,
    /// Rounds; of each figure the median is taken
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Connections that are open at once in the last step
    #[arg(long, default_value_t = 2000)]
    connections: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Be the client inside a run: kind, port, number, proxy's port or 0
    #[arg(long, hide = true, num_args = 4)]
    client: Option<Vec<String>>,
}

/// A way from the client to the server.
struct Way {
    name: &'static str,
    /// Port that the client connects to, for requests and for streams.
    ports: [u16; 2],
    /// Port of an HTTP proxy that is asked to connect.
    proxy: u16,
    /// True if the client is a run.
    fenced: bool,
}

#[derive(Default)]
struct Figures {
    request_p50_us: Vec<f64>,
    request_p99_us: Vec<f64>,
    gbit_s: Vec<f64>,
}

pub(crate) fn network(args: &NetworkArgs) -> Result<Verdict, CannotTry> {
    if let Some(client) = &args.client {
        return be_client(client).map(|()| Verdict::Held).map_err(|e| e.to_string());
    }
    let cannot = |e: std::io::Error| format!("cannot serve on loopback: {e}");
    let binary = program::ringfence(args.binary.as_ref())?;
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let dir = tempfile::tempdir().map_err(|e| format!("cannot make a directory: {e}"))?;
    let requests = serve(answer).map_err(cannot)?;
    let bytes = args.mib << 20;
    let streams = serve(move |stream| send(stream, bytes)).map_err(cannot)?;
    let relays = [requests, streams].map(|to| serve(move |stream| copy_loop(stream, to)));
    let [relayed_requests, relayed_streams] = relays;
    let mut ways = vec![
        Way { name: "direct", ports: [requests, streams], proxy: 0, fenced: false },
        Way {
            name: "copy loop",
            ports: [relayed_requests.map_err(cannot)?, relayed_streams.map_err(cannot)?],
            proxy: 0,
            fenced: false,
        },
        Way { name: "ringfence", ports: [requests, streams], proxy: 0, fenced: true },
    ];
    let peers = peers(dir.path(), &[requests, streams]);
    for (name, port, _) in &peers {
        ways.push(Way { name, ports: [requests, streams], proxy: *port, fenced: false });
    }
    let mut figures: Vec<Figures> = ways.iter().map(|_| Figures::default()).collect();
    for _ in 0..args.rounds {
        for (way, figures) in ways.iter().zip(&mut figures) {
            let measured = client(&binary, &own, dir.path(), way, "requests", args.requests)?;
            figures.request_p50_us.push(number(&measured, "p50_us"));
            figures.request_p99_us.push(number(&measured, "p99_us"));
            let measured = client(&binary, &own, dir.path(), way, "stream", 1)?;
            figures.gbit_s.push(number(&measured, "gbit_s"));
        }
    }
    let many = client(&binary, &own, dir.path(), &ways[2], "connections", args.connections)?;
    for (_, _, mut child) in peers {
        let _ = child.kill();
        let _ = child.wait();
    }
    let rows: Vec<Value> = ways
        .iter()
        .zip(&figures)
        .map(|(way, figures)| {
            json!({
                "way": way.name,
                "request_p50_us": median(&figures.request_p50_us),
                "request_p99_us": median(&figures.request_p99_us),
                "gbit_s": median(&figures.gbit_s),
            })
        })
        .collect();
    Ok(judge(args, &rows, &many))
}

fn judge(args: &NetworkArgs, rows: &[Value], many: &Value) -> Verdict {
    let of = |name: &str, key: &str| {
        rows.iter().find(|row| row["way"] == name).map_or(f64::NAN, |row| number(row, key))
    };
    let added_ms = (of("ringfence", "request_p50_us") - of("direct", "request_p50_us")) / 1e3;
    let share = of("ringfence", "gbit_s") / of("copy loop", "gbit_s");
    let opened = number(many, "opened");
    #[allow(clippy::cast_precision_loss, reason = "some thousand connections")]
    let all_opened = opened >= args.connections as f64;
    if args.json {
        println!(
            "{}",
            json!({"rows": rows, "added_p50_ms": added_ms, "share_of_copy_loop": share, "connections": many})
        );
    } else {
        println!("{:<12} {:>14} {:>14} {:>10}", "", "request p50 µs", "request p99 µs", "Gbit/s");
        for row in rows {
            println!(
                "{:<12} {:>14.0} {:>14.0} {:>10.2}",
                row["way"].as_str().unwrap_or_default(),
                number(row, "request_p50_us"),
                number(row, "request_p99_us"),
                number(row, "gbit_s")
            );
        }
        println!("added to a request, p50: {added_ms:.3} ms (at most {ADDED_MS_MAX})");
        println!("share of the copy loop's throughput: {share:.2} (at least {SHARE_MIN})");
        println!("connections open at once: {opened} of {}", args.connections);
    }
    if added_ms <= ADDED_MS_MAX && share >= SHARE_MIN && all_opened {
        Verdict::Held
    } else {
        Verdict::Failed
    }
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

fn median(numbers: &[f64]) -> f64 {
    Percentiles::of(numbers.iter().copied()).p50
}

/// Starts this program as a client, in a run if the way leads through one.
fn client(
    binary: &Path,
    own: &Path,
    dir: &Path,
    way: &Way,
    kind: &str,
    number: usize,
) -> Result<Value, CannotTry> {
    let port = way.ports[usize::from(kind == "stream")];
    let arguments = [kind, &port.to_string(), &number.to_string(), &way.proxy.to_string()];
    let arguments = ["network", "--client"].into_iter().chain(arguments);
    let mut command = if way.fenced {
        let mut command = Command::new(binary);
        let net = format!("allow:localhost:{port}");
        command.args(["run", "--audit", "off", "--fds", "8192", "--net", &net, "--ro"]);
        command.arg(own.parent().unwrap_or(own)).args(["--data-dir"]).arg(dir.join("data"));
        command.args(["--cwd"]).arg(dir).arg("--").arg(own);
        command
    } else {
        Command::new(own)
    };
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot start a client: {e}"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        format!("{} {kind}: {}", way.name, String::from_utf8_lossy(&output.stderr).trim())
    })
}

fn be_client(words: &[String]) -> std::io::Result<()> {
    let parsed = |i: usize| words[i].parse::<u64>().map_err(std::io::Error::other);
    let port = u16::try_from(parsed(1)?).map_err(std::io::Error::other)?;
    let proxy = u16::try_from(parsed(3)?).map_err(std::io::Error::other)?;
    let number = usize::try_from(parsed(2)?).map_err(std::io::Error::other)?;
    let measured = match words[0].as_str() {
        "requests" => requests(port, proxy, number)?,
        "stream" => stream(port, proxy)?,
        _ => connections(port, number),
    };
    println!("{measured}");
    Ok(())
}

fn connect(port: u16, proxy: u16) -> std::io::Result<TcpStream> {
    if proxy == 0 {
        return TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    }
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy))?;
    write!(stream, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")?;
    read_head(&mut stream)?;
    Ok(stream)
}

/// A new connection, one request and its answer.
fn requests(port: u16, proxy: u16, n: usize) -> std::io::Result<Value> {
    let mut times = Vec::with_capacity(n);
    for i in 0..n + 20 {
        let began = Instant::now();
        let mut stream = connect(port, proxy)?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        if !answer.ends_with(BODY) {
            return Err(std::io::Error::other("not the answer"));
        }
        // The first ones start the helper and warm up.
        if i >= 20 {
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    let Percentiles { p50, p99, .. } = Percentiles::of(times);
    Ok(json!({"p50_us": p50, "p99_us": p99}))
}

fn stream(port: u16, proxy: u16) -> std::io::Result<Value> {
    let mut stream = connect(port, proxy)?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let (began, mut n) = (Instant::now(), 0u64);
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            more => n += more as u64,
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
    let gbit_s = n as f64 * 8.0 / 1e9 / began.elapsed().as_secs_f64();
    Ok(json!({"gbit_s": gbit_s, "bytes": n}))
}

/// Opens connections, all at once, and asks each something while all are open.
fn connections(port: u16, n: usize) -> Value {
    let began = Instant::now();
    let threads = 50.min(n.max(1));
    let all_open = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|i| {
            let all_open = Arc::clone(&all_open);
            std::thread::spawn(move || {
                let share = n / threads + usize::from(i < n % threads);
                let open: Vec<_> = (0..share).map(|_| connect(port, 0)).collect();
                all_open.wait();
                let answered = open.into_iter().flatten().filter_map(|mut stream| {
                    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
                    let ask = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
                    stream.write_all(ask).ok()?;
                    let mut answer = Vec::new();
                    stream.read_to_end(&mut answer).ok()?;
                    answer.ends_with(BODY).then_some(())
                });
                answered.count()
            })
        })
        .collect();
    let opened: usize = workers.into_iter().map(|worker| worker.join().unwrap_or(0)).sum();
    json!({"opened": opened, "seconds": began.elapsed().as_secs_f64()})
}

/// Serves each connection on a thread of its own; returns the port.
fn serve(work: impl Fn(TcpStream) + Clone + Send + 'static) -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let work = work.clone();
            let _ = std::thread::Builder::new().stack_size(256 << 10).spawn(move || work(stream));
        }
    });
    Ok(port)
}

fn read_head(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0u8; 1];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(())
}

fn answer(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut head = [0u8; 4096];
    let mut n = 0;
    while !head[..n].ends_with(b"\r\n\r\n") && n < head.len() {
        match stream.read(&mut head[n..]) {
            Ok(more) if more > 0 => n += more,
            _ => return,
        }
    }
    let length = BODY.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(&[head.as_bytes(), BODY].concat());
}

fn send(mut stream: TcpStream, bytes: u64) {
    let buffer = vec![0u8; BUFFER_BYTES];
    let mut left = bytes;
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if stream.write_all(&buffer[..n]).is_err() {
            return;
        }
        left -= n as u64;
    }
}

/// The simplest relay: two threads, one buffer each.
fn copy_loop(client: TcpStream, to: u16) {
    fn copy(mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0u8; BUFFER_BYTES];
        while let Ok(n) = from.read(&mut buffer) {
            if n == 0 || to.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    }
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else { return };
    let up = std::thread::spawn(move || copy(client_too, server_too));
    copy(server, client);
    let _ = up.join();
}

/// Starts the proxies that are installed.
fn peers(dir: &Path, ports: &[u16]) -> Vec<(&'static str, u16, Child)> {
    let free = || Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?.local_addr().ok()?.port());
    let mut started = Vec::new();
    let allowed: Vec<String> = ports.iter().map(u16::to_string).collect();
    if let Some(port) = free() {
        let connect = format!("ConnectPort {}\n", allowed.join("\nConnectPort "));
        let text = format!("Port {port}\nListen 127.0.0.1\nMaxClients 100\n{connect}");
        let config = dir.join("tinyproxy.conf");
        let mut command = Command::new("tinyproxy");
        command.arg("-d").arg("-c").arg(&config);
        started.extend(start("tinyproxy", command, &config, &text, port));
    }
    if let Some(port) = free() {
        let config = dir.join("squid.conf");
        let dir = dir.display();
        let text = format!(
            "http_port 127.0.0.1:{port}\nacl ours port {}\nhttp_access allow CONNECT ours\nhttp_access deny all\ncache deny all\ncache_log /dev/null\naccess_log none\npid_filename {dir}/squid.pid\ncoredump_dir {dir}\n",
            allowed.join(" ")
        );
        let mut command = Command::new("squid");
        command.arg("-N").arg("-f").arg(&config);
        started.extend(start("squid", command, &config, &text, port));
    }
    started
}

fn start(
    name: &'static str,
    mut command: Command,
    config: &Path,
    text: &str,
    port: u16,
) -> Option<(&'static str, u16, Child)> {
    std::fs::write(config, text).ok()?;
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        eprintln!("without {name}: it is not installed");
        return None;
    };
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Some((name, port, child));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("without {name}: it does not start");
    let _ = child.kill();
    let _ = child.wait();
    None
}

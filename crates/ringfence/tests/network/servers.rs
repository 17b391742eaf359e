//! A name server, HTTP and TLS servers in a network namespace of a test's own. Each runs until the process ends. The HTTP
//! server is as lenient as a careless one: it believes the first of two headers, a lone carriage return and a blank before
//! a colon, because attacks count on such servers.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A port on which the server speaks first.
pub(crate) const GREETING: u16 = 7022;

/// A port whose server counts bytes until the end of input and then says how many.
pub(crate) const COUNTING: u16 = 7023;

/// A port whose server sends [`STREAM_BYTES`] bytes.
pub(crate) const STREAM: u16 = 7024;
pub(crate) const STREAM_BYTES: usize = 64 << 20;

/// A port whose server reads and never closes.
pub(crate) const SINK: u16 = 7025;

/// A port of the host's own loopback.
pub(crate) const LOCAL: u16 = 8123;

/// Addresses that the servers listen on.
pub(crate) struct Places {
    /// The name server.
    pub(crate) resolver: SocketAddr,
    /// The web servers; their ports are fixed.
    pub(crate) web: IpAddr,
    /// File that gets a line for each query and each request.
    pub(crate) log: Option<PathBuf>,
}

pub(crate) struct Servers {
    state: Arc<State>,
    /// Certificate of the authority that signed the servers' own.
    pub(crate) ca_pem: String,
}

#[derive(Default)]
struct State {
    /// Answers of a name in turn; the last one stays.
    names: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    queries: Mutex<Vec<String>>,
    requests: Mutex<Vec<String>>,
    /// Files by path. While there are any, other paths are not found.
    files: Mutex<HashMap<String, Vec<u8>>>,
    /// Requests whose token is this one get 401.
    refused_token: Mutex<Option<String>>,
    log: Option<PathBuf>,
}

impl State {
    /// Appends a line to the log, if there is one.
    fn log(&self, line: &str) {
        let Some(path) = &self.log else { return };
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Addresses of a name: its own, or those of `*.` and a name above it.
    fn resolve(&self, name: &str, takes_turn: bool) -> Option<Vec<IpAddr>> {
        let mut names = self.names.lock().unwrap();
        let above = name.match_indices('.').map(|(dot, _)| format!("*{}", &name[dot..]));
        let known = std::iter::once(name.to_owned()).chain(above).find(|n| names.contains_key(n));
        let answers = names.get_mut(&known?)?;
        Some(if takes_turn && answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

impl Servers {
    pub(crate) fn start(places: Places) -> Self {
        let Places { resolver, web, log } = places;
        let state = Arc::new(State { log, ..State::default() });
        let (ca_pem, tls) = certificates();
        serve_names(resolver, &state);
        for port in [80, 8080] {
            let known = Arc::clone(&state);
            listen(SocketAddr::new(web, port), move |stream| {
                serve_http(&stream, local_address(&stream), &known);
            });
        }
        listen(SocketAddr::from((Ipv4Addr::LOCALHOST, LOCAL)), {
            let known = Arc::clone(&state);
            move |stream| serve_http(&stream, local_address(&stream), &known)
        });
        for port in [443, 8443] {
            let (known, tls) = (Arc::clone(&state), Arc::clone(&tls));
            listen(SocketAddr::new(web, port), move |mut stream| {
                let Ok(mut session) = rustls::ServerConnection::new(Arc::clone(&tls)) else {
                    return;
                };
                let at = local_address(&stream);
                serve_http(rustls::Stream::new(&mut session, &mut stream), at, &known);
                session.send_close_notify();
                let _ = session.write_tls(&mut stream);
            });
        }
        // Stands for QUIC: whatever arrives is heard.
        let datagrams = UdpSocket::bind((web, 443)).unwrap();
        let known = Arc::clone(&state);
        std::thread::spawn(move || {
            let mut buffer = [0u8; 1500];
            while let Ok((n, _)) = datagrams.recv_from(&mut buffer) {
                known.log(&format!("datagram {}", String::from_utf8_lossy(&buffer[..n])));
            }
        });
        listen(SocketAddr::new(web, GREETING), |mut stream| {
            let _ = stream.write_all(b"SSH-2.0-test\r\n");
            let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
        });
        listen(SocketAddr::new(web, COUNTING), |mut stream| {
            let n = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0);
            let _ = writeln!(stream, "{n} bytes");
        });
        listen(SocketAddr::new(web, SINK), |mut stream| {
            let _ = stream.set_read_timeout(None);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            std::thread::sleep(Duration::from_mins(10));
        });
        listen(SocketAddr::new(web, STREAM), |mut stream| {
            let block = vec![b'x'; 1 << 20];
            for _ in 0..STREAM_BYTES >> 20 {
                if stream.write_all(&block).is_err() {
                    return;
                }
            }
        });
        Self { state, ca_pem }
    }

    /// Forgets every name, query, request and file.
    pub(crate) fn clear(&self) {
        self.state.names.lock().unwrap().clear();
        self.state.queries.lock().unwrap().clear();
        self.state.requests.lock().unwrap().clear();
        self.state.files.lock().unwrap().clear();
        *self.state.refused_token.lock().unwrap() = None;
    }

    /// Answers requests with this bearer token by 401.
    pub(crate) fn refuse_token(&self, token: &str) {
        *self.state.refused_token.lock().unwrap() = Some(token.to_owned());
    }

    /// Serves a file at a path, such as `/simple/tiny/`. From the first one on, paths without a file are not found.
    pub(crate) fn file(&self, path: &str, bytes: Vec<u8>) {
        self.state.files.lock().unwrap().insert(path.into(), bytes);
    }

    /// Sets the answers of a name, in turn. `*.example.test` is for every name below.
    pub(crate) fn name(&self, name: &str, answers: &[impl AsRef<[IpAddr]>]) {
        let answers = answers.iter().map(|one| one.as_ref().to_vec()).collect();
        self.state.names.lock().unwrap().insert(name.into(), answers);
    }

    /// Addresses of a name, without a query.
    pub(crate) fn resolve(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.state.resolve(name, false)
    }

    /// Names that were asked for on the host.
    pub(crate) fn queries(&self) -> Vec<String> {
        self.state.queries.lock().unwrap().clone()
    }

    /// First lines and Host headers of requests that arrived.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }
}

/// The address that a client asked for.
fn local_address(stream: &TcpStream) -> IpAddr {
    stream.local_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip().to_canonical())
}

fn listen(address: SocketAddr, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
    let listener = TcpListener::bind(address).unwrap_or_else(|e| panic!("{address}: {e}"));
    // The standard library's 128 are too few for 500 connects at once: a connection that the kernel accepts by a SYN cookie
    // and finds no room for is lost to a server that speaks first, and nothing tells the client.
    rustix::net::listen(&listener, 4096).unwrap_or_else(|e| panic!("{address}: {e}"));
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let spawned =
                std::thread::Builder::new().stack_size(256 << 10).spawn(move || serve(stream));
            drop(spawned);
        }
    });
}

/// Answers GET and POST with the request's own line and Host and the address it came to, or with a file, and keeps the
/// connection.
fn serve_http(mut stream: impl Read + Write, at: IpAddr, state: &State) {
    while let Some(head) = read_until(&mut stream, b"\r\n\r\n") {
        let text = String::from_utf8_lossy(&head).into_owned();
        let field = |name: &str| {
            let lines = text.split(['\r', '\n']).filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.trim().to_owned())
        };
        let line = text.lines().next().unwrap_or_default().to_owned();
        let host = field("host").unwrap_or_default();
        let length = field("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        let is_chunked = field("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let body = if is_chunked { chunks(&mut stream) } else { exactly(&mut stream, length) };
        let Some(body) = body else { return };
        state.requests.lock().unwrap().push(format!("{line} | {host} | {text:?}"));
        state.log(&format!("request {line} for {host} at {at}"));
        let token = field("authorization").unwrap_or_default();
        let echo = || format!("{line} for {host}: {}{token}\n", String::from_utf8_lossy(&body));
        let refused = state.refused_token.lock().unwrap().clone();
        let (status, kind, body) = match file(&line, state) {
            _ if refused.is_some_and(|refused| token == format!("Bearer {refused}")) => {
                ("401 Unauthorized", "text/plain", echo().into_bytes())
            }
            Some(found) => found,
            None => ("200 OK", "text/plain", echo().into_bytes()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nx-address: {at}\r\nX-Seen: {token}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let body = if line.starts_with("HEAD ") { Vec::new() } else { body };
        let answer = [head.into_bytes(), body].concat();
        if stream.write_all(&answer).is_err() || stream.flush().is_err() {
            return;
        }
    }
}

/// Status, media type and bytes of the file that a request line asks for; `None` while there are no files.
fn file(line: &str, state: &State) -> Option<(&'static str, &'static str, Vec<u8>)> {
    let files = state.files.lock().unwrap();
    if files.is_empty() {
        return None;
    }
    let path = line.split([' ', '?']).nth(1).unwrap_or_default();
    Some(match files.get(path) {
        // pip and uv read an index only as HTML.
        Some(bytes) if path.ends_with('/') => ("200 OK", "text/html", bytes.clone()),
        Some(bytes) => ("200 OK", "application/octet-stream", bytes.clone()),
        None => ("404 Not Found", "text/plain", Vec::new()),
    })
}

/// Reads up to and including `end`.
fn read_until(stream: &mut impl Read, end: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut byte = [0u8; 1];
    while !bytes.ends_with(end) {
        match stream.read(&mut byte) {
            Ok(1) if bytes.len() < 64 << 10 => bytes.push(byte[0]),
            _ => return None,
        }
    }
    Some(bytes)
}

fn exactly(stream: &mut impl Read, length: usize) -> Option<Vec<u8>> {
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok().map(|()| body)
}

/// A body in chunks, without trailers.
fn chunks(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = read_until(stream, b"\r\n")?;
        let size = usize::from_str_radix(String::from_utf8_lossy(&size).trim(), 16).ok()?;
        body.extend(exactly(stream, size)?);
        exactly(stream, 2)?;
        if size == 0 {
            return Some(body);
        }
    }
}

/// Answers lookups by UDP and TCP.
fn serve_names(at: SocketAddr, state: &Arc<State>) {
    let udp = shared_udp_socket(at);
    let known = Arc::clone(state);
    std::thread::spawn(move || {
        let mut buffer = [0u8; 1500];
        while let Ok((n, client)) = udp.recv_from(&mut buffer) {
            if let Some(reply) = answer(&buffer[..n], &known) {
                let _ = udp.send_to(&reply, client);
            }
        }
    });
    let known = Arc::clone(state);
    listen(at, move |mut stream| {
        while let Some(length) = exactly(&mut stream, 2) {
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            let reply = exactly(&mut stream, length).and_then(|query| answer(&query, &known));
            let Some(reply) = reply else { return };
            let length = u16::try_from(reply.len()).unwrap().to_be_bytes();
            if stream.write_all(&[&length[..], &reply].concat()).is_err() {
                return;
            }
        }
    });
}

/// A socket that shares its port, as careless name servers do: whoever binds a single address of it takes over.
fn shared_udp_socket(at: SocketAddr) -> UdpSocket {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &at).unwrap_or_else(|e| panic!("{at}: {e}"));
    socket.into()
}

/// Answers one question; A and AAAA records only. `None` for a message that is none.
fn answer(query: &[u8], state: &State) -> Option<Vec<u8>> {
    let mut name = String::new();
    let mut at = 12;
    loop {
        let length = usize::from(*query.get(at)?);
        if length == 0 {
            break;
        }
        name.push_str(&String::from_utf8_lossy(query.get(at + 1..at + 1 + length)?));
        name.push('.');
        at += 1 + length;
    }
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let question = query.get(12..at + 5)?;
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    state.log(&format!("query {name}"));
    if kind == 1 {
        state.queries.lock().unwrap().push(name.clone());
    }
    let addresses = state.resolve(&name, kind == 1);
    let flags = if addresses.is_some() { [0x81, 0x80] } else { [0x81, 0x83] };
    let records: Vec<Vec<u8>> = addresses
        .iter()
        .flatten()
        .filter_map(|address| match address {
            IpAddr::V4(v4) if kind == 1 => Some((1u16, v4.octets().to_vec())),
            IpAddr::V6(v6) if kind == 28 => Some((28u16, v6.octets().to_vec())),
            _ => None,
        })
        .map(|(kind, data)| {
            let length = u16::try_from(data.len()).unwrap().to_be_bytes();
            // A pointer to the question's name, class IN, TTL 0.
            [&[0xc0, 12][..], &kind.to_be_bytes(), &[0, 1, 0, 0, 0, 0], &length, &data].concat()
        })
        .collect();
    let count = u16::try_from(records.len()).unwrap().to_be_bytes();
    let reply = [&query[..2], &flags, &[0, 1], &count, &[0, 0, 0, 0], question, &records.concat()];
    Some(reply.concat())
}

/// An authority, and a server with its certificate for the names of the tests.
fn certificates() -> (String, Arc<rustls::ServerConfig>) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = ["allowed.test", "*.allowed.test", "other.test", "127.0.0.2", "api.anthropic.com"];
    let params = CertificateParams::new(names.map(str::to_owned)).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (issuer.pem(), Arc::new(config))
}

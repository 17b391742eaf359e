//! Servers on the loopback of the test's own network namespace. Each runs until the process ends.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::support::World;

/// The name server that tests name by `net_resolver`.
pub(crate) const RESOLVER: &str = "127.0.0.1:5300";

/// Where the web servers listen: `HOST@127.0.0.2/32` grants it.
pub(crate) const WEB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

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
}

impl Servers {
    pub(crate) fn start() -> Self {
        let state = Arc::new(State::default());
        let (ca_pem, tls) = certificates();
        let dns = UdpSocket::bind(RESOLVER).unwrap();
        let known = Arc::clone(&state);
        std::thread::spawn(move || serve_names(&dns, &known));
        for address in [SocketAddr::from((WEB, 80)), SocketAddr::from((WEB, 8080))] {
            let known = Arc::clone(&state);
            listen(address, move |stream| serve_http(stream, &known));
        }
        listen(SocketAddr::from((Ipv4Addr::LOCALHOST, LOCAL)), {
            let known = Arc::clone(&state);
            move |stream| serve_http(stream, &known)
        });
        for port in [443, 8443] {
            let (known, tls) = (Arc::clone(&state), Arc::clone(&tls));
            listen(SocketAddr::from((WEB, port)), move |mut stream| {
                let Ok(mut session) = rustls::ServerConnection::new(Arc::clone(&tls)) else {
                    return;
                };
                serve_http(rustls::Stream::new(&mut session, &mut stream), &known);
                session.send_close_notify();
                let _ = session.write_tls(&mut stream);
            });
        }
        listen(SocketAddr::from((WEB, GREETING)), |mut stream| {
            let _ = stream.write_all(b"SSH-2.0-test\r\n");
            let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
        });
        listen(SocketAddr::from((WEB, COUNTING)), |mut stream| {
            let n = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0);
            let _ = writeln!(stream, "{n} bytes");
        });
        listen(SocketAddr::from((WEB, SINK)), |mut stream| {
            let _ = stream.set_read_timeout(None);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            std::thread::sleep(Duration::from_mins(10));
        });
        listen(SocketAddr::from((WEB, STREAM)), |mut stream| {
            let block = vec![b'x'; 1 << 20];
            for _ in 0..STREAM_BYTES >> 20 {
                if stream.write_all(&block).is_err() {
                    return;
                }
            }
        });
        Self { state, ca_pem }
    }

    /// Forgets everything of the row before.
    pub(crate) fn reset(&self) {
        let mut names = self.state.names.lock().unwrap();
        names.clear();
        for name in ["allowed.test", "www.allowed.test", "other.test", "plain.test"] {
            names.insert(name.into(), vec![vec![WEB.into()]]);
        }
        self.state.queries.lock().unwrap().clear();
        self.state.requests.lock().unwrap().clear();
    }

    /// Sets the answers of a name, in turn.
    pub(crate) fn name(&self, name: &str, answers: &[&[&str]]) {
        let parse = |address: &&str| address.parse().unwrap();
        let answers = answers.iter().map(|one| one.iter().map(parse).collect()).collect();
        self.state.names.lock().unwrap().insert(name.into(), answers);
    }

    /// Names that were asked for on the host.
    pub(crate) fn queries(&self) -> Vec<String> {
        self.state.queries.lock().unwrap().clone()
    }

    /// First lines and Host headers of requests that arrived.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }

    /// A world whose runs resolve names here and find the authority's certificate in their workspace.
    pub(crate) fn world(&self) -> World {
        let world = World::new().var("RINGFENCE_NET_RESOLVER", RESOLVER);
        world.write("work/ca.pem", &self.ca_pem);
        let ca = world.write("ca.pem", &self.ca_pem);
        world.var("RINGFENCE_NET_CA", ca.to_str().unwrap())
    }
}

fn listen(address: SocketAddr, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
    let listener = TcpListener::bind(address).unwrap_or_else(|e| panic!("{address}: {e}"));
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

/// Answers GET and POST with the request's own line and Host, and keeps the connection.
fn serve_http(mut stream: impl Read + Write, state: &State) {
    let mut head = Vec::new();
    let mut byte = [0u8; 1];
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) if head.len() < 64 << 10 => head.push(byte[0]),
                _ => return,
            }
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let field = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.trim().to_owned())
        };
        let line = text.lines().next().unwrap_or_default().to_owned();
        let host = field("host").unwrap_or_default();
        let length = field("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        state.requests.lock().unwrap().push(format!("{line} | {host} | {text:?}"));
        let token = field("authorization").unwrap_or_default();
        let body = format!("{line} for {host}: {}{token}\n", String::from_utf8_lossy(&body));
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Seen: {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() || stream.flush().is_err() {
            return;
        }
        head.clear();
    }
}

/// One question, one answer; A records only.
fn serve_names(socket: &UdpSocket, state: &State) {
    let mut buffer = [0u8; 1500];
    while let Ok((n, client)) = socket.recv_from(&mut buffer) {
        let query = &buffer[..n];
        let mut name = String::new();
        let mut at = 12;
        while let Some(&length) = query.get(at).filter(|length| **length > 0) {
            let label = &query[at + 1..at + 1 + usize::from(length)];
            name.push_str(&String::from_utf8_lossy(label));
            name.push('.');
            at += 1 + usize::from(length);
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
        let question = &query[12..at + 5];
        if kind == 1 {
            state.queries.lock().unwrap().push(name.clone());
        }
        let mut names = state.names.lock().unwrap();
        let answers = names.get_mut(&name);
        let exists = answers.is_some();
        let addresses = match answers {
            Some(answers) if kind == 1 && answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => Vec::new(),
        };
        drop(names);
        let records: Vec<Vec<u8>> = addresses
            .iter()
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
        let flags = if exists { [0x81, 0x80] } else { [0x81, 0x83] };
        let reply =
            [&query[..2], &flags, &[0, 1], &count, &[0, 0, 0, 0], question, &records.concat()]
                .concat();
        let _ = socket.send_to(&reply, client);
    }
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

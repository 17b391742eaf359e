//! One connection whose host and port are known, whichever way it was asked for: judges its protocol, dials and relays.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringfence_spec::network::Host;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::dial::{self, Dialled};
use crate::hello::{Hello, HelloReader};
use crate::helper::State;
use crate::relay::{self, Counted, Rewound};
use crate::report::{Refusal, Request};
use crate::{http, intercept};

const HTTPS: u16 = 443;
const HTTP: u16 = 80;

/// The first byte of a TLS connection (RFC 8446, 5.1: `handshake`).
const TLS_HANDSHAKE: u8 = 0x16;

/// Time that a client may take for its first bytes, where they are needed before the host is dialled.
pub(crate) const FIRST_BYTES_PATIENCE: Duration = Duration::from_mins(1);

/// Bytes that are read to learn the protocol.
const FIRST_BYTES_MAX: usize = 8 << 10;

/// Fatal alert `unrecognized_name` (RFC 6066, 3), which clients report in words.
pub(crate) const ALERT: [u8; 7] = [0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x70];

/// A connection of the run.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the peer see a reset, and not an orderly end, when it is dropped.
    fn reset_on_close(&self) {}
}

impl Stream for TcpStream {
    fn reset_on_close(&self) {
        let _ = self.set_zero_linger();
    }
}

impl Stream for hyper_util::rt::TokioIo<hyper::upgrade::Upgraded> {}

/// Serves one connection and reports it.
pub(crate) async fn serve(
    state: Rc<State>,
    stream: impl Stream,
    request: Request,
    dialled: Option<Dialled>,
) {
    let Some(port) = request.port else { return };
    if dialled.is_none()
        && let Err(refusal) = dial::allowed(&state, &request.host, port)
    {
        request.refused(&refusal);
        stream.reset_on_close();
        return;
    }
    let is_judged = state.judges_requests(&request.host);
    if is_judged
        && port != HTTP
        && !state.plan.requests.iter().any(|r| r.is_about(&request.host, port))
    {
        let reason = format!(
            "requests to {} are judged one by one, and no rule about requests names port {port}",
            request.host
        );
        request.refused(&Refusal::denied(reason));
        stream.reset_on_close();
        return;
    }
    if reads_requests_in_tls(&state, &request.host, port) {
        return intercept::serve(state, stream, request).await;
    }
    match port {
        HTTPS => tls(&state, stream, request, Vec::new(), dialled).await,
        HTTP => plain(state, stream, request, dialled).await,
        _ => opaque(&state, stream, request, dialled).await,
    }
}

/// Returns true if TLS to a host ends in this helper, which makes its own connections for the requests.
fn reads_requests_in_tls(state: &State, host: &Host, port: u16) -> bool {
    let is_judged = state.judges_requests(host) && port != HTTP;
    state.interception.is_some() && (is_judged || state.secrets.has(host, port))
}

/// Makes the connection that a client of the proxy asks for, before it is told that there is one; `None` where the requests in
/// it are read and dialled for.
pub(crate) async fn dial_first(
    state: &State,
    request: &Request,
    port: u16,
) -> Result<Option<Dialled>, Refusal> {
    if reads_requests_in_tls(state, &request.host, port) {
        return dial::allowed(state, &request.host, port).map(|_| None);
    }
    dial::dial(state, request).await.map(Some)
}

/// TLS: its handshake must name the host that was asked for.
async fn tls(
    state: &State,
    mut stream: impl Stream,
    request: Request,
    first: Vec<u8>,
    dialled: Option<Dialled>,
) {
    let mut hello = first;
    let judged = tokio::time::timeout(
        FIRST_BYTES_PATIENCE,
        read_hello(&mut stream, &mut hello, &request.host),
    );
    match judged.await {
        Ok(Ok(())) => {}
        Ok(Err(Some(refusal))) => {
            request.refused(&refusal);
            let _ = stream.write_all(&ALERT).await;
            return;
        }
        // The client closed before it said anything, or says nothing.
        Ok(Err(None)) | Err(_) => return,
    }
    let Some(dialled) = dial_for(state, &stream, &request, dialled).await else { return };
    let mut server = Counted::new(dialled.stream, Arc::clone(&request.traffic));
    if server.write_all(&hello).await.is_err() {
        return;
    }
    match after_hello(&mut stream, &mut server, &request.host).await {
        Ok(()) => relay::both_ways(stream, server).await,
        Err(Some(refusal)) => {
            request.refused(&refusal);
            let _ = stream.write_all(&ALERT).await;
        }
        // A peer is gone.
        Err(None) => {}
    }
}

/// `HelloRetryRequest` is a `ServerHello` with this random (RFC 8446, 4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xCF, 0x21, 0xAD, 0x74, 0xE5, 0x9A, 0x61, 0x11, 0xBE, 0x1D, 0x8C, 0x02, 0x1E, 0x65, 0xB8, 0x91,
    0xC2, 0xA2, 0x11, 0x16, 0x7A, 0xBB, 0x8C, 0x5E, 0x07, 0x9E, 0x09, 0xE2, 0xC8, 0xA8, 0x33, 0x9C,
];

/// Record header, handshake header and version come before the random.
const RANDOM_OFFSET: usize = 5 + 4 + 2;

/// A record that clients of TLS 1.3 send for old middleboxes: `change_cipher_spec`, one byte.
const CHANGE_CIPHER_SPEC: [u8; 6] = [0x14, 0x03, 0x03, 0x00, 0x01, 0x01];

/// Passes on the server's first record. If it asks for another hello, that one must name the host too.
async fn after_hello(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: &Host,
) -> Result<(), Option<Refusal>> {
    let mut first = Vec::new();
    let mut buffer = vec![0u8; FIRST_BYTES_MAX];
    while first.len() < RANDOM_OFFSET + RETRY_RANDOM.len() {
        match server.read(&mut buffer).await {
            Ok(n) if n > 0 => first.extend_from_slice(&buffer[..n]),
            // An alert is shorter, and ends the connection.
            _ => break,
        }
    }
    stream.write_all(&first).await.map_err(|_| None)?;
    let random = first.get(RANDOM_OFFSET..RANDOM_OFFSET + RETRY_RANDOM.len());
    if first.first() != Some(&TLS_HANDSHAKE) || random != Some(&RETRY_RANDOM) {
        return Ok(());
    }
    let mut second = Vec::new();
    let before = read_past(stream, &mut second, &CHANGE_CIPHER_SPEC).await?;
    read_hello(stream, &mut second, host).await?;
    server.write_all(before).await.map_err(|_| None)?;
    server.write_all(&second).await.map_err(|_| None)
}

/// Reads `record` if the next bytes are that, and the bytes after it into `rest`. Returns what was taken off.
async fn read_past<'a>(
    stream: &mut (impl AsyncRead + Unpin),
    rest: &mut Vec<u8>,
    record: &'a [u8],
) -> Result<&'a [u8], Option<Refusal>> {
    let mut buffer = vec![0u8; FIRST_BYTES_MAX];
    while rest.len() <= record.len() {
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => rest.extend_from_slice(&buffer[..n]),
            _ => return Err(None),
        }
    }
    if rest.starts_with(record) {
        rest.drain(..record.len());
        return Ok(record);
    }
    Ok(&[])
}

/// Plain HTTP, each request judged by itself; TLS on this port is judged like any other TLS, and refused where single requests
/// are judged.
async fn plain(
    state: Rc<State>,
    mut stream: impl Stream,
    request: Request,
    dialled: Option<Dialled>,
) {
    let mut first = vec![0u8; FIRST_BYTES_MAX];
    let read = tokio::time::timeout(FIRST_BYTES_PATIENCE, stream.read(&mut first));
    let Ok(Ok(n @ 1..)) = read.await else { return };
    first.truncate(n);
    if first[0] == TLS_HANDSHAKE {
        if state.judges_requests(&request.host) {
            // On this port requests are read, and in TLS they could not be.
            let reason =
                format!("requests to {} are judged one by one; use port 443 for TLS", request.host);
            request.refused(&Refusal::denied(reason));
            let _ = stream.write_all(&ALERT).await;
            return;
        }
        return tls(&state, stream, request, first, dialled).await;
    }
    http::serve(state, Rewound::new(first, stream), http::Target::Fixed(request, dialled)).await;
}

/// Any other protocol, also one in which the server speaks first. A client that begins with a TLS handshake is judged like
/// any other TLS.
async fn opaque(
    state: &State,
    mut stream: impl Stream,
    request: Request,
    dialled: Option<Dialled>,
) {
    let Some(mut dialled) = dial_for(state, &stream, &request, dialled).await else { return };
    let mut from_client = vec![0u8; FIRST_BYTES_MAX];
    let mut from_server = vec![0u8; FIRST_BYTES_MAX];
    let first = tokio::select! {
        // In doubt the client's bytes: only they are judged.
        biased;
        read = stream.read(&mut from_client) => First::Client(read.unwrap_or(0)),
        read = dialled.stream.read(&mut from_server) => First::Server(read.unwrap_or(0)),
    };
    match first {
        First::Client(n) => {
            from_client.truncate(n);
            if from_client.first() == Some(&TLS_HANDSHAKE) {
                return tls(state, stream, request, from_client, Some(dialled)).await;
            }
            let server = Counted::new(dialled.stream, Arc::clone(&request.traffic));
            relay::both_ways(Rewound::new(from_client, stream), server).await;
        }
        First::Server(n) => {
            from_server.truncate(n);
            let server = Counted::new(
                Rewound::new(from_server, dialled.stream),
                Arc::clone(&request.traffic),
            );
            relay::both_ways(stream, server).await;
        }
    }
}

/// The side that spoke first, and how many bytes.
enum First {
    Client(usize),
    Server(usize),
}

/// Dials, or reports why not and resets.
async fn dial_for(
    state: &State,
    stream: &impl Stream,
    request: &Request,
    dialled: Option<Dialled>,
) -> Option<Dialled> {
    if dialled.is_some() {
        return dialled;
    }
    match dial::dial(state, request).await {
        Ok(dialled) => Some(dialled),
        Err(refusal) => {
            request.refused(&refusal);
            stream.reset_on_close();
            None
        }
    }
}

/// Reads a whole `ClientHello` into `bytes` and compares its name with the host. `None` if the client is gone.
pub(crate) async fn read_hello(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    host: &Host,
) -> Result<(), Option<Refusal>> {
    let mut reader = HelloReader::default();
    let mut buffer = vec![0u8; 4096];
    loop {
        match reader.advance(bytes) {
            Hello::NeedMore => {}
            Hello::Complete { sni, .. } => {
                return same_host(sni.map(Host::Name), host).map_err(Some);
            }
            Hello::NotTls => {
                return Err(Some(Refusal::denied(
                    "this port carries TLS, and the client does not",
                )));
            }
            Hello::Broken(reason) => {
                return Err(Some(Refusal::denied(format!(
                    "the TLS handshake is not valid: {reason}"
                ))));
            }
        }
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
            _ => return Err(None),
        }
    }
}

fn same_host(sni: Option<Host>, host: &Host) -> Result<(), Refusal> {
    match (sni, host) {
        (Some(sni), host) if sni == *host => Ok(()),
        // A handshake with an address has no name (RFC 6066, 3).
        (None, Host::Ip(_)) => Ok(()),
        (Some(sni), host) => Err(Refusal::denied(format!(
            "the TLS handshake names {sni}, and the connection is to {host}"
        ))),
        (None, host) => {
            Err(Refusal::denied(format!("the TLS handshake does not name {host} (no SNI)")))
        }
    }
}

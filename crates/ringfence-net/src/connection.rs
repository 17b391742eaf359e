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
        request.refused(&state.reporter, &refusal);
        stream.reset_on_close();
        return;
    }
    if state.interception.is_some() && state.secrets.has(&request.host, port) {
        return intercept::serve(state, stream, request).await;
    }
    match port {
        HTTPS => tls(&state, stream, request, Vec::new(), dialled).await,
        HTTP => plain(state, stream, request, dialled).await,
        _ => opaque(&state, stream, request, dialled).await,
    }
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
            request.refused(&state.reporter, &refusal);
            let _ = stream.write_all(&ALERT).await;
            return;
        }
        // The client closed before it said anything, or says nothing.
        Ok(Err(None)) | Err(_) => return,
    }
    let Some(dialled) = dial_for(state, &stream, &request, dialled).await else { return };
    let server = Counted::new(dialled.stream, Arc::clone(&request.traffic));
    relay::both_ways(Rewound::new(hello, stream), server).await;
    request.ended(&state.reporter, &dialled.rule, dialled.address);
}

/// Plain HTTP, each request judged by itself; TLS on this port is judged like any other TLS.
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
        return tls(&state, stream, request, first, dialled).await;
    }
    http::serve(state, Rewound::new(first, stream), http::Target::Fixed(request, dialled)).await;
}

/// Any other protocol, also one in which the server speaks first. Only a TLS handshake is looked at.
async fn opaque(state: &State, stream: impl Stream, request: Request, dialled: Option<Dialled>) {
    let Some(dialled) = dial_for(state, &stream, &request, dialled).await else { return };
    let server = Counted::new(dialled.stream, Arc::clone(&request.traffic));
    let (mut client_read, mut client_write) = tokio::io::split(stream);
    let (mut server_read, mut server_write) = tokio::io::split(server);
    let up = async {
        let mut first = vec![0u8; FIRST_BYTES_MAX];
        let n = client_read.read(&mut first).await.map_err(|_| None)?;
        first.truncate(n);
        if n == 0 {
            return server_write.shutdown().await.map_err(|_| None);
        }
        if first[0] == TLS_HANDSHAKE {
            read_hello(&mut client_read, &mut first, &request.host).await?;
        }
        server_write.write_all(&first).await.map_err(|_| None)?;
        relay::one_way(&mut client_read, &mut server_write).await.map_err(|_| None)
    };
    let down = async {
        relay::one_way(&mut server_read, &mut client_write).await.map_err(|_| None::<Refusal>)
    };
    match tokio::try_join!(up, down) {
        Err(Some(refusal)) => {
            request.refused(&state.reporter, &refusal);
            client_read.unsplit(client_write).reset_on_close();
        }
        Ok(_) | Err(None) => request.ended(&state.reporter, &dialled.rule, dialled.address),
    }
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
    match dial::dial(state, &request.host, request.port?).await {
        Ok(dialled) => Some(dialled),
        Err(refusal) => {
            request.refused(&state.reporter, &refusal);
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

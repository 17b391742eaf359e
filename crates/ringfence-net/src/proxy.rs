//! The explicit proxy of a run, for clients that are told to use one: HTTP (CONNECT and whole URLs) and SOCKS5 on one port.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ringfence_spec::{ConnectionDoor, ConnectionVerdict};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::connection::{self, Stream as _};
use crate::helper::State;
use crate::http::{self, Target};
use crate::relay::Rewound;
use crate::report::Request;
use crate::socks::{SocksHandshake, SocksReply, SocksStep};

/// The first byte of a SOCKS5 greeting (RFC 1928, 3).
const SOCKS5: u8 = 5;

/// Time that a client may take to say what it wants.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(30);

/// Serves one client of the proxy. Only on loopback: other addresses of this port belong to other hosts.
pub(crate) async fn serve(state: Rc<State>, mut stream: TcpStream, client: SocketAddr) {
    match stream.local_addr() {
        Ok(asked) if asked.ip().to_canonical().is_loopback() => {}
        Ok(asked) => {
            return crate::captured::serve(state, stream, client, asked.port()).await;
        }
        Err(_) => return,
    }
    let mut first = [0u8; 1];
    let read = tokio::time::timeout(HANDSHAKE_PATIENCE, stream.read_exact(&mut first));
    if !matches!(read.await, Ok(Ok(_))) {
        return;
    }
    if first == [SOCKS5] {
        return socks(state, stream, client).await;
    }
    http::serve(state, Rewound::new(first.to_vec(), stream), Target::Proxy { client }).await;
}

async fn socks(state: Rc<State>, mut stream: TcpStream, client: SocketAddr) {
    let mut handshake = SocksHandshake::new(None);
    handshake.push(&[SOCKS5]);
    let negotiated = async {
        let mut buffer = [0u8; 512];
        loop {
            match handshake.step() {
                SocksStep::NeedMore => match stream.read(&mut buffer).await {
                    Ok(n) if n > 0 => handshake.push(&buffer[..n]),
                    _ => return None,
                },
                SocksStep::Send(bytes) => stream.write_all(&bytes).await.ok()?,
                SocksStep::Connect { host, port } => return Some((host, port)),
                SocksStep::Fail { send, .. } => {
                    let _ = stream.write_all(&send).await;
                    return None;
                }
            }
        }
    };
    let Ok(Some((host, port))) = tokio::time::timeout(HANDSHAKE_PATIENCE, negotiated).await else {
        return;
    };
    let request =
        Request::new(&state.reporter, host, Some(port), ConnectionDoor::Socks, Some(client));
    match connection::dial_first(&state, &request, port).await {
        Ok(dialled) => {
            if stream.write_all(&SocksReply::Succeeded.to_bytes()).await.is_err() {
                stream.reset_on_close();
                return;
            }
            let stream = Rewound::new(handshake.into_rest(), stream);
            connection::serve(state, stream, request, dialled).await;
        }
        Err(refusal) => {
            request.refused(&refusal);
            let reply = match refusal.verdict {
                ConnectionVerdict::Denied => SocksReply::NotAllowed,
                _ => SocksReply::HostUnreachable,
            };
            let _ = stream.write_all(&reply.to_bytes()).await;
        }
    }
}

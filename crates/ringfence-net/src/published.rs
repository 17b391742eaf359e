//! Connections from the host to a published port: each is passed on to a server of the run, over a socket that was made in
//! the run's network namespace. This process cannot make such sockets, so those it has are used again.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use ringfence_spec::ConnectionDoor;
use ringfence_spec::network::Host;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::connection::Stream as _;
use crate::helper::State;
use crate::relay::{self, Counted};
use crate::report::{Refusal, Request};

/// Time that a server of the run may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Sockets of the run's network namespace, for connections to the run.
pub(crate) struct InwardSockets {
    ipv4: Option<Pool>,
    /// None if the kernel has no IPv6.
    ipv6: Option<Pool>,
}

/// Sockets of one address family.
struct Pool {
    free: RefCell<Vec<OwnedFd>>,
    slots: Semaphore,
}

/// A socket in use. Dropping it ends its connection, and it is free again.
struct Held<'a> {
    socket: Option<OwnedFd>,
    pool: &'a Pool,
    slot: Option<SemaphorePermit<'a>>,
}

impl InwardSockets {
    pub(crate) fn new(ipv4: Vec<OwnedFd>, ipv6: Vec<OwnedFd>) -> Self {
        Self { ipv4: Pool::new(ipv4), ipv6: Pool::new(ipv6) }
    }

    /// Connects to a port of the run. A server that listens on `localhost` may have only one of the two addresses.
    async fn connect(&self, port: u16) -> Option<(Held<'_>, TcpStream)> {
        let ways = [
            (&self.ipv4, IpAddr::from(Ipv4Addr::LOCALHOST)),
            (&self.ipv6, IpAddr::from(Ipv6Addr::LOCALHOST)),
        ];
        for (pool, address) in ways {
            let Some(pool) = pool else { continue };
            let Some(held) = pool.take().await else { continue };
            if let Ok(stream) = held.connect(SocketAddr::new(address, port)).await {
                return Some((held, stream));
            }
        }
        None
    }
}

impl Pool {
    fn new(sockets: Vec<OwnedFd>) -> Option<Self> {
        let slots = Semaphore::new(sockets.len());
        (!sockets.is_empty()).then(|| Self { free: RefCell::new(sockets), slots })
    }

    /// Waits for a free socket.
    async fn take(&self) -> Option<Held<'_>> {
        let slot = self.slots.acquire().await.ok()?;
        let socket = self.free.borrow_mut().pop();
        socket.map(|socket| Held { socket: Some(socket), pool: self, slot: Some(slot) })
    }
}

impl Held<'_> {
    async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = self.socket.as_ref().ok_or(std::io::ErrorKind::NotConnected)?;
        let socket = TcpSocket::from_std_stream(socket.try_clone()?.into());
        let stream = tokio::time::timeout(CONNECT_PATIENCE, socket.connect(address)).await??;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Resets a connection that has not ended.
        match self.socket.take() {
            Some(socket) if rustix::net::connect_unspec(&socket).is_ok() => {
                self.pool.free.borrow_mut().push(socket);
            }
            _ => {
                if let Some(slot) = self.slot.take() {
                    slot.forget();
                }
            }
        }
    }
}

/// Passes one connection from the host on to a port of the run.
pub(crate) async fn serve(state: &State, stream: TcpStream, client: SocketAddr, port: u16) {
    let door = ConnectionDoor::Published;
    let request = Request::new(&state.reporter, Host::Ip(client.ip()), Some(port), door, None);
    if let Some((_held, inside)) = state.inward.connect(port).await {
        request.made(&format!("publish:{port}"), client.ip());
        let host = Counted::new(stream, Arc::clone(&request.traffic));
        relay::both_ways(inside, host).await;
    } else {
        let reason = format!("no server of the run listens on port {port}");
        request.refused(&Refusal::failed(reason));
        stream.reset_on_close();
    }
}

//! A connection that a program made to any address: the address tells the host that was meant.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use ringfence_spec::ConnectionDoor;
use ringfence_spec::network::{Host, NetworkVerdict};
use tokio::net::TcpStream;

use crate::connection::{self, Stream as _};
use crate::dns::Names;
use crate::helper::State;
use crate::report::{Refusal, Request};

/// Serves one captured connection to `port`.
pub(crate) async fn serve(state: Rc<State>, stream: TcpStream, client: SocketAddr, port: u16) {
    let Ok(asked) = stream.local_addr() else { return };
    let reporter = state.reporter.clone();
    let request =
        |host| Request::new(&reporter, host, Some(port), ConnectionDoor::Captured, Some(client));
    match host(&state, asked.ip().to_canonical(), port) {
        Ok(host) => connection::serve(state, stream, request(host), None).await,
        Err(refusal) => {
            request(Host::Ip(asked.ip().to_canonical())).refused(&refusal);
            stream.reset_on_close();
        }
    }
}

/// The host that a captured address stands for.
fn host(state: &State, asked: IpAddr, port: u16) -> Result<Host, Refusal> {
    if asked.is_loopback() || asked.is_unspecified() {
        // The run's own loopback, unless a rule makes this port the host's.
        let localhost = "localhost".parse().map_err(Refusal::denied)?;
        return match state.plan.rules.decide(&localhost, port) {
            NetworkVerdict::Allowed(_) => Ok(localhost),
            NetworkVerdict::Denied(_) => Err(Refusal::denied(
                "a rule grants this port of other hosts, so a server of the run cannot have it",
            )),
        };
    }
    match asked {
        IpAddr::V4(v4) if Names::is_in_range(v4) => match state.names.borrow().name_of(v4) {
            Some(name) => Ok(Host::Name(name.clone())),
            None => Err(Refusal::denied("no name has this address")),
        },
        ip => Ok(Host::Ip(ip)),
    }
}

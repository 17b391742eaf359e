//! Makes a connection on the host: asks the rules, resolves the name, checks every address, dials a checked one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ringfence_spec::network::{
    Dial, Grant, Host, NetworkLimitKind, NetworkVerdict, UpstreamProxy, canonical,
};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::helper::State;
use crate::report::{Refusal, Request};

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Time after which the next address is tried.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(2);

/// Time to wait for the last address.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The longest answer of an upstream proxy.
const PROXY_HEAD_BYTES_MAX: usize = 16 << 10;

/// A connection on the host.
pub(crate) struct Dialled {
    pub(crate) stream: TcpStream,
}

/// Open connections up to which the kernel chooses the size of their buffers; it gives each up to some megabytes.
const WIDE_MAX: usize = 64;

/// Buffer of each direction beyond that.
const NARROW_BYTES: usize = 64 << 10;

/// Time after which bytes that the host does not acknowledge end a connection, also one whose run is over.
const UNACKNOWLEDGED_MAX_MS: u32 = 60_000;

fn prepare(stream: &TcpStream, n_open: usize) {
    // Small writes of the run's own protocols are not held back.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MAX_MS);
    if n_open > WIDE_MAX {
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, NARROW_BYTES);
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(stream, NARROW_BYTES);
    }
}

/// Decides by the rules. Where requests or limits are about a name, `*` allows names and no addresses: the host of that name
/// would be reached by its address, unjudged.
fn decide<'a>(state: &'a State, host: &'a Host, port: u16) -> Result<Grant<'a>, Refusal> {
    let rules = &state.plan.rules;
    let verdict = if state.judges_names() {
        rules.decide_by_name(host, port)
    } else {
        rules.decide(host, port)
    };
    match verdict {
        NetworkVerdict::Allowed(grant) => Ok(grant),
        NetworkVerdict::Denied(denied) => Err(Refusal::by_rules(denied)),
    }
}

/// Returns the text of the rule that allows a connection.
pub(crate) fn allowed(state: &State, host: &Host, port: u16) -> Result<String, Refusal> {
    decide(state, host, port).map(|grant| grant.rule.to_owned())
}

/// Connects to the host of a request, if the rules allow it.
pub(crate) async fn dial(state: &State, request: &Request) -> Result<Dialled, Refusal> {
    let (host, port) = (&request.host, request.port.unwrap_or(0));
    let grant = decide(state, host, port)?;
    state.limits.take(NetworkLimitKind::Connections, host)?;
    let failed =
        |reason: String| Refusal { rule: Some(grant.rule.to_owned()), ..Refusal::failed(reason) };
    let made = |stream: TcpStream, address| {
        prepare(&stream, state.reporter.n_open());
        request.made(grant.rule, address);
        request.traffic.limit(state.limits.bytes(host));
        Dialled { stream }
    };
    if let (Some(proxy), Dial::Public) = (&state.plan.upstream, &grant.dial) {
        if let Host::Ip(ip) = host {
            check(&grant, &[*ip])?;
        }
        let (stream, address) = through(state, proxy, host, port)
            .await
            .map_err(|reason| failed(format!("the upstream proxy {proxy}: {reason}")))?;
        return Ok(made(stream, address));
    }
    let addresses = match (host, &grant.dial) {
        (_, Dial::HostLoopback) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        (Host::Ip(ip), _) => vec![*ip],
        (Host::Name(name), _) => state.resolver.addresses(name).await.map_err(Refusal::failed)?,
    };
    let checked = check(&grant, &addresses)?;
    let mut reason = String::from("the name has no address");
    let n = checked.len().min(ADDRESSES_MAX);
    for (i, address) in checked.into_iter().take(n).enumerate() {
        let patience = if i + 1 < n { NEXT_ADDRESS_AFTER } else { CONNECT_MAX };
        match tokio::time::timeout(patience, TcpStream::connect(SocketAddr::new(address, port)))
            .await
        {
            Ok(Ok(stream)) => return Ok(made(stream, address)),
            Ok(Err(error)) => reason = format!("{address}: {error}"),
            Err(_) => reason = format!("{address}: no answer in {} s", patience.as_secs()),
        }
    }
    Err(failed(reason))
}

/// Asks the operator's proxy for a connection. It resolves the name, and its own rules decide about addresses.
async fn through(
    state: &State,
    proxy: &UpstreamProxy,
    host: &Host,
    port: u16,
) -> Result<(TcpStream, IpAddr), String> {
    let addresses = match &proxy.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) if name.is_localhost() => vec![Ipv4Addr::LOCALHOST.into()],
        Host::Name(name) => state.resolver.addresses(name).await?,
    };
    let address = *addresses.first().ok_or("its name has no address")?;
    let asked = async {
        let mut stream = TcpStream::connect(SocketAddr::new(address, proxy.port)).await?;
        let target = format!("{}:{port}", host.in_url());
        let login = proxy
            .login
            .as_ref()
            .map(|login| format!("Proxy-Authorization: Basic {}\r\n", BASE64.encode(login)));
        let login = login.unwrap_or_default();
        let ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n");
        stream.write_all(ask.as_bytes()).await?;
        // One byte at a time: the next ones may be the host's own.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= PROXY_HEAD_BYTES_MAX {
                return Err(std::io::Error::other("its answer is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        Ok((stream, head))
    };
    let (stream, head) = match tokio::time::timeout(CONNECT_MAX, asked).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer in {} s", CONNECT_MAX.as_secs())),
    };
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line: String = String::from_utf8_lossy(line).chars().take(100).collect();
    let status = line.split(' ').nth(1).unwrap_or_default();
    if line.starts_with("HTTP/1.") && status == "200" {
        Ok((stream, address))
    } else {
        Err(format!("it answered `{line}`"))
    }
}

/// Returns the addresses that may be dialled; refuses if there is none.
fn check(grant: &Grant<'_>, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, Refusal> {
    let mut checked = Vec::new();
    let mut refused = None;
    // The kernel dials an IPv4 address for an IPv6 one that holds it: that one is judged, and no other is dialled.
    for address in addresses.iter().copied().map(canonical) {
        match grant.may_dial(address).and_then(|()| not_own(grant, address)) {
            Ok(()) => checked.push(address),
            Err(reason) => refused = refused.or(Some((address, reason))),
        }
    }
    match refused {
        Some((address, reason)) if checked.is_empty() => {
            let denied = grant.denied_address(address);
            Err(Refusal {
                rule: denied.by.or_else(|| Some(grant.rule.to_owned())),
                grant: denied.grant,
                ..Refusal::denied(reason)
            })
        }
        _ => Ok(checked),
    }
}

/// Refuses the host's own addresses, which may be public ones, unless a rule names them.
fn not_own(grant: &Grant<'_>, address: IpAddr) -> Result<(), String> {
    match &grant.dial {
        Dial::HostLoopback | Dial::Exact(_) => return Ok(()),
        Dial::Within(ranges) if ranges.iter().any(|range| range.contains(address)) => return Ok(()),
        Dial::Within(_) | Dial::Public => {}
    }
    match ringfence_sys::route_kind(address) {
        Ok(ringfence_sys::RouteKind::Unicast) => Ok(()),
        Ok(ringfence_sys::RouteKind::Local) => Err(format!("{address} is the host's own address")),
        Ok(ringfence_sys::RouteKind::Other) => {
            Err(format!("{address} is not the address of one host"))
        }
        // No route: the connect says so itself.
        Err(error) if matches!(error.errno, Errno::NETUNREACH | Errno::HOSTUNREACH) => Ok(()),
        Err(error) => Err(format!("cannot check the route to {address}: {error}")),
    }
}

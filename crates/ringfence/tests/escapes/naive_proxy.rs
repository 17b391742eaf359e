//! A filtering proxy with the mistakes of published ones, on the port that Ringfence's own has inside a run. Rows `off`
//! and `without network` of attacks on proxies meet this one, so that the attack is shown to work on something.
//!
//! It means to allow `allowed.test` alone. It compares the end of the name as it was sent, lets every address pass, resolves
//! the name up to its first NUL, line end or percent sign, reads numbers as `inet_aton(3)` does, and judges a connection once.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use crate::servers::Servers;

/// The port of Ringfence's own proxy inside a run.
const PORT: u16 = 3128;

/// Serves clients until the process ends.
pub(crate) fn start(servers: Arc<Servers>) -> Result<(), String> {
    let listener = shared_listener().map_err(|e| format!("proxy: {e}"))?;
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let servers = Arc::clone(&servers);
            std::thread::spawn(move || serve(client, &servers));
        }
    });
    Ok(())
}

/// With `SO_REUSEPORT`, so that a second process can take a share of its clients.
fn shared_listener() -> Result<TcpListener, rustix::io::Errno> {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    rustix::net::sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket.into())
}

/// One client. `None` if it is gone or was refused.
fn serve(mut client: TcpStream, servers: &Servers) -> Option<()> {
    let mut first = [0u8; 1];
    client.read_exact(&mut first).ok()?;
    if first == [5] {
        return socks(client, servers);
    }
    let mut head = first.to_vec();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0u8; 1];
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut words = text.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    if method == "CONNECT" {
        let (host, port) = target.rsplit_once(':')?;
        let server = dial(host.as_bytes(), port.parse().ok()?, servers);
        let Some(server) = server else { return refuse(&mut client) };
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
        return relay(client, server);
    }
    let authority = target.strip_prefix("http://")?.split('/').next()?;
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let server = dial(host.as_bytes(), port.parse().ok()?, servers);
    let Some(mut server) = server else { return refuse(&mut client) };
    server.write_all(&head).ok()?;
    relay(client, server)
}

fn refuse(client: &mut TcpStream) -> Option<()> {
    client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").ok()
}

/// The rest of a SOCKS5 conversation (RFC 1928).
fn socks(mut client: TcpStream, servers: &Servers) -> Option<()> {
    let n_methods = take(&mut client, 1)?[0];
    take(&mut client, n_methods.into())?;
    client.write_all(&[5, 0]).ok()?;
    let host = match take(&mut client, 4)?[3] {
        1 => {
            let octets: [u8; 4] = take(&mut client, 4)?.try_into().ok()?;
            IpAddr::from(octets).to_string().into_bytes()
        }
        3 => {
            let length = take(&mut client, 1)?[0];
            take(&mut client, length.into())?
        }
        4 => {
            let octets: [u8; 16] = take(&mut client, 16)?.try_into().ok()?;
            IpAddr::from(octets).to_string().into_bytes()
        }
        _ => return None,
    };
    let port = take(&mut client, 2)?;
    let server = dial(&host, u16::from_be_bytes([port[0], port[1]]), servers);
    let reply = if server.is_some() { 0 } else { 2 };
    client.write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    relay(client, server?)
}

fn take(client: &mut TcpStream, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).ok().map(|()| bytes)
}

fn dial(host: &[u8], port: u16, servers: &Servers) -> Option<TcpStream> {
    let name = host.split(|byte| b"\0\r\n%".contains(byte)).next()?;
    let name = String::from_utf8_lossy(name).trim_matches(['[', ']']).to_ascii_lowercase();
    let address = name.parse().ok().or_else(|| inet_aton(&name).map(IpAddr::V4));
    let address = match address {
        Some(address) => address,
        None if !host.to_ascii_lowercase().ends_with(b"allowed.test") => return None,
        None => *servers.resolve(&name)?.first()?,
    };
    TcpStream::connect(SocketAddr::new(address, port)).ok()
}

/// `2130706433`, `127.1` and `0x7f.1` are 127.0.0.1.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(part, 8).ok(),
        None => part.parse().ok(),
    };
    let parts = text.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, first) = parts.split_last()?;
    let high = first.iter().zip([24, 16, 8]).map(|(part, bits)| part << bits);
    Some(Ipv4Addr::from(high.sum::<u32>() + last))
}

fn relay(client: TcpStream, server: TcpStream) -> Option<()> {
    let pairs = [(client.try_clone().ok()?, server.try_clone().ok()?), (server, client)];
    for (mut from, mut to) in pairs {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Some(())
}

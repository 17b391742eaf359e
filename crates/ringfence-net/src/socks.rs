//! SOCKS5 (RFC 1928, RFC 1929): a strict parser that is fed bytes, and replies. `CONNECT` only. Never opens a socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringfence_spec::network::Host;

const VERSION: u8 = 5;
const AUTH_VERSION: u8 = 1;
const NO_AUTH: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 0xff;
/// Bytes kept before a request is complete. A greeting has at most 257, a login 513 and a request 262.
const BUFFER_BYTES_MAX: usize = 4096;

/// The server side of one handshake.
#[derive(Debug)]
pub(crate) struct SocksHandshake {
    state: State,
    buffer: Vec<u8>,
    /// Password that the client must present.
    token: Option<Box<[u8]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    Login,
    Request,
    Done,
}

/// The next act of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SocksStep {
    /// Read more bytes.
    NeedMore,
    /// Send these bytes, then take the next step.
    Send(Vec<u8>),
    /// The client asks for a connection. Answer with a [`SocksReply`].
    Connect {
        /// Destination, in canonical form.
        host: Host,
        /// Port, never 0.
        port: u16,
    },
    /// Send these bytes, if there are any, and close.
    Fail {
        /// Last bytes for the client.
        send: Vec<u8>,
        /// Reason for the ledger.
        reason: String,
    },
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SocksReply {
    /// Connected.
    Succeeded = 0,
    /// A fault of the proxy, or a malformed request.
    GeneralFailure = 1,
    /// No rule allows the connection.
    NotAllowed = 2,
    /// The name does not resolve, or the host is unreachable.
    HostUnreachable = 4,
    /// Another command than `CONNECT`.
    CommandUnsupported = 7,
    /// An unknown type of address.
    AddressUnsupported = 8,
}

impl SocksReply {
    /// The reply on the wire. Its bound address is 0.0.0.0:0: the host's own address is not for the run.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        vec![VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

impl SocksHandshake {
    /// Starts a handshake. With a token, the client must log in with it as password; the user name is ignored.
    pub(crate) fn new(token: Option<&[u8]>) -> Self {
        Self { state: State::Greeting, buffer: Vec::new(), token: token.map(Into::into) }
    }

    /// Adds bytes that the client sent.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next step with the bytes at hand. After [`SocksStep::Connect`] and [`SocksStep::Fail`] none follows.
    pub(crate) fn step(&mut self) -> SocksStep {
        let result = match self.state {
            State::Greeting => self.greeting(),
            State::Login => self.login(),
            State::Request => self.request(),
            State::Done => Err(fail(Vec::new(), "the handshake is over")),
        };
        let step = match result {
            Ok(Some(step)) | Err(step) => step,
            Ok(None) if self.buffer.len() < BUFFER_BYTES_MAX => SocksStep::NeedMore,
            Ok(None) => fail(Vec::new(), "too many bytes before the request"),
        };
        if matches!(step, SocksStep::Connect { .. } | SocksStep::Fail { .. }) {
            self.state = State::Done;
        }
        step
    }

    /// Returns the bytes after the request, which belong to the connection.
    pub(crate) fn into_rest(self) -> Vec<u8> {
        self.buffer
    }

    fn greeting(&mut self) -> Result<Option<SocksStep>, SocksStep> {
        let mut fields = Fields(&self.buffer);
        match fields.byte() {
            None => return Ok(None),
            Some(VERSION) => {}
            Some(_) => return Err(fail(Vec::new(), "not SOCKS5")),
        }
        let Some(methods) = fields.counted() else { return Ok(None) };
        let wanted = if self.token.is_some() { PASSWORD } else { NO_AUTH };
        if !methods.contains(&wanted) {
            return Err(fail(vec![VERSION, NO_METHOD], "no acceptable authentication method"));
        }
        self.consume(fields.0.len());
        self.state = if self.token.is_some() { State::Login } else { State::Request };
        Ok(Some(SocksStep::Send(vec![VERSION, wanted])))
    }

    fn login(&mut self) -> Result<Option<SocksStep>, SocksStep> {
        let mut fields = Fields(&self.buffer);
        match fields.byte() {
            None => return Ok(None),
            Some(AUTH_VERSION) => {}
            Some(_) => return Err(fail(Vec::new(), "malformed login")),
        }
        let (Some(_user), Some(password)) = (fields.counted(), fields.counted()) else {
            return Ok(None);
        };
        if !self.token.as_deref().is_some_and(|token| same(token, password)) {
            return Err(fail(vec![AUTH_VERSION, 1], "invalid token"));
        }
        self.consume(fields.0.len());
        self.state = State::Request;
        Ok(Some(SocksStep::Send(vec![AUTH_VERSION, 0])))
    }

    fn request(&mut self) -> Result<Option<SocksStep>, SocksStep> {
        let refuse = |reply: SocksReply, reason: &str| fail(reply.to_bytes(), reason);
        let mut fields = Fields(&self.buffer);
        match fields.byte() {
            None => return Ok(None),
            Some(VERSION) => {}
            Some(_) => return Err(fail(Vec::new(), "not SOCKS5")),
        }
        match fields.byte() {
            None => return Ok(None),
            Some(1) => {}
            Some(_) => {
                return Err(refuse(SocksReply::CommandUnsupported, "only CONNECT is supported"));
            }
        }
        match fields.byte() {
            None => return Ok(None),
            Some(0) => {}
            Some(_) => return Err(refuse(SocksReply::GeneralFailure, "reserved byte is not 0")),
        }
        let host = match fields.byte() {
            None => return Ok(None),
            Some(1) => {
                let Some(ip) = fields.array::<4>() else { return Ok(None) };
                Host::from(IpAddr::V4(Ipv4Addr::from(ip)))
            }
            Some(3) => {
                let Some(name) = fields.counted() else { return Ok(None) };
                Host::from_bytes(name).map_err(|error| refuse(SocksReply::NotAllowed, &error))?
            }
            Some(4) => {
                let Some(ip) = fields.array::<16>() else { return Ok(None) };
                Host::from(IpAddr::V6(Ipv6Addr::from(ip)))
            }
            Some(_) => return Err(refuse(SocksReply::AddressUnsupported, "unknown address type")),
        };
        let Some(port) = fields.array().map(u16::from_be_bytes) else { return Ok(None) };
        if port == 0 {
            return Err(refuse(SocksReply::GeneralFailure, "port 0"));
        }
        self.consume(fields.0.len());
        Ok(Some(SocksStep::Connect { host, port }))
    }

    /// Drops everything but the last `n_left` bytes.
    fn consume(&mut self, n_left: usize) {
        self.buffer.drain(..self.buffer.len() - n_left);
    }
}

fn fail(send: Vec<u8>, reason: &str) -> SocksStep {
    SocksStep::Fail { send, reason: reason.to_owned() }
}

/// Compares without stopping at the first difference, which would tell how much of a token is right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
}

/// Fields from the front; `None` where bytes are missing.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// A byte with the length, then that many bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = self.byte()?;
        let (field, rest) = self.0.split_at_checked(len.into())?;
        self.0 = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds a whole conversation in pieces of `size` bytes: the bytes sent, and the last step.
    fn talk(token: Option<&[u8]>, bytes: &[u8], size: usize) -> (Vec<u8>, SocksStep, Vec<u8>) {
        let mut handshake = SocksHandshake::new(token);
        let mut sent = Vec::new();
        let mut pieces = bytes.chunks(size);
        loop {
            match handshake.step() {
                SocksStep::NeedMore => match pieces.next() {
                    Some(piece) => handshake.push(piece),
                    None => return (sent, SocksStep::NeedMore, handshake.into_rest()),
                },
                SocksStep::Send(bytes) => sent.extend(bytes),
                last => {
                    let rest =
                        [handshake.into_rest(), pieces.flatten().copied().collect()].concat();
                    return (sent, last, rest);
                }
            }
        }
    }

    /// A destination, or the code of the reply to a refused request.
    type Requested = Result<(Host, u16), Option<u8>>;

    /// Token, bytes of the client, bytes sent to it, last bytes of a failure.
    type Login = (Option<&'static [u8]>, &'static [u8], &'static [u8], Option<&'static [u8]>);

    #[test]
    fn requests() {
        let connect = |host: &str, port| Ok((host.parse::<Host>().unwrap(), port));
        let rows: &[(&[u8], Requested)] = &[
            (b"\x05\x01\x00\x03\x0bexample.com\x01\xbb", connect("example.com", 443)),
            (b"\x05\x01\x00\x03\x0cEXAMPLE.com.\x00\x50", connect("example.com", 80)),
            (b"\x05\x01\x00\x03\x09192.0.2.1\x00\x50", connect("192.0.2.1", 80)),
            (b"\x05\x01\x00\x03\x03::1\x00\x50", connect("::1", 80)),
            (b"\x05\x01\x00\x01\xc0\x00\x02\x01\x1f\x90", connect("192.0.2.1", 8080)),
            (
                b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16",
                connect("2001:db8::1", 22),
            ),
            (
                b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01\x00\x16",
                connect("10.0.0.1", 22),
            ),
            (b"\x05\x01\x00\x03\x10evil\0.google.com\x01\xbb", Err(Some(2))),
            (b"\x05\x01\x00\x03\x00\x01\xbb", Err(Some(2))),
            (b"\x05\x01\x00\x03\x02\xff\xfe\x01\xbb", Err(Some(2))),
            (b"\x05\x01\x00\x03\x05127.1\x01\xbb", Err(Some(2))),
            (b"\x05\x01\x00\x03\x03a b\x01\xbb", Err(Some(2))),
            (b"\x05\x01\x00\x03\x05a.b:1\x01\xbb", Err(Some(2))),
            (b"\x05\x01\x00\x03\x0bexample.com\x00\x00", Err(Some(1))),
            (b"\x05\x01\x01\x03\x0bexample.com\x01\xbb", Err(Some(1))),
            (b"\x05\x02\x00\x01\xc0\x00\x02\x01\x1f\x90", Err(Some(7))),
            (b"\x05\x03\x00\x01\xc0\x00\x02\x01\x1f\x90", Err(Some(7))),
            (b"\x05\x00\x00\x01\xc0\x00\x02\x01\x1f\x90", Err(Some(7))),
            (b"\x05\x01\x00\x02\xc0\x00\x02\x01\x1f\x90", Err(Some(8))),
            (b"\x05\x01\x00\x00\x1f\x90", Err(Some(8))),
            (b"\x04\x01\x00\x50\xc0\x00\x02\x01\x00", Err(None)),
        ];
        for (request, expected) in rows {
            let bytes = [b"\x05\x01\x00", *request].concat();
            for size in [1, 5, 1000] {
                let (sent, last, rest) = talk(None, &bytes, size);
                assert_eq!(sent, b"\x05\x00");
                match (expected, last) {
                    (Ok((host, port)), SocksStep::Connect { host: got, port: got_port }) => {
                        assert_eq!((&got, &got_port), (host, port), "{request:?}");
                        assert!(rest.is_empty());
                    }
                    (Err(code), SocksStep::Fail { send, reason }) => {
                        assert_eq!(send.get(1).copied(), *code, "{request:?}: {reason}");
                    }
                    (_, last) => panic!("{request:?}: {last:?}"),
                }
            }
        }
    }

    #[test]
    fn greetings_and_logins() {
        let token = Some(&b"secret"[..]);
        let rows: &[Login] = &[
            (None, b"\x05\x01\x00", b"\x05\x00", None),
            (None, b"\x05\x02\x00\x02", b"\x05\x00", None),
            (None, b"\x05\x01\x02", b"", Some(b"\x05\xff")),
            (None, b"\x05\x00", b"", Some(b"\x05\xff")),
            (None, b"\x04\x01", b"", Some(b"")),
            (None, b"GET / HTTP/1.1", b"", Some(b"")),
            (None, b"\x05", b"", None),
            (None, b"\x05\xff\x00", b"", None),
            (token, b"\x05\x01\x00", b"", Some(b"\x05\xff")),
            (token, b"\x05\x02\x00\x02", b"\x05\x02", None),
            (token, b"\x05\x01\x02\x01\x01u\x06secret", b"\x05\x02\x01\x00", None),
            (token, b"\x05\x01\x02\x01\x00\x06secret", b"\x05\x02\x01\x00", None),
            (token, b"\x05\x01\x02\x01\x01u\x06secreT", b"\x05\x02", Some(b"\x01\x01")),
            (token, b"\x05\x01\x02\x01\x01u\x05secre", b"\x05\x02", Some(b"\x01\x01")),
            (token, b"\x05\x01\x02\x01\x06secret\x00", b"\x05\x02", Some(b"\x01\x01")),
            (token, b"\x05\x01\x02\x05\x01\x00\x01", b"\x05\x02", Some(b"")),
        ];
        for (token, bytes, expected, failure) in rows {
            for size in [1, 1000] {
                let (sent, last, _) = talk(*token, bytes, size);
                assert_eq!(sent, *expected, "{bytes:?}");
                match (failure, last) {
                    (Some(expected), SocksStep::Fail { send, .. }) => assert_eq!(send, *expected),
                    (None, SocksStep::NeedMore) => {}
                    (_, last) => panic!("{bytes:?}: {last:?}"),
                }
            }
        }
    }

    #[test]
    fn bytes_after_the_request_are_kept() {
        let bytes = b"\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbbhello";
        for size in [1, 3, 1000] {
            let (_, last, rest) = talk(None, bytes, size);
            assert!(matches!(last, SocksStep::Connect { .. }));
            assert_eq!(rest, b"hello");
        }
    }

    #[test]
    fn a_handshake_ends_once() {
        let mut handshake = SocksHandshake::new(None);
        handshake.push(b"\x04");
        assert!(matches!(handshake.step(), SocksStep::Fail { .. }));
        handshake.push(b"\x05\x01\x00");
        assert!(matches!(handshake.step(), SocksStep::Fail { .. }));
        assert_eq!(SocksReply::NotAllowed.to_bytes(), [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), size in 1usize..50, has_token: bool) {
            let token = has_token.then_some(&b"secret"[..]);
            talk(token, &bytes, size);
            talk(None, &[b"\x05\x01\x00\x05\x01\x00\x03", &bytes[..]].concat(), size);
        }

        #[test]
        fn pieces_do_not_change_the_result(bytes in prop::collection::vec(any::<u8>(), 0..60), size in 1usize..20) {
            let bytes = [b"\x05\x01\x00\x05\x01\x00\x03", &bytes[..]].concat();
            let (sent, last, _) = talk(None, &bytes, size);
            let (sent_whole, last_whole, _) = talk(None, &bytes, usize::MAX);
            prop_assert_eq!((sent, last), (sent_whole, last_whole));
        }
    }
}

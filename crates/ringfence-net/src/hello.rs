//! Reads the server name (SNI) and the protocols (ALPN) of a TLS `ClientHello`. Parsing is rustls's; this module bounds
//! it and makes the name canonical. Never answers the client.

use std::fmt;

use ringfence_spec::network::HostName;
use rustls::server::Acceptor;

/// Enough for post-quantum key shares and a session ticket.
pub(crate) const HELLO_BYTES_DEFAULT: usize = 16 << 10;
/// Maximum size of a handshake message in rustls.
pub(crate) const HELLO_BYTES_MAX: usize = 64 << 10;
/// `handshake` of RFC 8446, section 5.1: the first byte of a connection that speaks TLS.
const HANDSHAKE: u8 = 0x16;

/// An incremental reader of one `ClientHello`.
pub(crate) struct HelloReader {
    acceptor: Acceptor,
    n_read: usize,
    bytes_max: usize,
}

/// State of a connection's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The message is not complete; call again with more bytes.
    NeedMore,
    /// A complete `ClientHello`.
    Complete {
        /// Server name, if the client sent one. An address is no server name (RFC 6066, section 3).
        sni: Option<HostName>,
        /// Protocols in the client's order; empty without the extension.
        alpn: Vec<Vec<u8>>,
    },
    /// The first byte is not that of a TLS handshake.
    NotTls,
    /// A TLS handshake that cannot be read, with the reason.
    Broken(String),
}

impl HelloReader {
    /// Makes a reader that gives up after `bytes_max` bytes, at most [`HELLO_BYTES_MAX`].
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { acceptor: Acceptor::default(), n_read: 0, bytes_max: bytes_max.min(HELLO_BYTES_MAX) }
    }

    /// Continues with all bytes that the client has sent so far, from the first one. Suits a buffer that grows as well as
    /// `MSG_PEEK`. After a result other than [`Hello::NeedMore`] the reader is used up.
    pub(crate) fn advance(&mut self, sent: &[u8]) -> Hello {
        match sent.first() {
            None => return Hello::NeedMore,
            Some(&HANDSHAKE) => {}
            Some(_) => return Hello::NotTls,
        }
        let bounded = &sent[..sent.len().min(self.bytes_max)];
        while let Some(mut new) = bounded.get(self.n_read..).filter(|new| !new.is_empty()) {
            match self.acceptor.read_tls(&mut new) {
                Ok(0) => return Hello::Broken("the TLS reader takes no more bytes".into()),
                Ok(n) => self.n_read += n,
                Err(error) => return Hello::Broken(error.to_string()),
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let alpn = hello
                        .alpn()
                        .map(|all| all.map(<[u8]>::to_vec).collect())
                        .unwrap_or_default();
                    return match hello.server_name().map(str::parse).transpose() {
                        Ok(sni) => Hello::Complete { sni, alpn },
                        Err(error) => Hello::Broken(error),
                    };
                }
                Err((error, _alert)) => return Hello::Broken(error.to_string()),
            }
        }
        if sent.len() >= self.bytes_max {
            return Hello::Broken(format!("no ClientHello in {} bytes", self.bytes_max));
        }
        Hello::NeedMore
    }
}

impl Default for HelloReader {
    fn default() -> Self {
        Self::new(HELLO_BYTES_DEFAULT)
    }
}

impl fmt::Debug for HelloReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelloReader").field("n_read", &self.n_read).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(body);
        bytes
    }

    fn sni(name: &[u8]) -> Vec<u8> {
        let len = u16::try_from(name.len()).unwrap();
        let mut body = (len + 3).to_be_bytes().to_vec();
        body.push(0);
        body.extend(len.to_be_bytes());
        body.extend(name);
        extension(0, &body)
    }

    fn alpn() -> Vec<u8> {
        extension(16, b"\x00\x0c\x02h2\x08http/1.1")
    }

    /// A handshake message with these extensions and the two that rustls requires.
    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut all = extension(13, b"\x00\x02\x04\x03");
        all.extend(extension(10, b"\x00\x02\x00\x1d"));
        all.extend(extensions.concat());
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
        body.extend(u16::try_from(all.len()).unwrap().to_be_bytes());
        body.extend(all);
        let len = u32::try_from(body.len()).unwrap().to_be_bytes();
        let mut message = vec![1, len[1], len[2], len[3]];
        message.extend(body);
        message
    }

    /// The message in records of at most `size` bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let mut bytes = vec![HANDSHAKE, 3, 1];
            bytes.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
            bytes.extend(part);
            bytes
        };
        message.chunks(size).flat_map(record).collect()
    }

    fn complete(name: Option<&str>, alpn: &[&str]) -> Hello {
        Hello::Complete {
            sni: name.map(|name| name.parse().unwrap()),
            alpn: alpn.iter().map(|proto| proto.as_bytes().to_vec()).collect(),
        }
    }

    #[test]
    fn server_names() {
        let rows: &[(&[Vec<u8>], Option<Hello>)] = &[
            (&[], Some(complete(None, &[]))),
            (&[sni(b"example.com")], Some(complete(Some("example.com"), &[]))),
            (&[sni(b"EXAMPLE.com")], Some(complete(Some("example.com"), &[]))),
            (&[sni(b"a_b.example")], Some(complete(Some("a_b.example"), &[]))),
            (
                &[sni(b"example.com"), alpn()],
                Some(complete(Some("example.com"), &["h2", "http/1.1"])),
            ),
            (&[alpn()], Some(complete(None, &["h2", "http/1.1"]))),
            (&[sni(b"192.0.2.1")], Some(complete(None, &[]))),
            (&[sni(b"evil\0.google.com")], None),
            (&[sni(b"")], None),
            (&[sni(b"a b.example")], None),
            (&[sni(b"b\xc3\xbccher.example")], None),
            (&[sni(b"a..b")], None),
            (&[sni(b"127.1")], None),
            (&[sni(b"a.example"), sni(b"b.example")], None),
            (&[extension(0, b"\x00\x0c\x00\x00\x03a.b\x00\x00\x03c.d")], None),
        ];
        for (extensions, expected) in rows {
            let bytes = records(&message(extensions), 16_000);
            let got = HelloReader::default().advance(&bytes);
            match expected {
                Some(expected) => assert_eq!(&got, expected),
                None => assert!(matches!(got, Hello::Broken(_)), "{extensions:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_split_hello_is_read_whatever_the_pieces() {
        let message = message(&[sni(b"example.com"), alpn(), extension(21, &[0; 9000])]);
        let expected = complete(Some("example.com"), &["h2", "http/1.1"]);
        for record_size in [64, 1000, 16_000] {
            let bytes = records(&message, record_size);
            for step in [1, 7, 1460] {
                let mut reader = HelloReader::default();
                let mut n_sent = 0;
                let got = loop {
                    n_sent = (n_sent + step).min(bytes.len());
                    match reader.advance(&bytes[..n_sent]) {
                        Hello::NeedMore => assert!(n_sent < bytes.len()),
                        other => break other,
                    }
                };
                assert_eq!(got, expected, "records of {record_size}, {step} at a time");
                assert_eq!(n_sent, bytes.len());
            }
        }
    }

    #[test]
    fn bytes_after_the_hello_do_not_matter() {
        let mut bytes = records(&message(&[sni(b"example.com")]), 16_000);
        // Early data of TLS 1.3.
        bytes.extend([0x17, 3, 3, 0, 2, 1, 2]);
        assert_eq!(HelloReader::default().advance(&bytes), complete(Some("example.com"), &[]));
        bytes.extend(vec![0; HELLO_BYTES_MAX]);
        assert_eq!(HelloReader::default().advance(&bytes), complete(Some("example.com"), &[]));
    }

    #[test]
    fn other_beginnings() {
        let advance = |bytes: &[u8]| HelloReader::default().advance(bytes);
        assert_eq!(advance(b""), Hello::NeedMore);
        assert_eq!(advance(b"GET / HTTP/1.1\r\n"), Hello::NotTls);
        assert_eq!(advance(b"SSH-2.0-"), Hello::NotTls);
        assert_eq!(advance(&[0x80, 0x2e, 1]), Hello::NotTls);
        assert_eq!(advance(&[0x15, 3, 1]), Hello::NotTls);
        assert_eq!(advance(&[HANDSHAKE]), Hello::NeedMore);
        assert_eq!(advance(&[HANDSHAKE, 3, 1, 0, 200, 1]), Hello::NeedMore);
        for bytes in [
            &b"\x16GET / HTTP/1.1\r\n\r\n"[..],
            &[HANDSHAKE, 3, 1, 0, 4, 2, 0, 0, 0],
            &[HANDSHAKE, 3, 1, 0xff, 0xff, 1],
            &[HANDSHAKE, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff],
        ] {
            assert!(matches!(advance(bytes), Hello::Broken(_)), "{bytes:?}");
        }
    }

    #[test]
    fn a_hello_without_end_is_given_up() {
        let message = message(&[sni(b"example.com"), extension(21, &vec![0; 30_000])]);
        let bytes = records(&message, 16_000);
        assert!(matches!(HelloReader::default().advance(&bytes), Hello::Broken(_)));
        let mut large = HelloReader::new(usize::MAX);
        assert_eq!(large.advance(&bytes), complete(Some("example.com"), &[]));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), split in 0usize..600) {
            let mut reader = HelloReader::default();
            if reader.advance(&bytes[..split.min(bytes.len())]) == Hello::NeedMore {
                let _ = reader.advance(&bytes);
            }
            if let Some(first) = bytes.first_mut() {
                *first = HANDSHAKE;
                let _ = HelloReader::default().advance(&bytes);
            }
        }

        #[test]
        fn damaged_hellos_never_panic(at in 0usize..150, value: u8) {
            let mut bytes = records(&message(&[sni(b"example.com"), alpn()]), 40);
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = HelloReader::default().advance(&bytes);
        }
    }
}

//! Canonical host names and addresses. Every name that is compared with a rule passes through [`HostName`], so that all
//! callers judge the same bytes. Resolves nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::address::canonical;
use crate::escape_name;

/// RFC 1035, section 2.3.4: 255 bytes on the wire, which is 253 characters of text.
const NAME_BYTES_MAX: usize = 253;
/// RFC 1035, section 2.3.4.
const LABEL_BYTES_MAX: usize = 63;

/// A DNS name in canonical form: lower case, A-labels, no trailing dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

impl HostName {
    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Labels from left to right.
    pub fn labels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('.')
    }

    /// Returns true for a name without a dot, such as `registry`.
    pub fn is_single_label(&self) -> bool {
        !self.0.contains('.')
    }

    /// Returns true for `localhost` itself.
    pub fn is_localhost(&self) -> bool {
        &*self.0 == "localhost"
    }

    /// Returns the name without its first label, or `None` for a single label.
    pub fn parent(&self) -> Option<Self> {
        self.0.split_once('.').map(|(_, parent)| Self(parent.into()))
    }

    /// Returns true if this name is at any depth below `base`, but is not `base` itself.
    pub fn is_below(&self, base: &Self) -> bool {
        self.0.strip_suffix(&*base.0).is_some_and(|rest| rest.ends_with('.'))
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail = |why: &str| Err(format!("`{}` is not a host name: {why}", escape_name(text)));
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return fail("it is empty");
        }
        if !name.is_ascii() {
            return fail("write international names as A-labels, such as `xn--bcher-kva.example`");
        }
        if name.len() > NAME_BYTES_MAX {
            return fail("it is longer than 253 characters");
        }
        for label in name.split('.') {
            if label.is_empty() {
                return fail("it has an empty label");
            }
            if label.len() > LABEL_BYTES_MAX {
                return fail("a label is longer than 63 characters");
            }
            if !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
                return fail("labels hold letters, digits, `-` and `_` only");
            }
            if label.starts_with('-') || label.ends_with('-') {
                return fail("a label begins or ends with `-`");
            }
        }
        let name = name.to_ascii_lowercase();
        // inet_aton(3) reads `127.1`, `0x7f.1` and `2130706433` as addresses; no top-level domain looks like that.
        if name.rsplit('.').next().is_some_and(is_number) {
            return fail("its last label is a number; write an address as `192.0.2.1`");
        }
        Ok(Self(name.into()))
    }
}

/// Returns true for a label that `inet_aton(3)` or the URL standard reads as a part of an IPv4 address.
fn is_number(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_digit())
        || label.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for HostName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for HostName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The destination of a connection: a name or a literal address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A canonical name.
    Name(HostName),
    /// An address; never an IPv4-mapped IPv6 address.
    Ip(IpAddr),
}

impl Host {
    /// As it stands in a URL and before a port: an IPv6 address in brackets.
    pub fn in_url(&self) -> String {
        match self {
            Self::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            host => host.to_string(),
        }
    }

    /// Parses the bytes of a protocol field. Bytes that are not text are refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.parse(),
            Err(_) => Err("the host name is not text".to_owned()),
        }
    }
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self::Ip(canonical(ip))
    }
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Self {
        Self::Name(name)
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(inner) = bracketed.or_else(|| text.contains(':').then_some(text)) {
            if inner.contains('%') {
                return Err(format!(
                    "`{}` has a zone; write the address without `%`",
                    escape_name(text)
                ));
            }
            return match inner.parse::<Ipv6Addr>() {
                Ok(ip) => Ok(IpAddr::V6(ip).into()),
                Err(_) => Err(format!("`{}` is not an IPv6 address", escape_name(text))),
            };
        }
        // Four decimal numbers without leading zeros; `HostName` refuses every other form of an IPv4 address.
        match text.parse::<Ipv4Addr>() {
            Ok(ip) => Ok(Self::Ip(ip.into())),
            Err(_) => text.parse().map(Self::Name),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(ip) => ip.fmt(f),
        }
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// `HOST`, or `HOST:PORT` if the port is not the default one. An IPv6 address is in brackets.
pub fn host_and_port(host: &Host, port: u16, default_port: u16) -> String {
    if port == default_port { host.in_url() } else { format!("{}:{port}", host.in_url()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_spellings_have_one_canonical_form() {
        let label63 = "a".repeat(63);
        let name253 = format!("{label63}.{label63}.{label63}.{}", "a".repeat(61));
        let rows = [
            ("example.com", "example.com"),
            ("EXAMPLE.com", "example.com"),
            ("Example.Com.", "example.com"),
            ("a", "a"),
            ("localhost", "localhost"),
            ("LOCALHOST.", "localhost"),
            ("a-b.c--d.example", "a-b.c--d.example"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("a_b.example", "a_b.example"),
            ("_", "_"),
            ("x_.example", "x_.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("1.example", "1.example"),
            ("1.2.3.4.example", "1.2.3.4.example"),
            ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
            ("3com.com", "3com.com"),
            ("0x7f.example", "0x7f.example"),
            ("example.0xg", "example.0xg"),
            ("example.1a", "example.1a"),
            ("deadbeef", "deadbeef"),
            (label63.as_str(), label63.as_str()),
            (name253.as_str(), name253.as_str()),
            ("192.0.2.1", "192.0.2.1"),
            ("0.0.0.0", "0.0.0.0"),
            ("255.255.255.255", "255.255.255.255"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("2001:DB8::1", "2001:db8::1"),
            ("[2001:0db8:0:0:0:0:0:1]", "2001:db8::1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
            ("::10.0.0.1", "::a00:1"),
            ("64:ff9b::10.0.0.1", "64:ff9b::a00:1"),
        ];
        for (text, canonical) in rows {
            let host: Host = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(host.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse::<Host>().as_ref(), Ok(&host), "{canonical}");
            let json = serde_json::to_string(&host).unwrap();
            assert_eq!(json, format!("\"{canonical}\""));
            assert_eq!(serde_json::from_str::<Host>(&json).unwrap(), host);
        }
    }

    #[test]
    fn refused_spellings() {
        let label64 = "a".repeat(64);
        let label63 = "a".repeat(63);
        let name254 = format!("{label63}.{label63}.{label63}.{}", "a".repeat(62));
        let rows = [
            ("", "empty"),
            (".", "empty"),
            ("..", "empty label"),
            ("example.com..", "empty label"),
            (".example.com", "empty label"),
            ("a..b", "empty label"),
            ("-a.example", "begins or ends"),
            ("a-.example", "begins or ends"),
            ("a.-", "begins or ends"),
            (label64.as_str(), "63"),
            (name254.as_str(), "253"),
            ("evil\0.google.com", "letters"),
            ("google.com\0", "letters"),
            ("a b.example", "letters"),
            (" example.com", "letters"),
            ("example.com ", "letters"),
            ("example.com\r", "letters"),
            ("example.com\n", "letters"),
            ("example.com\t", "letters"),
            ("ex%61mple.com", "letters"),
            ("a/b", "letters"),
            ("a\\b", "letters"),
            ("user@example.com", "letters"),
            ("example.com#", "letters"),
            ("example.com?", "letters"),
            ("*.example.com", "letters"),
            ("a,b", "letters"),
            ("a;b", "letters"),
            ("a\"b", "letters"),
            ("\x7f.example", "letters"),
            ("bücher.example", "A-labels"),
            ("ｅxample.com", "A-labels"),
            ("example。com", "A-labels"),
            ("１２７.0.0.1", "A-labels"),
            ("127.1", "number"),
            ("127.0.1", "number"),
            ("0x7f.1", "number"),
            ("0x7f000001", "number"),
            ("0X7F000001", "number"),
            ("0x", "number"),
            ("example.0x1f", "number"),
            ("2130706433", "number"),
            ("0", "number"),
            ("127.0.0.01", "number"),
            ("0177.0.0.1", "number"),
            ("256.0.0.1", "number"),
            ("1.2.3.4.5", "number"),
            ("1.2.3.4.", "number"),
            ("example.123", "number"),
            ("fe80::1%eth0", "zone"),
            ("[fe80::1%25eth0]", "zone"),
            ("::1%1", "zone"),
            ("[127.0.0.1]", "IPv6"),
            ("[example.com]", "IPv6"),
            ("[]", "IPv6"),
            ("example.com:443", "IPv6"),
            (":::", "IPv6"),
            ("1:2:3:4:5:6:7:8:9", "IPv6"),
            ("[::1", "IPv6"),
            ("::1]", "IPv6"),
            ("[[::1]]", "IPv6"),
        ];
        for (text, reason) in rows {
            let error = text.parse::<Host>().expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
            assert!(error.is_ascii() || !text.is_ascii(), "{error}");
        }
        assert!(Host::from_bytes(b"\xff.example").is_err());
    }

    #[test]
    fn below_is_by_label() {
        let name = |text: &str| text.parse::<HostName>().unwrap();
        let base = name("example.com");
        assert!(name("a.example.com").is_below(&base));
        assert!(name("a.b.example.com").is_below(&base));
        assert!(!name("example.com").is_below(&base));
        assert!(!name("notexample.com").is_below(&base));
        assert!(!name("com").is_below(&base));
        assert_eq!(name("a.b.c").parent(), Some(name("b.c")));
        assert_eq!(name("a").parent(), None);
    }
}

//! Limits of a run's network: `bytes=1G`, `connections=100@api.example.com`. Each applies to the whole run, or to the hosts
//! of a pattern.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::host::Host;
use super::rule::{Pattern, pattern};
use crate::ByteSize;

/// The counted quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkLimitKind {
    /// Bytes in both directions.
    Bytes,
    /// Connections made, one after the other too.
    Connections,
    /// Requests on connections that Ringfence reads.
    Requests,
}

/// An upper limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NetworkLimit {
    /// The counted quantity.
    pub kind: NetworkLimitKind,
    /// The largest number that is allowed.
    pub most: u64,
    text: Box<str>,
    hosts: Option<Pattern>,
}

impl NetworkLimit {
    /// Returns true if the limit is about some hosts only.
    pub fn names_hosts(&self) -> bool {
        self.hosts.is_some()
    }

    /// Returns true if the limit counts connections to this host.
    pub fn is_about(&self, host: &Host) -> bool {
        self.hosts.as_ref().is_none_or(|pattern| pattern.covers(host))
    }
}

impl FromStr for NetworkLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let bad = |why: &str| {
            format!("{why}; write bytes=SIZE, connections=N or requests=N, with @HOST for one host")
        };
        let (kind, rest) = text.split_once('=').ok_or_else(|| bad("there is no `=`"))?;
        let (number, host) = match rest.split_once('@') {
            Some((number, host)) => (number, Some(host)),
            None => (rest, None),
        };
        let count = || number.parse().map_err(|_| bad(&format!("`{number}` is not a number")));
        let (kind, most) = match kind {
            "bytes" => {
                let size: ByteSize = number.parse().map_err(|e| bad(&format!("{e}")))?;
                (NetworkLimitKind::Bytes, size.bytes())
            }
            "connections" => (NetworkLimitKind::Connections, count()?),
            "requests" => (NetworkLimitKind::Requests, count()?),
            other => return Err(bad(&format!("`{other}` cannot be limited"))),
        };
        let hosts = host.map(pattern).transpose()?;
        Ok(Self { kind, most, text: text.into(), hosts })
    }
}

/// As it is written.
impl fmt::Display for NetworkLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

convert_by_text!(NetworkLimit);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_a_kind_a_number_and_hosts() {
        let limit: NetworkLimit = "bytes=2M@*.example.com".parse().unwrap();
        assert_eq!((limit.kind, limit.most), (NetworkLimitKind::Bytes, 2 << 20));
        assert!(limit.is_about(&"a.example.com".parse().unwrap()));
        assert!(!limit.is_about(&"example.com".parse().unwrap()));
        let limit: NetworkLimit = "connections=0".parse().unwrap();
        assert!(limit.is_about(&"192.0.2.1".parse().unwrap()));
        assert_eq!(
            "requests=5@x.test".parse::<NetworkLimit>().unwrap().to_string(),
            "requests=5@x.test"
        );
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-1",
            "x=1",
            "connections=1M",
            "requests=1@",
            "bytes=1G@a b",
        ] {
            assert!(text.parse::<NetworkLimit>().is_err(), "{text}");
        }
    }
}

//! The operator's own proxy, through which the network helper reaches public hosts: `http://[USER:PASSWORD@]HOST[:PORT]`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::host::Host;

/// Port of a proxy that names none: squid's.
const PROXY: u16 = 3128;

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UpstreamProxy {
    /// The proxy's host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// `USER:PASSWORD`, if it asks for that.
    pub login: Option<String>,
}

impl UpstreamProxy {
    /// The whole text, with the password: for Ringfence's own processes.
    pub fn with_login(&self) -> String {
        let login = self.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
        format!("http://{login}{}:{}", self.host.in_url(), self.port)
    }
}

impl FromStr for UpstreamProxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text may hold a password: no message repeats it.
        let bad =
            |why: &str| format!("{why}; write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT");
        let rest = match text.trim().split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(bad("only an HTTP proxy is possible")),
            None => text.trim(),
        };
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let place = place.trim_end_matches('/');
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                let number = port.parse().ok().filter(|port| *port != 0);
                (host, number.ok_or_else(|| bad("the port of the proxy is not a number"))?)
            }
            _ => (place, PROXY),
        };
        let is_plain = |login: &&str| login.contains(':') && !login.contains(['\r', '\n']);
        if login.is_some_and(|login| !is_plain(&login)) {
            return Err(bad("the login has no password"));
        }
        let host = host.parse().map_err(|_| bad("the host of the proxy is not one"))?;
        Ok(Self { host, port, login: login.map(str::to_owned) })
    }
}

/// Without the password.
impl fmt::Display for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = if self.login.is_some() { "…@" } else { "" };
        write!(f, "http://{login}{}:{}", self.host.in_url(), self.port)
    }
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For Ringfence's own processes in a compact format, with the password; for people without.
impl Serialize for UpstreamProxy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        serializer.serialize_str(&self.with_login())
    }
}

impl TryFrom<String> for UpstreamProxy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_has_a_host_a_port_and_a_login_that_is_not_shown() {
        let login = "user:p@ss";
        for (text, whole) in [
            ("http://proxy.corp:8080", "http://proxy.corp:8080"),
            ("proxy.corp", "http://proxy.corp:3128"),
            (&format!("http://{login}@10.0.0.1:80/"), &format!("http://{login}@10.0.0.1:80")),
            ("http://[2001:db8::1]", "http://[2001:db8::1]:3128"),
        ] {
            let proxy: UpstreamProxy = text.parse().unwrap();
            assert_eq!(proxy.with_login(), whole);
            assert!(!format!("{proxy} {proxy:?}").contains("p@ss"));
            assert!(!serde_json::to_string(&proxy).unwrap().contains("p@ss"));
        }
        for text in
            ["", "https://x.test", "socks5://x.test", "x.test:0", "user@x.test", "http://a b"]
        {
            let why = text.parse::<UpstreamProxy>().unwrap_err();
            assert!(!why.contains("user@"), "{why}");
        }
    }
}

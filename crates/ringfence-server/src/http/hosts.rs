//! Checks the host and origin of requests. A page of another site whose name resolves to this machine (DNS rebinding)
//! sends its own name, and is rejected.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use ringfence_spec::{Code, Problem};

use super::api_error::ApiError;
use super::headers::single;

/// Host names that the service answers to: loopback names, and those that the operator allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    named: Vec<Name>,
}

/// Origin of a page: `http` or `https`, host and port. The port is that of the scheme if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Host in lower case, with an optional port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    host: String,
    port: Option<u16>,
}

impl Hosts {
    /// Accepts loopback names, and these.
    pub(super) fn new(named: &[String]) -> Result<Self, Problem> {
        let named = named.iter().map(|text| {
            Name::parse(text).ok_or_else(|| {
                Problem::usage(Code::BadHost, format!("`{text}` is not the name of a host"))
                    .hint("name it as clients do, such as `tools.example.org` or `tools.example.org:8443`")
            })
        });
        Ok(Self { named: named.collect::<Result<_, _>>()? })
    }

    /// Rejects a request for another host. Returns the host that it names.
    pub(super) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Name, ApiError> {
        let host = asked(uri, headers).ok_or_else(|| {
            let problem = Problem::usage(Code::BadHost, "the request does not name one host");
            ApiError::new(StatusCode::BAD_REQUEST, problem)
        })?;
        if !host.is_loopback() && !self.has(&host) {
            let problem = Problem::refused(
                Code::HostRefused,
                format!("this service does not answer for `{}`", host.host),
            )
            .hint("its operator can allow that name with `--allow-host`");
            return Err(ApiError::new(StatusCode::FORBIDDEN, problem));
        }
        Ok(host)
    }

    /// Rejects a request from a page of another site than the host that it names.
    pub(super) fn check_origin(&self, host: &Name, headers: &HeaderMap) -> Result<(), ApiError> {
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let is_named = |origin: &Origin| {
            let mut named = self.named.iter();
            named.any(|name| name.host == origin.host && name.port.is_none_or(|p| p == origin.port))
        };
        let origin = Origin::of(headers);
        if origin.is_some_and(|origin| origin.is_at(host) || is_named(&origin)) {
            return Ok(());
        }
        let problem =
            Problem::refused(Code::OriginRefused, "a page of another site cannot use this service");
        Err(ApiError::new(StatusCode::FORBIDDEN, problem))
    }

    fn has(&self, asked: &Name) -> bool {
        let same = |name: &Name| {
            name.host == asked.host && (name.port.is_none() || name.port == asked.port)
        };
        self.named.iter().any(same)
    }
}

impl Origin {
    /// Reads the origin of a request that has exactly one; `None` for `null` and other schemes.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(single(headers, &ORIGIN)?.to_str().ok()?)
    }

    /// Parses scheme, host and an optional port; nothing may follow.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let (scheme, name) = text.split_once("://")?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if !name.chars().all(is_plain) {
            return None;
        }
        let Name { host, port } = Name::parse(name)?;
        Some(Self { scheme, host, port: port.unwrap_or(scheme.port()) })
    }

    /// Returns whether this is the origin of the pages of a host, by the same scheme.
    fn is_at(&self, host: &Name) -> bool {
        self.host == host.host && self.port == host.port.unwrap_or(self.scheme.port())
    }
}

impl Scheme {
    /// Port that browsers leave out.
    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        // A user name before the host would look like the host to a reader.
        if text.contains('@') {
            return None;
        }
        let authority: Authority = text.parse().ok()?;
        let host = authority.host().to_ascii_lowercase();
        let port = match authority.as_str().strip_prefix(authority.host())?.strip_prefix(':') {
            None => None,
            Some(port) => Some(port.parse().ok()?),
        };
        (!host.is_empty()).then_some(Self { host, port })
    }

    fn is_loopback(&self) -> bool {
        let v6 = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        self.host == "localhost"
            || self.host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
            || v6.is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback()))
    }
}

/// Host of a request, from its absolute target and its `Host` header; `None` if it is missing or ambiguous.
fn asked(uri: &Uri, headers: &HeaderMap) -> Option<Name> {
    let header = if headers.contains_key(HOST) {
        Some(Name::parse(single(headers, &HOST)?.to_str().ok()?)?)
    } else {
        None
    };
    match uri.authority() {
        None => header,
        Some(authority) => {
            let target = Name::parse(authority.as_str())?;
            header.is_none_or(|header| header == target).then_some(target)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status of a request with these headers; 200 if it passes.
    fn status(named: &[&str], target: &str, headers: &[(&str, &str)]) -> u16 {
        use axum::response::IntoResponse as _;
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                axum::http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        let hosts = Hosts::new(&named).unwrap();
        let host = hosts.check_host(&target.parse().unwrap(), &map);
        match host.and_then(|host| hosts.check_origin(&host, &map)) {
            Ok(()) => 200,
            Err(fault) => fault.into_response().status().as_u16(),
        }
    }

    #[test]
    fn this_machines_names_and_the_operators_are_answered() {
        let rows: &[(&str, u16)] = &[
            ("localhost", 200),
            ("LocalHost:7400", 200),
            ("127.0.0.1:1", 200),
            ("127.9.9.9", 200),
            ("[::1]:7400", 200),
            ("tools.example.org", 200),
            ("Tools.Example.org:99", 200),
            ("other.example.org:8443", 200),
            ("other.example.org", 403),
            ("other.example.org:80", 403),
            ("evil.example", 403),
            ("localhost.evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("0.0.0.0", 403),
            ("2130706433", 403),
            ("[::ffff:127.0.0.1]", 403),
            ("localhost.", 403),
            ("localhost@evil.example", 400),
            ("evil.example@localhost", 400),
            ("localhost:99999", 400),
            ("a b", 400),
            ("", 400),
        ];
        for (host, expected) in rows {
            let named = ["tools.example.org", "other.example.org:8443"];
            assert_eq!(status(&named, "/x", &[("host", host)]), *expected, "{host}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        assert_eq!(status(&[], "/", &[]), 400);
        assert_eq!(status(&[], "/", &[("host", "localhost"), ("host", "localhost")]), 400);
        assert_eq!(status(&[], "http://localhost/", &[("host", "localhost")]), 200);
        assert_eq!(status(&[], "http://evil.example/", &[("host", "localhost")]), 400);
        assert_eq!(status(&[], "http://localhost/", &[("host", "evil.example")]), 400);
        assert_eq!(status(&[], "http://evil.example/", &[]), 403);
    }

    #[test]
    fn only_pages_of_the_service_itself_or_the_operators_may_ask() {
        let rows: &[(&str, u16)] = &[
            ("http://localhost:7400", 200),
            ("http://tools.example.org", 200),
            ("https://tools.example.org:444", 200),
            ("http://localhost:3000", 403),
            ("http://127.0.0.1:7400", 403),
            ("http://evil.example", 403),
            ("https://localhost:7400.evil.example", 403),
            ("http://localhost:7400/", 403),
            ("http://evil@localhost:7400", 403),
            ("null", 403),
            ("", 403),
            ("file://", 403),
            ("localhost:7400", 403),
        ];
        for (origin, expected) in rows {
            let headers = [("host", "localhost:7400"), ("origin", *origin)];
            assert_eq!(status(&["tools.example.org"], "/", &headers), *expected, "{origin}");
        }
    }

    #[test]
    fn the_port_of_a_scheme_may_be_named_or_not() {
        let rows: &[(&str, &str, u16)] = &[
            ("localhost", "https://localhost:443", 200),
            ("localhost:443", "https://localhost", 200),
            ("localhost:80", "http://localhost", 200),
            ("localhost:443", "http://localhost", 403),
            ("localhost", "http://localhost:443", 403),
            ("localhost:7400", "https://tools.example.org", 200),
            ("localhost:7400", "https://tools.example.org:443", 200),
            ("localhost:7400", "http://tools.example.org", 403),
        ];
        for (host, origin, expected) in rows {
            let headers = [("host", *host), ("origin", *origin)];
            let named = ["tools.example.org:443"];
            assert_eq!(status(&named, "/", &headers), *expected, "{host} {origin}");
        }
    }
}

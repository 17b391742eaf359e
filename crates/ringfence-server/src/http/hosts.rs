//! Checks the host and origin of requests. A page of another site whose name resolves to this machine (DNS rebinding)
//! sends its own name, and is rejected.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use ringfence_spec::{Code, Problem};

use super::fault::Fault;

/// Host names that the service answers to: loopback names, and those that the operator allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    named: Vec<Name>,
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
    pub(super) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<Name, Fault> {
        let host = asked(uri, headers).ok_or_else(|| {
            let problem = Problem::usage(Code::BadHost, "the request does not name one host");
            Fault::new(StatusCode::BAD_REQUEST, problem)
        })?;
        if !host.is_loopback() && !self.has(&host) {
            let problem = Problem::refused(
                Code::HostRefused,
                format!("this service does not answer for `{}`", host.host),
            )
            .hint("its operator can allow that name with `--allow-host`");
            return Err(Fault::new(StatusCode::FORBIDDEN, problem));
        }
        Ok(host)
    }

    /// Rejects a request from a page of another site than the host that it names.
    pub(super) fn check_origin(&self, host: &Name, headers: &HeaderMap) -> Result<(), Fault> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let allowed = match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(_), Some(_)) => false,
            (Some(origin), None) => origin
                .to_str()
                .ok()
                .and_then(origin_of)
                .is_some_and(|origin| origin == *host || self.has(&origin)),
        };
        if allowed {
            return Ok(());
        }
        let problem =
            Problem::refused(Code::OriginRefused, "a page of another site cannot use this service");
        Err(Fault::new(StatusCode::FORBIDDEN, problem))
    }

    fn has(&self, asked: &Name) -> bool {
        let same = |name: &Name| {
            name.host == asked.host && (name.port.is_none() || name.port == asked.port)
        };
        self.named.iter().any(same)
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
    let mut hosts = headers.get_all(HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(Name::parse(host.to_str().ok()?)?),
        (None, _) => None,
        (Some(_), Some(_)) => return None,
    };
    match uri.authority() {
        None => header,
        Some(authority) => {
            let target = Name::parse(authority.as_str())?;
            header.is_none_or(|header| header == target).then_some(target)
        }
    }
}

/// Host of an `http` or `https` origin; `None` for `null` and other schemes.
fn origin_of(origin: &str) -> Option<Name> {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    Name::parse(host)
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
}

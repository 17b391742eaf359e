//! Rules about single HTTP requests: `GET,HEAD api.example.com/repos/`. A host with such rules gets only requests that
//! match one of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::host::{Host, HostName};

const HTTPS: u16 = 443;
const HTTP: u16 = 80;

/// Requests that a host may receive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestRule {
    /// Methods in upper case; none for all.
    pub methods: Vec<String>,
    /// The host.
    pub host: HostName,
    /// A port other than 443 and 80, on which TLS is spoken.
    pub port: Option<u16>,
    /// Beginning of the paths; `/` for all.
    pub path: String,
}

impl RequestRule {
    /// Returns true if the rule is about this host and port.
    pub fn is_about(&self, host: &Host, port: u16) -> bool {
        let ports = self.port.map_or([HTTPS, HTTP], |port| [port, port]);
        ports.contains(&port) && matches!(host, Host::Name(name) if *name == self.host)
    }

    /// Returns true if a request for its host matches it.
    pub fn matches(&self, method: &str, path: &str) -> bool {
        (self.methods.is_empty() || self.methods.iter().any(|m| m == method))
            && covers_path(&self.path, path)
    }
}

/// Returns true if a path is below a prefix of whole segments: `/v1` covers `/v1/x`, not `/v10`. A path that climbs, or
/// that servers read in different ways, is below `/` only.
pub fn covers_path(prefix: &str, path: &str) -> bool {
    if is_unclear(path) {
        return prefix == "/";
    }
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Times that a path may be decoded on its way: by a server, and by what stands before and behind it.
const DECODINGS_MAX: usize = 3;

/// Returns true if a path climbs, or has another number of segments, once it is decoded so often; or could be decoded on.
fn is_unclear(path: &str) -> bool {
    let mut bytes = path.as_bytes().to_vec();
    let n_segments = bytes.split(|b| *b == b'/').count();
    for _ in 0..=DECODINGS_MAX {
        let mut segments = bytes.split(|b| *b == b'/');
        // Some servers cut a segment at a semicolon: `..;x` climbs there.
        let climbs = segments
            .any(|segment| matches!(segment.split(|b| *b == b';').next(), Some(b"." | b"..")));
        let is_other = bytes.split(|b| *b == b'/').count() != n_segments;
        let is_strange = bytes.contains(&b'\\') || bytes.contains(&0);
        if climbs || is_other || is_strange || bytes.windows(2).any(|two| two == b"//") {
            return true;
        }
        let decoded = percent_decoded(&bytes);
        if decoded == bytes {
            return false;
        }
        bytes = decoded;
    }
    true
}

/// Decodes `%2F` and the like once, and leaves everything else.
fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let value = (*byte == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?)).flatten();
        if let Some(value) = value.and_then(|value| u8::try_from(value).ok()) {
            decoded.push(value);
            at += 3;
        } else {
            decoded.push(*byte);
            at += 1;
        }
    }
    decoded
}

impl FromStr for RequestRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!(
                "{why}; write HOST/PATH or METHODS HOST/PATH, such as `GET,HEAD api.example.com/repos/`"
            )
        };
        let (methods, rest) = match text.trim().split_once(' ') {
            Some((methods, rest)) => (methods.split(',').collect(), rest.trim()),
            None => (Vec::new(), text.trim()),
        };
        let is_method = |m: &&str| !m.is_empty() && m.bytes().all(|b| b.is_ascii_alphabetic());
        if let Some(method) = methods.iter().find(|m| !is_method(m)) {
            return Err(bad(&format!("`{method}` is not a method")));
        }
        if methods.iter().any(|m| m.eq_ignore_ascii_case("CONNECT")) {
            return Err(bad("CONNECT is for proxies"));
        }
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => {
                let number = port.parse().ok().filter(|port| *port != 0);
                (host, Some(number.ok_or_else(|| bad(&format!("`{port}` is not a port")))?))
            }
            None => (host, None),
        };
        let host = match host.parse::<Host>()? {
            Host::Name(name) if name.is_single_label() && methods.is_empty() => {
                return Err(bad(&format!("`{name}` alone is no host")));
            }
            Host::Name(name) if !name.is_localhost() => name,
            _ => return Err(bad("a rule about requests is for a host with a name")),
        };
        if path.contains(['?', '#']) || !covers_path("/x", &format!("/x{path}")) {
            return Err(bad("a path has no `?`, no `#`, and no `.` or `..` for a segment"));
        }
        Ok(Self {
            methods: methods.into_iter().map(str::to_ascii_uppercase).collect(),
            host,
            port: port.filter(|port| ![HTTPS, HTTP].contains(port)),
            path: path.to_owned(),
        })
    }
}

/// As it is written.
impl fmt::Display for RequestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join(","))?;
        }
        write!(f, "{}", self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if self.path == "/" { Ok(()) } else { f.write_str(&self.path) }
    }
}

convert_by_text!(RequestRule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_methods_a_host_and_a_path() {
        for text in [
            "api.example.com",
            "GET,HEAD api.example.com/repos/acme/",
            "POST api.example.com:8443/v1",
            "DELETE x.example.com",
        ] {
            assert_eq!(text.parse::<RequestRule>().unwrap().to_string(), text);
        }
        let spelled: RequestRule = "get,head  API.Example.com:443/x".parse().unwrap();
        assert_eq!(spelled.to_string(), "GET,HEAD api.example.com/x");
        for text in [
            "",
            "GET",
            "GET, HEAD x.test",
            "GET 127.0.0.1/",
            "GET x.test/a/../b",
            "GET x.test/a?b",
            "GET x.test:0/",
            "CONNECT x.test",
            "G-T x.test",
            "GET localhost/x",
            "GET *.x.test/y",
            "GET https://x.test/y",
        ] {
            assert!(text.parse::<RequestRule>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_matches_by_method_and_whole_segments() {
        let rule: RequestRule = "GET,HEAD x.test/v1".parse().unwrap();
        for (method, path, matches) in [
            ("GET", "/v1", true),
            ("HEAD", "/v1/a", true),
            ("POST", "/v1/a", false),
            ("get", "/v1/a", false),
            ("GET", "/v10", false),
            ("GET", "/", false),
            ("GET", "/v1/../v2", false),
            ("GET", "/v1/%2e%2E/v2", false),
            ("GET", "/v1/..;/v2", false),
            ("GET", "/v1/..%3b/v2", false),
            ("GET", "/v1/%252e%252E/v2", false),
            ("GET", "/v1/x%252f../v2", false),
            ("GET", "/v1/100%25", true),
            ("GET", "/v1/a%20b%2Ec%3Bd", true),
            ("GET", "/v1/%25%32%65%25%32%65/v2", false),
            ("GET", "/v1/x%25%32%66../v2", false),
            ("GET", "/v1/x%25%35%63..", false),
            ("GET", "/v1/%25%32%35%25%33%32%25%36%35/v2", false),
            ("GET", "/v1/%25252525", false),
            ("GET", "/v1/..%2fv2", false),
            ("GET", "/v1//../v2", false),
            ("GET", "/v1/a\\..\\b", false),
        ] {
            assert_eq!(rule.matches(method, path), matches, "{method} {path}");
        }
    }

    /// However a path that climbs is spelled, three decodings or fewer away, it is below `/` only.
    #[test]
    fn no_spelling_of_a_climb_is_below_a_prefix() {
        fn spelled(text: &str, times: usize, seed: &mut u64) -> String {
            (0..times).fold(text.to_owned(), |text, _| {
                let one = |c: char| {
                    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    match (*seed >> 61, c) {
                        (0..=3, _) => format!("%{:02x}", u32::from(c)),
                        _ => c.to_string(),
                    }
                };
                text.chars().map(one).collect()
            })
        }
        let mut seed = 7;
        for round in 0..4000 {
            let climb = ["..", "../", "/..", "..;x", "a/../..", "\\"][round % 6];
            let path = format!("/v1/{}/v2", spelled(climb, round % 4, &mut seed));
            assert!(!covers_path("/v1", &path) && covers_path("/", &path), "{path}");
        }
    }
}

//! Cross-origin requests of the operator's pages. Only origins on the list get an answer, each by its own name: never `*`, and
//! never with credentials of a browser. Pages send their token as every client does.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_spec::{Code, Problem};

/// Methods that a page may use.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";

/// Headers that a page may send.
const ALLOWED: &str = "authorization, content-type, accept, range, if-match, if-none-match, if-range, last-event-id, \
                       mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";

/// Headers of a response that a page may read.
const EXPOSED: &str = "content-disposition, content-length, content-range, etag, location, mcp-session-id, retry-after, \
                       ringfence-next-offset, ringfence-sha256, ringfence-total-bytes, www-authenticate";

/// Seconds for which a browser may keep the answer to a preflight.
const MAX_AGE_S: &str = "600";

/// Origins that the operator allowed, in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Cors {
    origins: Vec<String>,
}

impl Cors {
    /// Checks a list of origins.
    pub(super) fn new(origins: &[String]) -> Result<Self, Problem> {
        let origins = origins.iter().map(|text| {
            parse(text).ok_or_else(|| {
                Problem::usage(Code::BadHost, format!("`{text}` is not an origin"))
                    .hint("name each one as a browser does, such as `https://app.example.org` or `http://localhost:5173`; there is no `*`")
            })
        });
        Ok(Self { origins: origins.collect::<Result<_, _>>()? })
    }

    /// Returns the origin of a request, if it is on the list.
    pub(super) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut all = headers.get_all(header::ORIGIN).iter();
        let (Some(origin), None) = (all.next(), all.next()) else { return None };
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.contains(&text).then(|| origin.clone())
    }
}

/// Response to a preflight, without the headers that every response to the page has; `None` if the request is none.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    if *method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let told = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ];
    Some((StatusCode::NO_CONTENT, told).into_response())
}

/// Lets a page read a response.
pub(super) fn permit(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Returns an origin in lower case: scheme, host and an optional port, and nothing else.
fn parse(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let authority: axum::http::uri::Authority = host.parse().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let port = host.strip_prefix(authority.host())?;
    let is_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    (!authority.host().is_empty() && is_port && host.chars().all(plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        for good in ["https://app.example.org", "http://localhost:5173", "https://[::1]:8443"] {
            assert_eq!(parse(good).as_deref(), Some(good));
        }
        let bad = [
            "*",
            "null",
            "app.example.org",
            "https://",
            "https://*.example.org",
            "https://a.example/",
            "https://a.example/x",
            "https://u@a.example",
            "ftp://a.example",
            "https://a.example:99999",
            "https://a b",
        ];
        for bad in bad {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

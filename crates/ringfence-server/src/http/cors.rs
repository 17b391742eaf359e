//! Cross-origin requests of the operator's pages. Only origins on the list get an answer, each by its own name: never `*`, and
//! never with credentials of a browser. Pages send their token as every client does.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ringfence_spec::{Code, Problem};

use super::hosts::Origin;

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

/// Origins that the operator allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Cors {
    origins: Vec<Origin>,
}

impl Cors {
    /// Checks a list of origins.
    pub(super) fn new(origins: &[String]) -> Result<Self, Problem> {
        let origins = origins.iter().map(|text| {
            Origin::parse(text).ok_or_else(|| {
                Problem::usage(Code::BadHost, format!("`{text}` is not an origin"))
                    .hint("name each one as a browser does, such as `https://app.example.org` or `http://localhost:5173`; there is no `*`")
            })
        });
        Ok(Self { origins: origins.collect::<Result<_, _>>()? })
    }

    /// Returns the origin of a request, if it is on the list.
    pub(super) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let is_listed = self.origins.contains(&Origin::of(headers)?);
        headers.get(header::ORIGIN).filter(|_| is_listed).cloned()
    }
}

/// Response to a preflight, without the headers that every response to the page has; `None` for any other request.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    if *method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_S),
    ];
    Some((StatusCode::NO_CONTENT, headers).into_response())
}

/// Lets a page read a response.
pub(super) fn permit(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_a_host_and_a_port() {
        for good in ["https://app.example.org", "http://localhost:5173", "https://[::1]:8443"] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, good.parse().unwrap());
            let cors = Cors::new(&[good.to_ascii_uppercase()]).unwrap();
            assert_eq!(cors.allowed(&headers), Some(good.parse().unwrap()));
            assert_eq!(Cors::default().allowed(&headers), None);
        }
        // Browsers leave out the port of the scheme.
        let cors = Cors::new(&["https://a.example:443".to_owned()]).unwrap();
        for (origin, is_allowed) in [
            ("https://a.example", true),
            ("http://a.example", false),
            ("https://a.example:80", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            assert_eq!(cors.allowed(&headers).is_some(), is_allowed, "{origin}");
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
            assert!(Cors::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}

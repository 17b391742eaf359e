//! Posts JSON to a URL that the operator configured.

use std::time::Duration;

use ureq::Body;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;

use super::resolver::HelperResolver;

/// Timeout of a whole request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP client that follows no redirects, uses the host's trust store, and gives up a request after 10 seconds.
#[derive(Debug)]
pub(crate) struct HttpClient(ureq::Agent);

impl HttpClient {
    pub(crate) fn new() -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls);
        let connector = DefaultConnector::default();
        Self(ureq::Agent::with_parts(config.build(), connector, HelperResolver))
    }

    /// Posts a JSON body, with a bearer token if there is one; any status other than 2xx is an error. Returns the answer's body,
    /// unread. No error shows the URL or the token.
    pub(crate) fn post_json(
        &self,
        url: &str,
        token: Option<&str>,
        body: &str,
    ) -> std::io::Result<Body> {
        let mut request = self.0.post(url).content_type("application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = request.send(body).map_err(|e| std::io::Error::other(without_address(&e)))?;
        let status = answer.status();
        if status.is_success() {
            Ok(answer.into_body())
        } else {
            Err(std::io::Error::other(format!("it answered {status}")))
        }
    }
}

/// Error message without the URL, which may contain a secret.
fn without_address(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "the address cannot be used".to_owned(),
        other => other.to_string(),
    }
}

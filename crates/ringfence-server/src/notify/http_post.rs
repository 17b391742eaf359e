//! Posts JSON to a URL that the operator configured.

use std::time::Duration;

use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;

use super::resolver::HelperResolver;

/// Timeout of a whole request.
const PATIENCE: Duration = Duration::from_secs(10);

/// HTTP client that follows no redirects and uses the host's trust store.
pub(super) struct HttpClient(ureq::Agent);

/// An agent that follows no redirects, uses the host's trust store, and gives up a request after `timeout`.
pub(crate) fn agent(timeout: Duration) -> ureq::Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .user_agent(concat!("ringfence/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls);
    ureq::Agent::with_parts(config.build(), DefaultConnector::default(), HelperResolver)
}

impl HttpClient {
    pub(super) fn new() -> Self {
        Self(agent(PATIENCE))
    }

    /// Posts a JSON body; any status other than 2xx is an error.
    pub(super) fn json(&self, url: &str, body: &str) -> std::io::Result<()> {
        let answer = self.0.post(url).content_type("application/json").send(body);
        let status = answer.map_err(|e| std::io::Error::other(without_address(&e)))?.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(std::io::Error::other(format!("it answered {status}")))
        }
    }
}

/// Error message without the URL, which may contain a secret.
pub(crate) fn without_address(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "the address cannot be used".to_owned(),
        other => other.to_string(),
    }
}

//! OAuth metadata that says where a client without a token can get one (RFC 9728). The issuer is up to the operator:
//! the service accepts only tokens that `ringfence token` made.

use axum::http::HeaderValue;
use serde_json::{Value, json};

use super::scope::Scope;

/// Path of the metadata; also served with the path of the protected resource appended.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Returns whether a path is one of the metadata's.
pub(super) fn is_well_known(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| matches!(rest, "" | "/mcp"))
}

/// Authorization servers of this service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// URL of the service as its clients know it: scheme and host, and a path if it has one.
    pub public_url: String,
    /// URLs of the authorization servers.
    pub servers: Vec<String>,
}

impl Authority {
    /// Builds the metadata document.
    pub(super) fn document(&self) -> Value {
        json!({
            "resource": format!("{}/mcp", self.base()),
            "authorization_servers": self.servers,
            "scopes_supported": Scope::ALL,
            "bearer_methods_supported": ["header"],
            "resource_name": "Ringfence",
        })
    }

    /// Builds the `WWW-Authenticate` header for requests without a valid token.
    pub(super) fn challenge(&self) -> Option<HeaderValue> {
        let text = format!("Bearer resource_metadata=\"{}{WELL_KNOWN}/mcp\"", self.base());
        HeaderValue::from_str(&text).ok()
    }

    fn base(&self) -> &str {
        self.public_url.trim_end_matches('/')
    }
}

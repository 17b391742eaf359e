//! Where a client that has no token can get one (RFC 9728). Whoever hands out tokens is the operator's: the service knows
//! those that `ringfence token` made, and no others.

use axum::http::HeaderValue;
use serde_json::{Value, json};

use super::scope::Scope;

/// Where it is said; with the path of what is protected behind it, too.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Whether this is one of the places where it is said.
pub(super) fn is_well_known(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| matches!(rest, "" | "/mcp"))
}

/// Who hands out tokens for this service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The service as its clients name it: scheme and host, and a path if it has one.
    pub public_url: String,
    /// Addresses of authorization servers.
    pub servers: Vec<String>,
}

impl Authority {
    /// What is said there.
    pub(super) fn document(&self) -> Value {
        json!({
            "resource": format!("{}/mcp", self.base()),
            "authorization_servers": self.servers,
            "scopes_supported": Scope::ALL,
            "bearer_methods_supported": ["header"],
            "resource_name": "Ringfence",
        })
    }

    /// What a request without a good token is told.
    pub(super) fn challenge(&self) -> Option<HeaderValue> {
        let text = format!("Bearer resource_metadata=\"{}{WELL_KNOWN}/mcp\"", self.base());
        HeaderValue::from_str(&text).ok()
    }

    fn base(&self) -> &str {
        self.public_url.trim_end_matches('/')
    }
}

//! Scopes of tokens, and the proof that a request's token has the scope that its route requires.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use ringfence_audit::Digest;
use ringfence_engine::LOCAL;
use ringfence_spec::{Code, Problem};
use serde::{Deserialize, Serialize};

use super::api_error::ApiError;

/// Permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Run code and commands.
    Run,
    /// Read and write session files.
    Files,
    /// Create, copy and close sessions.
    Sessions,
    /// Read the audit records of the token's own calls.
    Audit,
    /// Read the policy, the doctor's report, the metrics, and the audit records of all clients.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Run, Self::Files, Self::Sessions, Self::Audit, Self::Admin];

    /// Default scopes of a new token: enough for an agent.
    pub const USUAL: [Self; 3] = [Self::Run, Self::Files, Self::Sessions];

    /// Name of the scope.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Files => "files",
            Self::Sessions => "sessions",
            Self::Audit => "audit",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|scope| scope.name()).collect();
            format!("`{text}` is not a scope; choose from {}", names.join(", "))
        })
    }
}

/// Caller of a request: name and scopes of its token. Handlers get one only from the middleware. Another token of the
/// same name, or the same token with other scopes, is another caller: it has no access to the runs of the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    pub(super) scopes: Arc<[Scope]>,
    /// Hash of the token; `None` where no token is needed.
    pub(super) token: Option<Digest>,
}

impl Caller {
    /// Caller on this machine, where no token was ever made.
    pub(super) fn local() -> Self {
        Self { name: LOCAL.into(), scopes: Scope::ALL.into(), token: None }
    }

    /// Key that the caller's runs are registered under; unique to the caller.
    pub(super) fn owner(&self) -> String {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.name()).collect();
        let token = self.token.map(|token| token.to_string()).unwrap_or_default();
        format!("{} {} {token}", self.name, scopes.join(","))
    }

    /// Returns whether the token has this scope.
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Fails unless the token has this scope.
    pub(super) fn need(&self, scope: Scope) -> Result<(), ApiError> {
        if self.has(scope) {
            return Ok(());
        }
        let problem = Problem::refused(
            Code::ScopeMissing,
            format!("the token `{}` does not have the scope `{scope}`", self.name),
        )
        .hint(format!(
            "ask the operator for a token that has it too: `ringfence token new --name NAME`, with `--scope {scope}` \
             and one `--scope` for each other"
        ));
        Err(ApiError::new(StatusCode::FORBIDDEN, problem))
    }
}

/// A caller whose token has the scope `S`. A handler that takes one cannot be reached without that scope.
#[derive(Clone, Debug)]
pub(super) struct Scoped<S> {
    pub(super) caller: Caller,
    scope: PhantomData<fn() -> S>,
}

impl<S> Scoped<S> {
    /// Name of the caller.
    pub(super) fn name(&self) -> &str {
        &self.caller.name
    }
}

/// Type that stands for a scope.
pub(super) trait ScopeName {
    const SCOPE: Scope;
}

macro_rules! scopes {
    ($($name:ident)*) => {
        $(
            #[derive(Clone, Copy, Debug)]
            pub(super) struct $name;

            impl ScopeName for $name {
                const SCOPE: Scope = Scope::$name;
            }
        )*
    };
}

scopes!(Run Files Sessions Audit Admin);

impl<S: ScopeName, T: Sync> FromRequestParts<T> for Scoped<S> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &T) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            ApiError::from(Problem::internal(Code::NoCaller, "the request was not authenticated"))
        })?;
        caller.need(S::SCOPE)?;
        Ok(Self { caller, scope: PhantomData })
    }
}

//! What a token is good for, and the proof that a request's token is good for what its route does.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use ringfence_audit::Digest;
use ringfence_engine::LOCAL;
use ringfence_spec::Problem;
use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// One thing a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Run code and commands.
    Run,
    /// Read and write files of sessions.
    Files,
    /// Make, copy and end sessions.
    Sessions,
    /// Read what was written down of the token's own calls.
    Audit,
    /// Read the policy, the doctor's report, the numbers, and what was written down of everybody's calls.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 5] = [Self::Run, Self::Files, Self::Sessions, Self::Audit, Self::Admin];

    /// What a token has unless its maker says otherwise: enough for an agent.
    pub const USUAL: [Self; 3] = [Self::Run, Self::Files, Self::Sessions];

    /// Its name.
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

/// Who asks: a token's name and what it is good for. Whoever has one was let in by the door. Another token of the same name,
/// or the same with other scopes, is another caller: what one has begun is not the other's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    pub(super) scopes: Arc<[Scope]>,
    /// The token's hash; nothing where none is needed.
    pub(super) token: Option<Digest>,
}

impl Caller {
    /// Whoever is on this machine, where no token was ever made.
    pub(super) fn local() -> Self {
        Self { name: LOCAL.into(), scopes: Scope::ALL.into(), token: None }
    }

    /// The key that its runs are registered by: no other caller has the same.
    pub(super) fn owner(&self) -> String {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.name()).collect();
        let token = self.token.map(|token| token.to_string()).unwrap_or_default();
        format!("{} {} {token}", self.name, scopes.join(","))
    }

    /// Whether its token has this scope.
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Makes sure of a scope.
    pub(super) fn need(&self, scope: Scope) -> Result<(), Fault> {
        if self.has(scope) {
            return Ok(());
        }
        let problem = Problem::refused(
            "scope_missing",
            format!("the token `{}` does not have the scope `{scope}`", self.name),
        )
        .hint(format!(
            "ask the operator for a token with it: `ringfence token new --scope {scope}`"
        ));
        Err(Fault::new(StatusCode::FORBIDDEN, problem))
    }
}

/// A caller whose token has the scope `S`. A handler that takes one cannot be reached without it.
#[derive(Clone, Debug)]
pub(super) struct Scoped<S> {
    pub(super) caller: Caller,
    scope: PhantomData<fn() -> S>,
}

impl<S> Scoped<S> {
    /// Who it is.
    pub(super) fn name(&self) -> &str {
        &self.caller.name
    }
}

/// Names a scope in a type.
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
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _state: &T) -> Result<Self, Fault> {
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(|| {
            Fault::from(Problem::internal("no_caller", "the request passed no door"))
        })?;
        caller.need(S::SCOPE)?;
        Ok(Self { caller, scope: PhantomData })
    }
}

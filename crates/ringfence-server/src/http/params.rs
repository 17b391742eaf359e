//! Extractors for path and query parameters. Invalid parameters are reported like every other problem.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ringfence_spec::{Code, Problem};
use serde::de::DeserializeOwned;

use super::api_error::ApiError;

/// Path parameters.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

/// Query parameters.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(names)) => Ok(Self(names)),
            Err(e) => Err(Problem::usage(Code::BadArguments, e.body_text()).into()),
        }
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(words)) => Ok(Self(words)),
            Err(e) => Err(Problem::usage(Code::BadArguments, e.body_text()).into()),
        }
    }
}

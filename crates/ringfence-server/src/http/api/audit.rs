//! Audit records: a client's own, and those of all clients with the scope `admin`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use ringfence_audit::{Filter, Page, Reader, View};
use ringfence_engine::admission::BreakerVerdict;
use ringfence_engine::{SessionId, blocking};
use ringfence_spec::{Code, Problem};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::AppState;
use crate::http::api_error::ApiError;
use crate::http::params::{Path, Query};
use crate::http::scope::{Audit, Scope, Scoped};

/// Default number of rows in a page.
const ROWS: usize = 50;

/// Minimum digits of a run's id to look for: fewer name a good part of all clients' rows, which would all be read.
const RUN_DIGITS_MIN: usize = 8;

/// Filter for audit records.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Run id, or its first eight digits or more.
    run: Option<String>,
    /// Session id.
    session: Option<String>,
    /// Client name; other clients than your own need the scope `admin`.
    client: Option<String>,
    /// Tool name.
    tool: Option<String>,
    /// One of ok, error, blocked, timeout, memory, killed, rejected, failed, running or interrupted.
    status: Option<String>,
    /// One of low, medium or high.
    risk: Option<String>,
    /// Earliest time, in milliseconds since 1970.
    since_ms: Option<i64>,
    /// Time to stop before, in milliseconds since 1970.
    until_ms: Option<i64>,
    /// `next` of the previous page.
    // An older spelling.
    #[serde(alias = "after")]
    cursor: Option<String>,
    /// Maximum number of records [default: 50].
    limit: Option<usize>,
    /// Return every row, including the starts of runs.
    #[serde(default)]
    rows: bool,
}

/// Read audit records
///
/// Your own calls, newest first; those of all clients with the scope `admin`.
#[utoipa::path(
    get, path = "/audit", tag = "audit", operation_id = "list_audit", params(AuditQuery),
    responses((status = 200, description = "A page: `records`, and `next` for the page after it", body = super::schema::AuditPage)),
)]
pub(super) async fn all(
    State(app): State<Arc<AppState>>,
    may: Scoped<Audit>,
    Query(which): Query<AuditQuery>,
) -> Result<Json<Page>, ApiError> {
    page(&app, &may, which).await
}

/// Read the audit records of a session
#[utoipa::path(
    get, path = "/sessions/{id}/audit", tag = "audit", operation_id = "list_session_audit",
    params(("id" = String, Path, description = "The session"), AuditQuery),
    responses((status = 200, description = "A page: `records`, and `next` for the page after it", body = super::schema::AuditPage)),
)]
pub(super) async fn of_session(
    State(app): State<Arc<AppState>>,
    may: Scoped<Audit>,
    Path(id): Path<SessionId>,
    Query(which): Query<AuditQuery>,
) -> Result<Json<Page>, ApiError> {
    // A session of another client is reported as unknown, as on every route.
    app.engine.session_info(may.name(), &id).await?;
    page(&app, &may, AuditQuery { session: Some(id.into()), ..which }).await
}

async fn page(
    app: &AppState,
    may: &Scoped<Audit>,
    which: AuditQuery,
) -> Result<Json<Page>, ApiError> {
    fn word<T: std::str::FromStr<Err = String>>(text: Option<&str>) -> Result<Option<T>, Problem> {
        text.map(str::parse).transpose().map_err(|e| Problem::usage(Code::BadFilter, e))
    }
    if which.run.as_ref().is_some_and(|run| run.len() < RUN_DIGITS_MIN) {
        let message = format!("`run` needs at least {RUN_DIGITS_MIN} digits of an id");
        return Err(Problem::usage(Code::BadFilter, message).into());
    }
    let client = match which.client {
        Some(client) if client == may.name() => Some(client),
        Some(client) => {
            may.caller.need(Scope::Admin)?;
            Some(client)
        }
        None if may.caller.has(Scope::Admin) => None,
        None => Some(may.name().to_owned()),
    };
    let filter = Filter {
        run: which.run,
        session: which.session,
        client,
        tool: which.tool,
        status: word(which.status.as_deref())?,
        risk: word(which.risk.as_deref())?,
        kind: None,
        since_ms: which.since_ms,
        until_ms: which.until_ms,
        view: if which.rows { View::Rows } else { View::Runs },
    };
    let Some(ledger) = app.ledger.clone() else {
        return Err(Problem::cannot_build(Code::AuditOff, "the ledger is off")
            .hint("the operator runs this service with `--audit off`")
            .into());
    };
    let (cursor, limit) = (which.cursor, which.limit.unwrap_or(ROWS));
    // Like any other call: a reader holds locks that the rows of runs wait for.
    let admitted = app.engine.admission().admit(may.name()).await;
    let mut permit = admitted.map_err(|rejection| rejection.problem())?;
    permit.judge(BreakerVerdict::Fine);
    let read = move || Reader::open(&ledger, None)?.page(&filter, cursor.as_deref(), limit);
    Ok(Json(blocking(read).await?))
}

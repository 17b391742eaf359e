//! What was written down: a client's own rows; everybody's for whoever has the scope `admin`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use ringfence_audit::{Filter, Page, Reader, View};
use ringfence_engine::SessionId;
use ringfence_spec::Problem;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::AppState;
use crate::http::fault::Fault;
use crate::http::params::{Path, Query};
use crate::http::scope::{Audit, Scope, Scoped};

/// Rows in a page, unless asked otherwise.
const ROWS: usize = 50;

/// Which rows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Runs whose id begins so.
    run: Option<String>,
    /// One session's.
    session: Option<String>,
    /// One client's; others than your own need the scope `admin`.
    client: Option<String>,
    /// One tool's.
    tool: Option<String>,
    /// ok, error, blocked, timeout, memory, killed, rejected, failed, running or interrupted.
    status: Option<String>,
    /// low, medium or high.
    risk: Option<String>,
    /// Not before, in milliseconds since 1970.
    since_ms: Option<i64>,
    /// Before, in milliseconds since 1970.
    until_ms: Option<i64>,
    /// `next` of the page before.
    after: Option<String>,
    /// How many; 50 if not said.
    limit: Option<usize>,
    /// Every row, starts among them.
    #[serde(default)]
    rows: bool,
}

/// Read what was written down
///
/// Your own calls, the newest first; everybody's with the scope `admin`.
#[utoipa::path(
    get, path = "/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page: `records`, and `next` for the page after it", body = serde_json::Value)),
)]
pub(super) async fn all(
    State(app): State<Arc<AppState>>,
    may: Scoped<Audit>,
    Query(which): Query<AuditQuery>,
) -> Result<Json<Page>, Fault> {
    page(&app, &may, which).await
}

/// Read what was written down of a session
#[utoipa::path(
    get, path = "/sessions/{id}/audit", tag = "audit",
    params(("id" = String, Path, description = "The session"), AuditQuery),
    responses((status = 200, description = "A page: `records`, and `next` for the page after it", body = serde_json::Value)),
)]
pub(super) async fn of_session(
    State(app): State<Arc<AppState>>,
    may: Scoped<Audit>,
    Path(id): Path<SessionId>,
    Query(which): Query<AuditQuery>,
) -> Result<Json<Page>, Fault> {
    // One that is another's is as unknown here as everywhere.
    app.engine.session_info(may.name(), &id).await?;
    page(&app, &may, AuditQuery { session: Some(id.into()), ..which }).await
}

async fn page(app: &AppState, may: &Scoped<Audit>, which: AuditQuery) -> Result<Json<Page>, Fault> {
    fn word<T: std::str::FromStr<Err = String>>(text: Option<&str>) -> Result<Option<T>, Problem> {
        text.map(str::parse).transpose().map_err(|e| Problem::usage("bad_filter", e))
    }
    let client = match which.client {
        Some(client) if client == may.name() => Some(client),
        client if may.caller.has(Scope::Admin) => client,
        Some(_) => return Err(may.caller.need(Scope::Admin).err().unwrap_or_else(unreadable)),
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
        return Err(Problem::cannot_build("audit_off", "nothing is written down here")
            .hint("the operator runs this service with `--audit off`")
            .into());
    };
    let (after, limit) = (which.after, which.limit.unwrap_or(ROWS));
    let read = move || Reader::open(&ledger, None)?.page(&filter, after.as_deref(), limit);
    let page = tokio::task::spawn_blocking(read).await.map_err(|_| unreadable())??;
    Ok(Json(page))
}

fn unreadable() -> Fault {
    Problem::internal("internal", "the ledger could not be read").into()
}

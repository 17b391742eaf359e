//! Records that a reader returns: a row with its body opened, and a run as both of its rows.

use serde::Serialize;
use serde_json::Value;

use crate::columns::{Kind, Risk, RunStatus};
use crate::digest::Digest;
use crate::line::Line;
use crate::seal::{SealKey, is_sealed};

/// State of a row's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyState {
    /// In `details`.
    Present,
    /// Archived and cleared.
    Expired,
    /// Sealed under a key that was not given.
    Sealed,
    /// The body cannot be parsed.
    Damaged,
}

/// A row.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Its number, from 1 on without holes.
    pub seq: i64,
    /// Time, in milliseconds since 1970.
    pub at_ms: i64,
    /// Kind of row; null if this version does not know it.
    pub kind: Option<Kind>,
    /// The run or call.
    pub run_id: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// The client that asked.
    pub client: Option<String>,
    /// The tool or subcommand.
    pub tool: Option<String>,
    /// Final status; for a start without an end, its current status.
    pub status: Option<RunStatus>,
    /// Potential harm of the run or call.
    pub risk: Option<Risk>,
    /// State of the body.
    pub body: BodyState,
    /// The body: [`crate::Details`] for all rows but the ledger's own.
    pub details: Option<Value>,
    /// Epoch of the key that covers it.
    pub epoch: i64,
    /// The chain's value after it.
    pub chain: Digest,
}

/// A run or call, by its rows.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its id.
    pub run_id: String,
    /// Final or current status.
    pub status: Option<RunStatus>,
    /// Its first row.
    pub start: Option<Record>,
    /// Its last row, which repeats client, tool and arguments.
    pub end: Option<Record>,
}

impl Record {
    pub(crate) fn of(line: Line, seal: Option<&SealKey>) -> Self {
        let (body, details) = open(&line, seal);
        let word = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            seq: line.seq,
            at_ms: line.at_ms,
            kind: line.kind.parse().ok(),
            status: word(&line.status).parse().ok(),
            risk: word(&line.risk).parse().ok(),
            run_id: line.run_id,
            session: line.session,
            client: line.client,
            tool: line.tool,
            body,
            details,
            epoch: line.epoch,
            chain: line.chain,
        }
    }
}

fn open(line: &Line, seal: Option<&SealKey>) -> (BodyState, Option<Value>) {
    let Some(stored) = &line.body else { return (BodyState::Expired, None) };
    let opened = if is_sealed(&stored.0) {
        let Some(body) = seal.and_then(|key| key.open(&stored.0)) else {
            return (BodyState::Sealed, None);
        };
        serde_json::from_slice(&body)
    } else {
        serde_json::from_slice(&stored.0)
    };
    match opened {
        Ok(details) => (BodyState::Present, Some(details)),
        Err(_) => (BodyState::Damaged, None),
    }
}

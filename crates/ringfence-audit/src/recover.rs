//! Runs that never ended because their writer died: found by the byte it no longer holds, and ended in the ledger.

use std::sync::Arc;

use ringfence_spec::Problem;

use crate::columns::{Kind, RunStatus};
use crate::dir::WriteLock;
use crate::entry::{Details, now_ms};
use crate::ledger::Ledger;
use crate::line::Line;
use crate::record::Record;
use crate::store::{Draft, Store};

impl Ledger {
    /// Writes an end, `interrupted`, for every start whose writer is gone. Returns their number. Safe for several
    /// processes at once: only one holds the write lock.
    pub fn recover(&self) -> Result<usize, Problem> {
        let mut store = self.store();
        store.compact_now()?;
        let lock = Arc::clone(&store.lock);
        let _turn = WriteLock::wait(&lock, store.home.path())?;
        let mut ends = Vec::new();
        for start in open_starts(&mut store)? {
            let alive = start.writer == self.writer
                || ringfence_sys::is_byte_held(&*lock, start.writer).unwrap_or(true);
            if !alive {
                ends.push(self.interrupted(&start)?);
            }
        }
        if !ends.is_empty() {
            store.append_in_turn(&ends)?;
        }
        Ok(ends.len())
    }

    fn interrupted(&self, start: &Line) -> Result<Draft, Problem> {
        let kind = start.kind.parse::<Kind>().unwrap_or(Kind::RunStart);
        let details = Details {
            reason: Some("its process ended before the run did".to_owned()),
            code: Some("interrupted".to_owned()),
            ..self.details_of(start)
        };
        let body = serde_json::to_vec(&details).unwrap_or_default();
        Ok(Draft {
            text: std::cell::OnceCell::new(),
            at_ms: now_ms(),
            kind: kind.ended(),
            run_id: start.run_id.clone(),
            session: start.session.clone(),
            client: start.client.clone(),
            tool: start.tool.clone(),
            status: Some(RunStatus::Interrupted),
            risk: start.risk.as_deref().and_then(|word| word.parse().ok()),
            writer: self.writer,
            body: self.sealed(body)?,
        })
    }
}

impl Ledger {
    fn details_of(&self, line: &Line) -> Details {
        let details = Record::of(line.clone(), self.settings.seal.as_ref()).details;
        details.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }
}

/// Starts without an end.
fn open_starts(store: &mut Store) -> Result<Vec<Line>, Problem> {
    // Another process may have appended between the compaction and the turn.
    let late = store.intake_lines()?;
    store.make_database()?;
    let Some(db) = &store.db else { return Ok(Vec::new()) };
    let mut starts = store.sql(crate::index::open_starts(db))?;
    for line in late {
        let kind = line.kind.parse::<Kind>().ok();
        if kind.is_some_and(Kind::is_start) {
            starts.push(line);
        } else if kind.is_some_and(Kind::is_end) {
            starts.retain(|start| start.run_id != line.run_id);
        }
    }
    Ok(starts)
}

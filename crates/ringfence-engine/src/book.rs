//! What a command of the command line writes down of its one call: the ledger is opened while the fence goes up.

use std::cell::RefCell;
use std::path::PathBuf;

use ringfence_audit::{Entry, Settings};
use ringfence_spec::{Outcome, Problem, RunId};

use crate::record::Recorder;

/// The ledger of one call.
#[derive(Debug)]
pub struct Book {
    /// Nothing where the operator wants no ledger.
    dir: Option<PathBuf>,
    entry: Entry,
    open: RefCell<Option<Recorder>>,
}

impl Book {
    /// For this call, in this directory; without one nothing is written.
    pub fn new(dir: Option<PathBuf>, entry: Entry) -> Self {
        Self { dir, entry, open: RefCell::new(None) }
    }

    /// Writes that the call begins. A second time it is written already.
    pub fn begin(&self) -> Result<(), Problem> {
        let mut open = self.open.borrow_mut();
        if open.is_some() {
            return Ok(());
        }
        let recorder = match &self.dir {
            Some(dir) => Recorder::open(dir, Settings::new(crate::record::redact))?,
            None => Recorder::off(),
        };
        recorder.note(&self.entry)?;
        *open = Some(recorder);
        Ok(())
    }

    /// Writes that it ended without having started, if its beginning is written.
    pub fn abandon(&self, run_id: RunId, problem: &Problem) {
        if self.open.borrow().is_some() {
            self.end(&mut Outcome::not_started(run_id, problem.kind.into(), problem));
        }
    }

    /// Writes how it ended, before its answer leaves. What never began is written as a whole: it was refused.
    pub fn end(&self, outcome: &mut Outcome) {
        if let Err(problem) = self.begin() {
            crate::record::not_written(outcome, &problem);
            return;
        }
        if let Some(recorder) = &*self.open.borrow() {
            recorder.end(&self.entry, outcome);
        }
    }
}

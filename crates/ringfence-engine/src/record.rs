//! What is written down of a call: that it began before it begins, how it ended before its answer leaves.
//! If the beginning cannot be written, nothing runs.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use ringfence_audit::{Entry, Ledger, LedgerSettings, RunStatus};
use ringfence_screen::redact::Redactor;
use ringfence_spec::{AuditState, Code, Encoding, ErrorInfo, Outcome, Problem, Status};

/// The ledger, or the operator's decision to have none.
#[derive(Debug)]
pub struct Recorder {
    /// Where it is; `None` where nothing is recorded.
    dir: Option<PathBuf>,
    ledger: OnceLock<Arc<Ledger>>,
    folder: OnceLock<Folder>,
}

/// The thread that moves rows from the ledger's intake to its database. Dropping it ends it.
#[derive(Debug)]
struct Folder {
    wanted: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Folder {
    fn start(ledger: Arc<Ledger>) -> std::io::Result<Self> {
        let (wanted, due) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("ringfence-fold".to_owned());
        let leave_to_us = Arc::clone(&ledger);
        let thread = thread.spawn(move || {
            while due.recv().is_ok() {
                // The rows are safe in the intake; an append folds them if this fails for long.
                let _ = ledger.tidy();
            }
        })?;
        leave_to_us.fold_by_tidy();
        Ok(Self { wanted: Some(wanted), thread: Some(thread) })
    }

    fn wake(&self) {
        // Full: it is awake already.
        let _ = self.wanted.as_ref().map(|wanted| wanted.try_send(()));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Recorder {
    /// Records in the ledger in this directory, which is made if it is not there.
    pub fn open(dir: &Path, settings: LedgerSettings) -> Result<Self, Problem> {
        let ledger = Arc::new(Ledger::open(dir, settings)?);
        Ok(Self { dir: Some(dir.to_owned()), ledger: ledger.into(), folder: OnceLock::new() })
    }

    /// Opens the ledger in this directory when the first row is written: while the fence of a single run goes up.
    pub const fn lazy(dir: PathBuf) -> Self {
        Self { dir: Some(dir), ledger: OnceLock::new(), folder: OnceLock::new() }
    }

    /// Records nothing, and every outcome says so.
    pub const fn off() -> Self {
        Self { dir: None, ledger: OnceLock::new(), folder: OnceLock::new() }
    }

    /// For the receipt.
    pub fn state(&self) -> AuditState {
        if self.dir.is_some() { AuditState::On } else { AuditState::Off }
    }

    /// The ledger itself, if there is to be one.
    pub fn ledger(&self) -> Result<Option<&Ledger>, Problem> {
        let Some(dir) = &self.dir else { return Ok(None) };
        if self.ledger.get().is_none() {
            let opened = Arc::new(Ledger::open(dir, LedgerSettings::new(redact))?);
            // Of two threads that come at once the second uses the first one's.
            let _ = self.ledger.set(opened);
        }
        Ok(self.ledger.get().map(Arc::as_ref))
    }

    /// Marks runs of a process that was killed as interrupted, in a ledger that is open.
    pub(crate) fn recover(&self) -> Result<(), Problem> {
        match self.ledger.get() {
            Some(ledger) => ledger.recover().map(drop),
            None => Ok(()),
        }
    }

    /// Writes that a call begins.
    pub fn begin(&self, entry: Entry) -> Result<StartedCall<'_>, Problem> {
        let begun = self.prepare(entry);
        match begun.begin() {
            Ok(()) => Ok(begun),
            Err(problem) => Err(begun.give_up(problem)),
        }
    }

    /// A call whose beginning is written when [`StartedCall::begin`] is called, which must be before it begins.
    pub(crate) fn prepare(&self, entry: Entry) -> StartedCall<'_> {
        let began = Instant::now();
        StartedCall {
            recorder: self,
            entry,
            began,
            written: Cell::new(false),
            open: true,
            bytes_read: 0,
        }
    }

    /// Writes how a run ended that began with this entry.
    pub(crate) fn end(&self, start: &Entry, outcome: &mut Outcome) {
        if let Some(enforcement) = &mut outcome.enforcement {
            enforcement.audit = self.state();
        }
        let connections = outcome.connections.iter().map(|c| start.connection(outcome.run_id, c));
        let mut rows = connections.chain([start.ended(outcome)]);
        if let Err(problem) = rows.try_for_each(|row| self.note(&row)) {
            drop(rows);
            not_written(outcome, &problem);
        }
    }

    /// Writes one row.
    pub fn note(&self, entry: &Entry) -> Result<(), Problem> {
        match self.ledger()? {
            Some(ledger) => {
                ledger.append(entry)?;
                if let Some(folder) = self.folder.get().filter(|_| ledger.is_long()) {
                    folder.wake();
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Folds the ledger's intake on a thread from now on, and not on those that append. For processes that have threads.
    pub(crate) fn fold_in_background(&self) -> Result<(), Problem> {
        self.ledger()?;
        let Some(ledger) = self.ledger.get().filter(|_| self.folder.get().is_none()) else {
            return Ok(());
        };
        let folder = Folder::start(Arc::clone(ledger)).map_err(|e| {
            Problem::internal(Code::Threads, "cannot start a thread for the ledger").cause(e)
        })?;
        // Of two threads that come at once the second's ends again.
        let _ = self.folder.set(folder);
        Ok(())
    }
}

/// Shorter than every secret that does not say what it is.
const SHORT: usize = 16;

/// Takes secrets out of what is written down.
pub fn redact(text: &str) -> Cow<'_, str> {
    // The tables take longer to make than a short run may pay; nothing so short and plain is a secret.
    if text.len() < SHORT && !text.contains([':', '=']) {
        return Cow::Borrowed(text);
    }
    Redactor::new().redact(text).text
}

/// The same for everything that an answer says.
pub(crate) fn redact_outcome(outcome: &mut Outcome) {
    let clean = |text: &mut String| {
        if let Cow::Owned(clean) = redact(text) {
            *text = clean;
        }
    };
    for text in [&mut outcome.stdout, &mut outcome.stderr] {
        match outcome.encoding {
            Encoding::Utf8 => clean(text),
            Encoding::Base64 => clean_base64(text),
        }
    }
    outcome.value.iter_mut().for_each(clean);
    if let Some(exception) = &mut outcome.exception {
        clean(&mut exception.message);
    }
}

/// Takes secrets out of bytes that an answer carries as base64.
fn clean_base64(text: &mut String) {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let Ok(bytes) = base64.decode(text.as_bytes()) else { return };
    if let Cow::Owned(clean) = Redactor::new().redact_bytes(&bytes).text {
        *text = base64.encode(clean);
    }
}

/// An end that could not be written is told in the answer.
pub(crate) fn not_written(outcome: &mut Outcome, problem: &Problem) {
    outcome.status = Status::Failed;
    outcome.error = Some(ErrorInfo {
        code: problem.code,
        message: format!("the call could not be written down: {}", problem.message),
        hint: problem.hint.clone(),
        retry_after_ms: None,
    });
}

/// A call that has begun. One that is dropped without an end was cancelled, and is written down so.
#[derive(Debug)]
pub struct StartedCall<'a> {
    recorder: &'a Recorder,
    entry: Entry,
    began: Instant,
    /// That it begins is written.
    written: Cell<bool>,
    open: bool,
    /// Bytes of files that the call handed to its client.
    pub(crate) bytes_read: u64,
}

impl StartedCall<'_> {
    /// Writes that it begins. A second time it is written already.
    pub(crate) fn begin(&self) -> Result<(), Problem> {
        if !self.written.get() {
            self.recorder.note(&self.entry)?;
            self.written.set(true);
        }
        Ok(())
    }

    /// It never began, and cannot be written down.
    fn give_up(mut self, problem: Problem) -> Problem {
        self.open = false;
        problem
    }

    /// Writes how a run ended. An end that cannot be written is told in the answer: it ran, and it is our failure.
    pub fn end(mut self, outcome: &mut Outcome) {
        self.open = false;
        // What was turned away before it began is written as a whole.
        match self.begin() {
            Ok(()) => self.recorder.end(&self.entry, outcome),
            Err(problem) => not_written(outcome, &problem),
        }
    }

    /// Adds to what will be written at the end.
    pub fn detail(&mut self, add: impl FnOnce(Entry) -> Entry) {
        self.entry = add(self.entry.clone());
    }

    /// Writes how a call without an outcome of its own ended.
    pub fn end_with(mut self, status: RunStatus) -> Result<(), Problem> {
        self.open = false;
        self.recorder.note(&self.entry.ended_with(status, self.wall_ms()))
    }

    fn wall_ms(&self) -> f64 {
        crate::text::millis(self.began.elapsed())
    }
}

impl Drop for StartedCall<'_> {
    fn drop(&mut self) {
        if self.open && self.begin().is_ok() {
            let (status, code) = if std::thread::panicking() {
                (RunStatus::Failed, "internal")
            } else {
                (RunStatus::Killed, "cancelled")
            };
            let mut end = self.entry.ended_with(status, self.wall_ms());
            end.details.code = Some(code.to_owned());
            // There is nobody left to tell; a start without an end is shown as interrupted.
            let _ = self.recorder.note(&end);
        }
    }
}

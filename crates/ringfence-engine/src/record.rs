//! Ledger rows of a call. The start row is written before the call starts, the end row before the answer is sent. If the
//! start row cannot be written, nothing runs.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use ringfence_audit::{Entry, Ledger, LedgerSettings, RunStatus};
use ringfence_screen::redact::Redactor;
use ringfence_spec::{AuditState, Code, Encoding, ErrorInfo, Outcome, Problem, Status};

use crate::once::get_or_try_init;

/// The ledger, or the operator's decision to have none.
#[derive(Debug)]
pub struct Recorder {
    /// Directory of the ledger; `None` if recording is off.
    dir: Option<PathBuf>,
    ledger: OnceLock<Arc<Ledger>>,
    compaction: OnceLock<CompactionThread>,
}

/// The thread that moves rows from the ledger's intake to its database. Dropping it ends it.
#[derive(Debug)]
struct CompactionThread {
    wake_sender: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CompactionThread {
    fn start(ledger: &Arc<Ledger>) -> std::io::Result<Self> {
        let (wake_sender, due) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("ringfence-compact".to_owned());
        let compacted = Arc::clone(ledger);
        let thread = thread.spawn(move || {
            let mut failed = false;
            while due.recv().is_ok() {
                // The rows are safe in the intake; an append compacts them if this fails for long.
                let result = compacted.compact();
                if let (Err(problem), false) = (&result, failed) {
                    tracing::warn!("cannot move rows to the ledger's database: {problem}");
                }
                failed = result.is_err();
            }
        })?;
        ledger.compact_in_background();
        Ok(Self { wake_sender: Some(wake_sender), thread: Some(thread) })
    }

    fn wake(&self) {
        // Full: it is awake already.
        let _ = self.wake_sender.as_ref().map(|sender| sender.try_send(()));
    }
}

impl Drop for CompactionThread {
    fn drop(&mut self) {
        self.wake_sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Recorder {
    /// Records in the ledger in this directory, which is made if it is not there.
    pub fn open(dir: &Path, settings: LedgerSettings) -> Result<Self, Problem> {
        let ledger = Arc::new(Ledger::open(dir, settings)?);
        Ok(Self { dir: Some(dir.to_owned()), ledger: ledger.into(), compaction: OnceLock::new() })
    }

    /// Opens the ledger in this directory when the first row is written: while the fence of a single run goes up.
    pub const fn lazy(dir: PathBuf) -> Self {
        Self { dir: Some(dir), ledger: OnceLock::new(), compaction: OnceLock::new() }
    }

    /// Records nothing, and every outcome says so.
    pub const fn off() -> Self {
        Self { dir: None, ledger: OnceLock::new(), compaction: OnceLock::new() }
    }

    /// State for the outcome's `enforcement`.
    pub fn state(&self) -> AuditState {
        if self.dir.is_some() { AuditState::On } else { AuditState::Off }
    }

    /// Opens the ledger on first use; `None` if recording is off.
    pub fn ledger(&self) -> Result<Option<&Ledger>, Problem> {
        Ok(self.shared_ledger()?.map(Arc::as_ref))
    }

    fn shared_ledger(&self) -> Result<Option<&Arc<Ledger>>, Problem> {
        let Some(dir) = &self.dir else { return Ok(None) };
        let open = || Ledger::open(dir, LedgerSettings::new(redact)).map(Arc::new);
        get_or_try_init(&self.ledger, open).map(Some)
    }

    /// Marks runs of a process that was killed as interrupted, in a ledger that is open.
    pub(crate) fn recover(&self) -> Result<(), Problem> {
        match self.ledger.get() {
            Some(ledger) => ledger.recover().map(drop),
            None => Ok(()),
        }
    }

    /// Writes the start row.
    pub fn begin(&self, entry: Entry) -> Result<StartedCall<'_>, Problem> {
        let begun = self.prepare(entry);
        match begun.begin() {
            Ok(()) => Ok(begun),
            Err(problem) => Err(begun.give_up(problem)),
        }
    }

    /// Prepares a call; [`StartedCall::begin`] writes the start row, and must be called before the call starts.
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

    /// Writes the end row of a run.
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
                if let Some(thread) = self.compaction.get().filter(|_| ledger.compaction_due()) {
                    thread.wake();
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Compacts the ledger's intake on a thread from now on, and not on those that append. For processes that have threads.
    pub(crate) fn compact_in_background(&self) -> Result<(), Problem> {
        let Some(ledger) = self.shared_ledger()? else { return Ok(()) };
        get_or_try_init(&self.compaction, || {
            CompactionThread::start(ledger).map_err(|e| {
                Problem::internal(Code::Threads, "cannot start a thread for the ledger").cause(e)
            })
        })?;
        Ok(())
    }
}

/// Length below which text without `:` or `=` matches no redaction rule.
const UNLABELLED_SECRET_BYTES_MIN: usize = 16;

/// Redacts secrets for the ledger.
pub fn redact(text: &str) -> Cow<'_, str> {
    // The tables take longer to make than a short run may pay; nothing so short and plain is a secret.
    if text.len() < UNLABELLED_SECRET_BYTES_MIN && !text.contains([':', '=']) {
        return Cow::Borrowed(text);
    }
    Redactor::new().redact(text).text
}

/// Redacts secrets in an outcome.
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

/// Redacts secrets in bytes that an outcome carries as base64.
fn clean_base64(text: &mut String) {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let Ok(bytes) = base64.decode(text.as_bytes()) else { return };
    if let Cow::Owned(clean) = Redactor::new().redact_bytes(&bytes).text {
        *text = base64.encode(clean);
    }
}

/// Turns the outcome into a failure: its end row cannot be written.
pub(crate) fn not_written(outcome: &mut Outcome, problem: &Problem) {
    outcome.status = Status::Failed;
    outcome.error = Some(ErrorInfo {
        code: problem.code,
        message: format!("cannot record the call in the ledger: {}", problem.message),
        hint: problem.hint.clone(),
        retry_after_ms: None,
    });
}

/// A recorded call. Dropping it without an end records it as cancelled.
#[derive(Debug)]
pub struct StartedCall<'a> {
    recorder: &'a Recorder,
    entry: Entry,
    began: Instant,
    /// The start row is written.
    written: Cell<bool>,
    open: bool,
    /// Bytes of files that the call handed to its client.
    pub(crate) bytes_read: u64,
}

impl StartedCall<'_> {
    /// Returns true if the call has rows in a ledger.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorder.state() == AuditState::On
    }

    /// Writes the start row, once.
    pub(crate) fn begin(&self) -> Result<(), Problem> {
        if !self.written.get() {
            self.recorder.note(&self.entry)?;
            self.written.set(true);
        }
        Ok(())
    }

    /// Marks the call as not started.
    fn give_up(mut self, problem: Problem) -> Problem {
        self.open = false;
        problem
    }

    /// Writes the end row of a run. If that fails, the outcome becomes an error.
    pub fn end(mut self, outcome: &mut Outcome) {
        self.open = false;
        // A call rejected before its start gets both rows here.
        match self.begin() {
            Ok(()) => self.recorder.end(&self.entry, outcome),
            Err(problem) => not_written(outcome, &problem),
        }
    }

    /// Adds details to the end row.
    pub fn detail(&mut self, add: impl FnOnce(Entry) -> Entry) {
        self.entry = add(self.entry.clone());
    }

    /// Writes the end row of a call without an outcome.
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
            // A start without an end is shown as interrupted.
            if let Err(problem) = self.recorder.note(&end) {
                tracing::warn!("cannot record the end of a cancelled call: {problem}");
            }
        }
    }
}

//! The writer's view of the ledger. Threads that append at the same time share one transaction: the first one writes
//! for all that queued up during the write before. Starts no thread.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use ringfence_spec::{Code, Problem, ProblemKind};
use serde::{Deserialize, Serialize};

use crate::dir::{LOCK, LedgerDir, WriteLock};
use crate::entry::{Entry, stored_name};
use crate::index;
use crate::keys::{PublicKey, random_bytes, root_on_disk};
use crate::redact::Redactor;
use crate::seal::SealKey;
use crate::storage_settings::StorageSettings;
use crate::store::{Draft, Store, StoreOptions};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Events that an acknowledged row survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// The death of every process: the kernel has the row.
    #[default]
    #[serde(rename = "process")]
    ProcessDeath,
    /// The loss of power too: every commit waits for the disk.
    #[serde(rename = "power")]
    PowerLoss,
}

/// Settings of a writer.
#[derive(Clone)]
pub struct LedgerSettings {
    /// Removes secrets from every text before it is written.
    pub redactor: Arc<dyn Redactor>,
    /// Events that an acknowledged row survives.
    pub durability: Durability,
    /// Seals bodies if given.
    pub seal: Option<SealKey>,
    /// Maximum age of a signing key.
    pub epoch_ms_max: i64,
    /// Maximum number of rows of a signing key.
    pub epoch_rows_max: i64,
}

impl LedgerSettings {
    /// The default settings: a key a day, no sync, bodies in the clear.
    pub fn new(redactor: impl Redactor + 'static) -> Self {
        Self {
            redactor: Arc::new(redactor),
            durability: Durability::default(),
            seal: None,
            epoch_ms_max: DAY_MS,
            epoch_rows_max: 100_000,
        }
    }
}

impl LedgerSettings {
    fn rules(&self) -> StoreOptions {
        StoreOptions {
            epoch_ms_max: self.epoch_ms_max,
            epoch_rows_max: self.epoch_rows_max,
            durability: self.durability,
        }
    }
}

impl std::fmt::Debug for LedgerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerSettings")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// An open ledger. Any number of threads and processes may append to the same directory.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) store: Mutex<Store>,
    queue: Mutex<Queue>,
    answered: Condvar,
    /// Names this ledger in the rows it starts. A byte of the lock file at this offset is held as long as it lives.
    pub(crate) writer: i64,
    pub(crate) settings: LedgerSettings,
    /// CPU time under the write lock.
    section_ns: AtomicU64,
    /// The intake is long enough to compact.
    compaction_due: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(u64, Vec<Draft>)>,
    answers: HashMap<u64, Result<Vec<i64>, Problem>>,
    next_ticket: u64,
    /// A thread is writing. Threads that arrive now wait; the next leader writes for them.
    is_led: bool,
}

/// Leadership of the thread that writes for all waiting ones. Dropping it, also by a panic, delivers their answers and
/// frees the lead.
struct Lead<'a> {
    ledger: &'a Ledger,
    answers: Answers,
}

type Answers = Vec<(u64, Result<Vec<i64>, Problem>)>;

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut queue = self.ledger.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_led = false;
        queue.answers.extend(self.answers.drain(..));
        self.ledger.answered.notify_all();
    }
}

/// The answers if writing panics.
fn not_written(batch: &[(u64, Vec<Draft>)]) -> Answers {
    let problem = || Problem::internal(Code::Internal, "writing to the ledger failed unexpectedly");
    batch.iter().map(|(ticket, _)| (*ticket, Err(problem()))).collect()
}

impl Ledger {
    /// Opens the ledger in `dir`, or creates it. The storage settings beside the ledger take precedence over
    /// `settings`.
    pub fn open(dir: &Path, mut settings: LedgerSettings) -> Result<Self, Problem> {
        let home = LedgerDir::create(dir)?;
        let manner = StorageSettings::of(&home)?;
        if manner.durability == Durability::PowerLoss {
            settings.durability = Durability::PowerLoss;
        }
        // A bad key file is not an error in the caller's arguments.
        let sealed = manner.seal().map_err(|e| Problem { kind: ProblemKind::CannotBuild, ..e });
        if let Some(key) = sealed? {
            settings.seal = Some(key);
        }
        let store = Store::open(home, settings.rules())?;
        let writer = hold_name(&store)?;
        let queue = Mutex::default();
        Ok(Self {
            store: Mutex::new(store),
            queue,
            answered: Condvar::new(),
            writer,
            settings,
            section_ns: AtomicU64::new(0),
            compaction_due: AtomicBool::new(false),
        })
    }

    /// Appends a row and returns its number. When this returns the row is in the ledger.
    pub fn append(&self, entry: &Entry) -> Result<i64, Problem> {
        let seqs = self.append_all(std::slice::from_ref(entry))?;
        seqs.first()
            .copied()
            .ok_or_else(|| Problem::internal(Code::LedgerEmpty, "no row was written"))
    }

    /// Appends rows together: all of them are in the ledger when this returns, or none.
    pub fn append_all(&self, entries: &[Entry]) -> Result<Vec<i64>, Problem> {
        let drafts = entries.iter().map(|e| self.draft(e)).collect::<Result<Vec<_>, _>>()?;
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push((ticket, drafts));
        loop {
            if let Some(answer) = queue.answers.remove(&ticket) {
                return answer;
            }
            if queue.is_led {
                queue = self.answered.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            queue.is_led = true;
            let batch = std::mem::take(&mut queue.waiting);
            let mut lead = Lead { ledger: self, answers: not_written(&batch) };
            drop(queue);
            lead.answers = self.write(batch);
            drop(lead);
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// CPU time that appends have spent so far where only one thread can be.
    pub fn section_cpu(&self) -> Duration {
        Duration::from_nanos(self.section_ns.load(Ordering::Relaxed))
    }

    /// Signs the current chain, for callers about to show or copy it.
    pub fn checkpoint(&self) -> Result<(), Problem> {
        self.store().checkpoint()
    }

    /// Ends the epoch: a new key takes over, the old one is destroyed.
    pub fn rotate(&self) -> Result<(), Problem> {
        self.store().rotate()
    }

    /// Moves the rows of the intake to the database. Worth calling in idle time, such as during a long run: otherwise an append
    /// that finds the intake long does it, and waits for the disk.
    pub fn compact(&self) -> Result<(), Problem> {
        let mut store = self.store();
        let compacted = store.compact_now();
        // Not again before the next append, if it failed.
        self.compaction_due.store(false, Ordering::Relaxed);
        compacted
    }

    /// Leaves that to the caller, who calls [`Ledger::compact`] on a thread of its own whenever the ledger [is
    /// long](Ledger::compaction_due). Without that, the append that finds the intake long compacts it.
    pub fn compact_in_background(&self) {
        self.store().compact_late();
    }

    /// Returns true if [`Ledger::compact`] is due.
    pub fn compaction_due(&self) -> bool {
        self.compaction_due.load(Ordering::Relaxed)
    }

    /// Rebuilds the index from the rows.
    pub fn reindex(&self) -> Result<(), Problem> {
        let mut store = self.store();
        store.compact_now()?;
        let lock = Arc::clone(&store.lock);
        let _turn = WriteLock::wait(&lock, store.home.path())?;
        let Some(db) = &store.db else { return Ok(()) };
        store.sql(index::rebuild(db))
    }

    /// The public half of the first key. A copy kept elsewhere tells this ledger from a recreated one.
    pub fn root_key(&self) -> Option<PublicKey> {
        root_on_disk(&self.store().home)
    }

    /// Opens the same ledger again, for work that takes long.
    pub(crate) fn another_store(&self) -> Result<Store, Problem> {
        let home = LedgerDir::open(self.store().home.path())?;
        let lock = Arc::new(home.find_or_make(LOCK)?);
        Store::open_existing(home, lock, self.settings.rules())
    }

    pub(crate) fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, batch: Vec<(u64, Vec<Draft>)>) -> Answers {
        let sizes: Vec<(u64, usize)> = batch.iter().map(|(t, drafts)| (*t, drafts.len())).collect();
        let drafts: Vec<Draft> = batch.into_iter().flat_map(|(_, drafts)| drafts).collect();
        let began = ringfence_sys::thread_cpu_time();
        let result = self.store().append(&drafts);
        let took = ringfence_sys::thread_cpu_time().saturating_sub(began);
        self.compaction_due.store(self.store().compaction_due(), Ordering::Relaxed);
        self.section_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(0), Ordering::Relaxed);
        let mut rest: &[i64] = result.as_deref().unwrap_or(&[]);
        let mut answers = Vec::with_capacity(sizes.len());
        for (ticket, n) in sizes {
            let (own, others) = rest.split_at(n.min(rest.len()));
            rest = others;
            let answer = result.as_ref().map(|_| own.to_vec()).map_err(Problem::clone);
            answers.push((ticket, answer));
        }
        answers
    }

    /// The row as it will be stored: redacted, bounded, sealed.
    pub(crate) fn draft(&self, entry: &Entry) -> Result<Draft, Problem> {
        let redactor = &*self.settings.redactor;
        let name = |text: &Option<String>| text.as_deref().map(|t| stored_name(redactor, t));
        let details = entry.details.clone().redacted(redactor);
        let body = serde_json::to_vec(&details).map_err(|e| {
            Problem::internal(Code::LedgerBody, "cannot write a row of the ledger").cause(e)
        })?;
        let body = self.sealed(body)?;
        let draft = Draft {
            at_ms: entry.at_ms,
            kind: entry.kind,
            run_id: entry.run_id.map(|id| id.to_string()),
            session: name(&entry.session),
            client: name(&entry.client),
            tool: name(&entry.tool),
            status: entry.status,
            risk: entry.risk,
            writer: self.writer,
            body,
            text: std::cell::OnceCell::new(),
        };
        // Here, where any number of threads can be.
        draft.text();
        Ok(draft)
    }

    /// The body as it is stored.
    pub(crate) fn sealed(&self, body: Vec<u8>) -> Result<Vec<u8>, Problem> {
        match &self.settings.seal {
            Some(key) => key.seal(&body),
            None => Ok(body),
        }
    }
}

/// Picks an unused writer id and holds it as long as the lock file is open.
fn hold_name(store: &Store) -> Result<i64, Problem> {
    loop {
        let mut bytes = [0; 8];
        random_bytes(&mut bytes)?;
        // Past every byte that a lock file has, and short of the end that a lock may have.
        let name = (i64::from_be_bytes(bytes) & (i64::MAX >> 1)) | 1 << 32;
        let held = ringfence_sys::hold_byte(&*store.lock, name);
        if held.map_err(|e| crate::errors::unwritable(store.home.path(), e))? {
            return Ok(name);
        }
    }
}

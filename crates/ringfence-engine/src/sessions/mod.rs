//! Sessions: a workspace on disk, a REPL while it is in use, an owner. Unknown, expired and foreign ids get the same
//! error after the same delay.

mod copy;
mod interpreter;
mod state;
mod store;

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ringfence_jail::survey::found;
use ringfence_plan::{Access, HostWorkspace};
use ringfence_spec::{ByteSize, Code, Hint, Problem};
use serde::Serialize;

pub use interpreter::Quota;
pub(crate) use interpreter::SessionInterpreter;
pub use state::{Daily, SessionId, SessionOptions, SessionSettings, SessionState, Today};

use crate::cancel::{self, Cancel, CancelOnDrop};
use crate::clock::Clock;
use crate::files::{BYTES_PER_INODE, FileAccess, FileRules, Workspace};
use crate::once::get_or_try_init;
use crate::search::{Changes, SessionIndex};
pub(crate) use store::private_dir;
use store::{OwnerLimit, Store};

/// Minimum response time for ids that are not the caller's session.
const FOREIGN_ANSWER: Duration = Duration::from_millis(5);

/// Interval between two savings of the time of last use.
const USE_SAVED_MS: u64 = 1000;

/// Sessions in a data directory.
#[derive(Debug)]
pub struct Sessions {
    store: Store,
    settings: SessionSettings,
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Runs that began.
    n_runs: AtomicU64,
}

/// A session open in this process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) workspace: PathBuf,
    state: Mutex<SessionState>,
    /// True if the state has changes that are not on disk.
    unsaved: AtomicBool,
    files: OnceLock<Workspace>,
    index: OnceLock<SessionIndex>,
    changes: Changes,
    /// Locked by the running cell.
    pub(crate) live: Mutex<Option<SessionInterpreter>>,
    /// Set once, with the state locked: from then on the state is not saved any more, and a running cell is ended.
    closed: AtomicBool,
    runs: Mutex<RunningRuns>,
    /// Number of its last run, among those of all sessions.
    last_run: AtomicU64,
}

/// Runs of a session in this process, each with what cancels it.
#[derive(Debug, Default)]
struct RunningRuns {
    next: u64,
    cancels: HashMap<u64, CancelOnDrop>,
}

/// A run that works in a session's files. No process removes them before it is dropped.
#[derive(Debug)]
pub(crate) struct SessionRun<'a> {
    session: &'a Session,
    number: u64,
    closed: Cancel,
    _lock: std::fs::File,
}

impl SessionRun<'_> {
    /// Readable once the session is closed, by this process: the run is to end.
    pub(crate) fn closed(&self) -> BorrowedFd<'_> {
        self.closed.as_fd()
    }
}

impl Drop for SessionRun<'_> {
    fn drop(&mut self) {
        self.session.runs().cancels.remove(&self.number);
    }
}

/// A session's state, as shown to its owner.
#[derive(Clone, Debug, Serialize)]
pub struct SessionInfo {
    /// The state that survives a restart.
    #[serde(flatten)]
    pub state: SessionState,
    /// State of the session's variables.
    pub repl: ReplState,
    /// Cells that can be rolled back to.
    pub checkpoints: Vec<u64>,
}

/// State of a session's variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplState {
    /// No cell has run yet.
    New,
    /// The variables exist.
    Live,
    /// The variables are gone with their process; the files remain.
    Dormant,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Sessions that expired.
    pub expired: Vec<SweptSession>,
    /// Sessions whose processes were ended.
    pub dormant: Vec<SweptSession>,
}

/// A session that a sweep ended or put to rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SweptSession {
    /// Its id.
    pub id: SessionId,
    /// Its owner.
    pub owner: String,
}

/// A session with an interpreter.
struct LiveSession {
    session: Arc<Session>,
    owner: String,
    is_idle: bool,
}

/// Ends the interpreter of an owner's session that was used longest ago. Returns false if cells run in all of them.
fn rest_one(live: &mut Vec<LiveSession>, owner: &str, rested: &mut Vec<SweptSession>) -> bool {
    let Some(at) = live.iter().position(|live| live.is_idle && live.owner == owner) else {
        return false;
    };
    let LiveSession { session, owner, .. } = live.remove(at);
    // A cell that began meanwhile keeps it.
    if let Ok(mut repl) = session.live.try_lock()
        && repl.take().is_some()
    {
        rested.push(SweptSession { id: session.id.clone(), owner });
    }
    true
}

impl Sessions {
    /// Opens the sessions below a data directory.
    pub fn open(
        data: &Path,
        settings: SessionSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Problem> {
        let store = Store::open(data)?;
        store.sweep();
        let (open, n_runs) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self { store, settings, clock, open, n_runs })
    }

    /// Returns the settings of new sessions.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Number of sessions open in this process.
    pub(crate) fn n_open(&self) -> usize {
        self.lock().len()
    }

    /// Creates a session.
    pub fn create(&self, owner: &str, options: SessionOptions) -> Result<SessionState, Problem> {
        self.create_from(owner, options, None, |_| Ok(()))
    }

    fn create_from(
        &self,
        owner: &str,
        options: SessionOptions,
        forked_from: Option<SessionId>,
        fill: impl FnOnce(&Path) -> Result<(), Problem>,
    ) -> Result<SessionState, Problem> {
        let now = self.clock.now_ms();
        let state = SessionState {
            id: SessionId::fresh()?,
            owner: owner.to_owned(),
            created_ms: now,
            used_ms: now,
            expires_ms: now.saturating_add(self.settings.ttl_ms),
            quota_bytes: self.settings.quota_bytes,
            read_only: options.access == FileAccess::ReadOnly,
            n_cells: 0,
            forked_from,
            today: Today::default(),
        };
        let limit = OwnerLimit {
            n_max: self.settings.per_owner_max,
            counts: &|state| same(&state.owner, owner) && now < state.expires_ms,
        };
        self.store.create(&state, &limit, fill)?;
        Ok(state)
    }

    /// Returns the state of an owner's session.
    pub fn info(&self, owner: &str, id: &SessionId) -> Result<SessionInfo, Problem> {
        let session = self.find(owner, id)?;
        let state = session.state().clone();
        // A running cell holds the lock, so the REPL is live.
        let (repl, checkpoints) = match session.live.try_lock() {
            Ok(live) => match &*live {
                Some(live) => (ReplState::Live, live.checkpoints()),
                None if state.n_cells == 0 => (ReplState::New, Vec::new()),
                None => (ReplState::Dormant, Vec::new()),
            },
            Err(_) => (ReplState::Live, Vec::new()),
        };
        Ok(SessionInfo { state, repl, checkpoints })
    }

    /// Returns the workspace directory of an owner's session.
    pub fn workspace(&self, owner: &str, id: &SessionId) -> Result<PathBuf, Problem> {
        Ok(self.find(owner, id)?.workspace.clone())
    }

    /// Opens the workspace of an owner's session, and returns it with its quota.
    pub fn files(&self, owner: &str, id: &SessionId) -> Result<(Workspace, u64), Problem> {
        let session = self.find(owner, id)?;
        let bytes_max = session.state().quota_bytes;
        let rules = FileRules { quota_bytes: Some(bytes_max), ..FileRules::default() };
        Ok((Workspace::open(&session.workspace, rules)?, bytes_max))
    }

    /// Returns the workspace of an owner's session, for the plan of its runs.
    pub fn host_workspace(&self, owner: &str, id: &SessionId) -> Result<HostWorkspace, Problem> {
        self.find(owner, id)?.host_workspace()
    }

    /// Lists an owner's sessions, oldest first.
    pub fn list(&self, owner: &str) -> Result<Vec<SessionState>, Problem> {
        let now = self.clock.now_ms();
        let mut list: Vec<SessionState> = self
            .store
            .list_of(owner)?
            .iter()
            .filter_map(|id| self.store.load(id).ok().flatten())
            .filter(|state| same(&state.owner, owner) && now < state.expires_ms)
            .map(|state| match self.lock().get(&state.id) {
                // Not all of it may be on disk.
                Some(open) => open.state().clone(),
                None => state,
            })
            .collect();
        list.sort_by_key(|state| (state.created_ms, state.id.clone()));
        Ok(list)
    }

    /// Copies a session's files to a new session. Variables are not copied.
    pub fn fork(&self, owner: &str, id: &SessionId) -> Result<SessionState, Problem> {
        self.fork_cancellable(owner, id, &AtomicBool::new(false))
    }

    /// Forks a session unless `stop` is set meanwhile.
    pub(crate) fn fork_cancellable(
        &self,
        owner: &str,
        id: &SessionId,
        stop: &AtomicBool,
    ) -> Result<SessionState, Problem> {
        let from = self.find(owner, id)?;
        let (access, parent) = {
            let state = from.state();
            let access = FileAccess::from_read_only(state.read_only);
            (access, state.id.clone())
        };
        let quota = self.settings.quota_bytes;
        self.create_from(owner, SessionOptions { access }, Some(parent), |to| {
            copy::tree(&from.workspace, to, quota, stop)
        })
    }

    /// Closes a session and removes everything but its ledger rows.
    pub fn close(&self, owner: &str, id: &SessionId) -> Result<SessionId, Problem> {
        let session = self.find(owner, id)?;
        self.remove(&session.id, owner)?;
        Ok(session.id.clone())
    }

    /// Ends expired sessions and the REPLs of idle ones.
    pub fn sweep(&self) -> Swept {
        let now = self.clock.now_ms();
        let mut swept = Swept::default();
        self.save_all();
        self.end_closed_elsewhere();
        self.store.sweep();
        for id in self.store.list() {
            let Ok(Some(state)) = self.store.load(&id) else { continue };
            if now >= state.expires_ms {
                // Its files may go later: it has ended all the same.
                let removed = self.remove(&id, &state.owner);
                if removed
                    .map_or_else(|problem| problem.code == Code::SessionUnremovable, |()| true)
                {
                    swept.expired.push(SweptSession { id, owner: state.owner });
                }
                continue;
            }
            let open = self.lock().get(&id).cloned();
            let idle = |session: &Arc<Session>| {
                let used = session.state().used_ms;
                now.saturating_sub(used) >= self.settings.idle_ms
            };
            if let Some(session) = open.filter(idle)
                && let Ok(mut live) = session.live.try_lock()
                && live.take().is_some()
            {
                swept.dormant.push(SweptSession { id, owner: state.owner });
            }
        }
        swept
    }

    /// Makes room for the interpreter of a session, whose own is none yet: ends interpreters that nothing runs in, those used
    /// longest ago first. Returns their sessions.
    pub(crate) fn make_room_for(&self, session: &Session) -> Vec<SweptSession> {
        let open: Vec<Arc<Session>> = self.lock().values().cloned().collect();
        let mut live: Vec<LiveSession> = Vec::new();
        for other in open.into_iter().filter(|other| other.id != session.id) {
            let is_idle = match other.live.try_lock() {
                Ok(repl) if repl.is_none() => continue,
                Ok(_) => true,
                // A cell runs.
                Err(_) => false,
            };
            let owner = other.state().owner.clone();
            live.push(LiveSession { session: other, owner, is_idle });
        }
        live.sort_by_key(|live| live.session.last_run.load(Ordering::Relaxed));
        let own = session.state().owner.clone();
        let mut rested = Vec::new();
        let count = |live: &[LiveSession], owner: &str| {
            live.iter().filter(|live| live.owner == owner).count()
        };
        while count(&live, &own) >= self.settings.live_per_owner_max
            && rest_one(&mut live, &own, &mut rested)
        {}
        while live.len() >= self.settings.live_max {
            let most = live.iter().max_by_key(|one| count(&live, &one.owner));
            let Some(owner) = most.map(|live| live.owner.clone()) else { break };
            if !rest_one(&mut live, &owner, &mut rested) {
                break;
            }
        }
        rested
    }

    /// Finds an owner's session and updates its last use. Any other id gets the same error after the same delay.
    pub(crate) fn find(&self, owner: &str, id: &SessionId) -> Result<Arc<Session>, Problem> {
        let asked = Instant::now();
        let found = self.look_up(owner, id);
        if found.as_ref().is_ok_and(Option::is_none) {
            std::thread::sleep(FOREIGN_ANSWER.saturating_sub(asked.elapsed()));
        }
        found?.ok_or_else(unknown)
    }

    fn look_up(&self, owner: &str, id: &SessionId) -> Result<Option<Arc<Session>>, Problem> {
        if !id.is_well_formed() {
            return Ok(None);
        }
        let now = self.clock.now_ms();
        let session = {
            // Held while the disk is read, so that a session being closed is not opened again.
            let mut open = self.lock();
            // Another process may have closed or used it: the state on disk is authoritative.
            let Some(on_disk) = self.store.load(id)? else {
                if let Some(session) = open.remove(id) {
                    session.close();
                }
                return Ok(None);
            };
            if !same(&on_disk.owner, owner) || now >= on_disk.expires_ms {
                return Ok(None);
            }
            let session = open.entry(id.clone()).or_insert_with(|| {
                Arc::new(Session {
                    workspace: self.store.workspace(id),
                    id: id.clone(),
                    state: Mutex::new(on_disk),
                    unsaved: AtomicBool::new(false),
                    files: OnceLock::new(),
                    index: OnceLock::new(),
                    changes: Changes::default(),
                    live: Mutex::new(None),
                    closed: AtomicBool::new(false),
                    runs: Mutex::default(),
                    last_run: AtomicU64::new(0),
                })
            });
            Arc::clone(session)
        };
        // Written at most once a second: a session that is used often is not written down for each use.
        self.change_soon(&session, |_| ())?;
        Ok((!session.is_closed().load(Ordering::SeqCst)).then_some(session))
    }

    /// Begins a run in a session's files. A closed session is unknown.
    pub(crate) fn begin_run<'a>(&self, session: &'a Session) -> Result<SessionRun<'a>, Problem> {
        let lock = self.store.lock_for_run(&session.id)?.ok_or_else(unknown)?;
        let (cancel, closed) = cancel::pair()?;
        let mut runs = session.runs();
        // With the runs locked: a close sets the flag first, then cancels the runs that are listed.
        if session.closed.load(Ordering::SeqCst) {
            return Err(unknown());
        }
        let number = runs.next;
        runs.next += 1;
        runs.cancels.insert(number, cancel);
        drop(runs);
        session.last_run.store(self.n_runs.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(SessionRun { session, number, closed, _lock: lock })
    }

    /// Takes one from a session's daily quota.
    pub(crate) fn take_daily(&self, session: &Session, what: Daily) -> Result<(), Problem> {
        let now = self.clock.now_ms();
        let taken = {
            let mut state = session.state();
            session.unsaved.store(true, Ordering::Relaxed);
            state.take_daily(what, &self.settings, now)
        };
        taken.map_err(|left_ms| {
            let (name, most) = match what {
                Daily::Search => ("searches", self.settings.searches_per_day),
                Daily::IndexJob => ("index jobs", self.settings.index_jobs_per_day),
            };
            let message = format!("the session has used its {most} {name} of today");
            let hours = left_ms.div_ceil(3_600_000);
            Problem::refused(Code::QuotaExceeded, message)
                .hint(format!("again in {hours} h; `grep` has no such limit"))
        })
    }

    /// Changes a session's state and its time of last use. Saves it at most once a second; what is not saved then is saved by the
    /// next change, by a sweep, or at the end.
    pub(crate) fn change_soon(
        &self,
        session: &Session,
        change: impl FnOnce(&mut SessionState),
    ) -> Result<(), Problem> {
        let now = self.clock.now_ms();
        let mut state = session.state();
        change(&mut state);
        let since = now.saturating_sub(state.used_ms);
        session.unsaved.store(true, Ordering::Relaxed);
        if since < USE_SAVED_MS {
            return Ok(());
        }
        state.used_ms = now;
        self.save(session, &state)
    }

    fn save(&self, session: &Session, state: &SessionState) -> Result<(), Problem> {
        if !session.closed.load(Ordering::SeqCst) {
            self.store.save(state)?;
            session.unsaved.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Saves what is not on disk yet.
    fn save_all(&self) {
        let open: Vec<_> = self.lock().values().cloned().collect();
        for session in open.iter().filter(|session| session.unsaved.load(Ordering::Relaxed)) {
            let state = session.state();
            if let Err(problem) = self.save(session, &state) {
                // A sweep tries again; at the end of the process the change is lost.
                tracing::warn!(session = state.id.as_str(), "cannot save a session: {problem}");
            }
        }
    }

    fn remove(&self, id: &SessionId, owner: &str) -> Result<(), Problem> {
        let session = {
            let mut open = self.lock();
            let session = open.remove(id);
            let state = session.as_ref().map(|session| session.state());
            if let Some(session) = &session {
                session.closed.store(true, Ordering::SeqCst);
            }
            self.store.retire(id)?;
            drop(state);
            session
        };
        if let Some(session) = session {
            session.end();
        }
        self.store.remove(id, owner)
    }

    /// Ends what this process runs in sessions that another process has closed.
    fn end_closed_elsewhere(&self) {
        let ids: Vec<_> = self.lock().keys().cloned().collect();
        for id in ids.iter().filter(|id| !self.store.is_session(id)) {
            let session = self.lock().remove(id);
            if let Some(session) = session {
                session.end();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.save_all();
    }
}

impl Session {
    /// Returns the session's directory, for a plan.
    pub(crate) fn host_workspace(&self) -> Result<HostWorkspace, Problem> {
        use std::os::unix::fs::MetadataExt as _;
        let missing = || Problem::internal(Code::Workspace, "the session's directory is not there");
        let meta = std::fs::symlink_metadata(&self.workspace)
            .map_err(|e| self.or_closed(missing().cause(e)))?;
        Ok(HostWorkspace {
            found: found(&self.workspace).ok_or_else(missing)?,
            owner: (meta.uid(), meta.gid()),
            session: self.id.to_string(),
            access: self.access(),
        })
    }

    /// Returns a problem with its directory; if the session was closed meanwhile, the answer for unknown ones.
    fn or_closed(&self, problem: Problem) -> Problem {
        let is_closed = self.closed.load(Ordering::SeqCst) || !exists(&self.workspace);
        if is_closed { unknown() } else { problem }
    }

    /// Returns the access its runs have to its files.
    pub(crate) fn access(&self) -> Access {
        if self.state().read_only { Access::ReadOnly } else { Access::ReadWrite }
    }

    /// Opens its files by handle, once.
    pub(crate) fn files(&self) -> Result<&Workspace, Problem> {
        get_or_try_init(&self.files, || {
            let rules = {
                let state = self.state();
                let access = FileAccess::from_read_only(state.read_only);
                FileRules { quota_bytes: Some(state.quota_bytes), access, ..FileRules::default() }
            };
            Workspace::open(&self.workspace, rules)
                .and_then(|files| files.remove_drafts().map(|_| files))
                .map_err(|problem| self.or_closed(problem))
        })
    }

    /// Opens its index, once.
    pub(crate) fn index(&self) -> Result<&SessionIndex, Problem> {
        get_or_try_init(&self.index, || {
            SessionIndex::open(&self.workspace).map_err(|problem| self.or_closed(problem))
        })
    }

    /// Returns possible changes of its files.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Returns the remaining quota. Refuses if the session is full, or if its files cannot be counted.
    pub(crate) fn bytes_left(&self) -> Result<ByteSize, Problem> {
        let bytes_max = self.state().quota_bytes;
        let used = interpreter::counted(self.files()?)?;
        let left = bytes_max.saturating_sub(used.bytes);
        ByteSize::new(left).filter(|_| used.charged_bytes() <= bytes_max).ok_or_else(|| {
            Problem::refused(
                Code::QuotaExceeded,
                format!(
                    "the session's files take more than {bytes_max} bytes, at least {BYTES_PER_INODE} each"
                ),
            )
            .hint("delete what is not needed; nothing that is stored was lost")
        })
    }

    /// Marks it as closed and cancels its runs.
    fn close(&self) {
        {
            let _state = self.state();
            self.closed.store(true, Ordering::SeqCst);
        }
        self.runs().cancels.clear();
    }

    /// Closes it and ends its interpreter.
    fn end(&self) {
        self.close();
        // A running cell sees that the session is closed; wait until it ends.
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the flag that is set once the session is closed.
    pub(crate) fn is_closed(&self) -> &AtomicBool {
        &self.closed
    }

    fn runs(&self) -> MutexGuard<'_, RunningRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exists(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

/// The error for every session that does not exist or is not the caller's.
pub fn unknown() -> Problem {
    Problem::new(
        ringfence_spec::ProblemKind::NotFound,
        Code::SessionUnknown,
        "there is no such session",
    )
    .hint(Hint::NewSession)
}

/// Compares in constant time for strings of equal length.
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let differs = a.iter().zip(b).fold(a.len() ^ b.len(), |all, (x, y)| all | usize::from(x ^ y));
    differs == 0
}

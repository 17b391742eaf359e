//! Sessions on disk: a directory each, with the workspace and a signed state file.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use ringfence_jail::{Budget, CallError, remove_tree};
use ringfence_spec::{Code, Problem, hex, unhex};
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::state::{SessionId, SessionState};
use crate::host_context::way_to_own;

/// Maximum size of a state file; real ones are far smaller.
const STATE_BYTES_MAX: u64 = 64 << 10;

/// Attempts to add a session to its owner's.
const NOTE_ATTEMPTS: usize = 10;

/// Length of the signing key.
const KEY_BYTES: usize = 32;

/// Maximum time to remove one session's files. The next sweep goes on with the rest.
const REMOVE_MAX: Duration = Duration::from_secs(30);

/// The same for all that one sweep removes.
const SWEEP_MAX: Duration = Duration::from_secs(10);

/// Maximum sessions that one sweep removes: each holds a descriptor open.
const SWEEP_SESSIONS_MAX: usize = 64;

/// Maximum wait for the end of runs before their session's files are removed.
const RUNS_END_MAX: Duration = Duration::from_secs(10);

/// Pause before a session's lock is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Directory of sessions.
pub(super) struct Store {
    dir: PathBuf,
    /// A directory for each owner, with an empty file for each session: to list an owner's sessions costs the same beside
    /// few and many sessions of others.
    owners: PathBuf,
    key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Sessions that an owner may have.
pub(super) struct OwnerLimit<'a> {
    pub(super) n_max: usize,
    /// Returns true for a session that counts.
    pub(super) counts: &'a (dyn Fn(&SessionState) -> bool + Sync),
}

/// Content of a state file: the state and its signature.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    state: serde_json::Value,
    hmac_sha256: String,
}

impl Store {
    /// Opens the sessions below the data directory, creating the directory if missing.
    pub(super) fn open(data: &Path) -> Result<Self, Problem> {
        let dir = data.join("sessions");
        // A user's group may share the directory; what is in it is for the user alone.
        private_dir_but_for(data, 0o002)?;
        private_dir(&dir)?;
        let key = key(data)?;
        let owners = data.join("session-owners");
        let store = Self { dir, owners, key };
        if !store.has_owners() {
            store.index_owners(&data.join("session-owners.next"))?;
        }
        Ok(store)
    }

    fn has_owners(&self) -> bool {
        rustix::fs::access(&self.owners, rustix::fs::Access::EXISTS).is_ok()
    }

    /// Makes the index of owners for sessions that were created without one. Under another name first, so that a process
    /// killed meanwhile leaves no part of it.
    fn index_owners(&self, next: &Path) -> Result<(), Problem> {
        let _alone = self.lock(FlockOperation::LockExclusive)?;
        if self.has_owners() {
            return Ok(());
        }
        removed(remove_tree(next, &Budget::time(REMOVE_MAX)))?;
        private_dir(next)?;
        let building = Self { dir: self.dir.clone(), owners: next.to_owned(), key: self.key };
        for id in self.list() {
            if let Ok(Some(state)) = self.load(&id) {
                building.note_owner(&state)?;
            }
        }
        std::fs::rename(next, &self.owners).map_err(|e| {
            Problem::internal(Code::SessionUnwritable, "cannot list the sessions by owner").cause(e)
        })
    }

    /// Directory of an owner's entries. An owner's name may have any characters.
    fn owner_dir(&self, owner: &str) -> PathBuf {
        self.owners.join(hex(&Sha256::digest(owner.as_bytes())[..16]))
    }

    /// Adds a session to those of its owner.
    fn note_owner(&self, state: &SessionState) -> Result<(), Problem> {
        self.with_owner_dir(state, |dir| note(dir, &state.id).map(drop))
    }

    /// The same for a session that is being created, unless the owner has as many as `limit` allows. Counts those that
    /// are being created too, by whatever process: the file that returns is locked until then.
    fn reserve(
        &self,
        state: &SessionState,
        limit: &OwnerLimit<'_>,
    ) -> Result<std::fs::File, Problem> {
        let reserved = self.with_owner_dir(state, |dir| {
            // One at a time counts and adds.
            let alone = locked(dir, FlockOperation::LockExclusive)?;
            if !is_at(&alone, dir) {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            if self.n_of(dir, limit.counts)? >= limit.n_max {
                return Ok(None);
            }
            let noted = note(dir, &state.id)?;
            rustix::fs::flock(&noted, FlockOperation::NonBlockingLockExclusive)?;
            Ok(Some(noted))
        });
        reserved?.ok_or_else(|| too_many(limit.n_max))
    }

    /// Does something in the directory of a session's owner, which is made first; again if the owner's last session, and
    /// the directory with it, is removed meanwhile.
    fn with_owner_dir<T>(
        &self,
        state: &SessionState,
        work: impl Fn(&Path) -> std::io::Result<T>,
    ) -> Result<T, Problem> {
        let dir = self.owner_dir(&state.owner);
        let mut attempts = 0;
        loop {
            private_dir(&dir)?;
            attempts += 1;
            match work(&dir) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && attempts < NOTE_ATTEMPTS => {}
                done => return done.map_err(|e| cannot_write(&e)),
            }
        }
    }

    /// Number of sessions in an owner's directory: those that count, and those that are being created.
    fn n_of(&self, dir: &Path, counts: &dyn Fn(&SessionState) -> bool) -> std::io::Result<usize> {
        let ids = session_names(dir)?.into_iter();
        let counted = ids.filter(|id| match self.load(id) {
            Ok(Some(state)) => counts(&state),
            // Else it is closed, or was being created when its process was killed.
            Ok(None) => locked(&dir.join(id.as_str()), FlockOperation::NonBlockingLockShared)
                .is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock),
            Err(_) => false,
        });
        Ok(counted.count())
    }

    /// Lists an owner's sessions, in any order; also some that exist no more.
    pub(super) fn list_of(&self, owner: &str) -> Result<Vec<SessionId>, Problem> {
        session_names(&self.owner_dir(owner)).map_err(|e| {
            Problem::internal(Code::SessionUnwritable, "cannot list the owner's sessions").cause(e)
        })
    }

    /// Removes a session from those of its owner.
    fn forget_owner(&self, id: &SessionId, owner: &str) -> Result<(), Problem> {
        let dir = self.owner_dir(owner);
        gone(std::fs::remove_file(dir.join(id.as_str())))?;
        // Fails while the owner has others.
        let _ = std::fs::remove_dir(dir);
        Ok(())
    }

    /// Returns the path of a session's workspace.
    pub(super) fn workspace(&self, id: &SessionId) -> PathBuf {
        self.dir.join(id.as_str()).join("workspace")
    }

    /// Creates a session's directory, lets `fill` add files, and saves the state. The state is saved last: it makes
    /// the directory a session. A process killed before that leaves a directory that [`Store::sweep`] removes.
    pub(super) fn create(
        &self,
        state: &SessionState,
        limit: &OwnerLimit<'_>,
        fill: impl FnOnce(&Path) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let _busy = self.lock(FlockOperation::LockShared)?;
        let workspace = self.workspace(&state.id);
        let _reserved = self.reserve(state, limit)?;
        let made = private_dir(&self.dir.join(state.id.as_str()))
            .and_then(|()| private_dir(&workspace))
            .and_then(|()| fill(&workspace))
            .and_then(|()| {
                let written = self.write_state(state, |next, file| std::fs::rename(next, file));
                written.map_err(|e| cannot_write(&e))
            });
        if made.is_err() {
            let _ = self.remove_files(&state.id, &Budget::time(REMOVE_MAX));
            let _ = self.forget_owner(&state.id, &state.owner);
        }
        made
    }

    /// Saves the state atomically, unless another process has closed the session: that is not undone.
    pub(super) fn save(&self, state: &SessionState) -> Result<(), Problem> {
        let saved = self.write_state(state, |next, file| {
            // Fails if there is no state file any more. Its deletion comes before or after, not in between.
            match rustix::fs::renameat_with(CWD, next, CWD, file, RenameFlags::EXCHANGE) {
                // The filesystem cannot exchange names.
                Err(Errno::INVAL | Errno::NOSYS) if self.is_session(&state.id) => {
                    return std::fs::rename(next, file);
                }
                exchanged => exchanged?,
            }
            std::fs::remove_file(next)
        });
        match saved {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            saved => saved.map_err(|e| cannot_write(&e)),
        }
    }

    /// Writes the state to another file, and lets `place` give it its name.
    fn write_state(
        &self,
        state: &SessionState,
        place: impl FnOnce(&Path, &Path) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let value = serde_json::to_value(state)?;
        let hmac_sha256 = hex(&self.mac(&value).finalize().into_bytes());
        let text = serde_json::to_vec(&Signed { state: value, hmac_sha256 })?;
        let dir = self.dir.join(state.id.as_str());
        // One writer at a time: the holder of the session's state lock.
        let (next, file) = (dir.join("session.json.next"), dir.join("session.json"));
        let mut options = std::fs::OpenOptions::new();
        let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        out.write_all(&text)?;
        place(&next, &file)
    }

    /// Loads a session's state; `None` if there is no such session. Refuses a state that does not verify.
    pub(super) fn load(&self, id: &SessionId) -> Result<Option<SessionState>, Problem> {
        let refused = |why: &str| {
            Problem::refused(Code::SessionTampered, "the session's state file does not verify")
                .cause(why)
        };
        let path = self.dir.join(id.as_str()).join("session.json");
        let mut options = std::fs::OpenOptions::new();
        let opened = options.read(true).custom_flags(nofollow_nonblock()).open(path);
        let file = match opened {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(refused(&e.to_string())),
        };
        let mut text = Vec::new();
        file.take(STATE_BYTES_MAX).read_to_end(&mut text).map_err(|e| refused(&e.to_string()))?;
        let signed: Signed = serde_json::from_slice(&text).map_err(|e| refused(&e.to_string()))?;
        let mac = unhex(&signed.hmac_sha256).ok_or_else(|| refused("no signature"))?;
        self.mac(&signed.state)
            .verify_slice(&mac)
            .map_err(|_| refused("its signature is another"))?;
        let state: SessionState =
            serde_json::from_value(signed.state).map_err(|e| refused(&e.to_string()))?;
        if state.id != *id {
            return Err(refused("it is another session's"));
        }
        Ok(Some(state))
    }

    /// Lists every session directory, in any order.
    pub(super) fn list(&self) -> Vec<SessionId> {
        session_names(&self.dir).unwrap_or_default()
    }

    /// Deletes a session's state file. From here on the session does not exist, even if its files remain.
    pub(super) fn retire(&self, id: &SessionId) -> Result<(), Problem> {
        gone(std::fs::remove_file(self.dir.join(id.as_str()).join("session.json")))
    }

    /// Removes the files of a retired session, once the runs in it have ended, in whatever process. Removes links without
    /// following them.
    pub(super) fn remove(&self, id: &SessionId, owner: &str) -> Result<(), Problem> {
        if let Some(_unused) = self.lock_for_removal(id)? {
            let _busy = self.lock(FlockOperation::LockShared)?;
            self.remove_files(id, &Budget::time(REMOVE_MAX))?;
        }
        self.forget_owner(id, owner)
    }

    fn remove_files(&self, id: &SessionId, budget: &Budget) -> Result<(), Problem> {
        removed(remove_tree(&self.dir.join(id.as_str()), budget))
    }

    /// Locks a session for a run in its files, which no process removes until the lock is dropped. `None` if the session
    /// does not exist any more.
    pub(super) fn lock_for_run(&self, id: &SessionId) -> Result<Option<std::fs::File>, Problem> {
        match locked(&self.dir.join(id.as_str()), FlockOperation::NonBlockingLockShared) {
            // Only now: a removal deletes the state file before it waits for the lock.
            Ok(lock) => Ok(self.is_session(id).then_some(lock)),
            Err(e) if is_missing_or_locked(&e) => Ok(None),
            Err(e) => Err(cannot_lock(&e)),
        }
    }

    /// Locks a retired session for its removal. Waits for runs that use it, but not for long. `None` if its directory is
    /// gone.
    fn lock_for_removal(&self, id: &SessionId) -> Result<Option<std::fs::File>, Problem> {
        let give_up = Instant::now() + RUNS_END_MAX;
        loop {
            let dir = self.dir.join(id.as_str());
            match locked(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(lock) => return Ok(Some(lock)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(e) if !is_missing_or_locked(&e) => return Err(cannot_lock(&e)),
                Err(_) if Instant::now() < give_up => std::thread::sleep(LOCK_PAUSE),
                Err(_) => {
                    let message = "a run still works in the session's files";
                    return Err(Problem::internal(Code::SessionUnremovable, message)
                        .hint("the session is closed; a later sweep removes its files"));
                }
            }
        }
    }

    /// Returns true unless the session was closed, by whatever process.
    pub(super) fn is_session(&self, id: &SessionId) -> bool {
        let state = self.dir.join(id.as_str()).join("session.json");
        rustix::fs::access(state, rustix::fs::Access::EXISTS).is_ok()
    }

    /// Removes directories left by processes killed while creating or removing a session, and of sessions whose removal
    /// was not finished. Skipped while a session is created or removed.
    pub(super) fn sweep(&self) {
        let unused: Vec<_> = {
            let Ok(_alone) = self.lock(FlockOperation::NonBlockingLockExclusive) else { return };
            let retired = self.list().into_iter().filter(|id| !self.is_session(id));
            let lock = |id: SessionId| {
                let dir = self.dir.join(id.as_str());
                // Fails while a run works in it: the next sweep tries again.
                let lock = locked(&dir, FlockOperation::NonBlockingLockExclusive).ok()?;
                Some((id, lock))
            };
            retired.filter_map(lock).take(SWEEP_SESSIONS_MAX).collect()
        };
        // Without the lock of all sessions, which would keep others from being created meanwhile.
        let budget = Budget::time(SWEEP_MAX);
        for (id, _lock) in &unused {
            // Tried again by the next sweep.
            if let Err(problem) = self.remove_files(id, &budget) {
                tracing::warn!(session = id.as_str(), "cannot remove a session: {problem}");
            }
        }
        if let Ok(_alone) = self.lock(FlockOperation::NonBlockingLockExclusive) {
            self.sweep_owners();
        }
    }

    /// Removes entries of sessions that exist no more, and owners without sessions; adds the sessions that have no entry, such
    /// as those of a restored directory.
    fn sweep_owners(&self) {
        #[expect(clippy::disallowed_methods, reason = "in the data directory, which no run sees")]
        let Ok(owners) = std::fs::read_dir(&self.owners) else { return };
        let mut missing: HashSet<SessionId> = self.list().into_iter().collect();
        for dir in owners.flatten().map(|entry| entry.path()) {
            for id in session_names(&dir).unwrap_or_default() {
                if !missing.remove(&id) {
                    let _ = std::fs::remove_file(dir.join(id.as_str()));
                }
            }
            // Fails if it is not empty.
            let _ = std::fs::remove_dir(dir);
        }
        for id in missing {
            if let Ok(Some(state)) = self.load(&id) {
                let _ = self.note_owner(&state);
            }
        }
    }

    /// Locks the sessions: shared to create and remove, exclusive to sweep.
    fn lock(&self, how: FlockOperation) -> Result<std::fs::File, Problem> {
        locked(&self.dir, how).map_err(|e| cannot_lock(&e))
    }

    fn mac(&self, state: &serde_json::Value) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key)
            .unwrap_or_else(|_| Hmac::<Sha256>::new(&[0; 64].into()));
        mac.update(b"ringfence session 1\0");
        // serde_json sorts the keys of a map, so a state has one serialization.
        mac.update(state.to_string().as_bytes());
        mac
    }
}

/// Makes the entry of a session in its owner's directory, and opens it.
fn note(dir: &Path, id: &SessionId) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600).open(dir.join(id.as_str()))
}

/// Returns true if an open directory is the one at `path`.
fn is_at(dir: &std::fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let (open, there) = (dir.metadata().map(id), std::fs::symlink_metadata(path).map(id));
    open.is_ok_and(|open| there.is_ok_and(|there| there == open))
}

/// The sessions that the entries of a directory are named after; none if there is no such directory.
fn session_names(dir: &Path) -> std::io::Result<Vec<SessionId>> {
    #[expect(clippy::disallowed_methods, reason = "in the data directory, which no run sees")]
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries
        .flatten()
        .filter_map(|entry| Some(SessionId::from(entry.file_name().to_str()?)))
        .filter(SessionId::is_well_formed);
    Ok(names.collect())
}

fn gone(removed: std::io::Result<()>) -> Result<(), Problem> {
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Problem::internal(Code::SessionUnremovable, "cannot remove the session").cause(e))
        }
        _ => Ok(()),
    }
}

fn removed(result: Result<(), CallError>) -> Result<(), Problem> {
    match result {
        Err(e) if e.errno != Errno::NOENT => {
            Err(Problem::internal(Code::SessionUnremovable, "cannot remove the session's files")
                .cause(e)
                .hint("the session is closed; a later sweep removes what is left"))
        }
        _ => Ok(()),
    }
}

fn too_many(n_max: usize) -> Problem {
    Problem::refused(Code::TooManySessions, format!("there are {n_max} sessions already"))
        .hint("close one first")
}

fn cannot_write(error: &std::io::Error) -> Problem {
    Problem::internal(Code::SessionUnwritable, "cannot write the session down").cause(error)
}

fn cannot_lock(error: &std::io::Error) -> Problem {
    Problem::internal(Code::SessionLock, "cannot lock the sessions").cause(error)
}

fn is_missing_or_locked(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::WouldBlock)
}

/// `O_NOFOLLOW | O_NONBLOCK`: a state file is a regular file.
fn nofollow_nonblock() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// Creates a private directory. An existing one must belong to this user, and others may not write to it; its mode is the
/// user's.
pub(crate) fn private_dir(path: &Path) -> Result<(), Problem> {
    private_dir_but_for(path, 0o022)
}

/// The same, without the write access of `others`.
fn private_dir_but_for(path: &Path, others: u32) -> Result<(), Problem> {
    use std::os::unix::fs::MetadataExt as _;
    let cannot = |e: &dyn std::fmt::Display| {
        Problem::cannot_build(
            Code::DataDir,
            format!("cannot use the data directory `{}`", path.display()),
        )
        .cause(e)
    };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| cannot(&e))?;
    let meta = std::fs::symlink_metadata(path).map_err(|e| cannot(&e))?;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(cannot(&"it is not a directory of yours"));
    }
    if meta.mode() & others != 0 {
        let cause = format!("other users may write to it: its mode is {:o}", meta.mode() & 0o7777);
        return Err(cannot(&cause).hint(way_to_own(path, meta.mode())));
    }
    Ok(())
}

/// Reads the signing key from the data directory, or creates it.
fn key(data: &Path) -> Result<[u8; KEY_BYTES], Problem> {
    let cannot = |e: &dyn std::fmt::Display| {
        Problem::cannot_build(Code::SessionKey, "cannot use the key that sessions are signed with")
            .cause(e)
    };
    // Locked: of two processes that start at once, the second finds the first one's key.
    let _alone = locked(data, FlockOperation::LockExclusive).map_err(|e| cannot(&e))?;
    let (path, next) = (data.join("sessions.key"), data.join("sessions.key.next"));
    let mut key = [0u8; KEY_BYTES];
    let mut options = std::fs::OpenOptions::new();
    match options.read(true).custom_flags(nofollow_nonblock()).open(&path) {
        Ok(mut file) => file.read_exact(&mut key).map_err(|e| cannot(&e))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())
                .map_err(|e| cannot(&e))?;
            // Write to another name first, so that a process killed meanwhile leaves no partial key.
            let write = || {
                let mut options = std::fs::OpenOptions::new();
                let mut file =
                    options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
                file.write_all(&key)?;
                std::fs::rename(&next, &path)
            };
            write().map_err(|e| cannot(&e))?;
        }
        Err(e) => return Err(cannot(&e)),
    }
    Ok(key)
}

/// Holds a directory's lock until dropped. The kernel releases it when the process dies.
fn locked(dir: &Path, how: FlockOperation) -> std::io::Result<std::fs::File> {
    #[expect(clippy::disallowed_methods, reason = "the data directory, which no run sees")]
    let dir = std::fs::File::open(dir)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&dir, how))?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::super::state::Today;
    use super::*;

    fn state(owner: &str) -> SessionState {
        SessionState {
            id: SessionId::fresh().unwrap(),
            owner: owner.to_owned(),
            created_ms: 1,
            used_ms: 1,
            expires_ms: u64::MAX,
            quota_bytes: 1 << 20,
            read_only: false,
            n_cells: 0,
            forked_from: None,
            today: Today::default(),
        }
    }

    #[test]
    fn an_owner_has_the_sessions_that_were_created_and_not_removed() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open(data.path()).unwrap();
        let two = OwnerLimit { n_max: 2, counts: &|_| true };
        let [a, b, other] = ["o/../w\n", "o/../w\n", "other"].map(state);
        for state in [&a, &b, &other] {
            store.create(state, &two, |_| Ok(())).unwrap();
        }
        let of = |store: &Store, owner: &str| {
            let mut ids = store.list_of(owner).unwrap();
            ids.sort();
            ids
        };
        let mut both = vec![a.id.clone(), b.id.clone()];
        both.sort();
        assert_eq!(of(&store, &a.owner), both);
        assert_eq!(of(&store, "nobody"), []);
        // A data directory of an older version, and one whose index was being made when its process was killed.
        std::fs::remove_dir_all(data.path().join("session-owners")).unwrap();
        std::fs::create_dir_all(data.path().join("session-owners.next/x")).unwrap();
        let store = Store::open(data.path()).unwrap();
        assert_eq!(of(&store, &a.owner), both);
        assert_eq!(of(&store, "other"), std::slice::from_ref(&other.id));
        store.retire(&a.id).unwrap();
        store.remove(&a.id, &a.owner).unwrap();
        assert_eq!(of(&store, &a.owner), std::slice::from_ref(&b.id));
        // A session that was copied here from another data directory.
        std::fs::remove_dir_all(store.owner_dir(&b.owner)).unwrap();
        store.sweep();
        assert_eq!(of(&store, &b.owner), std::slice::from_ref(&b.id));
        // Killed while it removed a session: the sweep finishes.
        store.retire(&other.id).unwrap();
        store.sweep();
        assert_eq!(of(&store, "other"), []);
        let owners = std::fs::read_dir(data.path().join("session-owners")).unwrap();
        assert_eq!(owners.count(), 1);
    }

    #[test]
    fn sessions_that_are_being_created_count() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open(data.path()).unwrap();
        let limit = OwnerLimit { n_max: 3, counts: &|state| state.quota_bytes > 0 };
        let at_once = std::sync::Barrier::new(8);
        let n_created = std::thread::scope(|scope| {
            let creators: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        at_once.wait();
                        // Copying the files of a fork takes a while.
                        let fill = |_: &Path| {
                            std::thread::sleep(Duration::from_millis(200));
                            Ok(())
                        };
                        store.create(&state("owner"), &limit, fill).is_ok()
                    })
                })
                .collect();
            creators.into_iter().filter_map(|creator| creator.join().ok()).filter(|is| *is).count()
        });
        assert_eq!(n_created, 3);
        assert_eq!(store.list_of("owner").unwrap().len(), 3);
        let refused = store.create(&state("owner"), &limit, |_| Ok(())).unwrap_err();
        assert_eq!(refused.code, Code::TooManySessions);
        // One that does not count, an expired one for example, takes no place.
        let other = SessionState { quota_bytes: 0, ..state("other") };
        for _ in 0..4 {
            let other = SessionState { id: SessionId::fresh().unwrap(), ..other.clone() };
            store.create(&other, &limit, |_| Ok(())).unwrap();
        }
        // Nor does one that was being created when its process was killed, nor one whose files are still there after its end.
        let third = store.list_of("owner").unwrap().pop().unwrap();
        store.retire(&third).unwrap();
        note(&store.owner_dir("owner"), &SessionId::fresh().unwrap()).unwrap();
        store.create(&state("owner"), &limit, |_| Ok(())).unwrap();
        store.create(&state("owner"), &limit, |_| Ok(())).unwrap_err();
        // A creation that fails gives its place back.
        let fail = |_: &Path| Err(too_many(0));
        store.create(&state("third"), &OwnerLimit { n_max: 1, ..limit }, fail).unwrap_err();
        store.create(&state("third"), &limit, |_| Ok(())).unwrap();
    }
}

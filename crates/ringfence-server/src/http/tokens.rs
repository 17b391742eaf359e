//! Bearer tokens. The file holds a name, scopes and a hash for each; the token itself is shown once, when it is made. A
//! running server sees a change with the next request.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ringfence_audit::Digest;
use ringfence_engine::LOCAL;
use ringfence_engine::clock::{Clock as _, HostClock};
use ringfence_spec::{Code, Problem, shell_word};
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConstantTimeEq as _};

use super::scope::{Caller, Scope};

/// File name in the data directory.
const FILE: &str = "tokens.json";

/// Name of a new file until it is renamed.
const DRAFT: &str = "tokens.json.new";

/// Lock for changes to the file. Created with the first token and never removed, so it shows that there was one.
const LOCK: &str = "tokens.lock";

/// Maximum size of the file that is read: four times what 1,000 tokens take.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Prefix by which a token can be recognized in a log.
const PREFIX: &str = "rf_";

/// Random bytes of a token: too many to guess, so a plain hash is enough to hide it.
const SECRET_BYTES: usize = 32;

/// Maximum number of characters in a name.
const NAME_CHARS_MAX: usize = 64;

/// Record of a token, without the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Name of the token, which is the client's name everywhere.
    pub name: String,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Time of creation.
    pub created_ms: u64,
    /// Time of revocation. A revoked token stays in the file, as a record that it existed.
    pub revoked_ms: Option<u64>,
    /// SHA-256 of the token.
    sha256: Digest,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRecord {
    tokens: Vec<Token>,
}

/// The tokens of a data directory.
#[derive(Debug)]
pub struct Tokens {
    dir: PathBuf,
    known: Mutex<LoadedTokens>,
}

/// Contents of the file when it was last read.
#[derive(Debug, Default)]
struct LoadedTokens {
    stamp: Option<Stamp>,
    active: Vec<Active>,
    /// A token was made at some time.
    needed: bool,
}

#[derive(Debug)]
struct Active {
    sha256: Digest,
    caller: Caller,
}

/// Metadata that changes with the file: every change creates a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Reason for rejecting a caller.
#[derive(Debug)]
pub(super) enum Denied {
    /// No token.
    Missing,
    /// A token that is not known here, or revoked.
    Unknown,
    /// The file cannot be read, so every caller is rejected.
    Unreadable(Problem),
}

impl Tokens {
    /// Opens the tokens of a data directory.
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), known: Mutex::default() }
    }

    /// Makes a token and returns it; it cannot be read again.
    pub fn make(&self, name: &str, scopes: &[Scope]) -> Result<String, Problem> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(fits) {
            return Err(Problem::usage(Code::TokenName, format!("`{name}` cannot name a token"))
                .hint("use up to 64 letters, digits, dots, dashes and underscores"));
        }
        if name == LOCAL {
            return Err(Problem::usage(
                Code::TokenName,
                "`local` names the user of the command line",
            )
            .hint("choose another name"));
        }
        let mut secret = [0; SECRET_BYTES];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| Problem::internal(Code::NoRandomness, "cannot make a token").cause(e))?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let mut scopes = scopes.to_vec();
        scopes.sort();
        scopes.dedup();
        self.change(|tokens| {
            if tokens.iter().any(|t| t.name == name && t.revoked_ms.is_none()) {
                return Err(Problem::usage(
                    Code::TokenExists,
                    format!("there is a token `{name}`"),
                )
                .hint(format!("`ringfence token revoke {name}` first, or choose another name")));
            }
            // Replaces a revoked token of that name, whose sessions pass to the new one.
            tokens.retain(|t| t.name != name);
            tokens.push(Token {
                name: name.to_owned(),
                scopes,
                created_ms: HostClock.now_ms(),
                revoked_ms: None,
                sha256: Digest::of(token.as_bytes()),
            });
            Ok(())
        })?;
        Ok(token)
    }

    /// Lists all tokens, including revoked ones.
    pub fn list(&self) -> Result<Vec<Token>, Problem> {
        self.read().map(|written| written.tokens)
    }

    /// Revokes a token, with immediate effect.
    pub fn revoke(&self, name: &str) -> Result<(), Problem> {
        let is_good = |token: &Token| token.name == name && token.revoked_ms.is_none();
        let unknown = || {
            Problem::usage(Code::TokenUnknown, format!("there is no token `{name}`"))
                .hint("`ringfence token ls` lists them")
        };
        // Checked first, because `change` creates the lock file, which would claim that there once was a token.
        if !self.read()?.tokens.iter().any(is_good) {
            return Err(unknown());
        }
        self.change(|tokens| {
            let token = tokens.iter_mut().find(|token| is_good(token)).ok_or_else(unknown)?;
            token.revoked_ms = Some(HostClock.now_ms());
            Ok(())
        })
    }

    /// Returns whether a token was ever made here. If so, tokens are required forever, even if the file is gone.
    pub(super) fn are_needed(&self) -> Result<bool, Problem> {
        for name in [FILE, LOCK] {
            match std::fs::symlink_metadata(self.dir.join(name)) {
                Ok(_) => return Ok(true),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(self.cannot("look at", &e)),
            }
        }
        Ok(false)
    }

    /// Looks up the caller of a token in the current file.
    pub(super) fn check(&self, presented: Option<&str>) -> Result<Caller, Denied> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut known).map_err(Denied::Unreadable)?;
        if !known.needed {
            return Ok(Caller::local());
        }
        let presented = Digest::of(presented.ok_or(Denied::Missing)?.as_bytes());
        // Compares with every token, so that the time it takes reveals nothing.
        let mut found: Option<&Caller> = None;
        for active in &known.active {
            let same: Choice = active.sha256.bytes().ct_eq(presented.bytes());
            if same.into() {
                found = Some(&active.caller);
            }
        }
        found.cloned().ok_or(Denied::Unknown)
    }

    /// Returns all callers that would be accepted now.
    pub(super) fn callers(&self) -> Result<HashSet<Caller>, Problem> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut known)?;
        let mut callers: HashSet<Caller> =
            known.active.iter().map(|active| active.caller.clone()).collect();
        if !known.needed {
            callers.insert(Caller::local());
        }
        Ok(callers)
    }

    /// Reads the file if it changed. Once tokens were required they are required forever, even if the file is gone.
    fn refresh(&self, known: &mut LoadedTokens) -> Result<(), Problem> {
        let stamp = match std::fs::symlink_metadata(self.dir.join(FILE)) {
            Ok(meta) => Some(Stamp {
                inode: meta.ino(),
                bytes: meta.len(),
                modified: (meta.mtime(), meta.mtime_nsec()),
                changed: (meta.ctime(), meta.ctime_nsec()),
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(self.cannot("read", &e)),
        };
        // Without a file and while no token is required, looks every time: the lock file may be new.
        if stamp == known.stamp && (stamp.is_some() || known.needed) {
            return Ok(());
        }
        known.active.clear();
        known.stamp = None;
        let written = self.read()?;
        known.needed |= self.are_needed()?;
        for token in written.tokens.iter().filter(|token| token.revoked_ms.is_none()) {
            let scopes = token.scopes.as_slice().into();
            let name = token.name.as_str().into();
            let caller = Caller { name, scopes, token: Some(token.sha256) };
            known.active.push(Active { sha256: token.sha256, caller });
        }
        known.stamp = stamp;
        Ok(())
    }

    fn read(&self) -> Result<TokenRecord, Problem> {
        let mut text = String::new();
        // Must not block, even if there is a FIFO in its place.
        let mut options = File::options();
        options.read(true).custom_flags(nonblock_noctty());
        let file = match options.open(self.dir.join(FILE)) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(TokenRecord::default()),
            Err(e) => return Err(self.cannot("read", &e)),
        };
        let meta = file.metadata().map_err(|e| self.cannot("read", &e))?;
        if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
            return Err(self.cannot("trust", &"others than you may read or write it").hint(
                format!(
                    "look at it, then `chmod 600 {}`",
                    shell_word(&self.dir.join(FILE).to_string_lossy())
                ),
            ));
        }
        if !meta.is_file() {
            return Err(self.cannot("read", &"it is no file"));
        }
        if meta.len() > FILE_BYTES_MAX {
            return Err(self.cannot("read", &"it is larger than tokens can be"));
        }
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|e| self.cannot("read", &e))?;
        serde_json::from_str(&text).map_err(|e| {
            let file = self.dir.join(FILE).display().to_string();
            let (from, to) = (shell_word(&file), format!("{file}.damaged"));
            self.cannot("read", &e).hint(format!(
                "no client is let in until it is whole: restore it, or `mv {from} {}` and make new tokens",
                shell_word(&to)
            ))
        })
    }

    /// Changes the file atomically, one writer at a time.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Token>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let fail = |e: std::io::Error| self.cannot("write", &e);
        let private = |new: bool| {
            let mut options = File::options();
            options
                .write(true)
                .create(!new)
                .create_new(new)
                .mode(0o600)
                .custom_flags(nonblock_noctty());
            options
        };
        let lock = private(false).open(self.dir.join(LOCK)).map_err(fail)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|e| fail(e.into()))?;
        let mut written = self.read()?;
        change(&mut written.tokens)?;
        let draft = self.dir.join(DRAFT);
        match std::fs::remove_file(&draft) {
            // We hold the lock, so a writer that has ended left it behind.
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(fail(e)),
        }
        let mut file = private(true).open(&draft).map_err(fail)?;
        let mut text = serde_json::to_vec_pretty(&written)
            .map_err(|e| Problem::internal(Code::Tokens, "cannot write tokens down").cause(e))?;
        text.push(b'\n');
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(fail)?;
        std::fs::rename(&draft, self.dir.join(FILE)).map_err(fail)?;
        #[expect(clippy::disallowed_methods, reason = "the data directory, which no run sees")]
        let dir = File::open(&self.dir);
        dir.and_then(|dir| dir.sync_all()).map_err(fail)
    }

    fn cannot(&self, act: &str, cause: &dyn std::fmt::Display) -> Problem {
        let path = self.dir.join(FILE);
        Problem::cannot_build(Code::TokensUnusable, format!("cannot {act} `{}`", path.display()))
            .cause(cause)
    }
}

/// Flags for an open that does not block: opening a FIFO otherwise waits for its other end.
fn nonblock_noctty() -> i32 {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    i32::try_from(flags.bits()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(tokens: &Tokens, presented: Option<&str>) -> Result<String, bool> {
        match tokens.check(presented) {
            Ok(caller) => Ok(caller.name.to_string()),
            Err(denied) => Err(matches!(denied, Denied::Unreadable(_))),
        }
    }

    #[test]
    fn a_token_is_known_from_when_it_is_made_until_it_is_revoked() {
        let dir = tempfile::tempdir().unwrap();
        let (server, operator) = (Tokens::of(dir.path()), Tokens::of(dir.path()));
        assert_eq!(who(&server, None), Ok(LOCAL.to_owned()));
        let ada = operator.make("ada", &Scope::USUAL).unwrap();
        let bob = operator.make("bob", &[Scope::Audit, Scope::Audit]).unwrap();
        assert_eq!(who(&server, None), Err(false));
        assert_eq!(who(&server, Some(&ada)), Ok("ada".to_owned()));
        assert_eq!(who(&server, Some(&bob)), Ok("bob".to_owned()));
        assert_eq!(server.check(Some(&bob)).unwrap().scopes.as_ref(), [Scope::Audit]);
        for wrong in ["", "rf_", &ada[..ada.len() - 1], &format!("{ada} "), &ada.to_uppercase()] {
            assert_eq!(who(&server, Some(wrong)), Err(false), "{wrong}");
        }
        operator.revoke("ada").unwrap();
        assert_eq!(who(&server, Some(&ada)), Err(false));
        assert_eq!(who(&server, Some(&bob)), Ok("bob".to_owned()));
        let again = operator.make("ada", &Scope::USUAL).unwrap();
        assert_eq!(who(&server, Some(&ada)), Err(false));
        assert_eq!(who(&server, Some(&again)), Ok("ada".to_owned()));
    }

    #[test]
    fn a_service_that_asked_for_tokens_goes_on_asking() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(dir.path());
        let ada = tokens.make("ada", &Scope::USUAL).unwrap();
        tokens.revoke("ada").unwrap();
        assert_eq!(who(&tokens, None), Err(false));
        assert_eq!(who(&Tokens::of(dir.path()), None), Err(false));
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        assert_eq!(who(&tokens, None), Err(false));
        assert_eq!(who(&tokens, Some(&ada)), Err(false));
        // A service that is started later requires tokens too.
        assert_eq!(who(&Tokens::of(dir.path()), None), Err(false));
        let again = Tokens::of(dir.path()).make("ada", &Scope::USUAL).unwrap();
        assert_eq!(who(&tokens, Some(&again)), Ok("ada".to_owned()));
    }

    #[test]
    fn a_file_without_tokens_opens_nothing_and_a_failed_revoke_shuts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(dir.path());
        assert_eq!(tokens.revoke("ada").unwrap_err().code.as_str(), "token_unknown");
        assert_eq!(who(&tokens, None), Ok(LOCAL.to_owned()));
        private(&dir.path().join(FILE), "{\"tokens\":[]}");
        assert_eq!(who(&tokens, None), Err(false));
        assert_eq!(who(&Tokens::of(dir.path()), None), Err(false));
    }

    fn private(path: &Path, text: &str) {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_pipe_in_place_of_the_file_is_refused_at_once() {
        use rustix::fs::{CWD, FileType, Mode};
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(dir.path());
        for name in [LOCK, FILE] {
            let path = dir.path().join(name);
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            assert_eq!(
                tokens.make("ada", &[]).unwrap_err().code.as_str(),
                "tokens_unusable",
                "{name}"
            );
            if name == FILE {
                assert_eq!(who(&tokens, None), Err(true));
                assert_eq!(tokens.list().unwrap_err().code.as_str(), "tokens_unusable");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_not_ours_alone_lets_nobody_in() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(dir.path());
        let ada = tokens.make("ada", &Scope::USUAL).unwrap();
        let file = dir.path().join(FILE);
        let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(!std::fs::read_to_string(&file).unwrap().contains(&ada));
        mode(0o644);
        assert_eq!(who(&tokens, Some(&ada)), Err(true));
        mode(0o600);
        assert_eq!(who(&tokens, Some(&ada)), Ok("ada".to_owned()));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(who(&tokens, Some(&ada)), Err(true));
        assert_eq!(who(&tokens, None), Err(true));
    }

    #[test]
    fn names_that_could_be_somebody_elses_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(dir.path());
        for name in ["", LOCAL, "a b", "a/b", "ä", &"x".repeat(65)] {
            assert_eq!(tokens.make(name, &[]).unwrap_err().code.as_str(), "token_name", "{name}");
        }
        tokens.make("ada", &[]).unwrap();
        assert_eq!(tokens.make("ada", &[]).unwrap_err().code.as_str(), "token_exists");
        assert_eq!(tokens.revoke("bob").unwrap_err().code.as_str(), "token_unknown");
    }
}

//! Storage settings, written beside the ledger: every process that opens it obeys them, whatever its own settings.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ringfence_spec::{Code, Problem};
use serde::{Deserialize, Serialize};

use crate::dir::LedgerDir;
use crate::ledger::Durability;
use crate::seal::SealKey;

/// Name of the file.
const FILE: &str = "ledger.settings";

/// Maximum size of the file.
const BYTES_MAX: u64 = 64 << 10;

/// The owner's settings for a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageSettings {
    /// Events that an acknowledged row survives.
    pub durability: Durability,
    /// File of the key that seals bodies; without one they are stored in the clear.
    pub key_file: Option<PathBuf>,
}

impl StorageSettings {
    /// Reads the settings beside the ledger in `dir`; the defaults if there are none.
    pub fn read(dir: &Path) -> Result<Self, Problem> {
        if rustix::fs::access(dir, rustix::fs::Access::EXISTS).is_err() {
            return Ok(Self::default());
        }
        Self::of(&LedgerDir::open(dir)?)
    }

    /// Writes the settings, for every process that opens the ledger from now on.
    pub fn write(&self, dir: &Path) -> Result<(), Problem> {
        // Refuse a key that cannot be used before the settings are written.
        self.seal()?;
        let text = serde_json::to_vec_pretty(self).map_err(|e| {
            Problem::internal(Code::LedgerSettings, "cannot write settings").cause(e)
        })?;
        LedgerDir::create(dir)?.write_atomically(FILE, &text)
    }

    pub(crate) fn of(home: &LedgerDir) -> Result<Self, Problem> {
        let Some(file) = home.find(FILE)? else { return Ok(Self::default()) };
        let shown = home.join(FILE);
        let wrong = |cause: &dyn std::fmt::Display| {
            Problem::usage(Code::LedgerSettings, format!("cannot use `{}`", shown.display()))
                .cause(cause)
                .hint("write it anew with `ringfence audit settings`")
        };
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text).map_err(|e| wrong(&e))?;
        serde_json::from_slice(&text).map_err(|e| wrong(&e))
    }

    /// The key, from a file that no other user may read.
    pub(crate) fn seal(&self) -> Result<Option<SealKey>, Problem> {
        let Some(path) = &self.key_file else { return Ok(None) };
        let wrong = |cause: &dyn std::fmt::Display| {
            let message = format!("cannot use the ledger's key in `{}`", path.display());
            Problem::usage(Code::LedgerKey, message).cause(cause)
        };
        if !path.is_absolute() {
            return Err(wrong(&"its path is not absolute"));
        }
        let mut file = ringfence_sys::untrusted::open_trusted(path).map_err(|e| wrong(&e))?;
        let meta = file.metadata().map_err(|e| wrong(&e))?;
        if meta.len() > BYTES_MAX {
            return Err(wrong(&"it is no file of a key's size"));
        }
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(wrong(&"others may read it").hint("chmod 600 it"));
        }
        let mut text = String::new();
        file.by_ref().take(BYTES_MAX).read_to_string(&mut text).map_err(|e| wrong(&e))?;
        SealKey::parse(&text).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;
    use crate::{Entry, KeepAll, Ledger, LedgerSettings, Reader};

    fn key(dir: &Path, mode: u32) -> PathBuf {
        let path = dir.join("key");
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode).open(&path).unwrap();
        std::io::Write::write_all(&mut &file, "ab".repeat(32).as_bytes()).unwrap();
        path
    }

    #[test]
    fn who_opens_a_ledger_keeps_to_its_manner() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("ledger");
        assert_eq!(StorageSettings::read(&ledger).unwrap(), StorageSettings::default());
        let manner = StorageSettings {
            durability: Durability::PowerLoss,
            key_file: Some(key(dir.path(), 0o600)),
        };
        manner.write(&ledger).unwrap();
        assert_eq!(StorageSettings::read(&ledger).unwrap(), manner);
        let open = Ledger::open(&ledger, LedgerSettings::new(KeepAll)).unwrap();
        assert_eq!(open.settings.durability, Durability::PowerLoss);
        let run_id = ringfence_spec::RunId::from_random([7; 16]);
        open.append(&Entry::run_start(run_id).arguments("a secret plan")).unwrap();
        drop(open);
        let shown = |ledger: &Path| {
            let run = Reader::open(ledger, None).unwrap().show(&run_id.to_string()).unwrap();
            serde_json::to_string(&run).unwrap()
        };
        assert!(shown(&ledger).contains("a secret plan"), "with the key it is read");
        for entry in std::fs::read_dir(&ledger).unwrap().map(Result::unwrap) {
            if entry.metadata().unwrap().is_file() {
                let bytes = std::fs::read(entry.path()).unwrap();
                assert!(!bytes.windows(6).any(|w| w == b"secret"), "{entry:?}");
            }
        }
        std::fs::remove_file(dir.path().join("key")).unwrap();
        assert!(!shown(&ledger).contains("a secret plan"), "without it, it stays sealed");
        let refused = Ledger::open(&ledger, LedgerSettings::new(KeepAll)).unwrap_err();
        assert_eq!(refused.code.as_str(), "ledger_key", "nothing is written in the clear instead");
    }

    #[test]
    fn a_key_that_is_none_is_not_decided() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("ledger");
        for key_file in [dir.path().join("missing"), "key".into(), key(dir.path(), 0o644)] {
            let manner = StorageSettings { key_file: Some(key_file), ..StorageSettings::default() };
            assert_eq!(manner.write(&ledger).unwrap_err().code.as_str(), "ledger_key");
        }
        assert_eq!(StorageSettings::read(&ledger).unwrap(), StorageSettings::default());
    }
}

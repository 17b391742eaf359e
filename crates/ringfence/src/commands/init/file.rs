//! A client's configuration file: read whole, replaced whole, with what was there kept beside it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_spec::Problem;

/// A longer file is no configuration.
const BYTES_MAX: u64 = 64 << 20;

/// What was there before the first change.
const BACKUP: &str = ".before-ringfence";

/// A file as it was found.
#[derive(Debug)]
pub(super) struct ConfigFile {
    /// The file itself: people keep links to where they store their settings.
    pub(super) path: PathBuf,
    /// Its text; nothing if there is none.
    pub(super) text: Option<String>,
    mode: u32,
}

impl ConfigFile {
    pub(super) fn read(path: &Path) -> Result<Self, Problem> {
        let cannot = |why: String| {
            Problem::usage("config_unreadable", format!("cannot read `{}`", path.display()))
                .cause(why)
                .hint("nothing was changed")
        };
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            // A link to nothing would be replaced by a file, and the link lost.
            Err(e) if e.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
                return Ok(Self { path: path.to_owned(), text: None, mode: 0o600 });
            }
            Err(e) => return Err(cannot(e.to_string())),
        };
        let metadata = fs::metadata(&real).map_err(|e| cannot(e.to_string()))?;
        if !metadata.is_file() || metadata.len() > BYTES_MAX {
            return Err(cannot("it is not a plain file of a reasonable size".to_owned()));
        }
        let text = fs::read_to_string(&real).map_err(|e| cannot(e.to_string()))?;
        Ok(Self { path: real, text: Some(text), mode: metadata.mode() & 0o777 })
    }

    /// Writes a new text, all of it or nothing. Returns where the old one is kept, if there was one.
    pub(super) fn replace(&self, text: &str) -> Result<Option<PathBuf>, Problem> {
        let cannot = |e: io::Error| self.cannot_write(&e);
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(cannot)?;
        }
        let backup = self.beside(BACKUP);
        if let Some(old) = &self.text
            && !backup.exists()
        {
            self.write(&backup, old).map_err(cannot)?;
        }
        self.write(&self.path, text).map_err(cannot)?;
        Ok(self.text.as_ref().map(|_| backup))
    }

    /// What was there before the first change, if anything was.
    pub(super) fn backup(&self) -> Result<Option<String>, Problem> {
        match fs::read_to_string(self.beside(BACKUP)) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.cannot_write(&e)),
        }
    }

    /// Brings an earlier text back; nothing is kept of the change.
    pub(super) fn restore(&self, text: &str) -> Result<(), Problem> {
        self.write(&self.path, text).map_err(|e| self.cannot_write(&e))?;
        match fs::remove_file(self.beside(BACKUP)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.cannot_write(&e)),
            _ => Ok(()),
        }
    }

    /// There was no file before.
    pub(super) fn delete(&self) -> Result<(), Problem> {
        fs::remove_file(&self.path).map_err(|e| self.cannot_write(&e))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let draft = self.beside(&format!(".ringfence-{}", std::process::id()));
        let written = (|| {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(self.mode).open(&draft)?;
            // Whatever the umask says.
            file.set_permissions(fs::Permissions::from_mode(self.mode))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name: OsString = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn cannot_write(&self, error: &io::Error) -> Problem {
        Problem::usage("config_unwritable", format!("cannot write `{}`", self.path.display()))
            .cause(error)
            .hint("nothing was changed")
    }
}

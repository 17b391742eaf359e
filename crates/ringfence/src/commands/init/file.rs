//! A client's configuration file: read and replaced as a whole, with a backup beside it. Never changes another user's
//! file, and never overwrites a concurrent change.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ringfence_engine::HostContext;
use ringfence_spec::{Code, Problem};
use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::present;

/// Maximum size of a configuration.
const BYTES_MAX: u64 = 64 << 20;

/// Suffix of the first backup; the next have `.2` and so on after it.
const BACKUP: &str = ".before-ringfence";

/// Maximum number of backups, more than anyone should need between two looks at them.
const BACKUPS_MAX: usize = 99;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    /// The resolved path: configurations are often links to where settings are stored.
    pub(super) path: PathBuf,
    /// Its text; `None` if the file does not exist.
    pub(super) text: Option<String>,
    mode: u32,
    /// Its group, which need not be its owner's primary group.
    group: Option<u32>,
    /// The directory in which runs may have written, if it is beside such files: a run can make what looks like a backup.
    written_by_runs: Option<PathBuf>,
}

/// A copy of the file from before a change.
#[derive(Debug)]
pub(super) struct Backup {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl ConfigFile {
    pub(super) fn read(path: &Path, place: &HostContext) -> Result<Self, Problem> {
        check_is_ours(path)?;
        // Made by a run, a link to elsewhere would have that file replaced.
        let resolved = place.without_planted_links(path, "FILE")?;
        // A file that does not exist yet is made where its directory is now.
        let path = if path.symlink_metadata().is_err() { &*resolved } else { path };
        let cannot = |why: String| {
            Problem::usage(Code::ConfigUnreadable, format!("cannot read `{}`", path.display()))
                .cause(why)
                .hint("nothing was changed")
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a client's settings, checked to be the caller's below"
        )]
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            // A dangling link would be replaced by a file, and the link lost.
            Err(e) if e.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
                let written_by_runs = place.written_by_runs(&resolved);
                let path = path.to_owned();
                return Ok(Self { path, text: None, mode: 0o600, group: None, written_by_runs });
            }
            Err(e) => return Err(cannot(e.to_string())),
        };
        let (text, metadata) = plain(&real).map_err(|e| cannot(e.to_string()))?;
        check_is_ours(&real)?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(not_ours(&real, metadata.uid()));
        }
        let group = Some(metadata.gid());
        let written_by_runs = place.written_by_runs(&real);
        let (text, mode) = (Some(text), metadata.mode() & 0o777);
        Ok(Self { path: real, text, mode, group, written_by_runs })
    }

    /// Writes a new text atomically.
    pub(super) fn replace(&self, text: &str) -> Result<(), Problem> {
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir).map_err(|e| self.cannot_write(&e))?;
        }
        self.write(text)
    }

    /// Backs the file up beside it, and returns the backup's path.
    pub(super) fn keep(&self) -> Result<Option<PathBuf>, Problem> {
        let Some(text) = &self.text else { return Ok(None) };
        let free = self.places().find(|place| place.symlink_metadata().is_err());
        let place = free.ok_or_else(|| {
            self.cannot_write(&io::Error::other(format!("there are {BACKUPS_MAX} copies of it")))
                .hint(format!("look at those that end in `{BACKUP}`, and move them away"))
        })?;
        self.draft(text, |draft| move_to_free(draft, &place))?;
        Ok(Some(place))
    }

    /// Returns the backups, newest first. Where runs have written there are none to rely on: the text of one would become that of
    /// a file that no run may change.
    pub(super) fn backups(&self) -> Result<Vec<Backup>, Problem> {
        let mut backups = Vec::new();
        if let Some(dir) = &self.written_by_runs {
            if self.beside(BACKUP).symlink_metadata().is_ok() {
                present::note(&format!(
                    "the copies in {} are left alone: runs have written there",
                    dir.display()
                ));
            }
            return Ok(backups);
        }
        for path in self.places().take_while(|place| place.symlink_metadata().is_ok()) {
            let (text, _) = plain(&path).map_err(|e| {
                let message = format!("cannot read `{}`", path.display());
                Problem::usage(Code::ConfigUnreadable, message)
                    .cause(e)
                    .hint("move it away; nothing was changed")
            })?;
            backups.push(Backup { path, text });
        }
        backups.reverse();
        Ok(backups)
    }

    /// Restores the text of `backup`, and removes the backup.
    pub(super) fn restore(&self, backup: &Backup) -> Result<(), Problem> {
        self.write(&backup.text)?;
        match fs::remove_file(&backup.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.cannot_write(&e)),
            _ => Ok(()),
        }
    }

    /// Deletes the file, which did not exist before.
    pub(super) fn delete(&self) -> Result<(), Problem> {
        self.check_unchanged()?;
        fs::remove_file(&self.path).map_err(|e| self.cannot_write(&e))
    }

    fn write(&self, text: &str) -> Result<(), Problem> {
        self.draft(text, |draft| {
            if self.text.is_none() {
                return move_to_free(draft, &self.path);
            }
            fs::rename(draft, &self.path)
        })
    }

    /// Writes a text to a draft beside the file, with its mode and group, then runs `last`, right after a check that
    /// the file is still as it was read.
    fn draft(&self, text: &str, last: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Problem> {
        let draft = self.beside(&format!(".ringfence-{}", std::process::id()));
        let written = || {
            let mut options = fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
            if let Some(group) = self.group
                && file.metadata()?.gid() != group
            {
                std::os::unix::fs::fchown(&file, None, Some(group))?;
            }
            // Set regardless of the umask, and after the group: changing the group may clear bits.
            file.set_permissions(fs::Permissions::from_mode(self.mode))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        let done = written()
            .map_err(|e| self.cannot_write(&e))
            .and_then(|()| self.check_unchanged())
            .and_then(|()| last(&draft).map_err(|e| self.cannot_write(&e)));
        if done.is_err() {
            let _ = fs::remove_file(&draft);
        }
        done
    }

    /// Fails if the file has changed since it was read.
    fn check_unchanged(&self) -> Result<(), Problem> {
        let now = match plain(&self.path) {
            Ok((text, _)) => Some(text),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(self.cannot_write(&e)),
        };
        if now == self.text {
            return Ok(());
        }
        Err(Problem::usage(Code::ConfigChanged, format!("cannot write `{}`", self.path.display()))
            .cause("another process has just written to it")
            .hint("nothing was changed; do it again"))
    }

    /// Returns the paths of backups, oldest first.
    fn places(&self) -> impl Iterator<Item = PathBuf> {
        (1..=BACKUPS_MAX).map(|n| match n {
            1 => self.beside(BACKUP),
            n => self.beside(&format!("{BACKUP}.{n}")),
        })
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name: OsString = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn cannot_write(&self, error: &io::Error) -> Problem {
        Problem::usage(Code::ConfigUnwritable, format!("cannot write `{}`", self.path.display()))
            .cause(error)
            .hint("nothing was changed")
    }
}

/// Renames only if the new name is free.
fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system supports it: renameat2(2).
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => fs::rename(from, to),
        moved => Ok(moved?),
    }
}

/// Reads a regular file. Does not block on other files, such as a pipe.
fn plain(path: &Path) -> io::Result<(String, fs::Metadata)> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err(io::Error::other("it is not a plain file of a reasonable size"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok((text, metadata))
}

/// Refuses to run as root below another user's directory: links in that home could lead anywhere, and the owner could
/// not read the files left there.
fn check_is_ours(path: &Path) -> Result<(), Problem> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let theirs = path.ancestors().skip(1).find_map(|dir| {
        let owner = dir.symlink_metadata().ok()?.uid();
        (owner != 0).then(|| not_ours(dir, owner))
    });
    theirs.map_or(Ok(()), Err)
}

fn not_ours(path: &Path, owner: u32) -> Problem {
    Problem::usage(Code::ConfigOfAnother, format!("cannot change `{}`", path.display()))
        .cause(format!(
            "it belongs to the user {owner}, and you are {}",
            rustix::process::geteuid()
        ))
        .hint("do it as that user; nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> HostContext {
        HostContext::here(Path::new("/nonexistent")).unwrap()
    }

    #[test]
    fn what_somebody_writes_meanwhile_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        let absent = ConfigFile::read(&path, &place()).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert_eq!(absent.replace("ours").unwrap_err().code.as_str(), "config_changed");
        let found = ConfigFile::read(&path, &place()).unwrap();
        fs::write(&path, "newer").unwrap();
        assert_eq!(found.replace("ours").unwrap_err().code.as_str(), "config_changed");
        assert_eq!(found.delete().unwrap_err().code.as_str(), "config_changed");
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn each_copy_has_a_name_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        for text in ["one", "two", "three"] {
            fs::write(&path, text).unwrap();
            ConfigFile::read(&path, &place()).unwrap().keep().unwrap().unwrap();
        }
        let backups = ConfigFile::read(&path, &place()).unwrap().backups().unwrap();
        let texts: Vec<&str> = backups.iter().map(|backup| backup.text.as_str()).collect();
        assert_eq!(texts, ["three", "two", "one"]);
        assert!(backups[0].path.to_str().unwrap().ends_with("c.json.before-ringfence.3"));
    }

    #[test]
    fn a_pipe_in_place_of_a_copy_is_refused_at_once() {
        use rustix::fs::{FileType, Mode};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        fs::write(&path, "{}").unwrap();
        let found = ConfigFile::read(&path, &place()).unwrap();
        let pipe = dir.path().join("c.json.before-ringfence");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(found.backups().unwrap_err().code.as_str(), "config_unreadable");
    }
}

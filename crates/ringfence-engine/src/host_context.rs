//! The caller's side of a call: its environment, working directory and data directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_jail::Registry;
use ringfence_jail::survey::{Caller, LeadsTo, resolve, without_planted_links};
use ringfence_plan::FileId;
use ringfence_spec::{Code, Problem, shell_word};

use crate::remarks::with_plain_cause;

/// The caller's environment and directories.
#[derive(Clone, Debug, Default)]
pub struct HostContext {
    /// The caller's environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Working directory of runs.
    pub cwd: PathBuf,
    /// Identity of that directory, if the caller has it open: a run may put another one, or a link, at its path. Without it the
    /// engine looks once, when it is built.
    pub cwd_id: Option<FileId>,
    /// Data directory.
    pub state: PathBuf,
    /// Directory of settings, if it exists.
    pub config: Option<PathBuf>,
}

impl HostContext {
    /// This process's own, with state in `data`.
    pub fn here(data: &Path) -> Result<Self, Problem> {
        let (cwd, cwd_id) = own_cwd()
            .map_err(|e| Problem::usage(Code::Cwd, "there is no working directory").cause(e))?;
        let environment = std::env::vars_os().collect();
        Ok(Self { environment, cwd, cwd_id: Some(cwd_id), state: data.to_owned(), config: None })
    }

    /// Resolves the working directory once and for all, unless its identity is known.
    pub(crate) fn with_fixed_cwd(mut self) -> Result<Self, Problem> {
        if self.cwd_id.is_none() && self.cwd.is_absolute() {
            let cwd = self.find_without_planted_links(&self.cwd, "cwd")?;
            (self.cwd, self.cwd_id) = (cwd.path, cwd.id);
        }
        Ok(self)
    }

    /// This process's own, with state in the user's data directory, as on the command line. Makes that directory.
    pub fn of_user() -> Result<Self, Problem> {
        let mut host = Self::here(Path::new(""))?;
        let variable = |name: &str| host.environment.get(std::ffi::OsStr::new(name)).cloned();
        let config = xdg_dir(variable("XDG_CONFIG_HOME"), variable("HOME"), ".config");
        host.state = ready_data_dir(&user_data_dir(variable), &host.cwd)?;
        host.config = config;
        Ok(host)
    }

    /// Where a path of the caller's leads. A link in a directory that runs have written may have been made by one: if it leads
    /// out of that directory, the path is refused.
    pub fn without_planted_links(&self, path: &Path, key: &str) -> Result<PathBuf, Problem> {
        self.find_without_planted_links(path, key).map(|leads_to| leads_to.path)
    }

    /// Returns the directory around a resolved path in which runs have written, and could have changed that file.
    pub fn written_by_runs(&self, path: &Path) -> Option<PathBuf> {
        let registry = Registry::new(&self.state);
        registry.written_by_runs(path).filter(|root| !registry.is_out_of_reach(root, path))
    }

    fn find_without_planted_links(&self, path: &Path, key: &str) -> Result<LeadsTo, Problem> {
        without_planted_links(&self.cwd.join(path), key, &Registry::new(&self.state))
            .map_err(with_plain_cause)
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller {
            environment: self.environment.clone(),
            state: self.state.clone(),
            config: self.config.clone(),
            cwd: Some(self.cwd.clone()),
        }
    }
}

/// The path of this process's working directory, without links, and its identity.
pub fn own_cwd() -> std::io::Result<(PathBuf, FileId)> {
    let path = std::env::current_dir()?;
    let stat = rustix::fs::stat(".")?;
    Ok((path, FileId { dev: stat.st_dev, ino: stat.st_ino }))
}

/// The directory for `ringfence` that an XDG variable names, or the usual one below the home.
pub fn xdg_dir(
    named: Option<OsString>,
    home: Option<OsString>,
    below_home: &str,
) -> Option<PathBuf> {
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let dir =
        named.and_then(absolute).or_else(|| home.and_then(absolute).map(|h| h.join(below_home)));
    dir.map(|dir| dir.join("ringfence"))
}

/// The user's data directory: sessions, ledger and records of workspaces.
pub fn user_data_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let is_usable = |dir: &PathBuf| {
        let exists = |a: &&Path| rustix::fs::access(*a, rustix::fs::Access::EXISTS).is_ok();
        let existing = dir.ancestors().find(exists);
        existing.is_some_and(|a| rustix::fs::access(a, rustix::fs::Access::WRITE_OK).is_ok())
    };
    // A service account may have no writable home. `/tmp` is sticky, and the owner of the directory is checked.
    xdg_dir(variable("XDG_STATE_HOME"), variable("HOME"), ".local/state")
        .filter(is_usable)
        .unwrap_or_else(|| {
            PathBuf::from(format!("/tmp/ringfence-{}", rustix::process::geteuid().as_raw()))
        })
}

/// Makes the data directory if it does not exist, and returns its canonical path, by which it is hidden from runs. It must
/// belong to the user, and no other user may write to it.
pub fn ready_data_dir(data: &Path, cwd: &Path) -> Result<PathBuf, Problem> {
    use std::os::unix::fs::MetadataExt as _;
    let cannot = |e: &dyn std::fmt::Display| {
        Problem::cannot_build(
            Code::DataDir,
            format!("cannot use the data directory `{}`", data.display()),
        )
        .cause(e)
    };
    let in_tmp = data.parent() == Some(Path::new("/tmp"));
    if in_tmp && data.is_symlink() {
        return Err(cannot(&"it is a link, which another user may have made"));
    }
    let data = std::path::absolute(data).map_err(|e| cannot(&e))?;
    let real_path = |path: &Path| {
        let resolved = resolve(path).map_err(|e| cannot(&e))?;
        let planted = |(link, _): &(PathBuf, PathBuf)| {
            resolve(cwd).is_ok_and(|cwd| link.starts_with(cwd.found.path))
        };
        if resolved.links.iter().any(planted) {
            let cause = "a link in the working directory leads there, which a run may have made";
            return Err(cannot(&cause));
        }
        Ok(resolved.found.path)
    };
    // Nothing is made behind a link of a run's, nor through one that it makes meanwhile.
    let existing = data.ancestors().find(|path| path.symlink_metadata().is_ok());
    let existing = existing.unwrap_or(Path::new("/"));
    let mut real = real_path(existing)?;
    let missing = data.strip_prefix(existing).unwrap_or(Path::new(""));
    if !missing.as_os_str().is_empty() {
        if missing.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(cannot(&"it has `..` below a directory that does not exist"));
        }
        ringfence_jail::make_directory(&real.join(missing), 0o700).map_err(|e| cannot(&e))?;
        real = real_path(&data)?;
    }
    let meta = std::fs::symlink_metadata(&real).map_err(|e| cannot(&e))?;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(cannot(&"it is not a directory of yours"));
    }
    if meta.mode() & 0o002 != 0 {
        return Err(cannot(&"every user may write to it").hint(way_to_own(&real, meta.mode())));
    }
    Ok(real)
}

/// The way out of a directory that others may write to. One with the sticky bit is shared by intention, as `/tmp` is: it is
/// not for Ringfence to have closed.
pub(crate) fn way_to_own(dir: &Path, mode: u32) -> String {
    let sticky = mode & 0o1000 != 0;
    let own = if sticky { dir.join("ringfence") } else { dir.to_owned() };
    let own = shell_word(&own.to_string_lossy()).into_owned();
    if sticky {
        format!("use one of your own in it: `{own}`")
    } else {
        format!("`chmod go-w {own}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_behind_a_link_that_a_run_could_have_made() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let [work, elsewhere] = ["work", "elsewhere"].map(|name| root.join(name));
        for dir in [&work, &elsewhere] {
            std::fs::create_dir(dir).unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, work.join("link")).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("nothing"), work.join("dangling")).unwrap();
        for data in ["link", "link/data", "dangling", "dangling/data", "no/../link/data", "no/.."] {
            assert!(ready_data_dir(&work.join(data), &work).is_err(), "{data}");
        }
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
        // The user's own link, outside.
        std::os::unix::fs::symlink(&elsewhere, root.join("own")).unwrap();
        let real = ready_data_dir(&root.join("own/data/deep"), &work).unwrap();
        assert_eq!(real, elsewhere.join("data/deep"));
        assert_eq!(ready_data_dir(&work.join("data"), &work).unwrap(), work.join("data"));
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused_with_a_way_out() {
        assert_eq!(way_to_own(Path::new("/srv/my data"), 0o777), "`chmod go-w '/srv/my data'`");
        assert_eq!(
            way_to_own(Path::new("/tmp"), 0o1777),
            "use one of your own in it: `/tmp/ringfence`"
        );
    }
}

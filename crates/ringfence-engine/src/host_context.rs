//! Where a call comes from: directories and environment of whoever makes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_jail::Registry;
use ringfence_jail::survey::{Caller, without_planted_links};
use ringfence_spec::Problem;

/// A caller's surroundings.
#[derive(Clone, Debug, Default)]
pub struct HostContext {
    /// The caller's environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where a run starts.
    pub cwd: PathBuf,
    /// Where state is kept.
    pub state: PathBuf,
    /// Where settings are read, if that directory exists.
    pub config: Option<PathBuf>,
}

impl HostContext {
    /// This process's own, with state in `data`.
    pub fn here(data: &Path) -> Result<Self, Problem> {
        let cwd = std::env::current_dir()
            .map_err(|e| Problem::usage("cwd", "there is no working directory").cause(e))?;
        let environment = std::env::vars_os().collect();
        Ok(Self { environment, cwd, state: data.to_owned(), config: None })
    }

    /// Where a path of the caller's leads. A link in a directory that runs have written may have been made by one: if it leads
    /// out of that directory, the path is refused.
    pub fn without_planted_links(&self, path: &Path, key: &str) -> Result<PathBuf, Problem> {
        without_planted_links(&self.cwd.join(path), key, &Registry::new(&self.state))
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

//! Where a call comes from: directories and environment of whoever makes it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_jail::survey::Caller;

/// A caller's surroundings.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The caller's environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where a run starts.
    pub cwd: PathBuf,
    /// Where state is kept.
    pub state: PathBuf,
    /// Where settings are read, if that directory exists.
    pub config: Option<PathBuf>,
}

impl Place {
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            environment: self.environment.clone(),
            state: self.state.clone(),
            config: self.config.clone(),
        }
    }
}

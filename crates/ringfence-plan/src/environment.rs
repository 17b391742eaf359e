//! The run's environment: a short list of Ringfence's own, toolchain variables of the caller, and the policy's grants.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_spec::{Code, EnvGrant, Network, Policy, Problem};

use crate::catalogue;
use crate::facts::HostFacts;
use crate::network::NetworkWay;

/// PATH of a run that sees none of the caller's PATH.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Builds the environment. `shows` returns true for a directory that the run will see; `home` and `tmp` are the run's
/// paths.
pub(crate) fn environment(
    policy: &Policy,
    facts: &HostFacts,
    way: NetworkWay,
    home: &Path,
    tmp: &Path,
    shows: impl Fn(&Path) -> bool,
) -> Result<BTreeMap<OsString, OsString>, Problem> {
    let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
    env.insert("LANG".into(), "C.UTF-8".into());
    for (name, value) in &facts.environment {
        if passes(name) {
            env.insert(name.clone(), value.clone());
        }
    }
    env.insert("PATH".into(), path(facts, shows));
    env.insert("HOME".into(), home.into());
    env.insert("TMPDIR".into(), tmp.into());
    env.insert("USER".into(), "agent".into());
    env.insert("LOGNAME".into(), "agent".into());
    env.insert("SHELL".into(), "/bin/sh".into());
    if facts.ids.uid == 0 {
        // The run's uid differs from the one that git on the host has recorded for each file: without this, each of the
        // two reads every file again after the other.
        for (name, value) in catalogue::GIT_IGNORES_OWNERS {
            env.insert(name.into(), value.into());
        }
    }
    // What is refused once is refused again; npm would try for a minute.
    let retries = match &policy.network {
        Network::None => catalogue::NO_RETRIES,
        Network::Allow(_) => catalogue::FEW_RETRIES,
    };
    for (name, value) in retries {
        env.insert(name.into(), value.into());
    }
    if policy.network != Network::None && way != NetworkWay::Captured {
        for name in catalogue::PROXY_VARIABLES {
            env.insert(name.into(), format!("http://127.0.0.1:{}", crate::PROXY_PORT).into());
        }
    }
    for grant in &policy.env {
        match grant {
            EnvGrant::Set(name, value) => {
                env.insert(name.into(), value.into());
            }
            EnvGrant::Inherit(name) if never_inherited(name) => {
                return Err(Problem::refused(
                    Code::EnvNotInheritable,
                    format!("`{name}` is not taken from the caller's environment"),
                )
                .hint(format!("give the value itself: `--env {name}=VALUE`")));
            }
            EnvGrant::Inherit(name) => {
                if let Some(value) = facts.environment.get(OsStr::new(name)) {
                    env.insert(name.into(), value.clone());
                }
            }
        }
    }
    Ok(env)
}

fn passes(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        catalogue::ENV_PASSED.contains(&name)
            || catalogue::ENV_PASSED_PREFIX.iter().any(|prefix| name.starts_with(prefix))
    })
}

fn never_inherited(name: &str) -> bool {
    catalogue::ENV_NEVER_INHERITED.contains(&name)
        || catalogue::ENV_NEVER_INHERITED_PREFIX.iter().any(|prefix| name.starts_with(prefix))
}

/// The caller's PATH without invisible and relative entries, followed by the system's own.
fn path(facts: &HostFacts, shows: impl Fn(&Path) -> bool) -> OsString {
    let callers = facts.environment.get(OsStr::new("PATH"));
    let callers = callers.map(|v| v.as_bytes()).unwrap_or_default();
    let mut kept: Vec<PathBuf> = Vec::new();
    for entry in callers.split(|b| *b == b':').chain(PATH_DEFAULT.as_bytes().split(|b| *b == b':'))
    {
        let entry = Path::new(OsStr::from_bytes(entry));
        if entry.is_absolute() && shows(entry) && !kept.iter().any(|k| k == entry) {
            kept.push(entry.to_owned());
        }
    }
    let joined = kept.iter().map(|p| p.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b':');
    OsStr::from_bytes(&joined).to_owned()
}

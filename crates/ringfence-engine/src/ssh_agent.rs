//! Prepares logins by the user's SSH agent: reads the keys of the granted hosts from the user's lists, and those that
//! grants name. The agent itself is asked by the network helper, over a connection that the supervisor makes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringfence_jail::start_ssh_agent;
use ringfence_jail::survey::{found, read_trusted};
use ringfence_net::{known_hosts, ssh_key};
use ringfence_plan::{FileKind, SshAgentAccess, SshAgentFacts, SshAgentPlan};
use ringfence_spec::{Code, Policy, Problem, SSH_PORT, SshAgentGrant, SshKeyName};

use crate::allowed_host::{allow_too, allowed_or_rule};
use crate::host_context::HostContext;

/// Maximum size of a list of host keys: some ten thousand.
const KNOWN_HOSTS_BYTES_MAX: u64 = 8 << 20;

/// Maximum size of a public key's file, and of ssh's settings.
const SMALL_FILE_BYTES_MAX: u64 = 64 << 10;

/// Lists of host keys below the home, and of the system: `ssh_config(5)`.
const USER_LISTS: [&str; 2] = [".ssh/known_hosts", ".ssh/known_hosts2"];
const SYSTEM_LISTS: [&str; 2] = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"];

/// Settings of ssh for every user.
const CLIENT_SETTINGS: &str = "/etc/ssh/ssh_config";

/// Hosts of git whose servers do not speak `publickey-hostbound-v00@openssh.com` or once did not, and where no user gets a
/// shell: a run that logs in there cannot get at the host's key. Each name is in its operator's documentation of SSH.
const GIT_HOSTS: [&str; 9] = [
    "github.com",
    "ssh.github.com",
    "gitlab.com",
    "altssh.gitlab.com",
    "bitbucket.org",
    "altssh.bitbucket.org",
    "codeberg.org",
    "git.sr.ht",
    "ssh.dev.azure.com",
];

/// Reads what the grants of a policy need; `None` if it has none.
pub(crate) fn prepare(
    policy: &Policy,
    place: &HostContext,
) -> Result<Option<SshAgentFacts>, Problem> {
    if policy.ssh_agent.is_empty() {
        return Ok(None);
    }
    for grant in &policy.ssh_agent {
        check(policy, grant)?;
    }
    let variable = |name: &str| place.environment.get(OsStr::new(name)).filter(|v| !v.is_empty());
    let socket = variable("SSH_AUTH_SOCK").map(PathBuf::from);
    let Some(socket) = socket.filter(|path| path.is_absolute()) else {
        return Err(Problem::usage(Code::SshAgent, "there is no SSH agent to use")
            .cause("`SSH_AUTH_SOCK` does not name one")
            .hint(start_ssh_agent()));
    };
    // Without links: the supervisor connects to it again if the agent ends, and follows none that a run has made.
    let socket = found(&socket).map_or(socket, |found| found.path);
    let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let lists = lists(home.as_deref())?;
    let mut access = Vec::new();
    let mut text = String::new();
    for grant in &policy.ssh_agent {
        let host_keys = host_keys(grant, &lists)?;
        for key in &host_keys {
            let line = known_hosts::line(&grant.host, grant.port, key);
            if !text.contains(&line) {
                text.push_str(&line);
            }
        }
        let key = grant.key.as_ref().map(|key| fingerprint(key, grant, home.as_deref()));
        access.push(SshAgentAccess {
            host: grant.host.clone(),
            port: grant.port,
            key: key.transpose()?,
            host_keys,
            allows_unbound: grant.allows_unbound
                || GIT_HOSTS.contains(&grant.host.to_string().as_str()),
        });
    }
    Ok(Some(SshAgentFacts {
        plan: SshAgentPlan { socket, access },
        known_hosts: text,
        client_settings: client_settings()?,
    }))
}

/// Refuses a grant for a host that no rule allows: it could never be used.
fn check(policy: &Policy, grant: &SshAgentGrant) -> Result<(), Problem> {
    allowed_or_rule(policy, &grant.host, grant.port).map_err(|rule| {
        let message = format!("`--ssh-agent {grant}` is for a host that no rule allows");
        Problem::usage(Code::SshAgent, message).hint(allow_too(&rule))
    })
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Problem {
    let message = format!("cannot read `{}`", path.display());
    Problem::usage(Code::SshAgent, message).cause(why)
}

/// The text of the lists that exist.
fn lists(home: Option<&Path>) -> Result<Vec<String>, Problem> {
    let own = USER_LISTS.iter().filter_map(|name| Some(home?.join(name)));
    let paths = own.chain(SYSTEM_LISTS.iter().map(PathBuf::from));
    let mut lists = Vec::new();
    for path in paths {
        match read_trusted(&path, KNOWN_HOSTS_BYTES_MAX) {
            Ok(bytes) => lists.push(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    Ok(lists)
}

/// The keys by which the user knows a host.
fn host_keys(grant: &SshAgentGrant, lists: &[String]) -> Result<Vec<Vec<u8>>, Problem> {
    let host = &grant.host;
    let known = known_hosts::find(lists, host, grant.port);
    if !known.keys.is_empty() {
        return Ok(known.keys);
    }
    let port = if grant.port == SSH_PORT { String::new() } else { format!("-p {} ", grant.port) };
    let message =
        format!("no key of {} is known, so nothing can show that a login is there", grant.place());
    let mut problem = Problem::usage(Code::SshAgent, message);
    if !known.unusable.is_empty() {
        problem = problem.cause(format!(
            "known by {} alone; Ed25519, ECDSA on P-256 and P-384 and RSA can be used",
            known.unusable.join(", ")
        ));
    }
    Err(problem.hint(format!(
        "connect to it once outside with `ssh {port}{host}`, or add its keys with `ssh-keyscan {port}{host} >> ~/.ssh/known_hosts` and compare them with those that its operator publishes"
    )))
}

/// The fingerprint of a key that a grant names.
fn fingerprint(
    key: &SshKeyName,
    grant: &SshAgentGrant,
    home: Option<&Path>,
) -> Result<String, Problem> {
    let path = match key {
        SshKeyName::Fingerprint(text) => return Ok(text.clone()),
        SshKeyName::File(path) => path,
    };
    let path = match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => home.join(below),
        (Ok(_), None) => return Err(unreadable(path, &"there is no home directory")),
        (Err(_), _) => path.clone(),
    };
    let bytes =
        read_trusted(&path, SMALL_FILE_BYTES_MAX).map_err(|error| unreadable(&path, &error))?;
    let key = std::str::from_utf8(&bytes).ok().and_then(ssh_key::public_key);
    let key = key.ok_or_else(|| {
        let message = format!("`{}` is not a public key", path.display());
        Problem::usage(Code::SshAgent, message).hint(format!(
            "name the file that ends in `.pub`: `--ssh-agent {}.pub@{}`",
            path.display(),
            grant.place()
        ))
    })?;
    Ok(ssh_key::fingerprint(&key))
}

/// The system's settings of ssh, where they lie after every link.
fn client_settings() -> Result<Option<(PathBuf, String)>, Problem> {
    let settings = found(Path::new(CLIENT_SETTINGS)).filter(|found| found.kind == FileKind::File);
    let Some(settings) = settings else { return Ok(None) };
    let bytes = read_trusted(&settings.path, SMALL_FILE_BYTES_MAX)
        .map_err(|error| unreadable(&settings.path, &error))?;
    Ok(Some((settings.path, String::from_utf8_lossy(&bytes).into_owned())))
}

//! Reads the credentials of a policy on the host and hands them to the network helper by descriptor. The run gets
//! placeholders and the certificate of an authority of its own.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ringfence_jail::survey::{entries_of, found, read_trusted, resolve};
use ringfence_jail::{Registry, read_secret};
use ringfence_net::authority;
use ringfence_net::credentials::{Credential, Credentials, placeholder};
use ringfence_net::java_truststore::trust_store;
use ringfence_plan::{FileKind, Interception};
use ringfence_spec::network::{Host, RequestRule};
use ringfence_spec::{Code, Policy, Problem, SecretGrant, SecretSource};

use crate::allowed_host::{allow_too, allowed_or_rule};
use crate::host_context::HostContext;

/// Maximum size of a file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 8 << 20;

/// The system's certificates, where distributions keep them as one file.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Java's own stores of trusted certificates, where distributions and images keep them.
const JAVA_STORES: [&str; 3] = [
    "/etc/ssl/certs/java/cacerts",
    "/etc/pki/ca-trust/extracted/java/cacerts",
    "/opt/java/openjdk/lib/security/cacerts",
];

/// Directories of Java installations, and the store below each.
const JAVA_HOMES: [&str; 2] = ["/usr/lib/jvm", "/opt"];
const STORES_BELOW_HOME: [&str; 2] = ["lib/security/cacerts", "jre/lib/security/cacerts"];

/// Directories of the system's in which a store is replaced.
const SYSTEM_DIRS: [&str; 4] = ["/etc", "/opt", "/usr", "/var/lib"];

/// Entries of a directory of Java installations that are looked at.
const JAVA_HOMES_MAX: usize = 64;

/// Credentials ready for a run.
pub(crate) struct Prepared {
    /// For the network helper.
    pub(crate) memory: OwnedFd,
    /// For the plan.
    pub(crate) interception: Interception,
}

/// Reads the credentials of a policy; `None` if it has none. Removes variables that hold one from the environment that runs
/// are planned with.
pub(crate) fn prepare(
    policy: &Policy,
    place: &mut HostContext,
) -> Result<Option<Prepared>, Problem> {
    if policy.secrets.is_empty() && policy.net_requests.is_empty() {
        return Ok(None);
    }
    for grant in &policy.secrets {
        check(policy, grant)?;
    }
    for rule in &policy.net_requests {
        check_request_rule(policy, rule)?;
    }
    let cannot = |what: &str, why: &dyn std::fmt::Display| {
        Problem::cannot_build(Code::Secret, what.to_owned()).cause(why)
    };
    let hosts = policy.secrets.iter().map(|grant| &grant.host);
    let hosts = hosts.chain(policy.net_requests.iter().map(|rule| &rule.host));
    let timeout = policy.limits.timeout.map(ringfence_spec::Span::duration);
    let authority = authority::make(hosts, timeout)
        .map_err(|e| cannot("cannot make a certificate authority", &e))?;
    let mut all = Vec::new();
    let mut placeholders = Vec::new();
    let mut sources = Vec::new();
    for grant in &policy.secrets {
        sources.push(source_of(grant, place)?);
        let value = read(grant, place)?;
        let shown = placeholder(&value).map_err(|e| cannot("cannot make a placeholder", &e))?;
        placeholders.push((grant.name.clone(), shown.clone()));
        let read_at = SystemTime::now();
        all.push(Credential { grant: grant.to_string(), placeholder: shown, value, read_at });
    }
    for grant in &policy.secrets {
        if let SecretSource::Variable(variable) = &grant.source
            && let Some(value) = place.environment.remove(OsStr::new(variable))
        {
            forget_os(value);
        }
    }
    let roots_pem = match &policy.net_ca {
        Some(path) => read_trusted(path, CERTIFICATES_BYTES_MAX)
            .map_err(|e| cannot(&format!("cannot read `{}`", path.display()), &e))?,
        None => Vec::new(),
    };
    let bundles: Vec<PathBuf> = BUNDLES.iter().filter_map(|path| bundle(Path::new(path))).collect();
    let system = bundles.first().map(|path| read_trusted(path, CERTIFICATES_BYTES_MAX));
    let system =
        system.transpose().map_err(|e| cannot("cannot read the system's certificates", &e))?;
    let mut certificates = String::from_utf8_lossy(&system.unwrap_or_default()).into_owned();
    if !certificates.is_empty() && !certificates.ends_with('\n') {
        certificates.push('\n');
    }
    certificates.push_str(&authority.certificate_pem);
    // Without the system's certificates a store would hold the run's authority alone.
    let java_stores = if bundles.is_empty() { Vec::new() } else { java_stores(place) };
    let java_store = if java_stores.is_empty() { Vec::new() } else { trust_store(&certificates) };
    let credentials = Credentials { authority_key: authority.key_der, roots_pem, all };
    let memory =
        credentials.into_memory().map_err(|e| cannot("cannot pass the credentials on", &e))?;
    let files = policy.secrets.iter().filter_map(|grant| match &grant.source {
        SecretSource::File(path) => found(path),
        _ => None,
    });
    let hidden = files.collect();
    Ok(Some(Prepared {
        memory,
        interception: Interception {
            certificates,
            bundles,
            java_store,
            java_stores,
            placeholders,
            hidden,
            sources,
        },
    }))
}

/// Java's stores on this host, below directories that are the system's.
fn java_stores(place: &HostContext) -> Vec<PathBuf> {
    let mut homes: Vec<PathBuf> = Vec::new();
    for parent in JAVA_HOMES {
        homes.extend(entries_of(Path::new(parent), JAVA_HOMES_MAX));
    }
    let java_home = place.environment.get(OsStr::new("JAVA_HOME")).map(PathBuf::from);
    homes.extend(java_home);
    let below = homes.iter().flat_map(|home| STORES_BELOW_HOME.map(|store| home.join(store)));
    let stores = JAVA_STORES.iter().map(PathBuf::from).chain(below);
    // As written and after every link: a link elsewhere is not the system's, and might lead to any file of it.
    let is_systems = |path: &PathBuf| SYSTEM_DIRS.iter().any(|top| path.starts_with(top));
    let mut stores: Vec<PathBuf> =
        stores.filter(is_systems).filter_map(|path| bundle(&path)).filter(is_systems).collect();
    stores.sort_unstable();
    stores.dedup();
    stores
}

/// A bundle that exists, after every link.
fn bundle(path: &Path) -> Option<PathBuf> {
    found(path).filter(|found| found.kind == FileKind::File).map(|found| found.path)
}

/// Refuses a secret for a host that no rule allows: it could never be used.
fn check(policy: &Policy, grant: &SecretGrant) -> Result<(), Problem> {
    allowed_or_rule(policy, &grant.target(), grant.port).map_err(|rule| {
        let message =
            format!("the secret `{}` is for {}, which no rule allows", grant.name, grant.host);
        Problem::usage(Code::Secret, message).hint(allow_too(&rule))
    })
}

/// Refuses a rule about requests to a host that no rule allows: it has no effect.
fn check_request_rule(policy: &Policy, rule: &RequestRule) -> Result<(), Problem> {
    let host = Host::Name(rule.host.clone());
    let allowed = match rule.port {
        Some(port) => allowed_or_rule(policy, &host, port),
        None => allowed_or_rule(policy, &host, 80).or_else(|_| allowed_or_rule(policy, &host, 443)),
    };
    allowed.map_err(|smallest| {
        let message =
            format!("the rule `{rule}` is about requests to {host}, which no rule allows");
        Problem::usage(Code::BadValue, message).hint(allow_too(&smallest))
    })
}

/// The secret and the paths by which its value is found again; `None` if it is read once: a variable, and a file that a run
/// could have written. A link that a run could have made, and that leads elsewhere, is an error.
fn source_of(
    grant: &SecretGrant,
    place: &HostContext,
) -> Result<Option<(SecretGrant, Vec<PathBuf>)>, Problem> {
    let paths = match &grant.source {
        SecretSource::Variable(_) => return Ok(None),
        SecretSource::Command(command) => {
            let Some(paths) = paths_of_command(command, place) else { return Ok(None) };
            paths
        }
        SecretSource::File(path) => {
            place.without_planted_links(path, "--secret")?;
            // A file that is not there is an error of its own.
            let Ok(resolved) = resolve(path) else { return Ok(None) };
            let paths: Vec<PathBuf> = resolved.into_paths().collect();
            let registry = Registry::new(&place.state);
            if paths.iter().any(|path| registry.written_by_runs(path).is_some()) {
                return Ok(None);
            }
            paths
        }
    };
    Ok(Some((grant.clone(), paths)))
}

/// Every path that decides what a command executes: the programs that its words may name, and every path in the environment.
/// `None` if a program is looked for in a relative directory.
fn paths_of_command(command: &str, place: &HostContext) -> Option<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut add = |path: &Path| match resolve(path) {
        Ok(resolved) => paths.extend(resolved.into_paths()),
        Err(_) => paths.push(path.to_owned()),
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    for (name, value) in &place.environment {
        // The shell sets them anew.
        if name == "PWD" || name == "OLDPWD" {
            continue;
        }
        let value = value.to_string_lossy();
        if name == "PATH" {
            for dir in value.split(':') {
                if !dir.starts_with('/') {
                    return None;
                }
                for word in command.split(|c| !is_word(c)).filter(|word| !word.is_empty()) {
                    add(&Path::new(dir).join(word));
                }
            }
        }
        let parts = value.split(|c: char| c.is_whitespace() || ":;,=\"'".contains(c));
        parts.filter(|part| part.starts_with('/')).for_each(|part| add(Path::new(part)));
    }
    Some(paths)
}

fn read(grant: &SecretGrant, place: &HostContext) -> Result<String, Problem> {
    read_secret(grant, &place.environment).map_err(|why| {
        Problem::usage(Code::Secret, format!("cannot read the secret `{}`", grant.name)).cause(why)
    })
}

fn forget_os(value: OsString) {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = value.into_vec();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

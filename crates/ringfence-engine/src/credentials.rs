//! Reads the credentials of a policy on the host and hands them to the network helper by descriptor. The run gets
//! placeholders and the certificate of an authority of its own.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_jail::survey::{found, read_trusted};
use ringfence_net::authority;
use ringfence_net::credentials::{Credential, Credentials, VALUE_BYTES_MIN, forget, placeholder};
use ringfence_plan::{FileKind, Interception};
use ringfence_spec::network::{Host, RequestRule, Verdict};
use ringfence_spec::{Code, Network, Policy, Problem, SecretGrant, SecretSource};

use rustix::event::{PollFd, PollFlags};

use crate::host_context::HostContext;

/// The longest credential.
const VALUE_BYTES_MAX: u64 = 16 << 10;

/// Maximum size of a file of certificates.
const CERTIFICATES_BYTES_MAX: u64 = 8 << 20;

/// Time that a command may take to print a credential.
const COMMAND_MAX: Duration = Duration::from_secs(30);

/// The system's certificates, where distributions keep them as one file.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

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
    for grant in &policy.secrets {
        let value = read(grant, place)?;
        let shown = placeholder(&value).map_err(|e| cannot("cannot make a placeholder", &e))?;
        placeholders.push((grant.name.clone(), shown.clone()));
        all.push(Credential { grant: grant.to_string(), placeholder: shown, value });
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
        interception: Interception { certificates, bundles, placeholders, hidden },
    }))
}

/// A bundle that exists, after every link.
fn bundle(path: &Path) -> Option<PathBuf> {
    found(path).filter(|found| found.kind == FileKind::File).map(|found| found.path)
}

/// Refuses a secret for a host that no rule allows: it could never be used.
fn check(policy: &Policy, grant: &SecretGrant) -> Result<(), Problem> {
    let target = grant.target();
    let denied = match &policy.network {
        Network::None => None,
        Network::Allow(rules) => match rules.decide(&target, grant.port) {
            Verdict::Allowed(_) => return Ok(()),
            Verdict::Denied(denied) => denied.grant,
        },
    };
    let rule = denied.unwrap_or_else(|| match grant.port {
        443 => grant.host.to_string(),
        port => format!("{}:{port}", grant.host),
    });
    Err(Problem::usage(
        Code::Secret,
        format!("the secret `{}` is for {}, which no rule allows", grant.name, grant.host),
    )
    .hint(format!("allow the host too: `--net allow:{rule}`")))
}

/// Refuses a rule about requests to a host that no rule allows: it has no effect.
fn check_request_rule(policy: &Policy, rule: &RequestRule) -> Result<(), Problem> {
    let host = Host::Name(rule.host.clone());
    let ports = rule.port.map_or_else(|| vec![443, 80], |port| vec![port]);
    let is_allowed = match &policy.network {
        Network::None => false,
        Network::Allow(rules) => {
            ports.iter().any(|port| matches!(rules.decide(&host, *port), Verdict::Allowed(_)))
        }
    };
    if is_allowed {
        return Ok(());
    }
    let port = rule.port.map(|port| format!(":{port}")).unwrap_or_default();
    let message = format!("the rule `{rule}` is about requests to {host}, which no rule allows");
    Err(Problem::usage(Code::BadValue, message)
        .hint(format!("allow the host too: `--net allow:{host}{port}`")))
}

fn read(grant: &SecretGrant, place: &HostContext) -> Result<String, Problem> {
    let problem = |why: String| {
        Problem::usage(Code::Secret, format!("cannot read the secret `{}`", grant.name)).cause(why)
    };
    let mut value = match &grant.source {
        SecretSource::Variable(variable) => match place.environment.get(OsStr::new(variable)) {
            Some(value) => value
                .to_str()
                .map(str::to_owned)
                .ok_or_else(|| problem(format!("the variable `{variable}` is not text")))?,
            None => return Err(problem(format!("there is no variable `{variable}`"))),
        },
        SecretSource::File(path) => {
            let bytes = read_trusted(path, VALUE_BYTES_MAX)
                .map_err(|e| problem(format!("`{}`: {e}", path.display())))?;
            String::from_utf8(bytes)
                .map_err(|_| problem(format!("`{}` is not text", path.display())))?
        }
        SecretSource::Command(command) => output(command, place).map_err(problem)?,
    };
    while value.ends_with(['\n', '\r']) {
        value.pop();
    }
    if value.len() < VALUE_BYTES_MIN {
        forget(value);
        return Err(problem(format!("it has fewer than {VALUE_BYTES_MIN} characters")));
    }
    if !value.bytes().all(|b| b.is_ascii_graphic()) {
        forget(value);
        return Err(problem(
            "it has spaces, control characters or other characters that no header can carry"
                .to_owned(),
        ));
    }
    Ok(value)
}

/// Runs the operator's command and returns what it prints.
fn output(command: &str, place: &HostContext) -> Result<String, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .env_clear()
        .envs(&place.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("`{command}`: {e}"))?;
    let Some(mut stdout) = child.stdout.take() else { return Err("no output".to_owned()) };
    // Without a thread: a process that has one cannot fork the run.
    let until = Instant::now() + COMMAND_MAX;
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    let read = loop {
        let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&ringfence_jail::time_until(until))) {
            Ok(0) => {
                break Err(format!("`{command}` took longer than {} s", COMMAND_MAX.as_secs()));
            }
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => break Err(error.to_string()),
        }
        match stdout.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) => break Err(error.to_string()),
        }
        if bytes.len() as u64 > VALUE_BYTES_MAX {
            break Err(format!("`{command}` prints more than {VALUE_BYTES_MAX} bytes"));
        }
    };
    buffer.fill(0);
    if read.is_err() {
        let _ = child.kill();
    }
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= until => {
                let _ = child.kill();
            }
            None => {}
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    read?;
    if !status.success() {
        return Err(format!("`{command}` ended with {status}"));
    }
    String::from_utf8(bytes).map_err(|_| format!("`{command}` did not print text"))
}

fn forget_os(value: OsString) {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = value.into_vec();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

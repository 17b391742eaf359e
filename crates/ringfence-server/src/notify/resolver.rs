//! Resolves host names with the host's own `getent`.
//!
//! Name lookup may need NSS libraries that only programs linked against the host's libc can load, and Ringfence is
//! linked statically where possible.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Timeout of a lookup.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of addresses to try.
const ADDRESSES_MAX: usize = 16;

/// Resolver that runs `getent` in a child process.
#[derive(Debug)]
pub(super) struct HelperResolver;

impl Resolver for HelperResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) if host.eq_ignore_ascii_case("localhost") => vec![Ipv4Addr::LOCALHOST.into()],
            Err(_) => match ask(host) {
                Ok(addresses) => addresses,
                // A host without `getent` has no such libraries either.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    return DefaultResolver::default().resolve(uri, config, timeout);
                }
                Err(e) => return Err(e.into()),
            },
        };
        let mut found = self.empty();
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            found.push(SocketAddr::new(address, port));
        }
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }
}

fn ask(host: &str) -> std::io::Result<Vec<IpAddr>> {
    let mut child = Command::new("getent")
        .args(["ahosts", "--", host])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let ended = wait(&mut child);
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
        return Err(std::io::ErrorKind::TimedOut.into());
    }
    let mut answer = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut answer)?;
    }
    Ok(addresses(&answer))
}

/// Returns whether the child exited in time. Its output is far smaller than a pipe buffer, so it need not be read
/// meanwhile.
fn wait(child: &mut Child) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// Parses the output of `getent ahosts`, which names each address once per socket type.
fn addresses(answer: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for address in answer.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_each_address_once() {
        let answer = "2001:db8::1     STREAM example.org\n2001:db8::1     DGRAM\n\
                      192.0.2.7       STREAM\n192.0.2.7       RAW\nnonsense\n";
        let expected: Vec<IpAddr> =
            vec!["2001:db8::1".parse().unwrap(), "192.0.2.7".parse().unwrap()];
        assert_eq!(addresses(answer), expected);
    }

    #[test]
    fn a_name_of_this_host_is_found_and_an_option_is_no_name() {
        let loopback = |found: Vec<IpAddr>| found.iter().all(IpAddr::is_loopback);
        match ask("localhost") {
            Ok(found) => assert!(!found.is_empty() && loopback(found)),
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::NotFound, "no getent here"),
        }
        assert!(ask("--help").map_or(true, |found| found.is_empty()));
    }
}

//! One rule of a network policy, and the smallest rule that allows a refused connection.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::address::{Cidr, is_undialable, special_purpose};
use super::bundles::{all, bundle};
use super::host::{Host, HostName};
use super::is_own_loopback;
use super::shared_hosting::is_shared;
use crate::escape_name;

/// HTTPS and HTTP: the ports of a rule that names none.
const WEB: [u16; 2] = [443, 80];
/// The DNS server of a run holds this port on every address.
const DNS: u16 = 53;

/// A rule as it was written, and its meaning.
#[derive(Clone, Debug)]
pub struct NetworkRule {
    text: Box<str>,
    is_denial: bool,
    /// One pattern, or one for each host of a bundle.
    pub(super) patterns: Vec<Pattern>,
    pub(super) bundle: Option<&'static str>,
    pub(super) ports: Ports,
    /// Addresses that are not public and that the name may resolve to.
    pub(super) within: Option<Cidr>,
}

/// Hosts that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Any public host.
    Any,
    /// This name.
    Exact(HostName),
    /// Names at any depth below, without the name itself.
    Below(HostName),
    /// The name and those below.
    AtOrBelow(HostName),
    /// This address.
    Address(IpAddr),
    /// `localhost` of the host.
    HostLoopback,
}

/// Ports that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// 443 and 80.
    Web,
    /// This port.
    One([u16; 1]),
    /// Every port; of deny rules only.
    All,
}

impl NetworkRule {
    /// The rule as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true for a `deny:` rule.
    pub fn is_denial(&self) -> bool {
        self.is_denial
    }

    /// Returns true for an allow rule about names that `*` allows too.
    pub(super) fn names_public_hosts(&self) -> bool {
        self.within.is_none() && self.patterns.iter().all(Pattern::is_name)
    }
}

/// Two spellings of one rule are equal.
impl PartialEq for NetworkRule {
    fn eq(&self, other: &Self) -> bool {
        self.is_denial == other.is_denial
            && self.patterns == other.patterns
            && self.bundle == other.bundle
            && self.ports == other.ports
            && self.within == other.within
    }
}

impl Eq for NetworkRule {}

// Written out, so that a new form of pattern is decided about in each place.
impl Pattern {
    /// Returns true for names, of one host or of those below a domain.
    pub(super) fn is_name(&self) -> bool {
        match self {
            Self::Exact(_) | Self::Below(_) | Self::AtOrBelow(_) => true,
            Self::Any | Self::Address(_) | Self::HostLoopback => false,
        }
    }

    /// Returns true if an allow rule with this pattern is about a host.
    pub(super) fn grants(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, Host::Name(name)) => !name.is_localhost(),
            (Self::Any, Host::Ip(ip)) => special_purpose(*ip).is_none(),
            (
                Self::Exact(_)
                | Self::Below(_)
                | Self::AtOrBelow(_)
                | Self::Address(_)
                | Self::HostLoopback,
                _,
            ) => self.covers(host),
        }
    }

    /// Returns true if a deny rule with this pattern is about a host.
    pub(super) fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Exact(want), Host::Name(name)) => name == want,
            (Self::Below(base), Host::Name(name)) => name.is_below(base),
            (Self::AtOrBelow(base), Host::Name(name)) => name == base || name.is_below(base),
            (Self::Address(want), Host::Ip(ip)) => ip == want,
            (Self::HostLoopback, Host::Name(name)) => name.is_localhost(),
            (Self::HostLoopback, Host::Ip(ip)) => is_own_loopback(*ip),
            (Self::Exact(_) | Self::Below(_) | Self::AtOrBelow(_), Host::Ip(_))
            | (Self::Address(_), Host::Name(_)) => false,
        }
    }
}

impl Ports {
    pub(super) fn contains(self, port: u16) -> bool {
        self == Self::All || self.listed().contains(&port)
    }

    /// The ports by number; none for [`Self::All`].
    pub(super) fn listed(&self) -> &[u16] {
        match self {
            Self::Web => &WEB,
            Self::One(port) => port,
            Self::All => &[],
        }
    }
}

impl FromStr for NetworkRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map_err(|why| format!("`{}` is not a network rule: {why}", escape_name(text)))
    }
}

fn parse(text: &str) -> Result<NetworkRule, String> {
    let (is_denial, rest) = match text.strip_prefix("deny:") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (rest, insists) = match rest.strip_suffix('!') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let (rest, range) = match rest.split_once('@') {
        Some((rest, range)) => (rest, Some(range)),
        None => (rest, None),
    };
    if rest.is_empty() {
        return Err("it names no host; write it as `example.com` or `example.com:8443`".into());
    }
    if rest.contains('/') {
        return Err("write the host alone, such as `example.com`, without scheme or path".into());
    }
    let (host, port) = split_port(rest)?;
    if is_denial && (insists || range.is_some()) {
        return Err("a `deny:` rule has neither `!` nor `@`".into());
    }
    let ports = match port {
        Some(DNS) if !is_denial => {
            return Err("port 53 is held by the DNS server of the run; use another port".into());
        }
        Some(port) => Ports::One([port]),
        None if is_denial => Ports::All,
        None => Ports::Web,
    };
    let within = range.map(str::parse::<Cidr>).transpose()?;
    let (patterns, bundle) = match bundle(host) {
        Some(_) if port.is_some() || within.is_some() || insists => {
            return Err(format!(
                "`{host}` is a bundle, which has no port, range or `!`; write a host of that name as `{host}.`"
            ));
        }
        Some(bundle) => {
            let hosts = bundle.hosts.iter().map(|host| host.parse().map(Pattern::Exact));
            (hosts.collect::<Result<_, _>>()?, Some(bundle.name))
        }
        None => (vec![pattern(host)?], None),
    };
    if let ([pattern], None, false) = (&patterns[..], bundle, is_denial) {
        check_allowed(pattern, host, port, within, insists)?;
    }
    let patterns = patterns.into_iter().map(|pattern| match pattern {
        // Only deny rules get here with an address of the loopback.
        Pattern::Address(ip) if is_own_loopback(ip) => Pattern::HostLoopback,
        other => other,
    });
    Ok(NetworkRule {
        text: text.into(),
        is_denial,
        patterns: patterns.collect(),
        bundle,
        ports,
        within,
    })
}

/// Splits `HOST`, `HOST:PORT`, `[V6]` and `[V6]:PORT`.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = if text.starts_with('[') {
        let end = text.find(']').ok_or("`[` without `]`; write it as `[2001:db8::1]:443`")?;
        let (host, rest) = text.split_at(end + 1);
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err("text after `]`; write it as `[2001:db8::1]:443`".into()),
        }
    } else if text.matches(':').count() > 1 {
        return Err("write an IPv6 address in brackets, such as `[2001:db8::1]:443`".into());
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let Some(digits) = port else { return Ok((host, None)) };
    let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse::<u16>() {
        Ok(port) if port > 0 && is_plain => Ok((host, Some(port))),
        _ => Err(format!("`{}` is not a port; write 1 to 65535", escape_name(digits))),
    }
}

pub(super) fn pattern(host: &str) -> Result<Pattern, String> {
    let wildcard: fn(HostName) -> Pattern;
    let base = if host == "*" {
        return Ok(Pattern::Any);
    } else if let Some(base) = host.strip_prefix("**.") {
        wildcard = Pattern::AtOrBelow;
        base
    } else if let Some(base) = host.strip_prefix("*.") {
        wildcard = Pattern::Below;
        base
    } else if host.contains('*') {
        return Err(
            "`*` stands alone or before the first dot: `*.example.com`, `**.example.com`".into()
        );
    } else {
        return Ok(match host.parse()? {
            Host::Name(name) if name.is_localhost() => Pattern::HostLoopback,
            Host::Name(name) => Pattern::Exact(name),
            Host::Ip(ip) => Pattern::Address(ip),
        });
    };
    if base.contains('*') {
        return Err("only one `*.` or `**.` is possible, at the beginning".into());
    }
    Ok(wildcard(base.parse()?))
}

/// Refuses allow rules that grant more, or less, than they appear to.
fn check_allowed(
    pattern: &Pattern,
    host: &str,
    port: Option<u16>,
    within: Option<Cidr>,
    insists: bool,
) -> Result<(), String> {
    if insists && !matches!(pattern, Pattern::Below(_) | Pattern::AtOrBelow(_)) {
        return Err("`!` belongs to wildcards over shared domains, such as `*.github.io!`".into());
    }
    if let Some(range) = within {
        let bits_min = if range.is_ipv4() { 8 } else { 7 };
        if range.prefix_bits() < bits_min {
            return Err(format!("the range `{range}` is too large; write `/{bits_min}` or more"));
        }
        if is_undialable(range.base()) {
            return Err(format!("no address in `{range}` is that of one host"));
        }
    }
    match pattern {
        Pattern::Any if within.is_some() => {
            Err("`*` has no range; write the name, such as `registry.example@10.0.0.0/8`".into())
        }
        Pattern::HostLoopback if within.is_some() => {
            Err("`localhost` has no range; write `localhost:PORT`".into())
        }
        Pattern::HostLoopback if port.is_none() => {
            Err("name the port of the host's own loopback, such as `localhost:5432`".into())
        }
        Pattern::Address(_) if within.is_some() => {
            Err("an address has no range; write the address alone".into())
        }
        Pattern::Address(ip) if special_purpose(*ip) == Some("loopback") => Err(match port {
            Some(port) => format!("write the host's own loopback as `localhost:{port}`"),
            None => "write the host's own loopback as `localhost:PORT`".into(),
        }),
        Pattern::Address(ip) if is_undialable(*ip) => {
            Err(format!("{ip} is not the address of one host"))
        }
        Pattern::Exact(name)
            if name.is_single_label()
                && !host.ends_with('.')
                && port.is_none()
                && within.is_none() =>
        {
            let names: Vec<_> = all().iter().map(|bundle| bundle.name).collect();
            Err(format!(
                "`{name}` is neither a bundle ({}) nor a full host name; write a host of your own network as `{name}@10.0.0.0/8`",
                names.join(", ")
            ))
        }
        Pattern::Below(base) | Pattern::AtOrBelow(base) if base.is_localhost() => {
            Err("names below `localhost` are the run's own; write `localhost:PORT`".into())
        }
        Pattern::Below(base) | Pattern::AtOrBelow(base) if is_shared(base) => {
            if within.is_some() {
                Err(format!(
                    "names below `{base}` belong to different owners, so they cannot have a range; write the full name"
                ))
            } else if insists {
                Ok(())
            } else {
                Err(format!(
                    "names below `{base}` belong to different owners, and anybody can get one; write the full name, or `{host}{}!` to allow all of them",
                    port.map(|port| format!(":{port}")).unwrap_or_default()
                ))
            }
        }
        Pattern::Any
        | Pattern::Exact(_)
        | Pattern::Below(_)
        | Pattern::AtOrBelow(_)
        | Pattern::Address(_)
        | Pattern::HostLoopback => Ok(()),
    }
}

/// Returns the smallest rule that allows a host on a port, or `None` if no rule can.
pub(super) fn smallest_grant(host: &Host, port: u16) -> Option<String> {
    if port == DNS || port == 0 {
        return None;
    }
    match host {
        Host::Name(name) if name.is_localhost() => Some(format!("localhost:{port}")),
        Host::Name(name) => Some(name_and_port(name, port, !name.is_single_label())),
        Host::Ip(ip) if is_own_loopback(*ip) => Some(format!("localhost:{port}")),
        Host::Ip(ip) if special_purpose(*ip) == Some("loopback") || is_undialable(*ip) => None,
        Host::Ip(_) => {
            let ip = host.in_url();
            Some(if WEB.contains(&port) { ip } else { format!("{ip}:{port}") })
        }
    }
}

/// Returns the smallest rule that lets a name resolve to an address, or `None` if no rule can.
pub(super) fn smallest_range(name: &HostName, port: u16, ip: IpAddr) -> Option<String> {
    (!is_undialable(ip)).then(|| format!("{}@{}", name_and_port(name, port, true), Cidr::only(ip)))
}

fn name_and_port(name: &HostName, port: u16, may_omit: bool) -> String {
    // With a final dot it is a name, not a bundle.
    let dot = if bundle(name.as_str()).is_some() { "." } else { "" };
    if may_omit && WEB.contains(&port) {
        format!("{name}{dot}")
    } else {
        format!("{name}{dot}:{port}")
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for NetworkRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

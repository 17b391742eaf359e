//! Network policy: which host names and addresses a run may reach, on which ports. Pure: resolves no name and opens no
//! socket. Every way out of a run asks [`NetworkRules::decide`], and [`Grant::may_dial`] for each resolved address.
//!
//! | module | purpose |
//! |---|---|
//! | `address` | address classes that are not public, and address ranges |
//! | `bundles` | named lists of hosts for common tools |
//! | `host` | canonical host names and addresses |
//! | `limit` | limits of bytes, connections and requests |
//! | `request` | rules about single HTTP requests |
//! | `rule` | one rule, and the smallest rule that allows a refused connection |
//! | `shared_hosting` | domains below which anybody can register a name |
//! | `upstream` | the operator's own proxy |

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod address;
mod bundles;
mod host;
mod limit;
mod request;
mod rule;
mod shared_hosting;
mod upstream;

pub use address::{Cidr, canonical, special_purpose};
pub use bundles::{Bundle, all as bundles, bundle};
pub use host::{Host, HostName, host_and_port};
pub use limit::{NetworkLimit, NetworkLimitKind};
pub use request::{RequestRule, covers_path};
pub use rule::NetworkRule;
pub use upstream::UpstreamProxy;

pub(crate) use rule::split_port;

use rule::{Pattern, Ports};

/// Ports that a run can hold: a listener for each family fits in one message of descriptors.
const PORTS_MAX: usize = 100;

/// A list of allow and deny rules. Denials win whatever the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkRules {
    rules: Vec<NetworkRule>,
}

/// The answer to one connection request.
#[derive(Clone, Debug)]
pub enum NetworkVerdict<'a> {
    /// Allowed, to the addresses that the grant lists.
    Allowed(Grant<'a>),
    /// Refused.
    Denied(Denied),
}

/// Hosts that `*` allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnyHost {
    NamesAndAddresses,
    Names,
}

/// Permission to reach one host on one port.
#[derive(Clone, Debug)]
pub struct Grant<'a> {
    /// Text of the rule that allows it.
    pub rule: &'a str,
    /// Addresses that may be dialled.
    pub dial: Dial,
    rules: &'a NetworkRules,
    host: &'a Host,
    port: u16,
}

/// Addresses that may be dialled for a granted host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dial {
    /// Public addresses.
    Public,
    /// Public addresses and those inside the ranges.
    Within(Vec<Cidr>),
    /// The address that was asked for.
    Exact(IpAddr),
    /// 127.0.0.1 and `::1` of the host.
    HostLoopback,
}

/// A refused connection, and the rule that would allow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Denied {
    /// The smallest rule that allows this connection if it is added to the list. `None` where no rule can: a deny rule
    /// covers it, or the address is not that of one host.
    pub grant: Option<String>,
    /// Text of the deny rule that refused it.
    pub by: Option<String>,
}

impl NetworkRules {
    /// Parses a comma-separated list.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut rules: Vec<NetworkRule> = Vec::new();
        for text in list.split(',') {
            let rule: NetworkRule = text.trim().parse()?;
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        let rules = Self { rules };
        rules.check()?;
        Ok(rules)
    }

    /// Adds deny rules: the only rules that a workspace's own file may add. They may deny everything that is allowed.
    pub fn with_denials<'t>(
        &mut self,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Result<(), String> {
        let mut denials = Vec::new();
        for text in texts {
            let rule: NetworkRule = text.trim().parse()?;
            if !rule.is_denial() {
                return Err(format!(
                    "`{rule}` allows a host, and only `deny:` rules can be added here; write `deny:{rule}` to refuse it"
                ));
            }
            denials.push(rule);
        }
        for rule in denials {
            if !self.rules.contains(&rule) {
                self.rules.push(rule);
            }
        }
        Ok(())
    }

    /// Returns true if no rule allows anything.
    pub fn is_empty(&self) -> bool {
        self.allowed().next().is_none()
    }

    /// Every port that some rule allows.
    pub fn tcp_ports(&self) -> BTreeSet<u16> {
        self.allowed().flat_map(|rule| rule.ports.listed().iter().copied()).collect()
    }

    /// The rules as they were written.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(NetworkRule::as_str)
    }

    /// Returns true if some rule allows a port of the host's own loopback.
    pub fn has_host_loopback(&self) -> bool {
        self.allowed().any(|rule| rule.patterns.contains(&Pattern::HostLoopback))
    }

    /// Returns true if a name is allowed on some port, so that DNS may answer it.
    pub fn knows_name(&self, name: &HostName) -> bool {
        let host = Host::Name(name.clone());
        let is_denied = self
            .denials()
            .any(|rule| rule.ports == Ports::All && rule.patterns.iter().any(|p| p.covers(&host)));
        !is_denied && self.allowed().any(|rule| rule.patterns.iter().any(|p| p.grants(&host)))
    }

    /// Decides whether a run may connect to a host on a port.
    pub fn decide<'a>(&'a self, host: &'a Host, port: u16) -> NetworkVerdict<'a> {
        self.decide_by(host, port, AnyHost::NamesAndAddresses)
    }

    /// Decides the same where `*` allows names and no addresses: something else depends on the name of a host.
    pub fn decide_by_name<'a>(&'a self, host: &'a Host, port: u16) -> NetworkVerdict<'a> {
        self.decide_by(host, port, AnyHost::Names)
    }

    fn decide_by<'a>(&'a self, host: &'a Host, port: u16, any: AnyHost) -> NetworkVerdict<'a> {
        let denial = self
            .denials()
            .find(|rule| rule.ports.contains(port) && rule.patterns.iter().any(|p| p.covers(host)));
        if let Some(rule) = denial {
            return NetworkVerdict::Denied(Denied { grant: None, by: Some(rule.to_string()) });
        }
        let mut first = None;
        let mut within = Vec::new();
        let mut dial = Dial::Public;
        for rule in self.allowed().filter(|rule| rule.ports.contains(port)) {
            let Some(pattern) = rule.patterns.iter().find(|p| p.grants(host)) else { continue };
            match (pattern, host) {
                (Pattern::HostLoopback, _) => dial = Dial::HostLoopback,
                // A denied name must not be reachable by its address.
                (Pattern::Any, Host::Ip(_)) if any == AnyHost::Names || self.denies_a_name() => {
                    continue;
                }
                // Any public address, and none of the host's own.
                (Pattern::Any, Host::Ip(_)) => {}
                (_, Host::Ip(ip)) => dial = Dial::Exact(*ip),
                (_, Host::Name(_)) => within.extend(rule.within),
            }
            first = first.or(Some(rule.as_str()));
        }
        if !within.is_empty() {
            dial = Dial::Within(within);
        }
        match first {
            Some(rule) => NetworkVerdict::Allowed(Grant { rule, dial, rules: self, host, port }),
            None => {
                NetworkVerdict::Denied(Denied { grant: rule::smallest_grant(host, port), by: None })
            }
        }
    }

    fn allowed(&self) -> impl Iterator<Item = &NetworkRule> {
        self.rules.iter().filter(|rule| !rule.is_denial())
    }

    fn denials(&self) -> impl Iterator<Item = &NetworkRule> {
        self.rules.iter().filter(|rule| rule.is_denial())
    }

    fn denies_a_name(&self) -> bool {
        self.denials().any(|rule| rule.patterns.iter().any(Pattern::is_name))
    }

    /// Refuses lists whose rules cancel or repeat each other: one of them is a mistake.
    fn check(&self) -> Result<(), String> {
        if self.is_empty() {
            return Err(format!("`{self}` allows no host; add one, or write none"));
        }
        let n_ports = self.tcp_ports().len();
        if n_ports > PORTS_MAX {
            return Err(format!("{n_ports} ports are too many; {PORTS_MAX} can be allowed"));
        }
        for allow in self.allowed() {
            let same: Vec<_> = self
                .denials()
                .filter(|deny| deny.bundle == allow.bundle && deny.patterns == allow.patterns)
                .collect();
            let covers = |port: &u16| same.iter().any(|deny| deny.ports.contains(*port));
            if allow.ports.listed().iter().all(covers) {
                let denials: Vec<_> = same.iter().map(|deny| format!("`{deny}`")).collect();
                return Err(format!(
                    "`{allow}` and {} contradict each other; leave one out",
                    denials.join(" and ")
                ));
            }
        }
        let everywhere: Vec<_> =
            self.allowed().filter(|rule| rule.patterns == [Pattern::Any]).collect();
        let covered = |port: &u16| everywhere.iter().any(|any| any.ports.contains(*port));
        for rule in self.allowed().filter(|rule| rule.names_public_hosts()) {
            if let [any, ..] = everywhere[..]
                && rule.ports.listed().iter().all(covered)
            {
                return Err(format!("`{any}` already allows `{rule}`; leave one out"));
            }
        }
        Ok(())
    }
}

impl Grant<'_> {
    /// Checks one resolved address. The error says why it is refused.
    pub fn may_dial(&self, ip: IpAddr) -> Result<(), String> {
        let ip = canonical(ip);
        if let Some(rule) = self.denial_of(ip) {
            return Err(format!("`{rule}` refuses the address {ip}"));
        }
        if address::is_undialable(ip) {
            return Err(format!("{ip} is not the address of one host"));
        }
        let public = || match special_purpose(ip) {
            None => Ok(()),
            Some(class) => Err(format!("{ip} is not a public address ({class})")),
        };
        match &self.dial {
            Dial::Within(ranges) if ranges.iter().any(|range| range.contains(ip)) => Ok(()),
            Dial::Public | Dial::Within(_) => public(),
            Dial::Exact(asked) if *asked == ip => Ok(()),
            Dial::Exact(asked) => Err(format!("{ip} is not the address {asked} of the rule")),
            Dial::HostLoopback if is_own_loopback(ip) => Ok(()),
            Dial::HostLoopback => Err(format!("{ip} is not the loopback of the host")),
        }
    }

    /// Describes the refusal of an address by [`Self::may_dial`], with the rule that would allow it.
    pub fn denied_address(&self, ip: IpAddr) -> Denied {
        let ip = canonical(ip);
        let by = self.denial_of(ip).map(ToString::to_string);
        let grant = match self.host {
            Host::Name(name) if by.is_none() && !name.is_localhost() => {
                rule::smallest_range(name, self.port, ip)
            }
            _ => None,
        };
        Denied { grant, by }
    }

    fn denial_of(&self, ip: IpAddr) -> Option<&NetworkRule> {
        self.rules.denials().find(|rule| {
            rule.ports.contains(self.port)
                && rule.patterns.iter().any(|pattern| match pattern {
                    Pattern::Address(denied) => Cidr::only(*denied).contains(ip),
                    Pattern::HostLoopback => is_own_loopback(ip),
                    // Names were judged before they were resolved; `*` refuses every host by then.
                    Pattern::Any
                    | Pattern::Exact(_)
                    | Pattern::Below(_)
                    | Pattern::AtOrBelow(_) => false,
                })
        })
    }
}

/// Returns true for the two addresses of `localhost`. Others of 127/8 belong to services such as a stub resolver.
fn is_own_loopback(ip: IpAddr) -> bool {
    ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST
}

impl FromStr for NetworkRules {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        Self::parse(list)
    }
}

/// The list as it is written on a command line.
impl fmt::Display for NetworkRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, text) in self.rules().enumerate() {
            write!(f, "{}{text}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Serialize for NetworkRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rules())
    }
}

/// Between Ringfence's own processes: rules that were checked as a list when they were parsed.
impl<'de> Deserialize<'de> for NetworkRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let rules = texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests;

//! The network of a run: the listeners that its namespace holds, and the rules by which the network helper decides.
//! Every address is local to the namespace, so a listener on the wildcard address receives connections to all of them.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeSet;
use std::path::PathBuf;

use ringfence_spec::network::{Host, NetworkLimit, NetworkRules, RequestRule, UpstreamProxy};
use ringfence_spec::{Code, Network, Policy, Problem, PublishedPort, SecretGrant};
use serde::{Deserialize, Serialize};

/// Name servers listen here.
pub const DNS_PORT: u16 = 53;

/// The explicit proxy inside a run, HTTP and SOCKS: squid's port, which few development servers use.
pub const PROXY_PORT: u16 = 3128;

/// The name server in a run's resolv.conf. An address of the benchmark range, which no host has: where the capture is not
/// available, a lookup is a refused connect like any other.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Sockets, of each address family, for connections to published ports: as many such connections at once.
const INWARD_SOCKETS: usize = 32;

/// Published ports of one run.
const PUBLISHED_MAX: usize = 16;

/// Name under which a program is executed as a network helper.
pub const HELPER_NAME: &str = "ringfence-network";

/// First bytes of a packet to the helper with a connection that the supervisor has accepted.
pub const CONNECTION_PACKET: &[u8] = b"C";

/// First bytes of a packet to the helper with the value of a secret that was read again, by its place in the policy. Without
/// a descriptor it could not be read.
pub const VALUE_PACKET: &[u8] = b"V";

/// A packet to the helper with a new connection to the user's SSH agent. Without a descriptor there is none.
pub const AGENT_PACKET: &[u8] = b"A";

/// Purpose of a listener in a run's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenerKind {
    /// Name lookups by UDP.
    DnsUdp,
    /// Name lookups by TCP.
    DnsTcp,
    /// Connections to a granted port of any address.
    Captured,
    /// The explicit proxy, on loopback only.
    Proxy,
    /// A port on the host's loopback address that leads to this port of the run. Bound by the supervisor.
    Published,
    /// No listener, but a socket of the run's namespace that connects to a published port of the run.
    Inward,
    /// The run's SSH agent, a unix socket on its own root.
    SshAgent,
}

/// One listener in a run's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkListener {
    /// Its purpose.
    pub kind: ListenerKind,
    /// Its port.
    pub port: u16,
    /// True for IPv6, false for IPv4.
    pub ipv6: bool,
}

/// Way of a run's connections to the network helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkWay {
    /// Every address is local to the run's namespace, so listeners there receive all connections.
    Captured,
    /// Programs that use the proxy variables reach the proxy's listener in the run's namespace.
    Proxy,
    /// Programs that use the proxy variables, without a namespace: the supervisor performs their connects, to itself, and
    /// passes the other end on.
    Redirected,
}

/// The network of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPlan {
    /// The rules; none allows nothing.
    pub rules: NetworkRules,
    /// The listeners, bound before the program starts.
    pub listeners: Vec<NetworkListener>,
    /// The name server that the helper asks instead of the host's own.
    pub resolver: Option<SocketAddr>,
    /// The proxy through which the helper reaches public hosts.
    pub upstream: Option<UpstreamProxy>,
    /// The way from the run to the helper.
    pub way: NetworkWay,
    /// Requests that hosts may receive.
    pub requests: Vec<RequestRule>,
    /// Limits of the network.
    pub limits: Vec<NetworkLimit>,
    /// Ports that the host may connect to.
    pub published: Vec<PublishedPort>,
    /// Secrets whose values the host reads again during the run, each at its place in the policy; `None` for one that is read
    /// once.
    pub reread: Vec<Option<SecretGrant>>,
    /// Logins by the user's SSH agent.
    pub ssh_agent: Option<SshAgentPlan>,
}

/// Logins by the user's SSH agent that a run may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshAgentPlan {
    /// The agent's socket on the host.
    pub socket: PathBuf,
    /// The grants.
    pub access: Vec<SshAgentAccess>,
}

/// A host at which keys of the agent may log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshAgentAccess {
    /// The host.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// Fingerprint of the one key, `SHA256:…`; `None` for every key.
    pub key: Option<String>,
    /// Keys by which the host is known, in SSH's own encoding.
    pub host_keys: Vec<Vec<u8>>,
    /// Set if logins that do not name the host's key may be signed too.
    pub allows_unbound: bool,
}

impl NetworkPlan {
    /// The network of a command run under this policy.
    pub(crate) fn new(policy: &Policy, ssh_agent: Option<SshAgentPlan>) -> Result<Self, Problem> {
        let (rules, resolver) = match &policy.network {
            Network::None => (NetworkRules::default(), None),
            Network::Allow(rules) => (rules.clone(), policy.resolver),
        };
        let mut listeners = Vec::new();
        let mut hold = |kind, port| {
            listeners.extend([false, true].map(|ipv6| NetworkListener { kind, port, ipv6 }));
        };
        // Always: so that a refused lookup can say which name was asked for.
        hold(ListenerKind::DnsUdp, DNS_PORT);
        hold(ListenerKind::DnsTcp, DNS_PORT);
        if !rules.is_empty() {
            hold(ListenerKind::Proxy, PROXY_PORT);
        }
        let ports: BTreeSet<u16> = rules.tcp_ports();
        for port in ports.into_iter().filter(|port| ![DNS_PORT, PROXY_PORT].contains(port)) {
            hold(ListenerKind::Captured, port);
        }
        let published = published(policy, &listeners)?;
        if !published.is_empty() {
            for ipv6 in [false, true] {
                let socket = NetworkListener { kind: ListenerKind::Inward, port: 0, ipv6 };
                listeners.extend(std::iter::repeat_n(socket, INWARD_SOCKETS));
            }
        }
        if ssh_agent.is_some() {
            let kind = ListenerKind::SshAgent;
            listeners.push(NetworkListener { kind, port: 0, ipv6: false });
        }
        let (requests, limits) = (policy.net_requests.clone(), policy.net_limits.clone());
        let upstream = policy.upstream.clone();
        Ok(Self {
            rules,
            listeners,
            resolver,
            upstream,
            way: NetworkWay::Captured,
            requests,
            limits,
            published,
            reread: Vec::new(),
            ssh_agent,
        })
    }

    /// The network on a host where connections cannot be captured: the proxy alone.
    pub(crate) fn by_proxy(policy: &Policy) -> Result<Self, Problem> {
        let mut plan = Self::new(policy, None)?;
        plan.listeners.retain(|listener| listener.kind == ListenerKind::Proxy);
        plan.way = NetworkWay::Proxy;
        Ok(plan)
    }

    /// The network of a run without a network namespace.
    pub(crate) fn redirected(policy: &Policy) -> Result<Self, Problem> {
        let mut plan = Self::new(policy, None)?;
        plan.listeners.clear();
        plan.way = NetworkWay::Redirected;
        Ok(plan)
    }

    /// Returns true if a connection to this port of another host reaches the helper.
    pub fn holds_tcp(&self, port: u16) -> bool {
        self.listeners.iter().any(|l| l.port == port && l.kind != ListenerKind::DnsUdp)
    }
}

/// The published ports, if a server of the run can have each of them.
fn published(
    policy: &Policy,
    listeners: &[NetworkListener],
) -> Result<Vec<PublishedPort>, Problem> {
    let refused = |message: String| Problem::usage(Code::BadValue, message);
    let held = |port: u16| listeners.iter().any(|l| l.port == port);
    let mut published = policy.publish.clone();
    published.sort_unstable();
    published.dedup();
    if published.len() > PUBLISHED_MAX {
        return Err(refused(format!("a run can publish {PUBLISHED_MAX} ports at most")));
    }
    if let Some(port) = published.iter().find(|port| held(port.inside.get())) {
        let port = port.inside;
        return Err(refused(format!("port {port} of a run cannot be published"))
            .cause("Ringfence listens on it inside the run: for name lookups (53), as its proxy (3128) or because a rule of `--net` grants it")
            .hint("let the server listen on another port and publish that one"));
    }
    if let Some([first, second]) =
        published.windows(2).find(|pair| pair[0].host == pair[1].host).and_then(|p| p.first_chunk())
    {
        return Err(refused(format!(
            "`--publish {first}` and `--publish {second}` name one port of the host"
        )));
    }
    Ok(published)
}

/// The first message to the network helper of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelperOrders {
    /// The run's network.
    pub plan: NetworkPlan,
    /// The listeners whose descriptors come with the message, in that order.
    pub listeners: Vec<NetworkListener>,
    /// True if the descriptor of the credentials comes before those of the listeners.
    pub credentials: bool,
    /// True if a connection to the user's SSH agent comes before those of the listeners.
    pub ssh_agent: bool,
    /// uid and gid to become, for a root caller.
    pub user: Option<(u32, u32)>,
}

//! Connections of a run, and the messages between its supervisor and the process that makes them.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Prefix of a connection's rule if it was refused because it carried a secret's placeholder.
pub const SECRET_RULE: &str = "secret:";

/// Decision on a connection, and its success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionVerdict {
    /// A rule allowed it and it was made.
    Allowed,
    /// No rule allowed it, or its content did not match the rule.
    Denied,
    /// A rule allowed it, and it could not be made.
    Failed,
}

impl ConnectionVerdict {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }
}

/// The way by which a connection was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionDoor {
    /// A plain connect(2), captured in the run's network namespace.
    Captured,
    /// The HTTP proxy.
    HttpProxy,
    /// The SOCKS proxy.
    Socks,
    /// A name lookup, before any connection.
    Lookup,
    /// A published port: a connection from the host to a server of the run.
    Published,
    /// A login at this host that a grant allows, signed by the user's SSH agent or failed.
    SshAgent,
}

/// One connection that a run made or asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// The name asked for; an address, if the program asked for that.
    pub host: String,
    /// The port; null for a name lookup.
    pub port: Option<u16>,
    /// The address that was dialled on the host.
    pub address: Option<IpAddr>,
    /// The rule that allowed or denied it; null if no rule names the host.
    pub rule: Option<String>,
    /// The decision.
    pub verdict: ConnectionVerdict,
    /// The reason, if it was denied or failed.
    pub reason: Option<String>,
    /// The smallest rule that would allow it, if it was denied for want of one.
    pub grant: Option<String>,
    /// The way it was asked for.
    pub door: ConnectionDoor,
    /// Bytes from the run.
    pub sent_bytes: u64,
    /// Bytes to the run.
    pub received_bytes: u64,
    /// Requests judged on it, where its content is HTTP that Ringfence reads.
    pub requests: u64,
    /// Time between its start and its end.
    pub duration_ms: f64,
    /// The program that asked, if it was observed.
    pub program: Option<String>,
    /// Number of connections in this row: the same refusal each time, or more connections to one host than have rows.
    pub count: u64,
}

/// A request to the user's SSH agent that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRefusal {
    /// The request, such as `sign`.
    pub request: String,
    /// The host and port of the login, if they are known.
    pub place: Option<String>,
    /// The reason.
    pub reason: String,
    /// The smallest grant that would allow it.
    pub grant: Option<String>,
}

/// A message from the network helper to the supervisor of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NetworkEvent {
    /// A name has this address inside the run from now on.
    Named {
        /// The name.
        host: String,
        /// Its address.
        address: IpAddr,
    },
    /// A connection ended, or was refused.
    Connection {
        /// The client's own address, by which the supervisor knows its program.
        client: Option<SocketAddr>,
        /// The connection.
        connection: Box<Connection>,
    },
    /// The user's SSH agent was not asked.
    AgentRefused(Box<AgentRefusal>),
    /// Connections, and requests that the SSH agent refused, which are counted and not listed.
    Unlisted(u64),
    /// Something that the outcome must name as a gap.
    Gap(String),
    /// The value of this secret, by its place in the policy, may have been replaced: it is to be read again.
    RereadSecret(u16),
    /// The connection to the user's SSH agent has ended, and a request waits for a new one.
    AgentEnded,
    /// The run is over and everything has been reported.
    End,
}

//! The network helper of one run: decides and makes its connections. Executed as a process of its own, which does all
//! parsing of network bytes and is itself confined. Never decides by who the client is: every way in asks the same rules.
//!
//! | module | purpose |
//! |---|---|
//! | `auth_fields` | tells fields that authenticate from those that a host shows |
//! | `authority` | a certificate authority for one run |
//! | `captured` | connections that a program made to any address |
//! | `connection` | one connection whose host is known: judge its protocol, dial, relay |
//! | `credentials` | values that requests carry and the run never has |
//! | `dial` | asks the rules, resolves, checks every address, dials a checked one |
//! | `dns` | answers lookups of the run, forwards none |
//! | `fence` | the helper's own confinement |
//! | `hello` | server name of a TLS handshake |
//! | `helper` | the process: listeners, lookups, shutdown |
//! | `http` | plain HTTP, each request judged |
//! | `intercept` | TLS ended here, to put credentials into requests |
//! | `java_truststore` | trusted certificates in Java's format |
//! | `known_hosts` | keys of hosts in ssh's own lists |
//! | `limits` | limits of connections, bytes and requests |
//! | `proxy` | the explicit proxy: HTTP and SOCKS |
//! | `published` | connections from the host to servers of the run |
//! | `relay` | copies and counts bytes |
//! | `report` | reports to the supervisor |
//! | `resolver` | resolves allowed names on the host |
//! | `socks` | SOCKS5 messages |
//! | `ssh_agent` | requests to the user's SSH agent, each judged |
//! | `ssh_key` | SSH's encodings, fingerprints and signatures |

mod auth_fields;
pub mod authority;
mod captured;
mod connection;
pub mod credentials;
mod dial;
mod dns;
mod fence;
mod hello;
mod helper;
mod http;
mod intercept;
pub mod java_truststore;
pub mod known_hosts;
mod limits;
mod proxy;
mod published;
mod relay;
mod report;
mod resolver;
mod socks;
mod ssh_agent;
pub mod ssh_key;

pub use helper::become_helper_if_asked;

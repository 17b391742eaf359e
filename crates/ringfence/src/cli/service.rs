//! Flags of `mcp` and `serve`, and of the tokens of a service.

use clap::{Args, Subcommand};

use super::{PolicyFlags, SharedArgs};

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(flatten)]
    pub(crate) service: ServiceFlags,
    /// Check the settings, print what would be served, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Serve what the protocol's conformance tests ask for, and nothing else
    #[arg(long, hide = true)]
    pub(crate) fixtures: bool,
}

/// Every flag of a service; each is also a key of the table `[serve]` in a settings file.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceFlags {
    /// Address to listen on [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// A name the service answers to besides this machine's own
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) allow_host: Vec<String>,
    /// An origin whose pages may use the service from a browser (CORS), such as `https://app.example.org`; there is no `*`
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origins: Vec<String>,
    /// TLS certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,
    /// TLS private key (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// The service as its clients name it, for those that ask where to get a token
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// An authorization server that hands out this service's tokens
    #[arg(long, value_name = "URL")]
    pub(crate) authorization_server: Vec<String>,
    /// Calls of one client in a minute, or `off` [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) rate_per_minute: Option<String>,
    /// Runs at once, of all clients together, or `off` [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) concurrent: Option<String>,
    /// Runs at once, of one client, or `off` [default: 4]
    #[arg(long, value_name = "N")]
    pub(crate) concurrent_per_client: Option<String>,
    /// Calls that may wait, or `off` for any number [default: 50]
    #[arg(long, value_name = "N")]
    pub(crate) queue: Option<String>,
    /// Circuit breakers: reject clients for a while after runs that pass limits: on or off [default: on]
    #[arg(long, value_name = "SWITCH")]
    pub(crate) breakers: Option<String>,
    /// Bytes of a request's body [default: 1M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) body: Option<String>,
    /// Bytes of a file that a client writes [default: 100M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) upload: Option<String>,
    /// Connections at once [default: 8192]
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<String>,
    /// Time that runs may take after SIGTERM [default: 20s]
    #[arg(long, value_name = "TIME")]
    pub(crate) drain: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it; it is not shown again
    New {
        /// Name of its owner
        #[arg(long)]
        name: String,
        /// Scopes: run, files, sessions, audit, admin [default: run,files,sessions]
        #[arg(long, value_name = "S")]
        scope: Vec<String>,
    },
    /// List the tokens, revoked ones too
    Ls,
    /// Revoke a token, at once
    Revoke {
        /// Name of its owner
        name: String,
    },
}

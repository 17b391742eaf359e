//! Types shared by every other crate: policy, limits, outcome, enforcement, identifiers, problems.
//! Holds plain values only. Opens no file, reads no environment, makes no decision about a host.
//!
//! | module | purpose |
//! |---|---|
//! | `by_text` | conversions of types with a written form |
//! | `code` | error codes and denial rules |
//! | `connection` | connections of a run |
//! | `enforcement` | the layers that were active in a run |
//! | `hex` | bytes as hexadecimal digits |
//! | `hint` | ways out of a refusal, worded by each front end |
//! | `id` | run ids |
//! | `invisible` | invisible characters, and escaping of untrusted names |
//! | `limits` | resource limits of a run |
//! | `moment` | UTC timestamps |
//! | `network` | host names, address classes and the rules of a network policy |
//! | `outcome` | the result of one run |
//! | `policy` | presets and the policy of a run |
//! | `problem` | errors: kind, exit code, cause, hint |
//! | `publish` | ports of a run that the host may connect to |
//! | `quantity` | sizes, time spans and counts with units |
//! | `risk` | potential harm of a call |
//! | `secret` | credentials that a run uses without having them |
//! | `shell_word` | quoting for a shell |
//! | `ssh_agent` | logins by the user's SSH agent that a run may have |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[macro_use]
mod by_text;

mod code;
mod connection;
mod enforcement;
mod hex;
mod hint;
mod id;
pub mod invisible;
mod limits;
mod moment;
pub mod network;
mod outcome;
mod policy;
mod problem;
mod publish;
mod quantity;
mod risk;
mod secret;
mod shell_word;
mod ssh_agent;

pub use code::{Code, DenialRule};
pub use connection::{
    AgentRefusal, Connection, ConnectionDoor, ConnectionVerdict, NetworkEvent, SECRET_RULE,
};
pub use enforcement::{
    AuditState, Enforcement, FilesystemFence, NetworkFence, OutputState, ProcessFence,
    ResourceFence, SyscallFence, Tier,
};
pub use hex::{hex, unhex};
pub use hint::{Face, Hint, LimitKind};
pub use id::RunId;
pub use invisible::{escape_json, escape_name, escape_unseen};
pub use limits::{Limits, LimitsMax};
pub use moment::utc;
pub use outcome::{
    Artifact, Denial, DeniedBy, Encoding, ErrorInfo, Exception, Finding, Layer, Outcome, Ran,
    SetAside, Start, Status, Truncated, Usage, WorkspaceChanges,
};
pub use policy::{
    CodePreset, CommandPreset, EnvGrant, Fallback, Network, Policy, ProcView, WorkerSpeedups,
};
pub use problem::{Problem, ProblemKind};
pub use publish::PublishedPort;
pub use quantity::{ByteSize, Count, QuantityError, Span};
pub use risk::Risk;
pub use secret::{SECRET_BYTES_MAX, SecretGrant, SecretSource};
pub use shell_word::shell_word;
pub use ssh_agent::{SSH_PORT, SshAgentGrant, SshKeyName};

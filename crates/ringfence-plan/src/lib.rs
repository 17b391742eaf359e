//! Turns a policy and the facts of this host into a plan: the steps of the launcher and its child, in order.
//! Does no I/O: it opens no file, reads no environment, calls no clock. Everything the child will do is decided here,
//! where it can be printed, hashed and tested without a kernel.
//!
//! | module | purpose |
//! |---|---|
//! | `calls` | system calls as data, for Python workers |
//! | `catalogue` | names of system paths, secrets and protected files |
//! | `code` | the plan of Python runs with a zygote |
//! | `command` | the plan of a command run |
//! | `environment` | the run's environment variables |
//! | `facts` | facts about the host and the request |
//! | `landlock_tier` | the plan of a command run without namespaces |
//! | `network` | the listeners and rules of a run's network |
//! | `one_shot` | the plan of a one-shot Python program |
//! | `orders` | the child's part of a plan, in a form to send |
//! | `plan` | the plan itself |
//! | `render` | a plan as text for review |
//! | `seccomp` | compiles the system call filter |
//! | `view` | the tree of mounts that a run sees |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod calls;
pub mod catalogue;
mod code;
mod command;
mod environment;
mod facts;
mod landlock_tier;
mod network;
mod one_shot;
mod orders;
mod plan;
mod render;
pub mod seccomp;
mod view;

pub use calls::{Arg, Call};
pub use catalogue::power_of_socket;
pub use code::{Checkpoints, CodePlan, CodeRequest, WORKSPACE, WorkerPlan, plan_code};
pub use command::{
    COMMAND_MEMORY_MIN, is_too_broad, plan_command, protected_path, refuse_too_small,
};
pub use facts::{
    CallerIds, CgroupFacts, CoreDumps, CoreHandler, FileId, FileKind, FileStamp, Found, GitFacts,
    GitIndex, HomeEntry, HostFacts, HostWorkspace, IndexBefore, Interception, KnownLinks,
    MappedDir, NetworkCapture, OwnEffect, OwnRule, PlaceholderShape, Protected, ProtectedState,
    PythonFacts, Request, RootEntry, SshAgentFacts, SystemText, SystemTextKind, UserNamespaces,
    WritableDir, WritableRoot,
};
pub use network::{
    AGENT_PACKET, CONNECTION_PACKET, DNS_PORT, HELPER_NAME, HelperOrders, ListenerKind,
    NAME_SERVER, NetworkListener, NetworkPlan, NetworkWay, PROXY_PORT, SshAgentAccess,
    SshAgentPlan, VALUE_PACKET,
};
pub use one_shot::plan_one_shot;
pub use orders::{FilterOrders, Orders, SystemView};
pub use plan::{
    Access, BindSource, CgroupPlan, Identity, LandlockPlan, LandlockReading, LandlockRule,
    MaskKind, Mount, Namespace, Placeholder, Plan, Resource, Rlimit, RuleAccess, Step,
};
pub use render::{render, render_code};

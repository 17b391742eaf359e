//! Turns a policy and the facts of this host into a plan: what the launcher and its child will do, in order.
//! Does no I/O: it opens no file, reads no environment, calls no clock. Whatever the child will do is
//! decided here, where it can be printed, hashed and tested without a kernel.

mod alone;
mod calls;
pub mod catalogue;
mod code;
mod command;
mod environment;
mod facts;
mod orders;
mod plan;
mod render;
pub mod seccomp;
mod view;

pub use alone::plan_alone;
pub use calls::{Arg, Call};
pub use code::{Checkpoints, CodePlan, CodeRequest, WORKSPACE, WorkerPlan, plan_code};
pub use command::plan_command;
pub use facts::{
    CallerIds, CgroupFacts, CoreDumps, CoreHandler, FileId, FileKind, Found, GitFacts, HomeEntry,
    HostFacts, HostWorkspace, PlaceholderShape, Protected, ProtectedState, Request, RootEntry,
    UserNamespaces, WritableRoot,
};
pub use orders::{FilterOrders, Orders};
pub use plan::{
    Access, BindSource, CgroupPlan, Identity, LandlockPlan, LandlockReading, LandlockRule,
    MaskKind, Mount, Namespace, Placeholder, Plan, Resource, Rlimit, RuleAccess, Step,
};
pub use render::{render, render_code};

//! Turns a policy and the facts of this host into a plan: what the launcher and its child will do, in order.
//! Does no I/O: it opens no file, reads no environment, calls no clock. Whatever the child will do is
//! decided here, where it can be printed, hashed and tested without a kernel.

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod calls;
pub mod catalogue;
mod code;
mod command;
mod environment;
mod facts;
mod one_shot;
mod orders;
mod plan;
mod render;
pub mod seccomp;
mod view;

pub use calls::{Arg, Call};
pub use code::{Checkpoints, CodePlan, CodeRequest, WORKSPACE, WorkerPlan, plan_code};
pub use command::{is_too_broad, plan_command};
pub use facts::{
    CallerIds, CgroupFacts, CoreDumps, CoreHandler, FileId, FileKind, FileStamp, Found, GitFacts,
    GitIndex, HomeEntry, HostFacts, HostWorkspace, IndexBefore, KnownLinks, OwnEffect, OwnRule,
    PlaceholderShape, Protected, ProtectedState, PythonFacts, Request, RootEntry, UserNamespaces,
    WritableDir, WritableRoot,
};
pub use one_shot::plan_alone;
pub use orders::{FilterOrders, Orders};
pub use plan::{
    Access, BindSource, CgroupPlan, Identity, LandlockPlan, LandlockReading, LandlockRule,
    MaskKind, Mount, Namespace, Placeholder, Plan, Resource, Rlimit, RuleAccess, Step,
};
pub use render::{render, render_code};

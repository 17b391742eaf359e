//! Looks at the host and at what was asked for, and puts both into plain values for the plan.
//! Looks only: makes nothing, changes nothing.

mod git;
mod host;
mod paths;

pub(crate) use git::BARE;
pub use host::{Caller, found, host_facts};
pub(crate) use host::{caller_ids, core_dumps, small_file};
pub use paths::{Asked, request};

//! Surveys the host and the request, and returns both as plain values for the plan. Read-only: makes nothing, changes
//! nothing.

mod git;
mod gitconfig;
mod host;
mod paths;
mod tree;

pub(crate) use git::{is_git_directory, lexical};
pub(crate) use gitconfig::{
    executes as executes_by_config, hash_bytes, is_foreign_strategy, names_a_strategy,
};
pub use host::{Caller, entries_of, found, host_facts, interpreter_line};
pub(crate) use host::{caller_ids, caller_ids_of, core_dumps};
pub(crate) use paths::TOP_DIRECTORIES_MAX;
pub use paths::{Asked, LeadsTo, Resolved, readable, request, resolve, without_planted_links};
pub use ringfence_sys::untrusted::read_trusted;
pub(crate) use tree::Tree;

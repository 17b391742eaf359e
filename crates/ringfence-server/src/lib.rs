//! The engine for programs that are not ours: agents and their hosts, over MCP and HTTP.
//!
//! Speaks protocols and nothing else: whatever a call does, the engine does, on the one road of every call. Decides no
//! policy, reads no settings, opens no file of a client's.

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(feature = "fixtures")]
mod fixtures;
pub mod http;
pub mod mcp;
pub mod notify;
mod request;

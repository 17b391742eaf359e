//! MCP and HTTP servers for the engine: the interface for agents and their hosts.
//!
//! Translates protocols and nothing else: the engine executes every call, on the same path as for every other
//! interface. Decides no policy, reads no settings, opens no client's files.
//!
//! | Module | Purpose |
//! |---|---|
//! | `embeddings` | Asks the operator's embeddings endpoint for vectors. |
//! | `fixtures` | Conformance fixtures in place of the tools; only with the feature `fixtures`. |
//! | `http` | HTTP server: MCP at `/mcp`, REST at `/api/v1`, health and metrics. |
//! | `mcp` | MCP tools, the server that offers them, and its stdio transport. |
//! | `notify` | Sends alerts, ledger anchors and call traces to the operator's systems. |
//! | `request` | Converts client arguments to engine arguments, for MCP and REST alike. |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod embeddings;
#[cfg(feature = "fixtures")]
mod fixtures;
pub mod http;
pub mod mcp;
pub mod notify;
mod request;

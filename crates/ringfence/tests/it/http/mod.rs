//! `ringfence serve` as its clients meet it: REST, MCP, tokens, and everything a peer can do wrong.

mod access;
mod client;
mod cors;
mod end;
mod events;
mod files;
mod fixtures;
mod hostile;
mod mcp;
mod ready;
mod rest;
mod tls;

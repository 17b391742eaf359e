//! `ringfence serve` as its clients meet it: REST, MCP, tokens, and everything a peer can do wrong.

mod client;
mod door;
mod end;
mod fixtures;
mod hostile;
mod mcp;
mod rest;
mod tls;

//! The binary from outside: every test runs `ringfence` as a user would. Started as root, the whole file runs itself
//! a second time under an unprivileged uid.

#![allow(clippy::disallowed_methods)]

mod again;
mod bad_input;
mod caps;
mod check;
mod command_line;
mod death;
mod denials;
mod exec;
mod facts;
mod files;
mod git;
mod git_surface;
mod honesty;
mod hook;
mod house;
mod http;
mod init;
mod interpreter;
mod ledger;
mod library;
mod living;
mod mcp;
mod nested;
mod operator;
mod outcome;
mod planted_links;
mod processes;
mod protected;
mod python;
mod readme;
mod search;
mod secrets;
mod session;
mod snapshots;
mod snippets;
mod support;
mod terminal;
mod tools;
mod wrap;

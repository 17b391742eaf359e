//! The ledger from outside: its files are taken apart by SQL and by hand, its processes are killed.

#![allow(clippy::disallowed_methods)]

mod crash;
mod harness;
mod open;
mod pages;
mod properties;
mod retention;
mod room;
mod secrets;
mod tamper;
mod threads;

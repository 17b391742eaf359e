//! Time limits and skips for tests: no test waits without an end, and none is left out without a word.
//!
//! A dev-dependency only. Knows nothing of Ringfence.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod process;
mod skip;
mod time_limit;

pub use process::{BoundedCommand, Running};
pub use skip::{is_required, is_second_pass, missing, needs_root, say};
pub use time_limit::{LIMIT, TimeLimit, limit};

//! Time limits and skips for tests: no test waits without an end, and none is skipped silently.
//!
//! A dev-dependency only. Knows nothing of Ringfence.
//!
//! | module | purpose |
//! |---|---|
//! | `process` | commands that are killed at their time limit, and with the test |
//! | `skip` | reports skipped tests; fails them if they are required |
//! | `time_limit` | a time limit for a test in its own process |

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod process;
mod skip;
mod time_limit;

pub use process::{BoundedCommand, Running};
pub use skip::{is_required, is_second_pass, missing, needs_root, say};
pub use time_limit::{LIMIT, TimeLimit, limit};

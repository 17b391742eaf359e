//! Time limits, skips and JSON for tests: no test waits without an end, none is skipped silently, and none passes because a
//! key was misspelt.
//!
//! A dev-dependency only. Knows nothing of Ringfence.
//!
//! | module | purpose |
//! |---|---|
//! | `json` | documents that fail the test if a key is absent |
//! | `peer` | the other end of a socket that a test drives |
//! | `process` | commands that are killed at their time limit, and with the test |
//! | `skip` | reports skipped tests; fails them if they are required |
//! | `threads` | the number of tests that run at a time |
//! | `time_limit` | a time limit for a test in its own process |
//! | `user` | a thread of an ordinary user |

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod json;
mod peer;
mod process;
mod skip;
mod threads;
mod time_limit;
mod user;

pub use json::{Json, Key};
pub use peer::{Lent, SOON, hang_up, send_packet, soon};
pub use process::{BoundedCommand, Running};
pub use skip::{is_required, is_second_pass, missing, needs_root, say};
pub use threads::test_threads;
pub use time_limit::{LIMIT, TimeLimit, limit};
pub use user::{ORDINARY_ID, as_ordinary_user};

// For `json!`.
#[doc(hidden)]
pub use serde_json;

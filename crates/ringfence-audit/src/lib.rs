//! The ledger: what ran, who asked and how it ended, in a chain that cannot be quietly edited.
//! Appends, answers queries, verifies, expires. Never decides whether a run may happen, and starts no thread.

mod digest;
mod entry;
mod fault;
mod fold;
mod head;
mod home;
mod index;
mod keys;
mod ledger;
mod line;
mod redact;
mod schema;
mod seal;
mod store;
mod tail;
mod words;

pub use digest::Digest;
pub use entry::{Details, Entry, RESULT_CHARS_MAX, Violation, Write, now_ms};
pub use head::Place;
pub use keys::PublicKey;
pub use ledger::{Durability, Ledger, Settings};
pub use redact::{KeepAll, Redactor};
pub use seal::SealKey;
pub use words::{Kind, Risk, RunStatus};

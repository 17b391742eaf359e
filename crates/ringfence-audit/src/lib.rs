//! The ledger: what ran, who asked and how it ended, in a chain that cannot be quietly edited.
//! Appends, answers queries, verifies, expires. Never decides whether a run may happen, and starts no thread.

// Tests make and look at files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod anchor;
mod archive;
mod columns;
mod compaction;
mod digest;
mod dir;
mod entry;
mod export;
mod fault;
mod finding;
mod head;
mod index;
mod keys;
mod ledger;
mod line;
mod page;
mod reader;
mod record;
mod recover;
mod redact;
mod report;
mod retention;
mod scan;
mod schema;
mod seal;
mod snapshot;
mod storage_settings;
mod store;
mod sum;
mod tail;
mod verify;

pub use anchor::{Anchor, CommandSink, FileSink, Sink};
pub use archive::{ArchiveCheck, verify_archive};
pub use columns::{Kind, Risk, RunStatus};
pub use digest::Digest;
pub use entry::{Details, Entry, RESULT_CHARS_MAX, Violation, Write, now_ms};
pub use export::Format;
pub use finding::{Fault, Finding, Verification};
pub use head::ChainPosition;
pub use keys::PublicKey;
pub use ledger::{Durability, Ledger, Settings};
pub use page::{Filter, Page, View};
pub use reader::{LIMIT_MAX, Reader};
pub use record::{BodyState, Record, Run};
pub use redact::{KeepAll, Redactor};
pub use report::{Durations, LedgerReport};
pub use retention::{Expired, RETENTION_MS};
pub use seal::SealKey;
pub use storage_settings::StorageSettings;
pub use verify::{Expectations, verify};

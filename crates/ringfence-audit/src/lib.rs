//! The ledger: records each run, its client and its outcome in a chain that shows any later edit.
//! Appends, answers queries, verifies, expires. Never decides whether a run may happen, and starts no thread.
//!
//! | module | purpose |
//! |---|---|
//! | `anchor` | signed copies of the head, kept outside the ledger |
//! | `archive` | archives of expired rows: writing and verifying |
//! | `columns` | the words of the kind, status and risk columns |
//! | `compaction` | moves rows from the intake into the database |
//! | `digest` | SHA-256 digests and the chain hash |
//! | `dir` | the ledger's directory, its files and its lock |
//! | `entry` | entries that callers append |
//! | `export` | rows as JSON lines or CSV |
//! | `fault` | errors with their stable codes |
//! | `finding` | the result of `verify` |
//! | `head` | the head file: the confirmed end of the chain |
//! | `index` | the lookup index |
//! | `keys` | signing keys, one for each epoch |
//! | `ledger` | the writer's view; batches concurrent appends |
//! | `line` | a row as one line of JSON |
//! | `page` | filters and pages |
//! | `reader` | the reader's view |
//! | `record` | records that readers return |
//! | `recover` | ends runs whose writer is gone |
//! | `redact` | redacts and bounds texts |
//! | `report` | statistics of a period |
//! | `retention` | archives and clears old bodies |
//! | `scan` | checks a range of rows |
//! | `schema` | tables, migrations and connections |
//! | `seal` | encryption of bodies |
//! | `snapshot` | a consistent view for `verify` |
//! | `storage_settings` | settings stored beside the ledger |
//! | `store` | the only writer of rows |
//! | `sum` | a checksum to compare index and rows |
//! | `tail` | the end of the chain, also after a crash |
//! | `verify` | checks the whole ledger |

// Tests create and read files of their own.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod anchor;
mod archive;
mod columns;
mod compaction;
mod digest;
mod dir;
mod entry;
mod errors;
mod export;
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
pub use finding::{Finding, FindingKind, Verification};
pub use head::ChainPosition;
pub use keys::PublicKey;
pub use ledger::{Durability, Ledger, LedgerSettings};
pub use page::{Filter, Page, View};
pub use reader::{LIMIT_MAX, Reader};
pub use record::{BodyState, Record, Run};
pub use redact::{KeepAll, Redactor};
pub use report::{Durations, LedgerReport};
pub use retention::{Expired, RETENTION_MS};
pub use seal::SealKey;
pub use storage_settings::StorageSettings;
pub use verify::{Expectations, verify};

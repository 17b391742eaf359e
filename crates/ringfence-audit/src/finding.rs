//! What `verify` answers: what was checked, and what is wrong, each with the row it is wrong at.

use serde::Serialize;

use crate::head::ChainPosition;
use crate::keys::PublicKey;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A column or a body is not what was written.
    Edited,
    /// A row is not there.
    Missing,
    /// A row is there that the ledger did not write.
    Inserted,
    /// Rows changed places.
    Reordered,
    /// The newest rows are gone.
    Truncated,
    /// A body was cleared and no row says so.
    Cleared,
    /// A signature is not by the key it should be by.
    BadSignature,
    /// A key does not follow from the one before, or the key on disk is another one.
    BadKey,
    /// The head is missing or was not written by this ledger.
    BadHead,
    /// The ledger is older than an anchor, or another one.
    OlderThanAnchor,
    /// Somebody found rows and head apart when it wrote, and noted it.
    Noted,
    /// What is used for looking rows up does not agree with them.
    BadIndex,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The row, by its number.
    pub seq: i64,
    /// What is wrong.
    pub fault: Fault,
    /// The same in a sentence.
    pub text: String,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// Whether nothing is wrong.
    pub intact: bool,
    /// Rows that were looked at.
    pub rows: i64,
    /// Rows whose body was cleared, as a row of the ledger says.
    pub cleared: i64,
    /// Epochs, each with a key of its own.
    pub epochs: i64,
    /// Signatures that were checked.
    pub signatures: i64,
    /// The public half of the first key.
    pub root: Option<PublicKey>,
    /// Where the chain ends.
    pub last: Option<ChainPosition>,
    /// What is wrong, by row. Of several things wrong behind each other only the first is sure to be named.
    pub findings: Vec<Finding>,
}

impl Finding {
    pub(crate) fn new(seq: i64, fault: Fault, text: impl Into<String>) -> Self {
        Self { seq, fault, text: text.into() }
    }
}

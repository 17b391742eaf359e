//! Result of `verify`: the number of rows checked, and each fault with its row.

use serde::Serialize;

use crate::head::ChainPosition;
use crate::keys::PublicKey;

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A column or a body differs from the one written.
    Edited,
    /// A row is missing.
    Missing,
    /// A row that the ledger did not write.
    Inserted,
    /// Rows changed places.
    Reordered,
    /// The newest rows are gone.
    Truncated,
    /// A body was cleared without an `expire` row for it.
    Cleared,
    /// A signature by the wrong key.
    BadSignature,
    /// A key does not follow from the one before it, or the key on disk is a different one.
    BadKey,
    /// The head is missing or was not written by this ledger.
    BadHead,
    /// The ledger is older than an anchor, or is a different ledger.
    OlderThanAnchor,
    /// A writer found that rows and head disagree, and recorded it.
    Noted,
    /// The index disagrees with the rows.
    BadIndex,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The row, by its number.
    pub seq: i64,
    /// Kind of fault.
    pub fault: FindingKind,
    /// Description in one sentence.
    pub text: String,
}

/// Result of a verification.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// True if there are no findings.
    pub intact: bool,
    /// Number of rows that are what was written.
    pub rows: i64,
    /// Number of the last row that is there. Greater than `rows` where rows are missing, wrong, or behind such a row and
    /// not judged.
    pub rows_total: i64,
    /// Rows whose body was cleared and that an `expire` row covers.
    pub cleared: i64,
    /// Epochs, each with a key of its own.
    pub epochs: i64,
    /// Signatures that were checked.
    pub signatures: i64,
    /// The public half of the first key.
    pub root: Option<PublicKey>,
    /// The end of the chain.
    pub last: Option<ChainPosition>,
    /// Faults by row. If several faults follow each other, only the first is sure to be reported.
    pub findings: Vec<Finding>,
}

impl Finding {
    /// The row to look at; `None` for a fault of the head, of the index or of an archive as a whole.
    pub fn row(&self) -> Option<i64> {
        let is_about_a_row = !matches!(self.fault, FindingKind::BadHead | FindingKind::BadIndex);
        (is_about_a_row && self.seq > 0).then_some(self.seq)
    }

    pub(crate) fn new(seq: i64, fault: FindingKind, text: impl Into<String>) -> Self {
        Self { seq, fault, text: text.into() }
    }
}

//! A row as one line of JSON: in the intake, in archives and in exports. Reading a line back yields the row that was
//! written.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{Columns, Digest, chain};
use ringfence_spec::hex;

/// A row with everything that is stored of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) seq: i64,
    pub(crate) at_ms: i64,
    pub(crate) epoch: i64,
    pub(crate) writer: i64,
    pub(crate) kind: String,
    pub(crate) run_id: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) risk: Option<String>,
    pub(crate) body_hash: Digest,
    pub(crate) chain: Digest,
    pub(crate) body: Option<Stored>,
}

/// A body as it is stored: JSON, or sealed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored(pub(crate) Vec<u8>);

impl Line {
    /// The columns, for hashing.
    pub(crate) fn columns(&self) -> Columns<'_> {
        Columns {
            seq: self.seq,
            at_ms: self.at_ms,
            epoch: self.epoch,
            writer: self.writer,
            kind: &self.kind,
            run_id: self.run_id.as_deref(),
            session: self.session.as_deref(),
            client: self.client.as_deref(),
            tool: self.tool.as_deref(),
            status: self.status.as_deref(),
            risk: self.risk.as_deref(),
        }
    }

    /// Returns true if the row follows one whose chain value is `previous`.
    pub(crate) fn follows(&self, previous: &Digest) -> bool {
        chain(previous, &self.columns(), &self.body_hash) == self.chain
    }

    /// Returns true if the body is unchanged or cleared.
    pub(crate) fn body_is_whole(&self) -> bool {
        self.body.as_ref().is_none_or(|body| Digest::of(&body.0) == self.body_hash)
    }

    /// The body read as `T`, when it is there and in the clear.
    pub(crate) fn parse_body<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        serde_json::from_slice(&self.body.as_ref()?.0).ok()
    }

    /// Appends it to `text` with its line end, as `Batch::push` in `store.rs` does piece by piece.
    #[cfg(test)]
    pub(crate) fn write(&self, text: &mut Vec<u8>) {
        // Writing to memory does not fail, and no field has a map with keys that are not text.
        let _ = serde_json::to_writer(&mut *text, self);
        text.push(b'\n');
    }
}

/// Text stays text, so that a line can be read by people; other bytes are written as `{"hex": …}`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelled<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes { hex: String },
}

impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        StoredRef(&self.0).serialize(s)
    }
}

/// A body as it is stored, borrowed.
pub(crate) struct StoredRef<'a>(pub(crate) &'a [u8]);

impl Serialize for StoredRef<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => Spelled::Text(text.into()).serialize(s),
            Err(_) => Spelled::Bytes { hex: hex(self.0) }.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Spelled::deserialize(d)? {
            Spelled::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            Spelled::Bytes { hex } => ringfence_spec::unhex(&hex)
                .map(Self)
                .ok_or_else(|| serde::de::Error::custom("not hexadecimal digits")),
        }
    }
}

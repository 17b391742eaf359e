//! SHA-256 digests, written as hexadecimal, and the hash that chains a row to all rows before it. Pure: bytes in,
//! digest out.

use std::fmt;
use std::str::FromStr;

use ringfence_spec::hex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The value that the first row of a ledger is chained to.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed before.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The columns of a row: everything that is shown or filtered beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns<'a> {
    pub(crate) seq: i64,
    pub(crate) at_ms: i64,
    pub(crate) epoch: i64,
    pub(crate) writer: i64,
    pub(crate) kind: &'a str,
    pub(crate) run_id: Option<&'a str>,
    pub(crate) session: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
    pub(crate) tool: Option<&'a str>,
    pub(crate) status: Option<&'a str>,
    pub(crate) risk: Option<&'a str>,
}

/// The chain's value after a row: a hash over its value before, every column, and the hash of the body. A body can go
/// and the chain still verifies; a column cannot change.
pub(crate) fn chain(previous: &Digest, row: &Columns<'_>, body: &Digest) -> Digest {
    let mut hash = Sha256::new();
    let mut bytes = [0u8; 448];
    let mut packed = Packed { hash: &mut hash, buffer: &mut bytes, len: 0 };
    packed.put(b"ringfence row 1\0");
    packed.put(&previous.0);
    for number in [row.seq, row.at_ms, row.epoch, row.writer] {
        packed.put(&number.to_be_bytes());
    }
    let texts =
        [Some(row.kind), row.run_id, row.session, row.client, row.tool, row.status, row.risk];
    for text in texts {
        // The length before the text, so that no two rows have the same bytes; no text is that long.
        let len = text.map_or(u32::MAX, |t| u32::try_from(t.len()).unwrap_or(u32::MAX - 1));
        packed.put(&len.to_be_bytes());
        packed.put(text.unwrap_or("").as_bytes());
    }
    packed.put(&body.0);
    packed.flush();
    Digest(hash.finalize().into())
}

/// Collects small pieces, because each update of the hash costs more than a copy.
struct Packed<'a> {
    hash: &'a mut Sha256,
    buffer: &'a mut [u8; 448],
    len: usize,
}

impl Packed<'_> {
    fn put(&mut self, piece: &[u8]) {
        if self.len + piece.len() > self.buffer.len() {
            self.flush();
        }
        if piece.len() > self.buffer.len() {
            self.hash.update(piece);
            return;
        }
        self.buffer[self.len..self.len + piece.len()].copy_from_slice(piece);
        self.len += piece.len();
    }

    fn flush(&mut self) {
        self.hash.update(&self.buffer[..self.len]);
        self.len = 0;
    }
}

/// A fixed number of bytes, from their digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    ringfence_spec::unhex(text)?.try_into().ok()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        unhex(text).map(Self).ok_or_else(|| "not 64 lower-case hexadecimal digits".to_owned())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Columns<'_> = Columns {
        seq: 7,
        at_ms: 1,
        epoch: 1,
        writer: 0,
        kind: "run_start",
        run_id: Some("ab"),
        session: None,
        client: Some("cli"),
        tool: None,
        status: None,
        risk: None,
    };

    #[test]
    fn every_column_counts() {
        let of = |row: &Columns<'_>| chain(&Digest::ZERO, row, &Digest::ZERO);
        let base = of(&ROW);
        let changed = [
            Columns { seq: 8, ..ROW },
            Columns { at_ms: 2, ..ROW },
            Columns { epoch: 2, ..ROW },
            Columns { writer: 1, ..ROW },
            Columns { kind: "run_end", ..ROW },
            Columns { run_id: Some("ac"), ..ROW },
            Columns { session: Some(""), ..ROW },
            Columns { client: None, tool: Some("cli"), ..ROW },
            Columns { status: Some("ok"), ..ROW },
            Columns { risk: Some("low"), ..ROW },
        ];
        for row in &changed {
            assert_ne!(of(row), base, "{row:?}");
        }
    }

    #[test]
    fn a_long_column_is_hashed_like_short_ones() {
        let long = "x".repeat(1000);
        let row = Columns { session: Some(&long), ..ROW };
        let longer = format!("{long}x");
        let other = Columns { session: Some(&longer), ..ROW };
        let of = |row: &Columns<'_>| chain(&Digest::ZERO, row, &Digest::ZERO);
        assert_ne!(of(&row), of(&other));
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let text = Digest::of(b"x").to_string();
        assert_eq!(text.parse::<Digest>().unwrap(), Digest::of(b"x"));
        assert!(text.to_uppercase().parse::<Digest>().is_err());
        assert!(text[1..].parse::<Digest>().is_err());
    }
}

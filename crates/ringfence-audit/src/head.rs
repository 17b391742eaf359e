//! The head: the end of the chain, kept outside the rows under a MAC, so that missing rows are noticed.
//!
//! It is written twice for each append. Before the rows are written it names where the chain stands and where it is
//! going; after that, where it went. So an intake that stands anywhere else was not left there by a crash.

use std::fs::File;
use std::os::unix::fs::FileExt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::digest::{Digest, unhex};
use ringfence_spec::hex;

/// Padded to this size, so that an overwrite in place replaces all of it, within one page.
const BYTES: usize = 1024;

/// A position in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainPosition {
    /// The row.
    pub seq: i64,
    /// The chain's value after it.
    pub chain: Digest,
}

/// A position in the chain, and the intake's length at that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    pub(crate) place: ChainPosition,
    pub(crate) intake_bytes: u64,
}

/// Content of the head file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// The confirmed chain position.
    pub(crate) at: Mark,
    /// The position an append is moving to, between its two writes.
    pub(crate) going_to: Option<Mark>,
    /// The last row in the database; later rows are in the intake.
    pub(crate) folded: i64,
    /// Epoch of the row it stands at; that epoch's key made the MAC.
    pub(crate) epoch: i64,
    /// The boot in which it was written: across a loss of power files may be older or younger than each other.
    pub(crate) boot: String,
    mac: String,
}

impl Head {
    /// A head without its MAC, which [`Head::signed`] adds.
    pub(crate) fn new(at: Mark, folded: i64, epoch: i64, boot: &str) -> Self {
        let (boot, mac) = (boot.to_owned(), String::new());
        Self { at, going_to: None, folded, epoch, boot, mac }
    }

    /// The same, moving to `going_to`.
    pub(crate) fn on_the_way(self, going_to: Mark) -> Self {
        Self { going_to: Some(going_to), ..self }
    }

    pub(crate) fn signed(mut self, key: &[u8; 32]) -> Self {
        self.mac = hex(&self.hmac(key).finalize().into_bytes());
        self
    }

    /// Returns true if the MAC is valid.
    pub(crate) fn is_genuine(&self, key: &[u8; 32]) -> bool {
        let mac = unhex::<32>(&self.mac);
        mac.is_some_and(|mac| self.hmac(key).verify_slice(&mac).is_ok())
    }

    /// Reads the file; `None` if it is empty or not a head.
    pub(crate) fn read(file: &File) -> Option<Self> {
        Self::parse(&content(file)?)
    }

    /// The head in a file's content.
    pub(crate) fn parse(content: &[u8]) -> Option<Self> {
        serde_json::from_slice(content.trim_ascii_end()).ok()
    }

    /// The file's content.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.resize(BYTES - 1, b' ');
        text.push(b'\n');
        text
    }

    fn hmac(&self, key: &[u8; 32]) -> Hmac<Sha256> {
        // HMAC fills a short key up with zeros to the block of its hash.
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(b"ringfence head 1\0");
        let nowhere =
            Mark { place: ChainPosition { seq: -1, chain: Digest::ZERO }, intake_bytes: 0 };
        for mark in [self.at, self.going_to.unwrap_or(nowhere)] {
            mac.update(&mark.place.seq.to_be_bytes());
            mac.update(mark.place.chain.bytes());
            mac.update(&mark.intake_bytes.to_be_bytes());
        }
        mac.update(&self.folded.to_be_bytes());
        mac.update(&self.epoch.to_be_bytes());
        mac.update(self.boot.as_bytes());
        mac
    }
}

/// Reads the file.
pub(crate) fn content(file: &File) -> Option<Vec<u8>> {
    let mut bytes = vec![0u8; BYTES];
    let n = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(n);
    Some(bytes)
}

/// The id of this boot, empty if the host does not provide one.
pub(crate) fn boot_id() -> String {
    let mut bytes = [0; 64];
    let file = ringfence_sys::open_kernel_file("/proc/sys/kernel/random/boot_id");
    let read = file.and_then(|f| f.read_at(&mut bytes, 0));
    let id = &bytes[..read.unwrap_or(0)];
    String::from_utf8_lossy(id.trim_ascii()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(seq: i64) -> Mark {
        Mark {
            place: ChainPosition { seq, chain: Digest::of(&seq.to_be_bytes()) },
            intake_bytes: 9,
        }
    }

    #[test]
    fn a_changed_head_is_not_genuine() {
        let head = Head::new(mark(5), 0, 1, "boot").signed(&[1; 32]);
        assert!(head.is_genuine(&[1; 32]));
        assert!(!head.is_genuine(&[2; 32]));
        let forgeries = [
            Head { at: mark(4), ..head.clone() },
            Head { going_to: Some(mark(6)), ..head.clone() },
            Head { folded: 1, ..head.clone() },
            Head { epoch: 2, ..head.clone() },
            Head { boot: "another".to_owned(), ..head.clone() },
        ];
        for forged in forgeries {
            assert!(!forged.is_genuine(&[1; 32]), "{forged:?}");
        }
    }

    #[test]
    fn the_longest_head_fits() {
        let far = Mark {
            place: ChainPosition { seq: i64::MAX, chain: Digest::of(b"") },
            intake_bytes: u64::MAX,
        };
        let head = Head::new(far, i64::MAX, i64::MAX, &"x".repeat(36));
        let head = head.on_the_way(far).signed(&[1; 32]);
        assert!(serde_json::to_vec(&head).unwrap().len() < BYTES);
    }
}

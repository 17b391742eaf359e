//! The head: where the chain stands, kept outside the database under a MAC, so that a shortened database shows.
//!
//! It is written twice for each transaction. Before the commit it names where the chain stands and where it is going;
//! after it, where it went. So a database that stands anywhere else was not left there by a crash.

use std::fs::File;
use std::os::unix::fs::FileExt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::digest::{Digest, hex, unhex};

/// Padded to this, so that an overwrite in place replaces all of it, within one sector.
const BYTES: usize = 512;

/// A place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The row.
    pub seq: i64,
    /// The chain's value after it.
    pub chain: Digest,
}

/// What the head file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// Where the chain stands for sure.
    pub(crate) at: Place,
    /// Where a transaction is taking it, between the two writes.
    pub(crate) going_to: Option<Place>,
    /// The epoch whose key made the MAC.
    pub(crate) epoch: i64,
    /// The boot in which it was written: across a loss of power files may be older or younger than each other.
    pub(crate) boot: String,
    mac: String,
}

/// How the database compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// As it should be.
    Agrees,
    /// Rows that the head knows are gone.
    Behind,
    /// Rows that the head does not know are there.
    Ahead,
    /// The row that the head names is another one.
    Differs,
}

impl Head {
    pub(crate) fn new(
        at: Place,
        going_to: Option<Place>,
        epoch: i64,
        boot: &str,
        key: &[u8; 32],
    ) -> Self {
        let mut head = Self { at, going_to, epoch, boot: boot.to_owned(), mac: String::new() };
        head.mac = hex(&head.hmac(key).finalize().into_bytes());
        head
    }

    /// Whether the MAC is right.
    pub(crate) fn is_genuine(&self, key: &[u8; 32]) -> bool {
        let mac = unhex::<32>(&self.mac);
        mac.is_some_and(|mac| self.hmac(key).verify_slice(&mac).is_ok())
    }

    /// Compares it with where the database stands. `chain_at` gives the chain's value at a row.
    pub(crate) fn compare<E>(
        &self,
        database: Place,
        chain_at: impl FnOnce(i64) -> Result<Option<Digest>, E>,
    ) -> Result<Standing, E> {
        if database == self.at || Some(database) == self.going_to {
            return Ok(Standing::Agrees);
        }
        let known = self.going_to.map_or(self.at.seq, |place| place.seq);
        if database.seq < self.at.seq {
            return Ok(Standing::Behind);
        }
        if database.seq > known && chain_at(self.at.seq)? == Some(self.at.chain) {
            return Ok(Standing::Ahead);
        }
        Ok(Standing::Differs)
    }

    /// Reads the file; `None` when it is empty or not a head.
    pub(crate) fn read(file: &File) -> Option<Self> {
        let mut bytes = [0u8; BYTES];
        let n = file.read_at(&mut bytes, 0).ok()?;
        serde_json::from_slice(bytes[..n].trim_ascii_end()).ok()
    }

    /// Overwrites the file in one write.
    pub(crate) fn write(&self, file: &File) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.resize(BYTES - 1, b' ');
        text.push(b'\n');
        file.write_all_at(&text, 0)
    }

    fn hmac(&self, key: &[u8; 32]) -> Hmac<Sha256> {
        // HMAC fills a short key up with zeros to the block of its hash.
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(b"ringfence head 1\0");
        for place in [Some(self.at), self.going_to] {
            let place = place.unwrap_or(Place { seq: -1, chain: Digest::ZERO });
            mac.update(&place.seq.to_be_bytes());
            mac.update(place.chain.bytes());
        }
        mac.update(&self.epoch.to_be_bytes());
        mac.update(self.boot.as_bytes());
        mac
    }
}

/// The id of this boot, empty when the host does not tell.
pub(crate) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(seq: i64) -> Place {
        Place { seq, chain: Digest::of(&seq.to_be_bytes()) }
    }

    fn stands(head: &Head, database: Place) -> Standing {
        head.compare::<()>(database, |seq| Ok(Some(place(seq).chain))).unwrap()
    }

    #[test]
    fn a_crash_leaves_the_database_before_or_after_the_commit_and_nowhere_else() {
        let head = Head::new(place(5), Some(place(7)), 1, "boot", &[1; 32]);
        assert_eq!(stands(&head, place(5)), Standing::Agrees);
        assert_eq!(stands(&head, place(7)), Standing::Agrees);
        assert_eq!(stands(&head, place(4)), Standing::Behind);
        assert_eq!(stands(&head, place(6)), Standing::Differs);
        assert_eq!(stands(&head, place(8)), Standing::Ahead);
        let other = Place { seq: 5, chain: Digest::ZERO };
        assert_eq!(stands(&head, other), Standing::Differs);
    }

    #[test]
    fn a_changed_head_is_not_genuine() {
        let head = Head::new(place(5), None, 1, "boot", &[1; 32]);
        assert!(head.is_genuine(&[1; 32]));
        assert!(!head.is_genuine(&[2; 32]));
        let forged = Head { at: place(4), ..head.clone() };
        assert!(!forged.is_genuine(&[1; 32]));
        let forged = Head { boot: "another".to_owned(), ..head };
        assert!(!forged.is_genuine(&[1; 32]));
    }
}

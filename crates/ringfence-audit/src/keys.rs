//! Signing keys, one for each epoch: generated at random, announced in the chain under the signature of the previous
//! key, destroyed when the next one takes over. Today's key cannot sign yesterday's rows, and yesterday's is gone.

use std::io::Read;
use std::os::unix::fs::FileExt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use ringfence_spec::{Code, Problem};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::digest::unhex;
use crate::dir::{KEYS, LedgerDir};
use crate::errors;
use crate::head::ChainPosition;
use ringfence_spec::hex;

/// The public half of the first key, to be copied and kept elsewhere.
const ROOT: &str = "root.pub";

/// The public half of a signing key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey([u8; 32]);

/// Purpose of a signature. It is signed too, so that one signature cannot stand for another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Key,
    Checkpoint,
    Anchor,
    Archive,
}

/// The body of a `key` row: the next key, signed by the previous one; the first signs itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    pub(crate) epoch: i64,
    pub(crate) public: PublicKey,
    pub(crate) after: ChainPosition,
    pub(crate) signature: Signed,
}

/// The body of a `checkpoint` row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointBody {
    pub(crate) epoch: i64,
    pub(crate) after: ChainPosition,
    pub(crate) signature: Signed,
}

/// An Ed25519 signature, written as hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signed([u8; 64]);

/// A secret key on disk.
#[derive(Clone, Serialize, Deserialize)]
struct KeyFile {
    epoch: i64,
    seed: String,
    since_ms: i64,
    since_seq: i64,
}

/// The key of one epoch, in memory.
#[derive(Clone)]
pub(crate) struct Secret {
    pub(crate) epoch: i64,
    pub(crate) since_ms: i64,
    pub(crate) since_seq: i64,
    seed: [u8; 32],
    mac_key: [u8; 32],
}

impl Secret {
    /// Generates a key, not on disk yet.
    pub(crate) fn random(epoch: i64, since_ms: i64, since_seq: i64) -> Result<Self, Problem> {
        let mut seed = [0; 32];
        random_bytes(&mut seed)?;
        Ok(Self::from_seed(epoch, since_ms, since_seq, seed))
    }

    fn from_seed(epoch: i64, since_ms: i64, since_seq: i64, seed: [u8; 32]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"ringfence head key 1\0");
        hash.update(seed);
        Self { epoch, since_ms, since_seq, seed, mac_key: hash.finalize().into() }
    }

    /// The key of `epoch`, or `None` if it does not exist.
    pub(crate) fn load(home: &LedgerDir, epoch: i64) -> Result<Option<Self>, Problem> {
        let name = file_name(epoch);
        let Some(mut file) = home.find(&format!("{KEYS}/{name}"))? else { return Ok(None) };
        let mut text = Vec::with_capacity(256);
        let path = home.join(KEYS).join(&name);
        file.by_ref()
            .take(4096)
            .read_to_end(&mut text)
            .map_err(|e| errors::from_io(&path, "read", &e))?;
        let damaged = || errors::corrupt(home.path(), format!("{path:?} is not a signing key"));
        let file: KeyFile = serde_json::from_slice(&text).map_err(|_| damaged())?;
        let seed = unhex(&file.seed).ok_or_else(damaged)?;
        if file.epoch != epoch {
            return Err(damaged());
        }
        Ok(Some(Self::from_seed(epoch, file.since_ms, file.since_seq, seed)))
    }

    /// Writes it to disk, whole and durable, before any row names it.
    pub(crate) fn store(&self, home: &LedgerDir) -> Result<(), Problem> {
        let keys = home.make_dir(KEYS)?;
        let file = KeyFile {
            epoch: self.epoch,
            seed: hex(&self.seed),
            since_ms: self.since_ms,
            since_seq: self.since_seq,
        };
        let text = serde_json::to_vec(&file).unwrap_or_default();
        keys.write_atomically(&file_name(self.epoch), &text)?;
        if self.epoch == 1 {
            let root = format!("{}\n", self.public());
            keys.write_atomically(ROOT, root.as_bytes())?;
        }
        Ok(())
    }

    /// The key under which heads are authenticated.
    pub(crate) const fn mac_key(&self) -> &[u8; 32] {
        &self.mac_key
    }

    /// Its public half.
    pub(crate) fn public(&self) -> PublicKey {
        PublicKey(SigningKey::from_bytes(&self.seed).verifying_key().to_bytes())
    }

    /// Signs `content` for `purpose`.
    pub(crate) fn sign(&self, purpose: Purpose, content: &[&[u8]]) -> Signed {
        let message = message(purpose, self.epoch, content);
        Signed(SigningKey::from_bytes(&self.seed).sign(&message).to_bytes())
    }

    /// Signs the chain position.
    pub(crate) fn sign_checkpoint(&self, after: ChainPosition) -> CheckpointBody {
        let signature = self.sign(Purpose::Checkpoint, &place_bytes(&after).pieces());
        CheckpointBody { epoch: self.epoch, after, signature }
    }

    /// Announces `next`, whose rows begin after `after`.
    pub(crate) fn sign_key(&self, next: &Self, after: ChainPosition) -> KeyBody {
        let public = next.public();
        let signature =
            sign_succession(&SigningKey::from_bytes(&self.seed), next.epoch, &public, &after);
        KeyBody { epoch: next.epoch, public, after, signature }
    }
}

impl KeyBody {
    /// Returns true if `signer` announced this key.
    pub(crate) fn is_signed_by(&self, signer: &PublicKey) -> bool {
        let place = place_bytes(&self.after);
        let content = [&self.public.0[..], &place.seq, &place.chain];
        signer.has_signed(&self.signature, Purpose::Key, self.epoch, &content)
    }
}

impl CheckpointBody {
    /// Returns true if `signer` made the signature.
    pub(crate) fn is_signed_by(&self, signer: &PublicKey) -> bool {
        let place = place_bytes(&self.after);
        signer.has_signed(&self.signature, Purpose::Checkpoint, self.epoch, &place.pieces())
    }
}

impl PublicKey {
    /// Returns true if this key signed `content` for `purpose` in `epoch`.
    pub(crate) fn has_signed(
        &self,
        signature: &Signed,
        purpose: Purpose,
        epoch: i64,
        content: &[&[u8]],
    ) -> bool {
        let message = message(purpose, epoch, content);
        let signature = Signature::from_bytes(&signature.0);
        VerifyingKey::from_bytes(&self.0)
            .is_ok_and(|key| key.verify_strict(&message, &signature).is_ok())
    }
}

/// The public half of the first key as the directory has it.
pub(crate) fn root_on_disk(home: &LedgerDir) -> Option<PublicKey> {
    let mut text = String::new();
    let file = home.find(&format!("{KEYS}/{ROOT}")).ok()??;
    file.take(256).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Destroys every secret key but that of `epoch`.
pub(crate) fn destroy_others(home: &LedgerDir, epoch: i64) -> Result<(), Problem> {
    let keys = home.make_dir(KEYS)?;
    for name in keys.names()? {
        let secret = name.starts_with("epoch-") && name != file_name(epoch);
        if !secret {
            continue;
        }
        // Overwritten first: on most file systems unlinking alone leaves the bytes on disk.
        let overwritten = keys.find(&name).and_then(|file| {
            let Some(file) = file else { return Ok(()) };
            let len = usize::try_from(keys.size(&name)).unwrap_or(0).min(4096);
            file.write_all_at(&vec![0; len], 0)
                .and_then(|()| file.sync_data())
                .map_err(|e| errors::from_io(&keys.join(&name), "write", &e))
        });
        keys.remove(&name)?;
        overwritten?;
    }
    Ok(())
}

/// Fills `bytes` from the kernel's generator.
pub(crate) fn random_bytes(bytes: &mut [u8]) -> Result<(), Problem> {
    let mut filled = 0;
    while filled < bytes.len() {
        let n =
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|e| Problem::internal(Code::NoRandomness, "cannot make a key").cause(e))?;
        filled += n;
    }
    Ok(())
}

fn file_name(epoch: i64) -> String {
    format!("epoch-{epoch}.key")
}

fn sign_succession(
    key: &SigningKey,
    epoch: i64,
    public: &PublicKey,
    after: &ChainPosition,
) -> Signed {
    let place = place_bytes(after);
    let content = [&public.0[..], &place.seq, &place.chain];
    Signed(key.sign(&message(Purpose::Key, epoch, &content)).to_bytes())
}

fn message(purpose: Purpose, epoch: i64, content: &[&[u8]]) -> Vec<u8> {
    let word: &[u8] = match purpose {
        Purpose::Key => b"ringfence key 1\0",
        Purpose::Checkpoint => b"ringfence checkpoint 1\0",
        Purpose::Anchor => b"ringfence anchor 1\0",
        Purpose::Archive => b"ringfence archive 1\0",
    };
    let mut message = word.to_vec();
    message.extend(epoch.to_be_bytes());
    message.extend(content.iter().copied().flatten());
    message
}

/// A place as bytes of fixed length.
struct PlaceBytes {
    seq: [u8; 8],
    chain: [u8; 32],
}

impl PlaceBytes {
    fn pieces(&self) -> [&[u8]; 2] {
        [&self.seq, &self.chain]
    }
}

fn place_bytes(place: &ChainPosition) -> PlaceBytes {
    PlaceBytes { seq: place.seq.to_be_bytes(), chain: *place.chain.bytes() }
}

macro_rules! as_hex {
    ($name:ident, $what:literal) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                unhex(text).map(Self).ok_or_else(|| format!("`{text}` is not {}", $what))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
as_hex!(PublicKey, "a public key: 64 lower-case hexadecimal digits");
as_hex!(Signed, "a signature: 128 lower-case hexadecimal digits");

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

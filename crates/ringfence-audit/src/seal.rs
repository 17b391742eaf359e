//! Encrypts bodies with a key of the caller's: XChaCha20-Poly1305. The chain covers the stored bytes, so a sealed
//! ledger is verified without the key.

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ringfence_spec::{Code, Problem};

use crate::digest::unhex;
use crate::keys::random_bytes;

/// First byte of a sealed body; JSON begins with `{`.
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 24;

/// The key that seals and opens bodies.
#[derive(Clone)]
pub struct SealKey(XChaCha20Poly1305);

impl SealKey {
    /// A key from its 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(&bytes.into()))
    }

    /// A key as a file holds it: 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        unhex(text.trim()).map(Self::from_bytes).ok_or_else(|| {
            Problem::usage(Code::LedgerKeyInvalid, "cannot read the ledger's encryption key")
                .cause("it is not 64 lower-case hexadecimal digits")
                .hint("make one with `openssl rand -hex 32`")
        })
    }

    pub(crate) fn seal(&self, body: &[u8]) -> Result<Vec<u8>, Problem> {
        let mut nonce = [0; NONCE_BYTES];
        random_bytes(&mut nonce)?;
        let sealed = self.0.encrypt(&XNonce::from(nonce), body).map_err(|_| {
            Problem::internal(Code::LedgerSeal, "cannot encrypt a body of the ledger")
        })?;
        Ok([&[SEALED][..], &nonce, &sealed].concat())
    }

    /// The body in `stored`, or `None` when this key did not seal it.
    pub(crate) fn open(&self, stored: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = stored.strip_prefix(&[SEALED])?.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        self.0.decrypt(&XNonce::from(nonce), sealed).ok()
    }
}

/// Returns true if a stored body is sealed.
pub(crate) fn is_sealed(stored: &[u8]) -> bool {
    stored.first() == Some(&SEALED)
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey")
    }
}

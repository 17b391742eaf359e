//! SSH's encoding of numbers and texts (RFC 4251, section 5), fingerprints, and signatures of host keys: Ed25519, ECDSA on
//! P-256 and P-384, RSA with SHA-256 and SHA-512.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// Reads fields from the front of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A truth value. RFC 4251 has any other byte than 0 mean true; here only 1 does.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    /// A number that is not negative, without leading zeros.
    fn number(&mut self) -> Option<&'a [u8]> {
        let bytes = self.string()?;
        if bytes.first().is_some_and(|first| first & 0x80 != 0) {
            return None;
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Some(&bytes[zeros..])
    }

    /// Succeeds if nothing is left.
    pub(crate) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Appends a field.
pub(crate) fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    // Longer ones are not made: messages have a bound.
    to.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend_from_slice(bytes);
}

/// The fingerprint of a key, as `ssh-add -l` prints it.
pub fn fingerprint(key: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, key);
    format!("SHA256:{}", STANDARD_NO_PAD.encode(hash.as_ref()))
}

/// The name of a key's type.
pub fn key_type(key: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(Fields(key).string()?).ok()?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'@' | b'_');
    (!name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain)).then_some(name)
}

/// A public key that can verify signatures.
enum HostKey<'a> {
    Ed25519(&'a [u8]),
    Ecdsa { algorithm: &'static dyn VerificationAlgorithm, point: &'a [u8], size: usize },
    Rsa { n: &'a [u8], e: &'a [u8] },
}

impl<'a> HostKey<'a> {
    fn parse(key: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(key);
        let ecdsa = |mut fields: Fields<'a>, curve: &[u8], algorithm, size: usize| {
            let named = fields.string()?;
            let point = fields.string()?;
            fields.end()?;
            let is_valid = named == curve && point.len() == 2 * size + 1 && point[0] == 4;
            is_valid.then_some(Self::Ecdsa { algorithm, point, size })
        };
        match fields.string()? {
            b"ssh-ed25519" => {
                let point = fields.string()?;
                fields.end()?;
                (point.len() == 32).then_some(Self::Ed25519(point))
            }
            b"ecdsa-sha2-nistp256" => ecdsa(fields, b"nistp256", &ECDSA_P256_SHA256_FIXED, 32),
            b"ecdsa-sha2-nistp384" => ecdsa(fields, b"nistp384", &ECDSA_P384_SHA384_FIXED, 48),
            b"ssh-rsa" => {
                let (e, n) = (fields.number()?, fields.number()?);
                fields.end()?;
                // The sizes that the algorithms below take.
                ((256..=1024).contains(&n.len())).then_some(Self::Rsa { n, e })
            }
            _ => None,
        }
    }
}

/// Returns true for a host key whose signatures can be verified.
pub fn is_verifiable(key: &[u8]) -> bool {
    HostKey::parse(key).is_some()
}

/// Returns true if a signature over `data` verifies under a key. `ssh-rsa`, which is SHA-1, never does.
pub(crate) fn verifies(key: &[u8], signature: &[u8], data: &[u8]) -> bool {
    check(key, signature, data).is_some()
}

fn check(key: &[u8], signature: &[u8], data: &[u8]) -> Option<()> {
    let name = Fields(key).string()?;
    let mut fields = Fields(signature);
    let algorithm = fields.string()?;
    let bytes = fields.string()?;
    fields.end()?;
    match HostKey::parse(key)? {
        HostKey::Ed25519(point) if algorithm == name => {
            UnparsedPublicKey::new(&ED25519, point).verify(data, bytes).ok()
        }
        HostKey::Ecdsa { algorithm: curve, point, size } if algorithm == name => {
            let mut numbers = Fields(bytes);
            let (r, s) = (numbers.number()?, numbers.number()?);
            numbers.end()?;
            let fixed = [padded(r, size)?, padded(s, size)?].concat();
            UnparsedPublicKey::new(curve, point).verify(data, &fixed).ok()
        }
        HostKey::Rsa { n, e } => {
            let hash = match algorithm {
                b"rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
                b"rsa-sha2-512" => &RSA_PKCS1_2048_8192_SHA512,
                _ => return None,
            };
            let bytes = padded(bytes, n.len())?;
            RsaPublicKeyComponents { n, e }.verify(hash, data, &bytes).ok()
        }
        _ => None,
    }
}

/// A number with leading zeros, of exactly `size` bytes.
fn padded(number: &[u8], size: usize) -> Option<Vec<u8>> {
    let zeros = size.checked_sub(number.len())?;
    Some([&vec![0; zeros], number].concat())
}

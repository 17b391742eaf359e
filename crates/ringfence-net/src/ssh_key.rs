//! SSH's encoding of numbers and texts (RFC 4251, section 5), fingerprints, and signatures of host keys: Ed25519, ECDSA on
//! P-256 and P-384, RSA with SHA-256 and SHA-512.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
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

/// The fingerprint of a key, as `ssh-add -l` prints it: that of a certificate is the fingerprint of its key.
pub fn fingerprint(key: &[u8]) -> String {
    let plain = certified_key(key);
    let hash = ring::digest::digest(&ring::digest::SHA256, plain.as_deref().unwrap_or(key));
    format!("SHA256:{}", STANDARD_NO_PAD.encode(hash.as_ref()))
}

/// The key of a certificate: type and nonce, then the fields of the key (OpenSSH's PROTOCOL.certkeys, PROTOCOL.u2f).
pub(crate) fn certified_key(certificate: &[u8]) -> Option<Vec<u8>> {
    let (kind, n_fields) = match key_type(certificate)? {
        "ssh-ed25519-cert-v01@openssh.com" => ("ssh-ed25519", 1),
        "ssh-rsa-cert-v01@openssh.com" => ("ssh-rsa", 2),
        "ecdsa-sha2-nistp256-cert-v01@openssh.com" => ("ecdsa-sha2-nistp256", 2),
        "ecdsa-sha2-nistp384-cert-v01@openssh.com" => ("ecdsa-sha2-nistp384", 2),
        "ecdsa-sha2-nistp521-cert-v01@openssh.com" => ("ecdsa-sha2-nistp521", 2),
        "sk-ssh-ed25519-cert-v01@openssh.com" => ("sk-ssh-ed25519@openssh.com", 2),
        "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com" => ("sk-ecdsa-sha2-nistp256@openssh.com", 3),
        _ => return None,
    };
    let mut fields = Fields(certificate);
    let (_kind, _nonce) = (fields.string()?, fields.string()?);
    let mut key = Vec::new();
    put_string(&mut key, kind.as_bytes());
    for _ in 0..n_fields {
        put_string(&mut key, fields.string()?);
    }
    Some(key)
}

/// The name of a key's type.
pub fn key_type(key: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(Fields(key).string()?).ok()?;
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'@' | b'_');
    (!name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain)).then_some(name)
}

/// A public key as ssh-keygen(1) writes it: type, key, comment.
pub fn public_key(text: &str) -> Option<Vec<u8>> {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#'))?;
    let mut words = line.split_ascii_whitespace();
    let (kind, key) = (words.next()?, STANDARD.decode(words.next()?).ok()?);
    (key_type(&key) == Some(kind)).then_some(key)
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

#[cfg(test)]
pub(crate) mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _,
    };

    use super::*;

    /// Some fields.
    pub(crate) fn fields(strings: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for string in strings {
            put_string(&mut bytes, string);
        }
        bytes
    }

    /// An Ed25519 key that signs.
    pub(crate) struct Signer {
        pair: Ed25519KeyPair,
        pub(crate) key: Vec<u8>,
    }

    impl Signer {
        pub(crate) fn new(seed: u8) -> Self {
            let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
            let key = fields(&[b"ssh-ed25519", pair.public_key().as_ref()]);
            Self { pair, key }
        }

        pub(crate) fn sign(&self, data: &[u8]) -> Vec<u8> {
            fields(&[b"ssh-ed25519", self.pair.sign(data).as_ref()])
        }
    }

    /// A number as SSH writes it: without leading zeros, and never negative.
    fn number(bytes: &[u8]) -> Vec<u8> {
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        let bytes = &bytes[zeros..];
        let sign: &[u8] = if bytes.first().is_some_and(|b| b & 0x80 != 0) { &[0] } else { &[] };
        [sign, bytes].concat()
    }

    #[test]
    fn signatures_of_every_kind_verify_and_of_other_data_do_not() {
        let signer = Signer::new(1);
        assert!(is_verifiable(&signer.key));
        assert!(verifies(&signer.key, &signer.sign(b"data"), b"data"));
        assert!(!verifies(&signer.key, &signer.sign(b"data"), b"date"));
        assert!(!verifies(&Signer::new(2).key, &signer.sign(b"data"), b"data"));
        let random = SystemRandom::new();
        for (signing, name, curve) in [
            (&ECDSA_P256_SHA256_FIXED_SIGNING, "ecdsa-sha2-nistp256", "nistp256"),
            (&ECDSA_P384_SHA384_FIXED_SIGNING, "ecdsa-sha2-nistp384", "nistp384"),
        ] {
            let der = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(signing, der.as_ref(), &random).unwrap();
            let key = fields(&[name.as_bytes(), curve.as_bytes(), pair.public_key().as_ref()]);
            // Often enough that numbers with leading zeros come too.
            for n in 0..600u32 {
                let data = n.to_be_bytes();
                let signature = pair.sign(&random, &data).unwrap();
                let (r, s) = signature.as_ref().split_at(signature.as_ref().len() / 2);
                let numbers = fields(&[&number(r), &number(s)]);
                let signature = fields(&[name.as_bytes(), &numbers]);
                assert!(verifies(&key, &signature, &data), "{name} {n}");
                assert!(!verifies(&key, &signature, b"other"), "{name} {n}");
                assert!(!verifies(&key, &[signature, vec![0]].concat(), &data), "{name} {n}");
            }
            let other = fields(&[b"ssh-ed25519", b"x"]);
            assert!(!verifies(&key, &other, b""));
        }
    }

    /// A key and its signatures of `the session`, by openssl(1).
    const RSA_KEY: &str = concat!(
        "AAAAB3NzaC1yc2EAAAADAQABAAABAQC2kLUuJ++78wNoCV/QhPyr44SsfA70cF5yJkE6uJ+wIdHYc7hHTGQlPytb8EILGJodDsd6",
        "OMi1AmLd84lgIo41Ju74pRg1SdLnPKBvBHiNUoTDgkbdRG9jqBrKRVireVEtgPuYJZY0HIUoXn5Cv14Htg35iMiiEQRTAeHFuqP1",
        "ttd3AMECJbRddiHKmFVorLZrnSTbFyyhncLen/hWfORFgpE6m3r1c+wpzyGEYsjd95asuk1d+08j0Kz8dw5d8UvkR1boUCSy6uRi",
        "RTIiU2fI7Sycg3QCWBwz//e3EhlJIkWzbJLm0AM/ULPeL+3qvHl0OgGBlYLzmQqPIocz634R",
    );
    const RSA_SHA256: &str = concat!(
        "BO1SxT5Dxxa5gKrJ5IzW0YJXAJSRyRdToEJSaSRXDhmfiULRUwVbIfQuqrmX1hDN08MzEnR0rOUttIM6nXWb675NLtLoPgDnr1h8",
        "LMkRwZsOvCeUYhUMhB2c8cxMiftPXOXpkseyCLncmuFCbks5ZYVw5v24dYIRwCu4T5Aw5ZMBRntTmq/vbUZYUiak5kS402crRfLc",
        "KxhTv/hwvyRoK5ZvoMAtxScCmjDkw3427C41KoYCUhMdwrjAd7KyWYeTmaSPiWaNAIkw1NQ+7wxnTMt1Kcdcf6gXIQcLhSVu9a2i",
        "4f23U2R+hWCAjQ/Is9+ARvHUM6zqqFv1CylrM4/G4Q==",
    );
    const RSA_SHA512: &str = concat!(
        "LrOM8+s2giiKbKZjQsjGdnBRPYy5cFtJY5svcs8JzAVc9hYVuN3a8FuxM9JzNU0HiSJeNvYtlnyNoPizh8xl2eov+jhXgJOoypw0",
        "Y+UNYfE/HXCjPSSFkjD3jB939NKcgTIixk2xOJYXXx65pH/8gK2we1hJ3JuiRPGezhHOFT+m9H6D9k8jz/F2cBudl9ADXwNlo+8P",
        "Dah2QQwF12oxdkErzJW+hCKLWBEB7EIfDGoEK1wadLPiJsVe9gbl979UZHytZ5aUqX48b/jyOZ6ZSpsARp4ywdj40OpEuS0NVQvt",
        "qwAThxmzWo0muXthhrHvp2SeMThqS6FmKirTxndOaQ==",
    );
    const RSA_SHA1: &str = concat!(
        "md+iAl3FW4Y5ZHBnUMw8oBsg9jGMOzJZIDvnoU/I6iubhQ+niUAWBkoIwnI4qiUmH3gk6oIcICtK4V0siX8Hz2qiTBlPAtOHdqzA",
        "aHX+f/LSTKtFjVI4yuiPVqcoDluCdfI4P1m9/bbJ/EgRK/PJqCGd05BSIJDgteFqbM2JdLS47eV20BAJd/roKcClphRVpJXPUHJ9",
        "Fd9bXTvAOm67Boq1w7L7MlgVNUmG69oZuBJfotFw8NeeWLWBpv43GoRHYNTxDnOyWPsnXSG1t31GaCW0XWcdc4EEGh16kWQsMdAR",
        "RIQKR6ADosFYW5CU2VuRIfDCT+TRmwMbP/s9FKjoKg==",
    );

    #[test]
    fn rsa_signs_with_sha_2_and_never_with_sha_1() {
        let read = |text: &str| STANDARD.decode(text).unwrap();
        let key = read(RSA_KEY);
        assert!(is_verifiable(&key));
        for (name, signature, verified) in [
            ("rsa-sha2-256", RSA_SHA256, true),
            ("rsa-sha2-512", RSA_SHA512, true),
            ("rsa-sha2-512", RSA_SHA256, false),
            ("rsa-sha2-256", RSA_SHA512, false),
            ("ssh-rsa", RSA_SHA1, false),
            ("ssh-rsa", RSA_SHA256, false),
            ("rsa-sha2-256", RSA_SHA1, false),
        ] {
            let signature = fields(&[name.as_bytes(), &read(signature)]);
            assert_eq!(verifies(&key, &signature, b"the session"), verified, "{name}");
            assert!(!verifies(&key, &signature, b"another session"), "{name}");
        }
        // Too short to be safe.
        let small = fields(&[b"ssh-rsa", &[1, 0, 1], &[0x7f; 128]]);
        assert!(!is_verifiable(&small));
    }

    #[test]
    fn a_fingerprint_is_that_of_ssh_keygen() {
        // `ssh-keygen -l` of the key above.
        assert_eq!(
            fingerprint(&STANDARD.decode(RSA_KEY).unwrap()),
            "SHA256:CwLZMvHESj0Cl5gBLKSNcZ1mbFxCprvGbMuInt8XrmE"
        );
        assert_eq!(key_type(&STANDARD.decode(RSA_KEY).unwrap()), Some("ssh-rsa"));
        assert_eq!(key_type(b""), None);
        assert_eq!(key_type(&fields(&[b"a b"])), None);
    }

    /// Certificates by `ssh-keygen -s`.
    const ED25519_CERTIFICATE: &str = concat!(
        "AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIMcU0HpGzxUWxudUgokyz0leZh7h/OucuAdlxF/Pq5xhAAAA",
        "ICZWQGtu3H2rtqjj/2GYIugfiqgL9KKtdpoZvVb/J5+qAAAAAAAAAAAAAAABAAAAAmlkAAAABwAAAANnaXQAAAAAAAAAAP//////",
        "////AAAAAAAAAAAAAAAAAAAAMwAAAAtzc2gtZWQyNTUxOQAAACBxa6GySa4/41BlM155aiB+rJd1orN/8xTvJIdA943kzAAAAFMA",
        "AAALc3NoLWVkMjU1MTkAAABAeZoFH4OnSIg/UoXGQeBxJPsJOumCTi3f71/uddXDBimh6b8nzaVjyMGEMrlKc5oREUBGl3lwTirD",
        "QVm7VOyeCQ==",
    );
    const ECDSA_CERTIFICATE: &str = concat!(
        "AAAAKGVjZHNhLXNoYTItbmlzdHAyNTYtY2VydC12MDFAb3BlbnNzaC5jb20AAAAgG0Pv62QmdnRRYZDgo2szWg7cadjpxV8CicfJ",
        "jxNdOEQAAAAIbmlzdHAyNTYAAABBBGHEIcNMdcPYdd8dnkvK+sN4CFpLXhCB6sNJhE4nCtcOI2vJ/bifgNaBdcg/pFfEpXT1tMr2",
        "2tf1B+AhamlwrZ8AAAAAAAAAAAAAAAEAAAACaWQAAAAHAAAAA2dpdAAAAAAAAAAA//////////8AAAAAAAAAAAAAAAAAAAAzAAAA",
        "C3NzaC1lZDI1NTE5AAAAIHFrobJJrj/jUGUzXnlqIH6sl3Wis3/zFO8kh0D3jeTMAAAAUwAAAAtzc2gtZWQyNTUxOQAAAEDonND+",
        "QCk0XQ1CL9EfAQTGSfoQnO7eKQKfnlZsfRBqUKyb4oVZrdyXatat2gG6uaAdvfDc0ABCql+swVD7hREP",
    );

    #[test]
    fn a_certificate_has_the_fingerprint_of_its_key() {
        // `ssh-keygen -l` of each, and of the key in it.
        for (certificate, printed) in [
            (ED25519_CERTIFICATE, "SHA256:1DVr1ZDwfq5Lv2D4VCOFBSDBvdGV8qQDFyH6gEg4ktI"),
            (ECDSA_CERTIFICATE, "SHA256:DSoeRKq9LVlXC62IaWYR6ngc5NySMeYW+lKxg3xuzAs"),
        ] {
            let certificate = STANDARD.decode(certificate).unwrap();
            assert_eq!(fingerprint(&certificate), printed);
            // One that is cut off is not a certificate.
            assert_ne!(fingerprint(&certificate[..40]), printed);
        }
    }

    #[test]
    fn a_public_key_is_read() {
        let key = Signer::new(5).key;
        let text = format!("# ours\n\nssh-ed25519 {} a comment\n", STANDARD.encode(&key));
        assert_eq!(public_key(&text), Some(key));
        for text in ["", "ssh-ed25519", "ssh-rsa AAAA", "-----BEGIN OPENSSH PRIVATE KEY-----"] {
            assert_eq!(public_key(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_key_or_signature_panics(
            key in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            signature in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            kind in proptest::sample::select(vec!["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa", "ssh-rsa-cert-v01@openssh.com"]),
            text in ".{0,200}",
        ) {
            public_key(&text);
            fingerprint(&[fields(&[kind.as_bytes()]), key.clone()].concat());
            verifies(&key, &signature, b"");
            let framed = [fields(&[kind.as_bytes()]), key].concat();
            verifies(&framed, &fields(&[kind.as_bytes(), &signature]), b"");
            verifies(&framed, &fields(&[b"rsa-sha2-256", &signature]), b"");
        }
    }
}

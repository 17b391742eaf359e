//! Trusted certificates in the format of Java's key stores ("JKS"), which every Java reads. Java uses neither the system's
//! bundle files nor `SSL_CERT_FILE`.

use ring::digest::{Context, Digest, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

const MAGIC: u32 = 0xFEED_FEED;
const VERSION: u32 = 2;
/// Tag of an entry that is a certificate without a key.
const TRUSTED_CERTIFICATE: u32 = 2;

/// Password that Java's own stores have. It protects nothing: programs check the digest with it.
const PASSWORD: &str = "changeit";
/// Text that the format hashes between the password and the content.
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// Returns a store of the certificates in this PEM text.
pub fn trust_store(pem: &str) -> Vec<u8> {
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect();
    let mut store = Vec::new();
    let count = u32::try_from(certificates.len()).unwrap_or(u32::MAX);
    for number in [MAGIC, VERSION, count] {
        store.extend(number.to_be_bytes());
    }
    for (n, certificate) in (1..=count).zip(&certificates) {
        store.extend(TRUSTED_CERTIFICATE.to_be_bytes());
        put_text(&mut store, &format!("certificate-{n}"));
        // Time of creation, which no program uses.
        store.extend(0u64.to_be_bytes());
        put_text(&mut store, "X.509");
        store.extend(u32::try_from(certificate.len()).unwrap_or(u32::MAX).to_be_bytes());
        store.extend_from_slice(certificate);
    }
    let digest = content_digest(&store);
    store.extend_from_slice(digest.as_ref());
    store
}

/// The digest at the end of a store, over the password and everything before it.
fn content_digest(content: &[u8]) -> Digest {
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    let password = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes);
    digest.update(&password.collect::<Vec<u8>>());
    digest.update(WHITENER);
    digest.update(content);
    digest.finish()
}

/// Appends a short ASCII text with its length.
fn put_text(store: &mut Vec<u8>, text: &str) {
    store.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    store.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_store_holds_every_certificate() {
        let host: ringfence_spec::network::HostName = "api.test".parse().unwrap();
        let one = crate::authority::make([&host], None).unwrap().certificate_pem;
        let two = crate::authority::make([&host], None).unwrap().certificate_pem;
        let store = trust_store(&format!("# comment\n{one}\nnot a certificate\n{two}"));
        assert_eq!(store[..12], [0xFE, 0xED, 0xFE, 0xED, 0, 0, 0, 2, 0, 0, 0, 2]);
        for pem in [&one, &two] {
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            assert!(memchr::memmem::find(&store, &der).is_some());
        }
    }

    /// A store of one certificate: `keytool -importcert -alias certificate-1 -storetype JKS` with the usual password, of Java 17.
    const KEYTOOL_STORE: &str = concat!(
        "/u3+7QAAAAIAAAABAAAAAgANY2VydGlmaWNhdGUtMQAAAaHr4q6YAAVYLjUwOQAAAXAwggFsMIIBE6ADAgECAhQb+oSbkdfxZ+gO",
        "YUTmg9c9ZfI8TDAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAF0MB4XDTI2MTExNzIzNDEwM1oXDTM2MTExNDIzNDEwM1owDDEKMAgG",
        "A1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLvqRODrQdOOJAjQ7kaGP1foSyqSb8CD85cHfYsKFIuZ6v7V5ZhXSs0T",
        "vi/FCETWBS+XoAVuSYkOkn7QssvnvZSjUzBRMB0GA1UdDgQWBBQgujLVOzXNes1en/jD+E/UKWZQszAfBgNVHSMEGDAWgBQgujLV",
        "OzXNes1en/jD+E/UKWZQszAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIGDjPCxjyJg41MG0HyREjSxC2EKMDBsM",
        "UeBxGQAWfD4XAiB6XtzeiMofi9DsvLHO8VLIHGME2kE1rNaaayWimw9DoiLpQN1pKZoXhBp/F5veGARDBo04",
    );

    /// Time of creation in that store: after header, tag and alias.
    const CREATED: std::ops::Range<usize> = 12 + 4 + 2 + 13..12 + 4 + 2 + 13 + 8;

    #[test]
    fn a_store_is_the_one_that_keytool_makes() {
        let keytool = STANDARD.decode(KEYTOOL_STORE).unwrap();
        let (content, digest) = keytool.split_at(keytool.len() - 20);
        assert_eq!(content_digest(content).as_ref(), digest);
        // The certificate lies between its length and the digest.
        let der = &content[CREATED.end + 2 + 5 + 4..];
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            STANDARD.encode(der)
        );
        let ours = trust_store(&pem);
        let mut expected = content.to_vec();
        expected[CREATED].fill(0);
        assert_eq!(ours[..ours.len() - 20], expected);
        assert_eq!(ours[ours.len() - 20..], *content_digest(&expected).as_ref());
    }
}

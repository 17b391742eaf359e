//! TLS configuration from a certificate and a key file, read once at startup.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence_spec::{Code, Problem};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Paths of certificate and key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate, followed by its chain.
    pub cert: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads both and checks that they belong together.
    pub(super) fn read(&self) -> Result<Arc<ServerConfig>, Problem> {
        let certs: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .map_err(|e| unusable(&self.cert, &e))?;
        if certs.is_empty() {
            return Err(unusable(&self.cert, &"there is no certificate in it"));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|e| unusable(&self.key, &e))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| Problem::internal(Code::Tls, "cannot set TLS up").cause(e))?
            .with_no_client_auth()
            .with_single_cert(certs, key)
            .map_err(|e| unusable(&self.cert, &e))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn unusable(path: &Path, cause: &dyn std::fmt::Display) -> Problem {
    Problem::usage(Code::TlsFiles, format!("cannot use `{}` for TLS", path.display())).cause(cause)
}

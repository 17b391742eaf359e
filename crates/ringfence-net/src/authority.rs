//! A certificate authority for one run, made for it and known to it alone: its key stays in memory, it is valid not much
//! longer than the run and for the hosts of the run's secrets only.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use ringfence_spec::network::HostName;
use rustls::pki_types::PrivateKeyDer;
use time::{Duration, OffsetDateTime};

/// Time before now from which a certificate is valid: clocks differ.
const SKEW: Duration = Duration::HOUR;

/// Time after the end of a run for which its authority is valid.
const AFTER_RUN: Duration = Duration::HOUR;

/// Validity for a run without a deadline.
const WITHOUT_DEADLINE: Duration = Duration::days(30);

/// A new authority.
#[derive(Debug)]
pub struct NewAuthority {
    /// Its certificate, for the run.
    pub certificate_pem: String,
    /// Its key as PKCS #8, for the helper.
    pub key_der: Vec<u8>,
}

/// Makes an authority for these hosts.
pub fn make<'a>(
    hosts: impl IntoIterator<Item = &'a HostName>,
    deadline: Option<std::time::Duration>,
) -> Result<NewAuthority, String> {
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let mut params = own_params()?;
    let now = OffsetDateTime::now_utc();
    params.not_before = now - SKEW;
    params.not_after = match deadline.and_then(|d| Duration::try_from(d).ok()) {
        Some(deadline) => now + deadline + AFTER_RUN,
        None => now + WITHOUT_DEADLINE,
    };
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: hosts
            .into_iter()
            .map(|host| GeneralSubtree::DnsName(host.to_string()))
            .collect(),
        excluded_subtrees: Vec::new(),
    });
    let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
    Ok(NewAuthority { certificate_pem: certificate.pem(), key_der: key.serialize_der() })
}

/// Name and use of the authority; the issuer of every certificate it signs.
fn own_params() -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(Vec::new()).map_err(|e| e.to_string())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "ringfence, for one run");
    Ok(params)
}

/// Signs certificates for hosts.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    configs: RefCell<HashMap<HostName, Arc<rustls::ServerConfig>>>,
}

impl Authority {
    /// Reads the key that [`make`] returned.
    pub(crate) fn new(key_der: &[u8]) -> Result<Self, String> {
        let key = KeyPair::try_from(key_der).map_err(|e| e.to_string())?;
        Ok(Self { issuer: Issuer::new(own_params()?, key), configs: RefCell::default() })
    }

    /// The TLS server that stands for a host. It speaks HTTP/1 only.
    pub(crate) fn server(&self, host: &HostName) -> Result<Arc<rustls::ServerConfig>, String> {
        if let Some(config) = self.configs.borrow().get(host) {
            return Ok(Arc::clone(config));
        }
        let key = KeyPair::generate().map_err(|e| e.to_string())?;
        let mut params = CertificateParams::new([host.to_string()]).map_err(|e| e.to_string())?;
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - SKEW, now + WITHOUT_DEADLINE);
        params.distinguished_name.push(DnType::CommonName, host.as_str());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(|e| e.to_string())?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(|e| e.to_string())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        self.configs.borrow_mut().insert(host.clone(), Arc::clone(&config));
        Ok(config)
    }
}

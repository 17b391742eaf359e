//! TLS that ends here, for hosts that a secret is for: requests are read, get the credential, and go on over TLS to the
//! host, whose certificate is checked. Other hosts keep their TLS end to end.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use ringfence_plan::PROXY_PORT;
use ringfence_spec::network::{Host, HostName};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::authority::Authority;
use crate::connection::{ALERT, FIRST_BYTES_PATIENCE, Stream, read_hello};
use crate::helper::State;
use crate::http::{self, Target};
use crate::relay::Rewound;
use crate::report::{Refusal, Request};

const HTTPS: u16 = 443;

/// Beginning of base URLs inside a run, at the proxy's port.
const BASE_URL: &str = "http://127.0.0.1:3128/https/";
const _: () = assert!(PROXY_PORT == 3128);

/// The run's authority, and the client side of connections to hosts.
pub(crate) struct Interception {
    authority: Authority,
    client: Arc<rustls::ClientConfig>,
}

impl Interception {
    /// Loads the host's trusted certificates and these.
    pub(crate) fn new(authority_key: &[u8], roots_pem: &[u8]) -> Result<Self, String> {
        let mut roots = rustls::RootCertStore::empty();
        let own = rustls::pki_types::CertificateDer::pem_slice_iter(roots_pem).flatten();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(own);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { authority: Authority::new(authority_key)?, client: Arc::new(client) })
    }

    /// Speaks TLS to a host and checks its certificate.
    pub(crate) async fn connect<S: Stream>(
        &self,
        stream: S,
        host: &HostName,
    ) -> io::Result<tokio_rustls::client::TlsStream<S>> {
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(&self.client)).connect(name, stream).await
    }
}

impl<S: Stream> Stream for tokio_rustls::server::TlsStream<S> {}

/// Serves one connection to a host that a secret is for.
pub(crate) async fn serve(state: Rc<State>, mut stream: impl Stream, request: Request) {
    let (Some(interception), Host::Name(name)) = (&state.interception, &request.host) else {
        return;
    };
    let mut hello = Vec::new();
    let judged = read_hello(&mut stream, &mut hello, &request.host);
    match tokio::time::timeout(FIRST_BYTES_PATIENCE, judged).await {
        Ok(Ok(())) => {}
        Ok(Err(Some(refusal))) => {
            request.refused(&refusal);
            let _ = stream.write_all(&ALERT).await;
            return;
        }
        Ok(Err(None)) | Err(_) => return,
    }
    let config = match interception.authority.server(name) {
        Ok(config) => config,
        Err(error) => {
            let reason = format!("no certificate could be made: {error}");
            return request.refused(&Refusal::failed(reason));
        }
    };
    let accepted = TlsAcceptor::from(config).accept(Rewound::new(hello, stream));
    match tokio::time::timeout(FIRST_BYTES_PATIENCE, accepted).await {
        Ok(Ok(stream)) => {
            http::serve(Rc::clone(&state), stream, Target::Intercepted(request)).await;
        }
        Ok(Err(error)) => {
            // An alert about the certificate: the client has roots of its own.
            let port = request.port.unwrap_or(HTTPS);
            let base_url = match port {
                _ if !state.secrets.has(&request.host, port) => String::new(),
                HTTPS => format!(", or set its base URL to {BASE_URL}{name}"),
                port => format!(", or set its base URL to {BASE_URL}{name}:{port}"),
            };
            let reason = format!(
                "the client does not accept the run's certificate authority ({error}); let it use the system's certificates or SSL_CERT_FILE{base_url}"
            );
            request.refused(&Refusal::failed(reason));
        }
        Err(_) => {}
    }
}

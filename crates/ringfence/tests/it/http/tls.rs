//! TLS by certificate and key in files. Both are made for one test: they vouch for nothing but `localhost`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use ringfence_testing::json;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::Server;
use crate::support::World;

/// A certificate and its key, as text.
fn identity() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn server(world: &World, (cert, key): &(String, String)) -> Server {
    // Where a run can see it, if nothing hides it.
    let (cert, key) = (world.write("cert.pem", cert), world.write("work/key.pem", key));
    let flags = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    Server::with(world, &flags)
}

/// What the service answers to a command, as text.
fn ran(server: &Server, identity: &(String, String), command: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(identity.0.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, server.connect());
    let body = json!({"command": command}).to_string();
    let request = format!(
        "POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn a_client_that_trusts_the_certificate_is_served() {
    let world = World::new();
    let identity = identity();
    let said = ran(&server(&world, &identity), &identity, "echo $((6 * 7))");
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\"stdout\":\"42\\n\""), "{said}");
}

#[test]
fn a_run_sees_nothing_of_the_services_key() {
    let world = World::new();
    let identity = identity();
    let attack =
        "cat key.pem; mv key.pem k; cat k; ln key.pem l; cat l; echo lost > key.pem; echo end";
    let said = ran(&server(&world, &identity), &identity, attack);
    assert!(said.contains("end\\n") && !said.contains("PRIVATE KEY"), "{said}");
    assert_eq!(std::fs::read_to_string(world.work().join("key.pem")).unwrap(), identity.1);
}

#[test]
fn who_does_not_speak_tls_is_not_answered() {
    let world = World::new();
    let server = server(&world, &identity());
    let mut stream: TcpStream = server.connect();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP/"), "{said:?}");
}

#[test]
fn a_key_of_another_certificate_is_found_before_anybody_asks() {
    let world = World::new();
    let (cert, _) = identity();
    let (cert, key) = (world.write("cert.pem", &cert), world.write("key.pem", &cert));
    let flags = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let ran = world.ringfence(&[&["serve", "--check"], &flags[..]].concat());
    assert!(ran.code == 2 && ran.stderr.contains("key.pem"), "{}", ran.stderr);
}

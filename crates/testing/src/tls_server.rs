//! TLS of a test's server, whose authority can be exchanged while it serves.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::pki::Authority;

/// TLS that only clients of the same authority can speak.
#[derive(Clone)]
pub struct ServerTls(Arc<Mutex<Arc<ServerConfig>>>);

impl ServerTls {
    /// Makes TLS with certificates of this authority.
    pub fn of(authority: &Authority) -> Self {
        Self(Arc::new(Mutex::new(config(authority))))
    }

    /// Uses certificates of another authority from now on.
    pub fn change(&self, authority: &Authority) {
        *self.0.lock().expect("no holder panics") = config(authority);
    }

    /// A connection over `stream`.
    pub fn over(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let config = Arc::clone(&self.0.lock().expect("no holder panics"));
        let connection = ServerConnection::new(config).expect("a configuration");
        StreamOwned::new(connection, stream)
    }
}

fn config(authority: &Authority) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("a certificate");
    roots.add(root).expect("an authority");
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let issued = authority.local();
    let certificate = CertificateDer::from_pem_slice(issued.cert.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("there are some")
        .with_client_cert_verifier(clients.build().expect("roots"))
        .with_single_cert(vec![certificate.expect("a certificate")], key);
    Arc::new(config.expect("they belong together"))
}

//! TLS of a test's server, whose authority can be exchanged while it serves.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// The authority that issues the certificates of a server and of its clients.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate.
    pub pem: String,
}

impl TestAuthority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).expect("a root").pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// A certificate for 127.0.0.1, and its key.
    pub fn issue(&self) -> (String, String) {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signature");
        (certificate.pem(), key.serialize_pem())
    }
}

/// TLS that only clients of the same authority can speak.
#[derive(Clone)]
pub struct ServerTls(Arc<Mutex<Arc<ServerConfig>>>);

impl ServerTls {
    /// Makes TLS with certificates of this authority.
    pub fn of(authority: &TestAuthority) -> Self {
        Self(Arc::new(Mutex::new(config(authority))))
    }

    /// Uses certificates of another authority from now on.
    pub fn change(&self, authority: &TestAuthority) {
        *self.0.lock().expect("no holder panics") = config(authority);
    }

    /// A connection over `stream`.
    pub fn over(&self, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
        let config = Arc::clone(&self.0.lock().expect("no holder panics"));
        let connection = ServerConnection::new(config).expect("a configuration");
        StreamOwned::new(connection, stream)
    }
}

fn config(authority: &TestAuthority) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("a certificate");
    roots.add(root).expect("an authority");
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let (certificate, key) = authority.issue();
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("there are some")
        .with_client_cert_verifier(clients.build().expect("roots"))
        .with_single_cert(vec![certificate.expect("a certificate")], key);
    Arc::new(config.expect("they belong together"))
}

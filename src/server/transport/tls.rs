//! TLS: certificates from files, and the handshake.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::connections::refuse_http1;
use crate::access::CertificateName;
use crate::server::BoxError;
use crate::server::config::{ClientAuth, SecuritySettings};
use crate::server::telemetry::SecurityCounts;

/// The protocol to negotiate: gRPC is HTTP/2.
const ALPN: &[u8] = b"h2";

/// The certificate in use, for handshakes.
pub struct Tls {
    pub config: Arc<RwLock<Arc<ServerConfig>>>,
    pub handshake_timeout: Duration,
    pub counts: Arc<SecurityCounts>,
}

impl Tls {
    /// The handshake of a connection, with the certificate in use now.
    pub async fn accept(&self, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.read()));
        let accept = async {
            refuse_http1(&mut stream, "gRPC over TLS").await?;
            acceptor.accept(stream).await
        };
        let handshake = timeout(self.handshake_timeout, accept).await;
        handshake
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .inspect_err(|_| {
                self.counts
                    .failed_handshakes
                    .fetch_add(1, Ordering::Relaxed);
            })
    }
}

/// The files that TLS is configured by.
pub struct CertificateFiles {
    /// The paths of the certificate, of its key, and of the authority of clients if there is one.
    pub paths: Vec<PathBuf>,
    client_auth: ClientAuth,
}

impl CertificateFiles {
    /// Returns the files that the settings name; none without a certificate.
    pub fn of(settings: &SecuritySettings) -> Option<Self> {
        let (Some(cert), Some(key)) = (&settings.tls_cert, &settings.tls_key) else {
            return None;
        };
        let mut paths = vec![cert.clone(), key.clone()];
        paths.extend(settings.tls_client_ca.clone());
        Some(Self {
            paths,
            client_auth: settings.tls_client_auth,
        })
    }

    /// Returns the configuration that the contents of [`Self::paths`] make, and the end of the
    /// certificate in seconds since 1970. With `replaces` it is to replace another one, and must not
    /// have expired.
    ///
    /// # Errors
    /// The fault of the contents.
    pub fn load(
        &self,
        contents: &[Vec<u8>],
        replaces: bool,
    ) -> Result<(ServerConfig, i64), BoxError> {
        let chain = certificates("tls-cert", &self.paths[0], &contents[0])?;
        let key = PrivateKeyDer::from_pem_slice(&contents[1])
            .map_err(|error| fault("tls-key", "private key", &self.paths[1], error))?;
        let expires = X509Certificate::from_der(&chain[0])
            .map_or(0, |(_, own)| own.validity().not_after.timestamp());
        if replaces && expires != 0 && expires < ASN1Time::now().timestamp() {
            let path = self.paths[0].display();
            return Err(format!("tls-cert: the certificate in {path} has expired").into());
        }
        let config = match (self.paths.get(2), contents.get(2)) {
            (Some(path), Some(content)) => {
                let verifier = self.verifier(certificates("tls-client-ca", path, content)?)?;
                builder()?.with_client_cert_verifier(verifier)
            }
            _ => builder()?.with_no_client_auth(),
        };
        // This refuses a key that does not belong to the certificate.
        let pair = |error| format!("tls-cert and tls-key: {error}");
        let mut config = config.with_single_cert(chain, key).map_err(pair)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok((config, expires))
    }

    fn verifier(
        &self,
        issuers: Vec<CertificateDer<'static>>,
    ) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for issuer in issuers {
            let bad = |error| format!("tls-client-ca: {error}");
            roots.add(issuer).map_err(bad)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = match self.client_auth {
            ClientAuth::Required => verifier,
            ClientAuth::Optional => verifier.allow_unauthenticated(),
        };
        let bad = |error| format!("tls-client-ca: {error}");
        verifier.build().map_err(bad)
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

fn certificates(
    setting: &str,
    path: &Path,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error| fault(setting, "certificate", path, error);
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let all = all.map_err(wrong)?;
    if all.is_empty() {
        return Err(wrong(pem::Error::NoItemsFound));
    }
    Ok(all)
}

/// Returns the fault of the PEM file of a setting that should contain `what`.
fn fault(setting: &str, what: &str, path: &Path, error: pem::Error) -> String {
    let path = path.display();
    match error {
        pem::Error::NoItemsFound => format!("{setting}: no PEM {what} in {path}"),
        error => format!("{setting}: {path}: {error}"),
    }
}

/// The names of a client's certificate, which the handshake has verified: its DNS names and URIs,
/// or its common name when it has none of those. Issuers check DNS names and URIs with more care.
pub fn names(certificate: &CertificateDer<'_>) -> Vec<CertificateName> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives
        .iter()
        .flat_map(|found| &found.value.general_names);
    let names = alternatives.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(CertificateName::Dns((*name).into())),
        GeneralName::URI(name) => Some(CertificateName::Uri((*name).into())),
        _ => None,
    });
    let names: Vec<CertificateName> = names.collect();
    if !names.is_empty() {
        return names;
    }
    let common = certificate.subject().iter_common_name();
    common
        .filter_map(|name| name.as_str().ok())
        .map(|name| CertificateName::Common(name.into()))
        .collect()
}

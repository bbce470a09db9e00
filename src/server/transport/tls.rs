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

use crate::access::CertificateName;
use crate::server::config::{ClientAuth, SecuritySettings};
use crate::server::telemetry::counts::SecurityCounts;

/// The protocol to negotiate: gRPC is HTTP/2.
const ALPN: &[u8] = b"h2";

/// A fault in a file of certificates or keys.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFault {
    #[error("{setting}: no PEM {what} in {}", path.display())]
    Missing {
        setting: &'static str,
        what: &'static str,
        path: PathBuf,
    },
    #[error("{setting}: {}: {source}", path.display())]
    Bad {
        setting: &'static str,
        path: PathBuf,
        source: pem::Error,
    },
    #[error("tls-client-ca: {0}")]
    ClientCa(Box<dyn std::error::Error + Send + Sync>),
    #[error("tls-cert and tls-key: {0}")]
    Pair(#[from] rustls::Error),
    #[error("tls-cert: the certificate in {} has expired", .0.display())]
    Expired(PathBuf),
}

/// The certificate in use, for handshakes.
pub struct Tls {
    pub config: Arc<RwLock<Arc<ServerConfig>>>,
    pub handshake_timeout: Duration,
    pub counts: Arc<SecurityCounts>,
}

impl Tls {
    /// The handshake of a connection, with the certificate in use now.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.read()));
        let handshake = timeout(self.handshake_timeout, acceptor.accept(stream)).await;
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
    ) -> Result<(ServerConfig, i64), CertificateFault> {
        let chain = certificates("tls-cert", &self.paths[0], &contents[0])?;
        let key = PrivateKeyDer::from_pem_slice(&contents[1])
            .map_err(|error| fault("tls-key", "private key", &self.paths[1], error))?;
        let expires = X509Certificate::from_der(&chain[0])
            .map_or(0, |(_, own)| own.validity().not_after.timestamp());
        if replaces && expires != 0 && expires < ASN1Time::now().timestamp() {
            return Err(CertificateFault::Expired(self.paths[0].clone()));
        }
        let config = match (self.paths.get(2), contents.get(2)) {
            (Some(path), Some(content)) => {
                let verifier = self.verifier(certificates("tls-client-ca", path, content)?)?;
                builder()?.with_client_cert_verifier(verifier)
            }
            _ => builder()?.with_no_client_auth(),
        };
        // This refuses a key that does not belong to the certificate.
        let mut config = config.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok((config, expires))
    }

    fn verifier(
        &self,
        issuers: Vec<CertificateDer<'static>>,
    ) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, CertificateFault> {
        let mut roots = RootCertStore::empty();
        for issuer in issuers {
            roots
                .add(issuer)
                .map_err(|error| CertificateFault::ClientCa(error.into()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = match self.client_auth {
            ClientAuth::Required => verifier,
            ClientAuth::Optional => verifier.allow_unauthenticated(),
        };
        verifier
            .build()
            .map_err(|error| CertificateFault::ClientCa(error.into()))
    }
}

fn builder() -> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

fn certificates(
    setting: &'static str,
    path: &Path,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let wrong = |error| fault(setting, "certificate", path, error);
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let all = all.map_err(wrong)?;
    if all.is_empty() {
        return Err(wrong(pem::Error::NoItemsFound));
    }
    Ok(all)
}

/// Returns the fault of the PEM file of a setting that should contain `what`.
fn fault(
    setting: &'static str,
    what: &'static str,
    path: &Path,
    error: pem::Error,
) -> CertificateFault {
    let path = path.to_owned();
    match error {
        pem::Error::NoItemsFound => CertificateFault::Missing {
            setting,
            what,
            path,
        },
        source => CertificateFault::Bad {
            setting,
            path,
            source,
        },
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

//! Settings that do not go together.

use super::replication::LogConflict;
use super::settings::Config;

/// Settings that are each right and together wrong.
#[derive(Debug, thiserror::Error)]
pub enum Conflict {
    /// Only one of the two files that TLS needs is given.
    #[error("--tls-cert and --tls-key need each other: give both, or neither")]
    HalfTls,
    /// A CA for client certificates is given without TLS.
    #[error("--tls-client-ca needs --tls-cert and --tls-key")]
    ClientCaWithoutTls,
    /// The server would serve plain text to other machines.
    #[error(
        "--listen {0} would serve plain text to other machines: give --tls-cert and --tls-key, or \
         --allow-plaintext where a proxy or mesh encrypts"
    )]
    Plaintext(std::net::SocketAddr),
    /// Settings of a shared log.
    #[error(transparent)]
    Log(#[from] LogConflict),
}

impl Config {
    /// Checks that the settings go together.
    ///
    /// # Errors
    /// The first conflict.
    pub fn check(&self) -> Result<(), Conflict> {
        let security = &self.security;
        let has_tls = security.tls_cert.is_some();
        if has_tls != security.tls_key.is_some() {
            return Err(Conflict::HalfTls);
        }
        if security.tls_client_ca.is_some() && !has_tls {
            return Err(Conflict::ClientCaWithoutTls);
        }
        let is_loopback = self.listen.ip().to_canonical().is_loopback();
        if !has_tls && !is_loopback && !security.allow_plaintext {
            return Err(Conflict::Plaintext(self.listen));
        }
        self.replication.shared_log()?;
        Ok(())
    }
}

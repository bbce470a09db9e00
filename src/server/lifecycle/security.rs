//! How callers are known, and the files that this follows from.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tracing::warn;

use super::reload::{self, Watched};
use crate::server::config::Config;
use crate::server::transport::identity::{self, Guard};
use crate::server::transport::tls::Tls;

/// What the settings of security make.
pub(in crate::server) struct Security {
    pub(in crate::server) tls: Option<Arc<Tls>>,
    pub(in crate::server) guard: Option<Guard>,
    /// Their files, to be read again when they change.
    pub(in crate::server) watched: Vec<Watched>,
}

impl Security {
    /// Reads the files that `config` names.
    pub(in crate::server) fn new(
        config: &Config,
        counts: &Arc<Counts>,
    ) -> Result<Self, reload::Error> {
        let mut watched = Vec::new();
        let tls = Tls::new(&config.security, counts)?.map(|(tls, files)| {
            watched.push(files);
            tls
        });
        let mut guard = None;
        if let Some(path) = &config.security.access_file {
            let (book, file) = identity::rules(path, counts)?;
            watched.push(file);
            guard = Some(Guard(book));
        }
        let security = Self {
            tls,
            guard,
            watched,
        };
        if !config.listen.ip().to_canonical().is_loopback() {
            security.warn(config);
        }
        Ok(security)
    }

    /// Tells what is open to other machines.
    fn warn(&self, config: &Config) {
        if self.guard.is_none() && config.security.tls_client_ca.is_none() {
            warn!("whoever reaches the port may do everything: see --access-file");
        }
        if self.guard.is_some() && self.tls.is_none() {
            warn!("tokens are sent in plain text, which whoever is in between can read");
        }
    }
}

/// What is counted of certificates, rules and handshakes since the server
/// started.
#[derive(Debug, Default)]
pub(in crate::server) struct Counts {
    pub(in crate::server) reloads: AtomicU64,
    pub(in crate::server) failed_reloads: AtomicU64,
    pub(in crate::server) failed_handshakes: AtomicU64,
    pub(in crate::server) certificate_expires: AtomicI64,
}

impl Counts {
    /// Changed certificates and rules that are in use since.
    pub(in crate::server) fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// Changed certificates and rules that were bad; those before them stay in
    /// use.
    pub(in crate::server) fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    /// TLS handshakes that failed or took too long.
    pub(in crate::server) fn failed_handshakes(&self) -> u64 {
        self.failed_handshakes.load(Ordering::Relaxed)
    }

    /// When the server's certificate ends, in seconds since 1970; `None`
    /// without TLS.
    pub(in crate::server) fn certificate_expires(&self) -> Option<i64> {
        let at = self.certificate_expires.load(Ordering::Relaxed);
        (at != 0).then_some(at)
    }
}

//! The identification of callers, and the files that it is configured by.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;

use super::reload::{ReloadError, WatchedFiles};
use crate::server::config::Config;
use crate::server::telemetry::counts::SecurityCounts;
use crate::server::transport::identity::{self, Guard};
use crate::server::transport::tls::{CertificateFiles, Tls};

/// TLS and the guard of access, as the security settings say.
pub struct Security {
    pub tls: Option<Arc<Tls>>,
    pub guard: Option<Guard>,
    /// The files of both, which are read again when they change.
    pub watched: Vec<WatchedFiles>,
}

impl Security {
    /// Reads the files that `config` names.
    pub fn new(config: &Config, counts: &Arc<SecurityCounts>) -> Result<Self, ReloadError> {
        let certificates = CertificateFiles::of(&config.security);
        let certificates = certificates.map(|files| tls(files, config, counts));
        let (tls, certificates) = certificates.transpose()?.unzip();
        let rules = config.security.access_file.clone().map(|path| {
            let file = path.clone();
            let parse = move |contents: &[Vec<u8>]| identity::parse_rules(&file, &contents[0]);
            WatchedFiles::new("access rules", vec![path], counts, parse)
        });
        let (guard, rules) = rules.transpose()?.unzip();
        let is_open = !config.listen.ip().to_canonical().is_loopback();
        if is_open && guard.is_none() && config.security.tls_client_ca.is_none() {
            warn!("whoever reaches the port may do everything: see --access-file");
        }
        if is_open && guard.is_some() && tls.is_none() {
            warn!("tokens are sent in plain text, which whoever is in between can read");
        }
        Ok(Self {
            tls,
            guard: guard.map(Guard),
            watched: certificates.into_iter().chain(rules).collect(),
        })
    }
}

/// TLS with the certificates of these files, and the files to watch for it.
fn tls(
    files: CertificateFiles,
    config: &Config,
    counts: &Arc<SecurityCounts>,
) -> Result<(Arc<Tls>, WatchedFiles), ReloadError> {
    let paths = files.paths();
    let noted = Arc::clone(counts);
    let load = move |contents: &[Vec<u8>]| {
        let (config, expires) = files.load(contents)?;
        noted.certificate_expires.store(expires, Ordering::Relaxed);
        Ok(config)
    };
    let (live, watched) = WatchedFiles::new("certificates", paths, counts, load)?;
    let tls = Tls {
        config: live,
        handshake_timeout: config.security.handshake_timeout,
        counts: Arc::clone(counts),
    };
    Ok((Arc::new(tls), watched))
}

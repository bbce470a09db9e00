//! How callers are known, and the files that this follows from.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;

use super::reload::{ReloadError, WatchedFiles};
use crate::server::config::Config;
use crate::server::telemetry::counts::SecurityCounts;
use crate::server::transport::identity::{self, Guard};
use crate::server::transport::tls::{CertificateFiles, Tls};

/// What the settings of security make.
pub struct Security {
    pub tls: Option<Arc<Tls>>,
    pub guard: Option<Guard>,
    /// Their files, to be read again when they change.
    pub watched: Vec<WatchedFiles>,
}

impl Security {
    /// Reads the files that `config` names.
    pub fn new(config: &Config, counts: &Arc<SecurityCounts>) -> Result<Self, ReloadError> {
        let mut watched = Vec::new();
        let tls = match CertificateFiles::of(&config.security) {
            Some(files) => {
                let (tls, files) = tls(files, config, counts)?;
                watched.push(files);
                Some(tls)
            }
            None => None,
        };
        let mut guard = None;
        if let Some(path) = &config.security.access_file {
            let file = path.clone();
            let parse = move |contents: &[Vec<u8>]| identity::parse_rules(&file, &contents[0]);
            let paths = vec![path.clone()];
            let (book, files) = WatchedFiles::new("access rules", paths, counts, parse)?;
            watched.push(files);
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

    /// Warns about what is open to other machines.
    fn warn(&self, config: &Config) {
        if self.guard.is_none() && config.security.tls_client_ca.is_none() {
            warn!("whoever reaches the port may do everything: see --access-file");
        }
        if self.guard.is_some() && self.tls.is_none() {
            warn!("tokens are sent in plain text, which whoever is in between can read");
        }
    }
}

/// TLS by what these files hold, and the files to watch for it.
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

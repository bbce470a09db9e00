//! The identification of callers, and the files that it is configured by, which are read again when
//! they change.
//!
//! The contents of the files are compared, not their times: Kubernetes swaps secrets by symbolic
//! links, whose times tell little.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info, warn};

use super::serve::Hangups;
use crate::access::{self, RuleBook};
use crate::server::BoxError;
use crate::server::config::Config;
use crate::server::telemetry::SecurityCounts;
use crate::server::transport::tls::{CertificateFiles, Tls};
use crate::tasks;

/// The time before the end of a certificate from which on the server warns of it.
const EXPIRES_SOON: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The time between two warnings about the same certificate.
const WARN_AGAIN: Duration = Duration::from_secs(24 * 3_600);

/// TLS and the access rules, as the security settings say.
pub struct Security {
    pub tls: Option<Arc<Tls>>,
    /// The access rules, if there is a file of them.
    pub rules: Option<Arc<RuleBook>>,
    /// The files of both, which are read again when they change.
    pub watched: Vec<WatchedFiles>,
}

impl Security {
    /// Reads the files that `config` names.
    pub fn new(config: &Config, counts: &Arc<SecurityCounts>) -> Result<Self, BoxError> {
        let certificates = CertificateFiles::of(&config.security);
        let certificates = certificates.map(|files| tls(files, config, counts));
        let (tls, certificates) = certificates.transpose()?.unzip();
        let rules = config.security.access_file.clone().map(|path| {
            let file = format!("access-file {}", path.display());
            let parse = move |contents: &[Vec<u8>]| {
                let text = std::str::from_utf8(&contents[0]);
                let text = text.map_err(|error| format!("{file}: {error}"))?;
                access::parse(text).map_err(|error| format!("{file}: {error}").into())
            };
            WatchedFiles::new("access rules", vec![path], counts, parse)
        });
        let (rules, rules_file) = rules.transpose()?.unzip();
        let is_public = |address: SocketAddr| !address.ip().to_canonical().is_loopback();
        // The probes of a pod come from its node. Who else may reach it, a NetworkPolicy says.
        let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        if config.admin_listen.is_some_and(is_public) && !is_pod {
            warn!("whoever reaches the admin port may read it: let only scrapers and probes do so");
        }
        let is_open = is_public(config.listen);
        if is_open && rules.is_none() && config.security.tls_client_ca.is_none() {
            warn!("whoever reaches the port may do everything: see --access-file");
        }
        if is_open && rules.is_some() && tls.is_none() {
            warn!("tokens are sent in plain text, which whoever is in between can read");
        }
        Ok(Self {
            tls,
            rules,
            watched: certificates.into_iter().chain(rules_file).collect(),
        })
    }
}

/// TLS with the certificates of these files, and the files to watch for it.
fn tls(
    files: CertificateFiles,
    config: &Config,
    counts: &Arc<SecurityCounts>,
) -> Result<(Arc<Tls>, WatchedFiles), BoxError> {
    let paths = files.paths.clone();
    let noted = Arc::clone(counts);
    let load = move |contents: &[Vec<u8>]| {
        let replaces = noted.certificate_expires.load(Ordering::Relaxed) != 0;
        let (config, expires) = files.load(contents, replaces)?;
        noted.certificate_expires.store(expires, Ordering::Relaxed);
        Ok(config)
    };
    let (live, watched) = WatchedFiles::new("certificates", paths, counts, load)?;
    let tls = Tls {
        config: live,
        handshake_timeout: config.fixed.handshake_timeout,
        counts: Arc::clone(counts),
    };
    Ok((Arc::new(tls), watched))
}

/// The contents of files, or why one of them cannot be read.
type FileContents = Result<Vec<Vec<u8>>, String>;

/// The settings of files, as they were last read and found good.
type LiveSettings<T> = RwLock<Arc<T>>;

/// Uses the contents of the files.
type Apply = Box<dyn Fn(&[Vec<u8>]) -> Result<(), BoxError> + Send>;

/// Files that belong together, and the use of their contents.
pub struct WatchedFiles {
    what: &'static str,
    paths: Vec<PathBuf>,
    seen: FileContents,
    apply: Apply,
    counts: Arc<SecurityCounts>,
}

impl WatchedFiles {
    /// Reads the files for the first time. `parse` turns their contents, given in order, into
    /// settings, which [`reload`] keeps up to date.
    ///
    /// # Errors
    /// The fault of the files at present.
    pub fn new<T: Send + Sync + 'static>(
        what: &'static str,
        paths: Vec<PathBuf>,
        counts: &Arc<SecurityCounts>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, BoxError> + Send + 'static,
    ) -> Result<(Arc<LiveSettings<T>>, Self), BoxError> {
        let seen = read(&paths);
        let live = Arc::new(RwLock::new(Arc::new(parse(&seen.clone()?)?)));
        let used = Arc::clone(&live);
        let watched = Self {
            what,
            paths,
            seen,
            apply: Box::new(move |contents| {
                *used.write() = Arc::new(parse(contents)?);
                Ok(())
            }),
            counts: Arc::clone(counts),
        };
        Ok((live, watched))
    }

    /// Checks the files once. A bad state of the files is logged once, however long it lasts.
    fn look(&mut self) {
        let now = read(&self.paths);
        if now == self.seen {
            return;
        }
        self.seen.clone_from(&now);
        let what = self.what;
        match now
            .map_err(BoxError::from)
            .and_then(|all| (self.apply)(&all))
        {
            Ok(()) => {
                self.counts.reloads.fetch_add(1, Ordering::Relaxed);
                info!(what, "reloaded");
            }
            Err(error) => {
                self.counts.failed_reloads.fetch_add(1, Ordering::Relaxed);
                error!(what, %error, "not reloaded: what was in use before stays");
            }
        }
    }
}

/// Warns if the certificate in use ends soon or has ended. `last` is the end of the certificate that was
/// warned of last, and when that was.
fn warn_of_end(counts: &SecurityCounts, last: &mut Option<(i64, Instant)>) {
    let expires = counts.certificate_expires.load(Ordering::Relaxed);
    let since_1970 = Duration::from_secs(u64::try_from(expires).unwrap_or(0));
    let is_known = |(of, at): (i64, Instant)| of == expires && at.elapsed() < WARN_AGAIN;
    if expires == 0 || last.is_some_and(is_known) {
        return;
    }
    let end = SystemTime::UNIX_EPOCH + since_1970;
    let expires_at = humantime::format_rfc3339_seconds(end);
    match end.duration_since(SystemTime::now()) {
        Ok(left) if left > EXPIRES_SOON => return,
        Ok(_) => warn!(%expires_at, "the certificate expires within a week"),
        Err(_) => warn!(%expires_at, "the certificate has expired: clients refuse it"),
    }
    *last = Some((expires, Instant::now()));
}

/// Checks all files every `period` and on SIGHUP, for as long as the runtime lives.
pub async fn reload(mut all: Vec<WatchedFiles>, period: Duration, mut hangups: Hangups) {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let counts = all.first().map(|files| Arc::clone(&files.counts));
    let mut warned = None;
    loop {
        if let Some(counts) = &counts {
            warn_of_end(counts, &mut warned);
        }
        tokio::select! {
            _ = ticks.tick() => {}
            () = hangups.next() => info!("SIGHUP: looking at certificates and access rules"),
        }
        // A blocking thread reads the files: they may be on a disk that does not answer.
        let looked = tasks::spawn_blocking(move || {
            all.iter_mut().for_each(WatchedFiles::look);
            all
        });
        match looked.await {
            Ok(same) => all = same,
            Err(error) => {
                error!(%error, "changed certificates and rules need a restart from here on");
                return;
            }
        }
    }
}

fn read(paths: &[PathBuf]) -> FileContents {
    let read = |path: &PathBuf| {
        let content = fs::read(path);
        content.map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    paths.iter().map(read).collect()
}

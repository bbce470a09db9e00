//! The log that several servers share.

use std::path::PathBuf;

use super::settings::Conflict;
use crate::log::nats::{Access, FleetName, Keeping};

/// The log of a fleet, and the way in which it is kept.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Replication")]
pub struct ReplicationSettings {
    /// Share a log with other servers: the URL of a nats-server; repeatable.
    ///
    /// nats://HOST:PORT, or tls://HOST:PORT for TLS. All servers of a --fleet
    /// apply the same changes in the same order, so that each can take changes
    /// and answers. NATS 2.15 or later with JetStream is needed. Separate
    /// several URLs in one value by commas.
    #[arg(
        long,
        env = "EVENKEEL_LOG",
        value_name = "URL",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub log: Vec<String>,

    /// Name of the servers that share a log, with --log: 1 to 32 letters,
    /// digits and "-".
    #[arg(long, env = "EVENKEEL_FLEET", value_name = "NAME")]
    pub fleet: Option<FleetName>,

    /// Credentials for the nats-servers: a .creds file, or a file with the
    /// seed of an nkey.
    #[arg(long, env = "EVENKEEL_LOG_CREDENTIALS", value_name = "FILE")]
    pub log_credentials: Option<PathBuf>,

    /// Authority of the nats-servers' certificates, in PEM. The default is
    /// those of the system.
    #[arg(long, env = "EVENKEEL_LOG_CA", value_name = "FILE")]
    pub log_ca: Option<PathBuf>,

    /// Certificate to present to the nats-servers, in PEM.
    #[arg(long, env = "EVENKEEL_LOG_CERTIFICATE", value_name = "FILE")]
    pub log_certificate: Option<PathBuf>,

    /// Private key of that certificate, in PEM.
    #[arg(long, env = "EVENKEEL_LOG_KEY", value_name = "FILE")]
    pub log_key: Option<PathBuf>,

    /// On how many nats-servers a log is kept.
    ///
    /// With fewer than 3 a lost nats-server may lose what was acknowledged, and
    /// nothing can be written while one is away. Logs that exist are never
    /// changed; those with fewer copies are refused.
    #[arg(
        long,
        env = "EVENKEEL_LOG_REPLICAS",
        value_name = "COUNT",
        default_value = "3",
        value_parser = clap::value_parser!(u8).range(1..=5)
    )]
    pub log_replicas: u8,
}

/// A log, its fleet and the way in which the log is kept.
#[derive(Debug, Clone)]
pub struct SharedLog {
    /// The nats-servers.
    pub access: Access,
    /// The servers that share the log.
    pub fleet: FleetName,
    /// The way in which the log is kept.
    pub keeping: Keeping,
}

impl ReplicationSettings {
    /// The shared log of the settings, if there is one.
    ///
    /// # Errors
    /// Settings that do not go together.
    pub fn shared_log(&self) -> Result<Option<SharedLog>, Conflict> {
        let fleet = match (&self.fleet, self.log.is_empty()) {
            (Some(fleet), false) => fleet.clone(),
            (None, false) => return Err(Conflict::LogWithoutFleet),
            (Some(_), true) => return Err(Conflict::WithoutLog("--fleet")),
            (None, true) => return self.nothing_else(),
        };
        let certificate = match (&self.log_certificate, &self.log_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(Conflict::HalfLogCertificate),
        };
        Ok(Some(SharedLog {
            access: Access {
                servers: self.log.clone(),
                credentials: self.log_credentials.clone(),
                ca: self.log_ca.clone(),
                certificate,
            },
            fleet,
            keeping: Keeping {
                replicas: usize::from(self.log_replicas),
            },
        }))
    }

    /// Checks that no setting of a log is set without a log, which was probably forgotten.
    fn nothing_else(&self) -> Result<Option<SharedLog>, Conflict> {
        let set = [
            ("--log-credentials", self.log_credentials.is_some()),
            ("--log-ca", self.log_ca.is_some()),
            ("--log-certificate", self.log_certificate.is_some()),
            ("--log-key", self.log_key.is_some()),
        ];
        match set.iter().find(|(_, is_set)| *is_set) {
            Some((flag, _)) => Err(Conflict::WithoutLog(flag)),
            None => Ok(None),
        }
    }
}

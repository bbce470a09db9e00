//! The settings of `evenkeel serve`: one definition each, for the flag, the
//! environment variable and the key of the TOML file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Arg;
use clap::builder::{NonEmptyStringValueParser, TypedValueParser};

use super::limits::LimitSettings;
use super::replication::ReplicationSettings;
use super::telemetry::{DecisionLogSettings, LogSettings, TraceSettings};
use crate::account::Freshness;
use crate::api;
use crate::limits::processors;
use crate::snapshot::named::MaxAges;
use crate::store::Durability;

/// The settings of `evenkeel serve`.
///
/// A flag wins over its environment variable (`EVENKEEL_` and the flag's
/// name), the variable over the key of the `--config` file (the flag's name,
/// in snake_case or kebab-case), the key over the default.
///
/// Durations are written as `500ms`, `30s` or `2m 30s`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "\
Settings: a flag wins over its environment variable, the variable over the key in the --config
file, the key over the default. Durations are written as 500ms, 30s or \"2m 30s\".

Exit codes:
  0        drained after SIGTERM or Ctrl-C
  1        cannot listen, cannot load a file, or cannot use the state directory
  64       bad configuration
  130 143  a second signal, Ctrl-C or SIGTERM, more than a second later cut the drain short

SIGHUP has the server look at its certificates and access rules at once.")]
#[command(mut_args(with_variable))]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one.
    ///
    /// `:50051` is all addresses of the machine, and a name such as
    /// `localhost:50051` is looked up. The bound address is logged as "listening". If it cannot be bound, the
    /// server exits with 1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051", value_parser = address)]
    pub listen: SocketAddr,

    /// TOML file with settings.
    ///
    /// Its keys are the names of these flags, in snake_case or kebab-case.
    /// Unknown keys are refused.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Load this file or directory of Kubernetes objects before becoming
    /// ready; repeatable.
    #[arg(long, value_name = "FILE")]
    pub load: Vec<PathBuf>,

    /// Snapshot to wait for before the server is healthy; repeatable.
    ///
    /// Until its first replace the snapshot answers no decisions. So a server
    /// that was restarted and is still empty never answers as if the cluster
    /// were empty. Separate several names in one value by commas.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new().try_map(|name| api::parse_snapshot_name(&name))
    )]
    pub expect_snapshot: Vec<String>,

    /// The state that survives a restart.
    #[command(flatten)]
    pub state: StateSettings,

    /// The log that several servers share.
    #[command(flatten)]
    pub replication: ReplicationSettings,

    /// TLS, tokens and access rules.
    #[command(flatten)]
    pub security: SecuritySettings,

    /// The limits of what clients can make grow.
    #[command(flatten)]
    pub limits: LimitSettings,

    /// When answers are not to be trusted.
    #[command(flatten)]
    pub trust: TrustSettings,

    /// Threads that serve connections.
    ///
    /// The default is one per processor. A connection stays on one thread, so
    /// a client that wants more than one should open several connections.
    #[arg(
        long,
        help_heading = "Connections",
        value_name = "COUNT",
        value_parser = count
    )]
    pub threads: Option<usize>,

    /// How the server stops.
    #[command(flatten)]
    pub drain: DrainSettings,

    /// Where decisions are logged.
    #[command(flatten)]
    pub decision_log: DecisionLogSettings,

    /// The settings of the log.
    #[command(flatten)]
    pub log: LogSettings,

    /// Address and port to serve metrics and probes on over HTTP; port 0
    /// takes a free one. Off by default.
    ///
    /// It answers /metrics, /livez and /readyz on its own thread, in plain HTTP
    /// and without authentication. It shows names and sizes of snapshots, never
    /// their contents. The bound address is logged as "admin listening".
    #[arg(
        long,
        help_heading = "Operation",
        value_name = "ADDRESS",
        value_parser = address
    )]
    pub admin_listen: Option<SocketAddr>,

    /// Traces of calls.
    #[command(flatten)]
    pub traces: TraceSettings,

    /// The settings that have no flag.
    #[arg(skip)]
    pub fixed: FixedSettings,
}

impl Config {
    /// Returns the number of threads that serve connections.
    pub fn threads(&self) -> usize {
        self.threads.unwrap_or_else(processors)
    }

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

/// Gives a flag of `serve` its environment variable, but for those about the content of loaded files,
/// which other commands have, too.
fn with_variable(flag: Arg) -> Arg {
    let is_of_files =
        ["default_constraints", "kubernetes_version"].contains(&flag.get_id().as_str());
    if is_of_files || flag.get_env().is_some() {
        return flag;
    }
    let name = format!("EVENKEEL_{}", flag.get_id().as_str().to_uppercase());
    flag.env(name)
}

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
    /// A log is given without the fleet that shares it.
    #[error("--log needs --fleet, the name of the servers that share the log")]
    LogWithoutFleet,
    /// A setting of a log is given without a log.
    #[error("{0} needs --log")]
    WithoutLog(&'static str),
    /// Only one of the certificate of a log and its key is given.
    #[error("--log-certificate and --log-key need each other: give both, or neither")]
    HalfLogCertificate,
}

/// The settings of a stop on SIGTERM or Ctrl-C. A second signal, more than a second later, exits at
/// once, with 143 or 130.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Stopping")]
pub struct DrainSettings {
    /// How long to continue answering after health is NOT_SERVING.
    ///
    /// It must be longer than the interval of the load balancer's checks, so
    /// that the balancer notices.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        value_parser = humantime::parse_duration
    )]
    pub drain_pause: Duration,

    /// How long to wait, after that, for calls under way.
    ///
    /// Streams end at once. Calls that take longer are cut off.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30s",
        value_parser = humantime::parse_duration
    )]
    pub drain_timeout: Duration,
}

/// The state that survives a restart.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "State")]
pub struct StateSettings {
    /// Directory for the state. Without one the state is only in memory.
    ///
    /// The server creates it if necessary, and reads the state before it
    /// serves. A directory belongs to one server at a time. If it is damaged
    /// or holds other files, the server refuses it and exits with 1. With --log
    /// the log keeps the state, and the directory is not used.
    #[arg(long, value_name = "DIRECTORY")]
    pub state_dir: Option<PathBuf>,

    /// What an acknowledged update survives, with --state-dir.
    ///
    /// none: a stop of the server; a killed process may lose the last second.
    /// relaxed: also a killed process, but no power cut. full: also a power
    /// cut, because an update is on the disk before it is acknowledged.
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Durability::Relaxed)]
    pub durability: Durability,
}

/// Encryption, client certificates and access.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Security")]
pub struct SecuritySettings {
    /// Certificate chain for TLS, in PEM, the server's own first.
    ///
    /// All files of this section are reloaded when they change. A bad file is
    /// logged, and the previous one stays in use.
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM (PKCS#8, PKCS#1 or SEC1).
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Authority of client certificates, in PEM.
    ///
    /// Clients must then present a certificate of it; see --tls-client-auth.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// Whether a client must have a certificate.
    ///
    /// With `optional` a client without a certificate may connect, with a token
    /// or with nothing. A client with a bad certificate may not.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ClientAuth::Required)]
    pub tls_client_auth: ClientAuth,

    /// Serve without TLS on an address that is not a loopback one.
    ///
    /// Use it behind a proxy or mesh that encrypts. Otherwise everybody in
    /// between can read and change what is sent.
    #[arg(long, value_parser = clap::builder::BoolishValueParser::new())]
    pub allow_plaintext: bool,

    /// TOML file with access rules: who may do what with which snapshots.
    ///
    /// Without one, everybody who can connect may do everything. `evenkeel
    /// token` makes tokens for it.
    #[arg(long, value_name = "FILE")]
    pub access_file: Option<PathBuf>,
}

/// The rule about the certificates of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClientAuth {
    /// It must.
    Required,
    /// It may.
    Optional,
}

/// The settings by which answers count as untrustworthy.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Trust")]
pub struct TrustSettings {
    /// How old a snapshot may get without a batch; repeatable.
    ///
    /// DURATION is for all snapshots, NAME=DURATION for one. `none` allows any
    /// age and is the default, but for snapshots of --kubernetes: those have 2
    /// minutes. An empty batch counts, so a feed with nothing
    /// to say sends one now and then. The health of an older snapshot is
    /// NOT_SERVING until its next batch, and answers carry its age. Separate
    /// several ages in one value by commas. Of two for the same snapshot the
    /// last one counts.
    #[arg(long, value_name = "[NAME=]DURATION", value_delimiter = ',')]
    pub max_age: Vec<MaxAge>,

    /// What to do with decisions on a snapshot that is too old.
    #[arg(long, value_name = "serve|refuse", value_enum, default_value_t)]
    pub stale: Stale,
}

/// A maximum age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxAge {
    /// The snapshot; `None` for all that are not named.
    snapshot: Option<String>,
    /// The maximum age; `None` for any age.
    age: Option<Duration>,
}

/// The treatment of decisions on a snapshot that is too old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Stale {
    /// They are answered.
    #[default]
    Serve,
    /// They are refused with FAILED_PRECONDITION.
    Refuse,
}

impl FromStr for MaxAge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (snapshot, age) = match text.split_once('=') {
            None => (None, text),
            Some((name, age)) => {
                let name = api::parse_snapshot_name(name).map_err(|faults| faults.to_string())?;
                (Some(name), age)
            }
        };
        let age = match age {
            "none" => None,
            age => Some(positive_duration(age)?),
        };
        Ok(Self { snapshot, age })
    }
}

impl TrustSettings {
    /// Gives a snapshot a maximum age where the settings say nothing about it.
    pub(crate) fn default_max_age(&mut self, snapshot: &str, age: Duration) {
        let is_about = |it: &MaxAge| it.snapshot.as_deref().is_none_or(|name| name == snapshot);
        if !self.max_age.iter().any(is_about) {
            self.max_age.push(MaxAge {
                snapshot: Some(snapshot.to_owned()),
                age: Some(age),
            });
        }
    }
}

impl From<&TrustSettings> for MaxAges {
    fn from(settings: &TrustSettings) -> Self {
        let mut ages = Self {
            refuse: settings.stale == Stale::Refuse,
            ..Self::default()
        };
        for MaxAge { snapshot, age } in &settings.max_age {
            match snapshot {
                None => ages.default = *age,
                Some(name) => {
                    ages.by_name.insert(name.clone(), *age);
                }
            }
        }
        ages
    }
}

/// Settings that have no flag: no cluster and no machine needs other values. A program that embeds
/// the server may set others.
#[derive(Debug, Clone)]
pub struct FixedSettings {
    /// The time that a request may take to arrive. For a stream: its first message, and then each
    /// message from its first byte to its last. A reflection stream that is silent for so long is
    /// ended; a feed may be silent.
    ///
    /// A message of 64 MiB arrives in it at 18 Mbit/s.
    pub receive_timeout: Duration,
    /// The time for which a client may read on in none of its answers. After that its connection is
    /// closed, because HTTP/2 has no milder way to take an answer back. At the latest it reads on
    /// when it has read 256 KiB of an answer.
    ///
    /// A client that stops for garbage collection or in a debugger reads on within it.
    pub send_timeout: Duration,
    /// The time that a client may take for the TLS handshake, and again for the HTTP/2 preface.
    ///
    /// Each is two round trips.
    pub handshake_timeout: Duration,
    /// The time for which a connection is silent before it is pinged.
    ///
    /// Load balancers drop connections that are idle for a minute or more.
    pub keepalive_interval: Duration,
    /// The time that a client may take to answer a ping before its connection is closed.
    pub keepalive_timeout: Duration,
    /// The time after which views that were not used are dropped, because every change of their
    /// pods and nodes has to update them.
    ///
    /// Workloads that are deployed now and then find theirs again.
    pub view_idle: Duration,
    /// The time between two checks for changes of certificates, keys and access rules.
    ///
    /// A check reads some small files.
    pub reload_interval: Duration,
    /// The number of snapshots with their own label in the metrics: the expected ones, then the
    /// largest. The others share the label "(others)".
    ///
    /// A scrape of so many has some 1,500 lines.
    pub metrics_snapshots: usize,
    /// Returns the bytes that the allocator of the process has given out. Without it only the limits
    /// by number hold.
    ///
    /// The program sets it, because it chooses the allocator.
    pub memory_in_use: Option<fn(Freshness) -> usize>,
    /// The size of a file of the decision log at which a new one begins.
    ///
    /// Editors and `grep` read such a file.
    pub decision_log_bytes: usize,
    /// The number of files of the decision log that are kept, with the current one.
    ///
    /// Together they take half a gigabyte.
    pub decision_log_files: usize,
}

impl Default for FixedSettings {
    fn default() -> Self {
        Self {
            receive_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            view_idle: Duration::from_secs(600),
            reload_interval: Duration::from_secs(5),
            metrics_snapshots: 50,
            memory_in_use: None,
            decision_log_bytes: 100 << 20,
            decision_log_files: 5,
        }
    }
}

/// A whole number from 1. Upper bounds come from `tokio`'s semaphores.
pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(count) if (1..=tokio::sync::Semaphore::MAX_PERMITS).contains(&count) => Ok(count),
        _ => Err("expected a whole number from 1"),
    }
}

/// An address with a port, such as 10.0.0.1:50051. A name is looked up, where IPv4 comes first;
/// nothing before the port stands for all addresses of the machine.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let expected =
        "expected an address and a port, such as 127.0.0.1:50051, localhost:50051 or :50051";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let port: u16 = port.parse().map_err(|_| expected)?;
    if host.is_empty() {
        let has_ipv6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
        let all: IpAddr = match has_ipv6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        return Ok(SocketAddr::new(all, port));
    }
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| format!("{expected}: {error}"))?;
    let first = found.min_by_key(SocketAddr::is_ipv6);
    first.ok_or_else(|| format!("{host} has no address"))
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("expected a duration above zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

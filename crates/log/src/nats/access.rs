//! The addresses of the nats-servers of a fleet, and the errors of connecting to them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use parking_lot::Mutex;

use crate::Error;
use crate::backoff::Backoff;
use crate::visible::{self, causes};

/// The longest time that a request may take. A new leader may take up to 9 seconds, but it never
/// answers a request that the dead leader got. So a longer wait gains nothing.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest time that it may take to connect to one server.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which a silent connection is pinged. The third ping without an answer ends the
/// connection.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The shortest pause between attempts to connect again.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The addresses of the nats-servers, and the credentials to connect with.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Addresses: `nats://host:port`, or `tls://host:port` for TLS. One server that can be reached
    /// is enough: it names the others.
    pub servers: Vec<String>,
    /// A credentials file of NATS, or a file with the seed of an nkey.
    pub credentials: Option<PathBuf>,
    /// Authorities of the servers' certificates, in PEM; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate to present and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An address is not valid.
    #[error("{0:?} is no address of a nats-server: {1}")]
    BadAddress(String, String),
    /// A file cannot be read, or its content is wrong.
    #[error("{0}: {1}")]
    BadFile(String, String),
    /// A server is too old.
    #[error(
        "the nats-server {} has version \"{}\"; {oldest} or later is needed",
        visible::brief(server),
        visible::brief(version)
    )]
    TooOld {
        /// The name of the server.
        server: String,
        /// Its version.
        version: String,
        /// The oldest version that is accepted.
        oldest: String,
    },
    /// A server takes only messages that are too small for a record.
    #[error(
        "the nats-server {} takes messages of at most {most} bytes; set its max_payload to {needed} or more",
        visible::brief(server)
    )]
    SmallPayload {
        /// The name of the server.
        server: String,
        /// The bytes of its largest message.
        most: usize,
        /// The bytes that are needed.
        needed: usize,
    },
    /// A server does not speak TLS, which its address asks for.
    #[error("{0} speaks no TLS: use nats:// for it, or give that nats-server a certificate")]
    PlainPort(String),
    /// A server runs without JetStream, or has turned it off for now: its disk may be full.
    #[error("the nats-server {} runs without JetStream", visible::brief(.0))]
    NoJetStream(String),
    /// The servers refuse the credentials.
    #[error("the nats-servers refuse the credentials: {}", visible::brief(.0))]
    Refused(String),
    /// A stream of the fleet cannot be used as it is.
    #[error("{}", visible::brief(.0))]
    BadStream(String),
    /// Nothing is kept for a fleet that may not be made.
    #[error("no fleet {fleet} is kept on these nats-servers{}", known(others))]
    NoFleet {
        /// The name of the fleet.
        fleet: String,
        /// The names of the fleets that are kept there.
        others: String,
    },
    /// No server can be reached, or not yet.
    #[error("no nats-server can be reached: {}", visible::brief(.0))]
    Unreachable(String),
}

fn known(others: &str) -> String {
    match others.is_empty() {
        true => String::new(),
        false => format!("; there is {}", visible::brief(others)),
    }
}

impl ConnectError {
    /// Returns whether trying again may help.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::NoJetStream(_) | Self::Unreachable(_))
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(text) | Error::Full(text) => Self::BadStream(text),
            error => Self::Unreachable(error.to_string()),
        }
    }
}

impl Access {
    /// The addresses of the servers.
    pub(super) fn addresses(&self) -> Result<Vec<ServerAddr>, ConnectError> {
        let parse = |server: &String| {
            let bad = |error: &str| ConnectError::BadAddress(server.clone(), error.to_owned());
            let address: ServerAddr = server.parse().map_err(|error| bad(&causes(&error)))?;
            match address.scheme() {
                "nats" | "tls" => Ok(address),
                _ => Err(bad("it must begin with nats:// or tls://")),
            }
        };
        self.servers.iter().map(parse).collect()
    }

    pub(super) async fn options(&self) -> Result<ConnectOptions, ConnectError> {
        let pauses = Mutex::new(Backoff::new(MIN_PAUSE, MAX_PAUSE));
        let mut options = ConnectOptions::new()
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(REQUEST_TIMEOUT))
            .ping_interval(PING_INTERVAL)
            // The pauses follow time, not the number of attempts: that number begins anew with each
            // connection, however soon it ends.
            .reconnect_delay_callback(move |_| pauses.lock().before_attempt());
        if let Some(path) = &self.credentials {
            options = with_credentials(options, path).await?;
        }
        if let Some(ca) = &self.ca {
            check_readable(ca).await?;
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &self.certificate {
            check_readable(certificate).await?;
            check_readable(key).await?;
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        Ok(options)
    }

    /// Returns the name of a server if it has ceased to keep streams. A server tells that only to
    /// new connections.
    pub(super) async fn ask(&self, server: String) -> Option<String> {
        let client = self.options().await.ok()?.connect(server).await.ok()?;
        let info = client.server_info();
        (!info.jetstream).then_some(info.server_name)
    }
}

/// Takes credentials of either kind: a file of NATS with a token and a seed, or a
/// seed alone.
async fn with_credentials(
    options: ConnectOptions,
    path: &Path,
) -> Result<ConnectOptions, ConnectError> {
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| bad_file(path, error))?;
    if text.contains("BEGIN NATS USER JWT") {
        let options = options.credentials(&text);
        return options.map_err(|error| bad_file(path, error));
    }
    let seed = text.trim();
    if seed.starts_with("SU") && seed.bytes().all(|c| c.is_ascii_alphanumeric()) {
        Ok(options.nkey(seed.to_owned()))
    } else {
        let expected = "expected credentials of NATS, or the seed of an nkey of a user";
        Err(bad_file(path, expected))
    }
}

/// Checks that a file can be opened, so that the error names a file that cannot.
async fn check_readable(path: &Path) -> Result<(), ConnectError> {
    let opened = tokio::fs::File::open(path).await;
    opened.map(drop).map_err(|error| bad_file(path, error))
}

fn bad_file(path: &Path, why: impl ToString) -> ConnectError {
    ConnectError::BadFile(path.display().to_string(), why.to_string())
}

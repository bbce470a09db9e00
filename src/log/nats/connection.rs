//! A connection to the nats-servers of a fleet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr, jetstream};
use parking_lot::Mutex;
use tracing::{info, warn};

use super::version::{self, TooOld};
use crate::backoff::Backoff;
use crate::log::Error;

/// How long a request may take. A leader that dies costs up to 9 seconds, but a
/// request that it got is never answered, so nothing is won by waiting longer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a silent connection is asked for a sign of life. The third question
/// without an answer ends it.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The shortest pause between attempts to connect again.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Where the nats-servers are, and how to prove who connects.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Addresses: `nats://host:port`, or `tls://host:port` for TLS. One that can be
    /// reached is enough, it tells the others.
    pub servers: Vec<String>,
    /// A credentials file of NATS, or a file with the seed of an nkey.
    pub credentials: Option<PathBuf>,
    /// Authorities of the servers' certificates, in PEM; without it those of
    /// the system.
    pub ca: Option<PathBuf>,
    /// The certificate to present and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An address cannot be right.
    #[error("{0:?} is no address of a nats-server: {1}")]
    BadAddress(String, String),
    /// A file cannot be read, or holds something else.
    #[error("{0}: {1}")]
    BadFile(String, String),
    /// A server is too old.
    #[error(transparent)]
    TooOld(#[from] TooOld),
    /// A server keeps no streams.
    #[error("the nats-server {0} runs without JetStream")]
    NoJetStream(String),
    /// The servers know nobody with these credentials.
    #[error("the nats-servers refuse the credentials: {0}")]
    Refused(String),
    /// A stream of the fleet is not as needed.
    #[error("{0}")]
    BadStream(String),
    /// No server can be reached, or not yet.
    #[error("no nats-server can be reached: {0}")]
    Unreachable(String),
}

impl ConnectError {
    /// Whether trying again may help.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable(_))
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
    /// Whether connections are encrypted for sure.
    pub(super) fn uses_tls(&self) -> bool {
        self.ca.is_some()
            || self.certificate.is_some()
            || self.servers.iter().any(|it| it.starts_with("tls://"))
    }
}

/// A connection, which renews itself for ever.
#[derive(Clone)]
pub(super) struct Connection {
    /// To send requests.
    pub client: Client,
    /// To ask for streams.
    pub streams: jetstream::Context,
}

impl Connection {
    /// Connects once. `name` is what the servers list the connection as.
    pub(super) async fn open(access: &Access, name: &str) -> Result<Self, ConnectError> {
        Self::open_by(options(access, name).await?, access).await
    }

    /// Connects once, to these servers and to no others of which they tell.
    pub(super) async fn open_alone(access: &Access, name: &str) -> Result<Self, ConnectError> {
        let options = options(access, name).await?.ignore_discovered_servers();
        Self::open_by(options, access).await
    }

    async fn open_by(options: ConnectOptions, access: &Access) -> Result<Self, ConnectError> {
        let servers = addresses(&access.servers)?;
        let client = options.connect(servers).await.map_err(|error| {
            let text = chain(&error);
            match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    ConnectError::Refused(text)
                }
                _ => ConnectError::Unreachable(text),
            }
        })?;
        let streams = jetstream::context::ContextBuilder::new()
            .timeout(REQUEST_TIMEOUT)
            .build(client.clone());
        let connection = Self { client, streams };
        connection.check_version()?;
        let server = connection.client.server_info();
        if !server.jetstream {
            return Err(ConnectError::NoJetStream(server.server_name));
        }
        info!(server = %server.server_name, version = %server.version, "connected to the log");
        Ok(connection)
    }

    /// Checks the version of the server that is connected at present.
    pub(super) fn check_version(&self) -> Result<(), TooOld> {
        let server = self.client.server_info();
        version::check(&server.server_name, &server.version)
    }

    /// The id of the server that is connected at present: another one whenever it is
    /// started.
    pub(super) fn server_id(&self) -> String {
        self.client.server_info().server_id
    }

    /// Whether a server is connected at present.
    pub(super) fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }
}

fn addresses(servers: &[String]) -> Result<Vec<ServerAddr>, ConnectError> {
    let parse = |server: &String| {
        let bad = |error: &str| ConnectError::BadAddress(server.clone(), error.to_owned());
        let address: ServerAddr = server.parse().map_err(|error| bad(&chain(&error)))?;
        match address.scheme() {
            "nats" | "tls" => Ok(address),
            _ => Err(bad("it must begin with nats:// or tls://")),
        }
    };
    servers.iter().map(parse).collect()
}

async fn options(access: &Access, name: &str) -> Result<ConnectOptions, ConnectError> {
    let pauses = Mutex::new(Backoff::new(MIN_PAUSE, MAX_PAUSE));
    let mut options = ConnectOptions::new()
        .name(name)
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(PING_INTERVAL)
        // By time, not by attempts: those begin anew with each connection, however soon it
        // ends.
        .reconnect_delay_callback(move |_| pauses.lock().before_attempt())
        .event_callback(|event| async move { tell(&event) });
    if let Some(path) = &access.credentials {
        options = with_credentials(options, path).await?;
    }
    if let Some(path) = &access.ca {
        options = options.add_root_certificates(readable(path).await?);
    }
    if let Some((certificate, key)) = &access.certificate {
        options =
            options.add_client_certificate(readable(certificate).await?, readable(key).await?);
    }
    Ok(options)
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

/// A file that can be read, so that one that is missing is told by its name.
async fn readable(path: &Path) -> Result<PathBuf, ConnectError> {
    let found = tokio::fs::metadata(path).await;
    found.map_err(|error| bad_file(path, error))?;
    Ok(path.to_owned())
}

fn bad_file(path: &Path, why: impl ToString) -> ConnectError {
    ConnectError::BadFile(path.display().to_string(), why.to_string())
}

fn tell(event: &Event) {
    match event {
        Event::Connected => info!("the connection to the log is up"),
        Event::Disconnected => warn!("the connection to the log is lost"),
        Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
            warn!(%event, "the connection to the log reports a fault");
        }
        Event::LameDuckMode | Event::Draining | Event::Closed => {
            info!(%event, "the connection to the log is changing");
        }
    }
}

/// An error with what caused it, in a line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}

/// The error of a request that did not get through.
pub(super) fn unreachable(error: impl std::error::Error) -> Error {
    Error::Unreachable(chain(&error))
}

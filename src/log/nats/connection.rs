//! A connection to the nats-servers of a fleet.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ClientError, ConnectErrorKind, ConnectOptions, Event, ServerError, jetstream,
};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::{info, warn};

use super::access::{Access, ConnectError};
use super::relay::Relay;
use super::version::{self, TooOld};
use crate::backoff::Backoff;
use crate::log::Error;
use crate::visible::causes;

/// The longest time that a request may take. A new leader may take up to 9 seconds, but it never
/// answers a request that the dead leader got. So a longer wait gains nothing.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The number of requests for something that was just made, and the pauses between them: some
/// nats-servers may not know it yet.
const TRIES: u32 = 10;
const SHORTEST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_millis(100);

/// The longest time that the client waits for a connection. The relay has shorter limits of its
/// own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

/// The time after which a silent connection is pinged. The third ping without an answer ends the
/// connection.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The number of messages that may wait for the reader of a subscription. A nats-server may send
/// more messages than requested, of up to 2 MiB each. Messages that find no room are dropped.
const SUBSCRIPTION_MESSAGES: usize = 64;

/// The number of messages that may be asked for at a time. When half of them have come, as many
/// again are requested. Status messages of the request need room, too.
pub(super) const REQUEST_MESSAGES: usize = SUBSCRIPTION_MESSAGES / 2;

/// The shortest pause between attempts to connect again.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between attempts to connect again.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A connection that connects again for ever when it is lost.
#[derive(Clone)]
pub(super) struct Connection {
    /// The client that sends requests.
    pub client: Client,
    /// The client that asks for streams.
    pub streams: jetstream::Context,
    /// The way to the nats-servers.
    pub relay: Arc<Relay>,
}

impl Connection {
    /// Connects once, to one of these servers or of those that they announce. The servers list the
    /// connection as `name`.
    pub(super) async fn open(access: &Access, name: &str) -> Result<Self, ConnectError> {
        let relay = Relay::start(access, name).await?;
        let options = options(access, &relay).await?;
        let client = options.connect(relay.address()).await.map_err(|error| {
            let said = causes(&error);
            match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                    ConnectError::Refused(said)
                }
                _ if is_of_server(&error) => ConnectError::Unreachable(said),
                // The client sees only that the relay hangs up. The relay knows the cause.
                _ => ConnectError::Unreachable(relay.fault().unwrap_or(said)),
            }
        })?;
        let streams = jetstream::context::ContextBuilder::new()
            .timeout(REQUEST_TIMEOUT)
            .build(client.clone());
        let relay = Arc::new(relay);
        let connection = Self {
            client,
            streams,
            relay,
        };
        connection.check_version()?;
        let server = connection.client.server_info();
        if !server.jetstream {
            return Err(ConnectError::NoJetStream(server.server_name));
        }
        connection.relay.note_open();
        info!(server = %server.server_name, version = %server.version, "connected to the log");
        Ok(connection)
    }

    /// Checks the version of the server that is connected at present.
    pub(super) fn check_version(&self) -> Result<(), TooOld> {
        let server = self.client.server_info();
        version::check(&server.server_name, &server.version)
    }

    /// Returns how often a server was connected to.
    pub(super) fn number(&self) -> u64 {
        let statistics = self.client.statistics();
        statistics.connects.load(Ordering::Relaxed)
    }

    /// The error of a request that got no answer: there is no connection, or else this cause.
    pub(super) fn unanswered(&self, cause: impl std::error::Error) -> Error {
        self.check_up().err().unwrap_or_else(|| unreachable(cause))
    }

    /// Checks that a server is connected at present.
    pub(super) fn check_up(&self) -> Result<(), Error> {
        if self.client.connection_state() == State::Connected {
            return Ok(());
        }
        let fault = self.relay.fault();
        let why = fault.map_or(String::new(), |fault| format!(": {fault}"));
        Err(Error::Unreachable(format!(
            "no nats-server is connected{why}"
        )))
    }
}

/// The attempts to reach something that not all nats-servers may know yet.
pub(super) struct Retries {
    tries: u32,
    pauses: Backoff,
}

impl Retries {
    pub(super) fn new() -> Self {
        Self {
            tries: 1,
            pauses: Backoff::new(SHORTEST_RETRY, LONGEST_RETRY),
        }
    }

    /// Waits before another attempt; returns false when there were enough.
    pub(super) async fn again(&mut self) -> bool {
        if self.tries == TRIES {
            return false;
        }
        self.tries += 1;
        sleep(self.pauses.after_failure()).await;
        true
    }
}

async fn options(access: &Access, relay: &Relay) -> Result<ConnectOptions, ConnectError> {
    let pauses = Mutex::new(Backoff::new(MIN_PAUSE, MAX_PAUSE));
    let mut options = ConnectOptions::new()
        // The relay expects its secret here, and puts the real name in its place.
        .name(relay.secret())
        .ignore_discovered_servers()
        .subscription_capacity(SUBSCRIPTION_MESSAGES)
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(PING_INTERVAL)
        // The pauses follow time, not the number of attempts: that number begins anew with each
        // connection, however soon it ends.
        .reconnect_delay_callback(move |_| pauses.lock().before_attempt())
        .event_callback(|event| async move { tell(&event) });
    if let Some(path) = &access.credentials {
        options = with_credentials(options, path).await?;
    }
    // The relay reads these files; here they are only looked for.
    let certificate = access.certificate.iter().flat_map(|(own, key)| [own, key]);
    for path in access.ca.iter().chain(certificate) {
        check_readable(path).await?;
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

/// Checks that a file can be opened, so that the error names a file that cannot.
async fn check_readable(path: &Path) -> Result<(), ConnectError> {
    let opened = tokio::fs::File::open(path).await;
    opened.map(drop).map_err(|error| bad_file(path, error))
}

fn bad_file(path: &Path, why: impl ToString) -> ConnectError {
    ConnectError::BadFile(path.display().to_string(), why.to_string())
}

/// Returns whether a nats-server itself reported the error.
fn is_of_server(error: &async_nats::ConnectError) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.is::<ServerError>())
}

fn tell(event: &Event) {
    match event {
        Event::Connected => info!("the connection to the log is up"),
        Event::Disconnected => warn!("the connection to the log is lost"),
        // The relay has logged the cause.
        Event::ClientError(ClientError::Other(_)) => {}
        Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
            warn!(%event, "the connection to the log reports a fault");
        }
        Event::LameDuckMode | Event::Draining | Event::Closed => {
            info!(%event, "the connection to the log is changing");
        }
    }
}

/// The error of a request that did not get through.
pub(super) fn unreachable(error: impl std::error::Error) -> Error {
    Error::Unreachable(causes(&error))
}

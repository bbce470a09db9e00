//! A connection to the nats-servers of a fleet, and whether these cannot be reached because their disks
//! are full.
//!
//! A nats-server whose disk is full shuts down JetStream. It says so in its own log, and to new
//! connections. Clients that are connected already get no answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ClientError, ConnectErrorKind, ConnectOptions, Event, Request, ServerAddr, ServerError,
    jetstream,
};
use futures::future::join_all;
use parking_lot::Mutex;
use prost::bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::access::{Access, CONNECT_TIMEOUT, ConnectError, REQUEST_TIMEOUT};
use crate::Error;
use crate::record::MAX_BYTES;
use crate::visible::{self, causes};

/// The oldest version that is accepted. Some earlier versions let several writers win one
/// compare-and-append (nats-server #4320).
const OLDEST: [i64; 3] = [2, 15, 0];

/// The bytes that a nats-server has to take as one message: a record with its headers.
const MIN_PAYLOAD: usize = MAX_BYTES + 1_024;

/// The time for which a refused permission is told after the last attempt.
const DENIED: Duration = Duration::from_secs(300);

/// The longest INFO line in bytes that is read to find out why TLS does not begin.
const MAX_INFO_BYTES: u64 = 64 << 10;

/// A connection that connects again for ever when it is lost.
#[derive(Clone)]
pub(super) struct Connection {
    /// The client that sends requests.
    pub client: Client,
    /// The client that asks for streams.
    pub streams: jetstream::Context,
    /// The client that asks for lists of streams. The nats-servers wait up to 4 seconds for leaders
    /// that do not answer.
    pub lists: jetstream::Context,
    notices: Arc<ServerNotices>,
}

/// What the nats-servers have told the client.
#[derive(Default)]
struct ServerNotices {
    /// The reasons why no server is connected, as of the last attempts.
    fault: Mutex<Option<String>>,
    /// The words with which a permission was refused, and when.
    denied: watch::Sender<BTreeMap<String, Instant>>,
}

impl Connection {
    /// Connects once, to one of these servers. The servers list the connection as `name`.
    pub(super) async fn open(access: &Access, name: &str) -> Result<Self, ConnectError> {
        let notices = Arc::<ServerNotices>::default();
        let options = access.options().await?.name(name);
        let options = notices.listen(options);
        let servers = access.addresses()?;
        let connected = options.connect(&servers[..]).await;
        let client = match connected {
            Ok(client) => client,
            Err(error) => return Err(refused(&error, &servers).await),
        };
        let context = |timeout| {
            let builder = jetstream::context::ContextBuilder::new();
            builder.timeout(timeout).build(client.clone())
        };
        let (streams, lists) = (context(REQUEST_TIMEOUT), context(2 * REQUEST_TIMEOUT));
        let connection = Self {
            client,
            streams,
            lists,
            notices,
        };
        connection.check_server()?;
        let server = connection.client.server_info();
        info!(server = %server.server_name, version = %server.version, "connected to the log");
        Ok(connection)
    }

    /// Checks the version of the server that is connected, the messages that it takes, and that it
    /// keeps streams.
    fn check_server(&self) -> Result<(), ConnectError> {
        let server = self.client.server_info();
        let [major, minor, patch] = OLDEST;
        if !self.client.is_server_compatible(major, minor, patch) {
            return Err(ConnectError::TooOld {
                server: server.server_name,
                version: server.version,
                oldest: format!("{major}.{minor}.{patch}"),
            });
        }
        if server.max_payload < MIN_PAYLOAD {
            return Err(ConnectError::SmallPayload {
                server: server.server_name,
                most: server.max_payload,
                needed: MIN_PAYLOAD,
            });
        }
        match server.jetstream {
            true => Ok(()),
            false => Err(ConnectError::NoJetStream(server.server_name)),
        }
    }

    /// Returns how often a server was connected to.
    pub(super) fn number(&self) -> u64 {
        let statistics = self.client.statistics();
        statistics.connects.load(Ordering::Relaxed)
    }

    /// The addresses of the servers: those that are given, and those that the server announces.
    pub(super) fn servers(&self, access: &Access) -> Vec<String> {
        let announced = self.client.server_info().connect_urls;
        access.servers.iter().cloned().chain(announced).collect()
    }

    /// The error of a request that got no answer: a permission is missing, there is no connection,
    /// or else this cause.
    pub(super) fn unanswered(&self, cause: impl std::error::Error) -> Error {
        let denied = self.notices.denied.borrow();
        let denied = denied
            .iter()
            .find(|(_, at)| at.elapsed() < 2 * REQUEST_TIMEOUT);
        if let Some((text, _)) = denied {
            return Error::Refused(text.clone());
        }
        self.check_up().err().unwrap_or_else(|| unreachable(cause))
    }

    /// Returns once the servers refuse the permission to publish to a subject.
    pub(super) async fn denies(&self, subject: &str) -> Error {
        let begun = Instant::now();
        let mut changes = self.notices.denied.subscribe();
        let quoted = format!("{subject:?}");
        loop {
            let found = {
                let denied = changes.borrow_and_update();
                let mut late = denied.iter().filter(|(_, at)| **at >= begun);
                late.find(|(text, _)| text.contains(&quoted))
                    .map(|(text, _)| text.clone())
            };
            if let Some(text) = found {
                return Error::Refused(text);
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Checks that this connection may publish to a subject that no stream has.
    pub(super) async fn check_permission(&self, subject: &str) -> Result<(), Error> {
        let request = Request::new().payload(Bytes::new());
        select! {
            // Nobody answers.
            _ = self.client.send_request(subject.to_owned(), request) => Ok(()),
            denied = self.denies(subject) => Err(denied),
        }
    }

    /// Returns the permissions that were refused lately, in words for people.
    pub(super) fn denied(&self) -> Vec<String> {
        let denied = self.notices.denied.borrow();
        let late = denied.iter().filter(|(_, at)| at.elapsed() < DENIED);
        late.map(|(text, _)| text.clone()).collect()
    }

    /// Checks that a server is connected at present.
    pub(super) fn check_up(&self) -> Result<(), Error> {
        if self.client.connection_state() == State::Connected {
            return Ok(());
        }
        let fault = self.notices.fault.lock().clone();
        let why = fault.map_or(String::new(), |fault| format!(": {fault}"));
        Err(Error::Unreachable(format!(
            "no nats-server is connected{why}"
        )))
    }
}

impl ServerNotices {
    /// Listens to what servers tell the client.
    fn listen(self: &Arc<Self>, options: ConnectOptions) -> ConnectOptions {
        let (notices, attempts) = (Arc::clone(self), Arc::clone(self));
        options
            .event_callback(move |event| {
                notices.note(&event);
                async {}
            })
            // The client tells the faults of former attempts only to those who select a server;
            // `None` leaves the selection to it.
            .reconnect_to_server_callback(move |servers, _| {
                attempts.note_faults(&servers);
                async { None }
            })
    }

    fn note_faults(&self, servers: &[async_nats::Server]) {
        let faults = servers.iter().filter_map(|server| {
            let error = visible::brief(server.last_error.as_deref()?);
            Some(format!(
                "{}:{}: {error}",
                server.addr.host(),
                server.addr.port()
            ))
        });
        let faults: Vec<_> = faults.collect();
        if faults.is_empty() {
            return;
        }
        let faults = faults.join(", ");
        let is_new = self.fault.lock().replace(faults.clone()).as_ref() != Some(&faults);
        if is_new {
            warn!(faults, "no nats-server is connected");
        }
    }

    fn note(&self, event: &Event) {
        match event {
            Event::Connected => {
                *self.fault.lock() = None;
                info!("the connection to the log is up");
            }
            Event::Disconnected => warn!("the connection to the log is lost"),
            Event::ServerError(ServerError::Other(text))
                if text.contains("ermissions Violation") =>
            {
                let text = format!("the nats-servers refuse: {}", visible::brief(text));
                warn!("{text}");
                self.denied.send_modify(|denied| {
                    denied.retain(|_, at| at.elapsed() < DENIED);
                    denied.insert(text, Instant::now());
                });
            }
            // `note_faults` tells the cause.
            Event::ClientError(ClientError::Other(_)) => {}
            Event::SlowConsumer(_) | Event::ServerError(_) | Event::ClientError(_) => {
                warn!(%event, "the connection to the log reports a fault");
            }
            Event::LameDuckMode | Event::Draining | Event::Closed => {
                info!(%event, "the connection to the log is changing");
            }
        }
    }
}

/// The reason why no server was connected to.
async fn refused(error: &async_nats::ConnectError, servers: &[ServerAddr]) -> ConnectError {
    if matches!(
        error.kind(),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation
    ) {
        return ConnectError::Refused(causes(error));
    }
    for server in servers.iter().filter(|server| server.tls_required()) {
        if let Ok(Some(true)) = timeout(CONNECT_TIMEOUT, is_plain(server)).await {
            let address = format!("{}:{}", server.host(), server.port());
            return ConnectError::PlainPort(address);
        }
    }
    ConnectError::Unreachable(causes(error))
}

/// Returns whether a server speaks the protocol of NATS without TLS; `None` if it cannot be asked.
async fn is_plain(server: &ServerAddr) -> Option<bool> {
    let stream = TcpStream::connect((server.host(), server.port()))
        .await
        .ok()?;
    let mut line = String::new();
    let mut bounded = BufReader::new(stream).take(MAX_INFO_BYTES);
    bounded.read_line(&mut line).await.ok()?;
    let info: serde_json::Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
    Some(info["tls_required"] != true && info["tls_available"] != true)
}

/// The error of a request that did not get through.
pub(super) fn unreachable(error: impl std::error::Error) -> Error {
    Error::Unreachable(causes(&error))
}

/// The time for which an answer of the servers stays valid: many callers may want it at once.
const COUNTS: Duration = Duration::from_secs(1);

/// The longest wait until a server says whether it keeps streams.
const ASKING: Duration = Duration::from_secs(1);

/// The knowledge of nats-servers that have ceased to keep streams.
pub(super) struct Fullness {
    access: Access,
    connection: Connection,
    /// The number of servers that keep a stream.
    replicas: usize,
    asked: tokio::sync::Mutex<Option<(Instant, BTreeSet<String>)>>,
}

impl Fullness {
    pub(super) fn new(access: Access, connection: Connection, replicas: usize) -> Self {
        Self {
            access,
            connection,
            replicas: replicas.max(1),
            asked: Default::default(),
        }
    }

    /// Turns [`Error::Unreachable`] into [`Error::Full`] if most of the servers that keep a stream
    /// have shut down JetStream. A connection to one of these servers is given up.
    pub(super) async fn explain(&self, error: Error) -> Error {
        let Error::Unreachable(why) = error else {
            return error;
        };
        let off = self.without_streams().await;
        match 2 * off.len() > self.replicas {
            true => {
                let names: Vec<_> = off.into_iter().collect();
                let names = names.join(", ");
                Error::Full(format!(
                    "the nats-servers {names} have shut down JetStream, as they do when their disks are full"
                ))
            }
            false => {
                if off.contains(&self.connection.client.server_info().server_name) {
                    // This fails only if the client has ended.
                    let _ = self.connection.client.force_reconnect().await;
                }
                Error::Unreachable(why)
            }
        }
    }

    /// The names of the servers that have ceased to keep streams.
    async fn without_streams(&self) -> BTreeSet<String> {
        let mut asked = self.asked.lock().await;
        if let Some((at, off)) = &*asked
            && at.elapsed() < COUNTS
        {
            return off.clone();
        }
        let servers = self.connection.servers(&self.access);
        let ask = |server: String| timeout(ASKING, self.access.ask(server));
        let told = join_all(servers.into_iter().map(ask)).await;
        let off: BTreeSet<_> = told.into_iter().flatten().flatten().collect();
        *asked = Some((Instant::now(), off.clone()));
        off
    }
}

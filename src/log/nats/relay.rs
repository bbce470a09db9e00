//! A relay in this process between the client of NATS and the nats-servers. It bounds what the
//! servers send, because the client takes lines and messages of any size.
//!
//! The client can connect only to an address, so the relay listens on the loopback interface. TLS
//! to the nats-servers begins and ends here. Anybody else who connects to the relay gets the INFO
//! of a nats-server, and nothing that they send is passed on: the client has to give a secret as
//! its name.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::ServerAddr;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy, split};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use uuid::Uuid;

use super::access::{Access, ConnectError};
use super::framing::{Breach, Framing};
use super::upstreams::{CONNECT_TIMEOUT, Duplex, LinkError, Upstream, Upstreams, read_line};
use crate::tasks::{self, OwnedTask};
use crate::visible;

/// The longest CONNECT of a client in bytes: it contains a token.
const MAX_CONNECT_BYTES: usize = 64 << 10;

/// The pause after a connection was not accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// A relay, which ends when this is dropped. Connections through it end with the client.
pub(super) struct Relay {
    shared: Arc<RelayState>,
    address: SocketAddr,
    _accepting: OwnedTask<()>,
}

struct RelayState {
    upstreams: Upstreams,
    /// The secret that lets the client through.
    secret: String,
    /// The name of the connection in the lists of the nats-servers.
    name: String,
    /// True if there was a connection. Before that, the caller that connects gets the fault and
    /// reports it.
    was_open: AtomicBool,
    /// The reason why there is no connection to a nats-server.
    fault: Mutex<Option<String>>,
}

impl Relay {
    /// Starts a relay to these nats-servers and to those that they announce.
    pub(super) async fn start(access: &Access, name: &str) -> Result<Self, ConnectError> {
        let shared = Arc::new(RelayState {
            upstreams: Upstreams::new(access)?,
            secret: Uuid::new_v4().simple().to_string(),
            name: name.to_owned(),
            was_open: AtomicBool::new(false),
            fault: Mutex::default(),
        });
        let local = |error: std::io::Error| {
            ConnectError::Unreachable(format!("there is no loopback interface: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(local)?;
        let address = listener.local_addr().map_err(local)?;
        let relaying = Arc::clone(&shared);
        let accepting = tasks::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => {
                        let shared = Arc::clone(&relaying);
                        tasks::spawn(async move { shared.relay(client).await });
                    }
                    // The fault is of one connection, or of too many open files: later connections
                    // may work.
                    Err(_) => sleep(PAUSE).await,
                }
            }
        });
        Ok(Self {
            shared,
            address,
            _accepting: accepting.owned(),
        })
    }

    /// Returns the address on which the relay listens.
    pub(super) fn address(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Returns the secret that the client has to give as its name.
    pub(super) fn secret(&self) -> &str {
        &self.shared.secret
    }

    /// Notes that the client is connected to a nats-server: faults are logged as warnings from now
    /// on.
    pub(super) fn note_open(&self) {
        self.shared.was_open.store(true, Ordering::Relaxed);
    }

    /// The names of the nats-servers that have ceased to keep streams.
    pub(super) async fn without_streams(&self) -> BTreeSet<String> {
        self.shared.upstreams.without_streams().await
    }

    /// Returns the reason why there is no connection to a nats-server, if it is known.
    pub(super) fn fault(&self) -> Option<String> {
        self.shared.fault.lock().clone()
    }
}

impl RelayState {
    /// Connects a client to a nats-server until one of them ends the connection.
    async fn relay(&self, client: TcpStream) {
        let (address, ended) = match self.upstreams.connect().await {
            Err((address, error)) => (address, error),
            Ok(upstream) => {
                *self.fault.lock() = None;
                let address = upstream.address.clone();
                let ended = self.pass(client, upstream).await;
                self.upstreams.note_end(&address);
                match ended {
                    Err(error) => (address, error),
                    Ok(()) => return,
                }
            }
        };
        self.note(&address, &ended);
    }

    fn note(&self, address: &ServerAddr, error: &LinkError) {
        let server = format!("{}:{}", address.host(), address.port());
        let error = visible::brief(&error.to_string()).into_owned();
        let fault = format!("{server}: {error}");
        let is_new = self.fault.lock().replace(fault.clone()) != Some(fault);
        match is_new && self.was_open.load(Ordering::Relaxed) {
            true => warn!(server, error, "no connection to a nats-server"),
            false => debug!(server, error, "no connection to a nats-server"),
        }
    }

    async fn pass(&self, client: TcpStream, upstream: Upstream) -> Result<(), LinkError> {
        client.set_nodelay(true)?;
        let (client, mut to_client) = client.into_split();
        let mut client = BufReader::new(client);
        to_client.write_all(&upstream.info).await?;
        let introduced = read_line(&mut client, MAX_CONNECT_BYTES);
        let introduced = timeout(CONNECT_TIMEOUT, introduced).await;
        let introduced = introduced.map_err(|_| LinkError::Silent)??;
        let Some(introduced) = self.introduce(&introduced, upstream.is_encrypted) else {
            // The client is not of this process.
            return Ok(());
        };
        let (from_server, mut to_server) = split(upstream.stream);
        to_server.write_all(&introduced).await?;
        select! {
            ended = receive(from_server, to_client) => ended,
            sent = copy(&mut client, &mut to_server) => Ok(sent.map(drop)?),
        }
    }

    /// Returns a client's CONNECT with the name in place of the secret; `None` if the secret is
    /// wrong.
    fn introduce(&self, line: &[u8], is_encrypted: bool) -> Option<Vec<u8>> {
        let mut connect: Value = serde_json::from_slice(line.strip_prefix(b"CONNECT ")?).ok()?;
        if connect["name"] != *self.secret {
            return None;
        }
        connect["name"] = self.name.clone().into();
        connect["tls_required"] = is_encrypted.into();
        Some(format!("CONNECT {connect}\r\n").into_bytes())
    }
}

/// Passes on what a nats-server sends, within bounds.
async fn receive(
    mut server: tokio::io::ReadHalf<BufReader<Box<dyn Duplex>>>,
    mut client: OwnedWriteHalf,
) -> Result<(), LinkError> {
    let mut framing = Framing::default();
    let mut buffer = vec![0; READ_BYTES];
    let first = timeout(CONNECT_TIMEOUT, server.read(&mut buffer)).await;
    let mut read = first.map_err(|_| LinkError::Silent)??;
    while read > 0 {
        let taken: Result<(), Breach> = framing.take(&buffer[..read]);
        taken?;
        client.write_all(&buffer[..read]).await?;
        read = server.read(&mut buffer).await?;
    }
    Err(LinkError::Closed)
}

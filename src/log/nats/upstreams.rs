//! The nats-servers of a relay. This file selects the next one, and connects to it.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::ServerAddr;
use futures::future::join_all;
use parking_lot::Mutex;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::access::{Access, ConnectError};
use super::framing::{Breach, MAX_INFO_BYTES};
use crate::backoff::Backoff;
use crate::tasks;
use crate::visible::causes;

/// The longest time that it may take to connect to one server.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest wait until a server says whether it keeps streams.
const ASKING: Duration = Duration::from_secs(1);

/// The pauses before the next connection to a server whose connections end soon.
const SHORTEST_PAUSE: Duration = Duration::from_millis(400);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The largest number of known servers: servers announce others.
const MOST_KNOWN: usize = 64;

/// Bytes in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection to a nats-server whose INFO was read.
pub(super) struct Upstream {
    pub(super) stream: BufReader<Box<dyn Duplex>>,
    /// The server's INFO, as the client of the relay gets it.
    pub(super) info: Vec<u8>,
    pub(super) address: ServerAddr,
    pub(super) is_encrypted: bool,
    /// The name that the server gives itself.
    name: String,
    /// The addresses that the server announces.
    announced: Vec<String>,
    /// True if the server says that it keeps streams now.
    keeps_streams: bool,
}

/// The reason why a connection to a nats-server was not made, or has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {CONNECT_TIMEOUT:?}")]
    Silent,
    #[error("it closed the connection")]
    Closed,
    #[error(transparent)]
    Breach(#[from] Breach),
    #[error("{0}: {1}")]
    File(String, pem::Error),
    #[error("its name cannot be in a certificate: {0}")]
    Name(#[from] InvalidDnsNameError),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// The servers that are known.
pub(super) struct Upstreams {
    access: Access,
    known: Mutex<Vec<KnownServer>>,
}

struct KnownServer {
    address: ServerAddr,
    /// The number of failed attempts since the server was last reached.
    failures: u32,
    /// The pauses after its connections.
    ends: Backoff,
    /// The moment from which on the next connection may be made.
    next: Instant,
}

impl KnownServer {
    fn new(address: ServerAddr) -> Self {
        Self {
            address,
            failures: 0,
            ends: Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE),
            next: Instant::now(),
        }
    }
}

impl Upstreams {
    pub(super) fn new(access: &Access) -> Result<Self, ConnectError> {
        let parse = |server: &String| {
            let bad = |error: &str| ConnectError::BadAddress(server.clone(), error.to_owned());
            let address: ServerAddr = server.parse().map_err(|error| bad(&causes(&error)))?;
            match address.scheme() {
                "nats" | "tls" => Ok(KnownServer::new(address)),
                _ => Err(bad("it must begin with nats:// or tls://")),
            }
        };
        let known: Result<Vec<_>, _> = access.servers.iter().map(parse).collect();
        let known = known?;
        if known.is_empty() {
            return Err(ConnectError::Unreachable("no address is given".to_owned()));
        }
        Ok(Self {
            access: access.clone(),
            known: Mutex::new(known),
        })
    }

    /// Connects to the first server that can be reached, or returns the error of the last one. A
    /// server that keeps no streams is taken only if no other can be reached.
    pub(super) async fn connect(&self) -> Result<Upstream, (ServerAddr, LinkError)> {
        let (mut last, mut without) = (None, None);
        for (address, next) in self.in_order() {
            sleep(next.saturating_duration_since(Instant::now())).await;
            let opened = timeout(CONNECT_TIMEOUT, self.open(address.clone())).await;
            match opened.unwrap_or(Err(LinkError::Silent)) {
                Ok(upstream) => {
                    self.change(&address, |server| server.failures = 0);
                    self.discover(&upstream.announced);
                    if upstream.keeps_streams {
                        return Ok(upstream);
                    }
                    without = Some(address);
                }
                Err(error) => {
                    self.change(&address, |server| server.failures += 1);
                    if matches!(error, LinkError::Breach(_)) {
                        self.note_end(&address);
                    }
                    last = Some((address, error));
                }
            }
        }
        if let Some(address) = without {
            // The server may have closed the first connection: it waits only seconds for a client
            // to log in.
            let opened = timeout(CONNECT_TIMEOUT, self.open(address.clone())).await;
            let opened = opened.unwrap_or(Err(LinkError::Silent));
            return opened.map_err(|error| (address, error));
        }
        Err(last.expect("at least one server is known"))
    }

    /// The names of the servers that have ceased to keep streams. They say so to new connections
    /// only.
    pub(super) async fn without_streams(&self) -> BTreeSet<String> {
        let known: Vec<_> = self.in_order().into_iter().map(|(it, _)| it).collect();
        let asked = known.into_iter().map(|it| timeout(ASKING, self.open(it)));
        let told = join_all(asked).await.into_iter().flatten().flatten();
        let off = told.filter(|upstream| !upstream.keeps_streams);
        off.map(|upstream| upstream.name).collect()
    }

    /// Notes that a connection to a server has ended.
    pub(super) fn note_end(&self, address: &ServerAddr) {
        self.change(address, |server| {
            server.next = Instant::now() + server.ends.before_attempt();
        });
    }

    /// Returns the servers in the order to try them: first those that may be connected to now, and
    /// of these first those with the fewest failures.
    fn in_order(&self) -> Vec<(ServerAddr, Instant)> {
        let mut known = self.known.lock();
        fastrand::shuffle(&mut known);
        let now = Instant::now();
        known.sort_by_key(|server| (server.next.max(now), server.failures));
        let order = known.iter();
        order.map(|it| (it.address.clone(), it.next)).collect()
    }

    fn change(&self, address: &ServerAddr, change: impl FnOnce(&mut KnownServer)) {
        let mut known = self.known.lock();
        if let Some(server) = known.iter_mut().find(|it| it.address == *address) {
            change(server);
        }
    }

    fn discover(&self, announced: &[String]) {
        let mut known = self.known.lock();
        let announced = announced.iter();
        for address in announced.filter_map(|it| it.parse::<ServerAddr>().ok()) {
            if known.len() < MOST_KNOWN && known.iter().all(|it| it.address != address) {
                known.push(KnownServer::new(address));
            }
        }
    }

    /// Connects to a server, with TLS if its address or the server requires it.
    async fn open(&self, address: ServerAddr) -> Result<Upstream, LinkError> {
        let addresses: Vec<_> = address.socket_addrs().await?.collect();
        let stream = TcpStream::connect(&*addresses).await?;
        stream.set_nodelay(true)?;
        let mut stream: BufReader<Box<dyn Duplex>> = BufReader::new(Box::new(stream));
        let mut line = read_line(&mut stream, MAX_INFO_BYTES).await?;
        let not_nats =
            || Breach::NotNats(String::from_utf8_lossy(&line[..line.len().min(80)]).into());
        let json = line.strip_prefix(b"INFO ").ok_or_else(not_nats)?;
        let mut info: Value = serde_json::from_slice(json).map_err(|_| not_nats())?;
        let is_encrypted = address.tls_required() || info["tls_required"] == true;
        if is_encrypted {
            // Bytes that came unencrypted must not count as encrypted ones.
            if !stream.buffer().is_empty() {
                return Err(not_nats().into());
            }
            let name = ServerName::try_from(address.host().to_owned())?;
            let encrypted = self.tls().await?.connect(name, stream.into_inner());
            stream = BufReader::new(Box::new(encrypted.await?));
            // The client connects to the relay, which has no certificate.
            info["tls_required"] = false.into();
            line = format!("INFO {info}\r\n").into_bytes();
        }
        let announced = info["connect_urls"].as_array().into_iter().flatten();
        let announced = announced.filter_map(|it| Some(it.as_str()?.to_owned()));
        Ok(Upstream {
            announced: announced.take(MOST_KNOWN).collect(),
            name: info["server_name"].as_str().unwrap_or_default().to_owned(),
            keeps_streams: info["jetstream"] == true,
            stream,
            info: line,
            address,
            is_encrypted,
        })
    }

    /// Reads the files each time, because certificates are renewed.
    async fn tls(&self) -> Result<TlsConnector, LinkError> {
        let mut roots = RootCertStore::empty();
        match &self.access.ca {
            Some(path) => {
                for certificate in pem_file::<CertificateDer<'_>>(path).await? {
                    roots.add(certificate)?;
                }
            }
            None => {
                let found = tasks::spawn_blocking(rustls_native_certs::load_native_certs).await;
                roots.add_parsable_certificates(found.map_err(io::Error::other)?.certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match &self.access.certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = pem_file(certificate).await?;
                let mut keys = pem_file::<PrivateKeyDer<'_>>(key).await?;
                config.with_client_auth_cert(chain, keys.swap_remove(0))?
            }
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Returns the PEM items of a kind in a file, at least one.
async fn pem_file<T: PemObject>(path: &std::path::Path) -> Result<Vec<T>, LinkError> {
    let wrong = |error| LinkError::File(path.display().to_string(), error);
    let content = tokio::fs::read(path).await;
    let content = content.map_err(|error| wrong(pem::Error::Io(error)))?;
    let items: Result<Vec<T>, _> = T::pem_slice_iter(&content).collect();
    let items = items.map_err(wrong)?;
    match items.is_empty() {
        true => Err(wrong(pem::Error::NoItemsFound)),
        false => Ok(items),
    }
}

/// Reads a line with its end.
pub(super) async fn read_line(
    stream: &mut (impl AsyncBufReadExt + Unpin),
    most: usize,
) -> Result<Vec<u8>, LinkError> {
    let mut line = Vec::new();
    let mut bounded = stream.take(most as u64);
    bounded.read_until(b'\n', &mut line).await?;
    match line.ends_with(b"\n") {
        true => Ok(line),
        false if line.len() >= most => Err(Breach::LongLine(most).into()),
        false => Err(LinkError::Closed),
    }
}

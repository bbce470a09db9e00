//! The listener and the connections that it accepts.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

use super::closing::{ConnectionPlace, ConnectionSet};
use super::not_grpc;
use super::tls::{self, Tls};
use super::turns::{CallTurns, ReadingTurn};
use crate::access::CertificateName;
use crate::account::{Account, Charge, Part};
use crate::limits::Limit;
use crate::server::telemetry::counts::Refusals;

/// The pause after the system refuses to accept, for example without free file descriptors. Trying
/// again at once would only use a core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The bytes of an idle connection: its buffers, and the state of HTTP/2.
const CONNECTION_BYTES: usize = 36 << 10;

/// The bytes that encryption adds: a record each way, and keys.
const TLS_BYTES: usize = 36 << 10;

/// The counts of connections, present and past.
pub struct ConnectionCounts {
    account: Arc<Account>,
    slots: Arc<Semaphore>,
    max_connections: usize,
    accepted: AtomicU64,
    refusals: Arc<Refusals>,
    /// The open connections.
    pub all: Arc<ConnectionSet>,
}

impl ConnectionCounts {
    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.max_connections - self.slots.available_permits()
    }

    /// Returns the number of connections accepted since the start.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

/// A bound address.
pub struct Listener {
    listener: TcpListener,
    /// The bound address, with the port that was taken if 0 was asked for.
    pub address: SocketAddr,
    /// The counts of connections.
    pub counts: Arc<ConnectionCounts>,
    /// True if the last connection was over the limit.
    full: bool,
}

impl Listener {
    /// Binds `address`; connections queue from here on.
    pub async fn bind(
        address: SocketAddr,
        max_connections: usize,
        account: &Arc<Account>,
        refusals: &Arc<Refusals>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            counts: Arc::new(ConnectionCounts {
                account: Arc::clone(account),
                slots: Arc::new(Semaphore::new(max_connections)),
                max_connections,
                accepted: AtomicU64::new(0),
                refusals: Arc::clone(refusals),
                all: Arc::default(),
            }),
            full: false,
        })
    }

    /// The next connection.
    pub async fn accept(&mut self) -> Accepted {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(connection) = self.admit(stream) {
                        return connection;
                    }
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    warn!(%error, "cannot accept connections");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// `stream` with a slot, or `None` when it is over the limit.
    fn admit(&mut self, stream: TcpStream) -> Option<Accepted> {
        let counts = &self.counts;
        let slot = counts.slots.clone().try_acquire_owned().ok();
        let full = slot.is_none();
        if full {
            counts.refusals.note(Limit::Connections);
        } else {
            counts.accepted.fetch_add(1, Ordering::Relaxed);
        }
        if full && !self.full {
            let limit = counts.max_connections;
            warn!(limit, "closing connections over max-connections");
        }
        self.full = full;
        let slot = slot?;
        // Without this an answer would wait until the previous one is acknowledged.
        let stream = stream.set_nodelay(true).and_then(|()| stream.into_std());
        let stream = stream.inspect_err(|error| {
            debug!(%error, "connection was closed before it was served");
        });
        // The connection is charged whatever the limit of the account: a health check may come on
        // it, and there are at most max-connections.
        let charge = counts.account.open(Part::Streams);
        charge.set(CONNECTION_BYTES);
        Some(Accepted {
            stream: stream.ok()?,
            counts: Arc::clone(counts),
            slot,
            charge,
        })
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

/// The first steps of a connection.
#[derive(Clone)]
pub struct Handshake {
    /// The certificate, if connections are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// The time that the preface of HTTP/2 may take afterwards.
    pub preface_timeout: Duration,
}

/// An accepted connection that no runtime serves yet.
pub struct Accepted {
    stream: std::net::TcpStream,
    counts: Arc<ConnectionCounts>,
    slot: OwnedSemaphorePermit,
    charge: Charge,
}

impl Accepted {
    /// Makes a connection that the current runtime serves, after the handshake if there is one.
    pub async fn adopt(self, handshake: &Handshake) -> io::Result<AcceptedConnection> {
        let mut stream = TcpStream::from_std(self.stream)?;
        let address = stream.peer_addr()?;
        let mut deadline = Box::pin(sleep(handshake.preface_timeout));
        let (stream, names) = match &handshake.tls {
            None => {
                tokio::select! {
                    begun = not_grpc::refuse_http1(&mut stream, "gRPC") => begun?,
                    () = &mut deadline => return Err(io::ErrorKind::TimedOut.into()),
                }
                (Either::Left(stream), None)
            }
            Some(tls) => {
                self.charge.set(CONNECTION_BYTES + TLS_BYTES);
                let stream = tls.accept(stream).await?;
                let chain = stream.get_ref().1.peer_certificates();
                let names = chain.and_then(<[_]>::first).map(tls::names);
                deadline = Box::pin(sleep(handshake.preface_timeout));
                (Either::Right(Box::new(stream)), names)
            }
        };
        let calls = Arc::default();
        let place = self.counts.all.add(Arc::clone(&calls));
        Ok(AcceptedConnection {
            stream,
            peer: Peer {
                address,
                certificate: names.map(Into::into),
                calls,
            },
            written: false,
            preface: Some(Preface {
                missing: PREFACE_BYTES,
                deadline,
            }),
            turn: ReadingTurn::default(),
            counts: self.counts,
            _place: place,
            _slot: self.slot,
            _charge: self.charge,
        })
    }
}

/// The peer of a connection. Each request carries it as an extension.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The peer's address.
    pub address: SocketAddr,
    /// The names of its certificate, if it has one that was verified.
    pub certificate: Option<Arc<[CertificateName]>>,
    /// Lets calls begin, and ends the connection.
    pub calls: Arc<CallTurns>,
}

/// A connection, which gives its slot back when it is closed.
pub struct AcceptedConnection {
    /// The stream, encrypted or not.
    stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    peer: Peer,
    /// True if anything was written to the connection.
    written: bool,
    /// The preface, which has to come before HTTP/2's own pings watch the connection.
    preface: Option<Preface>,
    turn: ReadingTurn,
    counts: Arc<ConnectionCounts>,
    _place: ConnectionPlace,
    _slot: OwnedSemaphorePermit,
    _charge: Charge,
}

/// The length of HTTP/2's preface.
const PREFACE_BYTES: usize = 24;

/// A preface that has not come completely.
struct Preface {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Connected for AcceptedConnection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AcceptedConnection {
    /// Reads the bytes that have arrived, until a turn is over.
    fn poll_turn(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (calls, connections) = (&self.peer.calls, self.counts.open());
        let Some(most) = self.turn.next_piece(calls, connections, context) else {
            return Poll::Pending;
        };
        let length = most.min(buffer.remaining());
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(length));
        let read = Pin::new(&mut self.stream).poll_read(context, &mut piece);
        let length = piece.filled().len();
        buffer.advance(length);
        self.turn.note(read.is_ready().then_some(length));
        read
    }

    /// Passes on the result of writing, and records whether the client has yet to read the bytes.
    fn note_written<T>(&mut self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.written = true;
        self.peer.calls.note_blocked(result.is_pending());
        result
    }

    /// Reads the bytes that have arrived; the preface has to come in time.
    fn poll_in_time(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.poll_turn(context, buffer);
        let Some(preface) = &mut self.preface else {
            return read;
        };
        if read.is_pending() {
            ready!(preface.deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let came = buffer.filled().len() - before;
        preface.missing = preface.missing.saturating_sub(came);
        if preface.missing == 0 {
            self.preface = None;
        }
        read
    }
}

impl AsyncRead for AcceptedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.peer.calls.connection.is_raised() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let read = self.poll_in_time(context, buffer);
        if read.is_pending() {
            self.peer.calls.connection.register(context);
            // The signal may have been raised before it was registered.
            if self.peer.calls.connection.is_raised() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl AsyncWrite for AcceptedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note_written(result)
    }

    /// HTTP/2 asks once at the start. It then writes answers from some size on without copying them
    /// together: from 256 bytes with vectored writes, else from 1,024. Most answers are between the
    /// two, and cheaper to copy. Large ones are not.
    fn is_write_vectored(&self) -> bool {
        self.written && self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.peer.calls.note_blocked(result.is_pending());
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

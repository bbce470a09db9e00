//! The listener, the connections that it accepts, and the end of each.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::calls::ThreadCalls;
use super::identity::Peer;
use super::not_grpc;
use super::tls::{self, Tls};
use super::turns::{CallTurns, ConnectionProgress, LOOKS};
use crate::limits::{Limit, Limits};
use crate::server::config::{Config, FixedSettings};
use crate::server::error::Error;
use crate::server::telemetry::counts::{PortCounts, Refusals};

/// The pause after the system refuses to accept, for example without free file descriptors. Trying
/// again at once would only use a core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The bytes of a feed that may be on their way unread: enough for several batches, so that a
/// feeder never waits for a window to open.
const STREAM_WINDOW_BYTES: u32 = 512 << 10;

/// The bytes that may be unread over all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES;

/// The largest frame that a client may send: as much as is read from a connection in one turn.
/// HTTP/2 starts with frames of 16 KiB, which cost a batch twice the reads.
const FRAME_BYTES: u32 = 64 << 10;

/// A bound address.
pub struct Listener {
    listener: TcpListener,
    /// The bound address, with the port that was taken if 0 was asked for.
    pub address: SocketAddr,
    max_connections: usize,
    counts: Arc<PortCounts>,
    refusals: Arc<Refusals>,
    /// True if the last connection was over the limit.
    full: bool,
}

impl Listener {
    /// Binds the configured address; connections queue from here on.
    ///
    /// # Errors
    /// When it cannot be bound.
    pub async fn bind(
        config: &Config,
        refusals: &Arc<Refusals>,
        counts: &Arc<PortCounts>,
    ) -> Result<Self, Error> {
        let address = config.listen;
        let refused = |source| Error::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        Ok(Self {
            address: listener.local_addr().map_err(refused)?,
            listener,
            max_connections: config.limits.max_connections,
            counts: Arc::clone(counts),
            refusals: Arc::clone(refusals),
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

    /// `stream`, or `None` when it is over the limit.
    fn admit(&mut self, stream: TcpStream) -> Option<Accepted> {
        let limit = self.max_connections;
        let was_full = self.full;
        self.full = self.counts.connections.load(Ordering::Relaxed) >= limit;
        if self.full {
            self.refusals.note(Limit::Connections);
            if !was_full {
                warn!(limit, "closing connections over max-connections");
            }
            return None;
        }
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        // Without this an answer would wait until the previous one is acknowledged.
        let stream = stream.set_nodelay(true).and_then(|()| stream.into_std());
        let stream = stream.inspect_err(|error| {
            debug!(%error, "connection was closed before it was served");
        });
        let stream = stream.ok()?;
        self.counts.connections.fetch_add(1, Ordering::Relaxed);
        Some(Accepted {
            stream: Some(stream),
            counts: Arc::clone(&self.counts),
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

/// The terms on which connections are served.
#[derive(Clone)]
pub struct ConnectionTerms {
    /// The certificate, if connections are encrypted.
    pub tls: Option<Arc<Tls>>,
    /// The time that the preface of HTTP/2 may take after the handshake.
    preface_timeout: Duration,
    /// The time between two looks at the answers of a connection.
    look: Duration,
    http2: http2::Builder<TokioExecutor>,
}

impl ConnectionTerms {
    /// The terms of these settings.
    pub fn new(tls: Option<Arc<Tls>>, settings: &FixedSettings, limits: &Limits) -> Self {
        let max_calls = limits.max_calls_per_connection;
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .max_concurrent_streams(u32::try_from(max_calls).ok())
            // A client may cancel all its calls at once. Calls that are cancelled before they are
            // accepted wait only until the connection's turn is over.
            .max_pending_accept_reset_streams(max_calls)
            .keep_alive_interval(settings.keepalive_interval)
            .keep_alive_timeout(settings.keepalive_timeout);
        Self {
            tls,
            preface_timeout: settings.handshake_timeout,
            look: settings.send_timeout / LOOKS,
            http2,
        }
    }
}

/// An accepted connection that no runtime serves yet.
pub struct Accepted {
    /// The stream, until it is served.
    stream: Option<std::net::TcpStream>,
    counts: Arc<PortCounts>,
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.counts.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Accepted {
    /// Serves the connection on the current runtime until it ends. After `stop` it ends when its
    /// calls have ended and its client knows.
    pub async fn serve(
        mut self,
        terms: Arc<ConnectionTerms>,
        calls: Arc<ThreadCalls>,
        stop: CancellationToken,
    ) {
        let begun = tokio::select! {
            begun = self.begin(&terms) => begun,
            () = stop.cancelled() => return,
        };
        let (stream, peer) = match begun {
            Ok(begun) => begun,
            Err(error) => return debug!(%error, "a connection did not begin"),
        };
        let turns = Arc::clone(&peer.turns);
        let service = service_fn(move |request| {
            let calls = Arc::clone(&calls).answer(&peer, request);
            async move { Ok::<_, Infallible>(calls.await) }
        });
        let mut connection = pin!(terms.http2.serve_connection(TokioIo::new(stream), service));
        // Looks that were missed while the thread was busy say nothing about a client.
        let mut looks = interval(terms.look);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut progress = ConnectionProgress::default();
        let mut is_stopping = false;
        loop {
            let turn = poll_fn(|context| {
                turns.begin(self.counts.connections.load(Ordering::Relaxed));
                connection.as_mut().poll(context)
            });
            tokio::select! {
                biased;
                ended = turn => return debug!(?ended, "a connection has ended"),
                _ = looks.tick() => {
                    if progress.is_unread(&turns) {
                        return info!("closing a connection whose client does not read");
                    }
                }
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    /// Begins the connection: with the handshake if there is one, and the preface of HTTP/2.
    async fn begin(
        &mut self,
        terms: &ConnectionTerms,
    ) -> io::Result<(ConnectionStream, Arc<Peer>)> {
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let mut stream = TcpStream::from_std(stream)?;
        let address = stream.peer_addr()?;
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let (mut stream, certificate) = match &terms.tls {
            None => {
                let begun = not_grpc::refuse_http1(&mut stream, "gRPC");
                timeout(terms.preface_timeout, begun)
                    .await
                    .map_err(late)??;
                (Either::Left(stream), None)
            }
            Some(tls) => {
                let stream = tls.accept(stream).await?;
                let chain = stream.get_ref().1.peer_certificates();
                let names = chain.and_then(<[_]>::first).map(tls::names);
                (Either::Right(Box::new(stream)), names.map(Into::into))
            }
        };
        // HTTP/2's own pings watch the connection only after the preface.
        let mut preface = [0; PREFACE_BYTES];
        let read = stream.read_exact(&mut preface);
        timeout(terms.preface_timeout, read).await.map_err(late)??;
        let turns = Arc::default();
        let stream = ConnectionStream {
            stream,
            preface: Some(preface),
            was_written: false,
            turns: Arc::clone(&turns),
        };
        let peer = Peer {
            address,
            certificate,
            turns,
        };
        Ok((stream, Arc::new(peer)))
    }
}

/// The length of HTTP/2's preface.
const PREFACE_BYTES: usize = 24;

/// A connection that is read in turns.
struct ConnectionStream {
    /// The stream, encrypted or not.
    stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    /// The preface, until HTTP/2 has it.
    preface: Option<[u8; PREFACE_BYTES]>,
    /// True if anything was written to the connection.
    was_written: bool,
    turns: Arc<CallTurns>,
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() >= PREFACE_BYTES
            && let Some(preface) = self.preface.take()
        {
            buffer.put_slice(&preface);
            return Poll::Ready(Ok(()));
        }
        let Some(most) = self.turns.bytes_left(context) else {
            return Poll::Pending;
        };
        let length = most.min(buffer.remaining());
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(length));
        let read = Pin::new(&mut self.stream).poll_read(context, &mut piece);
        let length = piece.filled().len();
        buffer.advance(length);
        self.turns.note_read(length);
        read
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.was_written = true;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.was_written = true;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    /// HTTP/2 asks once at the start. It then writes answers from some size on without copying them
    /// together: from 256 bytes with vectored writes, else from 1,024. Most answers are between the
    /// two, and cheaper to copy. Large ones are not.
    fn is_write_vectored(&self) -> bool {
        self.was_written && self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

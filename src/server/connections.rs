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
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tracing::{debug, warn};

/// How long to wait when the system refuses to accept, for want of file
/// descriptors for instance: asking again at once would only burn a core.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How many connections there are and were.
pub(super) struct Counts {
    slots: Arc<Semaphore>,
    max_connections: usize,
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Counts {
    /// Open now.
    pub(super) fn open(&self) -> usize {
        self.max_connections - self.slots.available_permits()
    }

    /// Accepted since the start.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Closed for being over the limit.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A bound address, as a stream of the connections that it accepts.
pub(super) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    counts: Arc<Counts>,
    /// Whether the last connection was over the limit.
    full: bool,
    retry: Option<Pin<Box<Sleep>>>,
}

impl Listener {
    /// Binds `address`; connections queue from here on.
    pub(super) async fn bind(address: SocketAddr, max_connections: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            counts: Arc::new(Counts {
                slots: Arc::new(Semaphore::new(max_connections)),
                max_connections,
                accepted: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            }),
            full: false,
            retry: None,
        })
    }

    /// The address, with the port that was taken if 0 was asked for.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections there are and were.
    pub(super) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// `stream` with a slot, or none when it is over the limit.
    fn admit(&mut self, stream: TcpStream) -> Option<Accepted> {
        let counts = &self.counts;
        let slot = counts.slots.clone().try_acquire_owned().ok();
        let full = slot.is_none();
        let count = if full {
            &counts.refused
        } else {
            &counts.accepted
        };
        count.fetch_add(1, Ordering::Relaxed);
        if full && !self.full {
            let limit = counts.max_connections;
            warn!(limit, "closing connections over max-connections");
        }
        self.full = full;
        let slot = slot?;
        // An answer waits for the previous one's acknowledgement otherwise.
        let stream = stream.set_nodelay(true).and_then(|()| stream.into_std());
        let stream = stream.inspect_err(|error| {
            debug!(%error, "connection was closed before it was served");
        });
        Some(Accepted {
            stream: stream.ok()?,
            slot,
        })
    }
}

impl Stream for Listener {
    type Item = Accepted;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(retry) = &mut this.retry {
                ready!(retry.as_mut().poll(context));
                this.retry = None;
            }
            match ready!(this.listener.poll_accept(context)) {
                Ok((stream, _)) => {
                    if let Some(connection) = this.admit(stream) {
                        return Poll::Ready(Some(connection));
                    }
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    warn!(%error, "cannot accept connections");
                    this.retry = Some(Box::pin(tokio::time::sleep(ACCEPT_RETRY)));
                }
            }
        }
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

/// An accepted connection that no runtime serves yet.
pub(super) struct Accepted {
    stream: std::net::TcpStream,
    slot: OwnedSemaphorePermit,
}

impl Accepted {
    /// The connection, served by the runtime that this is called on.
    pub(super) fn adopt(self) -> io::Result<Connection> {
        Ok(Connection {
            stream: TcpStream::from_std(self.stream)?,
            written: false,
            _slot: self.slot,
        })
    }
}

/// A connection, which gives its slot back when it is closed.
pub(super) struct Connection {
    stream: TcpStream,
    /// Whether anything was written to it.
    written: bool,
    _slot: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written = true;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.written = true;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    /// HTTP/2 asks once at the start, to choose from which size on an answer
    /// is written from where it lies instead of being gathered with others:
    /// 256 bytes for vectored writes, 1,024 for others. Most answers are in
    /// between, and cheaper to gather; large ones are not.
    fn is_write_vectored(&self) -> bool {
        self.written && self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

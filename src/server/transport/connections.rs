//! The listener, the connections that it accepts, the threads that serve them, and the end of each. A connection reads in turns, and
//! ends when its client does not read its answers.
//!
//! The tasks of a thread run one after another. In its turn a connection reads some bytes, and the
//! calls that begin with them run before its next turn. Without turns, the bytes of a connection
//! would all be received, and all its calls begun, before any other client is served.
//!
//! Each thread has its own runtime, and a connection stays on one of them: its calls are read, decided
//! and answered without waking another thread. For a small call that takes half the time of a shared
//! pool of threads.
//!
//! Clients that do not speak gRPC, such as browsers and curl, are told what the port speaks.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tracing::{debug, info, warn};

use super::calls::{Peer, ThreadCalls};
use super::tls::{self, Tls};
use crate::limits::{Limit, Limits};
use crate::server::Error;
use crate::server::config::{Config, FixedSettings};
use crate::server::telemetry::PortCounts;
use crate::server::telemetry::calls::Calls;
use crate::tasks;

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

/// The number of looks in a row that find a connection without progress, although its client could
/// read on in an answer, before it is closed.
const LOOKS: u32 = 10;

/// A bound address.
pub struct Listener {
    listener: TcpListener,
    /// The bound address, with the port that was taken if 0 was asked for.
    pub address: SocketAddr,
    max_connections: usize,
    counts: Arc<PortCounts>,
    calls: Arc<Calls>,
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
        calls: &Arc<Calls>,
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
            calls: Arc::clone(calls),
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
            self.calls.refused(Limit::Connections);
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
        let (mut progress, mut still) = (0, 0);
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
                    let now = turns.progress.load(Ordering::Relaxed);
                    let is_still = now == progress && turns.unread.load(Ordering::Relaxed) > 0;
                    (progress, still) = (now, if is_still { still + 1 } else { 0 });
                    if still >= LOOKS {
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
                let begun = refuse_http1(&mut stream, "gRPC");
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

/// The most bytes of a connection that are read in a turn.
const TURN_BYTES: usize = 16 << 10;

/// The bytes that all connections together read in a turn each while calls arrive: a hundred calls
/// fit into a few KiB.
const TURN_BYTES_OF_ALL: usize = 8 << 10;

/// The least that a connection reads in a turn, however many connections there are.
const MIN_TURN_BYTES: usize = 256;

/// The calls of a connection.
#[derive(Debug, Default)]
pub struct CallTurns {
    /// The number of calls that have arrived so far.
    arrived: AtomicUsize,
    /// The number of answers of which the client can read more now.
    unread: AtomicUsize,
    /// Counts the times at which the client has read on in an answer.
    progress: AtomicUsize,
    /// The bytes that may be read in this turn.
    most: AtomicUsize,
    /// The bytes of these that were not read yet.
    left: AtomicUsize,
    /// The number of calls that had arrived before this turn.
    arrived_before: AtomicUsize,
}

impl CallTurns {
    /// Begins a turn of the connection, which is one of so many. Its tasks have had theirs since the
    /// last one.
    pub fn begin(&self, connections: usize) {
        let arrived = self.arrived.load(Ordering::Relaxed);
        let has_calls = self.arrived_before.swap(arrived, Ordering::Relaxed) != arrived;
        let least = (TURN_BYTES_OF_ALL / connections.max(1)).clamp(MIN_TURN_BYTES, TURN_BYTES);
        // Large messages are not read in small pieces.
        let before = self.most.load(Ordering::Relaxed);
        let bytes = if has_calls { 0 } else { 2 * before }.clamp(least, TURN_BYTES);
        self.most.store(bytes, Ordering::Relaxed);
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes that may be read now; `None` when the turn is over. Then the
    /// connection is woken for its next one.
    pub fn bytes_left(&self, context: &Context<'_>) -> Option<usize> {
        match self.left.load(Ordering::Relaxed) {
            0 => {
                context.waker().wake_by_ref();
                None
            }
            left => Some(left),
        }
    }

    /// Records the number of bytes that were read.
    pub fn note_read(&self, bytes: usize) {
        self.left.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records that a call has arrived.
    pub fn arrive(self: &Arc<Self>) -> OpenCall {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        OpenCall {
            turns: Arc::clone(self),
            is_unread: false,
        }
    }
}

/// A call of a connection, until it is over.
#[derive(Debug)]
pub struct OpenCall {
    turns: Arc<CallTurns>,
    is_unread: bool,
}

impl OpenCall {
    /// Records whether the client can read more of the answer now. It has read what was there
    /// before.
    pub fn note_unread(&mut self, is_unread: bool) {
        let unread = &self.turns.unread;
        match (std::mem::replace(&mut self.is_unread, is_unread), is_unread) {
            (false, true) => drop(unread.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(unread.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.turns.progress.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.note_unread(false);
    }
}

/// What HTTP/2 begins with, as far as no method of HTTP/1 does.
const PREFACE: &[u8] = b"PRI";

/// The most bytes of a request of HTTP/1 that are read: closing a connection with unread bytes
/// takes the answer away from the client.
const REQUEST_BYTES: usize = 16 << 10;

/// Waits for the first bytes of a connection. If they are a request of HTTP/1, answers that, and
/// fails.
///
/// # Errors
/// Those of the connection, and that it is one of HTTP/1.
pub async fn refuse_http1(stream: &mut TcpStream, what: &str) -> io::Result<()> {
    let mut start = [0; PREFACE.len()];
    let length = stream.peek(&mut start).await?;
    let start = &start[..length];
    let is_method = !start.is_empty() && start.iter().all(u8::is_ascii_uppercase);
    if !is_method || PREFACE.starts_with(start) {
        return Ok(());
    }
    if stream.read(&mut vec![0; REQUEST_BYTES]).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = port_speaks(what);
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let error = "the client speaks HTTP/1";
    Err(io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the answer to a request that is no gRPC call; `None` for a call.
pub fn refuse_foreign<B>(request: &Request<B>) -> Option<Response<Body>> {
    let kind = request.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return None;
    }
    let mut answer = Response::new(Body::new(port_speaks("gRPC")));
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let text = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    Some(answer)
}

fn port_speaks(what: &str) -> String {
    format!(
        "This port of evenkeel speaks {what}, for clients such as grpcurl and \"evenkeel\" itself.\n\
         Health and metrics are on the port of --admin-listen.\n"
    )
}

/// The number of task turns before a thread checks again which connections have bytes to read. A
/// client that asks while other tasks keep the thread busy is not noticed earlier.
const TURNS_BETWEEN_LOOKS: u32 = 16;

/// The serving threads, and the task that gives them connections.
pub struct Workers {
    stop: CancellationToken,
    open: TaskTracker,
}

impl Workers {
    /// Starts `count` threads, on each of which `calls` serves its share of the listener's
    /// connections.
    ///
    /// # Errors
    /// When threads cannot be started.
    pub fn start(
        count: usize,
        calls: &ThreadCalls,
        listener: Listener,
        terms: ConnectionTerms,
        counts: &PortCounts,
    ) -> Result<Self, Error> {
        let (stop, open) = (CancellationToken::new(), TaskTracker::new());
        let terms = Arc::new(terms);
        let mut hands = Vec::with_capacity(count);
        for index in 0..count {
            let (hand, accepted) = mpsc::unbounded_channel();
            let runtime = serving_runtime()?;
            counts.threads.lock().push(runtime.metrics());
            let (calls, terms) = (Arc::new(calls.clone()), Arc::clone(&terms));
            let (stop, is_open) = (stop.clone(), open.token());
            thread::Builder::new()
                .name(format!("serve-{index}"))
                .spawn(move || {
                    let _is_open = is_open;
                    runtime.block_on(serve_thread(calls, terms, accepted, stop));
                })
                .map_err(Error::Runtime)?;
            hands.push(hand);
        }
        tasks::spawn(open.track_future(accept_all(listener, hands, stop.clone())));
        Ok(Self { stop, open })
    }

    /// Accepts no more connections and waits until all are closed. Each closes when its calls have
    /// ended, and soon after even if its client does not answer.
    pub async fn stop(self) {
        self.stop.cancel();
        self.open.close();
        self.open.wait().await;
    }
}

/// Gives connections to the threads in turn.
async fn accept_all(
    mut listener: Listener,
    hands: Vec<mpsc::UnboundedSender<Accepted>>,
    stop: CancellationToken,
) {
    for hand in hands.iter().cycle() {
        tokio::select! {
            // A thread ends only if it panics. Its connections are closed then.
            accepted = listener.accept() => drop(hand.send(accepted)),
            () = stop.cancelled() => return,
        }
    }
}

fn serving_runtime() -> Result<Runtime, Error> {
    runtime::Builder::new_current_thread()
        .event_interval(TURNS_BETWEEN_LOOKS)
        .enable_all()
        .build()
        .map_err(Error::Runtime)
}

/// Serves connections independently, until no more can come and all have ended.
async fn serve_thread(
    calls: Arc<ThreadCalls>,
    terms: Arc<ConnectionTerms>,
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
    stop: CancellationToken,
) {
    let open = TaskTracker::new();
    while let Some(accepted) = accepted.recv().await {
        open.spawn(accepted.serve(Arc::clone(&terms), Arc::clone(&calls), stop.clone()));
    }
    open.close();
    open.wait().await;
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn of_many_connections_each_reads_few_calls_in_a_turn() {
        let context = Context::from_waker(Waker::noop());
        for (connections, has_calls, expected) in [
            (1, true, 8 << 10),
            (16, true, 512),
            (5_000, true, MIN_TURN_BYTES),
            (5_000, false, TURN_BYTES),
        ] {
            let turns = Arc::new(CallTurns::default());
            for _ in 0..8 {
                let call = has_calls.then(|| turns.arrive());
                turns.begin(connections);
                drop(call);
            }
            let left = turns.bytes_left(&context);
            assert_eq!(left, Some(expected), "{connections} {has_calls}");
            turns.note_read(expected);
            assert_eq!(turns.bytes_left(&context), None);
        }
    }
}

//! The admin port: HTTP on an address and a thread of its own, so that a busy server still tells
//! its health.

mod origin;
mod pages;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;
use tracing::{debug, info};

use self::pages::Restored;
pub(super) use self::pages::{Pages, RestoredPages};
use crate::server::error::Error;
use crate::tasks;

/// The most connections at once. One more closes the oldest, which a probe never is: it is answered
/// long before so many others come.
const MAX_CONNECTIONS: usize = 64;

/// The time that a connection may take for its one request and the answer.
const MAX_DURATION: Duration = Duration::from_secs(10);

/// The part of that time for the head of the request. Usual clients send it at once.
const MAX_HEAD_DURATION: Duration = Duration::from_secs(2);

/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The pause after the system refuses to accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The open port. It ends when this is dropped.
pub struct AdminPort {
    restored: Arc<Restored>,
    _stop: DropGuard,
}

impl AdminPort {
    /// Shows the restored state from now on.
    pub(super) fn show(&self, restored: RestoredPages) {
        self.restored.get_or_init(|| restored);
    }
}

/// Binds `address` and serves the pages until the port is dropped.
pub(super) fn start(address: SocketAddr, pages: Pages) -> Result<AdminPort, Error> {
    let listener = bind(address).map_err(|source| Error::Bind { address, source })?;
    let bound = listener.local_addr().unwrap_or(address);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let restored = Arc::clone(&pages.restored);
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    thread::Builder::new()
        .name("admin".into())
        .spawn(move || {
            let router = pages.router();
            runtime.block_on(async {
                tokio::select! {
                    failed = serve(listener, router) => debug!(?failed, "admin port ended"),
                    () = stopped.cancelled() => {}
                }
            });
            // Does not wait for a page under way, which may wait for a batch.
            runtime.shutdown_background();
        })
        .map_err(Error::Runtime)?;
    info!(address = %bound, "admin listening");
    Ok(AdminPort {
        restored,
        _stop: stop.drop_guard(),
    })
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts connections for as long as it is polled.
async fn serve(listener: TcpListener, router: Router) -> io::Result<Infallible> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut answering = JoinSet::new();
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let router = router.clone();
        while answering.try_join_next().is_some() {}
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MAX_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            debug!("closing the oldest connection of the admin port");
            oldest.abort();
        }
        let connection = tasks::spawn_in(&mut answering, async move {
            // A slower client is cut off.
            let _ = timeout(MAX_DURATION, answer(stream, peer, router)).await;
        });
        open.push_back(connection);
        // The bytes that have arrived on this connection are read before another connection is
        // accepted, which may close this one.
        yield_now().await;
    }
}

/// Answers the one request of a connection.
async fn answer(stream: TcpStream, peer: SocketAddr, router: Router) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .timer(TokioTimer::new())
        .header_read_timeout(MAX_HEAD_DURATION)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%peer, %error, "admin connection failed");
    }
}

//! The admin port: HTTP on an address and a thread of its own, so that a
//! server that is busy still says how it is.

mod pages;

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
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;
use tracing::{debug, info};

use self::pages::Restored;
pub(super) use self::pages::{Pages, RestoredPages};
use crate::server::error::Error;
use crate::tasks;

/// Connections at once. More are closed: a scraper or a probe tries again.
const MAX_CONNECTIONS: usize = 64;

/// How long a connection may take for its one request and the answer.
const MAX_DURATION: Duration = Duration::from_secs(10);

/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// How long to wait when the system refuses to accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The open port. It ends when this is dropped.
pub struct AdminPort {
    restored: Arc<Restored>,
    _stop: DropGuard,
}

impl AdminPort {
    /// Shows what was restored, from now on.
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
            // A page under way may wait for a batch.
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
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            debug!(%peer, "closing a connection over those of the admin port");
            continue;
        };
        let router = router.clone();
        tasks::spawn(async move {
            // A slower client is cut off.
            let _ = timeout(MAX_DURATION, answer(stream, peer, router)).await;
            drop(slot);
        });
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
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%peer, %error, "admin connection failed");
    }
}

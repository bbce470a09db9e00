//! The admin port: HTTP on an address and a thread of its own, so that a busy server still tells
//! its health. First the port, then its pages.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{io, thread};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
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

use super::metrics::Metrics;
use super::sources::{Readiness, Sources};
use crate::kubernetes::FeedCounts;
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
    let answer = move |request: hyper::Request<Incoming>| router.clone().oneshot(request);
    let service = service_fn(answer);
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

const INDEX: &str = "\
/metrics  what Prometheus scrapes
/livez    200 while the process answers
/readyz   200 when calls may be sent here, else 503 and why not
";

/// The sources of the pages.
pub struct Pages {
    pub health: Arc<dyn Readiness>,
    /// Feeds that run inside this process.
    pub feeds: Vec<Arc<FeedCounts>>,
    /// Unset while the server restores the content of its state directory or its log.
    pub restored: Arc<Restored>,
}

/// The sources of the pages of a server that has restored its snapshots.
pub struct RestoredPages {
    pub metrics: Metrics,
    pub sources: Arc<Sources>,
}

/// Sources that exist from some moment on.
pub type Restored = OnceLock<RestoredPages>;

impl Pages {
    /// All pages.
    fn router(self) -> Router {
        Router::new()
            .route("/", get(|| async { INDEX }))
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .with_state(Arc::new(self))
    }
}

type PagesState = State<Arc<Pages>>;

/// Reads restored state on another thread than the port's: a scrape of many snapshots takes a while.
async fn metrics(State(pages): PagesState) -> Result<Response, StatusCode> {
    let render = move || match pages.restored.get() {
        Some(restored) => restored.metrics.render(),
        None => Metrics::of_start().render(),
    };
    let page = tasks::spawn_blocking(render).await;
    let failed = StatusCode::INTERNAL_SERVER_ERROR;
    let page = page.map_err(|_| failed)?.map_err(|_| failed)?;
    Ok(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], page).into_response())
}

async fn readyz(State(pages): PagesState) -> (StatusCode, String) {
    let mut lines = pages.health.unready();
    let mut status = StatusCode::SERVICE_UNAVAILABLE;
    if lines.is_empty() {
        status = StatusCode::OK;
        lines.push("ready".into());
    }
    let stale = pages.health.stale().into_iter();
    lines.extend(stale.map(|name| format!("snapshot {name} is stale")));
    let troubles = pages.feeds.iter().flat_map(|feed| {
        let told = feed.troubles().into_iter();
        told.map(|what| format!("feed of snapshot {}: {what}", feed.snapshot()))
    });
    lines.extend(troubles);
    let others = pages.feeds.iter().filter_map(|feed| {
        let (snapshot, server) = (feed.snapshot(), feed.other_feeder()?);
        Some(format!(
            "feed of snapshot {snapshot}: {server} feeds, this server stands by"
        ))
    });
    lines.extend(others);
    // Trouble with the store leaves the server ready: decisions continue, even when all disks are
    // full.
    let sources = pages.restored.get().map(|it| &it.sources);
    let store = sources.and_then(|it| it.store.as_ref());
    let trouble = store.and_then(|counts| counts.trouble());
    lines.extend(trouble.map(|why| format!("read-only: {why}")));
    // Trouble with the log leaves it ready, too.
    let shared = sources.and_then(|it| it.shared_log.as_ref());
    lines.extend(shared.iter().flat_map(|shared| shared.troubles()));
    (status, lines.into_iter().map(|line| line + "\n").collect())
}

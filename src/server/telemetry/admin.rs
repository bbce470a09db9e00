//! The admin port: HTTP on an address and a thread of its own, so that a busy server still tells
//! its health. First the port, then its pages, then who may change anything.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{io, thread};

use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts, Path, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::{AbortHandle, JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;
use tracing::{debug, info};

use super::logging::Levels;
use super::metrics::Metrics;
use super::sources::{Readiness, Sources};
use crate::api;
use crate::kubernetes::FeedCounts;
use crate::proto::v1;
use crate::server::error::Error;
use crate::snapshot::Summary;
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

/// The most bytes of a request's body: a log filter.
const MAX_BODY_BYTES: usize = 4 << 10;

const INDEX: &str = "\
/metrics          what Prometheus scrapes
/livez            200 while the process answers
/readyz           200 when calls may be sent here, else 503 and why not
/debug/snapshot   the snapshots, or one: /debug/snapshot/NAME
/debug/log-level  GET, or PUT from this machine: what is logged
";

/// The sources of the pages.
pub struct Pages {
    pub health: Arc<dyn Readiness>,
    /// Feeds that run inside this process.
    pub feeds: Vec<Arc<FeedCounts>>,
    /// `None` when the caller started logging.
    pub levels: Option<Levels>,
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

/// The answer for a page of a server that restores its snapshots.
const LOADING: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "loading\n");

impl Pages {
    /// All pages.
    fn router(self) -> Router {
        Router::new()
            .route("/", get(|| async { INDEX }))
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/debug/snapshot", get(snapshots))
            .route("/debug/snapshot/{name}", get(snapshot))
            .route("/debug/log-level", get(log_level).put(set_log_level))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .with_state(Arc::new(self))
    }
}

type PagesState = State<Arc<Pages>>;

/// The answer instead of a page.
type Refusal = (StatusCode, &'static str);

/// Reads restored state on another thread than the port's, because it may wait for a batch.
async fn aside<T: Send + 'static>(
    pages: Arc<Pages>,
    read: impl FnOnce(&RestoredPages) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let read = move || pages.restored.get().map(read);
    let read = tasks::spawn_blocking(read).await;
    let read = read.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, ""))?;
    read.ok_or(LOADING)
}

async fn metrics(State(pages): PagesState) -> Result<Response, Refusal> {
    let page = match pages.restored.get() {
        Some(_) => aside(pages, |it| it.metrics.render()).await?,
        None => Metrics::of_start().render(),
    };
    let page = page.map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, ""))?;
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

/// A snapshot as `GetSnapshot` describes it, with fields for debugging.
#[derive(Serialize)]
struct ToldSnapshot {
    #[serde(flatten)]
    snapshot: v1::Snapshot,
    namespaces: usize,
    views: usize,
}

fn told(summary: &Summary) -> ToldSnapshot {
    ToldSnapshot {
        snapshot: api::describe(summary),
        namespaces: summary.namespaces,
        views: summary.views,
    }
}

async fn snapshots(State(pages): PagesState) -> Result<Json<Vec<ToldSnapshot>>, Refusal> {
    let read = |restored: &RestoredPages| {
        let all = restored.sources.registry.list("");
        all.iter().map(|s| told(&s.summary())).collect()
    };
    aside(pages, read).await.map(Json)
}

async fn snapshot(
    State(pages): PagesState,
    Path(name): Path<String>,
) -> Result<Json<ToldSnapshot>, Refusal> {
    let read = move |restored: &RestoredPages| {
        let snapshot = restored.sources.registry.get(&name).ok()?;
        Some(told(&snapshot.summary()))
    };
    let found = aside(pages, read).await?;
    found.map(Json).ok_or((StatusCode::NOT_FOUND, ""))
}

async fn log_level(State(pages): PagesState) -> Result<String, StatusCode> {
    let levels = pages.levels.as_ref().ok_or(StatusCode::NOT_FOUND)?;
    Ok(levels.current() + "\n")
}

async fn set_log_level(
    State(pages): PagesState,
    _: FromThisMachine,
    filter: String,
) -> Result<String, (StatusCode, String)> {
    let Some(levels) = &pages.levels else {
        return Err((StatusCode::NOT_FOUND, String::new()));
    };
    match levels.set(filter.trim()) {
        Ok(()) => Ok(levels.current() + "\n"),
        Err(error) => Err((StatusCode::BAD_REQUEST, error + "\n")),
    }
}

/// A request from a program on the server's own machine. The port has no authentication, so only such
/// programs may change settings, and no page of a web site that is open in a browser there. This is
/// checked before the body of the request is read.
struct FromThisMachine;

/// A refusal, with its text.
type Forbidden = (StatusCode, &'static str);

impl<S: Sync> FromRequestParts<S> for FromThisMachine {
    type Rejection = Forbidden;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Forbidden> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let is_here = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
        let forbid = |rule| Err((StatusCode::FORBIDDEN, rule));
        if !is_here {
            return forbid("the log level may only be set from the server's own machine\n");
        }
        let Some(host) = own_host(parts) else {
            return forbid("Host must be an IP address or localhost\n");
        };
        match header(parts, &ORIGIN) {
            Ok(None) => Ok(Self),
            Ok(Some(origin)) if origin.strip_prefix("http://") == Some(host.as_str()) => Ok(Self),
            _ => forbid("Origin must be that of this port\n"),
        }
    }
}

/// The authority that a request names, if it is an IP address or localhost. Any other name may
/// belong to a web site that makes it resolve to this machine.
fn own_host(parts: &Parts) -> Option<Authority> {
    let host: Authority = header(parts, &HOST).ok()??.parse().ok()?;
    let name = host.host();
    let address = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_address = address.unwrap_or(name).parse::<std::net::IpAddr>().is_ok();
    let is_own = is_address || name.eq_ignore_ascii_case("localhost");
    is_own.then_some(host)
}

/// The value of a header, if the request has it. An error if the request has several values, or a
/// value that is no text.
fn header<'r>(parts: &'r Parts, name: &HeaderName) -> Result<Option<&'r str>, ()> {
    let mut values = parts.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

//! The admin port: HTTP on an address and a thread of its own, so that a busy server still tells
//! its health. First the port, then its pages.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::{io, thread};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::runtime;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, info};

use super::RestoredSources;
use super::health::HealthState;
use super::metrics::Metrics;
use crate::kubernetes::FeedCounts;
use crate::server::Error;
use crate::tasks;

/// Binds `address` and serves the pages until the returned guard is dropped.
pub(super) fn start(
    address: SocketAddr,
    pages: Pages,
    metrics: Metrics,
) -> Result<DropGuard, Error> {
    let listener = bind(address).map_err(|source| Error::Bind { address, source })?;
    let bound = listener.local_addr().unwrap_or(address);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    thread::Builder::new()
        .name("admin".into())
        .spawn(move || {
            let serve = async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                axum::serve(listener, router(pages, metrics)).await
            };
            runtime.block_on(async {
                tokio::select! {
                    failed = serve => debug!(?failed, "admin port ended"),
                    () = stopped.cancelled() => {}
                }
            });
            // Does not wait for a page under way, which may wait for a batch.
            runtime.shutdown_background();
        })
        .map_err(Error::Runtime)?;
    info!(address = %bound, "admin listening");
    Ok(stop.drop_guard())
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

const INDEX: &str = "\
/metrics  what Prometheus scrapes
/livez    200 while the process answers
/readyz   200 when calls may be sent here, else 503 and why not
";

/// The sources of the pages.
#[derive(Clone)]
pub struct Pages {
    pub health: HealthState,
    /// Feeds that run inside this process.
    pub feeds: Vec<Arc<FeedCounts>>,
    /// Unset while the server restores the content of its state directory or its log.
    pub sources: Arc<RestoredSources>,
}

/// All pages.
fn router(pages: Pages, metrics: Metrics) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .with_state(pages)
        .route("/metrics", get(render))
        .with_state(Arc::new(metrics))
}

/// Reads restored state on another thread than the port's: a scrape of many snapshots takes a while.
async fn render(State(metrics): State<Arc<Metrics>>) -> Result<Response, StatusCode> {
    let page = tasks::spawn_blocking(move || metrics.render()).await;
    let failed = StatusCode::INTERNAL_SERVER_ERROR;
    let page = page.map_err(|_| failed)?.map_err(|_| failed)?;
    Ok(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], page).into_response())
}

async fn readyz(State(pages): State<Pages>) -> (StatusCode, String) {
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
    let sources = pages.sources.get();
    let store = sources.and_then(|it| it.store.as_ref());
    let trouble = store.and_then(|counts| counts.trouble());
    lines.extend(trouble.map(|why| format!("read-only: {why}")));
    // Trouble with the log leaves it ready, too.
    let shared = sources.and_then(|it| it.shared_log.as_ref());
    lines.extend(shared.iter().flat_map(|shared| shared.troubles()));
    (status, lines.into_iter().map(|line| line + "\n").collect())
}

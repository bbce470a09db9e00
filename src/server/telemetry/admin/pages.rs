//! The pages of the admin port.

use std::sync::{Arc, OnceLock};

use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::origin::FromThisMachine;
use crate::api;
use crate::proto::v1;
use crate::server::telemetry::feeds::FeedCounts;
use crate::server::telemetry::logging::Levels;
use crate::server::telemetry::metrics::Metrics;
use crate::server::telemetry::sources::{Readiness, Sources};
use crate::snapshot::Summary;
use crate::tasks;

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
    pub(super) fn router(self) -> Router {
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
    #[serde(rename = "memoryBytesByPart")]
    memory: std::collections::BTreeMap<&'static str, usize>,
}

fn told(summary: &Summary) -> ToldSnapshot {
    ToldSnapshot {
        snapshot: api::describe(summary),
        namespaces: summary.namespaces,
        views: summary.views,
        memory: summary.memory.parts().into_iter().collect(),
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

//! Compares the resource version of a watch with that of the API server. After its storage was
//! restored from a backup, an API server may be behind. It then grants a watch from a version that
//! it does not have yet. Such a watch sends no events about lost objects, and none about new ones
//! until the API server reaches that version.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Resource;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::warn;

use super::connection::ClusterClient;
use super::error::Error;
use super::resource::ApiResource;

/// The longest time between two queries of the API server.
const ASK: Duration = Duration::from_secs(30);
/// The longest time until the query after a failed list or watch. A restore ends all connections.
const ASK_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// The progress of the watch of one resource.
pub(super) struct WatchProgress<'a> {
    cluster: &'a ClusterClient,
    resource: &'static ApiResource,
    /// The highest resource version of a received object.
    highest: AtomicU64,
    /// Notified when a list or a watch fails.
    failed: Notify,
}

impl<'a> WatchProgress<'a> {
    /// The progress of a watch that begins with a list.
    pub(super) fn new(cluster: &'a ClusterClient, resource: &'static ApiResource) -> Self {
        Self {
            cluster,
            resource,
            highest: AtomicU64::new(0),
            failed: Notify::new(),
        }
    }

    /// Records an event.
    pub(super) fn note(&self, happened: &Result<Event<impl Resource>, Error>) {
        match happened {
            Ok(Event::Init) => {
                self.highest.store(0, Ordering::Relaxed);
                self.cluster.pulses.forget_version(self.resource);
            }
            Ok(Event::InitApply(object) | Event::Apply(object) | Event::Delete(object)) => {
                let version = object.meta().resource_version.as_deref();
                let version = version.and_then(|version| version.parse().ok());
                self.highest
                    .fetch_max(version.unwrap_or(0), Ordering::Relaxed);
            }
            Ok(Event::InitDone) => {}
            Err(_) => self.failed.notify_one(),
        }
    }

    /// Waits until the watch is ahead of the API server. This may never happen.
    pub(super) async fn is_ahead(&self) {
        let mut pause = ASK;
        loop {
            tokio::select! {
                () = sleep(part_of(pause)) => {}
                () = self.failed.notified() => sleep(part_of(ASK_AFTER_FAILURE)).await,
            }
            let asked_from = self.cluster.pulses.watched_from(self.resource);
            let watched = asked_from.max(self.highest.load(Ordering::Relaxed));
            pause = match self.cluster.version(self.resource).await {
                Ok(Some(now)) if now < watched => {
                    warn!(
                        cluster = self.cluster.name,
                        kind = self.resource.kind,
                        watched,
                        now,
                        "the API server is behind what was watched, as after a restore from a \
                         backup: listing again"
                    );
                    return;
                }
                Ok(_) => ASK,
                // The list or the watch will report the fault.
                Err(_) => ASK_AFTER_FAILURE,
            }
        }
    }
}

/// A random time between half and all of `span`.
fn part_of(span: Duration) -> Duration {
    span.mul_f64(0.5 + fastrand::f64() / 2.0)
}

//! The service itself: what it holds, and what its calls share.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::Deciding;
use super::decision::ValidDecision;
use super::dialect::{DecisionTerms, Dialect};
use super::error::Error;
use super::lanes::Lanes;
use super::{deadline, request};
use crate::decision_log::{self, DecisionLog, Pending};
use crate::proto::v1;
use crate::snapshot::{ReadView, Registry, Snapshot};

/// How many exports run at once; more wait.
const MAX_EXPORTS: usize = 4;

/// Implements `evenkeel.v1.SpreadService` on a registry of snapshots.
#[derive(Clone)]
pub struct Service {
    pub(super) registry: Arc<Registry>,
    pub(super) draining: CancellationToken,
    /// Held by the one verification that runs: it copies a whole snapshot.
    pub(super) verifying: Arc<Semaphore>,
    /// Held by each export: it keeps a copy until its client has read it.
    pub(super) exporting: Arc<Semaphore>,
    /// Where work runs that may take long.
    pub(super) lanes: Lanes,
    /// Where feeds run, if not where they are opened.
    feeds: Option<Handle>,
    /// Where decisions are logged, if they are.
    decision_log: Option<DecisionLog>,
}

impl Service {
    /// A service on `registry`. Once `draining` is cancelled, streams and
    /// waiting calls end with UNAVAILABLE. Other calls are still answered: a
    /// closing connection may bring calls that its client sent before it
    /// noticed.
    pub fn new(registry: Arc<Registry>, draining: CancellationToken) -> Self {
        Self {
            lanes: Lanes::new(registry.limits()),
            registry,
            draining,
            verifying: Arc::new(Semaphore::new(1)),
            exporting: Arc::new(Semaphore::new(MAX_EXPORTS)),
            feeds: None,
            decision_log: None,
        }
    }

    /// The same service with a log of its decisions.
    #[must_use]
    pub fn with_decision_log(self, log: DecisionLog) -> Self {
        Self {
            decision_log: Some(log),
            ..self
        }
    }

    /// The same service with its feeds on a runtime of their own, where
    /// decoding their messages delays no other call. Changes that are called for
    /// there run on threads of the runtime `changes`, whose priority is that of
    /// the threads that serve.
    #[must_use]
    pub fn with_feeds_on(self, runtime: Handle, changes: Handle) -> Self {
        Self {
            lanes: self.lanes.with_changes_on(changes, runtime.id()),
            feeds: Some(runtime),
            ..self
        }
    }

    /// Ends when the server drains.
    pub fn draining(&self) -> impl Future<Output = ()> + Send + use<> {
        self.draining.clone().cancelled_owned()
    }

    /// Runs a feed until it has ended.
    pub(super) fn spawn_feed<T: Send + 'static>(
        &self,
        feed: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match &self.feeds {
            Some(runtime) => runtime.spawn(feed),
            None => tokio::spawn(feed),
        }
    }

    /// Begins to log a decision, if it is to be logged.
    pub(super) fn begin<R: Into<decision_log::LoggedRequest> + Clone>(
        &self,
        request: &R,
    ) -> Option<Pending> {
        let log = self.decision_log.as_ref()?;
        log.begin(|| request.clone().into())
    }

    /// The snapshot of a decision, once it has reached `min_revision`.
    pub(super) async fn reach(
        &self,
        name: &str,
        min_revision: i64,
        deadline: Option<Instant>,
    ) -> Result<Arc<Snapshot>, Error> {
        if min_revision == 0 {
            return Ok(self.registry.get_synced(name)?);
        }
        let latest = deadline::or_patience(deadline);
        loop {
            let snapshot = self.registry.get_synced(name)?;
            // Start to listen before looking, so that no move is missed.
            let moved = snapshot.moved();
            if snapshot.revision() >= min_revision {
                return Ok(snapshot);
            }
            tokio::select! {
                () = moved => {}
                () = self.draining.cancelled() => return Err(Error::Draining),
                () = tokio::time::sleep_until(latest) => {
                    return Err(Error::MinRevision {
                        snapshot: name.to_owned(),
                        wanted: min_revision,
                        actual: snapshot.revision(),
                    });
                }
            }
        }
    }

    /// A decision about one pod: a valid request, and the snapshot to ask, once
    /// that has reached the request's revision.
    pub(super) async fn deciding<A>(
        &self,
        request: v1::ScoreRequest,
        deadline: Option<Instant>,
        answer: fn(&dyn Dialect, &DecisionTerms, &ReadView<'_>) -> A,
    ) -> Result<Deciding<A>, Error> {
        let request = ValidDecision::of(request, self.registry.limits())?;
        let on = self
            .reach(&request.snapshot, request.min_revision, deadline)
            .await?;
        Ok(Deciding {
            request,
            on,
            answer,
        })
    }

    /// The snapshot of a request that decides nothing.
    pub(super) fn named(&self, name: &str) -> Result<Arc<Snapshot>, Error> {
        Ok(self.registry.get(&request::parse_snapshot_name(name)?)?)
    }
}

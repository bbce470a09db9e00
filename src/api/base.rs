//! The service itself: what it holds, and what its calls share.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::Response;
use tonic::metadata::MetadataMap;

use super::checked::{Ask, Checked, Pace};
use super::error::Error;
use super::lanes::Lanes;
use super::measured::{Answer, try_measured};
use super::{deadline, request};
use crate::decision_log::{self, DecisionLog, Pending};
use crate::proto::v1;
use crate::snapshot::{Delay, Registry, Snapshot};

/// Exports at a time; more wait.
const MAX_EXPORTS: usize = 4;

/// How long a decision that something holds up waits for it here, each time in
/// milliseconds: batches take no longer as a rule. What waits longer takes a
/// thread for it.
const HELD_WAITS_MS: [u64; 5] = [1, 2, 4, 8, 16];

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
    /// A service on `registry`. Once `draining` is cancelled, streams, and
    /// whoever waits for something, end with UNAVAILABLE. Other calls are
    /// still answered: a connection that is closing may bring some that were
    /// sent before its client heard of it.
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

    /// The same service, logging its decisions.
    #[must_use]
    pub fn with_decision_log(self, log: DecisionLog) -> Self {
        Self {
            decision_log: Some(log),
            ..self
        }
    }

    /// The same service, running its feeds on a runtime of their own, where
    /// decoding their messages holds up no other call.
    #[must_use]
    pub fn with_feeds_on(self, runtime: Handle) -> Self {
        Self {
            feeds: Some(runtime),
            ..self
        }
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

    /// Answers a valid request: here if it is over at once, which most are.
    pub(super) async fn decide<Q: Ask + Send + 'static, A: Answer + Send + 'static>(
        &self,
        (mut asked, on): (Checked<Q>, Arc<Snapshot>),
        metadata: &MetadataMap,
        answer: fn(&mut Checked<Q>, &Snapshot, Pace<'_>) -> Result<A, Delay>,
    ) -> Result<Response<A>, Error> {
        let mut at_once = || try_measured(|| answer(&mut asked, &on, Pace::AtOnce));
        let mut answered = at_once();
        for wait in HELD_WAITS_MS {
            if answered.as_ref().err() != Some(&Delay::Held) {
                break;
            }
            // Listening starts before looking, so that no move is missed.
            let moved = on.moved();
            answered = at_once();
            if answered.is_err() {
                // Not all that holds it moves it.
                let _ = timeout(Duration::from_millis(wait), moved).await;
                answered = at_once();
            }
        }
        match answered {
            Ok(answered) => Ok(answered),
            Err(Delay::Held) => self.decide_soon((asked, on), metadata, answer).await,
            Err(Delay::Long) => self.decide_aside((asked, on), metadata, answer).await,
        }
    }

    /// As [`Self::decide`], of what waits for somebody who changes what it reads.
    /// It is small, so it does not queue up behind what takes long.
    async fn decide_soon<Q: Ask + Send + 'static, A: Answer + Send + 'static>(
        &self,
        (mut asked, on): (Checked<Q>, Arc<Snapshot>),
        metadata: &MetadataMap,
        answer: fn(&mut Checked<Q>, &Snapshot, Pace<'_>) -> Result<A, Delay>,
    ) -> Result<Response<A>, Error> {
        let run = move || {
            let answered = try_measured(|| answer(&mut asked, &on, Pace::Soon));
            answered.map_err(|_| Box::new((asked, on)))
        };
        let deadline = deadline::given(metadata.as_ref());
        match self.lanes.wait(deadline, run).await? {
            Ok(answered) => Ok(answered),
            Err(asked) => self.decide_aside(*asked, metadata, answer).await,
        }
    }

    /// As [`Self::decide`], of what takes long for sure.
    pub(super) async fn decide_aside<Q: Ask + Send + 'static, A: Answer + Send + 'static>(
        &self,
        (mut asked, on): (Checked<Q>, Arc<Snapshot>),
        metadata: &MetadataMap,
        answer: fn(&mut Checked<Q>, &Snapshot, Pace<'_>) -> Result<A, Delay>,
    ) -> Result<Response<A>, Error> {
        let deadline = deadline::given(metadata.as_ref());
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let aside = || answer(&mut asked, &on, Pace::Aside(is_given_up));
            try_measured(aside).map_err(|_| Error::Deadline)
        };
        self.lanes.decide(deadline, run).await?
    }

    /// Begins to log a decision, if it is to be logged.
    pub(super) fn begin<R: Into<decision_log::Request> + Clone>(
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
        metadata: &MetadataMap,
    ) -> Result<Arc<Snapshot>, Error> {
        if min_revision == 0 {
            return Ok(self.registry.get_synced(name)?);
        }
        let deadline = deadline::of(metadata.as_ref());
        loop {
            let snapshot = self.registry.get_synced(name)?;
            // Listening starts before looking, so that no move is missed.
            let moved = snapshot.moved();
            if snapshot.revision() >= min_revision {
                return Ok(snapshot);
            }
            tokio::select! {
                () = moved => {}
                () = self.draining.cancelled() => return Err(Error::Draining),
                () = tokio::time::sleep_until(deadline) => {
                    return Err(Error::MinRevision {
                        snapshot: name.to_owned(),
                        wanted: min_revision,
                        actual: snapshot.revision(),
                    });
                }
            }
        }
    }

    /// A valid request about one pod, and the snapshot to ask, once it has
    /// reached the request's revision.
    pub(super) async fn check<Q: Ask>(
        &self,
        request: v1::ScoreRequest,
        metadata: &MetadataMap,
    ) -> Result<(Checked<Q>, Arc<Snapshot>), Error> {
        let asked = Checked::of(request, self.registry.limits())?;
        let snapshot = self
            .reach(&asked.snapshot, asked.min_revision, metadata)
            .await?;
        Ok((asked, snapshot))
    }

    /// The snapshot of a request that decides nothing.
    pub(super) fn named(&self, name: &str) -> Result<Arc<Snapshot>, Error> {
        Ok(self.registry.get(&request::parse_snapshot_name(name)?)?)
    }
}

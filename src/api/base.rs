//! The service itself: its state, the parts that its calls share, and its use without a socket.

use std::sync::Arc;

use prost::bytes::Bytes;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::body::Body;
use tonic::codegen::http;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::error::Error;
use super::executor::Executor;
use super::lookups::Lookups;
use super::request;
use super::request_context::{AboutSnapshot, OpenedCall, open};
use super::slots::FairLimiter;
use crate::access::Role;
use crate::decision_log::{DecisionLog, LoggedRequest, Pending};
use crate::kubernetes::Transport;
use crate::proto::v1::spread_service_server::SpreadServiceServer;
use crate::snapshot::{Fence, Registry, Snapshot};
use crate::tasks::{self, Task};

/// The largest message to send or take, in bytes. A client trusts the server that it was configured
/// for, and the answer about a large cluster is large.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// The number of exports that run at once; further ones wait.
const EXPORTS: usize = 4;

/// Implements `evenkeel.v1.SpreadService` on a registry of snapshots.
#[derive(Clone)]
pub struct Service {
    pub(super) registry: Arc<Registry>,
    pub(super) draining: CancellationToken,
    /// Held by the running verification. Only one runs at a time, because it copies a whole
    /// snapshot.
    pub(super) verifying: FairLimiter,
    /// Held by each export, because it keeps a revision until its client has read it.
    pub(super) exporting: FairLimiter,
    /// The threads and limits for long work.
    pub(super) executor: Executor,
    /// The runtime of feeds and exports, if they do not run where they are opened.
    feeds: Option<Handle>,
    /// The log of decisions, if there is one.
    decision_log: Option<DecisionLog>,
    /// The right that feeds need, if they need one.
    fence: Option<Fence>,
    /// The names that were looked up in the log.
    pub(super) lookups: Arc<Lookups>,
}

impl Service {
    /// A service on `registry`. Once `draining` is cancelled, streams and
    /// waiting calls end with UNAVAILABLE. Other calls are still answered: a
    /// closing connection may bring calls that its client sent before it
    /// noticed.
    pub fn new(registry: Arc<Registry>, draining: CancellationToken) -> Self {
        Self {
            executor: Executor::new(registry.limits()),
            registry,
            draining,
            verifying: FairLimiter::new(1),
            exporting: FairLimiter::new(EXPORTS),
            feeds: None,
            decision_log: None,
            fence: None,
            lookups: Arc::default(),
        }
    }

    /// The same service, whose feeds need a right.
    #[must_use]
    pub fn with_fence(self, fence: Fence) -> Self {
        Self {
            fence: Some(fence),
            ..self
        }
    }

    /// The same service with a log of its decisions, if there is one.
    #[must_use]
    pub fn with_decision_log(self, decision_log: Option<DecisionLog>) -> Self {
        Self {
            decision_log,
            ..self
        }
    }

    /// The same service with its feeds and exports on a runtime of their own, whose threads delay no
    /// other call.
    #[must_use]
    pub fn with_feeds_on(self, runtime: Handle) -> Self {
        Self {
            feeds: Some(runtime),
            ..self
        }
    }

    /// Takes calls from this process. Callers are not told apart, and access rules do not apply:
    /// only the port enforces them.
    pub fn in_process(self) -> Transport {
        let server = SpreadServiceServer::new(self)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        BoxCloneSyncService::new(ServiceExt::<http::Request<Body>>::map_err(
            server,
            Into::into,
        ))
    }

    /// The right for a feed that begins now, if feeds need one.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.fence.as_ref().map(Fence::of_now)
    }

    /// Ends when the server drains.
    pub fn draining(&self) -> impl Future<Output = ()> + Send + use<> {
        self.draining.clone().cancelled_owned()
    }

    /// Runs a feed, an export or large work until it has ended.
    pub(super) fn spawn_feed<T: Send + 'static>(
        &self,
        feed: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        match &self.feeds {
            Some(runtime) => tasks::spawn_on(runtime, feed),
            None => tasks::spawn(feed),
        }
    }

    /// Begins to log a decision about a request, if decisions are logged.
    pub(super) fn begin<R: Into<LoggedRequest>>(
        &self,
        request: impl FnOnce() -> Option<R>,
    ) -> Option<Pending> {
        let log = self.decision_log.as_ref()?;
        log.begin(|| Some(request()?.into()))
    }

    /// Opens a call that decides nothing, and finds its snapshot. The caller needs `role` on that
    /// snapshot.
    pub(super) async fn open_on<M: AboutSnapshot>(
        &self,
        request: Request<Bytes>,
        role: Role,
    ) -> Result<(OpenedCall<M>, Arc<Snapshot>), Error> {
        let call = open::<M>(request, role)?;
        let name = request::parse_snapshot_name(call.request.snapshot())?;
        self.lookups.look_up(&self.registry, &name).await;
        Ok((call, self.registry.get(&name)?))
    }
}

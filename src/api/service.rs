//! The service: its state, the parts that its calls share, and each call from its request to its
//! answer. It can also be called without a socket.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream;
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Request, Response, Status, Streaming};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::answer::{MeasuredAnswer, try_measured};
use super::decision_stream::answer_questions;
use super::describe::ValidDescription;
use super::error::Error;
use super::executor::{Beside, Executor, FairLimiter, until};
use super::export::{self, ValidNodeList};
use super::nodes::ValidNodeQuestion;
use super::read_your_writes::{AskedSnapshot, Lookups};
use super::request::{self, PageTokens};
use super::request_context::{
    AboutRevision, AboutSnapshot, OpenedCall, RequestContext, decode, may_read, open, open_stream,
};
use super::update::{self, Feed, ValidUpdate, run_feed};
use super::{rebalance, removals, reservations};
use crate::access::Role;
use crate::decision_log::{DecisionLog, LoggedRequest, Pending};
use crate::kubernetes::Transport;
use crate::matching::Violations;
use crate::proto::encoded::{encode, encode_within};
use crate::proto::v1;
use crate::proto::v1::spread_service_server::{SpreadService, SpreadServiceServer};
use crate::snapshot::{Fence, Limits, Registry, Snapshot};
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
    /// Where feeds and exports run, and what takes long to decode.
    pub(crate) beside: Beside,
    /// The log of decisions, if there is one.
    pub(crate) decision_log: Option<DecisionLog>,
    /// The right that feeds need, if they need one.
    pub(crate) fence: Option<Fence>,
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
            beside: Beside::new(None),
            decision_log: None,
            fence: None,
            lookups: Arc::default(),
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

/// The number of acknowledgements that wait for a slow reader before its feed pauses.
pub(super) const MAX_WAITING_ANSWERS: usize = 16;

/// Checks a request. Returns what is asked; `None` if that cannot be read.
type Check<M, V> = fn(M, &Limits, &mut Violations) -> Option<V>;

/// Answers what is asked about a snapshot, until nobody waits any more.
type Look<V, A> = fn(V, &Snapshot, &dyn Fn() -> bool) -> Result<A, Error>;

impl Service {
    /// Opens a call that asks about a revision of a snapshot, once the snapshot has reached it.
    async fn asked<M: AboutRevision, V>(
        &self,
        request: Request<Bytes>,
        check: Check<M, V>,
    ) -> Result<(RequestContext, V, Arc<Snapshot>), Error> {
        let OpenedCall { request, by } = open(request, Role::Reader)?;
        let (limits, mut faults) = (self.registry.limits(), Violations::default());
        let asked = AskedSnapshot::of(&request, limits, &mut faults);
        let Some(valid) = check(request, limits, &mut faults) else {
            return Err(faults.into());
        };
        let valid = faults.finish(valid)?;
        let snapshot = self.reach(&asked, by.deadline).await?;
        Ok((by, valid, snapshot))
    }

    /// Answers a call that reads many pods of a snapshot, beside the threads that serve.
    async fn look<M: AboutRevision, V: Send + 'static, A: MeasuredAnswer + Message + 'static>(
        &self,
        request: Request<Bytes>,
        check: Check<M, V>,
        answer: Look<V, A>,
    ) -> Result<Response<Bytes>, Status> {
        let (by, valid, snapshot) = self.asked(request, check).await?;
        let registry = Arc::clone(&self.registry);
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || answer(valid, &snapshot, is_given_up))?;
            let encoded = encode_within(answer.get_ref(), registry.limits())?;
            Ok::<_, Error>(answer.map(|_| encoded))
        };
        Ok(self.executor.decide(&by, run).await??)
    }
}

#[tonic::async_trait]
impl SpreadService for Service {
    async fn update_snapshot(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = open::<v1::UpdateSnapshotRequest>(request, Role::Feeder)?;
        let (registry, fence) = (Arc::clone(&self.registry), self.fence());
        let arrived = registry.now().steady;
        let change = move || {
            let mut valid =
                ValidUpdate::of(call.request, Vec::new(), None, arrived, registry.limits())?;
            valid.offer.fence = fence;
            Ok::<_, Error>(encode(update::response(&valid.apply(&registry)?)))
        };
        Ok(Response::new(
            self.executor.change(&call.by, change).await??,
        ))
    }

    type StreamSnapshotStream = BoxStream;

    async fn stream_snapshot(
        &self,
        request: Request<Streaming<Bytes>>,
    ) -> Result<Response<Self::StreamSnapshotStream>, Status> {
        let call = open_stream(request, Role::Feeder)?;
        let (answers, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
        let (registry, fence) = (Arc::clone(&self.registry), self.fence());
        let feed = Feed::new(registry, call.by.caller.clone(), fence);
        let run = run_feed(
            feed,
            call.request,
            answers,
            self.draining.clone(),
            self.executor.clone(),
            call.by,
        );
        Ok(Response::new(streamed(receiver, self.beside.spawn(run))))
    }

    async fn filter(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        Ok(self.answer::<v1::FilterRequest>(request).await?)
    }

    async fn score(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        Ok(self.answer::<v1::ScoreRequest>(request).await?)
    }

    async fn explain(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        Ok(self.answer::<v1::ExplainRequest>(request).await?)
    }

    async fn place(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = decode(request)?;
        Ok(self.placed(call.request, call.by).await?)
    }

    type DecideStream = BoxStream;

    async fn decide(
        &self,
        request: Request<Streaming<Bytes>>,
    ) -> Result<Response<Self::DecideStream>, Status> {
        let observer = request.extensions().get().cloned();
        let call = open_stream(request, Role::Reader)?;
        let (answers, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
        let run = answer_questions(self.clone(), call, observer, answers);
        Ok(Response::new(streamed(receiver, tasks::spawn(run))))
    }

    async fn describe_spread(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.look(request, ValidDescription::check, ValidDescription::answer)
            .await
    }

    async fn rank_removals(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.look(request, removals::check, removals::answer).await
    }

    async fn reserve_pods(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.change_reservations(request, reservations::reserve_pods)
            .await
    }

    async fn rebalance(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.look(request, rebalance::check, rebalance::answer)
            .await
    }

    async fn plan_nodes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.look(request, ValidNodeQuestion::check, ValidNodeQuestion::answer)
            .await
    }

    async fn confirm_reservations(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        self.change_reservations(request, reservations::confirm)
            .await
    }

    async fn renew_reservations(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.change_reservations(request, reservations::renew).await
    }

    async fn release_reservations(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        self.change_reservations(request, reservations::release)
            .await
    }

    async fn list_reservations(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let (call, snapshot) = self
            .open_on::<v1::ListReservationsRequest>(request, Role::Reader)
            .await?;
        let listed = reservations::list(&call.request, &snapshot)?;
        Ok(Response::new(encode(listed)))
    }

    async fn list_nodes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let (_, valid, snapshot) = self.asked(request, ValidNodeList::check).await?;
        Ok(Response::new(encode(valid.answer(&snapshot))))
    }

    async fn get_snapshot(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let (_, snapshot) = self
            .open_on::<v1::GetSnapshotRequest>(request, Role::Reader)
            .await?;
        let snapshot = Some(export::summary(&snapshot.summary()));
        Ok(Response::new(encode(v1::GetSnapshotResponse { snapshot })))
    }

    async fn list_snapshots(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = decode::<v1::ListSnapshotsRequest>(request)?;
        let mut faults = Violations::default();
        let size = request::page_size(call.request.page_size, &mut faults);
        let tokens = PageTokens::new("ListSnapshots", &v1::ListSnapshotsRequest::default());
        let after = tokens.last(&call.request.page_token, &mut faults);
        faults.finish(()).map_err(Error::from)?;
        let mut all = self.registry.list(after.unwrap_or_default());
        all.retain(|snapshot| may_read(call.by.caller.as_ref(), snapshot.name()));
        let page = &all[..size.min(all.len())];
        let last = page.last().filter(|_| page.len() < all.len());
        Ok(Response::new(encode(v1::ListSnapshotsResponse {
            snapshots: page.iter().map(|s| export::summary(&s.summary())).collect(),
            next_page_token: last.map_or(String::new(), |s| tokens.token(s.name())),
        })))
    }

    async fn delete_snapshot(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let (call, snapshot) = self
            .open_on::<v1::DeleteSnapshotRequest>(request, Role::Admin)
            .await?;
        let registry = Arc::clone(&self.registry);
        // Dropping a large state takes long, so it runs as a change.
        let delete = move || registry.delete(snapshot.name(), &call.request.epoch);
        let deleted = self.executor.change(&call.by, delete).await?;
        deleted.map_err(Error::from)?;
        Ok(Response::new(encode(v1::DeleteSnapshotResponse {})))
    }

    type ExportSnapshotStream = BoxStream;

    async fn export_snapshot(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Self::ExportSnapshotStream>, Status> {
        let (call, snapshot) = self
            .open_on::<v1::ExportSnapshotRequest>(request, Role::Feeder)
            .await?;
        let place = self.exporting.take_by(&call.by).await?;
        let state = snapshot.hold().map_err(Error::from)?;
        let (parts, receiver) = mpsc::channel(export::MAX_WAITING_PARTS);
        let draining = self.draining.clone();
        let feed = async move {
            let _place = place;
            let export = until(call.by.deadline, export::run(snapshot, state, parts));
            let sent = draining.run_until_cancelled(export).await;
            sent.unwrap_or(Err(Error::Draining))?
        };
        Ok(Response::new(streamed(receiver, self.beside.spawn(feed))))
    }

    async fn verify_snapshot(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let (call, snapshot) = self
            .open_on::<v1::VerifySnapshotRequest>(request, Role::Admin)
            .await?;
        let turn = self.verifying.take_by(&call.by).await?;
        let draining = self.draining.clone();
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let _turn = turn;
            let is_given_up = || is_given_up() || draining.is_cancelled();
            export::verified(&snapshot, &snapshot.state(), &is_given_up)
        };
        let verified = self.executor.decide(&call.by, run).await?;
        let verified = verified.map_err(|stopped| match self.draining.is_cancelled() {
            true => Error::Draining,
            false => stopped.into(),
        });
        Ok(Response::new(encode(verified?)))
    }
}

/// A stream of answers.
pub type BoxStream = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Returns the messages that `feeder` sends, then its error if it failed. A panic is an error, too.
pub fn streamed(
    answers: mpsc::Receiver<Result<Bytes, Status>>,
    feeder: Task<Result<(), Error>>,
) -> BoxStream {
    let ended = stream::once(feeder).filter_map(|ended| {
        let ended = ended.unwrap_or(Err(Error::Internal));
        ended.err().map(|error| Err(error.into()))
    });
    // The channel is open for as long as its feeder runs.
    Box::pin(ReceiverStream::new(answers).chain(ended))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::tasks;

    /// Returns the code with which a stream ended, and the number of its items.
    async fn read<T>(mut stream: impl Stream<Item = Result<T, Status>> + Unpin) -> (usize, Code) {
        let mut count = 0;
        while let Some(answer) = stream.next().await {
            match answer {
                Ok(_) => count += 1,
                Err(status) => return (count, status.code()),
            }
        }
        (count, Code::Ok)
    }

    #[tokio::test]
    async fn a_stream_ends_as_its_feeder_does() {
        type End = fn() -> Result<(), Error>;
        let ends: [(End, Code); 3] = [
            (|| Ok(()), Code::Ok),
            (|| Err(Error::Draining), Code::Unavailable),
            (|| panic!("on purpose"), Code::Internal),
        ];
        for (end, code) in ends {
            let (answers, receiver) = mpsc::channel(4);
            let feeder = tasks::spawn(async move {
                for _ in 0..3 {
                    let _ = answers.send(Ok(Bytes::new())).await;
                }
                end()
            });
            assert_eq!(read(streamed(receiver, feeder)).await, (3, code));
        }
    }
}

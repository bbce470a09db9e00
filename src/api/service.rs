//! The calls of the gRPC service, each from its request to its answer.

use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::base::Service;
use super::decision_stream::answer_questions;
use super::describe::ValidDescription;
use super::error::Error;
use super::feed::{Feed, run_feed};
use super::node_names::ValidNodeList;
use super::nodes::ValidNodePlan;
use super::noted::{MeasuredAnswer, try_measured};
use super::page_token::PageTokens;
use super::rebalance::ValidRebalance;
use super::removals::ValidRemovals;
use super::request_context::{RequestContext, decode, open, open_stream};
use super::streamed::{BoxStream, streamed};
use super::update::ValidUpdate;
use super::{export, permission, request, reservations, update, verify};
use crate::access::Role;
use crate::matching::Violations;
use crate::proto::encoded::{encode, encode_within};
use crate::proto::v1;
use crate::proto::v1::spread_service_server::SpreadService;
use crate::snapshot::Snapshot;
use crate::tasks;

/// The number of acknowledgements that wait for a slow reader before its feed pauses.
pub(super) const MAX_WAITING_ANSWERS: usize = 16;

impl Service {
    /// Answers a call that reads many pods of a snapshot, beside the threads that serve.
    async fn look<A>(
        &self,
        by: &RequestContext,
        snapshot: Arc<Snapshot>,
        answer: impl FnOnce(&Snapshot, &dyn Fn() -> bool) -> Result<A, Error> + Send + 'static,
    ) -> Result<Response<Bytes>, Status>
    where
        A: MeasuredAnswer + Message,
    {
        let registry = Arc::clone(&self.registry);
        let run = move |is_given_up: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || answer(&snapshot, is_given_up))?;
            let encoded = encode_within(answer.get_ref(), registry.limits())?;
            Ok::<_, Error>(answer.map(|_| encoded))
        };
        Ok(self.executor.decide(by, run).await??)
    }
}

#[tonic::async_trait]
impl SpreadService for Service {
    async fn update_snapshot(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = open::<v1::UpdateSnapshotRequest>(request, Role::Feeder)?;
        let (registry, fence) = (Arc::clone(&self.registry), self.fence());
        let arrived = registry.now().steady;
        let change = move || {
            let mut valid = ValidUpdate::of(call.request, None, arrived, registry.limits())?;
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
        Ok(Response::new(streamed(receiver, self.spawn_feed(run))))
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
        let call = open(request, Role::Reader)?;
        let valid = ValidDescription::of(call.request, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, call.by.deadline).await?;
        let answer = move |on: &Snapshot, stop: &dyn Fn() -> bool| valid.answer(on, stop);
        self.look(&call.by, snapshot, answer).await
    }

    async fn rank_removals(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = open(request, Role::Reader)?;
        let valid = ValidRemovals::of(call.request, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, call.by.deadline).await?;
        let answer = move |on: &Snapshot, stop: &dyn Fn() -> bool| valid.answer(on, stop);
        self.look(&call.by, snapshot, answer).await
    }

    async fn reserve_pods(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        self.change_reservations(request, reservations::reserve_pods)
            .await
    }

    async fn rebalance(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = open(request, Role::Reader)?;
        let valid = ValidRebalance::of(call.request, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, call.by.deadline).await?;
        let answer = move |on: &Snapshot, stop: &dyn Fn() -> bool| valid.answer(on, stop);
        self.look(&call.by, snapshot, answer).await
    }

    async fn plan_nodes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let call = open(request, Role::Reader)?;
        let valid = ValidNodePlan::of(call.request, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, call.by.deadline).await?;
        let answer = move |on: &Snapshot, stop: &dyn Fn() -> bool| valid.answer(on, stop);
        self.look(&call.by, snapshot, answer).await
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
        let call = open(request, Role::Reader)?;
        let valid = ValidNodeList::of(call.request, self.registry.limits())?;
        let snapshot = self.reach(&valid.asked, call.by.deadline).await?;
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
        all.retain(|snapshot| permission::may_read(call.by.caller.as_ref(), snapshot.name()));
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
        let send = export::Sender {
            parts,
            draining: self.draining.clone(),
            deadline: call.by.deadline,
            _place: place,
        };
        let feeder = self.spawn_feed(export::run(snapshot, state, send));
        Ok(Response::new(streamed(receiver, feeder)))
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
            verify::response(&snapshot, &snapshot.state(), &is_given_up)
        };
        let verified = self.executor.decide(&call.by, run).await?;
        let verified = verified.map_err(|stopped| match self.draining.is_cancelled() {
            true => Error::Draining,
            false => stopped.into(),
        });
        Ok(Response::new(encode(verified?)))
    }
}

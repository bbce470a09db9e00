//! The calls of the gRPC service, each from its request to its answer.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::base::Service;
use super::describe::ValidDescription;
use super::error::Error;
use super::feed::Feed;
use super::feeding::run_feed;
use super::lanes::{LARGE_BATCH, slot};
use super::logged::logged;
use super::measured::try_measured;
use super::opening::{open, open_list, open_stream};
use super::place::ValidPlacement;
use super::streamed::Streamed;
use super::update::ValidUpdate;
use super::{export, permission, place, request, reservations, update, verify};
use crate::access::Role;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::proto::v1::spread_service_server::SpreadService;

/// Acknowledgements that wait for a slow reader before its feed pauses.
pub(super) const MAX_WAITING_ANSWERS: usize = 16;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl SpreadService for Service {
    async fn update_snapshot(
        &self,
        request: Request<v1::UpdateSnapshotRequest>,
    ) -> Result<Response<v1::UpdateSnapshotResponse>, Status> {
        let call = open(request, Role::Feeder)?;
        let registry = Arc::clone(&self.registry);
        let arrived = registry.now().steady;
        let is_large = registry.is_journaled() || call.request.changes.len() >= LARGE_BATCH;
        let run = move || {
            let valid = ValidUpdate::of(call.request, None, arrived, registry.limits())?;
            Ok::<_, Error>(update::response(&valid.apply(&registry)?))
        };
        let updated = self.lanes.change_soon(is_large, call.deadline, run);
        Ok(Response::new(updated.await??))
    }

    type StreamSnapshotStream = BoxStream<v1::StreamSnapshotResponse>;

    async fn stream_snapshot(
        &self,
        request: Request<Streaming<v1::StreamSnapshotRequest>>,
    ) -> Result<Response<Self::StreamSnapshotStream>, Status> {
        let call = open_stream(request, Role::Feeder)?;
        let (answers, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
        let feed = Feed::new(Arc::clone(&self.registry), call.caller);
        let run = run_feed(
            feed,
            self.registry.is_journaled(),
            call.request,
            answers,
            self.draining.clone(),
            self.lanes.clone(),
            call.deadline,
        );
        let feeder = self.spawn_feed(async {
            run.await;
            Ok(())
        });
        Ok(Response::new(Box::pin(Streamed::new(receiver, feeder))))
    }

    async fn filter(
        &self,
        request: Request<v1::FilterRequest>,
    ) -> Result<Response<v1::FilterResponse>, Status> {
        let call = open(request, Role::Reader)?;
        let pending = self.begin(&call.request);
        let request = request::filter_as_score(call.request);
        let deciding = self.deciding(request, call.deadline, |question, terms, read_view| {
            question.filter(terms, read_view)
        });
        let answer = deciding
            .await?
            .decide(&self.lanes, &call.who, call.deadline)
            .await?;
        Ok(logged(pending, answer))
    }

    async fn score(
        &self,
        request: Request<v1::ScoreRequest>,
    ) -> Result<Response<v1::ScoreResponse>, Status> {
        let call = open(request, Role::Reader)?;
        let pending = self.begin(&call.request);
        let request = call.request;
        let deciding = self.deciding(request, call.deadline, |question, terms, read_view| {
            question.score(terms, read_view)
        });
        let answer = deciding
            .await?
            .decide(&self.lanes, &call.who, call.deadline)
            .await?;
        Ok(logged(pending, answer))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let call = open(request, Role::Reader)?;
        let pending = self.begin(&call.request);
        let request = request::explain_as_score(call.request);
        let deciding = self.deciding(request, call.deadline, |question, terms, read_view| {
            question.explain(terms, read_view)
        });
        // Explain decides several times, so it runs beside the threads that
        // serve.
        let answer = deciding
            .await?
            .decide_aside(&self.lanes, &call.who, call.deadline)
            .await?;
        Ok(logged(pending, answer))
    }

    async fn place(
        &self,
        request: Request<v1::PlaceRequest>,
    ) -> Result<Response<v1::PlaceResponse>, Status> {
        let role = place::role(request.get_ref());
        let call = open(request, role)?;
        let pending = self.begin(&call.request);
        let deadline = call.deadline;
        let limits = self.registry.limits();
        let mut valid = ValidPlacement::of(call.request, call.caller.as_ref(), limits)?;
        let snapshot = self
            .reach(&valid.snapshot, valid.min_revision, deadline)
            .await?;
        if let Some(answer) = valid.repeated(&snapshot)? {
            return Ok(answer);
        }
        let lists_placements = valid.lists_placements();
        // A cancelled call drops its guard, which stops the placing.
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        let stop = move || {
            let is_late = || deadline.is_some_and(|at| Instant::now() > at);
            given_up.is_cancelled() || is_late()
        };
        let run = move |_: &dyn Fn() -> bool| {
            let answer = try_measured(&snapshot, || valid.answer(&snapshot, &stop));
            answer.map(|answer| (answer, valid, snapshot, stop))
        };
        let (mut answer, valid, snapshot, stop) =
            self.lanes.decide(&call.who, deadline, run).await??;
        if valid.reserves() {
            // Work that waits for a disk must not take a slot from decisions.
            let hold = move || valid.hold(answer, &snapshot, &stop);
            answer = self.lanes.change(deadline, hold).await??;
        }
        if !lists_placements {
            // Only now: the measured size counts the placements.
            answer.get_mut().placements.clear();
        }
        Ok(logged(pending, answer))
    }

    async fn describe_spread(
        &self,
        request: Request<v1::DescribeSpreadRequest>,
    ) -> Result<Response<v1::DescribeSpreadResponse>, Status> {
        let call = open(request, Role::Reader)?;
        let valid = ValidDescription::of(call.request, self.registry.limits())?;
        let snapshot = self
            .reach(&valid.snapshot, valid.min_revision, call.deadline)
            .await?;
        let run = move |is_given_up: &dyn Fn() -> bool| {
            try_measured(&snapshot, || valid.answer(&snapshot, is_given_up))
        };
        Ok(self.lanes.decide(&call.who, call.deadline, run).await??)
    }

    async fn confirm_reservations(
        &self,
        request: Request<v1::ConfirmReservationsRequest>,
    ) -> Result<Response<v1::ConfirmReservationsResponse>, Status> {
        let call = open(request, Role::Feeder)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let limits = self.registry.limits().clone();
        let confirm = move || reservations::confirm(call.request, &snapshot, &limits);
        Ok(Response::new(
            self.lanes.change(call.deadline, confirm).await??,
        ))
    }

    async fn renew_reservations(
        &self,
        request: Request<v1::RenewReservationsRequest>,
    ) -> Result<Response<v1::RenewReservationsResponse>, Status> {
        let call = open(request, Role::Feeder)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let limits = self.registry.limits().clone();
        let renew = move || reservations::renew(call.request, &snapshot, &limits);
        Ok(Response::new(
            self.lanes.change(call.deadline, renew).await??,
        ))
    }

    async fn release_reservations(
        &self,
        request: Request<v1::ReleaseReservationsRequest>,
    ) -> Result<Response<v1::ReleaseReservationsResponse>, Status> {
        let call = open(request, Role::Feeder)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let limits = self.registry.limits().clone();
        let release = move || reservations::release(call.request, &snapshot, &limits);
        Ok(Response::new(
            self.lanes.change(call.deadline, release).await??,
        ))
    }

    async fn list_reservations(
        &self,
        request: Request<v1::ListReservationsRequest>,
    ) -> Result<Response<v1::ListReservationsResponse>, Status> {
        let call = open(request, Role::Reader)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let list = move || reservations::list(&call.request, &snapshot);
        let listed = self.lanes.look(call.deadline, list).await??;
        Ok(Response::new(listed))
    }

    async fn get_snapshot(
        &self,
        request: Request<v1::GetSnapshotRequest>,
    ) -> Result<Response<v1::GetSnapshotResponse>, Status> {
        let call = open(request, Role::Reader)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let get = move || Some(export::summary(&snapshot.summary()));
        let snapshot = self.lanes.look(call.deadline, get).await?;
        Ok(Response::new(v1::GetSnapshotResponse { snapshot }))
    }

    async fn list_snapshots(
        &self,
        request: Request<v1::ListSnapshotsRequest>,
    ) -> Result<Response<v1::ListSnapshotsResponse>, Status> {
        let call = open_list(request);
        let mut faults = Violations::default();
        let size = request::page_size(call.request.page_size, &mut faults);
        // A token is the last name of the page before.
        let token = Path::root("pageToken");
        request::check_snapshot_name(&call.request.page_token, token, &mut faults);
        faults.finish(()).map_err(Error::from)?;
        let mut all = self.registry.list(&call.request.page_token);
        all.retain(|snapshot| permission::may_read(call.caller.as_ref(), snapshot.name()));
        let list = move || {
            let page = &all[..size.min(all.len())];
            let last = page.last().filter(|_| page.len() < all.len());
            v1::ListSnapshotsResponse {
                snapshots: page.iter().map(|s| export::summary(&s.summary())).collect(),
                next_page_token: last.map_or(String::new(), |s| s.name().to_owned()),
            }
        };
        let listed = self.lanes.look(call.deadline, list).await?;
        Ok(Response::new(listed))
    }

    async fn delete_snapshot(
        &self,
        request: Request<v1::DeleteSnapshotRequest>,
    ) -> Result<Response<v1::DeleteSnapshotResponse>, Status> {
        let call = open(request, Role::Admin)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let registry = Arc::clone(&self.registry);
        // Dropping a large state takes long.
        let delete = move || registry.delete(snapshot.name(), &call.request.epoch);
        let deleted = self.lanes.change(call.deadline, delete).await?;
        deleted.map_err(Error::from)?;
        Ok(Response::new(v1::DeleteSnapshotResponse {}))
    }

    type ExportSnapshotStream = BoxStream<v1::ExportSnapshotResponse>;

    async fn export_snapshot(
        &self,
        request: Request<v1::ExportSnapshotRequest>,
    ) -> Result<Response<Self::ExportSnapshotStream>, Status> {
        let call = open(request, Role::Feeder)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let turn = slot(&self.exporting, call.deadline).await?;
        snapshot.check_copy().map_err(Error::from)?;
        let freeze = move || (snapshot.freeze(), snapshot);
        let (frozen, snapshot) = self.lanes.copy(call.deadline, freeze).await?;
        let (parts, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
        let sender = export::Sender::new(parts, self.draining.clone(), call.deadline);
        let feeder = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            export::parts(snapshot.name(), snapshot.epoch(), &frozen, |part| {
                sender.send(part)
            })
        });
        Ok(Response::new(Box::pin(Streamed::new(receiver, feeder))))
    }

    async fn verify_snapshot(
        &self,
        request: Request<v1::VerifySnapshotRequest>,
    ) -> Result<Response<v1::VerifySnapshotResponse>, Status> {
        let call = open(request, Role::Admin)?;
        let snapshot = self.named(&call.request.snapshot)?;
        let turn = slot(&self.verifying, call.deadline).await?;
        // Cancelled when this future is dropped, because nobody waits any more.
        snapshot.check_copy().map_err(Error::from)?;
        let abandoned = self.draining.child_token();
        let _abandon = abandoned.clone().drop_guard();
        let run = move || {
            let _turn = turn;
            verify::response(&snapshot, &|| abandoned.is_cancelled())
        };
        let response = self.lanes.copy(call.deadline, run).await?;
        Ok(Response::new(response.ok_or(Error::Draining)?))
    }
}

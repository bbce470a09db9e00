//! The calls of the gRPC service, each from its request to its answer.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::base::Service;
use super::checked::Checked;
use super::error::Error;
use super::feed::Feed;
use super::feeding::run_feed;
use super::lanes::{LARGE_BATCH, until};
use super::logged::logged;
use super::measured::try_measured;
use super::streamed::Streamed;
use super::{
    deadline, describe, explain, export, permission, place, request, reservations, update, verify,
};
use crate::access::Role;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::proto::v1::spread_service_server::SpreadService;
use crate::spread::{self, fleet};

/// Acknowledgements that wait for a slow reader before its feed pauses.
pub(super) const MAX_WAITING_ANSWERS: usize = 16;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl SpreadService for Service {
    async fn update_snapshot(
        &self,
        request: Request<v1::UpdateSnapshotRequest>,
    ) -> Result<Response<v1::UpdateSnapshotResponse>, Status> {
        permission::check(&request, Role::Feeder, |request| &request.snapshot)?;
        let registry = Arc::clone(&self.registry);
        let arrived = registry.now().steady;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let is_large = registry.is_journaled() || request.changes.len() >= LARGE_BATCH;
        let run = move || {
            let checked = update::Checked::of(request, None, arrived, registry.limits())?;
            Ok::<_, Error>(update::response(&checked.apply(&registry)?))
        };
        let updated = self.lanes.change_soon(is_large, deadline, run).await??;
        Ok(Response::new(updated))
    }

    type StreamSnapshotStream = BoxStream<v1::StreamSnapshotResponse>;

    async fn stream_snapshot(
        &self,
        request: Request<Streaming<v1::StreamSnapshotRequest>>,
    ) -> Result<Response<Self::StreamSnapshotStream>, Status> {
        permission::check_anywhere(&request, Role::Feeder)?;
        let (answers, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
        let caller = request.extensions().get().cloned();
        let feed = Feed::new(Arc::clone(&self.registry), caller);
        let deadline = deadline::given(request.metadata().as_ref());
        let (draining, lanes) = (self.draining.clone(), self.lanes.clone());
        let steps = request.into_inner();
        let is_journaled = self.registry.is_journaled();
        let run = run_feed(
            feed,
            is_journaled,
            steps,
            answers,
            draining,
            lanes,
            deadline,
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
        permission::check(&request, Role::Reader, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let pending = self.begin(&request);
        let request = request::as_score(request);
        let answer = match is_fleet(request.dialect) {
            false => {
                let asked = self.check::<spread::Question>(request, &metadata).await?;
                self.decide(asked, &metadata, Checked::filter).await
            }
            true => {
                let asked = self.check::<fleet::Question>(request, &metadata).await?;
                self.decide(asked, &metadata, Checked::filter).await
            }
        };
        Ok(logged(pending, answer?))
    }

    async fn score(
        &self,
        request: Request<v1::ScoreRequest>,
    ) -> Result<Response<v1::ScoreResponse>, Status> {
        permission::check(&request, Role::Reader, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let pending = self.begin(&request);
        let answer = match is_fleet(request.dialect) {
            false => {
                let asked = self.check::<spread::Question>(request, &metadata).await?;
                self.decide(asked, &metadata, Checked::score).await
            }
            true => {
                let asked = self.check::<fleet::Question>(request, &metadata).await?;
                self.decide(asked, &metadata, Checked::score).await
            }
        };
        Ok(logged(pending, answer?))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        permission::check(&request, Role::Reader, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let pending = self.begin(&request);
        let request = request::as_score(explain::as_filter(request));
        // Decides several times over, so beside the reactor.
        let answer = match is_fleet(request.dialect) {
            false => {
                let asked = self.check::<spread::Question>(request, &metadata).await?;
                self.decide_aside(asked, &metadata, Checked::explain).await
            }
            true => {
                let asked = self.check::<fleet::Question>(request, &metadata).await?;
                self.decide_aside(asked, &metadata, Checked::explain).await
            }
        };
        Ok(logged(pending, answer?))
    }

    async fn place(
        &self,
        request: Request<v1::PlaceRequest>,
    ) -> Result<Response<v1::PlaceResponse>, Status> {
        permission::check(&request, place::role(request.get_ref()), |request| {
            &request.snapshot
        })?;
        let (metadata, _, request) = request.into_parts();
        let pending = self.begin(&request);
        let deadline = deadline::given(metadata.as_ref());
        let mut checked = place::Checked::of(request, self.registry.limits())?;
        let snapshot = self
            .reach(&checked.snapshot, checked.min_revision, &metadata)
            .await?;
        let lists_placements = checked.lists_placements();
        // A call that is given up drops its guard, which stops the placing.
        let given_up = CancellationToken::new();
        let _guard = given_up.clone().drop_guard();
        let stop = move || {
            let is_late = || deadline.is_some_and(|at| Instant::now() > at);
            given_up.is_cancelled() || is_late()
        };
        let run = move |_: &dyn Fn() -> bool| {
            let answer = try_measured(|| checked.answer(&snapshot, &stop));
            answer.map(|answer| (answer, checked, snapshot, stop))
        };
        let (mut answer, checked, snapshot, stop) = self.lanes.decide(deadline, run).await??;
        if checked.reserves() {
            // What waits for a disk takes no room from decisions.
            let hold = move || checked.hold(answer, &snapshot, &stop);
            answer = self.lanes.change(deadline, hold).await??;
        }
        if !lists_placements {
            // Only now, so that what was placed is measured.
            answer.get_mut().placements.clear();
        }
        Ok(logged(pending, answer))
    }

    async fn describe_spread(
        &self,
        request: Request<v1::DescribeSpreadRequest>,
    ) -> Result<Response<v1::DescribeSpreadResponse>, Status> {
        permission::check(&request, Role::Reader, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let checked = describe::Checked::of(request, self.registry.limits())?;
        let snapshot = self
            .reach(&checked.snapshot, checked.min_revision, &metadata)
            .await?;
        let deadline = deadline::given(metadata.as_ref());
        let run = move |is_given_up: &dyn Fn() -> bool| {
            try_measured(|| checked.answer(&snapshot, is_given_up))
        };
        Ok(self.lanes.decide(deadline, run).await??)
    }

    async fn confirm_reservations(
        &self,
        request: Request<v1::ConfirmReservationsRequest>,
    ) -> Result<Response<v1::ConfirmReservationsResponse>, Status> {
        permission::check(&request, Role::Feeder, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let limits = self.registry.limits().clone();
        let confirm = move || reservations::confirm(request, &snapshot, &limits);
        Ok(Response::new(self.lanes.change(deadline, confirm).await??))
    }

    async fn release_reservations(
        &self,
        request: Request<v1::ReleaseReservationsRequest>,
    ) -> Result<Response<v1::ReleaseReservationsResponse>, Status> {
        permission::check(&request, Role::Feeder, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let limits = self.registry.limits().clone();
        let release = move || reservations::release(request, &snapshot, &limits);
        Ok(Response::new(self.lanes.change(deadline, release).await??))
    }

    async fn list_reservations(
        &self,
        request: Request<v1::ListReservationsRequest>,
    ) -> Result<Response<v1::ListReservationsResponse>, Status> {
        permission::check(&request, Role::Reader, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let list = move || reservations::list(&request, &snapshot);
        let listed = self.lanes.look(deadline, list).await??;
        Ok(Response::new(listed))
    }

    async fn get_snapshot(
        &self,
        request: Request<v1::GetSnapshotRequest>,
    ) -> Result<Response<v1::GetSnapshotResponse>, Status> {
        permission::check(&request, Role::Reader, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let get = move || Some(export::summary(&snapshot.summary()));
        let snapshot = self.lanes.look(deadline, get).await?;
        Ok(Response::new(v1::GetSnapshotResponse { snapshot }))
    }

    async fn list_snapshots(
        &self,
        request: Request<v1::ListSnapshotsRequest>,
    ) -> Result<Response<v1::ListSnapshotsResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let mut faults = Violations::default();
        let size = request::page_size(request.page_size, &mut faults);
        // A token is the last name of the page before.
        let token = Path::root("pageToken");
        request::check_snapshot_name(&request.page_token, token, &mut faults);
        faults.finish(()).map_err(Error::from)?;
        let mut all = self.registry.list(&request.page_token);
        all.retain(|snapshot| permission::may_read(&extensions, snapshot.name()));
        let list = move || {
            let page = &all[..size.min(all.len())];
            let last = page.last().filter(|_| page.len() < all.len());
            v1::ListSnapshotsResponse {
                snapshots: page.iter().map(|s| export::summary(&s.summary())).collect(),
                next_page_token: last.map_or(String::new(), |s| s.name().to_owned()),
            }
        };
        let listed = self.lanes.look(deadline, list).await?;
        Ok(Response::new(listed))
    }

    async fn delete_snapshot(
        &self,
        request: Request<v1::DeleteSnapshotRequest>,
    ) -> Result<Response<v1::DeleteSnapshotResponse>, Status> {
        permission::check(&request, Role::Admin, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let registry = Arc::clone(&self.registry);
        // What it held is dropped, however large it was.
        let delete = move || registry.delete(snapshot.name(), &request.epoch);
        let deleted = self.lanes.change(deadline, delete).await?;
        deleted.map_err(Error::from)?;
        Ok(Response::new(v1::DeleteSnapshotResponse {}))
    }

    type ExportSnapshotStream = BoxStream<v1::ExportSnapshotResponse>;

    async fn export_snapshot(
        &self,
        request: Request<v1::ExportSnapshotRequest>,
    ) -> Result<Response<Self::ExportSnapshotStream>, Status> {
        permission::check(&request, Role::Feeder, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let turn = Arc::clone(&self.exporting).acquire_owned();
        let turn = until(deadline, turn).await?.map_err(|_| Error::Internal)?;
        snapshot.check_copy().map_err(Error::from)?;
        let freeze = move || (snapshot.freeze(), snapshot);
        let (frozen, snapshot) = self.lanes.copy(deadline, freeze).await?;
        let (parts, receiver) = mpsc::channel(MAX_WAITING_ANSWERS);
        let sender = export::Sender::new(parts, self.draining.clone(), deadline);
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
        permission::check(&request, Role::Admin, |request| &request.snapshot)?;
        let (metadata, _, request) = request.into_parts();
        let deadline = deadline::given(metadata.as_ref());
        let snapshot = self.named(&request.snapshot)?;
        let turn = Arc::clone(&self.verifying).acquire_owned();
        let turn = until(deadline, turn).await?.map_err(|_| Error::Internal)?;
        // Cancelled when this future is dropped: nobody waits any more.
        snapshot.check_copy().map_err(Error::from)?;
        let abandoned = self.draining.child_token();
        let _abandon = abandoned.clone().drop_guard();
        let run = move || {
            let _turn = turn;
            verify::response(&snapshot, &|| abandoned.is_cancelled())
        };
        let response = self.lanes.copy(deadline, run).await?;
        Ok(Response::new(response.ok_or(Error::Draining)?))
    }
}

fn is_fleet(dialect: i32) -> bool {
    dialect == i32::from(v1::Dialect::Fleet)
}

//! The gRPC service.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::proto::v1::spread_service_server::SpreadService;
use crate::proto::v1::*;
use crate::snapshot::Registry;

/// Implements `evenkeel.v1.SpreadService` on a registry of snapshots.
#[derive(Clone)]
pub struct Service {
    _registry: Arc<Registry>,
    _draining: CancellationToken,
}

impl Service {
    /// A service on `registry`. Once `draining` is cancelled, open streams
    /// end with UNAVAILABLE and new calls are answered UNAVAILABLE.
    pub fn new(registry: Arc<Registry>, draining: CancellationToken) -> Self {
        Self {
            _registry: registry,
            _draining: draining,
        }
    }
}

type Stream<T> = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl SpreadService for Service {
    async fn update_snapshot(
        &self,
        _: Request<UpdateSnapshotRequest>,
    ) -> Result<Response<UpdateSnapshotResponse>, Status> {
        Err(Status::unimplemented("stub"))
    }
    type StreamSnapshotStream = Stream<StreamSnapshotResponse>;
    async fn stream_snapshot(
        &self,
        _: Request<Streaming<StreamSnapshotRequest>>,
    ) -> Result<Response<Self::StreamSnapshotStream>, Status> {
        Err(Status::unimplemented("stub"))
    }
    async fn filter(&self, _: Request<FilterRequest>) -> Result<Response<FilterResponse>, Status> {
        Err(Status::unimplemented("stub"))
    }
    async fn score(&self, _: Request<ScoreRequest>) -> Result<Response<ScoreResponse>, Status> {
        Err(Status::unimplemented("stub"))
    }
    async fn get_snapshot(
        &self,
        _: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        Err(Status::unimplemented("stub"))
    }
    async fn list_snapshots(
        &self,
        _: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        Err(Status::unimplemented("stub"))
    }
    async fn delete_snapshot(
        &self,
        _: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        Err(Status::unimplemented("stub"))
    }
    type ExportSnapshotStream = Stream<ExportSnapshotResponse>;
    async fn export_snapshot(
        &self,
        _: Request<ExportSnapshotRequest>,
    ) -> Result<Response<Self::ExportSnapshotStream>, Status> {
        Err(Status::unimplemented("stub"))
    }
}

//! A request of any method of the service.

use evenkeel::proto::v1;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use tonic::transport::Channel;
use tonic::{Response, Status};

/// A client with room for whole answers.
pub type Client = SpreadServiceClient<Channel>;

/// A request of any method.
#[derive(Debug)]
pub enum Request {
    Filter(v1::FilterRequest),
    Score(v1::ScoreRequest),
    Explain(v1::ExplainRequest),
    Place(v1::PlaceRequest),
    Describe(v1::DescribeSpreadRequest),
    Reservations(v1::ListReservationsRequest),
    Release(v1::ReleaseReservationsRequest),
    Confirm(v1::ConfirmReservationsRequest),
    Get(v1::GetSnapshotRequest),
    List(v1::ListSnapshotsRequest),
    Delete(v1::DeleteSnapshotRequest),
    Export(v1::ExportSnapshotRequest),
    Verify(v1::VerifySnapshotRequest),
    Update(v1::UpdateSnapshotRequest),
    Feed(Vec<v1::StreamSnapshotRequest>),
}

impl Request {
    /// Asks, and reads the answer to its end.
    pub async fn ask(self, client: &mut Client) -> Result<(), Status> {
        fn read<T>(_: Response<T>) {}
        match self {
            Self::Filter(request) => client.filter(request).await.map(read),
            Self::Score(request) => client.score(request).await.map(read),
            Self::Explain(request) => client.explain(request).await.map(read),
            Self::Place(request) => client.place(request).await.map(read),
            Self::Describe(request) => client.describe_spread(request).await.map(read),
            Self::Reservations(request) => client.list_reservations(request).await.map(read),
            Self::Release(request) => client.release_reservations(request).await.map(read),
            Self::Confirm(request) => client.confirm_reservations(request).await.map(read),
            Self::Get(request) => client.get_snapshot(request).await.map(read),
            Self::List(request) => client.list_snapshots(request).await.map(read),
            Self::Delete(request) => client.delete_snapshot(request).await.map(read),
            Self::Verify(request) => client.verify_snapshot(request).await.map(read),
            Self::Update(request) => client.update_snapshot(request).await.map(read),
            Self::Export(request) => {
                let mut parts = client.export_snapshot(request).await?.into_inner();
                while parts.message().await?.is_some() {}
                Ok(())
            }
            Self::Feed(steps) => {
                let steps = tokio_stream::iter(steps);
                let mut answers = client.stream_snapshot(steps).await?.into_inner();
                while answers.message().await?.is_some() {}
                Ok(())
            }
        }
    }
}

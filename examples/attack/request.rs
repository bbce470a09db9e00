//! A request of any method of the service.

use std::net::IpAddr;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{self, View};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use tonic_types::StatusExt;

use super::pods;

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
    Renew(v1::RenewReservationsRequest),
    Confirm(v1::ConfirmReservationsRequest),
    Get(v1::GetSnapshotRequest),
    List(v1::ListSnapshotsRequest),
    Delete(v1::DeleteSnapshotRequest),
    Export(v1::ExportSnapshotRequest),
    Verify(v1::VerifySnapshotRequest),
    Update(v1::UpdateSnapshotRequest),
    Feed(Vec<v1::StreamSnapshotRequest>),
    Decide(Vec<v1::DecideRequest>),
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
            Self::Renew(request) => client.renew_reservations(request).await.map(read),
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
            Self::Decide(steps) => {
                let steps = tokio_stream::iter(steps);
                let mut answers = client.decide(steps).await?.into_inner();
                while answers.message().await?.is_some() {}
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

/// A connection to an address, made when it is first used.
pub fn channel(address: &str) -> Channel {
    endpoint(address).connect_lazy()
}

/// As [`channel`], from another address of this machine: for the server another
/// caller.
pub fn channel_from(own: IpAddr, address: &str) -> Channel {
    endpoint(address).local_address(Some(own)).connect_lazy()
}

fn endpoint(address: &str) -> Endpoint {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    endpoint.expect("the server's address")
}

/// A client on a connection of its own.
pub fn client(address: &str) -> Client {
    client_on(channel(address))
}

/// A client on a connection.
pub fn client_on(channel: Channel) -> Client {
    Client::new(channel)
        .max_decoding_message_size(1 << 30)
        .max_encoding_message_size(1 << 30)
}

/// A refusal in a few words: its limit, or its reason.
pub fn outcome(status: &Status) -> String {
    let Some(info) = status.get_details_error_info() else {
        return format!("{:?} ({})", status.code(), status.message());
    };
    let limit = info.metadata.get("limit");
    limit.cloned().unwrap_or(info.reason)
}

/// Returns what everybody else asks: a Filter that is answered from memory.
pub fn small() -> v1::FilterRequest {
    v1::FilterRequest {
        pod: Some(pods::small()),
        view: View::Domains as i32,
        ..Default::default()
    }
}

//! What clients ask of a server, wherever it runs. Each method must be answered: a test of a refusal calls
//! [`Caller::client`] itself.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    Change, ConfirmReservationsRequest, ConfirmReservationsResponse, DecideRequest, DecideResponse,
    DefaultConstraints, DeleteSnapshotRequest, DescribeSpreadRequest, DescribeSpreadResponse,
    ExplainRequest, ExplainResponse, ExportSnapshotRequest, ExportSnapshotResponse, FilterRequest,
    FilterResponse, GetSnapshotRequest, HeldPlacement, ListNodesRequest, ListNodesResponse,
    ListReservationsRequest, ListReservationsResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    PlaceRequest, PlaceResponse, PlanNodesRequest, PlanNodesResponse, RankRemovalsRequest,
    RankRemovalsResponse, RebalanceRequest, RebalanceResponse, ReleaseReservationsRequest,
    ReleaseReservationsResponse, RenewReservationsRequest, RenewReservationsResponse,
    ReservePodsRequest, ReservePodsResponse, ScoreRequest, ScoreResponse, Snapshot,
    StreamSnapshotRequest, StreamSnapshotResponse, UpdateSnapshotRequest, UpdateSnapshotResponse,
    VerifySnapshotRequest, VerifySnapshotResponse,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::build::{batch_of, replace_of};

const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// A client with room for large messages.
pub type Client = SpreadServiceClient<Channel>;

/// Who asks one server, on one connection that is made on first use.
pub struct Caller {
    url: String,
    client: OnceLock<Client>,
}

impl Caller {
    /// A caller of the server at this URL, e.g. `http://127.0.0.1:40123`.
    pub fn of(url: String) -> Self {
        let client = OnceLock::new();
        Self { url, client }
    }

    /// The URL to which clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address at which the server listens, e.g. `127.0.0.1:40123`.
    pub fn address(&self) -> &str {
        let address = self.url.strip_prefix("http://");
        address.expect("the URL is made of it")
    }

    pub fn endpoint(&self) -> Endpoint {
        let endpoint = Endpoint::from_shared(self.url.clone()).expect("the address is a URL");
        endpoint.connect_timeout(Duration::from_secs(5))
    }

    /// A connection of its own, made on first use.
    pub fn channel(&self) -> Channel {
        self.endpoint().connect_lazy()
    }

    /// A client on a connection of its own.
    pub fn another_client(&self) -> Client {
        SpreadServiceClient::new(self.channel())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// A client on the caller's one connection.
    pub fn client(&self) -> Client {
        let client = self.client.get_or_init(|| self.another_client());
        client.clone()
    }

    /// Applies a delta.
    pub async fn update(&self, snapshot: &str, changes: Vec<Change>) -> UpdateSnapshotResponse {
        self.send(batch_of(snapshot, changes)).await
    }

    /// Replaces the whole state.
    pub async fn replace(
        &self,
        snapshot: &str,
        changes: Vec<Change>,
        defaults: DefaultConstraints,
    ) -> UpdateSnapshotResponse {
        self.send(UpdateSnapshotRequest {
            default_constraints: Some(defaults),
            ..replace_of(snapshot, changes)
        })
        .await
    }

    /// Replaces the state of the default snapshot, which gets no default constraints.
    pub async fn replace_all(&self, changes: Vec<Change>) {
        let defaults = DefaultConstraints::default();
        self.replace("", changes, defaults).await;
    }

    /// Sends a batch.
    pub async fn send(&self, request: UpdateSnapshotRequest) -> UpdateSnapshotResponse {
        let response = self.client().update_snapshot(request).await;
        response.expect("a valid batch").into_inner()
    }

    /// The acknowledgements of a stream of these steps.
    pub async fn stream(&self, steps: Vec<Step>) -> Streaming<StreamSnapshotResponse> {
        let steps = steps.into_iter();
        let steps = steps.map(|step| StreamSnapshotRequest { step: Some(step) });
        let answers = self
            .client()
            .stream_snapshot(tokio_stream::iter(steps))
            .await;
        answers.expect("a stream").into_inner()
    }

    /// The answers to questions and other steps of a `Decide` stream.
    pub async fn decide<S>(&self, steps: S) -> Streaming<DecideResponse>
    where
        S: tokio_stream::Stream<Item = DecideRequest> + Send + 'static,
    {
        let answers = self.client().decide(steps).await;
        answers.expect("a stream").into_inner()
    }

    /// Everything that an export streams.
    pub async fn export(&self, snapshot: &str) -> Vec<ExportSnapshotResponse> {
        let parts = export(self.client(), snapshot).await;
        parts.expect("the snapshot exists")
    }

    /// The description of a snapshot.
    pub async fn describe(&self, snapshot: &str) -> Snapshot {
        self.find(snapshot).await.expect("the snapshot exists")
    }

    /// The description of a snapshot, if it is there.
    pub async fn find(&self, snapshot: &str) -> Option<Snapshot> {
        let snapshot = snapshot.into();
        let request = GetSnapshotRequest { snapshot };
        let described = self.client().get_snapshot(request).await.ok()?;
        described.into_inner().snapshot
    }

    /// Checks that nothing that is kept of a snapshot has drifted from its objects.
    pub async fn verify(&self, snapshot: &str) -> VerifySnapshotResponse {
        let snapshot = snapshot.into();
        let request = VerifySnapshotRequest { snapshot };
        let verified = self.verify_snapshot(request).await;
        assert_eq!(verified.mismatches, []);
        verified
    }

    /// Deletes a snapshot.
    pub async fn delete(&self, snapshot: &str) {
        let deleted = self.client().delete_snapshot(deletion(snapshot)).await;
        deleted.expect("the snapshot exists");
    }

    /// The reservations of the default snapshot, by id.
    pub async fn held(&self) -> BTreeMap<String, HeldPlacement> {
        let request = ListReservationsRequest::default();
        let held = self.list_reservations(request).await.reservations;
        let held = held.into_iter().map(|held| (held.id.clone(), held));
        held.collect()
    }
}

/// The request to delete a snapshot, whatever its epoch.
pub fn deletion(snapshot: &str) -> DeleteSnapshotRequest {
    DeleteSnapshotRequest {
        snapshot: snapshot.into(),
        epoch: String::new(),
    }
}

/// Everything that an export of a snapshot streams.
pub async fn export(
    mut client: Client,
    snapshot: &str,
) -> Result<Vec<ExportSnapshotResponse>, Status> {
    let snapshot = snapshot.into();
    let response = client.export_snapshot(ExportSnapshotRequest { snapshot });
    let mut stream = response.await?.into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await? {
        parts.push(part);
    }
    Ok(parts)
}

/// All changes of an export.
pub fn changes_of(parts: Vec<ExportSnapshotResponse>) -> impl Iterator<Item = Change> {
    let updates = parts.into_iter().filter_map(|part| part.update);
    updates.flat_map(|update| update.changes)
}

/// Calls with one request and one answer, by the names that the service has for them.
macro_rules! calls {
    ($($call:ident: $request:ident -> $response:ident,)*) => {
        impl Caller {
            $(
                pub async fn $call(&self, request: $request) -> $response {
                    let response = self.client().$call(request).await;
                    response.expect("a valid request").into_inner()
                }
            )*
        }
    };
}

calls! {
    confirm_reservations: ConfirmReservationsRequest -> ConfirmReservationsResponse,
    describe_spread: DescribeSpreadRequest -> DescribeSpreadResponse,
    explain: ExplainRequest -> ExplainResponse,
    filter: FilterRequest -> FilterResponse,
    list_nodes: ListNodesRequest -> ListNodesResponse,
    list_reservations: ListReservationsRequest -> ListReservationsResponse,
    list_snapshots: ListSnapshotsRequest -> ListSnapshotsResponse,
    place: PlaceRequest -> PlaceResponse,
    plan_nodes: PlanNodesRequest -> PlanNodesResponse,
    rank_removals: RankRemovalsRequest -> RankRemovalsResponse,
    rebalance: RebalanceRequest -> RebalanceResponse,
    release_reservations: ReleaseReservationsRequest -> ReleaseReservationsResponse,
    renew_reservations: RenewReservationsRequest -> RenewReservationsResponse,
    reserve_pods: ReservePodsRequest -> ReservePodsResponse,
    score: ScoreRequest -> ScoreResponse,
    verify_snapshot: VerifySnapshotRequest -> VerifySnapshotResponse,
}

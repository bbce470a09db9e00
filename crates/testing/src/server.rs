//! A real server in this process and a real client of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::api::Service;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::spread_service_server::SpreadServiceServer;
use evenkeel::proto::v1::{
    Change, DefaultConstraints, ExplainRequest, ExplainResponse, ExportSnapshotRequest,
    ExportSnapshotResponse, FilterRequest, FilterResponse, GetSnapshotRequest, Mode, PlaceRequest,
    PlaceResponse, ScoreRequest, ScoreResponse, Snapshot, UpdateSnapshotRequest,
    UpdateSnapshotResponse,
};
use evenkeel::server::end_reservations;
use evenkeel::snapshot::{Limits, Now, Registry, Unobserved};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};

const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// A client with room for large messages.
pub type Client = SpreadServiceClient<Channel>;

/// A server that ends when this is dropped.
pub struct Server {
    /// The URL at which it listens, e.g. `http://127.0.0.1:40123`.
    pub address: String,
    /// The registry behind it.
    pub registry: Arc<Registry>,
    /// Cancelling this drains the server.
    pub draining: CancellationToken,
    client: Client,
    task: tokio::task::JoinHandle<()>,
}

/// A registry that nobody observes.
pub fn unobserved(limits: Limits) -> Arc<Registry> {
    Arc::new(Registry::new(limits, Arc::new(Unobserved)))
}

impl Server {
    /// One server for all cases of a test, and the threads that it runs on.
    pub fn shared() -> &'static (Runtime, Self) {
        static SHARED: OnceLock<(Runtime, Server)> = OnceLock::new();
        SHARED.get_or_init(|| {
            let runtime = Runtime::new().expect("a runtime");
            let server = runtime.block_on(Self::start());
            (runtime, server)
        })
    }

    /// A server with the default limits on a free port.
    pub async fn start() -> Self {
        Self::with_limits(Limits::default()).await
    }

    /// A server with these limits on a free port.
    pub async fn with_limits(limits: Limits) -> Self {
        let registry = Registry::new(limits, Arc::new(Unobserved));
        Self::with_registry(registry).await
    }

    /// A server with these limits and this clock, on a free port. It ends reservations by itself
    /// only if the clock runs as fast as real time.
    pub async fn with_clock<N: Into<Now>>(
        limits: Limits,
        clock: impl Fn() -> N + Send + Sync + 'static,
    ) -> Self {
        Self::with_registry(Registry::with_clock(limits, Arc::new(Unobserved), clock)).await
    }

    /// A server on this registry, on a free port.
    pub async fn with_registry(registry: Registry) -> Self {
        let registry = Arc::new(registry);
        let draining = CancellationToken::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let address = format!("http://127.0.0.1:{port}");
        let service = Service::new(Arc::clone(&registry), draining.clone());
        let service = SpreadServiceServer::new(service)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let serve = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        let ending = end_reservations(Arc::clone(&registry));
        let task = tokio::spawn(async move {
            tokio::select! {
                served = serve => served.expect("the server runs"),
                () = ending => {}
            }
        });
        let client = connect(&address).await;
        Self {
            address,
            registry,
            draining,
            client,
            task,
        }
    }

    /// A client on the server's one connection.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client on a connection of its own.
    pub async fn another_client(&self) -> Client {
        connect(&self.address).await
    }

    /// Applies a delta that must be accepted.
    pub async fn update(&self, snapshot: &str, changes: Vec<Change>) -> UpdateSnapshotResponse {
        self.send(UpdateSnapshotRequest {
            snapshot: snapshot.into(),
            changes,
            ..Default::default()
        })
        .await
    }

    /// Replaces the whole state; it must be accepted.
    pub async fn replace(
        &self,
        snapshot: &str,
        changes: Vec<Change>,
        defaults: DefaultConstraints,
    ) -> UpdateSnapshotResponse {
        self.send(UpdateSnapshotRequest {
            snapshot: snapshot.into(),
            changes,
            mode: Mode::Replace as i32,
            default_constraints: Some(defaults),
            ..Default::default()
        })
        .await
    }

    /// Replaces the state of the default snapshot, which gets no default constraints.
    pub async fn replace_all(&self, changes: Vec<Change>) {
        let defaults = DefaultConstraints::default();
        self.replace("", changes, defaults).await;
    }

    /// Sends a batch that must be accepted.
    pub async fn send(&self, request: UpdateSnapshotRequest) -> UpdateSnapshotResponse {
        let response = self.client().update_snapshot(request).await;
        response.expect("a valid batch").into_inner()
    }

    /// Asks Filter; it must answer.
    pub async fn filter(&self, request: FilterRequest) -> FilterResponse {
        let response = self.client().filter(request).await;
        response.expect("a valid question").into_inner()
    }

    /// Asks Score; it must answer.
    pub async fn score(&self, request: ScoreRequest) -> ScoreResponse {
        let response = self.client().score(request).await;
        response.expect("a valid question").into_inner()
    }

    /// Asks Explain; it must answer.
    pub async fn explain(&self, request: ExplainRequest) -> ExplainResponse {
        let response = self.client().explain(request).await;
        response.expect("a valid question").into_inner()
    }

    /// Asks Place; it must answer.
    pub async fn place(&self, request: PlaceRequest) -> PlaceResponse {
        let response = self.client().place(request).await;
        response.expect("a valid request").into_inner()
    }

    /// Everything that an export streams.
    pub async fn export(&self, snapshot: &str) -> Vec<ExportSnapshotResponse> {
        export(self.client(), snapshot).await
    }

    /// The description of a snapshot.
    pub async fn describe(&self, snapshot: &str) -> Snapshot {
        let request = GetSnapshotRequest {
            snapshot: snapshot.into(),
        };
        let response = self.client().get_snapshot(request).await;
        let response = response.expect("the snapshot exists").into_inner();
        response.snapshot.expect("an answer describes a snapshot")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Everything that an export of a snapshot streams.
pub async fn export(mut client: Client, snapshot: &str) -> Vec<ExportSnapshotResponse> {
    let request = ExportSnapshotRequest {
        snapshot: snapshot.into(),
    };
    let response = client.export_snapshot(request).await;
    let mut stream = response.expect("the snapshot exists").into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.expect("the stream is whole") {
        parts.push(part);
    }
    parts
}

async fn connect(address: &str) -> Client {
    let endpoint = Endpoint::from_shared(address.to_owned()).expect("an address");
    let channel = endpoint
        .connect_timeout(Duration::from_secs(5))
        .connect()
        .await
        .expect("the server listens");
    SpreadServiceClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

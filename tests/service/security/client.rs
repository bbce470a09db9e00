//! Servers with flags of their own, and ways to reach them.

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{ListSnapshotsRequest, UpdateSnapshotRequest};
use support::build::batch_of;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::security::process::{self, Server};

/// The interval at which the servers of these tests look at their files.
const FAST: [&str; 2] = ["--reload-interval", "20ms"];

/// A server with these flags.
pub(crate) fn serve(flags: &[String]) -> Server {
    let mut command = process::command(&["serve"]);
    Server::spawn(command.args(flags).args(FAST))
}

/// A server's address for TLS.
pub(crate) fn https(server: &Server) -> String {
    server.url().replace("http://", "https://")
}

/// A connection with TLS; each call of this makes a new one.
pub(crate) async fn connect(
    server: &Server,
    tls: ClientTlsConfig,
) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(https(server)).expect("the address is a URL");
    endpoint.tls_config(tls)?.connect().await
}

/// Sends an `authorization` header along, if there is a value.
#[derive(Clone)]
pub(crate) struct Bearer(pub(crate) Option<String>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            let value = token.parse().expect("a header");
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// A client with a token.
pub(crate) type Client = SpreadServiceClient<InterceptedService<Channel, Bearer>>;

/// A client that sends `authorization` if there is one.
pub(crate) fn client(channel: Channel, authorization: Option<&str>) -> Client {
    let bearer = Bearer(authorization.map(str::to_owned));
    SpreadServiceClient::with_interceptor(channel, bearer)
}

/// Lists the snapshots, without a token.
pub(crate) async fn list(channel: Channel) -> Result<Vec<String>, Status> {
    let mut client = client(channel, None);
    let answer = client
        .list_snapshots(ListSnapshotsRequest::default())
        .await?;
    let snapshots = answer.into_inner().snapshots.into_iter();
    Ok(snapshots.map(|snapshot| snapshot.name).collect())
}

/// Asks for health, without a token.
pub(crate) async fn healthy(channel: Channel) -> Result<(), Status> {
    let mut health = HealthClient::new(channel);
    health.check(HealthCheckRequest::default()).await?;
    Ok(())
}

/// An empty batch on a snapshot.
pub(crate) fn batch(snapshot: &str) -> UpdateSnapshotRequest {
    batch_of(snapshot, Vec::new())
}

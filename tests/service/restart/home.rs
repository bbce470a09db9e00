//! A state directory, and the servers that live on it one after another.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    Change, ExportSnapshotResponse, GetSnapshotRequest, HeldPlacement, ListReservationsRequest,
    PlaceRequest, Pod, Reservation, Snapshot, UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use support::build::{place_of, update_of};
pub use support::server::Client;
use support::server::export;
use tempfile::TempDir;
use tonic::Status;

use crate::restart::process::Server;

/// A state directory.
pub struct Home {
    directory: TempDir,
}

/// A server on a state directory.
pub struct Running {
    pub server: Server,
    pub client: Client,
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { directory }
    }

    /// The directory itself.
    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The file in the directory.
    pub fn file(&self) -> PathBuf {
        self.state().join(evenkeel::store::FILE)
    }

    /// The flags of a server on the directory.
    pub fn flags(&self) -> [String; 4] {
        let state = self.state().display().to_string();
        ["--state-dir", &state, "--drain-pause", "0s"].map(str::to_owned)
    }

    /// Starts a server with more flags, and waits until it listens.
    pub fn start(&self, more: &[&str]) -> Running {
        let flags = self.flags();
        let mut args: Vec<&str> = flags.iter().map(String::as_str).collect();
        args.extend(more);
        Running::of(Server::start(&args))
    }
}

impl Running {
    pub fn of(server: Server) -> Self {
        let client = SpreadServiceClient::new(server.channel());
        Self { server, client }
    }

    /// Kills the server, and waits for its end.
    pub async fn kill(self) {
        let Self { mut server, client } = self;
        server.signal("KILL");
        server.exited().await;
        drop(client);
    }

    /// Stops the server with TERM, and waits for its end.
    pub async fn stop(self) {
        let Self { mut server, client } = self;
        drop(client);
        server.signal("TERM");
        let status = server.exited().await;
        assert!(status.success(), "{status}");
    }

    /// Sends a batch that must be accepted.
    pub async fn send(&self, request: UpdateSnapshotRequest) -> UpdateSnapshotResponse {
        let response = self.client.clone().update_snapshot(request).await;
        response.expect("a valid batch").into_inner()
    }

    /// Sends changes of a snapshot that must be accepted.
    pub async fn update(&self, snapshot: &str, changes: Vec<Change>) -> UpdateSnapshotResponse {
        self.send(UpdateSnapshotRequest {
            snapshot: snapshot.into(),
            changes,
            ..Default::default()
        })
        .await
    }

    /// Sends changes of the snapshot `default`. Returns the revision.
    pub async fn try_update(&self, changes: Vec<Change>) -> Result<i64, Status> {
        let request = update_of(changes);
        let updated = self.client.clone().update_snapshot(request).await?;
        Ok(updated.into_inner().revision)
    }

    /// Returns the answer of GetSnapshot.
    pub async fn describe(&self, snapshot: &str) -> Option<Snapshot> {
        let request = GetSnapshotRequest {
            snapshot: snapshot.into(),
        };
        let described = self.client.clone().get_snapshot(request).await.ok()?;
        described.into_inner().snapshot
    }

    /// Everything that an export streams.
    pub async fn export(&self, snapshot: &str) -> Vec<ExportSnapshotResponse> {
        export(self.client.clone(), snapshot).await
    }

    /// The reservations of the snapshot `default`, by id.
    pub async fn held(&self) -> BTreeMap<String, HeldPlacement> {
        let request = ListReservationsRequest::default();
        let listed = self.client.clone().list_reservations(request).await;
        let listed = listed.expect("the snapshot exists").into_inner();
        let held = listed.reservations.into_iter();
        held.map(|held| (held.id.clone(), held)).collect()
    }
}

/// A request to place pods and hold the places.
pub fn reserve(pod: Pod, replicas: i32, ttl: Duration) -> PlaceRequest {
    PlaceRequest {
        reserve: Some(Reservation {
            owner: "deployer".into(),
            ttl: Some(ttl.into()),
        }),
        ..place_of(pod, replicas)
    }
}

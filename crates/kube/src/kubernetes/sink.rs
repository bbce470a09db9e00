//! The destination of a feed: a snapshot on a server, in this process or elsewhere.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;
use tower::util::BoxCloneSyncService;

use evenkeel_core::proto::v1;
use evenkeel_core::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel_core::proto::v1::stream_snapshot_request::Step;
use evenkeel_core::proto::v1::{
    BeginReplace, Change, CommitReplace, GetSnapshotRequest, StreamSnapshotRequest,
    UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use evenkeel_core::snapshot::ResourceVersions;

/// Takes calls, over a socket or without one.
pub type Transport = BoxCloneSyncService<
    http::Request<Body>,
    http::Response<Body>,
    Box<dyn std::error::Error + Send + Sync + 'static>,
>;

/// The longest time to wait for an acknowledgement. The commit of a large replace takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reason why a step was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undone {
    /// The snapshot refuses objects. The list has their indices in the batch, with the reasons.
    #[error("the snapshot refuses {} objects", .0.len())]
    Refused(Vec<(usize, String)>),
    /// The server refused the step, or is gone.
    #[error("{}", .0.message())]
    Status(Box<Status>),
}

impl Undone {
    /// The server sent no acknowledgement.
    fn silent(_: Elapsed) -> Self {
        let why = format!("no acknowledgement within {} s", PATIENCE.as_secs());
        Self::Status(Box::new(Status::deadline_exceeded(why)))
    }
}

impl From<Status> for Undone {
    fn from(status: Status) -> Self {
        if let Code::InvalidArgument | Code::ResourceExhausted = status.code() {
            let refused = refused(&status);
            if !refused.is_empty() {
                return Self::Refused(refused);
            }
        }
        Self::Status(Box::new(status))
    }
}

/// The indices of the changes that a refusal names, each once, with the first reason.
fn refused(status: &Status) -> Vec<(usize, String)> {
    let violations = status.get_details_bad_request();
    let violations = violations.map(|it| it.field_violations).unwrap_or_default();
    let mut places: Vec<(usize, String)> = Vec::new();
    for violation in violations {
        let field = violation.field;
        let inner = field.strip_prefix("update.").unwrap_or(&field);
        let place = inner.strip_prefix("changes[").and_then(|rest| {
            let (place, rest) = rest.split_once(']')?;
            let rest = rest.trim_start_matches('.');
            Some((place.parse().ok()?, rest))
        });
        let Some((place, rest)) = place else { continue };
        if places.last().is_none_or(|(last, _)| *last != place) {
            places.push((place, format!("{rest}: {}", violation.description)));
        }
    }
    places
}

/// A snapshot to feed.
#[derive(Clone)]
pub struct SnapshotSink {
    rpc: SpreadServiceClient<Transport>,
    snapshot: String,
    /// The identity of the cluster that is fed; empty where it is not known.
    pub(super) cluster: String,
}

impl SnapshotSink {
    /// The snapshot of this name on the server that `rpc` calls.
    pub fn new(rpc: SpreadServiceClient<Transport>, snapshot: &str) -> Self {
        Self {
            rpc,
            snapshot: snapshot.to_owned(),
            cluster: String::new(),
        }
    }

    /// The identity of the cluster that the snapshot is fed from; empty where it has none, or does
    /// not exist.
    pub(super) async fn fed_from(&self) -> Result<String, Undone> {
        let request = GetSnapshotRequest {
            snapshot: self.snapshot.clone(),
        };
        match self.rpc.clone().get_snapshot(request).await {
            Ok(found) => Ok(found.into_inner().snapshot.unwrap_or_default().cluster),
            Err(status) if status.code() == Code::NotFound => Ok(String::new()),
            Err(status) => Err(status.into()),
        }
    }

    /// Begins a replace, which builds another state beside the live state.
    pub(super) async fn replace(&self) -> Result<Replace, Undone> {
        let (steps, receiver) = mpsc::channel(1);
        let mut rpc = self.rpc.clone();
        // The server may answer the call only together with its first step, so this step is sent
        // before.
        let begin = BeginReplace {
            snapshot: self.snapshot.clone(),
        };
        let step = Some(Step::BeginReplace(begin));
        // This cannot fail: the channel is empty and has room for one message.
        let _ = steps.try_send(StreamSnapshotRequest { step });
        let opened = timeout(PATIENCE, rpc.stream_snapshot(ReceiverStream::new(receiver)));
        let opened = opened.await.map_err(Undone::silent)??;
        let mut replace = Replace {
            steps,
            answers: opened.into_inner(),
            sink: self.clone(),
        };
        replace.answer().await?;
        Ok(replace)
    }

    /// Applies one batch to the live state. A batch without changes is a heartbeat. `age` is the
    /// age of the feed's knowledge of the cluster, and `read` the resource versions up to which it
    /// has read.
    pub(super) async fn update(
        &self,
        changes: Vec<Change>,
        age: Duration,
        read: &ResourceVersions,
    ) -> Result<UpdateSnapshotResponse, Undone> {
        let request = UpdateSnapshotRequest {
            age: Some(age.into()),
            snapshot: self.snapshot.clone(),
            changes,
            resource_versions: read.to_wire(),
            cluster: self.cluster.clone(),
            ..Default::default()
        };
        let mut rpc = self.rpc.clone();
        let answer = timeout(PATIENCE, rpc.update_snapshot(request)).await;
        Ok(answer.map_err(Undone::silent)??.into_inner())
    }
}

/// A state that is being built beside the live state. If it is dropped, the live state stays.
pub(super) struct Replace {
    steps: mpsc::Sender<StreamSnapshotRequest>,
    answers: Streaming<v1::StreamSnapshotResponse>,
    sink: SnapshotSink,
}

impl Replace {
    /// Applies an update to the state; its snapshot and cluster are those of the replace.
    pub(super) async fn update(&mut self, update: UpdateSnapshotRequest) -> Result<(), Undone> {
        let update = UpdateSnapshotRequest {
            snapshot: self.sink.snapshot.clone(),
            cluster: self.sink.cluster.clone(),
            ..update
        };
        self.step(Step::Update(update)).await.map(drop)
    }

    /// Replaces the live state by this state.
    pub(super) async fn commit(mut self) -> Result<UpdateSnapshotResponse, Undone> {
        let commit = CommitReplace {
            snapshot: self.sink.snapshot.clone(),
            expected_revision: None,
        };
        self.step(Step::CommitReplace(commit)).await
    }

    async fn step(&mut self, step: Step) -> Result<UpdateSnapshotResponse, Undone> {
        let request = StreamSnapshotRequest { step: Some(step) };
        // If the stream has ended, the answer below has the reason.
        let _ = self.steps.send(request).await;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<UpdateSnapshotResponse, Undone> {
        let answer = timeout(PATIENCE, self.answers.message()).await;
        let answer = answer.map_err(Undone::silent)??;
        let ended = || Status::unavailable("the server ended the stream");
        Ok(answer.and_then(|answer| answer.update).ok_or_else(ended)?)
    }
}

//! Replacing the whole state: in one batch, and staged over a stream.

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, CommitReplace, DefaultConstraints, StreamSnapshotRequest, StreamSnapshotResponse,
    UpdateSnapshotResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::snapshots::{all_nodes, nodes};
use support::build::{batch_of, pod, replace_of};
use support::model::Stored;
use support::refusal::code;
use support::server::Server;

#[tokio::test]
async fn replace_forgets_what_it_does_not_name() {
    let server = Server::start().await;
    let system = DefaultConstraints {
        system: true,
        ..DefaultConstraints::default()
    };
    server.replace("", nodes(&["a", "b"]), system.clone()).await;
    server.update("", vec![pod("p", &[]).change()]).await;
    let answer = server.send(replace_of("", nodes(&["b", "c"]))).await;
    assert_eq!(answer.revision, 3);
    assert_eq!(server.filter(all_nodes("")).await.feasible, ["b", "c"]);
    let described = server.describe("").await;
    assert_eq!((described.node_count, described.pod_count), (2, 0));
    assert_eq!(
        described.default_constraints,
        Some(system),
        "absent leaves them"
    );
}

/// A feed, in which each step is acknowledged before the next one is sent.
struct Feed {
    steps: mpsc::Sender<StreamSnapshotRequest>,
    answers: Streaming<StreamSnapshotResponse>,
}

impl Feed {
    async fn open(server: &Server) -> Self {
        let (steps, receiver) = mpsc::channel(16);
        let mut client = server.client();
        let answers = client.stream_snapshot(ReceiverStream::new(receiver)).await;
        Self {
            steps,
            answers: answers.expect("a stream").into_inner(),
        }
    }

    async fn send(&mut self, step: Step) -> Result<UpdateSnapshotResponse, Status> {
        let request = StreamSnapshotRequest { step: Some(step) };
        self.steps.send(request).await.expect("the stream is open");
        let answer = self.answers.message().await?;
        let answer = answer.expect("every step is acknowledged");
        Ok(answer.update.expect("with what it did"))
    }
}

fn begin(snapshot: &str) -> Step {
    Step::BeginReplace(BeginReplace {
        snapshot: snapshot.into(),
    })
}

fn commit(snapshot: &str, expected_revision: Option<i64>) -> Step {
    Step::CommitReplace(CommitReplace {
        snapshot: snapshot.into(),
        expected_revision,
    })
}

fn update(snapshot: &str, names: &[&str]) -> Step {
    Step::Update(batch_of(snapshot, nodes(names)))
}

#[tokio::test]
async fn staged_replace_swaps_in_at_its_commit() {
    let server = Server::start().await;
    server.update("s", nodes(&["old"])).await;
    let mut feed = Feed::open(&server).await;
    let staged = [begin("s"), update("s", &["a"]), update("s", &["b", "c"])];
    for step in staged {
        let answer = feed.send(step).await.expect("it is valid");
        assert_eq!(answer.revision, 1, "the revision that answers");
        assert_eq!(server.filter(all_nodes("s")).await.feasible, ["old"]);
    }
    let other = feed
        .send(update("other", &["x"]))
        .await
        .expect("it is valid");
    assert_eq!(other.revision, 1, "another snapshot is not staged");
    assert_eq!(server.filter(all_nodes("other")).await.feasible, ["x"]);

    let done = feed.send(commit("s", Some(1))).await.expect("it is valid");
    assert_eq!(
        (done.revision, done.changed_count, done.unchanged_count),
        (2, 3, 0)
    );
    let answer = server.filter(all_nodes("s")).await;
    assert_eq!((answer.revision, answer.epoch), (2, done.epoch));
    assert_eq!(answer.feasible, ["a", "b", "c"]);

    let live = feed.send(update("s", &["d"])).await.expect("it is valid");
    assert_eq!(live.revision, 3, "after the commit updates are live again");
    assert_eq!(
        server.filter(all_nodes("s")).await.feasible,
        ["a", "b", "c", "d"]
    );
}

#[tokio::test]
async fn commit_that_comes_too_late_is_aborted() {
    let server = Server::start().await;
    server.update("s", nodes(&["old"])).await;
    let mut feed = Feed::open(&server).await;
    feed.send(begin("s")).await.expect("it is valid");
    feed.send(update("s", &["a"])).await.expect("it is valid");
    server.update("s", nodes(&["newer"])).await;
    let late = feed
        .send(commit("s", Some(1)))
        .await
        .expect_err("it is at 2");
    assert_eq!(late.code(), Code::Aborted);
    assert_eq!(
        server.filter(all_nodes("s")).await.feasible,
        ["newer", "old"]
    );
}

#[tokio::test]
async fn markers_must_pair() {
    let server = Server::start().await;
    server.update("s", nodes(&["old"])).await;
    let before = server.export("s").await;
    for steps in [
        vec![commit("s", None)],
        vec![begin("s"), begin("s")],
        vec![begin("s"), commit("t", None)],
    ] {
        let mut feed = Feed::open(&server).await;
        let mut last = Ok(UpdateSnapshotResponse::default());
        for step in steps.clone() {
            last = feed.send(step).await;
        }
        let code = last.expect_err("the markers do not pair").code();
        assert_eq!(code, Code::InvalidArgument, "{steps:?}");
        assert_eq!(server.export("s").await, before);
    }
}

/// Steps are applied in order; the first bad one ends the stream, and what
/// was acknowledged before stays.
#[tokio::test]
async fn stream_acknowledges_in_order_and_ends_at_the_first_fault() {
    let server = Server::start().await;
    let steps = (0..50).map(|i| update("s", &[&format!("n{i:02}")]));
    let bad = update("s", &["Not A Name"]);
    let steps = steps.chain([bad, update("s", &["after"])]);
    let mut answers = server.stream(steps.collect()).await;
    let mut revisions = Vec::new();
    let status = loop {
        match answers.message().await {
            Ok(Some(answer)) => revisions.push(answer.update.expect("what it did").revision),
            Ok(None) => panic!("the stream ended without its error"),
            Err(status) => break status,
        }
    };
    assert_eq!(revisions, (1..=50).collect::<Vec<i64>>());
    assert_eq!(status.code(), Code::InvalidArgument);
    let kept = server.filter(all_nodes("s")).await.feasible;
    assert_eq!(kept.len(), 50, "{kept:?}");
}

/// A restarted server that is told which snapshots to expect does not answer from a state that it
/// has not been given in full.
#[tokio::test]
async fn expected_snapshot_answers_from_its_first_replace_on() {
    let server = Server::start().await;
    server.registry.expect("main");
    server.registry.expect("other");
    let asked = async |name: &str| code(server.client().filter(all_nodes(name)).await);
    assert_eq!(asked("main").await, Code::FailedPrecondition);
    assert!(!server.describe("main").await.synced);
    server.update("main", nodes(&["a"])).await;
    assert_eq!(
        asked("main").await,
        Code::FailedPrecondition,
        "a delta is not all"
    );
    server.send(replace_of("main", nodes(&["a", "b"]))).await;
    assert_eq!(server.filter(all_nodes("main")).await.feasible, ["a", "b"]);
    assert!(server.describe("main").await.synced);

    let mut feed = Feed::open(&server).await;
    feed.send(begin("other")).await.expect("it is valid");
    feed.send(update("other", &["x"]))
        .await
        .expect("it is valid");
    assert_eq!(asked("other").await, Code::FailedPrecondition);
    feed.send(commit("other", None)).await.expect("it is valid");
    assert_eq!(server.filter(all_nodes("other")).await.feasible, ["x"]);
}

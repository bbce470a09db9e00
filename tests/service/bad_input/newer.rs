//! Changes from a client of a newer version: kinds that the server does not know are skipped and
//! counted, and the others are applied.

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, Change, CommitReplace, Node, ObjectMeta, UpdateSnapshotResponse,
};
use prost::Message;
use tonic::Request;
use tonic_prost::ProstCodec;

use super::verdict::server;
use support::build::{filter_of, node, pod, replace_of, update_of};
use support::model::{Stored, delete};
use support::server::Server;

/// A `Change` of a version that knows one more kind.
#[derive(Clone, PartialEq, Message)]
struct NewerChange {
    #[prost(message, optional, tag = "1")]
    node: Option<Node>,
    #[prost(message, optional, tag = "99")]
    gadget: Option<ObjectMeta>,
}

/// An `UpdateSnapshotRequest` of that version.
#[derive(Clone, PartialEq, Message)]
struct NewerUpdate {
    #[prost(message, repeated, tag = "2")]
    changes: Vec<NewerChange>,
}

async fn send(server: &Server, update: NewerUpdate) -> UpdateSnapshotResponse {
    let mut client = tonic::client::Grpc::new(server.channel());
    client.ready().await.expect("the server listens");
    let path = "/evenkeel.v1.SpreadService/UpdateSnapshot";
    let path = path.parse().expect("a path");
    let codec = ProstCodec::<NewerUpdate, UpdateSnapshotResponse>::default();
    let answer = client.unary(Request::new(update), path, codec).await;
    answer.expect("it is accepted").into_inner()
}

/// The numbers of changed, unchanged and skipped changes.
fn counts(answer: &UpdateSnapshotResponse) -> [i64; 3] {
    [
        answer.changed_count,
        answer.unchanged_count,
        answer.skipped_count,
    ]
}

#[tokio::test]
async fn unknown_kinds_are_skipped_and_counted() {
    let server = server().await;
    let named = |name: &str| NewerChange {
        node: Some(node(name, &[])),
        gadget: None,
    };
    let gadget = NewerChange {
        node: None,
        gadget: Some(ObjectMeta::default()),
    };
    let update = NewerUpdate {
        changes: vec![gadget.clone(), named("n7"), gadget],
    };
    assert_eq!(counts(&send(&server, update.clone()).await), [1, 0, 2]);
    assert_eq!(counts(&send(&server, update).await), [0, 1, 2]);

    // JSON that is read with this version's messages loses what they do not have.
    let lost = Change { object: None };
    let newer = || {
        vec![
            lost.clone(),
            node("n8", &[]).change(),
            delete("Gadget", "default", "g"),
        ]
    };
    assert_eq!(counts(&server.update("", newer()).await), [1, 0, 2]);
    let replaced = server.send(replace_of("", newer())).await;
    assert_eq!(counts(&replaced), [1, 0, 2]);

    let steps = vec![
        Step::BeginReplace(BeginReplace::default()),
        Step::Update(update_of(newer())),
        Step::Update(update_of(vec![lost.clone()])),
        Step::CommitReplace(CommitReplace::default()),
    ];
    let mut answers = server.stream(steps).await;
    let mut last = UpdateSnapshotResponse::default();
    while let Some(answer) = answers.message().await.expect("it is accepted") {
        last = answer.update.expect("an acknowledgement");
    }
    assert_eq!(counts(&last), [1, 0, 3]);
}

/// An overlay is part of a question, which cannot be answered without it.
#[tokio::test]
async fn an_overlay_with_unknown_kinds_is_refused() {
    let server = server().await;
    for change in [Change { object: None }, delete("Gadget", "default", "g")] {
        let mut question = filter_of(pod("", &[]));
        question.overlay = vec![change];
        let refused = server.client().filter(question).await;
        let status = refused.expect_err("it is refused");
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
    }
}

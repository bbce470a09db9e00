//! RankRemovals in cases that a reader can follow, and requests that are refused.

use evenkeel::proto::v1::{
    Change, OwnerReference, Pod, PodFacts, RankRemovalsRequest, RankRemovalsResponse, RevisionSize,
    TopologySpreadConstraint, WorkloadName,
};
use support::build::{on, pod, spread};
use support::model::Stored;
use support::server::Server;
use tonic::Code;
use tonic_types::StatusExt;

pub(crate) const RACK: &str = "example.com/rack";
pub(crate) const WEB: [(&str, &str); 1] = [("app", "web")];

pub(crate) fn owned(mut pod: Pod) -> Pod {
    let metadata = pod.metadata.get_or_insert_default();
    metadata.owner_references = vec![OwnerReference {
        kind: "ReplicaSet".into(),
        name: "web".into(),
        api_version: "apps/v1".into(),
        controller: Some(true),
        ..OwnerReference::default()
    }];
    pod.status.get_or_insert_default().phase = "Running".into();
    pod
}

pub(crate) fn request(snapshot: &str, count: i32) -> RankRemovalsRequest {
    RankRemovalsRequest {
        snapshot: snapshot.into(),
        workload: Some(WorkloadName {
            kind: "ReplicaSet".into(),
            name: "web".into(),
            selector: None,
        }),
        count,
        max_domains: Some(0),
        ..RankRemovalsRequest::default()
    }
}

pub(crate) async fn ask(server: &Server, request: RankRemovalsRequest) -> RankRemovalsResponse {
    let answer = server.client().rank_removals(request).await;
    answer.expect("a valid question").into_inner()
}

/// Pods of the workload on these nodes, called `p0`, `p1`...
pub(crate) fn web(nodes: &[&str], constraints: &[TopologySpreadConstraint]) -> Vec<Change> {
    let pods = nodes.iter().enumerate().map(|(index, node)| {
        let pod = owned(on(pod(&format!("p{index}"), &WEB), node));
        spread(pod, constraints.to_vec()).change()
    });
    pods.collect()
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_its_field() {
    let server = Server::start().await;
    server.update("", web(&["a"], &[])).await;
    let named = |name: &str| PodFacts {
        name: name.into(),
        ..PodFacts::default()
    };
    let late = Some(pbjson_types::Timestamp {
        seconds: i64::MAX,
        nanos: 0,
    });
    type Change = fn(&mut RankRemovalsRequest);
    let cases: [(&str, Change); 5] = [
        ("count", |r| r.count = 0),
        ("workload.kind", |r| r.workload = None),
        ("namespace", |r| r.namespace = "No".into()),
        ("maxDomains", |r| r.max_domains = Some(-1)),
        ("minRevision", |r| r.min_revision = -1),
    ];
    let mut refused: Vec<_> = cases
        .into_iter()
        .map(|(field, change)| {
            let mut wrong = request("", 1);
            change(&mut wrong);
            (field, wrong)
        })
        .collect();
    let mut facts = |field, pods| {
        refused.push((
            field,
            RankRemovalsRequest {
                pods,
                ..request("", 1)
            },
        ));
    };
    facts("pods[0].name", vec![named("")]);
    facts("pods[1].name", vec![named("p"), named("p")]);
    facts(
        "pods[0].readyTime",
        vec![PodFacts {
            ready_time: late,
            ..named("p")
        }],
    );
    facts(
        "pods[0].creationTime",
        vec![PodFacts {
            creation_time: late,
            ..named("p")
        }],
    );
    let kept = |hash: &str, replicas| RevisionSize {
        hash: hash.into(),
        replicas,
    };
    for (field, kind, revisions) in [
        ("revisions", "StatefulSet", vec![kept("a", 1)]),
        ("revisions[0].hash", "Deployment", vec![kept("", 1)]),
        (
            "revisions[1].hash",
            "Rollout",
            vec![kept("a", 1), kept("a", 2)],
        ),
        ("revisions[0].replicas", "CloneSet", vec![kept("a", -1)]),
    ] {
        let mut wrong = request("", 1);
        wrong.workload.get_or_insert_default().kind = kind.into();
        wrong.revisions = revisions;
        refused.push((field, wrong));
    }
    for (field, request) in refused {
        let status = server.client().rank_removals(request).await;
        let status = status.expect_err(field);
        assert_eq!(status.code(), Code::InvalidArgument, "{field}");
        let details = status.get_error_details();
        let faults = details.bad_request().expect(field).field_violations.clone();
        assert!(
            faults.iter().any(|fault| fault.field == field),
            "{field}: {faults:?}"
        );
    }
    let too_many = server.client().rank_removals(request("", i32::MAX)).await;
    let status = too_many.expect_err("over max-replicas");
    assert_eq!(status.code(), Code::ResourceExhausted);
    let mut elsewhere = request("", 1);
    elsewhere.workload.get_or_insert_default().name = "db".into();
    let status = server.client().rank_removals(elsewhere).await;
    assert_eq!(status.expect_err("no such pods").code(), Code::NotFound);
}

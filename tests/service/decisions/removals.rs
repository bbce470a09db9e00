//! RankRemovals in cases that a reader can follow, and requests that are refused.

use evenkeel::proto::v1::{
    Change, OwnerReference, Pod, PodFacts, RankRemovalsRequest, RankRemovalsResponse, RemovalRule,
    RevisionSize, TopologySpreadConstraint, WorkloadName,
};
use support::build::{HOSTNAME, ZONE, hard, node, on, pod, soft, spread};
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

pub(crate) fn names(answer: &RankRemovalsResponse) -> Vec<&str> {
    let removals = answer.removals.iter();
    removals.map(|removal| removal.name.as_str()).collect()
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
async fn what_stays_is_even() {
    let server = Server::start().await;
    let mut changes: Vec<_> = ["a1", "a2", "b1", "c1"]
        .map(|name| node(name, &[(ZONE, &name[..1])]).change())
        .into();
    let constraints = [hard(1, ZONE, &WEB), soft(1, HOSTNAME, &WEB)];
    // Zone a has six pods, four of them on a1; b has two; c has one; one pod waits.
    let nodes = ["a1", "a1", "a1", "a1", "a2", "a2", "b1", "b1", "c1", ""];
    changes.extend(web(&nodes, &constraints));
    server.update("", changes).await;
    let answer = ask(&server, request("", 6)).await;
    // The waiting pod goes first, then those of zone a from the fuller node, then those of b.
    assert_eq!(names(&answer)[0], "p9");
    let domains = answer.removals[1].domains.iter();
    let domains: Vec<_> = domains.map(|d| (&*d.value, d.matching_pods)).collect();
    assert_eq!(domains, [("a", 6), ("a1", 4)]);
    let skews = |all: &[evenkeel::proto::v1::TopologySpread]| -> Vec<(i64, i64)> {
        all.iter().map(|t| (t.skew, t.excess)).collect()
    };
    assert_eq!(skews(&answer.before), [(5, 4), (3, 2)]);
    assert_eq!(skews(&answer.after), [(1, 0), (0, 0)]);
    assert_eq!((answer.pod_count, answer.unknown_pod_count), (10, 10));
    assert!(answer.optimal);
    // A count above the number of pods removes all.
    assert_eq!(ask(&server, request("", 99)).await.removals.len(), 10);
}

/// Pods that nothing else tells apart go in the order in which a ReplicaSet deletes them: each row
/// goes before the next.
#[tokio::test]
async fn a_replica_set_has_its_order() {
    fn at(seconds: i64) -> Option<pbjson_types::Timestamp> {
        Some(pbjson_types::Timestamp { seconds, nanos: 0 })
    }
    let server = Server::start().await;
    let ready = PodFacts {
        ready: true,
        ready_time: at(100),
        creation_time: at(50),
        ..PodFacts::default()
    };
    let but = |alter: fn(&mut PodFacts)| {
        let mut facts = ready.clone();
        alter(&mut facts);
        facts
    };
    let rows: [(&str, &str, &str, PodFacts); 12] = [
        ("unassigned", "", "Running", ready.clone()),
        ("pending", "a", "Pending", ready.clone()),
        ("unknown", "a", "Unknown", ready.clone()),
        ("not-ready", "a", "Running", PodFacts::default()),
        ("cheap", "a", "Running", but(|it| it.deletion_cost = -1)),
        (
            "doubled",
            "d",
            "Running",
            but(|it| it.creation_time = at(1)),
        ),
        (
            "just-ready",
            "x1",
            "Running",
            but(|it| it.ready_time = at(200)),
        ),
        ("restarted", "x2", "Running", but(|it| it.restarts = 3)),
        (
            "its-sidecar",
            "x3",
            "Running",
            but(|it| it.sidecar_restarts = 3),
        ),
        (
            "young",
            "x4",
            "Running",
            but(|it| it.creation_time = at(60)),
        ),
        ("old", "x5", "Running", ready.clone()),
        ("costly", "x6", "Running", but(|it| it.deletion_cost = 1)),
    ];
    let mut changes: Vec<Change> = Vec::new();
    let mut facts: Vec<PodFacts> = Vec::new();
    // The rows are sent in reverse order.
    for (name, node, phase, known) in rows.iter().rev() {
        let mut pod = owned(on(pod(name, &WEB), node));
        pod.status.get_or_insert_default().phase = (*phase).into();
        changes.push(pod.change());
        facts.push(PodFacts {
            name: (*name).into(),
            ..known.clone()
        });
    }
    // Two more pods on the node of `doubled`, which are to stay.
    for name in ["z1", "z2"] {
        changes.push(owned(on(pod(name, &WEB), "d")).change());
        facts.push(PodFacts {
            name: name.into(),
            ready: true,
            deletion_cost: 9,
            ..PodFacts::default()
        });
    }
    server.update("", changes).await;
    let expected: Vec<&str> = rows.iter().map(|(name, ..)| *name).collect();
    let asked = RankRemovalsRequest {
        pods: facts,
        ..request("", 12)
    };
    let answer = ask(&server, asked.clone()).await;
    assert_eq!(names(&answer), expected);
    assert_eq!(answer.unknown_pod_count, 0);
    // Facts with another UID are about an earlier pod of the same name.
    let mut stale = asked;
    stale.pods[0].uid = "another".into();
    assert_eq!(ask(&server, stale).await.unknown_pod_count, 1);
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

/// The kind of the controller decides which pods go.
#[tokio::test]
async fn each_kind_removes_as_its_controller_does() {
    let server = Server::start().await;
    let zones = ["a", "a", "b", "b", "c", "c"];
    let named = |kind: &str, name: &str| WorkloadName {
        kind: kind.into(),
        name: name.into(),
        selector: None,
    };
    let mut changes: Vec<_> = ["a", "b", "c"]
        .map(|it| node(it, &[(ZONE, it)]).change())
        .into();
    for kind in ["StatefulSet", "CloneSet", "DaemonSet", "Job"] {
        let labels = [("app", kind)];
        changes.extend(zones.iter().enumerate().map(|(index, zone)| {
            let name = format!("{}-{index}", kind.to_lowercase());
            let mut pod = owned(on(pod(&name, &labels), zone));
            let owner = &mut pod.metadata.get_or_insert_default().owner_references[0];
            (owner.kind, owner.name) = (kind.into(), kind.to_lowercase());
            spread(pod, vec![hard(1, ZONE, &labels)]).change()
        }));
    }
    server.update("", changes).await;
    let asked = |kind: &str| RankRemovalsRequest {
        workload: Some(named(kind, &kind.to_lowercase())),
        ..request("", 3)
    };
    let answer = ask(&server, asked("StatefulSet")).await;
    assert_eq!(
        names(&answer),
        ["statefulset-5", "statefulset-4", "statefulset-3"]
    );
    assert_eq!(answer.rule(), RemovalRule::HighestOrdinals);
    assert_eq!((answer.after[0].skew, answer.better_after[0].skew), (2, 0));
    assert_eq!(answer.better_removals.len(), 3);
    let answer = ask(&server, asked("CloneSet")).await;
    assert_eq!(names(&answer), ["cloneset-0", "cloneset-2", "cloneset-4"]);
    assert_eq!(answer.rule(), RemovalRule::DeletionCost);
    assert!(answer.better_removals.is_empty());
    for kind in ["DaemonSet", "Job"] {
        let refused = server.client().rank_removals(asked(kind)).await;
        let refused = refused.expect_err(kind);
        assert_eq!(refused.code(), Code::InvalidArgument, "{kind}");
    }
}

//! Faults of a request as a whole.

use evenkeel::proto::v1::{
    DefaultConstraints, DeleteSnapshotRequest, Dialect, ExportSnapshotRequest, FilterRequest,
    GetSnapshotRequest, ListSnapshotsRequest, NodeNames, ScoreRequest, Toleration,
    UpdateSnapshotRequest, View,
};
use tonic::Code;
use tonic_types::StatusExt;

use super::verdict::{Call, Refusal, invalid, refused, server, state};
use support::build::{ZONE, defaults_of, filter_of, hard, pairs, pod, score_as, score_of, spread};

fn filter() -> FilterRequest {
    filter_of(pod("", &[]))
}

fn candidates(names: &[&str]) -> Option<NodeNames> {
    Some(NodeNames {
        names: names.iter().map(|n| (*n).into()).collect(),
    })
}

#[tokio::test]
async fn fields_of_a_decision() {
    type Damage = fn(&mut FilterRequest);
    let table: [(&str, Damage, &[&str]); 9] = [
        ("no pod", |it| it.pod = None, &["pod"]),
        (
            "bad snapshot",
            |it| it.snapshot = "a b".into(),
            &["snapshot"],
        ),
        (
            "long snapshot",
            |it| it.snapshot = "s".repeat(254),
            &["snapshot"],
        ),
        (
            "candidate twice",
            |it| it.candidates = candidates(&["n0", "n1", "n0"]),
            &["candidates.names[2]"],
        ),
        (
            "candidate without a name",
            |it| it.candidates = candidates(&["n0", ""]),
            &["candidates.names[1]"],
        ),
        ("unknown view", |it| it.view = 99, &["view"]),
        (
            "unknown node checks",
            |it| it.node_checks = 99,
            &["nodeChecks"],
        ),
        ("unknown dialect", |it| it.dialect = 99, &["dialect"]),
        (
            "all at once",
            |it| {
                it.pod = None;
                it.view = 99;
                it.min_revision = -1;
                it.max_domains = Some(-1);
            },
            &["pod", "view", "minRevision", "maxDomains"],
        ),
    ];
    let mut rows = Vec::new();
    for (name, damage, fields) in table {
        let mut request = filter();
        damage(&mut request);
        let score = Call::Score(score_as(request.clone()));
        rows.push(invalid(
            format!("Filter, {name}"),
            Call::Filter(request),
            fields,
        ));
        rows.push(invalid(format!("Score, {name}"), score, fields));
    }
    let top = ScoreRequest {
        top: -1,
        ..score_of(pod("", &[]))
    };
    rows.push(invalid("negative top", Call::Score(top), &["top"]));
    refused(&server().await, rows).await;
}

#[tokio::test]
async fn fields_of_an_update() {
    type Damage = fn(&mut UpdateSnapshotRequest);
    let table: [(&str, Damage, &str); 5] = [
        (
            "system and a list",
            |it| {
                it.default_constraints = Some(DefaultConstraints {
                    system: true,
                    ..defaults_of(vec![hard(1, ZONE, &[])])
                });
            },
            "defaultConstraints.system",
        ),
        ("bad snapshot", |it| it.snapshot = "a b".into(), "snapshot"),
        ("unknown mode", |it| it.mode = 99, "mode"),
        (
            "negative revision",
            |it| it.expected_revision = Some(-1),
            "expectedRevision",
        ),
        (
            "no version",
            |it| it.kubernetes_version = "one".into(),
            "kubernetesVersion",
        ),
    ];
    let rows = table.map(|(name, damage, field)| {
        let mut request = UpdateSnapshotRequest::default();
        damage(&mut request);
        invalid(name, Call::Update(request), &[field])
    });
    refused(&server().await, rows.to_vec()).await;
}

#[tokio::test]
async fn unknown_snapshots() {
    let server = server().await;
    let unknown = FilterRequest {
        snapshot: "unknown".into(),
        ..filter()
    };
    let score = score_as(unknown.clone());
    let not_found = || Refusal::of(Code::NotFound, "unknown");
    let rows = vec![
        ("Filter".into(), Call::Filter(unknown), not_found()),
        ("Score".into(), Call::Score(score), not_found()),
    ];
    refused(&server, rows).await;

    let (snapshot, mut client) = ("unknown".to_owned(), server.client());
    let get = GetSnapshotRequest {
        snapshot: snapshot.clone(),
    };
    let delete = DeleteSnapshotRequest {
        snapshot: snapshot.clone(),
        epoch: String::new(),
    };
    let export = ExportSnapshotRequest { snapshot };
    let codes = [
        client.get_snapshot(get).await.map(drop),
        client.delete_snapshot(delete).await.map(drop),
        client.export_snapshot(export).await.map(drop),
    ]
    .map(|answer| answer.expect_err("there is no such snapshot").code());
    assert_eq!(codes, [Code::NotFound; 3]);
}

/// Candidates that the snapshot does not hold are reported, and the others are decided about.
#[tokio::test]
async fn unknown_candidates_are_reported() {
    let server = server().await;
    let before = state(&server).await;
    let pod = spread(
        pod("", &[("app", "web")]),
        vec![hard(1, ZONE, &[("app", "web")])],
    );
    let names = ["stranger", "n1", "ghost", "n0"];
    let request = FilterRequest {
        pod: Some(pod.clone()),
        candidates: candidates(&names),
        view: View::Full as i32,
        dialect: Dialect::Kubernetes as i32,
        ..FilterRequest::default()
    };
    let answer = server.filter(request.clone()).await;
    assert_eq!(answer.unknown_candidates, ["stranger", "ghost"]);
    assert_eq!(answer.feasible, ["n1"]);
    assert_eq!(answer.infeasible.len(), 1);
    assert_eq!((answer.feasible_count, answer.node_count), (1, 2));
    let bitmap = FilterRequest {
        view: View::Bitmap as i32,
        ..request
    };
    let answer = server.filter(bitmap).await;
    assert_eq!(answer.feasible_bitmap.to_vec(), [0b0010], "bit 1 is n1");

    let request = ScoreRequest {
        pod: Some(pod),
        candidates: candidates(&names),
        ..ScoreRequest::default()
    };
    let answer = server.score(request).await;
    assert_eq!(answer.unknown_candidates, ["stranger", "ghost"]);
    let scored: Vec<&str> = answer.scores.iter().map(|s| s.node.as_str()).collect();
    assert_eq!(scored, ["n1", "n0"]);
    assert_eq!(state(&server).await, before);
}

#[tokio::test]
async fn fields_of_a_list() {
    let request = ListSnapshotsRequest {
        page_size: -1,
        ..ListSnapshotsRequest::default()
    };
    let status = server().await.client().list_snapshots(request).await;
    let status = status.expect_err("a page has a size");
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_error_details();
    let violations = details
        .bad_request()
        .map_or(&[][..], |b| &b.field_violations);
    assert_eq!(violations[0].field, "pageSize");
}

/// Faults of different parts of a pod come back together.
#[tokio::test]
async fn all_faults_of_a_pod_at_once() {
    let mut bad = spread(pod("Not_A_Name", &[("k", "a b")]), vec![hard(0, "", &[])]);
    let spec = bad.spec.get_or_insert_default();
    spec.node_selector = pairs(&[("not a key", "v")]);
    spec.tolerations.push(Toleration {
        key: "k".into(),
        operator: "In".into(),
        ..Toleration::default()
    });
    let fields = [
        "pod.metadata.name",
        "pod.metadata.labels",
        "pod.spec.nodeSelector",
        "pod.spec.tolerations[0].operator",
        "pod.spec.topologySpreadConstraints[0].maxSkew",
        "pod.spec.topologySpreadConstraints[0].topologyKey",
    ];
    let (filter, score) = (filter_of(bad.clone()), score_of(bad));
    let rows = vec![
        invalid("Filter", Call::Filter(filter), &fields),
        invalid("Score", Call::Score(score), &fields),
    ];
    refused(&server().await, rows).await;
}

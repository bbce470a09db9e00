//! Faults of a request as a whole.

use evenkeel::proto::v1::{
    DeleteSnapshotRequest, Dialect, ExportSnapshotRequest, FilterRequest, GetSnapshotRequest,
    ListSnapshotsRequest, NodeNames, ScoreRequest, UpdateSnapshotRequest, View,
};
use tonic::Code;
use tonic_types::StatusExt;

use super::verdict::{Call, Refusal, refused, server, state};
use support::build::{ZONE, hard, pod, spread};

fn filter() -> FilterRequest {
    FilterRequest {
        pod: Some(pod("", &[])),
        ..FilterRequest::default()
    }
}

fn candidates(names: &[&str]) -> Option<NodeNames> {
    Some(NodeNames {
        names: names.iter().map(|n| (*n).into()).collect(),
    })
}

#[tokio::test]
async fn fields_of_a_decision() {
    let default = FilterRequest::default;
    let table: [(&str, FilterRequest, &[&str]); 9] = [
        ("no pod", default(), &["pod"]),
        (
            "bad snapshot",
            FilterRequest {
                snapshot: "a b".into(),
                ..filter()
            },
            &["snapshot"],
        ),
        (
            "long snapshot",
            FilterRequest {
                snapshot: "s".repeat(254),
                ..filter()
            },
            &["snapshot"],
        ),
        (
            "candidate twice",
            FilterRequest {
                candidates: candidates(&["n0", "n1", "n0"]),
                ..filter()
            },
            &["candidates.names[2]"],
        ),
        (
            "candidate without a name",
            FilterRequest {
                candidates: candidates(&["n0", ""]),
                ..filter()
            },
            &["candidates.names[1]"],
        ),
        (
            "unknown view",
            FilterRequest {
                view: 99,
                ..filter()
            },
            &["view"],
        ),
        (
            "unknown node checks",
            FilterRequest {
                node_checks: 99,
                ..filter()
            },
            &["nodeChecks"],
        ),
        (
            "unknown dialect",
            FilterRequest {
                dialect: 99,
                ..filter()
            },
            &["dialect"],
        ),
        (
            "all at once",
            FilterRequest {
                pod: None,
                view: 99,
                min_revision: -1,
                max_domains: Some(-1),
                ..default()
            },
            &["pod", "view", "minRevision", "maxDomains"],
        ),
    ];
    let mut rows = Vec::new();
    for (name, request, fields) in table {
        let score = ScoreRequest {
            snapshot: request.snapshot.clone(),
            pod: request.pod.clone(),
            candidates: request.candidates.clone(),
            node_checks: request.node_checks,
            view: request.view,
            min_revision: request.min_revision,
            dialect: request.dialect,
            max_domains: request.max_domains,
            ..ScoreRequest::default()
        };
        rows.push((
            format!("Filter, {name}"),
            Call::Filter(request),
            Refusal::invalid(fields),
        ));
        rows.push((
            format!("Score, {name}"),
            Call::Score(score),
            Refusal::invalid(fields),
        ));
    }
    let top = ScoreRequest {
        pod: Some(pod("", &[])),
        top: -1,
        ..ScoreRequest::default()
    };
    rows.push((
        "negative top".into(),
        Call::Score(top),
        Refusal::invalid(&["top"]),
    ));
    refused(&server().await, rows).await;
}

#[tokio::test]
async fn fields_of_an_update() {
    let default = UpdateSnapshotRequest::default;
    let table = [
        (
            "bad snapshot",
            UpdateSnapshotRequest {
                snapshot: "a b".into(),
                ..default()
            },
            "snapshot",
        ),
        (
            "unknown mode",
            UpdateSnapshotRequest {
                mode: 99,
                ..default()
            },
            "mode",
        ),
        (
            "negative revision",
            UpdateSnapshotRequest {
                expected_revision: Some(-1),
                ..default()
            },
            "expectedRevision",
        ),
        (
            "no version",
            UpdateSnapshotRequest {
                kubernetes_version: "one".into(),
                ..default()
            },
            "kubernetesVersion",
        ),
    ];
    let rows = table.map(|(name, request, field)| {
        (
            name.to_owned(),
            Call::Update(request),
            Refusal::invalid(&[field]),
        )
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
    let score = ScoreRequest {
        snapshot: "unknown".into(),
        pod: Some(pod("", &[])),
        ..ScoreRequest::default()
    };
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

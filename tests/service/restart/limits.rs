//! Acknowledged objects are restored whatever the limits are now.

use std::time::Duration;

use evenkeel::proto::v1::{
    Change, ExportSnapshotResponse, HeldPlacement, Snapshot, TopologySpreadConstraint,
    UpdateSnapshotRequest,
};
use tonic::Code;

use crate::restart::home::Home;
use crate::restart::process::Server;
use support::build::{
    ZONE, batch_of, defaults_of, hard, hold_of, on, pod, requiring, service, soft, spread, zones,
};
use support::model::Stored;
use support::refusal::code;

/// Every limit on stored objects: its flag, the generous value when they are stored, and the small
/// value when they are restored.
const LIMITS: [(&str, &str, &str); 15] = [
    ("--max-message-bytes", "67108864", "400000"),
    ("--max-changes-per-batch", "100000", "1"),
    ("--max-overlay-changes", "1000", "1"),
    ("--max-constraints-per-pod", "100", "1"),
    ("--max-snapshots", "100", "1"),
    ("--max-nodes", "1000", "1"),
    ("--max-pods", "10000", "1"),
    ("--max-label-sets", "1000", "1"),
    ("--max-owners", "1000", "1"),
    ("--max-replicas", "1000", "1"),
    ("--max-step-scores", "1000", "1"),
    ("--max-reservations", "1000", "1"),
    ("--max-reservation-ttl", "8h", "1s"),
    ("--max-pod-spec-bytes", "1000000", "1"),
    ("--max-string-bytes", "10000", "1"),
];

const SNAPSHOTS: [&str; 3] = ["default", "second", "third"];

/// A text beyond any default limit on strings.
fn long() -> String {
    "u".repeat(6_000)
}

/// Constraints beyond the default limit on them.
fn many_constraints() -> Vec<TopologySpreadConstraint> {
    let key = |i| format!("example.com/level-{i}");
    (0..40)
        .map(|i| soft(1, &key(i), &[("app", "web")]))
        .collect()
}

/// Objects of every kind that is limited, each beyond the default limit.
fn objects() -> Vec<Change> {
    let mut changes = zones(&["a", "b", "c"]);
    // This pod asks for some 200 KB, as that of a daemon with many nodes does.
    let names: Vec<String> = (0..20_000).map(|i| format!("node-{i:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let large = requiring(pod("large", &[("app", "web")]), ZONE, "In", &names);
    let mut named = pod("named", &[("app", "web"), ("tier", "back")]);
    named.metadata.get_or_insert_default().uid = long();
    let constrained = spread(pod("constrained", &[("app", "db")]), many_constraints());
    changes
        .extend([on(large, "a"), on(named, "b"), on(constrained, "unknown")].map(Stored::change));
    changes.extend(["web", "db"].map(|name| service(name, &[("app", name)]).change()));
    changes
}

async fn store(server: &Server) {
    for snapshot in SNAPSHOTS {
        let request = UpdateSnapshotRequest {
            default_constraints: Some(defaults_of(many_constraints())),
            ..batch_of(snapshot, objects())
        };
        server.send(request).await;
    }
    let template = spread(pod("", &[("app", "web")]), vec![hard(9, ZONE, &[])]);
    let mut request = hold_of(template, 5, Duration::from_secs(6 * 3_600));
    request.reserve.as_mut().expect("it reserves").owner = long();
    assert_eq!(server.place(request).await.placements.len(), 5);
}

/// All that a server keeps.
#[derive(Debug, PartialEq)]
struct Kept {
    described: Vec<Option<Snapshot>>,
    exported: Vec<Vec<ExportSnapshotResponse>>,
    held: Vec<HeldPlacement>,
}

async fn kept(server: &Server) -> Kept {
    let (mut described, mut exported) = (Vec::new(), Vec::new());
    for snapshot in SNAPSHOTS {
        described.push(server.find(snapshot).await);
        exported.push(server.export(snapshot).await);
    }
    Kept {
        described,
        exported,
        held: server.held().await.into_values().collect(),
    }
}

fn flags(
    value: impl Fn(&(&'static str, &'static str, &'static str)) -> &'static str,
) -> Vec<&'static str> {
    LIMITS
        .iter()
        .flat_map(|limit| [limit.0, value(limit)])
        .collect()
}

#[tokio::test]
async fn limits_refuse_only_what_is_new() {
    let home = Home::new();
    let generous = flags(|limit| limit.1);
    let server = home.start(&generous);
    store(&server).await;
    let before = kept(&server).await;
    server.kill().await;

    let mut cases: Vec<(String, Vec<&str>)> = vec![
        ("the same limits".into(), generous),
        ("the default limits".into(), Vec::new()),
        ("all of them tiny".into(), flags(|limit| limit.2)),
    ];
    cases.extend(
        LIMITS
            .iter()
            .map(|(flag, _, tiny)| (format!("{flag} {tiny}"), vec![*flag, *tiny])),
    );
    for (case, flags) in cases {
        let server = home.start(&flags);
        assert_eq!(kept(&server).await, before, "{case}");
        server.stop().await;
    }

    // The limits still hold for new objects.
    let server = home.start(&["--max-pods", "1", "--max-snapshots", "1"]);
    for (snapshot, name) in [("default", "new"), ("new", "new")] {
        let request = batch_of(snapshot, vec![pod(name, &[]).change()]);
        let refused = server.client().update_snapshot(request).await;
        assert_eq!(code(refused), Code::ResourceExhausted, "{snapshot}");
    }
}

#[tokio::test]
async fn what_was_stored_comes_back_whatever_the_process_may_take() {
    let home = Home::new();
    let server = home.start(&flags(|limit| limit.1));
    store(&server).await;
    let before = kept(&server).await;
    server.kill().await;

    // Exports and lists may be refused then.
    let server = home.start(&["--max-memory-bytes", "1"]);
    for (snapshot, before) in SNAPSHOTS.iter().zip(&before.described) {
        assert_eq!(server.find(snapshot).await, *before);
    }
    server.kill().await;
    assert_eq!(kept(&home.start(&[])).await, before);
}

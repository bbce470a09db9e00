//! Changes that an update, a stream and an overlay refuse: those of `changes.yaml`, and faults of several changes.

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{Change, FilterRequest, StreamSnapshotRequest, UpdateSnapshotRequest};
use serde::Deserialize;

use super::verdict::{Row, invalid, refused, server, table};
use support::build::{batch_of, filter_of, node, pod, tainted, update_of};
use support::model::{Stored, delete};

/// A change that breaks a rule, and the paths of its faults.
#[derive(Deserialize)]
struct Bad {
    what: String,
    change: Change,
    faults: Vec<String>,
}

impl Bad {
    /// Requests whose second change is this one and whose other changes are valid, so that nothing is
    /// applied.
    fn rows(self) -> [Row; 4] {
        let at = |list: &str| -> Vec<String> {
            let join = |fault: &String| match fault.is_empty() {
                true => format!("{list}[1]"),
                false => format!("{list}[1].{fault}"),
            };
            self.faults.iter().map(join).collect()
        };
        let changes = vec![
            node("new", &[]).change(),
            self.change,
            delete("Pod", "default", "p0"),
        ];
        let update = update_of(changes.clone());
        let replace = UpdateSnapshotRequest {
            mode: 1,
            ..update_of(changes[..2].to_vec())
        };
        let feed = StreamSnapshotRequest {
            step: Some(Step::Update(update.clone())),
        };
        let overlaid = FilterRequest {
            overlay: changes,
            ..filter_of(pod("", &[]))
        };
        let what = &*self.what;
        [
            invalid(what, "UpdateSnapshot", &update, &at("changes")),
            invalid(what, "UpdateSnapshot", &replace, &at("changes")),
            invalid(what, "StreamSnapshot", &feed, &at("update.changes")),
            invalid(what, "Filter", &overlaid, &at("overlay")),
        ]
    }
}

#[tokio::test]
async fn each_rule_is_kept_on_every_way() {
    let rows = table::<Bad>("changes")
        .into_iter()
        .flat_map(Bad::rows)
        .collect();
    refused(&server().await, rows).await;
}

/// All faults of all changes come back at once. A pod in the namespace `default` is one in none.
#[tokio::test]
async fn faults_of_several_changes() {
    let mut named = pod("p0", &[]);
    named.metadata.get_or_insert_default().namespace = "default".into();
    let twice = update_of(vec![pod("p0", &[]).change(), named.change()]);
    let all = batch_of(
        "no spaces",
        vec![
            tainted(node("UPPER", &[]), "", "", "?").change(),
            node("fine", &[]).change(),
            pod("", &[]).change(),
            delete("Pod", "", ""),
        ],
    );
    let fields = [
        "snapshot",
        "changes[0].node.metadata.name",
        "changes[0].node.spec.taints[0].key",
        "changes[0].node.spec.taints[0].effect",
        "changes[2].pod.metadata.name",
        "changes[3].delete.name",
    ];
    let rows = vec![
        invalid("a pod twice", "UpdateSnapshot", &twice, &["changes[1]"]),
        invalid("all at once", "UpdateSnapshot", &all, &fields),
    ];
    refused(&server().await, rows).await;
}

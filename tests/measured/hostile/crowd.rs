//! Snapshots in which every pod has a label set of its own.

use evenkeel::proto::v1::UpdateSnapshotRequest;
use support::build::{on, pod, update_of};
use support::model::{Stored, delete};

fn name(number: usize) -> String {
    format!("pod-{number}")
}

/// Pods that count as `web`, each with labels that no other pod has.
pub(crate) fn pods(numbers: std::ops::Range<usize>) -> UpdateSnapshotRequest {
    let pod = |number: usize| {
        let labels = [("app", "web"), ("index", &*number.to_string())];
        let node = format!("node-{}", number % 10);
        on(pod(&name(number), &labels), &node).change()
    };
    update_of(numbers.map(pod).collect())
}

pub(crate) fn deletions(numbers: std::ops::Range<usize>) -> UpdateSnapshotRequest {
    update_of(
        numbers
            .map(|number| delete("Pod", "", &name(number)))
            .collect(),
    )
}

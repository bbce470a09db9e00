//! The owners, tolerations and constraints that pods of real clusters have.

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{
    Change, LabelSelector, OwnerReference, Toleration, TopologySpreadConstraint,
};

/// Gives a pod the fields that a pod of a Deployment would have.
pub fn ask(change: &mut Change) {
    let Some(Object::Pod(pod)) = &mut change.object else {
        return;
    };
    let metadata = pod.metadata.get_or_insert_default();
    let label = |key: &str| metadata.labels.get(key).cloned().unwrap_or_default();
    let (app, hash) = (label("app"), label("pod-template-hash"));
    metadata.owner_references = vec![OwnerReference {
        kind: "ReplicaSet".to_owned(),
        name: format!("{app}-{hash}"),
        uid: "0f8fad5b-d9cb-469f-a165-70867728950e".to_owned(),
        api_version: "apps/v1".to_owned(),
        controller: Some(true),
    }];
    let spec = pod.spec.get_or_insert_default();
    let tolerates = |key: &str| Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: "NoExecute".to_owned(),
        toleration_seconds: Some(300),
        ..Toleration::default()
    };
    spec.tolerations = vec![
        tolerates("node.kubernetes.io/not-ready"),
        tolerates("node.kubernetes.io/unreachable"),
    ];
    spec.topology_spread_constraints = vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector {
            match_labels: [("app".to_owned(), app)].into(),
            ..LabelSelector::default()
        }),
        ..TopologySpreadConstraint::default()
    }];
}

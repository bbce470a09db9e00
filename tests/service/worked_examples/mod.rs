//! The worked examples of Kubernetes' own documents, asked of a real server:
//! KEP-895 (the feature), KEP-3022 (minDomains), KEP-3094 (policies), KEP-3243
//! (matchLabelKeys), the documentation page and the API reference. Drawings
//! show zones, nodes and the pods labelled `foo: bar` on them (P). The
//! incoming pod carries the same label unless an example says otherwise.

mod feature;
mod refinements;

use evenkeel::proto::v1::{Pod, TopologySpreadConstraint};
use support::build::{pod, spread};
use support::world::FOO;

/// A pod labelled `foo: bar` with these constraints.
fn incoming(constraints: Vec<TopologySpreadConstraint>) -> Pod {
    spread(pod("incoming", &FOO), constraints)
}

fn score(node: &str, score: i64) -> (String, i64) {
    (node.into(), score)
}

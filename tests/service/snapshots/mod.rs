//! Snapshots from the outside: revisions, replaces, streams, export and
//! restore, pages, and the views of an answer.

mod answers;
mod copies;
mod node_order;
mod registry;
mod replaces;
mod resource_versions;
mod updates;

use evenkeel::proto::v1::{Change, FilterRequest, Node};

use support::build::{ZONE, filter_in, node, pod};
use support::model::Stored;

/// A question whose answer names every node.
fn all_nodes(snapshot: &str) -> FilterRequest {
    filter_in(snapshot, pod("", &[]))
}

/// Nodes of these names, in zone `z`.
fn nodes(names: &[&str]) -> Vec<Change> {
    let nodes = names.iter().map(|name| node(name, &[(ZONE, "z")]));
    nodes.map(Node::change).collect()
}

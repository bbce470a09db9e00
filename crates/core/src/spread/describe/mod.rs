//! The present spread of workloads (`docs/spread.md`): the workloads of a namespace, the skew of each
//! by its constraints or by a topology key, and the label keys of nodes, which are the possible topology
//! keys.

mod survey;
mod workload;

pub use survey::{Survey, example, judge_selected};
pub use workload::{
    Balance, JudgedWorkload, NamedWorkload, OF_THE_NODE, WantedSpread, WorkloadId, WorkloadPods,
    controller, is_controlled_by, selects,
};

use std::collections::{HashMap, HashSet};

use crate::matching::names::HOSTNAME;
use crate::proto::{count, v1};
use crate::snapshot::{ReadView, Stopped};

/// The topology key of zones. It is the default if a request names none.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Keys that Kubernetes defines for topologies, the most useful first.
const WELL_KNOWN: [&str; 3] = [ZONE, "topology.kubernetes.io/region", HOSTNAME];

/// The number of keys that are listed.
const LISTED: usize = 20;

/// The most bytes that the keys in an error take together.
const NAMED_BYTES: usize = 1_000;

/// A topology key that no node has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("no node has the label {key:?}; {}", there_are(known))]
pub struct UnknownKey {
    /// The key.
    pub key: String,
    /// The keys that nodes have.
    pub known: Vec<v1::TopologyKey>,
}

/// The label keys of nodes. The keys that Kubernetes defines for topologies come first, then the
/// others by number of nodes.
pub fn topology_keys(read_view: &ReadView<'_>) -> Result<Vec<v1::TopologyKey>, Stopped> {
    let nodes = read_view.nodes;
    let mut found: HashMap<&str, (HashSet<&str>, usize)> = HashMap::new();
    for slot in nodes.order() {
        let labels = nodes.get(*slot).map(|node| node.label_texts());
        for label in read_view.deadline.each(labels.into_iter().flatten()) {
            let (key, value) = label?;
            let (values, nodes) = found.entry(key).or_default();
            if values.insert(value) {
                read_view.deadline.room()?;
            }
            *nodes += 1;
        }
    }
    let mut keys: Vec<v1::TopologyKey> = found
        .into_iter()
        .map(|(key, (values, nodes))| v1::TopologyKey {
            key: key.to_owned(),
            value_count: count(values.len()),
            node_count: count(nodes),
        })
        .collect();
    let place = |key: &str| WELL_KNOWN.iter().position(|known| *known == key);
    keys.sort_by_cached_key(|key| {
        let place = place(&key.key).unwrap_or(WELL_KNOWN.len());
        (place, std::cmp::Reverse(key.node_count), key.key.clone())
    });
    keys.truncate(LISTED);
    Ok(keys)
}

/// Checks that a node has a topology key.
///
/// # Errors
/// The deadline has passed, or [`Stopped::Full`]; inside, [`UnknownKey`] when no node has the key.
pub fn check_key(key: &str, read_view: &ReadView<'_>) -> Result<Result<(), UnknownKey>, Stopped> {
    let nodes = read_view.nodes;
    for slot in read_view.deadline.each(nodes.order()) {
        let node = nodes.get(*slot?);
        if node.is_some_and(|node| node.label_text(key).is_some()) {
            return Ok(Ok(()));
        }
    }
    Ok(Err(UnknownKey {
        key: key.to_owned(),
        known: topology_keys(read_view)?,
    }))
}

fn there_are(known: &[v1::TopologyKey]) -> String {
    let (mut text, mut named) = (String::new(), 0);
    for found in known {
        // The error travels in a header, which has to be short.
        if named > 0 && text.len() + found.key.len() > NAMED_BYTES {
            break;
        }
        text += if named > 0 { ", " } else { "nodes have " };
        text += &found.key;
        named += 1;
    }
    match known.len() - named {
        0 if named == 0 => "nodes have no labels".to_owned(),
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

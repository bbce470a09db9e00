//! The requests of pods on each node, recounted from the pods of all namespaces.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Findings;
use super::pods::each_stored;
use crate::matching::Requested;
use crate::recount::requests::requests;
use crate::recount::room;
use crate::snapshot::Frozen;

/// The sum of the requests of the pods on a node.
#[derive(Default)]
struct Sum {
    pods: u32,
    ports: i64,
    amounts: BTreeMap<String, i128>,
}

/// Compares the kept sums of each node. `None` as soon as `is_cancelled` returns true.
pub fn compare(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let nodes = frozen.nodes();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    each_stored(frozen, is_cancelled, |_, _, pod| {
        let Some(node) = room::node_taken(pod) else {
            return;
        };
        let sum = sums.entry(node.to_owned()).or_default();
        sum.pods += 1;
        sum.ports += room::ports(pod).len() as i64;
        // For a stored pod, all versions of Kubernetes count the same requests.
        for (resource, amount) in requests(pod, u32::MAX) {
            *sum.amounts.entry(resource).or_default() += amount;
        }
    })?;
    let all = nodes
        .order()
        .iter()
        .map(|slot| nodes.name(*slot).to_owned());
    let names: BTreeSet<String> = all.chain(sums.keys().cloned()).collect();
    let none = Sum::default();
    for name in &names {
        let sum = sums.get(name).unwrap_or(&none);
        let kept = match nodes.slot(name) {
            Some(slot) => frozen.requested(slot),
            None => Requested::nothing(),
        };
        compare_node(name, kept, sum, findings);
    }
    Some(())
}

fn compare_node(name: &str, kept: &Requested, sum: &Sum, findings: &mut Findings) {
    let mut room = findings.about("", || format!("room of node {name:?}"));
    room.compare("pods", kept.pods(), sum.pods);
    room.compare("host ports in use", kept.port_count(), sum.ports);
    let amounts = kept.amounts().filter(|(_, amount)| *amount != 0);
    let kept: BTreeMap<String, i128> = amounts
        .map(|(resource, amount)| (resource.as_str().to_owned(), amount))
        .collect();
    for resource in kept.keys().chain(sum.amounts.keys()) {
        let of = |amounts: &BTreeMap<String, i128>| amounts.get(resource).copied().unwrap_or(0);
        let aspect = format_args!("{resource} that pods request");
        room.compare(aspect, of(&kept), of(&sum.amounts));
    }
}

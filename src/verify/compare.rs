//! Compares the kept counts of a snapshot with their recount.

use super::finding::Verification;
use super::nodes::NodeList;
use super::nominated;
use super::pod_terms;
use super::pods::PodTally;
use super::room;
use super::storage_use;
use super::views;
use crate::snapshot::{Frozen, Kept};

/// Recounts a copy and compares. `None` as soon as `is_cancelled` returns true.
pub fn verify(
    frozen: &Frozen,
    kept: &Kept,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Verification> {
    let mut report = verify_sample(frozen, kept, is_cancelled)?;
    room::compare(frozen, &mut report.findings, is_cancelled)?;
    nominated::compare(frozen, &mut report.findings, is_cancelled)?;
    pod_terms::compare(frozen, &mut report.findings, is_cancelled)?;
    storage_use::compare(frozen, &mut report.findings, is_cancelled)?;
    compare_sizes(frozen, &mut report);
    Some(report)
}

/// Recounts a copy of some namespaces and compares everything except what all namespaces share.
/// `None` as soon as `is_cancelled` returns true.
pub fn verify_sample(
    frozen: &Frozen,
    kept: &Kept,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<Verification> {
    let mut report = Verification {
        revision: frozen.revision,
        nodes: frozen.nodes().len(),
        partitions: kept.partitions.len(),
        ..Verification::default()
    };
    let nodes = NodeList::of(frozen.nodes());
    nodes.compare(frozen.nodes(), &mut report.findings);
    let mut tallies = Vec::with_capacity(frozen.namespaces.len());
    for (name, namespace) in &frozen.namespaces {
        let tally = PodTally::of(name, namespace, frozen.nodes(), is_cancelled)?;
        tally.compare(name, namespace, frozen.nodes(), &mut report.findings);
        report.pods += tally.pods();
        report.label_sets += tally.sets.len();
        tallies.push(tally);
    }
    views::compare(frozen, kept, &nodes, &tallies, &mut report, is_cancelled)?;
    Some(report)
}

/// Compares the totals in the description of a snapshot.
fn compare_sizes(frozen: &Frozen, report: &mut Verification) {
    let owners = frozen.namespaces.iter().map(|(_, n)| n.owners().len());
    let owners = owners.chain([frozen.cluster_objects().len()]);
    let totals = [
        ("nodes", frozen.sizes.nodes, report.nodes),
        ("pods", frozen.sizes.pods, report.pods),
        ("label sets", frozen.sizes.label_sets, report.label_sets),
        (
            "services, owners and other objects",
            frozen.sizes.owners,
            owners.sum(),
        ),
    ];
    let mut snapshot = report.findings.about("", || "snapshot".to_owned());
    for (what, kept, recounted) in totals {
        snapshot.compare(format_args!("number of {what}"), kept, recounted);
    }
}

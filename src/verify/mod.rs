//! Holds what a snapshot keeps up to date against a recount: partitions of the
//! nodes, tables of label sets, and views. What is kept has drifted when a
//! number differs; that is always a fault of the program.
//!
//! Works on copies, holds no lock, and may run beside everything else. It
//! costs a pass over the pods, and one over the nodes for each partition and
//! each view. The rules are those of [`crate::recount`].

mod finding;
mod nodes;
mod patrol;
mod pods;
#[cfg(test)]
pub(crate) mod tests;
mod views;

pub use finding::{Findings, Mismatch};
pub use patrol::{Patrol, Step};

use crate::snapshot::{Frozen, Kept};
use nodes::NodeList;
use pods::Tally;

/// What was verified, and what differed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The revision that was copied.
    pub revision: i64,
    /// How many nodes it has.
    pub nodes: usize,
    /// How many pods it has, counted or not.
    pub pods: usize,
    /// How many tables of label sets were held against the pods.
    pub label_sets: usize,
    /// How many partitions were held against the nodes.
    pub partitions: usize,
    /// How many live views were held against both.
    pub views: usize,
    /// What differed.
    pub findings: Findings,
}

/// Recounts a copy and compares. `None` as soon as `is_cancelled` says so.
pub fn verify(frozen: &Frozen, kept: &Kept, is_cancelled: &dyn Fn() -> bool) -> Option<Report> {
    let mut report = verify_parts(frozen, kept, is_cancelled)?;
    compare_sizes(frozen, &mut report);
    Some(report)
}

/// Recounts a copy of some namespaces and compares, all but totals.
fn verify_sample(frozen: &Frozen, kept: &Kept) -> Report {
    verify_parts(frozen, kept, &|| false).expect("it is not cancelled")
}

fn verify_parts(frozen: &Frozen, kept: &Kept, is_cancelled: &dyn Fn() -> bool) -> Option<Report> {
    let mut report = Report {
        revision: frozen.revision,
        nodes: frozen.nodes().len(),
        partitions: kept.partitions.len(),
        ..Report::default()
    };
    compare_memory(kept, &mut report.findings);
    let nodes = NodeList::of(frozen.nodes());
    nodes.compare(frozen.nodes(), &mut report.findings);
    let mut tallies = Vec::with_capacity(frozen.namespaces.len());
    for (name, namespace) in &frozen.namespaces {
        let tally = Tally::of(name, namespace, frozen.nodes(), is_cancelled)?;
        tally.compare(name, namespace, frozen.nodes(), &mut report.findings);
        report.pods += tally.pods();
        report.label_sets += tally.len();
        tallies.push(tally);
    }
    views::compare(frozen, kept, &nodes, &tallies, &mut report, is_cancelled)?;
    Some(report)
}

/// What is kept of the memory that all takes.
fn compare_memory(kept: &Kept, findings: &mut Findings) {
    for memory in &kept.memory {
        let measured = memory.measured.parts();
        for ((part, kept), (_, measured)) in memory.kept.parts().into_iter().zip(measured) {
            let aspect = || format!("bytes of {part}");
            let subject = || "memory".to_owned();
            findings.compare(&memory.namespace, subject, aspect, kept, measured);
        }
    }
}

/// The totals that a snapshot is described by.
fn compare_sizes(frozen: &Frozen, report: &mut Report) {
    let owners = frozen.namespaces.iter().map(|(_, n)| n.owners().len());
    let totals = [
        ("nodes", frozen.sizes.nodes, report.nodes),
        ("pods", frozen.sizes.pods, report.pods),
        ("label sets", frozen.sizes.label_sets, report.label_sets),
        ("services and owners", frozen.sizes.owners, owners.sum()),
    ];
    for (what, kept, recounted) in totals {
        let aspect = || format!("number of {what}");
        report
            .findings
            .compare("", || "snapshot".to_owned(), aspect, kept, recounted);
    }
}

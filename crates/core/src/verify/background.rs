//! Verifies one sample at a time, in turns, and repairs drifted snapshots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::compare::verify_sample;
use super::finding::Verification;
use crate::snapshot::{Registry, Snapshot};

/// Goes around all namespaces of all snapshots, one at a step.
#[derive(Debug, Default)]
pub struct BackgroundVerifier {
    /// Snapshot and namespace of the last step.
    last: Mutex<(String, Box<str>)>,
}

/// The findings of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct VerificationStep {
    /// The snapshot's name.
    pub snapshot: String,
    /// The report about it. If anything differed, the snapshot was rebuilt.
    pub report: Verification,
}

impl BackgroundVerifier {
    /// Verifies the views of the next namespace, and their partitions. A snapshot with drift is
    /// rebuilt from its objects before this returns. `None` if there is no namespace, or no memory to
    /// rebuild it beside the state that answers.
    ///
    /// Batches wait while a snapshot is rebuilt.
    pub fn step(&self, registry: &Registry) -> Option<VerificationStep> {
        let (snapshot, namespace) = self.next(registry)?;
        let report = verify_sample(&snapshot.state(), &namespace, &|| false);
        let report = report.ok()?;
        let counters = registry.counters();
        add(&counters.verified_views, report.views);
        add(&counters.mismatches, report.findings.total);
        if report.findings.total > 0 && snapshot.rebuild() {
            add(&counters.repairs, 1);
        }
        Some(VerificationStep {
            snapshot: snapshot.name().to_owned(),
            report,
        })
    }

    /// The namespace after the last one, in the order of names.
    fn next(&self, registry: &Registry) -> Option<(Arc<Snapshot>, Box<str>)> {
        let mut last = self.last.lock();
        let all = registry.list("");
        let rest = all.iter().filter(|snapshot| *snapshot.name() >= *last.0);
        let rest = rest.map(|snapshot| (snapshot, snapshot.name() == last.0));
        let mut around = rest.chain(all.iter().map(|snapshot| (snapshot, false)));
        let found = around.find_map(|(snapshot, is_last)| {
            let mut names = snapshot.state().namespace_names().into_iter();
            let next = names.find(|name| !is_last || *name > last.1)?;
            Some((Arc::clone(snapshot), next))
        })?;
        *last = (found.0.name().to_owned(), found.1.clone());
        Some(found)
    }
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}

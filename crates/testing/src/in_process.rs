//! A snapshot in this process, without a server around it.

use std::sync::Arc;

use evenkeel::matching::Path;
use evenkeel::proto::v1::{Change, Pod};
use evenkeel::snapshot::{Batch, Limits, Offer, Registry, Snapshot, Unobserved};
use evenkeel::spread::Question;
use evenkeel::verify::verify;

/// The default snapshot of a registry.
pub struct InProcess {
    pub registry: Registry,
    pub snapshot: Arc<Snapshot>,
}

impl InProcess {
    /// A snapshot with these objects.
    pub fn new(limits: Limits, changes: Vec<Change>) -> Self {
        let registry = Registry::new(limits, Arc::new(Unobserved));
        update(&registry, changes);
        Self {
            snapshot: registry.get("default").expect("it was made"),
            registry,
        }
    }

    pub fn update(&self, changes: Vec<Change>) {
        update(&self.registry, changes);
    }

    pub fn question(&self, pod: &Pod) -> Question {
        let question = Question::compile(Some(pod), self.registry.limits(), Path::root("pod"));
        question.expect("a valid pod")
    }

    pub fn overlay(&self, changes: Vec<Change>) -> Batch {
        let overlay = Batch::check(changes, self.registry.limits(), Path::root("overlay"));
        overlay.expect("valid changes")
    }

    /// Checks that nothing that is kept has drifted. Returns the number of views.
    #[track_caller]
    pub fn verify(&self) -> usize {
        let report = verify(&self.snapshot.state(), &|| false).expect("it is not cancelled");
        assert_eq!(report.mismatches, []);
        usize::try_from(report.view_count).expect("a count")
    }
}

/// Applies a batch to the snapshot `default`; it must be accepted.
pub fn update(registry: &Registry, changes: Vec<Change>) {
    let batch = Batch::check(changes, registry.limits(), Path::root("changes"));
    let offer = Offer::of(
        Arc::new(batch.expect("valid changes")),
        registry.now().steady,
    );
    registry.update("default", offer).expect("it is applied");
}

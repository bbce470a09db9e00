//! A snapshot with a cluster in it, without a server.

use std::sync::Arc;

use evenkeel::matching::Path;
use evenkeel::proto::v1;
use evenkeel::snapshot::{Batch, Limits, Registry, Snapshot, Unobserved};

/// Name of the snapshot.
pub const NAME: &str = "default";

/// A registry that holds one snapshot.
pub struct World {
    /// The registry.
    pub registry: Arc<Registry>,
}

impl World {
    /// A snapshot with all objects of `batches`, which are staged first and then replace the state
    /// at once.
    pub fn of(batches: impl Iterator<Item = Vec<v1::Change>>) -> Self {
        let registry = Arc::new(Registry::new(Limits::default(), Arc::new(Unobserved)));
        let mut staged = registry.stage(NAME).expect("memory without a limit");
        for changes in batches {
            let applied = staged.apply(&batch(changes), None, registry.limits());
            applied.expect("it is within limits");
        }
        let arrived = registry.now().steady;
        let replaced = registry.replace(NAME, staged, (None, None), arrived);
        replaced.expect("it is within limits");
        Self { registry }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.registry.get(NAME).expect("it was just made")
    }
}

/// A batch of changes that are known to be valid.
pub fn batch(changes: Vec<v1::Change>) -> Arc<Batch> {
    let checked = Batch::check(changes, &Limits::default(), Path::root("changes"));
    Arc::new(checked.expect("the changes are valid"))
}

//! A server of a fleet, without a schedule: for tests in which few things go wrong.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::replica::{Replica, Waiting};
use evenkeel::snapshot::offer::Update;
use evenkeel::snapshot::{Fence, Now, Offer, Registry, Snapshot, Unobserved, system_clock};
use support::fake_log::FakeLog;
use tokio::runtime::Runtime;

use crate::simulation::wishes::{batch, node};
use crate::simulation::world::NAME;

/// A server, whose clients ask it directly.
pub struct Alone {
    pub registry: Arc<Registry>,
    pub replica: Arc<Replica>,
}

impl Alone {
    /// A server on its view of a log.
    pub fn on(log: &FakeLog, name: &str) -> Self {
        let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
        Self::joined(Self::replica(log, name), registry)
    }

    /// A replica on its view of a log. It skips all pauses.
    pub fn replica(log: &FakeLog, name: &str) -> Replica {
        let waiting = Waiting::pausing(runtime().handle().clone(), |_: Duration| {});
        let log = Arc::new(log.clone());
        Replica::new(log, name.to_owned(), waiting, system_clock())
    }

    /// A server that has this clock.
    pub fn at(
        log: &FakeLog,
        name: &str,
        clock: impl Fn() -> Now + Clone + Send + Sync + 'static,
    ) -> Self {
        let waiting = Waiting::pausing(runtime().handle().clone(), |_: Duration| {});
        let log = Arc::new(log.clone());
        let replica = Replica::new(log, name.to_owned(), waiting, clock.clone());
        let registry = Registry::with_clock(Limits::default(), Arc::new(Unobserved), clock);
        Self::joined(replica, registry)
    }

    fn joined(replica: Replica, registry: Registry) -> Self {
        let replica = Arc::new(replica);
        let registry = Arc::new(registry.with_journal(Arc::clone(&replica) as _));
        replica.serve(&registry);
        Self { registry, replica }
    }

    /// Puts a node of this number. Nobody is in the way.
    pub fn put(&self, number: usize) -> Update {
        let updated = self.registry.update(NAME, offer(number, None));
        updated.expect("it is applied")
    }

    /// Applies all that was acknowledged.
    pub fn follow(&self) {
        let followed = self.replica.follow(NAME, true);
        followed.expect("the log can be followed");
    }

    /// Applies the records that have arrived.
    pub fn read(&self) {
        let followed = self.replica.follow(NAME, false);
        followed.expect("the log can be followed");
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.registry.get(NAME).expect("it is there")
    }
}

/// The threads that all replicas wait on.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

/// A batch with a node of this number.
pub fn offer(number: usize, fence: Option<Fence>) -> Offer {
    let batch = Arc::new(batch(vec![node(number)]));
    Offer {
        fence,
        ..Offer::of(batch, system_clock()().steady)
    }
}

//! One revision of a namespace, while the locks of its namespace and of the
//! nodes are held.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::namespace::Namespace;
use super::shards::{Shard, SharedObjects, State};
use crate::snapshot::deadline::Stopped;
use crate::snapshot::locks::read;
use crate::snapshot::objects::requested::RequestedTable;

/// One revision of a namespace, which cannot change.
pub struct LockedNamespace<'a> {
    /// The revision.
    pub revision: i64,
    /// Nodes and default constraints.
    pub shared: &'a SharedObjects,
    /// The namespace; an empty one if there is none of the name.
    pub namespace: &'a Namespace,
    /// The requests of the pods on each node, and the terms by which they keep others away. `None`
    /// where no node reports its resources, no pod ever had a term, and the caller did not ask for
    /// it.
    pub requested: Option<Arc<RequestedTable>>,
    /// The shard of the namespace; `None` if there is none of the name.
    pub shard: Option<&'a Arc<Shard>>,
}

impl State {
    /// Reads one revision of a namespace while its locks are held: for short work.
    pub fn locked<T>(&self, namespace: &str, look: impl FnOnce(LockedNamespace<'_>) -> T) -> T {
        let looked = self.lock(namespace, true, true, look);
        looked.expect("who waits gets the locks")
    }

    /// As [`Self::locked`]. Unless it `waits`, it fails when a batch holds one
    /// of the locks.
    ///
    /// # Errors
    /// [`Stopped::Held`].
    pub fn try_locked<T>(
        &self,
        name: &str,
        waits: bool,
        look: impl FnOnce(LockedNamespace<'_>) -> T,
    ) -> Result<T, Stopped> {
        self.lock(name, waits, false, look)
    }

    /// Locks a namespace. With `has_requested`, the requests of pods are read even if no node
    /// reports its resources.
    fn lock<T>(
        &self,
        name: &str,
        waits: bool,
        has_requested: bool,
        look: impl FnOnce(LockedNamespace<'_>) -> T,
    ) -> Result<T, Stopped> {
        loop {
            let shard = self.shard(name);
            let locked = shard.as_ref().map(|shard| read(&shard.namespace, waits));
            let locked = locked.transpose()?;
            let shared = read(&self.shared, waits)?;
            let wants_requested = has_requested || shared.nodes.nodes().know_room();
            let now = || {
                // `keeps_away` is set before the revision at which the first term exists.
                let revision = self.revision();
                match wants_requested || self.keeps_away.load(Ordering::Acquire) {
                    true => {
                        let (revision, requested) = self.revision_and_requested();
                        (revision, Some(requested))
                    }
                    false => (revision, None),
                }
            };
            let read = match &locked {
                Some(namespace) => (!namespace.retired).then(now),
                None => self.without(name, now),
            };
            if let Some((revision, requested)) = read {
                let none = OnceCell::new();
                let namespace = locked.as_deref();
                return Ok(look(LockedNamespace {
                    revision,
                    shared: &shared,
                    namespace: namespace.unwrap_or_else(|| none.get_or_init(Namespace::default)),
                    requested,
                    shard: shard.as_ref(),
                }));
            }
        }
    }

    /// Returns the value of `now`, at a revision without the namespace; `None` when the caller must
    /// look again.
    ///
    /// This takes no lock for which a batch that creates or removes the namespace would wait. Such
    /// a batch increases the revision after it creates the namespace, and before it removes it. So
    /// a revision that stays the same while the namespace is not found does not have it.
    fn without<T>(&self, namespace: &str, now: impl FnOnce() -> (i64, T)) -> Option<(i64, T)> {
        let (revision, read) = now();
        if self.namespaces.contains_key(namespace) {
            return None;
        }
        // Here a batch may come in between; in tests it does.
        #[cfg(test)]
        std::thread::yield_now();
        (self.revision() == revision).then_some((revision, read))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::proto::v1;
    use crate::proto::v1::change::Object;
    use crate::snapshot::objects::change::Batch;

    /// The duration of the test.
    const TRIED: Duration = Duration::from_secs(2);

    /// The only pod of a namespace comes with every odd revision, and goes with
    /// every even one.
    #[test]
    fn a_namespace_that_comes_and_goes_is_of_the_revision_that_is_named() {
        let metadata = v1::ObjectMeta {
            name: "only".into(),
            namespace: "brief".into(),
            ..v1::ObjectMeta::default()
        };
        let came = Batch::trusted([Object::Pod(v1::Pod {
            metadata: Some(metadata),
            ..v1::Pod::default()
        })]);
        let gone = Batch::trusted([Object::Delete(v1::ObjectReference {
            kind: "Pod".into(),
            namespace: "brief".into(),
            name: "only".into(),
            ..v1::ObjectReference::default()
        })]);
        let (state, done) = (State::new(1 << 20), AtomicBool::new(false));
        let read = || {
            while !done.load(Ordering::Relaxed) {
                let of = |at: LockedNamespace<'_>| (at.revision, at.namespace.pod_count() as i64);
                let (revision, pods) = state.locked("brief", of);
                assert_eq!(pods, revision % 2, "pods of revision {revision}");
            }
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..16).map(|_| scope.spawn(read)).collect();
            let start = Instant::now();
            let mut revision = 0;
            // A reader that found a fault has ended.
            while start.elapsed() < TRIED && !readers.iter().any(|r| r.is_finished()) {
                for batch in [&came, &gone] {
                    revision += 1;
                    state.apply(batch, None, revision);
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

//! Deciding on one revision of a namespace: at once, patiently, or as if a batch
//! had been applied.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::census::Census;
use super::change::Batch;
use super::cut::Cut;
use super::hurry::{Delay, Hurry};
use super::namespace::Namespace;
use super::state::{Shared, State};
use super::undo::Undo;
use super::views::Views;

impl State {
    /// Runs a decision on one revision of a namespace.
    pub fn read<T>(&self, namespace: &str, decide: impl FnOnce(Cut<'_>) -> T) -> T {
        self.read_patiently(namespace, true, decide)
    }

    /// As [`Self::read`], if it is over at once. `decide` may have run in vain
    /// otherwise.
    ///
    /// # Errors
    /// Why it is not.
    pub fn read_at_once<T>(
        &self,
        namespace: &str,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> Result<T, Delay> {
        let hurry = Hurry::default();
        let decided = self.read_cut(namespace, true, Some(&hurry), decide)?;
        match hurry.gave_up() {
            Some(delay) => Err(delay),
            None => Ok(decided),
        }
    }

    /// Looks at all pods of one revision of a namespace.
    pub fn survey<T>(&self, namespace: &str, look: impl FnOnce(Census<'_>) -> T) -> T {
        self.read_patiently(namespace, false, |cut| look(cut.census()))
    }

    /// As [`Self::read`]; views are made only if it `keeps_views`.
    pub(super) fn read_patiently<T>(
        &self,
        namespace: &str,
        keeps_views: bool,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> T {
        let decided = self.read_cut(namespace, keeps_views, None, decide);
        decided.expect("who is patient gets an answer")
    }

    fn read_cut<T>(
        &self,
        namespace: &str,
        keeps_views: bool,
        hurry: Option<&Hurry>,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> Result<T, Delay> {
        loop {
            let shard = self
                .namespaces
                .get(namespace)
                .map(|shard| Arc::clone(&shard));
            let mut none = Namespace::default();
            let locked = shard.as_ref().map(|shard| match hurry {
                Some(_) => shard.namespace.try_read(),
                None => Some(shard.namespace.read()),
            });
            let locked = match locked {
                Some(None) => return Err(Delay::Held),
                Some(locked) => locked,
                None => None,
            };
            let shared = match hurry {
                Some(_) => self.shared.try_read().ok_or(Delay::Held)?,
                None => self.shared.read(),
            };
            if hurry.is_some() && shared.nodes.len() > Hurry::MAX_NODES {
                return Err(Delay::Long);
            }
            let revision = match &locked {
                Some(namespace) => (!namespace.retired).then(|| self.revision()),
                None => self.without(namespace),
            };
            if let Some(revision) = revision {
                if let Some(shard) = &shard
                    && keeps_views
                    && !shard.viewed.load(Ordering::Relaxed)
                {
                    shard.viewed.store(true, Ordering::Relaxed);
                }
                let namespace = locked.as_deref().unwrap_or(&none);
                let cut = Cut {
                    revision,
                    hurry,
                    ..self.cut(&shared, namespace)
                };
                let decided = decide(cut);
                self.upkeep.account(none.views_mut(), Views::clear);
                return Ok(decided);
            }
        }
    }

    /// A revision that has nothing in a namespace; `None` when it has to be
    /// looked for again.
    ///
    /// Nothing is locked that holds up a batch which brings the namespace, or
    /// takes it away. Such a batch moves on after it brought it, and before it
    /// takes it away: so a revision that stands while the namespace is not
    /// found is one without it.
    fn without(&self, namespace: &str) -> Option<i64> {
        let revision = self.revision();
        if self.namespaces.contains_key(namespace) {
            return None;
        }
        // Here a batch may come between; in tests it does.
        #[cfg(test)]
        std::thread::yield_now();
        (self.revision() == revision).then_some(revision)
    }

    /// Runs a decision as if a batch had been applied, and takes it back.
    pub fn read_overlaid<T>(
        &self,
        namespace: &str,
        overlay: Batch,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> T {
        let overlay = overlay.within(namespace);
        // Waited for with no other lock held: nobody waits for who waits here.
        let _no_copy = self.overlays.read();
        loop {
            // An empty shard made for this stays out of the map, unless a
            // batch makes it real meanwhile; then this looks again.
            let known = self
                .namespaces
                .get(namespace)
                .map(|shard| Arc::clone(&shard));
            let shard = known.clone().unwrap_or_default();
            let mut locked = shard.namespace.write();
            let mut shared = self.shared.write();
            let current = match known {
                Some(_) => !locked.retired,
                None => !self.namespaces.contains_key(namespace),
            };
            if current {
                shard.viewed.store(true, Ordering::Relaxed);
                let (locked, shared) = (&mut *locked, &mut *shared);
                let version = self.upkeep.version();
                self.upkeep
                    .account(locked.views_mut(), |views| views.sync(version));
                let undo = Undo::apply(&overlay, namespace, locked, shared, &self.upkeep);
                let decided = decide(self.cut(undo.shared(), undo.namespace()));
                drop(undo);
                if known.is_none() {
                    self.upkeep.account(locked.views_mut(), Views::clear);
                }
                return decided;
            }
        }
    }

    fn cut<'a>(&'a self, shared: &'a Shared, namespace: &'a Namespace) -> Cut<'a> {
        Cut {
            revision: self.revision(),
            nodes: &shared.nodes,
            defaults: &shared.defaults,
            namespace,
            upkeep: &self.upkeep,
            hurry: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::proto::v1;
    use crate::proto::v1::change::Object;

    /// How long it is tried.
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
                let of = |cut: Cut<'_>| (cut.revision, cut.namespace.pod_count() as i64);
                let (revision, pods) = state.read("brief", of);
                assert_eq!(pods, revision % 2, "pods of revision {revision}");
            }
        };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..16).map(|_| scope.spawn(read)).collect();
            let start = Instant::now();
            let mut revision = 0;
            // A reader that found something amiss has ended.
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

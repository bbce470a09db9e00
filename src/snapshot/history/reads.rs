//! The questions of readers to a named snapshot: decisions, a summary, copies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::error::Error;
use super::named::Snapshot;
use crate::account::Part;
use crate::matching::names;
use crate::snapshot::counts::usage::DecisionId;
use crate::snapshot::deadline::{Attempt, Deadline, Stopped};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::resource_versions::ResourceVersions;
use crate::snapshot::state::fork::Fork;
use crate::snapshot::state::frozen::{COPY_SHARE, Frozen, Kept};
use crate::snapshot::state::memory::MemoryUse;
use crate::snapshot::state::pod_groups::PodGroups;
use crate::snapshot::state::reach::Reach;
use crate::snapshot::state::read_view::{LockedViews, ReadView, ViewStore};
use crate::snapshot::state::shards::{Sizes, State};

/// The number of attempts to copy several parts before batches have to wait for the copying.
const FREE_ATTEMPTS: usize = 16;

/// A summary of a snapshot, at one moment.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The snapshot's name.
    pub name: String,
    /// The epoch: the id of the snapshot's history.
    pub epoch: String,
    /// The snapshot's version.
    pub revision: i64,
    /// True if decisions are answered.
    pub synced: bool,
    /// The number of objects of each kind.
    pub sizes: Sizes,
    /// The number of live reservations.
    pub reservations: usize,
    /// The snapshot's default constraints.
    pub defaults: Arc<Defaults>,
    /// The versions up to which the snapshot's feed has read its cluster.
    pub resource_versions: Arc<ResourceVersions>,
    /// The number of namespaces with pods, services or controllers.
    pub namespaces: usize,
    /// The number of kept views.
    pub views: usize,
    /// The memory that it takes.
    pub memory: MemoryUse,
    /// The time when it was created.
    pub created: SystemTime,
    /// The time when the last batch was applied; when the snapshot was created if none was.
    pub updated: SystemTime,
    /// The time since the last batch, even if the wall clock was set.
    pub unchanged_for: Duration,
    /// The time since its feed was heard. `None` when it has no maximum age.
    pub age: Option<Duration>,
    /// True if the snapshot is older than its maximum age.
    pub stale: bool,
    /// The time that the last batch took from its arrival until it was applied.
    pub lag: Duration,
}

/// A part of the nodes of one revision, in node order.
#[derive(Debug)]
pub struct NodePage {
    /// The revision.
    pub revision: i64,
    /// A revision at or after the last change of the order.
    pub ordered_at: i64,
    /// The names.
    pub names: Vec<String>,
    /// The number of all nodes.
    pub node_count: usize,
    /// True if more nodes come after these.
    pub goes_on: bool,
}

impl Snapshot {
    /// Reads the nodes of the newest revision.
    pub fn with_nodes<T>(&self, read: impl FnOnce(&Nodes) -> T) -> T {
        read(self.live().shared.read().nodes.nodes())
    }

    /// The nodes after a name: at most `most` nodes with at most this many bytes, but at least one.
    pub fn nodes_after(&self, name: &str, most: usize, bytes: usize) -> NodePage {
        let live = self.live();
        let shared = live.shared.read();
        let nodes = shared.nodes.nodes();
        let order = nodes.order();
        let start = order.partition_point(|slot| nodes.name(*slot) <= name);
        let mut names: Vec<String> = Vec::new();
        let mut left = bytes;
        for slot in order[start..].iter().take(most) {
            let name = nodes.name(*slot);
            if name.len() > left && !names.is_empty() {
                break;
            }
            left = left.saturating_sub(name.len() + 4);
            names.push(name.to_owned());
        }
        NodePage {
            revision: live.revision(),
            ordered_at: nodes.ordered_at,
            goes_on: start + names.len() < order.len(),
            node_count: order.len(),
            names,
        }
    }

    /// Runs a decision on one revision of all that it reads. An overlay is applied for this
    /// decision alone. Holds no lock while it decides.
    ///
    /// # Errors
    /// Those of the decision, or [`Stopped::Full`].
    pub fn read<'q, T>(
        &self,
        reach: impl Into<Reach<'q>>,
        overlay: Batch,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        self.read_until(reach.into(), overlay, &|| false, decide)
    }

    /// As [`Self::read`], until `is_given_up` returns true.
    ///
    /// # Errors
    /// The decision was given up, or [`Stopped::Full`].
    pub fn read_until<T>(
        &self,
        reach: Reach<'_>,
        overlay: Batch,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let live = self.live();
        let (fork, deadline) = if overlay.is_empty() && reach.is_within() {
            (live.fork(reach.namespace, true), live.deadline(is_given_up))
        } else {
            let taken = self.reservation_table().taken_over(&overlay);
            let overlay = self.with_deletions(&overlay, &taken);
            let overlay = overlay.under(live.defaults().rules());
            let (fork, deadline) = self.at_one_revision(&live, |live| {
                let deadline = live.deadline(is_given_up);
                (live.fork_all(reach, &overlay, &deadline), deadline)
            });
            let mut fork = fork?;
            fork.overlay(&overlay, &deadline)?;
            (fork, deadline)
        };
        live.decide_on(&fork, &deadline, decide)
    }

    /// Runs a decision on each of several reaches, on one revision of all of them, until
    /// `is_given_up` returns true.
    ///
    /// # Errors
    /// Those of [`Self::read_until`].
    pub fn read_each(
        &self,
        reaches: &[Reach<'_>],
        is_given_up: &dyn Fn() -> bool,
        mut decide: impl FnMut(usize, ReadView<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let live = self.live();
        let none = Batch::default();
        let (forks, _held) = self.at_one_revision(&live, |live| {
            let held = live.deadline(is_given_up);
            let forks = reaches.iter();
            let forks = forks.map(|reach| live.fork_all(*reach, &none, &held));
            (forks.collect::<Result<Vec<Fork<'_>>, _>>(), held)
        });
        for (at, fork) in forks?.iter().enumerate() {
            let deadline = live.deadline(is_given_up);
            live.decide_on(fork, &deadline, |read_view| decide(at, read_view))?;
        }
        Ok(())
    }

    /// Copies several parts of a state that is or was live, all of one revision. Copying is first
    /// tried without the turn, because its holder may wait for a disk. If batches come between two
    /// parts each time, this takes the turn at last, and batches wait.
    pub(super) fn at_one_revision<'l, T>(
        &self,
        live: &'l State,
        copy: impl Fn(&'l State) -> T,
    ) -> T {
        for _ in 0..FREE_ATTEMPTS {
            let before = live.revision();
            let copies = copy(live);
            if live.revision() == before {
                return copies;
            }
        }
        let _position = self.position.lock();
        copy(live)
    }

    /// The namespaces with objects, ascending by name.
    pub fn namespace_names(&self) -> Vec<Box<str>> {
        self.live().namespace_names()
    }

    /// Reads all pods of one revision of a namespace, until `is_given_up` returns true.
    ///
    /// # Errors
    /// Those of [`Self::read_until`], or of `look`.
    pub fn survey<T, E: From<Stopped>>(
        &self,
        namespace: &str,
        is_given_up: &dyn Fn() -> bool,
        look: impl FnOnce(PodGroups<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let live = self.live();
        let fork = live.fork(namespace, false);
        live.decide_on(&fork, &live.deadline(is_given_up), |read_view| {
            look(read_view.pod_groups()?)
        })
    }

    /// Reads all pods of all namespaces, ascending by name, of one revision: until `look` fails or
    /// `is_given_up` returns true. Without any namespace it reads the default one. It makes a fork
    /// of each namespace, whose memory is on the account. Batches may wait meanwhile.
    ///
    /// # Errors
    /// Those of [`Self::read_until`], or of `look`.
    pub fn survey_all<E: From<Stopped>>(
        &self,
        is_given_up: &dyn Fn() -> bool,
        mut look: impl FnMut(&str, PodGroups<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let live = self.live();
        let (names, forks) = self.at_one_revision(&live, |live| {
            let held = live.deadline(is_given_up);
            let mut names = live.namespace_names();
            if names.is_empty() {
                names.push(names::namespace_or_default("").into());
            }
            let fork = |name| held.holds(Fork::BYTES).map(|()| live.fork(name, false));
            let forks = names.iter().map(|name| fork(name));
            let forks: Result<Vec<Fork<'_>>, Stopped> = forks.collect();
            (names, forks.map(|forks| (forks, held)))
        });
        let (forks, _held) = forks?;
        for (name, fork) in names.iter().zip(forks) {
            let deadline = live.deadline(is_given_up);
            live.decide_on(&fork, &deadline, |read_view| {
                look(name, read_view.pod_groups()?)
            })?;
        }
        Ok(())
    }

    /// As [`Self::read`], where other calls wait for the thread: it ends with [`Stopped::Large`] if
    /// the decision turns out to be large. An attempt that does not wait also ends when a lock that
    /// it needs is held.
    ///
    /// # Errors
    /// The reason why it was not possible.
    pub fn read_at_once<T>(
        &self,
        namespace: &str,
        attempt: Attempt,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let live = self.live();
        let (deadline, waits) = (Deadline::at_once(), attempt.waits());
        live.try_locked(namespace, waits, |locked| {
            if let Some(shard) = locked.shard
                && !shard.viewed.load(Ordering::Relaxed)
            {
                shard.viewed.store(true, Ordering::Relaxed);
            }
            let views = LockedViews {
                views: locked.namespace.views(),
                waits,
            };
            decide(ReadView {
                revision: locked.revision,
                nodes: locked.shared.nodes.nodes(),
                shared: locked.shared,
                requested: locked.requested.as_deref(),
                defaults: &locked.shared.defaults,
                namespace: locked.namespace,
                upkeep: &live.upkeep,
                id: DecisionId::next(),
                deadline: &deadline,
                views: locked.shard.map(|_| &views as &dyn ViewStore),
                others: None,
                unknown_deletes: &[],
            })
        })?
    }

    /// Returns a summary of the snapshot.
    pub fn summary(&self) -> Summary {
        let updated = *self.updated.lock();
        let live = self.live();
        let reservations = self.reservation_table().len();
        let mut sizes = live.sizes();
        // Reservations count as pods in the state, but are none.
        sizes.pods = sizes.pods.saturating_sub(reservations);
        Summary {
            name: self.name().to_owned(),
            epoch: self.epoch().to_owned(),
            revision: live.revision(),
            synced: self.is_synced(),
            sizes,
            reservations,
            defaults: live.defaults(),
            resource_versions: self.resource_versions(),
            namespaces: live.namespaces.len(),
            views: live.upkeep.view_count(),
            memory: MemoryUse {
                reservations: self.held_bytes.bytes(),
                ..live.memory()
            },
            created: self.origin().created,
            updated: updated.wall,
            unchanged_for: self.now().steady.since(updated.steady),
            age: self.age(),
            stale: self.is_stale(),
            lag: self.freshness.lag(),
        }
    }

    /// Checks that there is memory for a copy of the snapshot.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub fn check_copy(&self) -> Result<(), Error> {
        let bytes = self.live().footprint.bytes() / COPY_SHARE;
        let room = self.live().footprint.account().charge(Part::Staged, bytes);
        Ok(room.map(drop)?)
    }

    /// A copy of everything, of one moment. Batches wait while it
    /// is made.
    pub fn freeze(&self) -> Frozen {
        let position = self.position.lock();
        self.live().freeze(&position)
    }

    /// A copy of everything with the kept counts, of one moment. Batches wait while it is made.
    pub fn freeze_kept(&self) -> (Frozen, Kept) {
        let position = self.position.lock();
        self.live().freeze_kept(&position)
    }

    /// As [`Self::freeze_kept`], of one namespace; the sizes in the copy are those of the whole.
    /// Batches on the namespace wait while it is made, others do not.
    pub fn freeze_kept_of(&self, namespace: &str) -> (Frozen, Kept) {
        self.live().freeze_kept_of(namespace)
    }
}

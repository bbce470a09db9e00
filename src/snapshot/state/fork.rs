//! Forks of a state: one revision of one namespace and the nodes, for a decision aside, with other
//! namespaces that the decision reads. A fork shares everything with the state until either
//! changes, so it costs next to nothing and holds no lock.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::apply::{apply_to_namespace, apply_to_nodes, reserve_slots};
use super::growth::copied_bytes;
use super::locked::LockedNamespace;
use super::namespace::Namespace;
use super::reach::Reach;
use super::read_view::{OtherNamespaces, ReadView, ViewStore};
use super::shards::{Shard, SharedObjects, State};
use crate::account::Part;
use crate::matching::Selector;
use crate::proto::v1;
use crate::snapshot::counts::partition_in_use::{PartitionId, PartitionInUse};
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::counts::usage::DecisionId;
use crate::snapshot::counts::view::View;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::locks::write_between_reads;
use crate::snapshot::objects::change::{Batch, Form, ObjectId, ValidChange};
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::requested::{RequestedTable, Shifts};

/// The most views that a fork takes along. If there are more, the fork takes none and counts again.
const MAX_VIEWS: usize = 4_096;

/// The most steps in which a view is brought up to date while a batch may wait for it.
const MAX_CATCHING_UP: usize = 1_000_000;

/// A fork of a state.
pub(in crate::snapshot) struct Fork<'s> {
    state: &'s State,
    revision: i64,
    shared: SharedObjects,
    requested: Arc<RequestedTable>,
    /// The name of the namespace.
    name: Box<str>,
    namespace: Namespace,
    /// Other namespaces that the decision reads, or that an overlay changes: their pods take room
    /// on nodes. All are of the same revision.
    others: BTreeMap<Box<str>, Namespace>,
    /// The namespace in the state, where views are kept.
    shard: Option<Arc<Shard>>,
    views: RefCell<Vec<(Arc<Selector>, Arc<View>)>>,
    /// The deletes of an overlay that hit nothing.
    unknown_deletes: Vec<v1::ObjectReference>,
}

impl State {
    /// The deadline of a decision in the background, which has passed once `is_given_up` returns true.
    pub fn deadline<'a>(&self, is_given_up: &'a dyn Fn() -> bool) -> Deadline<'a> {
        Deadline::until(is_given_up, self.footprint.account().open(Part::Requests))
    }

    /// Runs a decision on a fork until a deadline. Holds no lock while it decides.
    ///
    /// # Errors
    /// Those of the decision.
    pub(in crate::snapshot) fn decide_on<T, E>(
        &self,
        fork: &Fork<'_>,
        deadline: &Deadline<'_>,
        decide: impl FnOnce(ReadView<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let decided = decide(fork.read_view(deadline));
        self.upkeep.discarded.drop_all();
        decided
    }

    /// A fork of a namespace. Views that are made for it are kept in the state if it `keeps_views`.
    pub(in crate::snapshot) fn fork(&self, namespace: &str, keeps_views: bool) -> Fork<'_> {
        self.locked(namespace, |locked: LockedNamespace<'_>| {
            let mut views = Vec::new();
            if keeps_views && let Some(shard) = locked.shard {
                shard.viewed.store(true, Ordering::Relaxed);
                let kept = locked.namespace.views().read();
                if kept.version == self.upkeep.version() && kept.count() <= MAX_VIEWS {
                    let both =
                        |(s, v): (&Arc<Selector>, &Arc<View>)| (Arc::clone(s), Arc::clone(v));
                    views.extend(kept.watched.iter().map(both));
                }
            }
            Fork {
                state: self,
                revision: locked.revision,
                shared: locked.shared.clone(),
                requested: locked.requested.unwrap_or_default(),
                name: namespace.into(),
                namespace: locked.namespace.clone(),
                others: BTreeMap::new(),
                shard: locked.shard.filter(|_| keeps_views).cloned(),
                views: RefCell::new(views),
                unknown_deletes: Vec::new(),
            }
        })
    }

    /// A fork of all namespaces that a decision reads. No batch may come between two of the
    /// namespaces.
    pub(in crate::snapshot) fn fork_all(
        &self,
        reach: Reach<'_>,
        overlay: &Batch,
        deadline: &Deadline<'_>,
    ) -> Result<Fork<'_>, Stopped> {
        let fork = self.fork(reach.namespace, overlay.is_empty());
        fork.with_others(reach.others(self, overlay, deadline)?, deadline)
    }
}

impl Fork<'_> {
    /// The bytes of a fork itself, besides the blocks that it shares.
    pub(in crate::snapshot) const BYTES: usize = size_of::<Self>() + Namespace::EMPTY_BYTES;

    /// The bytes of another namespace in a fork, besides the blocks that it shares.
    const BYTES_PER_OTHER: usize = 2 * size_of::<(Box<str>, Namespace)>();

    /// Returns the bytes of copies that applying a batch makes.
    fn bytes_for(&self, batch: &Batch) -> usize {
        let namespaces = self.others.values().chain([&self.namespace]);
        let namespaces = namespaces.map(|namespace| namespace.memory().total());
        copied_bytes(batch, namespaces.sum()) + self.state.footprint.memory().nodes
    }

    /// Applies an overlay. The fork must have all its namespaces, and must keep no views in the
    /// state.
    pub(in crate::snapshot) fn overlay(
        &mut self,
        overlay: &Batch,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        deadline.holds(self.bytes_for(overlay))?;
        self.apply(overlay);
        Ok(())
    }

    /// Switches the fork to another of its namespaces. Returns whether it has one of this name.
    pub(in crate::snapshot) fn turn_to(&mut self, name: &str) -> bool {
        if *self.name == *name {
            return true;
        }
        let Some(next) = self.others.remove(name) else {
            return false;
        };
        let former = std::mem::replace(&mut self.namespace, next);
        let former_name = std::mem::replace(&mut self.name, name.into());
        self.others.insert(former_name, former);
        self.views.get_mut().clear();
        true
    }

    /// Adds other namespaces, which have to be of the same revision.
    pub(in crate::snapshot) fn with_others(
        mut self,
        names: impl IntoIterator<Item = Box<str>>,
        deadline: &Deadline<'_>,
    ) -> Result<Self, Stopped> {
        for name in deadline.each(names) {
            let name = name?;
            deadline.holds(Self::BYTES_PER_OTHER + name.len())?;
            let other = self.state.locked(&name, |locked| locked.namespace.clone());
            self.others.insert(name, other);
        }
        Ok(self)
    }

    /// Applies changes that others may follow. Counts from before are computed again.
    pub(in crate::snapshot) fn step(
        &mut self,
        changes: &Batch,
        is_first: bool,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        let bytes = match is_first {
            true => self.bytes_for(changes),
            false => changes.bytes,
        };
        deadline.holds(bytes)?;
        self.apply(changes);
        self.views.get_mut().clear();
        Ok(())
    }

    fn apply<'b>(&mut self, overlay: &'b Batch) {
        let mut missed: HashSet<ObjectId<'b>> = HashSet::new();
        let mut note = |change: ValidChange<'b>, changed: bool| {
            if !changed && matches!(change.form, Form::Delete(_)) {
                missed.insert(change.id);
            }
        };
        let change = |nodes: &mut Nodes| {
            apply_to_nodes(nodes, overlay, &mut note);
            reserve_slots(nodes, overlay);
        };
        if self.shared.has_other_nodes_after(overlay) {
            self.shared.nodes = Arc::new(PartitionedNodes::imagined(&self.shared.nodes, change));
        }
        let mut shifts = Shifts::default();
        for change in overlay.changes() {
            if !change.id.kind.is_in_shard() {
                continue;
            }
            let other = self.others.get_mut(change.id.namespace);
            let namespace = other.unwrap_or(&mut self.namespace);
            let changed = apply_to_namespace(change, namespace, &self.shared.nodes, &mut shifts);
            note(change, changed);
        }
        shifts.apply_to(&mut self.requested);
        self.shared.apply(overlay, &mut note);
        let unknown = |change: ValidChange<'b>| match change.form {
            Form::Delete(uid) if missed.contains(&change.id) => change.id.reference(uid),
            _ => None,
        };
        self.unknown_deletes = overlay.changes().filter_map(unknown).collect();
    }

    /// Returns the read view of a decision with a deadline.
    pub(in crate::snapshot) fn read_view<'a>(&'a self, deadline: &'a Deadline<'a>) -> ReadView<'a> {
        ReadView {
            revision: self.revision,
            nodes: self.shared.nodes.nodes(),
            shared: &self.shared,
            requested: Some(&self.requested),
            defaults: &self.shared.defaults,
            namespace: &self.namespace,
            upkeep: &self.state.upkeep,
            id: DecisionId::next(),
            deadline,
            views: Some(self),
            others: Some(self),
            unknown_deletes: &self.unknown_deletes,
        }
    }

    /// Keeps a view in the state, if its nodes are the same and little else has changed since.
    fn hand_back(
        &self,
        shard: &Shard,
        query: Query<'_>,
        mut view: View,
        mut matched: Vec<LabelSetId>,
        in_use: &PartitionInUse,
    ) {
        let namespace = shard.namespace.read();
        let shared = self.state.shared.read();
        if namespace.retired || !Arc::ptr_eq(&shared.nodes, &self.shared.nodes) {
            return;
        }
        let (before, now) = (self.namespace.label_sets(), namespace.label_sets());
        let changed = now.changed_since(before);
        let steps = changed.len().saturating_mul(2 + query.selector.len());
        if steps > MAX_CATCHING_UP {
            return;
        }
        if !changed.is_empty() {
            catch_up(
                &mut view,
                &mut matched,
                &changed,
                (before, now),
                query,
                in_use,
            );
        }
        let upkeep = &self.state.upkeep;
        let mut views = write_between_reads(namespace.views());
        views.keep(upkeep, query, view, matched);
    }
}

impl OtherNamespaces for Fork<'_> {
    fn each<'a>(
        &'a self,
        own: ReadView<'a>,
    ) -> Box<dyn Iterator<Item = (&'a str, ReadView<'a>)> + 'a> {
        Box::new(self.others.iter().map(move |(name, namespace)| {
            let read_view = ReadView {
                namespace,
                views: None,
                others: None,
                ..own
            };
            (&**name, read_view)
        }))
    }
}

impl ViewStore for Fork<'_> {
    /// A view that the fork took along, or that was made for it.
    fn find(
        &self,
        query: Query<'_>,
        id: PartitionId,
        _: &Upkeep,
    ) -> Result<Option<Arc<View>>, Stopped> {
        let views = self.views.borrow();
        let found = views
            .iter()
            .find(|(selector, view)| view.partition() == id && **selector == *query.selector);
        Ok(found.map(|(_, view)| Arc::clone(view)))
    }

    /// Keeps a view that was made for the fork, both here and in the state.
    fn keep(
        &self,
        query: Query<'_>,
        view: View,
        matched: Vec<LabelSetId>,
        in_use: &PartitionInUse,
        _: &Upkeep,
    ) -> Arc<View> {
        let kept = Arc::new(view);
        let selector = Arc::new(query.selector.clone());
        self.views.borrow_mut().push((selector, Arc::clone(&kept)));
        if let Some(shard) = &self.shard {
            self.hand_back(shard, query, View::clone(&kept), matched, in_use);
        }
        kept
    }
}

/// Brings a view of earlier label sets up to date with the present ones.
pub(in crate::snapshot) fn catch_up(
    view: &mut View,
    matched: &mut Vec<LabelSetId>,
    changed: &[LabelSetId],
    (before, now): (&LabelSets, &LabelSets),
    query: Query<'_>,
    in_use: &PartitionInUse,
) {
    let changed: HashSet<LabelSetId> = changed.iter().copied().collect();
    let domain = |slot| Some(in_use.partition.member(slot)).filter(|domain| domain.is_some());
    matched.retain(|set| {
        let stays = !changed.contains(set);
        if !stays {
            for (slot, pods) in before.counts(*set) {
                if let Some(domain) = domain(slot) {
                    view.remove(domain, pods);
                }
            }
        }
        stays
    });
    for set in changed {
        if now.is_in_use(set) && now.matches(set, query.selector) {
            for (slot, pods) in now.counts(set) {
                if let Some(domain) = domain(slot) {
                    view.add(domain, pods);
                }
            }
            matched.push(set);
        }
    }
}

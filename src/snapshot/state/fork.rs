//! Forks of a state: one revision of one namespace and the nodes, for a
//! decision aside. A fork shares everything with the state until either
//! changes, so it costs next to nothing and holds no lock.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::apply::{apply_to_namespace, apply_to_nodes, reserve_slots};
use super::growth::copied_bytes;
use super::locked::LockedNamespace;
use super::namespace::Namespace;
use super::read_view::{ReadView, ViewStore};
use super::shards::{Shard, SharedObjects, State};
use crate::matching::Selector;
use crate::proto::v1;
use crate::snapshot::budget::{Budget, Delay, Units};
use crate::snapshot::counts::partition_in_use::{PartitionId, PartitionInUse};
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::counts::usage::DecisionId;
use crate::snapshot::counts::view::View;
use crate::snapshot::locks::write_between_reads;
use crate::snapshot::objects::change::{Batch, Form, ObjectId, ValidChange};
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::label_sets::{LabelSetId, LabelSets};
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::requested::{RequestedTable, Shifts};

/// How many views a fork takes along. If there are more, it takes none and
/// counts again.
const MAX_VIEWS: usize = 4_096;

/// What bringing a view up to date may cost, in units, while a batch may wait
/// for it.
const MAX_CATCHING_UP: usize = 1_000_000;

/// A fork of a state.
pub(in crate::snapshot) struct Fork<'s> {
    state: &'s State,
    revision: i64,
    shared: SharedObjects,
    requested: Arc<RequestedTable>,
    namespace: Namespace,
    /// Other namespaces that an overlay changes: their pods take room on nodes.
    others: BTreeMap<Box<str>, Namespace>,
    /// The namespace in the state, where views are kept.
    shard: Option<Arc<Shard>>,
    views: RefCell<Vec<(Arc<Selector>, Arc<View>)>>,
    /// The deletes of an overlay that hit nothing.
    unknown_deletes: Vec<v1::ObjectReference>,
}

impl State {
    /// A fork of a namespace. Views that are made for it are kept in the state
    /// if it `keeps_views`.
    pub(in crate::snapshot) fn fork(&self, namespace: &str, keeps_views: bool) -> Fork<'_> {
        self.locked(namespace, |locked: LockedNamespace<'_>| {
            let mut views = Vec::new();
            if keeps_views && let Some(shard) = locked.shard {
                shard.viewed.store(true, Ordering::Relaxed);
                let kept = locked.namespace.views().read();
                if kept.version() == self.upkeep.version() && kept.count() <= MAX_VIEWS {
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
                namespace: locked.namespace.clone(),
                others: BTreeMap::new(),
                shard: locked.shard.filter(|_| keeps_views).cloned(),
                views: RefCell::new(views),
                unknown_deletes: Vec::new(),
            }
        })
    }

    /// A fork of a namespace to which an overlay is applied, within the budget
    /// of a decision.
    ///
    /// # Errors
    /// It was given up, or [`Delay::Full`].
    pub(in crate::snapshot) fn overlaid_fork(
        &self,
        namespace: &str,
        overlay: &Batch,
        budget: &Budget<'_>,
    ) -> Result<Fork<'_>, Delay> {
        let overlay = &*overlay.under(self.defaults().rules());
        let ids = overlay.changes().map(|change| change.id);
        let others = ids.filter(|id| id.kind != ObjectKind::Node && id.namespace != namespace);
        let names: BTreeSet<&str> = others.map(|id| id.namespace).collect();
        loop {
            // Each is of one revision. A batch may come between any two.
            let mut others = BTreeMap::new();
            let mut revisions = BTreeSet::new();
            for name in &names {
                let (revision, other) =
                    self.locked(name, |locked| (locked.revision, locked.namespace.clone()));
                revisions.insert(revision);
                others.insert(Box::from(*name), other);
            }
            let mut fork = self.fork(namespace, false);
            revisions.insert(fork.revision);
            if revisions.len() == 1 {
                fork.others = others;
                budget.holds(fork.bytes_for(overlay));
                if let Some(delay) = budget.delay() {
                    return Err(delay);
                }
                fork.apply(overlay);
                return Ok(fork);
            }
            if !budget.goes_on(Units::MAX) {
                return Err(budget.delay().unwrap_or(Delay::Long));
            }
        }
    }
}

impl Fork<'_> {
    /// What one takes in memory by itself, in bytes, beside what it shares.
    pub(in crate::snapshot) const BYTES: usize = size_of::<Self>() + Namespace::EMPTY_BYTES;

    /// What applying a batch takes in memory: copies of what it changes.
    fn bytes_for(&self, batch: &Batch) -> usize {
        let namespaces = self.others.values().chain([&self.namespace]);
        let namespaces = namespaces.map(|namespace| namespace.memory().total());
        copied_bytes(batch, namespaces.sum())
            + self.shared.nodes.nodes().copied_bytes()
            + self.shared.nominations.memory_bytes()
    }

    /// Applies an overlay, whose namespaces are all here.
    fn apply<'b>(&mut self, overlay: &'b Batch) {
        // What is counted from here on is of no use to others.
        self.shard = None;
        self.views.get_mut().clear();
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
        self.shared.nodes = Arc::new(PartitionedNodes::imagined(&self.shared.nodes, change));
        let mut shifts = Shifts::default();
        for change in overlay.changes() {
            if change.id.kind == ObjectKind::Node {
                continue;
            }
            let other = self.others.get_mut(change.id.namespace);
            let namespace = other.unwrap_or(&mut self.namespace);
            let changed = apply_to_namespace(change, namespace, &self.shared.nodes, &mut shifts);
            note(change, changed);
        }
        shifts.apply_to(&mut self.requested);
        if self.shared.nominations.is_changed_by(overlay) {
            Arc::make_mut(&mut self.shared.nominations).apply(overlay);
        }
        let unknown = |change: ValidChange<'b>| match change.form {
            Form::Delete(uid) if missed.contains(&change.id) => change.id.reference(uid),
            _ => None,
        };
        self.unknown_deletes = overlay.changes().filter_map(unknown).collect();
    }

    /// What a decision reads, within a budget.
    pub(in crate::snapshot) fn read_view<'a>(&'a self, budget: &'a Budget<'a>) -> ReadView<'a> {
        ReadView {
            revision: self.revision,
            nodes: self.shared.nodes.nodes(),
            shared: &self.shared,
            requested: (self.shared.nodes.nodes().know_room()).then_some(&*self.requested),
            defaults: &self.shared.defaults,
            namespace: &self.namespace,
            upkeep: &self.state.upkeep,
            id: DecisionId::next(),
            budget,
            views: Some(self),
            unknown_deletes: &self.unknown_deletes,
        }
    }

    /// Keeps a view in the state, if its nodes are the same and little else has
    /// changed since.
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
        let units = changed.len().saturating_mul(2 + query.selector.len());
        if units > MAX_CATCHING_UP {
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

impl ViewStore for Fork<'_> {
    /// A view that it took along, or that was made for it.
    fn find(
        &self,
        query: Query<'_>,
        id: PartitionId,
        _: &Upkeep,
    ) -> Result<Option<Arc<View>>, Delay> {
        let views = self.views.borrow();
        let found = views
            .iter()
            .find(|(selector, view)| view.partition() == id && **selector == *query.selector);
        Ok(found.map(|(_, view)| Arc::clone(view)))
    }

    /// Keeps a view that was made for it, here and in the state.
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

/// Has a view of label sets as they were count them as they are now.
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

//! One revision of a snapshot: its nodes, its namespaces with their pods and the objects that select
//! them, and what they share. It stays as it is while somebody reads it; a change is applied to a
//! clone, which shares with it all that stays the same.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;

use crate::account::{Account, Purpose};
use crate::proto::v1;
use crate::snapshot::counters::SnapshotCounters;
use crate::snapshot::counts::partitions::{PartitionedNodes, Upkeep};
use crate::snapshot::counts::views::Views;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::cluster_objects::ClusterObjects;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::label_sets::LabelSets;
use crate::snapshot::objects::name_table::NameTable;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::nominated::Nominations;
use crate::snapshot::objects::owners::Owners;
use crate::snapshot::objects::pod::PodRecord;
use crate::snapshot::objects::requested::RequestedTable;
use crate::snapshot::objects::requirements::Templates;
use crate::snapshot::objects::reservation::{Claim, Numbered, Serial, is_reservation};
use crate::snapshot::objects::reservation_table::ReservationTable;
use crate::snapshot::objects::resource_versions::ResourceVersions;

/// One revision of a snapshot.
#[derive(Debug, Clone)]
pub struct State {
    /// The revision.
    pub revision: i64,
    pub(crate) shared: SharedObjects,
    /// The requests of the pods on each node, the terms by which they keep others away, and the
    /// storage that they use.
    pub(crate) requested: Arc<RequestedTable>,
    pub(in crate::snapshot) namespaces: NameTable<Arc<Namespace>>,
    /// The versions up to which the feed has read: the state has all changes up to there.
    pub(in crate::snapshot) resource_versions: Arc<ResourceVersions>,
    /// The reservations, for each of which the state has a pod, and the kept answers.
    pub(in crate::snapshot) reservations: ReservationTable,
    /// The number of objects of each kind.
    pub sizes: Sizes,
    pub(in crate::snapshot) upkeep: Arc<Upkeep>,
}

/// The objects that all namespaces share.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedObjects {
    pub(in crate::snapshot) nodes: Arc<PartitionedNodes>,
    pub(in crate::snapshot) defaults: Arc<Defaults>,
    /// The nominated pods of all namespaces.
    pub(crate) nominations: Arc<Nominations>,
    /// Namespaces, claims, persistent volumes and storage classes.
    pub(crate) cluster: Arc<ClusterObjects>,
}

/// The numbers of changes in a batch, by whether they made a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Changes that made a difference.
    pub changed: usize,
    /// Changes that made no difference.
    pub unchanged: usize,
    /// Changes of unknown kinds, which were skipped.
    pub skipped: usize,
}

/// The number of objects of each kind in a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes that exist.
    pub nodes: usize,
    /// Pods, counted or not.
    pub pods: usize,
    /// Distinct (namespace, labels) of pods.
    pub label_sets: usize,
    /// Services, controllers, namespaces, claims, persistent volumes and storage classes.
    pub owners: usize,
}

impl SharedObjects {
    /// Applies a batch to all these objects except the nodes, and tells `note` for each change of
    /// an object of the cluster whether it made a difference.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn apply<'b>(
        &mut self,
        batch: &'b Batch,
        deadline: &Deadline<'_>,
        note: impl FnMut(ValidChange<'b>, bool),
    ) -> Result<(), Stopped> {
        if self.nominations.is_changed_by(batch) {
            Arc::make_mut(&mut self.nominations).apply(batch, deadline)?;
        }
        if batch.has_cluster_objects {
            Arc::make_mut(&mut self.cluster).apply(batch, deadline, note)?;
        }
        Ok(())
    }

    /// Returns whether a batch changes nodes, or has pods that name unknown ones.
    pub fn has_other_nodes_after(&self, batch: &Batch) -> bool {
        let nodes = self.nodes.nodes();
        let is_unknown = |name: &str| !name.is_empty() && nodes.slot(name).is_none();
        let names_unknown = |change: ValidChange<'_>| match change.form {
            Form::Pod(pod) => is_unknown(pod.node_name()),
            _ => false,
        };
        batch.has_nodes || batch.changes().any(names_unknown)
    }
}

impl Applied {
    pub(in crate::snapshot) fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
        self.skipped += other.skipped;
    }

    /// The numbers before any change of `batch` is applied.
    pub(in crate::snapshot) fn before(batch: &Batch) -> Self {
        Self {
            skipped: batch.skipped,
            ..Self::default()
        }
    }

    pub(in crate::snapshot) fn note(&mut self, changed: bool) {
        match changed {
            true => self.changed += 1,
            false => self.unchanged += 1,
        }
    }
}

impl Sizes {
    /// Counts a namespace in its present form instead of the former one.
    pub(in crate::snapshot) fn change(&mut self, before: Self, after: Self) {
        self.pods = self.pods - before.pods + after.pods;
        self.label_sets = self.label_sets - before.label_sets + after.label_sets;
        self.owners = self.owners - before.owners + after.owners;
    }
}

impl State {
    /// An empty state, with upkeep of its own.
    pub fn empty(account: &Arc<Account>, counters: &Arc<SnapshotCounters>) -> Self {
        Self {
            revision: 0,
            shared: SharedObjects::default(),
            requested: Arc::default(),
            namespaces: NameTable::default(),
            resource_versions: Arc::default(),
            reservations: ReservationTable::default(),
            sizes: Sizes::default(),
            upkeep: Arc::new(Upkeep::new(account, Arc::clone(counters))),
        }
    }

    /// Gives a state that was built aside its place after `former`.
    pub fn adopt(&mut self, revision: i64, defaults: Arc<Defaults>, former: &Self) {
        self.revision = revision;
        self.shared.defaults = defaults;
        self.upkeep = Arc::clone(&former.upkeep);
        let is_same = former.revision > 0 && former.nodes().names().eq(self.nodes().names());
        let ordered_at = match is_same {
            true => former.nodes().ordered_at,
            false => revision,
        };
        let nodes = Arc::make_mut(&mut self.shared.nodes);
        nodes.nodes_mut().ordered_at = ordered_at;
    }

    /// A batch with the effect of reservations on the state: new ones begin to count, and ended ones
    /// cease to.
    pub(in crate::snapshot) fn with_reservations(
        &self,
        batch: &Arc<Batch>,
        held: &[(Serial, Numbered)],
        ended: &[Serial],
    ) -> Arc<Batch> {
        if held.is_empty() && ended.is_empty() {
            return Arc::clone(batch);
        }
        let mut more = self.reservations.deletions(ended);
        let new = held
            .iter()
            .filter(|(serial, _)| !self.reservations.holds(*serial));
        more.extend(new.filter_map(|(serial, held)| Some(held.reservation()?.pod(*serial))));
        match more.is_empty() {
            true => Arc::clone(batch),
            false => Arc::new(Batch::clone(batch).and(more)),
        }
    }

    /// Adds the pods of all reservations to a state that was built without them.
    pub(in crate::snapshot) fn add_reserved_pods(&mut self) {
        let pods = self.reservations.pods(&self.reservations.serials());
        self.apply(&Batch::trusted(pods), 0);
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        self.shared.nodes.nodes()
    }

    /// The default constraints.
    pub fn defaults(&self) -> &Arc<Defaults> {
        &self.shared.defaults
    }

    /// The versions up to which the snapshot's feed has read its cluster. The state has all changes
    /// up to there.
    pub fn resource_versions(&self) -> &Arc<ResourceVersions> {
        &self.resource_versions
    }

    /// A namespace, if it has objects.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name).map(|namespace| &**namespace)
    }

    /// The namespaces with objects, ascending by name.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &Namespace)> {
        self.namespaces.iter().map(|(name, it)| (name, &**it))
    }

    /// The names of the namespaces with objects, ascending.
    pub fn namespace_names(&self) -> Vec<Box<str>> {
        self.namespaces.names().map(Box::from).collect()
    }

    /// Returns which of these confirmed reservations, given with namespace and pod, have pods that
    /// are on nodes already; ascending.
    pub fn arrived<'c>(
        &self,
        confirmed: impl Iterator<Item = (Serial, &'c str, &'c Claim)>,
    ) -> Vec<Serial> {
        let mut by_namespace: HashMap<&str, Vec<(Serial, &Claim)>> = HashMap::new();
        for (serial, namespace, claim) in confirmed {
            by_namespace
                .entry(namespace)
                .or_default()
                .push((serial, claim));
        }
        let mut arrived = Vec::new();
        for (name, claims) in by_namespace {
            if let Some(namespace) = self.namespace(name) {
                arrived.extend(namespace.arrived(&claims));
            }
        }
        arrived.sort_unstable();
        arrived.dedup();
        arrived
    }

    /// Drops views and partitions that were not used for `idle_ticks` sweeps, and more while there is
    /// no room for another view.
    pub fn sweep(&self, idle_ticks: u64) {
        let since = self.upkeep.idle_since(idle_ticks);
        self.drop_caches(since, !self.upkeep.has_view_room());
    }

    /// Drops some views and partitions, because something that takes precedence needs their memory.
    pub fn make_room(&self) {
        self.drop_caches(0, true);
    }

    fn drop_caches(&self, since: u64, is_short: bool) {
        self.shared.nodes.drop_idle_partitions(since, is_short);
        let partitions = self.shared.nodes.partitions();
        let in_use: HashSet<_> = partitions.all().map(|in_use| in_use.id()).collect();
        for (_, namespace) in self.namespaces.iter() {
            if namespace.views.load().count() == 0 {
                continue;
            }
            namespace.views.rcu(|views| {
                let mut views = Views::clone(views);
                views.drop_idle(since, |id| in_use.contains(&id));
                if is_short {
                    views.drop_unused(views.count().div_ceil(4));
                }
                views
            });
        }
    }
}

impl State {
    /// Returns whether there is memory for a batch. One that only deletes needs none.
    pub(in crate::snapshot) fn has_memory(&self, batch: &Batch) -> bool {
        let is_delete = |change: ValidChange<'_>| matches!(change.form, Form::Delete(_));
        self.upkeep.account().has_room(Purpose::Objects, 0) || batch.changes().all(is_delete)
    }
}

/// The pods and owners of one namespace. Copies share them until they change.
#[derive(Debug, Default)]
pub struct Namespace {
    pub(super) pods: Arc<NameTable<PodRecord>>,
    pub(in crate::snapshot) label_sets: Arc<LabelSets>,
    pub(super) templates: Arc<Templates>,
    pub(super) owners: Owners,
    /// Counts of its pods. Decisions add views, which change no answer.
    pub(in crate::snapshot) views: ArcSwap<Views>,
}

impl Namespace {
    /// A namespace that does not exist.
    pub fn none() -> &'static Self {
        static NONE: LazyLock<Namespace> = LazyLock::new(Namespace::default);
        &NONE
    }

    /// The distinct label sets of its pods.
    pub fn label_sets(&self) -> &LabelSets {
        &self.label_sets
    }

    /// The cached counts of its pods.
    pub fn views(&self) -> Arc<Views> {
        self.views.load_full()
    }

    /// Returns the objects that select its pods.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the number of its pods.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Returns which of these reservations were confirmed for pods that are on nodes already.
    pub fn arrived(&self, claims: &[(Serial, &Claim)]) -> Vec<Serial> {
        // Pods are not found by uid, so all pods are read once. Reservations are left out, because
        // they may have the uids of pods that have not arrived.
        let uids = LazyCell::new(|| -> HashSet<String> {
            let pods = self.pods.iter();
            let bound = pods.filter(|(name, pod)| pod.node.is_some() && !is_reservation(name));
            bound.map(|(_, pod)| pod.life.uid()).collect()
        });
        let is_bound = |claim: &Claim, pod: &PodRecord| {
            pod.node.is_some() && claim.is_of(&claim.name, &pod.life.uid())
        };
        let has_arrived = |claim: &Claim| match claim.name.is_empty() {
            true => uids.contains(&*claim.uid),
            false => (self.pods.get(&claim.name)).is_some_and(|pod| is_bound(claim, pod)),
        };
        let arrived = claims.iter().filter(|(_, claim)| has_arrived(claim));
        arrived.map(|(serial, _)| *serial).collect()
    }

    /// Returns whether the namespace is empty.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.owners.is_empty()
    }

    /// The names of its pods, ascending.
    pub fn pod_names(&self) -> impl Iterator<Item = &str> {
        self.pods.names()
    }

    /// A pod for the wire, whole.
    pub fn pod_to_wire(&self, namespace: &str, name: &str, nodes: &Nodes) -> Option<v1::Pod> {
        let record = self.pods.get(name)?;
        let labels = self.label_sets.texts(record.labels);
        let metadata = v1::ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            ..Default::default()
        };
        let node_name = record.node.map_or("", |slot| nodes.name(slot));
        let requirements = self.templates.get(record.life.template);
        Some(record.life.to_wire(metadata, node_name, requirements))
    }
}

impl Clone for Namespace {
    fn clone(&self) -> Self {
        Self {
            pods: self.pods.clone(),
            label_sets: self.label_sets.clone(),
            templates: self.templates.clone(),
            owners: self.owners.clone(),
            views: ArcSwap::new(self.views.load_full()),
        }
    }
}

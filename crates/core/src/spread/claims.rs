//! The claims of a pod: those that are bound, those that wait for the pod, their binding on one node to
//! volumes that exist or are provisioned for it, and the volumes that reservations hold.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::describe::controller;
use super::verdict::Reason;
use super::volumes::BoundClaim;
use crate::matching::storage::{ClaimKind, PersistentVolume, StorageClass, VolumeClaim};
use crate::matching::{PodClaim, Quantity};
use crate::snapshot::cluster_objects::StorageObjects;
use crate::snapshot::free_volumes::{FreeVolume, VolumeList, VolumeRank, reaches};
use crate::snapshot::requested::PodUse;
use crate::snapshot::{Deadline, NodeRef, ReadView, Stopped};

/// The claims of a pod, by their state.
#[derive(Default)]
pub(super) struct FoundClaims<'a> {
    /// The existing claims that only one pod may use.
    pub(super) once: Vec<&'a str>,
    /// The claims that are bound, in order.
    pub(super) bound: Vec<BoundClaim<'a>>,
    /// The claims that wait for a pod, in order.
    pub(super) waiting: Vec<UnboundClaim<'a>>,
}

/// A claim of a pod, as found or as its template describes it.
struct UsedClaim<'a> {
    used: &'a PodClaim,
    claim: &'a Arc<VolumeClaim>,
    /// True if the claim does not exist yet and will be created from a template.
    is_new: bool,
}

/// The reason why the claims of a pod are not found.
pub(super) enum NotFound {
    /// No node takes the pod.
    For(Reason),
    /// The decision ended.
    Stopped(Stopped),
}

impl From<Stopped> for NotFound {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<Reason> for NotFound {
    fn from(reason: Reason) -> Self {
        Self::For(reason)
    }
}

/// The claims of a pod, and the storage in which they are looked up.
pub(super) struct PodClaims<'a> {
    /// Namespace, name and uid of the pod.
    pub(super) name: (&'a str, &'a str, &'a str),
    pub(super) claims: &'a [PodClaim],
    pub(super) storage: &'a StorageObjects,
    pub(super) deadline: &'a Deadline<'a>,
}

impl<'a> PodClaims<'a> {
    /// Looks up a claim. If the claim does not exist, its template describes it.
    fn look_up(&self, used: &'a PodClaim) -> Option<UsedClaim<'a>> {
        let (namespace, ..) = self.name;
        let there = self.storage.claim(namespace, &used.name);
        Some(UsedClaim {
            used,
            claim: there.or(used.template.as_ref())?,
            is_new: there.is_none(),
        })
    }

    /// Counts the reading of a claim.
    fn step(&self, claim: &VolumeClaim) -> Result<(), Stopped> {
        let owners = claim.metadata().owner_references.len();
        let modes = claim.spec().access_modes.len();
        self.deadline.step(1 + owners + modes)
    }

    /// Looks up the claims, in the order of kube-scheduler's plugins.
    ///
    /// # Errors
    /// The reason why no node takes the pod, or the deadline has passed.
    pub(super) fn find(&self) -> Result<FoundClaims<'a>, NotFound> {
        let mut found = FoundClaims::default();
        for used in self.claims.iter().filter(|used| !used.is_ephemeral) {
            let name = &*used.name;
            let claim = self.look_up(used);
            let claim = claim.ok_or_else(|| not_found("persistentvolumeclaim", name))?;
            self.step(claim.claim)?;
            if claim.claim.is_once_per_pod() && !claim.is_new {
                found.once.push(name);
            }
        }
        let mut ready = Vec::new();
        for used in self.claims {
            ready.push(self.ready(used)?);
        }
        let mut is_immediate = false;
        for used in &ready {
            is_immediate |= !self.sort(used, &mut found)?;
        }
        if is_immediate {
            let words = "pod has unbound immediate PersistentVolumeClaims";
            return Err(Reason::VolumeNotReady(words.into()).into());
        }
        let mut named = found.bound.iter().filter(|bound| bound.is_zoned);
        match named.find(|bound| bound.volume.is_none()) {
            Some(bound) => Err(not_found("persistentvolume", bound.name).into()),
            None => Ok(found),
        }
    }

    /// Notes a claim that is bound, or waits for a pod. Returns false if it is neither.
    ///
    /// # Errors
    /// The reason, if the class of the claim does not say if claims wait.
    fn sort(&self, used: &UsedClaim<'a>, found: &mut FoundClaims<'a>) -> Result<bool, Reason> {
        let claim = used.claim;
        if claim.is_bound() {
            let name = &*claim.spec().volume_name;
            found.bound.push(BoundClaim {
                claim: &used.used.name,
                name,
                volume: self.storage.volume(name).map(Arc::as_ref),
                is_zoned: !used.used.is_ephemeral,
            });
            return Ok(true);
        }
        let class_name = claim.class();
        let class = self.storage.class(class_name);
        let Some(class) = class.filter(|_| !class_name.is_empty()) else {
            return Ok(false);
        };
        match class.waits() {
            None => {
                let words = format!("VolumeBindingMode not set for StorageClass {class_name:?}");
                Err(Reason::VolumeNotReady(words.into()))
            }
            Some(waits) => {
                let waits = waits && claim.spec().volume_name.is_empty();
                found.waiting.extend(waits.then_some(UnboundClaim {
                    name: &used.used.name,
                    claim,
                    class,
                    is_new: used.is_new,
                }));
                Ok(waits)
            }
        }
    }

    /// Looks up a claim and checks that the pod can use it.
    ///
    /// # Errors
    /// The reason why the pod cannot use the claim, or the deadline has passed.
    fn ready(&self, used: &'a PodClaim) -> Result<UsedClaim<'a>, NotFound> {
        let (namespace, pod, uid) = self.name;
        let name = &used.name;
        let not_ready = |words: String| NotFound::For(Reason::VolumeNotReady(words.into()));
        let found = self.look_up(used).ok_or_else(|| {
            not_ready(format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
            ))
        })?;
        let claim = found.claim;
        self.step(claim)?;
        if claim.is_lost() {
            let volume = &claim.spec().volume_name;
            return Err(not_ready(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            )));
        }
        if claim.metadata().deletion_timestamp.is_some() {
            return Err(not_ready(format!(
                "persistentvolumeclaim {name:?} is being deleted"
            )));
        }
        let is_own = || {
            let owner = controller(claim.metadata());
            owner.is_some_and(|owner| owner.uid == uid)
        };
        let is_foreign = used.is_ephemeral && !found.is_new && !is_own();
        match is_foreign {
            true => Err(not_ready(format!(
                "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
            ))),
            false => Ok(found),
        }
    }
}

fn not_found(kind: &str, name: &str) -> Reason {
    Reason::VolumeNotReady(format!("{kind} {name:?} not found").into())
}

/// The volumes that reservations hold.
#[derive(Default)]
pub(super) struct HeldVolumes<'a> {
    /// The kinds of the claims of reservations and of the pod, with their numbers.
    kinds: HashMap<ClaimKind<'a>, usize>,
    /// The volumes that are held for some claim.
    pub(super) taken: TakenVolumes,
    /// How claims that exist are bound, by namespace and name.
    pub(super) claims: HashMap<&'a str, HashMap<Arc<str>, Arc<HeldClaim>>>,
}

/// A claim that waits for the pod that uses it.
#[derive(Clone, Copy)]
pub(super) struct UnboundClaim<'a> {
    /// Name of the claim.
    pub(super) name: &'a str,
    pub(super) claim: &'a Arc<VolumeClaim>,
    pub(super) class: &'a Arc<StorageClass>,
    /// True if the claim does not exist yet and will be created from a template.
    pub(super) is_new: bool,
}

/// A class of claims that wait.
#[derive(Debug, Clone)]
struct WaitingClass {
    name: Arc<str>,
    class: Arc<StorageClass>,
    /// The number of requirements that a node is checked against.
    requirements: usize,
}

/// The claims of a pod that wait for it, in the order of binding: the smallest first.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingClaims {
    claims: Vec<WaitingClaim>,
    classes: Vec<WaitingClass>,
    /// The nodes for which volumes of these claims are being provisioned.
    selected: BTreeSet<Arc<str>>,
    /// The volumes that are not available.
    pub(super) taken: TakenVolumes,
    /// Whether the claims can be bound, by what a node offers for their classes. It is kept if it
    /// depends on nothing else.
    known: RefCell<HashMap<Box<[usize]>, bool>>,
}

impl WaitingClaims {
    /// The waiting claims of a pod in a namespace. The volumes that are held are moved into it.
    pub(super) fn of<'a>(
        unbound: &[UnboundClaim<'a>],
        namespace: &'a str,
        storage: &StorageObjects,
        held: &mut HeldVolumes<'a>,
    ) -> Self {
        let mut waiting = Self::default();
        let mut classes: HashMap<&str, usize> = HashMap::new();
        let within: Arc<str> = namespace.into();
        for unbound in unbound {
            let (name, claim) = (unbound.name, unbound.claim);
            let class = *classes.entry(claim.class()).or_insert_with(|| {
                waiting.classes.push(WaitingClass {
                    name: claim.class().into(),
                    class: Arc::clone(unbound.class),
                    requirements: unbound.class.requirements(),
                });
                waiting.classes.len() - 1
            });
            let reserved = storage.reserved_for(namespace, name);
            let known = held.claims.get(namespace).and_then(|all| all.get(name));
            let known = known.filter(|_| !unbound.is_new).cloned();
            let known = known.unwrap_or_default();
            let selected = || claim.selected_node().map(Arc::from);
            let next = held.kinds.len();
            waiting.claims.push(WaitingClaim {
                name: name.into(),
                claim: Arc::clone(claim),
                class,
                kind: *held.kinds.entry(claim.kind()).or_insert(next),
                reserved_in: reserved.map(|_| Arc::clone(&within)),
                selected: known.node.clone().or_else(selected),
                held: known,
                is_shared: !unbound.is_new,
            });
        }
        let selected = waiting.claims.iter().filter_map(|it| it.selected.clone());
        waiting.selected = selected.collect();
        waiting.claims.sort_by_key(|waiting| waiting.claim.size);
        waiting.taken = std::mem::take(&mut held.taken);
        waiting
    }

    /// Returns whether no claim waits.
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// All claims, in the order in which they are bound.
    pub(super) fn iter(&self) -> impl Iterator<Item = &WaitingClaim> {
        self.claims.iter()
    }

    /// Returns whether the claims can be bound on a node.
    pub(super) fn admit(&self, node: NodeRef<'_>, within: BindingIn<'_>) -> Result<bool, Stopped> {
        if self.is_selected_elsewhere(node) {
            return Ok(false);
        }
        let offers = self.offers(node, within)?;
        if !self.known.borrow().is_empty()
            && let Some(known) = self.known.borrow().get(&key_of(&offers))
        {
            return Ok(*known);
        }
        let mut walk = BindingWalk::of((&self.claims, &self.taken), node, within);
        let admits = walk.bind(&offers)?.is_some();
        // A short walk costs less than to remember its result for all nodes that offer the same.
        if walk.steps > FEW && !walk.looks_at_node {
            self.known.borrow_mut().insert(key_of(&offers), admits);
        }
        Ok(admits)
    }

    /// Returns how each claim is bound on a node. `None` if a claim cannot be bound.
    pub(super) fn bind(
        &self,
        node: NodeRef<'_>,
        within: BindingIn<'_>,
    ) -> Result<Option<Vec<Binding>>, Stopped> {
        if self.is_selected_elsewhere(node) {
            return Ok(None);
        }
        let offers = self.offers(node, within)?;
        BindingWalk::of((&self.claims, &self.taken), node, within).bind(&offers)
    }

    /// Records how the claims are bound when a pod like this one arrives on a node. Returns whether
    /// that changes claims that other pods have too.
    pub(super) fn hold(&mut self, bindings: &[Binding], node: &str) -> bool {
        let mut changed: HashMap<Arc<str>, HeldClaim> = HashMap::new();
        for (claim, binding) in self.claims.iter().zip(bindings) {
            if let Some(volume) = binding {
                self.taken.take(volume);
            }
            let is_known = match binding {
                Some(volume) => claim.held.volumes.contains_key(&volume.rank.name),
                None => claim.selected.as_deref() == Some(node),
            };
            if claim.is_shared && !is_known {
                let held = changed.entry(Arc::clone(&claim.name));
                let held = held.or_insert_with(|| HeldClaim::clone(&claim.held));
                held.add(binding, node);
            }
        }
        self.known.get_mut().clear();
        let is_changed = !changed.is_empty();
        let changed: HashMap<_, _> = changed
            .into_iter()
            .map(|(name, held)| (name, Arc::new(held)))
            .collect();
        for claim in &mut self.claims {
            if let Some(held) = changed.get(&claim.name).filter(|_| claim.is_shared) {
                claim.held = Arc::clone(held);
                if let Some(node) = &held.node {
                    claim.selected = Some(Arc::clone(node));
                    self.selected.insert(Arc::clone(node));
                }
            }
        }
        is_changed
    }

    /// Returns whether the volume of a claim is being provisioned for another node. Then none of the
    /// claims can be bound.
    fn is_selected_elsewhere(&self, node: NodeRef<'_>) -> bool {
        let first = self.selected.first();
        first.is_some_and(|first| self.selected.len() > 1 || **first != *node.name())
    }

    /// Returns what a node offers for each class.
    fn offers<'s>(
        &self,
        node: NodeRef<'_>,
        within: BindingIn<'s>,
    ) -> Result<Vec<NodeOffer<'s>>, Stopped> {
        let offer = |WaitingClass {
                         name,
                         class,
                         requirements,
                     }: &WaitingClass| {
            let mut lists = Vec::new();
            let free = within.storage.free(name);
            let lookups = free.map_or(0, |free| free.find(node, &mut lists));
            within.deadline.step(1 + lookups + requirements)?;
            let is_allowed = || class.is_allowed(|key| node.label_text(key));
            Ok(NodeOffer {
                lists,
                is_made: class.provisions() && is_allowed(),
            })
        };
        self.classes.iter().map(offer).collect()
    }
}

/// Returns a key of what a node offers.
fn key_of(offers: &[NodeOffer<'_>]) -> Box<[usize]> {
    let key = offers.iter().flat_map(|offer| {
        let lists = offer.lists.iter().map(|list| list.id());
        [offer.lists.len(), usize::from(offer.is_made)]
            .into_iter()
            .chain(lists)
    });
    key.collect()
}

impl<'a> HeldVolumes<'a> {
    /// Returns the volumes that reservations hold on a read view.
    pub(super) fn of(
        storage: &'a StorageObjects,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let mut held = Self::default();
        for reserved in read_view.deadline.each(read_view.reserved_storage()) {
            let (node, reserved) = reserved?;
            if !reserved.used.claims.is_empty() {
                held.hold(node, reserved, storage, read_view)?;
            }
        }
        Ok(held)
    }

    /// Holds the volumes for the pod of a reservation, if all its claims can be bound on its node.
    fn hold(
        &mut self,
        node: NodeRef<'a>,
        reserved: &'a PodUse,
        storage: &'a StorageObjects,
        read_view: &ReadView<'a>,
    ) -> Result<(), Stopped> {
        let namespace = &*reserved.namespace;
        let pod = PodClaims {
            name: (namespace, &reserved.name, ""),
            claims: &reserved.used.claims,
            storage,
            deadline: read_view.deadline,
        };
        let found = match pod.find() {
            Ok(found) => found,
            Err(NotFound::For(_)) => return Ok(()),
            Err(NotFound::Stopped(stopped)) => return Err(stopped),
        };
        let mut waiting = WaitingClaims::of(&found.waiting, namespace, storage, self);
        let within = BindingIn {
            storage,
            deadline: read_view.deadline,
        };
        if let Some(bindings) = waiting.bind(node, within)? {
            waiting.hold(&bindings, node.name());
        }
        let claims = self.claims.entry(namespace).or_default();
        for claim in waiting.iter().filter(|claim| claim.is_shared) {
            claims.insert(Arc::clone(&claim.name), Arc::clone(&claim.held));
        }
        self.taken = waiting.taken;
        Ok(())
    }
}

/// The number of volumes up to which it costs less to look at them again than to remember them.
const FEW: usize = 16;

/// The volume to which a claim is bound; `None` means a newly provisioned volume.
pub(super) type Binding = Option<Arc<FreeVolume>>;

/// The volumes that were taken, by their ids. Volumes are only added.
#[derive(Debug, Clone, Default)]
pub(super) struct TakenVolumes {
    ids: HashSet<usize>,
    /// By the id of a list, and the kind and size of claims: the first volume that may be left for
    /// such claims; `None` if there is none.
    first: RefCell<HashMap<(usize, usize, Quantity), Option<VolumeRank>>>,
}

impl TakenVolumes {
    /// Takes a volume.
    pub(super) fn take(&mut self, volume: &FreeVolume) {
        self.ids.insert(volume.id());
    }

    /// Returns the number of volumes.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// How a claim that exists is bound when pods before the pod in question arrive.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldClaim {
    /// The volumes to which it is bound, by name.
    pub(super) volumes: BTreeMap<Arc<str>, Arc<FreeVolume>>,
    /// The node for which its volume is provisioned.
    pub(super) node: Option<Arc<str>>,
}

impl HeldClaim {
    /// Adds a binding by a pod that arrives on a node.
    pub(super) fn add(&mut self, binding: &Binding, node: &str) {
        match binding {
            Some(volume) => {
                let name = Arc::clone(&volume.rank.name);
                self.volumes.insert(name, Arc::clone(volume));
            }
            None => self.node = Some(node.into()),
        }
    }
}

/// A claim that waits for its first pod.
#[derive(Debug, Clone)]
pub(super) struct WaitingClaim {
    /// The claim's name.
    pub(super) name: Arc<str>,
    pub(super) claim: Arc<VolumeClaim>,
    /// The number of the claim's class among those of the pod's claims.
    pub(super) class: usize,
    /// The number of the claim's kind.
    pub(super) kind: usize,
    /// The namespace, if volumes are reserved for the claim.
    pub(super) reserved_in: Option<Arc<str>>,
    pub(super) held: Arc<HeldClaim>,
    /// The node that the claim's volume is being provisioned for. The claim can be bound only on
    /// this node.
    pub(super) selected: Option<Arc<str>>,
    /// True if other pods like this one have the same claim.
    pub(super) is_shared: bool,
}

/// What a node offers for a class.
struct NodeOffer<'s> {
    /// The lists of the volumes that the node may reach.
    pub(super) lists: Vec<&'s VolumeList>,
    /// True if a volume can be provisioned.
    pub(super) is_made: bool,
}

/// The storage, and the deadline of the decision.
#[derive(Clone, Copy)]
pub(super) struct BindingIn<'s> {
    pub(super) storage: &'s StorageObjects,
    pub(super) deadline: &'s Deadline<'s>,
}

/// The binding of claims on one node.
struct BindingWalk<'s> {
    claims: &'s [WaitingClaim],
    taken: &'s TakenVolumes,
    node: NodeRef<'s>,
    within: BindingIn<'s>,
    /// The ids of the volumes that claims before took.
    chosen: HashSet<usize>,
    /// By the id of a list and the kind of claims: the first volume that may be left for claims of
    /// this kind that are no smaller than those before; `None` if there is none.
    next: HashMap<(usize, usize), Option<VolumeRank>>,
    /// The number of claims and volumes that were looked at.
    steps: usize,
    /// True if the result depends on more than what the node offers.
    looks_at_node: bool,
}

impl<'s> BindingWalk<'s> {
    pub(super) fn of(
        (claims, taken): (&'s [WaitingClaim], &'s TakenVolumes),
        node: NodeRef<'s>,
        within: BindingIn<'s>,
    ) -> Self {
        Self {
            claims,
            taken,
            node,
            within,
            chosen: HashSet::new(),
            next: HashMap::new(),
            steps: 0,
            looks_at_node: false,
        }
    }

    /// Returns how each claim is bound; `None` if a claim cannot be bound.
    pub(super) fn bind(
        &mut self,
        offers: &[NodeOffer<'_>],
    ) -> Result<Option<Vec<Binding>>, Stopped> {
        let mut bindings = Vec::new();
        for claim in self.within.deadline.each(self.claims) {
            let claim = claim?;
            let offer = &offers[claim.class];
            self.steps += 1;
            let volume = self.volume(claim, offer)?;
            if volume.is_none() && !offer.is_made {
                return Ok(None);
            }
            if let Some(volume) = volume.filter(|_| self.claims.len() > 1) {
                self.chosen.insert(volume.id());
            }
            bindings.push(volume.cloned());
        }
        Ok(Some(bindings))
    }

    /// The volume to which a claim is bound. It is the first volume that is reserved for the claim,
    /// else the smallest available volume.
    fn volume<'v>(
        &mut self,
        claim: &'v WaitingClaim,
        offer: &NodeOffer<'v>,
    ) -> Result<Option<&'v Arc<FreeVolume>>, Stopped>
    where
        's: 'v,
    {
        if claim.selected.is_some() {
            return Ok(None);
        }
        if let Some(volume) = self.reserved(claim)? {
            // The claim is bound to the reserved volume or to none.
            return Ok(self.reaches(&volume.volume)?.then_some(volume));
        }
        let mut best: Option<&Arc<FreeVolume>> = None;
        for list in &offer.lists {
            let found = self.first_of(list, claim, true)?;
            if let Some(found) = found
                && best.is_none_or(|best| found.rank < best.rank)
            {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// The first volume that is reserved for a claim.
    fn reserved<'v>(
        &mut self,
        claim: &'v WaitingClaim,
    ) -> Result<Option<&'v Arc<FreeVolume>>, Stopped>
    where
        's: 'v,
    {
        let within = claim.reserved_in.as_ref();
        let list = within.and_then(|within| self.within.storage.reserved_for(within, &claim.name));
        let listed = match list {
            Some(list) => self.first_of(list, claim, false)?,
            None => None,
        };
        let mut held = None;
        for volume in self.within.deadline.each(claim.held.volumes.values()) {
            let volume = volume?;
            if !self.chosen.contains(&volume.id()) {
                held = Some(volume);
                break;
            }
        }
        let both = listed.into_iter().chain(held);
        Ok(both.min_by(|a, b| a.rank.name.cmp(&b.rank.name)))
    }

    /// The first volume of a list that is left for a claim. Of available volumes, it is one that the
    /// node reaches.
    fn first_of<'v>(
        &mut self,
        list: &'v VolumeList,
        claim: &WaitingClaim,
        is_available: bool,
    ) -> Result<Option<&'v Arc<FreeVolume>>, Stopped> {
        let requirements = 1 + claim.claim.requirements();
        let key = (list.id(), claim.kind);
        let size = if is_available {
            claim.claim.size
        } else {
            Quantity::default()
        };
        let smallest = VolumeRank {
            size,
            ..VolumeRank::default()
        };
        let first_key = (key.0, key.1, claim.claim.size);
        let next = self.next.get(&key);
        let is_begun = next.is_some();
        let next = next
            .cloned()
            .or_else(|| self.taken.first.borrow().get(&first_key).cloned());
        let Some(from) = next.unwrap_or_else(|| Some(smallest.clone())) else {
            return Ok(None);
        };
        // The volumes before the first that another claim, or a claim on another node, may take.
        let mut passed = Some(0).filter(|_| !is_begun);
        let mut found = None;
        for free in list.from(&from.max(smallest)) {
            self.steps += 1;
            let compared = requirements + free.volume.spec().access_modes.len();
            self.within.deadline.step(compared)?;
            let is_taken = || self.taken.ids.contains(&free.id());
            if !claim.may_take(&free.volume, is_available)
                || (is_available || !claim.is_shared) && is_taken()
            {
                passed = passed.map(|passed| passed + 1);
                continue;
            }
            self.remember(first_key, passed.take(), Some(free));
            let is_left = !self.chosen.contains(&free.id());
            if is_left && (!is_available || free.is_reached || self.reaches(&free.volume)?) {
                found = Some(free);
                break;
            }
        }
        self.remember(first_key, passed, None);
        if self.claims.len() > 1 {
            let next = found.map(|free| free.rank.clone());
            self.next.insert(key, next);
        }
        Ok(found)
    }

    /// Records the first volume of a list that may be left for claims, if many were passed before.
    fn remember(
        &self,
        key: (usize, usize, Quantity),
        passed: Option<usize>,
        first: Option<&Arc<FreeVolume>>,
    ) {
        if passed.is_some_and(|passed| passed > FEW) {
            let first = first.map(|free| free.rank.clone());
            self.taken.first.borrow_mut().insert(key, first);
        }
    }

    /// Returns whether the node reaches a volume.
    fn reaches(&mut self, volume: &PersistentVolume) -> Result<bool, Stopped> {
        self.looks_at_node |= volume.affinity.is_some();
        self.within.deadline.step(volume.per_node())?;
        Ok(reaches(volume, self.node))
    }
}

impl WaitingClaim {
    /// Returns whether the claim can be bound to a volume, whatever the node and other claims.
    fn may_take(&self, volume: &PersistentVolume, is_available: bool) -> bool {
        let its = || {
            let claimed = volume.spec().claim_ref.as_ref();
            let uid = &self.claim.metadata().uid;
            claimed.is_some_and(|it| it.uid.is_empty() || it.uid == *uid)
                && volume.class() == self.claim.class()
        };
        self.claim.takes(volume, !is_available) && (is_available || its())
    }
}

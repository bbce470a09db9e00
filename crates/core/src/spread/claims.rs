//! The claims of a pod: those that are bound, those that wait for the pod with the nodes on which they
//! can be bound, and the volumes that reservations hold.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::claim_binding::{
    Binding, BindingIn, BindingWalk, ClaimKinds, HeldClaim, NodeOffer, TakenVolumes, WaitingClaim,
};
use super::verdict::Reason;
use crate::matching::PodClaim;
use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim, ZONE_LABELS};
use crate::snapshot::{Deadline, NodeRef, PodUse, ReadView, Stopped, StorageObjects, reaches};

/// A claim that is bound to a volume.
#[derive(Clone, Copy)]
pub struct BoundClaim<'a> {
    /// Name of the claim.
    pub claim: &'a str,
    /// Name of the volume.
    pub name: &'a str,
    /// The volume; `None` if it does not exist.
    pub volume: Option<&'a PersistentVolume>,
    /// True if the volume's zones are compared. False for a claim that is created with the pod.
    pub(super) is_zoned: bool,
}

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

/// The state of a claim for its pod.
enum Sorted<'a> {
    /// The claim is bound.
    Bound(BoundClaim<'a>),
    /// The claim waits for a pod.
    Waits(UnboundClaim<'a>),
    /// The claim is not bound, although it does not wait for a pod.
    Immediate,
}

impl<'a> BoundClaim<'a> {
    /// Returns the number of requirements that a node is checked against.
    pub fn per_node(&self) -> usize {
        let zones = |volume: &PersistentVolume| {
            let values = volume.zones.iter().map(|(.., values)| values.len());
            values.sum::<usize>()
        };
        self.volume
            .map_or(1, |volume| volume.per_node() + zones(volume))
    }

    /// Returns whether a node reaches the volume.
    pub fn is_reached(&self, node: NodeRef<'a>) -> bool {
        self.volume.is_some_and(|volume| reaches(volume, node))
    }

    /// Returns whether a node is in the zones and regions of the volume's labels. A node without
    /// any such label is always accepted.
    pub fn is_in_zones(&self, node: NodeRef<'a>) -> bool {
        let has_any = || {
            ZONE_LABELS
                .iter()
                .any(|(label, _)| node.label_text(label).is_some())
        };
        let mut zones = self.volume.iter().flat_map(|volume| &*volume.zones);
        !has_any()
            || zones.all(|(label, new, values)| {
                let value = node.label_text(label).or_else(|| node.label_text(new));
                value.is_some_and(|value| values.iter().any(|it| **it == *value))
            })
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
            match self.sort(used)? {
                Sorted::Bound(bound) => found.bound.push(bound),
                Sorted::Waits(waiting) => found.waiting.push(waiting),
                Sorted::Immediate => is_immediate = true,
            }
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

    /// Returns the state of a claim.
    ///
    /// # Errors
    /// The reason, if the class of the claim does not say if claims wait.
    fn sort(&self, used: &UsedClaim<'a>) -> Result<Sorted<'a>, Reason> {
        let claim = used.claim;
        if claim.is_bound() {
            let name = &*claim.spec().volume_name;
            return Ok(Sorted::Bound(BoundClaim {
                claim: &used.used.name,
                name,
                volume: self.storage.volume(name).map(Arc::as_ref),
                is_zoned: !used.used.is_ephemeral,
            }));
        }
        let class_name = claim.class();
        let class = self.storage.class(class_name);
        let Some(class) = class.filter(|_| !class_name.is_empty()) else {
            return Ok(Sorted::Immediate);
        };
        match class.waits() {
            None => {
                let words = format!("VolumeBindingMode not set for StorageClass {class_name:?}");
                Err(Reason::VolumeNotReady(words.into()))
            }
            Some(true) if claim.spec().volume_name.is_empty() => Ok(Sorted::Waits(UnboundClaim {
                name: &used.used.name,
                claim,
                class,
                is_new: used.is_new,
            })),
            Some(_) => Ok(Sorted::Immediate),
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
            let mut owners = claim.metadata().owner_references.iter();
            let controller = owners.find(|owner| owner.controller == Some(true));
            controller.is_some_and(|owner| owner.uid == uid)
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
    /// The kinds of the claims of reservations and of the pod.
    kinds: ClaimKinds<'a>,
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
            waiting.claims.push(WaitingClaim {
                name: name.into(),
                claim: Arc::clone(claim),
                class,
                kind: held.kinds.number(claim.kind()),
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
        if walk.is_worth_keeping() {
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

//! The claims of a pod that wait for it, and the nodes on which they can be bound.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::claim_binding::{
    Binding, BindingIn, BindingWalk, ClaimKinds, HeldClaim, NodeOffer, TakenVolumes, WaitingClaim,
};
use crate::matching::storage::{StorageClass, VolumeClaim};
use crate::snapshot::{NodeRef, Stopped, StorageObjects, VolumeList};

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

    /// The lists of the volumes that a node may reach.
    pub(super) fn lists<'s>(
        &self,
        node: NodeRef<'_>,
        within: BindingIn<'s>,
    ) -> Result<impl Iterator<Item = &'s VolumeList> + use<'s>, Stopped> {
        let offers = self.offers(node, within)?.into_iter();
        Ok(offers.flat_map(|offer| offer.lists))
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

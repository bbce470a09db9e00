//! Claims that wait for a pod, their binding to volumes that exist or are provisioned for a node,
//! and the volumes that reservations hold for such claims.

use std::collections::{BTreeMap, BTreeSet};

use crate::matching::NodeLabels;
use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim};
use crate::snapshot::{NodeRef, StorageObjects};

/// A node of which the affinity of volumes reads only the labels.
struct LabelsOnly<'n>(NodeRef<'n>);

impl NodeLabels<str> for LabelsOnly<'_> {
    fn name(&self) -> &str {
        ""
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.0.label_text(key)
    }

    fn text<'v>(&'v self, value: &'v str) -> &'v str {
        value
    }
}

/// A volume with its name.
pub(super) type NamedVolume<'a> = (&'a str, &'a PersistentVolume);

/// The volume to which a claim will be bound when the pod of its reservation arrives.
#[derive(Clone, Copy)]
pub(super) enum HeldBinding<'a> {
    /// A volume that exists.
    Volume(NamedVolume<'a>),
    /// A volume that is provisioned for this node.
    Made(&'a str),
}

/// The volumes that reservations hold.
#[derive(Default)]
pub(super) struct HeldVolumes<'a> {
    /// The names of the volumes that are held for some claim.
    pub(super) taken: BTreeSet<&'a str>,
    /// The bindings of claims that exist, by namespace and name.
    pub(super) claims: BTreeMap<(&'a str, &'a str), HeldBinding<'a>>,
}

impl<'a> HeldVolumes<'a> {
    /// Holds a volume for a claim, given by namespace and name; `None` means a claim that does not
    /// exist yet.
    pub(super) fn hold(&mut self, claim: Option<(&'a str, &'a str)>, binding: HeldBinding<'a>) {
        if let HeldBinding::Volume((name, _)) = &binding {
            self.taken.insert(name);
        }
        if let Some(claim) = claim {
            self.claims.entry(claim).or_insert(binding);
        }
    }
}

/// A claim that waits for the pod that uses it.
#[derive(Clone, Copy)]
pub(super) struct UnboundClaim<'a> {
    /// Name of the claim.
    pub(super) name: &'a str,
    pub(super) claim: &'a VolumeClaim,
    pub(super) class: &'a StorageClass,
    /// True if the claim does not exist yet and will be created from a template.
    pub(super) is_new: bool,
}

/// The claims of a pod that wait for it.
#[derive(Default)]
pub(super) struct WaitingClaims<'a>(Vec<WaitingClaim<'a>>);

/// A claim that waits for its first pod.
pub(super) struct WaitingClaim<'a> {
    /// The claim's name.
    pub(super) name: &'a str,
    claim: &'a VolumeClaim,
    class: &'a StorageClass,
    /// The volumes that are reserved for the claim, ascending by name.
    pub(super) kept: Vec<NamedVolume<'a>>,
    /// Other volumes to which the claim can be bound, the smallest first.
    pub(super) available: Vec<NamedVolume<'a>>,
    /// True if other pods like this one have the same claim.
    pub(super) is_shared: bool,
    /// The node for which the claim's volume will be provisioned, by a reservation.
    held_for: Option<&'a str>,
}

impl<'a> WaitingClaims<'a> {
    /// The waiting claims of a pod in a namespace, in the order of binding: the smallest first.
    pub(super) fn of(
        unbound: &[UnboundClaim<'a>],
        namespace: &str,
        storage: &'a StorageObjects,
        held: &HeldVolumes<'a>,
    ) -> Self {
        let waiting = unbound.iter();
        let waiting = waiting.map(|claim| WaitingClaim::of(claim, namespace, storage, held));
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_by_key(|waiting| waiting.claim.size);
        Self(waiting)
    }

    /// Upper estimate of how many requirements a node is checked against.
    pub(super) fn per_node(&self) -> usize {
        let volumes = self.0.iter().map(|waiting| {
            let all = waiting.kept.iter().chain(&waiting.available);
            let terms =
                all.map(|(_, volume)| 1 + volume.affinity.as_ref().map_or(0, |it| it.per_node()));
            1 + waiting.class.wire.allowed_topologies.len() + terms.sum::<usize>()
        });
        volumes.sum()
    }

    /// All claims, in the order in which they are bound.
    pub(super) fn iter(&self) -> impl Iterator<Item = &WaitingClaim<'a>> {
        self.0.iter()
    }

    /// Returns for each claim the volume to which it is bound on a node, or no volume if one is
    /// provisioned. `None` if a claim cannot be bound on the node.
    pub(super) fn bind(&self, node: NodeRef<'a>) -> Option<Vec<Option<NamedVolume<'a>>>> {
        let selected = self.0.iter().filter_map(WaitingClaim::selected_node);
        let mut selected = selected.filter(|selected| *selected != node.name());
        // A claim whose volume is being provisioned for another node cannot be bound here.
        if selected.next().is_some() {
            return None;
        }
        let mut chosen: Vec<Option<NamedVolume<'a>>> = Vec::new();
        for waiting in &self.0 {
            let volume = waiting.volume_on(node, &chosen);
            if volume.is_none() && !waiting.can_be_made(node) {
                return None;
            }
            chosen.push(volume);
        }
        Some(chosen)
    }
}

impl<'a> WaitingClaim<'a> {
    fn of(
        unbound: &UnboundClaim<'a>,
        namespace: &str,
        storage: &'a StorageObjects,
        held: &HeldVolumes<'a>,
    ) -> Self {
        let UnboundClaim { name, claim, .. } = *unbound;
        let class_name = claim.class();
        let uid = &claim.metadata().uid;
        let is_its_own = |volume: &PersistentVolume| {
            let claimed = volume.spec().claim_ref.as_ref();
            let is_meant = claimed.is_some_and(|it| it.uid.is_empty() || it.uid == *uid);
            is_meant && volume.class() == class_name && claim.takes(volume, true)
        };
        // If the claim does not exist yet, each pod like this one gets its own. So volumes that
        // reservations hold are not available.
        let is_left = |name: &str| !(unbound.is_new && held.taken.contains(name));
        let kept = storage.kept_for(namespace, name);
        let mut kept: Vec<_> = kept
            .filter(|(name, volume)| is_left(name) && is_its_own(volume))
            .collect();
        let available = storage.available(class_name);
        let mut available: Vec<_> = available
            .filter(|(name, volume)| claim.takes(volume, false) && !held.taken.contains(name))
            .collect();
        available.sort_by_key(|(_, volume)| volume.size);
        let mut held_for = None;
        let binding = held.claims.get(&(namespace, name));
        match binding.filter(|_| !unbound.is_new) {
            // The claim can only be bound to the volume that a reservation holds for it.
            Some(HeldBinding::Volume(volume)) => {
                kept.push(*volume);
                kept.sort_by_key(|(name, _)| *name);
                kept.dedup_by_key(|(name, _)| *name);
            }
            Some(HeldBinding::Made(node)) => held_for = Some(*node),
            None => {}
        }
        Self {
            name,
            claim,
            class: unbound.class,
            kept,
            available,
            is_shared: !unbound.is_new,
            held_for,
        }
    }

    /// The volume to which the claim is bound on a node, without the volumes in `chosen`. It is the
    /// first volume that is reserved for the claim, else the smallest available volume.
    fn volume_on(
        &self,
        node: NodeRef<'a>,
        chosen: &[Option<NamedVolume<'a>>],
    ) -> Option<NamedVolume<'a>> {
        if self.selected_node().is_some() {
            return None;
        }
        let is_left = |(name, _): &&NamedVolume<'a>| {
            let mut chosen = chosen.iter().flatten();
            !chosen.any(|(other, _)| other == name)
        };
        let reached = |(_, volume): &&NamedVolume<'a>| reaches(volume, node);
        match self.kept.iter().find(is_left) {
            // The claim is bound to the reserved volume or to none.
            Some(kept) => Some(kept).filter(reached).copied(),
            None => {
                let mut left = self.available.iter().filter(is_left);
                left.find(reached).copied()
            }
        }
    }

    /// The node that the claim's volume is being provisioned for. The claim can be bound only on
    /// this node.
    pub(super) fn selected_node(&self) -> Option<&'a str> {
        self.held_for.or_else(|| self.claim.selected_node())
    }

    /// Returns whether a volume for the claim can be provisioned for a node.
    pub(super) fn can_be_made(&self, node: NodeRef<'_>) -> bool {
        self.class.provisions() && self.class.is_allowed(|key| node.label_text(key))
    }
}

/// Returns whether a node reaches a volume.
pub(super) fn reaches(volume: &PersistentVolume, node: NodeRef<'_>) -> bool {
    let affinity = volume.affinity.as_ref();
    affinity.is_none_or(|affinity| affinity.matches::<str>(&LabelsOnly(node)))
}

//! Storage: judges nodes by the rules about the claims and disks of the incoming pod
//! (`docs/semantics.md`, "Volumes").

use std::collections::HashSet;

use super::claims::{BindingIn, FoundClaims, HeldVolumes, NotFound, PodClaims, WaitingClaims};
use super::filter::NominatedOn;
use super::verdict::{Affected, NodeRefusal, Reason};
use crate::matching::storage::{PersistentVolume, ZONE_LABELS};
use crate::matching::{DiskUses, PodDisk, PodStorage, absolute};
use crate::snapshot::cluster_objects::StorageObjects;
use crate::snapshot::free_volumes::reaches;
use crate::snapshot::{NodeRef, ReadView, Slot, Stopped};

/// The name in `unchecked` for the limits of nodes on the volumes of a driver.
const LIMITS: &str = "spec.volumes (limits per node)";

/// The name in `unchecked` for the storage capacity of drivers.
const CAPACITY: &str = "spec.volumes (storage capacity)";

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

/// The storage of a pod, on one state.
#[derive(Clone)]
pub struct Volumes<'a> {
    /// The reason, if any, why no node takes the pod.
    pub not_ready: Option<Reason>,
    /// The disks.
    pub disks: &'a [PodDisk],
    disk_uses: DiskUses<'a>,
    /// The nodes with pods that use the same disks.
    conflicting: HashSet<Slot>,
    /// The names of the existing claims that only one pod may use.
    pub once: Vec<&'a str>,
    once_names: HashSet<&'a str>,
    /// True if another pod uses one of these claims.
    in_use: bool,
    /// The claims that are bound, in order.
    pub bound: Vec<BoundClaim<'a>>,
    /// The claims that wait for a pod.
    pub(super) waiting: WaitingClaims,
    /// The number of volumes that reservations hold; 0 if no claim of the pod waits.
    pub held: usize,
    read_view: ReadView<'a>,
}

impl<'a> Volumes<'a> {
    /// The storage of a pod; `None` if no rule depends on it.
    pub fn of(
        (namespace, name, uid): (&'a str, &'a str, &'a str),
        pod: &'a PodStorage,
        read_view: &ReadView<'a>,
    ) -> Result<Option<Self>, Stopped> {
        let storage = read_view.storage().filter(|_| !pod.claims.is_empty());
        if storage.is_none() && pod.disks.is_empty() {
            return Ok(None);
        }
        let monitors = pod.disks.iter().map(|disk| 1 + disk.monitors.len());
        let uses = pod.claims.len() + monitors.sum::<usize>();
        read_view.deadline.step(uses)?;
        let disk_uses = DiskUses::of(&pod.disks);
        let mut volumes = Self {
            not_ready: None,
            disks: &pod.disks,
            conflicting: read_view.conflicting_with(&disk_uses)?,
            disk_uses,
            once: Vec::new(),
            once_names: HashSet::new(),
            in_use: false,
            bound: Vec::new(),
            waiting: WaitingClaims::default(),
            held: 0,
            read_view: *read_view,
        };
        if let Some(storage) = storage {
            let pod = PodClaims {
                name: (namespace, name, uid),
                claims: &pod.claims,
                storage,
                deadline: read_view.deadline,
            };
            match pod.find() {
                Ok(found) => volumes.note(found, namespace, storage)?,
                Err(NotFound::For(reason)) => volumes.not_ready = Some(reason),
                Err(NotFound::Stopped(stopped)) => return Err(stopped),
            }
        }
        Ok(Some(volumes))
    }

    /// Stores the claims that were found.
    fn note(
        &mut self,
        found: FoundClaims<'a>,
        namespace: &'a str,
        storage: &'a StorageObjects,
    ) -> Result<(), Stopped> {
        let read_view = &self.read_view;
        for claim in &found.once {
            self.in_use |= read_view.is_claim_in_use(claim, namespace)?;
        }
        if !found.waiting.is_empty() {
            let mut held = HeldVolumes::of(storage, read_view)?;
            self.held = held.taken.len();
            self.waiting = WaitingClaims::of(&found.waiting, namespace, storage, &mut held);
        }
        self.once_names = found.once.iter().copied().collect();
        self.once = found.once;
        self.bound = found.bound;
        Ok(())
    }

    /// Returns whether a node takes only one pod like this one, because of its disks.
    pub fn is_exclusive(&self) -> bool {
        self.disks.iter().any(PodDisk::is_exclusive)
    }

    /// Counts one more pod like this one on a node, with the volumes to which its claims are bound,
    /// and notes the nodes that storage may refuse from now on. None that is refused passes later.
    pub fn add(&mut self, slot: Slot, affected: &mut Affected) -> Result<(), Stopped> {
        if self.is_exclusive() {
            self.conflicting.insert(slot);
        }
        if !self.once.is_empty() {
            affected.all |= !self.in_use;
            self.in_use = true;
        }
        let (Some(within), Some(node)) = (self.binding_in(), self.read_view.nodes.get(slot)) else {
            return Ok(());
        };
        let taken = self.waiting.bind(node, within)?.unwrap_or_default();
        affected.all |= self.waiting.hold(&taken, node.name()) || taken.iter().any(Option::is_some);
        Ok(())
    }

    /// The storage in which waiting claims are bound; `None` if no claim waits.
    fn binding_in(&self) -> Option<BindingIn<'a>> {
        let storage = self.read_view.storage();
        let storage = storage.filter(|_| !self.waiting.is_empty())?;
        Some(BindingIn {
            storage,
            deadline: self.read_view.deadline,
        })
    }

    /// Judges an existing node, as if nominated pods were on it.
    ///
    /// # Errors
    /// The deadline has passed; inside, the refusal.
    pub fn judge(
        &self,
        slot: Slot,
        with: Option<&NominatedOn<'_>>,
    ) -> Result<Result<(), NodeRefusal>, Stopped> {
        if let Some(reason) = &self.not_ready {
            return Ok(Err(NodeRefusal::by_node(reason.clone())));
        }
        let Some(node) = self.read_view.nodes.get(slot) else {
            return Ok(Ok(()));
        };
        self.step_beside(with)?;
        if self.conflicting.contains(&slot) || self.conflicts_with(with) {
            return Ok(Err(NodeRefusal::by_node(Reason::DiskConflict)));
        }
        if self.in_use || self.is_claimed_by(with) {
            return Ok(Err(NodeRefusal::by_node(Reason::ClaimInUse)));
        }
        if let Some(refusal) = NodeRefusal::by_all(self.binding_refusals(node)?) {
            return Ok(Err(refusal));
        }
        for bound in self.bound.iter().filter(|bound| bound.is_zoned) {
            self.read_view.deadline.step(bound.per_node())?;
            if !bound.is_in_zones(node) {
                return Ok(Err(NodeRefusal::by_node(Reason::VolumeZone)));
            }
        }
        Ok(Ok(()))
    }

    /// Counts the claims and disks of nominated pods, which the pod is compared with.
    fn step_beside(&self, with: Option<&NominatedOn<'_>>) -> Result<(), Stopped> {
        for pod in with.into_iter().flat_map(NominatedOn::pods) {
            let monitors = |disk: &PodDisk| 1 + disk.monitors.len();
            let uses = pod.storage.as_ref().map_or(0, |used| {
                used.claims.len() + used.disks.iter().map(monitors).sum::<usize>()
            });
            self.read_view.deadline.step(1 + uses)?;
        }
        Ok(())
    }

    /// Returns whether disks of the pod conflict with disks of nominated pods.
    fn conflicts_with(&self, with: Option<&NominatedOn<'_>>) -> bool {
        let pods = with.into_iter().flat_map(NominatedOn::pods);
        let mut disks = pods.flat_map(|pod| pod.storage.iter().flat_map(|it| &*it.disks));
        disks.any(|disk| self.disk_uses.conflict_with(disk))
    }

    /// Returns whether nominated pods use a claim that only one pod may use. As in kube-scheduler,
    /// this is checked only if the pod has disks, and namespaces of claims are not compared.
    fn is_claimed_by(&self, with: Option<&NominatedOn<'_>>) -> bool {
        if self.disks.is_empty() || self.once.is_empty() {
            return false;
        }
        let mut pods = with.into_iter().flat_map(NominatedOn::pods);
        pods.any(|pod| {
            let claims = pod.storage.iter().flat_map(|it| &*it.claims);
            let mut claims = claims.map(|claim| absolute(&claim.name, &pod.name));
            claims.any(|claim| self.once_names.contains(&*claim))
        })
    }

    fn binding_refusals(
        &self,
        node: NodeRef<'a>,
    ) -> Result<impl Iterator<Item = Reason> + use<>, Stopped> {
        // The first volume that is missing or out of reach decides.
        let (mut out_of_reach, mut missing) = (None, None);
        for bound in &self.bound {
            self.read_view.deadline.step(bound.per_node())?;
            match bound.volume {
                None => missing = Some(Reason::VolumeMissing),
                Some(volume) if !reaches(volume, node) => {
                    out_of_reach = Some(Reason::VolumeNodeAffinity);
                }
                Some(_) => continue,
            }
            break;
        }
        let waits = (!self.binds(node)?).then_some(Reason::VolumeBinding);
        Ok(out_of_reach.into_iter().chain(waits).chain(missing))
    }

    /// Returns whether the claims that wait can be bound on a node.
    fn binds(&self, node: NodeRef<'a>) -> Result<bool, Stopped> {
        match self.binding_in() {
            Some(within) => self.waiting.admit(node, within),
            None => Ok(true),
        }
    }

    /// The names of the claims that wait for a pod.
    pub fn waiting(&self) -> impl Iterator<Item = &str> {
        self.waiting.iter().map(|waiting| &*waiting.name)
    }
}

/// Returns the parts of a pod's storage that affect where it can run, but that are not checked on a
/// read view.
pub fn unchecked(
    namespace: &str,
    pod: &PodStorage,
    read_view: &ReadView<'_>,
) -> Result<impl Iterator<Item = &'static str> + use<>, Stopped> {
    let mut fields = [None; 2];
    let Some(storage) = read_view.storage() else {
        // The snapshot has no storage objects, because no feed sent them.
        fields[0] = (!pod.claims.is_empty()).then_some("spec.volumes");
        return Ok(fields.into_iter().flatten());
    };
    for used in read_view.deadline.each(&pod.claims) {
        let used = used?;
        let there = storage.claim(namespace, &used.name);
        let Some(claim) = there.or(used.template.as_ref()) else {
            continue;
        };
        let volume = storage.volume(&claim.spec().volume_name);
        let is_made = claim.spec().volume_name.is_empty()
            && storage
                .class(claim.class())
                .is_some_and(|class| class.provisions());
        if is_made || volume.is_some_and(|volume| volume.spec().csi.is_some()) {
            fields[0] = Some(LIMITS);
        }
        if is_made {
            fields[1] = Some(CAPACITY);
        }
    }
    Ok(fields.into_iter().flatten())
}

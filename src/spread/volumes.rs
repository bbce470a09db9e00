//! Storage: judges nodes by the rules about the claims and disks of the incoming pod
//! (`docs/semantics.md`, "Volumes").

use std::collections::BTreeSet;

use super::held_claims::held_volumes;
use super::judgement::Judgement;
use super::nominated::NominatedOn;
use super::pod_claims::{BoundClaim, FoundClaims, PodClaims};
use super::verdict::{NodeRefusal, Reason};
use super::waiting_claims::{WaitingClaims, reaches};
use crate::matching::storage::PersistentVolume;
use crate::matching::{PodDisk, PodStorage, absolute};
use crate::snapshot::{NodeRef, ReadView, Slot, StorageObjects};

/// The cost of comparing a node with a term of a volume, in units.
const UNITS_PER_TERM: usize = 20;

/// The name in `unchecked` for the limits of nodes on the volumes of a driver.
const LIMITS: &str = "spec.volumes (limits per node)";

/// The name in `unchecked` for the storage capacity of drivers.
const CAPACITY: &str = "spec.volumes (storage capacity)";

/// The storage of a pod, on one state.
pub struct Volumes<'a> {
    /// The reason, if any, why no node takes the pod.
    pub not_ready: Option<Reason>,
    /// The disks.
    pub disks: &'a [PodDisk],
    /// The nodes with pods that use the same disks.
    conflicting: BTreeSet<Slot>,
    /// The names of the existing claims that only one pod may use.
    pub once: Vec<&'a str>,
    /// True if another pod uses one of these claims.
    in_use: bool,
    /// The claims that are bound, in order.
    pub bound: Vec<BoundClaim<'a>>,
    /// The claims that wait for a pod.
    pub(super) waiting: WaitingClaims<'a>,
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
    ) -> Option<Self> {
        let storage = read_view.storage().filter(|_| !pod.claims.is_empty());
        if storage.is_none() && pod.disks.is_empty() {
            return None;
        }
        let disks = pod.disks.iter();
        let mut volumes = Self {
            not_ready: None,
            disks: &pod.disks,
            conflicting: disks
                .flat_map(|disk| read_view.conflicting_with(disk))
                .collect(),
            once: Vec::new(),
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
            };
            match pod.find() {
                Ok(found) => volumes.note(found, namespace, storage),
                Err(reason) => volumes.not_ready = Some(reason),
            }
        }
        Some(volumes)
    }

    /// Stores the claims that were found.
    fn note(&mut self, found: FoundClaims<'a>, namespace: &'a str, storage: &'a StorageObjects) {
        let read_view = &self.read_view;
        let mut once = found.once.iter();
        self.in_use = once.any(|claim| !read_view.users_of(claim, namespace).is_empty());
        if !found.waiting.is_empty() {
            let held = held_volumes(storage, read_view);
            self.waiting = WaitingClaims::of(&found.waiting, namespace, storage, &held);
            self.held = held.taken.len();
        }
        self.once = found.once;
        self.bound = found.bound;
    }

    /// The most pods like this one that a node takes, and the most that all nodes together take,
    /// each with the reason for the limit.
    pub fn most(&self) -> [Option<(u32, Reason)>; 2] {
        let conflicts = |disk: &PodDisk| self.disks.iter().any(|other| disk.conflicts(other));
        let per_node = self
            .disks
            .iter()
            .any(conflicts)
            .then_some((1, Reason::DiskConflict));
        let in_all = (!self.once.is_empty()).then_some((1, Reason::ClaimInUse));
        [per_node, in_all]
    }

    /// Returns the cost of judging a node, in units.
    pub fn units_per_node(&self) -> usize {
        let terms =
            |volume: &PersistentVolume| 1 + volume.affinity.as_ref().map_or(0, |it| it.per_node());
        let there = || self.bound.iter().filter_map(|bound| bound.volume);
        let bound = there().map(terms);
        let zones = there().map(|volume| volume.zones.len());
        let terms = bound.sum::<usize>() + zones.sum::<usize>() + self.waiting.per_node();
        (1 + terms) * UNITS_PER_TERM
    }

    /// Judges an existing node, as if nominated pods were on it.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Result<(), NodeRefusal> {
        if let Some(reason) = &self.not_ready {
            return Err(NodeRefusal::by_node(reason.clone()));
        }
        let Some(node) = self.read_view.nodes.get(slot) else {
            return Ok(());
        };
        if self.conflicting.contains(&slot) || self.conflicts_with(with) {
            return Err(NodeRefusal::by_node(Reason::DiskConflict));
        }
        if self.in_use || self.is_claimed_by(with) {
            return Err(NodeRefusal::by_node(Reason::ClaimInUse));
        }
        if let Some(refusal) = NodeRefusal::by_all(self.binding_refusals(node)) {
            return Err(refusal);
        }
        let mut zoned = self.bound.iter().filter(|bound| bound.is_zoned);
        match zoned.all(|bound| bound.is_in_zones(node)) {
            true => Ok(()),
            false => Err(NodeRefusal::by_node(Reason::VolumeZone)),
        }
    }

    /// Returns whether disks of the pod conflict with disks of nominated pods.
    fn conflicts_with(&self, with: Option<&NominatedOn<'_>>) -> bool {
        let pods = with.into_iter().flat_map(NominatedOn::pods);
        let mut disks = pods.flat_map(|pod| pod.storage.iter().flat_map(|it| &*it.disks));
        disks.any(|theirs| self.disks.iter().any(|disk| disk.conflicts(theirs)))
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
            claims.any(|claim| self.once.contains(&&*claim))
        })
    }

    fn binding_refusals(&self, node: NodeRef<'a>) -> impl Iterator<Item = Reason> + use<> {
        // The first volume that is missing or out of reach decides.
        let bound = self.bound.iter().find_map(|bound| match bound.volume {
            None => Some(Reason::VolumeMissing),
            Some(volume) if !reaches(volume, node) => Some(Reason::VolumeNodeAffinity),
            Some(_) => None,
        });
        let (out_of_reach, missing) = match bound {
            Some(Reason::VolumeMissing) => (None, bound),
            bound => (bound, None),
        };
        let waits = self
            .waiting
            .bind(node)
            .is_none()
            .then_some(Reason::VolumeBinding);
        out_of_reach.into_iter().chain(waits).chain(missing)
    }

    /// The names of the claims that wait for a pod.
    pub fn waiting(&self) -> impl Iterator<Item = &'a str> {
        self.waiting.iter().map(|waiting| waiting.name)
    }

    /// Judges existing nodes at once, as if no pod were nominated.
    pub fn narrow(&self, slots: &[Slot], judged: &mut Judgement) {
        judged.narrow_each(&self.read_view, self.units_per_node(), |at| {
            self.judge(slots[at], None)
        });
    }
}

/// Returns the parts of a pod's storage that affect where it can run, but that are not checked on a
/// read view.
pub fn unchecked(
    namespace: &str,
    pod: &PodStorage,
    read_view: &ReadView<'_>,
) -> impl Iterator<Item = &'static str> + use<> {
    let mut fields = [None; 2];
    let Some(storage) = read_view.storage() else {
        // The snapshot has no storage objects, because no feed sent them.
        fields[0] = (!pod.claims.is_empty()).then_some("spec.volumes");
        return fields.into_iter().flatten();
    };
    for used in &pod.claims {
        let there = storage.claim(namespace, &used.name);
        let Some(claim) = there.or(used.template.as_deref()) else {
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
    fields.into_iter().flatten()
}

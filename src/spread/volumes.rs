//! Storage: which nodes the claims and disks of the incoming pod leave
//! (`docs/semantics.md`, "Volumes").

use std::collections::BTreeSet;

use super::judgement::Judgement;
use super::nominated::NominatedOn;
use super::verdict::{NodeRefusal, Reason};
use super::waiting_claims::{UsedClaim, WaitingClaims, reaches};
use crate::matching::storage::{PersistentVolume, ZONE_LABELS};
use crate::matching::{PodClaim, PodDisk, PodStorage, absolute};
use crate::snapshot::{NodeRef, ReadView, Slot, StorageObjects};

/// What it costs to hold a node against a term of a volume, in units.
const UNITS_PER_TERM: usize = 20;

/// What kube-scheduler calls the limits that nodes have for volumes of a driver.
const LIMITS: &str = "spec.volumes (limits per node)";

/// The storage that drivers have where nodes reach it.
const CAPACITY: &str = "spec.volumes (storage capacity)";

/// A claim that is bound to a volume.
#[derive(Clone, Copy)]
pub struct BoundClaim<'a> {
    /// Name of the claim.
    pub claim: &'a str,
    /// Name of the volume.
    pub name: &'a str,
    /// The volume; `None` where it is not there.
    pub volume: Option<&'a PersistentVolume>,
    /// Whether the zones of the volume are compared: not of a claim made with the pod.
    is_zoned: bool,
}

/// The storage of a pod, on one state.
pub struct Volumes<'a> {
    /// Why no node takes the pod, whatever else is.
    not_ready: Option<Reason>,
    disks: &'a [PodDisk],
    /// The nodes with pods that use its disks.
    conflicting: BTreeSet<Slot>,
    /// The claims that one pod alone may use, of those that are there.
    once: Vec<&'a str>,
    /// Whether another pod uses one of these.
    in_use: bool,
    /// The claims that are bound, in order.
    bound: Vec<BoundClaim<'a>>,
    /// The claims that wait for a pod.
    pub(super) waiting: WaitingClaims<'a>,
    read_view: ReadView<'a>,
}

impl<'a> Volumes<'a> {
    /// The storage of a pod; `None` where that decides nothing.
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
            read_view: *read_view,
        };
        if let Some(storage) = storage {
            let pod = PodClaims {
                name: (namespace, name, uid),
                claims: &pod.claims,
                storage,
            };
            volumes.not_ready = volumes.find_claims(&pod).err();
        }
        Some(volumes)
    }

    /// Looks the claims up, as the plugins of kube-scheduler do one after the other.
    ///
    /// # Errors
    /// Why no node takes the pod.
    fn find_claims(&mut self, pod: &PodClaims<'a>) -> Result<(), Reason> {
        let (namespace, ..) = pod.name;
        for used in pod.claims.iter().filter(|used| !used.is_ephemeral) {
            let name = &*used.name;
            let claim = pod.find(used);
            let claim = claim.ok_or_else(|| not_found("persistentvolumeclaim", name))?;
            if claim.claim.is_once_per_pod() {
                self.once.push(name);
                self.in_use |= !self.read_view.users_of(name, namespace).is_empty();
            }
        }
        let used: Vec<UsedClaim<'a>> = pod.ready()?;
        let mut is_immediate = false;
        for used in &used {
            let claim = used.claim;
            if claim.is_bound() {
                let name = &*claim.spec().volume_name;
                self.bound.push(BoundClaim {
                    claim: &used.used.name,
                    name,
                    volume: pod.storage.volume(name),
                    is_zoned: !used.used.is_ephemeral,
                });
                continue;
            }
            let class = pod
                .storage
                .class(claim.class())
                .filter(|_| !claim.class().is_empty());
            let waits = class.is_some_and(|class| class.waits() == Some(true));
            if class.is_some_and(|class| class.waits().is_none()) {
                let class = claim.class();
                let words = format!("VolumeBindingMode not set for StorageClass {class:?}");
                return Err(Reason::VolumeNotReady(words.into()));
            }
            match class.filter(|_| waits && claim.spec().volume_name.is_empty()) {
                Some(class) => {
                    self.waiting
                        .add(*used, class, namespace, pod.storage, !used.is_new());
                }
                None => is_immediate = true,
            }
        }
        if is_immediate {
            let words = "pod has unbound immediate PersistentVolumeClaims";
            return Err(Reason::VolumeNotReady(words.into()));
        }
        self.waiting.settle();
        let mut missing = self.zoned().filter(|bound| bound.volume.is_none());
        match missing.next() {
            Some(bound) => Err(not_found("persistentvolume", bound.name)),
            None => Ok(()),
        }
    }

    /// The claims by whose zones nodes are compared.
    fn zoned(&self) -> impl Iterator<Item = &BoundClaim<'a>> {
        self.bound.iter().filter(|bound| bound.is_zoned)
    }

    /// Why no node takes the pod, whatever else is.
    pub fn not_ready(&self) -> Option<&Reason> {
        self.not_ready.as_ref()
    }

    /// The most pods like this one that a node takes, and that all take together, with the
    /// reason for which they take no more.
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

    /// Returns what it costs to judge a node, in units.
    pub fn units_per_node(&self) -> usize {
        let terms = |volume: &PersistentVolume| 1 + volume.affinity().map_or(0, |it| it.per_node());
        let there = || self.bound.iter().filter_map(|bound| bound.volume);
        let bound = there().map(terms);
        let zones = there().map(|volume| volume.zones.len());
        let terms = bound.sum::<usize>() + zones.sum::<usize>() + self.waiting.per_node();
        (1 + terms) * UNITS_PER_TERM
    }

    /// Judges an existing node, as if nominated pods were there.
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
        match self.is_in_zones(node) {
            true => Ok(()),
            false => Err(NodeRefusal::by_node(Reason::VolumeZone)),
        }
    }

    /// Returns whether disks of the pod conflict with those of nominated pods.
    fn conflicts_with(&self, with: Option<&NominatedOn<'_>>) -> bool {
        let pods = with.into_iter().flat_map(NominatedOn::pods);
        let mut disks = pods.flat_map(|pod| pod.storage.iter().flat_map(|it| &*it.disks));
        disks.any(|theirs| self.disks.iter().any(|disk| disk.conflicts(theirs)))
    }

    /// Returns whether nominated pods use a claim that one pod alone may use. kube-scheduler
    /// looks at them only where the pod has disks, and then compares names of claims of
    /// all namespaces.
    fn is_claimed_by(&self, with: Option<&NominatedOn<'_>>) -> bool {
        if self.disks.is_empty() || self.once.is_empty() {
            return false;
        }
        let mut pods = with.into_iter().flat_map(NominatedOn::pods);
        pods.any(|pod| {
            let claims = pod.storage.iter().flat_map(|it| &*it.claims);
            let mut claims = claims.map(|claim| absolute(claim, &pod.name));
            claims.any(|claim| self.once.contains(&&*claim))
        })
    }

    fn binding_refusals(&self, node: NodeRef<'a>) -> impl Iterator<Item = Reason> + use<> {
        // The first that is missing or out of reach ends it.
        let bound = self.bound.iter().find_map(|bound| match bound.volume {
            None => Some(Reason::VolumeMissing),
            Some(volume) if !reaches(volume, node) => Some(Reason::VolumeNodeAffinity),
            Some(_) => None,
        });
        let (out_of_reach, missing) = match bound {
            Some(Reason::VolumeMissing) => (None, bound),
            bound => (bound, None),
        };
        let waits = (!self.waiting.can_be_bound(node)).then_some(Reason::VolumeBinding);
        out_of_reach.into_iter().chain(waits).chain(missing)
    }

    fn is_in_zones(&self, node: NodeRef<'a>) -> bool {
        self.zoned().all(|bound| bound.is_in_zones(node))
    }

    /// The claims that are bound.
    pub fn bound(&self) -> &[BoundClaim<'a>] {
        &self.bound
    }

    /// Names of the claims that wait for a pod.
    pub fn waiting(&self) -> impl Iterator<Item = &'a str> {
        self.waiting.iter().map(|waiting| waiting.name)
    }

    /// Names of the claims that one pod alone may use.
    pub fn once(&self) -> &[&'a str] {
        &self.once
    }

    /// The disks.
    pub fn disks(&self) -> &'a [PodDisk] {
        self.disks
    }

    /// Judges existing nodes at once, as if no pod were nominated.
    pub fn narrow(&self, slots: &[Slot], judged: &mut Judgement) {
        let each = self.units_per_node();
        if !self.read_view.affords(slots.len().saturating_mul(each)) {
            return;
        }
        let left = judged.pass.ones();
        let left = left.take_while(|_| self.read_view.goes_on_for(each));
        let refused = left.filter_map(|at| Some((at, self.judge(slots[at], None).err()?)));
        for (at, refusal) in refused.collect::<Vec<_>>() {
            judged.refuse(at, refusal.reasons().cloned());
        }
    }
}

impl<'a> BoundClaim<'a> {
    /// Returns whether a node reaches the volume.
    pub fn is_reached(&self, node: NodeRef<'a>) -> bool {
        self.volume.is_some_and(|volume| reaches(volume, node))
    }

    /// Returns whether a node is where the labels of the volume say. One without any such label
    /// is.
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

/// The claims of a pod, and where they are looked up.
struct PodClaims<'a> {
    /// Namespace, name and uid of the pod.
    name: (&'a str, &'a str, &'a str),
    claims: &'a [PodClaim],
    storage: &'a StorageObjects,
}

impl<'a> PodClaims<'a> {
    /// Returns what is known of a claim. One that is not there is as its template has it.
    fn find(&self, used: &'a PodClaim) -> Option<UsedClaim<'a>> {
        let (namespace, ..) = self.name;
        let there = self.storage.claim(namespace, &used.name);
        let claim = there.or(used.template.as_deref())?;
        Some(UsedClaim { used, claim })
    }

    /// All claims.
    ///
    /// # Errors
    /// The first reason for which a claim is of no use.
    fn ready(&self) -> Result<Vec<UsedClaim<'a>>, Reason> {
        let claims = self.claims.iter();
        let ready = claims.map(|used| self.ready_one(used));
        let ready: Result<_, String> = ready.collect();
        ready.map_err(|words| Reason::VolumeNotReady(words.into()))
    }

    fn ready_one(&self, used: &'a PodClaim) -> Result<UsedClaim<'a>, String> {
        let (namespace, pod, uid) = self.name;
        let name = &used.name;
        let found = self.find(used).ok_or_else(|| {
            format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
            )
        })?;
        let claim = found.claim;
        if claim.is_lost() {
            let volume = &claim.spec().volume_name;
            return Err(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if claim.metadata().deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        let mut owners = claim.metadata().owner_references.iter();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let is_own = found.is_new() || controller.is_some_and(|owner| owner.uid == uid);
        match used.is_ephemeral && !is_own {
            true => Err(format!(
                "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
            )),
            false => Ok(found),
        }
    }
}

fn not_found(kind: &str, name: &str) -> Reason {
    Reason::VolumeNotReady(format!("{kind} {name:?} not found").into())
}

/// Returns what of the storage of a pod decides where it can run and is not checked on a read
/// view.
pub fn unchecked(
    namespace: &str,
    pod: &PodStorage,
    read_view: &ReadView<'_>,
) -> impl Iterator<Item = &'static str> + use<> {
    let mut fields = [None; 2];
    let storage = read_view.storage();
    if storage.is_none() && !pod.claims.is_empty() {
        // Nobody told of claims here.
        fields[0] = Some("spec.volumes");
    }
    for (used, storage) in pod.claims.iter().zip(std::iter::repeat(storage)) {
        let Some(storage) = storage else { continue };
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

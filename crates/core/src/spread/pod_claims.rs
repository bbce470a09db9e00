//! Looks up the claims of a pod and sorts them into bound and waiting claims.

use std::sync::Arc;

use super::verdict::Reason;
use super::waiting_claims::UnboundClaim;
use crate::matching::PodClaim;
use crate::matching::storage::{PersistentVolume, VolumeClaim, ZONE_LABELS};
use crate::snapshot::{Deadline, NodeRef, Stopped, StorageObjects, reaches};

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

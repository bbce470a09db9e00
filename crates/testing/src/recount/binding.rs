//! Binding of claims: the volumes and classes that they name, and the volumes for waiting claims
//! once the pod has a node.

use super::cluster::Cluster;
use super::requests::billionths as in_billionths;
use super::rules::{labels, labels_match_terms, name, namespace, selector_matches};
use evenkeel::proto::v1::{
    ClaimReference, Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod, Quantity,
    StorageClass,
};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A claim that a pod uses.
pub(super) struct Used {
    /// The claim itself.
    pub(super) claim: PersistentVolumeClaim,
    /// True if the claim is created with the pod.
    pub(super) is_ephemeral: bool,
    /// True if the claim is created from a template, and each pod like this one has its own.
    pub(super) is_new: bool,
}

/// The binding of a claim by names: its own name, which is empty if each pod has a claim of its
/// own, and the name of an existing volume, if one is chosen.
type NamedBinding = (String, Option<String>);

impl Cluster {
    /// Returns the bindings of the claims that wait for a pod on a node, the smallest first; `None`
    /// where one cannot be bound.
    pub(super) fn bind(&self, used: &[Used], node: &Node) -> Option<Vec<NamedBinding>> {
        let mut waiting: Vec<&Used> = used.iter().filter(|it| !is_bound(&it.claim)).collect();
        waiting.sort_by_key(|it| requested(&it.claim));
        fn selected(it: &Used) -> Option<&String> {
            annotation(&it.claim.metadata, SELECTED_NODE)
        }
        let node_name = name(node.metadata.as_ref());
        if waiting
            .iter()
            .any(|it| selected(it).is_some_and(|it| it != node_name))
        {
            return None;
        }
        let mut bindings = Vec::new();
        let mut taken: Vec<&str> = Vec::new();
        for it in waiting {
            let called = match it.is_new {
                true => String::new(),
                false => name(it.claim.metadata.as_ref()).to_owned(),
            };
            let found = match selected(it) {
                Some(_) => None,
                None => self.match_volume(&it.claim, node, &taken),
            };
            if let Some(volume) = found {
                taken.push(volume);
                bindings.push((called, Some(volume.to_owned())));
                continue;
            }
            let class = self.class_of(&it.claim)?;
            let makes = !["", "kubernetes.io/no-provisioner"].contains(&&*class.provisioner);
            if !(makes && is_allowed(class, node)) {
                return None;
            }
            bindings.push((called, None));
        }
        Some(bindings)
    }

    /// Binds the claims of a pod, as the scheduler does once it has chosen a node for it. Volumes
    /// for claims that only this pod has are reserved for the claim `own`.
    pub(super) fn bind_storage(&mut self, pod: &Pod, node: &str, own: &str) {
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|it| name(it.metadata.as_ref()) == node).cloned();
        let used = self.used_claims(pod).unwrap_or_default();
        let bindings = node.as_ref().and_then(|node| self.bind(&used, node));
        let here = namespace(pod.metadata.as_ref()).to_owned();
        for (claim, volume) in bindings.unwrap_or_default() {
            let Some(volume) = volume else {
                let mut all = self.persistent_volume_claims.iter_mut();
                let claim = all.find(|it| {
                    let its = it.metadata.as_ref();
                    !claim.is_empty() && namespace(its) == here && name(its) == claim
                });
                if let (Some(claim), Some(node)) = (claim, &node) {
                    let metadata = claim.metadata.get_or_insert_default();
                    let node = name(node.metadata.as_ref()).to_owned();
                    metadata.annotations.insert(SELECTED_NODE.to_owned(), node);
                }
                continue;
            };
            let mut all = self.persistent_volumes.iter_mut();
            let volume = all.find(|it| name(it.metadata.as_ref()) == volume);
            if let Some(volume) = volume {
                let spec = volume.spec.get_or_insert_default();
                spec.claim_ref = Some(ClaimReference {
                    namespace: here.clone(),
                    name: match claim.is_empty() {
                        true => own.to_owned(),
                        false => claim,
                    },
                    uid: String::new(),
                });
            }
        }
    }

    /// The volume that a claim is bound to on a node, of those that are not taken: the first that
    /// is reserved for the claim, else the smallest, ties by name.
    fn match_volume(
        &self,
        claim: &PersistentVolumeClaim,
        node: &Node,
        taken: &[&str],
    ) -> Option<&str> {
        let mut all: Vec<&PersistentVolume> = self.persistent_volumes.iter().collect();
        all.sort_by_key(|volume| name(volume.metadata.as_ref()));
        let wanted = claim.spec.clone().unwrap_or_default();
        let mode = |mode: &Option<String>| mode.clone().filter(|mode| mode == "Block");
        let attributes = |it: &Option<String>| it.clone().unwrap_or_default();
        all.retain(|volume| {
            let spec = volume.spec.clone().unwrap_or_default();
            let metadata = volume.metadata.clone().unwrap_or_default();
            !taken.contains(&&*metadata.name)
                && volume_class(volume) == class_name(claim)
                && capacity(volume) >= requested(claim)
                && mode(&spec.volume_mode) == mode(&wanted.volume_mode)
                && attributes(&spec.volume_attributes_class_name)
                    == attributes(&wanted.volume_attributes_class_name)
                && metadata.deletion_timestamp.is_none()
        });
        let its = claim.metadata.clone().unwrap_or_default();
        let is_kept = |volume: &&&PersistentVolume| {
            let kept = volume
                .spec
                .as_ref()
                .and_then(|spec| spec.claim_ref.as_ref());
            kept.is_some_and(|kept| {
                kept.name == its.name
                    && kept.namespace == namespace(claim.metadata.as_ref())
                    && (kept.uid.is_empty() || kept.uid == its.uid)
            })
        };
        if let Some(kept) = all.iter().find(is_kept) {
            return reaches(kept, node).then(|| name(kept.metadata.as_ref()));
        }
        all.retain(|volume| {
            let spec = volume.spec.clone().unwrap_or_default();
            let is_selected = wanted.selector.is_none()
                || selector_matches(wanted.selector.as_ref(), &labels(volume.metadata.as_ref()));
            let phase = volume.status.as_ref().map_or("", |status| &status.phase);
            spec.claim_ref.is_none()
                && phase == "Available"
                && is_selected
                && wanted
                    .access_modes
                    .iter()
                    .all(|mode| spec.access_modes.contains(mode))
                && reaches(volume, node)
        });
        let smallest = all.into_iter().min_by_key(|volume| capacity(volume))?;
        Some(name(smallest.metadata.as_ref()))
    }
}

fn annotation<'m>(metadata: &'m Option<ObjectMeta>, key: &str) -> Option<&'m String> {
    metadata.as_ref()?.annotations.get(key)
}

pub(super) fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().map_or("", |spec| &spec.volume_name)
}

pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let completed = annotation(&claim.metadata, "pv.kubernetes.io/bind-completed");
    !volume_name(claim).is_empty() && completed.is_some()
}

pub(super) fn class_name(claim: &PersistentVolumeClaim) -> String {
    let beta = annotation(&claim.metadata, "volume.beta.kubernetes.io/storage-class").cloned();
    let class = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.storage_class_name.clone());
    beta.or(class).unwrap_or_default()
}

fn volume_class(volume: &PersistentVolume) -> String {
    let beta = annotation(&volume.metadata, "volume.beta.kubernetes.io/storage-class").cloned();
    beta.unwrap_or_else(|| {
        let spec = volume.spec.as_ref();
        spec.map_or_else(String::new, |spec| spec.storage_class_name.clone())
    })
}

fn requested(claim: &PersistentVolumeClaim) -> i128 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    billionths(resources.and_then(|it| it.requests.get("storage")))
}

fn capacity(volume: &PersistentVolume) -> i128 {
    billionths(
        volume
            .spec
            .as_ref()
            .and_then(|spec| spec.capacity.get("storage")),
    )
}

fn billionths(quantity: Option<&Quantity>) -> i128 {
    quantity.map_or(0, |quantity| in_billionths(&quantity.string))
}

pub(super) fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|selector| labels_match_terms(selector, &labels(node.metadata.as_ref())))
}

fn is_allowed(class: &StorageClass, node: &Node) -> bool {
    let here = labels(node.metadata.as_ref());
    let terms = &class.allowed_topologies;
    terms.is_empty()
        || terms.iter().any(|term| {
            let wanted = &term.match_label_expressions;
            let mut held = wanted.iter().filter(|it| {
                here.get(&it.key)
                    .is_some_and(|value| it.values.contains(value))
            });
            !wanted.is_empty() && held.by_ref().count() == wanted.len()
        })
}

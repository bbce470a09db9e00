//! Storage: claims, volumes and disks of a pod, read afresh for each node.

use super::answers::Rejection;
use super::cluster::Cluster;
use super::left_out;
use super::requests::billionths as in_billionths;
use super::room::node_taken;
use super::rules::{LabelMap, labels, labels_match_terms, name, namespace, selector_matches};
use crate::proto::v1::{
    ClaimReference, Code, Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod, Quantity,
    StorageClass, VolumeSource,
};

const DISK: &str = "node(s) had no available disk";
const IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
    already in-use by another pod";
const NOT_REACHED: &str = "node(s) didn't match PersistentVolume's node affinity";
const NOTHING_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const OTHER_ZONE: &str = "node(s) had no available volume zone";
const IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BETA: &str = "failure-domain.beta.kubernetes.io";
const NEW: &str = "topology.kubernetes.io";

/// A claim that a pod uses.
struct Used {
    claim: PersistentVolumeClaim,
    is_ephemeral: bool,
    /// Whether it is made of a template, and each pod like this one has its own.
    is_new: bool,
}

/// How a claim is bound, by names: its own, empty of one that each pod has its own of, and
/// that of a volume, if one that is there is chosen.
type NamedBinding = (String, Option<String>);

impl Cluster {
    /// Why no node takes a pod, whatever else is, because of its storage.
    pub(super) fn storage_not_ready(&self, pod: &Pod) -> Option<Rejection> {
        let is_gated = pod
            .spec
            .as_ref()
            .is_some_and(|s| !s.scheduling_gates.is_empty());
        if is_gated || left_out::leaves_none(self, pod) {
            return None;
        }
        let refused = |reason| Rejection::by_node(Code::UnschedulableAndUnresolvable, vec![reason]);
        self.used_claims(pod).err().map(refused)
    }

    /// Why the storage of a pod keeps it off a node, while others are on their way there.
    pub(super) fn storage_refusal(
        &self,
        pod: &Pod,
        node: &Node,
        coming: &[&Pod],
    ) -> Option<Rejection> {
        let used = self.used_claims(pod).ok()?;
        let resolvable = |reason: &str| {
            Some(Rejection::by_node(
                Code::Unschedulable,
                vec![reason.to_owned()],
            ))
        };
        let here = |other: &&Pod| node_taken(other) == Some(name(node.metadata.as_ref()));
        let own: Vec<VolumeSource> = sources(pod).collect();
        let there = self.pods.iter().filter(here).chain(coming.iter().copied());
        let conflicts = |other: &Pod| {
            sources(other).any(|theirs| own.iter().any(|ours| is_one_disk(ours, &theirs)))
        };
        if there.into_iter().any(conflicts) {
            return resolvable(DISK);
        }
        if self.is_claimed(pod, &used, coming) {
            return resolvable(IN_USE);
        }
        let mut reasons = Vec::new();
        let bound = used.iter().filter(|it| is_bound(&it.claim));
        let bound: Vec<&str> = bound.map(|it| volume_name(&it.claim)).collect();
        let first = bound.iter().find_map(|volume| match self.volume(volume) {
            None => Some(GONE),
            Some(volume) if !reaches(volume, node) => Some(NOT_REACHED),
            Some(_) => None,
        });
        reasons.extend(first.filter(|reason| *reason == NOT_REACHED));
        if self.bind(&used, node).is_none() {
            reasons.push(NOTHING_TO_BIND);
        }
        reasons.extend(first.filter(|reason| *reason == GONE));
        if reasons.is_empty() && !self.is_in_zones(&used, node) {
            reasons.push(OTHER_ZONE);
        }
        let reasons: Vec<String> = reasons.into_iter().map(str::to_owned).collect();
        let code = Code::UnschedulableAndUnresolvable;
        (!reasons.is_empty()).then(|| Rejection::by_node(code, reasons))
    }

    /// The claims of a pod; nothing while the snapshot has neither volumes nor classes.
    ///
    /// # Errors
    /// Why the pod can go nowhere.
    fn used_claims(&self, pod: &Pod) -> Result<Vec<Used>, String> {
        if self.persistent_volumes.is_empty() && self.storage_classes.is_empty() {
            return Ok(Vec::new());
        }
        let metadata = pod.metadata.clone().unwrap_or_default();
        let here = namespace(pod.metadata.as_ref());
        let mut found = Vec::new();
        for volume in pod.spec.iter().flat_map(|spec| &spec.volumes) {
            let source = volume.source();
            let is_ephemeral = source.persistent_volume_claim.is_none();
            let called = match (&source.persistent_volume_claim, &source.ephemeral) {
                (Some(claim), _) => claim.claim_name.clone(),
                (None, Some(_)) => format!("{}-{}", metadata.name, volume.name),
                (None, None) => continue,
            };
            let mut all = self.persistent_volume_claims.iter();
            let claim = all.find(|claim| {
                let its = claim.metadata.as_ref();
                namespace(its) == here && name(its) == called
            });
            let template = source.ephemeral.and_then(|it| it.volume_claim_template);
            let made = template
                .filter(|_| metadata.uid.is_empty())
                .map(|template| PersistentVolumeClaim {
                    metadata: Some(ObjectMeta {
                        name: called.clone(),
                        namespace: here.to_owned(),
                        ..ObjectMeta::default()
                    }),
                    spec: template.spec,
                    status: None,
                });
            found.push((
                called,
                is_ephemeral,
                claim.is_none(),
                claim.cloned().or(made),
            ));
        }
        for (called, is_ephemeral, _, claim) in &found {
            if claim.is_none() && !is_ephemeral {
                return Err(format!("persistentvolumeclaim \"{called}\" not found"));
            }
        }
        let mut used = Vec::new();
        for (called, is_ephemeral, is_new, claim) in found {
            let claim = claim.ok_or_else(|| {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{called}\""
                )
            })?;
            if claim
                .status
                .as_ref()
                .is_some_and(|status| status.phase == "Lost")
            {
                let volume = volume_name(&claim);
                return Err(format!(
                    "persistentvolumeclaim \"{called}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            let its = claim.metadata.clone().unwrap_or_default();
            if its.deletion_timestamp.is_some() {
                return Err(format!(
                    "persistentvolumeclaim \"{called}\" is being deleted"
                ));
            }
            let mut owners = its.owner_references.iter();
            let controller = owners.find(|owner| owner.controller == Some(true));
            let is_own = controller.is_some_and(|owner| owner.uid == metadata.uid);
            if is_ephemeral && !is_new && !is_own {
                let pod = &metadata.name;
                return Err(format!(
                    "PVC {here}/{called} was not created for pod {here}/{pod} (pod is not owner)"
                ));
            }
            used.push(Used {
                claim,
                is_ephemeral,
                is_new,
            });
        }
        let unbound = used.iter().filter(|it| !is_bound(&it.claim));
        let mut is_immediate = false;
        for it in unbound {
            let class = self.class_of(&it.claim);
            let mode = class.map(|class| class.volume_binding_mode.clone());
            if mode == Some(None) {
                let class = class_name(&it.claim);
                return Err(format!(
                    "VolumeBindingMode not set for StorageClass \"{class}\""
                ));
            }
            let waits = mode == Some(Some("WaitForFirstConsumer".to_owned()));
            is_immediate |= !waits || !volume_name(&it.claim).is_empty();
        }
        if is_immediate {
            return Err(IMMEDIATE.to_owned());
        }
        for it in used.iter().filter(|it| !it.is_ephemeral) {
            let volume = volume_name(&it.claim);
            if !volume.is_empty() && self.volume(volume).is_none() {
                return Err(format!("persistentvolume \"{volume}\" not found"));
            }
        }
        Ok(used)
    }

    fn volume(&self, called: &str) -> Option<&PersistentVolume> {
        let mut all = self.persistent_volumes.iter();
        all.find(|volume| name(volume.metadata.as_ref()) == called)
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        let called = class_name(claim);
        let mut all = self.storage_classes.iter();
        all.find(|class| !called.is_empty() && name(class.metadata.as_ref()) == called)
    }

    /// Returns whether a claim of the pod that one pod alone may use is in use: by a pod on a
    /// node. Pods that are on their way are looked at only if the pod has disks, and then
    /// those of all namespaces.
    fn is_claimed(&self, pod: &Pod, used: &[Used], coming: &[&Pod]) -> bool {
        let once = used.iter().filter(|it| {
            let modes = it.claim.spec.iter().flat_map(|spec| &spec.access_modes);
            !it.is_ephemeral && modes.into_iter().any(|mode| mode == "ReadWriteOncePod")
        });
        let once: Vec<&str> = once.map(|it| name(it.claim.metadata.as_ref())).collect();
        let uses = |other: &Pod| {
            let mut claims = sources(other).filter_map(|source| source.persistent_volume_claim);
            claims.any(|claim| once.contains(&&*claim.claim_name))
        };
        let here = namespace(pod.metadata.as_ref());
        let mut others = self.pods.iter();
        let has_disks = sources(pod).any(|source| is_disk(&source));
        others.any(|other| {
            namespace(other.metadata.as_ref()) == here && uses(other) && self.is_on_node(other)
        }) || has_disks && coming.iter().any(|other| uses(other))
    }

    fn is_on_node(&self, pod: &Pod) -> bool {
        let mut nodes = self.nodes.iter();
        node_taken(pod).is_some_and(|on| nodes.any(|node| name(node.metadata.as_ref()) == on))
    }

    /// Returns how the claims that wait for a pod are bound on a node, the smallest first; `None`
    /// where that is not possible.
    fn bind(&self, used: &[Used], node: &Node) -> Option<Vec<NamedBinding>> {
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

    /// Has claims of a pod bound as by the scheduler once it has chosen a node for it; the
    /// pod is the one of this number that was picked.
    pub(super) fn bind_storage(&mut self, pod: &Pod, node: &str, number: usize) {
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
                        true => format!("of-pick-{number}"),
                        false => claim,
                    },
                    uid: String::new(),
                });
            }
        }
    }

    /// The volume that a claim is bound to on a node, of those that are not taken: the
    /// first that is kept for it, else the smallest, by name where several are.
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
        let called = |volume: &PersistentVolume| self.volume(name(volume.metadata.as_ref()));
        if let Some(kept) = all.iter().find(is_kept) {
            let volume = called(kept).filter(|volume| reaches(volume, node))?;
            return Some(name(volume.metadata.as_ref()));
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
        Some(name(called(smallest)?.metadata.as_ref()))
    }

    /// Returns whether a node is where the zone labels of the volumes say. One without any such
    /// label is.
    fn is_in_zones(&self, used: &[Used], node: &Node) -> bool {
        let here = labels(node.metadata.as_ref());
        let keys = [BETA, NEW].map(|prefix| ["zone", "region"].map(|it| format!("{prefix}/{it}")));
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        if !keys.iter().any(|key| here.contains_key(key)) {
            return true;
        }
        let claims = used.iter().filter(|it| !it.is_ephemeral);
        let mut volumes = claims.filter_map(|it| self.volume(volume_name(&it.claim)));
        volumes.all(|volume| {
            let there = labels(volume.metadata.as_ref());
            keys.iter().all(|key| is_in_zone(key, &there, &here))
        })
    }
}

fn is_in_zone(key: &str, there: &LabelMap, here: &LabelMap) -> bool {
    let Some(zones) = there.get(key) else {
        return true;
    };
    let zones: Vec<&str> = zones.split("__").map(str::trim).collect();
    let value = here.get(key).or_else(|| here.get(&key.replace(BETA, NEW)));
    zones.contains(&"") || value.is_some_and(|value| zones.contains(&&**value))
}

fn sources(pod: &Pod) -> impl Iterator<Item = VolumeSource> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    volumes.map(|volume| volume.source())
}

fn is_disk(source: &VolumeSource) -> bool {
    source.gce_persistent_disk.is_some()
        || source.aws_elastic_block_store.is_some()
        || source.iscsi.is_some()
        || source.rbd.is_some()
}

/// Returns whether two pods may not use these on one node.
fn is_one_disk(one: &VolumeSource, other: &VolumeSource) -> bool {
    let gce = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (
            a.gce_persistent_disk.as_ref()?,
            b.gce_persistent_disk.as_ref()?,
        );
        Some(a.pd_name == b.pd_name && !(a.read_only && b.read_only))
    };
    let aws = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (
            a.aws_elastic_block_store.as_ref()?,
            b.aws_elastic_block_store.as_ref()?,
        );
        Some(a.volume_id == b.volume_id)
    };
    let iscsi = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (a.iscsi.as_ref()?, b.iscsi.as_ref()?);
        Some(a.iqn == b.iqn && !(a.read_only && b.read_only))
    };
    let rbd = |a: &VolumeSource, b: &VolumeSource| {
        let (a, b) = (a.rbd.as_ref()?, b.rbd.as_ref()?);
        let shares = a
            .monitors
            .iter()
            .any(|monitor| b.monitors.contains(monitor));
        let same = (&a.pool, &a.image) == (&b.pool, &b.image);
        Some(same && shares && !(a.read_only && b.read_only))
    };
    let all = [
        gce(one, other),
        aws(one, other),
        iscsi(one, other),
        rbd(one, other),
    ];
    all.contains(&Some(true))
}

fn annotation<'m>(metadata: &'m Option<ObjectMeta>, key: &str) -> Option<&'m String> {
    metadata.as_ref()?.annotations.get(key)
}

fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().map_or("", |spec| &spec.volume_name)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let completed = annotation(&claim.metadata, "pv.kubernetes.io/bind-completed");
    !volume_name(claim).is_empty() && completed.is_some()
}

fn class_name(claim: &PersistentVolumeClaim) -> String {
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

fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
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

//! Storage: claims, volumes and disks of a pod, read again for each node.

use super::answers::Rejection;
use super::binding::{Used, class_name, is_bound, reaches, volume_name};
use super::cluster::Cluster;
use super::left_out;
use super::room::node_taken;
use super::rules::{LabelMap, labels, name, namespace};
use evenkeel::proto::v1::{
    Code, Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
    VolumeSource,
};

const DISK: &str = "node(s) had no available disk";
const IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
    already in-use by another pod";
const NOT_REACHED: &str = "node(s) didn't match PersistentVolume's node affinity";
const NOTHING_TO_BIND: &str = "node(s) didn't find available persistent volumes to bind";
const GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const OTHER_ZONE: &str = "node(s) had no available volume zone";
const IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";
const BETA: &str = "failure-domain.beta.kubernetes.io";
const NEW: &str = "topology.kubernetes.io";

impl Cluster {
    /// The rejection by all nodes because of the pod's storage.
    pub(super) fn storage_not_ready(&self, pod: &Pod) -> Option<Rejection> {
        let is_gated = pod
            .spec
            .as_ref()
            .is_some_and(|s| !s.scheduling_gates.is_empty());
        if is_gated || left_out::leaves_none(self, pod) {
            return None;
        }
        let reason = self.used_claims(pod).err()?;
        Some(Rejection::unresolvable(&reason))
    }

    /// The rejection of a node because of the pod's storage, with other pods nominated to the node.
    pub(super) fn storage_refusal(
        &self,
        pod: &Pod,
        node: &Node,
        coming: &[&Pod],
    ) -> Option<Rejection> {
        let used = self.used_claims(pod).ok()?;
        let here = |other: &&Pod| node_taken(other) == Some(name(node.metadata.as_ref()));
        let own: Vec<VolumeSource> = sources(pod).collect();
        let there = self.pods.iter().filter(here).chain(coming.iter().copied());
        let conflicts = |other: &Pod| {
            sources(other).any(|theirs| own.iter().any(|ours| is_one_disk(ours, &theirs)))
        };
        if there.into_iter().any(conflicts) {
            return Some(Rejection::resolvable(DISK));
        }
        if self.is_claimed(pod, &used, coming) {
            return Some(Rejection::resolvable(IN_USE));
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

    /// The claims of a pod; none while the snapshot has neither volumes nor classes.
    ///
    /// # Errors
    /// The reason why no node takes the pod.
    pub(super) fn used_claims(&self, pod: &Pod) -> Result<Vec<Used>, String> {
        if self.persistent_volumes.is_empty() && self.storage_classes.is_empty() {
            return Ok(Vec::new());
        }
        let metadata = pod.metadata.clone().unwrap_or_default();
        let here = namespace(pod.metadata.as_ref());
        let mut found = Vec::new();
        for volume in pod.spec.iter().flat_map(|spec| &spec.volumes) {
            let source = volume.source().into_owned();
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

    pub(super) fn volume(&self, called: &str) -> Option<&PersistentVolume> {
        let mut all = self.persistent_volumes.iter();
        all.find(|volume| name(volume.metadata.as_ref()) == called)
    }

    pub(super) fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        let called = class_name(claim);
        let mut all = self.storage_classes.iter();
        all.find(|class| !called.is_empty() && name(class.metadata.as_ref()) == called)
    }

    /// Returns whether a claim that only one pod may use is in use by a pod on a node. Nominated
    /// pods are checked only if the pod has disks, and then those of all namespaces.
    fn is_claimed(&self, pod: &Pod, used: &[Used], coming: &[&Pod]) -> bool {
        let once = used.iter().filter(|it| {
            let modes = it.claim.spec.iter().flat_map(|spec| &spec.access_modes);
            !it.is_ephemeral
                && !it.is_new
                && modes.into_iter().any(|mode| mode == "ReadWriteOncePod")
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

    /// Returns whether a node is in the zones of the volumes' labels. A node without any such label
    /// counts as being in all zones.
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
    volumes.map(|volume| volume.source().into_owned())
}

fn is_disk(source: &VolumeSource) -> bool {
    source.gce_persistent_disk.is_some()
        || source.aws_elastic_block_store.is_some()
        || source.iscsi.is_some()
        || source.rbd.is_some()
}

/// Returns whether these are one disk that two pods may not use on one node.
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

//! Claims that wait for a pod: which volumes they could be bound to on a node, or whether
//! volumes can be made there.

use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim};
use crate::matching::{NodeLabels, PodClaim};
use crate::snapshot::{NodeRef, StorageObjects};

/// A node, as volumes look at it: by its labels alone.
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

/// A claim of a pod, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct UsedClaim<'a> {
    pub(super) used: &'a PodClaim,
    pub(super) claim: &'a VolumeClaim,
}

impl UsedClaim<'_> {
    /// Returns whether it is yet to be made, of a template.
    pub(super) fn is_new(&self) -> bool {
        let template = self.used.template.as_deref();
        template.is_some_and(|template| std::ptr::eq(template, self.claim))
    }
}

/// The claims of a pod that wait for it.
#[derive(Default)]
pub(super) struct WaitingClaims<'a>(Vec<WaitingClaim<'a>>);

/// A claim that waits for its first pod.
pub(super) struct WaitingClaim<'a> {
    /// Its name.
    pub(super) name: &'a str,
    claim: &'a VolumeClaim,
    class: &'a StorageClass,
    /// The volumes that are kept for it, ascending by name.
    pub(super) kept: Vec<(&'a str, &'a PersistentVolume)>,
    /// Others that it could be bound to, the smallest first.
    pub(super) available: Vec<(&'a str, &'a PersistentVolume)>,
    /// Whether other pods like this one have the same claim.
    pub(super) is_shared: bool,
}

impl<'a> WaitingClaims<'a> {
    /// Adds a claim.
    pub(super) fn add(
        &mut self,
        used: UsedClaim<'a>,
        class: &'a StorageClass,
        namespace: &str,
        storage: &'a StorageObjects,
        is_shared: bool,
    ) {
        let claim = used.claim;
        let class_name = claim.class();
        let uid = &claim.metadata().uid;
        let is_its_own = |volume: &PersistentVolume| {
            let claimed = volume.spec().claim_ref.as_ref();
            let is_meant = claimed.is_some_and(|it| it.uid.is_empty() || it.uid == *uid);
            is_meant && volume.class() == class_name && claim.takes(volume, true)
        };
        let kept = storage.kept_for(namespace, &used.used.name);
        let available = storage.available(class_name);
        let mut available: Vec<_> = available
            .filter(|(_, volume)| claim.takes(volume, false))
            .collect();
        available.sort_by_key(|(_, volume)| volume.size);
        self.0.push(WaitingClaim {
            name: &used.used.name,
            claim,
            class,
            kept: kept.filter(|(_, volume)| is_its_own(volume)).collect(),
            available,
            is_shared,
        });
    }

    /// Puts them in the order in which they are bound: the smallest first.
    pub(super) fn settle(&mut self) {
        self.0.sort_by_key(|waiting| waiting.claim.size);
    }

    /// Upper estimate of how many requirements a node is checked against.
    pub(super) fn per_node(&self) -> usize {
        let volumes = self.0.iter().map(|waiting| {
            let all = waiting.kept.iter().chain(&waiting.available);
            let terms = all.map(|(_, volume)| 1 + volume.affinity().map_or(0, |it| it.per_node()));
            1 + waiting.class.wire.allowed_topologies.len() + terms.sum::<usize>()
        });
        volumes.sum()
    }

    /// All of them, in the order in which they are bound.
    pub(super) fn iter(&self) -> impl Iterator<Item = &WaitingClaim<'a>> {
        self.0.iter()
    }

    /// Returns whether all claims can be bound on a node, or volumes be made there.
    pub(super) fn can_be_bound(&self, node: NodeRef<'a>) -> bool {
        let mut chosen: Vec<&str> = Vec::new();
        let selected = self.0.iter().filter_map(WaitingClaim::selected_node);
        let mut selected = selected.filter(|selected| *selected != node.name());
        // One selected elsewhere ends it.
        selected.next().is_none()
            && self
                .0
                .iter()
                .all(|waiting| match waiting.volume_on(node, &chosen) {
                    Some(volume) => {
                        chosen.push(volume);
                        true
                    }
                    None => waiting.can_be_made(node),
                })
    }
}

impl<'a> WaitingClaim<'a> {
    /// The volume that it would be bound to on a node, of those that were not chosen: the
    /// first that is kept for it, else the smallest.
    fn volume_on(&self, node: NodeRef<'a>, chosen: &[&str]) -> Option<&'a str> {
        if self.selected_node().is_some() {
            return None;
        }
        let is_left = |(name, _): &&(&str, &PersistentVolume)| !chosen.contains(name);
        let reached = |(_, volume): &&(&str, &PersistentVolume)| reaches(volume, node);
        match self.kept.iter().find(is_left) {
            // It is bound to this one or to none.
            Some(kept) => Some(kept).filter(reached).map(|(name, _)| *name),
            None => {
                let mut left = self.available.iter().filter(is_left);
                left.find(reached).map(|(name, _)| *name)
            }
        }
    }

    /// The node that its volume is being made for: it is bound to no other.
    pub(super) fn selected_node(&self) -> Option<&'a str> {
        self.claim.selected_node()
    }

    /// Returns whether a volume for it can be made for a node.
    pub(super) fn can_be_made(&self, node: NodeRef<'_>) -> bool {
        self.class.provisions() && self.class.is_allowed(|key| node.label_text(key))
    }
}

/// Returns whether a node reaches a volume.
pub(super) fn reaches(volume: &PersistentVolume, node: NodeRef<'_>) -> bool {
    let affinity = volume.affinity();
    affinity.is_none_or(|affinity| affinity.matches::<str>(&LabelsOnly(node)))
}

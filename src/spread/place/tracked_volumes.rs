//! Claims that wait for a pod, and the volumes that picks take for them.

use fixedbitset::FixedBitSet;

use super::super::verdict::Reason;
use super::super::volumes::Volumes;
use super::super::waiting_claims::{NamedVolume, reaches};
use crate::snapshot::{ReadView, Slot, bits};

/// The storage of a pod, for some nodes. It keeps no reference to the snapshot.
#[derive(Debug, Clone)]
pub struct TrackedVolumes {
    /// For each volume to which a claim can be bound, the nodes that reach the volume.
    reached: Vec<FixedBitSet>,
    /// The claims, in the order in which they are bound.
    claims: Vec<TrackedClaim>,
    /// The volumes that picks have taken.
    taken: FixedBitSet,
    /// True if only one pod may use one of the claims.
    is_once: bool,
    has_picks: bool,
    nodes: u32,
}

#[derive(Debug, Clone)]
struct TrackedClaim {
    /// The volumes that are reserved for the claim.
    kept: Vec<usize>,
    /// Other volumes to which the claim can be bound, the smallest first.
    available: Vec<usize>,
    /// The nodes for which a volume can be provisioned.
    made_on: FixedBitSet,
    /// True if all picks have the same claim. Otherwise each pick has its own.
    is_shared: bool,
    /// The node that the claim's volume is being provisioned for.
    selected: Option<u32>,
}

/// The volume to which a claim is bound; `None` means a newly provisioned volume.
type Binding = Option<usize>;

impl TrackedVolumes {
    /// The storage of a pod, for nodes that can take the pod; `None` if picks do not affect the
    /// storage.
    pub fn of<'v>(
        volumes: &'v Volumes<'v>,
        slots: &[Slot],
        read_view: &ReadView<'_>,
    ) -> Option<Self> {
        let mut names: Vec<&str> = Vec::new();
        let mut reached = Vec::new();
        let mut claims = Vec::new();
        for waiting in volumes.waiting.iter() {
            let mut numbers = |volumes: &[NamedVolume<'v>]| {
                let number = |(name, volume): &NamedVolume<'v>| {
                    let known = names.iter().position(|it| *it == *name);
                    known.unwrap_or_else(|| {
                        let reaches = |slot: &Slot| {
                            let node = read_view.nodes.get(*slot);
                            node.is_some_and(|node| reaches(volume, node))
                        };
                        reached.push(bits(slots, reaches));
                        names.push(*name);
                        names.len() - 1
                    })
                };
                volumes.iter().map(number).collect()
            };
            let made_on = |slot: &Slot| {
                let node = read_view.nodes.get(*slot);
                node.is_some_and(|node| waiting.can_be_made(node))
            };
            let selected = waiting.selected_node().map(|name| {
                let mut nodes = slots.iter();
                let at = nodes.position(|slot| read_view.nodes.name(*slot) == name);
                at.and_then(|at| u32::try_from(at).ok()).unwrap_or(u32::MAX)
            });
            claims.push(TrackedClaim {
                kept: numbers(&waiting.kept),
                available: numbers(&waiting.available),
                made_on: bits(slots, made_on),
                is_shared: waiting.is_shared,
                selected,
            });
        }
        let [_, in_all] = volumes.most();
        let tracked = Self {
            taken: FixedBitSet::with_capacity(reached.len()),
            reached,
            claims,
            is_once: in_all.is_some(),
            has_picks: false,
            nodes: u32::try_from(slots.len()).unwrap_or(u32::MAX),
        };
        (tracked.is_once || !tracked.claims.is_empty()).then_some(tracked)
    }

    /// The reason why a node takes no pod at present.
    pub fn refusal(&self, node: u32) -> Option<Reason> {
        if self.is_once && self.has_picks {
            return Some(Reason::ClaimInUse);
        }
        self.bind(node).is_none().then_some(Reason::VolumeBinding)
    }

    /// Returns how each claim is bound on a node; `None` if a claim cannot be bound.
    fn bind(&self, node: u32) -> Option<Vec<Binding>> {
        let elsewhere = |claim: &TrackedClaim| claim.selected.is_some_and(|it| it != node);
        if self.claims.iter().any(elsewhere) {
            return None;
        }
        let mut bindings: Vec<Binding> = Vec::new();
        for claim in &self.claims {
            let volume = self.volume_on(node, claim, &bindings);
            if volume.is_none() && !claim.made_on.contains(node as usize) {
                return None;
            }
            bindings.push(volume);
        }
        Some(bindings)
    }

    fn volume_on(&self, node: u32, claim: &TrackedClaim, chosen: &[Binding]) -> Binding {
        if claim.selected.is_some() {
            return None;
        }
        let is_left = |volume: &&usize| !chosen.contains(&Some(**volume));
        let is_free = |volume: &&usize| !self.taken.contains(**volume);
        let reached = |volume: &&usize| self.reached[**volume].contains(node as usize);
        let mut kept = claim.kept.iter().filter(is_left);
        match kept.find(|volume| claim.is_shared || is_free(volume)) {
            Some(volume) => Some(volume).filter(reached).copied(),
            None => {
                let mut left = claim.available.iter().filter(is_left).filter(is_free);
                left.find(reached).copied()
            }
        }
    }

    /// Binds the claims for a pick of a node. Returns the nodes whose verdict may change.
    pub fn pick(&mut self, node: u32) -> Vec<u32> {
        let is_first = !std::mem::replace(&mut self.has_picks, true);
        let mut changes_all = is_first && self.is_once;
        let mut changed = FixedBitSet::with_capacity(self.nodes as usize);
        for (at, binding) in self.bind(node).unwrap_or_default().into_iter().enumerate() {
            let claim = &mut self.claims[at];
            match binding {
                Some(volume) => {
                    self.taken.insert(volume);
                    changed.union_with(&self.reached[volume]);
                    if claim.is_shared && claim.kept != [volume] {
                        changes_all = true;
                        claim.kept = vec![volume];
                    }
                }
                None if claim.is_shared => {
                    changes_all |= claim.selected.is_none();
                    claim.selected = Some(node);
                }
                None => {}
            }
        }
        match changes_all {
            true => (0..self.nodes).collect(),
            false => changed
                .ones()
                .filter_map(|node| u32::try_from(node).ok())
                .collect(),
        }
    }
}

//! The binding of a pod's claims on one node, to volumes that exist or are provisioned for it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::matching::Quantity;
use crate::matching::storage::{ClaimKind, PersistentVolume, VolumeClaim};
use crate::snapshot::{
    Deadline, FreeVolume, NodeRef, Stopped, StorageObjects, VolumeList, VolumeRank, reaches,
};

/// The number of volumes up to which it costs less to look at them again than to remember them.
const FEW: usize = 16;

/// The volume to which a claim is bound; `None` means a newly provisioned volume.
pub(super) type Binding = Option<Arc<FreeVolume>>;

/// Numbers of the kinds of claims.
#[derive(Default)]
pub(super) struct ClaimKinds<'a>(HashMap<ClaimKind<'a>, usize>);

impl<'a> ClaimKinds<'a> {
    pub(super) fn number(&mut self, kind: ClaimKind<'a>) -> usize {
        let next = self.0.len();
        *self.0.entry(kind).or_insert(next)
    }
}

/// The volumes that were taken, by their ids. Volumes are only added.
#[derive(Debug, Clone, Default)]
pub(super) struct TakenVolumes {
    ids: HashSet<usize>,
    /// By the id of a list, and the kind and size of claims: the first volume that may be left for
    /// such claims; `None` if there is none.
    first: RefCell<HashMap<(usize, usize, Quantity), Option<VolumeRank>>>,
}

impl TakenVolumes {
    /// Takes a volume.
    pub(super) fn take(&mut self, volume: &FreeVolume) {
        self.ids.insert(volume.id());
    }

    /// Returns the number of volumes.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// How a claim that exists is bound when pods before the pod in question arrive.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldClaim {
    /// The volumes to which it is bound, by name.
    pub(super) volumes: BTreeMap<Arc<str>, Arc<FreeVolume>>,
    /// The node for which its volume is provisioned.
    pub(super) node: Option<Arc<str>>,
}

impl HeldClaim {
    /// Adds a binding by a pod that arrives on a node.
    pub(super) fn add(&mut self, binding: &Binding, node: &str) {
        match binding {
            Some(volume) => {
                let name = Arc::clone(&volume.rank.name);
                self.volumes.insert(name, Arc::clone(volume));
            }
            None => self.node = Some(node.into()),
        }
    }
}

/// A claim that waits for its first pod.
#[derive(Debug, Clone)]
pub(super) struct WaitingClaim {
    /// The claim's name.
    pub(super) name: Arc<str>,
    pub(super) claim: Arc<VolumeClaim>,
    /// The number of the claim's class among those of the pod's claims.
    pub(super) class: usize,
    /// The number of the claim's kind.
    pub(super) kind: usize,
    /// The namespace, if volumes are reserved for the claim.
    pub(super) reserved_in: Option<Arc<str>>,
    pub(super) held: Arc<HeldClaim>,
    /// The node that the claim's volume is being provisioned for. The claim can be bound only on
    /// this node.
    pub(super) selected: Option<Arc<str>>,
    /// True if other pods like this one have the same claim.
    pub(super) is_shared: bool,
}

/// What a node offers for a class.
pub(super) struct NodeOffer<'s> {
    /// The lists of the volumes that the node may reach.
    pub(super) lists: Vec<&'s VolumeList>,
    /// True if a volume can be provisioned.
    pub(super) is_made: bool,
}

/// The storage, and the deadline of the decision.
#[derive(Clone, Copy)]
pub(super) struct BindingIn<'s> {
    pub(super) storage: &'s StorageObjects,
    pub(super) deadline: &'s Deadline<'s>,
}

/// The binding of claims on one node.
pub(super) struct BindingWalk<'s> {
    claims: &'s [WaitingClaim],
    taken: &'s TakenVolumes,
    node: NodeRef<'s>,
    within: BindingIn<'s>,
    /// The ids of the volumes that claims before took.
    chosen: HashSet<usize>,
    /// By the id of a list and the kind of claims: the first volume that may be left for claims of
    /// this kind that are no smaller than those before; `None` if there is none.
    next: HashMap<(usize, usize), Option<VolumeRank>>,
    /// The number of claims and volumes that were looked at.
    steps: usize,
    /// True if the result depends on more than what the node offers.
    looks_at_node: bool,
}

impl<'s> BindingWalk<'s> {
    pub(super) fn of(
        (claims, taken): (&'s [WaitingClaim], &'s TakenVolumes),
        node: NodeRef<'s>,
        within: BindingIn<'s>,
    ) -> Self {
        Self {
            claims,
            taken,
            node,
            within,
            chosen: HashSet::new(),
            next: HashMap::new(),
            steps: 0,
            looks_at_node: false,
        }
    }

    /// Returns whether it pays to remember the result for all nodes that offer the same.
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.steps > FEW && !self.looks_at_node
    }

    /// Returns how each claim is bound; `None` if a claim cannot be bound.
    pub(super) fn bind(
        &mut self,
        offers: &[NodeOffer<'_>],
    ) -> Result<Option<Vec<Binding>>, Stopped> {
        let mut bindings = Vec::new();
        for claim in self.within.deadline.each(self.claims) {
            let claim = claim?;
            let offer = &offers[claim.class];
            self.steps += 1;
            let volume = self.volume(claim, offer)?;
            if volume.is_none() && !offer.is_made {
                return Ok(None);
            }
            if let Some(volume) = volume.filter(|_| self.claims.len() > 1) {
                self.chosen.insert(volume.id());
            }
            bindings.push(volume.cloned());
        }
        Ok(Some(bindings))
    }

    /// The volume to which a claim is bound. It is the first volume that is reserved for the claim,
    /// else the smallest available volume.
    fn volume<'v>(
        &mut self,
        claim: &'v WaitingClaim,
        offer: &NodeOffer<'v>,
    ) -> Result<Option<&'v Arc<FreeVolume>>, Stopped>
    where
        's: 'v,
    {
        if claim.selected.is_some() {
            return Ok(None);
        }
        if let Some(volume) = self.reserved(claim)? {
            // The claim is bound to the reserved volume or to none.
            return Ok(self.reaches(&volume.volume)?.then_some(volume));
        }
        let mut best: Option<&Arc<FreeVolume>> = None;
        for list in &offer.lists {
            let found = self.first_of(list, claim, true)?;
            if let Some(found) = found
                && best.is_none_or(|best| found.rank < best.rank)
            {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// The first volume that is reserved for a claim.
    fn reserved<'v>(
        &mut self,
        claim: &'v WaitingClaim,
    ) -> Result<Option<&'v Arc<FreeVolume>>, Stopped>
    where
        's: 'v,
    {
        let within = claim.reserved_in.as_ref();
        let list = within.and_then(|within| self.within.storage.reserved_for(within, &claim.name));
        let listed = match list {
            Some(list) => self.first_of(list, claim, false)?,
            None => None,
        };
        let mut held = None;
        for volume in self.within.deadline.each(claim.held.volumes.values()) {
            let volume = volume?;
            if !self.chosen.contains(&volume.id()) {
                held = Some(volume);
                break;
            }
        }
        let both = listed.into_iter().chain(held);
        Ok(both.min_by(|a, b| a.rank.name.cmp(&b.rank.name)))
    }

    /// The first volume of a list that is left for a claim. Of available volumes, it is one that the
    /// node reaches.
    fn first_of<'v>(
        &mut self,
        list: &'v VolumeList,
        claim: &WaitingClaim,
        is_available: bool,
    ) -> Result<Option<&'v Arc<FreeVolume>>, Stopped> {
        let requirements = 1 + claim.claim.requirements();
        let key = (list.id(), claim.kind);
        let size = if is_available {
            claim.claim.size
        } else {
            Quantity::default()
        };
        let smallest = VolumeRank {
            size,
            ..VolumeRank::default()
        };
        let first_key = (key.0, key.1, claim.claim.size);
        let next = self.next.get(&key);
        let is_begun = next.is_some();
        let next = next
            .cloned()
            .or_else(|| self.taken.first.borrow().get(&first_key).cloned());
        let Some(from) = next.unwrap_or_else(|| Some(smallest.clone())) else {
            return Ok(None);
        };
        // The volumes before the first that another claim, or a claim on another node, may take.
        let mut passed = Some(0).filter(|_| !is_begun);
        let mut found = None;
        for free in list.from(&from.max(smallest)) {
            self.steps += 1;
            let compared = requirements + free.volume.spec().access_modes.len();
            self.within.deadline.step(compared)?;
            let is_taken = || self.taken.ids.contains(&free.id());
            if !claim.may_take(&free.volume, is_available)
                || (is_available || !claim.is_shared) && is_taken()
            {
                passed = passed.map(|passed| passed + 1);
                continue;
            }
            self.remember(first_key, passed.take(), Some(free));
            let is_left = !self.chosen.contains(&free.id());
            if is_left && (!is_available || free.is_reached || self.reaches(&free.volume)?) {
                found = Some(free);
                break;
            }
        }
        self.remember(first_key, passed, None);
        if self.claims.len() > 1 {
            let next = found.map(|free| free.rank.clone());
            self.next.insert(key, next);
        }
        Ok(found)
    }

    /// Records the first volume of a list that may be left for claims, if many were passed before.
    fn remember(
        &self,
        key: (usize, usize, Quantity),
        passed: Option<usize>,
        first: Option<&Arc<FreeVolume>>,
    ) {
        if passed.is_some_and(|passed| passed > FEW) {
            let first = first.map(|free| free.rank.clone());
            self.taken.first.borrow_mut().insert(key, first);
        }
    }

    /// Returns whether the node reaches a volume.
    fn reaches(&mut self, volume: &PersistentVolume) -> Result<bool, Stopped> {
        self.looks_at_node |= volume.affinity.is_some();
        self.within.deadline.step(volume.per_node())?;
        Ok(reaches(volume, self.node))
    }
}

impl WaitingClaim {
    /// Returns whether the claim can be bound to a volume, whatever the node and other claims.
    fn may_take(&self, volume: &PersistentVolume, is_available: bool) -> bool {
        let its = || {
            let claimed = volume.spec().claim_ref.as_ref();
            let uid = &self.claim.metadata().uid;
            claimed.is_some_and(|it| it.uid.is_empty() || it.uid == *uid)
                && volume.class() == self.claim.class()
        };
        self.claim.takes(volume, !is_available) && (is_available || its())
    }
}

//! The volumes that reservations hold for claims that wait for a pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::matching::storage::PersistentVolume;

/// A volume with its name.
pub(super) type NamedVolume<'a> = (&'a str, &'a PersistentVolume);

/// The volume to which a claim will be bound when the pod of its reservation arrives.
#[derive(Clone, Copy)]
pub(super) enum HeldBinding<'a> {
    /// A volume that exists.
    Volume(NamedVolume<'a>),
    /// A volume that is provisioned for this node.
    Made(&'a str),
}

/// The volumes that reservations hold.
#[derive(Default)]
pub(super) struct HeldVolumes<'a> {
    /// The names of the volumes that are held for some claim.
    pub(super) taken: BTreeSet<&'a str>,
    /// The bindings of claims that exist, by namespace and name.
    pub(super) claims: BTreeMap<(&'a str, &'a str), HeldBinding<'a>>,
}

impl<'a> HeldVolumes<'a> {
    /// Holds a volume for a claim, given by namespace and name; `None` means a claim that does not
    /// exist yet.
    pub(super) fn hold(&mut self, claim: Option<(&'a str, &'a str)>, binding: HeldBinding<'a>) {
        if let HeldBinding::Volume((name, _)) = &binding {
            self.taken.insert(name);
        }
        if let Some(claim) = claim {
            self.claims.entry(claim).or_insert(binding);
        }
    }
}

//! The volumes that reservations hold for the claims of their pods. These are the volumes to which
//! the claims would be bound if the pods arrived in the order of the reservations.

use std::sync::Arc;

use super::claim_binding::BindingIn;
use super::pod_claims::PodClaims;
use super::waiting_claims::{HeldVolumes, WaitingClaims};
use crate::snapshot::{NodeRef, PodUse, ReadView, StorageObjects};

/// The cost of looking at a reservation, in units.
const UNITS_PER_RESERVATION: usize = 200;

impl<'a> HeldVolumes<'a> {
    /// Returns the volumes that reservations hold on a read view.
    pub(super) fn of(storage: &'a StorageObjects, read_view: &ReadView<'a>) -> Self {
        let mut held = Self::default();
        for (node, reserved) in read_view.reserved_storage() {
            if !read_view.affords(UNITS_PER_RESERVATION) {
                break;
            }
            if !reserved.used.claims.is_empty() {
                held.hold(node, reserved, storage, read_view);
            }
        }
        held
    }

    /// Holds the volumes for the pod of a reservation, if all its claims can be bound on its node.
    fn hold(
        &mut self,
        node: NodeRef<'a>,
        reserved: &'a PodUse,
        storage: &'a StorageObjects,
        read_view: &ReadView<'a>,
    ) {
        let namespace = &*reserved.namespace;
        let pod = PodClaims {
            name: (namespace, &reserved.name, ""),
            claims: &reserved.used.claims,
            storage,
            read_view,
        };
        let Ok(found) = pod.find() else {
            return;
        };
        let mut waiting = WaitingClaims::of(&found.waiting, namespace, storage, self);
        let within = BindingIn {
            storage,
            affords: &|units| read_view.affords(units),
        };
        if let Some(bindings) = waiting.bind(node, within) {
            waiting.hold(&bindings, node.name());
        }
        let claims = self.claims.entry(namespace).or_default();
        for claim in waiting.iter().filter(|claim| claim.is_shared) {
            claims.insert(Arc::clone(&claim.name), Arc::clone(&claim.held));
        }
        self.taken = waiting.taken;
    }
}

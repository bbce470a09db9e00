//! The volumes that reservations hold for the claims of their pods. These are the volumes to which
//! the claims would be bound if the pods arrived in the order of the reservations.

use std::sync::Arc;

use super::claim_binding::BindingIn;
use super::pod_claims::{NotFound, PodClaims};
use super::waiting_claims::{HeldVolumes, WaitingClaims};
use crate::snapshot::{NodeRef, PodUse, ReadView, Stopped, StorageObjects};

impl<'a> HeldVolumes<'a> {
    /// Returns the volumes that reservations hold on a read view.
    pub(super) fn of(
        storage: &'a StorageObjects,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let mut held = Self::default();
        for reserved in read_view.deadline.each(read_view.reserved_storage()) {
            let (node, reserved) = reserved?;
            if !reserved.used.claims.is_empty() {
                held.hold(node, reserved, storage, read_view)?;
            }
        }
        Ok(held)
    }

    /// Holds the volumes for the pod of a reservation, if all its claims can be bound on its node.
    fn hold(
        &mut self,
        node: NodeRef<'a>,
        reserved: &'a PodUse,
        storage: &'a StorageObjects,
        read_view: &ReadView<'a>,
    ) -> Result<(), Stopped> {
        let namespace = &*reserved.namespace;
        let pod = PodClaims {
            name: (namespace, &reserved.name, ""),
            claims: &reserved.used.claims,
            storage,
            deadline: read_view.deadline,
        };
        let found = match pod.find() {
            Ok(found) => found,
            Err(NotFound::For(_)) => return Ok(()),
            Err(NotFound::Stopped(stopped)) => return Err(stopped),
        };
        let mut waiting = WaitingClaims::of(&found.waiting, namespace, storage, self);
        let within = BindingIn {
            storage,
            deadline: read_view.deadline,
        };
        if let Some(bindings) = waiting.bind(node, within)? {
            waiting.hold(&bindings, node.name());
        }
        let claims = self.claims.entry(namespace).or_default();
        for claim in waiting.iter().filter(|claim| claim.is_shared) {
            claims.insert(Arc::clone(&claim.name), Arc::clone(&claim.held));
        }
        self.taken = waiting.taken;
        Ok(())
    }
}

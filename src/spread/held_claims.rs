//! The volumes that reservations hold for the claims of their pods. These are the volumes to which
//! the claims would be bound if the pods arrived in the order of the reservations.

use super::pod_claims::PodClaims;
use super::waiting_claims::{HeldBinding, HeldVolumes, WaitingClaims};
use crate::snapshot::{NodeRef, PodUse, ReadView, StorageObjects};

/// The cost of looking at a volume for a claim, in units.
const UNITS_PER_VOLUME: usize = 20;

/// Returns the volumes that reservations hold on a read view.
pub(super) fn held_volumes<'a>(
    storage: &'a StorageObjects,
    read_view: &ReadView<'a>,
) -> HeldVolumes<'a> {
    let mut held = HeldVolumes::default();
    let each = (1 + storage.count()).saturating_mul(UNITS_PER_VOLUME);
    for (node, reserved) in read_view.reserved_storage() {
        if reserved.used.claims.is_empty() {
            continue;
        }
        if !(read_view.affords(each) && read_view.goes_on_for(each)) {
            break;
        }
        hold(node, reserved, storage, &mut held);
    }
    held
}

/// Holds the volumes for the pod of a reservation, if all its claims can be bound on its node.
fn hold<'a>(
    node: NodeRef<'a>,
    reserved: &'a PodUse,
    storage: &'a StorageObjects,
    held: &mut HeldVolumes<'a>,
) {
    let namespace = &*reserved.namespace;
    let pod = PodClaims {
        name: (namespace, &reserved.name, ""),
        claims: &reserved.used.claims,
        storage,
    };
    let Ok(found) = pod.find() else {
        return;
    };
    let waiting = WaitingClaims::of(&found.waiting, namespace, storage, held);
    for (claim, volume) in waiting.iter().zip(waiting.bind(node).unwrap_or_default()) {
        let binding = match volume {
            Some(volume) => HeldBinding::Volume(volume),
            None => HeldBinding::Made(node.name()),
        };
        let named = claim.is_shared.then_some((namespace, claim.name));
        held.hold(named, binding);
    }
}

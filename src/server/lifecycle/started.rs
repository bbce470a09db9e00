//! What those get who feed a server from inside its process.

use std::sync::Arc;

use super::joining::Membership;
use crate::api;
use crate::log::lease::Lease;
use crate::snapshot::Fence;

/// A server that has started.
pub struct Started {
    /// Its service.
    pub service: api::Service,
    member: Option<Membership>,
}

impl Started {
    /// The server of this service, as part of a fleet if it is in one.
    pub(super) fn new(service: api::Service, member: Option<Membership>) -> Self {
        Self { service, member }
    }

    /// The service for a feed of a snapshot, with the lease that the feed needs: of a
    /// fleet one server feeds a snapshot at a time. Without the lease the service
    /// refuses to change anything. `None` for a server of its own.
    pub fn feeding(&self, snapshot: &str) -> (api::Service, Option<Arc<Lease>>) {
        let lease = self.member.as_ref();
        let lease = lease.map(|member| Arc::new(member.lease(&format!("feed/{snapshot}"))));
        let service = match lease.clone() {
            Some(lease) => {
                let fence = Fence::new(move || lease.tenure());
                self.service.clone().with_fence(fence)
            }
            None => self.service.clone(),
        };
        (service, lease)
    }
}

//! The room of a node: its free ports and resources for more pods.

use std::borrow::Cow;

use super::nominated::NominatedOn;
use super::verdict::{NodeRefusal, Reason};
use crate::matching::{Allocatable, Requested, Requests, Shortage};
use crate::snapshot::{NodeRef, ReadView, Slot};

/// The requests of the pods on a node, and the node's resources.
pub struct NodeRoom<'a> {
    requested: Cow<'a, Requested>,
    has: Option<&'a Allocatable>,
}

impl<'a> NodeRoom<'a> {
    /// Returns the room of a node, as if nominated pods were on it.
    pub fn of(read_view: &ReadView<'a>, slot: Slot, with: Option<&NominatedOn<'_>>) -> Self {
        let mut requested = Cow::Borrowed(read_view.requested(slot));
        for pod in with.into_iter().flat_map(NominatedOn::pods) {
            requested.to_mut().add(pod.requests.as_deref());
        }
        let node = read_view.nodes.get(slot);
        let has = node.and_then(NodeRef::allocatable);
        Self { requested, has }
    }

    /// Checks that a node has free ports and room for a pod.
    ///
    /// # Errors
    /// The refusal: for ports if these are not free, else for all resources that the node lacks.
    pub fn judge(&self, requests: &Requests) -> Result<(), NodeRefusal> {
        if !self.requested.has_free(&requests.ports) {
            return Err(NodeRefusal::by_node(Reason::HostPorts));
        }
        if self.requested.leaves_room(self.has, requests) {
            return Ok(());
        }
        NodeRefusal::by_shortages(self.shortages(requests)).map_or(Ok(()), Err)
    }

    /// Returns the resources that the node has too little of for a pod.
    pub fn shortages(&self, requests: &Requests) -> Vec<Shortage> {
        self.requested.shortages_after(0, self.has, requests)
    }

    /// Returns how many more pods the node has room for, and the reasons if this is less than
    /// `wanted`.
    pub fn fitting(&self, requests: &Requests, wanted: usize) -> (u32, Vec<Reason>) {
        let pods = self.requested.fitting(self.has, requests);
        if pods as usize >= wanted {
            return (pods, Vec::new());
        }
        if !requests.ports.is_empty() {
            return (pods, vec![Reason::HostPorts]);
        }
        let short = self.requested.shortages_after(pods, self.has, requests);
        let reasons = short.into_iter().map(|shortage| shortage.of.into());
        (pods, reasons.collect())
    }
}
